"""Colours of pictures converted with torch equal those of swscale on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import media
from backends_pixels import EXACT_LEVELS, bars, convert, differences, expected, gradient, interlaced, nested, noise
from mediatensor._engine.pyav.pixels import luma_of

FORMATS = [
    "nv12", "p010le", "p016le",
    "yuv420p", "yuv422p", "yuv440p", "yuv444p", "yuvj420p", "yuvj422p", "yuvj444p",
    "yuv420p9le", "yuv420p10le", "yuv420p12le", "yuv422p10le", "yuv422p12le", "yuv444p9le", "yuv444p10le",
    "yuv444p12le", "gray",
]  # fmt: skip
SIZES = [(32, 48), (32, 47), (31, 48), (31, 47)]
FAST = {"yuv420p", "yuv422p", "yuvj420p", "yuvj422p"}


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_uint8_equals_swscale(pixel_format: str) -> None:
    for height, width in SIZES:
        for paint in (noise, bars, gradient):
            for matrix, color_range in ((1, 1), (5, 2), (9, 1)):
                frame = paint(pixel_format, height, width, matrix=matrix, color_range=color_range)
                found = differences(frame)
                assert found.max() <= EXACT_LEVELS, (paint.__name__, height, width, matrix, color_range)


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_float_matches_swscale(pixel_format: str) -> None:
    for height, width in SIZES:
        for paint in (noise, gradient):
            for matrix, color_range in ((1, 1), (9, 2)):
                frame = paint(pixel_format, height, width, matrix=matrix, color_range=color_range)
                found = differences(frame, is_float=True)
                if pixel_format in FAST and width % 2 and height % 2 == 0:
                    # swscale leaves the last column undefined, so the CPU converts it from uint8, which is coarser.
                    assert found[:, -1].max() < 3.5
                    found = found[:, :-1]
                assert found.max() < 0.02, (paint.__name__, height, width, matrix, color_range)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "nv12", "yuv444p10le"])
def test_every_matrix_that_the_cpu_supports(pixel_format: str) -> None:
    for matrix in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10):
        for color_range in (0, 1, 2):
            frame = noise(pixel_format, 16, 18, matrix=matrix, color_range=color_range)
            assert differences(frame).max() <= EXACT_LEVELS, (matrix, color_range)
            assert differences(frame, is_float=True).max() < 0.02, (matrix, color_range)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "nv12", "yuv420p10le", "yuv422p", "yuv444p"])
@pytest.mark.parametrize(("height", "width"), [(32, 48), (31, 48), (32, 47)])
def test_interlaced_pictures(pixel_format: str, height: int, width: int) -> None:
    assert differences(interlaced(noise(pixel_format, height, width))).max() <= EXACT_LEVELS


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("is_float", [False, True])
def test_surfaces_of_hardware_look_like_the_software_decoders_frames(height: int, width: int, is_float: bool) -> None:
    limit = 0.02 if is_float else EXACT_LEVELS
    crop = width - width % 2 if is_float else width  # see above: the last column of float32
    for software, hardware, shift in (("yuv420p", "nv12", 0), ("yuvj420p", "nv12", 0), ("yuv420p10le", "p010le", 6),
                                      ("yuv420p10le", "p016le", 6), ("yuv420p12le", "p016le", 4)):  # fmt: skip
        color_range = 2 if "j" in software else 1
        frame = noise(software, height, width, color_range=color_range)
        found = convert(nested(frame, hardware, shift), is_float=is_float) - expected(frame, is_float=is_float)
        assert np.abs(found[:, :crop]).max() <= limit, (software, hardware)


def _formula(y: float, cb: float, cr: float, k_r: float, k_b: float, is_full: bool) -> np.ndarray[Any, Any]:
    """Return R'G'B' in [0, 1] of 8-bit Y'CbCr by the formulas of ITU-T H.273."""
    luma = y / 255 if is_full else (y - 16) / 219
    blue_difference, red_difference = ((c - 128) / (255 if is_full else 224) for c in (cb, cr))
    red = luma + 2 * (1 - k_r) * red_difference
    blue = luma + 2 * (1 - k_b) * blue_difference
    return np.clip([red, (luma - k_r * red - k_b * blue) / (1 - k_r - k_b), blue], 0, 1)


@pytest.mark.parametrize(
    ("matrix", "k_r", "k_b"), [(1, 0.2126, 0.0722), (6, 0.299, 0.114), (7, 0.212, 0.087), (9, 0.2627, 0.0593)]
)
@pytest.mark.parametrize("is_full", [False, True])
def test_flat_colours_follow_the_standard(matrix: int, k_r: float, k_b: float, is_full: bool) -> None:
    for colour in ((60, 128, 128), (100, 110, 170), (120, 160, 90), (200, 120, 130), (81, 90, 140)):
        formula = 255 * _formula(*colour, k_r, k_b, is_full)
        # swscale's fast conversion truncates, and its other conversions round chroma to steps of luma.
        for pixel_format, levels in (("yuv420p", 3), ("nv12", 3), ("yuv444p", 1)):
            frame = av.VideoFrame(16, 8, pixel_format)
            values = [bytes([colour[0]]), bytes(colour[1:])] if pixel_format == "nv12" else [bytes([c]) for c in colour]
            for plane, value in zip(frame.planes, values, strict=True):
                plane.update(value * (plane.buffer_size // len(value)))
            frame.colorspace, frame.color_range = matrix, 2 if is_full else 1
            assert np.abs(convert(frame) - formula).max() <= levels, (colour, pixel_format)
        # The last colour, because white of 16 bits is 255 * 256, not 65535.
        assert np.abs(convert(frame, is_float=True) * 257 / 256 - formula).max() < 0.05, colour


def test_a_colour_far_outside_overflows_as_in_swscale() -> None:
    frame = av.VideoFrame(8, 8, "yuv444p")
    for plane, value in zip(frame.planes, (255, 255, 128), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    frame.colorspace, frame.color_range = 9, 1
    assert (convert(frame)[..., 2] == expected(frame)[..., 2]).all()


@pytest.mark.parametrize(
    "name", ["h264_b_pyramid", "h264_444", "hevc_10bit", "mpeg2_interlaced", "raw_nv12", "rotated_90_odd", "h264_gray"]
)
def test_decoded_clips(name: str, tmp_path: Path) -> None:
    with av.open(media.make(name, tmp_path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number % 5 == 0:
                assert differences(frame).max() <= EXACT_LEVELS, number
            if number == 10:
                assert differences(frame, is_float=True).max() < 0.02
                break


@pytest.mark.parametrize(
    "name",
    ["androidx-media__bear-vp9-odd-dimensions.webm", "androidx-media__sample_av1.mkv", "decord__video_90.mov",
     "pims__bulk-water.mov", "vali__test_hevc10.mkv", "metadata-extractor-images__100_0306.AVI"],
)  # fmt: skip
def test_real_files(name: str, media_data: Callable[[str], Path]) -> None:
    with av.open(media_data(name)) as container:
        frame = next(container.decode(video=0))
        assert differences(frame).max() <= EXACT_LEVELS
        assert differences(frame, is_float=True).max() < 0.02


@pytest.mark.parametrize("pixel_format", ["gray", "gray16le", "grayf16le", "grayf32le"])
def test_luma_is_gray_for_every_type_of_sample(pixel_format: str) -> None:
    dtype = {"gray": "u1", "gray16le": "<u2", "grayf16le": "<f2", "grayf32le": "<f4"}[pixel_format]
    levels = np.tile(np.linspace(0, 1, 64), (16, 1))
    largest = np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1
    frame = av.VideoFrame(64, 16, pixel_format)
    frame.planes[0].update((levels * largest).astype(dtype).tobytes())
    frame.color_range = 2
    # libswscale converts 16-bit floats as if they were in limited range.
    tolerance = 21 if pixel_format == "grayf16le" else 1
    np.testing.assert_allclose(luma_of(frame), levels * 255, atol=tolerance)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuyv422", "yuv420p10le", "yuv420p10be", "p010le", "gray12le"])
@pytest.mark.parametrize("color_range", [1, 2])
def test_luma_keeps_its_stored_range_if_it_is_scaled(pixel_format: str, color_range: int) -> None:
    ranges: dict[str, Any] = {"src_color_range": 2, "dst_color_range": 2}
    for level in (0, 16, 128, 235, 255):
        gray = av.VideoFrame.from_ndarray(np.full((16, 64), level, np.uint8), "gray")
        frame = gray.reformat(format=pixel_format, **ranges)
        frame.color_range = color_range
        for size in ((16, 64), (32, 128)):
            np.testing.assert_allclose(luma_of(frame, size), np.full(size, level), atol=1)
