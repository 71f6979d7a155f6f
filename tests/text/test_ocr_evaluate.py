"""`evaluate`: scores against slow references and planted errors, its reports, and odd rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from edit_distances import slow_edit_distance
from mediatensor.datasets import Failure, Sample, Skipped
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import detection_predictor, recognition_predictor
from mediatensor.ocr.training import DetectionEvaluation, RecognitionEvaluation, evaluate
from mediatensor.ocr.utils import Sample as DocTRSample
from mediatensor.ocr.utils._scores import aligned
from ocr_onnx_sessions import require_weights
from ocr_reading import text_page

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

TEXTS = ("Invoice 2041 of the firm", "Total due: 1,250.00 EUR", "Thank you very much!")


@pytest.mark.parametrize("seed", range(3))
def test_an_alignment_has_the_fewest_edits_and_both_texts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        one, other = ("".join(rng.choices("abc ", k=rng.randrange(12))) for _ in range(2))
        pairs = aligned(one, other)
        assert "".join(true for true, _ in pairs) == one
        assert "".join(read for _, read in pairs) == other
        assert ("", "") not in pairs
        assert sum(true != read for true, read in pairs) == slow_edit_distance(one, other)


@cache
def line_rows() -> list[Sample]:
    """Drawn lines that the default recogniser reads without an error."""
    require_weights()
    page = text_page(*TEXTS)
    rows = []
    for number, line in enumerate(page.lines):
        (left, top), (right, bottom) = line.quad.min(axis=0).astype(int), line.quad.max(axis=0).astype(int)
        crop = page.image[max(top - 4, 0) : bottom + 4, max(left - 4, 0) : right + 4]
        image = torch.from_numpy(crop.copy()).permute(2, 0, 1)
        rows.append(Sample(image=image, source=f"{number}.png", row=number, extra={"text": line.text}))
    return rows


@cache
def recogniser() -> Any:
    require_weights()
    return recognition_predictor(pretrained=True)


def with_texts(*texts: str) -> list[Sample]:
    """The lines with other texts for true."""
    return [
        Sample(image=row.image, source=row.source, extra={"text": text})
        for row, text in zip(line_rows(), texts, strict=False)
    ]


def recognised(rows: Sequence[Any], **options: Any) -> RecognitionEvaluation:
    found = evaluate(recogniser(), rows, name="reader", **options)
    assert isinstance(found, RecognitionEvaluation)
    return found


def test_exact_lines_have_no_errors() -> None:
    found = recognised(line_rows())
    assert [line.read for line in found.lines] == list(TEXTS)
    assert (found.exact, found.cer, found.wer, found.num_edits) == (1.0, 0.0, 0.0, 0)
    assert found.worst == ()
    assert found.num_characters == sum(map(len, TEXTS))
    assert 0 < found.latency.low_seconds <= found.latency.median_seconds <= found.latency.high_seconds


def test_batches_are_read_like_single_rows() -> None:
    rows = with_texts("lnvoice 204l of the firm", "Total due 1,250.00 EUR", "Thank you very very much!")
    one_by_one = recognised(rows)
    asked: list[int] = []
    reader = recogniser()
    handle = reader.register_forward_pre_hook(lambda _, images: asked.append(len(images[0])))
    together = evaluate(reader, rows, name="reader", batch_size=2)
    handle.remove()
    assert asked == [2, 1]
    assert isinstance(together, RecognitionEvaluation)
    shown = [[(line.source, line.row, line.read, line.num_edits) for line in e.lines] for e in (one_by_one, together)]
    assert shown[0] == shown[1]
    assert together.latency is None
    assert "time a line" in one_by_one.render()
    assert "time a line" not in together.render()
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        evaluate(reader, rows, batch_size=0)


def test_planted_errors_are_counted_and_named() -> None:
    # The truth is changed, so that results are wrong in known places.
    changed = ("lnvoice 204l of the firm", "Total due 1,250.00 EUR", "Thank you very very much!")
    found = recognised(with_texts(*changed))

    distances = [slow_edit_distance(true, read) for true, read in zip(changed, TEXTS, strict=True)]
    words = [slow_edit_distance(true.split(), read.split()) for true, read in zip(changed, TEXTS, strict=True)]
    assert [line.num_edits for line in found.lines] == distances == [2, 1, 5]
    assert found.cer == sum(distances) / sum(map(len, changed))
    assert found.wer == sum(words) / sum(len(text.split()) for text in changed)
    assert (found.exact, found.num_exact) == (0.0, 0)

    by_character = {score.character: score for score in found.characters}
    assert by_character["l"].num_wrong == 2
    assert dict(by_character["l"].read_as) == {"I": 1, "1": 1}
    assert by_character["l"].num_true == "".join(changed).count("l")
    assert dict(by_character[""].read_as) == {":": 1}
    missing = {score.character: dict(score.read_as).get("", 0) for score in found.characters}
    assert Counter("very ") == Counter({key: number for key, number in missing.items() if number})
    assert [line.text for line in found.worst] == [changed[2], changed[0], changed[1]]


def test_texts_are_compared_in_composed_form_only() -> None:
    decomposed = recognised([Sample(image=row.image, extra={"text": "é"}) for row in line_rows()[:1]])
    composed = recognised([Sample(image=row.image, extra={"text": "e\u0301"}) for row in line_rows()[:1]])
    assert composed.lines[0].text == decomposed.lines[0].text == "é"
    capitals = recognised(with_texts(TEXTS[0].lower()))
    assert capitals.num_edits == 1


def test_scores_by_length_add_up() -> None:
    found = recognised(with_texts("Invoice 2041", TEXTS[1], "T" * 90))
    assert [(score.min_characters, score.max_characters, score.num_lines) for score in found.by_length] == [
        (11, 20, 1),
        (21, 40, 1),
        (81, None, 1),
    ]
    assert sum(score.num_edits for score in found.by_length) == found.num_edits
    assert sum(score.num_characters for score in found.by_length) == found.num_characters
    assert [score.num_exact for score in found.by_length] == [0, 1, 0]


def test_rows_that_fail_are_counted_and_named() -> None:
    failure = Failure("torn.png", 1, 0, "DecodeError", "it is torn", "skipped")
    replaced = Sample(image=line_rows()[1].image, extra={"text": "x"}, failures=(failure,))
    found = recognised([line_rows()[0], Skipped((failure,)), replaced])
    assert (len(found.lines), found.failures) == (1, (failure, failure))
    assert "torn.png: it is torn" in found.render()
    assert found.to_dict()["num_failed"] == 2

    nothing = recognised([Skipped((failure,))])
    assert (nothing.exact, nothing.cer, nothing.wer, nothing.latency) == (None, None, None, None)
    assert "unknown" in nothing.render()


def test_empty_true_text_has_edits_and_no_rate() -> None:
    found = recognised(with_texts(""))
    assert (found.num_edits, found.cer, found.wer, found.exact) == (len(TEXTS[0]), None, None, 0.0)


def test_rows_may_be_pairs() -> None:
    image = line_rows()[0].image
    found = recognised([(image, TEXTS[0]), (image.float() / 255, TEXTS[0]), (image.permute(1, 2, 0).numpy(), "x")])
    assert [line.read for line in found.lines] == [TEXTS[0]] * 3


def test_rows_may_be_samples_of_doctr() -> None:
    image = line_rows()[0].image
    found = recognised([DocTRSample(image.float() / 255, target=TEXTS[0]), DocTRSample(image, target="x")])
    assert [line.num_edits == 0 for line in found.lines] == [True, False]

    page = text_page()
    boxes = (page.lines[0].quad / (page.image.shape[1], page.image.shape[0]))[None]
    targets = (boxes, {"words": boxes}, {"boxes": boxes, "labels": ["Invoice"]})
    pages = found_on_pages([DocTRSample(page.image, target=target) for target in targets])
    assert [one.num_matched for one in pages.pages] == [1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Sample(image=torch.zeros(3, 8, 8, dtype=torch.uint8))], "row 0: a row must be a Sample"),
        ([(torch.zeros(3, 8, 8, dtype=torch.uint8), 7)], "row 0: the text of a line must be a string"),
        (iter(()), "dataset must have a length"),
    ],
)
def test_invalid_rows_are_rejected(rows: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        recognised(rows)


def test_report_is_text_and_json(tmp_path: Path) -> None:
    found = recognised(with_texts("lnvoice 2041 of the firm", *TEXTS[1:]))
    text = found.render()
    assert text.startswith("reader: 3 lines, compared as NFC\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["lines", "read", "exactly", "66.67", "%", "2", "of", "3"] in rows
    assert ["characters", "wrong", "1.49", "%", "CER:", "1", "edits", "in", "67"] in rows
    assert ["l", "1", "2", "I", "1"] in rows

    found.save_json(tmp_path / "scores.json")
    stored = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (stored["task"], stored["num_lines"], stored["num_edits"]) == ("recognition", 3, 1)
    assert [line["read"] for line in stored["misread"]] == [TEXTS[0]]
    assert stored["characters"][0] == {"character": "l", "num_true": 2, "num_wrong": 1, "read_as": {"I": 1}}


def test_columns_of_the_report_are_straight_with_wide_characters() -> None:
    found = recognised(with_texts("票nvoice 2041 of the firm", "Total due: 1,250.00 FUR", TEXTS[2]))
    rows = [line for line in found.render().splitlines() if line.endswith(("  I 1", "  E 1"))]
    wide, narrow = (line[: -len("I 1")] for line in sorted(rows, key=lambda line: "票" not in line))
    assert len(wide) + 1 == len(narrow)  # a terminal shows the wide character in two columns


def test_picture_marks_differences(tmp_path: Path) -> None:
    marks = {"true": (255, 214, 140), "read": (255, 176, 170)}
    first_lines = (TEXTS[0], "lnvoice 2041 of the firm", "lnvoice 204l of the firm")
    evaluations = [recognised(with_texts(line, *TEXTS[1:])) for line in first_lines]

    def count_marked(number: int, suffix: str) -> dict[str, int]:
        evaluations[number].save_picture(tmp_path / f"worst.{suffix}")
        with Image.open(tmp_path / f"worst.{suffix}") as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(int)
        return {name: int((abs(pixels - color).max(axis=-1) < 12).sum()) for name, color in marks.items()}

    for suffix in ("png", "jpg", "webp"):
        none, one, two = (count_marked(number, suffix) for number in range(3))
        assert none == {"true": 0, "read": 0}
        assert 0 < one["true"] < two["true"]
        assert 0 < one["read"] < two["read"]
    with pytest.raises(InvalidArgumentError, match=r"\.gif"):
        recognised([]).save_picture(tmp_path / "worst.gif")


def test_only_num_worst_rows_are_kept() -> None:
    found = recognised(with_texts("lnvoice 2041 of the firm", TEXTS[1], "Tank y very much!"), num_worst=1)
    assert [line.source for line in found.worst] == ["2.png"]
    assert recognised(with_texts("x"), num_worst=0).worst == ()


@cache
def detector() -> Any:
    require_weights()
    return detection_predictor(pretrained=True, shorter_side=192)


def found_on_pages(rows: Sequence[Any], **options: Any) -> DetectionEvaluation:
    found = evaluate(detector(), rows, **options)
    assert isinstance(found, DetectionEvaluation)
    return found


def test_found_missed_and_false_boxes_are_counted(tmp_path: Path) -> None:
    page = text_page()
    image = torch.from_numpy(page.image).permute(2, 0, 1)
    height, width = page.image.shape[:2]
    # The truth is the detector's own result, changed.
    (own,) = detector()([image])
    boxes = own["words"][:, :4]
    assert len(boxes) == len(page.lines)

    exact = found_on_pages([Sample(image=image, source="page.png", extra={"boxes": boxes})])
    assert (exact.recall, exact.precision, exact.f1) == (1.0, 1.0, 1.0)
    assert exact.mean_iou == pytest.approx(1.0)
    assert exact.worst == ()

    nowhere = np.array([[0.0, 0.0, 0.05, 0.02]])
    changed = np.concatenate([boxes[1:], nowhere, nowhere + 0.9])
    found = found_on_pages([(image, changed), Sample(image=image, extra={"boxes": boxes})])
    assert [(page.num_true, page.num_found, page.num_matched) for page in found.pages] == [(4, 3, 2), (3, 3, 3)]
    assert (found.recall, found.precision) == (5 / 7, 5 / 6)
    assert found.f1 == pytest.approx(2 * 5 / 7 * 5 / 6 / (5 / 7 + 5 / 6))
    assert found.mean_iou == pytest.approx(5 / 6)
    assert [page.source for page in found.worst] == ["row 0"]

    assert found.to_dict()["pages"][0] == {
        "source": "row 0", "row": 0, "num_true": 4, "num_found": 3, "num_matched": 2, "num_within": 0,
    }  # fmt: skip
    assert "5 of 7" in found.render()
    found.save_picture(tmp_path / "worst.png")
    pixels = np.asarray(Image.open(tmp_path / "worst.png"))
    # Missed boxes are red, and only wrong pages are drawn.
    assert (pixels == (200, 20, 20)).all(axis=-1).any()

    # A box of lines that is lower by a third of its height is no longer a pair at 0.7.
    shifted = boxes + np.array([0, 1, 0, 1]) * (boxes[:, 3] - boxes[:, 1])[:, None] / 4
    assert found_on_pages([(image, shifted)]).recall == 1.0
    assert found_on_pages([(image, shifted)], iou_threshold=0.7).recall == 0.0
    quads = np.stack([line.quad for line in page.lines]) / (width, height)
    assert found_on_pages([(image, {"words": quads})]).recall == 1.0
    assert found_on_pages([(image, {"title": quads[:1], "text": quads[1:]})]).recall == 1.0
    assert found_on_pages([(image, np.zeros((0, 4)))]).recall is None


def test_report_notices_words_within_found_lines() -> None:
    page = text_page()
    words = found_on_pages([(page.image, page.relative_quads())])
    assert words.recall == 0
    assert words.pages[0].num_within == len(page.words)
    assert "are they around words, and the model's around lines?" in words.render()
    lines = np.stack([line.quad for line in page.lines]) / (page.image.shape[1], page.image.shape[0])
    assert "are they around words" not in found_on_pages([(page.image, lines)]).render()


def test_turned_boxes_are_matched() -> None:
    require_weights()
    page = np.asarray(Image.fromarray(text_page().image).rotate(20, expand=True, fillcolor="white"))
    predictor = detection_predictor(pretrained=True, assume_straight_pages=False, shorter_side=320)
    (own,) = predictor([page])
    quads = own["words"][:, :4]
    found = evaluate(predictor, [(page, quads), (page, quads[1:])])
    assert isinstance(found, DetectionEvaluation)
    assert (found.num_true, found.num_found, found.num_matched) == (5, 6, 5)
    # The upright boxes around such lines overlap each other more than the lines do.
    straight = np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)
    other = evaluate(predictor, [(page, straight)])
    assert isinstance(other, DetectionEvaluation)
    assert other.num_matched == 0


def test_a_model_must_be_for_the_task() -> None:
    assert found_on_pages([], task="detection").recall is None
    with pytest.raises(InvalidArgumentError, match="is a model for detection, and task is 'recognition'"):
        found_on_pages([], task="recognition")


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="iou_threshold"):
        found_on_pages([], iou_threshold=0)
    with pytest.raises(InvalidArgumentError, match="num_worst"):
        recognised([], num_worst=-1)
    with pytest.raises(InvalidArgumentError, match="unknown architecture 'no_such'"):
        evaluate("no_such", [])
    with pytest.raises(InvalidArgumentError, match=r"row 0: boxes must be \(N, 4\)"):
        found_on_pages([(torch.zeros(3, 64, 64, dtype=torch.uint8), np.zeros((2, 3)))])
