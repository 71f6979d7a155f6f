"""The advice of a `StallMeter`: which sentences follow from which facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mediatensor.datasets import StallFacts
from mediatensor.datasets._stalls import advice

BASE = StallFacts(
    num_epochs=1, num_batches=100, num_workers=2, num_cores=8, first_batch_seconds=(0.1,), elapsed_seconds=10.0
)


def facts(busy: float | None = None, *, waited: float = 5.0, **changes: Any) -> StallFacts:
    if busy is not None:
        changes.setdefault("worker_busy_shares", {0: busy, 1: busy})
    if "stage_seconds" in changes:
        changes["read_seconds"] = sum(changes["stage_seconds"].values())
    return replace(BASE, waited_seconds=waited, **changes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(num_batches=4), [["too few batches"]], id="few batches"),
        pytest.param(
            facts(0.7, waited=0.2), [["not input-bound", "2 %", "would not make it faster"]], id="fast enough"
        ),
        pytest.param(
            facts(waited=0.2, num_workers=8, worker_busy_shares=dict.fromkeys(range(8), 0.2)),
            [["not input-bound"], ["num_workers=2 would do"]],
            id="too many workers",
        ),
        pytest.param(
            facts(0.97, stage_seconds={"open": 1.0, "decode": 15.0, "convert": 3.0}),
            [["decode-bound: 2 of 2 workers busy 97 %, 79 %", "num_workers=4 (8 cores here)", "rows_together=4"]],
            id="decoding",
        ),
        pytest.param(
            facts(0.97, num_cores=2, stage_seconds={"seek": 2.0, "decode": 10.0}),
            [["decode-bound: 2 of 2 workers busy 97 % on 2 cores", "try fewer or smaller frames"]],
            id="decoding on all cores",
        ),
        pytest.param(
            facts(0.9, waited=9.0, stage_seconds={"decode": 10.0}),
            [["num_workers=8 (8 cores here)"]],
            id="far too slow",
        ),
        pytest.param(
            facts(0.9, stage_seconds={"open": 5.0, "index": 6.0, "decode": 7.0}),
            [["open-bound", "rows_per_file", "set_index_cache", "max_open_files"], ["then decode: 39 %"]],
            id="opening",
        ),
        pytest.param(
            facts(0.9, stage_seconds={"decode": 4.0, "convert": 9.0}),
            [["convert-bound", "Resize"], ["then decode"]],
            id="converting",
        ),
        pytest.param(
            facts(0.9, stage_seconds={"decode": 4.0, "transform": 19.0}),
            [["transform-bound", "ToDevice"]],
            id="transforms",
        ),
        pytest.param(
            facts(0.9, stage_seconds={"decode": 4.0, "collate": 19.0}),
            [["collate-bound", "no padding"]],
            id="collating",
        ),
        pytest.param(facts(0.3, loop_stage_seconds={"copy": 4.0}), [["copy-bound", "pin_memory=True"]], id="copying"),
        pytest.param(facts(0.3, handover_seconds=4.0), [["collate-bound", "lighter collate_fn"]], id="hand-over"),
        pytest.param(facts(0.3, uneven_seconds=4.0), [["uneven batches", "bucket_by"]], id="uneven"),
        pytest.param(facts(0.3), [["workers idle", "30 %", "prefetch_factor=4"]], id="idle"),
        pytest.param(
            facts(num_workers=0, waited=7.5, loop_stage_seconds={"decode": 6.0, "other": 1.5}),
            [["num_workers=0", "75 %", "num_workers=4 (8 cores here)"], ["decode: 80 %"]],
            id="no workers",
        ),
        pytest.param(
            facts(num_workers=0, num_cores=1, waited=7.5), [["with num_workers=1 (1 core here)"]], id="one core"
        ),
        pytest.param(facts(), [["input-bound: the loop waited 50 %", "Batch"]], id="unknown"),
        pytest.param(
            facts(0.7, waited=0.2, first_batch_seconds=(4.0, 6.0)),
            [["not input-bound"], ["long start", "5 s, 50 % of all", "persistent_workers"]],
            id="long start",
        ),
    ],
)
def test_advice_follows_from_the_facts(given: StallFacts, expected: list[list[str]]) -> None:
    sentences = advice(given)
    assert len(sentences) == len(expected), sentences
    for sentence, parts in zip(sentences, expected, strict=True):
        for part in parts:
            assert part in sentence
