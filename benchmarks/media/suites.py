"""The suites that the command runs by name: groups of clips, scenarios and libraries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from .case import Case, Size
from .clips import Clip, Encoded, Joined, film, kinetics_like, mandelbrot, quick, something_like
from .libraries import (
    EXACT,
    FLOORS,
    LIBRARIES,
    OURS,
    OURS_ALL_THREADS,
    OURS_BESIDE,
    OURS_ONE_THREAD,
    OURS_SAVED_INDEX,
    OURS_SMALL_PAGES,
    OURS_TWO_THREADS,
    PEERS,
)

_SEED = 0
_HD = (1920, 1080)
_NTSC = Fraction(30000, 1001)

_WITH_FLOOR = tuple(name for name in LIBRARIES if name != OURS_SAVED_INDEX)
_EVERYBODY = tuple(name for name in _WITH_FLOOR if name not in FLOORS)
# Default libraries.
_USUAL = tuple(
    name for name in LIBRARIES if name not in (OURS_ALL_THREADS, OURS_BESIDE, OURS_SMALL_PAGES, OURS_TWO_THREADS)
)
_WHOLE = 1 << 30

# Chooses frames, or starts of clips, from this number of candidates.
Choose = Callable[[int], tuple[int, ...]]


@dataclass(frozen=True)
class Scenario:
    """One column of a suite.

    Attributes:
        name: Name in reports, unique within a suite.
        kind: Key of `scenarios.KINDS`.
        choose: The frames of a clip that are decoded, or with a ``clip_length`` where clips begin.
        libraries: Libraries that support it.
        size: (height, width) to scale to, if any.
        num_decodes, num_threads: See `Case`.
        num_files: Number of files per run, cycling over the suite's clips; 0 for a run with each clip.
        files: Name of these files in reports.
        clip_length: See `Case`; at most the length of the clip.
    """

    name: str
    kind: str
    choose: Choose = lambda num_frames: ()
    libraries: tuple[str, ...] = _EVERYBODY
    size: Size | None = None
    num_decodes: int = 1
    num_threads: int = 1
    num_files: int = 0
    files: str = "many files"
    clip_length: int = 0

    def case(self, paths: list[Path], num_frames: int) -> Case:
        """The scenario on certain files, which have ``num_frames`` each."""
        many = [str(paths[i % len(paths)]) for i in range(self.num_files or 1)]
        length = min(self.clip_length, num_frames)
        indices = self.choose(num_frames - length + 1 if length else num_frames)
        return Case(self.kind, tuple(many), indices, length, self.size, self.num_decodes, self.num_threads)


@dataclass(frozen=True)
class Suite:
    """Clips and the scenarios measured on each of them.

    Attributes:
        title: One line for reports.
        plan: (clips, scenarios) groups: every scenario of a group runs on every clip of it.
        libraries: Default libraries.
    """

    title: str
    plan: tuple[tuple[tuple[Clip, ...], tuple[Scenario, ...]], ...]
    libraries: tuple[str, ...] = _USUAL

    @property
    def clips(self) -> list[Clip]:
        return [clip for clips, _ in self.plan for clip in clips]


def quick_suite(suite: Suite) -> Suite:
    """Return the same suite with tiny clips and little work, to check that everything works."""

    def smaller(scenario: Scenario) -> Scenario:
        return replace(scenario, num_decodes=min(scenario.num_decodes, 4), num_files=min(scenario.num_files, 4))

    plan = [(tuple(map(quick, clips)), tuple(map(smaller, scenarios))) for clips, scenarios in suite.plan]
    return replace(suite, plan=tuple(plan))


def part_of(suite: Suite, only: Sequence[str]) -> Suite:
    """Select the scenarios of a suite whose "clip: scenario" contains all texts, and their clips."""

    def is_wanted(clip: str, scenario: Scenario) -> bool:
        return all(text in f"{clip}: {scenario.name}" for text in only)

    plan = []
    for clips, scenarios in suite.plan:
        for clip in clips:
            each = tuple(s for s in scenarios if not s.num_files and is_wanted(clip.name, s))
            plan += [((clip,), each)] if each else []
        together = tuple(s for s in scenarios if s.num_files and is_wanted(s.files, s))
        plan += [(clips, together)] if together else []
    return replace(suite, plan=tuple(plan))


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


def _backwards(count: int) -> Choose:
    return lambda num_frames: _middle(count)(num_frames)[::-1]


def _all(num_frames: int) -> tuple[int, ...]:
    return tuple(range(num_frames))


def _beginning(count: int = 1) -> Choose:
    """Return the first frame, ``count`` times."""
    return lambda num_frames: (0,) * count


def _starts(count: int) -> Choose:
    """Return the starts of random clips."""
    return lambda num_places: tuple(random.Random(_SEED).choices(range(num_places), k=count))


_TEN_UNIFORM = Scenario("10 uniform frames", "fetch", _uniform(10), _WITH_FLOOR)
_TEN_RANDOM = Scenario("10 random frames", "fetch", _at_random(10), _WITH_FLOOR)
_FIRST_HUNDRED = Scenario("first 100 frames in one call", "fetch", _beginning(), _WITH_FLOOR, clip_length=100)
_NEXT_HUNDRED = Scenario(
    "the next 100 frames, second call", "last call", lambda num_places: (0, min(100, num_places - 1)), clip_length=100
)
_RANDOM_CLIPS = Scenario("12 random clips of 16 frames", "fetch", _starts(12), _WITH_FLOOR, clip_length=16)
_SPARSE = (_TEN_UNIFORM, _TEN_RANDOM, _FIRST_HUNDRED)
_COUNT = Scenario("open and count frames", "count")


def _one_by_one(count: int) -> Scenario:
    return Scenario(f"first {count} frames, one by one", "open and step", _first(count))


def _steps_back(count: int) -> Scenario:
    return Scenario(f"{count} steps back", "open and step", _backwards(count))


def _loader(num_decodes: int) -> Scenario:
    return Scenario(
        f"{num_decodes} decodes x 10 uniform frames, 10 threads, 256x256",
        "loader",
        _uniform(10),
        size=(256, 256),
        num_decodes=num_decodes,
        num_threads=10,
    )


def _film_206_s() -> Joined:
    scenes = Encoded("", film(12), (960, 540), _NTSC, 206 / 3)
    return Joined("film 206 s", (scenes,), 3)


def _published() -> Suite:
    def part(begin_seconds: int) -> Encoded:
        zoom = mandelbrot(filters=",fps=60", begin_seconds=begin_seconds)
        return Encoded("mandelbrot 10 s", (zoom,), _HD, Fraction(60), 10, options=(("g", "600"),))

    short = part(0)
    long = Joined("mandelbrot 120 s", (short, part(40)), 6)
    return Suite(
        "The workload that torchcodec publishes",
        (((short, _film_206_s()), (*_SPARSE, _loader(50))), ((long,), (*_SPARSE, _loader(10)))),
    )


def _everyday() -> Suite:
    """Return typical training workloads: small frames, short clips, reading forward, opening."""
    small = Encoded("320x180, 20 s", film(4), (320, 180), Fraction(30), 20)
    medium = replace(_film_206_s(), name="960x540, 206 s")
    # 60 different pictures a second, and x264's default key frames.
    large = Encoded("1080p60, 10 s", (mandelbrot("60"),), _HD, Fraction(60), 10)
    in_one_call = (*_SPARSE, _NEXT_HUNDRED)

    def loader(num_decodes: int) -> Scenario:
        # PEERS take so long that fewer rounds would fit.
        return replace(_loader(num_decodes), libraries=tuple(name for name in _EVERYBODY if name not in PEERS))

    def of_many(files: str) -> tuple[Scenario, ...]:
        random_clips = Scenario("20 files: a random clip of 16 each", "fetch", _starts(20), clip_length=16)
        whole = Scenario("5 files: all frames of each in a call", "fetch", _beginning(5), clip_length=_WHOLE)
        count = Scenario("20 files: open and count frames", "count")
        return tuple(
            replace(scenario, files=files, num_files=int(scenario.name.split()[0]))
            for scenario in (random_clips, whole, count)
        )

    return Suite(
        "Typical training workloads",
        (
            ((small,), (_one_by_one(390), _steps_back(100), _RANDOM_CLIPS, *in_one_call, _loader(50), _COUNT)),
            ((medium,), (_one_by_one(390), _RANDOM_CLIPS, *in_one_call, loader(20), _COUNT)),
            ((large,), (*in_one_call, loader(10), _COUNT)),
            (
                tuple(replace(clip, name=f"{clip.name}, 720p, 10 s") for clip in _newer_codecs()),
                (_RANDOM_CLIPS, _TEN_UNIFORM, _FIRST_HUNDRED, _NEXT_HUNDRED),
            ),
            ((_long_mkv(),), (_COUNT,)),
            (kinetics_like(20), of_many("340x256, 10 s, mp4 with sound")),
            (something_like(20), of_many("427x240, 4 s, VP9 webm")),
        ),
        (OURS, *EXACT, *PEERS),
    )


def _threads() -> Suite:
    sizes = ((320, 180), (480, 270), (960, 540), (1920, 1080))
    clips = tuple(Encoded(f"{width}x{height}", film(4), (width, height), Fraction(30), 10) for width, height in sizes)
    scenarios = (_one_by_one(100), _RANDOM_CLIPS, _FIRST_HUNDRED, Scenario("all 300 frames, iterated", "iterate", _all))
    ours = (OURS, OURS_ONE_THREAD, OURS_TWO_THREADS, OURS_ALL_THREADS)
    return Suite("Threads of the codec, against size and work", ((clips, scenarios),), (*ours, *EXACT))


def _memory() -> Suite:
    frame_mb = 960 * 540 * 3 / 1e6

    def call(megabytes: int, number: int) -> Scenario:
        length = round(megabytes / frame_mb)
        name = f"{megabytes} MB, {('first', 'second')[number]} call"
        return Scenario(name, "last call", lambda n: (0, min(length, n - 1))[: number + 1], clip_length=length)

    scenarios = tuple(call(megabytes, number) for megabytes in (10, 40, 150, 600) for number in range(2))
    return Suite(
        "The first touch of a batch's memory",
        (((replace(_film_206_s(), name="960x540, 206 s"),), scenarios),),
        (OURS, OURS_SMALL_PAGES, EXACT[0]),
    )


def _long_mkv() -> Joined:
    part = Encoded("", (mandelbrot("30"),), (640, 360), Fraction(30), 30, options=(("b", "580k"),))
    return Joined("23 min, 100 MB mkv", (part,), 46, "mkv")


def _opening() -> Suite:
    (part,) = _long_mkv().parts
    dense = Encoded("", film(2), _HD, Fraction(30), 6, options=(("preset", "veryfast"), ("b", "14M")))
    clips = (
        Joined("30 s, 2 MB mp4", (part,), 1),
        Joined("5 min, 20 MB mp4", (part,), 10),
        Joined("23 min, 100 MB mp4", (part,), 46),
        Joined("1 min, 100 MB mp4", (dense,), 10),
        _long_mkv(),
    )
    libraries = (*_EVERYBODY, OURS_SAVED_INDEX)
    scenarios = (
        Scenario("open and count frames", "count", libraries=libraries),
        Scenario("open and get the first frame", "fetch", _first(1), libraries),
        Scenario("open and get the middle frame", "fetch", lambda n: (n // 2,), libraries),
    )
    return Suite("Opening, against duration and size", ((clips, scenarios),))


def _clip_in_720p(name: str, codec: str = "libx264", extension: str = "mp4", **options: str) -> Encoded:
    return Encoded(name, film(4), (1280, 720), Fraction(30), 10, codec, tuple(options.items()), extension)


def _newer_codecs() -> tuple[Encoded, ...]:
    return (
        _clip_in_720p("HEVC", "libx265", preset="fast", **{"x265-params": "log-level=none"}),
        _clip_in_720p("VP9", "libvpx-vp9", "webm", deadline="realtime", **{"cpu-used": "7", "row-mt": "1", "b": "4M"}),
        _clip_in_720p("AV1", "libsvtav1", preset="10"),
    )


def _codecs() -> Suite:
    clips = (
        _clip_in_720p("H.264, long GOP"),
        _clip_in_720p("H.264, GOP of 12", g="12"),
        _clip_in_720p("H.264, intra only", g="1"),
        *_newer_codecs(),
        replace(_clip_in_720p("H.264, variable rate"), has_variable_rate=True),
        Encoded("H.264, 4K", film(2), (3840, 2160), Fraction(30), 5, options=(("preset", "veryfast"),)),
    )
    return Suite("Codecs and structures", ((clips, _SPARSE),))


def _access() -> Suite:
    small = Encoded("480x270, 20 s", film(4), (480, 270), Fraction(30), 20)
    short = tuple(Encoded(f"second {i}", film(8)[i : i + 1], (480, 270), Fraction(30), 1) for i in range(8))
    both = (OURS, OURS_ONE_THREAD)
    backwards = Scenario("stepping backwards through 100 frames", "step", _backwards(100))
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


#: How to make each suite, by its name on the command line.
SUITES: dict[str, Callable[[], Suite]] = {
    "everyday": _everyday,
    "threads": _threads,
    "memory": _memory,
    "published": _published,
    "opening": _opening,
    "codecs": _codecs,
    "access": _access,
}
