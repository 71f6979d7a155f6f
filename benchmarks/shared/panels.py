"""Draw a run as bars: for each set, the accuracy and the time."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..text.ocr_readers import OURS

_OURS, _THEIRS = "#1b7f5c", "#8a94a6"
_PANEL_INCHES, _BAR_INCHES = 4.6, 0.28


@dataclass(frozen=True)
class Bar:
    """A reader's value, and its spread below and above."""

    reader: str
    value: float
    below: float = 0.0
    above: float = 0.0


@dataclass(frozen=True)
class Panel:
    """Bars of one measure."""

    title: str
    unit: str
    bars: Sequence[Bar]


def draw_panels(title: str, lines: Sequence[Sequence[Panel]], path: Path) -> None:
    """Draw lines of panels, of as many panels each.

    Args:
        title: Above everything.
        lines: From top to bottom.
        path: The file to write; its extension decides on the format.
    """
    num_bars = max(len(panel.bars) for line in lines for panel in line)
    size = (2 + _PANEL_INCHES * len(lines[0]), 0.6 + len(lines) * (0.9 + _BAR_INCHES * num_bars))
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
    for axes, line in zip(figure.subplots(len(lines), len(lines[0]), squeeze=False).tolist(), lines, strict=True):
        for axis, panel in zip(axes, line, strict=True):
            _draw(axis, panel)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def _draw(axis: Any, panel: Panel) -> None:
    places = range(len(panel.bars))
    spread = [[bar.below for bar in panel.bars], [bar.above for bar in panel.bars]]
    colours = [_OURS if bar.reader.startswith(OURS) else _THEIRS for bar in panel.bars]
    values = [bar.value for bar in panel.bars]
    bars = axis.barh(
        places, values, xerr=spread if np.any(spread) else None, color=colours, ecolor="#333333", capsize=2
    )
    axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=4, fontsize=8)
    axis.set_yticks(places, [bar.reader for bar in panel.bars], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max((bar.value + bar.above for bar in panel.bars), default=1.0) or 1)
    axis.set_title(panel.title, fontsize=9)
    axis.set_xlabel(panel.unit, fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
