"""Measure the open files and the memory of a process on Linux."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["MAX_GROWTH_BYTES", "Holdings", "forget_peak", "holdings", "limit_memory", "peak_bytes", "resident_bytes"]

#: A picture of the most pixels that are decoded (2^28) takes 768 MiB as RGB, and half as much again as it is decoded.
MAX_GROWTH_BYTES = 3 << 29
# Address space in addition to that of a starting process: reserved memory is seldom used.
_MAX_ADDRESSES = 12 << 30


class Holdings(NamedTuple):
    """Open files, threads, and files in the folder for temporary ones."""

    files: int
    threads: int
    temporary: int

    def more_than(self, before: Holdings) -> list[str]:
        """What there is more of than before, in words."""
        pairs = zip(self._fields, before, self, strict=True)
        return [f"{name}: {old} before, {new} after" for name, old, new in pairs if new > old]


def holdings() -> Holdings:
    """Now."""
    num_temporary = sum(len(names) + len(folders) for _, folders, names in os.walk(tempfile.gettempdir()))
    return Holdings(len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), num_temporary)


def limit_memory() -> None:
    """Have allocations beyond all measure fail, instead of the machine."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + _MAX_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def resident_bytes() -> int:
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most since `forget_peak`, or since the start where the kernel cannot forget."""
    return _status("VmHWM")


def forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), 0)
