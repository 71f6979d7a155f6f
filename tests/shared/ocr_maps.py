"""A probability map by formula, with text and confusing noise.

Used by the tests and, with docTR, by ``record_ocr_detection.py``; needs numpy only.
"""

from __future__ import annotations

import numpy as np

from ocr_weights import uniform

HEIGHT, WIDTH = 192, 256


def formula_map(tilt: float) -> np.ndarray:
    """Soft-edged words, float32 (HEIGHT, WIDTH), at angles of up to ``tilt`` radians.

    Some touch each other or the border; with them a ring around a word, a word with a hole, a line one pixel thin, and
    a speck.
    """
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    values = np.zeros((HEIGHT, WIDTH))
    for x, y, length, thickness, turn in uniform("words", (36, 5)):
        angle = tilt * turn
        dx, dy = columns - WIDTH * (x + 1) / 2, rows - HEIGHT * (y + 1) / 2
        along = np.abs(dx * np.cos(angle) + dy * np.sin(angle))
        across = np.abs(dy * np.cos(angle) - dx * np.sin(angle))
        depth = np.minimum(14 + 9 * length - along, 4 + 2 * thickness - across)
        values = np.maximum(values, 0.95 / (1 + np.exp(-depth)))
    corner = np.hypot(rows - 40, columns - 210)
    values[corner < 30] = 0
    values[(corner > 20) & (corner < 26)] = 0.8
    values[36:44, 200:220] = 0.7
    values[100:112, 10:60] = 0.75
    values[104:107, 20:24] = 0.02
    values[150, :] = 0.9
    values[5:7, 100:102] = 0.9
    return values.astype(np.float32)


def random_map(name: str, height: int, width: int, smoothing: int) -> np.ndarray:
    """Blotches of every shape: noise averaged over squares of ``smoothing`` pixels, float64 in [0, 1]."""
    noise = uniform(name, (height + smoothing, width + smoothing))
    table = noise.cumsum(axis=0).cumsum(axis=1)
    sums = table[smoothing:, smoothing:] - table[:-smoothing, smoothing:]
    sums = sums - (table[smoothing:, :-smoothing] - table[:-smoothing, :-smoothing])
    ranks = sums.ravel().argsort().argsort().reshape(sums.shape)
    return ranks / (ranks.size - 1)
