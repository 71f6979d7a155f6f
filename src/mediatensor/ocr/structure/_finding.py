"""Find the structure of a page: tables first, then the regions around them, then fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._field_rules import FieldRule
from ._fields_asked import extract_fields
from ._fields_pairs import find_fields
from ._page import FoundField, FoundRegion, FoundTable, PageContent, PageStructure, box_around
from ._phrases import adjacent_addresses
from ._region_lines import lines_of_words
from ._regions import find_regions
from ._tables import find_tables

# Regions that never contain keys.
_KINDS_WITHOUT_FIELDS = ("Caption", "Picture", "Formula")
# Regions that may contain keys or values.
_KINDS_WITH_FIELDS = frozenset({"Text", "Section-header", "List-item", "Page-header"})
# A picture with at least this many words may be the background of text.
_MANY_WORDS = 20
# A strip thinner than this share of the page, and nearly as long as the page, is the edge of a sheet.
_EDGE = 0.12
# The box around joined regions may cover at most this share of another region.
_MAX_COVERED = 0.3
# A region with this many lines, and on average this many words per line, is running text.
_MIN_LINES = 3
_MIN_WORDS = 5.0


def find_structure(
    content: PageContent,
    *,
    layout: bool = True,
    tables: bool = True,
    fields: str | Sequence[FieldRule] | bool = False,
) -> PageStructure:
    """Find tables, regions and fields on a page.

    Args:
        content: The words, rules (straight lines) and pictures of an upright page.
        layout: Whether to return regions.
        tables: Whether to return tables. If false, there can still be regions of the kind ``"Table"``.
        fields: `FieldRule` objects, or the name of a rule set, for `extract_fields`. True or ``"all"`` finds all pairs
            of a key and a value. Pairs of a table header and a cell below it are left out, and so are pairs in
            captions, pictures and running text. On pages that are mostly running text, a key must end with a colon.
            False finds no fields.

    Returns:
        A `PageStructure` with the tables, regions and fields that were found.

    Raises:
        InvalidArgumentError: ``fields`` is not the name of a rule set, or contains something other than rules.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import content_of_picture, find_structure
        >>> image = np.full((200, 300, 3), 255, np.uint8)
        >>> image[60:80, 30:90] = 0
        >>> content = content_of_picture(image, [(30, 60, 90, 80)], ["word"], [0], [1.0])
        >>> [region.words for region in find_structure(content).regions]
        [(0,)]
    """
    # Regions depend on the tables, even if the caller does not need tables.
    found = tuple(find_tables(content)) if layout or tables else ()
    content = _drop_backgrounds(content, found)
    regions = tuple(find_regions(content, found)) if layout else ()
    found = tuple(_add_words_of_region(content, table, regions) for table in found)
    wants_all = fields is True or fields == "all"
    pairs = _drop_chance_pairs(content, find_fields(content), found, regions) if layout or wants_all else []
    regions = _join_rows(content, regions, pairs)
    asked = pairs if wants_all else extract_fields(content, fields) if not isinstance(fields, bool) else []
    return PageStructure(content.width, content.height, regions, found if tables else (), tuple(asked))


def _add_words_of_region(content: PageContent, table: FoundTable, regions: Sequence[FoundRegion]) -> FoundTable:
    """Add words that are in the region of a table, but not in any of its cells, to the nearest cells."""
    known = {word for cell in table.cells for word in cell.words}
    of_table = (region for region in regions if region.kind == "Table" and region.box == table.box)
    missing = [word for region in of_table for word in region.words if word not in known]
    if not missing:
        return table
    boxes = np.array([cell.box for cell in table.cells])
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    added: dict[int, list[int]] = {}
    for word in missing:
        away = np.maximum(np.maximum(boxes[:, :2] - middles[word], middles[word] - boxes[:, 2:]), 0)
        added.setdefault(int((away**2).sum(axis=1).argmin()), []).append(word)
    cells = tuple(
        replace(cell, words=(*cell.words, *added[number])) if number in added else cell
        for number, cell in enumerate(table.cells)
    )
    return replace(table, cells=cells)


def _drop_backgrounds(content: PageContent, tables: Sequence[FoundTable]) -> PageContent:
    """Drop pictures that are only the background of text: creased paper, shading, or edges of the sheet."""
    middles: NDArray[np.float64] = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    kept = []
    for left, top, right, bottom in content.pictures.tolist():
        is_in = ((middles >= (left, top)) & (middles <= (right, bottom))).all(axis=1)
        has_table = any(
            left <= (table.box[0] + table.box[2]) / 2 <= right and top <= (table.box[1] + table.box[3]) / 2 <= bottom
            for table in tables
        )
        across, down = (right - left) / content.width, (bottom - top) / content.height
        is_edge = min(across, down) < _EDGE and max(across, down) > 1 - _EDGE
        has_most = int(is_in.sum()) >= _MANY_WORDS and 2 * int(is_in.sum()) >= len(middles)
        kept.append(not (has_table or is_edge or has_most))
    return replace(content, pictures=content.pictures[kept]) if not all(kept) else content


def _drop_chance_pairs(
    content: PageContent,
    fields: Sequence[FoundField],
    tables: Sequence[FoundTable],
    regions: Sequence[FoundRegion],
) -> list[FoundField]:
    """Drop key-value pairs that are not fields of a form.

    These are pairs of a table header and a cell below it, pairs in captions, pictures and running text, and pairs of
    two addresses.
    """
    cells = [(number, cell) for number, table in enumerate(tables) for cell in table.cells]
    in_table = {word: number for number, cell in cells for word in cell.words}
    in_header = {word for _, cell in cells if cell.is_header for word in cell.words}
    in_prose: set[int] = set()
    for region in regions:
        if region.kind in _KINDS_WITHOUT_FIELDS or _is_prose(content, region):
            in_prose.update(region.words)
    texts = [lines_of_words(content, region.words) for region in regions]
    adjacent = adjacent_addresses([region.box for region in regions], texts)
    of_address = {word: index for group in adjacent for index in group for word in regions[index].words}
    is_form = 2 * len(in_prose) < len(content.texts)
    kept = []
    for field in fields:
        words = (*field.key_words, *field.value_words)
        is_of_table = in_header.intersection(field.key_words) and len({in_table.get(word, -1) for word in words}) == 1
        # The lines of an address are not the values of another address next to it.
        is_across = len({of_address.get(word, -1) for word in words}) > 1
        # On a page of running text, a key must end with a colon.
        if (
            not is_of_table
            and not is_across
            and not in_prose.intersection(words)
            and (is_form or field.key.rstrip().endswith(":"))
        ):
            kept.append(field)
    return kept


def _is_prose(content: PageContent, region: FoundRegion) -> bool:
    num_lines = len(np.unique(content.line_ids[list(region.words)]))
    is_text = region.kind in ("Text", "List-item", "Footnote")
    return is_text and num_lines >= _MIN_LINES and len(region.words) >= _MIN_WORDS * num_lines


def _join_rows(
    content: PageContent, regions: Sequence[FoundRegion], pairs: Sequence[FoundField]
) -> tuple[FoundRegion, ...]:
    """Join two regions that have a key and its value in the same row, because forms are read row by row."""
    home = {word: number for number, region in enumerate(regions) for word in region.words}
    leader = list(range(len(regions)))
    frames = np.array([region.box for region in regions]).reshape(-1, 4)
    for pair in pairs:
        if not pair.key_words or not pair.value_words:
            continue
        one, other = home.get(pair.key_words[0], -1), home.get(pair.value_words[0], -1)
        if min(one, other) < 0 or not {regions[one].kind, regions[other].kind} <= _KINDS_WITH_FIELDS:
            continue
        key, value = (content.boxes[list(words)] for words in (pair.key_words, pair.value_words))
        shared = min(key[:, 3].max(), value[:, 3].max()) - max(key[:, 1].min(), value[:, 1].min())
        if shared < 0.5 * min(np.ptp(key[:, [1, 3]]), np.ptp(value[:, [1, 3]])):
            continue
        first, last = sorted((_find_root(leader, one), _find_root(leader, other)))
        roots = np.array([_find_root(leader, number) for number in range(len(regions))])
        if first != last and not _encloses_another(frames, np.isin(roots, (first, last))):
            leader[last] = first
    members: dict[int, list[int]] = {}
    for number in range(len(regions)):
        members.setdefault(_find_root(leader, number), []).append(number)
    return tuple(
        regions[own[0]] if len(own) == 1 else _join_regions(content, [regions[number] for number in own])
        for own in members.values()
    )


def _encloses_another(frames: NDArray[np.float64], is_own: NDArray[np.bool_]) -> bool:
    """Return whether the box around the regions marked in ``is_own`` would cover much of another region."""
    low, high = frames[is_own, :2].min(axis=0), frames[is_own, 2:].max(axis=0)
    others = frames[~is_own]
    sides = np.minimum(others[:, 2:], high) - np.maximum(others[:, :2], low)
    areas = np.maximum((others[:, 2:] - others[:, :2]).prod(axis=1), 1e-9)
    return bool((sides.clip(0).prod(axis=1) > _MAX_COVERED * areas).any())


def _find_root(leader: list[int], number: int) -> int:
    while leader[number] != number:
        leader[number] = leader[leader[number]]
        number = leader[number]
    return number


def _join_regions(content: PageContent, regions: Sequence[FoundRegion]) -> FoundRegion:
    """Join regions into one text region, with the words sorted row by row."""
    words = np.array([word for region in regions for word in region.words])
    boxes = content.boxes[words]
    middles = boxes[:, [1, 3]].mean(axis=1)
    order = np.argsort(middles, kind="stable")
    gaps = np.diff(middles[order], prepend=middles[order[0]]) > 0.5 * float(np.median(boxes[:, 3] - boxes[:, 1]))
    rows = np.empty(len(words), dtype=np.int64)
    rows[order] = np.cumsum(gaps)
    in_rows = tuple(words[np.lexsort((boxes[:, 0], rows))].tolist())
    confidence = min(region.confidence for region in regions)
    return FoundRegion("Text", box_around([region.box for region in regions]), confidence, in_rows)
