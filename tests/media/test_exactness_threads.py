"""Decoders that work on several pictures at a time give the same frames as with one thread, also backwards."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

import media
import mediatensor
from exactness import assert_same, find_truth
from media_writing import ClipSpec, write_clip

_FRAME_THREADS = 1 << 12  # AV_CODEC_CAP_FRAME_THREADS
_NUM_THREADS = 4

# By FFmpeg's name of the decoder.
CLIPS = {
    "apng": "apng", "cfhd": "cineform", "dnxhd": "dnxhr", "ffv1": "ffv1_gop", "ffvhuff": "ffvhuff",
    "h264": "h264_b_pyramid", "hevc": "hevc_open_gop_mkv", "huffyuv": "huffyuv", "jpeg2000": "jpeg2000",
    "libdav1d": "av1", "magicyuv": "magicyuv", "mpeg4": "mpeg4_interlaced", "png": "png_mov", "prores": "prores",
    "theora": "theora", "utvideo": "utvideo", "v210": "v210", "vp8": "vp8_hidden_frames", "vp9": "vp9_hidden_frames",
}  # fmt: skip
SPECS = {
    "dpx": ClipSpec("", "dpx", "avi", "avi", pix_fmt="rgb24"),
    "dvvideo": ClipSpec("", "dvvideo", "avi", "avi", size=(720, 576), num_frames=12),
    "dxv": ClipSpec("", "dxv", "mov", "mov", pix_fmt="rgba"),
    "exr": ClipSpec("", "exr", "mov", "mov", pix_fmt="gbrpf32le"),
    "hdr": ClipSpec("", "hdr", "image2pipe", "hdr", pix_fmt="gbrpf32le"),
    "qoi": ClipSpec("", "qoi", "image2pipe", "qoi", pix_fmt="rgb24"),
    "speedhq": ClipSpec("", "speedhq", "avi", "avi", pix_fmt="yuv422p"),
    "tiff": ClipSpec("", "tiff", "mov", "mov", pix_fmt="rgb24"),
    "zlib": ClipSpec("", "zlib", "avi", "avi", pix_fmt="bgr24"),
}
# No file of several pictures can be written for these decoders, or another decoder reads it.
STILL_OR_WITHOUT_CONTAINER = {"bitpacked", "v410", "wbmp", "webp"}


def _codecs(mode: str) -> list[av.codec.Codec]:
    codecs = []
    for name in sorted(av.codecs_available):
        try:
            codecs.append(av.codec.Codec(name, mode))  # type: ignore[arg-type]
        except ValueError:  # it only encodes, or only decodes
            continue
    return [codec for codec in codecs if codec.type == "video"]


def test_every_decoder_with_frame_threads_is_tested() -> None:
    encoded = {codec.canonical_name for codec in _codecs("w")}
    threaded = {codec.name for codec in _codecs("r") if codec.capabilities & _FRAME_THREADS}
    writable = {name for name in threaded if av.codec.Codec(name, "r").canonical_name in encoded}
    assert writable <= {*CLIPS, *SPECS, *STILL_OR_WITHOUT_CONTAINER}


@pytest.mark.parametrize("name", sorted([*CLIPS, *SPECS]))
def test_frames_match_single_thread(name: str, tmp_path: Path, own_limits: None) -> None:
    if name in CLIPS:
        path = media.make(CLIPS[name], tmp_path)
    else:
        path = write_clip(SPECS[name], tmp_path / f"clip.{SPECS[name].extension}")
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == name
    truth = find_truth(path)
    assert len(set(truth.checksums)) == len(truth) > 8
    mediatensor.set_frame_cache_bytes(0)
    with truth.open(num_ffmpeg_threads=_NUM_THREADS) as decoder:
        for index in range(len(truth) - 1, -1, -3):
            assert_same(truth, index, decoder[index])
        for index, data in enumerate(decoder):
            assert_same(truth, index, data)
        for index in (1, 0, len(truth) - 1, 2):
            assert_same(truth, index, decoder[index])
