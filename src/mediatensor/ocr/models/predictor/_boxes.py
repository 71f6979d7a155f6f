"""Process the boxes of a page: convert them to and from the upright page, check changes by hooks, and crop lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ....errors import InvalidArgumentError
from ..._reading_order.ordering import sort_reading_order
from ...io.elements import Field, KIEPage, Page, Word
from ...utils.geometry import boxes_around, boxes_to_polygons
from .._lines.cutting import cut_words, signed_turn, turn_quads
from .._pages.preprocessing import as_tensor
from .._pages.straightening import Straightening, map_boxes, straighten
from ..builder._document import PageWords
from ..detection.predictor import Located

Hook = Callable[[Any], Any]
IgnoredRegion = Sequence[float]  # xmin, ymin, xmax, ymax, relative to the page


def set_located_upright(located: Located, plan: Straightening) -> Located:
    """Convert boxes on a page to boxes on the upright page, with corners clockwise from its top left."""
    boxes = {}
    for name, found in located.boxes.items():
        places = found[:, :4]
        if found.ndim == 3:
            quarter_turns = np.full(len(found), round(plan.angle / 90) * 90 % 360)
            places = turn_quads(places.astype(np.float64), quarter_turns)
        boxes[name] = np.concatenate([map_boxes(places, plan.forward), found[:, 4:]], axis=1)
    return Located(boxes, None)


def restore_original(page: Page | KIEPage, plan: Straightening) -> None:
    """Convert the boxes of a page and of all its elements from the upright to the original page, in place."""
    page.dimensions = plan.page_shape
    quarter_turns = round(plan.angle / 90) * 90 % 360
    for element in _elements(page):
        element.geometry = _map_geometry(element.geometry, plan.back)
        if isinstance(element, Word):
            own = (element.crop_orientation["value"] + quarter_turns) % 360
            element.crop_orientation = {**element.crop_orientation, "value": signed_turn(own)}
        if isinstance(element, Field) and element.key_geometry is not None:
            element.key_geometry = _map_geometry(element.key_geometry, plan.back)


_PARTS = ("layout", "fields", "tables", "cells", "blocks", "lines", "words", "unread", "characters")


def _elements(parent: Any) -> Iterator[Any]:
    """Yield all elements of a page, including elements within other elements."""
    parts = [getattr(parent, name, ()) for name in _PARTS]
    for element in chain(*parts, *getattr(parent, "predictions", {}).values()):
        yield element
        yield from _elements(element)


def _map_geometry(geometry: Any, matrix: npt.NDArray[np.float64]) -> Any:
    corners = np.array(geometry, dtype=np.float64)
    mapped = map_boxes(corners.reshape(1, 4) if len(corners) == 2 else corners[None], matrix)
    return tuple(map(tuple, mapped.reshape(-1, 2).tolist()))


def apply_hooks(hooks: Sequence[Hook], pages: Sequence[Located], *, by_class: bool, straight: bool) -> list[Located]:
    """Pass the boxes of all pages to each hook in turn, and return the resulting boxes with scores.

    Hooks get the boxes of each page without scores: a dictionary by class if ``by_class``, otherwise the array of the
    only class. If ``straight``, they get upright boxes instead of quads.
    """
    places = [{name: _boxes_for_hooks(boxes, straight) for name, boxes in page.boxes.items()} for page in pages]
    # Hooks may change boxes in place, so they get copies.
    changed: Any = [{name: boxes.copy() for name, boxes in page.items()} for page in places]
    if not by_class:
        changed = [next(iter(page.values())) for page in changed]
    for hook in hooks:
        changed = _check_boxes(hook(changed), changed)
    if not by_class:
        changed = [dict.fromkeys(page, boxes) for page, boxes in zip(places, changed, strict=True)]
    return [
        Located({name: _add_scores(np.asarray(new[name]), offered[name], page.boxes[name]) for name in new}, None)
        for new, offered, page in zip(changed, places, pages, strict=True)
    ]


def _boxes_for_hooks(boxes: npt.NDArray[np.floating], straight: bool) -> npt.NDArray[np.floating]:
    places = boxes[:, :4]
    return boxes_around(places).clip(0, 1) if places.ndim == 3 and straight else places


def _check_boxes(changed: Any, offered: Any) -> Any:
    """Return the boxes ``changed`` by a hook, or raise an error if their structure differs from ``offered``.

    ``offered`` are the boxes that were passed to the hook.
    """
    problem = InvalidArgumentError(
        f"a hook returned {_describe(changed)}: it must return the boxes of all {len(offered)} pages in the form in "
        "which it got them, as finite arrays of shape (N, 4) or (N, 4, 2)."
    )
    if not isinstance(changed, Sequence) or isinstance(changed, str) or len(changed) != len(offered):
        raise problem
    for page, before in zip(changed, offered, strict=True):
        if isinstance(before, dict) != isinstance(page, dict) or (isinstance(page, dict) and set(page) != set(before)):
            raise problem
        pairs = [(page[name], before[name]) for name in before] if isinstance(before, dict) else [(page, before)]
        for boxes, old in pairs:
            fits = isinstance(boxes, np.ndarray) and np.issubdtype(boxes.dtype, np.number)
            if not fits or boxes.shape[1:] != old.shape[1:] or not np.isfinite(boxes).all():
                raise problem
    return changed


def _describe(changed: Any) -> str:
    if isinstance(changed, (list, tuple)):
        kinds = [str(getattr(item, "shape", type(item).__name__)) for item in changed[:3]]
        return f"{len(changed)} items ({', '.join(kinds)})"
    return type(changed).__name__


def _add_scores(
    changed: npt.NDArray[np.floating], offered: npt.NDArray[np.floating], boxes: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Add scores to the boxes that a hook returned for one page.

    ``offered`` are the boxes that were passed to the hook, without scores, and ``boxes`` are the same boxes with
    scores. Boxes in ``changed`` that equal an offered box keep its score. All other boxes get the score 1.
    """
    known = {place.tobytes(): box for place, box in zip(offered, boxes, strict=True)}
    rows = []
    for place in changed.astype(offered.dtype):
        if (box := known.get(place.tobytes())) is not None:
            rows.append(box)
        elif boxes.ndim == 3:
            quad = place if place.ndim == 2 else boxes_to_polygons(place[None])[0]
            rows.append(np.concatenate([quad, [[0.0, 1.0]]]))
        else:
            rows.append(np.concatenate([place, [1.0]]))
    return np.array(rows).reshape(-1, *boxes.shape[1:])


