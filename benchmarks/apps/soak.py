"""Do handles, threads or memory pile up? ``python -m benchmarks.apps.soak [--work mixed] [--quick] [-o FOLDER]``.

Repeats two operations of a training, while the process and its DataLoader workers are watched: opening and closing
decoders, and reading epochs over files of which a third is broken. A straight line is fitted to each series after a
warm-up; it is flat if it rises by next to nothing. ``--work mixed`` repeats everything that the library does, for some
minutes, see `benchmarks.apps.soak_mixed`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from mediatensor.datasets import DataLoader, FailureReport, VideoClips
from mediatensor.decoders import VideoDecoder

from ..media.clips import Encoded, film, make_clips
from ..shared.machine import machine_stamp
from ..shared.options import add_folders, check_counts, make_parser
from ..shared.processes import Usage, usages
from ..shared.reports import say, write_report
from .soak_files import write_files
from .soak_mixed import work_for
from .soak_report import Series, draw, to_markdown

_NUM_SAMPLES = 200
_ROWS_PER_FILE = 2
_BATCH_SIZE = 4
_NUM_WORKERS = 2


@dataclass(frozen=True)
class Effort:
    """The amount of work: decoders to open, files, epochs."""

    num_decoders: int = 5000
    num_files: int = 300
    num_epochs: int = 3


@dataclass
class Part:
    """The record of one workload.

    Attributes:
        name: Name of the workload.
        unit: Unit of the steps.
        seconds: Duration.
        series: Resources held after each recorded step, by process.
        facts: Further facts for the report.
    """

    name: str
    unit: str
    seconds: float = 0.0
    series: dict[str, Series] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def look(self, step: int) -> None:
        """Record the resources that this process and its children hold now."""
        for name, usage in _by_name(usages()).items():
            self.series.setdefault(name, Series()).add(step, usage)


def _by_name(found: dict[int, Usage]) -> dict[str, Usage]:
    own = found.pop(os.getpid(), None)
    workers = {f"worker {number}": found[process] for number, process in enumerate(sorted(found))}
    return workers if own is None else {"main process": own, **workers}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, report; fail if a series is not flat."""
    options = _parse(arguments)
    usual = Effort(300, 30, 1) if options.quick else Effort()
    effort = replace(usual, num_epochs=options.epochs or usual.num_epochs)
    stamp = machine_stamp()
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        clips = [
            Encoded(f"{number}", (scene,), (64, 48), Fraction(30), 1, options=(("g", "10"),))
            for number, scene in enumerate(film(6))
        ]
        good = list(make_clips(clips, options.clips).values())
        watched = (
            _work_mixed(good, Path(folder), options.minutes or (0.05 if options.quick else 10))
            if options.work == "mixed"
            else _parts(good, Path(folder), effort)
        )
        for part in watched:
            say(f"{part.name}: took {part.seconds:.0f} s")
            parts.append(part)
    text = to_markdown(stamp, parts)
    document = {"machine": stamp, "parts": [_as_json(part) for part in parts]}
    name = "soak_mixed" if options.work == "mixed" else "soak"
    write_report(options.output, name, document, text, partial(draw, parts))
    if not all(trend.is_flat for part in parts for series in part.series.values() for trend in series.trends()):
        sys.exit("At least one series is not flat.")


def _as_json(part: Part) -> dict[str, Any]:
    trends = {name: [asdict(trend) for trend in series.trends()] for name, series in part.series.items()}
    return {**asdict(part), "trends": trends}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.apps.soak", __doc__)
    parser.add_argument("--work", choices=("training", "mixed"), default="training", help="the workload")
    parser.add_argument(
        "--quick", action="store_true", help="300 decoders, and an epoch over 30 files; of mixed work three rounds"
    )
    parser.add_argument("--minutes", type=float, help="of mixed work (default: 10)")
    parser.add_argument("--epochs", type=int, help=f"over the files (default: {Effort.num_epochs})")
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "epochs")
    return options


def _parts(good: Sequence[Path], folder: Path, effort: Effort) -> Iterator[Part]:
    yield _open_and_close(good, effort.num_decoders)
    files, kinds = write_files(good, folder, effort.num_files)
    for on_error in ("replace", "skip"):
        yield _train(files, kinds, on_error, effort.num_epochs)


def _work_mixed(good: Sequence[Path], folder: Path, minutes: float) -> Iterator[Part]:
    mixed = work_for(minutes, good, folder, say)
    series = Series()
    for step, usage in mixed.usages:
        series.add(step, usage)
    name = f"{len(mixed.usages)} rounds of mixed work"
    yield Part(name, "rounds", mixed.seconds, {"main process": series}, dict(mixed.counts))


def _open_and_close(paths: Sequence[Path], num_decoders: int) -> Part:
    part = Part(f"{num_decoders} decoders opened and closed", "decoders")
    begin = time.perf_counter()
    for number in range(num_decoders):
        with VideoDecoder(paths[number % len(paths)]) as decoder:
            decoder.get_frames_at([number % len(decoder), (7 * number) % len(decoder)])
        if number % max(1, num_decoders // _NUM_SAMPLES) == 0:
            part.look(number)
    part.seconds = time.perf_counter() - begin
    return part


def _train(files: Sequence[Path], kinds: dict[str, int], on_error: Any, num_epochs: int) -> Part:
    epochs = "1 epoch" if num_epochs == 1 else f"{num_epochs} epochs"
    part = Part(f"{epochs} over {len(files)} files, on_error={on_error!r}", "batches")
    dataset = VideoClips(
        files, num_frames_per_clip=8, rows_per_file=_ROWS_PER_FILE, on_error=on_error, max_consecutive_failures=50
    )
    loader = DataLoader(dataset, _BATCH_SIZE, shuffle=True, num_workers=_NUM_WORKERS, persistent_workers=True)
    loader.failures = FailureReport(max_failures=1_000_000)  # all of them are counted by reason
    every = max(1, num_epochs * len(loader) // _NUM_SAMPLES)
    num_rows = num_batches = 0
    begin = time.perf_counter()
    for _ in range(num_epochs):
        for batch in loader:
            num_rows += len(batch)
            num_batches += 1
            if num_batches % every == 0:
                part.look(num_batches)
    part.seconds = time.perf_counter() - begin
    report = loader.failures.as_dict()
    part.facts = {
        "files": kinds,
        "rows_given": num_rows,
        "rows_asked_for": num_epochs * len(dataset),
        "failures": report["num_failures"],
        "files_that_failed": len(report["files"]),
        "reasons": _reasons(loader),
    }
    return part


def _reasons(loader: DataLoader) -> dict[str, int]:
    names = [failure.error for failure in loader.failures.failures]
    return {name: names.count(name) for name in dict.fromkeys(names)}


if __name__ == "__main__":
    main()
