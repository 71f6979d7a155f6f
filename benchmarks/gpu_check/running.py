"""Run groups of steps, each in its own process, so that a crash or a hang costs one step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ..shared.workers import WorkerError, WorkerProcess
from .bench import EFFORTS, Bench
from .records import FAIL, NOT_RUN, Check, Found, from_line
from .worker import PARTS, run_step

# A step that takes longer hangs; encoding the long clips takes most of this time.
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Attributes:
        device: Torch device.
        effort: Key of `bench.EFFORTS`.
        folder: For clips.
        budget_seconds: Time budget of each part; steps that would begin later are not run.
        has_processes: Whether groups have their own processes.
        patience_seconds: Time limit of a step.
        module: Module of the processes.
    """

    device: str
    effort: str
    folder: Path
    budget_seconds: float
    has_processes: bool
    patience_seconds: float = _PATIENCE_SECONDS
    module: str = "benchmarks.gpu_check.worker"


def run_part(plan: Plan, part: str, found: list[Found], say: Callable[[str], None], save: Callable[[], None]) -> None:
    """Run all groups of a part.

    Args:
        plan: The plan.
        part: Key of `worker.PARTS`.
        found: Receives the findings.
        say: Takes a line about the progress.
        save: Called after new findings.
    """
    deadline = time.time() + plan.budget_seconds
    for group in PARTS[part]:
        say(f"{part}: {group}")
        before, begin = len(found), time.perf_counter()
        (_run_in_processes if plan.has_processes else _run_here)(plan, part, group, found, deadline, save)
        save()
        say(f"{part}: {group}: {len(found) - before} results in {time.perf_counter() - begin:.0f} s")


def _run_here(plan: Plan, part: str, group: str, found: list[Found], deadline: float, save: Callable[[], None]) -> None:
    for step in PARTS[part][group](Bench(torch.device(plan.device), EFFORTS[plan.effort], plan.folder)):
        found += [_not_run(step.name, group)] if time.time() > deadline else run_step(group, step)
        save()


def _run_in_processes(
    plan: Plan, part: str, group: str, found: list[Found], deadline: float, save: Callable[[], None]
) -> None:
    """Run the group in a process; if it dies, run the remaining steps in a new one."""
    names, number = [f"start of {group}"], 0
    while number < len(names):
        with WorkerProcess(plan.module, patience_seconds=plan.patience_seconds) as worker:
            try:
                names = worker.ask(
                    "start", part=part, group=group, device=plan.device, effort=plan.effort, folder=str(plan.folder)
                )["steps"]
                while number < len(names):
                    if time.time() > deadline:
                        found.append(_not_run(names[number], group))
                    else:
                        found += map(from_line, worker.ask("run", number=number)["found"])
                    number += 1
                    save()
            except WorkerError as error:
                found.append(Check(names[number], FAIL, reason=str(error), group=group))
                number += 1
                save()


def _not_run(name: str, group: str) -> Check:
    return Check(name, NOT_RUN, reason="no time was left (--budget)", group=group)
