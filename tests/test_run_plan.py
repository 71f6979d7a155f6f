"""`plan_run`: its formulae against what a web server is asked for, and against orders of epochs that were drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from benchmarks.remote import remux

from mediatensor.datasets import FileCost, Item, Shuffle, VideoClips, plan_run, shuffle_quality
from mediatensor.datasets._batches import epoch_order
from mediatensor.errors import InvalidArgumentError, OpenError
from range_server import serve

NUM_FRAMES, GROUP, CLIP, NUM_FILES = 120, 12, 8, 2


def write_noise(path: Path, seed: int) -> None:
    """A video of some megabytes: no frame can be guessed from another."""
    noise = np.random.default_rng(seed).integers(0, 256, (256 * 3 // 2 + 64, 320 + 64), np.uint8)
    options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "40", "g": str(GROUP), "sc_threshold": "0"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 256, "yuv420p"
        for number in range(NUM_FRAMES):
            dy, dx = number * 7 % 64, number * 13 % 64
            picture = np.ascontiguousarray(noise[dy : dy + 384, dx : dx + 320])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    for name in ("mp4", "mkv"):
        (folder / name).mkdir()
    for number in range(NUM_FILES):
        write_noise(folder / f"mp4/{number}.mp4", number)
        remux(folder / f"mp4/{number}.mp4", folder / f"mkv/{number}.mkv")
    return folder


@pytest.mark.parametrize(("container", "together"), [("mp4", 1), ("mp4", 4), ("mp4", 12), ("mkv", 4)])
def test_a_server_is_asked_for_what_was_planned(
    container: str, together: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIATENSOR_NUM_THREADS", "1")
    options: dict[str, Any] = {"num_frames_per_clip": CLIP, "rows_per_file": together}
    plan = plan_run(folder / container, 1e8, **options, shuffle=Shuffle(rows_together=together))
    assert len(plan.files) == NUM_FILES
    with serve(folder) as server:
        urls = [f"{server.url}/{container}/{path.name}" for path in sorted((folder / container).iterdir())]
        num_clips = 0
        for seed in range(12 // together if container == "mp4" else 2):
            clips = VideoClips(urls, **options, seed=seed, max_open_files=1)
            for file in range(NUM_FILES):
                num_clips += len(clips.__getitems__(range(file * together, (file + 1) * together)))
            clips.close()
        assert plan.bytes_per_clip == pytest.approx(server.num_bytes / num_clips, rel=0.2)
        assert plan.requests_per_clip == pytest.approx(len(server.requests) / num_clips, rel=0.4)
    assert plan.total_bytes == pytest.approx(1e8 * plan.bytes_per_clip)


@pytest.mark.parametrize(
    "shuffle", [Shuffle(), Shuffle(rows_together=4), Shuffle(window=200), Shuffle(rows_together=4, window=200)]
)
def test_batches_are_mixed_as_was_planned(shuffle: Shuffle, folder: Path) -> None:
    num_files, rows, batch = 50, 20, 16
    file_of_row = np.repeat(np.arange(num_files), rows)
    same, distinct = [], []
    for epoch in range(20):
        order = epoch_order(file_of_row, shuffle, seed=0, epoch=epoch)
        distinct.append(shuffle_quality(order, file_of_row, batch)["files_per_batch"])
        batches = file_of_row[order][: len(order) // batch * batch].reshape(-1, batch)
        same.append(np.mean([(one[:, None] == one).sum() - batch for one in batches]) / batch)
    video = next((folder / "mp4").iterdir())
    videos = [video, *(f"{number}.mp4" for number in range(1, num_files))]  # the first is measured
    plan = plan_run(videos, 1e6, rows_per_file=rows, batch_size=batch, shuffle=shuffle, num_files=1)
    assert plan.same_file_share * (batch - 1) == pytest.approx(np.mean(same), rel=0.15, abs=0.05)
    assert plan.files_per_batch == pytest.approx(np.mean(distinct), rel=0.1)
    assert plan.effective_batch_size == pytest.approx(batch / (1 + np.mean(same)), rel=0.1)


@pytest.mark.parametrize("shuffle", [Shuffle(), Shuffle(rows_together=2, window=40)])
def test_segments_are_of_their_file(shuffle: Shuffle, folder: Path) -> None:
    films, rows, batch = [1, 4, 4, 10, 21], 4, 16  # how many segments each has
    film_of_item = np.repeat(np.arange(len(films)), films)
    segment_of_row = np.repeat(np.arange(len(film_of_item)), rows)
    same, distinct = [], []
    for epoch in range(60):
        order = epoch_order(segment_of_row, shuffle, seed=0, epoch=epoch)
        batches = film_of_item[segment_of_row[order]][: len(order) // batch * batch].reshape(-1, batch)
        same.append(np.mean([(one[:, None] == one).sum() - batch for one in batches]) / batch)
        distinct.append(np.mean([len(np.unique(one)) for one in batches]))
    names = [next((folder / "mp4").iterdir()), *(f"{number}.mp4" for number in range(1, len(films)))]
    items = [Item(names[film], start_seconds=0.1 * number) for number, film in enumerate(film_of_item)]
    plan = plan_run(items, 1e6, rows_per_file=rows, batch_size=batch, shuffle=shuffle, num_files=1)
    assert plan.same_file_share * (batch - 1) == pytest.approx(np.mean(same), rel=0.1)
    assert plan.files_per_batch == pytest.approx(np.mean(distinct), rel=0.1)
    assert plan_run(items[:1] * 60, 1e6, num_files=1).files_per_batch == 1
    assert repr(VideoClips(items, num_frames_per_clip=4)) == "VideoClips(5 files, 40 rows)"


def test_costs_and_workers_follow_from_bytes_and_requests(folder: Path) -> None:
    options: dict[str, Any] = {"clips_per_second": 1000, "latency_seconds": 0.5, "num_files": 1}
    plan = plan_run(folder / "mp4", 2e6, **options, price_per_million_requests=3, price_per_gigabyte=0.5)
    gigabytes = 2e6 * plan.bytes_per_clip / 1e9
    assert plan.cost == pytest.approx(3 * 2 * plan.requests_per_clip + 0.5 * gigabytes)
    assert plan.num_workers == math.ceil(1000 * plan.seconds_per_clip)
    assert plan.seconds_per_clip > 0.5 * plan.requests_per_clip
    assert plan.hours == pytest.approx(2e6 / 1000 / 3600)
    assert f"{plan.total_requests:,.6g}" in str(plan)
    independent = plan_run(folder / "mp4", 1, correlation=0, num_files=1)
    assert (independent.effective_batch_size, independent.num_workers) == (32, 0)
    assert [line.endswith("not given") for line in str(independent).splitlines()][-2:] == [True, True]
    assert "nan" not in str(independent)


def test_a_clip_of_a_large_file_costs_itself_and_an_opening() -> None:
    file = FileCost(10**12, 200_000, 2, 1_000_000, 1.0, 10**6, 0.1)
    assert file.bytes_per_clip(1) == pytest.approx(200_000 + 1_000_000 + 65_536, rel=1e-3)
    assert file.bytes_per_clip(100) == pytest.approx(2_000 + 1_000_000 + 65_536, rel=1e-3)
    assert file.requests_per_clip(100) == pytest.approx(1.02, rel=1e-3)
    tiny = FileCost(50_000, 50_000, 1, 20_000, 1.0, 2, 0.1)
    assert (tiny.bytes_per_clip(10), tiny.requests_per_clip(10)) == (5_000, 0.1)


def test_what_cannot_be_planned(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"nothing")
    with pytest.raises(OpenError, match="None of 1 files"):
        plan_run([tmp_path / "bad.mp4"], 1e6)
    mixed = [tmp_path / "bad.mp4", next((folder / "mp4").iterdir())]
    assert len(plan_run(mixed, 1e6).files) == 1
    for options in ({"correlation": 2}, {"batch_size": 0}, {"price_per_gigabyte": -1}, {"num_frames_per_clip": 0}):
        with pytest.raises(InvalidArgumentError):
            plan_run(mixed, 1e6, **options)
    for number in (0, float("nan"), float("inf")):
        with pytest.raises(InvalidArgumentError):
            plan_run(mixed, number)
