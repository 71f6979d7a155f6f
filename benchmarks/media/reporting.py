"""Reports of a run: one JSON document, and Markdown for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..shared.reports import fact_list, markdown_table
from ..shared.results import Row
from .libraries import EXACT, OURS, PEERS
from .ratios import Ratio

#: Raised when a name or a meaning in the JSON document changes.
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Report:
    """The results of a run.

    Attributes:
        machine: Facts that affect the numbers.
        clips: Descriptions of clips by "suite: name".
        rows: Rows of all suites.
        ratios: Targets and their measurements.
        notes: Failures of libraries.
    """

    machine: dict[str, str]
    clips: dict[str, str]
    rows: Sequence[Row]
    ratios: Sequence[Ratio]
    notes: Sequence[str]


def to_json(report: Report) -> dict[str, Any]:
    """Return the document for `json.dumps`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": report.machine,
        "clips": report.clips,
        "rows": [asdict(row) for row in report.rows],
        "ratios": [asdict(ratio) for ratio in report.ratios],
        "notes": list(report.notes),
    }


def to_markdown(report: Report) -> str:
    """Format the document as headings, lists and tables."""
    parts = [
        "## Machine and versions\n",
        fact_list(report.machine),
        "\n## Clips\n",
        fact_list(report.clips),
    ]
    if report.ratios:
        parts += ["\n## Targets\n", _ratio_table(report.ratios)]
    for suite, of_suite in itertools.groupby(report.rows, lambda row: row.suite):
        rows = list(of_suite)
        if table := speed_table(rows):
            parts += [f"\n## {suite}: in short\n", table]
        if len([library for library in _libraries(rows) if library.startswith(OURS)]) > 1:
            parts += [f"\n## {suite}: each library, wall and CPU ms\n", _matrix(rows)]
    for (suite, clip, scenario), rows in itertools.groupby(report.rows, lambda r: (r.suite, r.clip, r.scenario)):
        parts += [f"\n## {suite}: {clip}: {scenario}\n", _row_table(list(rows))]
    if report.notes:
        parts += ["\n## Notes\n", *(f"- {note}" for note in report.notes)]
    return "\n".join(parts) + "\n"


def _ratio_table(ratios: Sequence[Ratio]) -> str:
    head = ["clip", "scenario", "ours", "against", "times as fast", "at least", "aim", "reached", "CPU ratio"]
    head += ["ours ms", "theirs ms", "floor ms"]
    lines = [
        (
            ratio.clip,
            ratio.scenario,
            ratio.ours,
            ratio.rival,
            f"{ratio.wall_ratio:.2f}",
            f"{ratio.at_least:.2f}",
            "" if ratio.aim is None else f"{ratio.aim:.2f}",
            "yes" if ratio.is_met else "**no**",
            f"{ratio.cpu_ratio:.2f}",
            _milliseconds(ratio.ours_seconds),
            _milliseconds(ratio.rival_seconds),
            "" if ratio.floor_seconds is None else _milliseconds(ratio.floor_seconds),
        )
        for ratio in ratios
    ]
    return markdown_table(head, lines, 4)


def speed_table(rows: Sequence[Row]) -> str:
    """Format medians with quartiles of mediatensor and torchcodec's better setting, and medians of other libraries.

    CPU time is compared with the cheapest setting. Memory is what a run takes beside its largest batch, of mediatensor
    and of the faster setting. The table is empty unless both were measured.
    """
    head = ["clip", "work", "mediatensor, ms", "torchcodec, ms", "times as fast", "in CPU time", "memory, MiB"]
    head += [*PEERS, "identical"]
    lines = [
        [
            *work,
            _with_quartiles(ours),
            _with_quartiles(rival),
            _times(rival.wall_median, ours.wall_median),
            _times(rival_cpu, ours.cpu_median),
            f"{_memory_mib(ours):.0f} / {_memory_mib(rival):.0f}",
            *(_milliseconds(beside[name].wall_median) if name in beside else "" for name in PEERS),
            _identical(ours),
        ]
        for work, beside, ours, rival, rival_cpu in _against_rivals(rows)
    ]
    return markdown_table(head, lines, 2) if lines else ""


