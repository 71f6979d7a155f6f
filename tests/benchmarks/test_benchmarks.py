"""The benchmarks: their arithmetic and reports, a run on tiny clips, and the gains that must not be lost.

Gains are guarded by counting pictures that codecs are fed: noise of the machine does not show in that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.media import measuring
from benchmarks.media.chart import draw_chart
from benchmarks.media.clips import Encoded, make_clips, mandelbrot
from benchmarks.media.documents import update_documents
from benchmarks.media.floor import FedPacket, fed_packets
from benchmarks.media.libraries import APPROXIMATE, EXACT, LIBRARIES, OURS
from benchmarks.media.measuring import Effort
from benchmarks.media.ratios import TARGETS, Target, compute_ratios
from benchmarks.media.reference import Comparison, load_reference, make_reference
from benchmarks.media.reporting import Report, speed_table
from benchmarks.media.scenarios import KINDS
from benchmarks.media.suites import SUITES, part_of, quick_suite
from benchmarks.shared.results import Row, quartiles, summarise

import media_writing
from mediatensor.decoders import VideoDecoder

PYAV = "PyAV, seek and decode"
ROOT = Path(__file__).parents[2]


def make_row(library: str, wall: float = 1.0, identical: int = 10, **changes: Any) -> Row:
    """A row of ten frames."""
    found = {"wall_seconds": [wall], "cpu_seconds": [2 * wall], "peak_rss_mib": 200.0, "rss_before_mib": 100.0}
    found |= {"identical": identical, "compared": 10, "largest_difference": 0 if identical == 10 else 7}
    return replace(summarise("suite", "clip", "scenario", library, 10, found), **changes)


# Arithmetic


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], (3, 3, 3)), ([1.0, 2.0], (1.25, 1.5, 1.75)), ([5.0, 1.0, 3.0], (2, 3, 4))]
)
def test_quartiles_are_those_of_numpy(values: list[float], expected: tuple[float, ...]) -> None:
    assert quartiles(values) == expected
    assert quartiles(values) == pytest.approx(np.quantile(values, (0.25, 0.5, 0.75)).tolist())


def test_ratio_is_against_the_better_rival() -> None:
    rows = [make_row(OURS, 1.0), make_row(EXACT[0], 3.0), make_row(EXACT[1], 1.5), make_row(APPROXIMATE[0], 0.5)]
    target = Target("suite", "scen", at_least=1.4, aim=2.0)
    (ratio,) = compute_ratios(rows, [target])
    assert (ratio.rival, ratio.wall_ratio, ratio.cpu_ratio, ratio.is_met) == (EXACT[1], 1.5, 1.5, True)
    (ratio,) = compute_ratios(rows, [replace(target, at_least=1.6)])
    assert not ratio.is_met
    (ratio,) = compute_ratios(rows, [replace(target, rivals=APPROXIMATE)])
    assert (ratio.rival, ratio.wall_ratio) == (APPROXIMATE[0], 0.5)


def test_wrong_frames_reach_no_target() -> None:
    rows = [make_row(OURS, 1.0, identical=9), make_row(EXACT[0], 9.0)]
    (ratio,) = compute_ratios(rows, [Target("suite", "scenario", at_least=1.4)])
    assert ratio.wall_ratio == 9
    assert not ratio.is_met


def test_no_ratio_without_both_sides() -> None:
    target = Target("suite", "scenario", at_least=1.4)
    assert compute_ratios([make_row(OURS)], [target]) == []
    assert compute_ratios([make_row(EXACT[0])], [target]) == []
    assert compute_ratios([make_row(OURS), make_row(EXACT[0], suite="other")], [target]) == []


def test_pictures_are_counted_for_each_frame() -> None:
    found = {"wall_seconds": [1.0], "cpu_seconds": [1.0], "peak_rss_mib": 0.0, "rss_before_mib": 0.0}
    found |= {"identical": 0, "compared": 0, "largest_difference": 0, "num_packets": 25}
    assert summarise("s", "c", "s", OURS, 10, found).decoded_per_frame == 2.5
    assert summarise("s", "c", "s", OURS, 0, found).decoded_per_frame is None


def test_speed_table_has_the_better_rival_and_marks_what_is_slower() -> None:
    rows = [
        make_row(OURS, 1.0),
        make_row(EXACT[0], 3.0),
        make_row(EXACT[1], 1.5, cpu_median=9.0, batch_mib=40.0),
        make_row("decord", 7.0),
    ]
    rows += [make_row(OURS, 2.0, clip="other"), make_row(EXACT[0], 1.0, clip="other")]
    rows.append(make_row(OURS, scenario="alone"))
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in speed_table(rows).splitlines()]
    assert dict(zip(table[0], table[2], strict=True)) == {
        "clip": "clip", "work": "scenario", "mediatensor, ms": "1000", "torchcodec, ms": "1500",
        "times as fast": "1.50", "in CPU time": "3.00", "memory, MiB": "100 / 60", "OpenCV": "", "decord": "7000",
        "identical": "10 of 10",
    }  # fmt: skip
    assert (table[3][0], table[3][4]) == ("other", "**0.50**")
    assert len(table) == 4, "no line without a rival"


# Cases and suites


@pytest.mark.parametrize("name", SUITES)
def test_suites_add_up(name: str) -> None:
    suite = SUITES[name]()
    assert len({clip.name for clip in suite.clips}) == len(suite.clips)
    for clips, scenarios in suite.plan:
        for clip in clips:
            for scenario in scenarios:
                assert set(scenario.libraries) <= set(LIBRARIES)
                case = scenario.case([Path("a.mp4"), Path("b.mp4")], clip.num_frames)
                assert case.kind in KINDS
                assert all(0 <= i < clip.num_frames for wanted in case.frames().values() for i in wanted)
                assert len(case.paths) == max(1, scenario.num_files)
    assert max(clip.num_frames for clip in quick_suite(suite).clips) <= 240


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.suite} {target.scenario} {target.clip}")
def test_every_target_names_a_measurement(target: Target) -> None:
    places = [
        (clip.name, scenario.name)
        for clips, scenarios in SUITES[target.suite]().plan
        for scenario in scenarios
        for clip in clips
        if {target.ours, *target.rivals} <= set(scenario.libraries)
    ]
    assert any(clip.startswith(target.clip) and name.startswith(target.scenario) for clip, name in places)


# Clips and references

PART = Encoded("part", (mandelbrot(filters=",fps=60"),), (64, 48), Fraction(60), 0.5, options=(("g", "600"),))


def test_comparison_tells_wrong_frames(tmp_path: Path) -> None:
    path = make_clips([PART], tmp_path)["part"]
    make_reference(path, [3, 20], None)
    make_reference(path, [5], None)
    reference = load_reference(path, None)
    assert set(reference.digests) == {3, 5, 20}
    image = VideoDecoder(path, dimension_order="NHWC")[20].numpy()
    comparison = Comparison()
    comparison.add(image, reference, 20)
    assert (comparison.compared, comparison.identical) == (1, 1)
    changed = image.copy()
    changed[0, 0, 0] ^= 4
    comparison.add(changed, reference, 20)
    assert (comparison.compared, comparison.identical, comparison.largest_difference) == (2, 1, 4)
    comparison.add(image[::2], reference, 20)
    assert comparison.largest_difference == 255


# Processes


@pytest.mark.slow
def test_every_run_has_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Counted(measuring.WorkerProcess):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(arguments)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(measuring, "WorkerProcess", Counted)
    suite = quick_suite(part_of(SUITES["everyday"](), ["320x180", ": 10 uniform"]))
    for effort, num_processes in ((Effort(repeats=3), 3), (Effort(repeats=2, keeps_workers=True), 1)):
        started.clear()
        measurement = measuring.measure_suite("everyday", suite, tmp_path, [PYAV], effort, lambda line: None)
        (row,) = measurement.rows
        assert (len(row.wall_seconds), row.identical, row.compared) == (effort.repeats, 10, 10)
        assert len(started) == num_processes


@pytest.mark.slow
def test_rounds_end_when_there_is_no_time_for_another(tmp_path: Path) -> None:
    suite = quick_suite(part_of(SUITES["everyday"](), ["320x180", ": 10 uniform"]))
    effort = Effort(repeats=3, minutes=1e-6, keeps_workers=True)
    measurement = measuring.measure_suite("everyday", suite, tmp_path, [PYAV], effort, lambda line: None)
    assert [len(row.wall_seconds) for row in measurement.rows] == [1]
    assert "1 rounds" in measurement.notes[0]


# Reports


def test_chart_has_a_bar_for_each_library(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [make_row(library, wall, scenario=s) for s in "ab" for library, wall in ((OURS, 1.0), (PYAV, 100.0))]
    draw_chart("title", rows, tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert drawn.count("#1b7f5c") == 2  # ours, once in each panel
    assert drawn.count("#8a94a6") == 2


def test_pages_get_the_tables_of_a_run(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "speed.md"
    page.parent.mkdir()
    for path in (page, tmp_path / "README.md"):
        path.write_text((ROOT / path.relative_to(tmp_path)).read_text(encoding="utf-8"), encoding="utf-8")
    rows = [make_row(name, wall, clip="320x180, 20 s", scenario="first 390 frames") for name, wall in
            ((OURS, 0.3125), (EXACT[0], 0.5))]  # fmt: skip
    rows += [replace(row, scenario="open and count frames") for row in rows]
    machine = {
        "torchcodec": "0.17.0+cu130 (FFmpeg 5)",
        "cores": "2, of which 2 can be used",
        "load average at the start": "0.25 0.50 1.00",
        "date": "2026-01-02 03:04",
    }
    chart = tmp_path / "benchmarks" / "results" / "everyday.png"
    chart.parent.mkdir(parents=True)
    chart.touch()
    for _ in range(2):  # the second call replaces the output of the first
        update_documents(Report(machine, {}, rows, [], []), tmp_path)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert readme.count("| 320x180, 20 s: first 390 frames | 312 ms | 500 ms | 1.60 | 1.60 |") == 1
    assert "open and count frames |" not in readme
    assert page.read_text(encoding="utf-8").count("(../benchmarks/results/everyday.png)") == 1
    assert page.read_text(encoding="utf-8").count("| 320x180, 20 s | open and count frames | 312 |") == 1
    assert "torchcodec 0.17.0; 2 cores with a load of 0.25 at the start, 2026-01-02, one run of each." in readme
    page.write_text("# No place for a table", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the lines"):
        update_documents(Report(machine, {}, rows, [], []), tmp_path)


# A run


def run_quickly(folder: Path, suites: list[str], libraries: list[str], only: str) -> Any:
    """Return the report of the first suite."""
    options = ["--quick", "--only", *only.split(", "), "-o", str(folder), "--clips", str(folder / "clips")]
    main([*suites, *options, "--libraries", *libraries])
    return json.loads((folder / f"{suites[0]}.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_quick_run_writes_all_reports(tmp_path: Path) -> None:
    document = run_quickly(tmp_path, ["everyday"], [OURS, PYAV], "320x180")
    assert document["notes"] == [] or "matplotlib" in document["notes"][0]
    assert [row["library"] for row in document["rows"]] == [OURS, PYAV] * 8
    for row in document["rows"]:
        num_frames = row["num_frames"] // (4 if "decodes" in row["scenario"] else 1)
        assert row["identical"] == row["compared"] == num_frames or row["library"] != OURS
        assert (num_frames == 0) == ("count" in row["scenario"])
        assert row["wall_median"] > 0
        assert (row["decoded_per_frame"] is not None) == (row["library"] == OURS and num_frames > 0)
    assert (tmp_path / "everyday.md").read_text(encoding="utf-8").startswith("## Machine")
    assert {"mediatensor", "PyAV", "cores"} <= set(document["machine"])


def test_a_library_that_fails_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "modules"
    broken.mkdir()
    (broken / "decord.py").write_text("raise ImportError('no such library here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(broken), prepend=":")
    document = run_quickly(tmp_path, ["everyday"], ["decord"], "320x180, : 10 uniform")
    assert document["rows"] == []
    assert "decord: left out" in document["notes"][0]
    assert "no such library here" in document["notes"][0]


@pytest.mark.slow
def test_an_interrupted_run_reports_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, cases = measuring._run_round, []

    def interrupted(where: str, *arguments: Any) -> None:
        cases.append(where)
        if len(cases) == 2:
            raise KeyboardInterrupt
        original(where, *arguments)

    monkeypatch.setattr(measuring, "_run_round", interrupted)
    document = run_quickly(tmp_path, ["everyday", "published"], [PYAV], "10 uniform")
    assert len(document["rows"]) == 1
    assert len(cases) == 2, "nothing is begun after that"
    assert "everyday was interrupted" in document["notes"][0]


# Gains that must not be lost

GOP = 30
NUM_FRAMES = 120


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GOPs of 30 with three B pictures at a time, of which x264 refers to one: half the pictures can be left out."""
    options = {"preset": "veryfast", "g": str(GOP), "keyint_min": str(GOP), "bf": "3", "sc_threshold": "0"}
    options |= {"b_strategy": "0", "mbtree": "0"}
    path = tmp_path_factory.mktemp("gains") / "clip.mp4"
    media_writing.write_clip(media_writing.ClipSpec("", options=options, num_frames=NUM_FRAMES, size=(320, 240)), path)
    return path


