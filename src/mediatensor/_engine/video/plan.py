"""Plan how to decode the frames that a call requests.

A `FrameQuery` holds the request, and converts it to frame numbers of an index. If decoding proves this index wrong, the
query converts the request again for a better index. `make_plan` divides the frames into segments that the codec decodes
without a seek. `spanned_holes` finds the places within the request where frames are missing.

The *place* of a frame is its position in the output of a linear decode, which decodes all packets in order. Functions
in this module do not read the source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import DecodeError
from ..bitstreams.units import Disposable
from ..common.checks import TIME_TOLERANCE, frame_range, valid_index
from ..index.frame_index import FrameIndex, clock_of_index, key_frames_for, played_in_range
from ..index.holes import FrameHole, describe_hole


class FrameQuery(ABC):
    """The frames that a call requests. `spanned_holes` uses its attributes to find where frames are missing."""

    # The highest requested index, if this is known without the number of frames. Then the stream need not be read to
    # its end.
    highest: int | None = None
    previous: int | None = None  # the frame that the caller received before the first one
    seconds: NDArray[np.float64] | None = None  # times of the frames; `None` if indices or a range are requested
    is_grid: bool = False  # whether the times are a grid that was made with the frame clock
    stop_seconds: float | None = None  # end of the requested time range

    @abstractmethod
    def frames_in(self, index: FrameIndex) -> Sequence[int]:
        """Return the numbers of the requested frames in ``index``. Raises `OutOfRangeError` if one does not exist."""


class ByIndex(FrameQuery):
    def __init__(self, indices: Sequence[int], stream_index: int) -> None:
        self._indices = indices
        self._stream_index = stream_index
        if len(indices) == 1 and indices[0] >= 0:
            self.highest = indices[0]
        elif min(indices, default=-1) >= 0:
            self.highest = max(indices)

    def frames_in(self, index: FrameIndex) -> Sequence[int]:
        num_frames, stream_index = len(index.pts), self._stream_index
        if self.highest is not None and self.highest < num_frames:
            return self._indices
        return [valid_index(i, num_frames, stream_index) for i in self._indices]


class ByIndexRange(FrameQuery):
    def __init__(self, start: int | None, stop: int | None, step: int | None, previous: int | None = None) -> None:
        self._slice = start, stop, step
        self.highest = None if stop is None or stop <= 0 or (start or 0) < 0 else stop - 1
        self.previous = previous

    def frames_in(self, index: FrameIndex) -> range:
        return frame_range(*self._slice, len(index.pts))


class ExistingFrames(FrameQuery):
    """A request for frames by ascending indices. Indices after the last frame of the stream are ignored."""

    def __init__(self, frames: Sequence[int], previous: int | None) -> None:
        self._frames = frames
        self.previous = previous

    def frames_in(self, index: FrameIndex) -> list[int]:
        return [frame for frame in self._frames if frame < len(index.pts)]


class ByTime(FrameQuery):
    """A request for the frame shown at each time.

    With ``within`` (first, last), frame ``first`` replaces earlier frames, and frame ``last`` replaces later ones.
    """

    def __init__(self, seconds: NDArray[np.float64], *, is_grid: bool, within: tuple[int, int] | None) -> None:
        self.seconds: NDArray[np.float64] = seconds
        self.is_grid = is_grid
        self._within = within or (0, None)

    def frames_in(self, index: FrameIndex) -> list[int]:
        frames = clock_of_index(index).played_at(self.seconds) if self.is_grid else index.played_at(self.seconds)
        return frames.clip(*self._within).tolist()  # type: ignore[no-any-return]


class ByTimeRange(FrameQuery):
    """A request for the frames shown from ``start_seconds`` up to, but not including, ``stop_seconds``.

    ``within`` (first, last) limits the result to the frames from the first to the last one, inclusive.
    """

    def __init__(self, start_seconds: float, stop_seconds: float, within: tuple[int, int] | None) -> None:
        self.start_seconds = start_seconds
        self.stop_seconds: float = stop_seconds
        self._within = within

    def frames_in(self, index: FrameIndex) -> range:
        frames = played_in_range(index, self.start_seconds, self.stop_seconds)
        if self._within is None or not frames:
            return frames
        first_possible, last_possible = self._within
        first = min(max(frames.start, first_possible), last_possible)
        return range(first, max(min(frames.stop, last_possible + 1), first + 1))


# Holes recorded in an index


def spanned_holes(
    index: FrameIndex, frames: Sequence[int], query: FrameQuery, frames_per_clip: int | None = None
) -> list[tuple[FrameHole, int]]:
    """Return the holes that a call spans. With each hole, return the row of the first frame at or after the hole.

    A call spans a hole if it has frames on both sides of the hole, or requests a time in the hole. ``frames`` are the
    frames that ``query`` requests. With ``frames_per_clip``, they are clips of this length, and each clip is treated
    like a separate call.
    """
    if not len(index.hole_frame) or not len(frames):
        return []
    holes = index.holes
    wanted = np.asarray(frames, np.int64)
    within = _holes_of_times(index, wanted, query)
    length = frames_per_clip or len(wanted)
    spanned = []
    for start in range(0, len(wanted), length):
        clip = wanted[start : start + length]
        places = clip if query.previous is None else np.append(clip, query.previous)
        first, stop = np.searchsorted(index.hole_frame, [places.min(), places.max()], side="right").tolist()
        numbers = {*range(first, stop), *within[start : start + length].tolist()} - {-1}
        for number in sorted(numbers):
            is_at = (clip >= index.hole_frame[number]) | (within[start : start + length] == number)
            row = int(is_at.argmax()) if is_at.any() else len(clip) - 1
            spanned.append((holes[number], start + row))
    return spanned


def _holes_of_times(index: FrameIndex, frames: NDArray[np.int64], query: FrameQuery) -> NDArray[np.int64]:
    """For each row, return the number of the hole that contains the requested time; -1 if no hole contains it."""
    after = np.searchsorted(index.hole_frame, frames, side="right")
    number = after.clip(max=len(index.hole_frame) - 1)
    is_last_before = index.hole_frame[number] == frames + 1
    begins = np.array([hole.start_seconds for hole in index.holes])[number]
    if query.seconds is not None:
        # The container may have rounded up the time of a missing frame.
        tolerance = max(TIME_TOLERANCE, clock_of_index(index).quantum / 2 if query.is_grid else 0.0)
        is_within = query.seconds >= begins - tolerance
    elif query.stop_seconds is not None:
        is_within = (frames == frames.max()) & (query.stop_seconds > begins + TIME_TOLERANCE)
    else:
        is_within = np.zeros(len(frames), bool)
    return np.where(is_last_before & is_within, number, -1)


def hole_error(hole: FrameHole, index: FrameIndex) -> DecodeError:
    return DecodeError(
        f"The frames that were asked for reach over a hole: {describe_hole(hole, len(index))}. Ask for frames on one "
        "side of it, or pass on_error='keep', 'skip' or 'nearest'."
    )


_YES = int(Disposable.YES)  # an enum lookup costs more than the rest of the decision


@dataclass(slots=True)
class Segment:
    """Wanted frames that the codec decodes without a seek in between."""

    key_frame: int | None  # number of the key frame to seek to; None to continue
    places: tuple[int, ...]  # the wanted frames, ascending
    # Whether to drain the codec after the last frame. Draining makes the last frame come out without further packets,
    # but the next call has to seek.
    drains: bool

    def needs(self, place: int) -> bool:
        """Return whether the codec needs the packet of a disposable frame, a frame to which no other frame refers.

        In this example, disposable frames have small letters, and stars mark the wanted places::

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
    """Group wanted frames into segments, so that no frame is decoded twice.

    Between two wanted frames, the codec can either decode all frames or seek to a later key frame::

        position    key frame of w       w
           x ---------------- k --------- o      seek to k if x..k is more than ``max_skipped`` frames,
                                                 otherwise decode through: a seek discards that many frames

    ``places`` are the wanted frames, ascending and without duplicates. ``position`` is the place of the frame that the
    codec would return next without a seek. ``max_skipped`` is the number of frames that are lost by a seek, because
    they are in the codec's reordering buffer or in its threads. If the plan has several segments, the codec is drained
    after each, because a caller that has jumped once is expected to jump again.
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
    return [Segment(start, tuple(members), drains) for start, members in runs]


def runs_by_key_frame(index: FrameIndex, places: Sequence[int]) -> dict[int, list[int]]:
    """Group wanted frames by the key frame from which they are decoded. Each group can be decoded independently."""
    runs: dict[int, list[int]] = {}
    for key_frame, place in zip(key_frames_for(index, places), places, strict=True):
        runs.setdefault(key_frame, []).append(place)
    return runs


def num_pictures(index: FrameIndex, key_frame: int, places: Sequence[int]) -> int:
    """Estimate how many frames must be decoded from a key frame to get the wanted frames ``places``.

    Disposable frames are not counted, because they can be left out.
    """
    last = places[-1]
    first = index.first_frame_from(key_frame)
    num_disposable = (index.disposable[min(first, last) : last + 1] == _YES).sum()
    return max(len(places), last + 1 - first - int(num_disposable))


def byte_range(index: FrameIndex, key_frame: int, place: int) -> tuple[int, int] | None:
    """Estimate the byte range (start, stop) of the packets from a key frame up to a frame; return ``None`` if unknown.

    Packets of all streams are interleaved. So the range is estimated as a share of the bytes up to the next key frame.
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
