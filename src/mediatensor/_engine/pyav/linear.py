"""A plain decode from the first packet to the last: the definition of which frames a stream has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from ..sources.source import make_source
from .packet_decoder import UndecodablePacketError
from .pixels import FrameConverter
from .reading import VideoReader

__all__ = ["LinearFrame", "linear_decode"]


class LinearFrame(NamedTuple):
    """One frame of a plain decode.

    Attributes:
        pts: Presentation time in the stream's time base, ``None`` if the stream gives none.
        pts_seconds: The same in seconds.
        rgb: Upright pixels, (H, W, 3) uint8.
    """

    pts: int | None
    pts_seconds: float | None
    rgb: NDArray[np.uint8]


def linear_decode(source: object, stream_index: int | None = None) -> Iterator[LinearFrame]:
    """Decode every frame once, with one thread and no seek, in the order in which the codec gives them.

    It shares neither index nor plan with `VideoDecoder`, so that it can serve to check it.

    Args:
        source: Whatever `VideoDecoder` takes.
        stream_index: Index among all streams; ``None`` for the best video stream.

    Yields:
        The frames. Packets that the codec refuses are passed over.

    Raises:
        OpenError, StreamError: as `VideoReader`.
        ReadError: if reading fails before the end of the file, behind the frames before that.
    """
    reader = VideoReader(make_source(source), stream_index, num_threads=1)
    try:
        time_base = reader.stream_info().time_base
        converter = FrameConverter()
        orientation = None
        for frame in _frames(reader):
            orientation = orientation or converter.orientation_of(frame)
            rgb = np.empty((*converter.output_size(frame, orientation), 3), np.uint8)
            converter.write(frame, orientation, rgb)
            known = frame.pts is not None and time_base is not None
            yield LinearFrame(frame.pts, float(frame.pts * time_base) if known and time_base else None, rgb)
    finally:
        reader.close()


def _frames(reader: VideoReader) -> Iterator[Any]:
    failure: ReadError | None = None
    while True:
        try:
            packet = reader.read_packet()
        except ReadError as error:
            packet, failure = None, error  # what the codec holds back comes out all the same
        with suppress(UndecodablePacketError):
            yield from reader.decode(packet)
        if failure is not None:
            raise failure
        if packet is None:
            return
