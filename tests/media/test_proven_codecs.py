"""Encode each codec of the table of proven codecs, and decode from key frames, also in samples of other encoders."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.codec.codec import codecs_available

import media
from media_writing import ClipSpec, Packets, paint_picture
from mediatensor._engine.index.scan import PROVEN_CODECS
from mediatensor._engine.pyav.pixels import fingerprint
from mediatensor._engine.pyav.reading import is_key_frame
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor.decoders import VideoDecoder
from real_files import TEST_DATA

GOP, NUM_PICTURES, MAX_KEYS = 4, 14, 4
CONTAINERS = ("nut", "avi", "matroska", "mov")
# Encoders whose name is not the codec's, sizes other than 128x96, and options.
ENCODERS = {"av1": "libsvtav1", "flv1": "flv", "h264": "libx264", "hevc": "libx265", "msmpeg4v3": "msmpeg4"}
ENCODERS |= {"prores": "prores_ks", "vp8": "libvpx", "vp9": "libvpx-vp9"}
SIZES = {"dnxhd": (256, 144), "dvvideo": (720, 576), "h261": (176, 144)}
OPTIONS = {
    "av1": {"preset": "12", "svtav1-params": "lp=1:pred-struct=1:lookahead=0"},
    "dnxhd": {"profile": "dnxhr_sq"},
    "h264": {"bf": "0"},
    "hevc": {"x265-params": "log-level=none:pools=none:frame-threads=1:bframes=0"},
    "vp8": {"deadline": "realtime", "cpu-used": "-5"},
    "vp9": {"deadline": "realtime", "cpu-used": "-5"},
}
# Clips of codecs that the containers above do not store.
CLIPS = {"apng": "apng", "theora": "theora", "wrapped_avframe": "raw_y4m"}
# Files by other encoders.
SAMPLES = {
    "flv1": "media/file-type__fixture.flv",
    "gif": "media/serenity__animated_loop_variable_delay.gif",
    "h263": "media/exoplayer__video_desks.3gp",
    "mjpeg": "media/metadata-extractor-images__100_0306.AVI",
    "rv30": "odd/rv30.mp4",
    "theora": "media/ogv.js__3seconds.ogv",
    "vc1": "media/winui-gallery__ladybug.wmv",
}


def encoded_codecs() -> list[str]:
    """Return the codecs of the table that this FFmpeg encodes."""
    names = set()
    for name in codecs_available:
        with suppress(ValueError):
            codec = av.Codec(name, "w")
            if codec.type == "video":
                names.add(codec.canonical_name)
    return sorted(name for name in names if name in PROVEN_CODECS)


def write(codec: str, folder: Path, *, is_still: bool, rewrite: Callable[[Packets], Packets] | None = None) -> Path:
    """Write a file of pictures that move, or that stay the same for six frames each."""
    if codec in CLIPS:
        return media.make(CLIPS[codec], folder)
    encoder = ENCODERS.get(codec, codec)
    formats = [video_format.name for video_format in av.Codec(encoder, "w").video_formats or ()]
    preferred = [name for name in ("yuv420p", "rgb24", "bgr0") if name in formats]
    spec = ClipSpec(
        "",
        encoder,
        options={"g": str(GOP), "strict": "-2", **OPTIONS.get(codec, {})},
        pix_fmt=(preferred or formats or ["yuv420p"])[0],
        size=SIZES.get(codec, (128, 96)),
        num_frames=NUM_PICTURES,
        paint=(lambda number, *size: paint_picture(number // 6 * 6, *size)) if is_still else None,
        rewrite=rewrite,
    )
    failures = []
    for container in CONTAINERS:
        path = folder / f"{codec}.{container}"
        try:
            media.write_spec(replace(spec, container=container), path)
            with av.open(str(path)) as stored:
                if stored.streams.video[0].codec_context.codec.canonical_name == codec:
                    return path
            failures.append(container)
        except (av.FFmpegError, ValueError, IndexError) as error:
            failures.append(f"{container}: {error}")
    raise AssertionError(f"{codec} could not be written: {failures}")


def decode(path: Path, first: int = 0) -> tuple[list[Any], list[tuple[int | None, int, bool]]]:
    """Return the packets of a file, and (time, fingerprint, key flag) of its frames from one of the packets on."""
    with av.open(str(path), metadata_errors="ignore") as container:
        stream = container.streams.video[0]
        stream.thread_type, codec = "NONE", stream.codec_context.codec.canonical_name
        packets, frames = [], []
        for packet in container.demux(stream):
            packets += [packet] * bool(packet.size)
            if len(packets) > first or not packet.size:
                with suppress(av.FFmpegError, ValueError):
                    found = stream.codec_context.decode(packet)
                    frames += [(frame.pts, fingerprint(frame), is_key_frame(frame, codec)) for frame in found]
    return packets, frames


def check(path: Path) -> None:
    """Check that each packet gives a frame, and that decoding can start at each key frame."""
    packets, frames = decode(path)
    assert len(frames) == len(packets) > 0
    assert {time for time, _, _ in frames} == {packet.pts for packet in packets}
    places = {time: place for place, (time, _, is_key) in enumerate(frames) if is_key}
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe and packet.pts in places]
    assert keys
    for key in keys[: MAX_KEYS + 1]:
        place = places[packets[key].pts]
        _, from_key = decode(path, key)
        # Frames shown before the key frame may need earlier ones.
        times = [time for time, _, _ in from_key]
        assert from_key[times.index(frames[place][0]) :] == frames[place:], f"from packet {key}"


@pytest.mark.parametrize("is_still", [False, True], ids=["moving", "still"])
@pytest.mark.parametrize("codec", encoded_codecs())
def test_packets_of_proven_codecs_are_frames(codec: str, is_still: bool, tmp_path: Path) -> None:
    check(write(codec, tmp_path, is_still=is_still))


@pytest.mark.parametrize("codec", encoded_codecs())
def test_false_key_frame_flags_do_no_harm(codec: str, tmp_path: Path) -> None:
    path = write(codec, tmp_path, is_still=False, rewrite=call_all_keys)
    frames = list(linear_decode(path))
    decoder = VideoDecoder(path, dimension_order="NHWC")
    assert len(decoder) == len(frames)
    for i in range(len(frames) - 1, -1, -3):
        np.testing.assert_array_equal(decoder[i], frames[i].rgb)


def call_all_keys(packets: list[Any]) -> list[Any]:
    for packet in packets:
        packet.is_keyframe = True
    return packets


def test_false_key_frames_of_other_codecs_are_left_out(tmp_path: Path) -> None:
    index = VideoDecoder(media.make("vmnc", tmp_path)).frame_index
    assert index.key_frame_indices.tolist() == [0]
    assert len(index.anomalies) == 1, "nothing but that the frames were counted by decoding"


@pytest.mark.parametrize("name", ["vmnc_test.mp4", "oneminute.avi", "G2_with_SVT_320_240.mp4", "rv30.mp4"])
def test_random_access_to_old_codecs_is_exact(name: str) -> None:
    path = TEST_DATA / "odd" / name
    if not path.is_file():
        pytest.skip(f"needs odd/{name} in {TEST_DATA}")
    frames = [(frame.pts, zlib.crc32(frame.rgb)) for frame in linear_decode(path)]
    decoder = VideoDecoder(path, dimension_order="NHWC")
    num_frames = len(decoder)
    assert num_frames == len(frames)
    for i in [*range(num_frames - 1, 0, -num_frames // 9), 1, 0]:
        assert zlib.crc32(decoder[i].numpy()) in [picture for _, picture in frames]
    pictures = decoder.get_all_frames().data.numpy()
    assert sorted(map(zlib.crc32, pictures)) == sorted(picture for _, picture in frames)
    assert len(decoder) == num_frames


@pytest.mark.parametrize("codec", SAMPLES)
def test_packets_of_samples_are_frames(codec: str) -> None:
    path = TEST_DATA / SAMPLES[codec]
    if not path.is_file():
        pytest.skip(f"needs {SAMPLES[codec]} in {TEST_DATA}")
    check(path)


def test_each_codec_of_the_table_has_evidence() -> None:
    assert PROVEN_CODECS - set(encoded_codecs()) == SAMPLES.keys() - set(encoded_codecs())
