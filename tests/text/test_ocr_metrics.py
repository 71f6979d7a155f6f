"""Scores, against docTR's on recorded pages, Shapely's areas, and slow textbook definitions."""

from __future__ import annotations

import json
import random
import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from edit_distances import slow_edit_distance
from mediatensor.errors import InvalidArgumentError, MissingDependencyError
from mediatensor.ocr.utils.metrics import (
    CharacterErrorRate,
    DetectionMetric,
    LocalizationConfusion,
    ObjectDetectionMetric,
    OCRMetric,
    TableCellMetric,
    TextMatch,
    WordErrorRate,
    box_iou,
    edit_distance,
    hmean,
    nms,
    polygon_iou,
    string_match,
)
from ocr_records import read_record

pytest.importorskip("scipy", reason="boxes are paired by SciPy")

RECORDED: dict[str, Any] = read_record("metrics")
TRUE, PREDICTED = np.array(RECORDED["true"]), np.array(RECORDED["predicted"])


def straight(polygons: np.ndarray) -> np.ndarray:
    return np.concatenate([polygons.min(axis=1), polygons.max(axis=1)], axis=1)


def as_lists(summary: Any) -> Any:
    return json.loads(json.dumps(summary))


@pytest.mark.parametrize("kind", ["boxes", "polygons"])
def test_scores_match_doctr(kind: str) -> None:
    pytest.importorskip("anyascii", reason="words are compared in ASCII by anyascii")
    rotated = kind == "polygons"
    pages = (TRUE, PREDICTED) if rotated else (straight(TRUE), straight(PREDICTED))
    found = LocalizationConfusion(0.4, rotated)
    found.update(*pages)
    assert as_lists(found.summary()) == RECORDED[kind]["localization"]
    read = OCRMetric(0.4, rotated)
    read.update(*pages, RECORDED["true_words"], RECORDED["predicted_words"])
    assert as_lists(read.summary()) == RECORDED[kind]["ocr"]
    told = DetectionMetric(0.4, rotated)
    told.update(*pages, np.array(RECORDED["true_classes"]), np.array(RECORDED["predicted_classes"]))
    assert as_lists(told.summary()) == RECORDED[kind]["detection"]
    cells = TableCellMetric(0.4, rotated)
    cells.update(pages[0], np.array(RECORDED["rows"]), pages[1], np.array(RECORDED["predicted_rows"]))
    assert cells.summary() == pytest.approx(RECORDED[kind]["cells"])
    cells.reset()
    assert set(cells.summary().values()) == {None}


@pytest.mark.parametrize("kind", ["boxes", "polygons"])
def test_average_precision_matches_doctr(kind: str) -> None:
    rotated = kind == "polygons"
    true, predicted = (TRUE, PREDICTED) if rotated else (straight(TRUE), straight(PREDICTED))
    truth, labels = np.array(RECORDED["true_classes"]), np.array(RECORDED["predicted_classes"])
    scores = np.array(RECORDED["scores"])
    metric = ObjectDetectionMetric(use_polygons=rotated)
    for mine, theirs in ((slice(0, 25), slice(0, 15)), (slice(25, None), slice(15, None)), (slice(None), slice(None))):
        metric.update(true[mine], predicted[theirs], truth[mine], labels[theirs], scores[theirs])
    summary = metric.summary()
    expected = RECORDED[kind]["objects"]
    assert summary.pop("AP_per_IoU") == pytest.approx(dict(expected.pop("AP_per_IoU")))
    assert summary == pytest.approx(expected)


def test_average_precision_matches_hand_computation() -> None:
    """Two true boxes; of three predictions, the first and the last are right: precision is 1, then 1/2, then 2/3."""
    boxes = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]])
    metric = ObjectDetectionMetric([0.5], num_classes=3)
    metric.update(boxes[:2], boxes[[0, 2, 1]], np.array([1, 1]), np.array([1, 1, 1]), np.array([0.9, 0.8, 0.7]))
    expected = (51 * 1 + 50 * 2 / 3) / 101
    assert metric.summary()["AP_per_IoU"] == {0.5: pytest.approx(expected)}
    assert metric.summary()["AP@[.75]"] == 0.0
    # The same box found twice is found once; a class that is only predicted does not count.
    metric.reset()
    metric.update(boxes[:1], boxes[[0, 0, 1]], np.array([1]), np.array([1, 1, 2]), np.array([0.9, 0.8, 0.7]))
    assert metric.summary()["mAP@[.5:.95]"] == 1.0


def test_average_precision_is_the_same_again() -> None:
    metric, box, label = ObjectDetectionMetric(iter([0.5, 0.75])), np.array([[0, 0, 10, 10]]), np.array([0])
    metric.update(box, box, label, label, np.ones(1))
    assert metric.summary() == metric.summary()


