"""Make a `FrameIndex` from packets, from decoded frames, or from a user's table. Pure functions.

"Frame i" is the i-th frame that a linear decode of the whole stream returns. In nearly every stream, frame i comes from
the i-th packet in order of pts, not counting packets that are not shown. Reading packets is then enough. `from_packets`
also returns reasons why such an index could be wrong. If there are any reasons, the stream is decoded instead. In an
index, frame times never decrease; see `_ascending_times`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..bitstreams.units import Disposable
from ..common.messages import counted
from ..containers.sample_tables import NO_PTS, Int64Array, PacketTable
from .frame_index import MAX_DELAY_PACKETS, FrameIndex
from .holes import describe_holes, find_holes
from .index_file import MAX_TICKS

_NO_PACKETS: deque[int] = deque()
_UNKNOWN = int(Disposable.UNKNOWN)

# If a larger share of packets seems to show no frame, the stream is decoded. VP8 and VP9 hide one frame in 4 to 16,
# depending on the encoder. Among the test clips, only AV1 in split packets (0.3) and streams that start with another
# codec have larger shares. Any limit from 0.16 to 0.29 selects the same clips.
_MAX_HIDDEN = 0.25


@dataclass(frozen=True)
class FrameRecord:
    """One frame from a linear decode of the stream."""

    pts: int | None  # as the codec gave it
    dts: int | None  # decoding time of its packet
    duration: int  # in the stream's time base; 0 where unknown
    num_packets: int  # packets fed before the frame came out
    fingerprint: int  # CRC-32 of its planes
    is_corrupt: bool  # the codec flagged it as damaged
    is_key: bool  # according to the codec


def from_packets(
    table: PacketTable, time_base: Fraction, frame_rate: Fraction | None
) -> tuple[FrameIndex, tuple[str, ...]]:
    """Make an index, assuming that each shown packet gives one frame. Return it, and reasons why it could be wrong.

    If there are no reasons, the index is reliable. ``frame_rate`` is only used if the stream has a single frame of
    unknown duration.
    """
    kept = (~(table.is_discard | table.is_hidden)).nonzero()[0]
    pts = table.pts[kept]
    order = pts.argsort(kind="stable")
    kept, pts = kept[order], pts[order]
    index = FrameIndex(
        time_base=time_base,
        pts=pts,
        duration=_known_durations(pts, table.duration[kept], time_base, frame_rate),
        is_key=table.is_key[kept],
        is_damaged=np.zeros(len(kept), bool),
        packet=kept,
        disposable=np.full(len(kept), _UNKNOWN, np.int8),
        **_key_frame_columns(table, _key_frames(table)),
        is_cut_short=table.read_error is not None,
        anomalies=_anomalies(table),
    )
    return index, _reasons_to_decode(table, pts)


def from_frames(
    records: Sequence[FrameRecord],
    table: PacketTable,
    time_base: Fraction,
    frame_rate: Fraction | None,
    *,
    reasons_to_decode: tuple[str, ...] = (),
    refused: Sequence[int] = (),
    codec: str = "",
) -> FrameIndex:
    """Return the index of the frames that a linear decode of a stream returned.

    ``records`` are these frames in the order in which the codec returned them. ``table`` has the packets that were fed
    to the codec, and ``refused`` has the numbers of the packets that the codec refused. ``frame_rate`` is used to
    compute missing times. ``reasons_to_decode`` are listed in the index's anomalies.
    """
    codec_pts = np.array([NO_PTS if r.pts is None else r.pts for r in records], np.int64)
    duration = np.array([r.duration for r in records], np.int64)
    num_packets = np.array([r.num_packets for r in records], np.int64)
    packet = _packet_of_frames(codec_pts, num_packets, table)
    pts = _complete_times(records, codec_pts, duration, time_base, frame_rate)
    part_of_packet = _parts_of_packets(table)
    part = np.maximum.accumulate(np.where(packet >= 0, part_of_packet[packet], 0))
    pts, shifts = _ascending_times(pts, duration, packet, part)
    is_key = np.array([r.is_key for r in records], bool)
    if not is_key.any():  # some decoders never flag key frames
        is_key = np.isin(packet, _key_frames(table))
    # The container's key frame flags can be wrong. For frames whose packet is known, use the codec's flag.
    false_keys = packet[(packet >= 0) & ~is_key]
    key_frames = _key_frames(table)
    key_frames = key_frames[~np.isin(key_frames, false_keys) | (key_frames == 0)]
    in_line = table
    if part.any():
        in_line = replace(
            table,
            pts=np.where(table.pts == NO_PTS, NO_PTS, table.pts + shifts[part_of_packet.clip(max=part[-1])]),
            reasons_to_decode=(*table.reasons_to_decode, "parts that were joined"),
        )
    shown_pts = np.where(codec_pts == NO_PTS, NO_PTS, codec_pts + shifts[part])
    holes = find_holes(in_line, refused, pts, duration, shown_pts, codec)
    index = FrameIndex(
        time_base=time_base,
        pts=pts,
        duration=_known_durations(pts, duration, time_base, frame_rate),
        is_key=is_key & np.isin(packet, key_frames),
        is_damaged=np.array([r.is_corrupt for r in records], bool),
        packet=packet,
        disposable=np.full(len(records), _UNKNOWN, np.int8),
        **_key_frame_columns(table, key_frames),
        settled=True,
        fingerprint=np.array([r.fingerprint for r in records], np.uint32),
        codec_pts=codec_pts,
        num_packets=num_packets,
        is_cut_short=table.read_error is not None,
        **{f"hole_{name}": column for name, column in holes._asdict().items()},
    )
    found = _findings(records, reasons_to_decode, len(refused)) + describe_holes(index.holes, len(index))
    return replace(index, anomalies=_anomalies(table) + found)


def from_table(pts: Sequence[int], duration: Sequence[int], is_key: Sequence[bool], time_base: Fraction) -> FrameIndex:
    """Return the index of a stream whose frames the user has listed (``custom_frame_mappings``)."""
    order = np.argsort(np.array(pts, np.int64), kind="stable")
    sorted_pts = np.array(pts, np.int64)[order]
    keys = np.array(is_key, bool)[order]
    # If the table has no key frame, decode from the beginning.
    key_frames = np.flatnonzero(keys) if keys.any() else np.arange(min(1, len(order)))
    unknown, unknown_position = np.full(len(key_frames), NO_PTS, np.int64), np.full(len(key_frames), -1, np.int64)
    return FrameIndex(
        time_base=time_base,
        pts=sorted_pts,
        duration=np.array(duration, np.int64)[order],
        is_key=keys,
        is_damaged=np.zeros(len(order), bool),
        packet=np.full(len(order), -1, np.int64),
        disposable=np.full(len(order), _UNKNOWN, np.int8),
        key_frame_packet=np.full(len(key_frames), -1 if keys.any() else 0, np.int64),
        key_frame_pts=sorted_pts[key_frames],
        key_frame_dts=unknown,
        key_frame_position=unknown_position,
        key_frame_bytes=unknown_position,
        is_authoritative=True,
    )


def _key_frames(table: PacketTable) -> Int64Array:
    """Return the numbers of the packets at which decoding can start: key frames, and always the first packet."""
    can_start = table.is_key.copy()
    can_start[:1] = True
    return can_start.nonzero()[0]


def _key_frame_columns(table: PacketTable, key_frames: Int64Array) -> dict[str, Any]:
    return {
        "key_frame_packet": key_frames,
        "key_frame_pts": table.pts[key_frames],
        "key_frame_dts": table.dts[key_frames],
        "key_frame_position": table.position[key_frames],
        "key_frame_bytes": np.add.reduceat(table.size, key_frames) if len(key_frames) else np.zeros(0, np.int64),
    }


def _known_durations(
    pts: Int64Array, duration: Int64Array, time_base: Fraction, frame_rate: Fraction | None
) -> Int64Array:
    """Replace the duration of each frame that has none (0) by the time from this frame to the next frame.

    For the last frame, use the median time between frames, or ``frame_rate`` if there is only one frame.
    """
    if len(pts) == 0 or (duration > 0).all():
        return duration
    steps = np.diff(pts)
    typical = round(1 / (frame_rate * time_base)) if frame_rate else 0
    last = int(np.median(steps)) if len(steps) else max(1, typical)
    return np.where(duration > 0, duration, np.append(steps, last))


def _complete_times(
    records: Sequence[FrameRecord],
    codec_pts: Int64Array,
    duration: Int64Array,
    time_base: Fraction,
    frame_rate: Fraction | None,
) -> Int64Array:
    """Return a time for each frame. For a frame without pts, make up a time that fits its place in the order.

    If no frame has a pts and the decoding times ascend, the decoding times are used. Otherwise a frame without pts
    starts when the previous frame ends, or earlier if there is too little time before the next frame with a pts. Frames
    before the first frame with a pts get times that count back from this pts.
    """
    known = codec_pts != NO_PTS
    if known.all():
        return codec_pts
    dts = [record.dts for record in records]
    if not known.any() and all(t is not None for t in dts) and (np.diff(np.array(dts, np.int64)) > 0).all():
        return np.array(dts, np.int64)
    typical: int = max(1, round(1 / (frame_rate * time_base))) if frame_rate else 1
    step: list[int] = np.where(duration > 0, duration, typical).tolist()
    pts = codec_pts.copy()
    anchors = np.flatnonzero(known)
    first = int(anchors[0]) if len(anchors) else 0
    if not len(anchors):
        pts[0] = 0
    for i in range(first - 1, -1, -1):
        pts[i] = pts[i + 1] - step[i]
    for i in np.flatnonzero(~known).tolist():
        if i > first:
            following = anchors[anchors > i]
            own_step = step[i - 1]
            if len(following):
                room = int(pts[following[0]] - pts[i - 1]) // int(following[0] - i + 1)
                own_step = min(own_step, max(0, room))
            pts[i] = pts[i - 1] + own_step
    return pts


def _packet_of_frames(codec_pts: Int64Array, num_packets: Int64Array, table: PacketTable) -> Int64Array:
    """Return the number of the packet from which each frame came, or -1 if it is unknown.

    Each frame is matched with a packet of the same pts, and each packet is matched with at most one frame. In joined
    files, times repeat, so there can be several such packets. The first one is chosen, unless the codec got more than
    `MAX_DELAY_PACKETS` further packets before it returned the frame.
    """
    packets: dict[int, deque[int]] = {}
    for number, pts in enumerate(table.pts.tolist()):
        packets.setdefault(pts, deque()).append(number)
    packets.pop(NO_PTS, None)
    found = np.full(len(codec_pts), -1, np.int64)
    for frame, (pts, num_fed) in enumerate(zip(codec_pts.tolist(), num_packets.tolist(), strict=True)):
        numbers = packets.get(pts, _NO_PACKETS)
        while len(numbers) > 1 and numbers[0] < num_fed - 1 - MAX_DELAY_PACKETS:
            numbers.popleft()
        if numbers and numbers[0] < num_fed:
            found[frame] = numbers.popleft()
    return found


def bytes_of_frames(packet: Int64Array, table: PacketTable) -> Int64Array:
    """Return the bytes of the packets that make each frame. ``packet`` has the number of each frame's own packet.

    A packet that has no frame of its own can still count. If it shows nothing, it counts for the next frame in the
    file. If it is the second field of a frame, it counts for that frame. Other packets without a frame (trimmed,
    damaged) do not count. If a frame's own packet is unknown, its size is -1.
    """
    num_bytes = np.full(len(packet), -1, np.int64)
    frames = np.flatnonzero((packet >= 0) & (packet < len(table)))
    frames = frames[np.argsort(packet[frames], kind="stable")]
    owners = packet[frames]
    num_bytes[frames] = table.size[owners]
    if len(owners) == 0:
        return num_bytes
    has_frame = np.zeros(len(table), bool)
    has_frame[owners] = True
    is_shown = ~(table.is_hidden | table.is_discard)
    hidden = np.flatnonzero(table.is_hidden & ~table.is_discard & ~has_frame)
    after = np.searchsorted(owners, hidden).clip(max=len(owners) - 1)
    np.add.at(num_bytes, frames[after], table.size[hidden])
    follows_field = np.append(False, (table.is_field & has_frame)[:-1])
    second_fields = np.flatnonzero(table.is_field & follows_field & is_shown & ~has_frame)
    before = np.searchsorted(owners, second_fields) - 1
    np.add.at(num_bytes, frames[before], table.size[second_fields])
    return num_bytes


def _parts_of_packets(table: PacketTable) -> Int64Array:
    """Find the files from which a stream was joined. Return for each packet the number of its part, starting at 0.

    A key frame starts a new part if its time is at or before the start of the current part. It also starts a new part
    if many packets before it have later times: more packets than reordering in a codec can explain. Smaller steps back
    in time are jitter.
    """
    starts: list[int] = []
    begin = previous = 0
    highest = NO_PTS
    for key in np.flatnonzero(table.is_key).tolist():
        pts, passed = int(table.pts[key]), table.pts[previous:key]
        highest = max(highest, int(passed.max(initial=NO_PTS)))
        previous = key
        if NO_PTS < pts < highest:
            before = table.pts[begin:key]
            if (before > pts).sum() > MAX_DELAY_PACKETS // 2 or pts <= before[before != NO_PTS].min():
                starts.append(key)
                begin, highest = key, NO_PTS
    return np.searchsorted(starts, np.arange(len(table)), side="right")


def _ascending_times(
    pts: Int64Array, duration: Int64Array, packet: Int64Array, part: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Correct times so that they never decrease. Return them, and how far each part of a joined stream was shifted::

        input times          0 2 1 4 3 6 5    0 1 2 9 3 4 5    0 1 2 3   0 1 2 3
        ascending            0 1 2 3 4 5 6    0 1 2 3 3 4 5    0 1 2 3   4 5 6 7
                             decoding times   out of order     joined

    All arguments have one value for each frame, in the codec's output order. ``packet`` and ``part`` are the numbers of
    the frame's packet and part. Packet numbers decrease where the codec has reordered frames. If the times of a part
    decrease more than half as often as its packet numbers, they are decoding times, and are sorted. Otherwise the times
    are right, except for a few frames that a codec returns too early or too late because of damage. Each part is
    shifted to start at or after the end of the previous part. Unknown durations are 0, and unknown packets are -1.
    """
    ascending = pts.copy()
    shifts = np.zeros(int(part.max(initial=0)) + 1, np.int64)
    end: int | None = None
    for start, stop in pairwise([*np.flatnonzero(np.diff(part, prepend=-1)), len(part)]):
        times, packets = pts[start:stop], packet[start:stop]
        num_falls = int((times[1:] < times[:-1]).sum())
        num_reorderings = int((packets[1:] < packets[:-1]).sum())
        times = np.sort(times) if 2 * num_falls > num_reorderings else _move_stragglers(times)
        if end is not None:
            shifts[part[start]] = max(0, end - int(times[0]))
            times = times + shifts[part[start]]
        ascending[start:stop] = times
        last = int(duration[stop - 1]) or (int(np.median(np.diff(times))) if len(times) > 1 else 0)
        end = int(times[-1]) + max(1, last)
    return ascending, shifts


