"""`PageDataset`: pages with their boxes from manifests, items and docTR's labels."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mediatensor.datasets import Item, Skipped, WordCrops
from mediatensor.errors import InvalidArgumentError, MediaTensorError, OpenError, SourceNotFoundError
from mediatensor.ocr.training import PageDataset

WIDTH, HEIGHT = 200, 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for number, name in enumerate(("a.png", "b.png")):
        Image.new("RGB", (WIDTH, HEIGHT), (10 * number, 0, 0)).save(tmp_path / "images" / name)
    return tmp_path


def test_manifest_of_pages_is_read(folder: Path) -> None:
    rows = [
        {"file": "images/a.png", "boxes": [[20, 10, 100, 50], [0, 0, 20, 20]], "texts": ["Dear", " "]},
        {"file": "images/b.png", "boxes": [[0.1, 0.1, 0.5, 0.5]]},
        {"file": "images/b.png", "boxes": [[[20, 10], [100, 10], [100, 50], [20, 50]]]},
        {"file": "images/a.png", "boxes": []},
    ]
    (folder / "pages.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dataset = PageDataset(folder / "pages.jsonl")
    assert [dataset[row].extra["boxes"].tolist() for row in range(len(dataset))] == [  # type: ignore[union-attr]
        [[0.1, 0.1, 0.5, 0.5]],
        [[0.1, 0.1, 0.5, 0.5]],
        [[[0.1, 0.1], [0.5, 0.1], [0.5, 0.5], [0.1, 0.5]]],
        [],
    ]
    page = pickle.loads(pickle.dumps(dataset))[1]
    assert page.image.shape == (3, HEIGHT, WIDTH)
    assert page.image[:, 0, 0].tolist() == [10, 0, 0]
    assert set(page.extra) == {"boxes"}


@pytest.mark.parametrize("by_class", [False, True])
def test_labels_of_doctr_are_read(folder: Path, by_class: bool) -> None:
    polygon = [[20, 10], [100, 10], [100, 50], [20, 50]]
    expected = np.array([polygon]) / (WIDTH, HEIGHT)
    polygons = {"words": [polygon], "none": []} if by_class else [polygon]
    labels = {"b.png": {"img_dimensions": [HEIGHT, WIDTH], "img_hash": "", "polygons": polygons}}
    (folder / "labels.json").write_text(json.dumps(labels))
    for source in (folder, str(folder / "labels.json")):
        dataset = PageDataset(source)
        (page,) = (dataset[row] for row in range(len(dataset)))
        assert not isinstance(page, Skipped)
        boxes = page.extra["boxes"]
        assert page.source == str(folder / "images" / "b.png")
        assert np.allclose(boxes["words"] if by_class else boxes, expected)
        assert not by_class or boxes["none"].shape == (0, 4)


def test_page_of_a_document_is_read(folder: Path) -> None:
    frames = [Image.new("L", (WIDTH, HEIGHT), level) for level in (10, 20)]
    frames[0].save(folder / "scan.tif", save_all=True, append_images=frames[1:])
    # A CSV file has its numbers as text, and a table with gaps as floats.
    for index in (1, "1", 1.0):
        item = Item(folder / "scan.tif", extra={"boxes": [[0, 0, 5, 5]], "page_index": index})
        page = PageDataset([item])[0]
        assert not isinstance(page, Skipped)
        assert page.image.unique().tolist() == [20]
    for index in (1.5, True, float("inf")):
        item = Item(folder / "scan.tif", extra={"boxes": [[0, 0, 5, 5]], "page_index": index})
        for dataset in (PageDataset([item]), WordCrops([item])):
            with pytest.raises(InvalidArgumentError, match=r"page_index of .* must be a whole number"):
                dataset[0]


def test_pages_that_fail_are_skipped_if_asked(folder: Path) -> None:
    (folder / "torn.png").write_bytes(b"torn")
    good = Item(folder / "images" / "a.png", extra={"boxes": [[0, 0, 5, 5]]})
    bad = [
        Item(folder / "torn.png", extra={"boxes": [[0, 0, 5, 5]]}),
        Item(folder / "images" / "a.png", extra={"boxes": [[0, 0, 5]]}),
        Item(folder / "images" / "a.png", extra={"boxes": [[0, 0, 5, 5]], "page_index": "one"}),
        Item(folder / "images" / "a.png", extra={"boxes": [[0, 0, 5, 5]], "page_index": 3}),
    ]
    dataset = PageDataset([*bad, good], on_error="skip")
    assert [isinstance(dataset[row], Skipped) for row in range(5)] == [True] * 4 + [False]
    strict = PageDataset(bad)
    for row in range(4):
        with pytest.raises(MediaTensorError):
            strict[row]


def test_invalid_sources_are_rejected(folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="There are no boxes"):
        PageDataset([folder / "images" / "a.png"])
    with pytest.raises(InvalidArgumentError, match=r"no file labels\.json"):
        PageDataset(folder)
    with pytest.raises(SourceNotFoundError):
        PageDataset(folder / "none" / "labels.json")
    (folder / "labels.json").write_text("[")
    with pytest.raises(OpenError):
        PageDataset(folder)
    (folder / "labels.json").write_text('{"a.png": "text"}')
    with pytest.raises(InvalidArgumentError, match="'polygons'"):
        PageDataset(folder)
    with pytest.raises(TypeError, match="colour"):
        PageDataset(folder, colour=1)
