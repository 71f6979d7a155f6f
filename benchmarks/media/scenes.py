"""Finding the scenes of a film: ``python -m benchmarks.media.scenes``.

Each way reads the same films with one codec thread. Two rows are for reference: every frame as RGB, which a detector on
tensors needs, and the bare codec, the lower bound for every way that decodes all frames.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import torch

from mediatensor.decoders import VideoDecoder
from mediatensor.samplers import find_scenes

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_output, check_counts, make_parser
from ..shared.reports import fact_list, markdown_table, write_report
from ..shared.results import timing_row
from .chart import draw_chart
from .clips import Encoded, film, make_clips

RGB, FLOOR = "mediatensor, every frame as RGB", "PyAV, decoding only"

_NUM_SHOTS, _SECONDS, _RATE = 8, 24, Fraction(25)
_TWO_SECONDS = (("g", "50"), ("sc_threshold", "0"))
_QUICKLY = (("deadline", "realtime"), ("cpu-used", "8"))

CLIPS = (
    Encoded("H.264", film(_NUM_SHOTS), (640, 360), _RATE, _SECONDS),
    Encoded("H.264, key frames every 2 s", film(_NUM_SHOTS), (640, 360), _RATE, _SECONDS, options=_TWO_SECONDS),
    Encoded("H.264, 1080p", film(_NUM_SHOTS), (1920, 1080), _RATE, _SECONDS / 2),
    Encoded("VP9", film(_NUM_SHOTS), (640, 360), _RATE, _SECONDS, "libvpx-vp9", _QUICKLY, "webm"),
)

#: Returns the first frames of the scenes of a file; nothing if the way does not detect scenes.
FindStarts = Callable[[Path], list[int]]


@dataclass(frozen=True)
class Result:
    """One way with one film.

    Attributes:
        clip, way: Names of the film and the way.
        num_frames: Frames of the film.
        wall, cpu: Seconds of each run, opening included; CPU of all threads.
        num_cuts: Cuts of the film; ``None`` if unknown.
        found, extra: Cuts that the way finds at the exact frame, and false cuts; ``None`` if it does not detect
            scenes, or if the cuts are unknown.
    """

    clip: str
    way: str
    num_frames: int
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    num_cuts: int | None
    found: int | None
    extra: int | None


def _ours(path: Path, **options: Any) -> list[int]:
    with VideoDecoder(path, num_ffmpeg_threads=1) as decoder:
        return [scene.first_frame for scene in find_scenes(decoder, **options)]


def _rgb(path: Path) -> list[int]:
    with VideoDecoder(path, num_ffmpeg_threads=1) as decoder:
        for _ in decoder:
            pass
    return []


def _bare(path: Path) -> list[int]:
    with av.open(str(path)) as container:
        context: Any = container.streams.video[0].codec_context
        context.thread_count, context.thread_type = 1, "NONE"
        for _ in container.decode(video=0):
            pass
    return []


def _by_scenedetect(package: Any, path: Path) -> list[int]:
    video = package.open_video(str(path))
    manager = package.SceneManager()
    manager.add_detector(package.AdaptiveDetector())
    manager.detect_scenes(video)
    return [begin.frame_num for begin, _ in manager.get_scene_list(start_in_scene=True)]


def ways() -> dict[str, FindStarts]:
    """Return the installed ways by name."""
    found: dict[str, FindStarts] = {
        "mediatensor": _ours,
        "mediatensor, key frames only": lambda path: _ours(path, key_frames_only=True),
        RGB: _rgb,
        FLOOR: _bare,
    }
    os.environ.setdefault("OPENCV_FFMPEG_CAPTURE_OPTIONS", "threads;1")
    with suppress(ImportError):
        package = importlib.import_module("scenedetect")
        importlib.import_module("cv2").setNumThreads(1)
        found["PySceneDetect, AdaptiveDetector"] = lambda path: _by_scenedetect(package, path)
    return found


def starts_of(clip: Encoded) -> list[int]:
    """Return the first frames of a generated clip's scenes."""
    return [clip.num_frames * number // len(clip.scenes) for number in range(len(clip.scenes))]


def measure(name: str, path: Path, starts: Sequence[int] | None, repeats: int) -> list[Result]:
    """Measure each way; they take turns, in another order each round, after a warm-up whose result is checked."""
    candidates = ways()
    found = {way: find(path) for way, find in candidates.items()}
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in candidates}
    order = list(candidates)
    for _ in range(repeats):
        for way in order:
            wall, cpu = time.perf_counter(), time.process_time()
            candidates[way](path)
            times[way].append((time.perf_counter() - wall, time.process_time() - cpu))
        order = order[1:] + order[:1]
    with VideoDecoder(path) as decoder:
        num_frames = len(decoder)
    results = []
    for way, runs in times.items():
        walls, cpus = (tuple(values) for values in zip(*runs, strict=True))
        true, cuts = set(starts or ()) - {0}, set(found[way]) - {0}
        counts = (len(true), len(true & cuts), len(cuts - true)) if starts is not None and found[way] else (None,) * 3
        results.append(Result(name, way, num_frames, walls, cpus, *counts))
    return results


def table(results: Sequence[Result]) -> str:
    """Format a line for each film and way; "times" is the CPU time of every frame as RGB divided by the way's."""
    lines = []
    for result in results:
        (rgb,) = (other for other in results if (other.clip, other.way) == (result.clip, RGB))
        cpu, wall = statistics.median(result.cpu), statistics.median(result.wall)
        cuts = ("", "") if result.found is None else (f"{result.found} of {result.num_cuts}", str(result.extra))
        line = [result.clip, result.way, f"{1000 * cpu / result.num_frames:.3f}"]
        line += [f"{1000 * wall / result.num_frames:.3f}", f"{statistics.median(rgb.cpu) / cpu:.1f}"]
        lines.append([*line, *cuts])
    head = ["film", "way", "CPU ms a frame", "wall ms a frame", "times", "cuts found", "false cuts"]
    return markdown_table(head, lines, 2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = make_parser("benchmarks.media.scenes", __doc__)
    parser.add_argument("--films", type=Path, nargs="+", default=[], metavar="FILE", help="measure your own films")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each way (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="smoke test: tiny films and one run")
    parser.add_argument("--clips", type=Path, metavar="FOLDER", help="folder for generated films")
    add_output(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "repeats")
    torch.set_num_threads(1)
    repeats = 1 if options.quick else options.repeats
    clips = [replace(clip, scenes=film(2), size=(64, 48), seconds=2) if options.quick else clip for clip in CLIPS]
    stamp = machine_stamp() | {"runs": f"{repeats} after a warm-up, one codec thread"}
    stamp |= package_versions("scenedetect")
    with tempfile.TemporaryDirectory() as folder:
        if options.films:
            films = [(path.name, path, None) for path in options.films]
        else:
            paths = make_clips(clips, options.clips or Path(folder))
            films = [(clip.name, paths[clip.name], starts_of(clip)) for clip in clips]
        results = [result for name, path, starts in films for result in measure(name, path, starts, repeats)]
    title = "Finding the scenes of films"
    rows = [timing_row("scenes", r.clip, "wall time", r.way, r.wall, r.cpu) for r in results]
    document = {"machine": stamp, "results": [asdict(result) for result in results]}
    text = f"{title}\n\n{fact_list(stamp)}\n\n{table(results)}\n"
    write_report(options.output, "scenes", document, text, partial(draw_chart, title, rows))


if __name__ == "__main__":
    main()
