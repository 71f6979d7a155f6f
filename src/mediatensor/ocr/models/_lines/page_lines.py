"""The words of a page by a recogniser of lines: the turn of each line, its reading, and the places of its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...io._elements.leaves import line_confidence
from ...io.elements import UnreadLine
from .characters import is_east_asian
from .geometry import (
    box_quads,
    in_pixels,
    line_sizes,
    lines_are_tall,
    longest_lines,
    place_boxes,
    signed_turn,
    straight_boxes,
    turned,
)
from .page_words import ClassWords, FoundLine, characters_of
from .reading import LineReading, LineRecognizer, read_lines
from .turning import LineClassifier, decide_line_turns, line_evidence, upside_down_probabilities, vote_page_turn

__all__ = [
    "Readings",
    "join_sideways_letters",
    "page_turn",
    "read_page_lines",
    "read_straight_lines",
    "turn_of_read_page",
    "turn_of_sideways_page",
    "turns_of_straight_lines",
    "turns_on_turned_page",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SURE_OF_TURN = 0.95
"""Lines are also read both ways where the classifier's vote on the turn of a page is less probable than this."""
LINES_READ_TWICE = 6
READS_WELL = 0.85
"""A page whose long lines read with at least this mean confidence is not upside down: such pages rarely exceed 0.75."""
READS_TURNED = 0.8
"""A page or a line counts as turned if it reads with at least this confidence when turned, and clearly better so."""
WEAK_READING = 0.8
"""A line that reads worse than this is tried upside down, which is one line in fifty of upright pages."""
READS_SURELY = 0.95
"""From this mean confidence on, a reading is left for that of another recogniser only if that is more confident."""
CLEARLY_BETTER = 0.1
LONG_LINE = 3.0
"""A tall box on an upright page that is this many times as high as wide is a line on its side, not a character."""
LETTER_ASPECT = 3.0
"""Boxes longer than this many times their other side are lines, not letters of a line along a margin."""
LETTER_GAP = 0.6
"""The largest gap, or overlap, of two letters of such a line, as a share of the narrower box."""
SAME_LETTERS = 0.5
"""Letters that are so similar, read one by one and as a line along a margin, are a column of upright letters.

Unless one of them reads weakly and the line surely: on 149 scanned forms that finds the three stamped numbers in four
that this limit alone takes for columns.
"""
SPACE_BESIDE = 1.0
"""Such a line stands alone: there is no box within this many times its width beside it."""

Readings = dict[int, LineReading]
"""The readings of one line, by the turn at which it was read."""


def read_straight_lines(
    model: LineRecognizer, page: Tensor, quads: FloatArray, split_after: str = ""
) -> list[Readings]:
    """Read the lines of a page that is taken for upright.

    A box taller than wide is a line that runs along a margin, or a single character such as a 1. It is read as it is
    and from both sides, together with all other lines, so that the host waits once for the readings of a page.

    Args:
        model: The recogniser.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        split_after: Characters that end a word, besides spaces.

    Returns:
        For each line its readings at 0 degrees, and of tall ones at 90 and 270, too.
    """
    shape = (page.shape[1], page.shape[2])
    is_tall = lines_are_tall(quads, shape)
    tall, others = np.flatnonzero(is_tall), np.flatnonzero(~is_tall)
    candidates = np.concatenate([np.repeat(tall, 3), others])
    tried = np.concatenate([np.tile([0, 90, 270], len(tall)), np.zeros(len(others), dtype=np.int64)])
    read = read_lines(model, page, in_pixels(turned(quads[candidates], tried), shape), split_after)
    readings: list[Readings] = [{} for _ in range(len(quads))]
    for index, turn, reading in zip(candidates.tolist(), tried.tolist(), read, strict=True):
        readings[index][turn] = reading
    return readings


def turns_of_straight_lines(
    readings: Sequence[Readings], quads: FloatArray, shape: tuple[int, int]
) -> tuple[IntArray, dict[int, LineReading]]:
    """The turns of the lines of an upright page. Only text that runs along a margin is turned.

    Args:
        readings: The result of :func:`read_straight_lines`.
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        shape: Height and width of the page in pixels.

    Returns:
        Degrees (N,), clockwise, and the reading of each line.
    """
    turns = np.zeros(len(quads), dtype=np.int64)
    widths, heights = line_sizes(in_pixels(quads, shape))
    for index, own in enumerate(readings):
        if len(own) > 1:
            turns[index] = _best_of_tall(own, float(heights[index] / max(widths[index], 1e-6)))
    return turns, {index: own[int(turns[index])] for index, own in enumerate(readings)}


