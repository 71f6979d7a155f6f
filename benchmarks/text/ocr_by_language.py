"""Pages in each language that the default reader may claim, for ``python -m benchmarks.text.ocr --languages``.

The sentences of `ocr_languages` are rendered twice: in a sans serif font, and smaller in a serif font, with noise and
JPEG artefacts. A word counts if it is exact, with capitals, accents and punctuation. Chinese and Japanese have no
spaces, so a word is a character there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..shared.panels import Bar, Panel, draw_panels
from .ocr_drawn import Face, Look, draw_text, find_face
from .ocr_languages import LANGUAGES, TEXTS, is_spaced
from .ocr_scores import Word, edit_distance

LEAST_WORDS = 0.9
"""The share of exact words from which on a language counts as read."""

# Faces of the two pages; of each, the first that is installed and has the letters.
_FACES = (
    ("OpenSans-Regular", "NotoSansCJK-Regular", "DejaVuSans"),
    ("LiberationSerif-Regular", "NotoSerifCJK-Regular", "DejaVuSerif"),
)
_LOOKS: tuple[dict[str, Any], ...] = ({"em_px": 30}, {"em_px": 24, "noise": 8, "jpeg": 60, "ink": 30})


@dataclass(frozen=True)
class LanguagePage:
    """A drawn page: its language, face and file, and its lines with their boxes."""

    code: str
    face: str
    image: Path
    lines: tuple[Word, ...]


@dataclass(frozen=True)
class LanguageRow:
    """Accuracy for a language.

    Attributes:
        code, name: Code and name of the language.
        faces: Fonts used for rendering.
        exact, words: Words that came out exactly, and all of them; characters where there are no spaces.
        edits, characters: Edits to the truth without spaces, and the true characters.
        space_edits, spaces: Spaces that are missing or too many, and the spaces of the truth.
        unknown: Characters of the sentences that the reader does not know.
        mistakes: Words of the truth that did not come out.
    """

    code: str
    name: str
    faces: tuple[str, ...]
    exact: int
    words: int
    edits: int
    characters: int
    space_edits: int
    spaces: int
    unknown: str
    mistakes: tuple[str, ...]

    @property
    def is_read(self) -> bool:
        return self.exact >= LEAST_WORDS * self.words


def draw_languages(
    folder: Path, codes: Sequence[str] = tuple(TEXTS), limit: int | None = None
) -> tuple[list[LanguagePage], list[str]]:
    """Return at most ``limit`` pages of each language, and notes on languages that no installed font can render."""
    from PIL import Image

    pages, notes = [], []
    for code in codes:
        text, number = "".join(TEXTS[code]), len(pages)
        for place, (names, options) in enumerate(list(zip(_FACES, _LOOKS, strict=True))[:limit]):
            face = _first_with(names, text)
            if face is None:
                continue
            page = draw_text(TEXTS[code], Look(face, seed=place, **options), 40 * options["em_px"], is_spaced(code))
            path = folder / f"{code}-{place}.png"
            Image.fromarray(page.image).save(path)
            lines = tuple(
                Word(line.text, (*line.quad.min(axis=0).tolist(), *line.quad.max(axis=0).tolist()))
                for line in page.lines
            )
            pages.append(LanguagePage(code, face.name, path, lines))
        if len(pages) == number:
            notes.append(f"{LANGUAGES[code]} is left out: no face is installed that has its letters")
    return pages, notes


def _first_with(names: Sequence[str], text: str) -> Face | None:
    return next((face for name in names if (face := find_face(name)) and face.has(text)), None)


def measure(pages: Sequence[LanguagePage], words: Sequence[Sequence[Word]], known: str) -> list[LanguageRow]:
    """Compare the words read on each page with its lines.

    Args:
        pages: The pages, grouped by language.
        words: The words read on each page.
        known: The characters that the reader knows.
    """
    rows = []
    for code in dict.fromkeys(page.code for page in pages):
        spaced, missed = is_spaced(code), Counter[str]()
        exact = total = edits = characters = space_edits = spaces = 0
        own = [(page, found) for page, found in zip(pages, words, strict=True) if page.code == code]
        for page, found in own:
            truth, read = " ".join(line.text for line in page.lines), _text_of(found, page.lines)
            compact, read_compact = "".join(truth.split()), "".join(read.split())
            wanted = Counter(truth.split() if spaced else compact)
            lost = wanted - Counter(read.split() if spaced else read_compact)
            exact, total, missed = exact + wanted.total() - lost.total(), total + wanted.total(), missed + lost
            errors = edit_distance(compact, read_compact)
            edits, characters = edits + errors, characters + len(compact)
            if spaced:
                space_edits += edit_distance(truth, read) - errors
                spaces += truth.count(" ")
        unknown = "".join(sorted(character for character in set("".join(TEXTS[code])) if character not in known))
        faces = tuple(page.face for page, _ in own)
        mistakes = tuple(word for word, _ in missed.most_common())
        row = (exact, total, edits, characters, space_edits, spaces, unknown, mistakes)
        rows.append(LanguageRow(code, LANGUAGES[code], faces, *row))
    return rows


def _text_of(found: Sequence[Word], lines: Sequence[Word]) -> str:
    """Return the words in the order of the lines; each belongs to the line with the nearest middle."""
    middles = np.array([(line.box[1] + line.box[3]) / 2 for line in lines])
    placed = [
        (int(np.abs(middles - (word.box[1] + word.box[3]) / 2).argmin()), word.box[0], word.text) for word in found
    ]
    return " ".join(text for _, _, text in sorted(placed))


def languages_table(rows: Sequence[LanguageRow]) -> str:
    """Format a Markdown table, sorted by name, with badly read languages last."""
    lines = [
        "| language | code | exact words % | characters wrong % | spaces wrong % | characters not known |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in sorted(rows, key=lambda row: (not row.is_read, row.name)):
        spaces = f"{100 * row.space_edits / row.spaces:.2f}" if row.spaces else ""
        unknown = " ".join(f"`{character}`" for character in row.unknown)
        note = "" if row.is_read else " (not claimed)"
        figures = f"{100 * row.exact / row.words:.1f} | {100 * row.edits / row.characters:.2f} | {spaces}"
        lines.append(f"| {row.name}{note} | {row.code} | {figures} | {unknown} |")
    return "\n".join(lines)


def rows_document(rows: Sequence[LanguageRow]) -> list[dict[str, Any]]:
    """Return the rows for a JSON file."""
    return [asdict(row) | {"is_read": row.is_read} for row in rows]


def draw_chart(rows: Sequence[LanguageRow], path: Path) -> None:
    """Return bars of both measures, best language first."""
    ordered = sorted(rows, key=lambda row: -row.exact / row.words)
    words = [Bar(row.name, 100 * row.exact / row.words) for row in ordered]
    edits = [Bar(row.name, 100 * row.edits / row.characters) for row in ordered]
    panels = [
        Panel("words read exactly", "% (more is better)", words),
        Panel("characters wrong", "% (less is better)", edits),
    ]
    draw_panels("Drawn pages by language", [panels], path)
