"""Segments of files as decoders, for rows with ``start_seconds`` and ``end_seconds``.

Samplers call only public methods of a decoder, so a segment is a decoder with fewer frames. Its times are times of the
whole file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np
from torch import Tensor

from ..._engine.common import checks
from ..._engine.metadata import AudioStreamMetadata, VideoStreamMetadata
from ...decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ...decoders._access import AudioAccess, VideoAccess, access_to
from ...errors import OutOfRangeError
from ...frames import AudioSamples, AudioVideoClip, Frame, FrameBatch
from .._sources.items import Item
from .._sources.rows import advice_on_segments, segment_columns

_Span = tuple[float, float]
D = TypeVar("D", VideoDecoder, AudioDecoder)

_ROUNDING_SECONDS = 0.0005


def segment_of(decoder: Any, item: Item) -> Any:
    """Return the segment of an open file that an item describes; the decoder itself if the item is the whole file."""
    if item.start_seconds is None and item.end_seconds is None:
        return decoder
    if isinstance(decoder, AudioVideoDecoder):
        return AudioVideoSegment(decoder, item)
    return VideoSegment(decoder, item) if isinstance(decoder, VideoDecoder) else AudioSegment(decoder, item)


def _span(item: Item, begin: float, end: float | None) -> _Span:
    """Return the item's segment of a stream from ``begin`` to ``end``; raise OutOfRangeError if it is empty."""
    start = begin if item.start_seconds is None else max(begin, item.start_seconds)
    stop = min(math.inf if end is None else end, math.inf if item.end_seconds is None else item.end_seconds)
    if not start < stop:
        names = segment_columns(item.extra)
        advice = f" The times are from {' and '.join(map(repr, names))}. {advice_on_segments(names)}" if names else ""
        raise OutOfRangeError(
            f"The segment from {item.start_seconds} s to {item.end_seconds} s of {item.name!r} is empty: the stream "
            f"lasts from {begin} s to {end} s.{advice}"
        )
    return start, stop


class _Segment(Generic[D]):
    def __init__(self, decoder: D, item: Item) -> None:
        whole = decoder.metadata
        self._decoder: D = decoder
        self._start, self._stop = _span(item, whole.begin_stream_seconds, whole.end_stream_seconds)


class VideoSegment(_Segment[VideoDecoder]):
    """A segment of a video: the frames that begin within [start, end), with indices from 0.

    Bounds are often rounded to milliseconds. A frame that begins up to half a millisecond before a bound therefore
    counts as after the bound, so that no frame of a neighbouring shot is included. If no frame begins within the
    segment, the segment is the frame shown at its start.
    """

    def __init__(self, decoder: VideoDecoder, item: Item) -> None:
        super().__init__(decoder, item)
        access: VideoAccess = access_to(decoder)
        times = access.start_times
        first, stop = np.searchsorted(times, [self._start - _ROUNDING_SECONDS, self._stop - _ROUNDING_SECONDS]).tolist()
        if item.end_seconds is None:
            stop = len(times)
        if first >= stop:
            access.check_no_hole_at(self._start)
            first = max(0, int(np.searchsorted(times, self._start, side="right")) - 1)
            stop = first + 1
        # No time within the segment shows a frame outside of it.
        self._start = max(self._start, float(times[first]))
        self._stop = min(self._stop, float(times[stop])) if stop < len(times) else self._stop
        #: Index of the first frame of the segment in the whole video.
        self.first_frame: int = first
        self._num_frames: int = stop - first
        # Rounding may turn a time just before the end into the start of the next frame.
        self._access = access.restrict(first, stop - 1)

    @property
    def metadata(self) -> VideoStreamMetadata:
        whole = self._decoder.metadata
        return replace(
            whole,
            begin_stream_seconds_from_content=self._start,
            end_stream_seconds_from_content=self._stop,
            num_frames_from_content=self._num_frames,
            duration_seconds=self._stop - self._start,
            begin_stream_seconds=self._start,
            end_stream_seconds=self._stop,
            num_frames=self._num_frames,
        )

    def __len__(self) -> int:
        return self._num_frames

    def __getitem__(self, key: Any) -> Tensor:
        return self.get_frames_in_range(key.start, key.stop, key.step).data if isinstance(key, slice) else self._at(key)

    def _at(self, index: SupportsIndex) -> Tensor:
        return self.get_frame_at(index).data

    def __iter__(self) -> Iterator[Tensor]:
        return (self._at(index) for index in range(len(self)))

    def _in_file(self, indices: Any) -> list[int]:
        numbers = checks.indices_of(indices)
        stream_index = self._decoder.stream_index
        return [self.first_frame + checks.valid_index(i, self._num_frames, stream_index) for i in numbers]

    def get_frame_at(self, index: SupportsIndex) -> Frame:
        return self._decoder.get_frame_at(self._in_file([index])[0])

    def get_frames_at(self, indices: Any) -> FrameBatch:
        return self._decoder.get_frames_at(self._in_file(indices))

    def get_frames_in_range(self, start: int | None, stop: int | None, step: int | None = 1) -> FrameBatch:
        wanted = checks.frame_range(*checks.bounds_of(start, stop, step), self._num_frames)
        return self._decoder.get_frames_at([self.first_frame + i for i in wanted])

    def get_frame_played_at(self, seconds: float) -> Frame:
        times = checks.one_time(seconds)
        checks.check_seconds(times, self._start, self._stop)
        return self._access.frame_played_at(times)

    def get_frames_played_at(self, seconds: Any) -> FrameBatch:
        times = checks.seconds_of(seconds)
        checks.check_seconds(times, self._start, self._stop)
        return self._access.frames_played_at(times)

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        checks.check_seconds_range(start_seconds, stop_seconds, self._start, self._stop)
        if fps is None:
            return self._access.frames_played_in_range(start_seconds, stop_seconds)
        return self._access.resampled_frames(start_seconds, stop_seconds, fps)

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        return self.get_frames_played_in_range(self._start, self._stop, fps)


