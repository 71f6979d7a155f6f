"""What an isolated process may use: memory, sockets. It limits itself, before it touches anything of a stranger."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import sys
import threading
from collections.abc import Iterator

__all__ = [
    "MEMORY_EXIT_STATUS",
    "can_deny_network",
    "deny_network",
    "limited_memory",
    "no_core_dumps",
    "ran_out_of_memory",
]

#: Of a process that used more memory than it may, where the system does not tell it so.
MEMORY_EXIT_STATUS = 71

_WATCH_SECONDS = 0.05

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1  # for threads that run already, too
_RETURN_ALLOW = 0x7FFF0000
_RETURN_KILL = 0x80000000
_RETURN_ACCESS_DENIED = 0x00050000 | 13
_X32_SYSTEM_CALLS = 0x40000000
_IO_URING_SETUP = 425

# AUDIT_ARCH, and the numbers of seccomp() and socket()
_SYSTEM_CALLS = {"x86_64": (0xC000003E, 317, 41), "aarch64": (0xC00000B7, 277, 198)}


def no_core_dumps() -> None:
    """A crash leaves no file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


# Memory


@contextlib.contextmanager
def limited_memory(max_bytes: int | None) -> Iterator[None]:
    """Within the block this process gets no more than so many bytes beyond those it has.

    Linux refuses them, so that whoever asks sees an error. Elsewhere the process ends with `MEMORY_EXIT_STATUS`.
    """
    if max_bytes is None:
        yield
    elif (used := _data_bytes()) is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = used + max_bytes if hard == resource.RLIM_INFINITY else min(used + max_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    else:
        with _watched_memory(max_bytes):
            yield


def _data_bytes() -> int | None:
    """Private memory that can be written to, which is what the limit counts; ``None`` where that is not known."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


@contextlib.contextmanager
def _watched_memory(max_bytes: int) -> Iterator[None]:
    done = threading.Event()
    wanted = _peak_bytes() + max_bytes

    def watch() -> None:
        while not done.wait(_WATCH_SECONDS):
            if _peak_bytes() > wanted:
                os._exit(MEMORY_EXIT_STATUS)

    threading.Thread(target=watch, name="mediatensor-memory", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that it comes from, says that there was no memory."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, MemoryError) or "can't allocate memory" in str(current):
            return True
        if getattr(current, "errno", None) == 12 or "Cannot allocate memory" in str(current):  # ENOMEM
            return True
        current = current.__cause__ or current.__context__
    return False


# Network


def can_deny_network() -> bool:
    """Whether `deny_network` knows this system."""
    return sys.platform == "linux" and os.uname().machine in _SYSTEM_CALLS and sys.maxsize > 1 << 32


def deny_network() -> None:
    """From now on this process, and all that it starts, can open no socket.

    The kernel (Linux, x86-64 and AArch64) refuses the call, whoever makes it.

    Raises:
        OSError: if the kernel does not do that.
    """
    architecture, seccomp, socket = _SYSTEM_CALLS[os.uname().machine]
    # Offsets of struct seccomp_data: the number of the call at 0, the architecture at 4.
    # (code, jump if true, jump if false, value); jumps count the instructions left out.
    program = [
        (0x20, 0, 0, 4),
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, _RETURN_KILL),
        (0x20, 0, 0, 0),
        (0x35, 3, 0, _X32_SYSTEM_CALLS),
        (0x15, 2, 0, socket),
        (0x15, 1, 0, _IO_URING_SETUP),
        (0x06, 0, 0, _RETURN_ALLOW),
        (0x06, 0, 0, _RETURN_ACCESS_DENIED),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    # struct sock_fprog: how many, padding, where
    filter_program = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _os_error("no_new_privs")
    if libc.syscall(seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, filter_program) != 0:
        raise _os_error("seccomp")


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
