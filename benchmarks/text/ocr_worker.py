"""One reader in a process of its own: ``python -m benchmarks.text.ocr_worker READER [options] FILE...``.

It prints a JSON line when the first page was read, one for each page afterwards, and one at the end ::

    {"first": true}
    {"words": [["Total", [x0, y0, x1, y1]], ..], "wall": .., "cpu": .., "stages": {"det": .., "reco": ..}}
    {"rss_mib": .., "versions": {..}}

The first page is read twice: the first time takes in all that is done only once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from PIL import Image

from ..shared.processes import cpu_seconds, peak_rss_mib
from .ocr_readers import READERS, Reader

__all__ = ["main"]


def main() -> None:
    """Read the files under the clock."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.ocr_worker")
    parser.add_argument("reader", choices=list(READERS))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--side", type=int)
    options = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    reader = READERS[options.reader](options.threads, options.side)
    _read(reader, options.files[0])
    _say(answers, {"first": True})
    for path in options.files:
        _say(answers, _read(reader, path))
    _say(answers, {"rss_mib": peak_rss_mib(), "versions": reader.versions()})


def _read(reader: Reader, path: Path) -> dict[str, Any]:
    image = np.asarray(Image.open(path).convert("RGB"))
    wall, cpu = time.perf_counter(), cpu_seconds()
    reading = reader.read(path, image)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return {"words": reading.words, "wall": wall, "cpu": cpu, "stages": reading.stages}


def _say(stream: TextIO, answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=stream, flush=True)


if __name__ == "__main__":
    main()
