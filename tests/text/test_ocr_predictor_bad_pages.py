"""Pages that hold nothing, are of any size, or are not pages: an empty page or an error that names the problem."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mediatensor.errors import InvalidArgumentError, PageError
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.models import detection_predictor, kie_predictor, ocr_predictor, recognition_predictor
from ocr_onnx_sessions import needs_weights
from ocr_reading import LINES, reader, text_page, words_of

pytestmark = [needs_weights, pytest.mark.usefixtures("features_remembered_in_module")]

PAGE_LINES = LINES[1:]
PAGE = text_page(*PAGE_LINES).image


def white(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), 255, np.uint8)


PREDICTORS = {
    "straight": {},
    "rotated": {"assume_straight_pages": False, "detect_orientation": True},
    "straightened": {"straighten_pages": True},
}
EMPTY = {
    "one pixel": white(1, 1),
    "two pixels": np.zeros((2, 1, 3), np.uint8),
    "three by three": np.zeros((3, 3, 3), np.uint8),
    "all black": np.zeros((200, 300, 3), np.uint8),
    "all white": white(200, 300),
    "very high": white(10_000, 20),
    "very wide": white(20, 10_000),
    "one row": white(1, 5000),
    "noise": np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8),
    "stripes": np.tile(np.array([[[0]], [[255]]], np.uint8), (100, 300, 3)),
}


@pytest.mark.parametrize("options", PREDICTORS)
@pytest.mark.parametrize("name", EMPTY)
def test_pages_without_text_are_empty(name: str, options: str) -> None:
    page = EMPTY[name]
    document = reader(**PREDICTORS[options])([page])
    assert document.render() == ""
    assert document.pages[0].dimensions == page.shape[:2]
    assert document.pages[0].error is None
    assert not words_of(document)


def test_empty_page_does_not_affect_the_next_page() -> None:
    pages = [*EMPTY.values(), PAGE]
    pages = [page for page in pages if max(page.shape) <= 1000]
    document = reader()(pages)
    assert [page.render() for page in document.pages] == [""] * (len(pages) - 1) + ["\n".join(PAGE_LINES)]


@pytest.mark.parametrize("make", [ocr_predictor, kie_predictor])
def test_no_pages_give_no_pages(make: Any) -> None:
    predictor = make(pretrained=True)
    for nothing in ([], (), np.zeros((0, 10, 10, 3), np.uint8), torch.zeros(0, 3, 10, 10)):
        assert predictor(nothing).pages == []
    predictor.add_hook(lambda boxes: boxes)
    assert predictor([]).pages == []


def test_no_images_give_nothing() -> None:
    assert detection_predictor(pretrained=True)([]) == []
    assert detection_predictor(pretrained=True)([], return_maps=True) == ([], [])
    assert recognition_predictor(pretrained=True)([]) == []


@pytest.mark.slow
def test_a_very_large_page_is_read() -> None:
    page = white(9000, 9000)
    page[4000 : 4000 + PAGE.shape[0] * 8, 1000 : 1000 + PAGE.shape[1] * 8] = PAGE.repeat(8, 0).repeat(8, 1)
    predictor = ocr_predictor(pretrained=True, straighten_pages=True)
    assert predictor([page]).render().split() == " ".join(PAGE_LINES).split()


@pytest.mark.slow
def test_page_of_noise_is_read_in_bounded_time() -> None:
    noise = np.random.default_rng(1).integers(0, 2, (1600, 1200, 1), dtype=np.uint8).repeat(3, 2) * 255
    ocr_predictor(pretrained=True, assume_straight_pages=False, detect_orientation=True)([noise])


NO_PAGES = {
    "no rows": [np.zeros((0, 10, 3), np.uint8)],
    "no columns": [np.zeros((10, 0, 3), np.uint8)],
    "gray": [np.zeros((40, 60), np.uint8)],
    "gray with a channel": [np.zeros((40, 60, 1), np.uint8)],
    "alpha": [np.zeros((40, 60, 4), np.uint8)],
    "integers": [np.zeros((40, 60, 3), np.int32)],
    "not a number": [np.full((100, 150, 3), np.nan, np.float32)],
    "infinite": [np.full((100, 150, 3), np.inf, np.float32)],
    "floats up to 255": [np.full((100, 150, 3), 200, np.float32)],
    "doubles": [np.zeros((40, 60, 3), np.float64)],
    "flags": [np.zeros((40, 60, 3), bool)],
    "objects": [np.empty((40, 60, 3), object)],
    "short integers in a tensor": [torch.zeros(3, 40, 60, dtype=torch.int16)],
    "complex tensor": [torch.zeros(3, 40, 60, dtype=torch.complex64)],
    "one page in no list": PAGE,
    "one tensor in no list": torch.from_numpy(PAGE),
    "five dimensions": np.zeros((1, 1, 40, 60, 3), np.uint8),
    "path": "page.png",
    "bytes": b"page",
    "paths": ["page.png"],
    "nothing": None,
    "number": 3,
    "list of nothing": [None],
    "nested": [[PAGE]],
    "second of two": [PAGE, np.zeros((40, 60), np.uint8)],
}


#: What only predictors of text open.
FILES = ("path", "bytes", "paths")


@pytest.mark.parametrize("name", NO_PAGES)
def test_non_pages_are_rejected(name: str) -> None:
    predictor = reader()
    parts = (predictor.det_predictor, predictor.reco_predictor)
    for ask in parts if name in FILES else (predictor, *parts):
        with pytest.raises(InvalidArgumentError) as caught:
            ask(NO_PAGES[name])
        assert isinstance(caught.value, ValueError)
        # The given value, and the accepted ones.
        assert any(word in str(caught.value) for word in ("give", "image is", "list", "(N, H, W, 3)", "no pixels"))


def files() -> list[bytes]:
    """Three JPEG files of a page, the second cut off."""
    file = io.BytesIO()
    Image.fromarray(PAGE).save(file, "JPEG", quality=95)
    good = file.getvalue()
    return [good, good[: len(good) // 3], good]


@pytest.mark.parametrize(("options", "hooked"), [*zip(PREDICTORS, (True, False, True), strict=True)])
def test_unreadable_page_does_not_affect_other_pages(options: str, hooked: bool) -> None:
    predictor = ocr_predictor(pretrained=True, shorter_side=192, **PREDICTORS[options])
    if hooked:
        predictor.add_hook(lambda boxes: boxes)
    with pytest.warns(UserWarning, match="page 1"):
        document = predictor(DocumentFile.from_images(files()))
    assert [page.render() for page in document.pages] == ["\n".join(PAGE_LINES), "", "\n".join(PAGE_LINES)]
    first, bad, last = document.pages
    assert first.error is last.error is None
    assert bad.error
    assert document.export()["pages"][1]["error"] == bad.error
    assert "error" not in document.export()["pages"][0]
    assert bad.page_idx == 1
    # Every output can be made of it.
    for name in ("txt", "json", "md", "html", "hocr"):
        document.export_as({"txt": "text", "md": "markdown"}.get(name, name))


def test_page_that_becomes_unreadable_keeps_its_boxes_from_other_pages(tmp_path: Path) -> None:
    paths = [tmp_path / "first.png", tmp_path / "last.png"]
    for path, page in zip(paths, (np.roll(PAGE, PAGE.shape[0] // 2, 0), PAGE), strict=True):
        Image.fromarray(page).save(path)

    def damage_first(boxes: Any) -> Any:  # hooks are called between the two times that a page is loaded
        paths[0].write_bytes(b"no image")
        return boxes

    predictor = ocr_predictor(pretrained=True, shorter_side=192)
    predictor.add_hook(damage_first)
    with pytest.warns(UserWarning, match="page 0 is left empty") as caught:
        document = predictor(DocumentFile.from_images(paths))
    assert [page.render() for page in document.pages] == ["", "\n".join(PAGE_LINES)]
    assert {warning.filename for warning in caught} == {__file__}


def test_unreadable_page_raises_on_request() -> None:
    predictor = ocr_predictor(pretrained=True, on_error="raise", shorter_side=192)
    with pytest.raises(PageError):
        predictor(DocumentFile.from_images(files()))
    predictor.add_hook(lambda boxes: boxes)
    with pytest.raises(PageError):
        predictor(DocumentFile.from_images(files()))


def test_unreadable_file_does_not_affect_images_in_the_same_list() -> None:
    with pytest.warns(UserWarning, match="page 2 is left empty"):
        document = reader()([white(20, 30), white(30, 40), files()[1]])
    assert [page.dimensions for page in document.pages] == [(20, 30), (30, 40), (0, 0)]
    assert [page.error is None for page in document.pages] == [True, True, False]


def test_unreadable_pillow_image_does_not_affect_other_pages() -> None:
    with pytest.warns(UserWarning, match="page 0 is left empty"):
        document = reader()([Image.open(io.BytesIO(files()[1])), white(20, 30)])
    assert [page.dimensions for page in document.pages] == [(0, 0), (20, 30)]


def test_a_document_of_bad_pages_is_empty() -> None:
    bad = files()[1]
    for make in (ocr_predictor, kie_predictor):
        predictor = make(pretrained=True, shorter_side=192)
        with pytest.warns(UserWarning, match="left empty"):
            document = predictor(DocumentFile.from_images([bad, bad]))
        assert [bool(page.error) for page in document.pages] == [True, True]


@pytest.mark.parametrize(
    "crop",
    [white(1, 1), white(1, 400), white(400, 1), white(20, 20_000), np.zeros((3000, 20, 3), np.uint8)],
    ids=lambda crop: f"{crop.shape[0]} x {crop.shape[1]}",
)
def test_crops_of_odd_sizes(crop: np.ndarray) -> None:
    ((value, confidence),) = reader().reco_predictor([crop])
    assert value.strip() == ""
    assert 0 <= confidence <= 1
