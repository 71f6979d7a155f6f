"""Pictures of the lines of a page, as the recogniser saw them, with what it read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..._reading_order.ordering import sort_reading_order
from ...utils.geometry import boxes_around
from .._lines.cutting import cut_words
from .._pages.inputs import as_tensor
from .._pages.straightening import map_boxes, straighten
from ..builder._document import PageWords
from ._boxes import without_regions

__all__ = ["CutLine", "cut_found_lines"]


@dataclass(frozen=True, eq=False)
class CutLine:
    """A line of a page, or a word if the recogniser reads words.

    Attributes:
        image: (H, W, 3) uint8, RGB: the recogniser's view, upright, before it was scaled to the size of its input.
        value: The text.
        confidence: The probability that it is right, in [0, 1].
        geometry: Its place on the page as it came, relative: ((xmin, ymin), (xmax, ymax)), or four points in the
            direction of reading.
        unread: Why it is not part of the page's text, or not all of it: a reason of
            :class:`~mediatensor.ocr.io.UnreadLine`, or ``None``.
    """

    image: npt.NDArray[np.uint8]
    value: str
    confidence: float
    geometry: Any
    unread: str | None


def cut_found_lines(page: PageWords, regions: npt.NDArray[np.float64], straight: bool) -> list[CutLine]:
    """Cut out the lines of a page in reading order, except those without pixels.

    ``regions`` (N, 4) were not read; ``straight`` gives enclosing boxes rather than quads.
    """
    image = without_regions(as_tensor(page.image), regions)
    plan = page.straightened
    if plan is not None:
        image = straighten(image, plan)
    lines = []
    for words in page.words.values():
        if not words.found:
            continue
        places = np.stack([line.place for line in words.found])
        crops = cut_words(image, places, "border")
        boxes = places if places.ndim == 2 else boxes_around(places)
        order = sort_reading_order(boxes.clip(0, 1), page_shape=page.shape)
        shown = boxes if straight else places
        shown = shown.clip(0, 1) if plan is None else map_boxes(shown, plan.back)
        for index in order:
            line, crop = words.found[index], crops[index]
            if crop is None:
                continue
            pixels = crop if crop.dtype == torch.uint8 else (crop.float() * 255).round().clamp(0, 255).to(torch.uint8)
            array = np.ascontiguousarray(pixels.permute(1, 2, 0).cpu().numpy())
            points = shown[index].reshape(-1, 2).tolist()
            lines.append(CutLine(array, line.value, line.confidence, tuple(map(tuple, points)), line.unread))
    return lines