def _best_of_tall(readings: Readings, aspect: float) -> int:
    """Which of the readings at 0, 90 and 270 degrees to believe."""
    sideways = 90 if readings[90].confidence >= readings[270].confidence else 270
    length = sum(len(word.value) for word in readings[sideways].words)
    is_line = aspect >= LONG_LINE or length >= 3
    return sideways if is_line and readings[sideways].confidence >= readings[0].confidence else 0


def join_sideways_letters(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    scores: npt.NDArray[np.floating],
    readings: list[Readings],
    split_after: str = "",
) -> tuple[FloatArray, npt.NDArray[np.floating], list[Readings]]:
    """Join boxes of single letters that are one line along a margin.

    Detectors break such lines, as numbers that are stamped on documents, into letters. A column of boxes that stands
    alone is read as one line from both sides, and replaced by that line if it reads well.

    Args:
        model: The recogniser.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        scores: Scores of the detector, (N,).
        readings: The result of :func:`read_straight_lines`.
        split_after: Characters that end a word, besides spaces.

    Returns:
        All three, with the joined lines at the end in place of their letters; unchanged if there are none.
    """
    shape = (page.shape[1], page.shape[2])
    pixels = in_pixels(quads, shape)
    stacks = _stacks_of_letters(straight_boxes(pixels))
    if not stacks:
        return quads, scores, readings
    joined = box_quads(np.stack([straight_boxes(quads[stack].reshape(1, -1, 2))[0] for stack in stacks]))
    turns = np.tile([0, 90, 270], len(stacks))
    read = read_lines(model, page, in_pixels(turned(np.repeat(joined, 3, axis=0), turns), shape), split_after)
    kept, added, more = np.ones(len(quads), dtype=bool), [], []
    for number, stack in enumerate(stacks):
        own: Readings = dict(zip((0, 90, 270), read[3 * number : 3 * number + 3], strict=True))
        best = max(own[90], own[270], key=lambda reading: reading.confidence)
        text = _letters_of(best)
        # A network reads upright letters in a column, too: there, each is what it is by itself. Some digits on their
        # side resemble upright ones, but not all of a number do.
        letters = [readings[index][0] for index in stack.tolist()]
        by_themselves = "".join(map(_letters_of, letters))
        is_similar = SequenceMatcher(None, by_themselves, text, autojunk=False).ratio() >= SAME_LETTERS
        is_better = _legibility(best) >= READS_SURELY and min(map(_legibility, letters)) < WEAK_READING
        is_column = is_similar and not is_better
        if _legibility(best) >= READS_WELL and len(text) >= max(len(stack), 3) and not is_column:
            kept[stack] = False
            added.append(number)
            more.append(own)
    if not added:
        return quads, scores, readings
    of_lines = np.array([scores[stacks[number]].mean() for number in added])
    return (
        np.concatenate([quads[kept], joined[added]]),
        np.concatenate([scores[kept], of_lines]),
        [own for own, stays in zip(readings, kept.tolist(), strict=True) if stays] + more,
    )


def _letters_of(reading: LineReading) -> str:
    return "".join(word.value for word in reading.words)


def _stacks_of_letters(boxes: npt.NDArray[np.floating]) -> list[IntArray]:
    """Columns of boxes (N, 4) in pixels that may be the letters of a line along a margin: indices, from the top."""
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    is_letter = (heights <= LETTER_ASPECT * widths) & (widths <= LETTER_ASPECT * heights)
    chosen = np.flatnonzero(is_letter)
    sides = boxes.tolist()
    stacks: list[list[int]] = []
    open_stacks: list[list[int]] = []
    for index in chosen[np.argsort(boxes[chosen, 1], kind="stable")].tolist():
        x0, y0, x1, _ = sides[index]
        # Stacks that end too far above cannot go on.
        open_stacks = [own for own in open_stacks if y0 - sides[own[-1]][3] <= LETTER_GAP * (x1 - x0)]
        for stack in open_stacks:
            left, _, right, bottom = sides[stack[-1]]
            narrow, wide = sorted((right - left, x1 - x0))
            shared = min(right, x1) - max(left, x0)
            if shared >= 0.6 * narrow and wide <= 1.7 * narrow and abs(y0 - bottom) <= LETTER_GAP * narrow:
                stack.append(index)
                break
        else:
            open_stacks.append([index])
            stacks.append(open_stacks[-1])
    found = []
    for stack in stacks:
        own = np.array(stack)
        left, top = boxes[own, :2].min(axis=0)
        right, bottom = boxes[own, 2:].max(axis=0)
        around = SPACE_BESIDE * (right - left)
        is_near = (boxes[:, 0] < right + around) & (boxes[:, 2] > left - around)
        is_near &= (boxes[:, 1] < bottom) & (boxes[:, 3] > top)
        is_near[own] = False
        if len(own) > 1 and bottom - top >= LETTER_ASPECT * (right - left) and not is_near.any():
            found.append(own)
    return found


