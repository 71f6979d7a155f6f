"""Classify the blocks of a page as headings, captions, footnotes and so on, and find the levels of headings.

A block is classified by its type size and weight, its place, its first word, and its neighbours.
"""
# ruff: noqa: RUF001, SIM905 - signs of many scripts, and lists of words

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._page import Box, Boxes, gaps_between
from ._region_blocks import Block
from ._text_lines import BULLETS, MARK

DECIMAL_MARK = re.compile(r"^\d+\.\d")

# A caption starts with its kind, in one of several languages, and a number.
CAPTION = re.compile(
    r"^(?:supplementary |extended data |appendix )?"
    r"(?:fig(?:ure|s|ura)?|tab(?:le|leau|elle|la|ela|ella)?|abb(?:ildung)?|scheme|schema|chart|plate|box|exhibit|"
    r"illustration|photo|map|grafik|diagramm?|listing|algorithm|algorithmus|cuadro|quadro|gr[áa]fico|рис(?:унок)?|"
    r"табл(?:ица)?|εικόνα|πίνακας|şekil|tablo|rys|afbeelding|tabel|figuur|kuva|taulukko|图|表|圖|그림|표)"
    r"\.?\s{0,2}(?:\d{1,3}(?:[.\-]\d{1,3})*|[A-Z]\.?\d{1,3}|[IVXL]{1,6}|[A-Z])"
    r"(?P<rest>[a-z]?\)?\s?[.:|—–\-]|\s|$)",
    re.IGNORECASE,
)
FIGURE = re.compile(r"^(?:fig(?:ure|s|ura)?|abb(?:ildung)?|рис(?:унок)?|figuur|图|圖|그림)\b", re.IGNORECASE)
LABELLED = re.compile(r"^\S{2,20} \d{1,3} ?[.:]\s")

NUMBERED = re.compile(
    r"^(?:(?:\d{1,2}(?:\.\d{1,2}){0,4}|[IVX]{1,5}|[A-Z])[.)]?"
    r"|(?:appendix|chapter|section|part|teil|kapitel|chapitre|anhang|annexe?)\s\S{1,4})\s+\S",
    re.IGNORECASE,
)
DECIMAL = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
_LEVEL_NUMBER = re.compile(r"^(?:[A-Z]\.)?(\d{1,2}(?:\.\d{1,2}){0,5})\.?(?:\s|$)")
HEADINGS = frozenset(
    "abstract acknowledgement acknowledgements acknowledgment acknowledgments appendix background "
    "bibliography conclusion conclusions contents discussion glossary introduction keywords literature "
    "method methods references results summary einleitung ergebnisse inhalt literatur zusammenfassung "
    "bibliographie introducción conclusiones referencias resumen références résumé sommaire".split()
)
REFERENCES = re.compile(
    r"^(?:[\dIVX]+\.?\s*)?(?:references?|bibliography|literatur(?:verzeichnis)?|literature(?: cited)?|références"
    r"|bibliographie|referencias|bibliografía|riferimenti|bibliografia|works cited)\W*$",
    re.IGNORECASE,
)

PAGE_NUMBER = re.compile(
    r"^\W{0,2}(?:(?:page|p\.|seite|s\.|página|pág\.)\s?)?(?:\d{1,4}|[ivxl]{1,6})"
    r"(?:\s?(?:/|of|von|de|sur)\s?\d{1,4})?\W{0,2}$",
    re.IGNORECASE,
)
# Text that is typical of the margins of journals and reports.
FURNITURE = re.compile(r"\b(?:doi|https?:|www\.|issn|vol(?:ume)?\b|page \d+)|©|copyright", re.IGNORECASE)
NOTE = re.compile(r"^(?:[*†‡§¶#∗⋆★]+|\d{1,2}|[a-z])(?:\s|(?=[A-Z]))")

OPERATORS = frozenset("=<>+−±×÷·∑∏∫√≤≥≈≡∼∝∂∇∈∉∞→⇒↦∀∃⊂⊆∪∩∧∨⊗⊕≠≪≫⟨⟩|^")
FUNCTIONS = frozenset(
    "sin cos tan log ln exp max min lim sup inf det dim ker arg mod tr if for and otherwise where".split()
)

