"""What a GPU decodes and reads is what the CPU does: each step of `benchmarks.gpu_check` that checks something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmarks.gpu_check.bench import EFFORTS, Bench
from benchmarks.gpu_check.records import FAIL, NOT_RUN, Check, Step
from benchmarks.gpu_check.worker import PARTS, run_step

from mediatensor.backends import scoped_registry

DEVICE = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # fallbacks warn, and are looked at by the steps
]


def step_names(group: str) -> list[str]:
    with scoped_registry():
        return [step.name for step in PARTS["checks"][group](Bench(DEVICE, EFFORTS["quick"], Path()))]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with scoped_registry():
        yield Bench(DEVICE, EFFORTS["quick"], tmp_path_factory.mktemp("clips"))


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in PARTS["checks"] for name in step_names(group)])
def test_step(group: str, name: str, bench: Bench) -> None:
    (step,) = (step for step in PARTS["checks"][group](bench) if step.name == name)
    checks = checks_of(group, step)
    assert [f"{check.name}: {check.reason}" for check in checks if check.status == FAIL] == []
    if checks and all(check.status == NOT_RUN for check in checks):
        pytest.skip(checks[0].reason)


def checks_of(group: str, step: Step) -> list[Check]:
    return [found for found in run_step(group, step) if isinstance(found, Check)]
