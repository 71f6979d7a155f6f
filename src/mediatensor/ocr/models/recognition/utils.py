"""Cut words that are too wide for a network of fixed width into overlapping pieces, and join the texts of the pieces.

The rules are the same as docTR's, so that models return the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import torch

from ....errors import InvalidArgumentError

__all__ = ["merge_multi_strings", "merge_strings"]

_CUT_OFF = 3
"""Number of characters to subtract from the overlap: one lost at each side of the cut, and one because an overlap of
one character has index 0.
"""


def split_crops(
    crops: Sequence[torch.Tensor], max_ratio: float, target_ratio: float, split_overlap_ratio: float
) -> tuple[list[torch.Tensor], list[tuple[int, float]]]:
    """Cut wide crops (..., H, W) into overlapping pieces.

    Return the pieces of all crops. For each crop, also return the number of its pieces, and the overlap of the last
    piece with the previous piece, as a share of a piece's width.

    A crop is cut only if its ratio of width to height exceeds ``max_ratio``. Each of its pieces then has the ratio
    ``target_ratio``, and overlaps the previous piece by ``split_overlap_ratio`` of a piece's width. The last piece ends
    at the edge of the crop, so it may overlap more. Pieces are views: pixels are not copied.

    >>> import torch
    >>> pieces, of_crop = split_crops([torch.zeros(3, 10, 100)], max_ratio=8, target_ratio=6, split_overlap_ratio=0.5)
    >>> [piece.shape[-1] for piece in pieces], of_crop
    ([60, 60, 60], [(3, 0.8333333333333334)])
    """
    if not 0 < split_overlap_ratio < 1:
        raise InvalidArgumentError(
            f"split_overlap_ratio={split_overlap_ratio}; expected between 0 and 1, both excluded"
        )
    pieces: list[torch.Tensor] = []
    of_crop = []
    for crop in crops:
        height, width = crop.shape[-2:]
        piece_width = min(max(1, math.ceil(height * target_ratio)), width) if width > max_ratio * height else width
        step = piece_width - math.floor(piece_width * split_overlap_ratio)
        starts = [*range(0, width - piece_width, step), width - piece_width]
        last_overlap = (starts[-2] + piece_width - starts[-1]) / piece_width if len(starts) > 1 else 0.0
        of_crop.append((len(starts), last_overlap))
        pieces += [crop[..., start : start + piece_width] for start in starts]
    return pieces, of_crop


def remap_preds(
    preds: Iterable[tuple[str, float]], of_crop: Iterable[tuple[int, float]], overlap_ratio: float
) -> list[tuple[str, float]]:
    """Join the texts that were read in the pieces of each crop. The confidence of a crop is the mean over its pieces.

    >>> remap_preds([("Donau", 0.5), ("naudampf", 1.0)], [(2, 0.5)], 0.5)
    [('Donaudampf', 0.75)]
    """
    words, rest = [], iter(preds)
    for number, last_overlap in of_crop:
        texts, confidences = zip(*islice(rest, number), strict=True)
        words.append((merge_multi_strings(texts, overlap_ratio, last_overlap), sum(confidences) / number))
    return words


def merge_strings(a: str, b: str, overlap_ratio: float) -> str:
    """Join the texts of two overlapping parts of an image, so that the characters in the overlap are not repeated.

    The last character of ``a`` and the first character of ``b`` are ignored, because a cut may run through them. The
    function compares the end of ``a`` with the start of ``b`` for all lengths of the overlap. If all characters agree
    for several lengths, the length closest to the expected one is used. If they agree for none, the length with the
    lowest penalty is used: the number of differing characters, plus the difference from the expected length.

    Args:
        a: The left text.
        b: The right text.
        overlap_ratio: Expected share of ``b`` that repeats the end of ``a``.

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
        # The expected overlap is at most the two cut characters: drop these, or nothing if the overlap is even smaller.
        return left + right if expected == -1 else a + b
    else:
        costs = [count + abs(index - expected) for index, count in enumerate(disagreements)]
        best = costs.index(min(costs))
    return left + right[best + 1 :]


def merge_multi_strings(seq_list: Sequence[str], overlap_ratio: float, last_overlap_ratio: float) -> str:
    """Join the texts of several overlapping parts of an image. An empty list gives an empty string.

    Args:
        seq_list: The text of each part, from left to right.
        overlap_ratio: Share of each part's width that overlaps the previous part.
        last_overlap_ratio: Share of the last part's width that overlaps the previous part.

    >>> from mediatensor.ocr.models.recognition.utils import merge_multi_strings
    >>> merge_multi_strings(["Donaud", "audampfs", "mpfschiff"], 0.5, 0.5)
    'Donaudampfschiff'
    """
    joined = seq_list[0] if seq_list else ""
    for index, text in enumerate(seq_list[1:], start=1):
        joined = merge_strings(joined, text, last_overlap_ratio if index == len(seq_list) - 1 else overlap_ratio)
    return joined
