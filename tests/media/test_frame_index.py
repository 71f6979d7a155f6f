"""The frame index on plain arrays: order, durations, times, key frames, and packets that must not be trusted."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor._engine.containers.sample_tables import NO_PTS, PacketTable
from mediatensor._engine.index.building import FrameRecord, from_frames, from_packets
from mediatensor._engine.index.building import from_table as index_from_table
from mediatensor._engine.index.frame_index import FrameIndex

TICK = Fraction(1, 100)


def packets(
    pts: list[int | None], keys: Sequence[int] = (0,), *, duration: int | list[int] = 10, **flags: list[int] | str
) -> PacketTable:
    """Return a table of packets in decode order; ``keys`` and the flags list packet numbers."""
    count = len(pts)

    def numbers(name: str) -> np.ndarray:
        return np.isin(np.arange(count), flags.get(name, []))

    return PacketTable(
        pts=np.array([NO_PTS if t is None else t for t in pts], np.int64),
        dts=np.arange(count, dtype=np.int64) * 10,
        duration=np.broadcast_to(np.array(duration, np.int64), (count,)).copy(),
        size=np.full(count, 100, np.int64),
        position=np.arange(count, dtype=np.int64) * 100,
        is_key=np.isin(np.arange(count), keys),
        is_discard=numbers("discard"),
        is_hidden=numbers("hidden"),
        is_broken=numbers("broken"),
        is_field=numbers("fields"),
        read_error=flags.get("read_error"),  # type: ignore[arg-type]
    )


def index_of(table: PacketTable) -> FrameIndex:
    return from_packets(table, TICK, Fraction(10))[0]


def reasons_of(table: PacketTable) -> tuple[str, ...]:
    return from_packets(table, TICK, Fraction(10))[1]


def test_frames_are_kept_packets_in_order_of_time() -> None:
    index = index_of(packets([0, 30, 10, 20, 40], keys=[0, 4]))
    assert index.pts.tolist() == [0, 10, 20, 30, 40]
    assert index.packet.tolist() == [0, 2, 3, 1, 4]
    assert index.is_key_frame.tolist() == [True, False, False, False, True]
    assert index.key_frame_indices.tolist() == [0, 4]
    assert index.pts_seconds.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert (index.begin_seconds, index.end_seconds, index.average_fps) == (0.0, 0.5, 10.0)


def test_trimmed_and_hidden_packets_are_not_frames() -> None:
    index = index_of(packets([-10, 0, 10, 15, 20], discard=[0], hidden=[3]))
    assert index.pts.tolist() == [0, 10, 20]
    assert index.key_frame_packet.tolist() == [0], "decoding still starts at the trimmed key frame"
    assert len(index.anomalies) == 2


def test_unknown_durations_last_until_the_next_frame() -> None:
    assert index_of(packets([0, 10, 40, 50], duration=[0, 10, 0, 0])).duration.tolist() == [10, 10, 10, 10]
    assert index_of(packets([5], duration=0)).duration.tolist() == [10], "a single frame lasts 1 / frame rate"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (packets([0, None, 20]), "without a presentation time"),
        (packets([0, 10, 10]), "equal presentation times"),
        (packets([0, 10, 20], broken=[1]), "damaged"),
        (packets([0, 10, 20], fields=[0, 1]), "single fields"),
        (packets([0, 10, 20], hidden=[0, 1, 2]), "seem to show nothing"),
        (packets([0, 10, 20], discard=[0, 1, 2]), "seem to show nothing"),
        (packets([0, 10, 20, 30], hidden=[1, 3]), "seem to show nothing"),
        (packets([0, 10], read_error="disk on fire"), "stops early"),
        (packets([0, 10, 20], keys=[1]), "first packet is not a key frame"),
        (packets([20, 0, 10, 30]), "before the first key frame in time"),
        (packets([0, 10, 50, 40, 20, 30], keys=[0, 3]), "after a key frame in time"),
        (replace(packets([0, 10, 20]), reasons_to_decode=("a size that changes",)), "a size that changes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_packets_that_may_differ_from_frames_are_a_reason_to_decode(table: PacketTable, reason: str) -> None:
    assert any(reason in found for found in reasons_of(table))


@pytest.mark.parametrize(
    "table",
    [
        packets([0, 10, 20, 30]),
        packets([0, 30, 10, 20, 60, 40, 50], keys=[0, 4]),  # open GOP: 40 and 50 follow key frame 60 in the file
        packets([-10, 0, 10], discard=[0]),
        packets([0, 10, 15, 20], hidden=[2]),
        packets([0, 10, 95, 100]),  # a gap
    ],
)
def test_intact_packets_need_no_decoding(table: PacketTable) -> None:
    assert reasons_of(table) == ()


def played_at_slowly(index: FrameIndex, t: float) -> int:
    """Look at each frame for the last one that has started."""
    return max(i for i, start in enumerate(index.pts_seconds.tolist()) if start <= t)


@given(
    steps=st.lists(st.integers(1, 1000), min_size=1, max_size=20),
    start=st.integers(-500, 500),
    at=st.floats(0, 1, exclude_max=True),
)
def test_frame_played_at_time_is_last_that_started(steps: list[int], start: int, at: float) -> None:
    index = index_of(packets((start + np.cumsum([0, *steps])).tolist()))
    t = index.begin_seconds + at * (index.end_seconds - index.begin_seconds)
    assert index.played_at(np.array([t])).tolist() == [played_at_slowly(index, t)]


def test_gap_plays_frame_before_it() -> None:
    index = index_of(packets([0, 10, 50]))
    assert index.played_at(np.array([0.0, 0.0999, 0.1, 0.3, 0.49999, 0.5])).tolist() == [0, 0, 1, 1, 1, 2]


def key_frame_slowly(table: PacketTable, index: FrameIndex, frame: int) -> int:
    """Look for the last key packet that neither follows the frame's packet in the file nor comes after it in time."""
    number = int(index.packet[frame])
    keys = [k for k in range(len(table)) if table.is_key[k] or k == 0]
    possible = [k for k in keys if k <= number and table.pts[k] <= table.pts[number]]
    return possible[-1] if possible else 0


