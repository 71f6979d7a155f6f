"""`LeRobotClips` against what LeRobot's own readers gave of the same datasets, and against what their pictures show."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytest.importorskip("pandas", reason="needs pandas, which writes the table of tasks")

from lerobot_files import (
    DEPTH,
    DEPTH_STILL,
    HEIGHT,
    LANGUAGE,
    STILL,
    TASKS,
    TOP,
    WIDTH,
    WRIST,
    depths,
    language_of,
    number_in,
    write_lerobot,
)
from mediatensor.datasets import ColumnDict, DataLoader, LeRobotClips, Shuffle, Skipped, VideoClips, stack_columns
from mediatensor.errors import DecodeError, InvalidArgumentError, ReadError, SourceNotFoundError
from mediatensor.transforms import CenterCrop, Letterbox, Resize
from record_lerobot import DELTAS, RECORD, described

VERSIONS = ("v2.1", "v3.0")
LENGTHS = (20, 13, 17)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("robots")
    return {version: write_lerobot(folder / version, version=version, lengths=LENGTHS) for version in VERSIONS}


@pytest.fixture
def root(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the dataset of version 3, to be changed."""
    return Path(shutil.copytree(folders["v3.0"], tmp_path / "robot"))


def row_of(clips: LeRobotClips, index: int) -> ColumnDict:
    row = clips[index]
    assert isinstance(row, ColumnDict)
    return row


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["plain", "deltas"])
def test_rows_match_lerobot(folders: dict[str, Path], version: str, kind: str) -> None:
    recorded = json.loads(RECORD.read_text("utf-8"))[f"{version} {kind}"]
    clips = LeRobotClips(folders[version], DELTAS if kind == "deltas" else None)
    assert len(clips) == recorded["num_rows"] == sum(LENGTHS)
    for index, theirs in recorded["rows"].items():
        ours = {name: described(value) for name, value in row_of(clips, int(index)).items()}
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            if "images" in name and isinstance(value, list) and value[0] == "torch.float32":
                # Encoders of other versions give other pictures, by a level or two.
                assert ours[name][:2] == value[:2]
                assert (torch.tensor(ours[name][2]) - torch.tensor(value[2])).abs().max() <= 2
            else:
                assert ours[name] == value, name


@pytest.mark.parametrize("version", VERSIONS)
def test_every_camera_shows_its_row_and_the_rows_around_it(folders: dict[str, Path], version: str) -> None:
    deltas = [-0.3, 0.0, 0.2]
    clips = LeRobotClips(folders[version], dict.fromkeys((TOP, WRIST, STILL, "index"), deltas))
    for row in map(row_of, [clips] * len(clips), range(len(clips))):
        begin = sum(LENGTHS[: row["episode_index"]])
        end = begin + LENGTHS[row["episode_index"]]
        own = begin + int(row["frame_index"])
        wanted = [own - 3, own, own + 2]
        inside = [max(begin, min(end - 1, one)) for one in wanted]
        assert row["index"].tolist() == inside
        assert number_in(row[TOP]) == inside
        assert number_in(row[WRIST]) == [255 - one for one in inside]
        assert number_in(row[STILL]) == [one + 100 for one in inside]
        assert row[f"{TOP}_is_pad"].tolist() == [one < begin or one >= end for one in wanted]
        assert row["task"] == TASKS[row["episode_index"] % 2]


