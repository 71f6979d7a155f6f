"""Damaged files give frames of a linear decode of the same file, or a clear error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
from damaging import garbage, plain_decode, with_damage
from mediatensor import FrameBatch
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import DecodeError, MediaTensorError, ReadError, StreamError
from mediatensor.transforms import Resize

CONTAINERS = ("mp4_faststart", "mp4_fragmented", "mkv", "ts", "avi", "flv", "raw_h264", "vp9", "gif", "mpeg4_mp4")


def check_against_linear_decode(data: bytes, seed: int) -> str:
    """Check that frames in random order are frames of the linear decode at the same time."""
    try:
        reference = [(pts, rgb) for pts, _, rgb in plain_decode(data)]
    except (av.FFmpegError, ValueError):
        reference = []
    pictures: dict[int | None, list[np.ndarray]] = {}
    times = [pts for pts, _ in reference if pts is not None]
    can_be_right = times == sorted(times)  # otherwise frames keep their order and get other times
    for pts, rgb in reference:
        pictures.setdefault(pts if can_be_right else None, []).append(rgb)
    try:
        decoder = VideoDecoder(data)
        order = np.random.default_rng(seed).permutation(len(decoder))[:12]
        tick = decoder.frame_index.time_base
    except MediaTensorError:
        return "refused"
    outcome = "identical"
    for i in order.tolist():
        try:
            frame = decoder.get_frame_at(i)
        except MediaTensorError:  # fewer frames than the packets showed
            outcome = "error"
            continue
        rgb = frame.data.permute(1, 2, 0).numpy()
        pts = round(frame.pts_seconds / tick)
        same_time = pictures.get(pts, []) + pictures.get(None, [])
        assert any(np.array_equal(rgb, picture) for picture in same_time), f"frame {i} is in no linear decode"
        if decoder.frame_index.settled:
            assert np.array_equal(rgb, reference[i][1]), f"frame {i} of a settled index is another of the linear decode"
    if decoder.frame_index.settled:
        assert len(decoder) == len(reference), "a settled index lists the frames of the linear decode"
    return outcome


@pytest.mark.parametrize("name", CONTAINERS)
def test_truncated_after_kilobytes(name: str, tmp_path: Path) -> None:
    data = media.make(name, tmp_path).read_bytes()
    step = max(1024, len(data) // 12 // 1024 * 1024)
    outcomes = [check_against_linear_decode(data[:size], size) for size in range(0, len(data), step)]
    assert "refused" in outcomes, "the empty file at least"


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("num_flips", [1, 8])
def test_bit_flips(name: str, num_flips: int, tmp_path: Path) -> None:
    original = media.make(name, tmp_path).read_bytes()
    generator = np.random.default_rng(num_flips)
    for seed in range(4):
        data = bytearray(original)
        for position in generator.integers(0, len(data), num_flips):
            data[position] ^= 1 << generator.integers(0, 8)
        check_against_linear_decode(bytes(data), seed)


def test_zeroed_and_repeated_stretches(clip: Path) -> None:
    original = clip.read_bytes()
    for start in range(0, len(original), len(original) // 12):
        stretch = slice(start, start + len(original) // 20)
        zeroed = bytearray(original)
        zeroed[stretch] = bytes(len(original[stretch]))
        check_against_linear_decode(bytes(zeroed), start)
        check_against_linear_decode(original[: stretch.stop] + original[start:], start)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"#!/bin/sh\necho\n", b"{}" * 1000, bytes(range(256)) * 40, b"\0\0\0\x18ftypmp42" + bytes(50)],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.mp4"
    path.write_bytes(content)
    with pytest.raises((RuntimeError, ValueError), match=r"file\.mp4"):
        VideoDecoder(path)


def test_missing_frame_raises_by_default(clip: Path) -> None:
    # The headers of the unit and the slice stay. The packet is the last picture of a GOP: few frames depend on it.
    data = with_damage(clip.read_bytes(), lambda packet: packet[:7] + garbage(packet[7:]), [20])
    decoder = VideoDecoder(data)
    num_packets, num_frames = len(decoder), len(plain_decode(data))
    if num_frames == num_packets:
        pytest.skip("this FFmpeg conceals the damage")
    with pytest.raises(DecodeError, match=f"Frame {num_frames} could not be decoded"):
        decoder.get_frames_at(range(num_packets))
    assert len(decoder) == num_frames


class FailsLater(io.BytesIO):
    """A file whose reads fail after a position, once this is switched on."""

    limit = 1 << 60

    def read(self, size: int = -1) -> bytes:
        if self.tell() + size > self.limit:
            raise OSError("connection lost")
        return super().read(size)


@pytest.mark.parametrize("on_error", ["raise", "skip", "nearest"])
def test_reading_that_fails_midway(on_error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_FRAME_CACHE_BYTES", "0")  # cached frames need no reading
    file = FailsLater(media.make("raw_avi", tmp_path).read_bytes())
    decoder = VideoDecoder(file, on_error=on_error)
    expected = decoder.get_all_frames().data
    file.limit = len(file.getvalue()) // 2
    if on_error == "raise":
        with pytest.raises(OSError, match="connection lost"):
            decoder.get_all_frames()
    else:
        batch = decoder.get_all_frames()
        assert len(batch.replaced) > 0
        assert all("connection lost" in report.reason for report in batch.replaced)
        used = [i for i in range(len(expected)) if i not in {report.index for report in batch.replaced}]
        if on_error == "nearest":
            used += [used[-1]] * len(batch.replaced)
        assert torch.equal(batch.data, expected[used])
    file.limit = 1 << 60
    assert torch.equal(decoder.get_all_frames().data, expected), "and it recovers"


@pytest.mark.parametrize("share", [0.3, 0.45, 0.7, 0.8])
def test_frames_before_a_failing_read_are_given_one_by_one(share: float, tmp_path: Path) -> None:
    """Frames that are decoded ahead of a caller must not bring the error forward."""
    options = {"g": "12", "bf": "0", "sc_threshold": "0", "b": "3M"}
    media.write_clip(media.ClipSpec("", options=options, num_frames=200), tmp_path / "clip.mp4")
    data = (tmp_path / "clip.mp4").read_bytes()

    def num_given(read: Callable[[VideoDecoder, int], object]) -> int:
        file = FailsLater(data)
        decoder = VideoDecoder(file, num_ffmpeg_threads=1)
        read(decoder, 0)
        file.limit = int(share * len(data))
        given = [0]

        def read_on() -> None:
            for i in range(1, 200):
                read(decoder, i)
                given.append(i)

        with pytest.raises(ReadError, match="connection lost"):
            read_on()
        return len(given)

    in_batches = num_given(lambda decoder, i: decoder.get_frames_at([i, i]))  # a batch is not decoded ahead
    assert in_batches > 20
    assert num_given(lambda decoder, i: decoder[i]) == in_batches


def test_step_back_that_cannot_be_read_gives_nearest_frame(tmp_path: Path) -> None:
    data = media.make("ffv1_gop", tmp_path).read_bytes()
    expected = VideoDecoder(io.BytesIO(data))[:]
    file = FailsLater(data)
    decoder = VideoDecoder(file, on_error="nearest")
    decoder[39]
    file.limit = 70_000
    frame = decoder.get_frame_at(31)
    (report,) = frame.replaced
    assert report.index == 31
    assert "connection lost" in report.reason
    assert torch.equal(frame.data, expected[report.used_index])
    file.limit = 0
    with pytest.raises(ReadError, match="connection lost"):
        decoder[14]
    file.limit = 1 << 60
    assert torch.equal(decoder[31], expected[31]), "and it recovers"


def test_table_with_frames_that_do_not_exist(clip: Path, clip_rgb: torch.Tensor) -> None:
    frames = [{"pts": pts, "duration": 512, "key_frame": int(pts == 0)} for pts in (0, 512, 700, 1024)]
    mappings = json.dumps({"frames": frames})
    with pytest.raises(DecodeError, match="Frame 2 could not be decoded"):
        VideoDecoder(clip, custom_frame_mappings=mappings)[:]
    skipping = VideoDecoder(clip, custom_frame_mappings=mappings, on_error="skip")
    assert torch.equal(skipping[:], clip_rgb[[0, 1, 2]])
    nearest = VideoDecoder(clip, custom_frame_mappings=mappings, on_error="nearest")
    assert torch.equal(nearest[:], clip_rgb[[0, 1, 1, 2]])
    frame = nearest.get_frame_at(2)
    assert [(r.index, r.used_index) for r in frame.replaced] == [(2, 1)]
    with pytest.raises(DecodeError, match="skip"):
        skipping.get_frame_at(2)


def test_nothing_decodes(media_data: Any) -> None:
    for name in ("mp4ff__init-video.mp4", "mp4parse-rust__short-cenc.mp4"):
        decoder = VideoDecoder(media_data(name))
        for call in (lambda d: len(d), lambda d: d[0], lambda d: d.metadata, lambda d: d.get_all_frames()):
            with pytest.raises(StreamError, match="no frame"):
                call(decoder)


def test_a_real_file_with_a_damaged_frame(media_data: Any) -> None:
    path = media_data("decord__corrupted.mp4")
    assert len(VideoDecoder(path)) == 49
    # All frames in full size take 300 MB.
    batch: FrameBatch = VideoDecoder(path, on_error="skip", transforms=[Resize((54, 96))]).get_all_frames()
    assert len(batch) == 48
    assert [report.num_missing for report in batch.replaced] == [1, 0]


def test_a_file_that_shrinks_while_it_is_open(tmp_path: Path) -> None:
    path = media.make("raw_avi", tmp_path)
    decoder = VideoDecoder(path)
    expected = decoder[:5]
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(ReadError, match="has changed since it was opened"):
        decoder[:]
    rest = VideoDecoder(path)
    assert 5 <= len(rest) < 40
    assert torch.equal(rest[:5], expected)


def test_frames_decode_if_reading_fails_after_each_seek(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RealMedia's demuxer fails after seeks in some files, but reads them from their beginning."""
    fails = [False]
    seek, read_packet, reopen = VideoReader.seek, VideoReader.read_packet, VideoReader.reopen

    def seek_and_fail(self: VideoReader, *arguments: Any) -> bool:
        fails[0] = True
        return seek(self, *arguments)

    def read_or_fail(self: VideoReader) -> Any:
        if fails[0]:
            raise ReadError("invalid data")
        return read_packet(self)

    def reopen_well(self: VideoReader) -> None:
        fails[0] = False
        reopen(self)

    expected = [frame.rgb for frame in linear_decode(clip)]
    decoder = VideoDecoder(clip, dimension_order="NHWC")
    monkeypatch.setattr(VideoReader, "seek", seek_and_fail)
    monkeypatch.setattr(VideoReader, "read_packet", read_or_fail)
    monkeypatch.setattr(VideoReader, "reopen", reopen_well)
    for i in (35, 3, 20, 0):
        np.testing.assert_array_equal(decoder[i], expected[i])
