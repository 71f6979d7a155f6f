"""Failing encoders leave nothing that looks like a finished file."""

from __future__ import annotations

import gc
import io
import os
import signal
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import pytest
import torch

from encoder_oracles import moving_pictures
from forked import run_program
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import AudioEncoder, Encoder, VideoEncoder, VideoStream
from mediatensor.errors import EncodeError, WriteError
from places import in_child, needs_fork, needs_proc, needs_unix, open_files

pytestmark = pytest.mark.usefixtures("fast_collection")

FRAMES = moving_pictures(10, 64, 64)
NOISE = torch.randint(0, 256, (10, 3, 256, 256), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def opened(path: Path) -> tuple[Encoder, VideoStream]:
    encoder = Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25)
    encoder.open_file(path)
    video.add_frames(FRAMES)
    return encoder, video


@pytest.mark.parametrize("before", [None, b"earlier contents"])
def test_an_exception_leaves_the_old_file(before: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    if before is not None:
        path.write_bytes(before)
    encoder, video = opened(path)
    with pytest.raises(KeyError, match="mine"), encoder:  # noqa: PT012 - the block is tested
        video.add_frames(FRAMES)
        raise KeyError("mine")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if before is None else [before])


@needs_proc
def test_an_encoder_that_is_dropped_leaves_nothing_open(tmp_path: Path) -> None:
    encoder, video = opened(tmp_path / "video.mp4")
    gone = weakref.ref(video)
    assert len(open_files(tmp_path)) == 1
    del encoder, video
    gc.collect()
    assert gone() is None
    assert list(tmp_path.iterdir()) == []
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("error", [None, KeyError, WriteError])
def test_encoders_are_freed_without_the_collector_of_cycles(error: type[Exception] | None) -> None:
    """Otherwise a forked child could free an encoder whose threads exist only in its parent."""
    gc.collect()
    gc.disable()
    try:
        before = sum(type(thing) is av.VideoCodecContext for thing in gc.get_objects())
        for _ in range(3):
            encoder = Encoder()
            video = encoder.add_video(height=256, width=256, frame_rate=25, codec="mpeg4")
            file = Full(10_000) if error is WriteError else io.BytesIO()
            with suppress(KeyError, WriteError), encoder.open_file_like(file, format="mkv"):
                video.add_frames(NOISE)
                if error is KeyError:
                    raise KeyError
        after = sum(type(thing) is av.VideoCodecContext for thing in gc.get_objects())
    finally:
        gc.enable()
    assert after == before


@needs_proc
@pytest.mark.parametrize("options", [{"extra_options": {"nosuch": 1}}, {"preset": "nosuch"}, {"codec": "libvpx"}])
def test_a_rejected_file_leaves_nothing_open(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((EncodeError, ValueError)):
        VideoEncoder(FRAMES, frame_rate=25).to_file(tmp_path / "video.mp4", **options)
    gc.collect()
    assert open_files(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys, torch
from mediatensor.encoders import Encoder
encoder = Encoder()
video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
encoder.open_file(sys.argv[1])
for number in range(30):
    video.add_frames(torch.randint(0, 256, (10, 3, 64, 64), dtype=torch.uint8))
print("ready", flush=True)
{end}
"""


def killed_while_it_writes(path: Path, program: str = PROGRAM) -> None:
    """Run a program that is killed after it has passed its frames to the encoder."""
    run = run_program(program.format(end="import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), path)
    assert (run.returncode, run.stdout) == (-signal.SIGKILL, "ready\n")


@needs_unix
def test_a_killed_process_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "video.mkv"
    killed_while_it_writes(path)
    assert not path.exists()
    # A file that could not be removed does not look like a video, and does not match patterns.
    assert all(file.name.startswith(".") and file.suffix == ".part" for file in tmp_path.iterdir())
    assert list(tmp_path.glob("*.mkv")) == []


@pytest.mark.parametrize("end", ["raise ValueError", pytest.param("del encoder, video", marks=pytest.mark.slow)])
def test_a_process_that_ends_leaves_nothing(end: str, tmp_path: Path) -> None:
    run = run_program(PROGRAM.format(end=end), tmp_path / "video.mkv")
    assert run.stdout == "ready\n"
    assert list(tmp_path.iterdir()) == []
    assert "Exception ignored" not in run.stderr


@needs_fork
def test_a_forked_child_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    encoder, video = opened(path)

    def use_what_the_parent_made() -> None:
        nonlocal encoder, video
        with pytest.raises(EncodeError), encoder:
            video.add_frames(FRAMES)
        del encoder, video
        gc.collect()

    in_child(tmp_path, use_what_the_parent_made)
    video.add_frames(FRAMES)
    encoder.close()
    assert len(VideoDecoder(path)) == 20


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("format", ["mp4", "mkv", "avi"])
def test_a_full_device(format: str) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(WriteError, match="No space left") as caught:
        VideoEncoder(NOISE, frame_rate=25).to_file_like(full, format)
    assert isinstance(caught.value, OSError)
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(WriteError, match="No space left"):
        AudioEncoder(torch.rand(2, 100_000), sample_rate=8000).to_file_like(full, "wav")


class Full(io.BytesIO):
    """Accepts a fixed number of bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._room:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 10_000, 200_000, 600_000])