def fed(call: Callable[[], object]) -> list[FedPacket]:
    with fed_packets() as packets:
        call()
    return packets


def packets_without_skipping(path: Path, indices: Sequence[int]) -> int:
    """Packets from the key frame of each touched GOP up to the last wanted picture in it."""
    index = VideoDecoder(path).frame_index
    last: dict[int, int] = {}
    for i in indices:
        last[i // GOP] = max(last.get(i // GOP, 0), int(index.packet[i]) % GOP + 1)
    return sum(last.values())


def test_pictures_that_cannot_matter_are_not_decoded(path: Path) -> None:
    indices = [28, 57, 86, 115]  # towards the ends of four GOPs
    decoder = VideoDecoder(path, num_ffmpeg_threads=1)
    decoder.get_frame_at(0)
    num_fed = len(fed(lambda: decoder.get_frames_at(indices)))
    assert num_fed <= 0.7 * packets_without_skipping(path, indices)


def test_stepping_backwards_decodes_each_gop_about_once(path: Path) -> None:
    decoder = VideoDecoder(path)
    len(decoder)
    num_fed = len(fed(lambda: [decoder.get_frame_at(i) for i in reversed(range(NUM_FRAMES))]))
    assert num_fed <= 1.5 * NUM_FRAMES
    without_memory = sum(packets_without_skipping(path, [i]) for i in range(GOP)) * NUM_FRAMES // GOP
    assert num_fed <= 0.2 * without_memory


@pytest.mark.parametrize("frames", [range(40, 56), [10, 40, 70, 100]], ids=["clip", "far apart"])
def test_the_same_frames_again_cost_nothing(frames: Sequence[int], path: Path) -> None:
    decoder = VideoDecoder(path)
    once = len(fed(lambda: decoder.get_frames_at(frames)))
    assert len(fed(lambda: decoder.get_frames_at(frames))) == 0
    assert 0 < once <= packets_without_skipping(path, frames) + 8


def cpu_seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def test_remembered_frames_are_much_cheaper(path: Path) -> None:
    """CPU time in one process, side by side, with a wide margin: of several attempts one must show it."""
    indices = list(range(GOP - 1, NUM_FRAMES, GOP))
    ratios = []
    for _ in range(5):
        with VideoDecoder(path) as decoder:
            len(decoder)
            first = cpu_seconds(lambda: decoder.get_frames_at(indices))
            again = cpu_seconds(lambda: decoder.get_frames_at(indices))
        ratios.append(first / max(again, 1e-6))
    assert max(ratios) >= 3


def test_figures_of_tiny_clips_stay_out_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["everyday", "--quick", "--update-docs"])
    assert "--quick measures tiny clips" in capsys.readouterr().err
