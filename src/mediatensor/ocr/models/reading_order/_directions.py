"""The directions in which text is read, and which of them a text has."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

from ....errors import InvalidArgumentError

__all__ = ["DIRECTIONS", "check_direction", "detect_text_direction", "to_left_to_right"]

DIRECTIONS = ("ltr", "rtl", "ttb-rtl", "ttb-ltr")

# ISO 639 codes of languages written from right to left: what decides when a text has no letters at all.
_RIGHT_TO_LEFT_LANGUAGES = frozenset(
    ("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ku", "nqo", "ps", "sd", "syr", "ug", "ur", "yi")
)


def detect_text_direction(texts: Iterable[str], language: str | None = None) -> str:
    """Tell whether texts read from left to right or from right to left.

    The letters vote, each by its bidirectional class in Unicode: digits and punctuation have no voice. Vertical
    writing cannot be told from characters and is never returned.

    >>> from mediatensor.ocr.models.reading_order import detect_text_direction
    >>> detect_text_direction(["Total", "12.50"])
    'ltr'
    >>> detect_text_direction(["שלום", "12.50"])
    'rtl'
    >>> detect_text_direction(["12.50"], language="fa")
    'rtl'

    Args:
        texts: Words or lines; what is not a string is passed over.
        language: An ISO 639 code, asked only where no letter votes.

    Returns:
        ``"ltr"`` or ``"rtl"``; ``"ltr"`` when the votes are equal.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if isinstance(text, str):
            counts.update(text)
    left = right = 0
    for character, count in counts.items():
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            left += count
        elif kind in ("R", "AL"):
            right += count
    if left == right == 0 and isinstance(language, str):
        return "rtl" if language.split("-")[0].lower() in _RIGHT_TO_LEFT_LANGUAGES else "ltr"
    return "rtl" if right > left else "ltr"


def check_direction(direction: str, *, auto: bool = False) -> None:
    """Refuse a direction that is not one.

    Args:
        direction: What the user gave.
        auto: Whether ``"auto"`` is accepted too.

    Raises:
        InvalidArgumentError: if it is none of those accepted.
    """
    accepted = ("auto", *DIRECTIONS) if auto else DIRECTIONS
    if direction not in accepted:
        raise InvalidArgumentError(f"invalid reading direction {direction!r}, should be one of {accepted}")


def to_left_to_right(boxes: np.ndarray, direction: str) -> np.ndarray:
    """Mirror and turn boxes so that reading them from left to right, line by line, is reading them in ``direction``.

    The extent of the boxes themselves is the mirror's frame, so relative and absolute coordinates both do.

    Args:
        boxes: float64 ``(N, 4)``, ``xmin, ymin, xmax, ymax``.
        direction: One of ``DIRECTIONS``.

    Returns:
        float64 ``(N, 4)``.
    """
    if direction == "ltr" or len(boxes) == 0:
        return boxes
    left, top, right, bottom = boxes.T
    if direction == "ttb-ltr":
        return np.stack([top, left, bottom, right], axis=1)
    extent = left.min() + right.max()
    if direction == "rtl":
        return np.stack([extent - right, top, extent - left, bottom], axis=1)
    return np.stack([top, extent - right, bottom, extent - left], axis=1)
