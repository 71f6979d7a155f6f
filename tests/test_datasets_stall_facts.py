"""What a `StallMeter` makes of known times: its facts, its table, its dict and its plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mediatensor.datasets import StallMeter, Timing
from mediatensor.datasets._stalls import EpochRecord, facts_of
from mediatensor.errors import MissingDependencyError


def timing(worker: int | None, started: float, finished: float, **stages: float) -> Timing:
    return Timing(worker, started, finished, stages)


def record(
    waits: list[tuple[float, float]],
    timings: list[Timing],
    ended: float,
    *,
    num_workers: int | None = 2,
    ahead: int = 0,
) -> EpochRecord:
    epoch = EpochRecord(num_workers, ahead)
    for (asked, given), one in zip(waits, timings, strict=True):
        epoch.add(asked, given, (one,), {})
    epoch.ended = ended
    return epoch


def test_how_many_batches_are_ready_is_what_counting_them_would_give() -> None:
    random = np.random.default_rng(0)
    finished = np.cumsum(random.uniform(0.5, 1.5, 40))
    given = np.maximum.accumulate(finished + random.uniform(0.0, 5.0, 40))
    asked = given - 0.01
    timings = [timing(0, end - 0.4, end) for end in finished.tolist()]
    epoch = record(list(zip(asked.tolist(), given.tolist(), strict=True)), timings, float(given[-1]) + 1)
    facts = facts_of([epoch], now=0.0, num_cores=2)
    moments = np.linspace(given[0], given[-1] + 1, 100_001)
    counted = np.mean([((finished <= moment) & (moment < given)).sum() for moment in moments[::20]])
    assert facts.mean_num_ready == pytest.approx(counted, rel=0.01)


def test_workers_are_busy_from_the_first_batch_on() -> None:
    epoch = record(
        [(0, 10), (11, 14), (15, 15), (16, 20)],
        [timing(0, 1, 10), timing(1, 2, 14), timing(0, 10, 12), timing(1, 14, 18)],
        ended=20,
    )
    facts = facts_of([epoch], now=99.0, num_cores=2)
    assert facts.elapsed_seconds == 10
    assert facts.waited_seconds == 3 + 0 + 4
    assert facts.first_batch_seconds == (10,)
    assert facts.worker_busy_shares == {0: pytest.approx(0.2), 1: pytest.approx(0.8)}
    assert facts.busy_share == pytest.approx(0.5)
    assert facts.read_seconds == 9 + 12 + 2 + 4


def test_a_worker_that_read_nothing_counts() -> None:
    facts = facts_of(
        [record([(0, 1), (1, 2)], [timing(0, 0, 1), timing(0, 1, 2)], 2, num_workers=3)], now=0, num_cores=2
    )
    assert facts.worker_busy_shares == {0: 1, 1: 0, 2: 0}


def test_waiting_for_one_slow_batch_is_told_from_waiting_for_the_hand_over() -> None:
    slow = record([(0, 1), (2, 10), (10, 10)], [timing(0, 0, 1), timing(1, 0, 9), timing(0, 1, 4)], ended=10)
    facts = facts_of([slow], now=0, num_cores=2)
    assert facts.uneven_seconds == 9 - 4  # the third had been read at 4, the second at 9
    assert facts.handover_seconds == 10 - 9
    heavy = record([(0, 1), (5, 9), (9, 12)], [timing(0, 0, 1), timing(1, 0, 4), timing(0, 1, 4)], ended=12)
    facts = facts_of([heavy], now=0, num_cores=2)
    assert (facts.uneven_seconds, facts.handover_seconds) == (0, 4 + 3)


def test_a_loader_that_takes_in_batches_ahead_waits_for_later_ones() -> None:
    waits = [(0.0, 4.0), (5.0, 8.0), (8.0, 12.0)]
    timings = [timing(0, 0, 2), timing(0, 2, 4), timing(0, 4, 8)]
    assert facts_of([record(waits, timings, 12, ahead=1)], now=0, num_cores=2).handover_seconds == 0
    assert facts_of([record(waits, timings, 12, ahead=0)], now=0, num_cores=2).handover_seconds > 0


# What is printed, exported and drawn


@pytest.fixture
def meter() -> StallMeter:
    """Of two epochs with two workers whose times are known."""
    meter = StallMeter()
    for start in (0.0, 100.0):
        waits = [(start + i, start + i + 0.25) for i in range(20)]
        timings = [timing(i % 2, start + i - 1, start + i + 0.2, decode=1.0, convert=0.2) for i in range(20)]
        meter._epochs.append(record(waits, timings, start + 20))
    return meter


def test_the_table_has_the_shares(meter: StallMeter) -> None:
    text = str(meter)
    assert text.startswith("The loop waited 24 % of 39.5 s: 40 batches in 2 epochs, 2 workers on ")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if "%" in line and line.startswith("  ")}
    assert rows["working"][2:] == ["76", "%", "30.0", "s"]
    assert rows["decode"][2:] == ["83", "%", "40.0", "s"]
    assert text.splitlines()[-2].startswith(f"* {meter.advice[-1][:80]}")
    assert max(map(len, text.splitlines())) <= 100


def test_the_dict_is_json(meter: StallMeter) -> None:
    exported = json.loads(json.dumps(meter.as_dict()))
    assert exported == meter.as_dict()
    assert exported["wait_share"] == pytest.approx(9.5 / 39.5)
    assert exported["stage_seconds"] == pytest.approx({"decode": 40.0, "convert": 8.0})
    assert exported["advice"] == meter.advice
    assert set(exported["worker_busy_shares"]) == {"0", "1"}


def test_the_plot_shows_every_batch_but_the_first(meter: StallMeter, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    figure = meter.plot(tmp_path / "stalls.png")
    assert all(tick == int(tick) for tick in figure.axes[0].get_xticks())
    assert (tmp_path / "stalls.png").read_bytes().startswith(b"\x89PNG")
    batches, shares = figure.axes
    assert len(batches.patches) == 2 * 38
    heights = {round(bar.get_height()) for bar in batches.patches}
    assert heights == {750, 250}
    widths = [bar.get_width() for bar in shares.patches]
    assert sum(widths) == pytest.approx(200)  # two bars of 100 %
    boxes = [text.get_window_extent() for text in shares.texts]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize("num_batches", [0, 1, 3000])
def test_any_number_of_batches_can_be_drawn(num_batches: int) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    meter = StallMeter()
    list(meter.watch(range(num_batches)))
    figure = meter.plot()
    assert len(figure.axes[0].patches) <= 2 * 240
    figure.canvas.draw()


def test_a_plot_without_matplotlib_names_the_extra(meter: StallMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[plot\]"):
        meter.plot()