# Headers end above the first of these shares of the page height. Footers start below the second.
_HEADER_ZONE = 0.13
_FOOTER_ZONE = 0.87
# The smallest gap between the text and a header or footer, in type sizes.
_MARGIN_GAP = 1.0
# Type sizes of headings, titles and notes, relative to the median type size.
_LARGE = 1.12
_TITLE = 1.3
_SMALL = 0.93
# A block with at least this share of letters in heavy type is bold.
_BOLD = 0.6
_MAX_HEADING_WORDS = 30
# Entries without marks are a list if at least this many have the same hanging indent.
_MIN_ENTRIES = 4
# Two headings belong to the same level if the ratio of their type sizes is smaller.
_SAME_SIZE = 1.08
_MAX_LEVEL = 6

Kinds = list[tuple[str, float] | None]


@dataclass(frozen=True, eq=False)
class PageLook:
    """Properties of a page that affect how its blocks are classified.

    Attributes:
        width, height: Size of the page.
        size: Median type size.
        bold: Share of the letters on the page that are bold.
        pictures, tables: Boxes of pictures and of tables.
        rules: Horizontal rules, (H, 4).
    """

    width: float
    height: float
    size: float
    bold: float
    pictures: list[Box]
    tables: list[Box]
    rules: Boxes


def is_captioned(block: Block) -> bool:
    """Return whether a block starts like a caption, for example with "Figure 3:"."""
    return CAPTION.match(block.text) is not None


def kinds_of(blocks: list[Block], look: PageLook) -> list[tuple[str, float]]:
    """Classify the blocks of a page, which are in reading order. Return the kind and the confidence of each block."""
    kinds: Kinds = [None] * len(blocks)
    _find_margins(blocks, look, kinds)
    _find_captions(blocks, look, kinds)
    _find_formulas(blocks, look, kinds)
    _find_headings(blocks, look, kinds)
    _find_items(blocks, look, kinds)
    _find_footnotes(blocks, look, kinds)
    _find_references(blocks, kinds)
    return [
        kind or ("Text", 0.95 if block.is_prose and len(block.lines) > 2 else 0.85 if len(block.lines) > 1 else 0.6)
        for kind, block in zip(kinds, blocks, strict=True)
    ]


