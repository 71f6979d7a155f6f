"""`JpegEncoder` and `PngEncoder`, which encode single images."""

from __future__ import annotations

import io
import struct
import zlib
from abc import ABC
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from .._engine.common.checks import shown, whole_number
from .._engine.common.devices import check_has_values
from .._engine.images.png_gif import SIGNATURE, png_chunk
from .._engine.sources.output_files import write_error
from ..errors import EncodeError, InvalidArgumentError, SourceTypeError
from ._target import FileLikeTarget, Sink, Target, make_target

# PNG's numbers of colour types, by the number of channels, and of line filters.
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_NONE, _SUB, _UP = 0, 1, 2


def encode_png_16(pixels: NDArray[np.uint16], compression_level: int) -> bytes:
    """Return pixels (H, W, C) as a PNG file of 16 bits per sample, which Pillow cannot write."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOR_TYPES[channels], 0, 0, 0)
    compressor = zlib.compressobj(compression_level)
    compressed = [compressor.compress(line) for line in _filtered_lines(pixels)]
    contents = b"".join([*compressed, compressor.flush()])
    chunks = (b"IHDR", header), (b"IDAT", contents), (b"IEND", b"")
    return b"".join([SIGNATURE, *(part for chunk in chunks for part in png_chunk(*chunk))])


def _filtered_lines(pixels: NDArray[np.uint16]) -> Iterator[bytes]:
    """Yield each line of the image, encoded with the PNG filter that gives the smallest sum of absolute differences.

    A filter replaces each byte by its difference from a prediction. Small differences usually compress best.
    """
    pixel_bytes = 2 * pixels.shape[2]
    above = np.zeros(pixels.shape[1] * pixel_bytes, np.uint8)
    for row in pixels:
        line = row.astype(">u2").reshape(-1).view(np.uint8)
        left = np.concatenate([np.zeros(pixel_bytes, np.uint8), line[:-pixel_bytes]])
        options = {_NONE: line, _SUB: line - left, _UP: line - above}
        kind = min(options, key=lambda option: int(np.abs(options[option].view(np.int8).astype(np.int16)).sum()))
        yield bytes([kind]) + options[kind].tobytes()
        above = line


# Largest width and height that libjpeg supports.
_MAX_JPEG_SIDE = 65_500
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


class _ImageEncoder(ABC):
    _ACCEPTED: dict[torch.dtype, tuple[int, ...]]

    def __init__(self, img: Tensor) -> None:
        if not isinstance(img, Tensor):
            raise SourceTypeError(f"Expected img to be a Tensor, got {type(img)}.")
        if img.ndim != 3 or 0 in img.shape:
            raise InvalidArgumentError(f"Expected a 3D image (C, H, W) with pixels, got {tuple(img.shape)}.")
        if img.shape[0] not in self._ACCEPTED.get(img.dtype, ()):
            accepted = "; ".join(
                f"{dtype} with {', '.join(map(str, counts[:-1]))} or {counts[-1]} channels"
                for dtype, counts in self._ACCEPTED.items()
            )
            raise InvalidArgumentError(
                f"Expected (C, H, W) of {accepted}; got {img.dtype} with {img.shape[0]}: {tuple(img.shape)}."
            )
        check_has_values("pixels", img)
        self._img = img.detach().cpu()

    def _pixels(self) -> NDArray[Any]:
        """Return the pixels as a contiguous array (H, W, C). This does not copy an image in channels-last memory."""
        return np.ascontiguousarray(self._img.permute(1, 2, 0).numpy())

    def _save(self, **options: Any) -> bytes:
        pixels, file = self._pixels(), io.BytesIO()
        height, width, channels = pixels.shape
        mode = _MODES[channels]
        try:
            Image.frombuffer(mode, (width, height), pixels, "raw", mode, 0, 1).save(file, **options)
        except (OSError, ValueError) as error:
            raise EncodeError(f"The image of shape {tuple(self._img.shape)} cannot be encoded: {error}.") from error
        return file.getvalue()


class JpegEncoder(_ImageEncoder):
    """Encodes one image as JPEG, with chroma at half the resolution (4:2:0).

    Args:
        img: A uint8 tensor (C, H, W), RGB or gray (C is 3 or 1), up to 65,500 pixels wide and high. An image in
            channels-last memory on the CPU, such as a frame of a `FrameBatch`, is not copied. Images on another device
            are copied to the CPU and encoded there.

    Raises:
        SourceTypeError: if ``img`` is not a tensor.
        InvalidArgumentError: if the dtype or shape of ``img`` is not accepted, or it has no values (device ``"meta"``).

    Example:
        >>> import torch
        >>> from mediatensor.encoders import JpegEncoder
        >>> encoder = JpegEncoder(torch.zeros(3, 4, 6, dtype=torch.uint8))
        >>> encoder.to_tensor(quality=90)[:2].tolist()
        [255, 216]
    """

    _ACCEPTED = {torch.uint8: (1, 3)}  # noqa: RUF012

    def to_file(self, dest: Any, *, quality: int = 75) -> None:
        """Write the image to a file. When the file is complete, it appears at ``dest`` and replaces any older file.

        Args:
            dest: A path (``str`` or ``os.PathLike``), usually with the extension ``.jpg``.
            quality: 1 (smallest file) to 100 (best image).

        Raises:
            InvalidArgumentError: if the quality is out of range.
            EncodeError: if the image is too large for JPEG.
            WriteError: if the file cannot be written.
            SourceTypeError: if ``dest`` is not a path.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import JpegEncoder
            >>> JpegEncoder(torch.zeros(3, 24, 32, dtype=torch.uint8)).to_file("black.jpg", quality=90)
        """
        _write(self._encode(quality), make_target(dest))

    def to_file_like(self, dest: Any, *, quality: int = 75) -> None:
        """Write the image to ``dest``, a binary file object with ``write(data)``, which stays open.

        The quality and errors are as in `to_file`. A closed file raises `WriteError`, other objects `SourceTypeError`.

        Example:
            >>> import io, torch
            >>> from mediatensor.encoders import JpegEncoder
            >>> file = io.BytesIO()
            >>> JpegEncoder(torch.zeros(3, 24, 32, dtype=torch.uint8)).to_file_like(file)
            >>> file.getvalue()[:2] == bytes([0xFF, 0xD8])
            True
        """
        _write(self._encode(quality), FileLikeTarget(dest))

    def to_tensor(self, *, quality: int = 75) -> Tensor:
        """Return the bytes of the JPEG file as a 1-D uint8 tensor on the CPU. For the quality, see `to_file`."""
        return _tensor(self._encode(quality))

    def _encode(self, quality: int) -> bytes:
        try:
            quality = whole_number("quality", quality, at_least=1, at_most=100)
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"Image quality should be a positive number between 1 and 100 (got quality = {shown(quality)})."
            ) from None
        height, width = self._img.shape[1:]
        if max(height, width) > _MAX_JPEG_SIDE:  # checked before memory is allocated for an image that libjpeg rejects
            raise EncodeError(
                f"The image has {width}x{height} pixels; JPEG allows at most {_MAX_JPEG_SIDE} per side. Resize it, or "
                "use PngEncoder."
            )
        return self._save(format="JPEG", quality=quality)


class PngEncoder(_ImageEncoder):
    """Encodes one image as PNG, which is lossless.

    Args:
        img: A uint8 or uint16 tensor (C, H, W): gray, gray and alpha, RGB, or RGB and alpha (C is 1 to 4). An image in
            channels-last memory on the CPU, such as a frame of a `FrameBatch`, is not copied. Images on another device
            are copied to the CPU and encoded there.

    Raises:
        SourceTypeError, InvalidArgumentError: see `JpegEncoder`.

    Example:
        >>> import torch
        >>> from mediatensor.encoders import PngEncoder
        >>> from mediatensor.decoders import decode_png
        >>> image = torch.randint(0, 256, (3, 4, 6), dtype=torch.uint8)
        >>> torch.equal(decode_png(PngEncoder(image).to_tensor()), image)
        True
    """

    _ACCEPTED = {torch.uint8: (1, 2, 3, 4), torch.uint16: (1, 2, 3, 4)}  # noqa: RUF012

    def to_file(self, dest: Any, *, compression_level: int = 6) -> None:
        """Write the image to a file. When the file is complete, it appears at ``dest`` and replaces any older file.

        Args:
            dest: A path (``str`` or ``os.PathLike``), usually with the extension ``.png``.
            compression_level: 0 (no compression) to 9 (smallest file, slowest).

        Raises:
            InvalidArgumentError: if the level is out of range.
            WriteError: if the file cannot be written.
            SourceTypeError: if ``dest`` is not a path.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import PngEncoder
            >>> PngEncoder(torch.zeros(3, 24, 32, dtype=torch.uint8)).to_file("black.png")
        """
        _write(self._encode(compression_level), make_target(dest))

    def to_file_like(self, dest: Any, *, compression_level: int = 6) -> None:
        """Write the image to ``dest``, a binary file object with ``write(data)``, which stays open.

        The level and errors are as in `to_file`. A closed file raises `WriteError`, other objects `SourceTypeError`.

        Example:
            >>> import io, torch
            >>> from mediatensor.encoders import PngEncoder
            >>> file = io.BytesIO()
            >>> PngEncoder(torch.zeros(3, 24, 32, dtype=torch.uint8)).to_file_like(file)
            >>> file.getvalue()[1:4]
            b'PNG'
        """
        _write(self._encode(compression_level), FileLikeTarget(dest))

    def to_tensor(self, *, compression_level: int = 6) -> Tensor:
        """Return the bytes of the PNG file as a 1-D uint8 tensor on the CPU. For the level, see `to_file`."""
        return _tensor(self._encode(compression_level))

    def _encode(self, compression_level: int) -> bytes:
        try:
            level = whole_number("compression_level", compression_level, at_least=0, at_most=9)
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"Compression level should be between 0 and 9 (got compression_level = {shown(compression_level)})."
            ) from None
        if self._img.dtype == torch.uint16:
            return encode_png_16(self._pixels(), level)
        return self._save(format="PNG", compress_level=level)


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _write(data: bytes, target: Target) -> None:
    try:
        if not isinstance(target.opened, Sink):
            raise InvalidArgumentError(
                f"Images cannot be written to {target.describe()}. Open it yourself, and pass the file object to "
                "to_file_like()."
            )
        target.opened.write(data)
        if target.opened.error is not None:
            raise write_error(target.describe(), target.opened.error) from target.opened.error
        target.commit()
    except BaseException:
        target.discard()
        raise
