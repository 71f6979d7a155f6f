"""Decide how a page and each of its lines are turned, by a classifier of lines and by how well lines read.

Angles have docTR's sign: a page turned by 90 degrees was turned clockwise, so its lines read from top to bottom; turn
it counter-clockwise by as much to set it upright. Turns are 0, 90, 180 or 270; docTR writes -90 for 270.

The classifier is wrong for a few lines of every page. So each line gives the likelihood of each turn, with some
probability of being wrong altogether, and the lines vote by their length. The turn of a single line is
then decided given the page's.
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

from ....errors import InvalidArgumentError
from .._networks.transfers import download, mark_open_sizes
from .characters import is_east_asian
from .cutting import (
    TALL_RATIO,
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
from .reading import LineReading, LineRecognizer, read_lines

TURNS = (0, 90, 180, 270)
# Evidence of a line's shape for its reading axis: a square has none, odds grow with the aspect squared.
_ASPECT_POWER = 2.0
# A classifier is never believed more than this: it was trained on other pages.
_MAX_BELIEF = 0.97
# The recogniser's mean confidence, at which a reading is as likely right as wrong way up, and by how much more it is e
# times likelier. Text read upside down by the default recogniser rarely exceeds 0.7, upright text rarely falls below.
_EVEN_CONFIDENCE = 0.7
_CONFIDENCE_SCALE = 0.1
# Share of lines that are independent of their page: notes in the margin, stamps, errors of the detector.
_OUTLIERS = 0.1
# Lines of one page err together, so that many of them count as no more than this many that do not.
_INDEPENDENT_LINES = 8.0
# Pages come upright more often than not.
_PRIOR = np.array([0.55, 0.15, 0.15, 0.15])
# For a line along the page's axis: how likely it is the other way up than its page, before it is looked at.
_STRAY_LINE = 0.02
# A line across the page is at least this many times as long as ordinary lines are high: a lone "1"
# or "I" is also taller than wide, but upright.
_MIN_ACROSS_HEIGHTS = 2.0
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SURE_OF_TURN = 0.95
"""Below this probability of the classifier's vote, lines are also read both ways."""
LINES_READ_TWICE = 6
READS_WELL = 0.85
"""A page whose long lines read at least this well is not upside down: such pages rarely exceed 0.75."""
READS_TURNED = 0.8
"""A page or line counts as turned if it reads at least this well when turned, and clearly better."""
MIN_ADVANTAGE = 0.1
LONG_LINE = 3.0
"""A tall box on an upright page, this many times as high as wide, is a line on its side, not a character."""
Readings = dict[int, LineReading]
"""Readings of one line, by the turn at which it was read."""


