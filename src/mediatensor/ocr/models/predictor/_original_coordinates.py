"""Boxes on their way from a page as it came to its upright form, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...io.elements import Document, KIEPage, Page, Word
from .._orientation import signed_turn
from .._straightening import Straightening, map_boxes
from .._turned_lines import turned
from ..detection.predictor import Located
from ._page_words import PageWords

__all__ = ["located_upright", "restore_original"]


def located_upright(located: Located, plan: Straightening) -> Located:
    """What was found on a page, where it is on its upright form.

    Args:
        located: Boxes with scores.
        plan: How the upright form is made.

    Returns:
        The same boxes; the corners of rotated ones are clockwise as they then lie.
    """
    boxes = {}
    for name, found in located.boxes.items():
        places = found[:, :4]
        if found.ndim == 3:
            quarter_turns = np.full(len(found), round(plan.angle / 90) * 90 % 360)
            places = turned(places.astype(np.float64), quarter_turns)
        boxes[name] = np.concatenate([map_boxes(places, plan.forward), found[:, 4:]], axis=1)
    return Located(boxes, None)


def restore_original(document: Document, read: Sequence[PageWords]) -> None:
    """Map back the pages of a document that were straightened and are to be as they came; changes them in place."""
    for page, words in zip(document.pages, read, strict=True):
        if words.straightened is not None:
            _restore(page, words.straightened)


def _restore(page: Page | KIEPage, plan: Straightening) -> None:
    """Map the boxes of a page and of everything on it.

    The page was built from upright words, so that lines and reading order are right whatever its turn.

    Args:
        page: The page, whose boxes are relative to the upright image; changed in place.
        plan: How that image was made.
    """
    page.dimensions = plan.page_shape
    quarter_turns = round(plan.angle / 90) * 90 % 360
    for element in _elements(page):
        element.geometry = _mapped(element.geometry, plan.back)
        if isinstance(element, Word):
            own = (element.crop_orientation["value"] + quarter_turns) % 360
            element.crop_orientation = {**element.crop_orientation, "value": signed_turn(own)}


def _elements(page: Page | KIEPage) -> Iterator[Any]:
    if isinstance(page, KIEPage):
        words: list[Word] = [word for found in page.predictions.values() for word in found]
    else:
        yield from page.blocks
        lines = [line for block in page.blocks for line in block.lines]
        yield from lines
        words = [word for line in lines for word in line.words]
    yield from page.unread
    for word in words:
        yield word
        yield from word.characters


def _mapped(geometry: Any, matrix: npt.NDArray[np.float64]) -> Any:
    corners = np.array(geometry, dtype=np.float64)
    if len(corners) == 2:
        left, top, right, bottom = map_boxes(corners.reshape(1, 4), matrix)[0].tolist()
        return (left, top), (right, bottom)
    return tuple(tuple(point) for point in map_boxes(corners[None], matrix)[0].tolist())
