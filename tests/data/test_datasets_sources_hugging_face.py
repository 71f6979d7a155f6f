"""Hugging Face datasets as sources: rows as stored, decoded only by this library."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from forked import run_program
from lazy_modules import import_on_use
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.datasets import AudioClips, DataLoader, DocumentPages, Item, VideoClips, as_items, check_dataset
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError

datasets = import_on_use("datasets", reason="needs the package datasets of Hugging Face")

NUM_FRAMES = 4


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    paths = [folder / f"{name}.mp4" for name in "abcd"]
    for number, path in enumerate(paths):
        write_test_pattern(path, width=64, height=48, num_frames=12 + 4 * number)
    return paths


@pytest.fixture(scope="module")
def stored(videos: list[Path]) -> Any:
    """Two videos as paths, two as bytes, one of them without a name; a row of each class, and one without a label."""
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["run", "jump", "sit"]),
            "video": datasets.Video(),
            "thumbnail": datasets.Image(),
            "boxes": datasets.List(datasets.Value("int64")),
        }
    )
    rows = {
        "label": [2, 0, 1, -1],
        "video": [
            str(videos[0]),
            {"bytes": videos[1].read_bytes(), "path": "b.mp4"},
            {"bytes": videos[2].read_bytes(), "path": None},
            {"bytes": None, "path": str(videos[3])},
        ],
        "thumbnail": [{"bytes": b"no image at all", "path": None}] * 4,
        "boxes": [[i] * i for i in range(4)],
    }
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: Any, **__: Any) -> None:
        raise AssertionError("Hugging Face decodes")

    for feature in (datasets.Video, datasets.Image, datasets.Audio):
        monkeypatch.setattr(feature, "decode_example", decode)


@pytest.mark.usefixtures("no_decoding")
def test_rows_are_read(stored: Any, videos: list[Path]) -> None:
    items = as_items(stored, kind="video")
    assert len(items) == 4
    assert [item.source for item in items] == [
        str(videos[0]),
        videos[1].read_bytes(),
        videos[2].read_bytes(),
        str(videos[3]),
    ]
    assert [item.name for item in items] == [str(videos[0]), "b.mp4", "row 2", str(videos[3])]
    assert [item.label for item in items] == [2, 0, 1, -1]
    assert [item.extra.get("class_name") for item in items] == ["sit", "run", "jump", None]
    assert [item.extra["boxes"] for item in items] == [[], [1], [2, 2], [3, 3, 3]]
    assert items[-1].extra["thumbnail"] == {"bytes": b"no image at all", "path": None}
    assert as_items(stored, kind="image")[0].source == b"no image at all"
    assert as_items(stored, kind="document")[0].source == b"no image at all"
    assert as_items(stored, kind="audio")[0].source == str(videos[0])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "not decoded": lambda stored: stored.cast_column("video", datasets.Video(decode=False)),
    "torch": lambda stored: stored.with_format("torch"),
    "columns of a format": lambda stored: stored.with_format("numpy", columns=["label"]),
    "transform": lambda stored: stored.with_transform(lambda rows: {"nothing": [0] * len(rows["label"])}),
    "indices": lambda stored: stored.select([3, 2, 1, 0]).select([3, 2, 1, 0]),
    "concatenated": lambda stored: datasets.concatenate_datasets([stored.select([0, 1]), stored.select([2, 3])]),
    "pickled": lambda stored: pickle.loads(pickle.dumps(stored)),
}


@pytest.mark.usefixtures("no_decoding")
@pytest.mark.parametrize("change", CHANGES)
def test_the_format_does_not_matter(change: str, stored: Any) -> None:
    assert list(as_items(CHANGES[change](stored), kind="video")) == list(as_items(stored, kind="video"))


@pytest.mark.usefixtures("no_decoding")
def test_selected_and_shuffled_rows_are_read(stored: Any) -> None:
    order = list(stored.with_format(None).select_columns("label").shuffle(seed=3)["label"])
    assert [item.label for item in as_items(stored.shuffle(seed=3), kind="video")] == order


def test_rows_are_read_when_they_are_asked_for(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    original = datasets.Dataset._getitem

    def getitem(self: Any, key: Any, **options: Any) -> Any:
        asked.append(key)
        return original(self, key, **options)

    monkeypatch.setattr(datasets.Dataset, "_getitem", getitem)
    items = as_items(stored, kind="video", label=lambda item: item.extra["boxes"])
    assert (len(items), asked) == (4, [])
    assert items[3].label == [3, 3, 3]
    assert [item.label for item in items[:2]] == [[], [1]]
    assert asked == [3, 0, 1]


def test_items_are_picklable(stored: Any) -> None:
    items = as_items(stored, kind="video")
    assert list(pickle.loads(pickle.dumps(items))) == list(items)


def test_columns_are_found_by_name(videos: list[Path]) -> None:
    path = str(videos[0])
    for name in ("path", "file_name", "video", "url", "file"):
        (item,) = as_items(datasets.Dataset.from_dict({"note": ["n"], name: [path]}), kind="video")
        assert (item.source, item.extra) == (path, {"note": "n"})
    rows = datasets.Dataset.from_dict({"clip": [path], "path": ["x"], "class": ["k"]})
    (item,) = as_items(rows, kind="video", media_column="clip", label_column="class")
    assert (item.source, item.label, item.extra) == (path, 0, {"path": "x", "class_name": "k"})
    flat = datasets.Dataset.from_dict({"bytes": [b"x", None], "path": ["a.mp4", "b.mp4"]})
    assert [(item.source, item.name) for item in as_items(flat, kind="video")] == [
        (b"x", "a.mp4"),
        ("b.mp4", "b.mp4"),
    ]
    binary = datasets.Dataset.from_dict({"video": [b"x"], "labels": [[1, 2]]})
    assert [(item.source, item.label) for item in as_items(binary, kind="video")] == [(b"x", [1, 2])]


def test_text_labels_become_numbers() -> None:
    rows = datasets.Dataset.from_dict({"path": ["p"] * 4, "label": ["b", "a", None, "b"]})
    items = as_items(rows, kind="video")
    assert [item.label for item in items] == [1, 0, None, 1]
    assert [item.extra.get("class_name") for item in items] == ["b", "a", None, "b"]
    numbers = datasets.Dataset.from_dict({"path": ["p"] * 2, "label": ["10", "9"]})
    assert [item.label for item in as_items(numbers, kind="video")] == [10, 9]


def test_rows_without_media_fail_when_they_are_read(videos: list[Path]) -> None:
    features = datasets.Features({"video": datasets.Video()})
    rows = datasets.Dataset.from_dict({"video": [str(videos[0]), None]}, features=features)
    dataset = VideoClips(rows, num_frames_per_clip=NUM_FRAMES, on_error="skip")
    assert dataset[0].frames.data.shape == (4, 3, 48, 64)
    (failure,) = dataset[1].failures
    assert (failure.source, failure.error) == ("row 1", "ReadError")
    assert "row 1 names no file" in failure.message
    for kind in (AudioClips, DocumentPages):
        media = kind(datasets.Dataset.from_dict({"path": [None]}), on_error="skip")
        assert "names no file" in media[0].failures[0].message


def test_bad_sources_are_refused(stored: Any) -> None:
    splits = datasets.DatasetDict({"train": stored, "test": stored})
    features = datasets.Features({"left": datasets.Video(), "right": datasets.Video()})
    two = datasets.Dataset.from_dict({"left": ["l"], "right": ["r"]}, features=features)
    for source, message in (
        (splits, r"Choose one of 'train', 'test', as in source\['train'\]"),
        (stored.to_iterable_dataset(), "Load it without streaming=True"),
        (stored["label"], "a Column of Hugging Face"),
        (
            datasets.Dataset.from_dict({"clip": ["a.mp4"]}),
            r"path or file_name or video or url or file \(its columns: clip\)",
        ),
        (datasets.Dataset.from_dict({"path": []}), "There are no files"),
        (two, "several columns with media: left, right"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            as_items(source, kind="video")
    assert as_items(two, kind="video", media_column="right")[0].source == "r"
    with pytest.raises(InvalidArgumentError, match="no column 'x'; it has left, right"):
        as_items(two, kind="video", media_column="left", label_column="x")
    with pytest.raises(InvalidArgumentError, match="pass the dataset itself"):
        as_items(
            [{"video": VideoDecoder(stored.with_format("arrow")[1].to_pylist()[0]["video"]["bytes"])}], kind="video"
        )


def test_the_advice_for_streams_works(stored: Any) -> None:
    stream = stored.to_iterable_dataset()
    kept = datasets.Dataset.from_list(list(stream.decode(False).take(1000)), features=stream.features)
    assert list(as_items(kept, kind="video")) == list(as_items(stored, kind="video"))


def test_other_modules_of_that_name_are_ignored() -> None:
    # A project may have its own module ``datasets``.
    class OwnList(list[Item]):
        pass

    OwnList.__module__ = "datasets"
    assert as_items(OwnList([Item("a.mp4")]), kind="video")[0].source == "a.mp4"


def test_parquet_of_hugging_face_is_read(stored: Any, tmp_path: Path) -> None:
    stored.to_parquet(tmp_path / "rows.parquet", batch_size=2)
    items = as_items(tmp_path / "rows.parquet", kind="video")
    for item, expected in zip(items, as_items(stored, kind="video"), strict=True):
        assert (item.source, item.label) == (expected.source, expected.label)
        assert item.extra["boxes"] == expected.extra["boxes"]
    loaded = datasets.Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path / "cache"))
    assert list(as_items(loaded, kind="video")) == list(as_items(stored, kind="video"))


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_clips_in_workers_match_those_of_paths(context: str, stored: Any, videos: list[Path]) -> None:
    labels = [2, 0, 1, -1]
    dataset = VideoClips(stored.remove_columns("thumbnail"), num_frames_per_clip=NUM_FRAMES, rows_per_file=2, seed=5)
    of_paths = VideoClips(
        list(zip(videos, labels, strict=True)), num_frames_per_clip=NUM_FRAMES, rows_per_file=2, seed=5
    )
    seen: list[int] = []
    for batch in DataLoader(dataset, 3, shuffle=True, num_workers=2, multiprocessing_context=context):
        for row, clip, label, indices in zip(
            batch.row.tolist(), batch.frames.data, batch.label.tolist(), batch.frame_indices, strict=True
        ):
            seen.append(row)
            assert torch.equal(clip, of_paths[row].frames.data)
            assert torch.equal(clip, VideoDecoder(videos[row // 2]).get_frames_at(indices).data)
            assert label == labels[row // 2]
    assert sorted(seen) == list(range(8))


@pytest.mark.parametrize("form", ["struct", "bytes"])
def test_large_media_are_not_copied(form: str, tmp_path: Path) -> None:
    write_test_pattern(tmp_path / "clip.mp4", width=64, height=48, num_frames=12)
    # Any data may follow the video: here, a box of free space that makes the file large.
    data = (tmp_path / "clip.mp4").read_bytes() + (16 << 20).to_bytes(4, "big") + b"free" + bytes((16 << 20) - 8)
    value = {"bytes": data, "path": "clip.mp4"} if form == "struct" else data
    features = datasets.Features({"video": datasets.Video() if form == "struct" else datasets.Value("large_binary")})
    datasets.Dataset.from_dict({"video": [None, value, None]}, features=features).save_to_disk(tmp_path / "rows")
    stored = datasets.load_from_disk(tmp_path / "rows")
    items = as_items(stored, kind="video")
    assert "names no file" in items[0].source.describe()  # pyarrow is imported by now
    before = memory()
    source = items[1].source
    frames = VideoDecoder(source)[:]
    assert all(after < known + (4 << 20) for known, after in zip(before, memory(), strict=True))
    assert torch.equal(frames, VideoDecoder(tmp_path / "clip.mp4")[:])
    again = pickle.loads(pickle.dumps(source))
    assert torch.equal(VideoDecoder(again)[:], frames)


def test_checks_tell_rows_with_equal_names_apart(tmp_path: Path) -> None:
    write_test_pattern(tmp_path / "clip.mp4", width=64, height=48, num_frames=2)
    space = (1 << 17).to_bytes(4, "big") + b"free" + bytes((1 << 17) - 8)  # large media have no copy in memory
    contents = [(tmp_path / "clip.mp4").read_bytes() + space, space]
    for same_table in (True, False):
        tables = [contents] if same_table else [[one] for one in contents]
        findings: list[Any] = []
        for table in tables:
            stored = datasets.Dataset.from_dict(
                {"video": [{"bytes": one, "path": "clip.mp4"} for one in table]},
                features=datasets.Features({"video": datasets.Video()}),
            )
            report = check_dataset(stored, decode=False, num_workers=0, state_file=tmp_path / f"{same_table}.state")
            findings += [[finding.kind for finding in file.findings] for file in report.files]
        assert findings == [[], ["unreadable"]]


def memory() -> list[int]:
    """Bytes of this process in memory, its own and of files; nothing if the system does not report it."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return [int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssFile"))]


