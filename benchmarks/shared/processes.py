"""Resources of this process and its children: memory, file handles, threads. Only available on Linux."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

_PROCESSES = Path("/proc")
_MIB = 1 << 20


@dataclass(frozen=True)
class Usage:
    """Resources of a process.

    Attributes:
        rss_mib: Resident set; pages that processes share count in each.
        num_handles: Open file descriptors.
        num_threads: Threads of the system.
    """

    rss_mib: float
    num_handles: int
    num_threads: int


@dataclass(frozen=True)
class FullUsage(Usage):
    """Resources of this process, its children and leftover files.

    Attributes:
        pss_mib: Proportional set: of pages that processes share, its part.
        num_children: Child processes.
        num_files: Files in the folders that were named, and segments of shared memory.
    """

    pss_mib: float
    num_children: int
    num_files: int


def full_usage(folders: Iterable[Path]) -> FullUsage:
    """Return the resources of this process.

    Args:
        folders: In which files are counted.

    Raises:
        OSError: if the system does not report them.
    """
    usage = _usage(_PROCESSES / "self")
    lines = (_PROCESSES / "self" / "smaps_rollup").read_text().splitlines()
    pss = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    files = [path for folder in folders for path in folder.rglob("*")]
    shared = [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")]
    return FullUsage(
        usage.rss_mib, usage.num_handles, usage.num_threads, pss, len(_children()), len(files) + len(shared)
    )


def usages() -> dict[int, Usage]:
    """Return the resources of this process and its children, by process id; empty if the system has no report."""
    found = {}
    for process in [os.getpid(), *_children()]:
        with suppress(OSError):  # it has ended
            found[process] = _usage(_PROCESSES / str(process))
    return found


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children."""
    return sum(
        spent.ru_utime + spent.ru_stime
        for spent in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def peak_rss_mib() -> float:
    """Return the peak RSS of this process or of its largest ended child, whichever is larger."""
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return largest / (_MIB if sys.platform == "darwin" else 1 << 10)


class PeakMemory:
    """Sample the resident sets of this process and its children ten times a second in a ``with`` block.

    Attributes:
        peak_mib: The largest sum.
    """

    def __init__(self, interval_seconds: float = 0.1) -> None:
        self.peak_mib = 0.0
        self._interval = interval_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            self._look()
            self._is_over.wait(self._interval)

    def _look(self) -> None:
        total = 0.0
        for process in [os.getpid(), *_children()]:
            with suppress(OSError):
                total += _rss_mib(_PROCESSES / str(process))
        self.peak_mib = max(self.peak_mib, total)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def _children() -> list[int]:
    """Return ids of child processes, without Python's resource tracker."""
    found: list[int] = []
    for thread in _PROCESSES.glob("self/task/*/children"):
        with suppress(OSError):
            found += [int(process) for process in thread.read_text().split()]
    tracker = getattr(getattr(resource_tracker, "_resource_tracker", None), "_pid", None)
    return [process for process in found if process != tracker]


def _usage(folder: Path) -> Usage:
    return Usage(_rss_mib(folder), len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")))


def _rss_mib(folder: Path) -> float:
    pages = int((folder / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def wait_for_children() -> None:
    """Wait at most ten seconds until the children have ended, so that `cpu_seconds` includes them."""
    end = time.monotonic() + 10
    while _children() and time.monotonic() < end:
        time.sleep(0.01)
