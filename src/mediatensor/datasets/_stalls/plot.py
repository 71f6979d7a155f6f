"""The picture of a stall meter: how long each batch was waited for, and what all the time went into."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..._common.checks import path_text
from ..._sources import writing
from ...errors import MissingDependencyError
from .facts import OTHER, OTHER_THREAD, EpochRecord, StallFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["counted", "plot_stalls", "save_figure", "table"]

_BAR_WIDTH = 30
_LINE_LENGTH = 100


def table(facts: StallFacts, advice: Sequence[str]) -> str:
    """A table of text, to be printed."""
    if not facts.num_batches:
        return "No batch was watched."
    return "\n".join(_lines(facts, advice))


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "batch"), counted(3, "batch"), counted(0, "worker")
    ('1 batch', '3 batches', 'no workers')
    """
    ending = "" if number == 1 else "es" if noun == "batch" else "s"
    return f"{number or 'no'} {noun}{ending}"


def _lines(facts: StallFacts, advice: Sequence[str]) -> Iterator[str]:
    readers = "" if facts.num_workers is None else f", {counted(facts.num_workers, 'worker')} on"
    yield (
        f"The loop waited {100 * facts.wait_share:.0f} % of {_seconds(facts.elapsed_seconds)}: "
        f"{counted(facts.num_batches, 'batch')} in {counted(facts.num_epochs, 'epoch')}"
        f"{readers or ','} {counted(facts.num_cores, 'core')}."
    )
    firsts = ", ".join(map(_seconds, facts.first_batch_seconds[:5])) + (", ..." if facts.num_epochs > 5 else "")
    yield f"First {'batch' if facts.num_epochs == 1 else 'batches'}, not counted in it: {firsts}"
    elapsed = facts.elapsed_seconds
    loop = {"working": elapsed - facts.waited_seconds, "waiting": facts.waited_seconds}
    yield from _bars("loop", loop, elapsed)
    if facts.worker_busy_shares:
        causes = {"for an uneven batch": facts.uneven_seconds, "for a hand-over": facts.handover_seconds}
        yield from (f"    {name:<19} {_share(spent, elapsed)}  {_seconds(spent)}" for name, spent in causes.items())
        busy = {_worker(number): share * elapsed for number, share in facts.worker_busy_shares.items()}
        yield from _bars("workers, busy", busy, elapsed)
    if facts.mean_num_ready is not None:
        yield f"  batches ready, on average: {facts.mean_num_ready:.1f}"
    if facts.stage_seconds:
        yield from _bars("reading, all workers", facts.stage_seconds, facts.read_seconds)
    if facts.loop_stage_seconds:
        yield from _bars("in the loop, while it waits", facts.loop_stage_seconds, None)
    yield ""
    for sentence in advice:
        yield textwrap.fill(sentence, _LINE_LENGTH, initial_indent="* ", subsequent_indent="  ")


def _bars(title: str, seconds: Mapping[str, float], total: float | None) -> Iterator[str]:
    total = sum(seconds.values()) if total is None else total
    yield ""
    yield title
    for name, spent in seconds.items():
        bar = "#" * round(_BAR_WIDTH * spent / total) if total else ""
        yield f"  {name:<10} {bar:<{_BAR_WIDTH}} {_share(spent, total)}  {_seconds(spent)}"


def _worker(number: int) -> str:
    return "thread" if number == OTHER_THREAD else f"worker {number}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:3.0f} %"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


_WORKING, _WAITING, _IDLE = "#4c78a8", "#e4572e", "#e6e6e6"
_STAGE_COLOURS = {
    "open": "#b279a2",
    "index": "#d6a5c9",
    "seek": "#eeca3b",
    "decode": "#54a24b",
    "convert": "#88d27a",
    "transform": "#439894",
    "collate": "#83bcb6",
    "copy": "#9ecae9",
    OTHER: "#9d9d9d",
}

# More bars than this are no more to be told apart: then each stands for the mean of several batches.
_MAX_BARS = 240

# How many bars that reach beyond the picture are given their height in writing.
_MAX_NAMED = 5

# Parts of a bar that are smaller, in percent, are named in the legend alone.
_MIN_LABELLED = 7.0


def plot_stalls(epochs: Sequence[EpochRecord], facts: StallFacts) -> Figure:
    """Draw the batches of all epochs above, and the shares of all time below.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError('Figures need matplotlib: pip install "mediatensor[plot]".') from None
    figure = Figure(figsize=(10, 5.6), dpi=130, layout="constrained")
    batches, shares = figure.subplots(2, 1, height_ratios=(2.2, 1))
    figure.suptitle(
        f"The training loop waited {100 * facts.wait_share:.0f} % of its time for input", fontsize=14, fontweight="bold"
    )
    _draw_batches(batches, [epoch for epoch in epochs if len(epoch.given)], facts)
    _draw_shares(shares, _rows(facts))
    for axes in (batches, shares):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that the extension says; without one, matplotlib's usual one is added.

    Raises:
        WriteError: if the file cannot be written.
    """
    stem, extension = os.path.splitext(path_text("path", path))
    kind = extension[1:] or figure.canvas.get_default_filetype()
    with writing(f"{stem}.{kind}") as file:
        figure.savefig(file, format=kind)


