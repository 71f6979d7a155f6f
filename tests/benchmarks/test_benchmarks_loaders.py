"""The benchmark of training loaders and the soak: on tiny videos they run, find the right frames, and let go of all.

Values without noise are tested: packets fed, files opened, handles and threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from benchmarks.apps.soak_files import BREAKAGES
from benchmarks.apps.soak_report import Series
from benchmarks.data import loaders_report
from benchmarks.data.loaders_report import LoaderRow, ratios, summarise
from benchmarks.data.loaders_sets import LoaderCase, write_frames
from benchmarks.data.loaders_ways import OURS, RIVALS, WAYS, planned
from benchmarks.media.clips import Encoded, make_clips, mandelbrot
from benchmarks.media.floor import fed_packets
from benchmarks.media.reference import Comparison, load_reference, make_reference
from benchmarks.shared.processes import Usage

from benchmark_runs import run_quickly
from mediatensor._engine.pyav.demuxer import Demuxer

TOGETHER = f"{OURS}, 4 rows together"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three different ones of 80 frames and one key frame; too large for reading all of them to be free."""
    clips = [
        Encoded(
            str(begin), (mandelbrot("40", begin_seconds=begin),), (320, 240), Fraction(40), 2, options=(("g", "999"),)
        )
        for begin in (0, 2, 4)
    ]
    return [str(path) for path in make_clips(clips, tmp_path_factory.mktemp("clips")).values()]


def small_case(videos: list[str], **changes: Any) -> LoaderCase:
    case = LoaderCase(tuple(videos), rows_per_file=4, size=(24, 32), num_frames_per_clip=3, num_workers=0)
    return planned(replace(case, **changes))


# Loaders


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_reads_the_same_rows(name: str, step: int, videos: list[str]) -> None:
    choice = WAYS[name]
    try:
        way = choice.create()
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"cannot be used here: {error}")
    size = (24, 32) if choice.needs_size else None
    case = small_case(videos, size=size, rows_together=choice.rows_together, num_indices_between_frames=step)
    assert sorted(row for batch in case.batches for row in batch) == list(range(12))
    if size is not None:
        for path in videos:
            write_frames(path, size)
    for row in range(12):
        make_reference(Path(case.path(row)), case.indices(row), size)
    comparison = Comparison()
    for rows, batch in zip(case.batches, way.loader(case), strict=True):
        for row, frames in zip(rows, way.frames(batch), strict=True):
            reference = load_reference(Path(case.path(row)), size)
            for index, frame in zip(case.indices(row), frames, strict=True):
                comparison.add(frame.permute(1, 2, 0).numpy(), reference, index)
    assert comparison.compared == 12 * 3
    if choice.needs_size:  # JPEG loses something
        assert comparison.largest_difference < 128
    else:
        assert comparison.identical == comparison.compared


