"""Draw a chart for each suite: medians in a panel for every clip and scenario, or bars of ratios if there are many."""

from __future__ import annotations

import importlib
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..shared.results import Row
from .libraries import EXACT, FLOORS, OURS, PEERS

_OURS, _THEIRS, _FLOOR, _BEHIND = "#1b7f5c", "#8a94a6", "#d9dde4", "#c8643c"
_PEER_MARKERS = dict(zip(PEERS, ("x", "+"), strict=True))
# With more panels than this, a chart is unreadable.
_MAX_PANELS = 16
_MAX_COLUMNS = 4
_BAR_INCHES = 0.24


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
    if len(panels) > _MAX_PANELS and (ratios := _ratios(panels)):
        figure = figure_module.Figure(figsize=(9.5, 1.6 + 0.29 * len(ratios)), layout="constrained")
        _draw_ratios(figure.subplots(), ratios)
        figure.suptitle(title)
        figure.savefig(path, dpi=110)
        return
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


def _ratios(panels: dict[tuple[str, str], list[Row]]) -> dict[tuple[str, str], dict[str, float]]:
    """Return speed relative to torchcodec's better setting: ours, ours in CPU time, and other libraries."""
    found = {}
    for key, rows in panels.items():
        beside = {row.library: row for row in rows}
        rivals = [beside[name] for name in EXACT if name in beside]
        if OURS not in beside or not rivals:
            continue
        wall = min(row.wall_median for row in rivals)
        cpu = min(row.cpu_median for row in rivals)
        found[key] = {name: wall / beside[name].wall_median for name in (OURS, *PEERS) if name in beside}
        found[key]["CPU"] = cpu / max(beside[OURS].cpu_median, 1e-6)
    return found


def _draw_ratios(axis: Any, ratios: dict[tuple[str, str], dict[str, float]]) -> None:
    """Draw a bar for each scenario, to the right of 1 if mediatensor is faster, grouped by clip."""
    places, place, last_clip = [], 0.0, next(iter(ratios))[0]
    for clip, _ in ratios:
        place += 1.0 if clip == last_clip else 1.7
        places.append(place)
        last_clip = clip
    ours = [ratio[OURS] for ratio in ratios.values()]
    colours = [_OURS if ratio >= 1 else _BEHIND for ratio in ours]
    axis.barh(places, [ratio - 1 for ratio in ours], left=1, color=colours, height=0.7)
    axis.set_xscale("log")
    for name, marker, label in (
        ("CPU", "D", "mediatensor in CPU time"),
        *((peer, marker, peer) for peer, marker in _PEER_MARKERS.items()),
    ):
        points = [(ratio[name], at) for ratio, at in zip(ratios.values(), places, strict=True) if name in ratio]
        if points:
            face = "none" if marker == "D" else "#333333"
            axis.scatter(*zip(*points, strict=True), s=22, marker=marker, color="#333333", facecolor=face, label=label)
    for ratio, at in zip(ours, places, strict=True):
        axis.annotate(f"{ratio:.2f}", (1.0, at), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=8, color=_OURS if ratio >= 1 else _BEHIND)  # fmt: skip
    axis.axvline(1, color="#333333", linewidth=0.8)
    axis.set_yticks(places, [": ".join(key) for key in ratios], fontsize=8)
    axis.set_ylim(places[-1] + 1, places[0] - 1)
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if min(ours) / 3 < tick < 3 * max(ours)]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel("times as fast as torchcodec, the better of one and all threads (bars: wall time)", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)


def _lines(panels: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Arrange panels in a row for each clip, or in rows of equal length if a clip has too many scenarios."""
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
    # A library that is many times slower would squash all other bars.
    if max(medians) > 20 * min(medians):
        axis.set_xscale("log")
        axis.set_xlim(left=min(medians) / 2)
        axis.set_xlabel("ms, logarithmic (less is better)", fontsize=8)
    axis.minorticks_off()


def _colour(library: str) -> str:
    if library in FLOORS:
        return _FLOOR
    return _OURS if library.startswith("mediatensor") else _THEIRS
