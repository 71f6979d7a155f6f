"""Running readers: a new process for each reader and round, and the readers take turns in random order."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..shared.workers import WorkerError, WorkerProcess, single_threaded
from .ocr_scores import Word

# A reader that does not answer for this long is stopped.
_PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Effort:
    """The amount of work.

    Attributes:
        repeats: Rounds; each reader reads all pages once a round.
        num_threads: Threads of every reader.
        side: Minimum shorter side of pages for the detector, in pixels; ``None`` keeps each reader's default.
    """

    repeats: int = 3
    num_threads: int = 1
    side: int | None = None


@dataclass
class Run:
    """The results of a reader.

    Attributes:
        words: Words of each page, in the first round.
        wall_seconds, cpu_seconds: By round, then by page; CPU of all threads and processes.
        stages: Median seconds per page, by the name of the stage, if the reader reports stages.
        first_result_seconds: Seconds from the start of the process to the words of the first page, by round.
        peak_rss_mib: Peak RSS by round.
        versions: Package versions.
        is_stable: Whether every round read the same.
    """

    words: list[list[Word]] = field(default_factory=list)
    wall_seconds: list[list[float]] = field(default_factory=list)
    cpu_seconds: list[list[float]] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    first_result_seconds: list[float] = field(default_factory=list)
    peak_rss_mib: list[float] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    is_stable: bool = True


def run_readers(
    readers: Sequence[str], files: Sequence[Path], effort: Effort, say: Callable[[str], None]
) -> tuple[dict[str, Run], list[str]]:
    """Return (results by reader, notes on failed readers).

    Args:
        readers: Names that `reader_of` takes.
        files: The pages.
        effort: How to run.
        say: Takes lines about the progress.
    """
    runs, notes = {reader: Run() for reader in readers}, []
    shuffled = random.Random(0)
    for round_number in range(effort.repeats):
        for reader in shuffled.sample(list(runs), len(runs)):
            say(f"round {round_number + 1} of {effort.repeats}: {reader}")
            try:
                _add_round(runs[reader], reader, files, effort)
            except WorkerError as error:
                notes.append(f"{reader}: left out ({error})")
                del runs[reader]
    return {reader: run for reader, run in runs.items() if run.words}, notes


def _add_round(run: Run, reader: str, files: Sequence[Path], effort: Effort) -> None:
    begin, first, pages, end = time.perf_counter(), 0.0, [], {}
    for answer in _answers(reader, files, effort):
        if "first" in answer:
            first = time.perf_counter() - begin
        elif "words" in answer:
            pages.append(answer)
        else:
            end = answer
    words = [[Word(text, tuple(box)) for text, box in page["words"]] for page in pages]
    run.is_stable &= not run.words or run.words == words
    run.words = run.words or words
    run.wall_seconds.append([page["wall"] for page in pages])
    run.cpu_seconds.append([page["cpu"] for page in pages])
    run.first_result_seconds.append(first)
    run.peak_rss_mib.append(end["rss_mib"])
    run.versions |= end["versions"]
    if not run.stages:
        names = dict.fromkeys(name for page in pages for name in page["stages"])
        run.stages = {name: statistics.median(page["stages"].get(name) or 0.0 for page in pages) for name in names}


def _answers(reader: str, files: Sequence[Path], effort: Effort) -> Iterator[dict[str, Any]]:
    """Yield the answers of a worker: one after the first page, one for each page, one at the end."""
    environment = single_threaded(effort.num_threads)
    with WorkerProcess(
        "benchmarks.text.ocr_worker", environment=environment, patience_seconds=_PATIENCE_SECONDS
    ) as worker:
        worker.ask("start", reader=reader, threads=effort.num_threads, side=effort.side)
        worker.ask("read", file=str(files[0].resolve()))
        yield {"first": True}
        for path in files:
            yield worker.ask("read", file=str(path.resolve()))
        yield worker.ask("end")
