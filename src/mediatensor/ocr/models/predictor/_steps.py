"""Steps of reading a page: process its boxes, find the structure around its words, and use the text layer of PDF pages.

Boxes are converted to and from the upright page, hooks may change them, and lines are cropped. The structure is found
by rules or by networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ....errors import InvalidArgumentError
from ..._reading_order.boxes import normalize_layout_label
from ..._reading_order.ordering import sort_reading_order
from ...io._elements.elements import Block, Character, Prediction, UnreadLine, Word
from ...io._elements.page_order import page_reading_order
from ...io._elements.pages import Field, Table
from ...io.elements import KIEPage, Page
from ...structure import (
    REGION_KINDS,
    FieldRule,
    PageContent,
    PageStructure,
    content_of_picture,
    find_structure,
    rules_of,
)
from ...utils._scores import overlaps
from ...utils.geometry import box_around, boxes_around, boxes_to_polygons, to_corners
from .._lines.cutting import (
    Straightening,
    as_quads,
    cut_words,
    map_boxes,
    scores_of,
    signed_turn,
    straighten,
    turn_quads,
)
from .._lines.page_lines import ClassWords, geometries_of
from .._networks.preprocessing import as_tensor
from ..builder._document import FoundStructure, PageWords
from ..detection.predictor import Located
from ..layout.predictor import LayoutPredictor
from ..table_structure.predictor import TablePredictor

# Pictures smaller than this share of the page are logos, rules or bullets, and are not read.
_MIN_PICTURE = 0.005
# The box of a word that was added to a scan is enlarged by this share of its smaller side before it is excluded.
_WORD_MARGIN = 0.2
# Margin in pixels of the crop of a table for the table network.
_TABLE_MARGIN = 20
# A box that a hook returns is one of the detected boxes if their intersection over union is at least this.
_MIN_HOOK_OVERLAP = 0.25

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
    return geometries_of(mapped)[0]


def apply_hooks(hooks: Sequence[Hook], pages: Sequence[Located], *, by_class: bool, straight: bool) -> list[Located]:
    """Pass the boxes of all pages to each hook in turn, and return the resulting boxes with scores.

    As in docTR, hooks get a list with the boxes of each page, without scores. If ``by_class``, they get a dictionary of
    such lists by class; otherwise there is only one class. If ``straight``, they get upright boxes instead of quads.
    """
    places = [{name: boxes[:, :4] for name, boxes in page.boxes.items()} for page in pages]
    if straight:
        places = [
            {name: boxes_around(quads).clip(0, 1) if quads.ndim == 3 else quads for name, quads in page.items()}
            for page in places
        ]
    names = list(places[0]) if places else []
    # Hooks may change boxes in place, so they get copies.
    by_name: Any = {name: [page[name].copy() for page in places] for name in names}
    changed = by_name if by_class else next(iter(by_name.values()), [])
    for hook in hooks:
        offered, changed = changed, hook(changed)
        if not _has_form_of(changed, offered):
            raise InvalidArgumentError(
                f"a hook returned {_describe(changed)}: it must return the boxes of all pages in the form in which it "
                f"got them, {_describe(offered)}, as finite arrays of shape (N, 4) or (N, 4, 2)."
            )
    by_name = changed if by_class else dict.fromkeys(names, changed)
    return [
        Located(
            {
                name: _add_scores(np.asarray(by_name[name][index]), places[index][name], boxes)
                for name, boxes in page.boxes.items()
            },
            None,
        )
        for index, page in enumerate(pages)
    ]


def _has_form_of(changed: Any, offered: Any) -> bool:
    if isinstance(offered, dict):
        has_same_names = isinstance(changed, Mapping) and set(changed) == set(offered)
        return has_same_names and all(_has_form_of(changed[name], offered[name]) for name in offered)
    if isinstance(offered, list):
        has_same_length = isinstance(changed, list | tuple) and len(changed) == len(offered)
        return has_same_length and all(map(_has_form_of, changed, offered))
    is_numeric = isinstance(changed, np.ndarray) and np.issubdtype(changed.dtype, np.number)
    return is_numeric and changed.shape[1:] == offered.shape[1:] and bool(np.isfinite(changed).all())


def _describe(changed: Any) -> str:
    if isinstance(changed, Mapping):
        return f"a dictionary of {', '.join(map(str, changed))}"
    if isinstance(changed, (list, tuple)):
        kinds = [str(getattr(item, "shape", type(item).__name__)) for item in changed[:3]]
        return f"{len(changed)} items ({', '.join(kinds)})"
    return type(changed).__name__


def _add_scores(
    changed: npt.NDArray[np.floating], offered: npt.NDArray[np.floating], boxes: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Add scores to the boxes that a hook returned for one page.

    ``offered`` are the boxes that were passed to the hook, without scores, and ``boxes`` are the same boxes with
    scores. Boxes in ``changed`` that equal an offered box keep its score. A box that was moved or resized a little gets
    the score of the offered box that it overlaps most. All other boxes get the score 1.
    """
    changed = changed.astype(offered.dtype)
    pairs = overlaps(offered, changed, use_polygons=changed.ndim == 3)
    order = np.lexsort((-pairs.iou, pairs.second))
    best = order[np.unique(pairs.second[order], return_index=True)[1]]
    best = best[pairs.iou[best] >= _MIN_HOOK_OVERLAP]
    scores = np.ones(len(changed), dtype=boxes.dtype)
    scores[pairs.second[best]] = scores_of(boxes)[pairs.first[best]]
    places, column = changed, scores[:, None]
    if boxes.ndim == 3:
        places = changed if changed.ndim == 3 else boxes_to_polygons(changed)
        column = np.stack([np.zeros_like(scores), scores], axis=1)[:, None]
    scored: npt.NDArray[np.floating] = np.concatenate([places, column], axis=1)
    known = {place.tobytes(): box for place, box in zip(offered, boxes, strict=True)}
    for index, place in enumerate(changed):
        # A straight box that is not changed stands for a quad.
        if (box := known.get(place.tobytes())) is not None:
            scored[index] = box
    return scored


