"""Make a video or audio sample from an open file: limit the file to a segment, call the sampler, apply transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ... import samplers
from ..._engine.common import checks, stages
from ..._engine.metadata import AudioStreamMetadata, VideoStreamMetadata
from ...decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ...decoders._access import AudioAccess, VideoAccess, access_to
from ...errors import InvalidArgumentError, OutOfRangeError, SourceTypeError
from ...frames import AudioSamples, AudioSamplesBatch, AudioVideoClip, Frame, FrameBatch
from ...samplers import (
    audio_clips_at_regular_timestamps,
    clips_at_random_indices,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    clips_at_scenes,
)
from ...samplers._random import first_position, global_random, random_for, unwrap_partial
from ...transforms import CenterCrop, Letterbox, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat
from .._sources.items import Item
from .._sources.tables import advice_on_segments, segment_columns
from .recipe import misuse
from .samples import FRAME_BOX

Sound = AudioSamples | AudioSamplesBatch
V = TypeVar("V", bound=VideoDecoder | AudioVideoDecoder)

_WHOLE_FILE_SAMPLERS: tuple[Any, ...] = (VideoDecoder.get_all_frames, AudioDecoder.get_all_samples)
_REGULAR_SAMPLERS: tuple[Any, ...] = (
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    audio_clips_at_regular_timestamps,
    *_WHOLE_FILE_SAMPLERS,
)
_TRANSFORMS_WITHOUT_DRAWS = (CenterCrop, Letterbox, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat)


# Samplers


def check_sampler(sampler: Any) -> None:
    """Raise an error if ``sampler`` is not a function, or binds a wrong argument to a built-in sampler.

    For such an argument, reading would fail on every file.
    """
    function, _, options = unwrap_partial(checks.function("sampler", sampler))
    if function in _WHOLE_FILE_SAMPLERS and options.get("fps") is not None:
        checks.frame_rate_times(0.0, 0.0, options["fps"])
    if function in map(vars(samplers).get, samplers.__all__):
        # Samplers check their arguments first. Only if these are valid, they raise an error about the decoder.
        with suppress(SourceTypeError):
            sampler(None)


def frames_sampler(num_frames_per_clip: int, num_indices_between_frames: int) -> Callable[[Any], FrameBatch]:
    """Return the default sampler of `VideoClips`."""
    return partial(
        clips_at_random_indices,
        num_frames_per_clip=num_frames_per_clip,
        num_indices_between_frames=num_indices_between_frames,
    )


def check_rows_differ(rows_per_file: Any, sampler: Callable[..., Any], *transforms: Any) -> None:
    if not (isinstance(rows_per_file, int) and rows_per_file > 1) or _may_draw(transforms):
        return
    function, _, options = unwrap_partial(sampler)
    is_regular = function in _REGULAR_SAMPLERS
    if is_regular or (function is clips_at_scenes and options.get("placement", "middle") != "random"):
        raise InvalidArgumentError(
            f"rows_per_file={rows_per_file} would make {rows_per_file} equal rows of each file, because "
            f"{function.__name__} returns the same clips every time, and no transform is random. Use a random sampler "
            "such as clips_at_random_timestamps, or a random transform. For several clips in one row, use "
            "rows_per_file=1, num_clips=... of the sampler, and keep_clip_dimension=True."
        )


def call_sampler(sampler: Callable[[Any], Any], opened: Any, item: Item) -> Any:
    """Call a sampler on an item, whose file is open.

    A user's own sampler draws from the global random generators, so `global_random` gives them the row's states.
    """
    function, arguments, options = unwrap_partial(sampler)
    decoder = _segment_of(opened, item)
    if function in _WHOLE_FILE_SAMPLERS:  # a segment of a file has a method of the same name
        return getattr(decoder, function.__name__)(*arguments, **options)
    with random_for(function):
        return sampler(decoder)


def position_of(sampler: Callable[[Any], Any], opened: Any, item: Item, part: int) -> float:
    """Return the position in the file at which a sampler will start to read, or ``part`` if it is unknown.

    The rows of a file are read in the order of these numbers.
    """
    with random_for(unwrap_partial(sampler)[0]):
        position = first_position(sampler, _segment_of(opened, item))
    return float(part) if position is None else position


# Decoders


def ready_for_rows(opened: V, decoder_options: Mapping[str, Any]) -> V:
    """Prepare a newly opened decoder for reading rows: make its index, and set its error policy.

    Unless the user's ``decoder_options`` have ``on_error``, damaged frames raise an error, which makes the row
    unreadable. If the video has no frames, close the decoder and raise an error.
    """
    video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
    try:
        # Making the index after decoding would open the file a second time.
        access_to(video).prepare_for_rows(raises_damage="on_error" not in decoder_options)
    except BaseException:
        opened.close()
        raise
    return opened


def redraw_transforms(video: VideoDecoder, decoder_options: Mapping[str, Any]) -> None:
    transforms = decoder_options.get("transforms")
    with random_of_transform(transforms):
        access_to(video).set_transforms(transforms)


def box_column(video: VideoDecoder) -> dict[str, tuple[int, int, int, int]]:
    """Return the box of the frame inside its padding, as a column of ``extra``; an empty dict without padding."""
    box = access_to(video).frame_box()
    return {} if box is None else {FRAME_BOX: box}


# Transforms


def random_of_transform(transform: Any) -> AbstractContextManager[None]:
    """Return the context for calling a transform: `global_random`, unless the transform is known to draw nothing."""
    return global_random() if _may_draw(transform) else nullcontext()


def _may_draw(transform: Any) -> bool:
    # A transform counts as random unless it is known to be deterministic.
    if transform is None or type(transform) in _TRANSFORMS_WITHOUT_DRAWS:
        return False
    if type(transform) in (list, tuple, nn.Sequential):
        return any(map(_may_draw, transform))
    return True


def apply_frames_transform(transform: Callable[[Any], Any] | None, frames: FrameBatch) -> FrameBatch:
    """Apply a user's transform to the frames of a sample. A tensor that it returns replaces ``data`` of the frames."""
    if transform is None:
        return frames
    with stages.TRANSFORM, random_of_transform(transform):
        result = transform(frames)
    if isinstance(result, Tensor):
        try:
            return replace(frames, data=result)
        except ValueError as error:
            raise misuse(
                f"The transform returned a tensor whose shape does not match the times of the frames: {error} "
                "Return a FrameBatch with new times, or keep the leading dimensions."
            ) from None
    if not isinstance(result, FrameBatch):
        raise misuse(f"The transform must return a FrameBatch or a tensor (got {type(result).__name__}).")
    return result


