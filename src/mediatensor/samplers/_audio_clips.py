"""Sample audio clips by time, and clips of frames with their audio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from .._engine.common.checks import check_frames, check_samples, frame_rate_times
from .._engine.video.exact import frames_of_clips
from ..decoders._access import SampleGrid, SoundDecoder, access_to, existing_samples, sample_grid
from ..errors import InvalidArgumentError
from ..frames import AudioSamplesBatch, AudioVideoClip, FrameBatch
from ._index_clips import as_clips, check_decoder, check_not_empty, check_num_clips
from ._random import planned_by, sampling_generator
from ._time_clips import (
    check_positive_seconds,
    check_range,
    check_range_end,
    check_range_start,
    clock_of,
    frames_on_grid,
    random_starts,
    regular_starts,
    tolerance_of,
)

if TYPE_CHECKING:
    from ..decoders import AudioVideoDecoder

AudioPolicy: TypeAlias = Literal["pad", "wrap", "error"]
ClipPolicy: TypeAlias = Literal["pad", "error"]


class _AudioPlan(NamedTuple):
    starts: list[float]  # in seconds
    grid: SampleGrid
    length: int  # of each clip, in samples
    policy: AudioPolicy

    def first_position(self, decoder: Any) -> float:
        return min(self.starts)

    def decode(self, decoder: SoundDecoder) -> AudioSamplesBatch:
        grid, length = self.grid, self.length
        firsts = [grid.offset(seconds) for seconds in self.starts]
        pieces = existing_samples(decoder, grid, [(first, first + length) for first in firsts])
        data = torch.zeros(len(self.starts), grid.num_channels, length, dtype=torch.float32, device="cpu")
        num_valid = [
            _write_clip(clip, samples.data, seconds, self.policy)
            for clip, samples, seconds in zip(data, pieces, self.starts, strict=True)
        ]
        durations = [length / grid.sample_rate] * len(self.starts)
        return AudioSamplesBatch(data, self.starts, durations, grid.sample_rate, num_valid)  # type: ignore[arg-type]


def _plan_random_audio(decoder: Any, *, num_clips: int = 1, **options: Any) -> _AudioPlan:
    return _plan_audio(decoder, partial(random_starts, num_clips=check_num_clips(num_clips)), **options)


def _plan_regular_audio(decoder: Any, *, seconds_between_clip_starts: float, **options: Any) -> _AudioPlan:
    seconds = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)
    return _plan_audio(decoder, partial(regular_starts, seconds_between_clip_starts=seconds), **options)


@planned_by(_plan_random_audio)
def audio_clips_at_random_timestamps(
    decoder: SoundDecoder,
    *,
    seconds_per_clip: float,
    num_clips: int = 1,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: AudioPolicy = "pad",
) -> AudioSamplesBatch:
    """Decode clips of audio that start at random times.

    The starts are drawn independently and uniformly from the sampling range. For example, clips of 4 s start in [0 s, 6
    s] by default if the stream lasts from 0 s to 10 s::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 ]
        earliest clip      |-----------|
        latest clip                          |-----------|

    The random numbers come from torch's global generator for the CPU, so ``torch.manual_seed`` makes the clips
    reproducible. The generator is called once for all starts.

    Args:
        decoder: An `AudioDecoder` or a `WavDecoder`. The clips have its sample rate and number of channels.
        seconds_per_clip: Length of a clip in seconds, above 0. It is rounded to the nearest whole number of samples,
            and half a sample is rounded up.
        num_clips: Number of clips, at least 1.
        sampling_range_start: Earliest start of a clip in seconds; by default the start of the stream.
        sampling_range_end: Time in seconds before which a clip must start. A value beyond the end of the stream means
            the end. By default, it is chosen so that all clips fit into the stream. If no clip fits after
            ``sampling_range_start``, all clips start at ``sampling_range_start``. Required if the header does not state
            the end of the stream.
        policy: How to handle a clip that reaches beyond the end of the stream: ``"pad"`` adds silence, ``"wrap"``
            repeats the clip from its start, and ``"error"`` raises an `InvalidArgumentError`.

    Returns:
        An `AudioSamplesBatch`. ``data`` is float32 (num_clips, channels, samples); all clips have the same length.
        ``pts_seconds`` has the random start of each clip, and the clip's first sample is the sample nearest to this
        time. ``num_valid_samples`` has the number of decoded samples in each clip, without padding or repetition.

    Raises:
        InvalidArgumentError: if an argument is invalid, the sampling range is empty, the end of the stream is unknown,
            or a clip reaches beyond the end and ``policy`` is ``"error"``. This error is also a ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if the samples cannot be decoded.

    Example:
        >>> from mediatensor.samplers import audio_clips_at_random_timestamps
        >>> from mediatensor.decoders import AudioDecoder
        >>> clips = audio_clips_at_random_timestamps(
        ...     AudioDecoder("video.mp4", sample_rate=16_000, num_channels=1), num_clips=8, seconds_per_clip=2.0
        ... )
        >>> clips.data.shape
        torch.Size([8, 1, 32000])
    """
    return _plan_random_audio(**locals()).decode(decoder)


@planned_by(_plan_regular_audio)
def audio_clips_at_regular_timestamps(
    decoder: SoundDecoder,
    *,
    seconds_between_clip_starts: float,
    seconds_per_clip: float,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: AudioPolicy = "pad",
) -> AudioSamplesBatch:
    """Decode clips of audio that start at evenly spaced times.

    The sampling range determines the number of clips. For example, if clips of 4 s start every 3 s, a stream from 0 s
    to 10 s has these clips::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 ]
        clip 0             |-----------|
        clip 1                      |-----------|
        clip 2                               |-----------|

    Args:
        decoder: An `AudioDecoder` or a `WavDecoder`. The clips have its sample rate and number of channels.
        seconds_between_clip_starts: Time from the start of a clip to the start of the next one in seconds, above 0. If
            it equals ``seconds_per_clip``, and both are a whole number of samples, the clips follow each other without
            gap or overlap.
        seconds_per_clip: Length of a clip in seconds, above 0. It is rounded to the nearest whole number of samples,
            and half a sample is rounded up.
        sampling_range_start: Start of the first clip in seconds; by default the start of the stream.
        sampling_range_end: Time in seconds before which a clip must start. A value beyond the end of the stream means
            the end. Clips that reach beyond the end are completed by ``policy``. By default, only clips that fit into
            the stream are decoded, or one clip at ``sampling_range_start`` if none fits. Required if the header does
            not state the end of the stream.
        policy: How to handle a clip that reaches beyond the end of the stream: ``"pad"``, ``"wrap"`` or ``"error"``, as
            in `audio_clips_at_random_timestamps`.

    Returns:
        An `AudioSamplesBatch`. ``data`` is float32 (clips, channels, samples); all clips have the same length.
        ``pts_seconds`` has the start of each clip, and the clip's first sample is the sample nearest to this time.
        ``num_valid_samples`` has the number of decoded samples in each clip, without padding or repetition.

    Raises:
        InvalidArgumentError, SourceTypeError, DecodeError: See `audio_clips_at_random_timestamps`.

    Example:
        >>> from mediatensor.samplers import audio_clips_at_regular_timestamps
        >>> from mediatensor.decoders import AudioDecoder
        >>> clips = audio_clips_at_regular_timestamps(
        ...     AudioDecoder("video.mp4"), seconds_between_clip_starts=1.0, seconds_per_clip=1.0
        ... )
        >>> clips.data.shape
        torch.Size([10, 1, 48000])
    """
    return _plan_regular_audio(**locals()).decode(decoder)


def _plan_audio(
    decoder: SoundDecoder,
    choose_starts: Callable[[float, float], list[float]],
    *,
    seconds_per_clip: float,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: AudioPolicy = "pad",
) -> _AudioPlan:
    """Choose clips; ``choose_starts`` returns their starts for the start and end of the sampling range."""
    seconds_per_clip = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    if not (isinstance(policy, str) and policy in get_args(AudioPolicy)):
        supported = ", ".join(map(repr, get_args(AudioPolicy)))
        raise InvalidArgumentError(f"Invalid policy ({policy}). Supported values for audio are {supported}.")
    check_range(sampling_range_start, sampling_range_end)
    check_decoder(decoder, "get_samples_played_in_ranges", made_by="AudioDecoder")
    stream_begin = decoder.metadata.begin_stream_seconds
    is_open = sampling_range_end is None or float(sampling_range_end) == math.inf
    stream_end = _stream_end(decoder, is_needed=is_open)
    start = check_range_start(sampling_range_start, stream_begin=stream_begin, stream_end=stream_end)
    end = None
    if sampling_range_end is not None:
        end = check_range_end(sampling_range_end, stream_begin=stream_begin, stream_end=stream_end)
        check_not_empty(start, end)
    grid = sample_grid(decoder)
    length = _samples_per_clip(seconds_per_clip, grid.sample_rate)
    starts = choose_starts(start, _default_end(grid, start, length, stream_end=stream_end) if end is None else end)
    _check_total(grid, len(starts), length, seconds_per_clip)
    return _AudioPlan(starts, grid, length, policy)


def _check_total(grid: SampleGrid, num_clips: int, length: int, seconds_per_clip: float) -> None:
    check_samples(
        num_clips * grid.num_channels * length,
        f"seconds_per_clip ({seconds_per_clip}), for {num_clips} clips of {grid.num_channels} channels,",
    )


def _stream_end(decoder: SoundDecoder, *, is_needed: bool) -> float:
    """Return the end of the stream according to its header. If it is unknown, raise if ``is_needed``, or return inf."""
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    if end is None:
        if is_needed:
            raise InvalidArgumentError(
                "The header does not state the end of the stream. Pass a finite sampling_range_end to the sampler, "
                "give the row of the dataset end_seconds, or rewrite the file with its length in the header (ffmpeg -i "
                "old.flac new.flac)."
            )
        return math.inf
    if not end > begin:
        raise InvalidArgumentError(f"The stream has no samples: it starts at {begin} s and ends at {end} s.")
    return end


def _samples_per_clip(seconds_per_clip: float, sample_rate: int) -> int:
    check_samples(seconds_per_clip * sample_rate, f"seconds_per_clip ({seconds_per_clip})")
    length = math.floor(seconds_per_clip * sample_rate + 0.5)
    if length < 1:
        raise InvalidArgumentError(
            f"seconds_per_clip ({seconds_per_clip}) is less than half a sample at {sample_rate} samples per second."
        )
    return length


def _default_end(grid: SampleGrid, start: float, length: int, *, stream_end: float) -> float:
    """Return the default end of the sampling range, so that all clips of ``length`` samples fit into the stream.

    The result is a quarter of a sample after the last possible start. With a smaller distance, rounding could exclude
    the last start. With half a sample or more, a random start could be rounded up to a sample at which the clip no
    longer fits::

        samples              7     8     9    10
                             |-----|-----|-----|  end of the stream
        last clip of 2             |-----------|
        sampling range      )       ^ this end, exclusive

    >>> _default_end(SampleGrid(0.0, 1, 2), 0.0, 4, stream_end=10.0)
    6.25
    >>> _default_end(SampleGrid(0.0, 1, 2), 3.0, 40, stream_end=10.0)  # a range of the one time 3.0
    3.0000000000000004
    """
    last = grid.offset(stream_end) - length
    return max(grid.seconds(last + 0.25), math.nextafter(start, math.inf))


def _write_clip(clip: Tensor, samples: Tensor, start_seconds: float, policy: AudioPolicy) -> int:
    """Copy ``samples`` to the start of a silent clip, fill the rest by ``policy``, and return how many were copied."""
    length = clip.shape[1]
    num_valid = min(samples.shape[1], length)
    clip[:, :num_valid] = samples[:, :num_valid]
    if num_valid < length and policy == "error":
        raise InvalidArgumentError(
            f"You set the 'error' policy, but the stream has only {num_valid} of the {length} samples of the clip that "
            f"starts at {start_seconds} s. Ask for shorter clips, lower sampling_range_end, or use policy='pad' or "
            "'wrap'."
        )
    if num_valid < length and policy == "wrap":
        if num_valid == 0:
            raise InvalidArgumentError(
                f"You set the 'wrap' policy, but the clip that starts at {start_seconds} s has no samples to repeat: "
                "the stream ends earlier than its header states. Lower sampling_range_end, or use policy='pad'."
            )
        clip[:] = samples[:, torch.arange(length, device=samples.device) % num_valid]
    return num_valid


# Clips of frames with their audio


class _AudioVideoPlan(NamedTuple):
    starts: list[float]
    seconds_per_clip: float
    audio_seconds: float  # ``seconds_per_clip``, rounded to a whole number of samples
    video_end: float

    def first_position(self, decoder: Any) -> float:
        return min(self.starts)


def _plan_audio_video(
    decoder: AudioVideoDecoder,
    *,
    seconds_per_clip: float,
    fps: float | None = None,
    num_clips: int = 1,
    policy: ClipPolicy = "pad",
) -> _AudioVideoPlan:
    seconds_per_clip = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    num_clips = check_num_clips(num_clips)
    if policy not in get_args(ClipPolicy):
        raise InvalidArgumentError(f"policy must be 'pad' or 'error' (got {policy!r}).")
    if fps is not None:
        length = len(frame_rate_times(0.0, seconds_per_clip, fps))
        if not length:
            raise InvalidArgumentError(f"seconds_per_clip ({seconds_per_clip}) is less than half a frame at fps={fps}.")
        check_frames(num_clips * length, f"{num_clips} clips of {length} frames")
    check_decoder(decoder, "video", "audio", made_by="AudioVideoDecoder")
    metadata = decoder.video.metadata
    begin, end = metadata.begin_stream_seconds, metadata.end_stream_seconds
    if end is None or not end > begin:
        raise InvalidArgumentError(
            f"The video stream starts at {begin} s and ends at {end} s, so no clip can start in it. Use "
            "seek_mode='exact' if the header of the file is wrong."
        )
    grid = sample_grid(decoder.audio)
    num_samples = grid.offset(grid.begin_seconds + seconds_per_clip)
    _check_total(grid, num_clips, num_samples, seconds_per_clip)
    first, last = grid.offset(begin), grid.offset(end) - num_samples
    if policy == "error" and last < first:
        raise InvalidArgumentError(
            f"You set the 'error' policy, but the video stream lasts {end - begin} s, less than seconds_per_clip "
            f"({seconds_per_clip}). Ask for shorter clips, or use policy='pad'."
        )
    samples = torch.randint(
        first, max(first, last) + 1, (num_clips,), device="cpu", generator=sampling_generator()
    ).tolist()
    # The sample nearest to the start of the stream may be before the start.
    starts = [max(begin, grid.seconds(sample)) for sample in samples]
    return _AudioVideoPlan(starts, seconds_per_clip, num_samples / grid.sample_rate, end)


@planned_by(_plan_audio_video)
def audio_video_clips_at_random_timestamps(
    decoder: AudioVideoDecoder,
    *,
    seconds_per_clip: float,
    fps: float | None = None,
    num_clips: int = 1,
    policy: ClipPolicy = "pad",
) -> list[AudioVideoClip]:
    """Decode clips of frames and audio that start at random times.

    The starts are drawn independently and uniformly from the times at which a clip fits into the video stream. Each
    start is the time of an audio sample, so the audio of a clip starts exactly at this time. All clips have the same
    number of samples. The random numbers come from torch's global generator for the CPU, which is called once for all
    starts.

    Args:
        decoder: An `AudioVideoDecoder`.
        seconds_per_clip: Length of a clip in seconds, above 0.
        fps: Frame rate to which the clips are resampled. Each clip then has ``seconds_per_clip * fps`` frames, rounded
            to the nearest whole number, and half a frame is rounded up. By default, clips have the original frames of
            the file, whose number can differ from clip to clip.
        num_clips: Number of clips, at least 1.
        policy: How to handle a video stream that is shorter than a clip. ``"pad"`` fills the clip with silence after
            the end of the audio and, if ``fps`` is given, repeats the last frame. ``"error"`` raises an
            `InvalidArgumentError`.

    Returns:
        A list of `AudioVideoClip`, each with frames and audio, as `AudioVideoDecoder.get_played_in_range` returns them.
        If ``fps`` is given, the time of frame k is ``start + k / fps``; repetitions of the last frame all have the same
        time.

    Raises:
        InvalidArgumentError: if an argument is invalid, or the video stream is shorter than a clip and ``policy`` is
            ``"error"``.
        SourceTypeError: if ``decoder`` is not an `AudioVideoDecoder`.
        DecodeError: if a frame or sample cannot be decoded.

    Example:
        >>> from mediatensor.decoders import AudioVideoDecoder
        >>> from mediatensor.samplers import audio_video_clips_at_random_timestamps
        >>> decoder = AudioVideoDecoder("video.mp4", sample_rate=16_000)
        >>> clips = audio_video_clips_at_random_timestamps(decoder, seconds_per_clip=1.5, fps=10, num_clips=2)
        >>> [(clip.frames.data.shape[0], clip.samples.data.shape[1]) for clip in clips]
        [(15, 24000), (15, 24000)]
    """
    plan = _plan_audio_video(decoder, seconds_per_clip=seconds_per_clip, fps=fps, num_clips=num_clips, policy=policy)
    stop_after, end = plan.seconds_per_clip, plan.video_end
    if fps is None:
        frames = [
            decoder.video.get_frames_played_in_range(start, min(end, start + stop_after)) for start in plan.starts
        ]
    else:
        frames = _frames_at_rate(decoder, plan.starts, stop_after, fps, end)
    audio = access_to(decoder).samples_in_ranges([(start, start + plan.audio_seconds) for start in plan.starts])
    return [
        AudioVideoClip(batch, samples, silent_spans)
        for batch, (samples, silent_spans) in zip(frames, audio, strict=True)
    ]


def _frames_at_rate(
    decoder: AudioVideoDecoder, starts: list[float], seconds_per_clip: float, fps: float, end: float
) -> list[FrameBatch]:
    """Return the frames of each clip, resampled to ``fps``. After the video's ``end``, the last frame is repeated."""
    steps = frame_rate_times(0.0, seconds_per_clip, fps)
    clock = clock_of(decoder.video, 1 / fps)
    exact_end = clock.exact_end(end) - tolerance_of(decoder.video)
    clips = []
    for start in starts:
        exact = clock.grid(start, 1 / fps, len(steps))
        num_before = max(1, int((exact < exact_end).sum()))
        kept = np.minimum(np.arange(len(steps)), num_before - 1)
        clips.append(((start + steps)[kept], exact[kept]))
    times, exact_times = (torch.from_numpy(np.stack(of_clips)) for of_clips in zip(*clips, strict=True))
    with frames_of_clips(times.shape[1]):
        frames = frames_on_grid(decoder.video, exact_times.flatten().tolist(), clock)
    batch = as_clips(frames, *times.shape)
    return [
        replace(clip, pts_seconds=pts, duration_seconds=torch.full_like(pts, 1 / fps))
        for clip, pts in zip(batch, times, strict=True)
    ]
