"""`WordCrops`: words of annotated pages compared with slices of their pixels, and words that are cut already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dataset_samples import check_rows_anywhere, sample_of
from mediatensor._text_data import documents
from mediatensor.datasets import Item, Sample, Skipped, WordCrops
from mediatensor.errors import InvalidArgumentError, OpenError, PageError, SourceNotFoundError
from mediatensor.ocr.io import Pages as OpenPages
from mediatensor.transforms import Resize
from real_files import TEST_DATA

HEIGHT, WIDTH = 60, 100
BOXES = [[10, 5, 40, 15], [50, 5, 90, 17], [10, 30, 11, 31], [0, 40, 100, 60]]
TEXTS = ["two", "words", " ", "line"]


def write_page(path: Path, number: int = 0) -> NDArray[np.uint8]:
    pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, NDArray[np.uint8]]]:
    folder = tmp_path_factory.mktemp("pages")
    return [(folder / f"{number}.png", write_page(folder / f"{number}.png", number)) for number in range(3)]


Pages = list[tuple[Path, NDArray[np.uint8]]]


def annotated(pages: Pages, boxes: Any = BOXES, texts: Any = TEXTS, **columns: Any) -> list[Item]:
    return [Item(path, label="page", extra={"boxes": boxes, "texts": texts, **columns}) for path, _ in pages]


def picture(sample: Sample) -> NDArray[np.uint8]:
    """(h, w, 3)."""
    assert sample.image is not None
    assert sample.image.is_contiguous()
    result: NDArray[np.uint8] = sample.image.permute(1, 2, 0).numpy()
    return result


# Words of annotated pages


@pytest.mark.parametrize(
    "boxes",
    [BOXES, np.array(BOXES), np.array(BOXES) + 0.3, [[[x0, y0], [x1, y1]] for x0, y0, x1, y1 in BOXES]],
    ids=["list", "array", "floats", "corners"],
)
def test_straight_boxes_in_pixels_are_cropped(pages: Pages, boxes: Any) -> None:
    rows = WordCrops(annotated(pages, boxes, writer="me"))
    assert len(rows) == 9
    for row in range(9):
        sample = sample_of(rows, row)
        number = [0, 1, 3][row % 3]
        left, top, right, bottom = BOXES[number]
        path, pixels = pages[row // 3]
        assert np.array_equal(picture(sample), pixels[top:bottom, left:right])
        assert (sample.label, sample.source) == (TEXTS[number], str(path))
        # The annotation of the page is not included.
        assert sample.extra == {"word_index": number, "writer": "me"}


@pytest.mark.parametrize("unit", ["auto", "relative"])
def test_straight_relative_boxes_are_cropped(pages: Pages, unit: Any) -> None:
    """As docTR cuts them, the last row and column included."""
    boxes = np.array(BOXES) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    rows = WordCrops(annotated(pages[:1], boxes.tolist()), box_unit=unit)
    for row, (left, top, right, bottom) in enumerate([BOXES[0], BOXES[1], BOXES[3]]):
        assert np.array_equal(picture(sample_of(rows, row)), pages[0][1][top : bottom + 1, left : right + 1])


def test_the_unit_can_be_given(pages: Pages) -> None:
    corner = [[0.0, 0.0, 2.0, 1.0]]
    assert picture(sample_of(WordCrops(annotated(pages, corner, ["i"]), box_unit="pixels"), 0)).shape == (1, 2, 3)
    assert picture(sample_of(WordCrops(annotated(pages, corner, ["i"])), 0)).shape == (HEIGHT, WIDTH, 3)
    whole = WordCrops(annotated(pages, [[0, 0, 1, 1]], ["all"]), box_unit="relative")
    assert np.array_equal(picture(sample_of(whole, 0)), pages[0][1])


@pytest.mark.parametrize("unit", ["pixels", "relative"])
def test_four_points_are_set_upright(tmp_path: Path, unit: Any) -> None:
    """On a page whose values are a plane, values of the crop equal the plane at the positions of its pixels."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    Image.fromarray(np.repeat((x + 2 * y)[..., None], 3, axis=2).astype(np.uint8)).save(tmp_path / "plane.png")
    quad = np.array([[30.0, 20.0], [54.0, 27.0], [50.5, 39.0], [26.5, 32.0]])  # 25 x 12.5, turned
    given = quad if unit == "pixels" else quad / [WIDTH, HEIGHT]
    rows = WordCrops([Item(tmp_path / "plane.png", extra={"boxes": given[None], "texts": ["tilted"]})])
    crop = picture(sample_of(rows, 0))
    assert crop.shape == (12, 25, 3)
    rightwards, downwards = (quad[1] - quad[0]) / 24, (quad[2] - quad[1]) / 11.5
    places = quad[0] + np.arange(25)[None, :, None] * rightwards + np.arange(12)[:, None, None] * downwards
    expected = places[..., 0] + 2 * places[..., 1]
    assert np.abs(crop.astype(float) - expected[..., None]).max() <= 0.51


