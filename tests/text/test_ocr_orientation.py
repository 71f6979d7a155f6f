"""Test the vote of lines on the turn of their page, the turn of each line, and the skew."""

from __future__ import annotations

import numpy as np
import pytest

from mediatensor.ocr.models._lines.cutting import estimate_page_skew, lines_are_tall, signed_turn
from mediatensor.ocr.models._lines.turning import TURNS, LineEvidence, decide_line_turns, line_evidence, vote_page_turn


def lines_of_page(turn: int, beliefs: list[float], aspect: float = 12.0) -> list[LineEvidence]:
    """Return equal lines of a turned page. ``beliefs`` is the probability of the truth by the classifier, by line."""
    flipped = turn in (180, 270)
    return [LineEvidence(300.0, turn % 180 == 90, aspect, belief if flipped else 1 - belief) for belief in beliefs]


@pytest.mark.parametrize("turn", TURNS)
def test_vote_follows_lines_that_agree(turn: int) -> None:
    voted, confidence = vote_page_turn(lines_of_page(turn, [0.9] * 10))
    assert (voted, confidence > 0.99) == (turn, True)


@pytest.mark.parametrize("turn", TURNS)
def test_vote_ignores_a_few_confident_wrong_lines(turn: int) -> None:
    beliefs = [0.9] * 7 + [0.001] * 3
    assert vote_page_turn(lines_of_page(turn, beliefs))[0] == turn
    # Margin notes across the page, or one very long line, do not change the vote either.
    notes = lines_of_page((turn + 90) % 360, [0.9] * 3)
    assert vote_page_turn(lines_of_page(turn, [0.9] * 7) + notes)[0] == turn
    rule = LineEvidence(1e6, turn % 180 == 0, 1000.0, 0.5)
    assert vote_page_turn([*lines_of_page(turn, [0.9] * 7), rule])[0] == turn


def test_vote_is_right_if_classifier_errs_in_one_line_of_five() -> None:
    generator = np.random.default_rng(0)
    right = 0
    for page in range(400):
        turn = TURNS[page % 4]
        beliefs = np.where(generator.random(20) < 0.2, generator.uniform(0, 0.4, 20), generator.uniform(0.6, 1, 20))
        right += vote_page_turn(lines_of_page(turn, beliefs.tolist()))[0] == turn
    assert right >= 392


def test_confidence_falls_when_lines_disagree() -> None:
    sure = vote_page_turn(lines_of_page(0, [0.95] * 8))[1]
    mixed = vote_page_turn(lines_of_page(0, [0.95] * 6 + [0.05] * 2))[1]
    split = vote_page_turn(lines_of_page(0, [0.95] * 4 + [0.05] * 4))[1]
    assert sure > mixed > split
    # More lines do not raise the confidence, because errors of lines on one page are correlated.
    assert vote_page_turn(lines_of_page(0, [0.95] * 104 + [0.05] * 96))[1] < 0.95


def test_one_certain_line_does_not_outvote_four() -> None:
    line = LineEvidence(300.0, False, 12.0, 0.01, {0: 1.0, 180: 0.0})
    assert vote_page_turn([*lines_of_page(180, [0.85] * 4), line])[0] == 180


def test_vote_without_evidence_has_no_confidence() -> None:
    assert vote_page_turn([]) == (0, 0.0)
    assert vote_page_turn([LineEvidence(0.0, False, 1.0)]) == (0, 0.0)
    assert decide_line_turns([]) == []


@pytest.mark.parametrize("turn", TURNS)
def test_recogniser_decides_if_classifier_is_uncertain(turn: int) -> None:
    tall = turn % 180 == 90
    other = (turn + 180) % 360
    lines = [LineEvidence(300.0, tall, 12.0, 0.5, {turn: 0.97, other: 0.45})] * 5
    voted, confidence = vote_page_turn(lines)
    assert (voted, confidence > 0.95) == (turn, True)
    # A confident reading supports its turn, and a doubtful reading the opposite turn.
    assert vote_page_turn([LineEvidence(300.0, tall, 12.0, None, {turn: 0.97})] * 5)[0] == turn
    assert vote_page_turn([LineEvidence(300.0, tall, 12.0, None, {other: 0.3})] * 5)[0] == turn


def test_nearly_square_lines_hardly_affect_the_axis() -> None:
    squares = [LineEvidence(20.0, False, 1.0, 0.5)] * 10
    assert vote_page_turn(squares + lines_of_page(90, [0.9] * 4))[0] == 90


