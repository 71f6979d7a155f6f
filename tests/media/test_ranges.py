"""Byte ranges that reads of a remote file fetch, compared with a slow model and hand-made tables."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor._engine.sources.readers import RangeCache

BLOCK, SHORTEST, LONGEST, KEPT = 4, 8, 32, 80


def small_cache(size: int) -> RangeCache:
    return RangeCache(
        size, block_bytes=BLOCK, min_request_bytes=SHORTEST, max_request_bytes=LONGEST, max_cached_bytes=KEPT
    )


def read(cache: RangeCache, file: bytes, start: int, stop: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the bytes, and the requests made for them."""
    requests = cache.plan(start, stop)
    for begin, end in requests:
        cache.store(begin, file[begin:end])
    return cache.take(start, stop), requests


class SlowModel:
    """A cache that stores each fetched or read byte, newest last, and keeps every byte that must be cached."""

    def __init__(self) -> None:
        self.used: list[int] = []

    def use(self, numbers: range) -> None:
        self.used = [number for number in self.used if number not in numbers] + list(numbers)

    def surely_kept(self) -> set[int]:
        # Whole blocks count: the cache may hold more of a block than was read.
        kept: dict[int, None] = {}
        for number in reversed(self.used):
            kept[number // BLOCK] = None
            if len(kept) > KEPT // BLOCK:
                break
        blocks = list(kept)[: KEPT // BLOCK]
        return {number for number in self.used if number // BLOCK in blocks}


@st.composite
def access_patterns(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, int]]]:
    size = draw(st.integers(1, 400))
    offsets, lengths = st.integers(0, size - 1), st.integers(1, LONGEST)
    operation = st.tuples(st.sampled_from(["read", "next", "announce"]), offsets, lengths)
    return size, draw(st.lists(operation, max_size=40))


@given(access_patterns())
def test_reads_are_exact_and_requests_bounded(pattern: tuple[int, list[tuple[str, int, int]]]) -> None:
    size, operations = pattern
    file = random.Random(size).randbytes(size)
    cache, model, position = small_cache(size), SlowModel(), 0
    announced = range(0)
    for kind, offset, length in operations:
        if kind == "announce":
            announced = range(offset, offset + 3 * length)
            cache.will_need(announced.start, announced.stop)
            continue
        start = min(position, size - 1) if kind == "next" else offset
        stop = min(start + length, size)
        kept = model.surely_kept()
        data, requests = read(cache, file, start, stop)
        position = stop

        assert data == file[start:stop]
        assert cache.num_cached_bytes <= KEPT
        if all(number in kept for number in range(start, stop)):
            assert requests == []
        fetched = [number for begin, end in requests for number in range(begin, end)]
        assert len(set(fetched)) == len(fetched)
        for begin, end in requests:
            assert 0 <= begin < end <= size
            assert end - begin <= LONGEST
            assert begin % BLOCK == 0
            assert end % BLOCK == 0 or end == size
        for begin, end in requests:
            for block in range(begin, end, BLOCK):
                # Bytes are requested, read ahead, or cheaper than another request; none is before the requested range.
                assert block + BLOCK > start
                assert block < stop or block < requests[-1][1]
        model.use(range(start, stop))
        for begin, end in requests:
            model.use(range(begin, end))


def test_sequential_reads_double_up_to_largest_request() -> None:
    file = bytes(range(200))
    cache = small_cache(len(file))
    requests = [request for at in range(0, 120, 2) for request in read(cache, file, at, at + 2)[1]]
    assert requests == [(0, 8), (8, 24), (24, 56), (56, 88), (88, 120)]


def test_jump_restarts_with_smallest_request() -> None:
    file = bytes(range(200))
    cache = small_cache(len(file))
    for at in range(0, 24, 2):
        read(cache, file, at, at + 2)
    assert read(cache, file, 150, 152)[1] == [(148, 156)]
    assert read(cache, file, 156, 158)[1] == [(156, 172)]


def test_announced_range_is_fetched_at_once_and_no_further() -> None:
    file = bytes(range(200))
    cache = small_cache(len(file))
    cache.will_need(41, 66)
    requests = [request for at in range(41, 66) for request in read(cache, file, at, at + 1)[1]]
    assert requests == [(40, 68)]
    assert read(cache, file, 68, 69)[1] == [(68, 84)], "the next read is an ordinary sequential read"


def test_announcement_is_split_into_largest_requests() -> None:
    file = bytes(range(90))
    cache = small_cache(len(file))
    cache.will_need(10, 1000)
    requests = [request for at in range(10, 90) for request in read(cache, file, at, at + 1)[1]]
    assert requests == [(8, 40), (40, 72), (72, 90)]


@pytest.mark.parametrize(
    ("cached", "wanted", "expected"),
    [
        pytest.param([], (1, 3), [(0, 8)], id="cold"),
        pytest.param([0, 4], (1, 3), [], id="all there"),
        pytest.param([0], (1, 7), [(4, 12)], id="the beginning is there"),
        pytest.param([8], (1, 11), [(0, 8)], id="the end is there"),
        pytest.param([4], (1, 11), [(0, 12)], id="one block between two is fetched again"),
        pytest.param([4, 8], (1, 15), [(0, 4), (12, 20)], id="two blocks are not"),
        pytest.param([16], (9, 15), [(8, 16)], id="reading ahead stops at cached blocks"),
        pytest.param([4], (1, 3), [(0, 4)], id="and need not be as long as the shortest request"),
    ],
)
def test_cached_blocks_are_not_fetched(
    cached: list[int], wanted: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    cache = small_cache(100)
    for start in cached:
        cache.store(start, bytes(BLOCK))
    assert cache.plan(*wanted) == expected


def test_least_recently_used_block_is_evicted_first() -> None:
    file = bytes(range(200))
    cache = small_cache(len(file))
    for at in (0, 16, 32, 48, 64, 80, 96, 112, 128, 144):  # ten requests of eight bytes fill it
        read(cache, file, at, at + 1)
    assert read(cache, file, 0, 8)[1] == []
    read(cache, file, 176, 177)
    assert read(cache, file, 0, 8)[1] == []
    assert read(cache, file, 16, 17)[1] == [(16, 24)]
