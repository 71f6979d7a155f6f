"""docTR's architectures in predictors, hooks between the stages, and a detector of lines with a recogniser of words.

Random weights find nothing: a hook puts boxes there, or a map is drawn by hand.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import KIEDocument
from mediatensor.ocr.models import (
    crnn_mobilenet_v3_small,
    detection_predictor,
    fast_tiny,
    kie_predictor,
    ocr_predictor,
    recognition_predictor,
)
from mediatensor.ocr.models.kie_predictor import KIEPredictor
from mediatensor.ocr.models.predictor import OCRPredictor
from mediatensor.ocr.models.recognition.predictor import RecognitionPredictor
from ocr_onnx_sessions import require_weights
from ocr_reading import LINES, geometries, reader, text_page, words_of

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

PAGE = text_page().image
BOXES = np.array([[0.1, 0.1, 0.4, 0.2], [0.5, 0.1, 0.9, 0.2], [0.1, 0.5, 0.6, 0.62]])
SCORES = np.array([0.9, 0.7, 0.5])


class MapOfBoxes(torch.nn.Module):
    """Stands in for a network: its map has the boxes of :data:`BOXES`, with the probabilities of :data:`SCORES`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[-2:]
        logits = torch.full((len(x), self.classes, height, width), -12.0)
        for number, (box, score) in enumerate(zip(BOXES, SCORES, strict=True)):
            left, top, right, bottom = (box * [width, height, width, height]).round().astype(int)
            logits[:, number % self.classes, top:bottom, left:right] = float(np.log(score / (1 - score)))
        return logits


