"""The report of training loaders: rows, the target, tables, and the chart."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, markdown_table
from ..shared.results import quartiles
from .loaders_ways import FOLDERS, OURS, RIVALS

#: Target for clips per second, relative to torchcodec's datasets.
AT_LEAST = 1.5


@dataclass(frozen=True)
class LoaderRow:
    """One way of loading one set.

    Attributes:
        clip, scenario, library: The set, the clips read from it, and the way.
        num_clips: Clips per epoch.
        clips_per_second: Rate of every timed epoch, in order, from asking for the first batch to the end.
        clips_per_second_median, clips_per_second_first_quartile, clips_per_second_third_quartile: Statistics of these.
        cpu_seconds_per_clip: Median, of all processes.
        start_up_seconds: Median, for the dataset and the loader.
        first_batch_seconds: Median, from asking for the first batch to having it.
        pickled_bytes_per_clip: Median of what queues between processes pickle; data in shared memory is not counted.
        peak_rss_mib: Largest sum of the resident sets of all processes.
        identical, compared, largest_difference: Of frames in their own size; ``None`` if there are none.
        resized_identical, resized_compared, resized_largest_difference: Of resized frames.
    """

    clip: str
    scenario: str
    library: str
    num_clips: int
    clips_per_second: tuple[float, ...]
    clips_per_second_median: float
    clips_per_second_first_quartile: float
    clips_per_second_third_quartile: float
    cpu_seconds_per_clip: float
    start_up_seconds: float
    first_batch_seconds: float
    pickled_bytes_per_clip: float
    peak_rss_mib: float
    identical: int | None
    compared: int | None
    largest_difference: int | None
    resized_identical: int
    resized_compared: int
    resized_largest_difference: int


@dataclass(frozen=True)
class LoaderRatio:
    """Ours against one of torchcodec's datasets in full shuffle.

    Attributes:
        clip, scenario: The set, and the clips read from it.
        ours, rival: Names of ways.
        times_as_fast: In clips per second.
        cpu_ratio: CPU time per clip of the rival, divided by ours.
        at_least: The target.
        is_met: Whether it is reached, with every frame identical, in its own size and resized.
    """

    clip: str
    scenario: str
    ours: str
    rival: str
    times_as_fast: float
    cpu_ratio: float
    at_least: float
    is_met: bool


def summarise(
    clip: str,
    scenario: str,
    library: str,
    runs: Sequence[Mapping[str, float]],
    whole: Mapping[str, int] | None,
    resized: Mapping[str, int],
) -> LoaderRow:
    """Build a row from the answers of a process."""
    speeds = [run["num_clips"] / run["wall_seconds"] for run in runs]
    first, middle, third = quartiles(speeds)

    def median(name: str) -> float:
        return statistics.median(run[name] for run in runs)

    names = ("identical", "compared", "largest_difference")
    accuracy: Any = [*(None if whole is None else whole[name] for name in names), *(resized[name] for name in names)]
    return LoaderRow(
        clip,
        scenario,
        library,
        int(runs[0]["num_clips"]),
        tuple(speeds),
        middle,
        first,
        third,
        statistics.median(run["cpu_seconds"] / run["num_clips"] for run in runs),
        median("start_up_seconds"),
        median("first_batch_seconds"),
        statistics.median(run["pickled_bytes"] / run["num_clips"] for run in runs),
        max(run["peak_rss_mib"] for run in runs),
        *accuracy,
    )


def ratios(rows: Iterable[LoaderRow]) -> list[LoaderRatio]:
    """Compare our ways with torchcodec's datasets that read the same clips in full shuffle."""
    found = []
    for (clip, scenario), group in itertools.groupby(rows, lambda row: (row.clip, row.scenario)):
        members = list(group)
        for ours, rival in itertools.product(members, members):
            if ours.library.startswith(OURS) and rival.library in RIVALS:
                times = ours.clips_per_second_median / rival.clips_per_second_median
                cpu_ratio = rival.cpu_seconds_per_clip / ours.cpu_seconds_per_clip
                is_right = ours.identical == ours.compared and ours.resized_identical == ours.resized_compared
                is_met = times >= AT_LEAST and is_right
                found.append(
                    LoaderRatio(clip, scenario, ours.library, rival.library, times, cpu_ratio, AT_LEAST, is_met)
                )
    return found


def shuffle_table() -> list[dict[str, Any]]:
    """Compute how well orders mix 10,000 files of 4 rows in batches of 32, without reading files."""
    from mediatensor.datasets import Shuffle, shuffle_quality
    from mediatensor.datasets._batches.order import epoch_order

    files = np.repeat(np.arange(10_000), 4)
    shuffles = {
        "in order": None,
        "full": Shuffle(),
        "4 rows together": Shuffle(4),
        "window of 4,000 rows": Shuffle(window=4000),
        "4 rows together, window of 4,000 rows": Shuffle(4, 4000),
    }
    return [
        {"shuffle": name, **shuffle_quality(epoch_order(files, shuffle, seed=0, epoch=0), files, 32)}
        for name, shuffle in shuffles.items()
    ]


