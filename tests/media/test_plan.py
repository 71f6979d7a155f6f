"""The decode plan on plain arrays, compared with a simulation that counts decoded frames."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor._engine.index.building import from_table
from mediatensor._engine.index.frame_index import FrameIndex
from mediatensor._engine.video.plan import Segment, make_plan


def index_with_keys(num_frames: int, keys: list[int]) -> FrameIndex:
    is_key = [i in keys for i in range(num_frames)]
    return from_table(range(num_frames), [1] * num_frames, is_key, Fraction(1, 25))


@pytest.mark.parametrize(
    ("wanted", "position", "max_skipped", "plan"),
    [
        ([0], None, 0, [(0, [0])]),
        ([5, 7], None, 0, [(0, [5, 7])]),
        ([5, 12], None, 0, [(0, [5]), (1, [12])]),
        ([5, 12], None, 4, [(0, [5, 12])]),  # 4 frames to the next key frame are decoded rather than flushed away
        ([25], 3, 0, [(2, [25])]),
        ([8], 3, 0, [(None, [8])]),  # the same GOP, ahead: continue
        ([2], 3, 0, [(0, [2])]),  # earlier: seek
        ([10], 10, 0, [(None, [10])]),
        ([8, 25], 3, 0, [(None, [8]), (2, [25])]),
    ],
)
def test_plans_match_hand_made_ones(
    wanted: list[int], position: int | None, max_skipped: int, plan: list[tuple[int | None, list[int]]]
) -> None:
    index = index_with_keys(30, [0, 10, 20])
    expected = [Segment(key_frame, tuple(members), len(plan) > 1) for key_frame, members in plan]
    assert make_plan(index, wanted, position, max_skipped) == expected
    drained = [Segment(key_frame, tuple(members), True) for key_frame, members in plan]
    assert make_plan(index, wanted, position, max_skipped, drains=True) == drained


@pytest.mark.parametrize(("drains", "fed"), [(True, "I b P - P b P - P - P"), (False, "I b P - P b P b P b P")])
def test_only_unwanted_disposable_frames_are_left_out(drains: bool, fed: str) -> None:
    """The display order is I b P b P b P b P b P, and the first and third of the five disposable frames are wanted."""
    pictures = [*"IbPbPbPbPbP"]
    segment = Segment(0, (1, 5), drains)
    needed = [kind != "b" or segment.needs(i) for i, kind in enumerate(pictures)]
    assert [kind if is_fed else "-" for kind, is_fed in zip(pictures, needed, strict=True)] == fed.split()


@given(
    keys=st.sets(st.integers(1, 59), max_size=8),
    wanted=st.sets(st.integers(0, 59), min_size=1, max_size=20),
    position=st.none() | st.integers(0, 60),
    max_skipped=st.integers(0, 20),
)
def test_plan_yields_each_frame_once(keys: set[int], wanted: set[int], position: int | None, max_skipped: int) -> None:
    index = index_with_keys(60, sorted(keys | {0}))
    at, decoded, given_out = position, [], []
    for segment in make_plan(index, sorted(wanted), position, max_skipped):
        if segment.key_frame is not None:
            at = int(index.key_frame_pts[segment.key_frame])
        for place in segment.places:
            assert at <= place, "the codec only goes forward"
            decoded += range(at, place + 1)
            given_out.append(place)
            at = place + 1
    assert given_out == sorted(wanted)
    assert len(decoded) == len(set(decoded))
    # Never more than seeking to the key frame before each frame, plus the max_skipped of one run-through for each.
    by_seeking = sum(w - max(k for k in keys | {0} if k <= w) + 1 for w in wanted)
    assert len(decoded) <= by_seeking + max_skipped * len(wanted)