@cache
def detector(straight: bool = True, *classes: str) -> Any:
    """docTR's smallest detector at a small size, whose last layer says where boxes are."""
    names = list(classes) or ["words"]
    model = fast_tiny(class_names=names, assume_straight_pages=straight)
    model.cfg["input_shape"] = (3, 256, 256)
    size = MapOfBoxes(len(names))

    def drawn(x: torch.Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        probabilities = torch.sigmoid(size(x)).permute(0, 2, 3, 1).numpy()
        return {"preds": [dict(zip(names, page, strict=True)) for page in model.postprocessor(probabilities)]}

    model.forward = drawn
    return model


@cache
def recogniser() -> Any:
    torch.manual_seed(0)
    return crnn_mobilenet_v3_small(vocab="abcdefgh")


def predictor(**options: Any) -> Any:
    straight = options.setdefault("assume_straight_pages", True)
    return ocr_predictor(detector(straight), recogniser(), preserve_aspect_ratio=False, **options)


DETECTORS = ("fast_tiny", "db_mobilenet_v3_large", "linknet_resnet18")
RECOGNISERS = ("crnn_mobilenet_v3_small", "vitstr_small", "parseq")


@pytest.mark.parametrize(
    ("det", "reco", "straight"),
    # Every pair of networks, and each of them with boxes of both kinds; each detector with two of them is fast.
    [
        pytest.param(det, reco, (i + j) % 2 == 0, marks=[pytest.mark.slow] if (j - i) % 3 == 2 else [])
        for i, det in enumerate(DETECTORS)
        for j, reco in enumerate(RECOGNISERS)
    ],
)
def test_architectures_by_name_run(det: str, reco: str, straight: bool) -> None:
    require_weights()
    torch.manual_seed(0)
    read = ocr_predictor(det, reco, assume_straight_pages=straight)
    read.det_predictor.pre_processor.resize.size = (256, 256)
    read.det_predictor.model.postprocessor.bin_thresh = read.det_predictor.model.postprocessor.box_thresh = 0.0
    read.add_hook(lambda boxes: [page[:20] for page in boxes])
    for page in read([PAGE, text_page("other").image]).pages:
        words = words_of(page)
        assert words
        assert geometries(words).shape == ((len(words), 2, 2) if straight else (len(words), 4, 2))


@pytest.mark.parametrize("straight", [True, False])
def test_words_have_the_boxes_and_scores_of_the_map(straight: bool) -> None:
    require_weights()
    read = predictor(assume_straight_pages=straight)
    words = words_of(read([PAGE]))
    assert len(words) == 3
    found = sorted(words, key=lambda word: -word.objectness_score)
    np.testing.assert_allclose([word.objectness_score for word in found], SCORES, atol=0.05 if straight else 0.01)
    places = geometries(found)
    if not straight:
        # A line on its head is upside down for the classifier at random: corners in any order.
        places = np.stack([places.min(1), places.max(1)], 1)
    # The boxes are unclipped a little beyond the marks.
    np.testing.assert_allclose(places.reshape(-1, 4), BOXES, atol=0.06)
    assert all(set(word.value) <= set("abcdefgh") for word in words)


@pytest.mark.parametrize("straight", [True, False])
def test_a_hook_sees_all_pages_once_and_changes_nothing_by_itself(straight: bool) -> None:
    require_weights()
    calls = []

    def hook(boxes: list[np.ndarray]) -> list[np.ndarray]:
        calls.append([page.shape for page in boxes])
        return boxes

    plain, hooked = predictor(assume_straight_pages=straight), predictor(assume_straight_pages=straight)
    hooked.add_hook(hook)
    pages = [PAGE, text_page("another").image, PAGE]
    assert hooked(pages).export() == plain(pages).export()
    assert calls == [[(3, 4) if straight else (3, 4, 2)] * 3]


def test_hooks_follow_each_other() -> None:
    order = []
    read = predictor()
    for name in "ab":
        read.add_hook(lambda boxes, name=name: (order.append((name, len(boxes[0]))), [page[1:] for page in boxes])[1])
    assert len(words_of(read([PAGE]))) == 1
    assert order == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("kept", [[1], [2, 0], [1, 2], [2, 1, 0], []])
@pytest.mark.parametrize("straight", [True, False])
def test_boxes_that_a_hook_keeps_have_their_scores(kept: list[int], straight: bool) -> None:
    require_weights()
    read, whole = predictor(assume_straight_pages=straight), predictor(assume_straight_pages=straight)
    seen: list[np.ndarray] = []

    def hook(boxes: list[np.ndarray]) -> list[np.ndarray]:
        seen.append(boxes[0].copy())
        return [page[kept] for page in boxes]

    read.add_hook(hook)
    words = {word.geometry: word.objectness_score for word in words_of(read([PAGE]))}
    all_words = {word.geometry: word.objectness_score for word in words_of(whole([PAGE]))}
    assert len(words) == len(kept)
    assert words.items() <= all_words.items()


def test_boxes_that_a_hook_moves_and_adds() -> None:
    read = predictor()
    added = np.array([[0.2, 0.7, 0.5, 0.8]])
    read.add_hook(lambda boxes: [np.concatenate([boxes[0][:1] + 0.05, boxes[0][1:], added])])
    words = words_of(read([PAGE]))
    assert len(words) == 4
    np.testing.assert_allclose(min(np.abs(geometries(words).reshape(-1, 4) - added).max(1)), 0, atol=1e-6)
    # Nobody scored the one that was added.
    assert all(0 < word.objectness_score <= 1 for word in words)


def _reader(make: str, straight: bool) -> Any:
    """The default predictor, or one of docTR's networks."""
    require_weights()
    options = {"assume_straight_pages": straight}
    return ocr_predictor(pretrained=True, shorter_side=192, **options) if make == "default" else predictor(**options)


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize("make", ["default", "docTR"])
def test_boxes_that_a_hook_moves_a_little_keep_their_scores(make: str, straight: bool) -> None:
    read = _reader(make, straight)
    top, *others = sorted({word.objectness_score for word in words_of(read([PAGE]))})
    assert len(others) == 2
    # The order changes as well, and the new box is where no text is.
    new = np.array([[0.6, 0.8, 0.9, 0.9]])
    new = new if straight else new[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
    read.add_hook(lambda pages: [np.concatenate([new, page[::-1] + 0.004]) for page in pages])
    assert {word.objectness_score for word in words_of(read([PAGE]))} - {1.0} == {top, *others}


def test_boxes_without_pixels_do_not_shift_the_scores_of_others() -> None:
    read = predictor()
    nothing = np.array([[0.3, 0.3, 0.3, 0.3], [1.2, 0.1, 1.4, 0.2], [0.5, 0.4, 0.4, 0.3]])
    read.add_hook(lambda boxes: [np.concatenate([nothing, boxes[0]])])
    words = words_of(read([PAGE]))
    expected = {word.geometry: word.objectness_score for word in words_of(predictor()([PAGE]))}
    found = {word.geometry: word.objectness_score for word in words}
    assert expected.items() <= found.items()


def test_a_hook_gets_the_boxes_of_the_default_predictor() -> None:
    require_weights()
    read = ocr_predictor(pretrained=True, shorter_side=192)
    seen = []

    def hook(boxes: list[np.ndarray]) -> list[np.ndarray]:
        seen.append([page.shape for page in boxes])
        tops = [page[:, 1] for page in boxes]
        return [page[top == top.max()] for page, top in zip(boxes, tops, strict=True)]

    read.add_hook(hook)
    document = read([PAGE, text_page("one line").image])
    assert [page.render() for page in document.pages] == [LINES[-1], "one line"]
    assert seen == [[(3, 4), (1, 4)]]
    scores = {word.value: word.objectness_score for word in words_of(reader()([PAGE]))}
    for word in words_of(document.pages[0]):
        assert word.objectness_score == scores[word.value]


def test_a_box_that_a_hook_makes_is_read_by_the_default_predictor() -> None:
    require_weights()
    (left, top), (right, bottom) = text_page().lines[1].quad[[0, 2]] / PAGE.shape[1::-1]
    box = np.array([[left - 0.02, top - 0.03, right + 0.02, bottom + 0.03]])
    for straight in (True, False):
        read = ocr_predictor(pretrained=True, assume_straight_pages=straight, shorter_side=192)
        corners = box[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
        read.add_hook(lambda boxes, straight=straight, corners=corners: [box if straight else corners])
        assert read([PAGE]).render() == LINES[1]


def test_key_information_has_two_classes() -> None:
    read = kie_predictor(detector(True, "amount", "date"), recogniser(), preserve_aspect_ratio=False)
    seen = []
    # As in docTR, the hook gets a list of pages for each class.
    read.add_hook(
        lambda classes: (
            seen.append({name: [len(page) for page in pages] for name, pages in classes.items()}),
            classes,
        )[1]
    )
    document = read([PAGE, PAGE])
    assert isinstance(document, KIEDocument)
    for page in document.pages:
        assert {name: len(found) for name, found in page.predictions.items()} == {"amount": 2, "date": 1}
        (date,) = page.predictions["date"]
        np.testing.assert_allclose(np.array(date.geometry).ravel(), BOXES[1], atol=0.06)
        assert date.objectness_score == pytest.approx(SCORES[1], abs=0.05)
    assert seen == [{"amount": [2, 2], "date": [1, 1]}]


def test_a_hook_may_empty_a_class() -> None:
    read = kie_predictor(detector(True, "amount", "date"), recogniser(), preserve_aspect_ratio=False)
    read.add_hook(lambda classes: {**classes, "date": [page[:0] for page in classes["date"]]})
    (page,) = read([PAGE]).pages
    assert page.predictions["date"] == []
    assert len(page.predictions["amount"]) == 2


@pytest.mark.parametrize(
    "returned",
    [
        lambda classes: None,
        lambda classes: [classes] * 2,
        lambda classes: {"date": classes["date"]},
        lambda classes: {**classes, "date": classes["date"][:1]},
        lambda classes: {**classes, "date": [page[:, :3] for page in classes["date"]]},
    ],
    ids=["nothing", "a list", "a class less", "a page less", "three numbers"],
)
def test_hook_results_of_other_classes_are_rejected(returned: Any) -> None:
    read = kie_predictor(detector(True, "amount", "date"), recogniser(), preserve_aspect_ratio=False)
    read.add_hook(returned)
    with pytest.raises(InvalidArgumentError, match="in which it got them, a dictionary of amount, date"):
        read([PAGE, PAGE])


@pytest.mark.parametrize("straight", [True, False])
def test_a_recogniser_of_words_reads_crops_of_lines(straight: bool) -> None:
    require_weights()
    page = text_page("Invoice 2041 of the firm", "Total due: 1,250.00 EUR", "Thank you very much!")
    crops: list[tuple[int, ...]] = []
    model = crnn_mobilenet_v3_small()
    original = model.forward

    def counting(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        crops.extend(tuple(one.shape) for one in x)
        return original(x, *args, **kwargs)

    model.forward = counting
    line_detector = reader(assume_straight_pages=straight).det_predictor.model
    read = ocr_predictor(line_detector, model, assume_straight_pages=straight, shorter_side=192)
    words = words_of(read([page.image]))
    # Lines were cut at their spaces: a word of the drawn page for each crop, where the ink says so.
    assert len(crops) == len(words) == len(page.words)
    expected = np.stack([word.quad for word in page.words]) / page.image.shape[1::-1]
    found = geometries(words)
    if straight:
        left, right = np.sort(found[:, 0, 0]), np.sort(found[:, 1, 0])
        np.testing.assert_allclose(left, np.sort(expected[:, 0, 0]), atol=0.02)
        np.testing.assert_allclose(right, np.sort(expected[:, 1, 0]), atol=0.02)
    line_detector.assume_straight_pages = straight


def test_the_recogniser_of_lines_reads_boxes_of_words() -> None:
    require_weights()
    read = ocr_predictor(detector(), reader().reco_predictor.model, preserve_aspect_ratio=False, min_confidence=0.5)
    page = text_page()
    boxes = np.stack([word.quad[[0, 2]].ravel() for word in page.words]) + np.array([-3, -3, 3, 3])
    read.add_hook(lambda pages: [boxes / (page.image.shape[1::-1] * 2)])
    assert [word.value for word in words_of(read([page.image]))] == [word.text for word in page.words]


def test_doctr_detectors_and_recognisers_run_separately() -> None:
    out = detection_predictor(detector(), preserve_aspect_ratio=False)([PAGE])
    assert out[0]["words"].shape == (3, 5)
    rotated = detection_predictor(detector(False), assume_straight_pages=False, preserve_aspect_ratio=False)([PAGE])
    assert rotated[0]["words"].shape == (3, 5, 2)
    read = recognition_predictor(recogniser(), batch_size=2)
    crops = [PAGE[:30, :60], PAGE[:20, :300], PAGE[:40, :30]]
    together = read(crops)
    assert len(together) == 3
    assert all(isinstance(text, str) and 0 <= confidence <= 1 for text, confidence in together)
    alone = [read([crop])[0] for crop in crops]
    assert [text for text, _ in alone] == [text for text, _ in together]
    np.testing.assert_allclose([one for _, one in alone], [one for _, one in together], atol=1e-5)


@pytest.mark.parametrize("kind", [OCRPredictor, KIEPredictor])
def test_predictors_are_made_of_parts_with_the_arguments_of_doctr(kind: Any) -> None:
    parts = detection_predictor(detector(), preserve_aspect_ratio=False), recognition_predictor(recogniser())
    made = kind(*parts, preserve_aspect_ratio=False, symmetric_pad=True, detect_language=False, resolve_blocks=True)
    assert made.doc_builder.resolve_blocks
    assert len(made([PAGE]).pages) == 1
    with pytest.raises(InvalidArgumentError, match=rf"{kind.__name__}\(\).*'resolve_block'"):
        kind(*parts, resolve_block=True)


def test_a_recogniser_of_words_needs_a_preprocessor() -> None:
    with pytest.raises(InvalidArgumentError, match="pre_processor is None: CRNN recognises words"):
        RecognitionPredictor(None, recogniser())


@pytest.mark.parametrize(("keep", "symmetric"), [(True, True), (True, False), (False, True)])
def test_padding_is_taken_off_boxes(keep: bool, symmetric: bool) -> None:
    # The same box of the padded input is another one of the page, by docTR's formula.
    height, width = PAGE.shape[:2]
    found = detection_predictor(detector(), preserve_aspect_ratio=keep, symmetric_pad=symmetric)([PAGE])[0]["words"]
    stretched = detection_predictor(detector(), preserve_aspect_ratio=False)([PAGE])[0]["words"].copy()
    if keep:
        y = stretched[:, [1, 3]]
        stretched[:, [1, 3]] = (y - 0.5) * width / height + 0.5 if symmetric else y * width / height
    stretched[:, :4] = stretched[:, :4].clip(0, 1)
    np.testing.assert_allclose(found, stretched, atol=0.008)


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize("make", ["default", "docTR"])
def test_a_hook_may_move_boxes_in_place(make: str, straight: bool) -> None:
    read = _reader(make, straight)

    def narrowed(boxes: list[np.ndarray]) -> list[np.ndarray]:
        for page in boxes:
            # The right half of the page is left out: columns 0 and 2 of boxes, the first of points.
            page[..., 0::2] = page[..., 0::2].clip(0, 0.5)
        return boxes

    assert geometries(words_of(read([PAGE])))[..., 0].max() > 0.7
    read.add_hook(narrowed)
    assert geometries(words_of(read([PAGE])))[..., 0].max() < 0.55


@pytest.mark.parametrize(
    "returned",
    [
        lambda boxes: None,
        lambda boxes: boxes[:1],
        lambda boxes: [page[:, :3] for page in boxes],
        lambda boxes: [page.ravel() for page in boxes],
        lambda boxes: [page * np.nan for page in boxes],
        lambda boxes: ["boxes"] * len(boxes),
    ],
    ids=["nothing", "a page less", "three numbers", "flat", "not a number", "text"],
)
def test_hook_results_of_another_form_are_rejected(returned: Any) -> None:
    require_weights()
    for read in (predictor(), ocr_predictor(pretrained=True, shorter_side=192)):
        read.add_hook(returned)
        with pytest.raises(InvalidArgumentError, match="hook"):
            read([PAGE, PAGE])


def test_several_classes_are_for_key_information() -> None:
    with pytest.raises(InvalidArgumentError, match=r"amount.*date.*kie_predictor"):
        ocr_predictor(detector(True, "amount", "date"), recogniser())


def test_words_of_a_text_layer_have_no_classes() -> None:
    with pytest.raises(InvalidArgumentError, match=r"amount, date, .*text_layer"):
        kie_predictor(detector(True, "amount", "date"), recogniser(), text_layer=True)
