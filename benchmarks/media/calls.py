"""Count the Python functions that a video decoder calls: the overhead of a small frame.

Counts do not depend on the machine's speed, so they show the effect of a change. One thread decodes, as in a loader's
worker.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import av
import numpy as np

import mediatensor
from mediatensor.decoders import VideoDecoder

from ..shared.reports import markdown_table

_NUM_FRAMES = 240
_SIZE = (180, 320)
# Groups of pictures, and how far after its key frame a jump goes.
_SHORT_GROUP, _LONG_GROUP = 8, 120
# Number of jumps, to frames that are far apart, so that none of them is cached.
_NUM_JUMPS = 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.media.calls", description=__doc__)
    parser.add_argument("--functions", action="store_true", help="list the functions of the jump and of the next frame")
    options = parser.parse_args(arguments)
    mediatensor.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        counts = {length: measure(write_clip(Path(folder) / f"{length}.mp4", length)) for length in _GROUPS}
    rows = ([name, *(f"{by_name[name].total():.0f}" for by_name in counts.values())] for name in counts[_SHORT_GROUP])
    print(markdown_table(["call", *(f"groups of {length}" for length in counts)], rows))
    if options.functions:
        for name in ("jump", "next frame"):
            print(f"\n{name}:")
            for function, number in counts[_SHORT_GROUP][name].most_common():
                print(f"{number:5} {function}")


_GROUPS = (_SHORT_GROUP, _LONG_GROUP)


def write_clip(path: Path, group_length: int) -> Path:
    """Write an H.264 clip, 320x180, with a key frame every ``group_length`` frames and no B frames."""
    noise = np.random.default_rng(0).integers(0, 64, (*_SIZE, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=30)
        stream.height, stream.width, stream.pix_fmt = *_SIZE, "yuv420p"
        stream.options = {"preset": "veryfast", "g": str(group_length), "sc_threshold": "0", "bf": "0", "threads": "1"}
        for number in range(_NUM_FRAMES):
            pixels = np.roll(noise + np.uint8(number % 64), 2 * number, axis=1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def measure(path: Path) -> dict[str, Counter[str]]:
    """Return the number of calls of each function, by kind of call; the median of several calls."""
    with VideoDecoder(path) as decoder:
        decoder[0]  # imports, and one-time lookups
        opened: list[VideoDecoder] = []
        opening = count_calls(lambda: opened.append(VideoDecoder(path)))
        opened[0].close()
        starts = decoder.frame_index.gop_start_indices.tolist()
        middle = starts[1] // 2
        places = [start + middle for start in starts if 0 < start + middle < len(decoder) - 3]
        order = np.random.default_rng(0).permutation(places)[:_NUM_JUMPS].tolist()
        jumps, following, again = [], [], []
        for place in order:
            jumps.append(count_calls(lambda place=place: decoder[place]))  # type: ignore[misc]
            decoder[place + 1]
            following.append(count_calls(lambda place=place: decoder[place + 2]))  # type: ignore[misc]
            again.append(count_calls(lambda place=place: decoder[place + 2]))  # type: ignore[misc]
        clip = count_calls(lambda: decoder[middle : middle + 16])
        frames = count_calls(lambda: list(decoder))
    stream = path.with_suffix(".ts")  # a format without a table, so that each packet is read
    _copy_stream(path, stream)
    with VideoDecoder(stream) as decoder:
        scan = count_calls(lambda: len(decoder))
    return {
        "open": opening,
        "each packet of a scan": _per_frame(scan),
        "jump": _median(jumps),
        "next frame": _median(following),
        "same frame again": _median(again),
        "clip of 16 frames": clip,
        "each frame of iteration": _per_frame(frames),
    }


def _per_frame(counts: Counter[str]) -> Counter[str]:
    return Counter({name: number / _NUM_FRAMES for name, number in counts.items()})


def _copy_stream(path: Path, target: Path) -> None:
    with av.open(str(path)) as source, av.open(str(target), "w") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                container.mux(packet)


def _median(counts: list[Counter[str]]) -> Counter[str]:
    return sorted(counts, key=Counter.total)[len(counts) // 2]


def count_calls(work: Callable[[], object]) -> Counter[str]:
    """Run a function, and return how often each Python function was called in it, without the function itself."""
    counts: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    counts[f"{Path(work.__code__.co_filename).stem}.{work.__code__.co_qualname}"] -= 1
    return +counts


if __name__ == "__main__":
    main()
