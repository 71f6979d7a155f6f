"""Still images through FFmpeg's codecs: more than 8 bits a sample, which Pillow cuts, and a second opinion on JPEG."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from ..sources.source import MemorySource, Source
from .opening import close_container, error_text, open_container
from .packet_decoder import let_rest

__all__ = ["PlanarPicture", "UndecodableImageError", "avif_planes", "decode_png_16", "jpeg_is_damaged"]

_CHANNELS = {"gray16be": 1, "ya16be": 2, "rgb48be": 3, "rgba64be": 4}


class UndecodableImageError(Exception):
    """The codec refused the data, or did not get a whole picture out of it."""


class PlanarPicture(NamedTuple):
    """A decoded picture as its codec has it.

    Attributes:
        planes: 2-D, of unsigned integers: one (gray), three (Y, Cb, Cr), of which two may be smaller, or (G, B, R).
        depth: Bits a sample.
        is_gbr: Whether the planes are colours.
        matrix: Number of the matrix in H.273.
        is_full_range: Whether black is 0, not 16 of 255.
    """

    planes: list[NDArray[Any]]
    depth: int
    is_gbr: bool
    matrix: int
    is_full_range: bool


def decode_png_16(png: bytes) -> NDArray[np.uint16]:
    """The samples of a PNG file of 16 bits, (H, W, C) in native byte order, C being 1 to 4 as in the file.

    Args:
        png: A whole file whose checksums are right.

    Raises:
        UndecodableImageError: if the pixels cannot be decompressed.
    """
    try:
        frame = _decode("png", png)
    except av.FFmpegError as error:
        raise UndecodableImageError(error_text(error)) from error
    if frame is None or frame.format.name not in _CHANNELS:
        raise UndecodableImageError("the codec gave no picture of 16 bits")
    channels, plane = _CHANNELS[frame.format.name], frame.planes[0]
    stride = plane.line_size // 2
    lines = np.frombuffer(plane, ">u2", count=frame.height * stride).reshape(frame.height, stride)
    return lines[:, : frame.width * channels].reshape(frame.height, frame.width, channels).astype(np.uint16)


def avif_planes(
    avif: bytes,
    size: tuple[int, int],
    num_pictures: int,
    *,
    has_alpha: bool,
    matrices: Collection[int],
    num_threads: int,
) -> list[Iterator[PlanarPicture]]:
    """The pictures of an AVIF file as they are stored, and, if it has alpha, that of each.

    Raises:
        UndecodableImageError: if the file has no whole pictures of that size and with one of these matrices, but tiles,
            for instance.
    """
    source = MemorySource(avif)
    container, reader = open_container(source)
    try:
        fitting = [
            (stream.index, (stream.pix_fmt or "").startswith("gray"))
            for stream in container.streams.video
            if (stream.frames, stream.width, stream.height) == (num_pictures, *size)
            and int(stream.codec_context.colorspace) in matrices
        ]
    finally:
        close_container(container, reader)
    wanted = [index for index, _ in fitting[:1]]
    if has_alpha:
        wanted += [index for index, is_gray in fitting[1:] if is_gray][:1]
    if len(wanted) < 1 + has_alpha:
        raise UndecodableImageError("its pictures are in tiles, or have odd colours")
    return [_planar_pictures(source, index, num_pictures, num_threads) for index in wanted]


def _planar_pictures(source: Source, index: int, num_pictures: int, num_threads: int) -> Iterator[PlanarPicture]:
    container, reader = open_container(source)
    stream = container.streams[index]  # which it has, or `avif_planes` had not found it
    context = stream.codec_context
    try:
        context.thread_type, context.thread_count = "AUTO", num_threads
        count = 0
        for frame in container.decode(stream):
            count += 1
            yield _planar_picture(frame)
        if count < num_pictures:
            raise UndecodableImageError(f"{count} of its {num_pictures} pictures can be decoded")
    except av.FFmpegError as error:
        raise UndecodableImageError(error_text(error)) from error
    finally:
        let_rest(context)
        close_container(container, reader)


def _planar_picture(frame: Any) -> PlanarPicture:
    depth = frame.format.components[0].bits
    size = 1 if depth == 8 else 2
    planes = [
        np.frombuffer(plane, f"<u{size}").reshape(-1, plane.line_size // size)[: plane.height, : plane.width]
        for plane in frame.planes
    ]
    return PlanarPicture(
        planes, depth, frame.format.name.startswith("gbr"), int(frame.colorspace), frame.color_range == 2
    )


def jpeg_is_damaged(jpeg: bytes) -> bool:
    """Whether a JPEG decoder that does not conceal damage finds any; False if it does not know the kind of JPEG."""
    try:
        _decode("mjpeg", jpeg)
    except av.InvalidDataError:
        return True
    except av.FFmpegError:
        return False
    return False


def _decode(codec: str, data: bytes) -> Any:
    context = av.CodecContext.create(codec, "r")
    assert isinstance(context, VideoCodecContext)
    context.thread_type, context.thread_count = "NONE", 1
    context.options = {"err_detect": "explode"}
    packet = av.Packet(len(data))  # with the padding that codecs read beyond the end
    packet.update(data)
    frames = [*context.decode(packet), *context.decode(None)]
    return frames[0] if frames else None
