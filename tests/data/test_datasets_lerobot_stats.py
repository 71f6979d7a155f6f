"""`LeRobotClips.stats` against NumPy over the raw values of the rows."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytest.importorskip("pandas", reason="needs pandas, which writes the table of tasks")

from lerobot_files import FEATURES, STILL, picture, rows_of, write_lerobot
from mediatensor.datasets import LeRobotClips
from mediatensor.errors import InvalidArgumentError, SourceNotFoundError

# Episodes of unequal lengths, one of a single frame, so that a plain mean of the episodes' means is wrong.
LENGTHS = (20, 1, 7)
VERSIONS = ("v2.0", "v2.1", "v3.0")
EPISODES_TABLE = "meta/episodes/chunk-000/file-000.parquet"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("robots")
    found = {version: write_lerobot(folder / version, version=version, lengths=LENGTHS) for version in VERSIONS}
    for version, root in found.items():
        record_stats(root, version)
    return found


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Copy the metadata of a dataset, to be changed."""

    def make(version: str) -> Path:
        shutil.copytree(folders[version] / "meta", tmp_path / "robot" / "meta")
        return tmp_path / "robot"

    return make


def values_of(episodes: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """The raw values of the frames of some episodes, (N, *shape), and (N, C, H, W) for the camera in the table."""
    rows = [row for row in rows_of(LENGTHS) if row["episode_index"] in episodes]
    values = {name: np.array([row[name] for row in rows], float) for name in FEATURES}
    values["gripper"] = values["gripper"].reshape(-1)
    images = np.stack([picture((row["index"] + 100) % 256) for row in rows])
    return {**values, STILL: images.transpose(0, 3, 1, 2) / 255.0}


def stats_in_lists(values: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, Any]]:
    """The statistics of values as LeRobot writes them: (1,) for single values, and (C, 1, 1) for cameras."""
    stats = {}
    for name, one in values.items():
        axes, shape = ((0, 2, 3), (-1, 1, 1)) if name == STILL else (0, one.shape[1:] or (1,))
        stats[name] = {
            key: getattr(np, key)(one, axis=axes).reshape(shape).tolist() for key in ("min", "max", "mean", "std")
        }
        stats[name]["count"] = [len(one)]
    # LeRobot writes the extremes of truth values as truth values.
    stats["next.done"] |= {key: [bool(stats["next.done"][key][0])] for key in ("min", "max")}
    return stats


def record_stats(root: Path, version: str) -> None:
    of_episodes = [stats_in_lists(values_of([episode])) for episode in range(len(LENGTHS))]
    if version == "v2.1":
        lines = [json.dumps({"episode_index": number, "stats": stats}) for number, stats in enumerate(of_episodes)]
        (root / "meta/episodes_stats.jsonl").write_text("\n".join(lines))
        return
    (root / "meta/episodes_stats.jsonl").unlink(missing_ok=True)
    whole = stats_in_lists(values_of(range(len(LENGTHS))))
    if version == "v2.0":
        for stats in whole.values():
            del stats["count"]
    else:
        for name, value in values_of(range(len(LENGTHS))).items():
            if name == "action":
                whole[name]["q01"] = np.quantile(value, 0.01, axis=0).tolist()
        write_episode_stats(root, of_episodes)
    (root / "meta/stats.json").write_text(json.dumps(whole | {"unknown": {"mean": [0.0]}}))