def sound_fields(
    transform: Callable[[Any], Any] | None, sound: Sound, num_valid_samples: int | None = None
) -> dict[str, Any]:
    """Apply a user's transform to the audio of a sample, and return the fields of `Sample` that hold the result.

    A tensor of the same shape replaces the samples. A tensor of another shape becomes the features.
    ``num_valid_samples`` is the number of samples before padding, or ``None`` if nothing is padded.
    """
    result: Any = sound
    if transform is not None:
        with stages.TRANSFORM, random_of_transform(transform):
            result = transform(sound)
    if isinstance(result, Tensor):
        if result.shape != sound.data.shape:
            num_valid: Any = sound.data.shape[1] if num_valid_samples is None else num_valid_samples
            columns = {
                "audio_pts_seconds": sound.pts_seconds,
                "audio_duration_seconds": sound.duration_seconds,
                "num_valid_samples": sound.num_valid_samples if isinstance(sound, AudioSamplesBatch) else num_valid,
            }
            return {"features": result, "extra": columns}
        result = type(sound)(**{**vars(sound), "data": result})
    if not isinstance(result, type(sound)):
        raise misuse(f"The transform must return {type(sound).__name__} or a tensor (got {type(result).__name__}).")
    return {"audio": result, "num_valid_samples": _num_valid_after(sound, num_valid_samples, result)}