@given(
    order=st.permutations(range(12)),
    keys=st.sets(st.integers(0, 11), max_size=5),
)
def test_entries_equal_a_search_over_all_packets(order: list[int], keys: set[int]) -> None:
    table = packets([10 * i for i in order], keys=sorted(keys | {0}))
    index = index_of(table)
    for frame in range(len(index)):
        assert index.key_frame_packet[index.key_frame_for(frame)] == key_frame_slowly(table, index, frame)


def records(*frames: tuple[int | None, int]) -> list[FrameRecord]:
    return [FrameRecord(pts, None, 10, n + 1, crc, False, n == 0) for n, (pts, crc) in enumerate(frames)]


def test_decoded_index_keeps_codec_order_with_ascending_times() -> None:
    table = packets([0, 10, 20, 30])
    index = from_frames(records((0, 7), (20, 8), (10, 9)), table, TICK, Fraction(10))
    assert index.settled
    assert index.pts.tolist() == [0, 10, 20]
    assert index.fingerprint is not None
    assert index.fingerprint.tolist() == [7, 8, 9]
    assert index.codec_pts is not None
    assert index.codec_pts.tolist() == [0, 20, 10]


def test_decoding_times_go_to_frames_in_codec_order() -> None:
    """In the file I0 P10 b20 I30 b40 P50, shown as I b P b I P."""
    given = packets([0, 10, 20, 30, 40, 50], keys=[0, 3])
    out = [
        replace(one, is_key=one.pts in (0, 30), num_packets=min(6, number + 3))
        for number, one in enumerate(records(*((t, t) for t in (0, 20, 10, 40, 30, 50))))
    ]
    index = from_frames(out, given, TICK, None)
    assert index.pts.tolist() == [0, 10, 20, 30, 40, 50]
    assert index.packet.tolist() == [0, 2, 1, 4, 3, 5]
    assert index.key_frame_indices.tolist() == [0, 4]
    assert [index.key_frame_for(frame) for frame in range(6)] == [0, 0, 0, 0, 1, 1], "b40 needs frames before I30"


@pytest.mark.parametrize(
    ("second", "keys", "shown"),
    [
        ([0, 10, 20, 30], (0, 4), [0, 10, 20, 30, 40, 50, 60, 70]),  # the same twice
        ([5, 15, 25, 35], (0, 4), [0, 5, 10, 15, 20, 25, 30, 35]),  # a step back over a few packets: jitter
        ([0, 10, 20, 30], (0,), [0, 0, 10, 10, 20, 20, 30, 30]),  # over no key frame
        ([100, 110, 120, 130], (0, 4), [0, 10, 20, 30, 100, 110, 120, 130]),
    ],
)
def test_frames_after_a_leap_back_come_later(second: list[int], keys: tuple[int, ...], shown: list[int]) -> None:
    times = [0, 10, 20, 30, *second]
    out = [replace(one, is_key=number in keys) for number, one in enumerate(records(*((t, t) for t in times)))]
    index = from_frames(out, packets(list(times), keys), TICK, None)
    assert index.pts.tolist() == shown
    assert index.packet.tolist() == list(range(8)), "times that come again do not confuse frames with each other"
    assert [index.key_frame_for(frame) for frame in (3, 4, 7)] == [0, *[len(keys) - 1] * 2]


