"""Streams of rows that come from elsewhere: iterables, webdataset pipelines, Hugging Face streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediatensor.datasets import DataLoader, Item, TarItems, TarSamples
from mediatensor.errors import InvalidArgumentError
from tar_files import TextRecipe, number_shards, tar_bytes, texts

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZES = (3, 0, 5, 1, 4)
ALL = sorted(f"{shard}-{position}" for shard, size in enumerate(SIZES) for position in range(size))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return number_shards(tmp_path_factory.mktemp("numbers"), SIZES)


class Rows:
    """Rows that start again whenever they are iterated over."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_any_iterable_of_rows_is_a_source(num_workers: int) -> None:
    rows = [
        Item(b"item", label=1, name="i"),
        {"__key__": "k", "__url__": "u.tar", "mp4": b"key", "cls": b"2"},
        {"video": {"path": "v.mp4", "bytes": b"video"}, "label": 3},
        {"path": "p.mp4", "bytes": b"path", "label": 4},
    ]
    loader = DataLoader(TarSamples(Rows(rows), TextRecipe()), num_workers=num_workers, collate_fn=list)
    given = sorted((sample for batch in loader for sample in batch), key=lambda sample: sample.label)
    assert [(sample.source, sample.extra["text"], sample.label) for sample in given] == [
        ("i", "item", 1),
        ("u.tar/k.mp4", "key", 2),
        ("v.mp4", "video", 3),
        ("p.mp4", "path", 4),
    ]


def test_a_row_without_a_file_follows_the_error_policy() -> None:
    rows = Rows([{"label": 1}, {"__key__": "k", "cls": 3}, Item(b"good")])
    first, second, good = TarSamples(rows, TextRecipe(), on_error="skip")
    assert "row 0" in first.failures[0].message
    assert "k has no video" in second.failures[0].message
    assert texts([good]) == ["good"]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_rows_of_a_webdataset_pipeline_are_read(numbers: list[Path], num_workers: int) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs the webdataset package")
    shards = [str(path) for path, size in zip(numbers, SIZES, strict=True) if size]
    samples = TarSamples(webdataset.WebDataset(shards, shardshuffle=False), TextRecipe())
    loader = DataLoader(samples, batch_size=2, num_workers=num_workers, collate_fn=list)
    given = [sample for batch in loader for sample in batch]
    assert sorted(texts(given)) == ALL
    assert {sample.label for sample in given} == {7}
    assert given[0].source == f"{shards[0]}/0-0.mp4"
    with pytest.raises(InvalidArgumentError, match="cannot be resumed"):
        loader.state_dict()


def test_items_match_webdataset(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs the webdataset package")
    names = [
        "a.mp4",
        "a.cls",
        "x.1/b.left.mp4",
        "x.1/b.cls",
        "c.MP4",
        "c.txt",
        "deep/er/d.mp4",
        ".hidden.mp4",
        "README",
    ]
    path = tmp_path / "names.tar"
    path.write_bytes(tar_bytes([(name, b"1") for name in names]))
    rows = list(webdataset.WebDataset(str(path), shardshuffle=False))
    expected = [f"{path}/{row['__key__']}" for row in rows]
    assert [
        name.split(".mp4")[0].removesuffix(".left") for name in map(str, (i.name for i in TarItems(path)))
    ] == expected
    assert [sample.source for sample in TarSamples(path, TextRecipe())] == [item.name for item in TarItems(path)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_of_a_hugging_face_stream_are_read(num_workers: int) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the datasets package")
    rows = {"path": [f"{number}.mp4" for number in range(7)], "bytes": [b"%d" % number for number in range(7)]}
    stream = datasets.Dataset.from_dict(rows).to_iterable_dataset(num_shards=3)
    loader = DataLoader(TarSamples(stream, TextRecipe()), num_workers=num_workers, collate_fn=list)
    assert sorted(texts(loader)) == [str(number) for number in range(7)]
