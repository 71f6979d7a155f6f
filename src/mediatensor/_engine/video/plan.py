"""Plan the codec runs that decode a set of frames: where to seek, and where to continue. Pure functions.

A frame's *place* is its index in the output order of a linear decode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ..bitstreams.units import Disposable
from ..index.frame_index import FrameIndex

_YES = int(Disposable.YES)  # an enum lookup costs more than the rest of the decision


@dataclass(slots=True)
class Segment:
    """Wanted frames that the codec decodes in one run, without a seek in between."""

    key_frame: int | None  # number of the key frame to seek to; None to continue
    places: tuple[int, ...]  # the wanted frames, ascending
    # Whether to drain the codec after the last frame. That frame then comes out without the packets after it, but the
    # next call has to seek.
    drains: bool

    def needs(self, place: int) -> bool:
        """Return whether to feed a disposable frame, to which no other frame refers.

        ::

            places                   *           *
            frames       I  b  B  b  P  b  B  b  P  b  B  b  P
            fed          I     B     P     B     P              (drains)
            fed          I     B     P     B     P  b  B  b  P  (does not drain: the next call may ask for later frames)
        """
        if place > self.places[-1]:
            return not self.drains
        return self.places[bisect_left(self.places, place)] == place


def make_plan(
    index: FrameIndex, places: Sequence[int], position: int | None, max_skipped: int, *, drains: bool = False
) -> list[Segment]:
    """Group wanted frames into runs, so that no frame is decoded twice.

    ::

        position    key frame of w       w
           x ---------------- k --------- o      seek to k if x..k is more than ``max_skipped`` frames,
                                                 otherwise decode through: a seek discards that many frames

    Args:
        index: The frames of the stream.
        places: The wanted frames, ascending, without duplicates.
        position: Place of the frame that comes out next if decoding continues; ``None`` if unknown.
        max_skipped: Decode through up to this many frames before the key frame instead of seeking. A seek discards as
            many frames from the codec's reordering buffer and its threads.
        drains: Whether to drain the codec after the last frame. A plan with several segments always drains: after one
            jump, the caller is expected to jump again.

    Returns:
        Segments in the order in which to run them.
    """
    runs: list[tuple[int | None, list[int]]] = []
    for place in places:
        if place != position:
            key_frame = index.key_frame_for(place)
            if position is None or place < position or index.first_frame_from(key_frame) - position > max_skipped:
                runs.append((key_frame, [place]))
                position = place + 1
                continue
        if runs:
            runs[-1][1].append(place)
        else:
            runs.append((None, [place]))
        position = place + 1
    drains = drains or len(runs) > 1
    segments = []
    for start, members in runs:
        segments.append(Segment(start, tuple(members), drains))
    return segments


def runs_by_key_frame(index: FrameIndex, places: Sequence[int]) -> dict[int, list[int]]:
    """Group wanted frames into independent runs, by the key frame from which each is decoded."""
    runs: dict[int, list[int]] = {}
    for place in places:
        runs.setdefault(index.key_frame_for(place), []).append(place)
    return runs


def num_pictures(index: FrameIndex, key_frame: int, places: Sequence[int]) -> int:
    """Estimate how many frames a run decodes, counting frames that are not known to be disposable."""
    last = places[-1]
    first = index.first_frame_from(key_frame)
    num_disposable = (index.disposable[min(first, last) : last + 1] == _YES).sum()
    return max(len(places), last + 1 - first - int(num_disposable))


def byte_range(index: FrameIndex, key_frame: int, place: int) -> tuple[int, int] | None:
    """Estimate the (start, stop) bytes of the packets from a key frame to a frame; ``None`` if unknown.

    Packets of other streams lie in between, so the estimate takes a share of the bytes up to the next key frame.
    """
    start = int(index.key_frame_position[key_frame])
    if start < 0 or index.key_frame_bytes[key_frame] < 0:
        return None
    stop = start + int(index.key_frame_bytes[key_frame])
    first = int(index.key_frame_packet[key_frame])
    last = int(index.packet[place])
    if key_frame + 1 < len(index.key_frame_packet) and index.key_frame_position[key_frame + 1] > start:
        stop = int(index.key_frame_position[key_frame + 1])
        share = (last + 2 - first) / max(1, int(index.key_frame_packet[key_frame + 1]) - first)
        stop = start + round((stop - start) * min(1.0, share))
    return start, max(start + 1, stop)
