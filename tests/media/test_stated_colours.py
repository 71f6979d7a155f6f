"""In files joined from videos of different colours, frames have their own colours, whatever was decoded before."""

from __future__ import annotations

import io
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from media_writing import paint_picture
from mediatensor._engine.pyav.reading import make_packet
from mediatensor._engine.pyav.stated_colours import SequenceColours
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor.decoders import ColorConverter, Demuxer, VideoDecoder
from oracles import linear_decode_rgb

# Matrix (ITU-T H.273) and range (FFmpeg's numbers) of the parts. For full range, FFmpeg's decoder of H.264 uses another
# pixel format.
UNTAGGED, BT709_FULL, BT2020, FULL = (2, 0), (1, 2), (9, 1), (2, 2)
NUM_FRAMES = 9  # of a part
ENCODERS = {
    "h264": ("libx264", {"preset": "veryfast", "g": "4", "bf": "2", "sc_threshold": "0", "mbtree": "0"}),
    "hevc": (
        "libx265",
        {"preset": "ultrafast", "x265-params": "log-level=none:pools=none:keyint=4:min-keyint=4:bframes=2"},
    ),
    "svtav1": ("libsvtav1", {"preset": "12", "g": "4", "svtav1-params": "lp=1"}),
    "mpeg2video": ("mpeg2video", {"g": "4", "bf": "2"}),
}
Codec = Literal["h264", "hevc", "svtav1", "mpeg2video"]
CODECS: tuple[Codec, ...] = ("h264", "hevc", "svtav1", "mpeg2video")


@cache
def encoded(codec: Codec, tags: tuple[int, int], container: str) -> bytes:
    library, options = ENCODERS[codec]
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream: Any = output.add_stream(library, rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.options = 64, 48, "yuv420p", options
        stream.codec_context.colorspace, stream.codec_context.color_range = tags
        for number in range(NUM_FRAMES):
            frame: Any = av.VideoFrame.from_ndarray(paint_picture(number, 64, 48), format="rgb24")
            frame = frame.reformat(format="yuv420p")
            frame.colorspace, frame.color_range = tags
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def _add_copy(output: Any, codec: Codec, template: Any) -> Any:
    if codec != "svtav1":
        return output.add_stream_from_template(template)
    stream = output.add_stream(ENCODERS[codec][0], rate=25)  # PyAV finds no encoder for a template of dav1d
    stream.width, stream.height, stream.pix_fmt = template.width, template.height, template.pix_fmt
    stream.codec_context.extradata = template.codec_context.extradata
    return stream


def container_of(codec: Codec) -> str:
    return "ivf" if codec == "svtav1" else "mpegts"


def write_joined(path: Path, codec: Codec, parts: list[tuple[int, int]]) -> None:
    """Join parts by appending their bytes. In mp4 and mkv, the parameters of the first part are also in the header."""
    if path.suffix in (".ts", ".raw"):
        container = codec if path.suffix == ".raw" else "mpegts"
        path.write_bytes(b"".join(encoded(codec, tags, container) for tags in parts))
        return
    with av.open(str(path), "w") as output:
        stream: Any = None
        for number, tags in enumerate(parts):
            with av.open(io.BytesIO(encoded(codec, tags, container_of(codec)))) as source:
                stream = stream or _add_copy(output, codec, source.streams.video[0])
                first: Any = None
                for packet in source.demux(video=0):
                    if packet.size:
                        first = packet.dts if first is None else first
                        shift = round(number * NUM_FRAMES / 25 / packet.time_base) - first
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = stream
                        output.mux(packet)


def frames_of_parts(codec: Codec, parts: list[tuple[int, int]], folder: Path) -> torch.Tensor:
    """Decode each part alone, from its first to its last frame."""
    frames: list[NDArray[np.uint8]] = []
    for number, tags in enumerate(parts):
        path = folder / f"part{number}"
        path.write_bytes(encoded(codec, tags, container_of(codec)))
        frames.extend(linear_decode_rgb(path)[1])
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)