def test_margin_notes_get_their_own_turn() -> None:
    page = lines_of_page(0, [0.9] * 5)
    for turn in (90, 270):
        assert decide_line_turns([*page, *lines_of_page(turn, [0.8])]) == [0] * 5 + [turn]
        assert decide_line_turns(lines_of_page(turn, [0.8])) == [turn]
    # Without evidence, a note is assumed to run from the bottom to the top of the page.
    assert decide_line_turns([*page, LineEvidence(300.0, True, 12.0)])[-1] == 270


def test_single_line_gets_another_turn_only_with_strong_evidence() -> None:
    page = lines_of_page(0, [0.9] * 5)
    doubtful, stamp = LineEvidence(300.0, False, 12.0, 0.9), LineEvidence(300.0, False, 12.0, 0.99, {0: 0.4, 180: 0.9})
    assert decide_line_turns([*page, doubtful, stamp])[-2:] == [0, 180]


def test_single_upright_digit_is_not_a_margin_note() -> None:
    digit = LineEvidence(20.0, True, 2.5, 0.5)
    page = [LineEvidence(300.0, False, 15.0, 0.1)] * 5
    assert decide_line_turns([*page, digit]) == [0] * 6


def test_evidence_is_measured_in_pixels() -> None:
    # On a page of 1000 x 500 pixels: 400 wide and 20 high; 20 wide and 300 high.
    quads = np.array(
        [[[0.1, 0.1], [0.9, 0.1], [0.9, 0.12], [0.1, 0.12]], [[0.1, 0.2], [0.14, 0.2], [0.14, 0.5], [0.1, 0.5]]]
    )
    assert lines_are_tall(quads, (1000, 500)).tolist() == [False, True]
    wide, tall = line_evidence(quads, (1000, 500), [0.25, None], [{0: 0.5}, {}])
    assert (wide.tall, wide.upside_down, wide.confidences) == (False, 0.25, {0: 0.5})
    assert (tall.tall, tall.upside_down, tall.confidences) == (True, None, {})
    assert (wide.length, wide.aspect) == pytest.approx((400, 20))
    assert (tall.length, tall.aspect) == pytest.approx((300, 15))


def test_turns_have_the_sign_of_doctr() -> None:
    assert [signed_turn(turn) for turn in TURNS] == [0, 90, 180, -90]


def skewed_quads(angles: list[float], widths: list[float], shape: tuple[int, int]) -> np.ndarray:
    quads = []
    for row, (angle, width) in enumerate(zip(angles, widths, strict=True)):
        cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        corners = np.array([[0, 0], [width, 0], [width, 20], [0, 20]]) @ np.array([[cosine, sine], [-sine, cosine]])
        quads.append((corners + np.array([300, 100 + 40 * row])) / (shape[1], shape[0]))
    return np.array(quads)


@pytest.mark.parametrize("skew", [-44.0, -10.0, -0.5, 0.0, 0.3, 5.0, 44.0])
def test_skew_is_the_angle_of_most_text(skew: float) -> None:
    shape = (1400, 900)
    angles = [skew] * 6 + [skew + 90] * 2 + [skew + 30] * 2  # lines, vertical notes, and noise
    quads = skewed_quads(angles, [400.0] * 6 + [100.0] * 4, shape)
    assert estimate_page_skew(quads, shape) == pytest.approx(skew, abs=1e-6)
    # The first corner of a quad does not matter.
    assert estimate_page_skew(np.roll(quads, 1, axis=1), shape) == pytest.approx(skew, abs=1e-6)


def test_skew_is_the_median_weighted_by_length() -> None:
    # 500 pixels of text at 2 degrees, 400 at 8: the longer half decides.
    quads = skewed_quads([2.0, 2.0, 8.0], [250.0, 250.0, 400.0], (1000, 1000))
    assert estimate_page_skew(quads, (1000, 1000)) == pytest.approx(2.0, abs=1e-6)
    halves = skewed_quads([2.0, 8.0], [250.0, 250.0], (1000, 1000))
    assert estimate_page_skew(halves, (1000, 1000)) == pytest.approx(5.0, abs=1e-6)
    # 44 and -44 degrees are only 2 degrees apart.
    edge = skewed_quads([44.0, -44.0, 45.5], [300.0] * 3, (1000, 1000))
    assert abs(estimate_page_skew(edge, (1000, 1000))) == pytest.approx(44.5, abs=0.01)


def test_no_lines_have_no_skew() -> None:
    assert estimate_page_skew(np.zeros((0, 4, 2)), (100, 100)) == 0.0
    assert estimate_page_skew(np.zeros((3, 4, 2)), (100, 100)) == 0.0
