"""Layout labels and their roles in the reading order, and the direction of texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from .geometry import deskew_reading_geometries, to_boxes

__all__ = [
    "DIRECTIONS",
    "assign_layout_labels",
    "check_direction",
    "covering_regions",
    "detect_text_direction",
    "layout_label_role",
    "normalize_layout_label",
    "to_left_to_right",
]

_ROLES = {
    **dict.fromkeys(("page_header", "header", "running_header"), "header"),
    **dict.fromkeys(("page_footer", "footer", "running_footer"), "footer"),
    **dict.fromkeys(("table", "picture", "figure", "image", "chart", "graphic"), "float"),
    "footnote": "footnote",
    "caption": "caption",
}

# Elements are compared with regions about this many pairs at a time, to bound memory.
_PAIRS_AT_ONCE = 1 << 20

DIRECTIONS = ("ltr", "rtl", "ttb-rtl", "ttb-ltr")
# ISO 639 codes of languages written from right to left, used if a text has no letters.
_RIGHT_TO_LEFT_LANGUAGES = frozenset(
    ("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ku", "nqo", "ps", "sd", "syr", "ug", "ur", "yi")
)


def normalize_layout_label(label: str | None) -> str:
    """Normalise a layout label to lower case with underscores.

    >>> from mediatensor.ocr.models.reading_order import normalize_layout_label
    >>> normalize_layout_label("Page-header")
    'page_header'

    Args:
        label: The label, or None.

    Returns:
        The normalised label; an empty string for None.
    """
    if label is None:
        return ""
    return "".join(character if character.isalnum() else "_" for character in label.strip().lower())


def layout_label_role(label: str | None) -> str:
    """Return the role of a layout label in the reading order.

    >>> from mediatensor.ocr.models.reading_order import layout_label_role
    >>> layout_label_role("Picture"), layout_label_role("Text")
    ('float', 'body')

    Args:
        label: A label, such as a class of DocLayNet. None and unknown labels belong to the body.

    Returns:
        ``"header"``, ``"footer"``, ``"footnote"``, ``"caption"``, ``"float"`` or ``"body"``.
    """
    return _ROLES.get(normalize_layout_label(label), "body")


def assign_layout_labels(
    geoms: Sequence[Any] | np.ndarray,
    layout_geoms: Sequence[Any] | np.ndarray,
    layout_labels: Sequence[str],
    min_coverage: float = 0.5,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
) -> list[str | None]:
    """Give each element the label of the region that covers most of it.

    >>> from mediatensor.ocr.models.reading_order import assign_layout_labels
    >>> assign_layout_labels([((0.1, 0.1), (0.3, 0.2))], [((0.0, 0.0), (0.5, 0.5))], ["Title"])
    ['Title']

    Args:
        geoms: The elements, in any form that ``sort_reading_order`` takes.
        layout_geoms: The regions, in the same forms.
        layout_labels: One label for each region.
        min_coverage: The minimum share of an element's area that a region must cover.
        page_shape, angle_geoms: For skewed pages; see ``deskew_reading_geometries``.

    Returns:
        One label for each element, or None if no region covers enough of the element.

    Raises:
        InvalidArgumentError: if there are not as many labels as regions, or a coordinate is not finite.
    """
    geoms, layout_geoms = deskew_reading_geometries(geoms, layout_geoms, page_shape=page_shape, angle_geoms=angle_geoms)
    boxes, regions = to_boxes(geoms), to_boxes(layout_geoms)
    if len(layout_labels) != len(regions):
        raise InvalidArgumentError(f"{len(layout_labels)} labels were given for {len(regions)} regions: give one each")
    return [
        None if index < 0 else str(layout_labels[index]) for index in covering_regions(boxes, regions, min_coverage)
    ]


def covering_regions(boxes: np.ndarray, regions: np.ndarray, min_coverage: float = 0.5) -> list[int]:
    """Return the index of the region ``(R, 4)`` that covers most of each box ``(N, 4)``; -1 if none covers enough."""
    if len(regions) == 0:
        return [-1] * len(boxes)
    indices: list[int] = []
    step = max(1, _PAIRS_AT_ONCE // len(regions))
    for start in range(0, len(boxes), step):
        part = boxes[start : start + step, None]
        overlap = np.minimum(part[..., 2:], regions[:, 2:]) - np.maximum(part[..., :2], regions[:, :2])
        areas = (part[..., 2:] - part[..., :2]).prod(axis=2).clip(1e-9)
        coverage = overlap.clip(0).prod(axis=2) / areas
        best = coverage.argmax(axis=1)
        is_covered = coverage[np.arange(len(best)), best] >= min_coverage
        indices += np.where(is_covered, best, -1).tolist()
    return indices


def detect_text_direction(texts: Iterable[str], language: str | None = None) -> str:
    """Detect whether texts are read from left to right or from right to left.

    The letters vote by their bidirectional class in Unicode; digits and punctuation do not count. Vertical writing
    cannot be detected from characters and is never returned.

    >>> from mediatensor.ocr.models.reading_order import detect_text_direction
    >>> detect_text_direction(["Total", "12.50"])
    'ltr'
    >>> detect_text_direction(["שלום", "12.50"])
    'rtl'
    >>> detect_text_direction(["12.50"], language="fa")
    'rtl'

    Args:
        texts: Words or lines; items that are not strings are skipped.
        language: An ISO 639 code, used only if there are no letters.

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
    """Check a reading direction; ``"auto"`` is accepted only with ``auto``.

    Raises:
        InvalidArgumentError: if the direction is not accepted.
    """
    accepted = ("auto", *DIRECTIONS) if auto else DIRECTIONS
    if direction not in accepted:
        raise InvalidArgumentError(f"invalid reading direction {direction!r}, should be one of {accepted}")


def to_left_to_right(boxes: np.ndarray, direction: str) -> np.ndarray:
    """Mirror and transpose boxes, so that text in ``direction`` is read from left to right, line by line.

    Boxes are mirrored within their own extent, so that relative and absolute coordinates work.
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
