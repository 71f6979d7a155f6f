"""Access frames approximately. There is no index; frame times are computed from the frame rate in the header."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DecodeError, DeviceError, StreamError
from ...frames import Frame, FrameBatch, ReplacedFrame
from ..common import checks, stages
from ..common.locks import cached_property
from ..common.threads import divide_threads
from ..index.frame_clock import FrameClock
from ..metadata import video_stream_metadata
from .batch import IS_FLAGGED, NEAREST_REACH, DecodedRows, damage_error, warn_of_damage
from .frame_stream import ApproximateStream
from .open_video import OpenVideo

# Rounding to ticks changes the distance between two times by up to a tick. Times in coarser ticks count as exact.
_MAX_SLACK_SECONDS = 0.001


@dataclass(frozen=True)
class Timeline:
    """The frame times that follow from the header. Frame i is assumed to start at ``begin_seconds + i / fps``."""

    begin_seconds: float
    fps: float
    num_frames: int  # duration times frame rate if the header does not state the number
    end_seconds: float

    def seconds(self, index: int) -> float:
        return self.begin_seconds + index / self.fps

    def nearest(self, seconds: float) -> int:
        """Return the index of the frame whose start is nearest to ``seconds``.

        >>> Timeline(begin_seconds=1.0, fps=25.0, num_frames=100, end_seconds=5.0).nearest(1.19)
        5
        """
        return min(max(round((seconds - self.begin_seconds) * self.fps), 0), self.num_frames - 1)

    def indices(self, start_seconds: float, stop_seconds: float) -> range:
        """Return the indices of the frames shown from ``start_seconds`` up to, but not including, ``stop_seconds``.

        >>> Timeline(begin_seconds=1.0, fps=25.0, num_frames=100, end_seconds=5.0).indices(1.02, 1.11)
        range(0, 3)
        """
        if start_seconds == stop_seconds:
            return range(0)
        first = math.floor((start_seconds + checks.TIME_TOLERANCE - self.begin_seconds) * self.fps)
        stop = math.ceil((stop_seconds - checks.TIME_TOLERANCE - self.begin_seconds) * self.fps)
        return range(first, max(stop, first + 1))


class ApproximateFrames:
    """Returns frames by number and by time without a `FrameIndex`.

    As in `ExactFrames`, `frames_in_range` accepts ``previous`` and ``is_sequential``, but ignores them.
    """

    def __init__(self, video: OpenVideo) -> None:
        self._video = video
        header = video_stream_metadata(
            video.stream_info, video.container_info.duration_seconds, rotation=None, size=None, index=None
        )
        if header.average_fps is None:
            raise StreamError(
                f"Seek mode is approximate, but stream {video.stream_info.index} does not have an average fps in its "
                "metadata. Use seek_mode='exact'."
            )
        if header.num_frames is None or header.end_stream_seconds is None:
            raise StreamError("The number of frames is unknown: the header states no duration. Use seek_mode='exact'.")
        self._timeline = Timeline(
            header.begin_stream_seconds, header.average_fps, header.num_frames, header.end_stream_seconds
        )

    @property
    def _slack(self) -> float:
        return min(float(self._video.time_base), _MAX_SLACK_SECONDS)

    @property
    def num_frames(self) -> int:
        return self._timeline.num_frames

    @property
    def span_seconds(self) -> tuple[float, float]:
        return self._timeline.begin_seconds, self._timeline.end_seconds

    def has_frame(self, i: int) -> bool:
        return i < self.num_frames

    def frame_at(self, i: int) -> Frame:
        """Return the frame whose start is nearest to the time that is computed for index ``i``.

        A negative ``i`` counts from the end.
        """
        i = checks.valid_index(i, self.num_frames, self._video.stream_info.index)
        return self._frame_at([self._timeline.seconds(i)], nearest=True)

    def frame_played_at(self, seconds: NDArray[np.float64], *, within: tuple[int, int] | None = None) -> Frame:
        checks.check_seconds(seconds, *self.span_seconds)
        return self._frame_at(self._clipped(checks.latest(seconds), within).tolist(), nearest=False)

    def frames_at(self, indices: Sequence[int]) -> FrameBatch:
        """For each index, return the frame whose start is nearest to the time that is computed for the index."""
        stream_index = self._video.stream_info.index
        return self._batch([checks.valid_index(i, self.num_frames, stream_index) for i in indices])

    def frames_in_range(
        self,
        start: int | None,
        stop: int | None,
        step: int | None,
        *,
        previous: int | None = None,
        is_sequential: bool = False,
    ) -> FrameBatch:
        """Return the frames that a Python slice selects. Each is found as in `frames_at`."""
        return self._batch(checks.frame_range(start, stop, step, self.num_frames))

    @cached_property
    def clock(self) -> FrameClock:
        """The computed start times of the frames. They are used to make evenly spaced times, such as one per second."""
        timeline = self._timeline
        times = timeline.begin_seconds + np.arange(timeline.num_frames) / timeline.fps
        return FrameClock(times, times, 1 / Fraction(timeline.fps), self._slack)

    @property
    def start_times(self) -> NDArray[np.float64]:
        return self.clock.times

    def frames_played_at(
        self, seconds: NDArray[np.float64], *, is_grid: bool = False, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        """Return the frame shown at each time.

        With ``is_grid``, the times are evenly spaced, and rounding may have put them just before the start of a frame.
        A frame that starts at most one tick after a time therefore counts as shown at this time.
        """
        if not is_grid:
            checks.check_seconds(seconds, *self.span_seconds)
        slack = self._slack if is_grid else 0.0
        return self._batch_at(self._clipped(checks.latest(seconds) + slack, within).tolist(), nearest=False)

    def frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, *, within: tuple[int, int] | None = None
    ) -> FrameBatch:
        checks.check_seconds_range(start_seconds, stop_seconds, *self.span_seconds)
        indices = self._timeline.indices(start_seconds, stop_seconds)
        if within is not None:
            indices = range(max(indices.start, within[0]), min(indices.stop, within[1] + 1))
        return self._batch(indices)

    def _clipped(self, seconds: NDArray[np.float64], within: tuple[int, int] | None) -> NDArray[np.float64]:
        """Replace times before and after the frames ``within`` by times that show the first and the last of them."""
        if within is None:
            return seconds
        middle_of_frame = 0.5 / self._timeline.fps
        first, last = (self._timeline.seconds(frame) + middle_of_frame for frame in within)
        return seconds.clip(first, last)

    def _batch(self, indices: Sequence[int]) -> FrameBatch:
        return self._batch_at([self._timeline.seconds(i) for i in indices], nearest=True)

    def _batch_at(self, seconds: list[float], *, nearest: bool) -> FrameBatch:
        decoded, times = self._decode(seconds, nearest=nearest)
        return self._video.batch(decoded, times[0], times[1])

    def _frame_at(self, seconds: list[float], *, nearest: bool) -> Frame:
        decoded, times = self._decode(seconds, nearest=nearest)
        if not decoded.frames:
            raise DecodeError(
                f"The frame at {seconds[0]:.6f} s could not be decoded ({decoded.replaced[0].reason}), and "
                "on_error='skip' leaves nothing to return; use on_error='nearest', or a method that returns a batch."
            )
        assert decoded.pixels is not None
        return self._video.frame(
            decoded.pixels[0],
            times[0, 0].item(),
            times[1, 0].item(),
            replaced=decoded.replaced,
            is_damaged=bool(decoded.damaged),
        )

    def _decode(self, seconds: list[float], *, nearest: bool) -> tuple[DecodedRows, Tensor]:
        """Decode the frame for each time; return the frames, and a tensor with their pts and durations in seconds.

        If the device cannot decode, switch to the CPU and repeat the call.
        """
        self._video.check_ready()
        decodes_in_software = self._video.spec.decodes_in_software
        try:
            return self._decode_once(seconds, nearest=nearest)
        except DeviceError as error:
            if decodes_in_software:
                raise
            reason = str(error)
        self._video.decode_on_cpu(reason)
        return self._decode_once(seconds, nearest=nearest)

    def _decode_once(self, seconds: list[float], *, nearest: bool) -> tuple[DecodedRows, Tensor]:
        tick = self._video.time_base
        times = torch.zeros(2, len(seconds), dtype=torch.float64, device="cpu")
        with stages.DECODE, self._video.pool.borrow() as handle:
            assert isinstance(handle.stream, ApproximateStream)
            reader = handle.stream.reader
            if handle.chooses_threads and not reader.is_codec_open:
                division = divide_threads(
                    [len(seconds)],
                    reader.num_pixels,
                    num_threads=handle.num_threads(),
                    num_codec_threads=None,
                    num_open_workers=1,
                )
                reader.use_threads(division.num_codec_threads)
            writer = self._video.pixel_writer(len(seconds))
            damaged: set[int] = set()
            replaced: dict[int, ReplacedFrame] = {}
            for row in sorted(range(len(seconds)), key=seconds.__getitem__):
                picture, report = self._picture(handle.stream, seconds[row], row, nearest=nearest)
                if report is not None:
                    replaced[row] = report
                if picture is None:
                    continue
                if picture.is_corrupt:
                    damaged.add(row)
                writer.write(handle.converter, picture, [row], f"at {seconds[row]:.6f} s")
                times[0, row] = picture.pts * tick.numerator / tick.denominator
                times[1, row] = picture.duration * tick.numerator / tick.denominator or 1 / self._timeline.fps
        if damaged:
            warn_of_damage(self._video.name)
        kept = [row for row in range(len(seconds)) if row not in replaced or replaced[row].used_index is not None]
        pixels = writer.pixels if len(kept) == len(seconds) or writer.pixels is None else writer.pixels[kept]
        reports = tuple(replaced[row] for row in sorted(replaced))
        return DecodedRows(pixels if kept else None, kept, reports, damaged), times[:, kept]

    def _picture(
        self, stream: ApproximateStream, seconds: float, row: int, *, nearest: bool
    ) -> tuple[Any | None, ReplacedFrame | None]:
        """Decode the frame at a time; return the picture, and a report if it is damaged or cannot be decoded.

        The picture is ``None`` if the error policy leaves it out. The report is ``None`` if nothing failed.
        """
        on_error = self._video.options.on_error
        try:
            picture = self._picture_at(stream, seconds, nearest=nearest)
            if on_error == "keep" or not picture.is_corrupt:
                return picture, None
            error = damage_error(f"at {seconds:.6f} s")
            reason = IS_FLAGGED
        except DecodeError as failure:
            error, reason = failure, str(failure)
        if on_error in ("keep", "raise"):
            raise error
        index = self._timeline.nearest(seconds)
        if on_error == "skip":
            return None, ReplacedFrame(index, reason, row)
        for distance in range(1, NEAREST_REACH + 1):
            for other in (index - distance, index + distance):
                if not 0 <= other < self.num_frames:
                    continue
                with suppress(DecodeError):
                    picture = self._picture_at(stream, self._timeline.seconds(other), nearest=True)
                    if not picture.is_corrupt:
                        return picture, ReplacedFrame(index, reason, row, other)
        raise DecodeError(f"{error} Nor could any of the {NEAREST_REACH} frames to either side.")

    def _picture_at(self, stream: ApproximateStream, seconds: float, *, nearest: bool) -> Any:
        try:
            return stream.picture_at(seconds, nearest=nearest)
        except DecodeError as error:
            if self._video.spec.decodes_in_software:
                raise
            raise DeviceError(f"The device's decoder gives no frame: {error}") from error