def _move_stragglers(times: Int64Array) -> Int64Array:
    """Change as few of ``times`` as possible, so that they never decrease. New times lie between their neighbours."""
    if not (times[1:] < times[:-1]).any():
        return times
    # Find the longest subsequence that never decreases, starting at the end. For each length, store the frame with the
    # latest start. If a late frame and an early frame exclude each other, the late frame is changed.
    latest: list[int] = []
    firsts: list[int] = []
    following = np.full(len(times), -1, np.int64)
    for frame in range(len(times) - 1, -1, -1):
        time = -int(times[frame])
        length = bisect_right(latest, time)
        latest[length : length + 1], firsts[length : length + 1] = [time], [frame]
        following[frame] = firsts[length - 1] if length else -1
    is_in_line = np.zeros(len(times), bool)
    frame = firsts[-1]
    while frame >= 0:
        is_in_line[frame] = True
        frame = int(following[frame])
    limits = np.iinfo(np.int64)
    low = np.maximum.accumulate(np.where(is_in_line, times, limits.min))
    high = np.minimum.accumulate(np.where(is_in_line, times, limits.max)[::-1])[::-1]
    return np.maximum.accumulate(np.clip(times, low, high))


def _reasons_to_decode(table: PacketTable, pts: Int64Array) -> tuple[str, ...]:
    """Return reasons why decoding could give more or fewer frames than one for each shown packet.

    ``pts`` has the presentation times of the shown packets in ascending order.
    """
    reasons = [*table.reasons_to_decode]
    if (table.pts == NO_PTS).any():
        reasons.append("packets without a presentation time")
    elif (pts[1:] == pts[:-1]).any():
        reasons.append("packets with equal presentation times")
    if len(table) and (not len(pts) or np.count_nonzero(table.is_hidden) > _MAX_HIDDEN * len(table)):
        reasons.append("many packets that seem to show nothing")
    if table.is_field.any():
        reasons.append("packets of single fields")
    if table.is_broken.any():
        reasons.append("packets that are damaged, lost, encrypted or of another codec")
    if table.changes_palette:
        reasons.append("palettes that change")
    if table.read_error is not None:
        reasons.append("reading stops early")
    if len(table) and not table.is_key[0]:
        reasons.append("the first packet is not a key frame")
    elif (table.pts[1:] < table.pts[:1]).any():
        reasons.append("frames before the first key frame in time, after it in the file")
    highest_before = np.maximum.accumulate(table.pts)[:-1]
    if (table.is_key[1:] & (highest_before > table.pts[1:])).any():  # as in spliced files
        reasons.append("frames after a key frame in time, before it in the file")
    return tuple(reasons)


