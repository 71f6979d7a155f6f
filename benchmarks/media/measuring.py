"""Run suites: a new process for every run, and the libraries take turns.

::

    in each round, for each clip and scenario:
        start    a worker for each library; they import at the same time, before the timed runs
        time     one worker after the other, in another order each round: the first call of its process
        memory   the largest resident set of that
        check    in the first round: run again, and compare the frames
        packets  in the first round: run again, and count the packets that mediatensor feeds to its codecs

If a library is missing, fails or crashes, the report has a note and the run continues.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..shared.results import Row, summarise
from ..shared.workers import ROOT, WorkerError, WorkerProcess
from .case import Case
from .clips import Clip, make_clips
from .libraries import LIBRARIES, OURS, OURS_BESIDE, OURS_SMALL_PAGES
from .reference import make_reference
from .scenarios import KINDS
from .suites import Scenario, Suite

# Values stored for every run.
_EACH_RUN = ("wall_seconds", "cpu_seconds", "system_seconds", "page_faults")


@dataclass(frozen=True)
class Effort:
    """The amount of work.

    Attributes:
        repeats: Timed runs of each library in each scenario.
        budget_seconds: A library is not run again in a scenario after its runs took longer than this in total.
        minutes: A round is started only if it probably ends within this time; the first one always is.
        keeps_workers: Use one process for all runs of a library. Fast, but each run is affected by the earlier ones,
            above all by their memory.
    """

    repeats: int = 5
    budget_seconds: float = 120
    minutes: float | None = None
    keeps_workers: bool = False


@dataclass(frozen=True)
class Interpreter:
    """Where workers run.

    Attributes:
        python: Python program of an environment with the libraries. mediatensor comes from this checkout.
        other_sources: The ``src`` folder of another checkout, for `libraries.OURS_BESIDE`.
    """

    python: str = sys.executable
    other_sources: Path | None = None

    def environment(self, library: str) -> dict[str, str]:
        """Return the variables that a worker gets in addition to the inherited ones."""
        sources = self.other_sources if library == OURS_BESIDE and self.other_sources else ROOT / "src"
        paths = [str(sources), os.environ.get("PYTHONPATH", "")]
        own = {"NUMPY_MADVISE_HUGEPAGE": "0"} if library == OURS_SMALL_PAGES else {}
        return {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **own}


@dataclass
class Measurement:
    """The result of a suite.

    Attributes:
        rows: One for each clip, scenario and library.
        notes: Failures of libraries.
        versions: Versions of the libraries that ran.
        is_complete: Whether the suite ran to its end; if not, it was interrupted.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    is_complete: bool = True


def start_worker(library: str, interpreter: Interpreter, module: str = "benchmarks.media.worker") -> WorkerProcess:
    """Start a process that imports a library; its first answer has the versions."""
    worker = WorkerProcess(module, python=interpreter.python, environment=interpreter.environment(library))
    worker.send("start", library=library)
    return worker


