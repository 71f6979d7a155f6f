"""How likely a word is right, from how sure the recogniser was of its characters.

A network that was trained until it is sure of everything says 0.99 where it is right nineteen times in twenty (Guo et
al., "On Calibration of Modern Neural Networks", 2017, https://arxiv.org/abs/1706.04599). A logistic function, fitted to
pages whose text is known, maps what it says to how often it is right (Platt, "Probabilistic Outputs for Support Vector
Machines", 1999). ``python -m benchmarks.ocr_calibration --fit`` fits the numbers below, and shows how well they hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["word_confidence"]

LEAST, GREATEST = 1e-4, 1 - 1e-5
"""Confidences of characters are taken as at least and at most this, so that logarithms stay finite."""
OFFSET, OF_LEAST, OF_ALL = 0.34, 0.63, 0.65
"""The log of the odds that a word is right: a constant, and the weights of the least sure character, by the log of its
odds, and of all characters, by the log of their product."""
CEILING = 0.983
"""Not even words of the surest characters are right more often than this on scanned pages: what is printed badly looks
like another letter, not like none."""


def word_confidence(confidences: Sequence[float]) -> float:
    """The probability that a word is right, letter by letter.

    Args:
        confidences: The probabilities of its characters, as the recogniser gave them; at least one.

    Returns:
        In [0, 1]. It grows with each of the confidences.

    >>> round(word_confidence([0.999, 0.998, 0.999]), 2), round(word_confidence([0.999, 0.6, 0.999]), 2)
    (0.97, 0.56)
    """
    known = [min(max(confidence, LEAST), GREATEST) for confidence in confidences]
    least = min(known)
    odds = OFFSET + OF_LEAST * math.log(least / (1 - least)) + OF_ALL * sum(map(math.log, known))
    return CEILING / (1 + math.exp(-odds))
