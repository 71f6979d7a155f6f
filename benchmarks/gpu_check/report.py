"""The findings of `benchmarks.gpu_check` as JSON, Markdown, a chart and an exit code."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..media.reporting import SCHEMA_VERSION
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import can_draw, fact_list
from ..text.ocr_readers import OURS
from .ocr import OCR_TABLE
from .records import FAIL, NOT_RUN, PASS, Check, Figure, Found, Target
from .scenarios import SCENARIOS_TABLE
from .throughput import CROSSOVER_TABLE, THROUGHPUT_TABLE, crossover_rule

Row = dict[str, Any]


class Report:
    """All findings, in order.

    Args:
        machine: Facts that affect the results.
        found: Checks, figures and targets.
        is_complete: Whether the run came to its end.
    """

    def __init__(self, machine: Mapping[str, str], found: Sequence[Found], *, is_complete: bool) -> None:
        self.machine = dict(machine)
        self.is_complete = is_complete
        self.checks = [one for one in found if isinstance(one, Check)]
        self.targets = [one for one in found if isinstance(one, Target)]
        self.tables: dict[str, list[Row]] = {}
        for one in found:
            if isinstance(one, Figure):
                self.tables.setdefault(one.table, []).append(dict(one.row))

    @property
    def rule(self) -> list[str]:
        """Return the number of frames from which NVDEC is faster than the hybrid path, by size."""
        return crossover_rule(self.tables.get(CROSSOVER_TABLE, []))


def summary(report: Report) -> str:
    """Return a line that only claims checks that were run."""
    counts = Counter(check.status for check in report.checks)
    words = f"{counts[PASS]} checks passed, {counts[FAIL]} failed, {counts[NOT_RUN]} were not run"
    if report.tables:
        words += f", {sum(map(len, report.tables.values()))} rows of figures"
    words += "" if report.is_complete else "; the run did not come to its end"
    words += "" if "GPU" in report.machine and report.machine["GPU"][:4] != "none" else "; nothing ran on a GPU"
    return words + "."


def exit_code(report: Report) -> int:
    """Return 1 if a check failed, if the run is incomplete, or if there are no findings; else 0."""
    has_failed = any(check.status == FAIL for check in report.checks)
    has_found = any(check.status == PASS for check in report.checks) or any(report.tables.values())
    return int(has_failed or not report.is_complete or not has_found)


def to_json(report: Report) -> dict[str, Any]:
    """Return the document for `json.dumps`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "machine": report.machine,
        "is_complete": report.is_complete,
        "summary": summary(report),
        "checks": [asdict(check) for check in report.checks],
        "targets": [asdict(target) for target in report.targets],
        "tables": report.tables,
        "rule": report.rule,
    }


def to_markdown(report: Report) -> str:
    """Format the document as headings, lists and tables, with failures first."""
    parts = [
        summary(report),
        "\n## Machine and versions\n",
        fact_list(report.machine),
    ]
    if failed := [check for check in report.checks if check.status == FAIL]:
        parts += ["\n## Failed\n", _check_table(failed)]
    if report.targets:
        head = ["target", "reached", "figure"]
        words = {True: "yes", False: "**no**", None: "not measured"}
        parts += ["\n## Targets\n", _table(head, [[t.name, words[t.is_met], t.figure] for t in report.targets], set())]
    for group in dict.fromkeys(check.group for check in report.checks):
        parts += [f"\n## Checks: {group}\n", _check_table([one for one in report.checks if one.group == group])]
    for name, rows in report.tables.items():
        head = list(rows[0])
        numbers = {i for i, key in enumerate(head) if all(not isinstance(row[key], str) for row in rows)}
        parts += [f"\n## {name}\n", _table(head, [[_cell(row.get(key)) for key in head] for row in rows], numbers)]
        if name == CROSSOVER_TABLE and report.rule:
            parts += ["", *(f"- {sentence}" for sentence in report.rule)]
    return "\n".join(parts) + "\n"


def _check_table(checks: Sequence[Check]) -> str:
    statuses = {FAIL: f"**{FAIL}**"}
    lines = [[one.name, statuses.get(one.status, one.status), one.figure, one.reason] for one in checks]
    return _table(["check", "result", "figure", "reason"], lines, set())


def _table(head: Sequence[str], lines: Sequence[Sequence[str]], numbers: set[int]) -> str:
    rule = ["---:" if i in numbers else "---" for i in range(len(head))]
    escaped = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *escaped))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write(report: Report, folder: Path, name: str, *, has_chart: bool) -> None:
    """Write ``NAME.json`` and ``NAME.md``, each atomically, so that files are always complete.

    Args:
        report: The findings.
        folder: Output folder.
        name: Name of the files.
        has_chart: Also draw ``NAME.png``, if there is something to draw and matplotlib is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"json": json.dumps(to_json(report), indent=2) + "\n", "md": to_markdown(report)}
    for extension, text in texts.items():
        draft = folder / f"{name}-{os.getpid()}.draft"
        draft.write_text(text, encoding="utf-8")
        draft.replace(folder / f"{name}.{extension}")
    lines = _panels(report)
    if has_chart and lines and can_draw():
        draw_panels(report.machine.get("GPU", ""), lines, folder / f"{name}.png")


def _panels(report: Report) -> list[list[Panel]]:
    """Arrange two panels per line: the scenarios, full decoding, OCR."""
    tables = report.tables
    panels = [
        *_grouped(tables.get(SCENARIOS_TABLE, []), ("clip", "scenario"), ("way",), "frames/s"),
        *_grouped(tables.get(THROUGHPUT_TABLE, []), ("clip",), ("way", "decoders"), "frames/s"),
        *_grouped(tables.get(OCR_TABLE, []), ("precision",), ("device", "pages at a time"), "pages/s"),
    ]
    if len(panels) % 2:
        panels.append(Panel("", "", []))
    return [panels[i : i + 2] for i in range(0, len(panels), 2)]


def _grouped(rows: Sequence[Row], titles: Sequence[str], names: Sequence[str], unit: str) -> list[Panel]:
    panels: dict[str, list[Bar]] = {}
    for row in rows:
        value = row.get(unit)
        if value is not None:
            name = " x ".join(str(row[key]) for key in names)
            bars = panels.setdefault(": ".join(str(row[key]) for key in titles), [])
            bars.append(Bar(name if "alone" in name or "torchcodec" in name else f"{OURS} {name}", float(value)))
    return [Panel(title, f"{unit} (more is better)", bars) for title, bars in panels.items()]