class _Workers:
    """Workers by library. Failures to start or to answer are recorded as notes."""

    def __init__(self, interpreter: Interpreter, notes: list[str]) -> None:
        self.alive: dict[str, WorkerProcess] = {}
        self.versions: dict[str, str] = {}
        self._missing: set[str] = set()
        self._interpreter = interpreter
        self._notes = notes

    def start(self, libraries: Iterable[str]) -> None:
        """Start the workers of some libraries side by side, and wait until all have imported them."""
        wanted = [library for library in libraries if library not in self.alive and library not in self._missing]
        self.alive |= {library: start_worker(library, self._interpreter) for library in wanted}
        for library in wanted:
            try:
                self.versions |= self.alive[library].receive()["versions"]
            except WorkerError as error:
                self._missing.add(library)
                self.alive.pop(library).close()
                self._notes.append(f"{library}: left out, because it cannot be used here ({error})")

    def ask(self, library: str, where: str, what: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the answer, or ``None`` if the worker failed; it is then removed."""
        if library not in self.alive:
            return None
        try:
            return self.alive[library].ask(what, **arguments)
        except WorkerError as error:
            self._notes.append(f"{library}: failed in {where} ({error})")
            self.alive.pop(library).close()
            return None

    def close(self) -> None:
        """End all processes."""
        for worker in self.alive.values():
            worker.close()
        self.alive.clear()


def measure_suite(
    name: str,
    suite: Suite,
    clips_folder: Path,
    libraries: Collection[str],
    effort: Effort,
    say: Callable[[str], None],
    *,
    interpreter: Interpreter | None = None,
) -> Measurement:
    """Run a suite; Ctrl-C ends it early.

    Args:
        name: Name of the suite.
        suite: What to run.
        clips_folder: Where clips are kept.
        libraries: Libraries to measure; the suite's defaults if empty.
        effort: How much to run.
        say: Takes lines about the progress.
        interpreter: Environment of the libraries.
    """
    say(f"{name}: making {len(suite.clips)} clips in {clips_folder}, if they are not there")
    paths = make_clips(suite.clips, clips_folder)
    measurement = Measurement()
    workers = _Workers(interpreter or Interpreter(), measurement.notes)
    allowed = libraries or suite.libraries
    cases = _cases(suite, paths)
    found: list[dict[str, dict[str, Any]]] = [{} for _ in cases]
    begin = time.perf_counter()
    try:
        for number in range(effort.repeats):
            seconds = time.perf_counter() - begin
            if number and effort.minutes is not None and seconds * (number + 1) / number > 60 * effort.minutes:
                measurement.notes.append(f"{name}: {number} rounds, because another one would have taken too long")
                break
            for place, (clip_name, scenario, case) in enumerate(cases):
                where = f"{name}, {clip_name}, {scenario.name}"
                say(
                    f"{name}: round {number + 1} of {effort.repeats}, {place + 1} of {len(cases)}, "
                    f"after {time.perf_counter() - begin:.0f} s: {clip_name}: {scenario.name}"
                )
                if not number:
                    _make_references(case)
                wanted = [library for library in LIBRARIES if library in allowed and library in scenario.libraries]
                _run_round(where, number, case, wanted, workers, effort, found[place])
    except KeyboardInterrupt:  # the completed measurements are still worth reporting
        measurement.is_complete = False
        measurement.notes.append(f"{name} was interrupted: missing rows were not measured")
    finally:
        workers.close()
    for (clip_name, scenario, case), of_case in zip(cases, found, strict=True):
        num_frames = KINDS[case.kind].num_frames(case)
        measurement.rows += [
            summarise(name, clip_name, scenario.name, library, num_frames, of_case[library])
            for library in LIBRARIES
            if library in of_case
        ]
    measurement.versions = workers.versions
    return measurement


def _make_references(case: Case) -> None:
    for path, frames in case.frames().items():
        if frames:
            make_reference(Path(path), frames, case.size)


def _cases(suite: Suite, paths: dict[str, Path]) -> list[tuple[str, Scenario, Case]]:
    """(name of the clip, scenario, case) in the order of the run."""
    cases = []
    for clips, scenarios in suite.plan:
        whole_group = [scenario for scenario in scenarios if scenario.num_files]
        cases += [(clip.name, s, _case(s, [clip], paths)) for clip in clips for s in scenarios if not s.num_files]
        cases += [(scenario.files, scenario, _case(scenario, clips, paths)) for scenario in whole_group]
    return cases


def _case(scenario: Scenario, clips: Sequence[Clip], paths: dict[str, Path]) -> Case:
    return scenario.case([paths[clip.name] for clip in clips], min(clip.num_frames for clip in clips))


def _run_round(
    where: str,
    number: int,
    case: Case,
    libraries: list[str],
    workers: _Workers,
    effort: Effort,
    found: dict[str, dict[str, Any]],
) -> None:
    """Run a case once with each library, and record the runs that succeeded."""
    order = [
        library
        for library in random.Random(f"{where} {number}").sample(libraries, len(libraries))
        if number == 0 or (library in found and sum(found[library]["wall_seconds"]) <= effort.budget_seconds)
    ]
    workers.start(order)
    for library in order:
        _run_once(where, case, library, workers, found)
    if not effort.keeps_workers:
        workers.close()


def _run_once(where: str, case: Case, library: str, workers: _Workers, found: dict[str, dict[str, Any]]) -> None:
    """Record a timed run of a library and, in the first round, its one-time checks."""
    answers: list[dict[str, Any] | None] = [workers.ask(library, where, "load", case=asdict(case))]
    answers += [workers.ask(library, where, "time"), workers.ask(library, where, "memory")]
    if library not in found:
        answers.append(workers.ask(library, where, "check"))
        if library.startswith(OURS):
            answers.append(workers.ask(library, where, "packets"))
    if None in answers:
        found.pop(library, None)
        return
    merged = found.setdefault(library, {})
    for key, value in ((key, value) for answer in answers if answer for key, value in answer.items()):
        if key in _EACH_RUN:
            merged.setdefault(key, []).append(value)
        elif key == "peak_rss_mib":
            merged[key] = max(value, merged.get(key, value))
        else:
            merged[key] = value
