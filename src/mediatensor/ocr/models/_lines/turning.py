"""The turn of a page and of each of its lines, by a classifier of lines and by how well lines read.

Angles have docTR's sign: a page turned by 90 degrees was turned clockwise, so its lines read from top to bottom; turn
it counter-clockwise by as much to set it upright. Turns are 0, 90, 180 or 270; docTR writes -90 for 270.

One classifier alone is wrong for a few lines of every page. Each line therefore says how likely each turn is, with some
probability of being wrong altogether, and the lines vote by their length; the turn of a single line is then decided
knowing that of the page.
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
from .._networks.transfers import download, with_open_sizes
from .cutting import cut_lines, network_input
from .geometry import TALL_RATIO, WHOLE_CROP, lines_are_tall, side_lengths, turned

__all__ = [
    "TURNS",
    "LineClassifier",
    "LineEvidence",
    "decide_line_turns",
    "line_evidence",
    "upside_down_crops",
    "upside_down_probabilities",
    "vote_page_turn",
]

TURNS = (0, 90, 180, 270)

# How a line's shape speaks for the axis that it is read along: a square has no say, odds grow with the aspect squared.
_ASPECT_POWER = 2.0
# A classifier is never believed more than this: it was trained on other pages.
_MAX_BELIEF = 0.97
# The recogniser's mean confidence, at which a reading is as likely right as wrong way up, and by how much more it is e
# times likelier. Text read upside down by the default recogniser rarely exceeds 0.7, upright text rarely falls below.
_EVEN_CONFIDENCE = 0.7
_CONFIDENCE_SCALE = 0.1
# The part of lines that tell nothing of their page: notes in the margin, stamps, errors of the detector.
_OUTLIERS = 0.1
# Lines of one page err together, so that many of them count as no more than this many that do not.
_INDEPENDENT_LINES = 8.0
# Pages come upright more often than not.
_PRIOR = np.array([0.55, 0.15, 0.15, 0.15])
# For a line along the page's axis: how likely it is the other way up than its page, before it is looked at.
_STRAY_LINE = 0.02
# A line across the page is at least this many times as long as ordinary lines are high: a lone "1" or "I" is taller
# than wide too, but upright.
_MIN_ACROSS_HEIGHTS = 2.0


class LineClassifier(Protocol):
    """A network that says of pictures of lines whether they are upside down: the second of its two classes."""

    cfg: dict[str, Any]
    """Has ``input_shape``, ``mean`` and ``std``."""

    def parameters(self) -> Iterator[Any]: ...

    def __call__(self, lines: Tensor) -> Any: ...


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """The signs in one line of text by which its page may be turned.

    Attributes:
        length: The length of its longer side, in any unit that the lines of a page share: the weight of its vote.
        tall: Whether its crop was turned by 90 degrees counter-clockwise (``np.rot90``) before it was looked at,
            because it is taller than wide.
        aspect: Its extent along the axis that it is then read along, divided by that across; below 1 where the line
            is, if anything, read along the wrong one.
        upside_down: The probability, by the 0/180 classifier, that the crop so turned is upside down; None if not
            known.
        confidences: The recogniser's mean confidence by turn of the page, for those that were tried: ``{0: 0.97, 180:
            0.4}``.

    Raises:
        InvalidArgumentError: if a value is out of range.
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
    """Collect the evidence of lines.

    Args:
        quads: Relative ``(N, 4, 2)``, TL, TR, BR, BL as they lie on the page; those that `lines_are_tall` names were
            turned before the networks saw them.
        page_shape: Height and width of the page in pixels.
        upside_down: N probabilities by the 0/180 classifier, or None.
        confidences: N mappings from turn to the recogniser's mean confidence, or None.

    Returns:
        The evidence of each line.

    Raises:
        InvalidArgumentError: if lengths differ or a value is out of range.
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
    """Decide the turn of a page.

    >>> line = LineEvidence(length=300.0, tall=True, aspect=10.0, upside_down=0.1)
    >>> turn, confidence = vote_page_turn([line] * 5)
    >>> turn, confidence > 0.95
    (90, True)

    Args:
        evidence: The evidence of some lines of the page; ten to twenty long ones are plenty.

    Returns:
        0, 90, 180 or 270, clockwise, and the probability of it in [0, 1]; ``(0, 0.0)`` where nothing is known.
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
    """Decide the turn of each line of a page whose turn is known.

    A line across the page, such as a note in its margin, goes its own way, and reads from the bottom to the top of the
    upright page if nothing else is known. A line along the page's axis goes with the page unless what is known of it
    says most clearly otherwise.

    >>> page, note = LineEvidence(300.0, False, 12.0, 0.9), LineEvidence(200.0, True, 8.0)
    >>> decide_line_turns([page, note], page_turn=0)
    [0, 270]

    Args:
        evidence: The evidence of each line.
        page_turn: The turn of the page: 0, 90, 180 or 270.

    Returns:
        0, 90, 180 or 270 for each line, clockwise on the page as it lies.

    Raises:
        InvalidArgumentError: if the turn is none of these.
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
    """float64 ``(N, 4)``: how well each turn explains each line; rows sum to 1."""
    tall = np.array([line.tall for line in evidence])
    aspects = np.array([line.aspect for line in evidence]) ** _ASPECT_POWER
    own_axis = (aspects / (1 + aspects)).clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    flipped = np.array([0.5 if line.upside_down is None else line.upside_down for line in evidence])
    flipped = flipped.clip(1 - _MAX_BELIEF, _MAX_BELIEF)
    # The classifier speaks for the axis that the crop was read along, and knows nothing of the other one.
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
    """The probability that each line is upside down. Tall lines are turned by 90 degrees first.

    Args:
        classifier: The network.
        page: (3, H, W), uint8 or floats in [0, 1].
        quads: Relative (N, 4, 2), clockwise as they lie on the page.

    Returns:
        (N,), in [0, 1].
    """
    height, width = page.shape[1:]
    tall = lines_are_tall(quads, (height, width))
    corners = turned(quads, np.where(tall, 90, 0)) * (width, height)
    rows, columns = classifier.cfg["input_shape"][1:]
    result = np.zeros(len(quads))
    order: list[int] = []
    found = []
    for batch in cut_lines(page, corners, rows, columns):
        order += batch.indices
        found.append(_upside_down(classifier, batch.data))
    if found:
        (result[order],) = download(torch.cat(found))
    return result


def upside_down_crops(classifier: LineClassifier, crops: Sequence[Tensor], batch_size: int) -> npt.NDArray[np.float64]:
    """The same for crops that are lines, each on its own.

    Args:
        classifier: The network.
        crops: (3, H, W), uint8 or floats in [0, 1], on its device.
        batch_size: Crops that go through the network together.

    Returns:
        (N,), in [0, 1].
    """
    rows, columns = classifier.cfg["input_shape"][1:]
    found = []
    for start in range(0, len(crops), batch_size):
        lines = []
        for crop in crops[start : start + batch_size]:
            height, width = crop.shape[1:]
            corners = turned(WHOLE_CROP, np.where(lines_are_tall(WHOLE_CROP, (height, width)), 90, 0)) * (width, height)
            lines += [
                F.pad(line.data, (0, columns), value=torch.nan)[..., :columns]
                for line in cut_lines(crop, corners, rows, columns)
            ]
        found.append(_upside_down(classifier, torch.cat(lines)))
    (probabilities,) = download(torch.cat(found)) if found else (np.zeros(0),)
    return probabilities.astype(np.float64)


def _upside_down(classifier: LineClassifier, lines: Tensor) -> Tensor:
    """Probabilities (N,) on the device, float32, for lines (N, 3, H, W) of one padded width."""
    columns = classifier.cfg["input_shape"][2]
    parameter = next(classifier.parameters())
    data = network_input(lines, classifier.cfg["mean"], classifier.cfg["std"], parameter)[..., :columns]
    data = with_open_sizes(classifier, F.pad(data, (0, columns - data.shape[3])), 0)
    probabilities: Tensor = classifier(data).float().softmax(1)[:, 1]
    return probabilities
