"""Heavy type in a picture, by how much ink there is in words, and how thick their strokes are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._content import Boxes

__all__ = ["bold_words"]

# Rows and columns of pixels that are looked at in each word; words that are higher are looked at in every n-th pixel.
_ROWS, _COLUMNS = 24, 64
_WORDS_AT_ONCE = 1024
# Words that have so much more ink than most of the page are heavy.
_HEAVY = 1.2
# Pixels that differ by less than this from what is around are no ink.
_MIN_CONTRAST = 30


def bold_words(
    ink: NDArray[np.uint8], words: Boxes, texts: Sequence[str], line_ids: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether words are set in heavy type, bool (N,).

    Each word is compared with what most of the page has, together with its neighbours on the line, as heavy words come
    several at a time. Where most of the page is heavy, nothing is.

    Args:
        ink: uint8 (H, W).
        words: float64 (N, 4): boxes of words.
        texts: The N words.
        line_ids: int64 (N,): the lines of the words.
    """
    heights = _line_heights(words, line_ids)
    weight = np.full(len(words), np.nan)
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        weight[part] = _weights(ink, words[part], heights[part])
    num_letters = np.array([sum(map(str.isalnum, text)) for text in texts], np.int64)
    weight[num_letters == 0] = np.nan
    known: NDArray[np.bool_] = np.isfinite(weight)
    if not known.any():
        return known
    order = np.argsort(weight[known])
    summed = np.cumsum(num_letters[known][order])
    usual = weight[known][order][np.searchsorted(summed, 0.4 * summed[-1])]
    score = np.where(known, np.log(np.where(known, weight, 1) / usual), 0.0)
    # What is said of a letter or two depends on which they are.
    score *= num_letters / (num_letters + 0.5)
    total, share = score.copy(), known.astype(np.float64)
    for one, other in ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))):
        is_beside = 0.5 * (known[one] & known[other] & (line_ids[one] == line_ids[other]))
        total[one] += is_beside * score[other]
        share[one] += is_beside
    is_bold: NDArray[np.bool_] = known & (total > np.log(_HEAVY) * share)
    return is_bold


def _line_heights(words: Boxes, line_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """The height of the highest word of the line of each word."""
    _, names = np.unique(line_ids, return_inverse=True)
    highest = np.ones(int(names.max(initial=-1)) + 1)
    np.maximum.at(highest, names, words[:, 3] - words[:, 1])
    heights: NDArray[np.float64] = highest[names]
    return heights


def _weights(ink: NDArray[np.uint8], words: Boxes, heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How heavy words are, float64 (N,); NaN where there is no contrast.

    It is the share of ink in the rows of letters, of which words of any height have some that are full, times the root
    of the thickness of strokes as a share of the height of the line.
    """
    height, width = ink.shape
    x0, y0, x1, y1 = np.round(words).astype(np.int64).T
    x0, x1 = x0.clip(0, width - 1), x1.clip(1, width)
    y0, y1 = y0.clip(0, height - 1), y1.clip(1, height)
    steps = np.maximum(1, -(-(y1 - y0) // _ROWS))
    rows = y0[:, None] + np.arange(_ROWS) * steps[:, None]
    columns = x0[:, None] + np.arange(_COLUMNS) * steps[:, None]
    is_row, is_column = rows < y1[:, None], columns < x1[:, None]
    patches = ink[rows.clip(0, height - 1)[:, :, None], columns.clip(0, width - 1)[:, None, :]]
    is_word = is_row[:, :, None] & is_column[:, None, :]
    sample = np.where(is_word, patches, 0)[:, ::2, ::2].reshape(len(words), -1)
    count = is_word[:, ::2, ::2].sum(axis=(1, 2))
    ordered = np.sort(sample, axis=1)
    size = ordered.shape[1]

    def level(quantile: float) -> NDArray[np.float32]:
        at = size - count + (count * quantile).astype(np.int64)
        levels: NDArray[np.float32] = ordered[np.arange(len(words)), at.clip(0, size - 1)].astype(np.float32)
        return levels

    low, middle, high = level(0.03), level(0.5), level(0.97)
    # The ink is on the side of the middle that is further away: letters may be darker than what is around, or brighter.
    far = np.where(high - middle >= middle - low, high, low) - middle
    is_clear = (np.abs(far) >= _MIN_CONTRAST) & (count >= 8)
    far = np.where(is_clear, far, 1.0)
    amount = ((patches - middle[:, None, None]) / far[:, None, None]).clip(0, 1) * is_word
    across = np.abs(np.diff(amount, axis=2)).sum(axis=(1, 2))
    down = np.abs(np.diff(amount, axis=1)).sum(axis=(1, 2))
    thickness = 2 * amount.sum(axis=(1, 2)) / np.maximum(across + down, 1) * steps / heights
    shares = np.sort(amount.sum(axis=2) / np.maximum(is_column.sum(axis=1), 1)[:, None], axis=1)
    num_rows = is_row.sum(axis=1)
    full = shares[np.arange(len(words)), (_ROWS - num_rows + 0.7 * num_rows).astype(np.int64).clip(0, _ROWS - 1)]
    weights: NDArray[np.float64] = np.where(is_clear, full * np.sqrt(thickness), np.nan)
    weights[~(weights > 0)] = np.nan
    return weights
