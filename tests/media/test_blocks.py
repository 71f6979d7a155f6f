"""Decoding blocks return the frames of a plain decode and of `VideoDecoder`, even after seeks."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import media
from exactness import find_truth
from mediatensor.decoders import (
    ColorConverter,
    Demuxer,
    Packet,
    RawFrame,
    VideoDecoder,
    VideoPacketDecoder,
    VideoStream,
)
from mediatensor.errors import DeviceError
from oracles import linear_decode_planes

CLIPS = [
    *("h264_b_pyramid", "h264_open_gop", "h264_10bit", "h264_444", "h264_gray", "h264_rgb", "h264_mbaff"),
    *("hevc_open_gop", "hevc_open_gop_ts", "vp9", "vp9_hidden_frames", "av1_10bit", "mpeg2_open_gop", "mpeg2_ts"),
    *("mpeg4_b_frames_avi", "mjpeg_odd_mov", "prores_alpha", "ffv1_gop", "utvideo", "png_mov", "png_palette"),
    *("raw_palette_avi", "msrle_palettes", "vfr_mp4", "vfr_mkv", "vfr_ts", "rotated_90", "rotated_88", "svq1"),
]
# Formats whose components are not whole bytes.
PALETTES = ("png_palette", "raw_palette_avi", "msrle_palettes")


@pytest.fixture(scope="module", params=CLIPS)
def clip(request: pytest.FixtureRequest, folder: Path) -> Path:
    return media.make(request.param, folder)


def decoded(packets: Iterator[Packet], decoder: VideoPacketDecoder) -> list[RawFrame]:
    return [frame for packet in packets for frame in decoder.decode(packet)] + decoder.drain()


def video(demuxer: Demuxer) -> VideoStream:
    stream = demuxer.streams[0]
    assert isinstance(stream, VideoStream)
    return stream


def crc(rgb: torch.Tensor) -> int:
    return zlib.crc32(np.ascontiguousarray(rgb.permute(1, 2, 0).numpy()))


@pytest.mark.parametrize("num_threads", [1, 3])
def test_frames_match_plain_decode(clip: Path, num_threads: int) -> None:
    truth, converter = find_truth(clip), ColorConverter()
    with Demuxer(clip) as demuxer:
        frames = decoded(demuxer, video(demuxer).make_decoder(num_ffmpeg_threads=num_threads))
        converted = [converter.convert(frame) for frame in frames]
    order = sorted(range(len(frames)), key=lambda number: (frames[number].pts_seconds, number))
    assert [crc(converted[number].data) for number in order] == truth.checksums
    # If packets have no presentation time, the codec uses their decoding time.
    if clip.stem != "mpeg4_b_frames_avi":
        assert [converted[number].pts_seconds for number in order] == pytest.approx(truth.pts_seconds)


def test_frames_match_decoder(clip: Path) -> None:
    with VideoDecoder(clip, output_dtype="auto") as decoder, Demuxer(clip) as demuxer:
        converter = ColorConverter(output_dtype="auto")
        frames = [converter.convert(raw) for raw in decoded(demuxer, video(demuxer).make_decoder())]
        frames.sort(key=lambda frame: frame.pts_seconds)
        assert len(frames) == len(decoder)
        for index in range(0, len(frames), 7):
            expected = decoder.get_frame_at(index)
            assert torch.equal(frames[index].data, expected.data)
            assert frames[index].data.stride() == expected.data.stride()


def test_index_matches_decoder(clip: Path, tmp_path: Path) -> None:
    demuxer = Demuxer(clip)
    first = next(demuxer)
    index, expected = video(demuxer).scan(), VideoDecoder(clip).frame_index
    assert torch.equal(index.pts_seconds, expected.pts_seconds)
    assert torch.equal(index.key_frame_indices, expected.key_frame_indices)
    # A scan does not move the demuxer.
    assert next(demuxer).data != first.data
    index.save(tmp_path / "saved.index")
    assert len(VideoDecoder(clip, frame_index=tmp_path / "saved.index")) == len(index)


def test_seeking_to_a_key_frame_reaches_every_frame(clip: Path) -> None:
    """Seek to `FrameIndex.key_frame_seconds_for`, reset, and decode up to the frame."""
    truth = find_truth(clip)
    demuxer, converter = Demuxer(clip), ColorConverter()
    stream = video(demuxer)
    index, decoder = stream.scan(), stream.make_decoder()
    if index.anomalies or len(truth) != len(index):
        pytest.skip("packets do not show which frames there are")
    for number in sorted({0, len(index) // 3, len(index) // 2, len(index) - 1}, reverse=True):
        target = float(index.pts_seconds[number])
        demuxer.seek(index.key_frame_seconds_for(target))
        decoder.reset()
        frames: list[RawFrame] = []
        for packet in demuxer:
            frames += decoder.decode(packet)
            if any(frame.pts_seconds >= target for frame in frames):
                break
        else:
            frames += decoder.drain()
        (found,) = [frame for frame in frames if frame.pts_seconds == target]
        assert crc(converter.convert(found).data) == truth.checksums[number]


def test_planes_match_codec_output(clip: Path) -> None:
    with Demuxer(clip) as demuxer:
        frames = decoded(demuxer, video(demuxer).make_decoder())
    if clip.stem in PALETTES:
        with pytest.raises(RuntimeError, match="no planes to view"):
            frames[0].planes  # noqa: B018
        return
    is_planar = frames[0].pixel_format.startswith(("yuv", "gray", "gbr"))
    for frame in frames:
        assert {plane.dtype for plane in frame.planes} == {torch.uint8 if frame.bit_depth == 8 else torch.uint16}
        assert frame.planes[0].shape == (frame.height, frame.width)
    if is_planar:
        # FFmpeg stores green first, and lists red first.
        stored = [2, 0, 1, 3] if frames[0].pixel_format.startswith("gbr") else [0, 1, 2, 3]
        checksums = [_crc_of_planes(frame, stored) for frame in frames]
        assert checksums == [checksum for _, checksum in linear_decode_planes(clip)]


def _crc_of_planes(frame: RawFrame, stored: list[int]) -> int:
    # Planes lie in memory in another order than the components: place k of memory has component stored.index(k).
    count = len(frame.planes)
    in_memory = sorted(range(count), key=lambda component: stored[component])
    checksum = 0
    for component in in_memory:
        checksum = zlib.crc32(np.ascontiguousarray(frame.planes[component].numpy()), checksum)
    return checksum


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "yuv444p", "gray"])
def test_planes_match_ffmpeg_program(pixel_format: str, folder: Path, ffmpeg_program: str) -> None:
    path = folder / f"{pixel_format}.mkv"
    media.write_spec(media.ClipSpec("", "ffv1", "matroska", "mkv", pix_fmt=pixel_format, size=(101, 67)), path)
    command = [ffmpeg_program, "-v", "error", "-i", str(path), "-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    with Demuxer(path) as demuxer:
        frames = decoded(demuxer, video(demuxer).make_decoder())
    assert {frame.pixel_format for frame in frames} == {pixel_format}
    assert b"".join(np.ascontiguousarray(plane.numpy()).tobytes() for f in frames for plane in f.planes) == raw


def test_a_frame_outlives_its_codec_and_its_file(folder: Path) -> None:
    path = media.make("h264_b_pyramid", folder)
    with Demuxer(path) as demuxer, video(demuxer).make_decoder() as decoder:
        first = next(iter(decoded(demuxer, decoder)))
        planes = [plane.clone() for plane in first.planes]
    del demuxer, decoder
    assert all(torch.equal(plane, copy) for plane, copy in zip(first.planes, planes, strict=True))
    assert torch.equal(ColorConverter().convert(first).data, VideoDecoder(path)[0])


def test_streams_side_by_side(folder: Path) -> None:
    path = media.make("two_video_streams", folder)
    with Demuxer(path, streams=(1, 0)) as demuxer:
        assert [stream.index for stream in demuxer.streams] == [1, 0]
        decoders = {stream.index: stream.make_decoder() for stream in demuxer.streams}
        frames: dict[int, list[RawFrame]] = {0: [], 1: []}
        switches, last = 0, None
        for packet in demuxer:
            switches += packet.stream_index != last
            last = packet.stream_index
            frames[last] += decoders[last].decode(packet)
        for index, decoder in decoders.items():
            frames[index] += decoder.drain()
        lengths = {stream.index: len(stream.scan()) for stream in demuxer.streams if isinstance(stream, VideoStream)}
    assert switches > 10
    assert {index: len(found) for index, found in frames.items()} == lengths == {0: 30, 1: 40}
    for index, found in frames.items():
        expected = VideoDecoder(path, stream_index=index)
        assert torch.equal(ColorConverter().convert(found[9]).data, expected[9])


def test_decoder_is_not_affected_by_seeks(folder: Path) -> None:
    """Packets that were read before a seek can be decoded after it, as in a pipeline whose demuxer runs ahead."""
    path = media.make("h264_b_pyramid", folder)
    demuxer = Demuxer(path)
    decoder = video(demuxer).make_decoder()
    packets = [next(demuxer) for _ in range(20)]
    frames = [frame for packet in packets[:10] for frame in decoder.decode(packet)]
    demuxer.seek(0.0)
    again = list(demuxer)
    frames += decoded(iter(packets[10:]), decoder)
    expected = VideoDecoder(path)
    converter = ColorConverter()
    for number, frame in enumerate(frames[:15]):
        assert torch.equal(converter.convert(frame).data, expected[number])
    decoder.reset()
    assert len(decoded(iter(again), decoder)) == len(expected)


def test_two_decoders_of_one_stream(folder: Path) -> None:
    demuxer = Demuxer(media.make("h264_b_pyramid", folder))
    one, other = video(demuxer).make_decoder(), video(demuxer).make_decoder()
    packets = list(demuxer)
    for first, second in zip(decoded(iter(packets), one), decoded(iter(packets), other), strict=True):
        assert torch.equal(first.planes[0], second.planes[0])


@pytest.mark.parametrize("form", ["str", "bytes", "tensor", "file"])
def test_sources(form: str, folder: Path) -> None:
    path = media.make("h264_b_pyramid", folder)
    data = path.read_bytes()
    with path.open("rb") as file:
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        source = {"str": str(path), "bytes": data, "tensor": tensor, "file": file}[form]
        with Demuxer(source) as demuxer:
            decoder = video(demuxer).make_decoder()
            assert len(video(demuxer).scan()) == len(decoded(demuxer, decoder))
            demuxer.seek(1.0)
            assert next(demuxer).is_key_frame
        assert not file.closed


@pytest.mark.parametrize("name", ["mpeg2_ts", "hevc_open_gop_ts", "vfr_ts", "h264_open_gop", "hevc_open_gop"])
def test_a_seek_lands_on_a_key_frame_at_or_before_the_time(name: str, folder: Path) -> None:
    demuxer = Demuxer(media.make(name, folder))
    index = video(demuxer).scan()
    for seconds in index.pts_seconds[::5].tolist():
        demuxer.seek(seconds)
        packet = next(demuxer)
        assert packet.is_key_frame
        assert packet.pts_seconds is not None
        assert packet.pts_seconds <= seconds
    demuxer.seek(-10.0)
    assert next(demuxer).is_key_frame
    demuxer.seek(1e6)
    assert next(demuxer).is_key_frame


def test_frames_on_a_device_that_cannot_decode(folder: Path, fake_device: torch.device) -> None:
    path = media.make("rotated_90", folder)
    with Demuxer(path) as demuxer:
        frames = decoded(demuxer, video(demuxer).make_decoder(fake_device))
    expected = VideoDecoder(path, device=fake_device)
    for number in (0, 7):
        assert {plane.device for plane in frames[number].planes} == {torch.device(fake_device)}
        converted = ColorConverter(fake_device).convert(frames[number])
        assert torch.equal(converted.data.cpu(), expected[number].cpu())
    with pytest.raises(DeviceError, match="the converter is on 'cpu'"):
        ColorConverter("cpu").convert(frames[0])