def test_an_upside_down_word_is_turned(pages: Pages) -> None:
    left, top, right, bottom = BOXES[0]
    quad = [[right - 1, bottom - 1], [left, bottom - 1], [left, top], [right - 1, top]]
    rows = WordCrops(annotated(pages, [quad], ["down"]))
    first, last = picture(sample_of(rows, 0))[0, 0], picture(sample_of(rows, 0))[-1, -1]
    pixels = pages[0][1]
    assert np.array_equal(first, pixels[bottom - 1, right - 1])
    assert np.array_equal(last, pixels[top, left])


def test_pages_without_texts_or_words_have_rows(pages: Pages) -> None:
    items = [
        Item(pages[0][0], label="all of it", extra={"boxes": BOXES}),
        Item(pages[1][0], extra={"boxes": [], "texts": []}),
        Item(pages[2][0], label="whole"),
    ]
    rows = WordCrops(items)
    assert len(rows) == 5
    assert [sample_of(rows, row).label for row in range(5)] == ["all of it"] * 4 + ["whole"]
    assert np.array_equal(picture(sample_of(rows, 4)), pages[2][1])
    with pytest.raises(InvalidArgumentError, match="no words"):
        WordCrops(items[1:2])


def test_pages_of_a_document_are_read(tmp_path: Path) -> None:
    pages = [write_page(tmp_path / "page.png", number) for number in range(3)]
    first, *others = map(Image.fromarray, pages)
    first.save(tmp_path / "scan.tif", save_all=True, append_images=others)
    items = [
        Item(tmp_path / "scan.tif", extra={"boxes": BOXES[:1], "texts": ["word"], "page_index": number})
        for number in (2, 0, 2, "")
    ]
    rows = WordCrops(items)
    for row, number in enumerate((2, 0, 2, "")):
        sample = sample_of(rows, row)
        assert np.array_equal(picture(sample), pages[number or 0][5:15, 10:40])
        assert sample.extra == {"word_index": 0, "page_index": number}


def test_items_of_one_page_have_words_of_their_own(pages: Pages) -> None:
    path, pixels = pages[0]
    rows = WordCrops([Item(path, extra={"boxes": [box], "texts": ["word"]}) for box in BOXES])
    for sample, (left, top, right, bottom) in zip(rows.__getitems__(range(4)), BOXES, strict=True):
        assert isinstance(sample, Sample)
        assert np.array_equal(picture(sample), pixels[top:bottom, left:right])


