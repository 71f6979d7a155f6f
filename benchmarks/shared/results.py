"""The numbers of one run as plain data, as in the JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One library in one scenario on one clip.

    Attributes:
        suite, clip, scenario, library: Which.
        num_frames: Frames that a run returns; 0 if it only counts.
        wall_seconds, cpu_seconds: Of every timed run, in order; CPU of all threads of the process.
        wall_median, wall_first_quartile, wall_third_quartile, cpu_median: In seconds.
        system_median: CPU seconds in the kernel; ``None`` where they were not looked at.
        page_faults: Median; ``None`` where they were not counted.
        decoded_per_frame: Packets fed to codecs per returned frame; ``None`` if unknown.
        peak_rss_mib, rss_before_mib: Largest resident set in the timed runs, and after the imports.
        batch_mib: Bytes of the largest batch that a call returned, in MiB; 0 if a run only counts.
        identical, compared: Frames that were equal to the reference in every bit, and all that were compared.
        largest_difference: Largest difference of the other frames, in levels of 256.
    """

    suite: str
    clip: str
    scenario: str
    library: str
    num_frames: int
    wall_seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    wall_median: float
    wall_first_quartile: float
    wall_third_quartile: float
    cpu_median: float
    system_median: float | None
    page_faults: float | None
    decoded_per_frame: float | None
    peak_rss_mib: float
    rss_before_mib: float
    batch_mib: float
    identical: int
    compared: int
    largest_difference: int


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile, interpolated; all the same for one value.

    Example:
        >>> quartiles([4.0, 1.0, 2.0, 3.0, 5.0])
        (2.0, 3.0, 4.0)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    first, middle, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, middle, third


def summarise(suite: str, clip: str, scenario: str, library: str, num_frames: int, found: dict[str, Any]) -> Row:
    """A row from the answers of a worker."""
    first, middle, third = quartiles(found["wall_seconds"])
    num_packets = found.get("num_packets")
    return Row(
        suite=suite,
        clip=clip,
        scenario=scenario,
        library=library,
        num_frames=num_frames,
        wall_seconds=tuple(found["wall_seconds"]),
        cpu_seconds=tuple(found["cpu_seconds"]),
        wall_median=middle,
        wall_first_quartile=first,
        wall_third_quartile=third,
        cpu_median=statistics.median(found["cpu_seconds"]),
        system_median=statistics.median(found["system_seconds"]) if found.get("system_seconds") else None,
        page_faults=statistics.median(found["page_faults"]) if found.get("page_faults") else None,
        decoded_per_frame=None if num_packets is None or not num_frames else round(num_packets / num_frames, 2),
        peak_rss_mib=found["peak_rss_mib"],
        rss_before_mib=found["rss_before_mib"],
        batch_mib=found.get("batch_mib", 0.0),
        identical=found["identical"],
        compared=found["compared"],
        largest_difference=found["largest_difference"],
    )


def timing_row(
    suite: str, clip: str, scenario: str, library: str, wall_seconds: Iterable[float], cpu_seconds: Iterable[float]
) -> Row:
    """A row of which only the times are known, for charts."""
    unknown = ("peak_rss_mib", "rss_before_mib", "identical", "compared", "largest_difference")
    times = {"wall_seconds": [*wall_seconds], "cpu_seconds": [*cpu_seconds]}
    return summarise(suite, clip, scenario, library, 0, dict.fromkeys(unknown, 0) | times)
