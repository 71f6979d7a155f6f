"""One picture: every kind of file, next to Pillow; and docTR's functions for arrays and tensors."""

from __future__ import annotations

import io
import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import images
from mediatensor.errors import InvalidArgumentError, SourceTypeError
from mediatensor.ocr.io import (
    DocumentFile,
    decode_img_as_tensor,
    get_img_shape,
    read_img_as_numpy,
    read_img_as_tensor,
    tensor_from_numpy,
    tensor_from_pil,
)

PICTURE = images.picture()
PNG = images.encoded(PICTURE, "PNG")


def over_white(picture: Image.Image) -> NDArray[np.uint8]:
    """What Pillow makes of a picture on white paper."""
    paper = Image.new("RGBA", picture.size, "white")
    return np.array(Image.alpha_composite(paper, picture.convert("RGBA")).convert("RGB"))


def upright(data: bytes) -> NDArray[np.uint8]:
    """What Pillow and the words of the EXIF standard make of a file."""
    with Image.open(io.BytesIO(data)) as image:
        orientation = image.getexif().get(0x0112, 1)
        return np.asarray(images.ORIENTATIONS[orientation](np.array(image.convert("RGB"))))


# One picture


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_every_format_is_read(kind: str) -> None:
    data = images.encoded(PICTURE, kind)
    page = read_img_as_numpy(data)
    assert page.shape == (23, 37, 3)
    assert page.dtype == np.uint8
    assert page.flags.c_contiguous
    assert np.array_equal(page, upright(data))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_pages_are_upright(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = images.encoded(PICTURE, kind, exif=exif)
    page = read_img_as_numpy(data)
    with Image.open(io.BytesIO(images.encoded(PICTURE, kind))) as image:
        stored = np.array(image)
    assert np.array_equal(page, images.ORIENTATIONS[orientation](stored))
    assert page.flags.c_contiguous


@pytest.mark.parametrize(
    ("kind", "mode"), [("PNG", "RGBA"), ("WEBP", "RGBA"), ("TIFF", "RGBA"), ("PNG", "LA"), ("TIFF", "LA")]
)
def test_transparent_parts_are_white(kind: str, mode: str) -> None:
    picture = Image.fromarray(images.picture(channels=len(mode)), mode)
    data = images.encoded(picture, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {}))
    assert np.abs(read_img_as_numpy(data).astype(int) - over_white(picture)).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF", "BMP"])
def test_palettes_are_resolved(kind: str) -> None:
    picture = Image.fromarray(PICTURE).quantize(60)
    assert np.array_equal(read_img_as_numpy(images.encoded(picture, kind)), np.array(picture.convert("RGB")))


def test_a_transparent_colour_of_a_palette_is_white() -> None:
    picture = Image.fromarray(PICTURE).quantize(4)
    page = read_img_as_numpy(images.encoded(picture, "PNG", transparency=0))
    is_transparent = np.array(picture) == 0
    assert is_transparent.any()
    assert (page[is_transparent] == 255).all()
    assert np.array_equal(page[~is_transparent], np.array(picture.convert("RGB"))[~is_transparent])


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_samples_are_rounded(kind: str) -> None:
    samples = images.samples(1, 16)[..., 0]
    page = read_img_as_numpy(images.encoded(Image.fromarray(samples), kind))
    assert np.array_equal(page[..., 0], np.round(samples / 257))
    assert (page == page[..., :1]).all()


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_is_converted(kind: str) -> None:
    picture = Image.fromarray(np.full((8, 8, 4), [255, 0, 51, 102], np.uint8), "CMYK")
    page = read_img_as_numpy(images.encoded(picture, kind, **({"quality": 100} if kind == "JPEG" else {})))
    # (255 - ink) (255 - black) / 255
    assert np.abs(page[4, 4].astype(int) - [0, 153, 122]).max() <= 3


