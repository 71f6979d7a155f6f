"""Limit the memory of an isolated process, deny it sockets, and keep it in its session and process group.

The process restricts itself, before it reads untrusted input.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

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