def turn_of_sideways_page(model: LineRecognizer, page: Tensor, quads: FloatArray) -> tuple[int, float]:
    """The turn of a page most of whose text stands in tall boxes.

    A few lines decide, before every tall box is read at three turns.

    Args:
        model: The recogniser.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.

    Returns:
        Degrees, clockwise, and the probability of it; (0, 0.0) where boxes are not tall, or do not say.
    """
    shape = (page.shape[1], page.shape[2])
    lengths = np.maximum(*line_sizes(in_pixels(quads, shape)))
    is_tall = lines_are_tall(quads, shape)
    if 2 * lengths[is_tall].sum() <= lengths.sum():
        return 0, 0.0
    few = quads[np.argsort(-lengths, kind="stable")[:LINES_READ_TWICE]]
    return turn_of_read_page(model, page, few, read_straight_lines(model, page, few))


def turn_of_read_page(
    model: LineRecognizer, page: Tensor, quads: FloatArray, readings: Sequence[Readings]
) -> tuple[int, float]:
    """The turn of a page whose lines were read as if it were upright, by how well its long lines read.

    The readings show whether the page lies on its side. A page that reads badly may also be upside down: a few of its
    lines are then read that way. Pages that read well skip this.

    Args:
        model: The recogniser.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        readings: The result of :func:`read_straight_lines`.

    Returns:
        Degrees, clockwise, and the probability of it. 0 unless the page reads well, and clearly better, when turned.
    """
    shape = (page.shape[1], page.shape[2])
    sample = longest_lines(quads, shape)
    lengths = line_sizes(in_pixels(quads[sample], shape))
    weights = dict(zip(sample.tolist(), np.maximum(*lengths).tolist(), strict=True))
    confidences = {index: {turn: _legibility(own) for turn, own in readings[index].items()} for index in weights}
    # A script that the model does not know reads as nothing when upright, and as other letters when upside down: lines
    # without words have no say.
    wide = [index for index in weights if len(readings[index]) == 1 and _legibility(readings[index][0])]
    told = [index for index in weights if readings[index][0].script is not None]
    if 3 * sum(weights[index] for index in told) > 2 * sum(weights.values()):
        # Scripts are told by lines that are upright. A third of a page that can be read decides for itself.
        return 0, 0.0
    if wide and _mean(confidences, weights, wide, 0) < READS_WELL:
        few = sorted(wide, key=lambda index: -weights[index])[:LINES_READ_TWICE]
        upside_down = turned(quads[few], np.full(len(few), 180))
        for index, reading in zip(few, read_lines(model, page, in_pixels(upside_down, shape)), strict=True):
            if reading.words:
                confidences[index][180] = reading.confidence
        # A line that was read one way only cannot be compared with lines that were read both ways.
        confidences = {index: own for index, own in confidences.items() if len(own) > 1}
    asked = list(confidences)
    turn, probability = vote_page_turn(
        line_evidence(quads[asked], shape, None, [confidences[index] for index in asked])
    )
    voters = [index for index in asked if turn in confidences[index]]
    if not turn or not voters or _is_vertical_writing(readings, voters, turn):
        return 0, probability if not turn else 0.0
    # A quarter turn is weighed against the other one: at 0 degrees nothing but a character could be read in a tall box.
    against = 0 if turn == 180 else 360 - turn
    upright = _mean(confidences, weights, voters, turn)
    better = upright - _mean(confidences, weights, voters, against)
    return (turn, probability) if upright >= READS_TURNED and better >= CLEARLY_BETTER else (0, 0.0)


def _legibility(reading: LineReading) -> float:
    """The confidence of a reading; 0 if its words are look-alikes of another script's, or if it has none.

    A network may be sure of spaces alone.
    """
    return reading.confidence if reading.words and reading.script is None else 0.0


