"""Damage that an index knows of: which holes a call reaches over, and what users are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import DamageWarning, DecodeError
from ...frames import ReplacedFrame
from ..common.checks import TIME_TOLERANCE
from ..common.limits import frames_per_clip
from ..common.messages import counted, warn_once
from ..index.frame_index import FrameIndex
from ..index.holes import FrameHole, describe_hole, describe_holes

__all__ = ["Asked", "hole_error", "hole_reports", "reached_holes", "warn_of_damage"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for beyond the frames themselves, which decides the holes that it reaches over.

    Attributes:
        seconds: The time of each frame; ``None`` if they were not asked for by time.
        is_grid: Whether these times are before the rounding of the container, see `FrameClock`.
        stop_seconds: Where a range of time ends; ``None`` if the call asks for no range.
        previous: The frame before the first one, which the caller has already; ``None`` if there is none.
    """

    seconds: NDArray[np.float64] | None = None
    is_grid: bool = False
    stop_seconds: float | None = None
    previous: int | None = None


def reached_holes(index: FrameIndex, frames: Sequence[int], asked: Asked) -> list[tuple[FrameHole, int]]:
    """The holes that a call reaches over, each with the row of the first frame at or after it.

    A call reaches over a hole if it has frames from before and from after it, or asks for a time within it. Of several
    clips (`frames_of_clips`), each is looked at by itself.

    Args:
        index: The frames of the stream.
        frames: The frames asked for.
        asked: What else is known of them.
    """
    if not len(index.hole_frame) or not len(frames):
        return []
    holes = index.holes
    wanted = np.asarray(frames, np.int64)
    within = _holes_of_times(index, wanted, asked)
    length = frames_per_clip.get() or len(wanted)
    reached = []
    for start in range(0, len(wanted), length):
        clip = wanted[start : start + length]
        places = clip if asked.previous is None else np.append(clip, asked.previous)
        first, stop = np.searchsorted(index.hole_frame, [places.min(), places.max()], side="right").tolist()
        numbers = {*range(first, stop), *within[start : start + length].tolist()} - {-1}
        for number in sorted(numbers):
            is_at = (clip >= index.hole_frame[number]) | (within[start : start + length] == number)
            row = int(is_at.argmax()) if is_at.any() else len(clip) - 1
            reached.append((holes[number], start + row))
    return reached


def _holes_of_times(index: FrameIndex, frames: NDArray[np.int64], asked: Asked) -> NDArray[np.int64]:
    """The hole that the time of each row lies in; -1 for none."""
    after = np.searchsorted(index.hole_frame, frames, side="right")
    number = after.clip(max=len(index.hole_frame) - 1)
    is_last_before = index.hole_frame[number] == frames + 1
    begins = np.array([hole.start_seconds for hole in index.holes])[number]
    if asked.seconds is not None:
        # The container may have rounded the time of the missing frame up.
        tolerance = max(TIME_TOLERANCE, index._clock.quantum / 2 if asked.is_grid else 0.0)
        is_within = asked.seconds >= begins - tolerance
    elif asked.stop_seconds is not None:
        is_within = (frames == frames.max()) & (asked.stop_seconds > begins + TIME_TOLERANCE)
    else:
        is_within = np.zeros(len(frames), bool)
    return np.where(is_last_before & is_within, number, -1)


def hole_error(hole: FrameHole, index: FrameIndex) -> DecodeError:
    """The error of a call that reaches over a hole."""
    return DecodeError(
        f"The frames that were asked for reach over a hole: {describe_hole(hole, len(index))}. Ask for frames on one "
        "side of it, or pass on_error='keep', 'skip' or 'nearest'."
    )


def hole_reports(
    reached: Sequence[tuple[FrameHole, int]], frames: Sequence[int], index: FrameIndex
) -> tuple[ReplacedFrame, ...]:
    """The holes that a call reaches over, as its result lists them."""
    return tuple(
        ReplacedFrame(frames[row], describe_hole(hole, len(index)), row, frames[row], num_missing=hole.num_packets)
        for hole, row in reached
    )


def warn_of_damage(name: str, index: FrameIndex | None = None) -> None:
    """Warn that a file is damaged, once in this process for each file.

    Args:
        name: Of the file.
        index: The frames of the stream; ``None`` if it does not know which are damaged.
    """
    if index is None or index.is_authoritative:
        found = ["the codec flags frames as damaged"]
    else:
        count = int(index.is_damaged.sum())
        found = [f"the codec flags {counted(count, 'frame')} as damaged"] if count else []
        found += describe_holes(index.holes, len(index))
    warn_once(
        f"{name} is damaged: {'; '.join(found)}. Frames are given as the codec makes them, and is_damaged of a result "
        "says which are flagged. (on_error='raise' makes damage an error, 'skip' leaves damaged frames out, 'nearest' "
        "puts others in their place.)",
        DamageWarning,
    )