def _draw_batches(axes: Axes, epochs: Sequence[EpochRecord], facts: StallFacts) -> None:
    waited, worked = _milliseconds(epochs)
    per_bar = max(1, math.ceil(len(waited) / _MAX_BARS))
    heights = [_means(one, per_bar) for one in (worked, waited)]
    left = np.arange(len(heights[0])) * per_bar
    width = per_bar * (0.88 if len(left) <= 80 else 1.0)
    axes.bar(left, heights[0], color=_WORKING, label="working", width=width, align="edge")
    axes.bar(left, heights[1], bottom=heights[0], color=_WAITING, label="waiting for input", width=width, align="edge")
    axes.set_xlim(0, max(1, len(waited)))
    total = heights[0] + heights[1]
    top = _top(total) if len(total) else 1.0
    axes.set_ylim(0, top)
    for bar in np.argsort(-total)[:_MAX_NAMED]:
        if total[bar] > top:  # it would make all others small
            place, text = (left[bar] + per_bar / 2, top), f"{total[bar]:.0f} ms"
            axes.annotate(text, place, ha="center", va="bottom", fontsize=8, annotation_clip=False)
    _mark_epochs(axes, epochs, top)
    axes.locator_params(axis="x", integer=True)  # there is no batch 2.5
    axes.set_ylabel("milliseconds")
    firsts = f"first batch of each epoch left out (mean {1e3 * float(np.mean(facts.first_batch_seconds or 0)):.0f} ms)"
    means = "" if per_bar == 1 else f", means of {per_bar}"
    axes.set_xlabel(f"batch{means}; {firsts}")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1.06), ncols=2, frameon=False, borderaxespad=0)


def _mark_epochs(axes: Axes, epochs: Sequence[EpochRecord], top: float) -> None:
    ends = np.cumsum([max(0, len(epoch.given) - 1) for epoch in epochs])
    if not 1 < len(epochs) <= 20:
        return
    for number, begin in enumerate([0, *ends[:-1]]):
        if number:
            axes.axvline(begin, color="#333333", linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            f"epoch {number}",
            (begin, top),
            xytext=(5, -5),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color="#333333",
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )


def _draw_shares(axes: Axes, rows: Mapping[str, Mapping[str, float]]) -> None:
    """One bar of 100 % for each row; the parts are named in it, or where there is no room in a legend."""
    named: set[str] = set()
    for place, parts in enumerate(rows.values()):
        left = 0.0
        for name, percent in parts.items():
            colour = {"working": _WORKING, "waiting": _WAITING, "idle": _IDLE, **_STAGE_COLOURS}[name]
            label = None if name in named else name
            named.add(name)
            axes.barh(place, percent, left=left, height=0.62, color=colour, edgecolor="white", label=label)
            if percent >= _MIN_LABELLED:
                text = f"{name}\n{percent:.0f} %"
                ink = "#222222" if _is_light(colour) else "white"
                axes.text(left + percent / 2, place, text, ha="center", va="center", fontsize=8.5, color=ink)
            left += percent
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("percent of the time")
    axes.tick_params(axis="y", length=0)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.32), ncols=max(1, len(named)), frameon=False, fontsize=8.5,
        handlelength=1.0, columnspacing=1.2,
    )  # fmt: skip


def _rows(facts: StallFacts) -> dict[str, dict[str, float]]:
    """For each bar its parts in percent of the elapsed time; stages as parts of what the readers were busy."""
    waiting = 100 * facts.wait_share
    inner = facts.loop_stage_seconds if facts.num_workers == 0 else {}
    if inner:
        return {"loop": {"working": 100 - waiting, **_split(waiting, inner)}}
    rows = {"loop": {"working": 100 - waiting, "waiting": waiting}}
    if facts.busy_share is not None:
        busy = min(100.0, 100 * facts.busy_share)
        name = counted(len(facts.worker_busy_shares), "worker")
        rows[name] = {**_split(busy, facts.stage_seconds), "idle": 100 - busy}
    return rows


def _split(percent: float, seconds: Mapping[str, float]) -> dict[str, float]:
    total = sum(seconds.values()) or 1.0
    parts: dict[str, float] = {}
    for name, spent in seconds.items():
        known = name if name in _STAGE_COLOURS else OTHER
        parts[known] = parts.get(known, 0.0) + percent * spent / total
    return parts


def _milliseconds(epochs: Sequence[EpochRecord]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How long each batch but the first ones was waited for, and how long the loop had worked before."""
    waited = [np.zeros(0)]
    worked = [np.zeros(0)]
    for epoch in epochs:
        asked, given = np.array(epoch.asked), np.array(epoch.given)
        waited.append(1e3 * (given[1:] - asked[1:]))
        worked.append(1e3 * (asked[1:] - given[:-1]))
    return np.concatenate(waited), np.concatenate(worked)


def _means(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.array([values[i : i + count].mean() for i in range(0, len(values), count)])


def _top(values: NDArray[np.float64]) -> float:
    """Where the axis ends: above all values, unless few are far above the others."""
    greatest, usual = float(values.max()), float(np.quantile(values, 0.95))
    return 1.25 * greatest if greatest <= 3 * usual else 2 * usual


def _is_light(colour: str) -> bool:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140
