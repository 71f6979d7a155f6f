"""Compare mediatensor with other video decoders, libraries alternating, each run in a new process."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .media.chart import draw_chart
from .media.documents import update_documents
from .media.libraries import LIBRARIES, OURS_BESIDE
from .media.measuring import Effort, Interpreter, Measurement, measure_suite
from .media.ratios import compute_ratios
from .media.reporting import Report, to_json, to_markdown
from .media.suites import SUITES, Suite, part_of, quick_suite
from .shared.machine import machine_stamp
from .shared.options import add_folders, add_python, check_counts
from .shared.reports import can_draw, say, write_report


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    names = list(SUITES) if "all" in options.suites else list(dict.fromkeys(options.suites))
    suites = {name: part_of(SUITES[name](), options.only) for name in names}
    if not any(suite.plan for suite in suites.values()):
        sys.exit(f"No clip and scenario of {', '.join(names)} contain {' and '.join(options.only)}.")
    if options.quick:
        suites = {name: quick_suite(suite) for name, suite in suites.items()}
    repeats = options.repeats or (1 if options.quick else Effort.repeats)
    effort = Effort(repeats, options.budget, options.minutes, keeps_workers=options.quick)
    interpreter = Interpreter(options.python, options.beside)
    for name, suite in suites.items():
        runs = "a trial with tiny clips, whatever their names say" if options.quick else "each in a new process"
        stamp = machine_stamp() | {"runs": f"up to {repeats}, {runs}"}
        begin = time.perf_counter()
        measured = measure_suite(name, suite, options.clips, options.libraries, effort, say, interpreter=interpreter)
        say(f"{name}: took {time.perf_counter() - begin:.0f} s")
        report = _report(stamp, name, suite, measured, wants_chart=bool(options.output))
        draw = partial(draw_chart, suite.title, report.rows) if report.rows else None
        write_report(options.output, name, to_json(report), to_markdown(report), draw)
        if not measured.is_complete:
            return
        if options.update_docs:
            update_documents(report)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suites", nargs="+", metavar="SUITE", choices=[*SUITES, "all"], help=f"{', '.join(SUITES)}, all"
    )
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny clips and one run")
    parser.add_argument(
        "--repeats", type=int, help=f"timed runs of each library (default: {Effort.repeats}, with --quick 1)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=Effort.budget_seconds,
        metavar="SECONDS",
        help="stop repeating a library in a scenario after this time (default: %(default)g)",
    )
    parser.add_argument("--minutes", type=float, help="time limit of a suite; at least one round is run")
    parser.add_argument("--libraries", nargs="+", default=[], choices=list(LIBRARIES), metavar="NAME")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help='measure where "clip: scenario" contains all of these'
    )
    parser.add_argument(
        "--beside", type=Path, metavar="FOLDER", help=f"the src folder of another checkout, measured as {OURS_BESIDE!r}"
    )
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="put the tables of a run of everyday into docs/speed.md and README.md",
    )
    add_python(parser)
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "repeats")
    if options.update_docs and options.suites != ["everyday"]:
        parser.error("--update-docs needs everyday as the only suite")
    if options.update_docs and options.quick:
        parser.error("--update-docs takes real figures, and --quick measures tiny clips")
    return options


def _report(stamp: dict[str, str], name: str, suite: Suite, measured: Measurement, *, wants_chart: bool) -> Report:
    notes = list(dict.fromkeys(measured.notes))
    if wants_chart and not can_draw():
        notes.append("No chart was drawn, because matplotlib is not installed.")
    clips = {f"{name}: {clip.name}": clip.description for clip in suite.clips}
    return Report(stamp | measured.versions, clips, measured.rows, compute_ratios(measured.rows), notes)


if __name__ == "__main__":
    main()