def test_a_page_is_decoded_once_for_all_its_words(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    read = OpenPages.__getitem__

    def counting(self: OpenPages, number: int) -> NDArray[np.uint8]:
        opened.append(number)
        return read(self, number)

    monkeypatch.setattr(OpenPages, "__getitem__", counting)
    rows = WordCrops(annotated(pages))
    rows.__getitems__([0, 3, 1, 4, 2])
    assert len(opened) == 2
    monkeypatch.setattr(documents, "MAX_KEPT_PAGE_BYTES", HEIGHT * WIDTH * 3 - 1)
    opened.clear()
    WordCrops(annotated(pages)).__getitems__([0, 1, 2])
    assert len(opened) == 3


def test_words_of_real_pages_are_cropped() -> None:
    folder = TEST_DATA / "ocr" / "funsd"
    files = sorted((folder / "annotations").glob("*.json"))[:2]
    if not files:
        pytest.skip(f"needs annotated pages in {folder} (set MEDIATENSOR_TEST_DATA to the folder above)")
    items, expected = [], []
    for file in files:
        words = [word for entry in json.loads(file.read_text())["form"] for word in entry["words"]]
        path = folder / "images" / f"{file.stem}.png"
        items.append(Item(path, extra={"boxes": [w["box"] for w in words], "texts": [w["text"] for w in words]}))
        expected += [(path, word) for word in words if word["text"].strip()]
    rows = WordCrops(items)
    assert len(rows) == len(expected) > 100
    for row in range(0, len(rows), 37):
        path, word = expected[row]
        sample = sample_of(rows, row)
        assert sample.label == word["text"]
        assert np.array_equal(picture(sample), np.array(Image.open(path).convert("RGB").crop(word["box"])))


# Annotations that cannot be right


@pytest.mark.parametrize(
    ("boxes", "texts", "message"),
    [
        ([[1, 2, 3]], ["a"], "shape"),
        ([[1, 2, 3, 4], [1, 2]], ["a", "b"], "shape"),
        ("boxes", ["a"], "shape"),
        ([["1", "2", "3", "4"]], ["a"], "shape"),
        (BOXES, ["a"], "one for each box"),
        (BOXES[:1], [5], "one for each box"),
        (BOXES[:1], "a", "one for each box"),
        ([[0, 0, float("nan"), 4]], ["a"], "finite"),
        ([[200, 5, 240, 15]], ["a"], "no pixel"),
        ([[40, 5, 10, 15]], ["a"], "no pixel"),
        ([[1e300, 5, -1e300, 15]], ["a"], "no pixel"),
        ([[[0, 0], [1e6, 0], [1e6, 1e6], [0, 1e6]]], ["a"], "more than the page"),
        ([[[0, 0], [1e200, 0], [1e200, 1e200], [0, 1e200]]], ["a"], "more than the page"),
        ([[[5, 5], [5.5, 5], [5.5, 9], [5, 9]]], ["a"], "no pixel"),
    ],
    ids=str,
)
def test_a_bad_annotation_is_one_row_that_fails(pages: Pages, boxes: Any, texts: Any, message: str) -> None:
    items = [*annotated(pages[:1], boxes, texts), *annotated(pages[1:])]
    rows = WordCrops(items)
    assert len(rows) == 1 + 6
    with pytest.raises(InvalidArgumentError, match=message):
        rows[0]
    assert sample_of(rows, 1).label == "two"
    assert isinstance(WordCrops(items, on_error="skip")[0], Skipped)


def test_unreadable_pages_are_errors(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "cut.png").write_bytes(pages[0][0].read_bytes()[:900])
    broken = [tmp_path / "text.png", tmp_path / "cut.png", tmp_path / "missing.png"]
    items = annotated([(path, pages[0][1]) for path in broken]) + annotated(pages)
    samples = WordCrops(items, on_error="skip").__getitems__(range(18))
    assert [isinstance(sample, Skipped) for sample in samples] == [True] * 9 + [False] * 9
    with pytest.raises(PageError, match="max_pixels"):
        WordCrops(annotated(pages), max_pixels=HEIGHT * WIDTH - 1)[0]


# Words that are cut already


def test_words_in_the_layout_of_doctr_are_read(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    labels = {f"{number}.png": text for number, text in enumerate(["Grüße", "12", "x"])}
    words = {name: write_page(tmp_path / "images" / name, number) for number, name in enumerate(labels)}
    (tmp_path / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    (tmp_path / "others.json").write_text(json.dumps({"1.png": "other", "missing.png": "?"}))
    rows = WordCrops.from_labels(tmp_path / "images", seed=4)
    assert isinstance(rows, WordCrops)
    assert rows.seed == 4
    for row, (name, text) in enumerate(labels.items()):
        assert sample_of(rows, row).label == text
        assert np.array_equal(picture(sample_of(rows, row)), words[name])
    others = WordCrops.from_labels(str(tmp_path / "images"), tmp_path / "others.json", on_error="skip")
    assert sample_of(others, 0).label == "other"
    assert isinstance(others[1], Skipped)
    assert sample_of(WordCrops.from_labels(tmp_path / "images", {"0.png": "given"}), 0).label == "given"


def test_unreadable_labels_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = tmp_path / "images"
    with pytest.raises(SourceNotFoundError, match=r"labels\.json"):
        WordCrops.from_labels(images)
    for text, error in [("{", OpenError), ("[" * 100_000, OpenError), ("[1]", InvalidArgumentError),
                        ('{"a.png": 1}', InvalidArgumentError), ("{}", InvalidArgumentError)]:  # fmt: skip
        (tmp_path / "labels.json").write_text(text)
        with pytest.raises(error):
            WordCrops.from_labels(images)
    monkeypatch.setattr(documents, "MAX_LABELS_BYTES", 1)
    with pytest.raises(OpenError, match="bytes"):
        WordCrops.from_labels(images)


def test_words_of_a_manifest_are_read(pages: Pages) -> None:
    rows = WordCrops([{"path": str(path), "text": f"0{number}"} for number, (path, _) in enumerate(pages)])
    assert [sample_of(rows, row).label for row in range(3)] == ["00", "01", "02"]
    assert sample_of(rows, 0).extra == {}
    lengths = WordCrops([(path, "word") for path, _ in pages], label=lambda item: len(item.name))
    assert sample_of(lengths, 0).label == len(str(pages[0][0]))
    with pytest.raises(InvalidArgumentError, match="must be a string"):
        WordCrops([{"path": str(path), "label": "word"} for path, _ in pages])


# Rows


def noisy(image: Tensor) -> Tensor:
    small: Tensor = Resize((8, 32))(image)
    return small ^ torch.randint(0, 2, small.shape, dtype=torch.uint8)


def test_rows_do_not_depend_on_their_reader(pages: Pages) -> None:
    check_rows_anywhere(WordCrops(annotated(pages), transform=noisy, seed=2), 9)


def test_a_unit_that_is_refused(pages: Pages) -> None:
    with pytest.raises(InvalidArgumentError, match="box_unit"):
        WordCrops(annotated(pages), box_unit="inches")  # type: ignore[arg-type]
