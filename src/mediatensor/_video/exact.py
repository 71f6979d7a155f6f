"""Exact access: frames by the index. It is made when first needed, and made anew by decoding if it proves wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._common import checks, stages
from .._common.locks import ForkSafeLock
from .._index import (
    FrameIndex,
    cached_index,
    from_table,
    get_index_cache,
    index_by_decoding,
    index_first_frames,
    index_stream,
    store_index,
)
from ..errors import OutOfRangeError
from ..frames import FrameBatch
from .batch import assemble
from .frame_stream import FrameStream, IndexMismatchError
from .stream import OpenVideo

__all__ = ["ExactFrames"]

T = TypeVar("T")


class ExactFrames:
    """Frames by index and by time, with an index.

    Args:
        video: The opened stream.
        mappings: The user's table of frames, (pts, duration, is_key), instead of a scan.
        index: An index of this stream that was made before, instead of a scan.
    """

    def __init__(
        self,
        video: OpenVideo,
        mappings: tuple[list[int], list[int], list[bool]] | None,
        index: FrameIndex | None = None,
    ) -> None:
        self._video = video
        self._lock = ForkSafeLock()
        self._index = index if mappings is None else from_table(*mappings, video.time_base)
        #: An index made from packets that proved wrong, and the one made by decoding that took its place.
        self._replacement: tuple[FrameIndex, FrameIndex] | None = None
        #: Of the first frames, while the rest of the stream was not read.
        self._first_frames: FrameIndex | None = None

    @property
    def index(self) -> FrameIndex:
        """The frames of the stream, scanned when first asked for.

        Raises:
            StreamError: if there is no frame at all.
        """
        with self._lock:
            return self._made_index()

    def _index_up_to(self, highest: int | None) -> FrameIndex:
        """An index that has the frame ``highest``: of first frames alone, if those will do, or of all (``None``)."""
        if highest is None:
            return self.index
        with self._lock:
            first = self._first_frames
            is_short = first is None or len(first) <= highest
            if self._index is None and is_short:
                first, is_whole = self._scan_first_frames(highest + 1)
                self._first_frames = first
                if is_whole:
                    self._index = first
            return self._made_index() if first is None or self._index is not None else first

    def _scan_first_frames(self, num_frames: int) -> tuple[FrameIndex | None, bool]:
        # Replacements may come from further on, and a cache wants the whole.
        if self._video.wishes.on_error != "raise" or get_index_cache() is not None:
            return None, False
        with stages.INDEX, self._video.lend_reader(is_moved=True) as reader:
            return index_first_frames(reader, num_frames)

    def _made_index(self) -> FrameIndex:
        if self._index is None:
            with stages.INDEX:
                self._index = cached_index(self._video.identify, self._read_index)
        return self._index

    def _read_index(self) -> FrameIndex:
        video = self._video
        return index_stream(video.source, lambda: video.lend_reader(is_moved=True), video.decode_on_cpu)

    def has_frame(self, i: int) -> bool:
        """Whether there is a frame of a non-negative index; for the first ones that takes no scan."""
        return i < len(self._index_up_to(i))

    def _with_index(self, decode: Callable[[FrameIndex], T], highest: int | None = None) -> T:
        """Run ``decode`` on the index; if the index turns out to be wrong, make it by decoding and run again."""
        index = self._index_up_to(highest)
        try:
            return self._video.decoding(lambda: decode(index))
        except IndexMismatchError as mismatch:
            reason = str(mismatch)
        if index is not self.index:  # of first frames alone: the whole may show what is the matter
            return self._with_index(decode)
        with self._lock:
            if self._index is index:  # else another thread has replaced it meanwhile
                self._index = self._made_by_decoding(index, reason)
        return self._video.decoding(lambda: decode(self.index))

    def _made_by_decoding(self, index: FrameIndex, reason: str) -> FrameIndex:
        if self._replacement is None or self._replacement[0] is not index:
            with stages.INDEX:
                video = self._video
                made = index_by_decoding(
                    video.source, lambda: video.lend_reader(is_moved=True), video.decode_on_cpu, reason
                )
                store_index(made, video.identify)
                self._replacement = index, made
        return self._replacement[1]

    def restore_packet_index(self) -> None:
        """Go back to the index as it was before decoding proved it wrong, until decoding does so again."""
        with self._lock:
            if self._replacement is not None and self._index is not self._replacement[0]:
                self._index = self._replacement[0]
                self._video.renew_handles()  # an index made by decoding needs handles of its own kind

    @property
    def num_frames(self) -> int:
        return len(self.index)

    @property
    def span_seconds(self) -> tuple[float, float]:
        return self.index.begin_seconds, self.index.end_seconds

    def by_index(
        self, select: Callable[[int], list[int]], highest: int | None = None, *, is_passing: bool = False
    ) -> FrameBatch:
        """The frames of the indices that ``select`` gives for a number of frames.

        ``highest`` is the highest of them if they do not depend on that number; then the rest of the stream may stay
        unread. ``is_passing`` says that nobody is going to ask for them again.

        If decoding shows that there are fewer frames than the packets promised, indices that were valid stay so, and
        the error policy decides about frames that are not there.
        """
        promised = select(len(self._index_up_to(highest)))

        def decode(index: FrameIndex) -> FrameBatch:
            try:
                frames = select(len(index))
            except OutOfRangeError:
                frames = promised
            return self._batch(index, np.array(frames, np.int64), is_passing=is_passing)

        return self._with_index(decode, highest)

    def by_time(self, seconds: NDArray[np.float64]) -> FrameBatch:
        """The frames shown at times."""
        checks.check_seconds(seconds, *self.span_seconds)
        return self._with_index(lambda index: self._batch(index, index.played_at(seconds)))

    def by_range(self, start_seconds: float, stop_seconds: float) -> FrameBatch:
        """The frames shown within [start, stop)."""
        checks.check_seconds_range(start_seconds, stop_seconds, *self.span_seconds)

        def decode(index: FrameIndex) -> FrameBatch:
            before_stop = np.nextafter(stop_seconds, -np.inf)
            first, last = index.played_at(np.array([start_seconds, before_stop])).tolist()
            stop = last + 1 if stop_seconds > start_seconds else first
            return self._batch(index, np.arange(first, stop, dtype=np.int64))

        return self._with_index(decode)

    def _batch(self, index: FrameIndex, frames: NDArray[np.int64], *, is_passing: bool = False) -> FrameBatch:
        with stages.DECODE, self._video.pool.borrow() as handle:
            assert isinstance(handle.stream, FrameStream)
            writer = self._video.pixel_writer(len(frames))
            assembled = assemble(handle, index, frames, writer, self._video.wishes.on_error, is_passing=is_passing)
        return self._video.batch(assembled.pixels, *index.times_of(assembled.frames), assembled.replaced)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = ForkSafeLock()
