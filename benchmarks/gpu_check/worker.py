"""Runs the steps of a group, in this process or as one that may die: ``python -m benchmarks.gpu_check.worker JSON``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from .bench import EFFORTS, Bench
from .life import life_steps
from .ocr import ocr_check_steps, ocr_figure_steps
from .pixels import pixel_steps
from .records import NOT_RUN, Check, Records, Step, contained
from .scenarios import scenario_steps
from .streams import stream_steps
from .throughput import crossover_steps, throughput_steps

__all__ = ["PARTS", "main", "run_group"]

#: Groups by name, and what makes their steps, by part of the run.
PARTS: dict[str, dict[str, Callable[[Bench], list[Step]]]] = {
    "checks": {"pixels": pixel_steps, "life": life_steps, "streams": stream_steps, "reading": ocr_check_steps},
    "decode": {"scenarios": scenario_steps},
    "throughput": {"crossover": crossover_steps, "full decoding": throughput_steps},
    "ocr": {"speed of reading": ocr_figure_steps},
}


def run_group(part: str, group: str, bench: Bench, records: Records, deadline: float, first: int = 0) -> None:
    """Run the steps of a group, and keep what they find.

    Args:
        part: Key of `PARTS`.
        group: Key in it.
        bench: Where to run.
        records: Gets what is found.
        deadline: By `time.time`: steps that would begin later are not run.
        first: How many steps are left out.
    """
    for step in PARTS[part][group](bench)[first:]:
        records.begin(group, step.name)
        if time.time() > deadline:
            records.add(Check(step.name, NOT_RUN, reason="no time was left (--budget)", group=group))
        else:
            for found in contained(step.name, step.run()):
                records.add(replace(found, group=group) if isinstance(found, Check) else found)
        records.end(group, step.name)


def main() -> None:
    """Run a group as the argument says."""
    request = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")  # fallbacks warn, and are looked at here one by one
    bench = Bench(torch.device(request["device"]), EFFORTS[request["effort"]], Path(request["folder"]))
    records = Records(Path(request["records"]))
    run_group(request["part"], request["group"], bench, records, request["deadline"], request["first"])


if __name__ == "__main__":
    main()
