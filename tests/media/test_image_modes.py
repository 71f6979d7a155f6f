"""Modes, depths and arguments of all image functions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import images
from images import hwc
from mediatensor.decoders import (
    ImageReadMode,
    decode_avif,
    decode_gif,
    decode_heic,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
)
from mediatensor.errors import InvalidArgumentError, OpenError

MODES = {"GRAY": 1, "GRAY_ALPHA": 2, "RGB": 3, "RGB_ALPHA": 4}
COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
EVERY_FUNCTION = [decode_avif, decode_gif, decode_heic, decode_image, decode_jpeg, decode_png, decode_webp]


def half_up(value: Fraction) -> int:
    return int((value + Fraction(1, 2)) // 1)


def gray_by_formula(pixels: np.ndarray) -> np.ndarray:
    """Compute 0.2989 R + 0.587 G + 0.114 B in exact arithmetic, and round it."""
    weights = (Fraction("0.2989"), Fraction("0.587"), Fraction("0.114"))
    flat = [half_up(sum(w * int(v) for w, v in zip(weights, rgb, strict=True))) for rgb in pixels.reshape(-1, 3)]
    return np.array(flat, pixels.dtype).reshape(*pixels.shape[:2], 1)


def expected(pixels: np.ndarray, mode: str) -> np.ndarray:
    """Return the pixels (H, W, C) of a file in a mode."""
    channels, opaque = pixels.shape[2], np.iinfo(pixels.dtype).max
    colours, alpha = pixels, np.full_like(pixels[..., :1], opaque)
    if channels in (2, 4):
        colours, alpha = pixels[..., :-1], pixels[..., -1:]
    if mode.startswith("GRAY") and colours.shape[2] == 3:
        colours = gray_by_formula(colours)
    elif mode.startswith("RGB") and colours.shape[2] == 1:
        colours = colours.repeat(3, axis=2)
    return np.concatenate([colours, alpha], axis=2) if mode.endswith("ALPHA") else colours


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("mode", MODES)
def test_modes_are_their_formulae(mode: str, channels: int, depth: int) -> None:
    pixels = images.samples(channels, depth).astype(np.uint8 if depth == 8 else np.uint16)
    image = decode_png(images.png(pixels, COLOR_TYPES[channels], depth), mode=mode, output_dtype="auto")
    assert image.shape[0] == MODES[mode]
    assert image.is_contiguous()
    np.testing.assert_array_equal(hwc(image), expected(pixels, mode))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_unchanged_keeps_the_channels(channels: int) -> None:
    pixels = images.picture(channels=channels)
    np.testing.assert_array_equal(
        hwc(decode_png(images.png(pixels, COLOR_TYPES[channels], 8), mode=ImageReadMode.UNCHANGED)), pixels
    )


def test_rgb_is_the_default_mode_and_uint8_the_default_depth() -> None:
    image = decode_png(images.png(images.samples(1, 16), 0, 16))
    assert image.shape[0] == 3
    assert image.dtype == torch.uint8


def test_eight_bits_become_sixteen_by_257() -> None:
    values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    image = decode_png(images.png(values, 0, 8), mode="gray", output_dtype=torch.uint16)
    assert image.dtype == torch.uint16
    assert hwc(image).ravel().tolist() == [257 * value for value in range(256)]


def test_sixteen_bits_become_eight_by_rounding() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1)
    image = decode_png(images.png(values, 0, 16, filters=[0]), mode="gray")
    assert hwc(image).ravel().tolist() == [half_up(Fraction(value, 257)) for value in range(65536)]


def test_every_gray_of_eight_bits_is_kept_but_white_of_sixteen() -> None:
    grays = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    assert hwc(decode_png(images.png(grays, 2, 8), mode="gray")).ravel().tolist() == list(range(256))
    white = np.full((1, 1, 3), 65535, np.uint16)
    image = decode_png(images.png(white, 2, 16), mode="gray", output_dtype="auto")
    assert image.tolist() == [[[65528]]]  # 0.9999 of it


@pytest.mark.parametrize(
    ("name", "channels"), [("gray", 1), ("Gray_Alpha", 2), ("rgb", 3), ("RGBA", 4), ("rgb_alpha", 4), ("unchanged", 3)]
)
def test_names_of_modes_in_any_case(name: str, channels: int) -> None:
    assert decode_png(images.png(images.picture(), 2, 8), mode=name).shape[0] == channels


def test_rgba_is_an_alias() -> None:
    assert ImageReadMode.RGBA is ImageReadMode.RGB_ALPHA is ImageReadMode(4)
    assert [mode.name for mode in ImageReadMode] == ["UNCHANGED", *MODES]


@pytest.mark.parametrize("decode", EVERY_FUNCTION)
def test_arguments_are_checked_before_the_source(decode) -> None:
    with pytest.raises(ValueError, match="Invalid mode 'cmyk'"):
        decode(b"", mode="cmyk")
    with pytest.raises(TypeError, match="got int"):
        decode(b"", mode=3)
    with pytest.raises(ValueError, match=r"Invalid output_dtype \(torch.float32\)"):
        decode(b"", output_dtype=torch.float32)
    with pytest.raises(InvalidArgumentError, match="Unsupported device: cuda:99"):
        decode(b"", device="cuda:99")
    with pytest.raises(InvalidArgumentError, match="max_pixels = 0"):
        decode(b"", max_pixels=0)
    with pytest.raises(InvalidArgumentError, match="max_pixels = Tensor of shape"):
        decode(b"", max_pixels=torch.tensor(7.5))
    with pytest.raises(OpenError):
        decode(b"no image", device=None)