@pytest.mark.parametrize(
    ("mode", "compression"),
    [("1", "group4"), *product(("1", "L", "YCbCr", "LAB"), ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"))],
)
def test_every_kind_of_tiff_is_read(mode: str, compression: str, tmp_path: Path) -> None:
    picture = Image.fromarray(PICTURE).convert("L" if mode == "LAB" else mode)
    if mode == "LAB":
        picture = Image.merge("LAB", [picture, *[Image.new("L", picture.size, 0)] * 2])
    data = images.encoded(picture, "TIFF", compression=compression)
    path = tmp_path / "page.tif"
    path.write_bytes(data)
    for source in (data, path):
        page = read_img_as_numpy(source)
        if mode == "LAB":
            assert page.shape == (23, 37, 3)
        else:
            assert np.array_equal(page, upright(data))


def test_white_is_zero_is_inverted() -> None:
    samples = images.samples(1, 16)
    tags = [
        (256, 3, 13),
        (257, 3, 11),
        (258, 3, 16),
        (259, 3, 1),
        (262, 3, 0),
        (273, 4, 200),
        (277, 3, 1),
        (278, 3, 11),
    ]
    tags.append((279, 4, samples.nbytes))
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    for tag, kind, value in tags:
        head += struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value)
    data = head.ljust(200, b"\0") + samples.astype("<u2").tobytes()
    assert np.array_equal(read_img_as_numpy(data)[..., 0], np.round((65535 - samples[..., 0].astype(int)) / 257))


# docTR's arguments and functions


def test_channels_are_rgb_or_bgr() -> None:
    assert np.array_equal(read_img_as_numpy(PNG, rgb_output=False), PICTURE[..., ::-1])
    assert read_img_as_numpy(PNG, None, False).flags.c_contiguous


def test_output_size_is_applied() -> None:
    page = read_img_as_numpy(PNG, output_size=(46, 74))
    assert page.shape == (46, 74, 3)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(PICTURE).permute(2, 0, 1)[None].float(), (46, 74), mode="bilinear", align_corners=False
    )[0].permute(1, 2, 0)
    assert np.abs(page - expected.numpy()).max() <= 1
    lines = np.full((90, 90, 3), 255, np.uint8)
    lines[::9] = 0  # thin lines do not vanish between the points that are looked at
    assert (read_img_as_numpy(images.encoded(lines, "PNG"), (30, 30)).min(axis=(1, 2)) < 255).sum() >= 10
    assert [page.shape for page in DocumentFile.from_images([PNG, PNG], output_size=(5, 6))] == [(5, 6, 3)] * 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_files_are_read_as_tensors(dtype: torch.dtype, tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    path.write_bytes(PNG)
    expected = torch.from_numpy(PICTURE).permute(2, 0, 1).to(dtype)
    if dtype != torch.uint8:
        expected = expected / 255
    tensors = [
        read_img_as_tensor(path, dtype), decode_img_as_tensor(PNG, dtype), tensor_from_numpy(PICTURE, dtype),
        tensor_from_pil(Image.fromarray(PICTURE), dtype),
    ]  # fmt: skip
    for tensor in tensors:
        assert tensor.dtype == dtype
        assert tensor.is_contiguous()
        assert torch.equal(tensor, expected)
        assert get_img_shape(tensor) == (23, 37)


def test_default_dtype_is_float() -> None:
    assert decode_img_as_tensor(PNG).dtype == torch.float32
    assert decode_img_as_tensor(PNG).max() <= 1


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("1", 1), ("RGB", 3), ("RGBA", 4), ("P", 3), ("CMYK", 4)])
def test_every_pillow_mode_is_converted(mode: str, channels: int) -> None:
    picture = Image.fromarray(PICTURE).convert(mode)
    tensor = tensor_from_pil(picture, torch.uint8)
    assert tensor.shape == (channels, 23, 37)
    bands = picture.convert({"P": "RGB", "1": "L"}.get(mode, mode)).split()
    assert torch.equal(tensor, torch.stack([torch.from_numpy(np.array(band)) for band in bands]))


def test_tensor_is_a_copy_of_the_array() -> None:
    array = PICTURE.copy()
    tensor = tensor_from_numpy(array, torch.uint8)
    array[:] = 0
    assert tensor.max() > 0
    floats = tensor_from_numpy(np.full((4, 5), 7.0))
    assert floats.shape == (1, 4, 5)
    assert floats.max() == 7


def test_functions_refuse_invalid_arguments() -> None:
    for call in (
        lambda: read_img_as_tensor(PNG, torch.float64), lambda: tensor_from_numpy(PICTURE, torch.int32),
        lambda: tensor_from_numpy(PICTURE.astype(np.int16)), lambda: tensor_from_numpy(PICTURE[0, 0]),
        lambda: tensor_from_numpy(PICTURE.astype(float), torch.uint8),
        lambda: tensor_from_pil(Image.new("F", (4, 4))),
        lambda: read_img_as_numpy(PNG, (0, 4)), lambda: read_img_as_numpy(PNG, (4,)), lambda: read_img_as_numpy(PNG, 4),
        lambda: read_img_as_numpy(PNG, (1 << 20, 1 << 20)), lambda: read_img_as_numpy(PNG, max_pixels=0),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError):
            call()
    for call in (
        lambda: decode_img_as_tensor("page.png"), lambda: tensor_from_numpy([[1]]), lambda: tensor_from_pil(PICTURE),
        lambda: read_img_as_numpy(17), lambda: read_img_as_numpy(io.StringIO()),
    ):  # fmt: skip
        with pytest.raises(SourceTypeError):
            call()
