"""The number of function calls for one frame, C functions included: the overhead of a small frame."""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import media
from mediatensor.decoders import VideoDecoder

NUM_FRAMES = 390
# About 130 packets after its key frame.
MIDDLE = 130


def _paint(number: int, width: int, height: int) -> NDArray[np.uint8]:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    pixels[: height // 2] = number % 256
    return np.roll(pixels, 2 * number, axis=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GOPs of 250 pictures; x264 makes about every other picture disposable."""
    path = tmp_path_factory.mktemp("calls") / "clip.mp4"
    options = {"preset": "veryfast", "g": "250", "sc_threshold": "0"}
    spec = media.ClipSpec("", options=options, size=(480, 270), num_frames=NUM_FRAMES, rate=30, paint=_paint)
    media.write_spec(spec, path)
    with VideoDecoder(path) as decoder:
        decoder[0]  # imports and one-time lookups
    return path


def num_calls(work: Callable[[], Any]) -> int:
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_call_takes_few_functions(path: Path) -> None:
    """Each bound has room for the handlers of signals that a test runner sets, which every call puts aside."""
    decoders: list[VideoDecoder] = []
    assert num_calls(lambda: decoders.append(VideoDecoder(path))) <= 800
    with decoders[0] as decoder:
        assert num_calls(lambda: decoder[MIDDLE]) <= 4500
        following = [num_calls(lambda i=i: decoder[i]) for i in range(MIDDLE + 1, MIDDLE + 9)]  # type: ignore[misc]
        assert sum(following) / len(following) <= 150
        assert num_calls(lambda: decoder[MIDDLE + 8]) <= 86
        assert num_calls(lambda: list(decoder)) <= 80 * NUM_FRAMES


_FIRST_USE = """
import cProfile, pstats, sys
import torch
from mediatensor.decoders import VideoDecoder
known = set(sys.modules)
profile = cProfile.Profile()
profile.enable()
len(VideoDecoder(sys.argv[1]))
profile.disable()
print(pstats.Stats(profile).total_calls, *sorted(set(sys.modules) - known))
"""


@pytest.mark.parametrize(("container", "most_calls"), [("mp4", 4000), ("mkv", 6000)])
def test_the_first_file_of_a_process_loads_no_modules(
    container: str, most_calls: int, path: Path, tmp_path: Path
) -> None:
    """A module, or the list of all installed packages, takes longer than opening a small file."""
    if container == "mkv":
        copy = tmp_path / "clip.mkv"
        with av.open(str(path)) as source, av.open(str(copy), "w") as target:
            stream = target.add_stream_from_template(source.streams.video[0])
            for packet in source.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    target.mux(packet)
        path = copy
    run = subprocess.run([sys.executable, "-c", _FIRST_USE, path], capture_output=True, text=True, check=True)
    calls, *modules = run.stdout.split()
    assert int(calls) <= most_calls
    assert {module for module in modules if module.split(".")[0] not in ("av", "torch")} == set()
