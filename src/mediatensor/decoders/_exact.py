"""Exact access: frames by the index, which is made when it is first needed and settled when it proves wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._locks import ForkSafeLock
from ..errors import OutOfRangeError
from ..frames import FrameBatch
from . import _arguments as arguments
from ._assembly import assemble
from ._frame_index import FrameIndex, from_table
from ._frame_stream import FrameStream, IndexDoubtError
from ._indexing import index_stream, settle_stream
from ._open_video import OpenVideo

__all__ = ["ExactFrames"]

T = TypeVar("T")


class ExactFrames:
    """Frames by index and by time, with an index.

    Args:
        video: The opened stream.
        mappings: The user's table of frames, (pts, duration, is_key), instead of a scan.
    """

    def __init__(self, video: OpenVideo, mappings: tuple[list[int], list[int], list[bool]] | None) -> None:
        self._video = video
        self._lock = ForkSafeLock()
        self._index = None if mappings is None else from_table(*mappings, video.time_base)

    @property
    def index(self) -> FrameIndex:
        """The frames of the stream, scanned when first asked for.

        Raises:
            StreamError: if there is no frame at all.
        """
        with self._lock:
            if self._index is None:
                self._index = index_stream(self._video)
            return self._index

    def _with_index(self, decode: Callable[[FrameIndex], T]) -> T:
        """Run ``decode`` on the index; if the index turns out not to hold, settle it by decoding and run it again."""
        index = self.index
        try:
            return decode(index)
        except IndexDoubtError as doubt:
            reason = str(doubt)
        with self._lock:
            if self._index is index:  # else another thread settled it meanwhile
                self._index = settle_stream(self._video, reason)
        return decode(self.index)

    @property
    def num_frames(self) -> int:
        return len(self.index)

    @property
    def span_seconds(self) -> tuple[float, float]:
        return self.index.begin_seconds, self.index.end_seconds

    def by_index(self, select: Callable[[int], list[int]]) -> FrameBatch:
        """The frames of the indices that ``select`` gives for a number of frames.

        If decoding shows that there are fewer frames than the packets promised, indices that were valid stay so, and
        the error policy decides about frames that are not there.
        """
        promised = select(self.num_frames)

        def decode(index: FrameIndex) -> FrameBatch:
            try:
                frames = select(len(index))
            except OutOfRangeError:
                frames = promised
            return self._batch(index, np.array(frames, np.int64))

        return self._with_index(decode)

    def by_time(self, seconds: NDArray[np.float64]) -> FrameBatch:
        """The frames shown at times."""
        arguments.check_seconds(seconds, *self.span_seconds)
        return self._with_index(lambda index: self._batch(index, index.played_at(seconds)))

    def by_range(self, start_seconds: float, stop_seconds: float) -> FrameBatch:
        """The frames shown within [start, stop)."""
        arguments.check_seconds_range(start_seconds, stop_seconds, *self.span_seconds)

        def decode(index: FrameIndex) -> FrameBatch:
            before_stop = np.nextafter(stop_seconds, -np.inf)
            first, last = index.played_at(np.array([start_seconds, before_stop])).tolist()
            stop = last + 1 if stop_seconds > start_seconds else first
            return self._batch(index, np.arange(first, stop, dtype=np.int64))

        return self._with_index(decode)

    def _batch(self, index: FrameIndex, frames: NDArray[np.int64]) -> FrameBatch:
        with self._video.pool.borrow() as handle:
            assert isinstance(handle.stream, FrameStream)
            writer = self._video.pixel_writer(handle.converter, len(frames))
            assembled = assemble(handle.stream, index, frames, writer, self._video.wishes.on_error)
        return self._video.batch(assembled.pixels, *index.times_of(assembled.frames), assembled.replaced)

    def __getstate__(self) -> dict[str, Any]:
        return {"_video": self._video, "_index": self._index}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = ForkSafeLock()