def _mean(
    confidences: Mapping[int, Mapping[int, float]], weights: Mapping[int, float], chosen: Sequence[int], turn: int
) -> float:
    """The mean confidence of lines at a turn, weighted by their lengths."""
    total = sum(weights[index] for index in chosen)
    return sum(weights[index] * confidences[index][turn] for index in chosen) / max(total, 1e-9)


def _is_vertical_writing(readings: Sequence[Readings], lines: Sequence[int], turn: int) -> bool:
    """Whether tall lines have letters that are also written in columns: their shape then says nothing of the page."""
    letters = "".join(word.value for index in lines if turn % 180 for word in readings[index][turn].words)
    return 2 * sum(map(is_east_asian, letters)) > len(letters)


def page_turn(
    model: LineRecognizer | None, classifier: LineClassifier, page: Tensor, quads: FloatArray
) -> tuple[int, float]:
    """The turn of a page, by a vote of its longest lines.

    Args:
        model: The recogniser. It is asked where the classifier is not sure, and before a page counts as turned; None
            leaves the decision to the classifier.
        classifier: Tells upside down from upright.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.

    Returns:
        Degrees, clockwise, and the probability of it; (0, 0.0) for a page without lines.
    """
    shape = (page.shape[1], page.shape[2])
    sample = quads[longest_lines(quads, shape)]
    flipped = upside_down_probabilities(classifier, page, sample)
    turn, confidence = vote_page_turn(line_evidence(sample, shape, flipped))
    if model is None or (turn == 0 and confidence >= SURE_OF_TURN) or not len(sample):
        return turn, confidence
    few = sample[:LINES_READ_TWICE]
    ways = (90, 270) if lines_are_tall(few, shape).mean() > 0.5 else (0, 180)
    both = np.concatenate([turned(few, np.full(len(few), way)) for way in ways])
    readings = read_lines(model, page, in_pixels(both, shape))
    confidences = [
        {way: readings[index + place * len(few)].confidence for place, way in enumerate(ways)}
        for index in range(len(few))
    ]
    return vote_page_turn(line_evidence(few, shape, flipped[: len(few)], confidences))


def turns_on_turned_page(classifier: LineClassifier, page: Tensor, quads: FloatArray, turn: int) -> IntArray:
    """The turn of each line on a page whose turn is known. The lines across the page are classified.

    Args:
        classifier: Tells upside down from upright.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        turn: The turn of the page.

    Returns:
        Degrees (N,), clockwise.
    """
    shape = (page.shape[1], page.shape[2])
    across = np.flatnonzero(lines_are_tall(quads, shape) != bool(turn % 180))
    known: list[float | None] = [None] * len(quads)
    for index, probability in zip(across, upside_down_probabilities(classifier, page, quads[across]), strict=True):
        known[index] = float(probability)
    return np.array(decide_line_turns(line_evidence(quads, shape, known), turn), dtype=np.int64).reshape(-1)


def read_page_lines(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    scores: npt.NDArray[np.floating],
    turns: IntArray,
    *,
    readings: dict[int, LineReading] | None = None,
    straight: bool,
    second_chance: bool,
    min_confidence: float,
    split_after: str = "",
    report_scripts: bool = True,
    script_readers: Mapping[str, LineRecognizer] | None = None,
) -> ClassWords:
    """Read lines, and cut them into words.

    Args:
        model: The recogniser.
        page: (3, H, W).
        quads: Relative (N, 4, 2), clockwise as they lie on the page.
        scores: Scores of the detector, (N,).
        turns: The turn of each line, in degrees.
        readings: Readings of the lines that were read already.
        straight: Give enclosing boxes rather than quads.
        second_chance: Try lines that read badly upside down.
        min_confidence: Lines of whose words a lesser share is expected to be right are left out.
        split_after: Characters that end a word, besides spaces.
        report_scripts: Leave out lines in a script that the model cannot read, whatever it read.
        script_readers: Recognisers by the script whose lines they read in its place.

    Returns:
        The words.
    """
    shape = (page.shape[1], page.shape[2])
    known = dict(readings or {})
    open_lines = np.array([index for index in range(len(quads)) if index not in known], dtype=np.int64)
    lines = turned(quads, turns)
    read = read_lines(model, page, in_pixels(lines[open_lines], shape), split_after)
    for index, reading in zip(open_lines, read, strict=True):
        known[int(index)] = reading
    if second_chance:
        turns = _turn_bad_ones(model, page, quads, turns, known, split_after)
        lines = turned(quads, turns)
    for script, reader in (script_readers or {}).items():
        known |= _read_by_others(script, reader, page, lines, known, min_confidence, split_after)
    if not report_scripts:
        known = {index: replace(reading, script=None) for index, reading in known.items()}
    kept = [
        index
        for index in range(len(quads))
        if known[index].words and known[index].share_right >= min_confidence and known[index].script is None
    ]
    words = _words_of(lines, scores, turns, known, kept, straight)
    is_kept = set(kept)
    reasons = [_reason_unread(known[index], index in is_kept) for index in range(len(lines))]
    words.unread = _unread_of(lines.clip(0, 1), known, reasons, straight)
    words.found = [
        FoundLine(
            line,
            " ".join(word.value for word in known[index].words),
            line_confidence(word.confidence for word in known[index].words),
            reasons[index],
        )
        for index, line in enumerate(lines)
    ]
    return words