def to_markdown(stamp: Mapping[str, str], rows: Sequence[LoaderRow], notes: Sequence[str]) -> str:
    """The report as lists and tables."""
    parts = ["## Machine and versions", "", fact_list(stamp)]
    parts += ["", "## Target", "", _ratio_table(ratios(rows))]
    for (clip, scenario), group in itertools.groupby(rows, lambda row: (row.clip, row.scenario)):
        parts += ["", f"## {clip}: {scenario}", "", _row_table(group)]
    parts += ["", "## How well orders mix (10,000 files of 4 rows, batches of 32)", "", _shuffle_table()]
    parts += ["", "## Notes", "", *(f"- {note}" for note in notes)]
    return "\n".join(parts) + "\n"


def _ratio_table(found: Iterable[LoaderRatio]) -> str:
    head = ["set", "clips", "ours", "against", "reached", "clips/s, times", "at least", "CPU, times less"]
    lines = [
        (
            ratio.clip,
            ratio.scenario,
            ratio.ours,
            ratio.rival,
            "yes" if ratio.is_met else "**no**",
            f"{ratio.times_as_fast:.2f}",
            f"{ratio.at_least:.2f}",
            f"{ratio.cpu_ratio:.2f}",
        )
        for ratio in found
    ]
    return markdown_table(head, lines, 5)


def _row_table(rows: Iterable[LoaderRow]) -> str:
    head = ["way", "clips/s", "quartiles", "CPU s/clip", "start-up ms", "first batch ms", "pickled B/clip"]
    head += ["peak RSS MiB", "identical frames", "resized", "runs"]
    lines = [
        (
            row.library,
            f"{row.clips_per_second_median:.3g}",
            f"{row.clips_per_second_first_quartile:.3g}-{row.clips_per_second_third_quartile:.3g}",
            f"{row.cpu_seconds_per_clip:.3g}",
            f"{row.start_up_seconds * 1e3:.3g}",
            f"{row.first_batch_seconds * 1e3:.0f}",
            f"{row.pickled_bytes_per_clip:,.0f}",
            f"{row.peak_rss_mib:.0f}",
            _identical(row.identical, row.compared, row.largest_difference),
            _identical(row.resized_identical, row.resized_compared, row.resized_largest_difference),
            str(len(row.clips_per_second)),
        )
        for row in rows
    ]
    return markdown_table(head, lines, 1)


def _identical(identical: int | None, compared: int | None, largest_difference: int | None) -> str:
    if compared is None:
        return ""
    off = f", off by up to {largest_difference}" if identical != compared else ""
    return f"{identical} of {compared}{off}"


def _shuffle_table() -> str:
    lines = [
        [line["shuffle"], *(f"{line[name]:.3g}" for name in ("files_per_batch", "same_file_next", "displacement"))]
        for line in shuffle_table()
    ]
    return markdown_table(["shuffle", "files in a batch", "same file next", "displacement"], lines, 1)


def draw(rows: Sequence[LoaderRow], path: Path) -> None:
    """Draw clips per second, CPU time, the wait for the first batch, and memory, for each set and scenario."""
    lines = []
    for (clip, scenario), group in itertools.groupby(rows, lambda row: (row.clip, row.scenario)):
        everybody = list(group)
        # Reading small JPEG files is many times faster, and would squash all other bars.
        members = [row for row in everybody if row.library != FOLDERS]
        beside = "".join(
            f"; {row.library}: {row.clips_per_second_median:.3g}" for row in everybody if row.library == FOLDERS
        )
        speed = [
            Bar(
                row.library,
                row.clips_per_second_median,
                row.clips_per_second_median - row.clips_per_second_first_quartile,
                row.clips_per_second_third_quartile - row.clips_per_second_median,
            )
            for row in members
        ]
        lines.append(
            [
                Panel(f"{clip}: {scenario}", f"clips per second (more is better{beside})", speed),
                _panel("CPU time", "seconds per clip (less is better)", members, "cpu_seconds_per_clip"),
                _panel("First batch", "seconds (less is better)", members, "first_batch_seconds"),
                _panel("Memory", "GiB of all processes, peak (less is better)", members, "peak_rss_mib", 1 / 1024),
            ]
        )
    draw_panels("Training loaders, batches of 4 clips resized to 256x256", lines, path)


def _panel(title: str, unit: str, rows: Sequence[LoaderRow], name: str, factor: float = 1.0) -> Panel:
    return Panel(title, unit, [Bar(row.library, factor * getattr(row, name)) for row in rows])
