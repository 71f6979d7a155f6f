"""Clips of sound by time: `audio_clips_at_random_timestamps` and `audio_clips_at_regular_timestamps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from .._engine.audio.sample_grid import SampleGrid, SoundDecoder, existing_samples, sample_grid
from .._engine.common.limits import check_samples
from ..errors import InvalidArgumentError
from ..frames import AudioSamplesBatch
from ._common import (
    check_decoder,
    check_not_empty,
    check_num_clips,
    check_positive_seconds,
    check_range_end,
    check_range_start,
    check_seconds,
    random_starts,
    regular_starts,
)
from ._policies import AudioPolicy, check_audio_policy, write_clip


def audio_clips_at_random_timestamps(
    decoder: SoundDecoder,
    *,
    seconds_per_clip: float,
    num_clips: int = 1,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: AudioPolicy = "pad",
) -> AudioSamplesBatch:
    """Decodes clips of sound that start at random times.

    The starts are uniform over the sampling range and independent of each other. Clips of 4 s of a stream from 0 s to
    10 s start in [0 s, 6 s] by default::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 ]
        earliest clip      |-----------|
        latest clip                          |-----------|

    The random numbers come from torch's global generator for the CPU, in one draw: ``torch.manual_seed`` makes
    the clips reproducible.

    Args:
        decoder: An `AudioDecoder`, whose ``sample_rate`` and ``num_channels`` the clips have, or a `WavDecoder`.
        seconds_per_clip: Length of a clip in seconds, above 0; in samples it is rounded to the nearest, halves up.
        num_clips: Number of clips, at least 1.
        sampling_range_start: Time from which a clip may start in seconds; by default the begin of the stream.
        sampling_range_end: Time before which a clip must start in seconds; a value beyond the end of the stream means
            the end. By default clips start where they end with the stream at the latest, or at
            ``sampling_range_start`` if the stream is too short for that. A stream whose header does not tell where it
            ends needs it.
        policy: What to do with a clip that runs past the end of the stream: ``"pad"`` fills up with silence,
            ``"wrap"`` goes back to the clip's start, ``"error"`` raises.

    Returns:
        Samples float32 (num_clips, channels, samples), all clips of the same length. ``pts_seconds`` are the starts;
        the first sample is the one nearest to it. ``num_valid_samples`` tells what a policy filled up.

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the end of the stream is
            not known, or a clip runs past the end and ``policy`` is ``"error"``. It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
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
    num_clips = check_num_clips(num_clips)
    return _sample(
        decoder,
        partial(random_starts, num_clips=num_clips),
        seconds_per_clip=seconds_per_clip,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


def audio_clips_at_regular_timestamps(
    decoder: SoundDecoder,
    *,
    seconds_between_clip_starts: float,
    seconds_per_clip: float,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: AudioPolicy = "pad",
) -> AudioSamplesBatch:
    """Decodes clips of sound that start at evenly spaced times.

    There are as many clips as the sampling range has room for. Clips of 4 s, every 3 s, of a stream from 0 s to 10 s::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 ]
        clip 0             |-----------|
        clip 1                      |-----------|
        clip 2                               |-----------|

    Args:
        decoder: An `AudioDecoder`, whose ``sample_rate`` and ``num_channels`` the clips have, or a `WavDecoder`.
        seconds_between_clip_starts: Time from the start of a clip to the start of the next in seconds, above 0. If it
            is ``seconds_per_clip``, and both are a whole number of samples, the clips tile the stream.
        seconds_per_clip: Length of a clip in seconds, above 0; in samples it is rounded to the nearest, halves up.
        sampling_range_start: Start of the first clip in seconds; by default the begin of the stream.
        sampling_range_end: Time before which a clip must start in seconds; a value beyond the end of the stream means
            the end: then the policy completes the last clips. By default clips start where they end with the stream
            at the latest, or there is one at ``sampling_range_start`` if the stream is too short for that. A stream
            whose header does not tell where it ends needs it.
        policy: What to do with a clip that runs past the end of the stream: ``"pad"`` fills up with silence,
            ``"wrap"`` goes back to the clip's start, ``"error"`` raises.

    Returns:
        Samples float32 (clips, channels, samples), all clips of the same length. ``pts_seconds`` are the starts; the
        first sample is the one nearest to it. ``num_valid_samples`` tells what a policy filled up.

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the end of the stream is
            not known, or a clip runs past the end and ``policy`` is ``"error"``. It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if the samples cannot be decoded.

    Example:
        >>> from mediatensor.samplers import audio_clips_at_regular_timestamps
        >>> from mediatensor.decoders import AudioDecoder
        >>> clips = audio_clips_at_regular_timestamps(
        ...     AudioDecoder("video.mp4"), seconds_between_clip_starts=1.0, seconds_per_clip=1.0
        ... )
        >>> clips.data.shape
        torch.Size([10, 1, 48000])
    """
    seconds_between_clip_starts = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)
    return _sample(
        decoder,
        partial(regular_starts, seconds_between_clip_starts=seconds_between_clip_starts),
        seconds_per_clip=seconds_per_clip,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


def _sample(
    decoder: SoundDecoder,
    choose_starts: Callable[[float, float], list[float]],
    *,
    seconds_per_clip: float,
    sampling_range_start: float | None,
    sampling_range_end: float | None,
    policy: AudioPolicy,
) -> AudioSamplesBatch:
    """Decodes the clips at the starts that ``choose_starts`` gives for the bounds of the sampling range."""
    seconds_per_clip = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    check_audio_policy(policy)
    check_decoder(decoder, "get_samples_played_in_ranges", made_by="AudioDecoder")
    stream_begin = decoder.metadata.begin_stream_seconds
    stream_end = _stream_end(decoder, is_needed=sampling_range_end is None)
    start = check_range_start(
        None if sampling_range_start is None else check_seconds("sampling_range_start", sampling_range_start),
        stream_begin=stream_begin,
        stream_end=stream_end,
    )
    end = None
    if sampling_range_end is not None:
        end = check_seconds("sampling_range_end", sampling_range_end)
        end = check_range_end(end, stream_begin=stream_begin, stream_end=stream_end)
        check_not_empty(start, end)
    grid = sample_grid(decoder)
    length = _samples_per_clip(seconds_per_clip, grid.sample_rate)
    starts = choose_starts(start, _default_end(grid, start, length, stream_end=stream_end) if end is None else end)
    check_samples(
        len(starts) * grid.num_channels * length,
        f"seconds_per_clip ({seconds_per_clip}), for {len(starts)} clips of {grid.num_channels} channels,",
    )
    firsts = [grid.offset(seconds) for seconds in starts]
    pieces = existing_samples(decoder, grid, [(first, first + length) for first in firsts])
    data = torch.zeros(len(starts), grid.num_channels, length, device="cpu")
    num_valid = [
        write_clip(clip, samples, seconds, policy) for clip, samples, seconds in zip(data, pieces, starts, strict=True)
    ]
    duration_seconds = [length / grid.sample_rate] * len(starts)
    return AudioSamplesBatch(data, starts, duration_seconds, grid.sample_rate, num_valid)  # type: ignore[arg-type]


def _stream_end(decoder: SoundDecoder, *, is_needed: bool) -> float:
    """Where the stream ends, by its header; infinity if that is not known and not ``is_needed``."""
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    if end is None:
        if is_needed:
            raise InvalidArgumentError(
                "The metadata of the stream do not tell where it ends. Give sampling_range_end, the time before which "
                "clips start, to the sampler; or, of a dataset, give the row end_seconds, or write the file anew, so "
                "that its header has its length (ffmpeg -i old.flac new.flac)."
            )
        return math.inf
    if not end > begin:
        raise InvalidArgumentError(f"The stream has no samples: it begins at {begin} s and ends at {end} s.")
    return end


def _samples_per_clip(seconds_per_clip: float, sample_rate: int) -> int:
    """The length of a clip in samples: the nearest whole number, halves up.

    >>> _samples_per_clip(0.5, 22_050), _samples_per_clip(0.5, 11_025)
    (11025, 5513)
    """
    check_samples(seconds_per_clip * sample_rate, f"seconds_per_clip ({seconds_per_clip})")
    length = math.floor(seconds_per_clip * sample_rate + 0.5)
    if length < 1:
        raise InvalidArgumentError(
            f"seconds_per_clip ({seconds_per_clip}) is less than half a sample at {sample_rate} samples per second."
        )
    return length


def _default_end(grid: SampleGrid, start: float, length: int, *, stream_end: float) -> float:
    """The time before which a clip starts that ends with the stream at the latest.

    That is a quarter of a sample behind the last such sample: neither may rounding take the last clip from a regular
    grid, nor may a time round to the sample behind it::

        samples              7     8     9    10
                             |-----|-----|-----|  end of the stream
        last clip of 2             |-----------|
        sampling range      )       ^ this end, exclusive

    >>> _default_end(SampleGrid(0.0, 1, 2), 0.0, 4, stream_end=10.0)
    6.25
    >>> _default_end(SampleGrid(0.0, 1, 2), 3.0, 40, stream_end=10.0)  # one place: 3.0 and no time behind it
    3.0000000000000004
    """
    last = grid.offset(stream_end) - length
    return max(grid.seconds(last + 0.25), math.nextafter(start, math.inf))
