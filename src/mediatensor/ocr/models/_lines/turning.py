"""Determine by how many degrees a page and its lines are turned.

Turns are clockwise, as in docTR: 0, 90, 180 or 270 degrees (docTR uses -90 instead of 270). If a page was turned by 90
degrees, its lines run from top to bottom, and rotating it counter-clockwise by 90 degrees makes it upright.

There are two sources of evidence: a classifier that detects upside-down lines, and the recogniser, which is more
confident if it reads a line in the right direction. Both are wrong for a few lines of every page. Therefore the lines
of a page vote on its turn, long lines with more weight. The vote assumes that some lines give completely wrong
evidence. When the turn of the page is known, the turn of each single line is determined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .._networks.transfers import download, mark_open_sizes
from .characters import is_east_asian
from .cutting import (
    WHOLE_CROP,
    cut_lines,
    line_sizes,
    lines_are_tall,
    longest_lines,
    network_input,
    scale_to_pixels,
    side_lengths,
    turn_quads,
)
from .reading import LineReading, LineRecognizer, read_turned_lines

TURNS = (0, 90, 180, 270)
# A line's shape is evidence for its axis: the odds grow with the squared aspect ratio, and are even for a square.
_ASPECT_POWER = 2.0
# Limit on the classifier's probability, because it was trained on other pages.
_MAX_BELIEF = 0.97
# Mean confidence at which a reading is equally likely in the right direction or upside down, and the increase that
# multiplies the odds by e. The default recogniser is rarely above 0.7 on upside-down text, and rarely below 0.7 on
# upright text.
_EVEN_CONFIDENCE = 0.7
_CONFIDENCE_SCALE = 0.1
# Share of lines whose turn is independent of the page: margin notes, stamps, detection errors.
_OUTLIERS = 0.1
# Errors of lines on one page are correlated, so any number of lines counts as at most this many independent lines.
_INDEPENDENT_LINES = 8.0
# Pages are upright more often than not.
_PRIOR = (0.55, 0.15, 0.15, 0.15)
# Prior probability that a line along the page's axis is upside down relative to the page.
_STRAY_LINE = 0.02
# A line across the page is at least this many times as long as ordinary lines are high. A single upright "1" or "I" is
# also taller than wide, but shorter.
_MIN_ACROSS_HEIGHTS = 2.0
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SURE_OF_TURN = 0.95
"""If the classifier's vote has a lower probability, lines are also read in both directions."""
LINES_READ_TWICE = 6
READS_WELL = 0.85
"""A page whose long lines reach this confidence is not upside down: upside-down pages rarely exceed 0.75."""
READS_TURNED = 0.8
"""A page or line counts as turned only if turned readings have at least this confidence and are clearly better."""
MIN_ADVANTAGE = 0.1
FEWEST_LETTERS = 3
"""On an upright page, a tall box is a rotated line, not a character, if at least this many letters are read in it."""
ReadingsByTurn = dict[int, LineReading]
"""Readings of one line, by the turn in degrees at which the line was read."""


class LineClassifier(Protocol):
    """A network that classifies images of lines as upright (first class) or upside down (second class)."""

    cfg: dict[str, Any]
    """Contains ``input_shape``, ``mean`` and ``std``."""

    def parameters(self) -> Iterator[Any]: ...

    def __call__(self, lines: Tensor) -> Any: ...


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """Evidence from one line about the turn of its page."""

    length: float  # of the longer side, in the same unit for all lines of a page: the weight of the line's vote
    tall: bool  # whether the crop is taller than wide, and was rotated (``np.rot90``) before it was classified
    aspect: float  # size of the crop along the direction in which it was read, divided by its size across it
    upside_down: float | None = None  # probability that the crop, rotated if ``tall``, is upside down
    # The recogniser's mean confidence on this line, for each turn at which the line was read.
    confidences: Mapping[int, float] = field(default_factory=dict)


