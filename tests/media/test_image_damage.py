"""Files that are cut, changed or far too large raise an error, or give exactly the right pixels."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, features

import images
from images import hwc
from images_gif import GifPicture, gif
from mediatensor._engine.images.formats import MAX_JPEG_SCANS
from mediatensor.decoders import decode_gif, decode_image, decode_jpeg, decode_png
from mediatensor.errors import DecodeError, MediaTensorError, OpenError

PICTURE = images.picture(61, 83)
PALETTE = np.random.default_rng(0).integers(0, 256, (16, 3))
FRAMES = [Image.fromarray(np.roll(images.picture(31, 43, 4), number, axis=0)) for number in range(3)]
INDICES = np.random.default_rng(1).integers(0, 16, (12, 15))

FILES = {
    "jpeg": images.encoded(PICTURE, "JPEG"),
    "progressive jpeg": images.encoded(PICTURE, "JPEG", progressive=True),
    "cmyk jpeg": images.encoded(Image.fromarray(PICTURE).convert("CMYK"), "JPEG"),
    "png": images.encoded(PICTURE, "PNG"),
    "png of 16 bits": images.png(images.samples(3, 16), 2, 16),
    "animated png": images.apng(
        (23, 37), [(images.picture(channels=4), 0, 0, 0, 0), (images.picture(9, 7, 4), 3, 4, 1, 1)], 6
    ),
    "gif": gif((12, 15), [GifPicture(INDICES)], PALETTE),
    "animated gif": gif((12, 15), [GifPicture(INDICES), GifPicture(INDICES[:5, 3:], transparent=3)], PALETTE),
    "webp": images.encoded(PICTURE, "WEBP"),
    "animated webp": images.encoded(FRAMES[0], "WEBP", save_all=True, append_images=FRAMES[1:]),
    "bmp": images.encoded(PICTURE, "BMP"),
    "bmp with palette": images.encoded(Image.fromarray(PICTURE).quantize(17), "BMP"),
}
if "avif" in features.modules and features.check("avif"):
    FILES["avif"] = images.encoded(PICTURE, "AVIF")
    FILES["avif of 10 bits"] = images.avif_of_10_bits()


def is_right_or_refused(data: bytes, expected: torch.Tensor) -> bool:
    try:
        found = decode_image(data, mode="UNCHANGED", output_dtype="auto")
    except MediaTensorError:
        return True
    return torch.equal(found, expected)


@pytest.mark.parametrize("is_lenient", [False, True], ids=["Pillow strict", "Pillow lenient"])
@pytest.mark.parametrize("name", FILES)
def test_cut_files(name: str, is_lenient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many programs set this. Pillow then makes up pixels, which must not be returned.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", is_lenient)
    data = FILES[name]
    expected = decode_image(data, mode="UNCHANGED", output_dtype="auto")
    lengths = [*range(1, len(data) - 40, max(1, len(data) // 200)), *range(len(data) - 40, len(data))]
    assert [length for length in lengths if not is_right_or_refused(data[:length], expected)] == []


@pytest.mark.parametrize("name", [name for name in FILES if "jpeg" in name or "png" in name])
def test_files_whose_end_was_never_written(name: str) -> None:
    data = FILES[name]
    expected = decode_image(data, mode="UNCHANGED", output_dtype="auto")
    for length in range(30, len(data) - 4, len(data) // 20):
        assert is_right_or_refused(data[:length] + bytes(len(data) - length), expected)


@pytest.mark.parametrize("name", [name for name in FILES if "png" in name])
def test_no_changed_byte_of_a_png_goes_unnoticed(name: str) -> None:
    data = bytearray(FILES[name])
    expected = decode_image(bytes(data), mode="UNCHANGED", output_dtype="auto")
    for place in range(8, len(data), max(1, len(data) // 200)):
        data[place] ^= 0x10
        assert is_right_or_refused(bytes(data), expected), place
        data[place] ^= 0x10


def test_a_changed_pixel_that_is_not_compressed_is_noticed() -> None:
    # Only the checksums show it.
    data = bytearray(images.encoded(PICTURE, "PNG", compress_level=0))
    data[len(data) // 2] ^= 1
    with pytest.raises(DecodeError, match="checksum"):
        decode_png(bytes(data))


def test_messages_say_what_is_missing() -> None:
    for name, words in (
        ("webp", "its last 100 bytes are missing"),
        ("animated gif", "it ends before its trailer"),
        ("jpeg", "it has no end"),
        ("png", "it ends after"),
    ):
        with pytest.raises(DecodeError, match=words):
            decode_image(FILES[name][:-100])


@pytest.mark.parametrize("name", FILES)
def test_changed_bytes_raise_nothing_else(name: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        data = bytearray(FILES[name])
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(0, 256)
        with contextlib.suppress(MediaTensorError):
            decode_image(bytes(data), max_pixels=1_000_000)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimize": True},
        {"quality": 95, "subsampling": 0},
        {"restart_marker_blocks": 4},
        {"restart_marker_rows": 1},
    ],
    ids=str,
)
def test_a_jpeg_whose_data_ends_early(options: dict[str, Any]) -> None:
    # The end marker is there, so only decoding shows it. libjpeg leaves the rest gray.
    data = images.encoded(images.picture(200, 300), "JPEG", **options)
    for share in np.linspace(0.3, 0.95, 14):
        cut = data[: int(len(data) * share)] + b"\xff\xd9"
        with Image.open(io.BytesIO(cut)) as image:
            image.load()  # without a word
        with pytest.raises(DecodeError, match="its data ends before the picture does"):
            decode_jpeg(cut)


def strict_decoder_refuses(jpeg: bytes) -> bool:
    context: Any = av.CodecContext.create("mjpeg", "r")
    context.options = {"err_detect": "explode"}
    try:
        context.decode(av.Packet(jpeg))
    except av.InvalidDataError:
        return True
    return False


def test_a_jpeg_with_wrong_codes_is_decoded_as_libjpeg_does() -> None:
    # It is flat below, so that it ends like a picture that libjpeg has filled up.
    pixels = images.picture(96, 128)
    pixels[48:] = 200
    data = images.encoded(pixels, "JPEG", optimize=True)
    scan = data.index(b"\xff\xda") + 14
    num_refused = 0
    for seed in range(150):
        generator = np.random.default_rng(seed)
        changed = np.frombuffer(data, np.uint8).copy()
        places = generator.integers(scan, len(data) - 2, 3)
        changed[places] = generator.integers(0, 255, 3)
        with contextlib.suppress(OSError), Image.open(io.BytesIO(changed.tobytes())) as image:
            expected = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
            with contextlib.suppress(DecodeError):  # missing data, and markers that end the picture
                assert torch.equal(decode_jpeg(changed.tobytes()), expected)
                is_flat = bool((expected[:, -4:, -4:] == expected[:, -1:, -1:]).all())
                num_refused += is_flat and strict_decoder_refuses(changed.tobytes())
    assert num_refused > 20


def test_a_jpeg_with_a_wrong_table_of_codes_is_decoded_as_libjpeg_does() -> None:
    data = bytearray(images.encoded(np.full((64, 64, 3), 90, np.uint8), "JPEG"))
    lengths = data.index(b"\xff\xc4") + 5  # how many codes there are of each length
    data[lengths + 1], data[lengths + 15] = 0, data[lengths + 1]  # the shortest ones become the longest
    with Image.open(io.BytesIO(data)) as image:
        expected = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    assert strict_decoder_refuses(bytes(data))
    assert torch.equal(decode_jpeg(bytes(data)), expected)


@pytest.mark.parametrize(("mode", "white"), [("RGB", (255, 255, 255)), ("L", 255), ("CMYK", (0, 0, 0, 0))])
def test_a_jpeg_that_is_flat_is_not_damaged(mode: str, white: Any) -> None:
    for options in ({}, {"progressive": True}, {"restart_marker_blocks": 1}, {"optimize": True}):
        for size in ((1, 1), (17, 9), (64, 64)):
            data = images.encoded(Image.new(mode, size, white), "JPEG", **options)
            assert decode_jpeg(data).min() == 255


@pytest.mark.parametrize("depth", [8, 16])
def test_a_png_whose_data_ends_early(depth: int) -> None:
    samples = images.samples(3, depth, 40, 50)
    header = struct.pack(">IIBBBBB", 50, 40, depth, 2, 0, 0, 0)
    data = images.compressed(samples, depth)
    for length in (1, len(data) // 2, len(data) - 30):
        chunks = [images.chunk(b"IHDR", header), images.chunk(b"IDAT", data[:length]), images.chunk(b"IEND", b"")]
        with pytest.raises(DecodeError):
            decode_png(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def test_a_gif_whose_data_ends_early() -> None:
    whole = gif((12, 15), [GifPicture(INDICES)], PALETTE)
    for num_rows in (1, 5, 11):
        part = bytearray(gif((12, 15), [GifPicture(INDICES[:num_rows])], PALETTE))
        at = part.index(b"\x2c", 13 + 48)
        part[at + 7 : at + 9] = struct.pack("<H", 12)  # says that it has all rows
        with pytest.raises(DecodeError):
            decode_gif(bytes(part))
    assert decode_gif(whole).shape == (3, 12, 15)


# Limits


@pytest.mark.parametrize(
    "data",
    [
        images.png_claiming(60_000, 60_000),
        images.jpeg_claiming(60_000, 60_000),
        b"GIF89a" + struct.pack("<HHBBB", 60_000, 60_000, 0, 0, 0) + b"\x2c" + bytes(4) + struct.pack("<HHB", 1, 1, 0),
        b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff\xff\0" * 2,
        b"RIFF" + struct.pack("<I", 17) + b"WEBPVP8L" + struct.pack("<IBI", 5, 0x2F, 0xFFFFFFF),
        b"BM" + struct.pack("<IHHI", 60, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 60_000, 60_000, 1, 24, *[0] * 6),
    ],
    ids=["png", "jpeg", "gif", "webp", "lossless webp", "bmp"],
)
def test_a_picture_beyond_the_limit_is_refused_before_it_is_decoded(data: bytes) -> None:
    if data.startswith(b"GIF"):
        data += b"\x02\x02\x44\x01\x00;"
    with pytest.raises(OpenError, match="more than max_pixels = 178956970"):
        decode_image(data)


def test_an_animation_beyond_the_limit_is_refused_before_it_is_decoded() -> None:
    for data in (
        images.png_claiming(4000, 4000, 400),
        gif((9000, 9000), [GifPicture(np.zeros((1, 1), int), transparent=1)] * 40, PALETTE),
    ):
        assert len(data) < 30_000
        with pytest.raises(OpenError, match=r"400? pictures of .* bytes, more than the 2863311520 that max_pixels"):
            decode_image(data, mode="RGBA")


def test_a_part_of_a_gif_that_is_larger_than_the_canvas_counts() -> None:
    data = bytearray(gif((4, 4), [GifPicture(np.zeros((4, 4), int))] * 2, PALETTE))
    at = data.rindex(b"\x2c\0\0\0\0")
    data[at + 5 : at + 9] = struct.pack("<HH", 60_000, 60_000)
    with pytest.raises(OpenError, match="max_pixels"):
        decode_gif(bytes(data))


def test_the_limit_is_an_argument() -> None:
    data = images.encoded(PICTURE, "PNG")
    assert decode_png(data, max_pixels=61 * 83).shape == (3, 61, 83)
    with pytest.raises(OpenError, match=r"83x61 = 5063 pixels, more than max_pixels = 5062;"):
        decode_png(data, max_pixels=61 * 83 - 1)


def test_settings_of_pillow_neither_count_nor_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 70_000)
    pixels = images.picture(400, 401)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("PNG", "BMP"):
            image = decode_image(images.encoded(pixels, kind))
            np.testing.assert_array_equal(hwc(image), pixels)
        assert decode_image(images.encoded(pixels, "JPEG")).shape == (3, 400, 401)
    assert Image.MAX_IMAGE_PIXELS == 70_000
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


def test_a_jpeg_of_very_many_scans_is_refused() -> None:
    data = images.encoded(PICTURE, "JPEG", progressive=True)
    at = data.rindex(b"\xff\xda")
    scan = data[at:-2]
    with pytest.raises(DecodeError, match=f"more than the {MAX_JPEG_SCANS}"):
        decode_jpeg(data[:at] + scan * 600 + b"\xff\xd9")