def test_steps_whole_windows_and_episodes_select_rows(folders: dict[str, Path]) -> None:
    root, deltas = folders["v3.0"], {"action": [-0.2, 0.0, 0.5]}
    clips = LeRobotClips(root, deltas, episodes=[2, 0, 2], only_whole=True, step=4, cameras=[])
    rows = [row_of(clips, i) for i in range(len(clips))]
    # Of 20 frames 2 to 14 have both ends inside, and of 17 frames 2 to 11.
    assert [(int(row["episode_index"]), int(row["frame_index"])) for row in rows] == [
        *((0, frame) for frame in (2, 6, 10, 14)),
        *((2, frame) for frame in (2, 6, 10)),
    ]
    assert not any(row["action_is_pad"].any() for row in rows)
    assert not {TOP, WRIST, STILL} & rows[0].keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_whole_episodes_are_rows(folders: dict[str, Path], version: str) -> None:
    clips = LeRobotClips(folders[version], rows="episodes", step=3, cameras=[WRIST, STILL], output_dtype=torch.uint8)
    assert len(clips) == len(LENGTHS)
    for episode, length in enumerate(LENGTHS):
        row, frames = row_of(clips, episode), list(range(0, length, 3))
        index = [sum(LENGTHS[:episode]) + frame for frame in frames]
        assert row["frame_index"].tolist() == frames
        assert row["index"].tolist() == index
        assert row["task"] == [TASKS[episode % 2]] * len(frames)
        assert row[WRIST].dtype == torch.uint8
        assert number_in(row[WRIST] / 255) == [255 - one for one in index]
        assert number_in(row[STILL] / 255) == [one + 100 for one in index]


def test_loaders_give_dicts_and_resume(folders: dict[str, Path]) -> None:
    clips = LeRobotClips(folders["v3.0"], {TOP: [0.0, 0.1]}, cameras=[TOP], image_transforms=noisy)
    shuffle = Shuffle(rows_together=3, window=30)

    def loader(num_workers: int = 0, batch_size: int = 4) -> DataLoader[ColumnDict]:
        return DataLoader(clips, batch_size, shuffle, seed=2, num_workers=num_workers)

    whole = list(loader())
    first = whole[0]
    assert set(first) == set(row_of(clips, 0))
    assert first[TOP].shape == (4, 2, 3, 96, 128)
    assert number_in(first[TOP][:, 0]) == first["index"].tolist()
    assert first["task"] == [TASKS[episode % 2] for episode in first["episode_index"].tolist()]
    assert sorted(i for batch in whole for i in batch["index"].tolist()) == list(range(sum(LENGTHS)))
    # Rows of one episode are adjacent.
    assert len(set(first["episode_index"][:3].tolist())) == 1
    for ours, theirs in zip(loader(num_workers=1), whole, strict=True):
        assert torch.equal(ours[TOP], theirs[TOP])
        assert ours["task"] == theirs["task"]
        assert ours.timings[0].worker == 0
    begun = loader()
    batches = iter(begun)
    for _ in range(5):
        next(batches)
    resumed = loader(batch_size=8)
    resumed.load_state_dict(begun.state_dict())
    rest = torch.cat([batch[TOP] for batch in resumed])
    assert torch.equal(rest, torch.cat([batch[TOP] for batch in whole[5:]]))


def noisy(pictures: torch.Tensor) -> torch.Tensor:
    return pictures + 0.01 * torch.rand(())


def test_loaders_of_torch_take_the_rows(folders: dict[str, Path]) -> None:
    clips = LeRobotClips(folders["v2.1"], cameras=[])
    batch = next(iter(torch.utils.data.DataLoader(clips, batch_size=3)))
    assert batch["action"].shape == (3, 2)
    assert batch["task"] == [TASKS[0]] * 3


def test_a_row_can_be_read_elsewhere(folders: dict[str, Path]) -> None:
    clips = LeRobotClips(folders["v3.0"], {"action": [0.0, 0.1]})
    row, elsewhere = row_of(clips, 40), pickle.loads(pickle.dumps(clips.spec(40))).load().extra
    assert row.keys() == elsewhere.keys()
    assert all(torch.equal(value, elsewhere[name]) for name, value in row.items() if isinstance(value, torch.Tensor))


def test_urls_of_fsspec_are_read(folders: dict[str, Path]) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(folders["v3.0"]), "/robots/three", recursive=True)
    near, far = LeRobotClips(folders["v3.0"]), LeRobotClips("memory://robots/three")
    assert len(far) == len(near)
    for index in (0, 25, 49):
        ours, theirs = row_of(far, index), row_of(near, index)
        assert all(torch.equal(ours[name], theirs[name]) for name in (TOP, WRIST, STILL, "action"))


