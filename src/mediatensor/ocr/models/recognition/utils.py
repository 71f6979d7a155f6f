"""Read words too wide for a network of fixed width: in overlapping pieces, joined as text.

The rules are docTR's, so that its models give the same words as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ....errors import InvalidArgumentError

__all__ = ["merge_multi_strings", "merge_strings"]

_CUT_OFF = 3
"""Characters of the overlap that do not count: one lost at each side of the cut, and one since an overlap of
one character is at index 0.
"""


@dataclass(frozen=True)
class CropPieces:
    """Where the pieces of one crop are among all pieces.

    Attributes:
        start: Index of the first piece.
        stop: One past the last piece.
        last_overlap: Share of its width that the last piece overlaps with the one before.
    """

    start: int
    stop: int
    last_overlap: float


def split_crops(
    crops: Sequence[torch.Tensor], max_ratio: float, target_ratio: float, split_overlap_ratio: float
) -> tuple[list[torch.Tensor], list[CropPieces]]:
    """Cut crops (..., H, W) that are too wide into overlapping pieces, as views.

    Args:
        crops: The images.
        max_ratio: Width by height above which a crop is cut.
        target_ratio: Width by height of a piece.
        split_overlap_ratio: Share of its width that a piece overlaps with the one before, between 0 and 1. The last
            piece ends where the crop ends and may overlap more.

    Returns:
        All pieces, and which pieces each crop has; a crop that is not cut is its only piece.

    Raises:
        InvalidArgumentError: ``split_overlap_ratio`` is not between 0 and 1.

    >>> import torch
    >>> pieces, of_crop = split_crops([torch.zeros(3, 10, 100)], max_ratio=8, target_ratio=6, split_overlap_ratio=0.5)
    >>> [piece.shape[-1] for piece in pieces], of_crop[0].stop, round(of_crop[0].last_overlap, 3)
    ([60, 60, 60], 3, 0.833)
    """
    if not 0 < split_overlap_ratio < 1:
        raise InvalidArgumentError(
            f"split_overlap_ratio={split_overlap_ratio}; expected between 0 and 1, both excluded"
        )
    pieces: list[torch.Tensor] = []
    of_crop = []
    for crop in crops:
        height, width = crop.shape[-2:]
        starts, piece_width = [0], width
        if width > max_ratio * height:
            piece_width = min(max(1, math.ceil(height * target_ratio)), width)
            starts = _piece_starts(width, piece_width, math.floor(piece_width * split_overlap_ratio))
        last_overlap = (starts[-2] + piece_width - starts[-1]) / piece_width if len(starts) > 1 else 0.0
        of_crop.append(CropPieces(len(pieces), len(pieces) + len(starts), last_overlap))
        pieces += [crop[..., start : start + piece_width] for start in starts]
    return pieces, of_crop


def _piece_starts(width: int, piece_width: int, overlap: int) -> list[int]:
    """Return the first columns of pieces that cover a width, the last one flush with its end."""
    starts = list(range(0, width - piece_width + 1, piece_width - overlap))
    if starts[-1] + piece_width < width:
        starts.append(width - piece_width)
    return starts


def remap_preds(
    preds: Sequence[tuple[str, float]], of_crop: Sequence[CropPieces], overlap_ratio: float
) -> list[tuple[str, float]]:
    """Join words and confidences of pieces into crops; the confidence is the mean over pieces.

    >>> remap_preds([("Donau", 0.5), ("naudampf", 1.0)], [CropPieces(0, 2, 0.5)], 0.5)
    [('Donaudampf', 0.75)]
    """
    words = []
    for own in of_crop:
        texts, confidences = zip(*preds[own.start : own.stop], strict=True)
        text = merge_multi_strings(list(texts), overlap_ratio, own.last_overlap)
        words.append((text, sum(confidences) / len(confidences)))
    return words


def merge_strings(a: str, b: str, overlap_ratio: float) -> str:
    """Join two readings that overlap by some characters.

    The last character of ``a`` and the first of ``b`` may be cut through and are not trusted. Of all overlaps of the
    rest, one that agrees everywhere is taken, the closest to the expected length if there are several; without one, the
    expected overlap is weighed against the disagreements.

    Args:
        a: The left text.
        b: The right text.
        overlap_ratio: Share of ``b`` that is expected to repeat the end of ``a``.

    >>> from mediatensor.ocr.models.recognition.utils import merge_strings
    >>> merge_strings("abcdi", "cdefgh", 0.5)
    'abcdefgh'
    """
    if min(len(a), len(b)) <= 1:
        return a + b
    left, right = a[:-1], b[1:]
    expected = round(len(b) * overlap_ratio) - _CUT_OFF
    disagreements = [
        sum(x != y for x, y in zip(left[-length:], right, strict=False))
        for length in range(1, min(len(left), len(right)) + 1)
    ]
    exact = [index for index, count in enumerate(disagreements) if count == 0]
    if exact:
        best = min(exact, key=lambda index: abs(index - expected))
    elif expected < 0:
        # No overlap to speak of: nothing but the two cut characters may be lost, and not even these when it is less.
        return left + right if expected == -1 else a + b
    else:
        costs = [count + abs(index - expected) for index, count in enumerate(disagreements)]
        best = costs.index(min(costs))
    return left + right[best + 1 :]


def merge_multi_strings(seq_list: Sequence[str], overlap_ratio: float, last_overlap_ratio: float) -> str:
    """Join the readings of the pieces of one crop, from left to right; empty for no texts.

    Args:
        seq_list: The texts, in order.
        overlap_ratio: Share of a piece that overlaps with the one before.
        last_overlap_ratio: The same for the last piece.

    >>> from mediatensor.ocr.models.recognition.utils import merge_multi_strings
    >>> merge_multi_strings(["Donaud", "audampfs", "mpfschiff"], 0.5, 0.5)
    'Donaudampfschiff'
    """
    joined = seq_list[0] if seq_list else ""
    for index, text in enumerate(seq_list[1:], start=1):
        joined = merge_strings(joined, text, last_overlap_ratio if index == len(seq_list) - 1 else overlap_ratio)
    return joined
