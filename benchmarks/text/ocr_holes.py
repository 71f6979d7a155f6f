"""Lost characters, for ``python -m benchmarks.text.ocr --holes``: characters outside of the boxes of all words.

Pages, and pictures of single lines, are drawn with the sentences of `ocr_languages` in European languages, line by
line in changing faces, slants, sizes and tracking; pages differ in size, scale, ink, paper and damage. The default
predictor reads them. A character is lost if its middle is not in the box of any word, or of any line that the page
reports as unread; the recognised text does not matter. Characters that the reader does not know are not counted. A page
depends only on its number: it is the same every time if the same fonts are installed.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..shared.reports import markdown_table
from .ocr_drawn import DrawnSheet, Face, Look, RenderedPage, faces_for, finished_page
from .ocr_languages import TEXTS

CODES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv", "da", "fi", "hu", "ro")
NUM_PAGES = 100
"""Drawn by default; every fifth is a picture of one line."""
#: Width, height and scale of pages in pixels: screens, and paper at 72 to 300 dpi.
PAGES = (
    (960, 720, 0.8), (1280, 960, 1.0), (827, 1169, 0.75), (1000, 1300, 0.85), (1240, 1000, 1.0), (1240, 1754, 1.0),
    (1654, 2339, 1.35), (1700, 2200, 1.35), (2480, 3508, 2.0),
)  # fmt: skip
SIZES = (12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 34, 40)
"""The em in pixels at scale 1."""
SLANTS = (0.0, 0.0, 0.0, 0.0, 0.2, -0.1)
LEADINGS = (1.1, 1.2, 1.3, 1.5)
TRACKINGS = (0.0, 0.0, 0.0, 0.0, -0.03, 0.03, 0.08)
WIDTHS = (1.0, 1.0, 1.0, 0.6, 0.3)
"""Of lines, as shares of the page's."""
KINDS = ("sans", "serif", "mono", "bold", "italic", "narrow")
GROUPS = ("all", "picture", "face", "em", "slant", "tracking", "page")
PER = 50_000
# Word boxes end at the ink; they may differ from the truth by this share of their height.
_TOLERANCE = 0.15


class Character(NamedTuple):
    """A character other than a space: its line number, and its middle in pixels, at half the line's ink height."""

    text: str
    line: int
    x: float
    y: float


@dataclass(frozen=True)
class HolesPage:
    """A drawn page.

    Attributes:
        image: (H, W, 3) uint8, RGB.
        characters: In the order of the lines.
        groups: For each line, its value in every group, by the name of the group.
    """

    image: NDArray[np.uint8]
    characters: tuple[Character, ...]
    groups: tuple[dict[str, str], ...]


@dataclass
class Loss:
    """Rendered characters, the ones in lines reported as unread, and lost ones."""

    drawn: int = 0
    unread: int = 0
    lost: int = 0

    @property
    def per_50000(self) -> float:
        return PER * self.lost / max(self.drawn, 1)


class _Style(NamedTuple):
    kind: str
    face: Face
    em: int
    slant: float
    tracking: float


def draw_page(number: int, kinds: Sequence[str] = KINDS) -> HolesPage:
    """Generate the page of this number, in fonts of these kinds; every fifth is an image of one line."""
    rng = random.Random(number)
    code = rng.choice(CODES)
    words = " ".join(TEXTS[code]).split()
    faces = {kind: found for kind in kinds if (found := faces_for("".join(words), [kind]))}
    width, height, scale = rng.choice(PAGES)
    is_line, is_dark, is_plain = number % 5 == 4, rng.random() < 0.15, rng.random() < 0.5

    def style() -> _Style:
        kind = rng.choice(list(faces))
        return _Style(kind, rng.choice(faces[kind]), rng.choice(SIZES), rng.choice(SLANTS), rng.choice(TRACKINGS))

    ink = rng.randint(80, 150) if rng.random() < 0.15 else rng.randint(0, 60)
    damage = {
        "rotation": rng.choice((0.0, 0.0, 0.0, -0.6, 0.4)),
        "blur": scale * rng.choice((0.0, 0.0, 0.4, 0.7)),
        "noise": rng.choice((0.0, 0.0, 3.0, 8.0, 12.0)),
        "jpeg": rng.choice((None, None, 80, 50)),
    }
    chosen, margin = style(), 40 * scale
    looks = Look(chosen.face, 10 * scale, ink=ink, paper=rng.randint(225, 255), seed=number, **damage)
    if is_line:
        height = round(scale * chosen.em * 1.4 + rng.choice((8, 20, 60)))
    sheet, styles, shares, y = DrawnSheet(width, height, looks), list[_Style](), list[list[list[float]]](), margin / 2
    if is_line:
        y = (height - 1.4 * scale * chosen.em) / 2
    for line in itertools.count():
        if line and (not is_plain or rng.random() < 0.1):
            chosen = style()
        em = chosen.em * scale
        if y + 1.4 * em > height or (is_line and line):
            break
        sheet.look = replace(looks, face=chosen.face, slant=chosen.slant, tracking=chosen.tracking)
        font = sheet.font(factor=chosen.em / 10)
        text = _line_of(
            words, rng, lambda text, font=font: sheet.length(text, font), rng.choice(WIDTHS) * (width - 2 * margin)
        )
        if text:
            sheet.write(margin, y + 1.05 * em, text, font, ink)
            styles.append(chosen)
            shares.append([_middles(word, lambda text, font=font: sheet.advance(text, font)) for word in text.split()])
        y += em * rng.choice(LEADINGS)
    sheet.look = looks
    page = finished_page(sheet)
    picture = "single lines" if is_line else "pages, light on dark" if is_dark else "pages, dark on light"
    groups = tuple(_groups(own, picture, width) for own in styles)
    image = 255 - page.image if is_dark else page.image
    return HolesPage(image, tuple(_characters(page, shares)), groups)


