"""Run the steps of a group in this process, or in a worker process that answers requests (`shared.workers`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..shared.workers import serve
from .bench import EFFORTS, Bench
from .life import life_steps
from .ocr import ocr_check_steps, ocr_figure_steps
from .pixels import pixel_steps
from .records import Check, Found, Step, contained, to_line
from .scenarios import scenario_steps
from .streams import stream_steps
from .throughput import crossover_steps, throughput_steps

#: Groups by name, with the functions that make their steps, by part of the run.
PARTS: dict[str, dict[str, Callable[[Bench], list[Step]]]] = {
    "checks": {"pixels": pixel_steps, "life": life_steps, "streams": stream_steps, "reading": ocr_check_steps},
    "decode": {"scenarios": scenario_steps},
    "throughput": {"crossover": crossover_steps, "full decoding": throughput_steps},
    "ocr": {"speed of reading": ocr_figure_steps},
}


def run_step(group: str, step: Step) -> list[Found]:
    """Run a step and return its findings, with the group of its checks."""
    return [
        replace(found, group=group) if isinstance(found, Check) else found for found in contained(step.name, step.run())
    ]


class GroupWorker:
    """State of the worker between requests."""

    def start(self, part: str, group: str, device: str, effort: str, folder: str) -> dict[str, Any]:
        """Make the steps of a group, and return their names."""
        warnings.simplefilter("ignore")  # fallbacks warn, and are looked at here one by one
        self._group = group
        self._steps = PARTS[part][group](Bench(torch.device(device), EFFORTS[effort], Path(folder)))
        return {"steps": [step.name for step in self._steps]}

    def run(self, number: int) -> dict[str, Any]:
        """Run a step."""
        return {"found": [to_line(found) for found in run_step(self._group, self._steps[number])]}


if __name__ == "__main__":
    serve(GroupWorker())
