"""Targets of mediatensor against torchcodec, and whether a run met them: pure arithmetic over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..shared.results import Row
from .libraries import APPROXIMATE, EXACT, FLOORS, OURS, OURS_SAVED_INDEX


@dataclass(frozen=True)
class Target:
    """A speed to reach, relative to the better of the rivals.

    Attributes:
        suite, scenario: Which; a scenario is named by how its name begins.
        clip: How the clip's name begins; any by default.
        at_least, aim: Factors of wall time; an aim may be missing.
        ours: Measured library.
        rivals: Settings of torchcodec, the better of which counts.
    """

    suite: str
    scenario: str
    at_least: float
    aim: float | None = None
    clip: str = ""
    ours: str = OURS
    rivals: tuple[str, ...] = EXACT


TARGETS = (
    Target("published", "10 uniform", 1.4, 2.0, clip="mandelbrot"),
    Target("published", "10 random", 1.4, 2.0, clip="mandelbrot"),
    Target("published", "first 100", 1.1, 1.3, clip="mandelbrot"),
    Target("published", "50 decodes", 1.4, 2.0, clip="mandelbrot"),
    Target("published", "10 decodes", 1.4, 2.0, clip="mandelbrot"),
    Target("published", "50 decodes", 1.3, 2.0, clip="film"),
    Target("everyday", "first 390", 0.7, clip="320x180"),
    Target("everyday", "first 390", 1.2, clip="960x540"),
    Target("everyday", "12 random clips", 1.1, clip="320x180"),
    Target("everyday", "12 random clips", 1.3, clip="960x540"),
    Target("everyday", "10 ", 1.1, clip="320x180"),
    Target("everyday", "10 uniform", 1.9, clip="960x540"),
    Target("everyday", "10 random", 1.9, clip="960x540"),
    Target("everyday", "10 ", 1.45, clip="1080p60"),
    Target("everyday", "first 100", 1.0, clip="320x180"),
    Target("everyday", "first 100", 1.1, clip="960x540"),
    Target("everyday", "first 100", 1.1, clip="1080p60"),
    Target("everyday", "20 decodes", 1.3, clip="960x540"),
    Target("everyday", "10 decodes", 1.4, clip="1080p60"),
    Target("everyday", "open", 1.0),
    Target("everyday", "20 files", 1.0),
    Target("everyday", "5 files", 1.0),
    Target("opening", "open and count", 3.0, clip="23 min, 100 MB mp4"),
    Target("opening", "open and count", 3.0, clip="1 min, 100 MB mp4"),
    # At most a fifth slower than without an index.
    Target("opening", "open and count", 1 / 1.2, clip="23 min, 100 MB mp4", rivals=APPROXIMATE),
    Target("opening", "open and count", 1 / 1.2, clip="1 min, 100 MB mp4", rivals=APPROXIMATE),
    Target("opening", "open and", 1.0, ours=OURS_SAVED_INDEX, rivals=APPROXIMATE),
    Target("access", "the same 10", 10.0),
    Target("access", "stepping backwards", 10.0),
    Target("access", "every frame in order", 1.0, 1.3),
)


@dataclass(frozen=True)
class Ratio:
    """A target and its measurement.

    Attributes:
        suite, clip, scenario: Which.
        ours, rival: Names of the libraries.
        wall_ratio, cpu_ratio: The rival's median divided by ours.
        ours_seconds, rival_seconds: Medians of wall time.
        at_least, aim: The target.
        is_met: Whether ``wall_ratio`` reaches ``at_least`` and all of our frames are identical to the reference.
        floor_seconds: Wall time of libavcodec only, on the packets that mediatensor fed, if measured.
    """

    suite: str
    clip: str
    scenario: str
    ours: str
    rival: str
    wall_ratio: float
    cpu_ratio: float
    ours_seconds: float
    rival_seconds: float
    at_least: float
    aim: float | None
    is_met: bool
    floor_seconds: float | None


def compute_ratios(rows: Sequence[Row], targets: Sequence[Target] = TARGETS) -> list[Ratio]:
    """Return a ratio for each target, clip and scenario with both sides measured."""
    return [
        ratio
        for target in targets
        for row in rows
        if _belongs(row, target) and (ratio := _ratio(row, target, rows)) is not None
    ]


def _belongs(row: Row, target: Target) -> bool:
    return (
        (row.suite, row.library) == (target.suite, target.ours)
        and row.clip.startswith(target.clip)
        and row.scenario.startswith(target.scenario)
    )


def _ratio(ours: Row, target: Target, rows: Sequence[Row]) -> Ratio | None:
    place = (ours.suite, ours.clip, ours.scenario)
    beside = {row.library: row for row in rows if (row.suite, row.clip, row.scenario) == place}
    rivals = [beside[name] for name in target.rivals if name in beside]
    if not rivals:
        return None
    rival = min(rivals, key=lambda row: row.wall_median)
    floors = [beside[name].wall_median for name in FLOORS if name in beside]
    wall_ratio = rival.wall_median / ours.wall_median
    return Ratio(
        *place,
        ours=ours.library,
        rival=rival.library,
        wall_ratio=round(wall_ratio, 3),
        cpu_ratio=round(rival.cpu_median / max(ours.cpu_median, 1e-6), 3),
        ours_seconds=ours.wall_median,
        rival_seconds=rival.wall_median,
        at_least=target.at_least,
        aim=target.aim,
        is_met=wall_ratio >= target.at_least and ours.identical == ours.compared,
        floor_seconds=min(floors, default=None),
    )
