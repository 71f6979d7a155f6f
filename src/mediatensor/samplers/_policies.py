"""Policies for clips that run past the end of the video.

A policy takes the positions of a clip that exist (frame indices or times, at least one), and the length of the clip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, cycle, islice, repeat
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import torch
from torch import Tensor

from ..errors import InvalidArgumentError

Policy: TypeAlias = Literal["repeat_last", "wrap", "error"]

Position = TypeVar("Position", int, float)


def repeat_last(positions: Sequence[Position], length: int) -> list[Position]:
    """Repeat the last position.

    >>> repeat_last([4, 6, 8], 5)
    [4, 6, 8, 8, 8]
    """
    return list(islice(chain(positions, repeat(positions[-1])), length))


def wrap(positions: Sequence[Position], length: int) -> list[Position]:
    """Go back to the first position, as often as needed.

    >>> wrap([4, 6, 8], 5)
    [4, 6, 8, 4, 6]
    """
    return list(islice(cycle(positions), length))


def error(positions: Sequence[Position], length: int) -> list[Position]:
    """Accept only complete clips.

    >>> error([4, 6, 8], 3)
    [4, 6, 8]
    >>> error([4, 6, 8], 5)
    Traceback (most recent call last):
    ...
    mediatensor.errors.InvalidArgumentError: You set the 'error' policy, and the sampler tried to decode a frame that \
is beyond the number of frames in the video. Try to leave sampling_range_end to its default value? The clip that \
starts at 4 has 3 of its 5 frames; ask for fewer or closer frames, or use policy='repeat_last' or 'wrap'.
    """
    if len(positions) < length:
        raise InvalidArgumentError(
            "You set the 'error' policy, and the sampler tried to decode a frame that is beyond the number of frames "
            "in the video. Try to leave sampling_range_end to its default value? "
            f"The clip that starts at {positions[0]} has {len(positions)} of its {length} frames; "
            "ask for fewer or closer frames, or use policy='repeat_last' or 'wrap'."
        )
    return list(positions)


_POLICIES: dict[str, Callable[[Sequence[Any], int], list[Any]]] = {
    "repeat_last": repeat_last,
    "wrap": wrap,
    "error": error,
}


def check_policy(policy: object) -> None:
    """Raise unless ``policy`` is the name of a policy."""
    if not (isinstance(policy, str) and policy in _POLICIES):
        raise InvalidArgumentError(
            f"Invalid policy ({policy}). Supported values are {', '.join(map(repr, _POLICIES))}."
        )


def complete(positions: Sequence[Position], length: int, policy: Policy) -> list[Position]:
    """The ``length`` positions of a clip, of which ``positions`` exist in the video.

    >>> complete([0.5, 1.0], 3, "wrap")
    [0.5, 1.0, 0.5]
    """
    return _POLICIES[policy](positions, length)


AudioPolicy: TypeAlias = Literal["pad", "wrap", "error"]


def check_audio_policy(policy: object) -> None:
    """Raise unless ``policy`` is the name of a policy for sound."""
    if not (isinstance(policy, str) and policy in get_args(AudioPolicy)):
        supported = ", ".join(map(repr, get_args(AudioPolicy)))
        raise InvalidArgumentError(f"Invalid policy ({policy}). Supported values for sound are {supported}.")


def write_clip(clip: Tensor, samples: Tensor, start_seconds: float, policy: AudioPolicy) -> int:
    """Fill a silent ``clip`` (channels, length) with the existing ``samples``, and return their number.

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
