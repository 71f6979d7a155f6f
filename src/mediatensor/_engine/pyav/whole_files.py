"""Decode whole files: images that Pillow would reduce to 8 bits, and all frames of a video in order.

The module `reading` decodes streams packet by packet, for decoders with random access.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from ...errors import ReadError
from ..sources.source import MemorySource, Source, make_source
from .opening import close_container, error_text, let_rest, open_container
from .pixels import FrameConverter
from .reading import PacketDecoder, UndecodablePacketError, VideoReader, make_packet
from .stated_colours import open_frame_colours

_CHANNELS = {"gray16be": 1, "ya16be": 2, "rgb48be": 3, "rgba64be": 4}


class UndecodableImageError(Exception):
    """The codec rejected the data, or did not return a complete image."""


class PlanarPicture(NamedTuple):
    """A decoded image in the codec's format. ``matrix`` is the MatrixCoefficients code of H.273.

    The planes are 2-D arrays of unsigned integers. There is one gray plane, or there are three planes: G, B and R, or
    Y, Cb and Cr. Cb and Cr can be smaller than Y.
    """

    planes: list[NDArray[Any]]
    depth: int
    is_gbr: bool
    matrix: int
    is_full_range: bool


def decode_png_16(png: bytes) -> NDArray[np.uint16]:
    """Decode a 16-bit PNG file to an array (H, W, C). The checksums of the file must be valid."""
    try:
        picture = _decode("png", png)
    except av.FFmpegError as error:
        raise UndecodableImageError(error_text(error)) from error
    if picture is None or picture.format.name not in _CHANNELS:
        raise UndecodableImageError("the codec gave no picture of 16 bits")
    channels, plane = _CHANNELS[picture.format.name], picture.planes[0]
    stride = plane.line_size // 2
    lines = np.frombuffer(plane, ">u2", count=picture.height * stride).reshape(picture.height, stride)
    return lines[:, : picture.width * channels].reshape(picture.height, picture.width, channels).astype(np.uint16)


def avif_planes(
    avif: bytes,
    size: tuple[int, int],
    num_pictures: int,
    *,
    has_alpha: bool,
    matrices: Collection[int],
    num_threads: int,
) -> list[Iterator[PlanarPicture]]:
    """Return iterators that decode the images of an AVIF file, without conversion to RGB.

    The first iterator returns the colours of the images. With ``has_alpha``, a second iterator returns their alpha.
    Raises `UndecodableImageError` if the file has no images of this ``size`` with one of these ``matrices``, for
    example because they are split into tiles. The iterators raise the same error for images that cannot be decoded.
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
    stream = container.streams[index]  # `avif_planes` has checked that the stream exists
    context = stream.codec_context
    try:
        context.thread_type, context.thread_count = "AUTO", num_threads
        count = 0
        for picture in container.decode(stream):
            count += 1
            yield _planar_picture(picture)
        if count < num_pictures:
            raise UndecodableImageError(f"{count} of its {num_pictures} pictures can be decoded")
    except av.FFmpegError as error:
        raise UndecodableImageError(error_text(error)) from error
    finally:
        let_rest(context)
        close_container(container, reader)


def _planar_picture(picture: Any) -> PlanarPicture:
    depth = picture.format.components[0].bits
    size = 1 if depth == 8 else 2
    planes = [
        np.frombuffer(plane, f"<u{size}").reshape(-1, plane.line_size // size)[: plane.height, : plane.width]
        for plane in picture.planes
    ]
    return PlanarPicture(
        planes, depth, picture.format.name.startswith("gbr"), int(picture.colorspace), picture.color_range == 2
    )


def jpeg_is_damaged(jpeg: bytes) -> bool:
    """Return whether a strict JPEG decoder finds damage.

    The result is ``False`` if the decoder does not support this kind of JPEG.
    """
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
    pictures = [*context.decode(make_packet(data)), *context.decode(None)]
    return pictures[0] if pictures else None


class LinearFrame(NamedTuple):
    pts: int | None  # in the stream's time base
    pts_seconds: float | None
    rgb: NDArray[np.uint8]  # upright, (H, W, 3)


def linear_decode(source: object, stream_index: int | None = None, *, num_kept: int = 0) -> Iterator[LinearFrame]:
    """Decode a video from start to end with one thread and no seek. Yield every frame in the codec's output order.

    This function does not use the index or other optimisations of `VideoDecoder`, so its frames can be used to check
    the frames of `VideoDecoder`. Packets that the codec rejects are skipped. If reading fails, the frames before the
    failure are yielded first, then `ReadError` is raised.

    The last ``num_kept`` decoded frames stay in memory, so the codec decodes the next frame into other memory.
    """
    reader = VideoReader(make_source(source), stream_index, num_threads=1, open_decoder=_open_decoder)
    try:
        time_base = reader.stream_info().time_base
        converter = FrameConverter()
        orientation = None
        kept: deque[Any] = deque(maxlen=num_kept)
        for picture in _pictures(reader):
            kept.append(picture)
            orientation = orientation or converter.orientation_of(picture)
            rgb = np.empty((*converter.output_size(picture, orientation), 3), np.uint8)
            converter.write(picture, orientation, rgb)
            known = picture.pts is not None and time_base is not None
            yield LinearFrame(picture.pts, float(picture.pts * time_base) if known and time_base else None, rgb)
    finally:
        reader.close()


def _open_decoder(reader: VideoReader) -> PacketDecoder:
    context = reader.codec_context
    colours = open_frame_colours(reader.stream_info().codec, context, reader.source, reader.stream_index)
    return PacketDecoder(context, colours)


def _pictures(reader: VideoReader) -> Iterator[Any]:
    failure: ReadError | None = None
    while True:
        try:
            packet = reader.read_packet()
        except ReadError as error:
            packet, failure = None, error  # drain the codec first
        with suppress(UndecodablePacketError):
            yield from reader.decode(packet)
        if failure is not None:
            raise failure
        if packet is None:
            return
