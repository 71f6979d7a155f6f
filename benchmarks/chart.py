"""One picture for each suite: bars of the medians, a panel for every clip and scenario."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .libraries import FLOORS
from .results import Row

__all__ = ["can_draw", "draw_chart"]

_OURS, _THEIRS, _FLOOR = "#1b7f5c", "#8a94a6", "#d9dde4"
_MAX_COLUMNS = 4
_BAR_INCHES = 0.24


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_chart(title: str, rows: Sequence[Row], path: Path) -> None:
    """Draw rows of one suite.

    Args:
        title: Above everything.
        rows: Of one suite.
        path: The file to write; its extension decides on the format.
    """
    figure_module = importlib.import_module("matplotlib.figure")
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((row.clip, row.scenario), []).append(row)
    lines = _lines(list(panels))
    num_columns = max(map(len, lines))
    num_bars = max(len(panel) for panel in panels.values())
    size = (2.5 + 3.3 * num_columns, 0.6 + len(lines) * (0.9 + _BAR_INCHES * num_bars))
    figure = figure_module.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(lines), num_columns, squeeze=False)
    for line_of_axes, line in zip(axes.tolist(), lines, strict=True):
        for axis, key, on_the_left in itertools.zip_longest(line_of_axes, line, [None, *line[:-1]]):
            if key is None:
                axis.set_axis_off()
                continue
            _draw_panel(axis, ": ".join(key), panels[key])
            if on_the_left and _libraries(panels[key]) == _libraries(panels[on_the_left]):
                axis.set_yticklabels([])
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def _lines(panels: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """A line for each clip; where a clip has too many scenarios for that, lines of the same length."""
    by_clip = [list(group) for _, group in itertools.groupby(panels, lambda panel: panel[0])]
    if max(map(len, by_clip)) <= _MAX_COLUMNS:
        return by_clip
    return [list(panels[i : i + _MAX_COLUMNS - 1]) for i in range(0, len(panels), _MAX_COLUMNS - 1)]


def _libraries(rows: Sequence[Row]) -> list[str]:
    return [row.library for row in rows]


def _draw_panel(axis: Any, title: str, rows: Sequence[Row]) -> None:
    medians = [row.wall_median * 1e3 for row in rows]
    spread = [
        [(row.wall_median - row.wall_first_quartile) * 1e3 for row in rows],
        [(row.wall_third_quartile - row.wall_median) * 1e3 for row in rows],
    ]
    places = range(len(rows))
    axis.barh(places, medians, xerr=spread, color=[_colour(row.library) for row in rows], ecolor="#333333", capsize=2)
    axis.set_yticks(places, [row.library for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_title("\n".join(textwrap.wrap(title, 36)), fontsize=9)
    axis.set_xlabel("ms (less is better)", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    # A library that is many times slower would press all others against the edge.
    if max(medians) > 20 * min(medians):
        axis.set_xscale("log")
        axis.set_xlim(left=min(medians) / 2)
        axis.set_xlabel("ms, logarithmic (less is better)", fontsize=8)
    axis.minorticks_off()


def _colour(library: str) -> str:
    if library in FLOORS:
        return _FLOOR
    return _OURS if library.startswith("mediatensor") else _THEIRS
