"""`mediatensor.distributed` over all kinds of sources: rows that travel name parts of files, and give the same bits."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lerobot_files import DEPTH, DEPTH_STILL, LANGUAGE, STILL, TOP, WRIST, write_lerobot
from mediatensor.datasets import AudioClips, LeRobotClips, Sample, VideoClips, as_items
from mediatensor.distributed import AudioReader, ClipDecoder, LeRobotReader, clip_rows
from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import Letterbox, RandomCrop, Resize
from range_server import serve
from training_set import make_videos
from wav_files import noise, wav

CLIP, SEED = 4, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same four videos as files of two classes, rows of manifests, members of a shard and values of tables."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("sources")
    videos = make_videos(folder / "videos", 4)
    for number, path in enumerate(videos):
        (folder / f"classes/{'ab'[number % 2]}").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / f"classes/{'ab'[number % 2]}/{path.name}")
    rows = [{"path": f"videos/{path.name}", "place": place} for path, place in zip(videos, "wxyz", strict=True)]
    (folder / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "shots.csv").write_text(
        "path,start,end,label\n" + "".join(f"videos/{path.name},0:00.8,0:01.9,{path.stem}\n" for path in videos)
    )
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for path in videos:
            shard.add(path, path.name)
            (folder / "cls").write_text("7")
            shard.add(folder / "cls", f"{path.stem}.cls")
    table = [{"bytes": path.read_bytes(), "path": path.name} for path in videos]
    for name, compression in (("table", "none"), ("packed", "snappy")):
        parquet.write_table(
            pa.table({"video": table, "label": [1, 0, 1, 0]}), folder / f"{name}.parquet", compression=compression
        )
    # For rows without bytes, the path is the file.
    table[1:3] = [{"bytes": None, "path": f"videos/{path.name}"} for path in videos[1:3]]
    parquet.write_table(pa.table({"video": table}), folder / "mixed.parquet", compression="none")
    return folder


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def as_engines_hand_them(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of NumPy, in which numbers with gaps are floats."""
    import pyarrow as pa

    table = pa.Table.from_pylist(rows)
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


SOURCES = ["classes", "plain.jsonl", "shots.csv", "shard.tar", "table.parquet", "packed.parquet", "mixed.parquet"]


@pytest.mark.parametrize("name", SOURCES)
def test_rows_match_a_dataset_of_the_same_source(name: str, folder: Path) -> None:
    options: dict[str, Any] = {"num_frames_per_clip": CLIP, "decoder_options": {"transforms": [RandomCrop((16, 20))]}}
    dataset = VideoClips(folder / name, rows_per_file=3, seed=SEED, **options)
    rows = clip_rows(folder / name, 3)
    assert json.loads(json.dumps(rows)) == rows, "nothing but plain values"
    assert max(len(json.dumps(row)) for row in rows) < 600
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    decoder = ClipDecoder(clip_shape=(CLIP, 3, 16, 20), seed=SEED, epoch=1, **options)
    result = decoder(as_engines_hand_them([rows[i] for i in order]))
    assert not any(result["error"])
    for place, i in enumerate(order):
        expected = dataset.spec(i, epoch=1).load()
        assert expected.frames is not None
        assert (result["source"][place], result["row"][place]) == (expected.source, i)
        assert np.array_equal(result["frames"][place], expected.frames.data)
        assert np.array_equal(result["pts_seconds"][place], expected.frames.pts_seconds)
        if expected.label is not None:
            assert result["label"][place] == expected.label
        for extra in ("class_name", "place"):
            assert extra not in expected.extra or result[extra][place] == expected.extra[extra]


@pytest.mark.parametrize("name", ["shard.tar", "table.parquet", "{table,packed}.parquet"])
def test_labels_of_a_function_leave_the_media_where_they_are(name: str, folder: Path) -> None:
    plain = clip_rows(folder / name)
    rows = clip_rows(as_items(folder / name, kind="video", label=lambda item: item.label + 7))
    assert rows == [{**row, "label": row["label"] + 7} for row in plain]


def test_a_file_within_another_stays_open_for_its_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mediatensor.datasets import VideoRecipe

    opened: list[str] = []
    original = VideoRecipe.open
    monkeypatch.setattr(VideoRecipe, "open", lambda self, item: opened.append(item.name) or original(self, item))
    for name in ("shard.tar", "table.parquet"):
        opened.clear()
        batch = columns(clip_rows(folder / name, 6))
        decoder = pickle.loads(pickle.dumps(ClipDecoder(num_frames_per_clip=CLIP)))
        for part in range(2):
            decoder({name: values[part::2] for name, values in batch.items()})
        assert len(opened) == len(set(opened)) == 4