def _num_valid_after(before: Sound, num_valid_samples: int | None, after: Sound) -> int | None:
    if num_valid_samples is None or isinstance(after, AudioSamplesBatch):
        return None
    num_valid = math.ceil(num_valid_samples * after.sample_rate / before.sample_rate)
    return min(num_valid, after.data.shape[1])


# The shape of clips


def without_clip_dimension(clips: Any, *, keep: bool) -> FrameBatch:
    """Return the only clip in the result of a sampler, (T, C, H, W). With ``keep``, return the result unchanged."""
    if not isinstance(clips, FrameBatch):
        raise misuse(f"The sampler must return a FrameBatch (got {type(clips).__name__}).")
    if keep or clips.data.ndim != 5:
        return clips
    check_is_one(len(clips))
    return clips[0]


def check_is_one(num_clips: int) -> None:
    if num_clips != 1:
        raise misuse(f"The sampler returned {num_clips} clips. Return one clip, or set keep_clip_dimension=True.")


def effective_fps(frames: FrameBatch) -> float:
    """Return the frames per second of a clip, not counting repetitions of the last frame that pad the clip.

    >>> import torch
    >>> effective_fps(FrameBatch(torch.zeros(4, 3, 1, 1), torch.tensor([0.0, 0.5, 1.0, 1.0]), torch.full((4,), 0.1)))
    2.0
    """
    if not frames.pts_seconds.numel():
        return float("nan")
    steps = torch.diff(frames.pts_seconds.reshape(-1, frames.pts_seconds.shape[-1])[0])
    steps = steps[steps > 0]
    step = float(steps.mean()) if len(steps) else float(frames.duration_seconds.flatten()[0])
    return 1 / step if step > 0 else float("nan")


# Segments of files. Samplers call only public methods of a decoder, so a segment is a decoder with fewer frames.

_Span = tuple[float, float]
D = TypeVar("D", VideoDecoder, AudioDecoder)

_ROUNDING_SECONDS = 0.0005


def _segment_of(decoder: Any, item: Item) -> Any:
    if item.start_seconds is None and item.end_seconds is None:
        return decoder
    if isinstance(decoder, AudioVideoDecoder):
        return AudioVideoSegment(decoder, item)
    return VideoSegment(decoder, item) if isinstance(decoder, VideoDecoder) else AudioSegment(decoder, item)


def _span(item: Item, begin: float, end: float | None) -> _Span:
    """Return a segment cut to the stream from ``begin`` to ``end``. Raise OutOfRangeError if nothing is left."""
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
    """A segment of a video that samplers can use like a decoder. It has the frames that begin in [start, end).

    Frame indices start at 0 in the segment. Times are those of the whole video. The bounds of a segment are often
    rounded to milliseconds, so a frame that begins up to half a millisecond before a bound counts as beginning after
    it. This excludes frames of neighbouring shots. If no frame begins in the segment, it consists of the frame that is
    shown at its start.
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
        # No time within the segment may show a frame outside of it.
        self._start = max(self._start, float(times[first]))
        self._stop = min(self._stop, float(times[stop])) if stop < len(times) else self._stop
        #: Index in the whole video of the segment's first frame.
        self.first_frame: int = first
        self._num_frames: int = stop - first
        # Rounding may turn a time just before the end into the time of the next frame.
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
        if isinstance(key, slice):
            return self.get_frames_in_range(key.start, key.stop, key.step).data
        return self.get_frame_at(key).data

    def __iter__(self) -> Iterator[Tensor]:
        return (self.get_frame_at(index).data for index in range(len(self)))

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
        if fps is None:  # of frames with equal times, a range of times has only the last one
            return self.get_frames_in_range(0, self._num_frames)
        return self.get_frames_played_in_range(self._start, self._stop, fps)


class AudioSegment(_Segment[AudioDecoder]):
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
            raise OutOfRangeError(f"The time {start} s is after the end of the segment, {self._stop} s.")
        last = self._stop if stop is None else min(stop, max(start, self._stop))
        return max(start, self._start), None if last == math.inf else last


class AudioVideoSegment:
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
