"""PNG files of every kind, written by hand: samples, palettes, transparent colours, animations."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import images
from images import hwc
from mediatensor.decoders import decode_image, decode_png
from mediatensor.encoders import PngEncoder

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PALETTE = np.random.default_rng(5).integers(0, 256, (256, 3), np.uint8)


def as_stored(data: bytes) -> np.ndarray:
    return hwc(decode_png(data, mode="UNCHANGED", output_dtype="auto"))


def colours_of(samples: np.ndarray, color_type: int, depth: int) -> np.ndarray:
    """Return displayed colours: palettes looked up, few bits scaled to eight."""
    if color_type == 3:
        return PALETTE[samples[..., 0]]
    return samples if depth >= 8 else samples * (255 // ((1 << depth) - 1))


def palette_chunk(depth: int) -> bytes:
    return images.chunk(b"PLTE", PALETTE[: 1 << depth].tobytes())


def ffmpeg_pixels(program: str, path: Path, demuxer: str, pixel_format: str) -> bytes:
    command = [program, "-v", "error", "-f", demuxer, "-i", str(path), "-f", "rawvideo", "-fps_mode", "passthrough"]
    return subprocess.run([*command, "-pix_fmt", pixel_format, "pipe:1"], capture_output=True, check=True).stdout


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(("color_type", "depth"), images.PNG_KINDS)
def test_every_kind(color_type: int, depth: int, interlaced: bool) -> None:
    samples = images.samples(CHANNELS[color_type], depth)
    extra = [palette_chunk(depth)] if color_type == 3 else []
    pixels = as_stored(images.png(samples, color_type, depth, interlaced=interlaced, extra=extra))
    assert pixels.dtype == (np.uint16 if depth == 16 else np.uint8)
    np.testing.assert_array_equal(pixels, colours_of(samples, color_type, depth))


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 3), (5, 4)])
@pytest.mark.parametrize("depth", [8, 16])
def test_interlaced_pictures_smaller_than_a_pass(size: tuple[int, int], depth: int) -> None:
    samples = images.samples(3, depth, *size)
    np.testing.assert_array_equal(as_stored(images.png(samples, 2, depth, interlaced=True)), samples)


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(("color_type", "depth"), [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16)])
def test_a_transparent_colour(color_type: int, depth: int, interlaced: bool) -> None:
    samples = images.samples(CHANNELS[color_type], depth)
    colour = samples[3, 4]
    extra = [images.chunk(b"tRNS", colour.astype(">u2").tobytes())]
    pixels = as_stored(images.png(samples, color_type, depth, interlaced=interlaced, extra=extra))
    opaque = 65535 if depth == 16 else 255
    alpha = np.where((samples == colour).all(axis=2, keepdims=True), 0, opaque)
    assert (alpha == 0).any()
    np.testing.assert_array_equal(pixels, np.concatenate([colours_of(samples, color_type, depth), alpha], axis=2))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_a_palette_with_alpha_shorter_than_itself(depth: int) -> None:
    samples = images.samples(1, depth)
    alpha = np.array([7, 90, 0, 255, 13], np.uint8)[: 1 << depth]
    extra = [palette_chunk(depth), images.chunk(b"tRNS", alpha.tobytes())]
    data = images.png(samples, 3, depth, extra=extra)
    whole = np.concatenate([alpha, np.full(256 - len(alpha), 255, np.uint8)])
    expected = np.concatenate([PALETTE[samples[..., 0]], whole[samples]], axis=2)
    np.testing.assert_array_equal(as_stored(data), expected)
    np.testing.assert_array_equal(hwc(decode_png(data)), expected[..., :3])


@pytest.mark.parametrize(("color_type", "pixel_format"), [(0, "gray16be"), (4, "ya16be"), (2, "rgb48be")])
def test_sixteen_bits_as_the_ffmpeg_program(
    color_type: int, pixel_format: str, ffmpeg_program: str, tmp_path: Path
) -> None:
    data = images.png(images.samples(CHANNELS[color_type], 16, 40, 33), color_type, 16)
    path = tmp_path / "image.png"
    path.write_bytes(data)
    pixels = np.frombuffer(ffmpeg_pixels(ffmpeg_program, path, "png_pipe", pixel_format), ">u2")
    np.testing.assert_array_equal(as_stored(data).ravel(), pixels)


@given(
    numpy_strategies.arrays(
        st.sampled_from([np.uint8, np.uint16]), st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9))
    ),
    st.integers(0, 9),
)
def test_what_is_encoded_is_decoded(pixels: np.ndarray, level: int) -> None:
    image = torch.from_numpy(pixels)
    file = PngEncoder(image).to_tensor(compression_level=level)
    decoded = decode_png(file, mode="UNCHANGED", output_dtype="auto")
    assert decoded.dtype == image.dtype
    assert torch.equal(decoded, image)


def test_large_pictures_are_decoded_in_bands() -> None:
    pixels = images.picture(700, 331)  # several bands, the last one shorter
    np.testing.assert_array_equal(as_stored(images.encoded(pixels, "PNG")), pixels)
    wide = images.picture(3, 70_000)  # a row is more than a band
    np.testing.assert_array_equal(as_stored(images.encoded(wide, "PNG")), wide)


def test_other_chunks_are_passed_over() -> None:
    samples = images.samples(3, 8)
    bomb = images.chunk(b"zTXt", b"Comment\0\0" + images.zlib.compress(bytes(100_000_000)))
    extra = [images.chunk(b"gAMA", (45455).to_bytes(4, "big")), images.chunk(b"iCCP", b"x\0\0rubbish"), bomb]
    np.testing.assert_array_equal(as_stored(images.png(samples, 2, 8, extra=extra)), samples)


# Animations


def over(above: Any, below: Any) -> tuple[Any, ...]:
    """Apply Porter and Duff's operator to one pixel of eight bits, in exact arithmetic, and round once."""
    a, b = Fraction(int(above[3]), 255), Fraction(int(below[3]), 255)
    total = a + b * (1 - a)
    if not total:
        return (0, 0, 0, 0)
    mixed = [(int(x) * a + int(y) * b * (1 - a)) / total for x, y in zip(above[:3], below[:3], strict=True)]
    return tuple(int(value + Fraction(1, 2)) for value in (*mixed, total * 255))


