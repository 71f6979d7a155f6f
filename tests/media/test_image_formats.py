"""JPEG, WebP, AVIF, HEIC and BMP, and turning pictures upright."""

from __future__ import annotations

import importlib
import io
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image, features

import images
from images import hwc
from mediatensor.decoders import decode_avif, decode_heic, decode_image, decode_jpeg, decode_png, decode_webp
from mediatensor.errors import MissingDependencyError, OpenError

needs_avif = pytest.mark.skipif("avif" not in features.modules, reason="needs a Pillow with AVIF (11.3 or newer)")


def by_pillow(data: bytes, mode: str) -> np.ndarray:
    """Open the image with Pillow, and convert the whole picture."""
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
    np.testing.assert_array_equal(hwc(decode_image(data)), by_pillow(data, "RGB"))


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
    np.testing.assert_array_equal(hwc(image), expected)


def test_animated_webp_on_a_transparent_canvas() -> None:
    # Each frame is an opaque square, and the file has no alpha flag. Uncovered pixels are transparent in libwebp, in
    # browsers, and in the specification.
    pictures = np.zeros((3, 16, 24, 4), np.uint8)
    for number in range(3):
        pictures[number, 4:12, 6 * number : 6 * number + 6] = (255, 10 * number, 0, 255)
    first, *others = map(Image.fromarray, pictures)
    data = images.encoded(first, "WEBP", save_all=True, append_images=others, lossless=True)
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "RGB"
    found = decode_webp(data, mode="RGB_ALPHA")
    np.testing.assert_array_equal(hwc(found), pictures)
    assert torch.equal(decode_webp(data, mode="GRAY_ALPHA")[:, 1], found[:, 3])
    assert torch.equal(decode_webp(data), found[:, :3])
    assert decode_webp(data, mode="UNCHANGED").shape == (3, 3, 16, 24)
    assert torch.equal(decode_webp(data, mode="RGBA", output_dtype=torch.uint16).long(), found.long() * 257)


