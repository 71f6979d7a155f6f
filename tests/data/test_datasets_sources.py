"""`as_items` on lists, mappings, pairs, bytes and sequences of items, and its errors."""

from __future__ import annotations

import csv
import itertools
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.datasets import Item, VideoClips, as_items
from mediatensor.datasets._sources import manifests
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError, OutOfRangeError, SourceNotFoundError, SourceTypeError

NUM_FRAMES = 4


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    paths = [folder / f"{name}.mp4" for name in "abc"]
    for number, path in enumerate(paths):
        write_test_pattern(path, width=64, height=48, num_frames=12 + 4 * number)
    return paths


class CountingItems(Sequence[Item]):
    """A lazy sequence of another library; counts requests."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.number:
            raise IndexError(index)
        self.asked.append(index)
        return Item(f"{index}.mp4", label=index)


def file_number(item: Item) -> int:
    return int(Path(item.name).stem) * 10


def as_tuples(source: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [(item.source, item.label, item.name, item.extra) for item in as_items(source, kind="video", **options)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (["a.mp4", Path("b.mp4")], [("a.mp4", None, "a.mp4", {}), (Path("b.mp4"), None, "b.mp4", {})]),
        (("a.mp4", "b.mp4"), [("a.mp4", None, "a.mp4", {}), ("b.mp4", None, "b.mp4", {})]),
        (iter(["https://host/a.mp4"]), [("https://host/a.mp4", None, "https://host/a.mp4", {})]),
        (np.array(["a.mp4"]), [("a.mp4", None, "a.mp4", {})]),
        ([b"xyz", bytearray(b"uv")], [(b"xyz", None, "source[0]", {}), (b"uv", None, "source[1]", {})]),
        ([("a.mp4", 5), ["b.mp4", 2.5]], [("a.mp4", 5, "a.mp4", {}), ("b.mp4", 2.5, "b.mp4", {})]),
        ([(b"x", 1), ({"path": "p", "bytes": b"y"}, 2)], [(b"x", 1, "source[0]", {}), (b"y", 2, "p", {})]),
        ([(Item("a.mp4", 7, "n", {"k": 1}), 8)], [("a.mp4", 8, "n", {"k": 1})]),
        ([{"path": "a.mp4", "bytes": None}], [("a.mp4", None, "a.mp4", {})]),
        ([{"path": "a.mp4"}], [("a.mp4", None, "a.mp4", {})]),
        ([{"bytes": b"x", "path": None}], [(b"x", None, "source[0]", {})]),
        ([{"bytes": b"x"}], [(b"x", None, "source[0]", {})]),
        ([{"path": "a.mp4", "bytes": b"x", "label": 3}], [(b"x", 3, "a.mp4", {})]),
        ([{"video": {"path": "a.mp4", "bytes": b"x"}, "labels": [1, 0]}], [(b"x", [1, 0], "a.mp4", {})]),
        ([{"video": b"x", "fps": 30}], [(b"x", None, "source[0]", {"fps": 30})]),
        # Not the file, but its size.
        ([{"path": "a.mp4", "bytes": 1234}], [("a.mp4", None, "a.mp4", {"bytes": 1234})]),
        # The order of the columns that are looked at.
        ([{"url": "u", "file_name": "f", "path": "p"}], [("p", None, "p", {"url": "u", "file_name": "f"})]),
        ([{"url": "u", "video": "v", "file_name": "f"}], [("f", None, "f", {"url": "u", "video": "v"})]),
        ([{"url": "u", "video": "v", "path": None}], [("v", None, "v", {"url": "u"})]),
        ([{"url": "u", "audio": "s", "path": ""}], [("u", None, "u", {"audio": "s"})]),
        ([{"label": 1, "labels": 2, "path": "p"}], [("p", 1, "p", {"labels": 2})]),
    ],
)  # fmt: skip
def test_collections_give_items(source: Any, expected: list[tuple[Any, ...]]) -> None:
    assert as_tuples(source) == expected


def test_columns_are_found_by_name() -> None:
    rows = [{"path": "wrong", "clip": "a.mp4", "label": 0, "action": "run"}]
    assert as_tuples(rows, media_column="clip", label_column="action") == [
        ("a.mp4", 0, "a.mp4", {"path": "wrong", "label": 0, "class_name": "run"})
    ]
    assert as_items([{"video": "v", "audio": "a"}], kind="audio")[0].source == "a"
    assert as_items([{"video": "v"}], kind="audio")[0].source == "v"
    assert as_items([{"image": "i", "pdf": "p"}], kind="document")[0].source == "p"


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (["run", "jump", "run"], [1, 0, 1], ["run", "jump", "run"]),
        (["é", "z", "Z"], [2, 1, 0], ["é", "z", "Z"]),  # by code point, whatever the locale
        (["10", "9", "-1"], [10, 9, -1], [None] * 3),
        (["1.5", "2", "1e3"], [1.5, 2.0, 1000.0], [None] * 3),
        (["1", "2", "three"], [0, 1, 2], ["1", "2", "three"]),
        (["nan", "inf", "1_0"], [2, 1, 0], ["nan", "inf", "1_0"]),  # float() takes these
        (["9" * 5000, "1", "1"], [1, 0, 0], ["9" * 5000, "1", "1"]),
        (["run", None, ""], [0, None, None], ["run", None, None]),
        ([0, 4, 2], [0, 4, 2], [None] * 3),
        ([True, 2.5, None], [True, 2.5, None], [None] * 3),
    ],
)
def test_labels_are_read(labels: list[Any], numbers: list[Any], names: list[Any]) -> None:
    items = as_items([{"path": "p", "label": label} for label in labels], kind="video")
    assert [(item.label, type(item.label)) for item in items] == [(number, type(number)) for number in numbers]
    assert [item.extra.get("class_name") for item in items] == names
    if "" not in labels:
        assert [item.label for item in as_items([("p", label) for label in labels], kind="video")] == numbers


def test_labels_of_items_are_not_touched() -> None:
    given = Item("a.mp4", label="a text")
    items = as_items([given, ("b.mp4", "z"), ("c.mp4", "y")], kind="video")
    assert items[0] is given
    assert [item.label for item in items] == ["a text", 1, 0]


def test_a_label_function_replaces_labels() -> None:
    items = as_items([("1.mp4", "run"), ("2.mp4", "jump")], kind="video", label=lambda item: item.extra["class_name"])
    assert [item.label for item in items] == ["run", "jump"]
    assert [item.label for item in as_items(["7.mp4"], kind="video", label=file_number)] == [70]


def test_sequences_of_items_stay_lazy() -> None:
    given = CountingItems(1000)
    assert as_items(given, kind="video") is given
    labelled = as_items(given, kind="video", label=file_number)
    given.asked.clear()
    assert len(labelled) == 1000
    assert given.asked == []
    assert labelled[5].label == 50
    assert labelled[-1].label == 9990
    assert [item.label for item in labelled[2:8:3]] == [20, 50]
    assert given.asked == [5, 999, 2, 5]
    assert [item.label for item in pickle.loads(pickle.dumps(labelled))[:3]] == [0, 10, 20]
    with pytest.raises(OutOfRangeError, match="1000"):
        labelled[1000]
    assert len(list(labelled)) == 1000


def test_items_of_lazy_sequences_are_the_same_object_while_held() -> None:
    labelled = as_items(CountingItems(10), kind="video", label=file_number)
    first = labelled[3]
    assert labelled[-7] is first
    copied = pickle.loads(pickle.dumps(labelled))
    assert copied[3] == first
    assert copied[3] is not first


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "There are no files"),
        (iter(()), "There are no files"),
        (b"RIFF", r"put it into a list, \[source\]"),
        (Item("a.mp4"), r"put it into a list, \[source\]"),
        ({"path": "a.mp4"}, r"put it into a list, \[source\]"),
        ({"a.mp4", "b.mp4"}, r"sorted\(source\)"),
        ([5], r"source\[0\] is of type int"),
        (["a.mp4", None], r"source\[1\] is None"),
        ([""], r"source\[0\] is ''"),
        ([{"clip": "a.mp4"}], r"path or file_name or video or url or file \(its columns: clip\)"),
        ([{}], "its columns: none"),
        ([{"path": 5}], r"source\[0\] is of type int"),
        ([{"video": object()}], "Hugging Face"),
        ([("a.mp4", "b.mp4", "c.mp4")], "type tuple"),
        ([{"path": None, "bytes": None}], r"source\[0\] names no file"),
        ([{"path": {"path": None, "bytes": None}}], r"source\[0\] names no file"),
        ([("a.mp4", "run"), ("b.mp4", 1)], "Some labels are text"),
        ("https://host/a.mp4", r"goes into a list: \[source\]"),
        ("https://host/rows.csv", r"neither a folder nor a manifest on this machine"),
    ],
)  # fmt: skip
def test_bad_sources_are_refused(source: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        as_items(source, kind="video")


@pytest.mark.parametrize("source", [5, None])
def test_sources_of_a_wrong_type_are_refused(source: Any) -> None:
    with pytest.raises(SourceTypeError, match=f"of type {type(source).__name__}; it must be a folder"):
        as_items(source, kind="video")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="video, audio, image, document"):
        as_items(["a.mp4"], kind="film")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no column 'action'; it has path"):
        as_items([{"path": "a.mp4"}], kind="video", label_column="action")
    with pytest.raises(InvalidArgumentError, match="in a column clip "):
        as_items([{"path": "a.mp4"}], kind="video", media_column="clip")


def test_single_files_are_refused(videos: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="goes into a list"):
        as_items(videos[0], kind="video")
    for missing in ("no-such-folder", "no-such.csv", "no-such.parquet", "no-such.mp4"):
        with pytest.raises(SourceNotFoundError, match=missing):
            as_items(videos[0].with_name(missing), kind="video")


def test_tables_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"path": ["a.mp4"], "label": [1]})
    with pytest.raises(InvalidArgumentError, match=r"source.to_dict\('records'\)"):
        as_items(table, kind="video")
    assert as_tuples(table.to_dict("records")) == [("a.mp4", 1, "a.mp4", {})]


def test_endless_sources_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert manifests.MAX_ITEMS > 50
    monkeypatch.setattr(manifests, "MAX_ITEMS", 50)

    def endless() -> Iterator[str]:
        for number in itertools.count():
            assert number < 100
            yield f"{number}.mp4"

    assert len(as_items(itertools.islice(endless(), 50), kind="video")) == 50
    with pytest.raises(InvalidArgumentError, match="more than 50 files"):
        as_items(endless(), kind="video")


def test_rows_of_a_dict_reader_are_read(tmp_path: Path) -> None:
    table = tmp_path / "odd.txt"
    table.write_text("path|label\na.mp4|2\nb.mp4|10\n")
    with table.open(newline="") as file:
        assert [(item.source, item.label) for item in as_items(csv.DictReader(file, delimiter="|"), kind="video")] == [
            ("a.mp4", 2),
            ("b.mp4", 10),
        ]


def test_missing_files_are_found_when_they_are_read(videos: list[Path]) -> None:
    source = [videos[0], videos[0].with_name("missing.mp4")]
    dataset = VideoClips(source, num_frames_per_clip=NUM_FRAMES)
    with pytest.raises(OpenError, match="missing"):
        dataset[1]
    skipping = VideoClips(source, num_frames_per_clip=NUM_FRAMES, on_error="skip")
    assert skipping[1].failures[0].source.endswith("missing.mp4")


def test_bytes_and_paths_give_the_same_clips_in_workers(videos: list[Path]) -> None:
    rows = [{"path": f"{path.stem}", "bytes": path.read_bytes(), "label": path.stem} for path in videos]
    options: dict[str, Any] = {"num_frames_per_clip": NUM_FRAMES, "rows_per_file": 2, "seed": 0}
    of_paths, of_bytes = VideoClips([(path, path.stem) for path in videos], **options), VideoClips(rows, **options)
    loader = DataLoader(of_bytes, batch_size=None, num_workers=2)
    count = 0
    for row, sample in enumerate(loader):
        count += 1
        expected = of_paths[row]
        assert torch.equal(sample.frames.data, expected.frames.data)
        assert sample.label == expected.label == row // 2
        assert sample.source == videos[row // 2].stem
        whole = VideoDecoder(videos[row // 2])
        assert torch.equal(sample.frames.data, whole.get_frames_at(sample.frame_indices).data)
    assert count == 6
