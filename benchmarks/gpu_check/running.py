"""Runs groups of steps so that a crash, or a step that hangs, costs one step: each group has a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .bench import EFFORTS, Bench
from .records import FAIL, NOT_RUN, Check, Found, Records, found_in, read_lines
from .worker import PARTS, run_group

__all__ = ["Plan", "run_part"]

_ROOT = Path(__file__).parents[2]
# A step that says nothing for so long hangs; encoding the long clips takes most of it.
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        device: Of torch.
        effort: Key of `bench.EFFORTS`.
        folder: For clips.
        budget_seconds: For each part.
        has_processes: Whether groups have processes of their own.
        patience_seconds: After which a step that finds nothing is given up.
        module: Of the processes.
    """

    device: str
    effort: str
    folder: Path
    budget_seconds: float
    has_processes: bool
    patience_seconds: float = _PATIENCE_SECONDS
    module: str = "benchmarks.gpu_check.worker"


def run_part(plan: Plan, part: str, records: Records, say: Callable[[str], None], save: Callable[[], None]) -> None:
    """Run all groups of a part.

    Args:
        plan: What to run.
        part: Key of `worker.PARTS`.
        records: Gets what is found.
        say: Takes a line about the progress.
        save: Called when something new was found.
    """
    deadline = time.time() + plan.budget_seconds
    for group in PARTS[part]:
        say(f"{part}: {group}")
        before, begin = len(records.found), time.perf_counter()
        if plan.has_processes:
            _run_processes(plan, part, group, records, deadline, save)
        else:
            bench = Bench(torch.device(plan.device), EFFORTS[plan.effort], plan.folder)
            run_group(part, group, bench, records, deadline)
        save()
        say(f"{part}: {group}: {len(records.found) - before} results in {time.perf_counter() - begin:.0f} s")


def _run_processes(
    plan: Plan, part: str, group: str, records: Records, deadline: float, save: Callable[[], None]
) -> None:
    """A process for the group, and another one for the rest of it whenever one dies."""
    first = 0
    while True:
        num_begun, unfinished, ending = _run_process(plan, part, group, records, deadline, first, save)
        if unfinished is None and num_begun:
            if ending:
                records.add(Check(f"end of {group}", FAIL, reason=ending, group=group))
            return
        name = unfinished or f"start of {group}"
        # The file has it as begun and not ended; what is told of it is written by this process.
        records.add(Check(name, FAIL, reason=f"its process {ending or 'ended'}", group=group))
        if unfinished is None:
            return
        first += num_begun
        if time.time() > deadline:
            records.add(Check(f"the rest of {group}", NOT_RUN, reason="no time was left (--budget)", group=group))
            return


def _run_process(
    plan: Plan, part: str, group: str, records: Records, deadline: float, first: int, save: Callable[[], None]
) -> tuple[int, str | None, str]:
    """(steps that were begun, the one that was not finished, how the process ended if not well)."""
    offset = records.path.stat().st_size if records.path.exists() else 0
    request = {
        "part": part, "group": group, "device": plan.device, "effort": plan.effort, "folder": str(plan.folder),
        "records": str(records.path), "deadline": deadline, "first": first,
    }  # fmt: skip
    command = [sys.executable, "-m", plan.module, json.dumps(request)]
    errors_path = records.path.with_suffix(".stderr")
    with errors_path.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=_ROOT, stdout=errors, stderr=errors)
        num_begun, open_step = 0, ""
        last_word = time.monotonic()
        ending = ""
        while True:
            is_over = process.poll() is not None
            lines, offset = read_lines(records.path, offset)
            for line in lines:
                num_begun, open_step = _followed(line, num_begun, open_step)
            new: list[Found] = list(found_in(lines))
            records.found += new
            if lines:
                last_word = time.monotonic()
                save()
            if is_over:
                break
            if time.monotonic() - last_word > plan.patience_seconds:
                process.kill()
                process.wait()
                ending = f"said nothing for {plan.patience_seconds:.0f} s and was ended"
            else:
                time.sleep(_LOOK_SECONDS)
    if process.returncode and not ending:
        words = errors_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        ending = f"ended with {process.returncode}: {words[-1] if words else 'it said nothing'}"
    return num_begun, open_step or None, ending


def _followed(line: dict[str, Any], num_begun: int, open_step: str) -> tuple[int, str]:
    if line["kind"] == "begin":
        return num_begun + 1, line["name"]
    return num_begun, "" if line["kind"] == "end" else open_step
