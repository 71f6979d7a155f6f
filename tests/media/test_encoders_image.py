"""`JpegEncoder` and `PngEncoder`: their files, destinations, and errors."""

from __future__ import annotations

import errno
import io
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import images
from mediatensor.decoders import decode_png
from mediatensor.encoders import JpegEncoder, PngEncoder
from mediatensor.errors import EncodeError, InvalidArgumentError, SourceTypeError, WriteError


def chw(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("quality", [1, 75, 100])
def test_jpeg_equals_pillows(quality: int, channels: int) -> None:
    pixels = images.picture(channels=channels)
    found = bytes(JpegEncoder(chw(pixels)).to_tensor(quality=quality).numpy())
    assert found == images.encoded(pixels, "JPEG", quality=quality)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(("channels", "name"), [(1, "gray"), (2, "ya"), (3, "rgb"), (4, "rgba")])
def test_png_is_read_by_the_ffmpeg_program(
    channels: int, name: str, dtype: Any, ffmpeg_program: str, tmp_path: Path
) -> None:
    depth = 8 * np.dtype(dtype).itemsize
    pixels = images.samples(channels, depth, 33, 47).astype(dtype)
    PngEncoder(chw(pixels)).to_file(tmp_path / "image.png")
    formats = {("gray", 16): "gray16be", ("ya", 8): "ya8", ("ya", 16): "ya16be", ("rgb", 8): "rgb24"}
    formats |= {("rgb", 16): "rgb48be", ("rgba", 16): "rgba64be"}
    command = [ffmpeg_program, "-v", "error", "-i", str(tmp_path / "image.png"), "-f", "rawvideo"]
    command += ["-pix_fmt", formats.get((name, depth), name), "pipe:1"]
    run = subprocess.run(command, capture_output=True, check=True)
    assert run.stdout == pixels.astype(np.dtype(dtype).newbyteorder(">")).tobytes()


def test_compression_levels() -> None:
    for dtype in (np.uint8, np.uint16):
        image = chw(images.picture(100, 120).astype(dtype))
        sizes = [len(PngEncoder(image).to_tensor(compression_level=level)) for level in (0, 1, 9)]
        assert sizes[0] > image.nbytes > sizes[1] > sizes[2]


def test_any_strides_and_no_change_of_the_image() -> None:
    pixels = images.picture(40, 50)
    for image in (chw(pixels), chw(pixels).contiguous(), chw(pixels).flip(2), chw(pixels)[:, ::2, 1::3]):
        before = image.clone()
        assert torch.equal(decode_png(PngEncoder(image).to_tensor()), image)
        assert torch.equal(image, before)


def test_frames_of_a_batch_are_not_copied() -> None:
    batch = torch.zeros(2, 20, 30, 3, dtype=torch.uint8).permute(0, 3, 1, 2)
    pixels = PngEncoder(batch[1])._pixels()
    assert pixels.ctypes.data == batch[1].data_ptr()


@pytest.mark.parametrize("encoder", [JpegEncoder, PngEncoder])
def test_all_destinations_get_the_same_bytes(encoder: Any, tmp_path: Path) -> None:
    made = encoder(chw(images.picture()))
    expected = bytes(made.to_tensor().numpy())
    assert made.to_tensor().dtype == torch.uint8
    for path in (tmp_path / "one", str(tmp_path / "other")):
        made.to_file(path)
        assert Path(path).read_bytes() == expected
    file = io.BytesIO()
    made.to_file_like(file)
    assert file.getvalue() == expected
    assert not file.closed


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(WriteError, match="No space left"):
        PngEncoder(chw(images.picture())).to_file(path)
    assert [file.name for file in tmp_path.iterdir()] == ["image.png"]
    assert path.read_bytes() == b"old"


class Failing(io.RawIOBase):
    """A file object that accepts no bytes."""

    def write(self, _: object) -> int:
        raise OSError("the line is dead")


def test_unusable_destinations_are_errors(tmp_path: Path) -> None:
    encoder = PngEncoder(chw(images.picture()))
    with pytest.raises(WriteError, match="no_folder"):
        encoder.to_file(tmp_path / "no_folder" / "image.png")
    with pytest.raises(WriteError, match="the line is dead"):
        encoder.to_file_like(Failing())
    with pytest.raises(SourceTypeError):
        encoder.to_file_like(io.StringIO())
    with pytest.raises(SourceTypeError):
        encoder.to_file(io.BytesIO())
    with pytest.raises(InvalidArgumentError, match="to_file_like"):
        encoder.to_file("rtmp://127.0.0.1/image.png")


def test_arguments() -> None:
    gray = torch.zeros(1, 4, 5, dtype=torch.uint8)
    for quality in (0, 101, -3, 7.5, torch.tensor(7.5)):
        with pytest.raises(ValueError, match="Image quality should be a positive number between 1 and 100"):
            JpegEncoder(gray).to_tensor(quality=quality)
    for level in (-1, 10, torch.tensor(7.5)):
        with pytest.raises(ValueError, match="between 0 and 9"):
            PngEncoder(gray).to_tensor(compression_level=level)
    with pytest.raises(TypeError, match="to be a Tensor"):
        JpegEncoder(gray.numpy())
    for bad in (gray[0], gray[None], gray[:, :0], gray.repeat(2, 1, 1), gray.float(), gray.to(torch.uint16)):
        with pytest.raises(ValueError, match="Expected"):
            JpegEncoder(bad)
    with pytest.raises(InvalidArgumentError, match="1, 2, 3 or 4 channels"):
        PngEncoder(gray.repeat(5, 1, 1))
    with pytest.raises(InvalidArgumentError, match="'meta', where tensors have no values"):
        PngEncoder(gray.to("meta"))
    with pytest.raises(EncodeError, match="70000"):
        JpegEncoder(torch.zeros(1, 1, 70_000, dtype=torch.uint8)).to_tensor()