def test_average_precision_handles_pages_without_boxes() -> None:
    none, no_labels, box, label = np.zeros((0, 4)), np.zeros(0, int), np.array([[0, 0, 10, 10]]), np.array([0])
    metric = ObjectDetectionMetric()
    with pytest.raises(InvalidArgumentError, match="no pages"):
        metric.summary()
    metric.update(none, none, no_labels, no_labels, np.zeros(0))
    metric.update(none, box, no_labels, label, np.ones(1))
    assert metric.summary()["mAP@[.5:.95]"] == 0.0
    metric.update(box, none, label, no_labels, np.zeros(0))
    assert metric.summary()["mAP@[.5:.95]"] == 0.0
    with pytest.raises(InvalidArgumentError, match="1 predicted boxes, 1 labels, 2 scores"):
        metric.update(box, box, label, label, np.ones(2))
    with pytest.raises(InvalidArgumentError, match="label"):
        TableCellMetric().update(box, np.zeros((0, 4)), box, np.zeros((1, 4)))


@pytest.mark.parametrize("found", [np.zeros((0, 4)), np.array([[20, 20, 30, 30]])], ids=["no cells", "other cells"])
def test_cell_metric_counts_tables_without_matching_cells(found: np.ndarray) -> None:
    metric, box, logic = TableCellMetric(), np.array([[0, 0, 10, 10]]), np.array([[0, 0, 1, 1]])
    metric.update(box, logic, found, logic[: len(found)])
    assert metric.summary()["recall"] == 0.0
    metric.update(box, logic, box, logic)
    assert metric.summary()["recall"] == 0.5
    assert metric.summary()["structure_acc"] == 1.0


def test_pairs_have_the_largest_sum_of_iou() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        corners = rng.random((2, 5, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(0.2, 0.6, (2, 5, 2))], axis=2)
        true, read = boxes[0], boxes[1, : rng.integers(1, 6)]
        iou = box_iou(true, read)
        best = max(permutations(range(5), len(read)), key=lambda order: sum(iou[i, j] for j, i in enumerate(order)))
        metric = LocalizationConfusion(0.3)
        metric.update(true, read)
        assert metric.matches == sum(iou[i, j] >= 0.3 for j, i in enumerate(best))


def test_many_words_are_matched_quickly() -> None:
    rows, columns = np.mgrid[:60, :50]
    left, top = columns.ravel(), rows.ravel()
    true = np.stack([left, top, left + 0.9, top + 0.8], axis=1)
    order = np.random.default_rng(0).permutation(3000)
    words = [str(number) for number in range(3000)]
    metric = OCRMetric()
    metric.update(true, true[order] + 0.05, words, [words[index] for index in order])
    recall, precision, mean_iou = metric.summary()
    assert recall == precision == dict.fromkeys(("raw", "caseless", "anyascii", "unicase"), 1.0)
    assert mean_iou == round(0.85 * 0.75 / (2 * 0.72 - 0.85 * 0.75), 2)


@pytest.mark.parametrize("metric", [LocalizationConfusion, OCRMetric, DetectionMetric])
def test_undefined_scores_are_none(metric: Any) -> None:
    nothing, one = np.zeros((0, 4)), np.array([[0.0, 0.0, 1.0, 1.0]])

    def scores(true: np.ndarray, read: np.ndarray) -> list[Any]:
        scorer = metric()
        labels = () if metric is LocalizationConfusion else (np.array(["a"])[: len(true)], np.array(["a"])[: len(read)])
        scorer.update(true, read, *labels)
        recall, precision, mean_iou = scorer.summary()
        return [next(iter(score.values())) if metric is OCRMetric else score for score in (recall, precision)] + [
            mean_iou
        ]

    assert scores(nothing, nothing) == [None, None, None]
    assert scores(one, nothing) == [0.0, None, None]
    assert scores(nothing, one) == [None, 0.0, 0.0]
    assert scores(one, one) == [1.0, 1.0, 1.0]


def test_reset_discards_all_pages() -> None:
    metric = LocalizationConfusion()
    metric.update(np.ones((3, 4)), np.ones((2, 4)))
    metric.reset()
    assert metric.summary() == (None, None, None)


