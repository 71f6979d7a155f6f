"""Decoding figures: the published scenarios by every way, and by torchcodec's CUDA wheel if available."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..media.case import Case, Image
from ..media.clips import Clip, Encoded, Joined, make_clips
from ..media.libraries import TensorLibrary
from ..media.reference import Comparison, load_reference, make_reference
from ..media.scenarios import KINDS
from ..media.suites import SUITES, Scenario
from ..shared.results import quartiles
from .bench import CPU, HYBRID, NVDEC, WAYS, Bench
from .pixels import who_decoded
from .records import NOT_RUN, Check, Figure, Found, NotRun, Step, Target, in_a_line

SCENARIOS_TABLE = "Published scenarios"
_TORCHCODEC = "torchcodec cuda"
_RIVALS = ("torchcodec cpu", _TORCHCODEC)
# A library that has taken this long in a scenario is not run again.
_BUDGET_SECONDS = 15.0


class _OnDevice(TensorLibrary):
    """A library whose frames may be on a device.

    Args:
        package: ``"mediatensor"`` or ``"torchcodec"``.
        way: Way of mediatensor; not used for torchcodec.
        options: Options of the ``VideoDecoder``.
    """

    def __init__(self, package: str, way: str = "", **options: Any) -> None:
        super().__init__(package, **options)
        self._way = way
        self.decoded_by: set[str] = set()

    def fetch(self, decoder: Any, indices: Sequence[int]) -> Any:
        frames = super().fetch(decoder, indices)
        status = getattr(decoder, "cpu_fallback", None)
        if status is not None:
            self.decoded_by.add(who_decoded(decoder, self._way) if self._way else str(status))
        return frames

    def images(self, batch: Any) -> Iterable[Image]:
        return [frame.permute(1, 2, 0).cpu().numpy() for frame in batch]


def scenario_steps(bench: Bench) -> list[Step]:
    """Return a step for each clip and scenario."""
    return [
        Step(f"{clip.name}: {scenario.name}", partial(_measure, bench, clip, scenario))
        for clip, scenario in _plan(bench)
    ]


def published_clips(bench: Bench) -> dict[str, Path]:
    """Return the files of the clips, 1080p and 540p; encode them on first use."""
    clips = list(dict.fromkeys(clip for clip, _ in _plan(bench)))
    paths: dict[str, Path] = bench.once("published clips", lambda: make_clips(clips, bench.folder))
    return paths


def clip_names(bench: Bench) -> list[str]:
    """Return the names of the clips without encoding any."""
    return list(dict.fromkeys(clip.name for clip, _ in _plan(bench)))


def _plan(bench: Bench) -> list[tuple[Clip, Scenario]]:
    """Return the 10 s zoom in 1080p and the film in 540p, with all four scenarios."""
    clips, scenarios = SUITES["published"]().plan[0]
    return [
        (_shortened(clip, bench), replace(scenario, num_decodes=min(scenario.num_decodes, bench.effort.num_decodes)))
        for clip in clips
        for scenario in scenarios
    ]


def _shortened(clip: Clip, bench: Bench) -> Clip:
    if isinstance(clip, Joined):
        parts = tuple(_shorter(part, bench) for part in clip.parts)
        is_whole = parts == clip.parts
        seconds = float(clip.num_frames / clip.parts[0].rate) if is_whole else clip.times * parts[0].seconds
        name = f"{clip.name.split()[0]} {seconds:.0f} s, {_lines(parts[0])}p"
        return replace(clip, name=name, parts=parts)
    short = _shorter(clip, bench)
    return replace(short, name=f"{clip.name.split()[0]} {short.seconds:g} s, {_lines(short)}p")


def _shorter(clip: Encoded, bench: Bench) -> Encoded:
    seconds = min(clip.seconds, bench.effort.clip_seconds)
    size = clip.size if bench.effort.clip_seconds > 1 else bench.effort.sizes[-1]
    scenes = clip.scenes if seconds == clip.seconds else clip.scenes[:2]
    return replace(clip, seconds=seconds, size=size, scenes=scenes)


def _lines(clip: Encoded) -> int:
    return clip.size[1]


def _ways(bench: Bench) -> dict[str, Callable[[], _OnDevice]]:
    ways: dict[str, Callable[[], _OnDevice]] = {
        way: lambda way=way: _OnDevice("mediatensor", way, **bench.options(way))  # type: ignore[misc]
        for way in WAYS
    }
    ways[_RIVALS[0]] = lambda: _OnDevice("torchcodec", device="cpu", num_ffmpeg_threads=0)
    ways[_TORCHCODEC] = lambda: _torchcodec_on_cuda(bench)
    return ways


def _torchcodec_on_cuda(bench: Bench) -> _OnDevice:
    bench.require_cuda()
    return _OnDevice("torchcodec", device=str(bench.device))


def _measure(bench: Bench, clip: Clip, scenario: Scenario) -> Iterator[Found]:
    path = published_clips(bench)[clip.name]
    case = scenario.case([path], clip.num_frames)
    make_reference(path, case.frames()[str(path)], case.size)
    ready: dict[str, _OnDevice] = {}
    accuracy: dict[str, Comparison] = {}
    for name, create in _ways(bench).items():
        try:
            library = create()
            accuracy[name] = _compared(library, case)  # also the warm-up
            ready[name] = library
        except NotRun as reason:
            yield _row(clip.name, scenario.name, name, f"{NOT_RUN}: {reason}")
        except Exception as error:  # the rest is still measured
            yield _row(clip.name, scenario.name, name, f"{NOT_RUN}: {in_a_line(error)}")
            if name in WAYS:
                yield Check.of(f"{clip.name}, {scenario.name}, {name}", False, "", in_a_line(error))
    times = _timed(bench, case, ready)
    medians = {name: statistics.median(walls) for name, walls in times.items()}
    num_frames = KINDS[case.kind].num_frames(case)
    for name, walls in times.items():
        low, middle, high = quartiles(walls)
        yield _row(
            clip.name, scenario.name, name, ", ".join(sorted(ready[name].decoded_by)),
            frames_per_second=num_frames / middle, median_ms=middle * 1e3, low=low * 1e3, high=high * 1e3,
            accuracy=accuracy[name], runs=len(walls),
        )  # fmt: skip
    if case.kind == "loader" and scenario.size is not None:
        yield _target(clip.name, scenario.name, medians)


def _compared(library: _OnDevice, case: Case) -> Comparison:
    kind = KINDS[case.kind]
    case = kind.rehearsal(case)
    references = {path: load_reference(Path(path), case.size) for path in case.paths}
    comparison = Comparison()

    def see(path: str, indices: Sequence[int], batch: Any) -> None:
        for index, image in zip(indices, library.images(batch), strict=True):
            comparison.add(image, references[path], index)

    rehearsed = KINDS[case.kind]
    rehearsed.run(library, case, rehearsed.prepare(library, case), see)
    return comparison


def _timed(bench: Bench, case: Case, ready: dict[str, _OnDevice]) -> dict[str, list[float]]:
    """Return the seconds of each run; the libraries take turns, in another order each round."""
    kind = KINDS[case.kind]
    walls: dict[str, list[float]] = {name: [] for name in ready}
    generator = torch.Generator().manual_seed(0)
    for _ in range(bench.effort.repeats):
        order = torch.randperm(len(ready), generator=generator).tolist()
        for name in (list(ready)[i] for i in order):
            if sum(walls[name]) > _BUDGET_SECONDS:
                continue
            prepared = kind.prepare(ready[name], case)
            bench.synchronize()
            begin = time.perf_counter()
            kind.run(ready[name], case, prepared, lambda *_: None)
            bench.synchronize()
            walls[name].append(time.perf_counter() - begin)
    return walls


def _row(
    clip: str,
    scenario: str,
    way: str,
    note: str,
    *,
    frames_per_second: float | None = None,
    median_ms: float | None = None,
    low: float | None = None,
    high: float | None = None,
    accuracy: Comparison | None = None,
    runs: int = 0,
) -> Figure:
    right = None if accuracy is None else f"{accuracy.identical} of {accuracy.compared}"
    off = None if accuracy is None else accuracy.largest_difference
    return Figure(
        SCENARIOS_TABLE,
        {
            "clip": clip, "scenario": scenario, "way": way, "frames/s": frames_per_second, "median ms": median_ms,
            "first quartile": low, "third quartile": high, "identical to the CPU": right, "off by up to": off,
            "runs": runs, "note": note,
        },
    )  # fmt: skip


def _target(clip: str, scenario: str, medians: dict[str, float]) -> Target:
    name = f"ahead of torchcodec CUDA: {clip}, {scenario}"
    ours = min((medians[way] for way in (HYBRID, NVDEC) if way in medians), default=None)
    if ours is None or NVDEC not in medians or _TORCHCODEC not in medians:
        missing = [way for way in (NVDEC, _TORCHCODEC) if way not in medians]
        return Target(name, None, f"{' and '.join(missing)} did not run")
    ratio = medians[_TORCHCODEC] / medians[NVDEC]
    return Target(name, ratio > 1, f"NVDEC {ratio:.2f} times as fast; {_best(medians)} is our fastest way")


def _best(medians: dict[str, float]) -> str:
    return min((way for way in (CPU, HYBRID, NVDEC) if way in medians), key=medians.__getitem__)
