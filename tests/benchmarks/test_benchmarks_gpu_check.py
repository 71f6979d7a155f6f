"""The one command for machines with a GPU, without one: it runs, judges, and never says more than what was run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check import bench as gpu_check_bench
from benchmarks.gpu_check import machine as gpu_check_machine
from benchmarks.gpu_check import worker as gpu_check_worker
from benchmarks.gpu_check.bench import EFFORTS, Bench, compare
from benchmarks.gpu_check.clips import CLIPS, REFUSED, make_clip
from benchmarks.gpu_check.machine import driver_support, parse_load
from benchmarks.gpu_check.pages import share_of_words
from benchmarks.gpu_check.pixels import pixel_steps
from benchmarks.gpu_check.records import FAIL, NOT_RUN, PASS, Check, Figure, NotRun, Step, Target
from benchmarks.gpu_check.report import Report, exit_code, summary, to_markdown
from benchmarks.gpu_check.running import Plan, run_part
from benchmarks.gpu_check.streams import share_overlapped
from benchmarks.gpu_check.throughput import crossover_rule

from mediatensor.backends import Surface, scoped_registry
from mediatensor.decoders import VideoDecoder

GPU = {"GPU": "some GPU"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(autouse=True, scope="module")
def registry() -> Iterator[None]:
    """What the command registers is there for its own process alone."""
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


# What the checks notice


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


# The clips


def test_the_edit_list_cuts(bench: Bench) -> None:
    (clip,) = (clip for clip in CLIPS if clip.num_cut)
    paths = [make_clip(one, bench.folder, (160, 144), 12) for one in (clip, replace(clip, num_cut=0))]
    with VideoDecoder(paths[0]) as cut, VideoDecoder(paths[1]) as whole:
        assert torch.equal(cut.get_all_frames().data, whole.get_all_frames().data[clip.num_cut :])


def test_the_stream_changes_midway(bench: Bench) -> None:
    (clip,) = (clip for clip in REFUSED if clip.then)
    with av.open(str(make_clip(clip, bench.folder, (160, 144), 4))) as container:
        formats = [frame.format.name for frame in container.decode(video=0)]
    assert formats == ["yuv420p"] * 4 + ["yuv422p"] * 4


@pytest.mark.parametrize("name", ["BT.709 full 8 bit", "BT.2020 limited 10 bit"])
def test_colours_are_what_the_name_says(bench: Bench, name: str) -> None:
    (clip,) = (clip for clip in CLIPS if clip.name == name)
    with av.open(str(make_clip(clip, bench.folder, (160, 144), 2))) as container:
        frame = next(container.decode(video=0))
    assert (frame.colorspace, frame.color_range) == clip.colour
    assert frame.format.components[0].bits == clip.bits


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


def test_the_rule_is_what_the_table_shows() -> None:
    def rows(size: str, *faster: str) -> list[dict[str, Any]]:
        return [{"size": size, "frames": 4**k, "faster": way} for k, way in enumerate(faster)]

    table = [
        *rows("small", "hybrid", "hybrid", "hybrid"),
        *rows("middle", "nvdec", "hybrid", "nvdec"),
        *rows("large", "nvdec", "nvdec", "nvdec"),
        *rows("unknown", "nvdec", NOT_RUN, "nvdec"),
    ]
    assert crossover_rule(table) == [
        "small: hybrid up to 16 frames at least",
        "middle: NVDEC from 16 frames on",
        "large: NVDEC from 1 frames on",
    ]


def test_the_load_of_the_engines() -> None:
    printed = """# gpu    sm   mem   enc   dec   jpg   ofa
# Idx     %     %     %     %     %     %
    0     3     1     0     0     0     0
    0    20     5     0    90     0     0
# gpu    sm   mem   enc   dec   jpg   ofa
    0    30     6     0    94     0     0
    0     -     -     -     -     -     -
"""
    load = parse_load(printed)
    assert load.dec == [0, 90, 94]
    assert (load.busy("dec"), load.busy("sm")) == (92, 25)
    assert parse_load("not supported").busy("dec") is None
    support = driver_support("h264", "420", 8, torch.device("cpu"))
    assert (support.is_supported, support.takes((64, 64))) == (None, None)


def test_the_load_is_sampled_beside_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nsleep 0.2\necho '# gpu sm mem enc dec'\necho \"  0 7 1 0 $7\"\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(gpu_check_machine, "_selector", lambda device: "0")
    with gpu_check_machine.sampled_load(torch.device("cuda"), 3.5) as load:
        assert load.dec == []
    assert (load.dec, load.sm, load.reason) == ([3], [7], "")
    with gpu_check_machine.sampled_load(torch.device("cpu"), 3.5) as load:
        pass
    assert load.reason == "no CUDA device"


def test_the_driver_names_sizes() -> None:
    support = replace(driver_support("h264", "420", 8, torch.device("cpu")), is_supported=True)
    support = replace(support, sizes=((48, 16), (4096, 4096)))
    assert [support.takes(size) for size in ((48, 16), (32, 32), (8192, 64))] == [True, False, False]


def test_copies_beside_kernels() -> None:
    copy = ("Memcpy HtoD (Pinned -> Device)", 0.0, 10.0)
    assert share_overlapped([copy, ("gemm", 4.0, 8.0), ("gemm", 6.0, 9.0)]) == pytest.approx(0.5)
    assert share_overlapped([copy, ("gemm", 10.0, 20.0)]) == 0
    assert share_overlapped([("gemm", 0.0, 1.0)]) == 0


def test_shares_of_words() -> None:
    assert share_of_words(["a", "b", "c"], ["a", "b", "c"]) == 1
    assert share_of_words(["a", "c"], ["a", "b", "c", "d"]) == 0.5
    assert share_of_words([], ["a"]) == 0
