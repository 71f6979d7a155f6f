"""The one command for machines with a GPU, without one: it runs, judges, and never claims more than it ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check import bench as gpu_check_bench
from benchmarks.gpu_check import worker as gpu_check_worker
from benchmarks.gpu_check.bench import EFFORTS, Bench, compare
from benchmarks.gpu_check.clips import CLIPS
from benchmarks.gpu_check.pixels import pixel_steps
from benchmarks.gpu_check.records import FAIL, NOT_RUN, PASS, Check, Figure, NotRun, Step, Target
from benchmarks.gpu_check.report import Report, exit_code, summary, to_markdown
from benchmarks.gpu_check.running import Plan, run_part

from mediatensor.backends import Surface, scoped_registry
from mediatensor.decoders import VideoDecoder

GPU = {"GPU": "some GPU"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(autouse=True, scope="module")
def registry() -> Iterator[None]:
    """The command registers backends only in its own process."""
    with scoped_registry():
        yield


@pytest.fixture(scope="module")
def bench(folder: Path) -> Bench:
    return Bench(torch.device("cpu"), EFFORTS["tiny"], folder)


def found_by(bench: Bench, name: str) -> list[Check]:
    """The checks of one of the clips."""
    (step,) = (step for step in pixel_steps(bench) if step.name == name)
    return [one for one in step.run() if isinstance(one, Check)]


# The command


def test_without_a_gpu_nothing_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ([], ["--device", "cuda:0"]):
        assert gpu_check.main([*device, "-o", str(tmp_path / "none")]) == 2
        assert "no CUDA device" in (printed := capsys.readouterr().out)
        assert "nothing was checked" in printed
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_the_whole_command_on_the_cpu(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = gpu_check.main(["--device", "cpu", "--tiny", "-o", str(tmp_path), "--clips", str(folder)])
    printed = capsys.readouterr().out
    document = json.loads((tmp_path / "gpu_check.json").read_text(encoding="utf-8"))
    checks = {check["name"]: check for check in document["checks"]}
    assert code == 0, [check for check in checks.values() if check["status"] == FAIL]
    assert document["is_complete"]
    assert {"GPU", "torch", "PyAV", "CPU", "Python"} <= set(document["machine"])
    assert document["summary"].endswith("nothing ran on a GPU.")
    assert printed.rstrip().endswith(document["summary"])
    assert (tmp_path / "gpu_check.md").read_text(encoding="utf-8").rstrip() in printed

    for check in checks.values():
        assert check["status"] in (PASS, FAIL, NOT_RUN)
        assert check["status"] == PASS or check["reason"], check
        # What needs a GPU is in no way passed here.
        is_for_a_gpu = "nvdec" in check["name"] or "device=None" in check["name"] or "GPU" in check["name"]
        assert not is_for_a_gpu or check["status"] == NOT_RUN, check
    for clip in CLIPS:
        assert any(name.startswith(clip.name) for name in checks), clip.name
    assert checks["h264, hybrid: frames"]["status"] == checks["rotated, hybrid: random access"]["status"] == PASS
    assert {"life", "pixels", "reading", "streams"} <= {check["group"] for check in checks.values()}

    scenarios = document["tables"]["Published scenarios"]
    assert {row["way"] for row in scenarios} == {"cpu", "hybrid", "nvdec", "torchcodec cpu", "torchcodec cuda"}
    assert len({(row["clip"], row["scenario"]) for row in scenarios}) == 8, "four scenarios in two sizes"
    for row in scenarios:
        if row["way"] in ("cpu", "hybrid"):
            assert row["frames/s"] > 0
            assert row["runs"] == 1
            assert row["off by up to"] <= 2, row
        elif row["way"] == "nvdec":
            assert row["frames/s"] is None
            assert row["note"] == "not run: no CUDA device"
    full = document["tables"]["Every frame in order, several decoders in threads"]
    assert {row["decoders"] for row in full} == {1, 2}
    assert all((row["frames/s"] is None) == row["note"].startswith("not run") for row in full)
    assert len(document["tables"]["Open and get the first frames: hybrid against NVDEC"]) == 4
    assert document["rule"] == []
    assert [target["is_met"] for target in document["targets"]] == [None] * 4


# Detection of faults


def test_wrong_pixels_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {check.status for check in found_by(bench, "vp8")} == {PASS, NOT_RUN}
    surface = gpu_check_bench._PlanesOnTheCpu.surface

    def brighter(self: Any, picture: Any, device: torch.device) -> Surface:
        made = surface(self, picture, device)
        luma, *chroma = made.planes
        return replace(made, planes=(luma // 2 + 40, *chroma))

    monkeypatch.setattr(gpu_check_bench._PlanesOnTheCpu, "surface", brighter)
    statuses = {check.name: check.status for check in found_by(bench, "vp8")}
    assert statuses["vp8, hybrid: frames"] == FAIL
    assert statuses["vp8, hybrid: random access"] == PASS, "equally wrong in any order"


def test_frames_of_another_order_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    get_frames_at = VideoDecoder.get_frames_at
    monkeypatch.setattr(VideoDecoder, "get_frames_at", lambda self, indices: get_frames_at(self, sorted(indices)))
    statuses = {check.name: check.status for check in found_by(bench, "vp8")}
    assert statuses["vp8, hybrid: random access"] == FAIL
    assert statuses["vp8, hybrid: frames"] == PASS


def test_differences_are_in_levels() -> None:
    dark, light = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.full((2, 3, 4, 4), 3, dtype=torch.uint8)
    assert compare(light, dark).largest == compare(dark, light).mean == 3
    assert compare(light / 255, dark / 255).largest == pytest.approx(3)
    for other in (dark[:1], dark[..., :2], dark.float()):
        assert compare(other, dark).largest == float("inf")


# Running


def steps_of(calls: list[str]) -> list[Step]:
    def run(name: str) -> Iterator[Check]:
        calls.append(name)
        if name == "breaks":
            raise ValueError("no good")
        if name == "absent":
            raise NotRun("there is none")
        yield Check(name, PASS)

    return [Step(name, partial(run, name)) for name in ("first", "breaks", "absent", "last")]


def test_a_step_that_fails_stops_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setitem(gpu_check_worker.PARTS, "checks", {"some": lambda bench: steps_of(calls)})
    checks: list[Any] = []
    plan = Plan("cpu", "tiny", bench.folder, 60, has_processes=False)
    run_part(plan, "checks", checks, lambda line: None, lambda: None)
    assert [(check.name, check.status, check.reason, check.group) for check in checks] == [
        ("first", PASS, "", "some"),
        ("breaks", FAIL, "ValueError: no good", "some"),
        ("absent", NOT_RUN, "there is none", "some"),
        ("last", PASS, "", "some"),
    ]
    calls.clear()
    run_part(replace(plan, budget_seconds=-1), "checks", checks, lambda line: None, lambda: None)
    assert calls == []
    assert {check.status for check in checks[4:]} == {NOT_RUN}


_WORKER = """
import os, sys, time
from benchmarks.shared.workers import serve

