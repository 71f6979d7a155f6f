"""Heavy type in a picture, by the thickness of strokes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._content import Boxes

__all__ = ["bold_words"]

# Rows and columns of pixels that are looked at in each word; words that are higher are looked at in every n-th pixel.
_ROWS, _COLUMNS = 24, 64
_WORDS_AT_ONCE = 1024
# Strokes this much thicker than those of most words of the page are heavy.
_HEAVY = 1.3


def bold_words(
    ink: NDArray[np.uint8], words: Boxes, texts: Sequence[str], line_ids: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether words are set in heavy type, bool (N,).

    The thickness of strokes is compared with the height of the line, and that with what most of the page has.

    Args:
        ink: uint8 (H, W).
        words: float64 (N, 4): boxes of words.
        texts: The N words.
        line_ids: int64 (N,): the lines of the words.
    """
    thick = np.full(len(words), np.nan)
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        thick[part] = _stroke_widths(ink, words[part])
    has_letters = np.array([any(letter.isalnum() for letter in text) for text in texts], bool)
    thick[~has_letters] = np.nan
    if not np.isfinite(thick).any():
        return np.zeros(len(words), bool)
    heights = _line_heights(words, line_ids)
    ratio = thick / np.maximum(heights, 1)
    lengths = np.array([len(text) for text in texts])
    known = np.isfinite(ratio)
    order = np.argsort(ratio[known])
    summed = np.cumsum(lengths[known][order])
    usual = ratio[known][order][np.searchsorted(summed, summed[-1] * 0.4)]
    is_bold: NDArray[np.bool_] = known & (np.nan_to_num(ratio) > _HEAVY * usual)
    return is_bold


def _line_heights(words: Boxes, line_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """The height of the highest word of the line of each word."""
    _, names = np.unique(line_ids, return_inverse=True)
    highest = np.zeros(int(names.max(initial=-1)) + 1)
    np.maximum.at(highest, names, words[:, 3] - words[:, 1])
    heights: NDArray[np.float64] = highest[names]
    return heights


def _stroke_widths(ink: NDArray[np.uint8], words: Boxes) -> NDArray[np.float64]:
    """The mean thickness of the strokes of words in pixels, float64 (N,); NaN where there is no contrast."""
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
    share = is_word[:, ::2, ::2].reshape(len(words), -1).sum(axis=1)
    ordered = np.sort(sample, axis=1)
    size = ordered.shape[1]

    def level(quantile: float) -> NDArray[np.int16]:
        at = size - share + (share * quantile).astype(np.int64)
        levels: NDArray[np.int16] = ordered[np.arange(len(words)), at.clip(0, size - 1)].astype(np.int16)
        return levels

    low, middle, high = level(0.03), level(0.5), level(0.97)
    # The ink is on the side of the middle that is further away: letters may be darker than what is around, or brighter.
    is_dark = high - middle >= middle - low
    limit = np.where(is_dark, middle + high, middle + low) / 2
    is_ink = np.where(is_dark[:, None, None], patches > limit[:, None, None], patches < limit[:, None, None]) & is_word
    area = is_ink.sum(axis=(1, 2))
    across = (is_ink[:, :, 1:] != is_ink[:, :, :-1]).sum(axis=(1, 2))
    down = (is_ink[:, 1:] != is_ink[:, :-1]).sum(axis=(1, 2))
    widths: NDArray[np.float64] = np.where(across + down > 0, 2 * area / np.maximum(across + down, 1), np.nan) * steps
    widths[(np.maximum(high - middle, middle - low) < 30) | (share < 8)] = np.nan
    return widths
