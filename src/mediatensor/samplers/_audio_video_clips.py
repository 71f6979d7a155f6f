"""Clips of pictures and sound: `audio_video_clips_at_random_timestamps`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._engine.audio.sample_grid import sample_grid
from .._engine.common.checks import frame_rate_times
from .._engine.common.limits import frames_of_clips
from ..errors import InvalidArgumentError
from ..frames import AudioVideoClip, FrameBatch
from ._common import (
    as_clips,
    check_decoder,
    check_num_clips,
    check_positive_seconds,
    clock_of,
    frames_on_grid,
    tolerance_of,
)

if TYPE_CHECKING:
    from ..decoders import AudioVideoDecoder

ClipPolicy: TypeAlias = Literal["pad", "error"]


def audio_video_clips_at_random_timestamps(
    decoder: AudioVideoDecoder,
    *,
    seconds_per_clip: float,
    fps: float | None = None,
    num_clips: int = 1,
    policy: ClipPolicy = "pad",
) -> list[AudioVideoClip]:
    """Decodes clips of pictures and sound that start at random times.

    The starts are uniform over all times from which a clip fits into the pictures, in steps of a sample of sound, and
    independent of each other. They fall on samples so that all clips of a rate have the same number of them, and the
    first frame and the first sample belong to one time. The random numbers come from torch's global generator for the
    CPU, in one draw.

    Args:
        decoder: Where to take them from; its ``sample_rate`` and ``num_channels`` are those of the sound.
        seconds_per_clip: Length of a clip in seconds, above 0.
        fps: Frames per second of the clips, which then all have ``seconds_per_clip * fps`` frames, rounded, halves up.
            ``None``: the frames that the file has there, of which there may be more in one clip than in another.
        num_clips: Number of clips, at least 1.
        policy: What to do with a file whose pictures are shorter than a clip: ``"pad"`` repeats the last frame (with
            ``fps``) while the sound goes on, with silence behind its end; ``"error"`` raises.

    Returns:
        The clips, as `AudioVideoDecoder.get_played_in_range` gives them. With ``fps``, the times of the frames are
        those of the grid (k / fps behind the start), but repeated frames have those of the last one.

    Raises:
        InvalidArgumentError: if an argument is not as described, or a clip does not fit and ``policy`` is ``"error"``.
        SourceTypeError: if ``decoder`` is not an `AudioVideoDecoder`.
        DecodeError: if something cannot be decoded.

    Example:
        >>> from mediatensor.decoders import AudioVideoDecoder
        >>> from mediatensor.samplers import audio_video_clips_at_random_timestamps
        >>> decoder = AudioVideoDecoder("video.mp4", sample_rate=16_000)
        >>> clips = audio_video_clips_at_random_timestamps(decoder, seconds_per_clip=1.5, fps=10, num_clips=2)
        >>> [(clip.frames.data.shape[0], clip.samples.data.shape[1]) for clip in clips]
        [(15, 24000), (15, 24000)]
    """
    check_decoder(decoder, "video", "audio", made_by="AudioVideoDecoder")
    seconds_per_clip, num_clips = check_audio_video_clips(seconds_per_clip, fps, num_clips, policy)
    begin, end = _span_of_pictures(decoder)
    grid = sample_grid(decoder.audio)
    num_samples = grid.offset(grid.begin_seconds + seconds_per_clip)
    first, last = grid.offset(begin), grid.offset(end) - num_samples
    if policy == "error" and last < first:
        raise InvalidArgumentError(
            f"You set the 'error' policy, and the pictures last for {end - begin} s, less than seconds_per_clip "
            f"({seconds_per_clip}). Ask for shorter clips, or use policy='pad'."
        )
    samples = torch.randint(first, max(first, last) + 1, (num_clips,), device="cpu")
    # The sample nearest to the begin may lie before it.
    starts = [max(begin, grid.seconds(sample)) for sample in samples.tolist()]
    if fps is None:
        frames = [
            decoder.video.get_frames_played_in_range(start, min(end, start + seconds_per_clip)) for start in starts
        ]
    else:
        frames = _frames_at_rate(decoder, starts, seconds_per_clip, fps, end)
    sound = decoder._sound([(start, start + num_samples / grid.sample_rate) for start in starts])
    return [
        AudioVideoClip(batch, samples, silent_spans)
        for batch, (samples, silent_spans) in zip(frames, sound, strict=True)
    ]


def check_audio_video_clips(
    seconds_per_clip: float, fps: float | None, num_clips: int, policy: ClipPolicy
) -> tuple[float, int]:
    """The checked length and number of clips; raises if one of the arguments is not accepted."""
    seconds = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    number = check_num_clips(num_clips)
    if policy not in get_args(ClipPolicy):
        raise InvalidArgumentError(f"policy must be 'pad' or 'error' (got {policy!r}).")
    if fps is not None:
        frame_rate_times(0.0, seconds, fps)
    return seconds, number


def _span_of_pictures(decoder: AudioVideoDecoder) -> tuple[float, float]:
    metadata = decoder.video.metadata
    begin, end = metadata.begin_stream_seconds, metadata.end_stream_seconds
    if end is None or not end > begin:
        raise InvalidArgumentError(
            f"The pictures begin at {begin} s and end at {end} s: there is no time at which a clip could start. "
            "Use seek_mode='exact' if the header of the file is wrong."
        )
    return begin, end


def _frames_at_rate(
    decoder: AudioVideoDecoder, starts: list[float], seconds_per_clip: float, fps: float, end: float
) -> list[FrameBatch]:
    """The frames of each clip on a grid of ``1 / fps``; behind the end the last one that there is."""
    steps = torch.from_numpy(frame_rate_times(0.0, seconds_per_clip, fps))
    if not len(steps):
        raise InvalidArgumentError(f"seconds_per_clip ({seconds_per_clip}) is less than half a frame at fps={fps}.")
    clock = clock_of(decoder.video, 1 / fps)
    meant_end = clock.exact_end(end) - tolerance_of(decoder.video)
    clips = []
    for start in starts:
        meant = torch.from_numpy(clock.grid(start, 1 / fps, len(steps)))
        num_before = max(1, int((meant < meant_end).sum()))
        clips.append([_repeating_last(times, num_before) for times in (start + steps, meant)])
    times, meant = (torch.stack(list(of_clips)) for of_clips in zip(*clips, strict=True))
    with frames_of_clips(times.shape[1]):
        frames = frames_on_grid(decoder.video, meant.flatten().tolist(), clock)
    batch = as_clips(frames, *times.shape)
    return [
        replace(clip, pts_seconds=pts, duration_seconds=torch.full_like(pts, 1 / fps))
        for clip, pts in zip(batch, times, strict=True)
    ]


def _repeating_last(times: Tensor, num_before: int) -> Tensor:
    """Return the first ``num_before`` times, and the last of these in place of the remaining ones.

    >>> import torch
    >>> _repeating_last(torch.tensor([0.0, 0.5, 1.0, 1.5]), 2).tolist()
    [0.0, 0.5, 0.5, 0.5]
    """
    return torch.cat([times[:num_before], times[num_before - 1].expand(len(times) - num_before)])
