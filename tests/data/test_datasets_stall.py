"""`StallMeter`: its report on loops and loaders with known times, and on our own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.utils.data
from torch.profiler import ProfilerActivity, profile

from mediatensor.datasets import Batch, DataLoader, Sample, StallMeter, Timing, ToDevice, VideoClips
from mediatensor.errors import InvalidArgumentError


class SleepyLoader:
    """Gives numbers, each after a while."""

    def __init__(self, num_batches: int, seconds: float, first: float = 0.0) -> None:
        self.num_batches, self.seconds, self.first = num_batches, seconds, first

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[int]:
        time.sleep(self.first)
        for number in range(self.num_batches):
            time.sleep(self.seconds)
            yield number


# Watching


def test_waiting_and_working_are_measured_separately() -> None:
    with StallMeter() as meter:
        for _ in meter.watch(SleepyLoader(8, 0.03, first=0.2)):
            time.sleep(0.01)
    facts = meter.facts
    assert facts.num_batches == 8
    assert facts.first_batch_seconds[0] >= 0.22
    assert facts.waited_seconds >= 7 * 0.03
    assert facts.elapsed_seconds - facts.waited_seconds >= 8 * 0.01
    assert 0.55 < facts.wait_share < 0.9
    assert facts.num_workers is None
    assert facts.busy_share is None


def test_epochs_add_up_and_one_that_is_left_counts_up_to_there() -> None:
    meter = StallMeter()
    watched = meter.watch(SleepyLoader(4, 0.0))
    assert len(watched) == 4
    assert [list(watched), list(watched)] == [[0, 1, 2, 3]] * 2
    for number in watched:
        if number == 2:
            time.sleep(0.05)
            break
    assert (meter.facts.num_epochs, meter.facts.num_batches) == (3, 11)
    assert meter.facts.elapsed_seconds >= 0.05
    elapsed = meter.facts.elapsed_seconds
    time.sleep(0.02)
    assert meter.facts.elapsed_seconds == elapsed


def test_a_loop_that_fails_is_measured_up_to_there() -> None:
    meter = StallMeter()

    def train() -> None:
        with meter:
            for number in meter.watch(SleepyLoader(3, 0.0)):
                1 / (1 - number)

    with pytest.raises(ZeroDivisionError):
        train()
    elapsed = meter.facts.elapsed_seconds
    assert meter.facts.num_batches == 2
    assert meter.facts.elapsed_seconds == elapsed


def test_a_meter_that_watched_nothing_says_so() -> None:
    meter = StallMeter()
    assert str(meter) == "No batch was watched."
    assert meter.as_dict()["num_batches"] == 0
    assert list(meter.watch([])) == []
    assert str(meter) == "No batch was watched."


@pytest.mark.slow
def test_waiting_is_a_range_in_a_trace() -> None:
    meter = StallMeter()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        list(meter.watch(SleepyLoader(3, 0.0)))
    events = {event.key: event for event in profiler.key_averages()}
    assert events["mediatensor::wait"].count == 4  # the last one finds the end


def test_a_missing_device_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="nonsense"):
        StallMeter(device="nonsense")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidArgumentError, match="cuda"):
            StallMeter(device="cuda")
    assert list(StallMeter(device="cpu").watch([1])) == [1]


def test_pending_gpu_work_counts_as_working(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_for = []

    def synchronize(device: torch.device) -> None:
        waited_for.append(device)
        time.sleep(0.03)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    meter = StallMeter(device="cuda:1")
    list(meter.watch(SleepyLoader(5, 0.0)))
    assert waited_for == [torch.device("cuda:1")] * 6
    assert meter.facts.wait_share < 0.5


# Over datasets


@pytest.fixture
def dataset(clip: Path) -> VideoClips:
    return VideoClips([clip, clip], num_frames_per_clip=4, rows_per_file=8)


def first_sources(samples: list[Sample]) -> list[str]:
    return [sample.source for sample in samples]


def test_stages_of_workers_are_within_the_time_that_they_were_busy(dataset: VideoClips) -> None:
    loader = DataLoader(dataset, 2, num_workers=2, shuffle=True)
    with StallMeter() as meter:
        for _ in range(2):
            for _ in meter.watch(loader):
                pass
    facts = meter.facts
    assert facts.num_workers == 2
    assert facts.num_batches == 16
    assert {"open", "index", "seek", "decode", "convert"} <= set(facts.stage_seconds)
    assert "wait" not in facts.stage_seconds
    assert facts.stage_seconds.get("other", 0) < 0.5 * sum(facts.stage_seconds.values())
    assert set(facts.worker_busy_shares) == {0, 1}
    assert all(0 < share <= 1 for share in facts.worker_busy_shares.values())
    assert 0 <= facts.handover_seconds <= facts.waited_seconds + 1e-9


def test_without_workers_the_loop_itself_reads(dataset: VideoClips) -> None:
    meter = StallMeter()
    for _ in meter.watch(DataLoader(dataset, 2)):
        pass
    facts = meter.facts
    assert facts.num_workers == 0
    assert facts.worker_busy_shares == {}
    assert facts.loop_stage_seconds.get("decode", 0) == 0
    assert facts.stage_seconds["decode"] > 0
    assert 0.5 * facts.waited_seconds < sum(facts.stage_seconds.values()) <= facts.waited_seconds
    assert "num_workers=0" in meter.advice


@pytest.mark.parametrize("num_workers", [0, 1])
def test_torchs_loader_is_understood_too(dataset: VideoClips, num_workers: int) -> None:
    meter = StallMeter()
    list(meter.watch(torch.utils.data.DataLoader(dataset, 2, collate_fn=list, num_workers=num_workers)))
    assert meter.facts.num_workers == num_workers
    assert meter.facts.stage_seconds["decode"] > 0


def test_of_other_batches_only_the_waiting_is_known(dataset: VideoClips) -> None:
    meter = StallMeter()
    list(meter.watch(torch.utils.data.DataLoader(dataset, 2, collate_fn=first_sources, num_workers=1)))
    facts = meter.facts
    assert (facts.num_workers, facts.num_batches) == (1, 8)
    assert facts.waited_seconds > 0
    assert facts.busy_share is None


def test_a_device_in_between_is_looked_through(dataset: VideoClips) -> None:
    meter = StallMeter()
    list(meter.watch(ToDevice(DataLoader(dataset, 2, num_workers=1), "cpu", half)))
    assert meter.facts.num_workers == 1
    assert meter.facts.stage_seconds["decode"] > 0
    assert meter.facts.loop_stage_seconds["transform"] > 0


def half(frames: torch.Tensor) -> torch.Tensor:
    return frames / 2


def test_workers_of_a_wrapped_loader_are_found(dataset: VideoClips) -> None:
    class Wrapper:
        num_batches_ahead = 1

        def __init__(self) -> None:
            self.loader = DataLoader(dataset, 4, num_workers=1)

        def __iter__(self) -> Iterator[Any]:
            return iter(self.loader)

    meter = StallMeter()
    list(meter.watch(Wrapper()))
    assert meter.facts.num_workers == 1


def test_batches_travel_unchanged() -> None:
    batch = Batch(timings=(Timing(0, 0.0, 1.0, {"decode": 0.5}),))
    assert next(iter(StallMeter().watch([batch]))) is batch
