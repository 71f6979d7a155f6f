"""Lance datasets as sources: blob columns are read in parts, plain columns by value."""

from __future__ import annotations

import pickle
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lazy_modules import import_on_use
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.datasets import DataLoader, VideoClips, as_items
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, MediaTensorError
from places import in_child, needs_fork

lance = import_on_use("lance", reason="needs pylance")
pa = import_on_use("pyarrow", reason="pylance needs it")

LEGACY = {b"lance-encoding:blob": b"true"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("videos")
    for number in range(3):
        write_test_pattern(folder / f"{number}.mp4", width=160, height=120, num_frames=60 + 30 * number)
    return [(folder / f"{number}.mp4").read_bytes() for number in range(3)]


def written(folder: Path, videos: list[bytes], form: str) -> Path:
    """Five rows: a class, three videos, a row without one, and one that is not a video; in two files."""
    values: list[Any] = [*videos, None, b"no video"]
    labels = pa.array(["run", "jump", "run", "sit", "sit"])
    options: dict[str, Any] = {"max_rows_per_file": 2}
    if form == "blob":
        field, column = lance.blob_field("clip"), lance.blob_array(values)
    elif form == "blob of the old kind":
        field = pa.field("clip", pa.large_binary(), metadata=LEGACY)
        column = pa.array(values, pa.large_binary())
        options["data_storage_version"] = "2.1"
    elif form == "bytes":
        field, column = pa.field("video", pa.binary()), pa.array(values, pa.binary())
    else:
        rows = [{"bytes": value, "path": f"{number}.mp4"} for number, value in enumerate(values)]
        column = pa.array(rows, pa.struct([("bytes", pa.large_binary()), ("path", pa.string())]))
        field = pa.field("video", column.type)
    schema = pa.schema([pa.field("number", pa.int64()), field, pa.field("label", pa.string())])
    path = folder / "data.lance"
    lance.write_dataset(pa.table([pa.array(range(5)), column, labels], schema=schema), path, **options)
    return path


FORMS = ["blob", "blob of the old kind", "bytes", "structs"]


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_read(form: str, videos: list[bytes], tmp_path: Path) -> None:
    path = written(tmp_path, videos, form)
    items = as_items(path, kind="video")
    assert len(items) == 5
    assert [item.extra for item in items] == [
        {"number": number, "class_name": name} for number, name in enumerate(["run", "jump", "run", "sit", "sit"])
    ]
    assert [item.label for item in items] == [1, 0, 1, 2, 2]
    for item, data in zip(items, videos, strict=False):
        assert torch.equal(
            VideoDecoder(item.source).get_frames_at([7, 3]).data, VideoDecoder(data).get_frames_at([7, 3]).data
        )
    assert items[4].source == b"no video"
    assert items[1].name == ("1.mp4" if form == "structs" else f"row 1 of {path}")
    for other in (pickle.loads(pickle.dumps(items)), as_items(lance.dataset(path), kind="video")):
        assert [(item.name, item.label, item.extra) for item in other] == [(i.name, i.label, i.extra) for i in items]
        assert torch.equal(VideoDecoder(other[2].source)[5], VideoDecoder(videos[2])[5])


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_video_are_left_to_the_error_policy(form: str, videos: list[bytes], tmp_path: Path) -> None:
    clips = VideoClips(written(tmp_path, videos, form), num_frames_per_clip=2, on_error="skip")
    assert [len(clips[row].failures) for row in range(5)] == [0, 0, 0, 1, 1]


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("long") / "long.mp4"
    write_test_pattern(path, width=256, height=192, num_frames=480)
    return path.read_bytes()


@pytest.mark.parametrize("form", ["blob", "blob of the old kind"])
def test_a_frame_costs_what_it_costs_in_a_file(form: str, long_video: bytes, tmp_path: Path) -> None:
    data = long_video
    items = as_items(written(tmp_path, [data, data, data], form), kind="video")
    source: Any = items[1].source
    dataset = source._column._opened()
    dataset.io_stats_incremental()
    frame = VideoDecoder(source)[300]
    num_read = dataset.io_stats_incremental().read_bytes
    assert torch.equal(frame, VideoDecoder(data)[300])
    assert num_read < len(data) / 4


def test_deleted_rows_and_versions_are_respected(videos: list[bytes], tmp_path: Path) -> None:
    path = written(tmp_path, videos, "blob")
    before = as_items(path, kind="video")
    lance.dataset(path).delete("number = 1")
    after = as_items(path, kind="video")
    assert [item.extra["number"] for item in after] == [0, 2, 3, 4]
    assert torch.equal(VideoDecoder(after[1].source)[5], VideoDecoder(videos[2])[5])
    assert torch.equal(VideoDecoder(before[1].source)[5], VideoDecoder(videos[1])[5])  # the rows of the version before
    assert torch.equal(VideoDecoder(pickle.loads(pickle.dumps(before))[1].source)[5], VideoDecoder(videos[1])[5])
    old = as_items(lance.dataset(path, version=1), kind="video")
    assert len(old) == 5


def test_paths_and_columns_are_read(videos: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(videos[0])
    table = pa.table({"path": ["a.mp4"], "label": [3], "left": [videos[1]]})
    lance.write_dataset(table, tmp_path / "paths.lance")
    (item,) = as_items(tmp_path / "paths.lance", kind="video")
    assert (item.source, item.label) == (str(tmp_path / "a.mp4"), 3)
    (item,) = as_items(tmp_path / "paths.lance", kind="video", media_column="left")
    assert torch.equal(VideoDecoder(item.source)[5], VideoDecoder(videos[1])[5])
    with pytest.raises(InvalidArgumentError, match="no column 'right'; it has path, label, left"):
        as_items(tmp_path / "paths.lance", kind="video", media_column="right")
    two = pa.table([lance.blob_array([b"x"]), lance.blob_array([b"y"])], ["left", "right"])
    lance.write_dataset(two, tmp_path / "two.lance")
    with pytest.raises(InvalidArgumentError, match="several columns with media: left, right"):
        as_items(tmp_path / "two.lance", kind="video")
    lance.write_dataset(table.slice(0, 0), tmp_path / "none.lance")
    with pytest.raises(InvalidArgumentError, match="0 rows"):
        as_items(tmp_path / "none.lance", kind="video")


def test_workers_read_the_same_batches(videos: list[bytes], tmp_path: Path) -> None:
    clips = VideoClips(written(tmp_path, videos, "blob"), num_frames_per_clip=4, on_error="skip", seed=1)
    expected = [clips[row].frames.data for row in range(3)]
    loader = DataLoader(clips, 5, num_workers=1)  # which would fork, on Linux
    (batch,) = loader
    assert batch.row.tolist() == [0, 1, 2]
    assert torch.equal(batch.frames.data, torch.stack(expected))
    assert len(loader.failures) == 2
    if sys.platform == "linux":
        with pytest.raises(InvalidArgumentError, match="'forkserver' or 'spawn'"):
            DataLoader(clips, 5, num_workers=1, multiprocessing_context="fork")


@needs_fork
@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:This process:DeprecationWarning")
def test_a_forked_process_is_told_and_does_not_hang(videos: list[bytes], tmp_path: Path) -> None:
    items = as_items(written(tmp_path, videos, "blob"), kind="video")
    assert VideoDecoder(items[0].source)[0].shape == (3, 120, 160)

    def open_a_row() -> None:
        with pytest.raises(MediaTensorError, match="forkserver"):
            items[1].source.open()  # type: ignore[union-attr]

    in_child(tmp_path, open_a_row)


def test_damaged_datasets_are_refused(videos: list[bytes], tmp_path: Path) -> None:
    path = written(tmp_path, videos, "blob")
    rng = random.Random(2)
    num_failures = 0
    for number in range(20):
        copy = tmp_path / f"copy{number}.lance"
        shutil.copytree(path, copy)
        file = rng.choice([one for one in sorted(copy.rglob("*")) if one.is_file() and one.stat().st_size])
        data = bytearray(file.read_bytes())
        if number % 4:
            for _ in range(8):
                data[rng.randrange(max(0, len(data) - 2000), len(data))] = rng.randrange(256)
        else:
            data = data[: len(data) // 2]
        file.write_bytes(data)
        try:
            for item in as_items(copy, kind="video"):
                try:
                    VideoDecoder(item.source)[0]
                except MediaTensorError:
                    num_failures += 1
        except MediaTensorError:
            num_failures += 1
    assert num_failures > 20


def test_a_folder_of_that_name_is_a_folder(videos: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "clips.lance").mkdir()
    (tmp_path / "clips.lance" / "a.mp4").write_bytes(videos[0])
    assert len(as_items(tmp_path / "clips.lance", kind="video")) == 1
    (tmp_path / "clips.lance" / "_versions").mkdir()
    with pytest.raises(InvalidArgumentError, match="not a Lance dataset, or damaged"):
        as_items(tmp_path / "clips.lance", kind="video")