def test_iou_of_straight_boxes() -> None:
    ones = np.array([[0, 0, 10, 10], [5, 5, 5, 9], [-5, -5, -1, -1]], float)
    others = np.array([[5, 0, 15, 10], [0, 0, 10, 10], [10, 0, 20, 10]], float)
    np.testing.assert_allclose(box_iou(ones, others), [[1 / 3, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert box_iou(ones, np.zeros((0, 4))).shape == (3, 0)
    assert box_iou(ones.astype(np.float32), others.astype(np.float32)).dtype == np.float32


def test_iou_of_polygons_matches_shapely() -> None:
    polygons = np.array(RECORDED["iou"]["polygons"])
    # Recorded with the second set turning the other way.
    np.testing.assert_allclose(polygon_iou(polygons, polygons[:, ::-1]), RECORDED["iou"]["iou"], atol=2e-6)
    np.testing.assert_allclose(polygon_iou(polygons, polygons), RECORDED["iou"]["iou"], atol=2e-6)


def test_iou_of_polygons_keeps_its_precision_far_away() -> None:
    square = np.array([[[0, 0], [1, 0], [1, 1], [0, 1]]], float)
    diamond = np.array([[[0.5, -0.5], [1.5, 0.5], [0.5, 1.5], [-0.5, 0.5]]])
    for offset in (0, 1e6):
        np.testing.assert_allclose(polygon_iou(square + offset, diamond + offset), [[0.5]], rtol=1e-6)
        np.testing.assert_allclose(polygon_iou(square + offset, square + offset), [[1.0]])
        np.testing.assert_allclose(polygon_iou(square + offset, square + offset + [1, 0]), [[0.0]], atol=1e-9)
    line = np.array([[[0, 0], [1, 1], [1, 1], [0, 0]]], float)
    assert polygon_iou(line, np.concatenate([line, square])).tolist() == [[0, 0]]


def test_suppression_matches_doctr() -> None:
    assert nms(np.array(RECORDED["nms"]["boxes"]), 0.3) == RECORDED["nms"]["kept"]
    assert nms(np.zeros((0, 5))) == []
    # Equal boxes of equal scores: the first stays.
    assert nms(np.array([[0, 0, 1, 1, 0.5]] * 3)) == [0]


def test_words_match_as_with_doctr() -> None:
    pytest.importorskip("anyascii", reason="words are compared in ASCII by anyascii")
    assert string_match("Été", "ETE") == (False, False, False, True)
    assert string_match("10€", "10EUR") == (False, False, True, True)
    assert string_match("€", "eur") == (False, False, False, True)
    metric = TextMatch()
    metric.update(["a", "É", "€"], ["A", "E", "€"])
    metric.update([], [])
    assert metric.summary() == {"raw": 1 / 3, "caseless": 2 / 3, "anyascii": 2 / 3, "unicase": 1.0}


def test_ascii_words_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anyascii", None)
    assert string_match("Total", "TOTAL") == (False, True, False, True)
    assert string_match("é", "é") == (True, True, True, True)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[ocr\]"):
        string_match("é", "e")


def test_edit_distance_matches_the_textbook() -> None:
    rng = random.Random(0)
    for size in (0, 1, 2, 7, 70, 200):
        for _ in range(200 if size < 10 else 5):
            one = "".join(rng.choices("abé", k=rng.randint(0, size)))
            other = "".join(rng.choices("abé", k=rng.randint(0, size)))
            assert edit_distance(one, other) == slow_edit_distance(one, other), (one, other)


def test_error_rates_sum_over_all_texts() -> None:
    characters, words = CharacterErrorRate(), WordErrorRate()
    assert characters.summary() is words.summary() is None
    true, read = ["kitten sat", "", "ab"], ["sitting sat", "xy", "ab"]
    for metric in (characters, words):
        metric.update(true[:1], read[:1])
        metric.update(true[1:], read[1:])
    assert characters.summary() == (3 + 2 + 0) / (10 + 0 + 2)
    assert words.summary() == (1 + 1 + 0) / (2 + 0 + 1)
    characters.reset()
    characters.update(["a"], ["abcd"])
    assert characters.summary() == 3.0


def test_hmean_is_the_harmonic_mean() -> None:
    assert hmean(0.734, 0.761) == pytest.approx(0.7472, abs=1e-4)
    assert hmean(0, 0) == 0.0
    assert hmean(0.5, None) is hmean(None, None) is None


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: TextMatch().update(["a"], []), "one length"),
        (lambda: TextMatch().update("abc", ["a", "b", "c"]), "list of strings"),
        (lambda: CharacterErrorRate().update("abc", "abd"), "list of strings"),
        (lambda: TextMatch().summary(), "no words"),
        (lambda: LocalizationConfusion(0.0), "iou_thresh"),
        (lambda: LocalizationConfusion(1.5), "iou_thresh"),
        (lambda: LocalizationConfusion().update(np.zeros((1, 4, 2)), np.zeros((1, 4))), "shape"),
        (lambda: OCRMetric().update(np.zeros((1, 4)), np.zeros((1, 4)), ["a", "b"], ["a"]), "label"),
        (lambda: DetectionMetric().update(np.zeros((1, 4)), np.zeros((1, 4)), np.zeros(1), np.zeros(2)), "label"),
        (lambda: polygon_iou(np.zeros((2, 4)), np.zeros((2, 4))), "shape"),
        (lambda: box_iou(np.zeros((2, 5)), np.zeros((2, 4))), "shape"),
        (lambda: nms(np.zeros((2, 4))), "score"),
    ],
)
def test_unusable_arguments_are_named(call: Any, named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        call()