def line_evidence(
    quads: np.ndarray,
    page_shape: tuple[int, int],
    upside_down: Sequence[float | None] | None,
    confidences: Sequence[Mapping[int, float]] | None = None,
) -> list[LineEvidence]:
    """Collect the evidence of each line about the page's turn.

    ``quads`` (N, 4, 2) are the lines, relative to the page, with corners clockwise from the top left of the page.
    ``upside_down`` and ``confidences`` are results for each line, as in `LineEvidence`. For lines that `lines_are_tall`
    selects, ``upside_down`` must be the probability for the rotated crop.
    """
    widths, heights = (sides.clip(1e-6) for sides in side_lengths(quads, page_shape))
    tall = lines_are_tall(quads, page_shape)
    aspects = np.where(tall, heights / widths, widths / heights)
    columns = (np.maximum(widths, heights).tolist(), tall.tolist(), aspects.tolist())
    flipped = upside_down or [None] * len(quads)
    read = confidences or [{}] * len(quads)
    return [LineEvidence(*line) for line in zip(*columns, flipped, read, strict=True)]


def vote_page_turn(evidence: Sequence[LineEvidence]) -> tuple[int, float]:
    """Determine the turn of a page by a vote of its lines; ten to twenty long lines are enough.

    >>> line = LineEvidence(length=300.0, tall=True, aspect=10.0, upside_down=0.1)
    >>> turn, confidence = vote_page_turn([line] * 5)
    >>> turn, confidence > 0.95
    (90, True)

    Returns:
        The turn in degrees clockwise (0, 90, 180 or 270) and its probability; ``(0, 0.0)`` without evidence.
    """
    weights = np.array([line.length for line in evidence])
    if not weights.any():
        return 0, 0.0
    votes = np.log(_likelihoods(evidence) * (1 - _OUTLIERS) + _OUTLIERS / len(TURNS))
    # Limit the weight of a long line to the weight of two ordinary lines.
    weights = np.minimum(weights / np.median(weights[weights > 0]), 2)
    weights *= min(1.0, _INDEPENDENT_LINES / weights.sum())
    scores = np.log(_PRIOR) + weights @ votes
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    best = int(probabilities.argmax())
    return TURNS[best], float(probabilities[best])


