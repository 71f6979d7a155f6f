"""`mediatensor.distributed` without an engine: inputs, outputs, and their dependencies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import media
from mediatensor.datasets import Item, write_shards
from mediatensor.decoders import VideoDecoder
from mediatensor.distributed import ClipDecoder, ListColumn, clip_rows
from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import clips_at_random_timestamps
from training_set import NUM_FRAMES, SIZE, count_openings, linear_decode, make_videos

CLIP = 4
SHAPE = (CLIP, 3, *SIZE)
NUM_VIDEOS = 6


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in make_videos(tmp_path_factory.mktemp("videos"), NUM_VIDEOS)]


@pytest.fixture(scope="module")
def broken(videos: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("broken") / "cut.mp4"
    path.write_bytes(Path(videos[0]).read_bytes()[:500])
    return str(path)


def columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as engines hand them over."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def part_of(batch: dict[str, Any], chosen: Any) -> dict[str, Any]:
    return {name: values[chosen] for name, values in batch.items()}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the decoders that were made."""
    return count_openings(monkeypatch)


# Outputs


def test_each_row_comes_out_in_its_place_with_the_clip_of_its_times(videos: list[str], broken: str) -> None:
    paths = [videos[2], broken, videos[0], "missing.mp4", videos[2]]
    batch = columns(clip_rows(paths, label=[2, 9, 0, 9, 2]))
    result = ClipDecoder(num_frames_per_clip=CLIP, clip_shape=SHAPE)(batch)
    assert list(result) == [
        *("path", "row", "label", "frames", "pts_seconds", "duration_seconds", "source", "error", "n_replaced")
    ]
    dtypes = {name: result[name].dtype for name in ("frames", "pts_seconds", "duration_seconds", "n_replaced")}
    assert dtypes == {"frames": np.uint8, "pts_seconds": float, "duration_seconds": float, "n_replaced": np.int64}
    assert result["frames"].shape == (5, *SHAPE)
    assert result["pts_seconds"].shape == result["duration_seconds"].shape == (5, CLIP)
    assert result["label"].tolist() == [2, 9, 0, 9, 2]
    assert result["source"].tolist() == paths
    assert [bool(error) for error in result["error"]] == [False, True, False, True, False]
    assert result["error"][1].startswith("OpenError: ")
    assert broken in result["error"][1]
    assert result["error"][3].startswith("SourceNotFoundError: ")
    for row in (0, 2, 4):
        indices = np.rint(result["pts_seconds"][row] * 10).astype(int)  # of 10 frames a second
        assert np.array_equal(result["frames"][row], linear_decode(Path(paths[row]))[indices])
        assert result["duration_seconds"][row] == pytest.approx([0.1] * CLIP)
    for row in (1, 3):
        assert not result["frames"][row].any()
        assert np.isnan(result["pts_seconds"][row]).all()
        assert np.isnan(result["duration_seconds"][row]).all()


@pytest.mark.parametrize("clip_shape", [None, SHAPE])
def test_types_and_dimensions_are_those_of_good_rows_where_all_are_broken_or_none_is_there(
    clip_shape: Any, videos: list[str], broken: str
) -> None:
    decoder = ClipDecoder(num_frames_per_clip=CLIP, clip_shape=clip_shape)
    good, bad, none = (decoder({"path": paths}) for paths in (videos[:2], [broken] * 2, []))
    for name in ("frames", "pts_seconds", "duration_seconds", "source", "error", "n_replaced"):
        assert good[name].dtype == bad[name].dtype == none[name].dtype, name
        assert (len(good[name]), len(bad[name]), len(none[name])) == (2, 2, 0)
        values = [np.asarray(result[name][0]) for result in (good, bad)]
        assert (values[0].ndim, values[0].dtype.kind) == (values[1].ndim, values[1].dtype.kind), name
    assert good["frames"][0].shape == SHAPE
    assert bad["frames"][0].shape == (SHAPE if clip_shape else (0, 0, 0, 0))


def test_a_clip_of_another_shape_is_an_error_of_its_row(videos: list[str], clip: Path) -> None:
    result = ClipDecoder(num_frames_per_clip=CLIP, clip_shape=SHAPE)({"path": [videos[0], str(clip)]})
    assert result["error"][0] == ""
    assert "(4, 3, 32, 48)" in result["error"][1]
    assert not result["frames"][1].any()
    ragged = ClipDecoder(num_frames_per_clip=CLIP)({"path": [videos[0], str(clip)]})
    assert ragged["error"].tolist() == ["", ""]
    assert [frames.shape for frames in ragged["frames"]] == [SHAPE, (CLIP, *VideoDecoder(clip)[0].shape)]


def test_replaced_frames_are_counted(tmp_path: Path) -> None:
    path = media.make("damaged_packet_mpeg4_mp4", tmp_path)
    with VideoDecoder(path, on_error="nearest") as decoder:
        num_frames = len(decoder)
        num_replaced = len(decoder.get_frames_at(range(num_frames)).replaced)
    assert num_replaced
    result = ClipDecoder(num_frames_per_clip=num_frames, decoder_options={"on_error": "nearest"})({"path": [str(path)]})
    assert (result["n_replaced"].tolist(), result["error"].tolist()) == ([num_replaced], [""])