def check_ignored(regions: Any) -> tuple[frozenset[str], npt.NDArray[np.float64]]:
    """Split the argument ``ignore_regions`` into normalised kinds, such as "page_footer", and boxes (N, 4)."""
    listed = [regions] if isinstance(regions, str) else regions
    kinds = []
    if isinstance(listed, list | tuple | set | frozenset):
        kinds = [one for one in listed if isinstance(one, str)]
        regions = [one for one in listed if not isinstance(one, str)]
    known = set(map(normalize_layout_label, REGION_KINDS))
    for kind in kinds:
        if normalize_layout_label(kind) not in known:
            raise InvalidArgumentError(
                f"ignore_regions has {kind!r}: give boxes (xmin, ymin, xmax, ymax) relative to the page, or kinds of "
                f"regions, of {', '.join(REGION_KINDS)}."
            )
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
    return frozenset(map(normalize_layout_label, kinds)), boxes


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
    # The image of a page from a file is loaded on demand.
    image = as_tensor(page.image() if callable(page.image) else page.image)
    plan = page.to_upright or page.made_upright_by
    if page.made_upright_by is None:
        # The regions are relative to the original page. They are already white in an image that was made upright.
        image = whiten_regions(image, regions)
    if page.to_upright is not None:
        image = straighten(image, page.to_upright)
    lines = []
    for words in page.words.values():
        if not words.found:
            continue
        places = np.stack([line.place for line in words.found])
        crops = cut_words(image, places, "border")
        boxes = places if places.ndim == 2 else boxes_around(places)
        order = sort_reading_order(boxes.clip(0, 1), page_shape=page.shape)
        shown = boxes if straight else places
        geometries = geometries_of(shown.clip(0, 1) if plan is None else map_boxes(shown, plan.back))
        for index in order:
            line, crop = words.found[index], crops[index]
            if crop is None:
                continue
            pixels = crop if crop.dtype == torch.uint8 else (crop.float() * 255).round().clamp(0, 255).to(torch.uint8)
            array = np.ascontiguousarray(pixels.permute(1, 2, 0).cpu().numpy())
            lines.append(CutLine(array, line.value, line.confidence, geometries[index], line.unread))
    return lines


