"""A worker process for one way of loading, which answers requests (`shared.workers`).

::

    {"do": "start", "library": ..}          imports its packages
    {"do": "check", "case": {..}}           reads an epoch and compares its frames with a linear decode
    {"do": "time", "case": {..}}            reads an epoch under the clock
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from ..media.reference import Comparison, load_reference
from ..shared.processes import PeakMemory, cpu_seconds, wait_for_children
from ..shared.workers import serve
from .loaders_sets import LoaderCase
from .loaders_ways import WAYS, Way


@contextmanager
def _counted_pickles() -> Iterator[Any]:
    """Count the bytes that queues between processes pickle, in this process and in those that are forked from it."""
    original = ForkingPickler.dumps
    count = multiprocessing.Value("q", 0)

    def dumps(value: Any, protocol: int | None = None) -> Any:
        data = original(value, protocol)
        with count.get_lock():
            count.value += len(data)
        return data

    ForkingPickler.dumps = staticmethod(dumps)  # type: ignore[method-assign, assignment]
    try:
        yield count
    finally:
        ForkingPickler.dumps = original  # type: ignore[method-assign]


class LoaderWorker:
    """State of the worker between requests."""

    def __init__(self) -> None:
        self._way: Way | None = None

    def start(self, library: str) -> dict[str, Any]:
        """Import a way's packages."""
        self._way = WAYS[library].create()
        return {"versions": self._way.versions()}

    def check(self, case: dict[str, Any]) -> dict[str, Any]:
        """Compare every frame of the epoch."""
        way, loader_case = self._needs_way(), LoaderCase.from_json(case)
        comparison = Comparison()
        for rows, batch in zip(loader_case.batches, way.loader(loader_case), strict=False):
            for row, frames in zip(rows, way.frames(batch), strict=True):
                reference = load_reference(Path(loader_case.path(row)), loader_case.size)
                for index, frame in zip(loader_case.indices(row), frames, strict=True):
                    comparison.add(frame.permute(1, 2, 0).numpy(), reference, index)
        return asdict(comparison)

    def time(self, case: dict[str, Any]) -> dict[str, Any]:
        """Read the epoch and discard its batches."""
        way, loader_case = self._needs_way(), LoaderCase.from_json(case)
        gc.collect()
        cpu_before = cpu_seconds()
        with PeakMemory() as memory, _counted_pickles() as num_pickled_bytes:
            begin = time.perf_counter()
            loader = way.loader(loader_case)
            start_up = time.perf_counter() - begin
            begin = time.perf_counter()
            first, num_clips, batches = 0.0, 0, iter(loader)
            for batch in batches:
                first = first or time.perf_counter() - begin
                num_clips += len(way.frames(batch))
            wall = time.perf_counter() - begin
        del batch, batches, loader
        gc.collect()
        wait_for_children()
        return {
            "num_clips": num_clips,
            "wall_seconds": wall,
            "cpu_seconds": cpu_seconds() - cpu_before,
            "start_up_seconds": start_up,
            "first_batch_seconds": first,
            "pickled_bytes": num_pickled_bytes.value,
            "peak_rss_mib": round(memory.peak_mib, 1),
        }

    def _needs_way(self) -> Way:
        assert self._way is not None, "nothing was started"
        return self._way


if __name__ == "__main__":
    serve(LoaderWorker())