class LineClassifier(Protocol):
    """A network that classifies pictures of lines as upright or, the second class, upside down."""

    cfg: dict[str, Any]
    """Has ``input_shape``, ``mean`` and ``std``."""

    def parameters(self) -> Iterator[Any]: ...

    def __call__(self, lines: Tensor) -> Any: ...


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """The signs in one line by which its page may be turned.

    Attributes:
        length: Length of its longer side, in any unit that the lines of a page share: the weight of its vote.
        tall: Whether its crop was turned by 90 degrees counter-clockwise (``np.rot90``) before it was looked at.
        aspect: Its extent along the axis that it is then read along, divided by that across; below 1 if the line is, if
            anything, read along the wrong axis.
        upside_down: Probability, by the classifier, that the crop so turned is upside down; ``None`` if unknown.
        confidences: The recogniser's mean confidence by turn of the page, for the turns that were tried.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    length: float
    tall: bool
    aspect: float
    upside_down: float | None = None
    confidences: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length) and self.length >= 0 and np.isfinite(self.aspect) and self.aspect > 0):
            raise InvalidArgumentError(f"length and aspect must be positive, got {self.length} and {self.aspect}")
        if self.upside_down is not None and not 0 <= self.upside_down <= 1:
            raise InvalidArgumentError(f"upside_down={self.upside_down}: it must be a probability in [0, 1]")
        for turn, confidence in self.confidences.items():
            if turn not in TURNS or not 0 <= confidence <= 1:
                raise InvalidArgumentError(f"confidences[{turn}]={confidence}: turns are {TURNS}, values in [0, 1]")


def line_evidence(
    quads: np.ndarray,
    page_shape: tuple[int, int],
    upside_down: Sequence[float | None] | np.ndarray | None = None,
    confidences: Sequence[Mapping[int, float]] | None = None,
) -> list[LineEvidence]:
    """Collect the evidence of lines, relative quads (N, 4, 2) as they lie on the page.

    Those that `lines_are_tall` returns were turned before the networks saw them.

    Raises:
        InvalidArgumentError: Lengths differ or a value is out of range.
    """
    for name, argument in (("upside_down", upside_down), ("confidences", confidences)):
        if argument is not None and len(argument) != len(quads):
            raise InvalidArgumentError(f"{name} has {len(argument)} items for {len(quads)} lines")
    widths, heights = (sides.clip(1e-6) for sides in side_lengths(quads, page_shape))
    tall = lines_are_tall(quads, page_shape)
    aspects = np.where(tall, heights / widths, widths / heights)
    return [
        LineEvidence(
            length,
            is_tall,
            aspect,
            None if upside_down is None or upside_down[index] is None else float(upside_down[index]),  # type: ignore[arg-type]
            {} if confidences is None else confidences[index],
        )
        for index, (length, is_tall, aspect) in enumerate(
            zip(np.maximum(widths, heights).tolist(), tall.tolist(), aspects.tolist(), strict=True)
        )
    ]


def vote_page_turn(evidence: Sequence[LineEvidence]) -> tuple[int, float]:
    """Decide the turn of a page by some of its lines; ten to twenty long ones are plenty.

    >>> line = LineEvidence(length=300.0, tall=True, aspect=10.0, upside_down=0.1)
    >>> turn, confidence = vote_page_turn([line] * 5)
    >>> turn, confidence > 0.95
    (90, True)

    Returns:
        0, 90, 180 or 270, clockwise, and its probability; ``(0, 0.0)`` if nothing is known.
    """
    weights = np.array([line.length for line in evidence])
    if not weights.any():
        return 0, 0.0
    votes = np.log(_likelihoods(evidence) * (1 - _OUTLIERS) + _OUTLIERS / len(TURNS))
    # No line, however long, counts for more than two ordinary ones.
    weights = np.minimum(weights / np.median(weights[weights > 0]), 2)
    weights *= min(1.0, _INDEPENDENT_LINES / weights.sum())
    scores = np.log(_PRIOR) + weights @ votes
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    best = int(probabilities.argmax())
    return TURNS[best], float(probabilities[best])


def decide_line_turns(evidence: Sequence[LineEvidence], page_turn: int) -> list[int]:
    """Decide the turn of each line, clockwise on the page as it lies, given the page's turn.

    A line across the page, such as a note in its margin, has its own turn: without evidence it reads from the bottom to
    the top of the upright page. A line along the page's axis goes with the page unless its evidence clearly
    contradicts.

    >>> page, note = LineEvidence(300.0, False, 12.0, 0.9), LineEvidence(200.0, True, 8.0)
    >>> decide_line_turns([page, note], page_turn=0)
    [0, 270]

    Raises:
        InvalidArgumentError: The turn is not 0, 90, 180 or 270.
    """
    if page_turn not in TURNS:
        raise InvalidArgumentError(f"page_turn={page_turn}: it must be one of {TURNS}")
    if not evidence:
        return []
    along = np.array([line.tall == bool(page_turn % 180) for line in evidence])
    # A line that is near square was turned, or not, by chance: only a clear shape sets it across its page.
    across = ~along & np.array([line.aspect >= TALL_RATIO for line in evidence])
    if along.any():
        height = np.median([line.length / line.aspect for line, own in zip(evidence, along, strict=True) if own])
        across &= np.array([line.length >= _MIN_ACROSS_HEIGHTS * height for line in evidence])
    page, quarter = TURNS.index(page_turn), TURNS.index((page_turn + 270) % 360)
    odds = np.zeros((len(evidence), len(TURNS)))
    odds[~across, page], odds[~across, (page + 2) % 4] = 1 - _STRAY_LINE, _STRAY_LINE
    odds[across, quarter], odds[across, (quarter + 2) % 4] = 0.5, 0.5
    # argmax takes the first of equals: the columns are read from the preferred turn of each line on.
    preferred = np.where(across, quarter, page)
    columns = (preferred[:, None] + np.arange(4)) % 4
    best = np.take_along_axis(odds * _likelihoods(evidence), columns, axis=1).argmax(axis=1)
    return [TURNS[(start + step) % 4] for start, step in zip(preferred.tolist(), best.tolist(), strict=True)]


def _likelihoods(evidence: Sequence[LineEvidence]) -> np.ndarray:
    """Return float64 (N, 4): how well each turn explains each line; rows sum to 1."""
    tall = np.array([line.tall for line in evidence])
    aspects = np.array([line.aspect for line in evidence]) ** _ASPECT_POWER
    own_axis = (aspects / (1 + aspects)).clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    flipped = np.array([0.5 if line.upside_down is None else line.upside_down for line in evidence])
    flipped = flipped.clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    # The classifier judges the axis that the crop was read along, not the other one.
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
    """Return the probability (N,) that each line is upside down; tall lines are turned first.

    ``page`` is (3, H, W), ``quads`` are relative (N, 4, 2), clockwise as they lie on the page.
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
    """Do the same for crops (3, H, W) that are lines each, on the classifier's device."""
    rows, columns = classifier.cfg["input_shape"][1:]
    found = []
    for start in range(0, len(crops), batch_size):
        lines = []
        for crop in crops[start : start + batch_size]:
            height, width = crop.shape[1:]
            corners = turn_quads(WHOLE_CROP, np.where(lines_are_tall(WHOLE_CROP, (height, width)), 90, 0)) * (
                width,
                height,
            )
            lines += [
                F.pad(line.data, (0, columns), value=torch.nan)[..., :columns]
                for line in cut_lines(crop, corners, rows, columns)
            ]
        found.append(_compute_upside_down(classifier, torch.cat(lines)))
    (probabilities,) = download(torch.cat(found)) if found else (np.zeros(0),)
    return probabilities.astype(np.float64)