def speed_table_in_short(rows: Sequence[Row]) -> str:
    """Format the speed table with fewer columns."""
    head = ["", "mediatensor", "torchcodec", "times as fast", "in CPU time"]
    lines = [
        [
            ": ".join(work),
            f"{_milliseconds(ours.wall_median)} ms",
            f"{_milliseconds(rival.wall_median)} ms",
            _times(rival.wall_median, ours.wall_median),
            _times(rival_cpu, ours.cpu_median),
        ]
        for work, _, ours, rival, rival_cpu in _against_rivals(rows)
    ]
    return markdown_table(head, lines, 1)


def _against_rivals(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], dict[str, Row], Row, Row, float]]:
    """(clip and scenario, rows by library, ours, the faster rival, the least CPU seconds of a rival)."""
    for work, beside in _by_work(rows):
        rivals = [beside[name] for name in EXACT if name in beside]
        if OURS in beside and rivals:
            rival = min(rivals, key=lambda row: row.wall_median)
            yield work, beside, beside[OURS], rival, min(row.cpu_median for row in rivals)


def _matrix(rows: Sequence[Row]) -> str:
    """Format a line for each scenario and a column for each library, with kernel time and page faults if relevant."""
    libraries = _libraries(rows)
    lines = [
        [clip, scenario, *(_short(beside[library]) if library in beside else "" for library in libraries)]
        for (clip, scenario), beside in _by_work(rows)
    ]
    head = ["clip", "work", *libraries]
    return markdown_table(head, lines, 2)


def _short(row: Row) -> str:
    text = f"{_milliseconds(row.wall_median)} / {_milliseconds(row.cpu_median)}"
    if row.system_median and row.system_median > 0.1 * row.cpu_median:
        text += f", {_milliseconds(row.system_median)} in the kernel"
    return text


def _by_work(rows: Sequence[Row]) -> list[tuple[tuple[str, str], dict[str, Row]]]:
    groups = itertools.groupby(rows, lambda row: (row.clip, row.scenario))
    return [(work, {row.library: row for row in of_work}) for work, of_work in groups]


def _libraries(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.library for row in rows))


def _with_quartiles(row: Row) -> str:
    text = _milliseconds(row.wall_median)
    if len(row.wall_seconds) > 1:
        text += f" ({_milliseconds(row.wall_first_quartile)}-{_milliseconds(row.wall_third_quartile)})"
    return text


def _memory_mib(row: Row) -> float:
    """Return the largest resident set in MiB, without the imports and without the largest batch."""
    return max(0.0, row.peak_rss_mib - row.rss_before_mib - row.batch_mib)


def _times(theirs: float, ours: float) -> str:
    times = theirs / max(ours, 1e-6)
    text = f"{times:.2f}" if times < 10 else f"{times:.0f}"
    return text if times >= 1 else f"**{text}**"


def _row_table(rows: Sequence[Row]) -> str:
    head = ["library", "median ms", "quartiles ms", "CPU ms", "in the kernel ms", "page faults", "frames/s"]
    head += ["decoded per frame", "peak RSS MiB", "before", "identical frames", "runs"]
    lines = [
        (
            row.library,
            _milliseconds(row.wall_median),
            f"{_milliseconds(row.wall_first_quartile)}-{_milliseconds(row.wall_third_quartile)}",
            _milliseconds(row.cpu_median),
            "" if row.system_median is None else _milliseconds(row.system_median),
            "" if row.page_faults is None else f"{row.page_faults:.0f}",
            f"{row.num_frames / row.wall_median:.1f}" if row.num_frames else "",
            "" if row.decoded_per_frame is None else f"{row.decoded_per_frame:.2f}",
            f"{row.peak_rss_mib:.0f}",
            f"{row.rss_before_mib:.0f}",
            _identical(row),
            str(len(row.wall_seconds)),
        )
        for row in rows
    ]
    return markdown_table(head, lines, 1)


def _identical(row: Row) -> str:
    if not row.compared:
        return ""
    off = f", off by up to {row.largest_difference}" if row.identical < row.compared else ""
    return f"{row.identical} of {row.compared}{off}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"
