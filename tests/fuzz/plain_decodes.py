"""What there is in a damaged video: decodes from the first packet to the last, and what their pixels depend on."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mediatensor._engine.pyav.pixels import FrameConverter
from mediatensor._engine.pyav.reading import UndecodablePacketError, VideoReader
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor._engine.sources.source import make_source
from mediatensor.errors import DecodeError, OpenError, ReadError, StreamError

__all__ = [
    "PlainFrame",
    "carries_state",
    "checksum",
    "damaged_times",
    "decoded_from_key_frames",
    "left_to_memory",
    "plain_decode",
]

# Of mallopt: memory is filled when it is allocated (glibc's malloc.h).
_M_PERTURB = -6
_MAX_STARTS = 12


class Seen(NamedTuple):
    """A frame that came out of a decode, and whether the codec says that it is damaged."""

    pts_seconds: float | None
    checksum: int
    is_damaged: bool


class PlainFrame(NamedTuple):
    """A frame of a plain decode."""

    pts: int | None
    pts_seconds: float | None
    checksum: int


def checksum(pixels: NDArray[np.uint8]) -> int:
    """Of pixels (H, W, 3) and their shape."""
    return zlib.crc32(np.ascontiguousarray(pixels), zlib.crc32(repr(pixels.shape).encode()))


def plain_decode(source: object, stream_index: int, max_pixels: int) -> list[PlainFrame] | None:
    """Every frame in decoding order, up to where reading fails.

    ``None`` if they have too many pixels, or colours that cannot be converted.
    """
    frames: list[PlainFrame] = []
    with suppress(OpenError, ReadError, StreamError):
        try:
            for frame in linear_decode(source, stream_index):
                frames.append(PlainFrame(frame.pts, frame.pts_seconds, checksum(frame.rgb)))
                max_pixels -= frame.rgb.size // 3
                if max_pixels < 0:
                    return None
        except DecodeError:
            return None
    return frames


def left_to_memory(source: object, stream_index: int) -> set[float | None]:
    """Times of frames with pixels that are whatever was in memory before.

    Four decodes are compared: two with separate memory for every frame, filled with different bytes; one that reuses
    the memory of earlier frames; and one by a codec that has decoded the stream before.
    """
    first, *others = (_decoded_in(filler, source, stream_index) for filler in (0x55, 0xAA))
    others.append(_decoded(source, stream_index, keeps=False))
    others.append(_decoded(source, stream_index, is_again=True))
    return {
        seen.pts_seconds
        for number, seen in enumerate(first)
        if any(number < len(other) and other[number].checksum != seen.checksum for other in others)
    }


def carries_state(source: object, stream_index: int) -> bool:
    """Whether independent frames decode differently by themselves, because the codec keeps damaged settings.

    The decoder of MJPEG, for example, keeps values of a header for all frames that do not repeat them.
    """
    reader = _opened(source, stream_index)
    try:
        are_keys = [bool(packet.is_keyframe) for packet in _packets(reader)]
    finally:
        reader.close()
    if not are_keys or not all(are_keys):
        return False
    checksums = {seen.pts_seconds: seen.checksum for seen in _decoded(source, stream_index)}
    for start in range(1, len(are_keys), max(1, len(are_keys) // _MAX_STARTS)):
        alone = _decoded(source, stream_index, start)
        if alone and checksums.get(alone[0].pts_seconds) != alone[0].checksum:
            return True
    return False


def damaged_times(source: object, stream_index: int) -> set[float | None]:
    """Times of frames that the codec flags as damaged in a plain decode."""
    return {seen.pts_seconds for seen in _decoded(source, stream_index) if seen.is_damaged}


def decoded_from_key_frames(source: object, stream_index: int) -> dict[tuple[float | None, int], float | None]:
    """By time and checksum of a frame, the time of the first that came out of the same decode from a key frame."""
    reader = _opened(source, stream_index)
    try:
        starts = [number for number, packet in enumerate(_packets(reader)) if packet.is_keyframe]
    finally:
        reader.close()
    found: dict[tuple[float | None, int], float | None] = {}
    for start in starts[-_MAX_STARTS:]:
        frames = _decoded(source, stream_index, start)
        found |= {(seen.pts_seconds, seen.checksum): frames[0].pts_seconds for seen in frames}
    return found


def _decoded_in(filler: int, source: object, stream_index: int) -> list[Seen]:
    fill = getattr(ctypes.CDLL(None), "mallopt", None)
    if fill is None:
        return []
    fill(_M_PERTURB, filler)
    try:
        return _decoded(source, stream_index)
    finally:
        fill(_M_PERTURB, 0)


def _decoded(
    source: object, stream_index: int, start: int = 0, *, keeps: bool = True, is_again: bool = False
) -> list[Seen]:
    """(time, checksum) of the frames from a packet on; they are kept until the last is there, or none of them is."""
    reader = _opened(source, stream_index)
    try:
        time_base = reader.stream_info().time_base or Fraction(1)
        packets = [*islice(_packets(reader), start, None), None]

        def seen(frame: Any) -> Seen:
            time = None if frame.pts is None else float(frame.pts * time_base)
            return Seen(time, _checksum(frame), bool(frame.is_corrupt))

        frames: list[Any] = []
        for _ in range(1 + is_again):
            frames.clear()
            reader.codec_context.flush_buffers()
            for packet in packets:
                with suppress(UndecodablePacketError):
                    decoded = reader.decode(packet)
                    frames += decoded if keeps else map(seen, decoded)
        return [seen(frame) for frame in frames] if keeps else frames
    finally:
        reader.close()


def _opened(source: object, stream_index: int) -> VideoReader:
    return VideoReader(make_source(source), stream_index, num_threads=1)


def _packets(reader: VideoReader) -> Iterator[Any]:
    """Up to the end, or to where reading fails."""
    with suppress(ReadError):
        while (packet := reader.read_packet()) is not None:
            yield packet


def _checksum(frame: Any) -> int:
    converter = FrameConverter()
    orientation = converter.orientation_of(frame)
    rgb = np.empty((*converter.output_size(frame, orientation), 3), np.uint8)
    converter.write(frame, orientation, rgb)
    return checksum(rgb)
