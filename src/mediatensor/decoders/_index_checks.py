"""Whether the parts of a frame index fit together, so that whoever uses it cannot be led out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._frame_index_answers import NO_PTS

__all__ = ["find_inconsistency"]

# Times that can be added and subtracted without overflow.
_MAX_TICKS = 1 << 61
# More packets than there are in a month of 25 frames per second.
_MAX_PACKETS = 1 << 26


def find_inconsistency(index: Any) -> str | None:
    """What is wrong, as the end of a sentence that begins with "it"; ``None`` if nothing is.

    Args:
        index: A `FrameIndex`, or something with its attributes whose arrays have the right types and lengths.
    """
    checks = [_frame_faults(index), _entry_faults(index)]
    if index.settled:
        checks.append(_settled_faults(index))
    return next((fault for faults in checks for fault in faults), None)


def _frame_faults(index: Any) -> Iterator[str]:
    if not (_lies_within(index.pts, -_MAX_TICKS, _MAX_TICKS) and _lies_within(index.duration, -_MAX_TICKS, _MAX_TICKS)):
        yield "has times out of all proportion"
    if (np.diff(index.pts) < 0).any():
        yield "has times that are not in order"
    if not _lies_within(index.packet, -1, _MAX_PACKETS):
        yield "has frames of packets that cannot exist"
    if not _lies_within(index.disposable, -1, 1):
        yield "has marks of disposable pictures that mean nothing"


def _entry_faults(index: Any) -> Iterator[str]:
    packets = index.entry_packet
    if len(packets) == 0:
        if len(index.pts):
            yield "has frames, but no packet to start decoding at"
        return
    if index.is_authoritative:
        # A user's table knows times and no packets, but for the first one.
        if not (packets == -1).all() and packets.tolist() != [0]:
            yield "has packets to start decoding at that nobody knows"
    elif packets[0] != 0 or (np.diff(packets) <= 0).any() or packets[-1] > _MAX_PACKETS:
        yield "has packets to start decoding at that are not in order"
    if not _are_times(index.entry_pts) or not _are_times(index.entry_dts):
        yield "has times of key frames out of all proportion"
    if min(index.entry_position.min(), index.entry_bytes.min()) < -1:
        yield "has key frames at places that cannot exist"


def _settled_faults(index: Any) -> Iterator[str]:
    if not _lies_within(index.ordinal, 0, len(index.pts) - 1) or (np.bincount(index.ordinal) != 1).any():
        yield "has an order of decoding that is none"
    if not _lies_within(index.num_packets, 0, _MAX_PACKETS):
        yield "has frames that take packets that cannot exist"
    if not _are_times(index.codec_pts):
        yield "has decoded times out of all proportion"


def _lies_within(values: NDArray[Any], lowest: int, highest: int) -> bool:
    return len(values) == 0 or bool(values.min() >= lowest and values.max() <= highest)


def _are_times(values: NDArray[np.int64]) -> bool:
    return _lies_within(values[values != NO_PTS], -_MAX_TICKS, _MAX_TICKS)
