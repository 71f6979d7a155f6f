"""Start and end processes, and send messages between a process and its child over a pair of sockets.

Large contents are sent in anonymous shared memory. The receiver seals this memory before reading it, so that the sender
can neither change nor shorten it. On systems without sealed memory, contents are sent through the socket.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ..errors import IsolatedWorkerError

# Processes that only send do not import torch.
if TYPE_CHECKING:
    from torch import Tensor

#: Time limit for the start of a process, and for the imports of its first call.
START_SECONDS = 300.0

#: At the time limit, a process writes its trace and ends itself. It is killed this many seconds later.
GRACE_SECONDS = 1.0

#: Largest size of the process's own output that an error message contains.
MAX_TEXT_BYTES = 1 << 14

_END_SECONDS = 5.0
# Start of the trace of a process that ended itself at the time limit. Its other threads run while Python writes the
# trace, so Python can read freed memory and crash after this start.
_TIME_IS_UP = "Timeout ("
_LOOK_SECONDS = 0.005

#: Largest size of the body of a result: its structure without the contents of tensors, arrays and bytes.
MAX_BODY_BYTES = 64 << 20

# Smaller blocks are faster to copy than to map.
_MIN_SHARED_BYTES = 1 << 16

# kind, size of the body, size of the contents, whether the contents are in shared memory
_HEADER = struct.Struct(">cQQ?")
_CHUNK_BYTES = 1 << 20
_MAX_WRITTEN_AT_ONCE = 1 << 30

# Seconds between checks whether the other process is alive. Its children may keep the socket open after its end.
_ALIVE_SECONDS = 0.5

_LAST_STANDARD = 2  # standard error

_MIN_SEND_SECONDS = 0.001  # a timeout of 0 would make the socket non-blocking

_HAS_SEALED_MEMORY = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")

# Processes that this process has started. Processes that its parent started before a fork are not included.
_all: weakref.WeakSet[Process] = weakref.WeakSet()


class ChannelError(Exception):
    """The other process sent an invalid message."""


class Message(NamedTuple):
    kind: bytes  # one byte
    body: bytes
    contents: Tensor  # writable uint8 (bytes,)


def common_memory(num_bytes: int) -> int | None:
    """Return a descriptor of zeroed shared memory of a fixed size; ``None`` if the system does not support it."""
    if not _HAS_SEALED_MEMORY:
        return None
    descriptor = os.memfd_create("mediatensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, num_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except BaseException:
        os.close(descriptor)
        raise
    return above_standard(descriptor)


def above_standard(descriptor: int) -> int:
    """Return ``descriptor``, or a duplicate with a higher number if it has the number of a standard stream (0 to 2).

    If a program starts without a standard stream, the next opened file gets the number of that stream. A child process
    cannot inherit such a descriptor, because its own standard streams take these numbers.
    """
    if descriptor > _LAST_STANDARD:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD + 1)
    finally:
        os.close(descriptor)


def send(
    connection: socket.socket,
    kind: bytes,
    body: bytes,
    pieces: Iterable[memoryview] = (),
    *,
    deadline: float | None = None,
) -> None:
    """Send a message. Its contents are the ``pieces``, one after the other.

    Raises:
        TimeoutError: if the other process does not read until the deadline, a value of ``time.monotonic``.
        OSError: if the other process has ended, or there is not enough memory.
    """
    pieces = [piece for piece in pieces if piece]
    num_bytes = sum(map(len, pieces))
    is_shared = _HAS_SEALED_MEMORY and num_bytes >= _MIN_SHARED_BYTES
    header = _HEADER.pack(kind, len(body), num_bytes, is_shared)
    if not is_shared:
        for data in (memoryview(header + body), *pieces):
            with until(connection, deadline):
                connection.sendall(data)
        return
    descriptor = os.memfd_create("mediatensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for piece in pieces:
            while piece:
                piece = piece[os.write(descriptor, piece[:_MAX_WRITTEN_AT_ONCE]) :]
        # A single byte is sent either completely or not at all.
        with until(connection, deadline):
            socket.send_fds(connection, [header[:1]], [descriptor])
    finally:
        os.close(descriptor)
    with until(connection, deadline):
        connection.sendall(header[1:] + body)


@contextmanager
def until(connection: socket.socket, deadline: float | None) -> Iterator[None]:
    """Make socket operations in a ``with`` block raise `TimeoutError` at the deadline."""
    if deadline is None:
        yield
        return
    connection.settimeout(max(_MIN_SEND_SECONDS, deadline - time.monotonic()))
    try:
        yield
    finally:
        connection.settimeout(None)


def receive(
    connection: socket.socket,
    *,
    deadline: float | None = None,
    max_bytes: int | None = None,
    is_alive: Callable[[], bool] = lambda: True,
) -> Message:
    """Wait for a message, whose contents must not exceed ``max_bytes``.

    Raises:
        TimeoutError: if no message has arrived by the deadline, a value of ``time.monotonic``.
        EOFError: if the other process has ended. To find out, ``is_alive`` is called repeatedly.
        ChannelError: if the other process sends an invalid message.
        OSError: if there is no memory or no file descriptor for the message.
    """
    reading = _Reading(connection, deadline, is_alive)
    first, descriptors = reading.first_byte()
    try:
        header = first + reading.exactly(_HEADER.size - 1)
        kind, num_body_bytes, num_bytes, is_shared = _HEADER.unpack(header)
        if num_body_bytes > MAX_BODY_BYTES:
            raise ChannelError(f"{num_body_bytes} bytes in addition to tensors, of at most {MAX_BODY_BYTES}")
        if max_bytes is not None and num_bytes > max_bytes:
            raise ChannelError(f"a result of {num_bytes} bytes, of at most {max_bytes}")
        body = bytes(reading.exactly(num_body_bytes))
        if not is_shared:
            import torch

            data = reading.exactly(num_bytes)
            contents = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            return Message(kind, body, contents)
        if len(descriptors) != 1:
            raise ChannelError("shared memory was announced but not sent")
        return Message(kind, body, _map(descriptors[0], num_bytes))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class _Reading:
    def __init__(self, connection: socket.socket, deadline: float | None, is_alive: Callable[[], bool]) -> None:
        self._connection = connection
        self._deadline = deadline
        self._is_alive = is_alive

    def first_byte(self) -> tuple[bytes, list[int]]:
        self._wait()
        try:
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            data, descriptors, _, _ = socket.recv_fds(self._connection, 1, 1, flags)
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        return data, list(descriptors)

    def exactly(self, num_bytes: int) -> bytearray:
        # Let the buffer grow with the data, because the announced number of bytes may never arrive.
        data = bytearray()
        while len(data) < num_bytes:
            self._wait()
            try:
                chunk = self._connection.recv(min(_CHUNK_BYTES, num_bytes - len(data)))
            except ConnectionError as error:
                raise EOFError from error
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        was_alive = True
        while True:
            left = _ALIVE_SECONDS if self._deadline is None else self._deadline - time.monotonic()
            if poller.poll(max(0, min(left, _ALIVE_SECONDS)) * 1000):
                return
            if not was_alive:
                raise EOFError
            if self._deadline is not None and left <= 0:
                raise TimeoutError
            # After the end of the process, poll once more, for data that it sent before.
            was_alive = self._is_alive()


def _map(descriptor: int, num_bytes: int) -> Tensor:
    """Return the contents of shared memory as a tensor, copied on write."""
    import torch

    try:
        # Sealing fails if the other process can still write, and for files of any other kind.
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError as error:
        raise ChannelError(f"the descriptor is not of shared memory ({error})") from error
    if os.fstat(descriptor).st_size != num_bytes:
        raise ChannelError("shared memory of another size was sent")
    try:
        # torch never closes a file that it fails to map, so try a mapping first. It allocates no memory.
        mmap.mmap(descriptor, num_bytes, mmap.MAP_PRIVATE).close()
        return torch.from_file(f"/proc/self/fd/{descriptor}", shared=False, size=num_bytes, dtype=torch.uint8)
    except (OSError, ValueError, OverflowError, RuntimeError) as error:  # the other process may deny opening it
        raise ChannelError(f"shared memory of {num_bytes} bytes cannot be mapped ({error})") from error


class TimeLimit(NamedTuple):
    """A deadline (a value of ``time.monotonic``; ``None`` means no limit), and the error text if it is missed."""

    deadline: float | None
    what_failed: str

    @classmethod
    def of_start(cls) -> TimeLimit:
        return cls(time.monotonic() + START_SECONDS, f"did not start within {START_SECONDS:g} seconds")

    @classmethod
    def of_call(cls, seconds: float | None) -> TimeLimit:
        """Return the limit of a call: the child ends itself after ``seconds``, the parent waits a little longer."""
        if seconds is None:
            return cls(None, "did not finish")
        return cls(time.monotonic() + seconds + GRACE_SECONDS, f"did not finish within {seconds:g} seconds")


class _Started(NamedTuple):
    process: subprocess.Popen[bytes]
    connection: socket.socket
    faults: IO[bytes]  # to which Python writes a stack trace if the process crashes


class Process:
    """A Python process that runs ``program`` and is connected by a socket. It ends when its parent ends.

    The program gets these arguments: the descriptor of the socket, the descriptor of the file for ``faulthandler``, and
    then ``arguments``. The process inherits the open files in ``descriptors``.
    """

    def __init__(self, program: str, arguments: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        self._process, self._connection, self._faults = _start_in_thread(program, arguments, descriptors)
        self._end = weakref.finalize(self, _end, self._process, self._connection, self._faults)
        _all.add(self)

    @property
    def is_alive(self) -> bool:
        return _is_running(self._process)

    def kill(self) -> None:
        """End the process and its children now. A call that runs in another thread then fails and cleans up."""
        _kill(self._process)

    def close(self) -> None:
        """End the process as `kill` does, and release its socket and file. Must not be used during a call."""
        self._end()

    def send(self, kind: bytes, pieces: Iterable[memoryview], limit: TimeLimit) -> None:
        """Send a message; raise `IsolatedWorkerError` if the process has ended or does not read the message in time."""
        with self._reporting(limit):
            send(self._connection, kind, b"", pieces, deadline=limit.deadline)

    def write(self, data: bytes, limit: TimeLimit) -> None:
        """Send raw bytes instead of a message; raise the same errors as `send`."""
        with self._reporting(limit), until(self._connection, limit.deadline):
            self._connection.sendall(data)

    @contextmanager
    def _reporting(self, limit: TimeLimit) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise self.error(limit.what_failed, "timeout") from None
        except (ConnectionError, EOFError):
            raise self.end_error(limit) from None
        except ChannelError as error:
            raise self.error(f"sent an invalid message: {error}", "result") from error

    def receive(self, limit: TimeLimit, *kinds: bytes, max_bytes: int | None = None) -> Message:
        """Wait for a message of one of the given kinds; raise `IsolatedWorkerError` if none arrives in time."""
        with self._reporting(limit):
            message = receive(
                self._connection, deadline=limit.deadline, max_bytes=max_bytes, is_alive=lambda: self.is_alive
            )
        if message.kind not in kinds:
            raise self.error(f"sent the message {message.kind!r} out of turn", "result")
        return message

    def end_error(self, limit: TimeLimit) -> IsolatedWorkerError:
        give_up = time.monotonic() + GRACE_SECONDS
        while _is_running(self._process):
            if time.monotonic() > give_up:
                return self.error("closed its connection", "crash")
            time.sleep(_LOOK_SECONDS)
        _kill(self._process)  # also ends its children
        status = self._process.wait()
        if self._trace().startswith(_TIME_IS_UP):
            return self.error(limit.what_failed, "timeout")
        if status >= 0:
            return self.error(f"ended with status {status}", "crash")
        hint = ", which the system does when memory runs out" if -status == signal.SIGKILL else ""
        return self.error(f"was ended by {_signal_name(-status)}{hint}", "crash")

    def error(self, what: str, reason: str) -> IsolatedWorkerError:
        error = IsolatedWorkerError(f"The isolated process {what}.", reason)
        if trace := self._trace():
            error.add_note(f"Its stack trace:\n{trace}")
        return error

    def _trace(self) -> str:
        """Return the stack trace that the process wrote. It is not trusted, so unprintable characters are removed."""
        try:
            self._faults.seek(0)
            trace = self._faults.read(MAX_TEXT_BYTES).decode("ascii", "replace")
        except ValueError:  # the file is closed, because another error came first
            return ""
        text = trace.partition("\nExtension modules:")[0]
        return "".join(letter for letter in text if letter.isprintable() or letter == "\n").strip()


def _start_in_thread(program: str, arguments: Sequence[str], inherited: Sequence[int]) -> _Started:
    """Start a process in another thread, because Ctrl-C interrupts only the main thread.

    If Ctrl-C raised an exception after the process started but before its handle was stored, nothing would end the
    process.
    """
    if threading.current_thread() is not threading.main_thread():
        return _start(program, arguments, inherited)
    starting: Future[_Started] = Future()

    def start() -> None:
        try:
            starting.set_result(_start(program, arguments, inherited))
        except BaseException as error:
            starting.set_exception(error)

    thread = threading.Thread(
        target=start, name="mediatensor-start"
    )  # an executor cannot start threads while the program exits
    thread.start()
    try:
        return starting.result()
    except BaseException:
        if starting.exception() is None:
            _end(*starting.result())
        raise
    finally:
        thread.join()


def _start(program: str, arguments: Sequence[str], inherited: Sequence[int]) -> _Started:
    with ExitStack() as opened:
        faults = opened.enter_context(_file_without_name())
        connection, theirs = (socket.socket(fileno=above_standard(end.detach())) for end in socket.socketpair())
        opened.enter_context(connection)
        with theirs:
            descriptors = (theirs.fileno(), faults.fileno())
            command = [sys.executable, "-c", program, *map(str, descriptors), *arguments]
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "pass_fds": (*descriptors, *inherited)}
            # If a standard stream was closed when the program started, another file may have its number.
            options |= {
                name: subprocess.DEVNULL for name in ("stdout", "stderr") if getattr(sys, f"__{name}__") is None
            }
            try:
                # A new session gets no signals from the terminal, and its process group can be killed as a whole.
                process = subprocess.Popen(command, start_new_session=True, **options)
            except PermissionError:  # within an isolated process, whose group the new process joins
                process = subprocess.Popen(command, **options)
        opened.pop_all()
    return _Started(process, connection, faults)


def _file_without_name() -> IO[bytes]:
    """Open a file without a name. It is deleted when the last process closes it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(above_standard(os.memfd_create("mediatensor-faults")), "w+b")
    with tempfile.TemporaryFile() as file:
        return os.fdopen(above_standard(os.dup(file.fileno())), "w+b")


def _end(process: subprocess.Popen[bytes], connection: socket.socket, faults: IO[bytes]) -> None:
    _kill(process)
    connection.close()
    faults.close()
    # An unresponsive file system can keep even a killed process alive. ``subprocess`` reaps it later.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The system cannot reuse the process number before the process is reaped.
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    # An ended process is not reaped here, because `_kill` cannot end the children of a reaped process.
    if process.returncode is not None:
        return False
    if not hasattr(os, "waitid"):
        return process.poll() is None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _leave_to_parent() -> None:
    """In a forked process, close the parent's sockets, so that the parent's children notice when the parent ends."""
    for child in list(_all):
        child._end.detach()
        child._process.returncode = 0  # this process must not reap it
        child._connection.close()
        child._faults.close()
    _all.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
