"""Start and end worker processes, and send and receive messages."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, NamedTuple

from ..errors import IsolatedWorkerError
from . import _child
from ._child import above_standard

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

# Processes that this process has started. Processes that its parent started before a fork are not included.
_all: weakref.WeakSet[Process] = weakref.WeakSet()


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


class Process:
    """A Python process that runs ``program`` and is connected by a socket. It ends when its parent ends.

    The program gets these arguments: the descriptor of the socket, the descriptor of the file for ``faulthandler``, and
    then ``arguments``. The process inherits the open files in ``descriptors``.
    """

    _process: subprocess.Popen[bytes]
    _connection: socket.socket
    _faults: IO[bytes]  # to which Python writes a stack trace if the process crashes
    _end: weakref.finalize[..., Process]

    def __init__(self, program: str, arguments: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        def start() -> None:
            self._process, self._connection, self._faults = started = _start(program, arguments, descriptors)
            self._end = weakref.finalize(self, _end, *started)

        try:
            _call_in_thread(start)
        except BaseException:
            if hasattr(self, "_end"):  # the process was started
                self._end()
            raise
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
            _child.send(self._connection, kind, b"", pieces, deadline=limit.deadline)

    def write(self, data: bytes, limit: TimeLimit) -> None:
        """Send raw bytes instead of a message; raise the same errors as `send`."""
        with self._reporting(limit), _child.until(self._connection, limit.deadline):
            self._connection.sendall(data)

    @contextmanager
    def _reporting(self, limit: TimeLimit) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise self.error(limit.what_failed, "timeout") from None
        except (ConnectionError, EOFError):
            raise self.end_error(limit) from None
        except _child.ChannelError as error:
            raise self.error(f"sent an invalid message: {error}", "result") from error

    def receive(self, limit: TimeLimit, *kinds: bytes, max_bytes: int | None = None) -> _child.Message:
        """Wait for a message of one of the given kinds; raise `IsolatedWorkerError` if none arrives in time."""
        with self._reporting(limit):
            message = _child.receive(
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


def _call_in_thread(start: Callable[[], None]) -> None:
    """Call ``start`` in another thread, because Ctrl-C interrupts only the main thread.

    If Ctrl-C raised an exception after the process started but before its handle was stored, nothing would end the
    process.
    """
    if threading.current_thread() is not threading.main_thread():
        start()
        return
    starting: Future[None] = Future()

    def run() -> None:
        try:
            start()
            starting.set_result(None)
        except BaseException as error:
            starting.set_exception(error)

    # An executor cannot start threads while the program exits.
    thread = threading.Thread(target=run, name="mediatensor-start")
    thread.start()
    try:
        starting.result()
    finally:
        thread.join()


def _start(
    program: str, arguments: Sequence[str], inherited: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket, IO[bytes]]:
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
    return process, connection, faults


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
