"""The figures and the advice of a `StallMeter`, for loops and workers that are simulated on a clock of our own.

The advice is compared with the best change: each simulation is repeated with a faster loop body, more workers, more
reading ahead and so on, and the change that saves most of the time must be the one that the meter advises.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from mediatensor import FrameBatch
from mediatensor._engine.common import stages
from mediatensor.datasets import Batch, StallMeter, Timing, ToDevice


class Clock:
    """A clock that only the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep_until(self, moment: float) -> None:
        self.now = max(self.now, moment)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    return clock


@dataclass(frozen=True)
class Loop:
    """A training loop and its loader; times are seconds for each batch.

    Attributes:
        body: The loop's own work.
        read: Reading by a worker, for even and for odd batches.
        stage: The stage that takes this time.
        send: The way from the workers, one batch after the other.
        wrap: A function around the loader.
        transform: A transform of `ToDevice`.
        copy: A copy to the device.
        start: The start of the workers.
        num_workers: 0 if the loop reads.
        prefetch: Batches ahead for each worker.
    """

    body: float = 0.1
    read: tuple[float, ...] = (0.1,)
    stage: str = "decode"
    send: float = 0.0
    wrap: float = 0.0
    transform: float = 0.0
    copy: float = 0.0
    start: float = 0.5
    num_workers: int = 2
    prefetch: int = 2
    num_batches: int = 60


class SimulatedLoader:
    """Gives the batches of a loop, at the times at which torch's ``DataLoader`` would."""

    def __init__(self, loop: Loop, clock: Clock) -> None:
        self.loop, self.clock, self.num_workers = loop, clock, loop.num_workers

    def __iter__(self) -> Iterator[Batch]:
        loop, clock = self.loop, self.clock
        if loop.num_workers:
            clock.sleep(loop.start)
        free, given, channel = [clock.now] * loop.num_workers, [], clock.now
        begun = clock.now
        for number in range(loop.num_batches):
            seconds = loop.read[number % len(loop.read)]
            if loop.num_workers:
                worker = number % loop.num_workers
                before = number - loop.num_workers * loop.prefetch
                started = max(free[worker], given[before] if before >= 0 else begun)
                finished = free[worker] = started + seconds
                channel = max(channel, finished) + loop.send
                clock.sleep_until(channel)
                given.append(clock.now)
                timing = Timing(worker, started, finished, {loop.stage: 0.9 * seconds})
            else:
                started = clock.now
                with stages.Stage(loop.stage):
                    clock.sleep(seconds)
                timing = Timing(None, started, clock.now, {loop.stage: seconds})
            with stages.COPY:
                clock.sleep(loop.copy)
            clock.sleep(loop.wrap)
            yield Batch(frames=FrameBatch(torch.zeros(1, 3, 2, 2), [0.0], [1.0]), timings=(timing,))


def run(loop: Loop, clock: Clock) -> tuple[StallMeter, float]:
    """Train, and return the meter and the time that it took."""

    def transform(frames: torch.Tensor) -> torch.Tensor:
        clock.sleep(loop.transform)
        return frames

    began = clock.now
    with StallMeter() as meter:
        for _ in meter.watch(ToDevice(SimulatedLoader(loop, clock), "cpu", transform)):
            clock.sleep(loop.body)
    return meter, clock.now - began


#: Possible changes, and the words of the advice.
CHANGES: dict[str, tuple[Callable[[Loop], Loop], str]] = {
    "body": (lambda loop: replace(loop, body=loop.body / 2), "The loop body is the bottleneck"),
    "reading": (lambda loop: replace(loop, read=tuple(0.5 * one for one in loop.read)), "The workers are slow"),
    "reading in workers": (
        lambda loop: loop if loop.num_workers else replace(loop, num_workers=4, start=0.0),
        "The loop reads its batches itself",
    ),
    "prefetch": (lambda loop: replace(loop, prefetch=2 * loop.prefetch), "do not read far enough ahead"),
    "transfer": (lambda loop: replace(loop, send=loop.send / 2, wrap=loop.wrap / 2), "The transfer from the workers"),
    "transform": (lambda loop: replace(loop, transform=loop.transform / 2), "Work in the loop's own thread is slow"),
    "copy": (lambda loop: replace(loop, copy=loop.copy / 2), "The copy to the device is slow"),
    "start": (lambda loop: replace(loop, start=loop.start / 2), "The start is slow"),
}


@pytest.mark.parametrize(
    ("best", "loop"),
    [
        pytest.param("body", Loop(body=0.3), id="slow body"),
        pytest.param("body", Loop(body=0.3, read=(0.59,)), id="slow body, workers just fast enough"),
        pytest.param("reading", Loop(read=(0.6,)), id="slow workers"),
        pytest.param(
            "reading", Loop(read=(1.0,), transform=0.02, copy=0.02, send=0.01), id="slow workers among several causes"
        ),
        pytest.param("reading in workers", Loop(num_workers=0, read=(0.3,)), id="no workers"),
        pytest.param("prefetch", Loop(body=0.2, read=(0.1,) * 17 + (1.6,)), id="one batch of 18 is slow"),
        pytest.param("transfer", Loop(send=0.3), id="slow way from the workers"),
        pytest.param("transfer", Loop(wrap=0.3), id="slow function around the loader"),
        pytest.param("transform", Loop(transform=0.3), id="slow transform in the loop"),
        pytest.param("transform", Loop(transform=0.3, num_workers=0, read=(0.1,)), id="the same without workers"),
        pytest.param("transform", Loop(body=0.05, transform=0.2, read=(0.2,)), id="the same, and workers half busy"),
        pytest.param("copy", Loop(copy=0.3), id="slow copy"),
        pytest.param("start", Loop(start=20.0), id="slow start"),
    ],
)
def test_advice_names_the_change_that_saves_most(best: str, loop: Loop, clock: Clock) -> None:
    meter, seconds = run(loop, clock)
    saved = {name: seconds - run(change(loop), clock)[1] for name, (change, _) in CHANGES.items()}
    if best == "prefetch":  # workers that read twice as fast are worth as much, but reading ahead costs nothing
        assert saved["prefetch"] > 0.05 * seconds
    else:
        assert max(saved, key=saved.__getitem__) == best, saved
    sentences = [words for _, words in CHANGES.values() if words in meter.advice]
    assert sentences == [CHANGES[best][1]], meter.advice