def _findings(records: Sequence[FrameRecord], reasons: tuple[str, ...], num_undecodable: int) -> tuple[str, ...]:
    num_corrupt = sum(record.is_corrupt for record in records)
    found = [f"the frames were counted by decoding, because of {', '.join(reasons)}"] if reasons else []
    if num_undecodable:
        found.append(f"{counted(num_undecodable, 'packet')} that the codec cannot decode")
    if num_corrupt:
        found.append(f"{counted(num_corrupt, 'frame')} that the codec flags as damaged")
    return tuple(found)


def _anomalies(table: PacketTable) -> tuple[str, ...]:
    pts = table.pts[table.pts != NO_PTS]
    pts.sort()
    kinds = [
        (table.is_discard, "{} decoded but not shown (trimmed by an edit list)"),
        (table.is_hidden, "{} without a picture to show"),
        (table.pts == NO_PTS, "{} without a presentation time"),
        (pts[1:] == pts[:-1], "{} with the presentation time of another"),
        (table.is_broken, "{} damaged, encrypted, of another codec or after a loss"),
    ]
    found = [text.format(counted(count, "packet")) for flags, text in kinds if (count := int(np.count_nonzero(flags)))]
    if table.read_error is not None:
        found.append(f"reading stops after {len(table)} packets: {table.read_error}")
    if len(table) and not table.is_key[0]:
        found.append("the first packet is not a key frame")
    return tuple(found)