def shown(size: tuple[int, int], frames: list[tuple[np.ndarray, int, int, int, int]]) -> np.ndarray:
    """Compute the canvas after each RGBA frame according to the standard, pixel by pixel."""
    canvas = np.zeros((*size, 4), np.uint8)
    screens = []
    for number, (pixels, left, top, dispose, blend) in enumerate(frames):
        before = canvas.copy()
        for y, x in np.ndindex(pixels.shape[:2]):
            below = canvas[top + y, left + x]
            canvas[top + y, left + x] = over(pixels[y, x], below) if blend else pixels[y, x]
        screens.append(canvas.copy())
        if dispose == 1 or (dispose == 2 and number == 0):
            canvas[top : top + pixels.shape[0], left : left + pixels.shape[1]] = 0
        elif dispose == 2:
            canvas = before
    return np.stack(screens)


def random_frames(seed: int, alphas: list[int]) -> list[tuple[np.ndarray, int, int, int, int]]:
    rng = np.random.default_rng(seed)
    frames = []
    for number in range(5):
        height, width = (7, 9) if number == 0 else rng.integers(1, 8, 2)
        pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
        pixels[..., 3] = rng.choice(alphas, (height, width))
        left, top = (0, 0) if number == 0 else (rng.integers(0, 10 - width), rng.integers(0, 8 - height))
        frames.append((pixels, int(left), int(top), int(rng.integers(0, 3)), int(rng.integers(0, 2))))
    return frames


@pytest.mark.parametrize("seed", range(12))
def test_animations_are_drawn_as_the_standard_says(seed: int) -> None:
    frames = random_frames(seed, [0, 1, 100, 200, 254, 255])
    np.testing.assert_array_equal(hwc(decode_png(images.apng((7, 9), frames, 6), mode="RGBA")), shown((7, 9), frames))


@pytest.mark.parametrize("seed", range(4))
def test_animations_are_those_of_the_ffmpeg_program(seed: int, ffmpeg_program: str, tmp_path: Path) -> None:
    frames = random_frames(seed, [0, 255])  # it rounds translucent pixels differently
    data = images.apng((7, 9), frames, 6)
    path = tmp_path / "image.png"
    path.write_bytes(data)
    theirs = np.frombuffer(ffmpeg_pixels(ffmpeg_program, path, "apng", "rgba"), np.uint8).reshape(-1, 7, 9, 4)
    ours = hwc(decode_image(data, mode="RGBA"))
    np.testing.assert_array_equal(ours[..., 3], theirs[..., 3])
    np.testing.assert_array_equal(ours * (ours[..., 3:] > 0), theirs * (theirs[..., 3:] > 0))


@pytest.mark.parametrize(("color_type", "depth"), [(0, 16), (2, 8), (2, 16)])
def test_opaque_animations_keep_depth_and_have_no_alpha(color_type: int, depth: int) -> None:
    first, second = images.samples(CHANNELS[color_type], depth), images.samples(CHANNELS[color_type], depth, 4, 5) // 2
    data = images.apng((11, 13), [(first, 0, 0, 0, 0), (second, 6, 3, 0, 1)], color_type, depth)
    image = decode_png(data, mode="UNCHANGED", output_dtype="auto")
    combined = first.copy()
    combined[3:7, 6:11] = second
    expected = np.stack([first, combined]).repeat(3 // CHANNELS[color_type], axis=3)
    np.testing.assert_array_equal(hwc(image), expected)


def test_a_still_picture_that_is_no_part_of_the_animation_is_not_shown() -> None:
    frames = random_frames(3, [255])[:2]
    other = np.zeros((7, 9, 4), np.uint8)
    np.testing.assert_array_equal(
        hwc(decode_png(images.apng((7, 9), frames, 6, default=other), mode="RGBA")), shown((7, 9), frames)
    )


def test_an_animation_of_one_frame_is_a_still_picture() -> None:
    frames = random_frames(4, [0, 99, 255])[:1]
    image = decode_png(images.apng((7, 9), frames, 6), mode="RGBA")
    np.testing.assert_array_equal(hwc(image), frames[0][0])
