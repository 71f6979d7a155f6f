"""Exact access: frames by the index. It is made when first needed, and made anew by decoding if it proves wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DecodeError, DeviceError, OutOfRangeError
from ...frames import Frame, FrameBatch
from ..common import checks, stages
from ..common.locks import ForkSafeLock
from ..index.building import from_table
from ..index.cache import cached_index, get_index_cache, store_index
from ..index.frame_clock import FrameClock
from ..index.frame_index import FrameIndex, frame_times
from ..index.holes import FrameHole
from ..index.indexing import index_by_decoding, index_first_frames, index_stream
from ..pyav.reading import VideoReader
from .batch import DecodedPicture, DecodedRows, PictureWriter, PixelWriter, decode_rows, single_at_hand
from .damage import Asked, hole_error, hole_reports, reached_holes, warn_of_damage
from .frame_stream import IndexMismatchError
from .stream import OpenVideo

__all__ = ["ExactFrames"]

_FRAMES = Asked()


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
        # Whether a frame comes out as the codec gives it: none is replaced, or scaled to the size of others.
        self._is_plain = video.options.on_error in ("keep", "raise") and video.options.on_size_change == "raise"
        self._index = index if mappings is None else from_table(*mappings, video.time_base)
        #: Whether a request by index keeps its times, and not its indices, if decoding shows that the index is wrong.
        self.keeps_times = False
        #: An index made from packets that proved wrong, and the one made by decoding that took its place.
        self._replacement: tuple[FrameIndex, FrameIndex] | None = None
        #: The index of the first frames, as long as the rest of the stream was not read.
        self._first_frames: FrameIndex | None = None

    # The index

    @property
    def index(self) -> FrameIndex:
        """The frames of the stream, scanned when first asked for.

        Raises:
            StreamError: if there is no frame at all.
        """
        if self._index is not None:
            return self._index
        with self._lock:
            if self._index is None:
                with stages.INDEX:
                    self._index = cached_index(self._video.identify, self._read_index)
            return self._index

    def _read_index(self) -> FrameIndex:
        return index_stream(self._video.source, self._lend_reader, self._video.decode_on_cpu)

    def _lend_reader(self) -> AbstractContextManager[VideoReader]:
        return self._video.lend_reader(is_moved=True)

    def _index_up_to(self, highest: int | None) -> FrameIndex:
        """An index that has the frame ``highest``: one of the first frames alone, if that will do, or of all."""
        if self._index is not None or highest is None:
            return self.index
        with self._lock:
            first = self._first_frames
            if self._index is None and (first is None or len(first) <= highest):
                first, is_whole = self._scan_first_frames(highest + 1)
                self._first_frames = first
                if is_whole:
                    self._index = first
            return self.index if first is None or self._index is not None else first

    def _scan_first_frames(self, num_frames: int) -> tuple[FrameIndex | None, bool]:
        # Replacements may come from further on, and a cache wants the whole.
        if self._video.options.on_error not in ("keep", "raise") or get_index_cache() is not None:
            return None, False
        with stages.INDEX, self._lend_reader() as reader:
            return index_first_frames(reader, num_frames)

    def _better_index(self, index: FrameIndex, reason: str) -> FrameIndex:
        """The index to use in place of one that decoding proved wrong."""
        if index is not self.index:  # of the first frames alone: the packets behind them may show what is the matter
            return self.index
        with self._lock:
            if self._index is index:  # else another thread has replaced it meanwhile
                if self._replacement is None or self._replacement[0] is not index:
                    with stages.INDEX:
                        video = self._video
                        made = index_by_decoding(video.source, self._lend_reader, video.decode_on_cpu, reason)
                        store_index(made, video.identify)
                        self._replacement = index, made
                self._index = self._replacement[1]
            return self.index

    def restore_packet_index(self) -> None:
        """Go back to the index as it was before decoding proved it wrong, until decoding does so again."""
        with self._lock:
            if self._replacement is not None and self._index is not self._replacement[0]:
                self._index = self._replacement[0]
                self._video.renew_handles()  # an index made by decoding needs handles of its own kind

    def check_no_hole_at(self, seconds: float) -> None:
        """Raise `DecodeError` if damage is an error, and a time lies in a hole."""
        index = self.index
        if self._video.options.on_error == "raise" and len(index.hole_frame):
            asked = Asked(np.array([seconds]))
            for hole, _ in reached_holes(index, [0], asked):
                raise hole_error(hole, index)

    @property
    def num_frames(self) -> int:
        return len(self.index)

    @property
    def span_seconds(self) -> tuple[float, float]:
        return self.index.begin_seconds, self.index.end_seconds

    def has_frame(self, i: int) -> bool:
        """Whether there is a frame of a non-negative index; for the first ones that takes no scan."""
        return i < len(self._index_up_to(i))

    # Frames

    def frame_at(self, i: int) -> Frame:
        """The frame of an index; a negative one counts from the end."""
        index = self._index
        if index is None:
            index = self._index_up_to(i if i >= 0 else None)
        if self._is_plain and 0 <= i < len(index.pts) and not index.may_show_damage:
            frame = self._frame_at_hand(index, i)
            if frame is not None:
                return frame
        return self._frame(index, lambda index: [checks.valid_index(i, len(index.pts), self._video.stream_info.index)])

    def frame_played_at(self, seconds: NDArray[np.float64], *, within: tuple[int, int] | None = None) -> Frame:
        """The frame shown at a time; ``within`` is as of `by_time`."""
        checks.check_seconds(seconds, *self.span_seconds)
        asked = Asked(seconds)
        return self._frame(
            self.index, lambda index: index.played_at(seconds).clip(*(within or (0, None))).tolist(), asked
        )

    def by_index(
        self,
        select: Callable[[int], Sequence[int]],
        highest: int | None = None,
        *,
        asked: Asked = _FRAMES,
        is_sequential: bool = False,
    ) -> FrameBatch:
        """The frames of the indices that ``select`` gives for a number of frames.

        If decoding shows that there are fewer frames than the packets promised, indices that were valid stay so, and
        the error policy decides about frames that are not there.

        Args:
            select: Gives the indices.
            highest: The highest of them if they do not depend on the number of frames; then the rest of the stream may
                stay unread.
            asked: What decides the holes that they reach over.
            is_sequential: Whether the caller goes through the video, and will not ask for the same frames again.
        """
        index = self._index_up_to(highest)
        return self._batch(index, lambda index: select(len(index.pts)), asked, is_sequential=is_sequential)

    @property
    def clock(self) -> FrameClock:
        """Start times of the frames, for times on a grid."""
        return self.index._clock

    def by_time(
        self, seconds: NDArray[np.float64], *, is_grid: bool = False, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        """The frames shown at times.

        Args:
            seconds: The times.
            is_grid: Whether they are a grid that was made with `clock`. The caller has checked its bounds.
            within: The first and the last frame that may be returned.
        """
        if not is_grid:
            checks.check_seconds(seconds, *self.span_seconds)

        def select(index: FrameIndex) -> list[int]:
            frames = index._clock.played_at(seconds) if is_grid else index.played_at(seconds)
            return frames.clip(*(within or (0, None))).tolist()  # type: ignore[no-any-return]

        return self._batch(self.index, select, Asked(seconds, is_grid=is_grid))

    def by_range(
        self, start_seconds: float, stop_seconds: float, *, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        """The frames shown within [start, stop); ``within`` is as of `by_time`."""
        checks.check_seconds_range(start_seconds, stop_seconds, *self.span_seconds)

        def select(index: FrameIndex) -> range:
            frames = index._played_in_range(start_seconds, stop_seconds)
            if within is None or not frames:
                return frames
            first = min(max(frames.start, within[0]), within[1])
            return range(first, max(min(frames.stop, within[1] + 1), first + 1))

        return self._batch(self.index, select, Asked(stop_seconds=stop_seconds))

    def _frame_at_hand(self, index: FrameIndex, i: int) -> Frame | None:
        """A frame that was kept or that comes out next, in as few steps as there can be; ``None`` for others."""
        video = self._video
        video.check_ready()
        with stages.DECODE, video.pool.borrow() as handle:
            pixels = single_at_hand(handle, index, i)
        return None if pixels is None else video.frame(pixels, *frame_times(index, i))

    def _frame(self, index: FrameIndex, select: Callable[[FrameIndex], Sequence[int]], asked: Asked = _FRAMES) -> Frame:
        index, decoded = self._decode(index, select, asked)
        if not decoded.frames:
            report = next(report for report in decoded.replaced if report.used_index is None)
            raise DecodeError(
                f"Frame {report.index} could not be decoded ({report.reason}), and on_error='skip' leaves nothing to "
                "return; use on_error='nearest', or a method that returns a batch."
            )
        assert decoded.pixels is not None
        times = frame_times(index, decoded.frames[0])
        is_damaged = decoded.frames[0] in decoded.damaged
        return self._video.frame(decoded.pixels[0], *times, replaced=decoded.replaced, is_damaged=is_damaged)

    def _batch(
        self,
        index: FrameIndex,
        select: Callable[[FrameIndex], Sequence[int]],
        asked: Asked,
        *,
        is_sequential: bool = False,
    ) -> FrameBatch:
        index, decoded = self._decode(index, select, asked, is_sequential=is_sequential)
        return self._video.batch(decoded, *index.times_of(np.array(decoded.frames, np.int64)))

    def pictures(self, wanted: Sequence[int], previous: int | None = None) -> list[DecodedPicture]:
        """The decoded pictures of frames, before they are RGB, for a caller who goes through the video.

        Args:
            wanted: Indices, ascending; those behind the last frame are left out.
            previous: The frame that the caller has had before, if there is one.

        Returns:
            Those that came out, as the error policy says.
        """

        def select(index: FrameIndex) -> list[int]:
            return [frame for frame in wanted if frame < len(index.pts)]

        asked = Asked(previous=previous)
        index, decoded = self._decode(self.index, select, asked, is_sequential=True, make_writer=PictureWriter)
        taken: Any = decoded.pixels
        return [
            replace(taken[row], pts_seconds=pts, duration_seconds=duration)
            for row, (pts, duration) in enumerate(frame_times(index, frame) for frame in decoded.frames)
        ]

    def _decode(
        self,
        index: FrameIndex,
        select: Callable[[FrameIndex], Sequence[int]],
        asked: Asked,
        *,
        is_sequential: bool = False,
        make_writer: Callable[[int], PixelWriter] | None = None,
    ) -> tuple[FrameIndex, DecodedRows]:
        """Decode the frames that ``select`` takes from an index.

        Exact access does a call again in this place only: on the CPU if the device cannot decode, and with an index
        made by decoding if the packets promised other frames.

        Returns:
            The index that the frames are from, and the frames.
        """
        video = self._video
        video.check_ready()
        frames = select(index)
        while True:
            spec, on_error = video.spec, video.options.on_error
            reached = reached_holes(index, frames, asked) if index.may_show_damage else []
            if reached and on_error == "raise":
                raise hole_error(reached[0][0], index)
            try:
                with stages.DECODE, video.pool.borrow() as handle:
                    writer = (make_writer or video.pixel_writer)(len(frames))
                    decoded = decode_rows(handle, index, frames, writer, on_error, is_sequential=is_sequential)
                break
            except DeviceError as error:
                if spec.decodes_in_software:
                    raise
                device_failure, mismatch = str(error), ""
            except IndexMismatchError as error:
                device_failure, mismatch = None, str(error)
            if device_failure is not None:
                video.decode_on_cpu(device_failure)
                continue
            before, index = index, self._better_index(index, mismatch)
            kept = self._frames_of_times(before, index, frames) if self.keeps_times and asked.seconds is None else None
            if kept is not None:
                frames = kept
                continue
            # Indices that were valid stay so: the error policy decides about frames that are not there.
            with suppress(OutOfRangeError):
                frames = select(index)
        if index.may_show_damage:
            self._tell_of_damage(index, frames, decoded, reached)
        return index, decoded

    def _frames_of_times(self, before: FrameIndex, index: FrameIndex, frames: Sequence[int]) -> list[int] | None:
        """The frames of an index that are shown at the times of those of another; ``None`` if times do not tell.

        Raises:
            DecodeError: if damage is an error, and one of them is not there.
        """
        times = before.pts[np.asarray(frames, np.int64)]
        found = index.pts.searchsorted(times).clip(max=len(index) - 1)
        is_there = index.pts[found] == times
        if is_there.all():
            return [int(frame) for frame in found]
        if not index.may_show_damage:
            return None
        seconds = before._pts_seconds[np.asarray(frames, np.int64)]
        if self._video.options.on_error == "raise":
            for hole, _ in reached_holes(index, frames, Asked(seconds)):
                raise hole_error(hole, index)
            missing = seconds[~is_there][0]
            raise DecodeError(f"No frame could be decoded at {missing:.6f} s: {'; '.join(index.anomalies)}.")
        return [int(frame) for frame in index.played_at(seconds)]

    def _tell_of_damage(
        self, index: FrameIndex, frames: Sequence[int], decoded: DecodedRows, reached: list[tuple[FrameHole, int]]
    ) -> None:
        """List the holes that a call reached over, or warn of damage that is kept."""
        video = self._video
        if video.options.on_error != "keep":
            reports = (*decoded.replaced, *hole_reports(reached, frames, index))
            decoded.replaced = tuple(sorted(reports, key=lambda report: report.position))
            return
        # Behind a hole, indices are lower than those of the packets.
        is_behind_hole = len(index.hole_frame) > 0 and len(frames) > 0 and max(frames) >= int(index.hole_frame[0])
        if decoded.damaged or reached or is_behind_hole:
            warn_of_damage(video.name, index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = ForkSafeLock()