@pytest.mark.parametrize("format", ["mp4", "mkv"])
def test_an_error_in_write_is_reported_and_ends_it(room: int, format: str) -> None:
    file, encoder = Full(room), Encoder()
    video = encoder.add_video(height=256, width=256, frame_rate=25, codec="libx264rgb", crf=0, preset="ultrafast")
    with pytest.raises(WriteError, match="No space left"), encoder.open_file_like(file, format=format):
        video.add_frames(NOISE.repeat(10, 1, 1, 1))
    size = len(file.getvalue())
    gc.collect()
    assert len(file.getvalue()) == size <= room
    assert not file.closed


def test_a_failed_encoder_reports_the_failure() -> None:
    encoder = Encoder()
    video = encoder.add_video(height=256, width=256, frame_rate=25, codec="rawvideo", pixel_format="yuv420p")
    encoder.open_file_like(Full(2_000_000), format="avi")
    with pytest.raises(WriteError):
        video.add_frames(NOISE.repeat(10, 1, 1, 1))
    with pytest.raises(EncodeError, match=r"already failed.*No space left"):
        video.add_frames(NOISE)
    with pytest.raises(EncodeError, match=r"Nothing was written.*No space left"):
        encoder.close()
    encoder.close()


@pytest.mark.parametrize("end", ["raise", "drop"])
def test_a_file_object_gets_no_trailer_of_an_unfinished_file(end: str) -> None:
    file, encoder = io.BytesIO(), Encoder()
    video = encoder.add_video(height=64, width=64, frame_rate=25, codec="mpeg4")
    encoder.open_file_like(file, format="mp4")
    video.add_frames(FRAMES)
    if end == "raise":
        with pytest.raises(KeyError), encoder:
            raise KeyError
    del encoder, video
    gc.collect()
    assert b"moov" not in file.getvalue()


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: (_ for _ in ()).throw(ZeroDivisionError("mine")),
        lambda data: 0,
        lambda data: len(data) + 1,
    ],
)
def test_a_write_that_breaks_its_contract(broken: Callable[[bytes], int]) -> None:
    class File(io.BytesIO):
        def write(self, data: Any) -> int:
            return broken(data)

    with pytest.raises(WriteError, match=r"mine|write\(\) of"):
        VideoEncoder(FRAMES, frame_rate=25).to_file_like(File(), "mp4")


FRAGMENTS = {
    "every frame of an mp4": ("mp4", {"movflags": "+frag_every_frame+empty_moov"}),
    "key frames of a mov": ("mov", {"movflags": "frag_keyframe+empty_moov", "g": 2}),
    "times in an mp4": ("mp4", {"movflags": "+empty_moov", "frag_duration": 80_000}),
    "packets of an mkv": ("mkv", {"flush_packets": 1, "cluster_time_limit": 40}),
    "packets of a ts": ("ts", {"flush_packets": 1}),
}


def growing(path: Path, options: dict[str, Any]) -> tuple[Encoder, VideoStream]:
    encoder = Encoder()
    plain = {"codec": "mpeg4", "extra_options": {"threads": 1, "bf": 0, **options}}
    video = encoder.add_video(height=64, width=64, frame_rate=25, **plain)
    return encoder.open_file(path), video


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragmented_files_can_be_read_while_they_are_written(name: str, tmp_path: Path) -> None:
    extension, options = FRAGMENTS[name]
    path = tmp_path / f"video.{extension}"
    path.write_bytes(b"earlier contents")
    encoder, video = growing(path, options)
    seen = []
    for half in FRAMES[:5], FRAMES[5:]:
        video.add_frames(half)
        seen.append(VideoDecoder(path)[:])
    encoder.close()
    whole = VideoDecoder(path)[:]
    assert len(whole) == 10
    assert 3 <= len(seen[0]) <= 5 < 8 <= len(seen[1])
    assert all(torch.equal(some, whole[: len(some)]) for some in seen)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", ["raise", "drop"])
def test_a_failure_keeps_a_file_that_could_be_read(end: str, tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    encoder, video = growing(path, {"movflags": "+frag_every_frame+empty_moov"})
    video.add_frames(FRAMES)
    if end == "raise":
        with pytest.raises(KeyError), encoder:
            raise KeyError("mine")
    del encoder, video
    gc.collect()
    assert len(VideoDecoder(path)) == 9  # the last frame is written only when the next one determines its end
    assert open_files(tmp_path) == []


def test_a_rejected_file_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(b"earlier contents")
    with pytest.raises(EncodeError, match="header"):
        growing(path, {"movflags": "+frag_keyframe+nosuch"})
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"earlier contents"]


@needs_unix
def test_a_killed_process_leaves_its_fragments(tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    fragments = "extra_options={{'movflags': 'frag_keyframe+empty_moov', 'g': 10}}, "
    killed_while_it_writes(path, PROGRAM.replace("height=64", f"{fragments}height=64"))
    assert 100 <= len(VideoDecoder(path)) <= 300
