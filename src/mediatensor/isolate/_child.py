"""Send messages between a process and its child over a pair of sockets, and let a child limit itself.

Large contents are sent in anonymous shared memory. The receiver seals this memory before reading it, so that the sender
can neither change nor shorten it. On systems without sealed memory, contents are sent through the socket.

Before a child reads untrusted input, it limits its memory, denies itself sockets, and stays in its session and process
group.
"""

from __future__ import annotations

# Processes that only send do not import torch.
import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

#: Largest size of the body of a result: its structure without the contents of tensors, arrays and bytes.
MAX_BODY_BYTES = 64 << 20

# Smaller blocks are faster to copy than to map.
_MIN_SHARED_BYTES = 1 << 16

# kind, size of the body, size of the contents, whether the contents are in shared memory
_HEADER = struct.Struct(">cQQ?")
_CHUNK_BYTES = 1 << 20
_MAX_WRITTEN_AT_ONCE = 1 << 30

# Seconds between checks whether the other process is alive. Its children may keep the socket open after its end.
_LOOK_SECONDS = 0.5

_LAST_STANDARD = 2  # standard error

_MIN_SEND_SECONDS = 0.001  # a timeout of 0 would make the socket non-blocking

_HAS_SEALED_MEMORY = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")

#: Exit status of a process that checked its own memory and exceeded the limit.
MEMORY_EXIT_STATUS = 71

_MOST_BYTES = 1 << 62  # limits are 64-bit numbers

_WATCH_SECONDS = 0.05

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1  # applies to already running threads
_RETURN_ALLOW = 0x7FFF0000
_RETURN_KILL = 0x80000000
_RETURN_ACCESS_DENIED = 0x00050000 | 13
_X32_SYSTEM_CALLS = 0x40000000
_IO_URING_SETUP = 425


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
    left = deadline - time.monotonic()
    connection.settimeout(min(max(_MIN_SEND_SECONDS, left), threading.TIMEOUT_MAX))
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
            left = _LOOK_SECONDS if self._deadline is None else self._deadline - time.monotonic()
            if poller.poll(max(0, min(left, _LOOK_SECONDS)) * 1000):
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


class _SystemCalls(NamedTuple):
    """Constants of Linux for one type of processor: its AUDIT_ARCH, and the numbers of some system calls."""

    architecture: int
    seccomp: int
    socket: int
    setsid: int
    setpgid: int


_SYSTEM_CALLS = {
    "x86_64": _SystemCalls(0xC000003E, seccomp=317, socket=41, setsid=112, setpgid=109),
    "aarch64": _SystemCalls(0xC00000B7, seccomp=277, socket=198, setsid=157, setpgid=154),
}


def no_core_dumps() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end_with_parent(connection: socket.socket) -> None:
    """End this process and all its children when the other end of the socket is closed."""

    def wait() -> None:
        poller = select.poll()
        poller.register(connection, 0)  # a hang-up is always reported
        poller.poll()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)  # in another process's group, only this process ends

    threading.Thread(target=wait, name="mediatensor-parent", daemon=True).start()


@contextlib.contextmanager
def limited_memory(max_bytes: int | None, *, by_system: bool = True) -> Iterator[None]:
    """Limit the memory that this process allocates during a ``with`` block; ``None`` means no limit.

    On Linux, allocations beyond the limit fail with an error. On other systems, or if ``by_system`` is false, the
    process checks its own memory, and exits with `MEMORY_EXIT_STATUS` if it exceeds the limit.
    """
    if max_bytes is None:
        yield
    elif by_system and (used := _data_bytes()) is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = min(used + max_bytes, _MOST_BYTES if hard == resource.RLIM_INFINITY else hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    else:
        done, most = threading.Event(), _peak_bytes() + max_bytes

        def watch() -> None:
            while not done.wait(_WATCH_SECONDS):
                if _peak_bytes() > most:
                    os._exit(MEMORY_EXIT_STATUS)

        threading.Thread(target=watch, name="mediatensor-memory", daemon=True).start()
        try:
            yield
        finally:
            done.set()


def _data_bytes() -> int | None:
    """Return the size of the private writable memory, which Linux limits; ``None`` if it is unknown."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def can_deny_network() -> bool:
    """Return whether `deny_system_calls` supports this system."""
    return sys.platform == "linux" and os.uname().machine in _SYSTEM_CALLS and sys.maxsize > 1 << 32


def deny_system_calls(*, denies_network: bool) -> None:
    """Forbid this process and its children to leave their session and process group.

    With ``denies_network``, they cannot open sockets either. The Linux kernel (x86-64, AArch64) enforces both.

    Raises:
        OSError: if the kernel does not support filters of system calls (seccomp).
    """
    calls = _SYSTEM_CALLS[os.uname().machine]
    denied = [calls.setsid, calls.setpgid]
    if denies_network:
        denied += [calls.socket, _IO_URING_SETUP]
    # struct seccomp_data has the number of the call at offset 0 and the architecture at offset 4. (code, jump if true,
    # jump if false, value). A jump is the number of instructions to skip.
    program = [
        (0x20, 0, 0, 4),
        (0x15, 1, 0, calls.architecture),
        (0x06, 0, 0, _RETURN_KILL),
        (0x20, 0, 0, 0),
        (0x35, len(denied) + 1, 0, _X32_SYSTEM_CALLS),
        *((0x15, len(denied) - index, 0, number) for index, number in enumerate(denied)),
        (0x06, 0, 0, _RETURN_ALLOW),
        (0x06, 0, 0, _RETURN_ACCESS_DENIED),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    # struct sock_fprog: number, padding, address
    filter_program = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _os_error("no_new_privs")
    if libc.syscall(calls.seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, filter_program) != 0:
        raise _os_error("seccomp")


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