def test_disposal_and_blending_of_animated_webp() -> None:
    """Compare each combination of both with frames that are composed here."""
    generator = np.random.default_rng(0)
    canvas, covered, expected, chunks = np.zeros((16, 24, 4), np.int64), None, [], []
    for number in range(24):
        x, y = 2 * generator.integers(0, 6, 2)
        width, height = generator.integers(2, 24 - x + 1), generator.integers(2, 16 - y + 1)
        overwrites, disposes = number % 2 == 0, number % 3 == 0
        pixels = generator.integers(0, 256, (height, width, 4))
        pixels[..., 3] = generator.choice([0, 255], (height, width))
        if covered is not None:
            canvas[covered] = 0
        part = canvas[y : y + height, x : x + width]
        part[:] = pixels if overwrites else np.where(pixels[..., 3:] == 255, pixels, part)
        expected.append(canvas.copy())
        covered = (slice(y, y + height), slice(x, x + width)) if disposes else None
        still = images.encoded(pixels.astype(np.uint8), "WEBP", lossless=True, exact=True)
        bitstream = still[still.index(b"VP8L") :]
        place = b"".join(int(value).to_bytes(3, "little") for value in (x // 2, y // 2, width - 1, height - 1, 40))
        chunks.append(place + bytes((2 * overwrites + disposes,)) + bitstream)
    body = b"VP8X" + (10).to_bytes(4, "little") + bytes((0x12, 0, 0, 0)) + bytes((23, 0, 0, 15, 0, 0))
    body += b"ANIM" + (6).to_bytes(4, "little") + bytes((9, 90, 200, 255, 0, 0))
    for chunk in chunks:
        body += b"ANMF" + len(chunk).to_bytes(4, "little") + chunk
    data = b"RIFF" + (len(body) + 4).to_bytes(4, "little") + b"WEBP" + body
    found = hwc(decode_webp(data, mode="RGBA"))
    opaque = np.stack(expected)[..., 3] == 255
    np.testing.assert_array_equal(found[..., 3], np.stack(expected)[..., 3])
    np.testing.assert_array_equal(found[opaque], np.stack(expected)[opaque])


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
    np.testing.assert_array_equal(hwc(decode_avif(data, mode="RGBA")), np.stack(expected))


@needs_avif
@pytest.mark.parametrize("orientation", images.ORIENTATIONS)
def test_avif_is_turned_upright(orientation: int) -> None:
    stored = images.picture(48, 32)
    plain = decode_avif(images.encoded(stored, "AVIF"))
    turned = decode_avif(images.encoded(stored, "AVIF", exif=images.exif(orientation)))
    np.testing.assert_array_equal(hwc(turned), images.ORIENTATIONS[orientation](hwc(plain)))


def rgb_by_formula(data: bytes) -> np.ndarray:
    """Return RGB (H, W, 3) of 16 bits by the formulas of H.273 in double precision; torch enlarges the chroma."""
    with av.open(io.BytesIO(data)) as container:
        frame: Any = next(container.decode(video=0))
    depth = frame.format.components[0].bits
    planes = []
    for plane in frame.planes:
        lines = np.frombuffer(plane, np.uint16).reshape(-1, plane.line_size // 2)[:, : plane.width]
        factors = [-(-whole // part) for whole, part in zip((frame.height, frame.width), lines.shape, strict=True)]
        stored = torch.from_numpy(lines.astype(np.float64))[None, None]
        enlarged = torch.nn.functional.interpolate(stored, scale_factor=factors, mode="bilinear")[0, 0]
        planes.append(enlarged[: frame.height, : frame.width])
    unit, largest = 1 << depth - 8, (1 << depth) - 1
    luma = planes[0] / largest if frame.color_range == 2 else (planes[0] - 16 * unit) / (219 * unit)
    blue, red = ((plane - 128 * unit) / (largest if frame.color_range == 2 else 224 * unit) for plane in planes[1:])
    kr, kb = {1: (0.2126, 0.0722), 2: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}[frame.colorspace]
    luma = luma.clamp(0, 1)
    reds, blues = luma + 2 * (1 - kr) * red, luma + 2 * (1 - kb) * blue
    # Colours outside the range are included.
    greens = (luma - kr * reds - kb * blues) / (1 - kr - kb)
    return (torch.stack([reds, greens, blues], dim=-1).clamp(0, 1) * 65535).round().numpy()


def is_within_one(found: torch.Tensor, expected: np.ndarray) -> bool:
    return bool(np.abs(hwc(found.long()) - expected).max() <= 1)


@needs_avif
@pytest.mark.parametrize(
    "tags", [{}, {"color_range": 2}, {"colorspace": 1}, {"colorspace": 9, "color_range": 2}], ids=str
)
def test_avif_of_10_bits_keeps_them(tags: dict[str, int]) -> None:
    data = images.avif_of_10_bits(**tags)
    found = decode_avif(data, output_dtype="auto")
    assert found.dtype == torch.uint16
    assert is_within_one(found, rgb_by_formula(data))
    assert torch.equal(decode_image(data, output_dtype=torch.uint16), found)
    gray = decode_avif(data, mode="GRAY", output_dtype="auto").double()
    weights = torch.tensor([0.2989, 0.5870, 0.1140], dtype=torch.float64)
    assert (gray - (found.double() * weights[:, None, None]).sum(0)).abs().max() < 0.501
    assert (decode_avif(data, mode="RGBA", output_dtype="auto")[3] == 65535).all()
    np.testing.assert_array_equal(hwc(decode_avif(data)), by_pillow(data, "RGB"))
    assert (found.long() / 257 - decode_avif(data)).abs().mean() < 2  # Pillow approximates


def encoded_by_ffmpeg(program: str, pixels: np.ndarray, options: str, folder: Path) -> bytes:
    """Return an AVIF file that libaom has encoded."""
    height, width, channels = pixels.shape
    raw = f"-v error -f rawvideo -pix_fmt {'rgb24' if channels == 3 else 'rgba'} -s {width}x{height} -i -"
    command = f"{raw} {options} -c:v libaom-av1 -still-picture 1 -crf 2 -cpu-used 8".split()
    path = folder / "a.avif"
    if subprocess.run([program, *command, path], input=pixels.tobytes(), capture_output=True).returncode:
        pytest.skip("needs an ffmpeg program that encodes AV1 with libaom")
    return path.read_bytes()


@needs_avif
@pytest.mark.parametrize("pixel_format", ["yuv444p10le", "yuv422p12le", "yuv420p12le", "gbrp10le", "gray12le"])
def test_avif_of_other_layouts(pixel_format: str, tmp_path: Path, ffmpeg_program: str) -> None:
    data = encoded_by_ffmpeg(ffmpeg_program, images.picture(48, 63), f"-vf format={pixel_format}", tmp_path)
    found = decode_avif(data, output_dtype="auto")
    assert found.dtype == torch.uint16
    if pixel_format.startswith("yuv"):
        assert is_within_one(found, rgb_by_formula(data))
    else:
        assert (found.long() / 257 - decode_avif(data)).abs().max() <= 0.5
    if pixel_format.startswith("gray"):
        assert (found[0] == found[2]).all()


@needs_avif
def test_avif_of_10_bits_with_alpha(tmp_path: Path, ffmpeg_program: str) -> None:
    layouts = "-filter_complex format=yuv444p10le[c];[0:v]alphaextract,format=gray10le[a] -map [c] -map [a]"
    data = encoded_by_ffmpeg(ffmpeg_program, images.picture(48, 64, 4), layouts, tmp_path)
    found = decode_avif(data, mode="UNCHANGED", output_dtype="auto")
    assert found.shape == (4, 48, 64)
    assert (found[3].long() / 257 - decode_avif(data, mode="UNCHANGED")[3]).abs().max() <= 1
    assert is_within_one(found[:3], rgb_by_formula(data))


@needs_avif
def test_avif_with_colours_of_another_kind_comes_from_libavif() -> None:
    data = images.avif_of_10_bits(colorspace=12)  # derived from the primaries
    found = decode_avif(data, output_dtype="auto")
    assert torch.equal(found.long(), decode_avif(data).long() * 257)


@needs_avif
def test_threads_of_the_avif_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin: Any = importlib.import_module("PIL.AvifImagePlugin")
    asked = []

    class Spy:
        def __init__(self, decoder: Any) -> None:
            self.decoder = decoder

        def AvifDecoder(self, data: bytes, codec: str, num_threads: int) -> Any:
            asked.append(num_threads)
            return self.decoder.AvifDecoder(data, codec, num_threads)

    files = images.encoded(images.picture(64, 80), "AVIF"), images.avif_of_10_bits()
    monkeypatch.setattr(plugin, "_avif", Spy(plugin._avif))
    for data in files:
        one, two, four = (decode_avif(data, num_threads=number, output_dtype="auto") for number in (1, 2, 4))
        assert torch.equal(one, two)
        assert torch.equal(one, four)
    assert asked == [1, 2, 4] * 2
    assert plugin.DEFAULT_MAX_THREADS == 0


def test_without_an_avif_decoder_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features.modules, "avif", ("PIL._no_such_module", None))
    with pytest.raises(MissingDependencyError, match="pip install --upgrade pillow"):
        decode_avif(b"\0\0\0\x18ftypavif" + bytes(40))


def heic(pixels: np.ndarray, mode: str, size: tuple[int, int]) -> bytes:
    """Encode a lossless file."""
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


@pytest.mark.parametrize("size", [(0, 61), (79, 0)])
def test_heic_cropped_to_nothing_is_refused(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(heic(images.picture(61, 79), "RGB", (79, 61)))
    at = data.index(b"clap") + 4  # width and height of the crop, as fractions
    assert struct.unpack_from(">4I", data, at) == (79, 1, 61, 1)
    struct.pack_into(">4I", data, at, size[0], 1, size[1], 1)
    with pytest.raises(OpenError):
        decode_heic(bytes(data))
    # Older versions of libheif, such as 1.19, return a picture of this size.
    old = SimpleNamespace(open_heif=lambda *_, **__: [SimpleNamespace(size=size, info={"bit_depth": 8}, mode="RGB")])
    monkeypatch.setitem(sys.modules, "pillow_heif", old)
    with pytest.raises(OpenError, match=f"{size[0]}x{size[1]} pixels"):
        decode_heic(bytes(data))


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
