"""Running readers: a new process for each reader and round, and the readers take turns in random order."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .ocr_scores import Word

__all__ = ["Effort", "Run", "run_readers"]

# A reader that says nothing for so long is given up.
_PATIENCE_SECONDS = 900
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Effort:
    """How to run.

    Attributes:
        repeats: Rounds; each reader reads all pages once a round.
        num_threads: Of every reader alike.
        side: Least length of a page's shorter side for the detector; ``None`` leaves every reader at its own.
    """

    repeats: int = 3
    num_threads: int = 1
    side: int | None = None


@dataclass
class Run:
    """What a reader did.

    Attributes:
        words: Of each page, in the first round.
        wall_seconds, cpu_seconds: By round, then by page; CPU of all threads and processes.
        stages: Median seconds a page, by the name of the stage, as far as the reader tells.
        first_result_seconds: Of each round, from the start of the process to the words of the first page.
        peak_rss_mib: Of each round.
        versions: Of the packages.
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


class ReaderError(Exception):
    """A reader is not installed, failed, or says nothing any more."""


def run_readers(
    readers: Sequence[str], files: Sequence[Path], effort: Effort, say: Callable[[str], None]
) -> tuple[dict[str, Run], list[str]]:
    """(what each reader did, what went wrong with the others).

    Args:
        readers: Keys of `READERS`.
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
            except ReaderError as error:
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
    """What a worker says, as it says it."""
    command = [sys.executable, "-m", "benchmarks.text.ocr_worker", reader, "--threads", str(effort.num_threads)]
    if effort.side is not None:
        command += ["--side", str(effort.side)]
    command += [str(path.resolve()) for path in files]
    environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(effort.num_threads))
    root = Path(__file__).parents[2]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=root, env=environment
        ) as process:
            try:
                while line := _line_of(process):
                    yield json.loads(line)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:] or ["it said nothing"]
            raise ReaderError(f"its process ended with {process.returncode}: {last[0]}")


def _line_of(process: subprocess.Popen[str]) -> str:
    """The next line, or nothing once the process has ended or was given up."""
    assert process.stdout is not None
    timer = threading.Timer(_PATIENCE_SECONDS, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()
