"""What to decode for a set of frames: where to start, and when going on is cheaper than seeking. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._bitstreams import Disposable
from .._index.frame_index import FrameIndex

__all__ = ["Segment", "byte_range", "entry_ordinal", "make_plan", "num_pictures", "runs_by_entry"]

_YES = int(Disposable.YES)  # looking up a member of an enumeration costs more than the rest of the decision


@dataclass(frozen=True)
class Segment:
    """Frames that come out of one run of the codec.

    Attributes:
        entry: Number of the index entry to seek to; ``None`` to go on where the codec stands.
        ordinals: Of the wanted frames, ascending.
        is_left: Whether the codec is not needed any more where it stands after the last of them. Then it need not be
            fed what follows that frame only to push it out: it can be drained.
    """

    entry: int | None
    ordinals: tuple[int, ...]
    is_left: bool

    @cached_property
    def wanted(self) -> frozenset[int]:
        return frozenset(self.ordinals)

    def needs(self, ordinal: int, disposable: int) -> bool:
        """Whether the codec must see a picture, for its own sake or for that of others.

        Args:
            ordinal: Of the frame.
            disposable: A `Disposable`: whether other pictures refer to it.

        ::

            ordinals                 *           *
            pictures     I  b  B  b  P  b  B  b  P  b  B  b  P
            fed          I     B     P     B     P              (is_left)
            fed          I     B     P     B     P  b  B  b  P  (else: what follows may be asked for next)
        """
        if disposable != _YES or ordinal in self.wanted:
            return True
        return not self.is_left and ordinal > self.ordinals[-1]


def make_plan(
    index: FrameIndex, ordinals: Sequence[int], position: int | None, patience: int, *, is_left: bool = False
) -> list[Segment]:
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
        is_left: Whether the codec is not needed any more after the last frame. Who jumped once is expected to jump
            again, so a plan with several segments always leaves the codec.

    Returns:
        Segments in the order in which to run them.
    """
    runs: list[tuple[int | None, list[int]]] = []
    for ordinal in ordinals:
        if ordinal == position and runs:
            runs[-1][1].append(ordinal)
            position += 1
            continue
        entry = index.entry_for(index.frame_of(ordinal))
        if position is None or ordinal < position or entry_ordinal(index, entry) - position > patience:
            runs.append((entry, [ordinal]))
        elif runs:
            runs[-1][1].append(ordinal)
        else:
            runs.append((None, [ordinal]))
        position = ordinal + 1
    is_left = is_left or len(runs) > 1
    return [Segment(entry, tuple(members), is_left) for entry, members in runs]


def runs_by_entry(index: FrameIndex, ordinals: Sequence[int]) -> dict[int, list[int]]:
    """Wanted frames by the entry that each is decoded from: runs that need nothing of each other."""
    runs: dict[int, list[int]] = {}
    for ordinal in ordinals:
        runs.setdefault(index.entry_for(index.frame_of(ordinal)), []).append(ordinal)
    return runs


def num_pictures(index: FrameIndex, entry: int, ordinals: Sequence[int]) -> int:
    """About how many pictures a run decodes; those of which it is not known whether they are disposable count.

    Args:
        index: The frames of the stream.
        entry: Where it starts.
        ordinals: Of the wanted frames, ascending.
    """
    last = ordinals[-1]
    first = entry_ordinal(index, entry)
    span = slice(min(first, last), last + 1)
    left_out = (index.disposable[span] == Disposable.YES).sum()
    return max(len(ordinals), last + 1 - first - int(left_out))


def byte_range(index: FrameIndex, entry: int, ordinal: int) -> tuple[int, int] | None:
    """Where in the file the packets lie that lead from an entry to a frame, about; ``None`` where that is unknown.

    Other streams lie between them, so the range up to the next entry is taken in the proportion of the packets.
    """
    start = int(index.entry_position[entry])
    if start < 0 or index.entry_bytes[entry] < 0:
        return None
    stop = start + int(index.entry_bytes[entry])
    first = int(index.entry_packet[entry])
    last = int(index.packet[index.frame_of(ordinal)])
    if entry + 1 < len(index.entry_packet) and index.entry_position[entry + 1] > start:
        stop = int(index.entry_position[entry + 1])
        share = (last + 2 - first) / max(1, int(index.entry_packet[entry + 1]) - first)
        stop = start + round((stop - start) * min(1.0, share))
    return start, max(start + 1, stop)


def entry_ordinal(index: FrameIndex, entry: int) -> int:
    """Ordinal of the first frame shown at or after the time of an entry."""
    frame = int(np.searchsorted(index.pts, index.entry_pts[entry]))
    return int(index.ordinal[min(frame, len(index) - 1)])
