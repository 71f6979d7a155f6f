"""Compare mediatensor with other video decoders on one generated clip: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.filter import Graph
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

import mediatensor
from mediatensor.decoders import VideoDecoder

Image = NDArray[np.uint8]

SIZE = (1920, 1080)
FPS = 30
SEED = 0


@dataclass(frozen=True)
class Library:
    """One way to decode: ``count`` and ``fetch`` open the file anew; ``images``, not timed, gives (H, W, 3) arrays."""

    name: str
    count: Callable[[str], int]
    fetch: Callable[[str, Sequence[int]], Any]
    images: Callable[[Any], Iterable[Image]] = iter


@dataclass(frozen=True)
class Result:
    """Times of one library at one task, in milliseconds; ``identical`` is None where no frames are asked for."""

    task: str
    library: str
    median_ms: float
    min_ms: float
    max_ms: float
    cpu_ms: float
    identical: int | None
    frames: int


def write_clip(path: str, seconds: float) -> None:
    """Encode a zoom into the Mandelbrot set as 1080p H.264 with the encoder's own choice of key frames."""
    width, height = SIZE
    graph = Graph()
    graph.link_nodes(
        graph.add("mandelbrot", f"s={width}x{height}:r={FPS}"),
        graph.add("format", "pix_fmts=yuv420p"),
        graph.add("buffersink"),
    ).configure()
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for _ in range(max(1, round(seconds * FPS))):
            frame = graph.pull()
            frame.pict_type = 0  # left to the encoder
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def digest(image: Image) -> bytes:
    """A fingerprint of an image, equal only for equal pixels."""
    return hashlib.sha1(np.ascontiguousarray(image), usedforsecurity=False).digest()


def reference_digests(path: str) -> list[bytes]:
    """Fingerprints of all frames of a plain linear decode, converted with bicubic chroma interpolation."""
    reformatter = VideoReformatter()
    with av.open(path) as container:
        return [
            digest(reformatter.reformat(frame, format="rgb24", interpolation=Interpolation.BICUBIC).to_ndarray())
            for frame in container.decode(video=0)
        ]


def tensor_library(name: str, decoder_type: Callable[..., Any], **options: Any) -> Library:
    """A library with the interface of `VideoDecoder`."""
    return Library(
        name,
        lambda path: len(decoder_type(path, **options)),
        lambda path, indices: decoder_type(path, **options).get_frames_at(list(indices)).data,
        lambda batch: [frame.permute(1, 2, 0).numpy() for frame in batch],
    )


def pyav_count(path: str) -> int:
    """The number of frames that the header states."""
    with av.open(path) as container:
        return container.streams.video[0].frames


def pyav_fetch(path: str, indices: Sequence[int]) -> list[Image]:
    """Decode from the beginning up to the last wanted frame, and convert the wanted ones."""
    wanted, last, found = set(indices), max(indices), {}
    with av.open(path) as container:
        for i, frame in enumerate(container.decode(video=0)):
            if i in wanted:
                found[i] = frame.to_ndarray(format="rgb24")
            if i == last:
                break
    return [found[i] for i in indices]


