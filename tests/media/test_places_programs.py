"""Programs started without docstrings, with warnings as errors, without a home, in odd locales, and with odd clocks."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mediatensor
from mediatensor.datasets import DataLoader, VideoClips
from mediatensor.decoders import VideoDecoder

EVERYTHING = """
import sys
sys.path.insert(0, {folder!r})
import hashlib
import mediatensor.cli, mediatensor.distributed, mediatensor.isolate, mediatensor.ocr.io, mediatensor.transforms
from mediatensor.datasets import DataLoader, VideoClips
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder

path = {clip!r}
decoder = VideoDecoder(path)
digest = hashlib.sha256(decoder[:].numpy().tobytes())
loader = DataLoader(VideoClips([path] * 4, num_frames_per_clip=4, seed=7), 2, shuffle=True)
for batch in loader:
    digest.update(batch.frames.data.numpy().tobytes())
VideoEncoder(decoder[:4], frame_rate=25).to_file({output!r})
digest.update(str(VideoDecoder({output!r})[:].shape).encode())  # the encoder's bits vary for pictures this small
try:
    VideoDecoder("caf\\udce9.mp4")
except FileNotFoundError as error:
    ascii(str(error))
print(digest.hexdigest())
"""

WAYS = {
    # Without docstrings, Python compiles all modules.
    "no docstrings, C locale, no home": pytest.param(
        ["-OO", "-X", "utf8=0"],
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "1"},
        marks=pytest.mark.slow,
    ),
    "warnings are errors, C locale, home cannot be written to": pytest.param(
        ["-I", "-W", "error", "-X", "utf8=0"], {"HOME": "home", "LC_ALL": "C"}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "environment"), WAYS.values(), ids=list(WAYS))
def test_every_way_gives_the_same(
    arguments: list[str], environment: dict[str, str], clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    source = str(Path(mediatensor.__file__).parents[1])
    here, there = (
        EVERYTHING.format(folder=source, clip=str(clip), output=str(tmp_path / name)) for name in ("1.mp4", "2.mp4")
    )
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as expected:
        exec(here, {})
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    run = subprocess.run(
        [sys.executable, *arguments, "-c", there],
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.stderr, run.stdout) == ("", expected.getvalue())
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("jump", [lambda: -1e9, lambda: 1e9], ids=["back", "forward"])
def test_the_clock_may_be_set(
    jump: Callable[[], float], clip: Path, clip_rgb: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = VideoDecoder(clip, num_ffmpeg_threads=None)
    loader = DataLoader(VideoClips([clip] * 2, num_frames_per_clip=4), 1)
    batches = iter(loader)
    first = next(batches)
    monkeypatch.setattr("time.time", jump)
    assert torch.equal(decoder[17], clip_rgb[17])
    again = next(batches)
    assert first.frames.data.shape == again.frames.data.shape
    assert all(0 <= timing.finished - timing.started < 60 for timing in again.timings)
