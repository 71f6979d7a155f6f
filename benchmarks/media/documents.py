"""Write the tables of ``docs/speed.md`` and of the README from a run of ``everyday``, between two marks."""

from __future__ import annotations

from pathlib import Path

from ..shared.results import Row
from .reporting import Report, speed_table, speed_table_in_short

_BEGIN = "<!-- Written by: python -m benchmarks everyday --update-docs -->\n"
_END = "<!-- End of the written part. -->\n"
_ROOT = Path(__file__).parents[2]
_CHART = "benchmarks/results/everyday.png"

#: The rows in the README, by the start of clip and scenario: common cases, with a win, a tie and a loss.
_IN_README = (
    ("340x256", "20 files: a random"),
    ("1080p60", "10 uniform"),
    ("427x240", "20 files: a random"),
    ("320x180", "first 390"),
)


def update_documents(report: Report, root: Path = _ROOT) -> None:
    """Write the figures of a run into the README and ``docs/speed.md``.

    Args:
        report: Report of the suite ``everyday``.
        root: Root folder of the checkout.

    Raises:
        ValueError: if a page has no place for them.
    """
    chosen = [row for begins in _IN_README for row in report.rows if _begins(row, *begins)]
    _replace(root / "README.md", f"{_about(report)}\n\n{speed_table_in_short(chosen)}\n")
    figures = f"{_about(report)}\n\n{speed_table(report.rows)}\n"
    if (root / _CHART).exists():  # from this run, if -o names this folder
        figures += f"\n![Times as fast as torchcodec](../{_CHART})\n"
    _replace(root / "docs" / "speed.md", figures)


def _begins(row: Row, clip: str, scenario: str) -> bool:
    return row.clip.startswith(clip) and row.scenario.startswith(scenario)


def _about(report: Report) -> str:
    machine = report.machine
    names = ("torchcodec", "OpenCV", "decord")
    versions = ", ".join(f"{name} {machine[name].split(' ')[0].split('+')[0]}" for name in names if name in machine)
    runs = max((len(row.wall_seconds) for row in report.rows), default=0)
    load = machine.get("load average at the start", "unknown").split()[0]
    where = f"{machine['cores'].split(',')[0]} cores with a load of {load} at the start"
    return f"{versions}; {where}, {machine['date'].split()[0]}, {_times(runs)}."


def _times(runs: int) -> str:
    return "one run of each" if runs == 1 else f"medians of {runs} runs"


def _replace(path: Path, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    if page.count(_BEGIN) != 1 or page.count(_END) != 1:
        raise ValueError(f"{path} must have the lines {_BEGIN.strip()!r} and {_END.strip()!r} once.")
    head, _, rest = page.partition(_BEGIN)
    path.write_text(f"{head}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