def opencv_library(cv2: Any) -> Library:
    """OpenCV: seeks by frame number, except where the next frame is the wanted one."""

    def count(path: str) -> int:
        return int(cv2.VideoCapture(path).get(cv2.CAP_PROP_FRAME_COUNT))

    def fetch(path: str, indices: Sequence[int]) -> list[Image]:
        capture, images, following = cv2.VideoCapture(path), [], 0
        for i in indices:
            if i != following:
                capture.set(cv2.CAP_PROP_POS_FRAMES, i)
            is_read, image = capture.read()
            if not is_read:
                raise RuntimeError(f"OpenCV did not read frame {i}.")
            images.append(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
            following = i + 1
        capture.release()
        return images

    return Library("OpenCV", count, fetch)


def optional_module(name: str) -> Any | None:
    """A module, or None if it, or a shared library that it needs, is missing."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):
        return None


def find_libraries() -> tuple[list[Library], dict[str, str]]:
    """The libraries that can be used here, and the versions of all of them."""
    libraries = [
        tensor_library("mediatensor", VideoDecoder),
        tensor_library("mediatensor, 1 thread", VideoDecoder, num_ffmpeg_threads=1),
        Library("PyAV loop", pyav_count, pyav_fetch),
    ]
    versions = {"mediatensor": mediatensor.__version__, "PyAV": f"{av.__version__}, FFmpeg {av.ffmpeg_version_info}"}
    optional = {name: optional_module(name) for name in ("torchcodec", "torchcodec.decoders", "cv2", "decord")}
    if decoders := optional["torchcodec.decoders"]:
        libraries.append(tensor_library("torchcodec", decoders.VideoDecoder))
        libraries.append(tensor_library("torchcodec, all threads", decoders.VideoDecoder, num_ffmpeg_threads=0))
    if optional["cv2"]:
        libraries.append(opencv_library(optional["cv2"]))
    if decord := optional["decord"]:
        libraries.append(
            Library(
                "decord",
                lambda path: len(decord.VideoReader(path)),
                lambda path, indices: decord.VideoReader(path).get_batch(list(indices)).asnumpy(),
            )
        )
    for label, name in {"torchcodec": "torchcodec.decoders", "OpenCV": "cv2", "decord": "decord"}.items():
        module = optional[name.partition(".")[0]]
        versions[label] = module.__version__ if module and optional[name] else "not installed"
    if optional["torchcodec.decoders"] and hasattr(optional["torchcodec"], "ffmpeg_major_version"):
        versions["torchcodec"] += f", FFmpeg {optional['torchcodec'].ffmpeg_major_version}"
    return libraries, versions


def make_tasks(num_frames: int) -> dict[str, list[int]]:
    """Wanted frames by task; none for opening."""
    few = min(10, num_frames)
    return {
        "open and count frames": [],
        f"{few} uniform frames": [round(i * (num_frames - 1) / max(1, few - 1)) for i in range(few)],
        f"{few} random frames": random.Random(SEED).sample(range(num_frames), few),
        f"first {min(100, num_frames)} frames": list(range(min(100, num_frames))),
    }


def timed(library: Library, path: str, indices: list[int]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one run, the creation of the decoder included."""
    wall, cpu = time.perf_counter(), time.process_time()
    frames = library.fetch(path, indices) if indices else library.count(path)
    times = (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3
    del frames  # released after the clocks were read
    return times


def count_identical(library: Library, path: str, indices: list[int], reference: list[bytes]) -> int | None:
    """How many frames equal the reference; this run is the warm-up, too."""
    if not indices:
        library.count(path)
        return None
    images = library.images(library.fetch(path, indices))
    return sum(digest(image) == reference[i] for i, image in zip(indices, images, strict=True))


def measure(libraries: list[Library], path: str, repeats: int) -> list[Result]:
    """All tasks with all libraries, which take turns within every repeat, each time in another order."""
    reference, shuffled = reference_digests(path), random.Random(SEED)
    results = []
    for task, indices in make_tasks(len(reference)).items():
        print(f"{task} ...", file=sys.stderr)
        identical = {library.name: count_identical(library, path, indices, reference) for library in libraries}
        times: dict[str, list[tuple[float, float]]] = {library.name: [] for library in libraries}
        for _ in range(repeats):
            for library in shuffled.sample(libraries, len(libraries)):
                times[library.name].append(timed(library, path, indices))
        for name, same in identical.items():
            wall, cpu = zip(*times[name], strict=True)
            summary = (statistics.median(wall), min(wall), max(wall), statistics.median(cpu))
            results.append(Result(task, name, *(round(t, 1) for t in summary), same, len(indices)))
    return results


def machine_stamp() -> dict[str, str]:
    """What the numbers depend on besides the libraries."""
    lines = cpu_info.read_text().splitlines() if (cpu_info := Path("/proc/cpuinfo")).exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "CPU": models[0] if models else platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def markdown(results: list[Result], stamp: dict[str, str]) -> str:
    """The results as a table, with the stamp above it."""
    lines = [f"- {key}: {value}" for key, value in stamp.items()]
    lines += ["", "| task | library | median ms | min ms | max ms | median CPU ms | identical frames |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for r in results:
        same = "" if r.identical is None else f"{r.identical} of {r.frames}"
        times = " | ".join(f"{t:.1f}" for t in (r.median_ms, r.min_ms, r.max_ms, r.cpu_ms))
        lines.append(f"| {r.task} | {r.library} | {times} | {same} |")
    return "\n".join(lines) + "\n"


def draw_chart(results: list[Result], path: Path) -> None:
    """Bars of the medians with whiskers from min to max, if matplotlib is installed."""
    pyplot = optional_module("matplotlib.pyplot")
    if pyplot is None:
        return
    tasks = list(dict.fromkeys(r.task for r in results))
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(4 * len(tasks), 3), squeeze=False, layout="constrained")
    for axis, task in zip(axes[0], tasks, strict=True):
        rows = [r for r in results if r.task == task][::-1]
        spread = [[r.median_ms - r.min_ms for r in rows], [r.max_ms - r.median_ms for r in rows]]
        axis.barh([r.library for r in rows], [r.median_ms for r in rows], xerr=spread)
        axis.set(title=task, xlabel="ms (less is better)")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="length of the clip (default: 5)")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each task (default: 5)")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and a chart there")
    options = parser.parse_args()
    if options.seconds <= 0 or options.repeats < 1:
        parser.error("--seconds and --repeats must be positive")
    libraries, versions = find_libraries()
    run = {"clip": f"{options.seconds:g} s, {SIZE[0]}x{SIZE[1]} H.264, {FPS} fps", "repeats": str(options.repeats)}
    stamp = machine_stamp() | versions | run
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "clip.mp4")
        print("encoding the clip ...", file=sys.stderr)
        write_clip(path, options.seconds)
        results = measure(libraries, path, options.repeats)
    table = markdown(results, stamp)
    print(table)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        document = {"machine": stamp, "results": [asdict(r) for r in results]}
        (options.output / "results.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        (options.output / "results.md").write_text(table, encoding="utf-8")
        draw_chart(results, options.output / "results.png")


if __name__ == "__main__":
    main()
