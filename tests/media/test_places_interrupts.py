"""Ctrl-C ends all work at once, and leaves no process, file or shared memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mediatensor._engine.sources.readers import Reader
from mediatensor.datasets import DataLoader, VideoClips
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from places import in_child, interrupted, interrupted_at_line, left_in_group, needs_fork

pytestmark = needs_fork

Ready = Callable[[], object]


def shared_memory(process: int) -> list[str]:
    """List the segments in ``/dev/shm`` that torch made for a process."""
    folder = Path("/dev/shm")
    return [path.name for path in folder.glob(f"torch_{process}_*")] if folder.is_dir() else []


@pytest.mark.parametrize("seconds", [0.0, 0.03])
def test_decoding(seconds: float, clip: Path, tmp_path: Path) -> None:
    def decode(ready: Ready) -> None:
        with VideoDecoder(clip) as decoder:
            ready()
            while True:
                decoder.get_frames_at([39, 2, 17])

    assert not left_in_group(interrupted(tmp_path, decode, seconds))


def test_a_decoder_goes_on_after_it(clip: Path, clip_rgb: torch.Tensor, tmp_path: Path) -> None:
    """Each interrupt is raised, except those that Python drops and reports: in a deletion, or a callback of the GC."""

    def decode() -> bool:
        decoder = VideoDecoder(clip)
        num_sent = 0
        raised, reported = [], []

        def interrupt(*_: object) -> None:
            nonlocal num_sent
            if not isinstance(sys.exception(), KeyboardInterrupt):  # on a busy machine, while the first one is caught
                num_sent += 1
                raise KeyboardInterrupt(num_sent)

        signal.signal(signal.SIGALRM, interrupt)
        sys.unraisablehook = lambda report: reported.append(report.exc_value.args[0])
        for microseconds in range(200, 6200, 20):
            try:
                # A second signal follows if the first one is lost.
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6, 1)
                while True:  # whenever the signal comes, the decoder is at work
                    decoder.get_frames_at(list(range(0, 40, 3)))
            except KeyboardInterrupt as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                raised.append(error.args[0])
            if microseconds % 200 == 0:
                assert torch.equal(decoder[17], clip_rgb[17])
        # Each is raised once at most. A reported one is raised as well if the decoder has kept it.
        assert len(raised) == len({*raised})
        assert {*raised, *reported} == {*range(1, num_sent + 1)}
        return True

    assert in_child(tmp_path, decode)


@pytest.mark.parametrize("has_table", [False, True])
def test_handlers_are_left_alone_before_the_end_of_a_file(
    has_table: bool, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = VideoDecoder(clip).frame_index
    frames = zip(index.pts.tolist(), index.duration.tolist(), index.is_key.tolist(), strict=True)
    rows = [{"pts": pts, "duration": duration, "key_frame": int(is_key)} for pts, duration, is_key in frames]
    decoder = VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": rows}) if has_table else None)
    decoder[0]
    replaced: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", lambda *arguments: replaced.append(arguments))
        for number in range(1, 30):  # of 40
            decoder[number]
    assert replaced == []


def test_reading_bytes(clip: Path, clip_rgb: torch.Tensor) -> None:
    """FFmpeg calls the reader, and would treat an exception there as the end of the file."""
    data = clip.read_bytes()

    def decode() -> None:
        with VideoDecoder(data) as decoder:
            assert torch.equal(decoder.get_frames_at([39, 2, 17]).data, clip_rgb[[39, 2, 17]])

    number = 1
    while interrupted_at_line(number, sys.modules[Reader.__module__], decode):
        number += 1
    assert number > 50


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_encoding(seconds: float, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (60, 3, 256, 256), np.uint8))

    def encode(ready: Ready) -> None:
        ready()
        while True:
            VideoEncoder(frames, frame_rate=25).to_file(output / "video.mp4")
            (output / "video.mp4").unlink()

    interrupted(tmp_path, encode, seconds)
    assert [path.name for path in output.iterdir()] in ([], ["video.mp4"])
    if (output / "video.mp4").exists():  # it came just when one was finished
        assert len(VideoDecoder(output / "video.mp4")) == 60


@pytest.mark.parametrize("seconds", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_an_epoch_with_workers(seconds: float, clip: Path, tmp_path: Path) -> None:
    def train(ready: Ready) -> None:
        loader = DataLoader(VideoClips([clip] * 2000, num_frames_per_clip=16), 8, num_workers=2)
        for number, _ in enumerate(loader):
            if number == 1:
                ready()

    process = interrupted(tmp_path, train, seconds)
    assert not left_in_group(process)
    assert shared_memory(process) == []


def test_reading_text(tmp_path: Path) -> None:
    from ocr_reading import reader, text_page

    predictor, page = reader(), text_page().image

    def read(ready: Ready) -> None:
        torch.set_num_threads(1)
        ready()
        while True:
            predictor([page])

    assert not left_in_group(interrupted(tmp_path, read, 0.1))


@pytest.mark.slow
def test_a_command(clip: Path, tmp_path: Path) -> None:
    output, temporary = tmp_path / "output", tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["extract", str(clip), "-o", str(output), "--overwrite"]
    # A shell lets programs in the background ignore the signal.
    code = f"""
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mediatensor.cli import main
while (code := main({arguments})) == 0:
    pass
sys.exit(code)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout.readline().startswith(b"wrote 40 images")
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    if process.returncode == 130:
        assert re.fullmatch(rb"mediatensor: interrupted(; \d+ of 40 files are in [^\n]*)?\n", errors)
    else:  # it arrived while Python itself was ending
        assert process.returncode == -signal.SIGINT
    assert not left_in_group(process.pid)
    assert list(temporary.iterdir()) == []
    assert all(path.suffix == ".png" and not path.name.startswith(".") for path in output.iterdir())
