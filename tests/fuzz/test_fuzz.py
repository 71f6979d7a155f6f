"""Damaged files of every kind: a result or an error of the library, soon, and no open files or memory afterwards.

The first 500 cases of the run that `CONTRIBUTING.md` describes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mediatensor.decoders import VideoDecoder

from .answers import WrongAnswerError
from .cases import Case, damaged_file, read_case
from .corpus import KINDS, seed_file
from .reading import READERS
from .run import SHARES, cases_of
from .supervisor import Worker

_NUM_CASES, _NUM_QUICK_CASES = 500, 200
_AT_A_TIME = 50

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc, as Linux has it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[Worker]:
    with Worker(folder) as running:
        yield running


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, marks=[pytest.mark.slow] if start >= _NUM_QUICK_CASES else [])
        for start in range(0, _NUM_CASES, _AT_A_TIME)
    ],
)
def test_no_file_does_harm(start: int, worker: Worker) -> None:
    cases = cases_of(_NUM_CASES, seed=0)[start : start + _AT_A_TIME]
    reports = {f"python -m tests.fuzz --case {case}": worker.run(case) for case in cases}
    assert {again: report for again, report in reports.items() if "failure" in report} == {}


@pytest.mark.slow
def test_a_worker_that_dies_is_noticed_and_replaced(worker: Worker) -> None:
    case = Case("wav", 1)
    before = worker.run(case)
    os.kill(worker.process_id, signal.SIGSEGV)
    report = worker.run(case)
    assert report["failure"] == "crash: SIGSEGV"
    assert "Segmentation fault" in report["detail"]
    assert worker.run(case)["outcome"] == before["outcome"]


def test_a_wrong_frame_is_noticed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(seed_file("video", "mp4", folder))
    assert read_case(Case("video", 1), path, folder).outcome == "result"
    right = VideoDecoder.get_frame_at
    monkeypatch.setattr(VideoDecoder, "get_frame_at", lambda self, number: right(self, max(0, number - 1)))
    monkeypatch.setattr(VideoDecoder, "frame_index", property(lambda self: replace(self._frames.index, settled=True)))
    with pytest.raises(WrongAnswerError, match="in its place"):
        read_case(Case("video", 1), path, folder)


def test_every_kind_has_its_share() -> None:
    assert set(SHARES) == set(READERS) == set(KINDS)
    assert {case.kind for case in cases_of(_NUM_CASES, seed=0)[:_NUM_QUICK_CASES]} == set(KINDS)


@pytest.mark.slow
def test_a_case_is_the_same_file_every_time(folder: Path) -> None:
    for case in cases_of(30, seed=3):
        assert damaged_file(case, folder) == damaged_file(case, folder)
    assert len({damaged_file(Case("image", seed), folder).data for seed in range(40)}) > 30
