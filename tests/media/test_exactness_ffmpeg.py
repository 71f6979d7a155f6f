"""Frames are those of the ``ffmpeg`` program, which is another build of another version."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from test_exactness_real_files import STREAMS

import media
from mediatensor.decoders import VideoDecoder
from oracles import ffmpeg_rgb, ffmpeg_rgb_of_several, linear_decode_planes

# The largest difference where rounding varies: swscale's kernels on other processors, and its
# general path (more than 8 bits, 4:2:2, 4:4:4, RGB), which was rewritten between versions of FFmpeg.
_ROUNDING = 3

# FFmpeg versions disagree about which frames a contradictory file has.
_BY_VERSION = {name for name in media.CLIPS if name.startswith("edit_list_")} | {
    "h264_lone_fields_mkv", "mpeg2_end_packets_mkv", "mpeg4_not_coded_at_end_avi", "h264_then_mpeg2", "mpeg2_then_hevc",
    "mpeg4_then_mpeg2",
}  # fmt: skip
# The program turns pictures only by angles within a degree of a quarter turn; torchcodec, and we, by the nearest.
_NOT_TURNED = {"rotated_88"}
_CLIPS_AT_ONCE = 12
_CLIPS = [name for name in media.VIDEO_CLIPS if name not in _BY_VERSION | _NOT_TURNED]

# Why real files differ by rounding; other files do not differ.
_ROUNDED_FILES = {
    "androidx-media__sample.avi": "MPEG-4 leaves the inverse cosine transform to the decoder",
    "androidx-media__sample_av1.mkv": "10 bits",
    "metadata-extractor-images__100_0306.AVI": "4:2:2",
    "rails__rotated_hdr_video.mov": "10 bits; the program turns before it converts",
    "vali__test_hevc10.mkv": "10 bits",
    "winui-gallery__ladybug.wmv": "decoding of VC-1 changed by a level between versions",
}
_OTHER_IN_PROGRAM = {
    ("decord__corrupted.mp4", 0), ("megatron-energon__sync_test.mp4", 0), ("mp4ff__stereo_spatial.mp4", 0),
    ("vali__test_multires.mkv", 0),
}  # fmt: skip
_MAX_REAL_FRAMES = 10


def _assert_close(ours: torch.Tensor, theirs: NDArray[np.uint8], tolerance: int) -> None:
    assert tuple(ours.shape) == theirs.shape
    if platform.machine().lower() not in ("x86_64", "amd64"):
        tolerance = _ROUNDING
    for number, (one, other) in enumerate(zip(ours.numpy(), theirs, strict=True)):
        difference = int(np.abs(one.astype(np.int16) - other).max())
        assert difference <= tolerance, f"frame {number} differs by up to {difference}"


def _tolerance(name: str) -> int:
    if name == "rotated_90_odd":
        return 8  # the program turns the stored picture, so chroma of odd sizes is interpolated along the other axis
    is_8_bit_420 = media.CLIPS[name].pix_fmt in ("yuv420p", "yuvj420p", "yuva420p")
    return 0 if is_8_bit_420 else _ROUNDING


@pytest.fixture(scope="module")
def pictures_of(
    folder: Path, ffmpeg_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], NDArray[np.uint8]]:
    """Return the program's frames of one of `_CLIPS`. One start of the program decodes many clips."""

    @functools.lru_cache(maxsize=1)
    def of_those_from(first: int) -> dict[str, NDArray[np.uint8]]:
        names = _CLIPS[first : first + _CLIPS_AT_ONCE]
        streams = []
        for name in names:
            path = media.make(name, folder)
            with VideoDecoder(path) as decoder:
                streams.append((path, decoder.stream_index))
        pictures = ffmpeg_rgb_of_several(ffmpeg_program, streams, tmp_path_factory.mktemp("pictures"))
        return dict(zip(names, pictures, strict=True))

    return lambda name: of_those_from(_CLIPS.index(name) // _CLIPS_AT_ONCE * _CLIPS_AT_ONCE)[name]


@pytest.mark.parametrize("name", _CLIPS)
def test_generated_clips(name: str, folder: Path, pictures_of: Callable[[str], NDArray[np.uint8]]) -> None:
    path, theirs = media.make(name, folder), pictures_of(name)
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        ours = decoder[:]
    assert len(theirs) == len(linear_decode_planes(path))
    _assert_close(ours, theirs, _tolerance(name))


@pytest.mark.parametrize(("name", "stream_index"), [case for case in STREAMS if case not in _OTHER_IN_PROGRAM])
def test_real_files(name: str, stream_index: int, media_data: Callable[[str], Path], ffmpeg_program: str) -> None:
    """The first frames are the same from any position."""
    path = media_data(name)
    theirs = ffmpeg_rgb(ffmpeg_program, path, stream=f"0:{stream_index}", num_frames=_MAX_REAL_FRAMES)
    with VideoDecoder(path, stream_index=stream_index, dimension_order="NHWC") as decoder:
        ours = decoder.get_frames_in_range(0, len(theirs)).data
    _assert_close(ours, theirs, _ROUNDING if name in _ROUNDED_FILES else 0)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_rotation_is_that_of_the_program(degrees: int, folder: Path, ffmpeg_program: str) -> None:
    """Compare with the stored picture of the program, turned here by as many degrees."""
    path = media.make(f"rotated_{degrees}" if degrees else "mp4", folder)
    stored = ffmpeg_rgb(ffmpeg_program, path, is_upright=False)
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        ours = decoder[:]
        rotation = decoder.metadata.rotation
    turned = np.rot90(stored, round((rotation or 0) / 90), axes=(1, 2))
    assert (degrees == 0) == (not rotation)
    _assert_close(ours, turned, 0)


@pytest.mark.parametrize(
    "name", ["mp4", "h264_mbaff", "h264_10bit", "h264_422_10bit", "hevc_422_12bit", "prores", "odd_size", "png_16bit"]
)
def test_float_is_that_of_16_bits(name: str, folder: Path, ffmpeg_program: str) -> None:
    path = media.make(name, folder)
    theirs = ffmpeg_rgb(ffmpeg_program, path, is_deep=True).astype(np.float32) / np.float32(65535)
    with VideoDecoder(path, dimension_order="NHWC", output_dtype=torch.float32) as decoder:
        ours = decoder[:]
    assert ours.dtype == torch.float32
    # One 8-bit level for rounding, which versions of FFmpeg do differently; measured here: 0.
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0, atol=1 / 255)
