"""Which clips, scenarios and libraries belong together: the suites that the command runs by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from .case import Case, Size
from .clips import Clip, Encoded, Joined, film, mandelbrot, quick
from .libraries import EXACT, FLOORS, LIBRARIES, OURS, OURS_ONE_THREAD, OURS_SAVED_INDEX

__all__ = ["SUITES", "Scenario", "Suite", "quick_suite"]

_SEED = 0
_HD = (1920, 1080)
_NTSC = Fraction(30000, 1001)

_EVERYBODY = tuple(name for name in LIBRARIES if name not in (OURS_SAVED_INDEX, *FLOORS))

# Chooses frames of a clip of so many.
Choose = Callable[[int], tuple[int, ...]]


@dataclass(frozen=True)
class Scenario:
    """One column of a suite.

    Attributes:
        name: What reports call it; unique within a suite.
        kind: Key of `scenarios.KINDS`.
        choose: The frames of a clip that are decoded.
        libraries: Who takes part.
        size: (height, width) to scale to, if any.
        num_decodes, num_threads: See `Case`.
        num_files: How many of the suite's clips a run goes over, again and again; 0 for a run with each clip.
    """

    name: str
    kind: str
    choose: Choose = lambda num_frames: ()
    libraries: tuple[str, ...] = _EVERYBODY
    size: Size | None = None
    num_decodes: int = 1
    num_threads: int = 1
    num_files: int = 0

    def case(self, paths: list[Path], num_frames: int) -> Case:
        """The scenario on certain files, which have ``num_frames`` each."""
        many = [str(paths[i % len(paths)]) for i in range(self.num_files or 1)]
        indices = self.choose(num_frames)
        return Case(self.kind, tuple(many), indices, self.size, self.num_decodes, self.num_threads)


@dataclass(frozen=True)
class Suite:
    """Clips and what is measured on each of them.

    Attributes:
        title: One line for reports.
        plan: (clips, scenarios) groups: every scenario of a group runs on every clip of it.
    """

    title: str
    plan: tuple[tuple[tuple[Clip, ...], tuple[Scenario, ...]], ...]

    @property
    def clips(self) -> list[Clip]:
        return [clip for clips, _ in self.plan for clip in clips]


def quick_suite(suite: Suite) -> Suite:
    """The same suite with tiny clips and little to do, to see that everything works."""

    def smaller(scenario: Scenario) -> Scenario:
        return replace(scenario, num_decodes=min(scenario.num_decodes, 4), num_files=min(scenario.num_files, 4))

    plan = [(tuple(map(quick, clips)), tuple(map(smaller, scenarios))) for clips, scenarios in suite.plan]
    return Suite(suite.title, tuple(plan))


def _uniform(count: int) -> Choose:
    """k * duration / count, for k from 0."""
    return lambda num_frames: tuple(num_frames * k // count for k in range(count))


def _at_random(count: int) -> Choose:
    return lambda num_frames: tuple(random.Random(_SEED).sample(range(num_frames), min(count, num_frames)))


def _first(count: int) -> Choose:
    return lambda num_frames: tuple(range(min(count, num_frames)))


def _middle(count: int) -> Choose:
    return lambda num_frames: tuple(
        range(max(0, num_frames // 2 - count // 2), min(num_frames, num_frames // 2 + count // 2))
    )


def _all(num_frames: int) -> tuple[int, ...]:
    return tuple(range(num_frames))


_WITH_FLOOR = (*_EVERYBODY, *FLOORS)
_TEN_UNIFORM = Scenario("10 uniform frames", "fetch", _uniform(10), _WITH_FLOOR)
_TEN_RANDOM = Scenario("10 random frames", "fetch", _at_random(10), _WITH_FLOOR)
_FIRST_HUNDRED = Scenario("first 100 frames", "fetch", _first(100), _WITH_FLOOR)
_SPARSE = (_TEN_UNIFORM, _TEN_RANDOM, _FIRST_HUNDRED)


def _loader(num_decodes: int) -> Scenario:
    return Scenario(
        f"{num_decodes} decodes x 10 uniform frames, 10 threads, 256x256",
        "loader",
        _uniform(10),
        size=(256, 256),
        num_decodes=num_decodes,
        num_threads=10,
    )


def _published() -> Suite:
    def part(begin_seconds: int) -> Encoded:
        zoom = mandelbrot(filters=",fps=60", begin_seconds=begin_seconds)
        return Encoded("mandelbrot 10 s", (zoom,), _HD, Fraction(60), 10, options=(("g", "600"),))

    short = part(0)
    long = Joined("mandelbrot 120 s", (short, part(40)), 6)
    scenes = Encoded("", film(12), (960, 540), _NTSC, 206 / 3)
    nasa_like = Joined("film 206 s", (scenes,), 3)
    return Suite(
        "The workload that torchcodec publishes",
        (((short, nasa_like), (*_SPARSE, _loader(50))), ((long,), (*_SPARSE, _loader(10)))),
    )


def _skipping() -> Suite:
    zoom = (mandelbrot("60"),)
    return Suite(
        "60 different pictures a second, x264's defaults",
        (((Encoded("mandelbrot r=60, 10 s", zoom, _HD, Fraction(60), 10),), _SPARSE),),
    )


def _opening() -> Suite:
    part = Encoded("", (mandelbrot("30"),), (640, 360), Fraction(30), 30, options=(("b", "580k"),))
    dense = Encoded("", film(2), _HD, Fraction(30), 6, options=(("preset", "veryfast"), ("b", "14M")))
    clips = (
        Joined("30 s, 2 MB mp4", (part,), 1),
        Joined("5 min, 20 MB mp4", (part,), 10),
        Joined("23 min, 100 MB mp4", (part,), 46),
        Joined("1 min, 100 MB mp4", (dense,), 10),
        Joined("23 min, 100 MB mkv", (part,), 46, "mkv"),
    )
    libraries = (*_EVERYBODY, OURS_SAVED_INDEX)
    scenarios = (
        Scenario("open and count frames", "count", libraries=libraries),
        Scenario("open and get the first frame", "fetch", _first(1), libraries),
        Scenario("open and get the middle frame", "fetch", lambda n: (n // 2,), libraries),
    )
    return Suite("Opening, against duration and size", ((clips, scenarios),))


def _codecs() -> Suite:
    size, rate, seconds = (1280, 720), Fraction(30), 10

    def clip(name: str, codec: str = "libx264", extension: str = "mp4", **options: str) -> Encoded:
        return Encoded(name, film(4), size, rate, seconds, codec, tuple(options.items()), extension)

    clips = (
        clip("H.264, long GOP"),
        clip("H.264, GOP of 12", g="12"),
        clip("H.264, intra only", g="1"),
        clip("HEVC", "libx265", preset="fast", **{"x265-params": "log-level=none"}),
        clip("VP9", "libvpx-vp9", "webm", deadline="realtime", **{"cpu-used": "7", "row-mt": "1", "b": "4M"}),
        clip("AV1", "libsvtav1", preset="10"),
        replace(clip("H.264, variable rate"), has_variable_rate=True),
        Encoded("H.264, 4K", film(2), (3840, 2160), rate, 5, options=(("preset", "veryfast"),)),
    )
    return Suite("Codecs and structures", ((clips, _SPARSE),))


def _access() -> Suite:
    small = Encoded("480x270, 20 s", film(4), (480, 270), Fraction(30), 20)
    short = tuple(Encoded(f"second {i}", film(8)[i : i + 1], (480, 270), Fraction(30), 1) for i in range(8))
    both = (OURS, OURS_ONE_THREAD)
    backwards = Scenario("stepping backwards through 100 frames", "step", lambda n: _middle(100)(n)[::-1])
    scenarios = (
        Scenario("every frame in order", "iterate", _all),
        Scenario("every frame backwards", "iterate backwards", lambda n: _all(n)[::-1], (*both, *EXACT)),
        backwards,
        Scenario("the same 10 random frames again", "again", _at_random(10)),
        Scenario("the same clip of 32 frames twice", "twice", _middle(32)),
    )
    thousand = Scenario(
        "a thousand files, 8 frames each", "fetch", lambda n: tuple(range(0, n, max(1, n // 8)))[:8], num_files=1000
    )
    return Suite("Patterns of access", (((small,), scenarios), (short, (thousand,))))


def _small() -> Suite:
    clip = Encoded("320x180, 20 s", film(4), (320, 180), Fraction(30), 20)

    def clips_of_16(num_frames: int) -> tuple[int, ...]:
        starts = random.Random(_SEED).choices(range(max(1, num_frames - 15)), k=12)
        return tuple(min(start + i, num_frames - 1) for start in starts for i in range(16))

    scenarios = (
        Scenario("open and count frames", "count"),
        _TEN_UNIFORM,
        _TEN_RANDOM,
        Scenario("12 random clips of 16 frames", "fetch", clips_of_16),
        Scenario("the first 390 frames, one by one", "step", _first(390)),
        _FIRST_HUNDRED,
    )
    return Suite("Small pictures", (((clip,), scenarios),))


#: How to make each suite, by its name on the command line.
SUITES: dict[str, Callable[[], Suite]] = {
    "published": _published,
    "skipping": _skipping,
    "opening": _opening,
    "codecs": _codecs,
    "access": _access,
    "small": _small,
}
