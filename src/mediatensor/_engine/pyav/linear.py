"""Decode every frame from the first packet to the last. This decode defines which frames a stream has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ReadError
from ..sources.source import make_source
from .pixels import FrameConverter
from .reading import UndecodablePacketError, VideoReader


class LinearFrame(NamedTuple):
    pts: int | None  # in the stream's time base
    pts_seconds: float | None
    rgb: NDArray[np.uint8]  # upright, (H, W, 3)


def linear_decode(source: object, stream_index: int | None = None) -> Iterator[LinearFrame]:
    """Yield every frame, decoded once with one thread and no seek, in the codec's output order.

    This function uses neither the index nor the plans of `VideoDecoder`, so it can be used to check them. Packets that
    the codec refuses are skipped. If reading fails, the frames decoded so far are yielded before `ReadError` is raised.
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
            packet, failure = None, error  # drain the codec first
        with suppress(UndecodablePacketError):
            yield from reader.decode(packet)
        if failure is not None:
            raise failure
        if packet is None:
            return