def _groups(style: _Style, picture: str, width: int) -> dict[str, str]:
    """Return the groups in which a line is counted."""
    return {
        "all": "all",
        "picture": picture,
        "face": style.kind,
        "em": "up to 15 px" if style.em <= 15 else "16 to 22 px" if style.em <= 22 else "24 px and more",
        "slant": f"{style.slant:g}",
        "tracking": f"{style.tracking:g} em",
        "page": f"{width} px wide",
    }


def _line_of(words: Sequence[str], rng: random.Random, length: Callable[[str], float], limit: float) -> str:
    """Return as many words as fit, starting at a random one; none if the first does not fit."""
    first, text = rng.randrange(len(words)), ""
    for place in itertools.count(first):
        longer = f"{text} {words[place % len(words)]}".strip()
        if length(longer) > limit:
            return text
        text = longer
    raise AssertionError


def _middles(word: str, advance: Callable[[str], float]) -> list[float]:
    """Return the middles of a word's characters, as shares of its width."""
    ends = [advance(word[:end]) for end in range(len(word) + 1)]
    return [(low + high) / 2 / ends[-1] for low, high in itertools.pairwise(ends)]


def _characters(page: RenderedPage, shares: Sequence[Sequence[Sequence[float]]]) -> Iterator[Character]:
    lines = ((line, middles) for line, own in enumerate(shares) for middles in own)
    for word, (line, middles) in zip(page.words, lines, strict=True):
        left, right = (word.quad[0] + word.quad[3]) / 2, (word.quad[1] + word.quad[2]) / 2
        for text, share in zip(word.text, middles, strict=True):
            x, y = left + share * (right - left)
            yield Character(text, line, float(x), float(y))


def lost(characters: Sequence[Character], boxes: Sequence[tuple[float, float, float, float]]) -> list[Character]:
    """Return the characters whose middles are outside of all boxes, (x0, y0, x1, y1) in pixels."""
    points = np.array([(character.x, character.y) for character in characters]).reshape(-1, 1, 2)
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    grown = _TOLERANCE * (corners[:, 3:] - corners[:, 1:2])
    low, high = corners[:, :2] - grown, corners[:, 2:] + grown
    inside = ((points >= low) & (points <= high)).all(axis=2).any(axis=1)
    return [character for character, found in zip(characters, inside.tolist(), strict=True) if not found]


def measure(
    predictor: Any, numbers: Sequence[int], kinds: Sequence[str] = KINDS, say: Callable[[str], None] = lambda line: None
) -> tuple[dict[tuple[str, str], Loss], list[dict[str, Any]]]:
    """Read the pages of these numbers.

    Args:
        predictor: The reader.
        numbers: Page numbers.
        kinds: Kinds of fonts.
        say: Takes lines about the progress.

    Returns:
        Counts by group and its value, such as ``("face", "serif")``; and runs of characters that were lost, with the
        number of their page, their text, place and group.
    """
    sums: dict[tuple[str, str], Loss] = defaultdict(Loss)
    holes, known = [], set(predictor.reco_predictor.model.vocab)
    for number in numbers:
        page = draw_page(number, kinds)
        drawn = [character for character in page.characters if character.text in known]
        (read,) = predictor([page.image]).pages
        words = [word for block in read.blocks for line in block.lines for word in line.words]
        in_words = lost(drawn, _boxes(words, page.image.shape))
        nowhere = lost(in_words, _boxes(read.unread, page.image.shape))
        for attribute, characters in (("drawn", drawn), ("unread", in_words), ("lost", nowhere)):
            for character in characters:
                for group in page.groups[character.line].items():
                    setattr(sums[group], attribute, getattr(sums[group], attribute) + 1)
        for line, run in itertools.groupby(nowhere, key=lambda character: character.line):
            own = list(run)
            text, place = "".join(character.text for character in own), [round(own[0].x), round(own[0].y)]
            holes.append({"number": number, "text": text, "place": place, **page.groups[line]})
        say(f"page {number}: {len(drawn)} characters, {len(nowhere)} lost")
    for loss in sums.values():
        loss.unread -= loss.lost
    return sums, holes


def _boxes(elements: Sequence[Any], shape: tuple[int, ...]) -> list[tuple[float, float, float, float]]:
    """Return upright boxes in pixels."""
    corners = (np.asarray(element.geometry) * (shape[1], shape[0]) for element in elements)
    return [(*own.min(axis=0).tolist(), *own.max(axis=0).tolist()) for own in corners]


def holes_table(sums: dict[tuple[str, str], Loss]) -> str:
    """Format the counts as a Markdown table."""
    rows = []
    for (group, value), loss in sorted(sums.items(), key=lambda item: (GROUPS.index(item[0][0]), item[0][1])):
        label = value if group in ("all", "picture") else f"{group}: {value}"
        rows.append([label, loss.drawn, loss.lost, f"{loss.per_50000:.1f}", loss.unread])
    return markdown_table(["drawn", "characters", "lost", f"lost of {PER:,}", "in lines reported as unread"], rows)
