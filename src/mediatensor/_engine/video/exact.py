"""Access frames exactly, with a frame index.

The index is made on first use by a scan of the packets. If decoding proves it wrong, a new index is made by decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DecodeError, DeviceError, OutOfRangeError
from ...frames import Frame, FrameBatch, ReplacedFrame
from ..common import checks, stages
from ..common.locks import ForkSafeLock
from ..index.building import from_table
from ..index.frame_clock import FrameClock
from ..index.frame_index import FrameIndex, clock_of_index, frame_times, start_times
from ..index.holes import FrameHole, describe_hole
from ..index.indexing import (
    cached_index,
    get_index_cache,
    index_by_decoding,
    index_first_frames,
    index_stream,
    read_frame_bytes,
    store_index,
)
from ..pyav.exports import ExportKind, export_converter, grid_size
from ..pyav.reading import VideoReader
from .batch import CellWriter, DecodedPicture, DecodedRows, PictureWriter, PixelWriter, decode_rows, warn_of_damage
from .open_video import OpenVideo
from .packet_feed import IndexMismatchError
from .plan import (
    ByIndex,
    ByIndexRange,
    ByTime,
    ByTimeRange,
    ExistingFrames,
    FrameQuery,
    hole_error,
    spanned_holes,
)

# Number of frames in each clip of the current call; ``None`` if all frames belong together. Samplers call the public
# methods of a decoder, which may be a user's object, so they cannot pass it as an argument.
_frames_per_clip: ContextVar[int | None] = ContextVar("frames_per_clip", default=None)


@contextmanager
def frames_of_clips(num_frames_per_clip: int) -> Iterator[None]:
    """Treat frames requested in a ``with`` block as clips of this length. Damage between clips does not affect them."""
    token = _frames_per_clip.set(num_frames_per_clip)
    try:
        yield
    finally:
        _frames_per_clip.reset(token)


class ExactFrames:
    """Returns frames by number and by time, using a `FrameIndex`.

    The stream is not scanned if the caller passes an ``index`` or ``mappings``. ``mappings`` has the pts, the durations
    and the key frame flags of all frames.
    """

    def __init__(
        self,
        video: OpenVideo,
        mappings: tuple[list[int], list[int], list[bool]] | None,
        index: FrameIndex | None = None,
    ) -> None:
        self._video = video
        self._lock = ForkSafeLock()
        # Whether frames are never replaced, left out, or scaled to a common size.
        options = video.options
        self._keeps_frames_and_sizes = options.on_error in ("keep", "raise") and options.on_size_change == "raise"
        self._index = index if mappings is None else from_table(*mappings, video.time_base)
        #: If the index proves wrong, whether a request by index keeps the times of its frames instead of their indices.
        self.keeps_times = False
        #: (the index from packets that proved wrong, the index made by decoding that replaced it), or ``None``.
        self._replacement: tuple[FrameIndex, FrameIndex] | None = None
        #: An index of the first frames only, which is used until the whole stream is read.
        self._first_frames: FrameIndex | None = None
        #: (index, size of each of its frames); ``None`` until the sizes are requested.
        self._frame_bytes: tuple[FrameIndex, NDArray[np.int64]] | None = None

    # The index

    @property
    def index(self) -> FrameIndex:
        """The index of the stream, which is scanned on first use. Raises `StreamError` if it has no frames."""
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
        """Return an index that contains frame ``highest`` or, if ``highest`` is ``None``, all frames.

        If possible, only the first frames of the stream are scanned.
        """
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
        # A replacement may be a later frame than the requested one, and the index cache stores only whole indexes.
        if self._video.options.on_error not in ("keep", "raise") or get_index_cache() is not None:
            return None, False
        with stages.INDEX, self._lend_reader() as reader:
            return index_first_frames(reader, num_frames)

    def _better_index(self, index: FrameIndex, reason: str) -> FrameIndex:
        """Replace ``index`` after decoding has proved it wrong; return the new index."""
        if index is not self.index:  # it was a partial index: later packets may explain the mismatch
            return self.index
        with self._lock:
            if self._index is index:  # otherwise another thread has already replaced it
                if self._replacement is None or self._replacement[0] is not index:
                    with stages.INDEX:
                        video = self._video
                        made = index_by_decoding(video.source, self._lend_reader, video.decode_on_cpu, reason)
                        store_index(made, video.identify)
                        self._replacement = index, made
                self._index = self._replacement[1]
            return self.index

    def correct_like(self, other: ExactFrames) -> None:
        """If ``other``, which began with the index of this object, has replaced it, use the better index here too."""
        with self._lock:
            if other._replacement is not None and other._replacement[0] is self._index:
                self._replacement = other._replacement
                self._index = other._replacement[1]

    def restore_packet_index(self) -> None:
        """Use the index made from packets again, even if an index made by decoding has replaced it."""
        with self._lock:
            if self._replacement is not None and self._index is not self._replacement[0]:
                self._index = self._replacement[0]
                self._video.replace_handles()  # an index made by decoding needs other handles

    def check_no_hole_at(self, seconds: float) -> None:
        """Raise `DecodeError` if the time ``seconds`` is in a hole, which is a time range in which frames are missing.

        Do nothing unless ``on_error`` is ``"raise"``.
        """
        index = self.index
        if self._video.options.on_error == "raise" and len(index.hole_frame):
            query = ByTime(np.array([seconds]), is_grid=False, within=None)
            for hole, _ in spanned_holes(index, [0], query):
                raise hole_error(hole, index)

    @property
    def num_frames(self) -> int:
        return len(self.index)

    @property
    def span_seconds(self) -> tuple[float, float]:
        return self.index.begin_seconds, self.index.end_seconds

    @property
    def clock(self) -> FrameClock:
        """The unrounded start times of the frames, from which evenly spaced times are made, such as one per second."""
        return clock_of_index(self.index)

    @property
    def start_times(self) -> NDArray[np.float64]:
        """Start time of each frame in seconds. The array is shared, so do not write to it."""
        return start_times(self.index)

    def has_frame(self, i: int) -> bool:
        """Return whether frame ``i`` (not negative) exists. If possible, only the first frames are scanned."""
        return i < len(self._index_up_to(i))

    # Frames

    def frame_at(self, i: int) -> Frame:
        return self._frame(ByIndex((i,), self._video.stream_info.index))

    def frame_played_at(self, seconds: NDArray[np.float64], *, within: tuple[int, int] | None = None) -> Frame:
        """Return the frame shown at a time.

        With ``within`` (first, last), return frame ``first`` instead of an earlier frame, and ``last`` instead of a
        later one.
        """
        checks.check_seconds(seconds, *self.span_seconds)
        return self._frame(ByTime(seconds, is_grid=False, within=within))

    def frames_at(self, indices: Sequence[int]) -> FrameBatch:
        """Return the frames with the given indices.

        The packets show how many frames to expect. If decoding gives fewer, the indices of the missing frames stay
        valid, and the error policy decides whether a missing frame raises an error, is replaced, or is left out.
        """
        return self._batch(ByIndex(indices, self._video.stream_info.index))

    def frames_in_range(
        self,
        start: int | None,
        stop: int | None,
        step: int | None,
        *,
        previous: int | None = None,
        is_sequential: bool = False,
    ) -> FrameBatch:
        """Return the frames that a Python slice selects.

        ``previous`` is the last frame that the caller received before this call, if any. Pass ``is_sequential=True`` if
        the caller reads through the video and will not request the same frames again.
        """
        return self._batch(ByIndexRange(start, stop, step, previous), is_sequential=is_sequential)

    def frames_played_at(
        self, seconds: NDArray[np.float64], *, is_grid: bool = False, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        """Return the frame shown at each time.

        With ``is_grid``, the times are evenly spaced and possibly rounded. The caller must then check that the times
        are in the stream. ``within`` limits the result as in `frame_played_at`.
        """
        if not is_grid:
            checks.check_seconds(seconds, *self.span_seconds)
        return self._batch(ByTime(seconds, is_grid=is_grid, within=within))

    def frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, *, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        checks.check_seconds_range(start_seconds, stop_seconds, *self.span_seconds)
        return self._batch(ByTimeRange(start_seconds, stop_seconds, within))

    def pictures(self, wanted: Sequence[int], previous: int | None = None) -> list[DecodedPicture]:
        """Return decoded frames that are not converted to RGB, for callers that read through the video.

        ``wanted`` are frame indices, which must ascend; indices after the last frame are ignored. ``previous`` is the
        last frame that the caller received before this call, if any. The error policy decides whether a frame that
        cannot be decoded is an error, replaced or left out.
        """
        query = ExistingFrames(wanted, previous)
        index, decoded = self._decode(query, is_sequential=True, make_writer=PictureWriter)
        taken: Any = decoded.pixels
        return [
            replace(taken[row], pts_seconds=pts, duration_seconds=duration)
            for row, (pts, duration) in enumerate(frame_times(index, frame) for frame in decoded.frames)
        ]

    def exports_at(self, kind: ExportKind, indices: Sequence[int]) -> NDArray[np.float32]:
        """Return the data that the codec exports about the blocks of frames, (N, rows, columns, channels).

        A frame that cannot be decoded raises an error under every error policy, so that each index has a row.
        """
        query = ByIndex(indices, self._video.stream_info.index)
        _, decoded = self._decode(query, is_sequential=True, make_writer=CellWriter, exports=kind)
        cells: Any = decoded.pixels
        if cells is None:
            return export_converter(kind).empty(0, *grid_size(*self._video.upright_size()))
        return cells  # type: ignore[no-any-return]

    def frame_bytes(self) -> NDArray[np.int64]:
        """Return the size of each compressed frame in bytes, -1 if unknown. The packets are listed again for this."""
        index = self.index
        if self._frame_bytes is None or self._frame_bytes[0] is not index:
            with stages.INDEX:
                self._frame_bytes = index, read_frame_bytes(index, self._lend_reader)
        return self._frame_bytes[1]

    def _frame(self, query: FrameQuery) -> Frame:
        index, decoded = self._decode(query)
        if not decoded.frames:
            report = next(report for report in decoded.replaced if report.used_index is None)
            raise DecodeError(
                f"Frame {report.index} could not be decoded ({report.reason}), and on_error='skip' leaves nothing to "
                "return; use on_error='nearest', or a method that returns a batch."
            )
        assert decoded.pixels is not None
        frame = decoded.frames[0]
        pts, duration = frame_times(index, frame)
        return self._video.frame(
            decoded.pixels[0], pts, duration, decoded.replaced, is_damaged=frame in decoded.damaged
        )

    def _batch(self, query: FrameQuery, *, is_sequential: bool = False) -> FrameBatch:
        index, decoded = self._decode(query, is_sequential=is_sequential)
        return self._video.batch(decoded, *index.times_of(np.array(decoded.frames, np.int64)))

    def _decode(
        self,
        query: FrameQuery,
        *,
        is_sequential: bool = False,
        make_writer: Callable[[int], PixelWriter] | None = None,
        exports: ExportKind | None = None,
    ) -> tuple[FrameIndex, DecodedRows]:
        """Decode the frames that ``query`` requests; return the index to which their numbers refer, and the frames.

        If the device cannot decode, this method repeats the whole call on the CPU. If decoded frames contradict the
        index, it repeats the call with an index made by decoding. (If only a seek failed, `FrameStream` repeats one
        segment.)
        """
        video = self._video
        if exports is None and (video.spec.device.type != "cpu" or video.hdr_transfer is not None):
            video.check_ready()
        index = self._index
        if index is None:
            index = self._index_up_to(query.highest)
        frames = query.frames_in(index)
        while True:
            spec, on_error = video.spec, video.options.on_error
            if exports is not None and on_error != "raise":
                on_error = "keep"
            pool = video.pool if exports is None else video.export_pool(exports)
            spanned = []
            if index.may_show_damage:
                spanned = spanned_holes(index, frames, query, _frames_per_clip.get())
            if spanned and on_error == "raise":
                raise hole_error(spanned[0][0], index)
            try:
                with stages.DECODE, pool.borrow() as handle:
                    decoded = decode_rows(
                        handle,
                        index,
                        frames,
                        make_writer or video.pixel_writer,
                        on_error,
                        may_bypass_writer=self._keeps_frames_and_sizes and make_writer is None,
                        is_sequential=is_sequential,
                    )
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
            same = self._frames_at_times(before, index, frames) if self.keeps_times and query.seconds is None else None
            if same is not None:
                frames = same
                continue
            # Indices that were valid stay valid: the error policy decides about missing frames.
            with suppress(OutOfRangeError):
                frames = query.frames_in(index)
        if index.may_show_damage:
            self._report_damage(index, frames, decoded, spanned)
        return index, decoded

    def _frames_at_times(self, before: FrameIndex, index: FrameIndex, frames: Sequence[int]) -> list[int] | None:
        """Find the frames of ``index`` that have the same times as the frames ``frames`` of the index ``before``.

        If some of these times are not in ``index``, the result depends on whether ``index`` records damage. Without
        damage, return ``None``. With damage, return the frame shown at each time, or raise `DecodeError`, as the error
        policy requires.
        """
        times = before.pts[np.asarray(frames, np.int64)]
        found = index.pts.searchsorted(times).clip(max=len(index) - 1)
        is_there = index.pts[found] == times
        if is_there.all():
            return [int(frame) for frame in found]
        if not index.may_show_damage:
            return None
        seconds = start_times(before)[np.asarray(frames, np.int64)]
        if self._video.options.on_error == "raise":
            query = ByTime(seconds, is_grid=False, within=None)
            for hole, _ in spanned_holes(index, frames, query, _frames_per_clip.get()):
                raise hole_error(hole, index)
            missing = seconds[~is_there][0]
            raise DecodeError(f"No frame could be decoded at {missing:.6f} s: {'; '.join(index.anomalies)}.")
        return [int(frame) for frame in index.played_at(seconds)]

    def _report_damage(
        self, index: FrameIndex, frames: Sequence[int], decoded: DecodedRows, spanned: list[tuple[FrameHole, int]]
    ) -> None:
        """Report the damage in the frames of a call to the user.

        With ``on_error="keep"``, warn. Otherwise add a report to ``decoded`` for each hole in ``spanned``.
        """
        video = self._video
        if video.options.on_error != "keep":
            reports = [
                ReplacedFrame(frames[row], describe_hole(hole, len(index)), row, frames[row], hole.num_packets)
                for hole, row in spanned
            ]
            decoded.replaced = tuple(sorted((*decoded.replaced, *reports), key=lambda report: report.position))
            return
        # After a hole, the index of a frame is lower than the number of its packet. The user must be warned about this.
        is_after_hole = len(index.hole_frame) > 0 and len(frames) > 0 and max(frames) >= int(index.hole_frame[0])
        if decoded.damaged or spanned or is_after_hole:
            warn_of_damage(video.name, index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = ForkSafeLock()
