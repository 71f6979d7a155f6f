"""Find holes: spans of a stream whose packets should have given frames but did not. Pure functions.

::

    packets   0   1   2   3   4   5   6        3 and 4 are damaged
    frames    0   1   2           3   4        the hole lies before frame 3

Frame numbers do not show holes, because only decoded frames are numbered. There is a hole if the codec refused a
packet, or if no frame is shown at the time of a packet. The second test is used only for codecs in which every packet
with a picture gives a frame, and only if the packets show no splice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bitstreams.content import CODECS_OF_FRAMES_ONLY
from ..common.messages import counted
from ..containers.sample_tables import NO_PTS, Int64Array, PacketTable

# In these codecs, each packet with a picture gives a frame unless data are missing. Other codecs skip unchanged frames.
_CODECS_OF_ONE_FRAME = frozenset(("av1", "h264", "hevc", "vp8", "vp9"))
# Largest number of holes that are described one by one.
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class FrameHole:
    """A span of a stream in which frames are missing, because the codec returned no frames for its packets.

    Attributes:
        frame: Index of the first frame after the hole, or the number of frames if the hole is at the end of the stream.
        start_seconds: Time of the first missing frame in seconds.
        end_seconds: Time in seconds of the first frame after the hole. If the hole is at the end of the stream, the end
            of the last missing frame.
        num_packets: Number of packets that gave no frame.

    Example:
        >>> from mediatensor.decoders import FrameHole
        >>> FrameHole(frame=45, start_seconds=1.5, end_seconds=1.6, num_packets=3).num_packets
        3
    """

    frame: int
    start_seconds: float
    end_seconds: float
    num_packets: int


class HoleColumns(NamedTuple):
    """All holes of a stream, in ascending order, as int64 columns (H,) of a `FrameIndex`. Times are in ticks."""

    frame: Int64Array  # index of the first frame after each hole
    pts: Int64Array  # time of the first missing frame
    end_pts: Int64Array  # time of the next frame, or the end of the last missing frame
    num_packets: Int64Array  # packets that gave no frame


def find_holes(
    table: PacketTable, refused: Sequence[int], pts: Int64Array, duration: Int64Array, codec_pts: Int64Array, codec: str
) -> HoleColumns:
    """Find the holes in a stream after all of its packets have been decoded.

    ``table`` has these packets, and ``refused`` has the numbers of the packets that the codec refused. ``pts``,
    ``duration`` and ``codec_pts`` have one value for each frame. ``codec_pts`` are the times that the codec returned.
    In ``pts``, missing and repeated times have been corrected, so they ascend. In ``duration``, 0 means unknown.
    """
    is_refused = np.zeros(len(table), bool)
    is_refused[list(refused)] = True
    # A refused packet is not damaged if it is known to have no picture, such as the end of a sequence.
    is_refused &= ~table.is_discard & (~table.is_hidden | table.is_broken | (codec in CODECS_OF_FRAMES_ONLY))
    is_timed = table.pts != NO_PTS
    has_no_frame = is_timed & ~table.is_discard & ~np.isin(table.pts, codec_pts)
    is_covered = _is_covered(table.pts, pts, duration)
    is_after_first = table.pts >= pts[0]
    # In a cut recording, frames before the first key frame lack references, and so may frames that are shown before the
    # first key frame.
    can_be_decoded = is_after_first | ((table.pts >= table.pts[0]) & table.is_key[0])
    is_evidence = is_refused & has_no_frame & can_be_decoded & ~(table.is_hidden & is_covered)
    has_times = is_timed.all() and (codec_pts != NO_PTS).all() and (codec_pts[1:] >= codec_pts[:-1]).all()
    has_one_frame_each = has_times and not table.is_field.any()
    if has_one_frame_each and not table.reasons_to_decode:  # a splice may well drop pictures
        is_picture = ~table.is_hidden & (codec in _CODECS_OF_ONE_FRAME)
        is_evidence |= (is_picture | table.is_broken) & has_no_frame & is_after_first & ~is_covered
    following = np.searchsorted(pts, table.pts)
    # Packets in a hole that seem to have no picture also count as damaged.
    is_missing = is_evidence | (has_no_frame & ~is_covered & np.isin(following, following[is_evidence]))
    is_missing &= can_be_decoded
    missing = [
        (int(following[number]), int(table.pts[number]), int(table.pts[number] + table.duration[number]))
        for number in np.flatnonzero(is_missing)
    ]
    untimed = np.flatnonzero(is_refused & ~is_timed)
    if len(untimed):
        # Assume that each remaining packet gives one frame, in the order of packets.
        num_before = np.cumsum(~(is_refused | table.is_hidden | table.is_discard))
        frames = np.minimum(num_before[untimed], len(pts)).tolist()
        missing += [(frame, int(time), int(time)) for frame in frames for time in pts[min(frame, len(pts) - 1), None]]
    return _spans_of(missing, pts)


def _is_covered(times: Int64Array, pts: Int64Array, duration: Int64Array) -> NDArray[np.bool_]:
    """Return whether each time lies in the first half of a frame's duration, so that it can be the time of the frame.

    ``pts`` and ``duration`` are the start times and durations of the frames.
    """
    steps = np.diff(pts)
    typical = int(np.median(steps)) if len(steps) else 0
    duration = np.where(duration > 0, duration, typical)
    before = np.maximum(np.searchsorted(pts, times, side="right") - 1, 0)
    covered: NDArray[np.bool_] = (times >= pts[before]) & (
        times - pts[before] < duration[before] - duration[before] // 2
    )
    return covered


def _spans_of(missing: Sequence[tuple[int, int, int]], pts: Int64Array) -> HoleColumns:
    """Merge missing frames that have the same next frame into one hole.

    ``missing`` has (index of the next frame, start of the missing frame, end of the missing frame).
    """
    spans: dict[int, list[int]] = {}
    for frame, begin, end in sorted(missing):
        span = spans.setdefault(frame, [frame, begin, end, 0])
        span[2] = int(pts[frame]) if frame < len(pts) else max(span[2], end)
        span[3] += 1
    rows = np.array(list(spans.values()), np.int64).reshape(-1, 4)
    return HoleColumns(*rows.T.copy())


def describe_holes(holes: Sequence[FrameHole], num_frames: int) -> tuple[str, ...]:
    """Describe holes for a list of anomalies: one sentence for each of the first five, and one for the rest."""
    named = [describe_hole(hole, num_frames) for hole in holes[:_MAX_NAMED]]
    if len(holes) > _MAX_NAMED:
        num_packets = sum(hole.num_packets for hole in holes[_MAX_NAMED:])
        named.append(f"{num_packets} packets in {len(holes) - _MAX_NAMED} more places give no frame")
    return tuple(named)


def describe_hole(hole: FrameHole, num_frames: int) -> str:
    packets = counted(hole.num_packets, "packet")
    verb = "give" if hole.num_packets > 1 else "gives"
    if hole.frame == 0:
        place = "before the first frame"
    elif hole.frame == num_frames:
        place = "after the last frame"
    else:
        place = f"between frames {hole.frame - 1} and {hole.frame}"
    start, end = (f"{time:.3f}".rstrip("0").rstrip(".") for time in (hole.start_seconds, hole.end_seconds))
    span = f"from {start} s to {end} s"
    return f"{packets} {span} {verb} no frame, {place}"
