"""Policies for sound: what becomes of a clip that runs past the end of the stream.

Repeating the last sample, as the samplers of frames do with the last frame, would be a constant tone of 0 Hz. So the
default for sound is silence.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from mediatensor.errors import InvalidArgumentError

AudioPolicy: TypeAlias = Literal["pad", "wrap", "error"]


def check_audio_policy(policy: object) -> None:
    """Raises if ``policy`` is not the name of a policy for sound."""
    if not (isinstance(policy, str) and policy in get_args(AudioPolicy)):
        supported = ", ".join(map(repr, get_args(AudioPolicy)))
        raise InvalidArgumentError(f"Invalid policy ({policy}). Supported values for sound are {supported}.")


def write_clip(clip: Tensor, samples: Tensor, start_seconds: float, policy: AudioPolicy) -> int:
    """Fills ``clip`` (channels, length), which is silent, with the ``samples`` that there are; returns their number.

    >>> import torch
    >>> clip = torch.zeros(1, 5)
    >>> write_clip(clip, torch.tensor([[1.0, 2.0]]), 0.0, "wrap"), clip.tolist()
    (2, [[1.0, 2.0, 1.0, 2.0, 1.0]])
    """
    length = clip.shape[1]
    num_valid = min(samples.shape[1], length)
    clip[:, :num_valid] = samples[:, :num_valid]
    if num_valid < length and policy == "error":
        raise InvalidArgumentError(
            f"You set the 'error' policy, and the clip that starts at {start_seconds} s has {num_valid} of its "
            f"{length} samples: the stream ends before it does. Ask for shorter clips, set sampling_range_end "
            "earlier, or use policy='pad' or 'wrap'."
        )
    if num_valid < length and policy == "wrap":
        if num_valid == 0:
            raise InvalidArgumentError(
                f"You set the 'wrap' policy, but the clip that starts at {start_seconds} s has no samples to repeat: "
                "the stream ends earlier than its header says. Set sampling_range_end earlier, or use policy='pad'."
            )
        clip[:] = samples[:, torch.arange(length, device=samples.device) % num_valid]
    return num_valid
