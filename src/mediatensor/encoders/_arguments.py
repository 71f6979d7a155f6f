"""Checking what users pass to an encoder: pure functions that return the value in its plain form or raise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from .._common.checks import shown, whole_number
from .._common.devices import checked_device
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, FrameBatch

__all__ = [
    "MAX_WHOLE",
    "channels_and_samples",
    "check_device",
    "check_frames",
    "check_has_values",
    "frame_rate_fraction",
    "options_of",
    "positive_whole",
]

# Denominators of the rates in use (30000/1001), and what a rate may be off for the sake of a small fraction.
_MAX_DENOMINATOR = 1001
_MAX_RELATIVE_ERROR = 1e-7
_FINE_DENOMINATOR = 100_000
_MAX_FRAME_RATE = 100_000

# What FFmpeg counts rates, channels and pixels with.
MAX_WHOLE = 2**31 - 1


def frame_rate_fraction(frame_rate: Any) -> Fraction:
    """A frame rate as the fraction that was meant.

    >>> frame_rate_fraction(29.97002997), frame_rate_fraction(29.97), frame_rate_fraction(25)
    (Fraction(30000, 1001), Fraction(2997, 100), Fraction(25, 1))
    """
    try:
        rate = Fraction(frame_rate)
    except (TypeError, ValueError, ArithmeticError):
        raise InvalidArgumentError(f"frame_rate = {shown(frame_rate)} must be a number > 0.") from None
    if not 0 < rate <= _MAX_FRAME_RATE:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} must be > 0. (At most {_MAX_FRAME_RATE}.)")
    simple = rate.limit_denominator(_MAX_DENOMINATOR)
    if abs(simple - rate) <= rate * _MAX_RELATIVE_ERROR:
        return simple
    fine = rate.limit_denominator(_FINE_DENOMINATOR)
    if not fine:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} is too small; it must be at least 1e-5.")
    return fine


def positive_whole(name: str, value: Any) -> int:
    """
    >>> positive_whole("sample_rate", 16000)
    16000
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return whole_number(name, value, at_least=1, at_most=MAX_WHOLE)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{name} = {shown(value)} must be > 0. (A whole number, at most {MAX_WHOLE}.)"
        ) from None


def check_device(device: object) -> None:
    """Raise unless torch has a device; ``None`` is any."""
    if device is not None:
        checked_device(device)


def check_has_values(name: str, data: Tensor) -> None:
    """Raise if a tensor has no values, and so nothing that could be encoded."""
    if data.is_meta:
        raise InvalidArgumentError(f"The {name} are on the device 'meta', where tensors have no values.")


def check_frames(frames: object, height: int | None = None, width: int | None = None) -> Tensor:
    """The frames (N, 3, H, W) of a tensor or a batch, uint8 on any device, of the size that the stream has."""
    data = frames.data if isinstance(frames, FrameBatch) else frames
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected frames to be a Tensor or a FrameBatch, got {type(data)}.")
    if data.ndim != 4:
        raise InvalidArgumentError(f"Expected 4D frames, (N, C, H, W), got {tuple(data.shape)}.")
    if data.dtype != torch.uint8:
        raise InvalidArgumentError(f"Expected uint8 frames: frames must have uint8 dtype, got {data.dtype}.")
    check_has_values("frames", data)
    if data.shape[1] != 3:
        raise InvalidArgumentError(
            f"Each frame must have 3 channels (R, G, B), got {data.shape[1]}: the shape is {tuple(data.shape)}, and "
            "(N, C, H, W) is expected."
        )
    if height is not None and tuple(data.shape[2:]) != (height, width):
        raise InvalidArgumentError(
            f"All frames must have the same dimensions: height {height} and width {width}, "
            f"got {data.shape[2]} and {data.shape[3]}."
        )
    return data.detach()


def channels_and_samples(samples: object, num_channels: int | None = None) -> Tensor:
    """Samples as float32 (C, N) on the CPU, finite, with as many channels as the stream has."""
    data = samples.data if isinstance(samples, AudioSamples) else samples
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected samples to be a Tensor or AudioSamples, got {type(data)}.")
    if data.ndim not in (1, 2):
        raise InvalidArgumentError(f"Expected 1D or 2D samples, (N,) or (C, N), got {tuple(data.shape)}.")
    if data.dtype != torch.float32:
        raise InvalidArgumentError(f"Expected float32 samples, got {data.dtype}.")
    check_has_values("samples", data)
    data = data.detach().reshape(1, -1) if data.ndim == 1 else data.detach()
    if num_channels is not None and data.shape[0] != num_channels:
        raise InvalidArgumentError(
            f"Expected {num_channels} channels, got {data.shape[0]}: the shape is {tuple(data.shape)}, and (C, N) is "
            "expected."
        )
    data = data.cpu()
    _check_is_finite(data)
    return data


def _check_is_finite(samples: Tensor) -> None:
    """Raise if samples (C, N) have NaN or infinity, of which every codec makes something else."""
    # The extremes need no tensor of that size, and NaN is among them wherever it is.
    if samples.numel() and not torch.isfinite(torch.stack(samples.aminmax())).all():
        channel, number = (~torch.isfinite(samples)).nonzero()[0].tolist()
        raise InvalidArgumentError(
            f"samples must be finite numbers, and sample {number} of channel {channel} is "
            f"{samples[channel, number].item()}; torch.nan_to_num makes silence of NaN."
        )


def options_of(extra_options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as FFmpeg takes them: text.

    >>> options_of({"g": 12, "movflags": "faststart"})
    {'g': '12', 'movflags': 'faststart'}
    """
    if extra_options is None:
        return {}
    if not isinstance(extra_options, Mapping) or not all(isinstance(key, str) for key in extra_options):
        raise InvalidArgumentError(f"extra_options must be a dict with str keys (got {shown(extra_options)}).")
    options = {key: str(value) for key, value in extra_options.items()}
    if any("\0" in text for option in options.items() for text in option):
        raise InvalidArgumentError(f"extra_options must not contain the character NUL (got {shown(extra_options)}).")
    return options
