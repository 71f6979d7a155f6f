"""Running suites: a process for every library and scenario, and the libraries take turns.

::

    for each clip and scenario:   start one worker for each library
                                  check     every worker once: the frames, and the warm-up
                                  rounds    every worker once a round, each round in another order
                                  memory    the largest resident set of the rounds
                                  packets   one more run, not timed, of ours

A library that is missing, fails or crashes becomes a note, and the others go on.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .case import Case
from .clips import Clip, make_clips
from .libraries import LIBRARIES, OURS, OURS_ONE_THREAD, OURS_SAVED_INDEX
from .reference import make_reference
from .results import Row, summarise
from .scenarios import KINDS
from .suites import Scenario, Suite

__all__ = ["Effort", "Measurement", "WorkerError", "WorkerProcess", "measure_suite"]

# A worker that does not answer for so long is given up.
_PATIENCE_SECONDS = 1800


@dataclass(frozen=True)
class Effort:
    """How much to run.

    Attributes:
        repeats: Timed runs of each library in each scenario.
        budget_seconds: A library whose runs took longer than this together is not run again in that scenario.
        keeps_workers: Use one process for everything that a library does. Quick, but what one scenario leaves behind,
            memory above all, shows in the next.
    """

    repeats: int = 5
    budget_seconds: float = 120
    keeps_workers: bool = False


@dataclass
class Measurement:
    """What came of a suite.

    Attributes:
        rows: One for each clip, scenario and library.
        notes: What went wrong with whom.
        versions: Of the libraries that ran.
        is_complete: Whether the suite ran to its end; if not, somebody interrupted it.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    is_complete: bool = True


class WorkerError(Exception):
    """A worker failed, crashed or does not answer."""


class WorkerProcess:
    """The other side of `benchmarks.worker`, or of another module that serves requests.

    Args:
        library: What it is to import.
        module: Name of the module.

    Raises:
        WorkerError: if the library cannot be used.
    """

    def __init__(self, library: str, module: str = "benchmarks.worker") -> None:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self.versions: dict[str, str] = self.ask("start", library=library)["versions"]
        except WorkerError:
            self.close()
            raise

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(_PATIENCE_SECONDS, self._process.kill)
        timer.start()
        try:
            print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise WorkerError(f"its process ended ({self._process.wait()}): {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class _Workers:
    """Workers by library. One that could not be started, or that failed, is noted."""

    def __init__(self, notes: list[str]) -> None:
        self.alive: dict[str, WorkerProcess] = {}
        self.versions: dict[str, str] = {}
        self._missing: set[str] = set()
        self._notes = notes

    def start(self, library: str) -> None:
        if library in self.alive or library in self._missing:
            return
        try:
            self.alive[library] = WorkerProcess(library)
            self.versions |= self.alive[library].versions
        except WorkerError as error:
            self._missing.add(library)
            self._notes.append(f"{library}: left out, because it cannot be used here ({error})")

    def ask(self, library: str, where: str, what: str, **arguments: Any) -> dict[str, Any] | None:
        """The answer, or ``None`` if there is none: then the worker is gone."""
        if library not in self.alive:
            return None
        try:
            return self.alive[library].ask(what, **arguments)
        except WorkerError as error:
            self._notes.append(f"{library}: failed in {where} ({error})")
            self.alive.pop(library).close()
            return None

    def close(self) -> None:
        for worker in self.alive.values():
            worker.close()
        self.alive.clear()


def measure_suite(
    name: str, suite: Suite, clips_folder: Path, libraries: Iterable[str], effort: Effort, say: Callable[[str], None]
) -> Measurement:
    """Run a suite; Ctrl-C ends it early.

    Args:
        name: Of the suite.
        suite: What to run.
        clips_folder: Where clips are kept.
        libraries: Who may take part.
        effort: How much to run.
        say: Takes lines about the progress.
    """
    say(f"{name}: making {len(suite.clips)} clips in {clips_folder}, if they are not there")
    paths = make_clips(suite.clips, clips_folder)
    measurement = Measurement()
    workers = _Workers(measurement.notes)
    allowed = set(libraries)
    try:
        for clip_name, scenario, case in _cases(suite, paths):
            say(f"{name}: {clip_name}: {scenario.name}")
            for path in sorted(set(case.paths)):
                if case.indices:
                    make_reference(Path(path), case.indices, case.size)
            wanted = [name for name in LIBRARIES if name in allowed and name in scenario.libraries]
            where = f"{name}, {clip_name}, {scenario.name}"
            for library, found in _measure_case(where, case, wanted, workers, effort).items():
                row = summarise(name, clip_name, scenario.name, library, KINDS[case.kind].num_frames(case), found)
                measurement.rows.append(row)
            if not effort.keeps_workers:
                workers.close()
    except KeyboardInterrupt:  # what was measured until then took its time, and is worth reporting
        measurement.is_complete = False
        measurement.notes.append(f"{name} was interrupted: what is not here was not measured")
    finally:
        workers.close()
    measurement.versions = workers.versions
    return measurement


def _cases(suite: Suite, paths: dict[str, Path]) -> list[tuple[str, Scenario, Case]]:
    """(name of the clip, scenario, case) in the order of the run."""
    cases = []
    for clips, scenarios in suite.plan:
        whole_group = [scenario for scenario in scenarios if scenario.num_files]
        cases += [(clip.name, s, _case(s, [clip], paths)) for clip in clips for s in scenarios if not s.num_files]
        cases += [("many files", scenario, _case(scenario, clips, paths)) for scenario in whole_group]
    return cases


def _case(scenario: Scenario, clips: Sequence[Clip], paths: dict[str, Path]) -> Case:
    return scenario.case([paths[clip.name] for clip in clips], min(clip.num_frames for clip in clips))


def _measure_case(
    where: str, case: Case, libraries: list[str], workers: _Workers, effort: Effort
) -> dict[str, dict[str, Any]]:
    """Answers to all requests by library, of those that came through."""
    found: dict[str, dict[str, Any]] = {}
    for library in libraries:
        workers.start(library)
        loaded = workers.ask(library, where, "load", case=asdict(case))
        checked = loaded and workers.ask(library, where, "check")
        if loaded and checked:
            found[library] = {**loaded, **checked, "wall_seconds": [], "cpu_seconds": []}
    _run_rounds(where, found, workers, effort)
    for library in list(found):
        memory = workers.ask(library, where, "memory")
        counts_packets = library in (OURS, OURS_ONE_THREAD, OURS_SAVED_INDEX)
        packets = workers.ask(library, where, "packets") if counts_packets else {}
        if memory is None or packets is None or not found[library]["wall_seconds"]:
            del found[library]
        else:
            found[library] |= memory | packets
    return found


def _run_rounds(where: str, found: dict[str, dict[str, Any]], workers: _Workers, effort: Effort) -> None:
    shuffled = random.Random(where)
    for _ in range(effort.repeats):
        for library in shuffled.sample(list(found), len(found)):
            walls = found[library]["wall_seconds"]
            if sum(walls) > effort.budget_seconds:
                continue
            if times := workers.ask(library, where, "time"):
                walls.append(times["wall_seconds"])
                found[library]["cpu_seconds"].append(times["cpu_seconds"])