def drift(root: Path) -> None:
    """Episode 1 is said to begin half a frame later in the video of WRIST."""
    from pyarrow import parquet

    path = root / "meta/episodes/chunk-000/file-000.parquet"
    rows = parquet.read_table(path).to_pylist()
    rows[1][f"videos/{WRIST}/from_timestamp"] += 0.05
    import pyarrow as pa

    parquet.write_table(pa.Table.from_pylist(rows), path)


def lose_rows(root: Path) -> None:
    """The table has a row of episode 1 less than the metadata say."""
    from pyarrow import parquet

    path = root / "data/chunk-000/file-000.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 32), path)


def lose_a_video(root: Path) -> None:
    (root / f"videos/{WRIST}/chunk-000/file-001.mp4").unlink()


def spoil_a_task(root: Path) -> None:
    import pandas

    pandas.DataFrame({"task_index": [0]}, index=[TASKS[0]]).to_parquet(root / "meta" / "tasks.parquet")


@pytest.mark.parametrize(
    ("spoil", "bad", "message"),
    [
        (drift, [1], "has no frame at 0.0500 s .* the nearest is at 0.0000 s"),
        (lose_rows, [1], "Episode 1 should have 13 consecutive rows .* but has 12"),
        (lose_a_video, [1, 2], "file-001.mp4 does not exist"),
        (spoil_a_task, [1], "has the task_index 1, which is not in the table of tasks"),
    ],
)
def test_bad_episodes_are_a_policy(root: Path, spoil: Callable[[Path], None], bad: list[int], message: str) -> None:
    spoil(root)
    with pytest.raises((ReadError, SourceNotFoundError), match=message):
        LeRobotClips(root)[20]
    clips = LeRobotClips(root, on_error="skip", step=6)
    loader = DataLoader(clips, batch_size=4)
    read = {int(episode) for batch in loader for episode in batch["episode_index"]}
    assert read == {0, 1, 2} - set(bad)
    assert {failure.source for failure in loader.failures.failures} == {f"{root}: episode {one}" for one in bad}
    replaced = LeRobotClips(root, on_error="replace", step=6)[4]
    assert isinstance(replaced, ColumnDict)
    assert int(replaced["episode_index"]) not in bad
    assert replaced.failures[0].row == 4


TABLE = "data/chunk-000/file-000.parquet"