class Worker:
    def start(self, **_):
        return {"steps": [f"step {number}" for number in range(4)]}

    def run(self, number):
        if number == 1:
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if number == 2:
            time.sleep(60)
        check = {"kind": "check", "name": f"check {number}", "status": "pass", "figure": "", "reason": "", "group": "g"}
        return {"found": [check]}

serve(Worker())
"""


def test_a_process_that_dies_or_hangs_costs_one_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dying_worker.py").write_text(_WORKER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    checks: list[Any] = []
    saved: list[int] = []
    plan = Plan("cpu", "tiny", tmp_path, 60, True, patience_seconds=2, module="dying_worker")
    monkeypatch.setitem(gpu_check_worker.PARTS, "ocr", {"reading": lambda bench: []})
    run_part(plan, "ocr", checks, lambda line: None, lambda: saved.append(len(checks)))
    found = {check.name: (check.status, check.reason) for check in checks}
    assert found == {
        "check 0": (PASS, ""),
        "step 1": (FAIL, "its process ended with 3: out of memory"),
        "step 2": (FAIL, "its process said nothing for 2 s and was ended"),
        "check 3": (PASS, ""),
    }
    assert saved[0] >= 1, "results are written before the end"


# Reports


def test_a_report_says_no_more_than_what_was_run() -> None:
    passed, failed, absent = Check("a", PASS), Check("b", FAIL, reason="off"), Check("c", NOT_RUN, reason="no GPU")
    assert exit_code(Report(GPU, [passed, absent], is_complete=True)) == 0
    assert exit_code(Report(GPU, [passed, failed], is_complete=True)) == 1
    assert exit_code(Report(GPU, [passed], is_complete=False)) == 1
    assert exit_code(Report(GPU, [absent], is_complete=True)) == 1, "nothing was run"
    assert exit_code(Report(GPU, [Figure("table", {"way": "cpu"})], is_complete=True)) == 0
    report = Report(GPU, [passed, failed, absent, Target("fast", None, "no GPU")], is_complete=True)
    assert summary(report) == "1 checks passed, 1 failed, 1 were not run."
    text = to_markdown(report)
    assert "| b | **FAIL** |  | off |" in text
    assert "| c | not run |  | no GPU |" in text
    assert "| fast | not measured | no GPU |" in text
    assert "did not come to its end" in summary(Report(GPU, [passed], is_complete=False))
