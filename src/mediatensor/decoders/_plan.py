"""What to decode for a set of frames: where to start, and when going on is cheaper than seeking. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._frame_index import FrameIndex

__all__ = ["Segment", "make_plan"]


@dataclass(frozen=True)
class Segment:
    """Frames that come out of one run of the codec.

    Attributes:
        entry: Number of the index entry to seek to; ``None`` to go on where the codec stands.
        ordinals: Of the wanted frames, ascending.
    """

    entry: int | None
    ordinals: tuple[int, ...]


def make_plan(index: FrameIndex, ordinals: Sequence[int], position: int | None, patience: int) -> list[Segment]:
    """Group wanted frames into runs, none of which decodes a frame twice.

    ::

        position          entry of w      w
           x ---------------- k --------- o      seek to k if x..k is more than ``patience`` frames,
                                                 else decode through: a flush throws that much away

    Args:
        index: The frames of the stream.
        ordinals: Wanted frames as places in the codec's output order, ascending, without duplicates.
        position: Ordinal of the frame that comes out next if decoding goes on; ``None`` if that is not known.
        patience: Frames that a seek costs: the codec's reorder delay and what its threads hold.

    Returns:
        Segments in the order in which to run them.
    """
    runs: list[tuple[int | None, list[int]]] = []
    for ordinal in ordinals:
        entry = index.entry_for(index.frame_of(ordinal))
        if position is None or ordinal < position or _entry_ordinal(index, entry) - position > patience:
            runs.append((entry, [ordinal]))
        elif runs:
            runs[-1][1].append(ordinal)
        else:
            runs.append((None, [ordinal]))
        position = ordinal + 1
    return [Segment(entry, tuple(members)) for entry, members in runs]


def _entry_ordinal(index: FrameIndex, entry: int) -> int:
    """Ordinal of the first frame shown at or after the time of an entry."""
    frame = int(np.searchsorted(index.pts, index.entry_pts[entry]))
    return int(index.ordinal[min(frame, len(index) - 1)])
