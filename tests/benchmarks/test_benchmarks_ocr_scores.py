"""The measures of the benchmark of readers, against cases worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks.text import ocr_scores
from benchmarks.text.ocr_scores import (
    Count,
    Errors,
    Word,
    WordScore,
    box_iou,
    edit_distance,
    page_errors,
    reading_order,
    score_lines,
    score_words,
    tightened,
)

from edit_distances import slow_edit_distance

pytest.importorskip("scipy", reason="pairs of boxes are chosen by scipy")


def test_edit_distance_is_that_of_the_textbook() -> None:
    rng = random.Random(0)
    for _ in range(200):
        one, other = ("".join(rng.choices("abc", k=rng.randrange(9))) for _ in range(2))
        assert edit_distance(one, other) == slow_edit_distance(one, other), (one, other)


def test_iou() -> None:
    ones = np.array([[0, 0, 10, 10], [5, 5, 5, 9]], float)
    others = np.array([[5, 0, 15, 10], [0, 0, 10, 10], [20, 20, 30, 30]], float)
    np.testing.assert_allclose(box_iou(ones, others), [[1 / 3, 1, 0], [0, 0, 0]])


def test_boxes_decide_which_words_are_compared() -> None:
    truth = [Word("No", (0, 0, 10, 10)), Word("12-a", (20, 0, 40, 10)), Word("", (60, 0, 70, 10))]
    found = [
        Word("no", (0, 0, 10, 16)),  # IoU 10 / 16
        Word("12-a", (20, 0, 40, 21)),  # IoU 10 / 21: too small
        Word("12A", (90, 0, 99, 10)),
    ]
    score = score_words(truth, found)
    assert score.detection == Count(1, 2, 3)
    assert score.end_to_end == {"raw": Count(0, 2, 3), "caseless": Count(1, 2, 3), "alnum": Count(1, 2, 3)}
    assert score.bag == {"raw": Count(1, 2, 3), "caseless": Count(2, 2, 3), "alnum": Count(2, 2, 3)}


def test_pairs_are_the_best_in_sum() -> None:
    # Taken one by one from the best, the first of the truth would take the only box that fits the second.
    truth = [Word("a", (0, 0, 10, 10)), Word("b", (0, 2, 10, 12))]
    found = [Word("b", (0, 1, 10, 11)), Word("a", (0, -3, 10, 7))]
    assert score_words(truth, found).end_to_end["raw"] == Count(2, 2, 2)


def test_a_word_counts_as_often_as_it_stands_there() -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    score = score_words([Word("a", box)] * 3 + [Word("b", box)], [Word("a", box)] * 2 + [Word("c", box)])
    assert score.bag["raw"] == Count(2, 4, 3)


def test_what_is_no_letter_and_no_digit_is_left_out_on_both_sides() -> None:
    score = score_words([Word("-", (0, 0, 9, 9)), Word("A", (20, 0, 29, 9))], [Word(".", (0, 0, 9, 9))])
    assert score.end_to_end["alnum"] == Count(0, 1, 0)


@pytest.mark.parametrize("side", ["truth", "found", "both"])
def test_nothing_to_compare(side: str) -> None:
    some = [Word("a", (0, 0, 9, 9))]
    truth, found = ([] if side in ("truth", "both") else some), ([] if side in ("found", "both") else some)
    score = score_words(truth, found)
    assert (score.detection.recall, score.detection.precision, score.detection.f1) == (0, 0, 0)
    assert score.bag["raw"].f1 == 0
    assert page_errors(truth, found).edits == len(truth) + len(found)


def test_counts_add_up() -> None:
    total = Count(1, 2, 4) + Count(2, 4, 4)
    assert total == Count(3, 6, 8)
    assert (total.recall, total.precision, total.f1) == (0.5, 3 / 8, 6 / 14)
    one = score_words([Word("a", (0, 0, 9, 9))], [Word("a", (0, 0, 9, 9))])
    assert (WordScore() + one + one).end_to_end["raw"] == Count(2, 2, 2)
    assert (Errors(1, 10, 0, 1) + Errors(0, 10, 1, 1)).rate == 0.05


def test_rows_are_read_from_left_to_right() -> None:
    words = [
        Word("d", (30, 21, 40, 31)),
        Word("b", (20, 3, 30, 12)),
        Word("c", (0, 20, 10, 30)),
        Word("a", (0, 0, 10, 10)),
    ]
    assert "".join(word.text for word in reading_order(words)) == "abcd"


def test_errors_of_a_page_know_no_case_and_no_spaces() -> None:
    truth = [Word("Grand Total", (0, 0, 50, 10)), Word("9.50", (60, 0, 80, 10))]
    found = [Word("9,50", (60, 1, 80, 11)), Word("TOTAL", (25, 0, 50, 10)), Word("GRAND", (0, 0, 24, 10))]
    assert page_errors(truth, found) == Errors(1, 14, 0, 1)


def test_lines_take_the_words_whose_centres_lie_within() -> None:
    lines = [Word("TAX INVOICE", (0, 0, 100, 10)), Word("CASH", (0, 20, 40, 30))]
    found = [
        Word("invoice", (50, 2, 99, 14)),
        Word("TAX", (0, 0, 30, 10)),
        Word("CA5H", (0, 18, 40, 30)),
        Word("elsewhere", (0, 50, 40, 60)),
    ]
    assert score_lines(lines, found) == Errors(1, 14, 1, 2)
    assert score_lines(lines, []).rate == 1


def test_boxes_become_lower() -> None:
    assert tightened([Word("a", (0, 10, 5, 30))], 0.25) == [Word("a", (0, 15, 5, 25))]


def test_the_example() -> None:
    import doctest

    assert doctest.testmod(ocr_scores).failed == 0