def _are_centers_in(boxes: npt.NDArray[np.float64], frames: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return bool (N, R): whether the center of each of the N ``boxes`` lies in each of the R ``frames``."""
    centers = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
    is_in: npt.NDArray[np.bool_] = np.all((centers >= frames[:, :2]) & (centers <= frames[:, 2:]), axis=2)
    return is_in


def words_of_layer(
    stored: Sequence[Word], content: PageContent, ignored: npt.NDArray[np.float64]
) -> tuple[ClassWords, npt.NDArray[np.intp]]:
    """Convert the words in a PDF page's text layer to `ClassWords`, as if they had been recognised.

    Words whose center lies in one of the boxes ``ignored`` (R, 4) are dropped. Also return the index in ``stored`` of
    each word that was kept.
    """
    boxes = np.array([np.ravel(word.geometry) for word in stored], dtype=np.float64).reshape(-1, 4)
    kept = np.flatnonzero(~_are_centers_in(boxes, ignored).any(axis=1))
    chosen = [stored[index] for index in kept.tolist()]
    words = ClassWords(
        boxes[kept],
        np.ones(len(kept)),
        [(word.value, word.confidence) for word in chosen],
        [{"value": signed_turn(turn), "confidence": None} for turn in content.turns[kept].tolist()],
        content.line_ids[kept],
        [word.characters for word in chosen],
    )
    return words, kept


def set_upright(words: ClassWords, content: PageContent, plan: Straightening) -> tuple[ClassWords, PageContent]:
    """Convert the words and the content of a page that is turned by 90, 180 or 270 degrees to upright coordinates."""

    def moved(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        return np.asarray(map_boxes(np.asarray(boxes, dtype=np.float64), plan.forward))

    characters = words.characters or []
    letters = [np.ravel(letter.geometry) for own in characters for letter in own]
    places = iter(moved(np.array(letters).reshape(-1, 4)))
    quarter_turn = round(plan.angle)
    own_turns = [(orientation["value"] - quarter_turn) % 360 for orientation in words.orientations]
    upright = replace(
        words,
        boxes=moved(words.boxes),
        orientations=[{"value": signed_turn(turn), "confidence": None} for turn in own_turns],
        characters=[
            [Character(letter.value, letter.confidence, to_corners(next(places))) for letter in own]
            for own in characters
        ],
    )
    return upright, content.turned_back(quarter_turn)


def boxes_outside_pictures(content: PageContent) -> npt.NDArray[np.float64] | None:
    """Return boxes (R, 4) that cover the parts of a PDF page that need no recognition.

    Only pictures for which the text layer has no words need recognition, so the boxes cover everything else. On a page
    that is a scan without recognised text, the text layer can still have a few words, such as a stamp. In that case,
    the boxes cover only these words. Return ``None`` if nothing needs recognition.
    """
    size = np.array([content.width, content.height] * 2)
    if content.is_unread_scan:
        sides = content.boxes[:, 2:] - content.boxes[:, :2]
        margins = _WORD_MARGIN * sides.min(axis=1, keepdims=True)
        around: npt.NDArray[np.float64] = (content.boxes + margins * np.array([-1, -1, 1, 1])) / size
        return around.clip(0, 1)
    unread = [
        box / size
        for box in content.pictures
        if np.prod(box[2:] - box[:2]) >= _MIN_PICTURE * content.width * content.height
        and not _are_centers_in(content.boxes, box[None]).any()
    ]
    if not unread:
        return None
    # Cut the page along all sides of the pictures, so that each piece is entirely in a picture or outside all pictures.
    pictures = np.clip(np.array(unread), 0, 1)
    across = np.unique([0.0, 1.0, *pictures[:, [0, 2]].ravel().tolist()])
    down = np.unique([0.0, 1.0, *pictures[:, [1, 3]].ravel().tolist()])
    left, top = np.meshgrid(across[:-1], down[:-1])
    right, bottom = np.meshgrid(across[1:], down[1:])
    pieces = np.stack([left, top, right, bottom], axis=-1).reshape(-1, 4)
    outside: npt.NDArray[np.float64] = pieces[~_are_centers_in(pieces, pictures).any(axis=1)]
    return outside


def join_words(words: ClassWords, more: ClassWords) -> ClassWords:
    """Join the words of a text layer with ``more`` words from pictures, which get other line numbers."""
    if not more.texts:
        return replace(words, unread=more.unread, found=more.found)
    known = np.zeros(0, np.int64) if words.line_ids is None else words.line_ids
    lines = np.arange(len(more.texts)) if more.line_ids is None else more.line_ids
    places = more.boxes[:, :4]
    return ClassWords(
        np.concatenate([words.boxes, places if places.ndim == 2 else boxes_around(places)]),
        np.concatenate([words.scores, more.scores]),
        [*words.texts, *more.texts],
        [*words.orientations, *more.orientations],
        np.concatenate([known, lines + known.max(initial=-1) + 1]),
        [*(words.characters or []), *(more.characters or [()] * len(more.texts))],
        more.unread,
        more.found,
    )


def replace_words(content: PageContent, words: ClassWords, kept: npt.NDArray[np.intp]) -> PageContent:
    """Return a copy of the ``content`` of a PDF page in which the words are replaced by ``words``.

    The first ``len(kept)`` words come from the PDF file, where they have the indices ``kept``. They keep their font
    size, weight and turn. All further words were read in pictures.
    """
    num_read = len(words.texts) - len(kept)
    return replace(
        content,
        boxes=np.asarray(words.boxes, dtype=np.float64) * np.array([content.width, content.height] * 2),
        texts=tuple(text for text, _ in words.texts),
        line_ids=np.zeros(0, np.int64) if words.line_ids is None else words.line_ids,
        confidences=np.array([confidence for _, confidence in words.texts], dtype=np.float64),
        font_sizes=np.concatenate([content.font_sizes[kept], np.full(num_read, np.nan)]),
        is_bold=np.concatenate([content.is_bold[kept], np.zeros(num_read, np.bool_)]),
        turns=np.concatenate([content.turns[kept], np.zeros(num_read, np.int64)]),
    )


class StructureFinder(nn.Module):
    """Finds the regions, tables and fields of pages whose words are known.

    If ``layout`` is true, it finds regions, with the network ``layout_predictor`` if given, otherwise by rules. If
    ``tables`` is true, it finds tables, with ``table_predictor`` or by rules. ``fields`` selects the rules that find
    fields: the name of a set of rules, a sequence of rules, true for all key-value pairs, or false for none.
    """

    def __init__(
        self,
        layout: bool,
        tables: bool,
        fields: str | Sequence[FieldRule] | bool,
        layout_predictor: LayoutPredictor | None = None,
        table_predictor: TablePredictor | None = None,
    ) -> None:
        super().__init__()
        self.layout = layout
        self.tables = tables
        self.fields = fields
        self.layout_predictor = layout_predictor
        self.table_predictor = table_predictor
        if table_predictor is not None and layout_predictor is None:
            raise InvalidArgumentError("table_arch finds the cells of tables that layout_arch found: give that, too.")
        if not isinstance(fields, bool) and fields != "all":
            # Raise errors for unknown names now rather than after the first page was read.
            rules_of(fields)

    @property
    def is_wanted(self) -> bool:
        return bool(self.layout or self.tables or self.fields)

    def forward(self, image: Tensor, words: Mapping[str, ClassWords]) -> FoundStructure:
        """Find the structure of an upright page from its image (3, H, W) and its words, whatever their classes."""
        if not self.is_wanted:
            return FoundStructure()
        pixels = image if image.dtype == torch.uint8 else (image.float() * 255).round().to(torch.uint8)
        page = pixels.permute(1, 2, 0).contiguous().cpu().numpy()
        regions, grids = self._find_by_networks(image, page)
        by_networks = self.layout_predictor is not None, self.table_predictor is not None
        if by_networks == (True, self.tables) and not self.fields:
            return FoundStructure(None, regions, grids)
        return FoundStructure(self._find_by_rules(content_of_words(page, words)), regions, grids)

    def of_content(self, content: PageContent) -> FoundStructure:
        """Find the structure of a page from its ``content`` by rules, without an image or networks."""
        return FoundStructure(self._find_by_rules(content)) if self.is_wanted else FoundStructure()

    def _find_by_rules(self, content: PageContent) -> PageStructure:
        # Even if only tables are requested, regions are needed to arrange the remaining text around the tables.
        return find_structure(
            content,
            layout=(self.layout or self.tables) and self.layout_predictor is None,
            tables=self.tables and self.table_predictor is None,
            fields=self.fields,
        )

    def _find_by_networks(
        self, image: Tensor, page: npt.NDArray[np.uint8]
    ) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
        if self.layout_predictor is None or not (self.layout or self.tables):
            return None, None
        (regions,) = self.layout_predictor([image])
        if self.table_predictor is None or not self.tables:
            return regions, None
        size = np.array([page.shape[1], page.shape[0]])
        grids = []
        for name, box in zip(regions["class_names"], regions["boxes"], strict=True):
            if name != "Table":
                continue
            left, top, right, bottom = (box_around(box) * [*size, *size]).round().astype(int).tolist()
            # The network was trained on crops with a margin around the table, as docTR cuts them.
            margin = max(_TABLE_MARGIN, round(0.01 * max(right - left, bottom - top)))
            widened = np.pad(page, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
            crop = widened[top : bottom + 2 * margin, left : right + 2 * margin]
            if min(crop.shape[:2]) <= 2 * margin + 1:
                continue
            (grid,) = self.table_predictor([np.ascontiguousarray(crop)])
            scale, shift = np.array(crop.shape[1::-1]), np.array([left - margin, top - margin])
            for cell in grid["cells"]:
                points = np.asarray(cell["geometry"], dtype=np.float64).reshape(-1, 2)
                placed = (points * scale + shift) / size
                cell["geometry"] = placed.ravel() if len(placed) == 2 else placed
            grids.append(grid)
        return regions, grids


def content_of_words(image: npt.NDArray[np.uint8], words: Mapping[str, ClassWords]) -> PageContent:
    """Create the `PageContent` of a page from its image (H, W, 3) and its recognised words, grouped by class."""
    height, width = image.shape[:2]
    found = list(words.values())
    boxes = [boxes_around(as_quads(own.boxes)) if own.boxes.ndim == 3 else own.boxes[:, :4] for own in found]
    ids, first = [], 0
    for own in found:
        # Separately detected words are treated as separate lines; the gaps between them show which words belong
        # together.
        lines = np.arange(len(own.texts)) if own.line_ids is None else np.asarray(own.line_ids)
        ids.append(lines + first)
        first += int(lines.max(initial=-1)) + 1
    return content_of_picture(
        image,
        np.concatenate([*boxes, np.zeros((0, 4))]) * (width, height, width, height),
        [text for own in found for text, _ in own.texts],
        np.concatenate([*ids, np.zeros(0, np.int64)]),
        [confidence for own in found for _, confidence in own.texts],
        turns=[90 * round(turn["value"] / 90) % 360 for own in found for turn in own.orientations],
    )


def remove_kinds(page: Page | KIEPage, kinds: frozenset[str]) -> None:
    """Remove the text in all regions of the given ``kinds``, such as page footers, from a page in place."""
    regions = [box_around(region.geometry) for region in page.layout if normalize_layout_label(region.type) in kinds]
    frames = np.array(regions).reshape(-1, 4)

    def is_kept(element: Prediction | Field | UnreadLine) -> bool:
        center = np.mean(element.geometry, axis=0)
        return not ((center >= frames[:, :2]) & (center <= frames[:, 2:])).all(axis=1).any()

    page.fields, page.unread = list(filter(is_kept, page.fields)), list(filter(is_kept, page.unread))
    if isinstance(page, Page):
        items, labels, _ = page_reading_order(page)
        kept = [item for item, label in zip(items, labels, strict=True) if normalize_layout_label(label) not in kinds]
        page.blocks = [item for item in kept if isinstance(item, Block)]
        page.tables = [item for item in kept if isinstance(item, Table)]
        return
    page.predictions = {name: list(filter(is_kept, found)) for name, found in page.predictions.items()}
