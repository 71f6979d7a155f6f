"""Everything on a page in one call: tables first, then regions around them, then fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._content import PageContent
from .._fields import FieldRule, extract_fields, find_fields
from .._found import FoundField, FoundRegion, FoundTable, PageStructure
from .._regions import find_regions
from .._tables import find_tables

__all__ = ["find_structure"]

# Regions in which what looks like a key is none.
_NO_FIELDS = ("Caption", "Picture", "Formula")
# From this many lines on, and this many words a line, a region is running text.
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
        content: The page.
        layout: Whether regions are found; without tables, the words of these are ordinary text.
        tables: Whether tables are found.
        fields: What `extract_fields` is asked for: the name of a set, or rules; true for all pairs of a key and a
            value, false for none. Pairs within one table are left out, since its cells say more, and so are those in
            captions, pictures and running text.

    Returns:
        What was found.

    Raises:
        InvalidArgumentError: ``fields`` names no set of rules, or holds something else.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import content_of_picture, find_structure
        >>> image = np.full((200, 300, 3), 255, np.uint8)
        >>> image[60:80, 30:90] = 0
        >>> content = content_of_picture(image, [(30, 60, 90, 80)], ["word"], [0], [1.0])
        >>> [region.words for region in find_structure(content).regions]
        [(0,)]
    """
    found = tuple(find_tables(content)) if tables else ()
    regions = tuple(find_regions(content, found)) if layout else ()
    if fields is True:
        asked = _outside_prose(content, find_fields(content), found, regions)
    else:
        asked = extract_fields(content, fields) if fields else []
    return PageStructure(content.width, content.height, regions, found, tuple(asked))


def _outside_prose(
    content: PageContent,
    fields: Sequence[FoundField],
    tables: Sequence[FoundTable],
    regions: Sequence[FoundRegion],
) -> list[FoundField]:
    """The pairs that no table, caption, picture or running text has by chance."""
    in_table = {word: number for number, table in enumerate(tables) for cell in table.cells for word in cell.words}
    in_prose: set[int] = set()
    for region in regions:
        num_lines = len(np.unique(content.line_ids[list(region.words)]))
        is_text = region.kind in ("Text", "List-item", "Footnote")
        if region.kind in _NO_FIELDS or (
            is_text and num_lines >= _MIN_LINES and len(region.words) >= _MIN_WORDS * num_lines
        ):
            in_prose.update(region.words)
    kept = []
    for field in fields:
        words = (*field.key_words, *field.value_words)
        homes = {in_table.get(word, -1) for word in words}
        if (homes == {-1} or len(homes) > 1) and not in_prose.intersection(words):
            kept.append(field)
    return kept
