"""Training loaders side by side: ``python -m benchmarks.data.loaders [--quick] [-o FOLDER]``.

Each way of loading has its own process, and reads the same clips with the same number of workers. In each round the
ways take turns in another order. Before the timed runs, frames are compared with a linear decode.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..media.clips import make_clips
from ..media.measuring import Interpreter, start_worker
from ..media.reference import make_reference
from ..shared.machine import machine_stamp
from ..shared.options import add_folders, add_python, check_counts, make_parser
from ..shared.reports import say, write_report
from ..shared.workers import WorkerError, WorkerProcess
from .loaders_report import LoaderRow, draw, ratios, shuffle_table, summarise, to_markdown
from .loaders_sets import TRAINING_SETS, LoaderCase, write_frames
from .loaders_ways import FOLDERS, WAYS, planned

_SIZE = (256, 256)
_ROWS_PER_FILE = 4
_SCENARIOS = {1: "16 neighbouring frames", 2: "16 frames, every 2nd"}


@dataclass(frozen=True)
class Effort:
    """The amount of work: files of a set (by default, as many as the set has), and timed epochs."""

    num_files: int | None = None
    repeats: int = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    usual = Effort(2, 1) if options.quick else Effort()
    effort = Effort(options.files or usual.num_files, options.repeats or usual.repeats)
    stamp = machine_stamp()
    rows: list[LoaderRow] = []
    notes: list[str] = []
    with _Processes(options.libraries, Interpreter(options.python), notes) as processes:
        try:
            for set_name, scenario, case in _cases(options, effort, notes):
                say(f"{set_name}: {scenario}")
                rows += _measure(set_name, scenario, case, processes, effort)
        except KeyboardInterrupt:  # the completed measurements are still worth reporting
            notes.append("The run was interrupted: missing rows were not measured.")
        stamp |= processes.versions | {"runs": f"{effort.repeats} after a comparison of frames"}
    document = {
        "machine": stamp,
        "rows": [asdict(row) for row in rows],
        "ratios": [asdict(ratio) for ratio in ratios(rows)],
        "shuffles": shuffle_table(),
        "notes": notes,
    }
    text = to_markdown(stamp, rows, notes)
    write_report(options.output, "loaders", document, text, partial(draw, rows) if rows else None)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.data.loaders", __doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny videos and one run")
    parser.add_argument("--repeats", type=int, help=f"timed epochs of each way (default: {Effort.repeats})")
    parser.add_argument("--files", type=int, help="videos of each set (default: 6 long ones, 20 short ones)")
    parser.add_argument("--sets", nargs="+", default=list(TRAINING_SETS), choices=list(TRAINING_SETS), metavar="SET")
    parser.add_argument("--libraries", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="NAME")
    add_python(parser)
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "repeats", "files")
    return options


def _cases(options: argparse.Namespace, effort: Effort, notes: list[str]) -> Iterator[tuple[str, str, LoaderCase]]:
    """Yield (set, scenario, case) after making the files."""
    for name in options.sets:
        training_set = TRAINING_SETS[name]
        clips = training_set.clips(effort.num_files or training_set.num_files, is_quick=options.quick)
        say(f"{name}: making {len(clips)} videos in {options.clips}, if they are not there")
        paths = [str(path) for path in make_clips(clips, options.clips).values()]
        notes.append(f"{name}: {len(paths)} videos ({_megabytes(sum(Path(path).stat().st_size for path in paths))})")
        if FOLDERS in options.libraries:
            say(f"{name}: writing their frames as JPEG files, if they are not there")
            num_bytes = sum(write_frames(path, _SIZE) for path in paths)
            notes.append(f"{name}: all frames as JPEG files of {_SIZE[1]}x{_SIZE[0]} take {_megabytes(num_bytes)}")
        for step, num_workers in itertools.product(training_set.steps, training_set.num_workers):
            scenario = f"{_SCENARIOS[step]}, {num_workers} worker{'s' * (num_workers > 1)}"
            yield name, scenario, LoaderCase(tuple(paths), _ROWS_PER_FILE, step, _SIZE, num_workers=num_workers)


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.3g} MB"


class _Processes:
    """A process for each way. Ways that fail to start or to answer are noted, and skipped from then on.

    Attributes:
        alive: Running processes by name.
        versions: Versions of their packages.
    """

    def __init__(self, names: Sequence[str], interpreter: Interpreter, notes: list[str]) -> None:
        self.alive: dict[str, WorkerProcess] = {}
        self.versions: dict[str, str] = {}
        self._notes = notes
        for name in names:
            worker = start_worker(name, interpreter, "benchmarks.data.loaders_worker")
            try:
                self.versions |= worker.receive()["versions"]
                self.alive[name] = worker
            except WorkerError as error:
                worker.close()
                notes.append(f"{name}: left out, because it cannot be used here ({error})")

    def ask(self, name: str, what: str, case: LoaderCase) -> dict[str, Any] | None:
        """Return the answer, or ``None`` if the process failed; it is then removed."""
        if name not in self.alive:
            return None
        try:
            return self.alive[name].ask(what, case=asdict(case))
        except WorkerError as error:
            self._notes.append(f"{name}: failed ({error})")
            self.alive.pop(name).close()
            return None

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.alive.values():
            process.close()


def _measure(set_name: str, scenario: str, case: LoaderCase, processes: _Processes, effort: Effort) -> list[LoaderRow]:
    """Return a row for each way that succeeded."""
    accuracy = _accuracy(case, processes)
    orders = {together: planned(replace(case, rows_together=together)) for together in _groupings()}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in accuracy}
    shuffled = random.Random(f"{set_name} {scenario}")
    for _ in range(effort.repeats):
        for name in shuffled.sample(list(runs), len(runs)):
            if run := processes.ask(name, "time", orders[WAYS[name].rows_together]):
                runs[name].append(run)
    return [summarise(set_name, scenario, name, found, *accuracy[name]) for name, found in runs.items() if len(found)]


def _groupings() -> set[int]:
    return {way.rows_together for way in WAYS.values()}


def _accuracy(case: LoaderCase, processes: _Processes) -> dict[str, tuple[dict[str, int] | None, dict[str, int]]]:
    """Compare the frames of each way, in their own size and resized.

    All ways read the same two rows of two files, in order.
    """
    resized = planned(replace(case, paths=case.paths[:2], rows_per_file=2, batch_size=2, rows_together=0))
    whole = planned(replace(resized, size=None))
    for loader_case in (resized, whole):
        for row in range(len(loader_case.starts)):
            make_reference(Path(loader_case.path(row)), loader_case.indices(row), loader_case.size)
    found = {}
    for name in list(processes.alive):
        own = None if WAYS[name].needs_size else processes.ask(name, "check", whole)
        if scaled := processes.ask(name, "check", resized):
            found[name] = (own, scaled)
    return found


if __name__ == "__main__":
    main()