def _read_by_others(
    script: str,
    reader: LineRecognizer,
    page: Tensor,
    lines: FloatArray,
    known: Mapping[int, LineReading],
    min_confidence: float,
    split_after: str,
) -> dict[int, LineReading]:
    """The readings of lines of a script by a recogniser of this script, where they are good enough."""
    own = [index for index, reading in known.items() if reading.script == script]
    quads = in_pixels(lines[np.array(own, dtype=np.int64)], (page.shape[1], page.shape[2]))
    better = {}
    for index, reading in zip(own, read_lines(reader, page, quads, split_after), strict=True):
        # A line that the first model reads with such confidence may be one of its own, after all.
        is_doubtful = reading.confidence < known[index].confidence >= READS_SURELY
        if reading.words and reading.share_right >= min_confidence and not is_doubtful:
            better[index] = reading
    return better


def _reason_unread(reading: LineReading, is_kept: bool) -> str | None:
    """Why the text of a line is not part of the page, or not all of it; None if it is."""
    if reading.script is not None:
        return "script"
    if is_kept:
        return "gaps" if reading.has_gaps else None
    return "low confidence" if reading.words else "no text"


def _unread_of(
    lines: FloatArray, readings: Mapping[int, LineReading], reasons: Sequence[str | None], straight: bool
) -> list[UnreadLine]:
    """The lines whose text is not part of the page, or not all of it, with the reason."""
    found = []
    for index, (line, reason) in enumerate(zip(lines, reasons, strict=True)):
        reading = readings[index]
        if reason is None:
            continue
        (left, top), (right, bottom) = line.min(axis=0).tolist(), line.max(axis=0).tolist()
        geometry: Any = ((left, top), (right, bottom)) if straight else tuple(map(tuple, line.tolist()))
        value = " ".join(word.value for word in reading.words)
        found.append(UnreadLine(geometry, reason, value, reading.share_right, reading.script))
    return found


def _turn_bad_ones(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    turns: IntArray,
    known: dict[int, LineReading],
    split_after: str,
) -> IntArray:
    # A script that the model does not know reads as nothing when upright, and as other letters when upside down.
    weak = np.array(
        [index for index, reading in known.items() if reading.words and reading.confidence < WEAK_READING], np.int64
    )
    shape = (page.shape[1], page.shape[2])
    result = turns.copy()
    other = turned(quads[weak], turns[weak] + 180)
    read = read_lines(model, page, in_pixels(other, shape), split_after)
    for index, reading in zip(weak.tolist(), read, strict=True):
        if _legibility(reading) >= max(READS_TURNED, known[index].confidence + CLEARLY_BETTER):
            known[index] = reading
            result[index] = (result[index] + 180) % 360
    return result


def _words_of(
    lines: FloatArray,
    scores: npt.NDArray[np.floating],
    turns: IntArray,
    readings: dict[int, LineReading],
    kept: Sequence[int],
    straight: bool,
) -> ClassWords:
    quads, word_scores, texts, orientations, line_ids, characters = [], [], [], [], [], []
    for index in kept:
        for word in readings[index].words:
            quads.append(place_boxes(lines[index], np.array([word.box]))[0])
            word_scores.append(float(scores[index]))
            texts.append((word.value, word.confidence))
            orientations.append({"value": signed_turn(int(turns[index])), "confidence": None})
            line_ids.append(index)
            characters.append(
                characters_of(word.value, word.confidences, place_boxes(lines[index], np.array(word.boxes)), straight)
            )
    corners = np.array(quads).reshape(-1, 4, 2)
    return ClassWords(
        straight_boxes(corners) if straight else corners,
        np.array(word_scores),
        texts,
        orientations,
        np.array(line_ids, dtype=np.int64),
        list(characters),
    )
