"""The report of a soak: series, fitted lines, a table, and the chart."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..shared.processes import Usage
from ..shared.reports import fact_list

#: (label, accepted rise of the line from the warm-up to the end) by field of `Usage`.
MEASURES: dict[str, tuple[str, float]] = {
    "num_handles": ("file handles", 2.0),
    "num_threads": ("threads", 0.5),
    "num_children": ("child processes", 0.5),
    "num_files": ("leftover files", 0.5),
    "rss_mib": ("RSS, MiB", 12.0),
    "pss_mib": ("PSS, MiB", 12.0),
}
# Share of a series for the warm-up, in which caches fill and allocators grow.
_WARM_UP = 1 / 3


@dataclass(frozen=True)
class Trend:
    """A line fitted to a series after the warm-up.

    Attributes:
        measure: Field of `Usage`.
        level: The median.
        slope_per_thousand_steps: Slope of the line.
        rise: Rise of the line from the warm-up to the end.
        is_flat: Whether it rises by next to nothing.
    """

    measure: str
    level: float
    slope_per_thousand_steps: float
    rise: float
    is_flat: bool


@dataclass
class Series:
    """Resources of a process, step by step."""

    steps: list[int] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def add(self, step: int, usage: Usage) -> None:
        """Add the resources held after a step."""
        self.steps.append(step)
        self.usages.append(usage)

    def values(self, measure: str) -> list[float]:
        """Return one measure, step by step."""
        return [getattr(usage, measure) for usage in self.usages]

    @property
    def measures(self) -> list[str]:
        """The recorded `MEASURES`."""
        return [measure for measure in MEASURES if hasattr(self.usages[0], measure)]

    def trends(self) -> list[Trend]:
        """Return the line of each measure."""
        first = int(len(self.steps) * _WARM_UP)
        return [_trend(measure, self.steps[first:], self.values(measure)[first:]) for measure in self.measures]


class Watched(Protocol):
    """A part of a soak."""

    name: str
    unit: str
    seconds: float
    series: dict[str, Series]
    facts: dict[str, Any]


def _trend(measure: str, steps: Sequence[int], values: Sequence[float]) -> Trend:
    """Fit a line by least squares; a single step has no slope."""
    slope = float(np.polyfit(steps, values, 1)[0]) if len(set(steps)) > 1 else 0.0
    rise = slope * (steps[-1] - steps[0])
    return Trend(measure, float(np.median(values)), 1000 * slope, rise, rise <= MEASURES[measure][1])


def to_markdown(stamp: Mapping[str, str], parts: Sequence[Watched]) -> str:
    """Format the report as lists and tables."""
    text = ["## Machine", "", fact_list(stamp)]
    for part in parts:
        text += ["", f"## {part.name}", "", f"- seconds: {part.seconds:.0f}"]
        text += [f"- {name.replace('_', ' ')}: {_words(fact)}" for name, fact in part.facts.items()]
        text += ["", f"| process | what | median | rise after the warm-up | a thousand {part.unit} | flat |"]
        text += ["| --- | --- | ---: | ---: | ---: | --- |"]
        for process, series in part.series.items():
            text += [_line(process, trend) for trend in series.trends()]
    return "\n".join(text) + "\n"


def _words(fact: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in fact.items()) if isinstance(fact, dict) else str(fact)


def _line(process: str, trend: Trend) -> str:
    label, _ = MEASURES[trend.measure]
    numbers = f"{trend.level:.4g} | {trend.rise:+.2f} | {trend.slope_per_thousand_steps:+.3f}"
    return f"| {process} | {label} | {numbers} | {'yes' if trend.is_flat else '**no**'} |"


def draw(parts: Sequence[Watched], path: Path) -> None:
    """Draw the recorded measures of each part and process: handles, threads, memory and more.

    Args:
        parts: From left to right.
        path: The file to write; its extension decides on the format.
    """
    measures = next(iter(parts[0].series.values())).measures
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(max(7.0, 1 + 4.2 * len(parts)), 2.5 * len(measures)), layout="constrained"
    )
    grid = figure.subplots(len(measures), len(parts), squeeze=False)
    for column, part in enumerate(parts):
        for line, measure in enumerate(measures):
            label, axis = MEASURES[measure][0], grid[line][column]
            for process, series in part.series.items():
                axis.plot(series.steps, series.values(measure), label=process, linewidth=1)
            highest = max(max(series.values(measure)) for series in part.series.values())
            axis.set_ylim(0, 1.25 * max(highest, 1))
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
            if column == 0:
                axis.set_ylabel(label, fontsize=9)
            if line == 0:
                axis.set_title(part.name, fontsize=9)
                axis.legend(fontsize=7, loc="lower right")
        grid[-1][column].set_xlabel(part.unit, fontsize=8)
    figure.suptitle("Resources held during the work")
    figure.savefig(path, dpi=110)
