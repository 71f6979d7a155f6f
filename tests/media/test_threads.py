"""The budget of threads: the function, the environment, and DataLoader workers."""

from __future__ import annotations

import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import mediatensor
from mediatensor.errors import InvalidArgumentError

pytestmark = pytest.mark.usefixtures("own_limits")


class NumThreads(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return mediatensor.get_num_threads()


def test_default_is_one_more_than_available_cores() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert mediatensor.get_num_threads() == (cores + 1 if cores > 1 else 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind a process to one core")
def test_default_is_one_on_single_core() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert mediatensor.get_num_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_function_overrides_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_NUM_THREADS", "3")
    assert mediatensor.get_num_threads() == 3
    mediatensor.set_num_threads(5)
    assert mediatensor.get_num_threads() == 5


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_invalid_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MEDIATENSOR_NUM_THREADS", text)
    with pytest.raises(InvalidArgumentError, match="MEDIATENSOR_NUM_THREADS"):
        mediatensor.get_num_threads()


def test_dataloader_worker_gets_one_thread() -> None:
    mediatensor.set_num_threads(7)
    assert torch.cat(list(DataLoader(NumThreads(), num_workers=1))).tolist() == [1, 1]
