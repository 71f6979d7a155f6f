"""How many threads a call gets and in which way: pure arithmetic, and a loop that runs parts side by side.

::

    one run of the codec      ═══ codec threads ═══►          FFmpeg decodes several pictures at a time
    several runs              lane 0  ─ run ─► ─ run ─►       a codec for each lane, each with one thread;
                              lane 1  ─ run ─────────►        a lane takes the next run when it is done
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Crew", "choose_crew", "run_in_lanes"]

# What a demuxer and a codec cost to open, in pictures of 1920x1080.
_OPENING = 3.0
# After a jump, going on for about so many pictures is to be expected.
_AHEAD = 10.0
# Codec threads wait for each other, and for the first and last pictures of a run.
_CODEC_THREAD_EFFICIENCY = 0.8
# What a lane does with each picture holds the interpreter's lock.
_LOCKED = 0.05

_PIXELS_PER_UNIT = 1920 * 1080

LaneT = TypeVar("LaneT")
PartT = TypeVar("PartT")


@dataclass(frozen=True)
class Crew:
    """Who decodes a call.

    Attributes:
        num_lanes: Codecs that run side by side.
        num_codec_threads: Of each.
    """

    num_lanes: int
    num_codec_threads: int


def choose_crew(
    pictures: Sequence[int],
    pixels: int,
    *,
    num_threads: int,
    num_codec_threads: int | None,
    num_open_lanes: int,
    codec_has_threads: bool = True,
) -> Crew:
    """The quickest crew for the runs of a call.

    Args:
        pictures: How many pictures each run decodes.
        pixels: Of a picture.
        num_threads: How many threads there are.
        num_codec_threads: Of the codec that is open; ``None`` if none is.
        num_open_lanes: Lanes that are open.
        codec_has_threads: Whether one codec can use several threads.

    >>> choose_crew([100, 100], 1920 * 1080, num_threads=2, num_codec_threads=None, num_open_lanes=1)
    Crew(num_lanes=2, num_codec_threads=1)
    >>> choose_crew([200], 1920 * 1080, num_threads=2, num_codec_threads=None, num_open_lanes=1)
    Crew(num_lanes=1, num_codec_threads=2)
    """

    def opening(codec_threads: int) -> float:
        return 0.0 if num_codec_threads in (None, codec_threads) else _OPENING

    size = pixels / _PIXELS_PER_UNIT
    work = sum(pictures) * size
    ahead = _AHEAD * size if len(pictures) == 1 else 0.0
    single = (work + ahead + opening(1), Crew(1, 1))
    if num_threads == 1:
        return single[1]
    speed_up = max(1.0, num_threads * _CODEC_THREAD_EFFICIENCY)
    threaded = ((work + ahead) / speed_up + opening(num_threads), Crew(1, num_threads))
    num_lanes = min(num_threads, len(pictures))
    longest = max(work / num_lanes, max(pictures) * size, sum(pictures) * _LOCKED)
    split = (longest + opening(1) + max(0, num_lanes - num_open_lanes) * _OPENING, Crew(num_lanes, 1))
    options = [single, *([threaded] if codec_has_threads else []), *([split] if num_lanes > 1 else [])]
    return min(options, key=lambda option: option[0])[1]


def run_in_lanes(lanes: Sequence[LaneT], parts: Sequence[PartT], work: Callable[[LaneT, PartT], None]) -> None:
    """Do ``work`` for all parts, each lane in a thread of its own; the first lane works in the calling thread.

    Raises:
        BaseException: the first error of any lane, after all of them have stopped.
    """
    waiting = deque(parts)
    errors: list[BaseException] = []

    def run(lane: LaneT) -> None:
        try:
            while not errors:
                try:
                    part = waiting.popleft()
                except IndexError:
                    return
                work(lane, part)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(lane,), name="mediatensor-lane") for lane in lanes[1:]]
    for thread in threads:
        thread.start()
    run(lanes[0])
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