def rewrite_table(path: Path, change: Callable[[dict[str, list[Any]]], None]) -> None:
    """Change columns of a table, as lists of values."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    change(columns)
    parquet.write_table(pa.table(columns, table.schema), path, row_group_size=8)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("action", None),
        ("action", [1.0]),
        ("action", [None, 1.0]),
        ("pose", [[1.0, 2.0, 3.0], None]),
        ("gripper", None),
    ],
)
def test_a_missing_value_costs_one_row(folders: dict[str, Path], root: Path, column: str, value: Any) -> None:
    rewrite_table(root / TABLE, lambda columns: columns[column].__setitem__(25, value))
    clips = LeRobotClips(root, cameras=[])
    whole = LeRobotClips(folders["v3.0"], cameras=[])
    for index in (24, 26):
        for name, expected in row_of(whole, index).items():
            assert torch.equal(row_of(clips, index)[name], expected) if name != "task" else True
    with pytest.raises(ReadError, match=f"episode 1: {column} has no value in row 25 of .*file-000.parquet"):
        clips[25]
    # A row that looks at the gap needs it, and one that looks elsewhere does not.
    clips = LeRobotClips(root, {column: [0.2]}, cameras=[])
    assert row_of(clips, 25)[column].shape[0] == 1
    with pytest.raises(ReadError, match=f"{column} has no value in row 25"):
        clips[23]


def test_rows_without_an_episode_or_a_time_cost_their_episode(root: Path) -> None:
    rewrite_table(root / TABLE, lambda columns: columns["episode_index"].__setitem__(25, None))
    rewrite_table(root / "data/chunk-000/file-001.parquet", lambda columns: columns["timestamp"].__setitem__(2, None))
    clips = LeRobotClips(root, on_error="skip")
    read = [int(index) for batch in DataLoader(clips, batch_size=8) for index in batch["index"]]
    assert read == [*range(20), 33, 34, *range(36, 50)]


def test_a_column_without_any_value_is_named(root: Path) -> None:
    rewrite_table(root / TABLE, lambda columns: columns.update(action=[[1.0, 2.0, 3.0]] * 33))
    with pytest.raises(ReadError, match=r"'action' of .* must have values of the shape \(2,\)"):
        LeRobotClips(root)[0]


def test_reports_name_a_few_reasons_of_a_file(root: Path) -> None:
    rewrite_table(root / TABLE, lambda columns: columns.update(action=[None] * 20 + columns["action"][20:]))
    loader = DataLoader(LeRobotClips(root, on_error="skip", cameras=[]), batch_size=4)
    assert sum(len(batch["index"]) for batch in loader if batch) == 30
    lines = str(loader.failures).splitlines()
    assert lines[1] == f"  {root}: episode 0: 20 rows, 20 reasons:"
    assert [line.strip().split()[-1] for line in lines[2:]] == [
        *[f"{root / TABLE}."] * 3,
        "as_dict)",
    ]
    assert "and 17 more" in lines[-1]
    (file,) = loader.failures.as_dict()["files"].values()
    assert len(file["reasons"]) == 20


@pytest.mark.parametrize(
    "info",
    [{}, {"video.depth_min": 0.0, "video.depth_max": 16.0, "video.use_log": False}, {"video.shift": 1.0}],
    ids=["usual", "linear", "shift"],
)
def test_depth_maps_are_metres(tmp_path: Path, info: dict[str, Any]) -> None:
    root = write_lerobot(tmp_path / "robot", lengths=(5, 6), has_still=False, depth_info=info)
    clips = LeRobotClips(root, {DEPTH: [0.0, 0.1]}, image_transforms=torch.neg)
    for index in (0, 3, 7):
        row = row_of(clips, index)
        metres, still = row[DEPTH], row[DEPTH_STILL]
        assert (metres.dtype, metres.shape) == (torch.float32, (2, 1, HEIGHT, WIDTH))
        assert (still.dtype, still.shape) == (torch.float32, (1, HEIGHT, WIDTH))
        # One of 4096 steps is 4.4 mm at most with the usual scale, and 3.9 mm of 16 m.
        for frame, picture in enumerate(metres):
            assert (picture[0].double() - torch.from_numpy(depths(index + frame))).abs().max() < 0.0031
        assert (still[0].double() - torch.from_numpy(depths(index))).abs().max() < 0.00051
        assert row[TOP].max() <= 0  # other cameras are transformed
    millimetres = row_of(LeRobotClips(root, depth_output_unit="mm"), 4)
    assert torch.equal(millimetres[DEPTH], millimetres[DEPTH].round())
    for name, most in ((DEPTH, 3.6), (DEPTH_STILL, 0.51)):
        assert (millimetres[name][0].double() - torch.from_numpy(depths(4)) * 1000).abs().max() < most
    with pytest.raises(InvalidArgumentError, match="depth_output_unit"):
        LeRobotClips(root, depth_output_unit="cm")  # type: ignore[arg-type]


def test_transforms_of_the_decoder_keep_depths(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "robot", lengths=(5,), has_still=False, depth_info={})
    transforms = [CenterCrop((64, 96)), Resize((32, 48))]
    row = row_of(LeRobotClips(root, decoder_options={"transforms": transforms}), 2)
    whole = row_of(LeRobotClips(root), 2)[DEPTH]
    assert row[TOP].shape == (3, 32, 48)
    # The nearest sample of each square of four: nothing between near and far.
    assert torch.equal(row[DEPTH], whole[:, 16:80, 16:112][:, 1::2, 1::2])


def test_letterbox_pads_depths_with_one_code(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "robot", lengths=(5,), has_still=False, depth_info={})
    whole = row_of(LeRobotClips(root), 2)[DEPTH]
    letterbox = Letterbox((whole.shape[1] + 7, whole.shape[2]), fill=0)
    row = row_of(LeRobotClips(root, decoder_options={"transforms": [letterbox, CenterCrop((40, 30))]}), 2)
    boxed = row_of(LeRobotClips(root, decoder_options={"transforms": [letterbox]}), 2)
    padded = boxed[DEPTH]
    assert torch.equal(padded[:, 3:-4], whole)
    left, top, right, bottom = boxed[f"{DEPTH}_frame_box"].tolist()
    assert torch.equal(padded[:, top:bottom, left:right], whole)
    assert torch.equal(boxed[f"{TOP}_frame_box"], boxed[f"{DEPTH}_frame_box"])
    assert len(torch.cat((padded[:, :3], padded[:, -4:]), 1).unique()) == 1
    top, left = round((padded.shape[1] - 40) / 2), round((padded.shape[2] - 30) / 2)
    assert torch.equal(row[DEPTH], padded[:, top : top + 40, left : left + 30])
    with pytest.raises(InvalidArgumentError, match="1 value or one for each of 1 channels"):
        row_of(LeRobotClips(root, decoder_options={"transforms": [Letterbox((300, 300), fill=(1, 2, 3))]}), 2)


def test_depths_that_are_stored_as_other_video_are_refused(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "robot", lengths=(5,), has_still=False, depth_info={})
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][TOP]["info"] = {"video.is_depth_map": True}  # as before LeRobot 0.6
    (root / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(DecodeError, match="yuv420p, and should have luma of 12 bits"):
        LeRobotClips(root)[0]
    for name, value, message in (
        ("video.depth_max", 0.0, "video.depth_min below video.depth_max"),
        ("video.depth_min", "near", "a number as video.depth_min"),
        ("video.shift", -1.0, "above -video.shift"),
        ("depth_unit", "cm", "depth_unit 'm' or 'mm'"),
    ):
        info["features"][DEPTH]["info"] = {"is_depth_map": True, name: value}
        (root / "meta/info.json").write_text(json.dumps(info))
        with pytest.raises(InvalidArgumentError, match=message):
            LeRobotClips(root)


def test_columns_of_language_are_lists(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "robot", lengths=(5, 6), has_still=False, has_language=True)
    clips = LeRobotClips(root, {"action": [0.0]}, cameras=[])
    for index in (0, 3, 7, 8):
        row, episode = row_of(clips, index), int(index > 4)
        expected = language_of(episode, index - 5 * episode)
        for entry in expected["language_events"]:
            entry["tool_calls"] = entry["tool_calls"] and [{"name": "say", "words": ["yes"]}]
        assert {name: row[name] for name in LANGUAGE} == expected
    episode_row = row_of(LeRobotClips(root, rows="episodes", step=3, cameras=[]), 0)
    assert [len(events) for events in episode_row["language_events"]] == [0, 2]
    batch = next(iter(DataLoader(clips, batch_size=4, num_workers=1)))
    assert [len(events) for events in batch["language_events"]] == [0, 0, 0, 2]
    with pytest.raises(InvalidArgumentError, match="has 'language_events', which is not a column of images or numbers"):
        LeRobotClips(root, {"language_events": [0.0]})


def changed(**values: Any) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        info = json.loads((root / "meta/info.json").read_text())
        (root / "meta/info.json").write_text(json.dumps(info | values))

    return change


def without(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


@pytest.mark.parametrize(
    ("version", "spoil", "message"),
    [
        ("v2.1", changed(codebase_version="v1.6"), r"codebase_version of .* must be v2.0, v2.1 or v3.0 .got 'v1.6'"),
        ("v3.0", changed(codebase_version=None), "codebase_version"),
        ("v3.0", changed(fps=0), "fps of .* must be a positive number"),
        ("v3.0", changed(features={}), "features of .* must name"),
        ("v3.0", changed(features={"timestamp": {"dtype": "float32", "shape": [1]}}), "lack frame_index"),
        ("v3.0", changed(features={"a": {"dtype": "float32"}}), "must have a dtype and a shape"),
        ("v3.0", changed(features={"../a": {"dtype": "video", "shape": [1]}}), "must have a name without /"),
        ("v3.0", changed(data_path="../{chunk_index}/{file_index}.parquet"), "outside the dataset"),
        ("v3.0", changed(data_path="data/{chunk_index:999999999d}"), "fields other than"),
        ("v3.0", changed(data_path="data/{chunk_index.__class__}"), "fields other than"),
        ("v3.0", changed(video_path=None), "must be a path pattern"),
        ("v3.0", changed(total_episodes=9), "states 9 episodes, but .* list 3"),
        ("v2.1", lambda root: (root / "meta/episodes.jsonl").write_text("{"), "line 1 of .* is not JSON"),
        ("v2.1", lambda root: (root / "meta/episodes.jsonl").write_text('{"length": 3}'), "must have an episode_index"),
        ("v2.1", lambda root: (root / "meta/info.json").write_text("[]"), "must be an object"),
        ("v3.0", without("meta/tasks.parquet"), "tasks.parquet does not exist"),
        ("v3.0", without("meta/info.json"), "There is no LeRobot dataset in .*snapshot_download"),
        ("v3.0", without("meta/episodes/chunk-000/file-000.parquet"), "has no episodes"),
    ],
)  # fmt: skip
def test_damaged_metadata_are_refused(
    folders: dict[str, Path], tmp_path: Path, version: str, spoil: Callable[[Path], None], message: str
) -> None:
    root = tmp_path / "robot"
    shutil.copytree(folders[version] / "meta", root / "meta")
    spoil(root)
    with pytest.raises((InvalidArgumentError, SourceNotFoundError), match=message):
        LeRobotClips(root)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta_timestamps": {"action": [0.05]}}, r"must be one or more multiples of 1/10 s, .* \(got \[0.05\]\)"),
        ({"delta_timestamps": {"action": []}}, "one or more"),
        ({"delta_timestamps": {"actions": [0.1]}}, "has 'actions', which is not a column"),
        ({"delta_timestamps": [0.1]}, "must be a dict"),
        ({"delta_timestamps": {"action": [0.1]}, "rows": "episodes"}, "not accepted with rows='episodes'"),
        ({"delta_timestamps": {"action": [9.0]}, "only_whole": True}, "There are no rows"),
        ({"rows": "windows"}, "windows"),
        ({"episodes": [7]}, "has no episode 7: it has 3 episodes"),
        ({"episodes": []}, "episodes is empty"),
        ({"cameras": ["front"]}, "cameras must be a list of names among"),
        ({"tolerance_s": 0.0}, "tolerance_s must be positive"),
        ({"output_dtype": torch.float16}, "output_dtype"),
        ({"decoder_options": {"seek_mode": "approximate"}}, "must not have seek_mode"),
    ],
)
def test_wrong_arguments_are_refused(folders: dict[str, Path], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LeRobotClips(folders["v3.0"], **arguments)


def test_rows_with_different_columns_are_refused(folders: dict[str, Path]) -> None:
    clips = LeRobotClips(folders["v2.1"], rows="episodes", cameras=[])
    with pytest.raises(InvalidArgumentError, match=r"float32 .20, 3. and torch.float32 .13, 3.. Set batch_size=1"):
        stack_columns([row_of(clips, 0), row_of(clips, 1)])
    with pytest.raises(InvalidArgumentError, match="the same columns"):
        stack_columns([ColumnDict({"a": 1}), ColumnDict({"b": 1})])
    with pytest.raises(InvalidArgumentError, match="rows must come"):
        stack_columns([VideoClips])  # type: ignore[list-item]
    assert stack_columns([Skipped(())]) == {}