def decide_line_turns(evidence: Sequence[LineEvidence]) -> list[int]:
    """Determine the turn of each line of an upright page, in degrees clockwise.

    Most lines get the turn 0, unless their evidence clearly indicates that they are upside down. Tall lines, such as
    margin notes, get 90 or 270: if there is no evidence, they are assumed to run from the bottom to the top.

    >>> page, note = LineEvidence(300.0, False, 12.0, 0.9), LineEvidence(200.0, True, 8.0)
    >>> decide_line_turns([page, note])
    [0, 270]
    """
    if not evidence:
        return []
    across = np.array([line.tall for line in evidence])
    if not across.all():
        height = np.median([line.length / line.aspect for line in evidence if not line.tall])
        across &= np.array([line.length >= _MIN_ACROSS_HEIGHTS * height for line in evidence])
    # argmax returns the first of equal values, so the preferred turn of each line comes first.
    turns = np.where(across[:, None], (270, 0, 90, 180), TURNS)
    odds = np.where(across[:, None], (0.5, 0, 0.5, 0), (1 - _STRAY_LINE, 0, _STRAY_LINE, 0))
    best = (odds * np.take_along_axis(_likelihoods(evidence), turns // 90, axis=1)).argmax(axis=1)
    decided: list[int] = turns[np.arange(len(turns)), best].tolist()
    return decided


def _likelihoods(evidence: Sequence[LineEvidence]) -> np.ndarray:
    """Return the likelihood of each line's evidence for each of the four turns, float64 (N, 4); rows sum to 1."""
    tall = np.array([line.tall for line in evidence])
    aspects = np.array([line.aspect for line in evidence]) ** _ASPECT_POWER
    own_axis = (aspects / (1 + aspects)).clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    flipped = np.array([0.5 if line.upside_down is None else line.upside_down for line in evidence])
    flipped = flipped.clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    # The classifier only distinguishes the two directions along the axis in which the crop was read.
    read = np.stack([own_axis * (1 - flipped), own_axis * flipped], axis=1)
    unread = np.repeat((1 - own_axis)[:, None] / 2, 2, axis=1)
    likelihoods = np.empty((len(evidence), len(TURNS)))
    likelihoods[:, 0::2] = np.where(tall[:, None], unread, read)
    likelihoods[:, 1::2] = np.where(tall[:, None], read, unread)
    confidences = np.array([[line.confidences.get(turn, _EVEN_CONFIDENCE) for turn in TURNS] for line in evidence])
    likelihoods *= np.exp((confidences - _EVEN_CONFIDENCE) / _CONFIDENCE_SCALE)
    normalised: np.ndarray = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return normalised


def upside_down_probabilities(
    classifier: LineClassifier, page: Tensor, quads: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the probability (N,) that each line is upside down; tall lines are rotated before they are classified.

    ``page`` is (3, H, W). ``quads`` (N, 4, 2) are relative to the page, with corners clockwise from its top left.
    """
    height, width = page.shape[1:]
    tall = lines_are_tall(quads, (height, width))
    corners = turn_quads(quads, np.where(tall, 90, 0)) * (width, height)
    rows, columns = classifier.cfg["input_shape"][1:]
    result = np.zeros(len(quads))
    order: list[int] = []
    found = []
    for batch in cut_lines(page, corners, rows, columns):
        order += batch.indices
        found.append(_compute_upside_down(classifier, batch.data))
    if found:
        (result[order],) = download(torch.cat(found))
    return result


def upside_down_crops(classifier: LineClassifier, crops: Sequence[Tensor], batch_size: int) -> npt.NDArray[np.float64]:
    """Return the probability (N,) that each line is upside down; ``crops`` are images (3, H, W) of single lines."""
    rows, columns = classifier.cfg["input_shape"][1:]
    found = []
    for start in range(0, len(crops), batch_size):
        lines = []
        for crop in crops[start : start + batch_size]:
            height, width = crop.shape[1:]
            turn = np.where(lines_are_tall(WHOLE_CROP, (height, width)), 90, 0)
            for line in cut_lines(crop, turn_quads(WHOLE_CROP, turn) * (width, height), rows, columns):
                lines.append(F.pad(line.data, (0, columns), value=torch.nan)[..., :columns])
        found.append(_compute_upside_down(classifier, torch.cat(lines)))
    (probabilities,) = download(torch.cat(found)) if found else (np.zeros(0),)
    return probabilities.astype(np.float64)


def _compute_upside_down(classifier: LineClassifier, lines: Tensor) -> Tensor:
    """Return the probability (N,) that each of the lines (N, 3, H, W) is upside down, float32 on their device."""
    columns = classifier.cfg["input_shape"][2]
    parameter = next(classifier.parameters())
    data = network_input(lines, classifier.cfg["mean"], classifier.cfg["std"], parameter)[..., :columns]
    data = mark_open_sizes(classifier, F.pad(data, (0, columns - data.shape[3])), 0)
    probabilities: Tensor = classifier(data).float().softmax(1)[:, 1]
    return probabilities


def read_straight_lines(
    model: LineRecognizer, page: Tensor, quads: FloatArray, split_after: str = ""
) -> list[ReadingsByTurn]:
    """Read the lines of a page that is probably upright.

    A box that is taller than wide contains either a line along a margin or a single character such as a 1. Such boxes
    are therefore read three times, at 0, 90 and 270 degrees. This happens in one call with all other lines, so that the
    host waits for the device only once per page.

    ``quads`` (N, 4, 2) are relative to the page, with corners clockwise from its top left. The result has a dictionary
    for each line, from turns to readings. It has the turn 0 and, for tall boxes, also 90 and 270.
    """
    is_tall = lines_are_tall(quads, (page.shape[1], page.shape[2]))
    tall, others = np.flatnonzero(is_tall), np.flatnonzero(~is_tall)
    candidates = np.concatenate([np.repeat(tall, 3), others])
    tried = np.concatenate([np.tile([0, 90, 270], len(tall)), np.zeros(len(others), dtype=np.int64)])
    read = read_turned_lines(model, page, quads[candidates], tried, split_after)
    readings: list[ReadingsByTurn] = [{} for _ in range(len(quads))]
    for index, turn, reading in zip(candidates.tolist(), tried.tolist(), read, strict=True):
        readings[index][turn] = reading
    return readings


def turns_of_straight_lines(readings: Sequence[ReadingsByTurn]) -> tuple[IntArray, dict[int, LineReading]]:
    """Choose the best reading of each line of an upright page. Only lines along a margin can get a turn other than 0.

    ``readings`` are the result of `read_straight_lines`. Return the turn of each line in degrees clockwise (N,), and a
    dict from the index of each line to its reading at this turn.
    """
    turns = np.zeros(len(readings), dtype=np.int64)
    for index, own in enumerate(readings):
        if len(own) > 1:
            sideways = 90 if own[90].confidence >= own[270].confidence else 270
            is_line = sum(len(word.value) for word in own[sideways].words) >= FEWEST_LETTERS
            turns[index] = sideways if is_line and own[sideways].confidence >= own[0].confidence else 0
    return turns, {index: own[int(turns[index])] for index, own in enumerate(readings)}


def turn_of_sideways_page(model: LineRecognizer, page: Tensor, quads: FloatArray) -> tuple[int, float]:
    """Read a few lines of a page mostly of tall boxes, and return its (turn, probability); (0, 0.0) for other pages."""
    shape = (page.shape[1], page.shape[2])
    lengths = np.maximum(*line_sizes(scale_to_pixels(quads, shape)))
    is_tall = lines_are_tall(quads, shape)
    if 2 * lengths[is_tall].sum() <= lengths.sum():
        return 0, 0.0
    few = quads[np.argsort(-lengths, kind="stable")[:LINES_READ_TWICE]]
    return turn_of_read_page(model, page, few, read_straight_lines(model, page, few))


def turn_of_read_page(
    model: LineRecognizer, page: Tensor, quads: FloatArray, readings: Sequence[ReadingsByTurn]
) -> tuple[int, float]:
    """Return (turn, probability) of a page whose lines were read as if the page were upright.

    ``readings`` are the result of `read_straight_lines`. Their confidences show whether the page is turned by 90 or 270
    degrees. If the confidences are low, a few lines are also read upside down. The turn is 0 unless readings at another
    turn have high confidences that clearly exceed the rest.
    """
    shape = (page.shape[1], page.shape[2])
    sample = longest_lines(quads, shape)
    lengths = line_sizes(scale_to_pixels(quads[sample], shape))
    weights = dict(zip(sample.tolist(), np.maximum(*lengths).tolist(), strict=True))
    confidences = {index: {turn: legibility(own) for turn, own in readings[index].items()} for index in weights}
    # Upright text in an unknown script yields no text, and upside-down text yields other letters. Lines without words
    # therefore do not vote.
    wide = [index for index in weights if len(readings[index]) == 1 and legibility(readings[index][0])]
    told = [index for index in weights if readings[index][0].script is not None]
    if 3 * sum(weights[index] for index in told) > 2 * sum(weights.values()):
        # Unreadable scripts are detected only on upright lines. Two thirds of the page are such lines, so it is
        # upright.
        return 0, 0.0
    if wide and _mean(confidences, weights, wide, 0) < READS_WELL:
        few = sorted(wide, key=lambda index: -weights[index])[:LINES_READ_TWICE]
        for index, reading in zip(few, read_turned_lines(model, page, quads[few], 180), strict=True):
            if reading.words:
                confidences[index][180] = reading.confidence
        # A line read in one direction cannot be compared with lines read in both directions.
        confidences = {index: own for index, own in confidences.items() if len(own) > 1}
    asked = list(confidences)
    turn, probability = vote_page_turn(
        line_evidence(quads[asked], shape, None, [confidences[index] for index in asked])
    )
    voters = [index for index in asked if turn in confidences[index]]
    if not turn:
        return 0, probability
    letters = "".join(word.value for index in voters if turn % 180 for word in readings[index][turn].words)
    if not voters or 2 * sum(map(is_east_asian, letters)) > len(letters):
        # Tall lines of East Asian letters are vertical writing, not evidence of the page's turn.
        return 0, 0.0
    # 90 and 270 degrees are compared with each other: at 0 degrees a tall box can only be read as a character.
    against = 0 if turn == 180 else 360 - turn
    upright = _mean(confidences, weights, voters, turn)
    better = upright - _mean(confidences, weights, voters, against)
    return (turn, probability) if upright >= READS_TURNED and better >= MIN_ADVANTAGE else (0, 0.0)


def legibility(reading: LineReading) -> float:
    """Return the confidence of a reading; 0 without words (networks can be sure of spaces) or a readable script."""
    return reading.confidence if reading.words and reading.script is None else 0.0


def _mean(
    confidences: Mapping[int, Mapping[int, float]], weights: Mapping[int, float], chosen: Sequence[int], turn: int
) -> float:
    """Return the mean of ``confidences[line][turn]`` over the ``chosen`` lines, weighted with ``weights[line]``."""
    total = sum(weights[index] for index in chosen)
    return sum(weights[index] * confidences[index][turn] for index in chosen) / max(total, 1e-9)


def page_turn(
    model: LineRecognizer | None, classifier: LineClassifier, page: Tensor, quads: FloatArray
) -> tuple[int, float]:
    """Return (turn, probability) of a page by a vote of its longest lines, or (0, 0.0) if there are no lines.

    ``classifier`` detects upside-down lines. If its evidence is uncertain, or indicates that the page is turned,
    ``model`` also reads a few lines in both directions. If ``model`` is ``None``, only the classifier is used.
    """
    shape = (page.shape[1], page.shape[2])
    sample = quads[longest_lines(quads, shape)]
    flipped = upside_down_probabilities(classifier, page, sample).tolist()
    turn, confidence = vote_page_turn(line_evidence(sample, shape, flipped))
    if model is None or (turn == 0 and confidence >= SURE_OF_TURN) or not len(sample):
        return turn, confidence
    few = sample[:LINES_READ_TWICE]
    ways = (90, 270) if lines_are_tall(few, shape).mean() > 0.5 else (0, 180)
    readings = read_turned_lines(model, page, np.tile(few, (2, 1, 1)), np.repeat(ways, len(few)))
    both = zip(readings[: len(few)], readings[len(few) :], strict=True)
    confidences = [{way: own.confidence for way, own in zip(ways, pair, strict=True)} for pair in both]
    return vote_page_turn(line_evidence(few, shape, flipped[: len(few)], confidences))


def turns_on_upright_page(classifier: LineClassifier, page: Tensor, quads: FloatArray) -> IntArray:
    """Return the turn (N,) of each line of an upright page. Only tall lines are classified."""
    shape = (page.shape[1], page.shape[2])
    tall = np.flatnonzero(lines_are_tall(quads, shape)).tolist()
    known: list[float | None] = [None] * len(quads)
    for index, probability in zip(tall, upside_down_probabilities(classifier, page, quads[tall]).tolist(), strict=True):
        known[index] = probability
    return np.array(decide_line_turns(line_evidence(quads, shape, known)), dtype=np.int64)
