"""A worker process for one reader of pages, which answers requests (`shared.workers`).

::

    {"do": "start", "reader": .., "threads": .., "side": ..}    imports it
    {"do": "read", "file": ..}                                  reads a page under the clock
    {"do": "measure_stages", "threads": .., "files": ..}        times the stages of our reader (`ocr_stages`)
    {"do": "end"}                                               the largest resident set, and versions

The first page must be read twice: the first time includes all one-time work.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..shared.processes import cpu_seconds, peak_rss_mib
from ..shared.workers import serve
from .ocr_readers import Reader, reader_of
from .ocr_stages import measure_stages


class ReaderWorker:
    """State of the worker between requests."""

    _reader: Reader

    def start(self, reader: str, threads: int, side: int | None) -> dict[str, Any]:
        """Import a reader's packages."""
        self._reader = reader_of(reader)(threads, side)
        return {}

    def read(self, file: str) -> dict[str, Any]:
        """Read a page."""
        image = np.asarray(Image.open(file).convert("RGB"))
        wall, cpu = time.perf_counter(), cpu_seconds()
        reading = self._reader.read(Path(file), image)
        wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
        return {"words": reading.words, "wall": wall, "cpu": cpu, "stages": reading.stages}

    def measure_stages(self, threads: int, files: list[str]) -> dict[str, Any]:
        """Time the stages of our reader."""
        return measure_stages(threads, files)

    def end(self) -> dict[str, Any]:
        """Return peak memory and versions."""
        return {"rss_mib": peak_rss_mib(), "versions": self._reader.versions()}


if __name__ == "__main__":
    serve(ReaderWorker())