@pytest.mark.parametrize(
    ("times", "packet", "shown"),
    [
        ([0, 20, 10, 40, 30, 60, 50], [0, 2, 1, 4, 3, 6, 5], [0, 10, 20, 30, 40, 50, 60]),  # wherever it reorders
        ([0, 10, 20, 50, 30, 60], [0, 2, 1, 4, 3, 5], [0, 10, 20, 50, 50, 60]),  # one that comes late
        ([0, 30, 10, 20, 30, 40], [0, 3, 1, 2, 5, 4], [0, 10, 10, 20, 30, 40]),  # one that comes early
    ],
)
def test_falling_times_are_sorted_without_moving_frames(times: list[int], packet: list[int], shown: list[int]) -> None:
    packets_by_number = dict(zip(packet, times, strict=True))
    table = packets([packets_by_number[number] for number in range(len(times))])
    out = [replace(one, num_packets=len(times)) for one in records(*((t, n) for n, t in enumerate(times)))]
    index = from_frames(out, table, TICK, None)
    assert index.pts.tolist() == shown
    assert index.fingerprint is not None
    assert index.fingerprint.tolist() == list(range(len(times)))


def test_long_leap_back_starts_a_part() -> None:
    times = [*range(0, 400, 10), *range(100, 300, 10)]
    out = [replace(one, is_key=number in (0, 40)) for number, one in enumerate(records(*((t, t) for t in times)))]
    index = from_frames(out, packets(list(times), [0, 40]), TICK, None)
    assert index.pts.tolist() == list(range(0, 600, 10))


def test_false_key_flags_of_the_container_are_corrected() -> None:
    table = packets([0, 10, 20], keys=[0, 1, 2])
    index = from_frames(records((0, 7), (10, 8), (20, 9)), table, TICK, Fraction(10))  # only the first is a key frame
    assert index.key_frame_packet.tolist() == [0]
    assert index.key_frame_indices.tolist() == [0]


def test_equal_times_keep_codec_order() -> None:
    index = from_frames(records((0, 1), (10, 2), (10, 3), (5, 4)), packets([0, 10, 10, 5]), TICK, Fraction(10))
    assert index.fingerprint is not None
    assert index.fingerprint.tolist() == [1, 2, 3, 4]


def test_frames_without_times_follow_each_other_by_their_durations() -> None:
    index = from_frames(records((None, 1), (None, 2), (None, 3)), packets([None] * 3), TICK, Fraction(10))
    assert index.pts.tolist() == [0, 10, 20]
    assert index.codec_pts is not None
    assert set(index.codec_pts.tolist()) == {NO_PTS}


@pytest.mark.parametrize(
    ("pts", "completed"),
    [
        ([None, None, None], [0, 10, 20]),
        ([0, None, None, 30], [0, 10, 20, 30]),
        ([0, None, None, 12], [0, 4, 8, 12]),  # no room for whole durations
        ([None, None, 100, None], [80, 90, 100, 110]),
        ([50, None, 20], [20, 50, 50]),  # times run backwards: the three that there are go to the frames in order
    ],
)
def test_frames_without_times_keep_codec_order(pts: list[int | None], completed: list[int]) -> None:
    frames = records(*((t, n) for n, t in enumerate(pts)))
    index = from_frames(frames, packets([None] * len(pts)), TICK, Fraction(10))
    assert index.pts.tolist() == completed


def test_decoding_times_replace_missing_ones() -> None:
    frames = [FrameRecord(None, dts, 10, n + 1, n, False, True) for n, dts in enumerate([7, 17, 29])]
    assert from_frames(frames, packets([None] * 3), TICK, Fraction(10)).pts.tolist() == [7, 17, 29]


def test_damage_is_recorded() -> None:
    frames = [FrameRecord(0, 0, 10, 1, 1, False, True), FrameRecord(10, 10, 10, 2, 2, True, False)]
    index = from_frames(frames, packets([0, 10, 20]), TICK, Fraction(10), reasons_to_decode=("x",), refused=[2])
    assert index.is_damaged.tolist() == [False, True]
    text = "; ".join(index.anomalies)
    assert "1 packet that the codec cannot decode" in text
    assert "1 frame that the codec flags as damaged" in text


def test_user_table_is_sorted_and_trusted() -> None:
    index = index_from_table([20, 0, 10], [10, 10, 10], [True, True, False], TICK)
    assert index.is_authoritative
    assert index.pts.tolist() == [0, 10, 20]
    assert index.key_frame_indices.tolist() == [0, 2]


def test_index_can_be_pickled() -> None:
    index = index_of(packets([0, 30, 10, 20], keys=[0]))
    copied = pickle.loads(pickle.dumps(index))
    assert copied.pts.tolist() == index.pts.tolist()
    assert copied.key_frame_for(2) == index.key_frame_for(2)