def _compute_upside_down(classifier: LineClassifier, lines: Tensor) -> Tensor:
    """Return probabilities (N,), float32 on the device, for lines (N, 3, H, W) of one padded width."""
    columns = classifier.cfg["input_shape"][2]
    parameter = next(classifier.parameters())
    data = network_input(lines, classifier.cfg["mean"], classifier.cfg["std"], parameter)[..., :columns]
    data = mark_open_sizes(classifier, F.pad(data, (0, columns - data.shape[3])), 0)
    probabilities: Tensor = classifier(data).float().softmax(1)[:, 1]
    return probabilities


def read_straight_lines(
    model: LineRecognizer, page: Tensor, quads: FloatArray, split_after: str = ""
) -> list[Readings]:
    """Read the lines of a page that is taken for upright.

    A box taller than wide is a line along a margin or a single character such as a 1. It is read as it is and from both
    sides, with all other lines, so that the host waits once for a page. ``quads`` are relative (N, 4, 2), clockwise as
    they lie on the page. The result has readings at 0 degrees, for tall lines also at 90 and 270.
    """
    shape = (page.shape[1], page.shape[2])
    is_tall = lines_are_tall(quads, shape)
    tall, others = np.flatnonzero(is_tall), np.flatnonzero(~is_tall)
    candidates = np.concatenate([np.repeat(tall, 3), others])
    tried = np.concatenate([np.tile([0, 90, 270], len(tall)), np.zeros(len(others), dtype=np.int64)])
    read = read_lines(model, page, scale_to_pixels(turn_quads(quads[candidates], tried), shape), split_after)
    readings: list[Readings] = [{} for _ in range(len(quads))]
    for index, turn, reading in zip(candidates.tolist(), tried.tolist(), read, strict=True):
        readings[index][turn] = reading
    return readings


def turns_of_straight_lines(
    readings: Sequence[Readings], quads: FloatArray, shape: tuple[int, int]
) -> tuple[IntArray, dict[int, LineReading]]:
    """Return the turns (N,), clockwise, and readings of the lines of an upright page.

    Only text that runs along a margin is turned.
    """
    turns = np.zeros(len(quads), dtype=np.int64)
    widths, heights = line_sizes(scale_to_pixels(quads, shape))
    for index, own in enumerate(readings):
        if len(own) > 1:
            turns[index] = _choose_tall(own, float(heights[index] / max(widths[index], 1e-6)))
    return turns, {index: own[int(turns[index])] for index, own in enumerate(readings)}


def _choose_tall(readings: Readings, aspect: float) -> int:
    """Choose among the readings at 0, 90 and 270 degrees."""
    sideways = 90 if readings[90].confidence >= readings[270].confidence else 270
    length = sum(len(word.value) for word in readings[sideways].words)
    is_line = aspect >= LONG_LINE or length >= 3
    return sideways if is_line and readings[sideways].confidence >= readings[0].confidence else 0


def turn_of_sideways_page(model: LineRecognizer, page: Tensor, quads: FloatArray) -> tuple[int, float]:
    """Return turn and probability of a page most of whose text is in tall boxes, else (0, 0.0).

    A few lines decide, before every tall box is read at three turns.
    """
    shape = (page.shape[1], page.shape[2])
    lengths = np.maximum(*line_sizes(scale_to_pixels(quads, shape)))
    is_tall = lines_are_tall(quads, shape)
    if 2 * lengths[is_tall].sum() <= lengths.sum():
        return 0, 0.0
    few = quads[np.argsort(-lengths, kind="stable")[:LINES_READ_TWICE]]
    return turn_of_read_page(model, page, few, read_straight_lines(model, page, few))