# Dependencies of a row


def test_a_row_does_not_depend_on_its_batch(videos: list[str], broken: str) -> None:
    options: dict[str, Any] = {
        "sampler": partial(clips_at_random_timestamps, num_frames_per_clip=CLIP, seconds_between_frames=0.2),
        "clip_shape": SHAPE,
    }
    batch = columns(clip_rows([*videos, broken], 3))
    whole = ClipDecoder(**options)(batch)
    order = np.random.default_rng(0).permutation(len(whole["row"]))
    other = ClipDecoder(**options, max_open_files=1)
    for chosen in np.array_split(order, 5):
        result = other(part_of(batch, chosen))
        for name in ("frames", "pts_seconds", "error"):
            assert np.array_equal(result[name], whole[name][chosen], equal_nan=name == "pts_seconds"), name
    again = ClipDecoder(**options, seed=1)(batch)
    assert not np.array_equal(again["pts_seconds"], whole["pts_seconds"], equal_nan=True)


def test_without_numbers_a_row_depends_on_its_file(videos: list[str]) -> None:
    decoder = ClipDecoder(num_frames_per_clip=CLIP)
    starts = [decoder({"path": [path]})["pts_seconds"][0][0] for path in videos]
    assert len(set(starts)) > 1
    together = ClipDecoder(num_frames_per_clip=CLIP)({"path": [*videos[::-1], *videos]})
    assert [times[0] for times in together["pts_seconds"]] == [*starts[::-1], *starts]


def test_numbers_of_a_column_with_gaps_are_floats(videos: list[str]) -> None:
    decoder = ClipDecoder(num_frames_per_clip=CLIP)
    whole = decoder({"path": videos[:2], "row": [5, 6]})
    unnumbered = decoder({"path": videos[2:3]})
    gaps = decoder({"path": videos[:3], "row": np.array([5, 6, np.nan])})
    assert gaps["error"].tolist() == [""] * 3
    assert all(map(np.array_equal, gaps["pts_seconds"], [*whole["pts_seconds"], *unnumbered["pts_seconds"]]))


def test_lists_may_come_as_arrays() -> None:
    column = ListColumn("numbers").gather([np.array([1, 2]), None, [], (3,), {"a": 1}, "text", 5])
    assert column.tolist() == [[1, 2], [], [], [3], {"a": 1}, "text", 5]


# Opening


def test_a_file_is_opened_once_for_its_rows(videos: list[str], opened: list[str]) -> None:
    batch = columns(clip_rows(videos, 3))
    order = np.arange(len(batch["row"])).reshape(-1, 3).T.ravel()  # rows of a file far apart
    decoder = ClipDecoder(num_frames_per_clip=CLIP, max_open_files=2)
    decoder(part_of(batch, order))
    assert opened == videos
    decoder(part_of(batch, order[-2:]))  # of the files that are open
    assert opened == videos


def test_rows_of_a_file_are_decoded_in_the_order_of_their_places(
    videos: list[str], count: Callable[[Callable[[], object]], int]
) -> None:
    batch = columns(clip_rows(videos[:1], 12))
    decoder = ClipDecoder(num_frames_per_clip=2, max_open_files=1)
    starts = np.array([times[0] for times in decoder(batch)["pts_seconds"]])
    backwards = np.argsort(-starts, kind="stable")
    # The codec returns each frame once, and late frames once more for each group of pictures.
    assert count(lambda: ClipDecoder(num_frames_per_clip=2)(part_of(batch, backwards))) <= 2 * NUM_FRAMES


# Bytes


def test_bytes_are_read_and_paths_are_their_names(videos: list[str], broken: str, opened: list[str]) -> None:
    contents = [Path(path).read_bytes() for path in (videos[1], videos[2], broken)]
    data = np.empty(4, object)
    data[:] = [contents[0], contents[1], contents[2], bytes(bytearray(contents[0]))]
    batch = {"path": ["a", "b", "c", "a"], "bytes": data, "row": [0, 1, 2, 0]}
    result = ClipDecoder(num_frames_per_clip=CLIP)(batch)
    assert "bytes" not in result
    assert "bytes" in ClipDecoder(num_frames_per_clip=CLIP, keep_bytes=True)(batch)
    assert result["source"].tolist() == ["a", "b", "c", "a"]
    assert [bool(error) for error in result["error"]] == [False, False, True, False]
    assert np.array_equal(result["frames"][0], result["frames"][3])
    assert opened.count(contents[0]) == 2, "once in each call"  # type: ignore[comparison-overlap]
    by_path = ClipDecoder(num_frames_per_clip=CLIP)({"path": videos[1:3], "row": [0, 1]})
    assert all(map(np.array_equal, result["frames"], by_path["frames"]))