def test_of_a_table_or_shard_elsewhere_only_the_bytes_of_clips_are_fetched(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from mediatensor.encoders import VideoEncoder

    frames = torch.randint(0, 256, (60, 3, 240, 320), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    VideoEncoder(frames, frame_rate=10).to_file(tmp_path / "a.mp4", crf=20, preset="ultrafast", extra_options={"g": 5})
    data = (tmp_path / "a.mp4").read_bytes()
    parquet.write_table(
        pa.table({"video": [{"bytes": data, "path": f"{i}.mp4"} for i in range(3)]}),
        tmp_path / "table.parquet", compression="none", use_dictionary=False,
    )  # fmt: skip
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        shard.add(tmp_path / "a.mp4", "1.mp4")
    with serve(tmp_path) as server:
        rows = clip_rows(f"{server.url}/table.parquet")
        # A shard is planned where it lies, and read elsewhere.
        (member,) = clip_rows(tmp_path / "shard.tar")
        member["path"] = f"{server.url}/shard.tar"
        assert server.num_bytes < 0.1 * (tmp_path / "table.parquet").stat().st_size
        for row in (rows[1], member):
            server.reset()
            result = ClipDecoder(num_frames_per_clip=2)(columns([row]))
            assert result["error"].tolist() == [""]
            assert server.num_bytes < 0.5 * len(data)
            expected = ClipDecoder(num_frames_per_clip=2)({"path": [str(tmp_path / "a.mp4")], "row": [row["row"]]})
            assert np.array_equal(result["frames"][0], expected["frames"][0])


def test_an_unreadable_file_is_an_error_of_its_row(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "shard.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    dataset = VideoClips(tmp_path / "cut.tar", num_frames_per_clip=CLIP, on_error="skip")
    result = ClipDecoder(num_frames_per_clip=CLIP)(as_engines_hand_them(clip_rows(tmp_path / "cut.tar")))
    assert [not error for error in result["error"]] == [isinstance(row, Sample) for row in dataset]
    assert "is damaged" in result["error"][-1]
    table = str(folder / "table.parquet")
    bad: list[dict[str, Any]] = [
        {"path": table, "table_column": "video.bytes", "table_row": 4},
        {"path": table, "table_column": "nothing", "table_row": 0},
        {"path": table, "table_column": None, "table_row": 0},
        {"path": table, "table_column": "video.bytes", "table_row": -1},
        {"path": str(folder / "plain.jsonl"), "table_column": "video.bytes", "table_row": 0},
        {"path": "missing.parquet", "table_column": "video.bytes", "table_row": 0},
        {"path": str(folder / "mixed.parquet"), "table_column": "video.bytes", "table_row": 1},
        {"path": table, "start_byte": 10},
        {"path": table, "start_byte": 10, "end_byte": 5},
        {"path": table, "start_byte": "x", "end_byte": 5},
        {"path": table, "start_byte": 0.5, "end_byte": 5},
        {"path": table, "start_byte": 0, "end_byte": 1 << 40},
        {"path": str(folder / "videos/000.mp4"), "start_seconds": 2.0, "end_seconds": 1.0},
        {"path": str(folder / "videos/000.mp4"), "start_seconds": "soon"},
    ]
    names = list(dict.fromkeys(name for row in bad for name in row))
    result = ClipDecoder(num_frames_per_clip=CLIP)({name: [row.get(name) for row in bad] for name in names})
    assert all(result["error"]), result["error"]
    for words, row in (("it has 4", 0), ("no column", 1), ("table_row", 3), ("no bytes", 6), ("end_byte", 7)):
        assert words in result["error"][row]


def test_sources_that_only_this_process_can_open_are_refused(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"video": "a.mp4"}])
    for source in (rows, as_items(rows, kind="video", label=lambda item: 1)):
        with pytest.raises(InvalidArgumentError, match="Hugging Face"):
            clip_rows(source)
    with pytest.raises(InvalidArgumentError, match="Rename"):
        clip_rows([{"path": "a.mp4", "row": 3}])
    rows = [{"path": "a.mp4", "start_seconds": 2.5}, {"path": "b.mp4", "start_seconds": math.nan}]
    assert [row["start_seconds"] for row in clip_rows(rows)] == [2.5, None]
    with pytest.raises(InvalidArgumentError, match=r"a\.mp4 has a column 'start_seconds'.*Rename"):
        clip_rows(as_items(rows, kind="video", segments=False))
    with pytest.raises(InvalidArgumentError, match="'label'"):
        clip_rows(folder / "classes", label=[1, 2, 3, 4])


def test_bytes_in_memory_travel_with_their_rows(folder: Path) -> None:
    data = (folder / "videos/001.mp4").read_bytes()
    rows = clip_rows([data, folder / "videos/002.mp4"])
    result = ClipDecoder(num_frames_per_clip=CLIP)(columns(rows))
    expected = VideoClips([data, folder / "videos/002.mp4"], num_frames_per_clip=CLIP)
    for i in range(2):
        assert np.array_equal(result["frames"][i], expected.spec(i).load().frames.data)


def test_sound_of_a_manifest_keeps_to_its_segments(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav("pcm_s16le", noise(24_000)))
    (tmp_path / "parts.csv").write_text("path,start_seconds,end_seconds\na.wav,1,2\na.wav,2,\n")
    result = AudioReader(seconds_per_clip=0.25)(
        as_engines_hand_them(clip_rows(tmp_path / "parts.csv", 2, kind="audio"))
    )
    expected = AudioClips(tmp_path / "parts.csv", seconds_per_clip=0.25, rows_per_file=2)
    for i in range(4):
        sound = expected.spec(i).load().audio
        assert np.array_equal(result["audio"][i], sound.data)
        assert (result["pts_seconds"][i] < 1.8) == (i < 2)


# Robots

TIMES: dict[str, Any] = {TOP: [-0.1, 0.0], "action": [0.0, 0.1], STILL: [0.0], WRIST: [0.1]}


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    return write_lerobot(tmp_path_factory.mktemp("robots") / "robot", lengths=(12, 9, 10))


@pytest.mark.parametrize(
    "options",
    [
        {"delta_timestamps": TIMES},
        {"output_dtype": torch.uint8, "cameras": [WRIST], "step": 3},
        {"rows": "episodes", "step": 4, "episodes": [0, 2]},
        {"delta_timestamps": {TOP: [0.0, 0.1]}, "only_whole": True, "image_transforms": Resize((24, 32))},
        {"rows": "episodes", "step": 4, "decoder_options": {"transforms": [Letterbox((40, 40))]}},
        {"cameras": [STILL], "image_transforms": torch.nn.PReLU()},  # whose results need gradients
    ],
)
def test_rows_of_robots_match_their_dataset(options: dict[str, Any], robot: Path) -> None:
    clips = LeRobotClips(robot, seed=SEED, **options)
    reader = pickle.loads(pickle.dumps(LeRobotReader(robot, seed=SEED, row_column="id", **options)))
    assert len(reader) == len(clips)
    order = np.random.default_rng(0).permutation(len(clips))[:9]
    result = reader({"id": order})
    assert not any(result["error"])
    for place, i in enumerate(order.tolist()):
        row = clips[i]
        assert set(row) == set(result) - {"id", "source", "error", "n_replaced"}
        for name, value in row.items():
            own = result[name][place]
            if isinstance(value, torch.Tensor):
                expected = value.numpy(force=True)
                assert np.array_equal(own, expected), name
                assert own.dtype == expected.dtype, name
            else:
                assert own == value, name
    beyond = reader({"id": [len(clips), 0]})
    assert [error[:10] for error in beyond["error"]] == ["OutOfRange", ""]
    for name in set(result) - {"id"}:
        assert beyond[name].dtype == result[name].dtype, name


def test_depths_and_language_of_robots_are_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    root = write_lerobot(tmp_path / "robot", lengths=(5, 4), has_still=False, depth_info={}, has_language=True)
    clips = LeRobotClips(root, output_dtype=torch.uint8)
    result = LeRobotReader(root, output_dtype=torch.uint8)({"row": [3, 7]})
    assert not any(result["error"])
    for place, i in enumerate((3, 7)):
        row = clips[i]
        for name in (DEPTH, DEPTH_STILL):
            assert result[name].dtype == np.float32
            assert np.array_equal(result[name][place], row[name].numpy())
        for name in LANGUAGE:
            assert result[name][place] == row[name]
    assert [len(events) for events in result["language_events"]] == [2, 0]


def test_a_bad_episode_of_a_robot_is_an_error_of_its_rows(robot: Path, tmp_path: Path) -> None:
    shutil.copytree(robot, tmp_path / "robot")
    videos = sorted((tmp_path / "robot/videos" / TOP).rglob("*.mp4"))
    videos[-1].write_bytes(b"nothing")
    result = LeRobotReader(tmp_path / "robot", cameras=[TOP])({"row": list(range(31))})
    assert [bool(error) for error in result["error"]] == [False] * 21 + [True] * 10
    assert result[TOP].shape == (31, 3, 96, 128)
    assert not result[TOP][21:].any()
    for options in ({"on_error": "skip"}, {"picture_shape": (3, 4)}, {"picture_shape": (3, 0, 4)}):
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            LeRobotReader(robot, **options)  # type: ignore[arg-type]
    for batch in ({"id": [0]}, {"row": [0.5]}, {"row": [0], "x": []}):
        with pytest.raises(InvalidArgumentError):
            LeRobotReader(robot, cameras=[])(batch)