@contextmanager
def opened_containers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Record containers opened within the block, for decoding or for the index."""
    opened: list[Any] = []
    original = Demuxer.open

    def counting(demuxer: Demuxer) -> None:
        opened.append(demuxer)
        original(demuxer)

    with monkeypatch.context() as patched:
        patched.setattr(Demuxer, "open", counting)
        yield opened


def read_counting(name: str, case: LoaderCase, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """(packets fed, files opened) of an epoch."""
    with fed_packets() as fed, opened_containers(monkeypatch) as opened:
        assert sum(len(batch) for batch in WAYS[name].create().loader(case)) == 12
    return len(fed), len(opened)


def test_rows_that_stand_together_share_files_and_packets(videos: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fed, opened = read_counting(OURS, small_case(videos), monkeypatch)
    fed_together, opened_together = read_counting(TOGETHER, small_case(videos, rows_together=4), monkeypatch)
    assert opened_together == 3, "each file once"
    assert opened_together < opened <= 12, "no file more than once for a row"
    # Once through each file, up to the last frame that is wanted, instead of once for each row.
    assert fed_together <= 3 * 80
    assert fed_together < 0.75 * fed


@pytest.mark.slow
def test_command_of_loaders(tmp_path: Path) -> None:
    names = [OURS, TOGETHER]
    printed, document = run_quickly(
        "data.loaders", tmp_path, "--sets", "film", "--clips", str(tmp_path / "clips"), "--libraries", *names
    )
    assert [row["library"] for row in document["rows"]] == names * 2
    for row in document["rows"]:
        assert row["identical"] == row["compared"] == 4 * 16, row
        assert row["num_clips"] == 8
        assert row["first_batch_seconds"] < row["num_clips"] / row["clips_per_second_median"]
        assert row["cpu_seconds_per_clip"] > 0
        # A clip is 3 MB, and reaches this process in shared memory.
        assert 0 < row["pickled_bytes_per_clip"] < 10_000
        if row["library"].startswith(OURS):
            assert row["resized_identical"] == row["resized_compared"] == 4 * 16, row
    mixed = {line["shuffle"]: line for line in document["shuffles"]}
    assert mixed["full"]["files_per_batch"] > mixed["4 rows together"]["files_per_batch"] == 8
    assert printed == (tmp_path / "loaders.md").read_text(encoding="utf-8") + "\n"
    assert (tmp_path / "loaders.png").stat().st_size > 10_000


def make_row(library: str, wall: float, identical: int = 10) -> LoaderRow:
    run = {
        "num_clips": 10,
        "wall_seconds": wall,
        "cpu_seconds": 2 * wall,
        "start_up_seconds": 0.1,
        "first_batch_seconds": 0.2,
        "pickled_bytes": 1000,
        "peak_rss_mib": 100,
    }
    accuracy = {"identical": identical, "compared": 10, "largest_difference": 0}
    return summarise("set", "clips", library, [run, run], accuracy, accuracy)


def test_no_target_is_reached_slowly_or_with_wrong_frames() -> None:
    assert make_row(OURS, 2.0).clips_per_second_median == 5
    assert make_row(OURS, 2.0).cpu_seconds_per_clip == pytest.approx(0.4)
    for ours, is_met in ((make_row(OURS, 1.0), True), (make_row(OURS, 1.1), False), (make_row(OURS, 1.0, 9), False)):
        (ratio,) = ratios([ours, make_row(RIVALS[0], 1.5), make_row("PyAV", 9.0)])
        assert ratio.is_met == is_met
        assert ratio.cpu_ratio == pytest.approx(ratio.times_as_fast)
    assert loaders_report.AT_LEAST == 1.5


# Soak


@pytest.mark.slow
def test_soak_holds_nothing_back(tmp_path: Path) -> None:
    printed, document = run_quickly("apps.soak", tmp_path, "--clips", str(tmp_path / "clips"), has_to_succeed=False)
    opening, replacing, skipping = document["parts"]
    for part in document["parts"]:
        for process, trends in part["trends"].items():
            for trend in trends:
                # It is too short to say anything about memory. A worker holds a few handles of batches on their way,
                # more of them where the machine is busy.
                is_on_its_way = process != "main process" and trend["measure"] == "num_handles" and trend["rise"] < 8
                is_flat = trend["is_flat"] or trend["measure"] == "rss_mib" or is_on_its_way
                assert is_flat, (part["name"], process, trend)
    assert set(opening["series"]) == {"main process"}
    assert len(opening["series"]["main process"]["steps"]) == 300
    for part in (replacing, skipping):
        assert set(part["series"]) == {"main process", "worker 0", "worker 1"}
        assert part["facts"]["files"] == {"good": 20, **dict.fromkeys(BREAKAGES, 2)}
        assert part["facts"]["files_that_failed"] >= 6, "empty, missing, or not media"
    assert replacing["facts"]["rows_given"] == replacing["facts"]["rows_asked_for"] == 60
    assert skipping["facts"]["rows_given"] == 60 - skipping["facts"]["failures"]
    assert "| main process | file handles |" in printed
    assert (tmp_path / "soak.png").stat().st_size > 10_000


@pytest.mark.slow
def test_mixed_work_leaves_nothing_behind(tmp_path: Path) -> None:
    options = ["--work", "mixed", "--clips", str(tmp_path / "clips")]
    _, document = run_quickly("apps.soak", tmp_path, *options, report="soak_mixed", has_to_succeed=False)
    (part,) = document["parts"]
    assert part["facts"]["rounds"] >= 3
    assert {trend["measure"] for trend in part["trends"]["main process"]} >= {"num_children", "num_files", "pss_mib"}
    for trend in part["trends"]["main process"]:
        assert trend["is_flat"] or trend["measure"] in ("rss_mib", "pss_mib"), trend
    assert {usage["num_children"] for usage in part["series"]["main process"]["usages"]} == {0}
    assert (tmp_path / "soak_mixed.png").stat().st_size > 10_000


def test_a_series_that_rises_is_not_flat() -> None:
    def is_flat(handles: Any, mib: Any) -> dict[str, bool]:
        series = Series()
        for step in range(300):
            series.add(step, Usage(mib(step), handles(step), 3))
        return {trend.measure: trend.is_flat for trend in series.trends()}

    still = is_flat(lambda step: 20 + step % 3, lambda step: 200.0 + (step % 7))
    assert still == {"num_handles": True, "num_threads": True, "rss_mib": True}
    warmed_up = is_flat(lambda step: min(step, 90), lambda step: min(2.0 * step, 190))
    assert warmed_up == still
    assert is_flat(lambda step: 20 + step // 50, lambda step: 200.0) == still | {"num_handles": False}
    assert is_flat(lambda step: 20, lambda step: 200 + 0.1 * step) == still | {"rss_mib": False}