def test_bytes_need_no_name_and_may_come_as_hugging_face_stores_them(videos: list[str]) -> None:
    contents = [Path(path).read_bytes() for path in videos]
    decoder = ClipDecoder(num_frames_per_clip=CLIP)
    together = decoder({"bytes": contents})
    assert together["source"][0] == f"<{len(contents[0])} bytes>"
    alone = [decoder({"bytes": [one]})["pts_seconds"][0] for one in contents]
    assert all(map(np.array_equal, together["pts_seconds"], alone))
    assert len({times[0] for times in alone}) > 1, "each file draws for itself"
    files = [{"path": "x", "bytes": contents[0]}, {"path": videos[1], "bytes": None}]
    mapped = ClipDecoder(num_frames_per_clip=CLIP, path_column="video")({"video": files, "row": [0, 1]})
    plain = decoder({"path": videos[:2], "row": [0, 1]})
    assert mapped["source"].tolist() == ["x", videos[1]]
    assert all(map(np.array_equal, mapped["frames"], plain["frames"]))


@pytest.mark.parametrize("nothing", [None, float("nan"), "", 3, {"path": None, "bytes": None}])
def test_a_row_without_a_file_is_an_error_of_its_own(nothing: object, videos: list[str]) -> None:
    result = ClipDecoder(num_frames_per_clip=CLIP)({"path": [nothing, videos[0]]})
    assert result["error"][0].startswith("SourceTypeError: ")
    assert (result["error"][1], result["source"].tolist()) == ("", ["", videos[0]])


# Errors of a batch or an argument, not of a file


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"file": ["a.mp4"]}, "path_column"),
        ({}, "path_column"),
        ([{"path": "a.mp4"}], "mapping"),
        ({"path": ["a.mp4"], "row": [1, 2]}, "length"),
        ({"path": ["a.mp4"], "row": [0.5]}, "row"),
        ({"path": ["a.mp4"], "row": [True]}, "row"),
        ({"path": ["a.mp4"], "frames": [1], "error": [1]}, "frames, error"),
        ({"bytes": np.array([b"abc\0"])}, "'S'"),
    ],
)
def test_a_batch_that_is_none_raises(batch: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ClipDecoder(num_frames_per_clip=CLIP)(batch)


@pytest.mark.parametrize(
    "options",
    [
        {"clip_shape": (4, 3, 32)},
        {"clip_shape": (4, 3, 32, 0)},
        {"clip_shape": (4, 3, 32, 32.0)},
        {"clip_shape": (8, 3, 32, 32)},
        {"max_open_files": 0},
        {"decoder_options": {"output_dtype": "auto"}},
    ],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(options))}|output_dtype"):
        ClipDecoder(num_frames_per_clip=CLIP, **options)


def test_a_mistake_of_a_sampler_is_not_an_error_of_a_file(videos: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        ClipDecoder(lambda decoder: 1 / 0)({"path": videos[:1]})  # type: ignore[arg-type, return-value]


def test_prefixes_let_several_read_the_same_rows(videos: list[str]) -> None:
    first = ClipDecoder(num_frames_per_clip=2)({"path": videos[:1], "frames_per_second": [10]})
    second = ClipDecoder(num_frames_per_clip=CLIP, prefix="long_")(first)
    assert {name for name in second if name not in first} == {
        f"long_{name}" for name in ("frames", "pts_seconds", "duration_seconds", "source", "error", "n_replaced")
    }
    assert (second["frames"][0].shape[0], second["long_frames"][0].shape[0]) == (2, CLIP)


def test_frames_may_be_floats_and_channels_last(videos: list[str]) -> None:
    options = {"output_dtype": torch.float32, "dimension_order": "NHWC"}
    result = ClipDecoder(num_frames_per_clip=CLIP, clip_shape=(CLIP, *SIZE, 3), decoder_options=options)(
        {"path": [videos[0], "missing.mp4"]}
    )
    assert result["error"][0] == ""
    assert result["frames"].dtype == np.float32
    assert 0 < result["frames"][0].max() <= 1


# Rows


def test_rows_are_numbered_as_those_of_a_dataset() -> None:
    rows = clip_rows([Path("a.mp4"), "b.mp4"], 3, label=["x", "y"])
    assert [row["row"] for row in rows] == list(range(6))
    assert [(row["path"], row["label"]) for row in rows] == [("a.mp4", "x")] * 3 + [("b.mp4", "y")] * 3
    for options in ({"rows_per_file": 0}, {"label": [1]}, {"row": [1, 2]}):
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            clip_rows(["a.mp4", "b.mp4"], **options)  # type: ignore[arg-type]


def test_a_second_column_of_labels_is_refused(tmp_path: Path) -> None:
    rows = [{"path": "a.mp4", "label": "cat", "action": "jump"}, {"path": "b.mp4", "label": "dog", "action": "run"}]
    assert [row["label"] for row in clip_rows(rows)] == [0, 1]
    with pytest.raises(InvalidArgumentError, match=r"a\.mp4 has a column 'label'.*Rename"):
        clip_rows(rows, label_column="action")
    items = [Item(b"x", label=0, name="a.png", extra={"label": 1})]
    with pytest.raises(InvalidArgumentError, match=r"a\.png has a column 'label'.*Rename"):
        write_shards(items, tmp_path / "{}.tar")
    assert not list(tmp_path.iterdir())