def test_decoders_of_hugging_face_are_read_from_their_sources(videos: list[Path]) -> None:
    class TheirDecoder:
        def __init__(self, **encoded: Any) -> None:
            self._hf_encoded = encoded

    rows = [
        {"video": TheirDecoder(path="a.mp4", bytes=videos[0].read_bytes())},
        {"video": TheirDecoder(path=str(videos[1]), bytes=None)},
    ]
    items = as_items(rows, kind="video")
    assert [(item.source, item.name) for item in items] == [
        (videos[0].read_bytes(), "a.mp4"),
        (str(videos[1]), str(videos[1])),
    ]


def test_rows_of_one_file_share_what_is_open(stored: Any) -> None:
    dataset = VideoClips(stored, num_frames_per_clip=NUM_FRAMES, rows_per_file=6)
    # Row 1 of the source holds bytes, which are another object each time they are read.
    samples = dataset.__getitems__(range(6, 12))
    assert {sample.source for sample in samples} == {"b.mp4"}
    assert len(dataset._reader.files) == 1
    assert dataset.items[1] is dataset.items[1]


def test_nothing_of_hugging_face_is_imported() -> None:
    program = (
        "import sys\n"
        "from mediatensor.datasets import as_items\n"
        "as_items(['a.mp4'], kind='video')\n"
        "print([name for name in ('datasets', 'pyarrow') if name in sys.modules])\n"
    )
    run = run_program(program)
    assert run.stdout.strip() == "[]"