def check_regions(regions: Sequence[IgnoredRegion] | None) -> npt.NDArray[np.float64]:
    """Convert ignored regions to an array (N, 4). Raise unless they are boxes (xmin, ymin, xmax, ymax) in [0, 1]."""
    try:
        boxes = np.array([] if regions is None else list(regions), dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"ignore_regions={regions!r}: give boxes (xmin, ymin, xmax, ymax) relative to the page, or kinds of "
            'regions, such as "Page-footer".'
        ) from None
    if not ((boxes >= 0) & (boxes <= 1)).all():
        raise InvalidArgumentError(f"ignore_regions={regions!r}: coordinates are relative, in [0, 1].")
    # A box without area, such as a detection clipped at the border, is accepted and has no effect.
    if not (boxes[:, :2] <= boxes[:, 2:]).all():
        raise InvalidArgumentError(
            f"ignore_regions={regions!r}: boxes are (xmin, ymin, xmax, ymax), xmin <= xmax, ymin <= ymax."
        )
    return boxes


def whiten_regions(image: Tensor, regions: npt.NDArray[np.float64]) -> Tensor:
    """Return a page (3, H, W) in which ``regions`` are white. The page itself is not changed."""
    if not len(regions):
        return image
    image = image.clone()
    height, width = image.shape[1:]
    for left, top, right, bottom in (regions * (width, height, width, height)).round().astype(int):
        image[:, top:bottom, left:right] = 255 if image.dtype == torch.uint8 else 1
    return image


@dataclass(frozen=True, eq=False)
class CutLine:
    """A crop of a text line with its recognised text; or of a word, if the recogniser reads words.

    Attributes:
        image: The upright crop, an array (H, W, 3), uint8, RGB, before it is scaled for the recogniser.
        value: The recognised text.
        confidence: The probability that the text is right, in [0, 1].
        geometry: Position in fractions of the original page's width and height: ((xmin, ymin), (xmax, ymax)), or four
            corners (x, y). The first corner is where the text starts.
        unread: The reason why all or part of the line is missing from the page's text, such as ``"no text"`` or
            ``"low confidence"`` (see `UnreadLine`); ``None`` if nothing is missing.
    """

    image: npt.NDArray[np.uint8]
    value: str
    confidence: float
    geometry: Any
    unread: str | None


def cut_found_lines(page: PageWords, regions: npt.NDArray[np.float64], straight: bool) -> list[CutLine]:
    """Crop the lines that were found on a page, in reading order. Lines that contain no pixels are left out.

    ``regions`` (N, 4) are the ignored regions, which are made white in the crops. If ``straight``, the position of a
    line is the straight box that encloses it, otherwise a quad.
    """
    image = whiten_regions(as_tensor(page.image), regions)
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
