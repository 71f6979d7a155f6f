"""Numbers of classes that are the same in every dataset of a training, whatever classes each of them has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manifests import write_manifest
from mediatensor.datasets import (
    AudioClips,
    DocumentPages,
    Item,
    TarItems,
    TarSamples,
    VideoAudioClips,
    VideoClips,
    as_items,
)
from mediatensor.distributed import clip_rows
from mediatensor.errors import InvalidArgumentError
from tar_files import TextRecipe, tar_bytes

CLASSES = ["walk", "jump", "run"]


def folder_of(folder: Path, labels: list[str]) -> Any:
    for number, label in enumerate(labels):
        (folder / label).mkdir(parents=True, exist_ok=True)
        (folder / label / f"{number}.mp4").touch()
    return folder


def rows_of(labels: list[str]) -> list[dict[str, Any]]:
    return [{"path": f"{label}.mp4", "label": label} for label in labels]


def csv_of(folder: Path, labels: list[str]) -> Any:
    return write_manifest(folder / "rows.csv", rows_of(labels))


def json_lines_of(folder: Path, labels: list[str]) -> Any:
    return write_manifest(folder / "rows.jsonl", rows_of(labels))


def pairs_of(folder: Path, labels: list[str]) -> Any:
    return [(f"{label}.mp4", label) for label in labels]


def made_items_of(folder: Path, labels: list[str]) -> Any:
    return [Item(f"{label}.mp4", label=label) for label in labels]


def shards_of(folder: Path, labels: list[str]) -> Any:
    members = [part for label in labels for part in ((f"{label}.mp4", b"x"), (f"{label}.cls", label.encode()))]
    (folder / "rows.tar").write_bytes(tar_bytes(members))
    return folder / "rows.tar"


def parquet_of(folder: Path, labels: list[str]) -> Any:
    return write_manifest(folder / "rows.parquet", rows_of(labels))


def media_in_parquet_of(folder: Path, labels: list[str]) -> Any:
    return write_manifest(folder / "rows.parquet", [{"video": b"x", "label": label} for label in labels])


def hugging_face_of(folder: Path, labels: list[str]) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_list(rows_of(labels))


def class_labels_of(folder: Path, labels: list[str]) -> Any:
    datasets = pytest.importorskip("datasets")
    names = ["swim", *sorted(set(labels))]
    features = datasets.Features({"path": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    return datasets.Dataset.from_list(rows_of(labels), features=features)


SOURCES = [
    folder_of,
    csv_of,
    json_lines_of,
    pairs_of,
    made_items_of,
    shards_of,
    parquet_of,
    media_in_parquet_of,
    hugging_face_of,
    class_labels_of,
]


@pytest.mark.parametrize("source_of", SOURCES)
def test_classes_fix_the_numbers(source_of: Callable[[Path, list[str]], Any], tmp_path: Path) -> None:
    source = source_of(tmp_path, ["run", "walk"])
    items = as_items(source, kind="video", classes=CLASSES)
    assert sorted(item.label for item in items) == [0, 2]
    for dataset in (VideoClips(source, classes=CLASSES), VideoAudioClips(source, classes=tuple(CLASSES))):
        assert sorted(dataset.spec(row).item.label for row in range(2)) == [0, 2]
        assert dataset.class_names == CLASSES


@pytest.mark.parametrize("source_of", SOURCES)
def test_an_unknown_class_is_named(source_of: Callable[[Path, list[str]], Any], tmp_path: Path) -> None:
    source = source_of(tmp_path, ["run", "walk"])
    with pytest.raises(InvalidArgumentError, match=r"class 'run' is not among classes.*\['jump', 'walk'\]"):
        list(as_items(source, kind="video", classes=["jump", "walk"]))


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="are directly in it"):
        as_items(folder_of(tmp_path, ["run"]) / "run", kind="video", classes=["run"])


def test_folders_and_manifests_of_the_same_files_agree(tmp_path: Path) -> None:
    """With files at any depth and one outside of all classes; folders without media are not classes."""
    folder = tmp_path / "videos"
    labels = {"0.mp4": "", "jump/1.mp4": "jump", "run/2024/may/2.mp4": "run", "run/3.mp4": "run"}
    for name in labels:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for name in ("notes", "swim/2024"):
        (folder / name).mkdir(parents=True)
    (folder / "notes" / "read.txt").touch()
    rows = [{"path": f"videos/{name}", "label": label} for name, label in labels.items()]
    manifest = write_manifest(tmp_path / "rows.csv", rows)
    described = [
        [(str(item.source), item.label, item.extra) for item in as_items(source, kind="video", classes=CLASSES)]
        for source in (folder, manifest)
    ]
    assert described[0] == described[1]
    assert [label for _, label, _ in described[0]] == [None, 1, 2, 2]
    assert VideoClips(folder, classes=CLASSES).class_names == VideoClips(manifest, classes=CLASSES).class_names


def test_validation_has_the_numbers_of_training(tmp_path: Path) -> None:
    """A folder that lacks a class numbers the remaining ones as in training."""
    train = VideoClips(folder_of(tmp_path / "train", ["jump", "run", "walk"]))
    validation = VideoClips(folder_of(tmp_path / "validation", ["walk", "run"]), classes=train.class_names)
    assert [validation.spec(row).item.label for row in range(2)] == [1, 2]
    assert validation.class_names == train.class_names == ["jump", "run", "walk"]


def test_classes_apply_to_audio_documents_streams_and_engines(tmp_path: Path) -> None:
    for make, name in ((AudioClips, "a.wav"), (DocumentPages, "a.png")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run").mkdir()
        (tmp_path / name / "run" / name).touch()
        options = {"pages": "first"} if make is DocumentPages else {}
        assert make(tmp_path / name, classes=CLASSES, **options).spec(0).item.label == 2
    shards = shards_of(tmp_path, ["run", "walk"])
    assert [sample.label for sample in TarSamples(shards, TextRecipe(), classes=CLASSES)] == [2, 0]
    with pytest.raises(InvalidArgumentError, match="'run' is not among classes"):
        list(TarSamples(shards, TextRecipe(), classes=["walk"]))
    assert [row["label"] for row in clip_rows(pairs_of(tmp_path, ["run", "jump"]), classes=CLASSES)] == [2, 1]


def test_numbers_are_not_names_of_classes(tmp_path: Path) -> None:
    rows = [{"path": "a.mp4", "label": 3}]
    with pytest.raises(InvalidArgumentError, match="a label is 3"):
        as_items(rows, kind="video", classes=CLASSES)
    assert as_items([{"path": "a.mp4", "label": "3"}], kind="video", classes=["9", "3"])[0].label == 1
    assert as_items([Item("a.mp4", label=7)], kind="video", classes=CLASSES)[0].label == 7


@pytest.mark.parametrize("source_of", [csv_of, pairs_of, shards_of, parquet_of])
def test_labels_in_the_range_of_int64_become_integers(
    source_of: Callable[[Path, list[str]], Any], tmp_path: Path
) -> None:
    labels = [5, 10**18 + 1, 10**18 + 2, 2**63 - 1, -(2**63)]
    items = as_items(source_of(tmp_path, [*map(str, labels), "0" * 30 + "7"]), kind="video")
    assert [item.label for item in items] == [*labels, 7]
    assert {type(item.label) for item in items} == {int}


def test_labels_of_shards_beyond_int64_stay_text(tmp_path: Path) -> None:
    labels = [str(2**63), str(-(2**63) - 1)]
    assert [item.label for item in as_items(shards_of(tmp_path, labels), kind="video")] == labels


@pytest.mark.parametrize("source_of", [csv_of, json_lines_of, pairs_of, parquet_of, media_in_parquet_of])
def test_labels_of_tables_beyond_int64_are_refused(source_of: Callable[[Path, list[Any]], Any], tmp_path: Path) -> None:
    for label in (str(2**63), str(2**64), str(-(2**63) - 1)):
        with pytest.raises(InvalidArgumentError, match=f"A label is '{label}'.*int64"):
            as_items(source_of(tmp_path, ["3", label]), kind="video")


def test_labels_of_number_columns_beyond_int64_are_refused(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    labels = [3, 2**64 - 1]
    sources = [json_lines_of(tmp_path, labels), pairs_of(tmp_path, labels)]  # type: ignore[arg-type]
    for name, media in (("path", ["a.mp4", "b.mp4"]), ("video", [b"a", b"b"])):
        sources.append(tmp_path / f"{name}.parquet")
        parquet.write_table(pyarrow.table({name: media, "label": pyarrow.array(labels, "uint64")}), sources[-1])
    for source in sources:
        with pytest.raises(InvalidArgumentError, match=f"A label is {2**64 - 1}.*int64"):
            as_items(source, kind="video")


def test_whole_labels_stay_exact_next_to_fractions(tmp_path: Path) -> None:
    items = as_items(csv_of(tmp_path, ["0.5", str(2**53)]), kind="video")
    assert [item.label for item in items] == [0.5, 2**53]
    with pytest.raises(InvalidArgumentError, match=str(2**53 + 1)):
        as_items(csv_of(tmp_path, ["0.5", str(2**53 + 1)]), kind="video")


@pytest.mark.parametrize(
    "source_of", [csv_of, json_lines_of, pairs_of, parquet_of, media_in_parquet_of, hugging_face_of]
)
def test_blank_labels_are_missing_labels(source_of: Callable[[Path, list[str]], Any], tmp_path: Path) -> None:
    cases = [(["30", "", "4", " "], [30, None, 4, None]), (["run", " ", "jump", ""], [1, None, 0, None])]
    for labels, numbers in cases:
        items = as_items(source_of(tmp_path, labels), kind="video")
        assert [item.label for item in items] == numbers
        assert [item.extra.get("class_name", "") for item in items] == [
            "" if label.strip().isdigit() else label.strip() for label in labels
        ]


def test_blank_label_of_a_sample_in_a_shard_is_a_missing_label(tmp_path: Path) -> None:
    members = [("a.mp4", b"x"), ("a.cls", b" \n"), ("b.mp4", b"x"), ("b.cls", b"run\n"), ("c.mp4", b"x")]
    (tmp_path / "rows.tar").write_bytes(tar_bytes(members))
    assert [item.label for item in TarItems(tmp_path / "rows.tar")] == [None, "run", None]
    items = as_items(tmp_path / "rows.tar", kind="video", classes=CLASSES)
    assert [item.label for item in items] == [None, 2, None]


@pytest.mark.parametrize("classes", [[], ["a", "a"], "run", [1, 2], {"run": 0}])
def test_bad_classes_are_refused(classes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="classes must be a list of different names"):
        VideoClips(["a.mp4"], classes=classes)


def test_a_function_and_classes_are_refused_together() -> None:
    with pytest.raises(InvalidArgumentError, match="only one of label and classes"):
        VideoClips(["a.mp4"], label=lambda item: 0, classes=CLASSES)


def test_names_by_label_have_gaps_where_no_row_has_a_class(tmp_path: Path) -> None:
    items = as_items([("a.mp4", "run")], kind="video", classes=CLASSES)
    assert VideoClips(items).class_names == ["", "", "run"]
    shards = TarItems(shards_of(tmp_path, ["run"]))
    assert VideoClips(shards).class_names == []
    for labels, names in (((None, None), []), ((1, None), ["", "run"]), ((0.5, -1), [])):
        rows = [{"path": "a.mp4", "label": label, "class_name": "run"} for label in labels]
        assert VideoClips(rows).class_names == names