def _find_margins(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    """Find page headers and footers: up to three rows of text blocks each at the top and at the bottom."""
    for top in (True, False):
        # Footers are found as headers of the page turned upside down.
        parts, others, rules = (
            _flip_boxes(np.array(boxes).reshape(-1, 4), not top)
            for boxes in ([block.box for block in blocks], [*look.pictures, *look.tables], look.rules)
        )
        last = None
        for edge in range(3):
            free = np.array([kind is None for kind in kinds], bool)
            if not free.any():
                return
            first = int(np.where(free, parts[:, 1], np.inf).argmin())
            low, high = parts[first, 1], parts[first, 3]
            row = [
                index
                for index in np.flatnonzero(free).tolist()
                if index == first
                or min(parts[index, 3], high) - max(parts[index, 1], low)
                > 0.3 * min(high - low, parts[index, 3] - parts[index, 1])
            ]
            away = 0.0 if last is None else float(low - last)
            zones = (_HEADER_ZONE, 0.06) if top else (-_FOOTER_ZONE, -0.94)
            if not _is_margin(row, first, blocks, parts, others, rules, look, zones, edge, away):
                break
            last = float(parts[row, 3].max())
            for index in row:
                sure = 0.9 if PAGE_NUMBER.match(blocks[index].text) else 0.75
                kinds[index] = ("Page-header" if top else "Page-footer", sure)


def _flip_boxes(boxes: Boxes, is_turned: bool) -> Boxes:
    return boxes[:, [0, 3, 2, 1]] * [1, -1, 1, -1] if is_turned else boxes


def _is_margin(
    row: list[int],
    first: int,
    blocks: list[Block],
    parts: Boxes,
    others: Boxes,
    rules: Boxes,
    look: PageLook,
    zones: tuple[float, float],
    edge: int,
    away: float,
) -> bool:
    """Return whether a row of text blocks near the top edge of the page is a page header.

    Args:
        row: Indices of the blocks in the row.
        first: Index of the uppermost block in the row.
        blocks: All blocks of the page.
        parts, others, rules: Boxes of all blocks, of pictures and tables, and of horizontal rules.
        look: Properties of the page.
        zones: Two positions, as shares of the page height. The row must end above the first position. If it ends above
            the second position, it is more likely to be a header.
        edge: Number of header rows already found above this row.
        away: Distance from the header row above; 0 for the first row.
    """
    size = look.size
    high = float(parts[row, 3].max())
    if high > zones[0] * look.height:
        return False
    if any(len(blocks[index].lines) > 3 or blocks[index].size > _TITLE * size for index in row):
        return False
    # The distance from the row to everything below it.
    below = np.concatenate([parts[parts[:, 1] >= high], others[others[:, 1] >= high - size]])
    gap = float((below[:, 1] - high).min(initial=np.inf))
    middles = (rules[:, 1] + rules[:, 3]) / 2
    between = (middles >= high - 0.2 * size) & (middles <= high + min(gap, 3 * size))
    ruled = bool((between & (rules[:, 2] - rules[:, 0] > 0.25 * look.width)).any())
    numbered = any(PAGE_NUMBER.match(blocks[index].text) for index in row)
    texts = " ".join(blocks[index].text for index in row)
    tokens = texts.split()
    ends_numbered = bool(tokens) and (tokens[0].isdigit() or tokens[-1].isdigit())
    small = max(blocks[index].size for index in row) < _SMALL * size
    furniture = FURNITURE.search(texts) is not None
    if blocks[first].is_prose and not (ruled or furniture or small):
        return False
    if any(is_captioned(blocks[index]) or LABELLED.match(blocks[index].text) for index in row):
        return False
    if not ruled and not furniture and away > 1.5 * size:
        return False
    narrow = sum(blocks[index].width for index in row) < 0.6 * look.width
    if edge == 0 and (numbered or ends_numbered) and narrow and 2 <= len(tokens) <= 12 and gap > 0.3 * size:
        return True
    votes = 1.0 * ruled + 1.0 * (numbered or ends_numbered) + 0.7 * small + 1.0 * furniture + 0.5 * (len(row) > 1)
    votes += 0.6 * (gap > 2.5 * size) + 0.5 * (edge > 0) + 0.3 * (high < zones[1] * look.height)
    return (gap > _MARGIN_GAP * size and votes >= 0.9) or (ruled and gap > 0.3 * size and votes >= 1.5)


def _find_captions(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    floats = [*look.pictures, *look.tables]
    for index, block in enumerate(blocks):
        if kinds[index] is not None:
            continue
        near = any(
            (across <= 0.5 * look.size and down <= 3.5 * look.size) or (down == 0 and across <= 2 * look.size)
            for across, down in (gaps_between(block.box, other) for other in floats)
        )
        match = CAPTION.match(block.text)
        if match is not None:
            stopped = match["rest"].strip() != ""
            # Running text also mentions figures: "Figure 3 shows".
            follows = block.text[match.end() :].lstrip()[:1]
            labelled = stopped or follows.isupper() or block.lines[0].bold > 0.1 > block.bold - 0.9
            small = block.size < _SMALL * look.size
            if (labelled and (near or stopped or small)) or (near and small):
                kinds[index] = ("Caption", 0.9 if near else 0.7)
        elif near and LABELLED.match(block.text) and len(block.lines) <= 4 and not MARK.match(block.lines[0].texts[0]):
            kinds[index] = ("Caption", 0.6)


def _is_math(word: str) -> bool:
    if any(character in OPERATORS for character in word):
        return True
    letters = [character for character in word if character.isalpha()]
    greek = any("\u0370" <= character <= "\u03ff" or ord(character) > 0x1D3FF for character in letters)
    return (
        (greek and len(letters) <= 4)
        or len(letters) <= 1
        or (len(letters) <= 4 and any(c.isdigit() or c in "()[]{}_/" for c in word))
    )


def _find_formulas(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    for index, block in enumerate(blocks):
        if kinds[index] is not None:
            continue
        words = [word for line in block.lines for word in line.texts]
        math = sum(_is_math(word) or word.lower().strip("().,") in FUNCTIONS for word in words)
        signs = sum(character in OPERATORS for word in words for character in word)
        long = sum(len(word) > 5 and word.isalpha() for word in words)
        indented = block.box[0] > _column_left(block, blocks) + 1.0 * look.size
        if signs >= 1 and math >= 0.6 * len(words) and long <= 0.15 * len(words) and (indented or signs >= 2):
            kinds[index] = ("Formula", 0.7)
    # Add numbers of formulas, and pieces of formulas at the same height.
    for _ in range(2):
        found = [blocks[index].box for index, kind in enumerate(kinds) if kind is not None and kind[0] == "Formula"]
        for index, block in enumerate(blocks):
            if kinds[index] is not None:
                continue
            words = block.text.split()
            math = sum(_is_math(word) for word in words)
            if math >= 0.7 * len(words) and any(gaps_between(block.box, box)[1] <= 0.3 * look.size for box in found):
                kinds[index] = ("Formula", 0.6)


def _column_left(block: Block, blocks: list[Block]) -> float:
    """Return the left edge of the text column that a block is in, measured at the running text in this column."""
    lefts = [
        other.box[0]
        for other in blocks
        if other.is_prose and other.box[0] <= block.box[0] + block.size and other.box[2] >= block.box[2] - block.size
    ]
    return max(lefts, default=block.column[0])


def _find_headings(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    heavy = [index for index in range(len(blocks)) if kinds[index] is None and _is_heading(index, blocks, look)]
    for index in heavy:
        kinds[index] = ("Section-header", 0.8)
    # The title is the largest heading, and there is no running text above it.
    candidates = [
        index
        for index in heavy
        if blocks[index].size >= _TITLE * look.size and blocks[index].box[1] < 0.5 * look.height
    ]
    if not candidates:
        return
    first = max(candidates, key=lambda index: blocks[index].size)
    top = blocks[first].box[1]
    prose_above = any(block.is_prose and len(block.lines) > 3 and block.box[3] < top for block in blocks)
    if not prose_above and not DECIMAL.match(blocks[first].text):
        for index in candidates:
            across, down = gaps_between(blocks[index].box, blocks[first].box)
            if down < 1.2 * blocks[first].size and blocks[index].size > 0.92 * blocks[first].size and across == 0:
                kinds[index] = ("Title", 0.85)


def _is_heading(index: int, blocks: list[Block], look: PageLook) -> bool:
    block = blocks[index]
    text = block.text.strip()
    words = text.split()
    letters = [character for character in text if character.isalpha()]
    if len(words) > _MAX_HEADING_WORDS or len(letters) < 3 or is_captioned(block):
        return False
    large = block.size > _LARGE * look.size
    larger = block.size > _TITLE * look.size
    bold = float(np.clip((block.bold - 0.3) / (_BOLD - 0.3), 0, 1)) if look.bold < 0.5 else 0.0
    capitals = sum(character.isupper() for character in letters) > 0.85 * len(letters)
    numbered = NUMBERED.match(text) is not None
    known = text.strip(" .:").lower().split()[-1] in HEADINGS and len(words) <= 3
    ends = text[-1] in ".,;" and not re.search(r"^\d+(?:\.\d+)*\.$", words[-1])
    begins_low = letters[0].islower() and not (len(words[0]) <= 2 and numbered)
    if begins_low and not larger:
        return False
    # A heading has text close below it in the same column.
    below = [
        other
        for other in blocks
        if other.box[1] > block.box[1]
        and other.box[1] - block.box[3] < 4 * look.size
        and min(other.box[2], block.box[2]) > max(other.box[0], block.box[0])
    ]
    right = max([block.column[1], *(other.box[2] for other in below)])
    wide = bool(below) and block.width > 0.9 * (right - block.box[0])
    mark = MARK.match(words[0]) is not None
    # List items also start with marks. A numbered line is a heading only if no list item is next to it.
    if mark and not (numbered and (bold > 0.5 or large)) and (not numbered or _item_beside(index, blocks)):
        return False
    votes = 1.2 * larger + 0.7 * large + 1.1 * bold + 0.6 * capitals + 0.8 * numbered + 0.9 * known
    votes += 0.3 * (not wide) + 0.2 * bool(below)
    votes -= 0.7 * ends + 0.5 * (not below and not larger) + 0.4 * (text[-1] == ":") * (bold < 0.5)
    votes += 0.6 * (not ends and _stands_alone(block, blocks, below, look))
    return votes >= 1.05


def _stands_alone(block: Block, blocks: list[Block], below: list[Block], look: PageLook) -> bool:
    """Return whether there is wide space above a block, and longer text with the same left edge below."""
    under = [
        other for other in below if abs(other.box[0] - block.box[0]) < 2 * look.size and other.width > 1.5 * block.width
    ]
    if not any(len(other.lines) > 1 for other in under):
        return False
    above = [block.box[1] - other.box[3] for other in blocks if other.box[3] < block.box[1] + 0.3 * look.size]
    return min(above, default=look.height) > 0.8 * look.size


def _item_beside(index: int, blocks: list[Block]) -> bool:
    block = blocks[index]
    for other in blocks:
        if other is block or abs(other.box[0] - block.box[0]) >= block.size:
            continue
        near = gaps_between(block.box, other.box)[1] < 1.5 * block.size
        if near and MARK.match(other.lines[0].texts[0]) and _kind_of_mark(other) == _kind_of_mark(block):
            return True
    return False


def _kind_of_mark(block: Block) -> str:
    return re.sub(r"\d+", "1", re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", block.lines[0].texts[0])))


def _find_items(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    for index, block in enumerate(blocks):
        if kinds[index] is not None:
            continue
        mark = block.lines[0].texts[0]
        if MARK.match(mark) and not DECIMAL_MARK.match(mark):
            bullet = mark in BULLETS
            if bullet or block.hangs or _item_beside(index, blocks) or re.match(r"^\(?[\da-z]{1,3}\)|^\[", mark):
                kinds[index] = ("List-item", 0.85 if bullet or block.hangs else 0.7)
            elif re.match(r"^\d{1,2}\.$", mark) and block.box[0] > _column_left(block, blocks) + 0.8 * look.size:
                kinds[index] = ("List-item", 0.7)
        elif re.match(r"^[•▪●■]\S", mark):
            kinds[index] = ("List-item", 0.7)
    # Entries without marks, with hanging indents.
    hanging = [index for index, block in enumerate(blocks) if block.hangs and kinds[index] is None]
    for index in hanging:
        alike = [other for other in hanging if abs(blocks[other].box[0] - blocks[index].box[0]) < 0.5 * look.size]
        if len(alike) >= _MIN_ENTRIES:
            kinds[index] = ("List-item", 0.6)
    # Text that is aligned with the text after the mark of a list item belongs to the list.
    for index, block in enumerate(blocks):
        if kinds[index] is not None:
            continue
        for other, kind in zip(blocks, kinds, strict=True):
            if kind is None or kind[0] != "List-item" or len(other.lines[0].words) < 2:
                continue
            down = gaps_between(block.box, other.box)[1]
            behind = min(line.box[0] for line in other.lines[1:]) if len(other.lines) > 1 else None
            if behind is not None and abs(block.box[0] - behind) < 0.4 * look.size and down < look.size:
                kinds[index] = ("List-item", 0.5)
                break


def _find_footnotes(blocks: list[Block], look: PageLook, kinds: Kinds) -> None:
    """Find footnotes at the bottom of each column.

    A footnote is in small type or starts with a footnote sign. If there is no short ruled line above it, both are
    required. Blocks are examined from the bottom of the page to the top.
    """
    rules = look.rules
    order = sorted(range(len(blocks)), key=lambda index: -blocks[index].box[3])
    waiting: list[int] = []
    for index in order:
        block, kind = blocks[index], kinds[index]
        if (kind is not None and kind[0] not in ("List-item", "Text")) or block.box[1] < 0.6 * look.height:
            continue
        if block.size >= _SMALL * look.size and not _starts_note(block):
            continue
        under = [
            place
            for place, other in enumerate(blocks)
            if place != index
            and other.box[1] >= block.box[3] - 0.3 * look.size
            and min(other.box[2], block.box[2]) > max(other.box[0], block.box[0])
        ]
        if any(
            (kinds[place] or ("", 0))[0] not in ("Footnote", "Page-footer") and place not in waiting for place in under
        ):
            continue
        # Small type at the bottom is a footnote if the block above it is one.
        waiting.append(index)
        above = (rules[:, 3] <= block.box[1] + 0.2 * look.size) & (block.box[1] - rules[:, 3] < 2.5 * look.size)
        above &= (rules[:, 0] <= block.box[0] + 3 * look.size) & (rules[:, 2] > block.box[0])
        above &= rules[:, 2] - rules[:, 0] < 0.6 * look.width
        small = block.size < _SMALL * look.size
        if above.any() or (small and _starts_note(block)):
            for place in [place for place in waiting if place == index or place in under]:
                kinds[place] = ("Footnote", 0.7)
                waiting.remove(place)


def _starts_note(block: Block) -> bool:
    """Return whether a block starts with a footnote sign or number, even without a space after it."""
    return NOTE.match(block.text) is not None or re.match(r"^\d{1,2}[A-Z][a-z]", block.text) is not None


def _find_references(blocks: list[Block], kinds: Kinds) -> None:
    """Classify the entries below a heading such as "References" as list items, up to the next heading."""
    listed = False
    for index, block in enumerate(blocks):
        kind = kinds[index]
        if kind is not None and kind[0] in ("Section-header", "Title"):
            listed = REFERENCES.match(block.text) is not None
        elif listed and kind is None:
            kinds[index] = ("List-item", 0.6)


def levels_of(blocks: Sequence[Block], kinds: Sequence[str]) -> list[int]:
    """Return the level of each section header (1 is directly below the title), and 0 for all other blocks.

    A heading numbered 2.1 is one level below a heading numbered 2. A heading without a number has the same level as
    numbered headings in the same type size and weight.
    """
    heads = [index for index, kind in enumerate(kinds) if kind == "Section-header"]
    looks: list[tuple[float, bool]] = []
    for index in sorted(heads, key=lambda index: (-blocks[index].size, blocks[index].bold < _BOLD)):
        look = (blocks[index].size, blocks[index].bold >= _BOLD)
        if not looks or looks[-1][0] > _SAME_SIZE * look[0] or looks[-1][1] != look[1]:
            looks.append(look)
    levels = [0] * len(blocks)
    depths = {index: _depth(blocks[index].text) for index in heads}
    # Numbered headings determine the level of unnumbered headings in the same type.
    by_look: dict[int, list[int]] = {}
    rank = {index: _rank(blocks[index], looks) for index in heads}
    for index in heads:
        if depths[index]:
            by_look.setdefault(rank[index], []).append(depths[index])
    for index in heads:
        alike = by_look.get(rank[index])
        depth = depths[index] or (min(alike) if alike else 1 + rank[index])
        levels[index] = min(_MAX_LEVEL, depth)
    return levels


def _depth(text: str) -> int:
    match = _LEVEL_NUMBER.match(text)
    return 0 if match is None else match[1].count(".") + 1


def _rank(block: Block, looks: list[tuple[float, bool]]) -> int:
    for rank, (size, bold) in enumerate(looks):
        if size <= _SAME_SIZE * block.size and bold == (block.bold >= _BOLD):
            return rank
    return len(looks) - 1
