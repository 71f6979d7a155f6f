"""The colours of encoded videos: decoded colours equal the input, in every player that respects the tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoder_oracles import probe
from mediatensor._engine.pyav.encoding_video import Colour, RgbConverter
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from oracles import ffmpeg_rgb

# fmt: off
PATCHES = torch.tensor([
    [200, 40, 40], [40, 200, 40], [40, 40, 200], [230, 200, 30], [30, 200, 220], [200, 40, 200],
    [0, 0, 0], [255, 255, 255], [128, 128, 128], [220, 170, 140], [20, 20, 20], [90, 60, 30],
], dtype=torch.uint8)
# fmt: on
# Luma weights of red, green and blue: BT.601 and BT.709.
MATRICES = {6: (0.299, 0.114), 1: (0.2126, 0.0722)}

SMALL, LARGE = (120, 192), (720, 1296)
BT709 = {"color_space": "bt709", "color_primaries": "bt709", "color_transfer": "bt709", "color_range": "tv"}
BT601 = {**BT709, "color_space": "smpte170m"}
MATRIX_ONLY = {"color_space": "bt709", "color_range": "tv"}


def patches(height: int, width: int) -> torch.Tensor:
    """Two frames (2, 3, H, W) of upright bars."""
    bars = PATCHES.repeat_interleave(width // len(PATCHES), 0)
    return bars.T[None, :, None].expand(2, -1, height, -1)


def farthest(decoded: Any, height: int, width: int) -> int:
    """Return the largest difference in the middle of a bar of the first frame, (3, H, W)."""
    columns = np.arange(len(PATCHES)) * (width // len(PATCHES)) + width // len(PATCHES) // 2
    middle = np.asarray(decoded)[:, height // 2, columns].T.astype(int)
    return int(np.abs(middle - PATCHES.numpy().astype(int)).max())


CASES: dict[str, tuple[str, tuple[int, int], dict[str, Any], dict[str, str]]] = {
    "H.264 mp4 SD": ("mp4", SMALL, {"crf": 1}, BT601),
    "H.264 mp4 HD": ("mp4", LARGE, {"crf": 1}, BT709),
    "H.264 mkv HD": ("mkv", LARGE, {"crf": 1}, BT709),
    "H.264 ts HD": ("ts", LARGE, {"codec": "libx264", "crf": 1}, BT709),
    "H.264 10 bit": ("mp4", SMALL, {"pixel_format": "yuv420p10le", "crf": 1}, BT601),
    "H.264 full range": ("mp4", SMALL, {"pixel_format": "yuvj420p", "crf": 1}, {**BT601, "color_range": "pc"}),
    "H.264 chosen": ("mp4", SMALL, {"crf": 1, "extra_options": {"colorspace": "bt709", "color_range": "pc"}}, {
        **BT709, "color_range": "pc"}),
    "H.264 BT.2020": ("mkv", SMALL, {"crf": 1, "extra_options": {"colorspace": "bt2020nc"}}, {
        **BT709, "color_space": "bt2020nc"}),
    "H.264 RGB": ("mp4", SMALL, {"codec": "libx264rgb", "crf": 0}, {"color_space": "gbr"}),
    "HEVC mp4 HD": ("mp4", LARGE, {"codec": "libx265", "crf": 1, "preset": "ultrafast"}, BT709),
    "VP9 webm SD": ("webm", SMALL, {"crf": 1}, BT601),
    "AV1 mp4 HD": ("mp4", LARGE, {"codec": "libsvtav1", "crf": 5, "preset": 12}, BT709),
    "MPEG-2 ts HD": ("ts", LARGE, {"extra_options": {"b": "30M"}}, BT709),
    "MPEG-4 mp4 HD": ("mp4", LARGE, {"codec": "mpeg4", "extra_options": {"b": "30M"}}, BT709),
    "MPEG-4 avi HD": ("avi", LARGE, {"extra_options": {"b": "30M"}}, {}),
    "MPEG-1 HD": ("mpg", LARGE, {"extra_options": {"b": "30M"}}, {}),
    "VP8 webm HD": ("webm", LARGE, {"codec": "libvpx", "crf": 4, "extra_options": {"b": "30M"}}, {}),
    "JPEG mov HD": ("mov", LARGE, {"codec": "mjpeg", "extra_options": {"qmax": 2, "b": "90M"}}, {
        "color_range": "pc"}),
    "JPEG yuv420p avi": ("avi", SMALL, {"codec": "mjpeg", "pixel_format": "yuv420p", "extra_options": {"b": "9M"}}, {}),
    "ProRes mov HD": ("mov", LARGE, {"codec": "prores_ks"}, BT709),
    "DNxHR mov": ("mov", (144, 264), {"codec": "dnxhd", "extra_options": {"profile": "dnxhr_hq"}}, MATRIX_ONLY),
    "FFV1 mkv HD": ("mkv", LARGE, {"codec": "ffv1", "pixel_format": "yuv444p"}, BT709),
    "FFV1 avi HD": ("avi", LARGE, {"codec": "ffv1", "pixel_format": "yuv444p"}, {}),
    "raw avi HD": ("avi", LARGE, {"codec": "rawvideo", "pixel_format": "yuv420p"}, {}),
    "gray": ("mkv", SMALL, {"codec": "ffv1", "pixel_format": "gray"}, {"color_range": "pc"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_flat_colours_come_back(name: str, tmp_path: Path, ffmpeg_program: str) -> None:
    extension, (height, width), options, tags = CASES[name]
    path = tmp_path / f"video.{extension}"
    options = {**options, "extra_options": {"g": 1, **options.get("extra_options", {})}}
    if options.get("codec") in ("ffv1", "rawvideo", "prores_ks", "dnxhd"):
        del options["extra_options"]["g"]
    VideoEncoder(patches(height, width), frame_rate=25).to_file(path, **options)
    by_program, by_us = ffmpeg_rgb(ffmpeg_program, path).transpose(0, 3, 1, 2)[0], VideoDecoder(path)[0].numpy()
    if name == "gray":
        assert (by_us[0] == by_us[1]).all()
        expected = PATCHES.double() @ torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
        columns = torch.arange(12) * 16 + 8
        assert np.abs(by_us[0, 9, columns] - expected.numpy()).max() <= 2
    else:
        assert farthest(by_program, height, width) <= 4
        assert farthest(by_us, height, width) <= 4
    stream, _ = probe(path)
    assert {key: stream.get(key) for key in tags} == tags


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("color_range", [1, 2])
def test_conversion_follows_the_formula(matrix: int, color_range: int) -> None:
    red_weight, blue_weight = MATRICES[matrix]
    converter = RgbConverter("yuv420p", Colour(matrix, 1, 1, color_range, is_rgb=False))
    colours = np.random.default_rng(0).integers(0, 256, (100, 3), np.uint8)
    luma_scale, chroma_scale, black = (219, 224, 16) if color_range == 1 else (255, 255, 0)
    for colour in colours:
        red, green, blue = colour / 255
        luma = red_weight * red + (1 - red_weight - blue_weight) * green + blue_weight * blue
        expected = (
            black + luma_scale * luma,
            128 + chroma_scale * (blue - luma) / 2 / (1 - blue_weight),
            128 + chroma_scale * (red - luma) / 2 / (1 - red_weight),
        )
        frame = converter.frame(np.broadcast_to(colour[:, None, None], (3, 16, 32)).copy())
        found = [np.frombuffer(plane, np.uint8)[3] for plane in frame.planes]
        assert np.abs(np.array(found) - expected).max() <= 1.1


def visible_bytes(frame: Any) -> list[Any]:
    """Return each plane without the padding after its lines, whose bytes are undefined."""
    layout, found = frame.format, []
    for number, plane in enumerate(frame.planes):
        if len(frame.planes) == 1:
            num_bits = plane.width * layout.padded_bits_per_pixel
        else:
            components = sum(component.plane == number for component in layout.components)
            num_bits = plane.width * components * (-(-layout.components[0].bits // 8) * 8)
        lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        found.append(lines[: plane.height, : num_bits // 8])
    return found


# A codec for each kind of pixel format: subsampled, deep, with planes of two colours, packed, dithered.
FORMATS = [
    "yuv420p", "yuv422p", "yuv444p", "yuv440p", "yuv411p", "yuvj420p", "yuva420p", "yuv420p10le", "yuv422p12le",
    "yuv444p16le", "nv12", "nv16", "p010le", "gray", "gray10le", "ya8", "gbrp", "gbrp10le", "gbrap", "rgb24", "bgr24",
    "rgb0", "bgra", "rgb48le", "yuyv422", "rgb565le", "monob", "monow",
]  # fmt: skip


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("color_range", [1, 2])
def test_planes_are_converted_like_packed_pictures(pixel_format: str, color_range: int) -> None:
    is_rgb = pixel_format.startswith(("rgb", "bgr", "gbr"))
    converter = RgbConverter(pixel_format, Colour(0 if is_rgb else 1, 1, 1, color_range, is_rgb=is_rgb))
    rng = np.random.default_rng(0)
    for height, width in ((48, 64), (33, 50), (2, 2), (35, 1), (7, 322)):
        pictures = rng.integers(0, 256, (2, height, width, 3), np.uint8)
        pictures[1] = np.arange(width)[:, None] * [1, 2, 3]
        packed = [visible_bytes(converter.frame(picture.transpose(2, 0, 1))) for picture in pictures]
        layouts = (
            np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)),
            np.ascontiguousarray(pictures[:, :, ::-1]).transpose(0, 3, 1, 2)[..., ::-1],
            np.ascontiguousarray(pictures.transpose(0, 3, 1, 2).repeat(2, -1))[..., ::2],
            np.concatenate([pictures, pictures], -1).transpose(0, 3, 1, 2)[:, :3],
        )
        for planar in layouts:
            # Both are created before either is inspected: an encoder keeps frames as well.
            frames = [converter.frame(picture) for picture in planar]
            for frame, expected in zip(frames, packed, strict=True):
                found = visible_bytes(frame)
                assert all(np.array_equal(plane, other) for plane, other in zip(found, expected, strict=True))