def joined(codec: Codec, parts: list[tuple[int, int]], folder: Path, suffix: str = ".mkv") -> tuple[Path, torch.Tensor]:
    """Return the path of a joined file and the frames that it must have."""
    path = folder / f"joined{suffix}"
    write_joined(path, codec, parts)
    return path, frames_of_parts(codec, parts, folder)


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [
        (codec, suffix)
        for codec in CODECS
        for suffix in (".mkv", ".mp4", ".ts", ".raw")
        if suffix in (".mkv", ".mp4") or codec != "svtav1"
    ],
)
@pytest.mark.parametrize(
    "parts",
    [
        [UNTAGGED, BT709_FULL],
        [BT709_FULL, UNTAGGED, BT2020],
        [UNTAGGED, FULL, UNTAGGED, BT2020, UNTAGGED],
        [UNTAGGED, UNTAGGED],
    ],
    ids=lambda parts: f"{len(parts)}parts",
)
def test_frames_of_joined_videos_have_the_colours_of_their_part(
    codec: Codec, parts: list[tuple[int, int]], suffix: str, tmp_path: Path
) -> None:
    path, expected = joined(codec, parts, tmp_path, suffix)
    for seed, num_threads in enumerate((None, 1, 3)):
        order = torch.randperm(len(expected), generator=torch.Generator().manual_seed(seed)).tolist()
        decoder = VideoDecoder(path, num_ffmpeg_threads=num_threads)
        assert [number for number in order if not torch.equal(decoder[number], expected[number])] == []
        assert torch.equal(decoder.get_frames_at(order[:7]).data, expected[order[:7]])
        assert torch.equal(VideoDecoder(path, num_ffmpeg_threads=num_threads)[:], expected)
    for number in range(0, len(expected), 5):  # a fresh decoder has read no other part
        assert torch.equal(VideoDecoder(path)[number], expected[number])
    linear = np.stack([frame.rgb for frame in linear_decode(path)])
    assert np.array_equal(linear, expected.permute(0, 2, 3, 1).numpy())


def test_only_a_few_undecoded_key_frames_of_different_sequences_are_kept() -> None:
    colours, picture = SequenceColours("h264", "h264", b""), bytes([1]) * 100_000
    tracemalloc.start()
    try:
        for number in range(0x101, 0x101 + 300):
            sequence = b"\0\0\1\x67" + number.to_bytes(2, "big") + b"\x80"
            packet: Any = make_packet(sequence + b"\0\0\1\x65" + picture)
            packet.pts, packet.is_keyframe = number, True
            colours.find(packet)
        num_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 1_000_000 < num_bytes < 10_000_000  # of 30 million


@pytest.mark.parametrize("codec", CODECS)
def test_approximate_mode_gives_the_same_colours(codec: Codec, tmp_path: Path) -> None:
    path, expected = joined(codec, [UNTAGGED, BT709_FULL, UNTAGGED], tmp_path)
    decoder = VideoDecoder(path, seek_mode="approximate")
    exact = VideoDecoder(path)
    for number in (20, 5, 12, 8, 26, 9, 18):
        seconds = exact.get_frame_at(number).pts_seconds
        assert torch.equal(decoder.get_frame_played_at(seconds).data, expected[number])


@pytest.mark.parametrize("codec", CODECS)
def test_packet_decoders_give_the_same_colours(codec: Codec, tmp_path: Path) -> None:
    path, expected = joined(codec, [UNTAGGED, BT709_FULL, UNTAGGED], tmp_path)
    with Demuxer(path, streams="video") as demuxer:
        stream: Any = demuxer.streams[0]
        decoder, to_rgb = stream.make_decoder(), ColorConverter()
        raw = [frame for packet in demuxer for frame in decoder.decode(packet)] + decoder.drain()
        assert torch.equal(torch.stack([to_rgb.convert(frame).data for frame in raw]), expected)