def write_episode_stats(root: Path, of_episodes: Sequence[Mapping[str, Mapping[str, Any]]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = parquet.read_table(root / EPISODES_TABLE).to_pylist()
    for row, stats in zip(rows, of_episodes, strict=True):
        row |= {f"stats/{name}/{key}": value for name, one in stats.items() for key, value in one.items()}
    parquet.write_table(pa.Table.from_pylist(rows), root / EPISODES_TABLE)


def assert_stats_match(clips: LeRobotClips, episodes: Sequence[int], names: Sequence[str]) -> None:
    for column, values in values_of(episodes).items():
        axes: Any = (0, 2, 3) if column == STILL else 0
        shape = (3, 1, 1) if column == STILL else values.shape[1:]
        for name in names:
            expected = len(values) if name == "count" else getattr(np, name)(values, axis=axes).reshape(shape)
            found = clips.stats[column][name]
            assert found.dtype == (torch.int64 if name == "count" else torch.float32)
            torch.testing.assert_close(found, torch.as_tensor(expected).to(found.dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
def test_stats_match_numpy_over_raw_values(folders: dict[str, Path], version: str) -> None:
    clips = LeRobotClips(folders[version], step=3)
    counts = [] if version == "v2.0" else ["count"]
    assert_stats_match(clips, range(len(LENGTHS)), ["min", "max", "mean", "std", *counts])
    # A column that the dataset does not have is left out, and so is a camera without statistics.
    assert clips.stats.keys() == {*FEATURES, STILL}
    quantiles = {"q01"} if version == "v3.0" else set()
    assert clips.stats["action"].keys() == {"min", "max", "mean", "std", *counts, *quantiles}
    every = LeRobotClips(folders[version], episodes=range(len(LENGTHS)))
    assert every.stats["action"].keys() == clips.stats["action"].keys()


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("episodes", [[2, 0], [1], [1, 2]])
def test_stats_of_chosen_episodes_match_numpy(folders: dict[str, Path], version: str, episodes: list[int]) -> None:
    clips = LeRobotClips(folders[version], episodes=episodes)
    assert_stats_match(clips, episodes, ["min", "max", "mean", "std", "count"])
    assert clips.stats["action"].keys() == {"min", "max", "mean", "std", "count"}


def test_stats_of_version_2_0_are_of_the_whole_dataset(folders: dict[str, Path]) -> None:
    clips = LeRobotClips(folders["v2.0"], episodes=[1])
    assert_stats_match(clips, range(len(LENGTHS)), ["min", "max", "mean", "std"])


def test_normalised_rows_have_mean_0_and_deviation_1(folders: dict[str, Path]) -> None:
    """Statistics have the shapes of the values of rows, single values and images included."""
    clips = LeRobotClips(folders["v2.1"], cameras=[STILL], episodes=[0, 2])
    for column in ("action", "pose", "timestamp", "gripper", STILL):
        stats = clips.stats[column]
        rows: list[Any] = [clips[i] for i in range(len(clips))]
        values = torch.stack([(row[column] - stats["mean"]) / stats["std"].clamp(min=1e-9) for row in rows])
        assert values.shape == (27, *rows[0][column].shape)
        axes = (0, 2, 3) if column == STILL else 0
        varies = stats["std"].flatten() > 0
        assert values.double().mean(axes).abs().max() < 1e-5
        deviations = values.double().std(axes, correction=0).flatten()[varies]
        torch.testing.assert_close(deviations, torch.ones_like(deviations), rtol=1e-5, atol=0)


def test_cameras_that_are_not_read_have_no_stats(folders: dict[str, Path]) -> None:
    for version in VERSIONS:
        assert STILL not in LeRobotClips(folders[version], cameras=[]).stats
        assert STILL not in LeRobotClips(folders[version], cameras=[], episodes=[0]).stats


def test_stats_are_read_at_first_use_and_survive_pickling(copy: Callable[[str], Path]) -> None:
    root = copy("v2.1")
    clips = LeRobotClips(root)
    text = (root / "meta/episodes_stats.jsonl").read_text()
    (root / "meta/episodes_stats.jsonl").unlink()
    with pytest.raises(SourceNotFoundError, match=r"has no statistics: there is no meta/episodes_stats.jsonl"):
        clips.stats  # noqa: B018
    (root / "meta/episodes_stats.jsonl").write_text(text)
    again = pickle.loads(pickle.dumps(clips))
    assert torch.equal(again.stats["action"]["mean"], clips.stats["action"]["mean"])


def test_stats_are_read_from_urls(folders: dict[str, Path]) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    memory = fsspec.filesystem("memory")
    for version in VERSIONS:
        memory.put(str(folders[version] / "meta"), f"/stats/{version}/meta", recursive=True)
        for options in ({}, {"episodes": [0, 2]}):
            near, far = LeRobotClips(folders[version], **options), LeRobotClips(f"memory://stats/{version}", **options)
            assert torch.equal(near.stats["pose"]["std"], far.stats["pose"]["std"])


def line(**stats: Any) -> Callable[[Path], None]:
    """Replace the line of the first episode by one with statistics of ``action``; without, remove the line."""

    def spoil(root: Path) -> None:
        path = root / "meta/episodes_stats.jsonl"
        first, *rest = path.read_text().splitlines()
        value = json.loads(first)
        value["stats"]["action"] |= stats
        path.write_text("\n".join(([json.dumps(value)] if stats else []) + rest))

    return spoil


def text(path: str, content: str) -> Callable[[Path], None]:
    return lambda root: (root / path).write_text(content) and None


def forget_episode_stats(root: Path) -> None:
    from pyarrow import parquet

    table = parquet.read_table(root / EPISODES_TABLE)
    parquet.write_table(
        table.select([name for name in table.column_names if "stats" not in name]), root / EPISODES_TABLE
    )


STATS, LINES = "meta/stats.json", "meta/episodes_stats.jsonl"


@pytest.mark.parametrize(
    ("version", "spoil", "message"),
    [
        ("v2.0", lambda root: (root / STATS).unlink(), "there is no meta/stats.json. Download all of meta"),
        ("v3.0", lambda root: (root / STATS).unlink(), "there is no meta/stats.json. Download all of meta"),
        ("v3.0", text(STATS, "{"), "stats.json is not JSON"),
        ("v3.0", text(STATS, "[]"), "must be an object"),
        ("v3.0", text(STATS, '{"action": [1]}'), "'action' of .* must be an object"),
        ("v3.0", text(STATS, '{"action": {"mean": [1]}}'), "mean of 'action' in .* must be 2 numbers"),
        ("v3.0", text(STATS, '{"action": {"std": ["a", "b"]}}'), "std of 'action' in .* must be 2 numbers"),
        ("v3.0", text(STATS, '{"action": {"std": [[1, 2], [3]]}}'), "std of 'action' in .* must be 2 numbers"),
        ("v3.0", text(STATS, '{"action": {"std": null}}'), "std of 'action' in .* must be 2 numbers"),
        ("v2.1", text(LINES, "\n"), "has no statistics of the episodes"),
        ("v2.1", text(LINES, "{"), "line 1 of .* is not JSON"),
        ("v2.1", text(LINES, '{"episode_index": 0}'), "must have an episode_index and stats"),
        ("v2.1", line(), "no statistics of observation.state for episode 0"),
        ("v2.1", line(mean=[0.0]), "mean of 'action' in episode 0 of .* must be 2 numbers"),
        ("v2.1", line(count=None), "count of 'action' in episode 0 of .* must be 1 numbers"),
        ("v2.1", line(count=[-100]), r"counts of action .* must be positive .got .-100.0, 1.0, 7.0"),
        ("v2.1", line(count=[float("nan")]), "counts of action .* must be positive"),
    ],
)  # fmt: skip
def test_damaged_stats_are_refused(
    copy: Callable[[str], Path], version: str, spoil: Callable[[Path], None], message: str
) -> None:
    root = copy(version)
    spoil(root)
    clips = LeRobotClips(root)
    with pytest.raises((InvalidArgumentError, SourceNotFoundError), match=message):
        clips.stats  # noqa: B018


def test_chosen_episodes_without_stats_are_refused(copy: Callable[[str], Path]) -> None:
    root = copy("v3.0")
    forget_episode_stats(root)
    assert "action" in LeRobotClips(root).stats
    with pytest.raises(InvalidArgumentError, match="Leave out episodes= to get those of the whole dataset"):
        LeRobotClips(root, episodes=[0]).stats  # noqa: B018