# Possible names of each value. ffprobe 4 writes the "pkt_" names; ffprobe 5 writes "pts" and "pkt_duration".
_PTS_NAMES, _DURATION_NAMES = ("pts", "pkt_pts"), ("duration", "pkt_duration")


def parse_frame_mappings(mappings: Any) -> tuple[list[int], list[int], list[bool]]:
    """Parse a user's list of frames. Return the pts, the duration and the key frame flag of each frame.

    ``mappings`` is JSON (str or bytes), or an object whose ``read()`` returns JSON. Raises `InvalidArgumentError` if it
    is invalid.

    >>> parse_frame_mappings('{"frames": [{"pts": "0", "duration": 512, "key_frame": 1}]}')
    ([0], [512], [True])
    """
    try:
        table = json.loads(mappings.read() if hasattr(mappings, "read") else mappings)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"Invalid custom frame mappings: {error}. It should be a valid JSON string or a file-like object."
        ) from None
    frames = table.get("frames") if isinstance(table, dict) else None
    if not isinstance(frames, list) or not frames:
        raise InvalidArgumentError(
            "Invalid custom frame mappings. The input is empty or missing the required 'frames' key."
        )
    rows = [_parse_mapping(frame, number) for number, frame in enumerate(frames)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _parse_mapping(frame: Any, number: int) -> tuple[int, int, bool]:
    names = [_key_in(frame, _PTS_NAMES), _key_in(frame, _DURATION_NAMES), "key_frame"]
    try:
        pts, duration, is_key = (_parse_integer(frame[name]) for name in names)
    except (KeyError, TypeError):
        raise InvalidArgumentError(
            "Invalid custom frame mappings. The 'pts'/'pkt_pts', 'duration'/'pkt_duration', and 'key_frame' keys are "
            f"required in the frame metadata (frame {number} has "
            f"{sorted(frame) if isinstance(frame, dict) else frame!r})."
        ) from None
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: {error}.") from None
    if max(abs(pts), abs(duration)) > MAX_TICKS:
        raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: times that are out of range.")
    if duration < 0:
        raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: duration {duration} is negative.")
    if is_key not in (0, 1):
        raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: key_frame {is_key} is not 0 or 1.")
    return pts, duration, bool(is_key)


def _parse_integer(value: Any) -> int:
    """Convert a number or its digits. Raise like `int`, and for a fraction."""
    integer = int(value)
    if isinstance(value, float) and integer != value:
        raise ValueError(f"{value} is not a whole number")
    return integer


def _key_in(frame: Any, names: Sequence[str]) -> str:
    return next((name for name in names if isinstance(frame, dict) and frame.get(name) is not None), names[0])