class AudioSegment(_Segment[AudioDecoder]):
    """A segment of an audio stream: the samples within [start, end)."""

    def __init__(self, decoder: AudioDecoder, item: Item) -> None:
        super().__init__(decoder, item)
        whole = decoder.metadata
        if whole.sample_rate:  # clips are counted in samples, so the segment begins at a sample
            offset = math.floor((self._start - whole.begin_stream_seconds) * whole.sample_rate + 0.5)
            self._start = whole.begin_stream_seconds + offset / whole.sample_rate

    @property
    def metadata(self) -> AudioStreamMetadata:
        stop = None if self._stop == math.inf else self._stop
        return replace(
            self._decoder.metadata,
            duration_seconds=None if stop is None else stop - self._start,
            begin_stream_seconds=self._start,
            end_stream_seconds=stop,
        )

    def get_all_samples(self) -> AudioSamples:
        return self.get_samples_played_in_range(self._start)

    def get_samples_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> AudioSamples:
        return self.get_samples_played_in_ranges([(start_seconds, stop_seconds)])[0]

    def get_samples_played_in_ranges(self, ranges: Sequence[tuple[float, float | None]]) -> list[AudioSamples]:
        return self._decoder.get_samples_played_in_ranges([self._within(*pair) for pair in ranges])

    def _within(self, start: float, stop: float | None) -> tuple[float, float | None]:
        if start >= self._stop and start != stop:
            raise OutOfRangeError(f"The time {start} s lies after the end of the segment, {self._stop} s.")
        last = self._stop if stop is None else min(stop, max(start, self._stop))
        return max(start, self._start), None if last == math.inf else last


class AudioVideoSegment:
    """A segment of a video with its audio."""

    def __init__(self, decoder: AudioVideoDecoder, item: Item) -> None:
        self.video = VideoSegment(decoder.video, item)
        self.audio = decoder.audio
        self._start, self._stop = self.video.metadata.begin_stream_seconds, self.video._stop
        self._access: AudioAccess = access_to(decoder).restrict(self._stop)

    def get_played_in_range(
        self, start_seconds: float | None = None, stop_seconds: float | None = None, fps: float | None = None
    ) -> AudioVideoClip:
        return self.get_played_in_ranges([(start_seconds, stop_seconds)], fps)[0]

    def get_played_in_ranges(
        self, ranges: Sequence[tuple[float | None, float | None]], fps: float | None = None
    ) -> list[AudioVideoClip]:
        times = [
            (self._start if start is None else start, self._stop if stop is None else stop) for start, stop in ranges
        ]
        frames = [self.video.get_frames_played_in_range(start, stop, fps) for start, stop in times]
        return [
            AudioVideoClip(batch, samples, silent_spans)
            for batch, (samples, silent_spans) in zip(frames, self._access.samples_in_ranges(times), strict=True)
        ]
