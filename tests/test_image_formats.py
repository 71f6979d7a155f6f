"""JPEG, WebP, AVIF, HEIC and BMP, and turning pictures upright."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, features

import images
from mediatensor.decoders import decode_avif, decode_heic, decode_image, decode_jpeg, decode_png, decode_webp
from mediatensor.errors import MissingDependencyError, OpenError

needs_avif = pytest.mark.skipif("avif" not in features.modules, reason="needs a Pillow with AVIF (11.3 or newer)")


def hwc(image: torch.Tensor) -> np.ndarray:
    return image.permute(1, 2, 0).numpy()


def by_pillow(data: bytes, mode: str) -> np.ndarray:
    """What ``Image.open`` and a conversion of the whole picture give."""
    with Image.open(io.BytesIO(data)) as image:
        return np.atleast_3d(np.asarray(image.convert(mode)))


def frames(num_frames: int = 4) -> list[Image.Image]:
    return [Image.fromarray(np.roll(images.picture(31, 43, 4), 5 * number, axis=1)) for number in range(num_frames)]


def animation(kind: str, **options: Any) -> bytes:
    first, *others = frames()
    return images.encoded(first, kind, save_all=True, append_images=others, duration=40, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}, {"restart_marker_blocks": 2}, {"quality": 5}],
    ids=str,
)
@pytest.mark.parametrize("size", [(61, 83), (64, 80), (1, 1), (300, 401)])
def test_jpeg_is_what_libjpeg_gives(size: tuple[int, int], options: dict[str, Any]) -> None:
    data = images.encoded(images.picture(*size), "JPEG", **options)
    np.testing.assert_array_equal(hwc(decode_jpeg(data)), by_pillow(data, "RGB"))


def test_gray_jpeg() -> None:
    data = images.encoded(images.picture(channels=1), "JPEG")
    assert decode_jpeg(data, mode="UNCHANGED").shape == (1, 23, 37)
    np.testing.assert_array_equal(hwc(decode_jpeg(data)), by_pillow(data, "RGB"))


def test_cmyk_jpeg() -> None:
    ink = images.picture(channels=4)
    data = images.encoded(Image.fromarray(ink, "CMYK"), "JPEG", quality=100, subsampling=0)
    assert b"Adobe" in data  # which stores CMYK inverted
    stored = hwc(decode_jpeg(data, mode="UNCHANGED"))
    assert stored.shape == ink.shape
    assert np.abs(stored.astype(int) - ink).max() <= 3
    light = 255 - stored.astype(int)
    np.testing.assert_array_equal(hwc(decode_jpeg(data)), np.rint(light[..., :3] * light[..., 3:] / 255))
    assert decode_jpeg(data, mode="RGBA")[3].min() == 255


def test_first_picture_of_an_mpo_file() -> None:
    pictures = [picture.convert("RGB") for picture in frames(2)]
    data = images.encoded(pictures[0], "MPO", save_all=True, append_images=pictures[1:])
    image = decode_image(data)
    np.testing.assert_array_equal(hwc(image), by_pillow(data, "RGB"))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", images.ORIENTATIONS)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_pictures_are_turned_upright(kind: str, orientation: int, order: str) -> None:
    # Both sides of several bands, neither square nor symmetric.
    stored = images.picture(411, 203)
    options = {"lossless": True} if kind == "WEBP" else {}
    plain = decode_image(images.encoded(stored, kind, **options))
    turned = decode_image(images.encoded(stored, kind, exif=images.exif(orientation, order), **options))
    assert turned.is_contiguous()
    np.testing.assert_array_equal(hwc(turned), images.ORIENTATIONS[orientation](hwc(plain)))


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_orientations_that_do_not_exist_are_upright(orientation: int) -> None:
    stored = images.picture()
    data = images.encoded(stored, "PNG", exif=images.exif(orientation))
    np.testing.assert_array_equal(hwc(decode_image(data)), stored)


def test_damaged_exif_is_no_orientation() -> None:
    for end in range(6, 26):
        data = images.encoded(images.picture(), "PNG", exif=images.exif(6)[:end])
        assert decode_image(data).shape == (3, 23, 37)


def test_webp() -> None:
    for channels, mode in ((3, "RGB"), (4, "RGBA")):
        pixels = images.picture(channels=channels)
        lossless = images.encoded(pixels, "WEBP", lossless=True, exact=True)
        np.testing.assert_array_equal(hwc(decode_webp(lossless, mode="UNCHANGED")), pixels)
        lossy = images.encoded(pixels, "WEBP")
        np.testing.assert_array_equal(hwc(decode_webp(lossy, mode="UNCHANGED")), by_pillow(lossy, mode))


def test_animated_webp() -> None:
    image = decode_webp(animation("WEBP", lossless=True, exact=True), mode="UNCHANGED")
    expected = np.stack([np.asarray(frame) for frame in frames()])
    np.testing.assert_array_equal(image.permute(0, 2, 3, 1).numpy(), expected)


@needs_avif
def test_avif() -> None:
    data = images.encoded(images.picture(64, 80), "AVIF")
    np.testing.assert_array_equal(hwc(decode_avif(data, num_threads=2)), by_pillow(data, "RGB"))
    with_alpha = images.encoded(images.picture(64, 80, 4), "AVIF")
    np.testing.assert_array_equal(hwc(decode_avif(with_alpha, mode="unchanged")), by_pillow(with_alpha, "RGBA"))


@needs_avif
def test_animated_avif() -> None:
    data = animation("AVIF", quality=100)
    with Image.open(io.BytesIO(data)) as image:
        expected = []
        for number in range(image.n_frames):
            image.seek(number)
            expected.append(np.asarray(image.convert("RGBA")))
    assert len(expected) == 4
    decoded = decode_avif(data, mode="RGBA")
    np.testing.assert_array_equal(decoded.permute(0, 2, 3, 1).numpy(), np.stack(expected))


@needs_avif
@pytest.mark.parametrize("orientation", images.ORIENTATIONS)
def test_avif_is_turned_upright(orientation: int) -> None:
    stored = images.picture(48, 32)
    plain = decode_avif(images.encoded(stored, "AVIF"))
    turned = decode_avif(images.encoded(stored, "AVIF", exif=images.exif(orientation)))
    np.testing.assert_array_equal(hwc(turned), images.ORIENTATIONS[orientation](hwc(plain)))


def test_without_an_avif_decoder_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features.modules, "avif", ("PIL._no_such_module", None))
    with pytest.raises(MissingDependencyError, match="pip install --upgrade pillow"):
        decode_avif(b"\0\0\0\x18ftypavif" + bytes(40))


def heic(pixels: np.ndarray, mode: str, size: tuple[int, int]) -> bytes:
    """A lossless file."""
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif")
    file = io.BytesIO()
    heif.from_bytes(mode, size, pixels.tobytes()).save(file, quality=-1, chroma=444, matrix_coefficients=0)
    return file.getvalue()


@pytest.mark.parametrize(("mode", "channels"), [("RGB", 3), ("RGBA", 4)])
def test_heic(mode: str, channels: int) -> None:
    pixels = images.picture(64, 80, channels)
    image = decode_heic(heic(pixels, mode, (80, 64)), mode="UNCHANGED")
    assert np.abs(hwc(image).astype(int) - pixels).max() <= 1


def test_heic_of_ten_bits() -> None:
    # pillow-heif takes 16 bits and keeps 10.
    pixels = images.samples(3, 16, 64, 80)
    data = heic(pixels, "RGB;16", (80, 64))
    image = decode_heic(data, output_dtype="auto")
    assert image.dtype == torch.uint16
    steps = (pixels >> 6).astype(int)
    np.testing.assert_array_equal(hwc(image), np.rint(steps * 65535 / 1023))


def test_heic_leaves_pillow_as_it_is() -> None:
    heic_file = heic(images.picture(64, 80), "RGB", (80, 64))
    decode_image(heic_file)
    assert "HEIF" not in Image.OPEN


def test_without_pillow_heif_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[heic\]"):
        decode_heic(b"\0\0\0\x18ftypheic" + bytes(40))


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA"])
def test_bmp(mode: str) -> None:
    image = Image.fromarray(images.picture(61, 83)).convert(mode)
    data = images.encoded(image, "BMP")
    np.testing.assert_array_equal(hwc(decode_image(data)), by_pillow(data, "RGB"))


def test_the_error_for_another_format_says_what_it_is() -> None:
    jpeg, png = images.encoded(images.picture(), "JPEG"), images.encoded(images.picture(), "PNG")
    with pytest.raises(OpenError, match="not a PNG image: it looks like a JPEG image; use decode_jpeg"):
        decode_png(jpeg)
    with pytest.raises(OpenError, match="not a JPEG image: it looks like a PNG image"):
        decode_jpeg(png)
    with pytest.raises(ValueError, match=r"Unsupported or unrecognized image format: .* looks like a TIFF image"):
        decode_image(images.encoded(images.picture(), "TIFF"))
    with pytest.raises(OpenError, match="begins with b'hello"):
        decode_image(b"hello world")
