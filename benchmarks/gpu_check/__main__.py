"""Check and measure everything that runs on a GPU, in one command: ``python -m benchmarks.gpu_check``.

``--part checks`` checks frames, streams, fallbacks and words; ``decode`` measures the published scenarios,
``throughput`` full decoding and the break-even point of NVDEC, ``ocr`` pages a second. By default, all parts are run.
The command generates its media, and needs no network. Results are written during the run to ``gpu_check[-PART].json``
and ``.md``, so that a killed run keeps its results.

The exit code is 0 if all checks that were run passed, 1 if one failed, and 2 without a GPU. Checks that were not run
are reported as not run, with the reason, and never count as passed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from ..shared.options import add_folders
from ..shared.reports import say
from .machine import stamp
from .records import Found
from .report import Report, exit_code, summary, to_markdown, write
from .running import Plan, run_part
from .worker import PARTS

NO_GPU = "no CUDA device: nothing was checked (--device cpu tries this program itself, without a GPU)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, check, measure, report; returns the exit code."""
    options = _parse(arguments)
    if options.device is None and not torch.cuda.is_available():
        print(NO_GPU)
        return 2
    device = torch.device(options.device or "cuda:0")
    if device.type == "cuda":
        if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
            print(f"no CUDA device {device}: nothing was checked")
            return 2
        device = torch.device("cuda", device.index or 0)
    warnings.simplefilter("ignore")  # fallbacks warn, and the checks inspect each of them
    name = "gpu_check" if options.part is None else f"gpu_check-{options.part}"
    options.output.mkdir(parents=True, exist_ok=True)
    found: list[Found] = []
    machine = stamp(device) | {"device": str(device), "effort": options.effort}

    def save() -> None:
        write(Report(machine, found, is_complete=False), options.output, name, has_chart=False)

    has_processes = device.type == "cuda" and not options.one_process
    plan = Plan(str(device), options.effort, options.clips, options.budget, has_processes)
    for part in PARTS if options.part is None else [options.part]:
        run_part(plan, part, found, say, save)
    report = Report(machine, found, is_complete=True)
    write(report, options.output, name, has_chart=True)
    print(to_markdown(report))
    print(summary(report))
    return exit_code(report)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", choices=list(PARTS), help="only this part (default: all)")
    parser.add_argument("--device", help='"cuda:1", or "cpu" to try the program itself (default: cuda:0)')
    efforts = parser.add_mutually_exclusive_group()
    efforts.add_argument(
        "--quick", action="store_const", const="quick", dest="effort", help="about five minutes for everything"
    )
    efforts.add_argument(
        "--tiny", action="store_const", const="tiny", dest="effort", help="tiny sizes that a CPU finishes in seconds"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=480,
        metavar="SECONDS",
        help="time limit of each part; steps that would begin later are not run (default: %(default)g)",
    )
    parser.add_argument("--one-process", action="store_true", help="run groups of checks in this process")
    add_folders(parser)
    parser.set_defaults(output=Path("benchmark-results"), effort="full")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
