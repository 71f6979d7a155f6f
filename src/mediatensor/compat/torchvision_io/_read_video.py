"""`read_video` and `read_video_timestamps`."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..._engine.common.checks import check_choice, finite_number, shown
from ..._engine.index.frame_index import FrameIndex
from ...decoders import AudioDecoder, VideoDecoder, get_container_metadata
from ...errors import InvalidArgumentError, OutOfRangeError
from .. import run_bounded

__all__ = ["Time", "read_video", "read_video_timestamps", "streams_of"]

#: A time, in seconds or in units of a stream.
Time: TypeAlias = float | Fraction


def read_video(
    filename: Any,
    start_pts: Time = 0,
    end_pts: Time | None = None,
    pts_unit: str = "pts",
    output_format: str = "THWC",
    *,
    timeout_seconds: float | None = None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Read the frames and the sound of a range of time.

    The frames are those with start_pts <= pts <= end_pts, and the one that is shown at ``start_pts`` if it began
    before. The sound is that of [start_pts, end_pts). The first video and the first audio stream of the file are read.

    Args:
        filename: A path or URL.
        start_pts: Begin of the range.
        end_pts: Its end, which belongs to it; ``None`` for that of the file.
        pts_unit: ``"sec"`` for seconds, or ``"pts"`` for units of the video stream (without video, of the sound).
        output_format: ``"THWC"`` or ``"TCHW"``, in any case.
        timeout_seconds: Most seconds that it may take, in a process of its own; ``None`` for no limit.

    Returns:
        Frames (T, H, W, 3) or (T, 3, H, W) of uint8, samples (channels, N) of float32 in [-1, 1], and a dictionary with
        ``"video_fps"`` and ``"audio_fps"``, as far as there are such streams. Without frames, (0, 1, 1, 3); without
        samples, (1, 0).

    Raises:
        InvalidArgumentError: if an argument is not accepted, or end_pts < start_pts.
        SourceNotFoundError, OpenError, ReadError: if the file cannot be read.
        DecodeError: if the sound is damaged. Frames that cannot be decoded are left out, with a warning.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_video
        >>> frames, samples, info = read_video("video.mp4", 0.5, 0.6, pts_unit="sec", output_format="TCHW")
        >>> frames.shape, samples.shape
        (torch.Size([4, 3, 360, 640]), torch.Size([1, 4800]))
    """
    if not isinstance(output_format, str) or output_format.upper() not in ("THWC", "TCHW"):
        raise InvalidArgumentError(f"output_format must be 'THWC' or 'TCHW' (got {shown(output_format)}).")
    check_choice("pts_unit", pts_unit, ("pts", "sec"))
    for name, value in (("start_pts", start_pts), ("end_pts", end_pts)):
        if value is not None and not isinstance(value, Fraction) and value != math.inf:
            finite_number(name, value)
    if end_pts is not None and end_pts < start_pts:
        raise InvalidArgumentError(f"end_pts = {end_pts} must not be less than start_pts = {start_pts}.")
    work = partial(_read, filename, start_pts, math.inf if end_pts is None else end_pts, pts_unit == "sec")
    frames, samples, info, num_lost = run_bounded(work, timeout_seconds)
    if num_lost:
        warnings.warn(f"{num_lost} frames of {shown(filename)} cannot be decoded, and were left out.", stacklevel=2)
    return (frames if output_format.upper() == "THWC" else frames.permute(0, 3, 1, 2)), samples, info


def read_video_timestamps(
    filename: Any, pts_unit: str = "pts", *, timeout_seconds: float | None = None
) -> tuple[list[int] | list[Fraction], float | None]:
    """The times of all frames, and the frame rate.

    Args:
        filename: A path or URL.
        pts_unit: ``"sec"`` for seconds, as fractions, or ``"pts"`` for units of the stream, as whole numbers.
        timeout_seconds: Most seconds that it may take, in a process of its own; ``None`` for no limit.

    Returns:
        The times in order, and frames per second as the header says; ``([], None)`` without video.

    Raises:
        InvalidArgumentError: if ``pts_unit`` is not accepted.
        SourceNotFoundError, OpenError, ReadError: if the file cannot be read.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_video_timestamps
        >>> times, fps = read_video_timestamps("video.mp4", pts_unit="sec")
        >>> times[:2], fps
        ([Fraction(0, 1), Fraction(1, 30)], 30.0)
    """
    check_choice("pts_unit", pts_unit, ("pts", "sec"))
    found = run_bounded(partial(_timestamps, filename), timeout_seconds)
    if found is None:
        return [], None
    ticks, time_base, fps = found
    return [tick * time_base for tick in ticks] if pts_unit == "sec" else ticks, fps


def streams_of(source: Any, media_type: str) -> list[Any]:
    """What the header says of the streams of a type, in the order of the file."""
    return [stream for stream in get_container_metadata(source).streams if stream.media_type == media_type]


def _read(source: Any, start: Time, end: Time, is_seconds: bool) -> tuple[Tensor, Tensor, dict[str, Any], int]:
    """The frames (T, H, W, 3), the samples, what is known of them, and how many frames could not be decoded."""
    info: dict[str, Any] = {}
    frames, num_lost = torch.empty((0, 1, 1, 3), dtype=torch.uint8), 0
    unit = None
    videos, sounds = streams_of(source, "video"), streams_of(source, "audio")
    if videos:
        if videos[0].average_fps_from_header is not None:
            info["video_fps"] = float(videos[0].average_fps_from_header)
        with VideoDecoder(
            source,
            stream_index=videos[0].stream_index,
            dimension_order="NHWC",
            on_error="skip",
            on_size_change="scale",
        ) as decoder:
            index = decoder.frame_index
            unit = index.time_base
            wanted = _frames_of(index, start, end, is_seconds)
            if wanted:
                batch = decoder.get_frames_at(wanted)
                frames, num_lost = batch.data, sum(report.num_missing or 1 for report in batch.replaced)
    samples = torch.empty((1, 0))
    if sounds:
        with AudioDecoder(source, stream_index=sounds[0].stream_index) as sound:
            info["audio_fps"] = sound.metadata.sample_rate
            if not is_seconds:
                unit = unit or Fraction(1, sound.metadata.sample_rate or 1)
                start, end = start * unit, end * unit
            samples = _samples_of(sound, float(start), float(end))
    return frames, samples, info, num_lost


def _frames_of(index: FrameIndex, start: Time, end: Time, is_seconds: bool) -> list[int]:
    """Which frames belong to a range; torchvision rounds its ends outwards, to units of the stream."""
    if is_seconds:
        start = math.floor(start * (1 / index.time_base))
        end = end if end == math.inf else math.ceil(end * (1 / index.time_base))
    begin = float(start)
    wanted: list[int] = np.flatnonzero((index.pts >= begin) & (index.pts <= float(end))).tolist()
    before = int(np.searchsorted(index.pts, begin))
    if begin > 0 and before > 0 and (before == len(index) or index.pts[before] != begin):
        return [before - 1, *wanted]
    return wanted


def _samples_of(sound: AudioDecoder, start: float, end: float) -> Tensor:
    try:
        return sound.get_samples_played_in_range(max(start, 0.0), None if end == math.inf else max(end, 0.0)).data
    except OutOfRangeError:
        return torch.empty((1, 0))


def _timestamps(source: Any) -> tuple[list[int], Fraction, float | None] | None:
    videos = streams_of(source, "video")
    if not videos:
        return None
    with VideoDecoder(source, stream_index=videos[0].stream_index) as decoder:
        index = decoder.frame_index
        return index.pts.tolist(), index.time_base, videos[0].average_fps_from_header