def test_advised_number_of_workers_ends_the_waiting(clock: Clock) -> None:
    for loop in (Loop(read=(0.35,)), Loop(num_workers=0, read=(0.5,))):
        advised = re.search(r"num_workers=(\d+) \(8 cores here\)", run(loop, clock)[0].advice)
        assert advised is not None
        num_workers = int(advised[1])
        assert run(replace(loop, num_workers=num_workers), clock)[0].facts.wait_share < 0.05
    assert "num_workers=" not in run(Loop(num_workers=8, read=(2.0,)), clock)[0].advice, "there are 8 cores"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("open", "set_index_cache"),
        ("index", "set_index_cache"),
        ("seek", "key frames"),
        ("decode", "key frames"),
        ("convert", "Resize"),
        ("transform", "ToDevice"),
        ("collate", "no padding"),
        ("custom", "in custom"),
    ],
)
def test_advice_for_slow_workers_is_about_their_slowest_stage(stage: str, words: str, clock: Clock) -> None:
    assert words in run(Loop(read=(0.6,), stage=stage), clock)[0].advice


def test_facts_match_the_simulation(clock: Clock) -> None:
    loop = Loop(body=0.1, read=(0.6,), start=2.0, send=0.01, copy=0.02, transform=0.03, num_batches=20)
    facts = run(loop, clock)[0].facts
    assert (facts.num_epochs, facts.num_batches, facts.num_workers, facts.num_cores) == (1, 20, 2, 8)
    assert facts.first_batch_seconds == pytest.approx((2.0 + 0.6 + 0.01 + 0.02 + 0.03,))
    assert facts.elapsed_seconds - facts.waited_seconds == pytest.approx(20 * 0.1)
    assert facts.loop_stage_seconds == pytest.approx({"copy": 19 * 0.02, "transform": 19 * 0.03})
    assert facts.stage_seconds == pytest.approx({"decode": 20 * 0.54, "other": 20 * 0.06})
    # Both workers read all the time, until the last batches are being worked on.
    assert facts.worker_busy_shares.keys() == {0, 1}
    for share in facts.worker_busy_shares.values():
        assert share == pytest.approx(9 * 0.6 / facts.elapsed_seconds, rel=0.02)


def test_a_worker_that_read_nothing_counts(clock: Clock) -> None:
    facts = run(Loop(num_workers=4, num_batches=3), clock)[0].facts
    assert facts.worker_busy_shares == {0: 0, 1: 0, 2: 0, 3: 0}, "all was read before the first batch"


@pytest.mark.parametrize(("num_ahead", "expected"), [(0, 2.0), (1, 0.0)])
def test_a_loader_that_reads_ahead_waits_for_later_batches(num_ahead: int, expected: float, clock: Clock) -> None:
    class Loader:
        num_batches_ahead = num_ahead

        def __iter__(self) -> Iterator[Batch]:
            for number, read in enumerate([(0, 2), (2, 4), (4, 8)]):
                clock.sleep_until(1000.0 + [4, 6, 8][number])
                started, finished = (1000.0 + moment for moment in read)
                yield Batch(timings=(Timing(0, started, finished, {}),))

    meter = StallMeter()
    list(meter.watch(Loader()))
    assert meter.facts.waited_seconds == 4.0
    assert meter.facts.handover_seconds == expected


# Text


def test_the_table_has_the_shares(clock: Clock) -> None:
    meter, _ = run(Loop(read=(0.6,), num_batches=20), clock)
    text = str(meter)
    waited = 100 * meter.facts.wait_share
    assert text.startswith(f"The loop waited {waited:.0f} % of ")
    assert ": 20 batches in 1 epoch, 2 workers on 8 cores." in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("  ")}
    assert rows["working"][-4:] == [f"{100 - waited:.0f}", "%", "2.0", "s"]
    assert rows["decode"][-4:] == ["90", "%", "10.8", "s"]
    assert " ".join(text.rpartition("\n\n")[2].split()) == meter.advice
    assert max(map(len, text.splitlines())) <= 100


def test_the_dict_is_json(clock: Clock) -> None:
    meter, _ = run(Loop(read=(0.6,)), clock)
    exported: dict[str, Any] = json.loads(json.dumps(meter.as_dict()))
    assert exported == meter.as_dict()
    assert exported["wait_share"] == pytest.approx(meter.facts.waited_seconds / meter.facts.elapsed_seconds)
    assert exported["advice"] == meter.advice
    assert set(exported["worker_busy_shares"]) == {"0", "1"}


def test_of_unknown_batches_and_of_few_the_cause_is_not_guessed(clock: Clock) -> None:
    def sleepy(num_batches: int) -> Iterator[int]:
        for number in range(num_batches):
            clock.sleep(1.0)
            yield number

    meter = StallMeter()
    list(meter.watch(sleepy(4)))
    assert meter.advice == "Too few batches for advice (4; at least 5)."
    list(meter.watch(sleepy(4)))
    assert "only objects of type Batch" in meter.advice
    assert (meter.facts.num_workers, meter.facts.busy_share) == (None, None)