def turn_of_read_page(
    model: LineRecognizer, page: Tensor, quads: FloatArray, readings: Sequence[Readings]
) -> tuple[int, float]:
    """Return turn and probability of a page whose lines were read as upright, by how well they read.

    The readings show whether the page lies on its side. A page that reads badly may also be upside down: a few of its
    lines are then read that way. The turn is 0 unless the page reads well, and clearly better, when turned.
    """
    shape = (page.shape[1], page.shape[2])
    sample = longest_lines(quads, shape)
    lengths = line_sizes(scale_to_pixels(quads[sample], shape))
    weights = dict(zip(sample.tolist(), np.maximum(*lengths).tolist(), strict=True))
    confidences = {index: {turn: legibility(own) for turn, own in readings[index].items()} for index in weights}
    # A script that the model does not know reads as nothing when upright, and as other letters when upside down: lines
    # without words have no say.
    wide = [index for index in weights if len(readings[index]) == 1 and legibility(readings[index][0])]
    told = [index for index in weights if readings[index][0].script is not None]
    if 3 * sum(weights[index] for index in told) > 2 * sum(weights.values()):
        # Scripts are detected on upright lines. If a third of a page can be read, it decides.
        return 0, 0.0
    if wide and _mean(confidences, weights, wide, 0) < READS_WELL:
        few = sorted(wide, key=lambda index: -weights[index])[:LINES_READ_TWICE]
        upside_down = turn_quads(quads[few], np.full(len(few), 180))
        for index, reading in zip(few, read_lines(model, page, scale_to_pixels(upside_down, shape)), strict=True):
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
    return (turn, probability) if upright >= READS_TURNED and better >= MIN_ADVANTAGE else (0, 0.0)


def legibility(reading: LineReading) -> float:
    """Return the confidence of a reading; 0 without words or for look-alikes of another script.

    A network may be sure of spaces only.
    """
    return reading.confidence if reading.words and reading.script is None else 0.0


def _mean(
    confidences: Mapping[int, Mapping[int, float]], weights: Mapping[int, float], chosen: Sequence[int], turn: int
) -> float:
    """Return the mean confidence of lines at a turn, weighted by their lengths."""
    total = sum(weights[index] for index in chosen)
    return sum(weights[index] * confidences[index][turn] for index in chosen) / max(total, 1e-9)


def _is_vertical_writing(readings: Sequence[Readings], lines: Sequence[int], turn: int) -> bool:
    """Whether tall lines have East Asian letters: their shape then does not show the page's turn."""
    letters = "".join(word.value for index in lines if turn % 180 for word in readings[index][turn].words)
    return 2 * sum(map(is_east_asian, letters)) > len(letters)


def page_turn(
    model: LineRecognizer | None, classifier: LineClassifier, page: Tensor, quads: FloatArray
) -> tuple[int, float]:
    """Return turn and probability of a page, by a vote of its longest lines; (0, 0.0) without lines.

    The recogniser is used if the classifier is not sure, and before a page counts as turned; without ``model`` the
    classifier decides.
    """
    shape = (page.shape[1], page.shape[2])
    sample = quads[longest_lines(quads, shape)]
    flipped = upside_down_probabilities(classifier, page, sample)
    turn, confidence = vote_page_turn(line_evidence(sample, shape, flipped))
    if model is None or (turn == 0 and confidence >= SURE_OF_TURN) or not len(sample):
        return turn, confidence
    few = sample[:LINES_READ_TWICE]
    ways = (90, 270) if lines_are_tall(few, shape).mean() > 0.5 else (0, 180)
    both = np.concatenate([turn_quads(few, np.full(len(few), way)) for way in ways])
    readings = read_lines(model, page, scale_to_pixels(both, shape))
    confidences = [
        {way: readings[index + place * len(few)].confidence for place, way in enumerate(ways)}
        for index in range(len(few))
    ]
    return vote_page_turn(line_evidence(few, shape, flipped[: len(few)], confidences))


def turns_on_turned_page(classifier: LineClassifier, page: Tensor, quads: FloatArray, turn: int) -> IntArray:
    """Return the turn (N,) of each line on a page of known turn; lines across it are classified."""
    shape = (page.shape[1], page.shape[2])
    across = np.flatnonzero(lines_are_tall(quads, shape) != bool(turn % 180))
    known: list[float | None] = [None] * len(quads)
    for index, probability in zip(across, upside_down_probabilities(classifier, page, quads[across]), strict=True):
        known[index] = float(probability)
    return np.array(decide_line_turns(line_evidence(quads, shape, known), turn), dtype=np.int64).reshape(-1)
