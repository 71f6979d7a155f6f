"""`write_video`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._engine.common.checks import options_dict, path_text, shown
from ...encoders import Encoder
from ...errors import InvalidArgumentError
from .. import run_bounded

__all__ = ["write_video"]


def write_video(
    filename: Any,
    video_array: Any,
    fps: float,
    video_codec: str = "libx264",
    options: Mapping[str, Any] | None = None,
    audio_array: Any = None,
    audio_fps: float | None = None,
    audio_codec: str | None = None,
    audio_options: Mapping[str, Any] | None = None,
    *,
    timeout_seconds: float | None = None,
) -> None:
    """Write frames, and sound if there is some, into a file. It appears when it is complete.

    Args:
        filename: A path; its extension selects the container.
        video_array: Frames (T, H, W, 3), which are converted to uint8.
        fps: Frames per second, which need not be a whole number.
        video_codec: Name of an encoder. Pixels are stored as ``"yuv420p"``, those of ``"libx264rgb"`` as RGB.
        options: Options of the encoder, such as ``{"crf": "17"}``.
        audio_array: Samples (channels, N): floating point in [-1, 1], or whole numbers in the range of their type.
        audio_fps: Samples per second.
        audio_codec: Name of an encoder of sound; by default the container's own.
        audio_options: ``{"b": bits_per_second}``.
        timeout_seconds: Most seconds that it may take, in a process of its own; ``None`` for no limit.

    Raises:
        InvalidArgumentError: if an argument is not accepted.
        EncodeError: if FFmpeg cannot encode it like this.
        WriteError: if the file cannot be written.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import read_video, write_video
        >>> write_video("frames.mp4", torch.zeros(10, 48, 64, 3, dtype=torch.uint8), fps=25, options={"crf": "17"})
        >>> read_video("frames.mp4")[0].shape
        torch.Size([10, 48, 64, 3])
    """
    frames = torch.as_tensor(video_array, dtype=torch.uint8)
    if frames.ndim != 4 or frames.shape[3] != 3 or len(frames) == 0:
        raise InvalidArgumentError(f"video_array must be frames (T, H, W, 3) (got {shown(frames)}).")
    sound = None
    if audio_array is not None:
        if audio_fps is None:
            raise InvalidArgumentError("audio_array needs audio_fps, its samples per second.")
        options_of_sound = options_dict("audio_options", audio_options, _sound_options)
        sound = (_samples(audio_array), int(audio_fps), audio_codec, _sound_options(**options_of_sound))
    work = partial(_write, path_text("filename", filename), frames.cpu(), fps, video_codec, dict(options or {}), sound)
    run_bounded(work, timeout_seconds)


def _sound_options(*, b: Any = None, bit_rate: Any = None) -> int | None:
    found = b if b is not None else bit_rate
    return None if found is None else int(found)


def _samples(audio_array: Any) -> Tensor:
    samples = torch.as_tensor(audio_array).cpu()
    if samples.ndim != 2 or samples.shape[0] == 0:
        raise InvalidArgumentError(f"audio_array must be samples (channels, N) (got {shown(samples)}).")
    if samples.is_floating_point():
        return samples.float()
    if samples.dtype not in (torch.uint8, torch.int16, torch.int32):
        raise InvalidArgumentError(f"audio_array must be of float, int16, int32 or uint8 (got {samples.dtype}).")
    if samples.dtype == torch.uint8:
        return (samples.float() - 128) / 128
    return (samples.double() / -torch.iinfo(samples.dtype).min).float()


def _write(
    path: str,
    frames: Tensor,
    fps: float,
    codec: str,
    options: dict[str, Any],
    sound: tuple[Tensor, int, str | None, int | None] | None,
) -> None:
    encoder = Encoder()
    pixel_format = "rgb24" if codec == "libx264rgb" else "yuv420p"
    video = encoder.add_video(
        height=frames.shape[1],
        width=frames.shape[2],
        frame_rate=fps,
        codec=codec,
        pixel_format=pixel_format,
        extra_options=options,
    )
    if sound is None:
        with encoder.open_file(path):
            video.add_frames(frames.permute(0, 3, 1, 2))
        return
    samples, sample_rate, audio_codec, bit_rate = sound
    audio = encoder.add_audio(sample_rate=sample_rate, num_channels=len(samples), codec=audio_codec, bit_rate=bit_rate)
    with encoder.open_file(path):
        audio.add_samples(samples)
        video.add_frames(frames.permute(0, 3, 1, 2))
