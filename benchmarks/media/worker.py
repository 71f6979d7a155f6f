"""A worker process for one library, which answers requests (`shared.workers`).

::

    {"do": "start", "library": ..}                          imports the library
    {"do": "load", "case": {..}}                            takes a case
    {"do": "time"}                                          runs it under the clock
    {"do": "memory"}                                        the largest resident set since "load"
    {"do": "check"}                                         runs it and compares the frames
    {"do": "packets"}                                       runs it and counts the packets that codecs were fed
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..shared.workers import serve
from .case import Case, Library
from .libraries import create_library
from .reference import Comparison, load_reference
from .scenarios import KINDS

_MIB = 1 << 20


class Worker:
    """State of the worker between requests."""

    def __init__(self) -> None:
        self._library: Library | None = None
        self._case: Case | None = None

    def start(self, library: str) -> dict[str, Any]:
        """Import a library."""
        self._library = create_library(library)
        return {"versions": self._library.versions()}

    def load(self, case: dict[str, Any]) -> dict[str, Any]:
        """Load the case for the next requests."""
        gc.collect()
        before = _reset_peak_rss()
        self._case = Case.from_json(case)
        self._needs_library().prepare(self._case)
        return {"rss_before_mib": before}

    def check(self) -> dict[str, Any]:
        """Run the case and compare every frame with the reference."""
        library, case = self._needs_library(), self._needs_case()
        case = KINDS[case.kind].rehearsal(case)
        comparison, batch_bytes = Comparison(), 0
        if case.indices and library.gives_frames:
            references = {path: load_reference(Path(path), case.size) for path in case.frames()}

            def see(path: str, indices: Sequence[int], batch: Any) -> None:
                nonlocal batch_bytes
                images = list(library.images(batch))
                batch_bytes = max(batch_bytes, sum(image.nbytes for image in images))
                for i, image in zip(indices, images, strict=True):
                    comparison.add(image, references[path], i)

            self._run(case, see)
        else:
            self._run(case, lambda *_: None)
        return asdict(comparison) | {"batch_mib": batch_bytes / _MIB}

    def time(self) -> dict[str, Any]:
        """Run the case under the clock; frames are dropped when the next ones come, the last ones afterwards."""
        latest: list[Any] = [None]
        return self._run(self._needs_case(), lambda _, __, batch: latest.__setitem__(0, batch))

    def packets(self) -> dict[str, Any]:
        """Run the case and count the packets that mediatensor feeds to its codecs."""
        from .floor import fed_packets  # it imports mediatensor

        library, case = self._needs_library(), self._needs_case()
        kind = KINDS[case.kind]
        state = kind.prepare(library, case)
        with fed_packets() as fed:
            kind.run(library, case, state, lambda *_: None)
        return {"num_packets": len(fed), "num_frames": kind.num_frames(case)}

    def memory(self) -> dict[str, Any]:
        """The largest resident set since `load`."""
        return {"peak_rss_mib": _peak_rss()}

    def _run(self, case: Case, see: Callable[[str, Sequence[int], Any], None]) -> dict[str, float]:
        kind = KINDS[case.kind]
        state = kind.prepare(self._needs_library(), case)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF)
        wall, cpu = time.perf_counter(), time.process_time()
        kind.run(self._needs_library(), case, state, see)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "wall_seconds": wall,
            "cpu_seconds": cpu,
            "system_seconds": after.ru_stime - before.ru_stime,
            "page_faults": after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
        }

    def _needs_library(self) -> Library:
        assert self._library is not None, "no library was started"
        return self._library

    def _needs_case(self) -> Case:
        assert self._case is not None, "no case was loaded"
        return self._case


def _reset_peak_rss() -> float:
    """Reset the largest resident set if the system supports it (Linux); return the current one in MiB."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak_rss()


def _peak_rss() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(peak.split()[1]) / 1024, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MIB, 1)


if __name__ == "__main__":
    serve(Worker())
