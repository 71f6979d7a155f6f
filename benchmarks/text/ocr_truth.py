"""Pages with known text: folders in the layout of FUNSD or of SROIE, or generated pages.

A folder has ``images/NAME.png`` (or ``.jpg``...) and ``annotations/NAME.json``, which is one of ::

    {"form": [{"words": [{"text": "FAX:", "box": [x0, y0, x1, y1]}]}]}      FUNSD: boxes of words
    {"lines": [{"text": "TAX INVOICE", "box": [x0, y0, x1, y1]}]}           SROIE: boxes of lines, upper case
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ocr_scores import Word

_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class TruePage:
    """A page and its text.

    Attributes:
        image: The file.
        words: Words with boxes; if only lines are known, words have the boxes of their lines.
        lines: Lines with boxes; empty if only words are known.
        has_word_boxes: Whether boxes of words can be scored.
    """

    image: Path
    words: tuple[Word, ...]
    lines: tuple[Word, ...]
    has_word_boxes: bool


def load_sets(
    folders: Sequence[Path], limit: int | None = None, known: Path | None = None
) -> dict[str, list[TruePage]]:
    """Return pages by the name of their folder. A folder may also contain several such folders.

    Args:
        folders: The folders.
        limit: Maximum number of pages in each set; by default all.
        known: File that lists the images, such as ``funsd/images/1.png``, on which rules of the reader were developed.
            The pages of a folder are then split into two sets: ``"funsd, known"`` and ``"funsd, unseen"``.

    Raises:
        FileNotFoundError: if there is no annotated page.
        ValueError: if an annotation has neither of the two layouts.
    """
    listed = set(known.read_text(encoding="utf-8").split()) if known else set()
    sets: dict[str, list[TruePage]] = {}
    for folder in folders:
        for inner in [folder] if (folder / "annotations").is_dir() else sorted(folder.glob("*/")):
            for path in sorted((inner / "annotations").glob("*.json")):
                image = _image_of(inner, path)
                name = inner.name
                if known:
                    name += ", known" if f"{inner.name}/images/{image.name}" in listed else ", unseen"
                pages = sets.setdefault(name, [])
                if limit is None or len(pages) < limit:
                    pages.append(_load_page(image, path))
    if not sets:
        raise FileNotFoundError(f"no images/ and annotations/*.json in {', '.join(map(str, folders))}")
    return sets


def _image_of(folder: Path, annotation: Path) -> Path:
    images = [path for path in (folder / "images").glob(f"{annotation.stem}.*") if path.suffix in _IMAGE_SUFFIXES]
    if len(images) != 1:
        raise FileNotFoundError(f"{len(images)} images for {annotation}, where one is expected")
    return images[0]


def _load_page(image: Path, annotation: Path) -> TruePage:
    try:
        words, lines = parse_annotation(json.loads(annotation.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{annotation} is not a FUNSD or SROIE annotation: {error!r}") from error
    return TruePage(image, words, lines, has_word_boxes=not lines)


def parse_annotation(document: dict[str, Any]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return (words, lines), without words that have no text."""
    if "form" in document:
        words = [_word(word) for entity in document["form"] for word in entity["words"]]
        return tuple(word for word in words if word.text), ()
    lines = tuple(_word(line) for line in document["lines"])
    return tuple(Word(text, line.box) for line in lines for text in line.text.split()), lines


def _word(fields: dict[str, Any]) -> Word:
    x0, y0, x1, y1 = map(float, fields["box"])
    return Word(fields["text"].strip(), (x0, y0, x1, y1))


# Pages rendered without a folder: kind, seed, options of `render_page`.
_DRAWN: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("letter", 0, {}),
    ("columns", 1, {"dpi": 150, "noise": 8, "jpeg": 60}),
    ("form", 2, {"dpi": 120}),
    ("form", 3, {"rotation": 4, "blur": 0.6}),
    ("receipt", 4, {"dpi": 150, "contrast": 0.5, "noise": 10}),
    ("receipt", 5, {"dpi": 120, "inverted": True}),
    ("ruled", 6, {"noise": 4}),
)


def draw_pages(
    folder: Path, limit: int | None = None, plans: Sequence[tuple[str, int, dict[str, Any]]] = _DRAWN
) -> dict[str, list[TruePage]]:
    """Render pages with known text into ``folder``, with the helpers of the tests.

    A plan is the kind of a page, its seed, and options of ``render_page``.
    """
    from PIL import Image

    tests = str(Path(__file__).parents[2] / "tests" / "shared")
    if tests not in sys.path:
        sys.path.append(tests)
    from ocr_pages import RenderedPage, render_page

    def word(text: str, quad: Any) -> Word:
        (x0, y0), (x1, y1) = quad.min(axis=0).tolist(), quad.max(axis=0).tolist()
        return Word(text, (x0, y0, x1, y1))

    pages = []
    for number, (kind, seed, options) in enumerate(plans[:limit]):
        page: RenderedPage = render_page(kind, seed, **options)
        path = folder / f"{number}-{kind}.png"
        Image.fromarray(page.image).save(path)
        words, lines = (tuple(word(*box) for box in boxes) for boxes in (page.words, page.lines))
        # The upright box of a rotated line also contains words of the next one.
        pages.append(TruePage(path, words, () if options.get("rotation") else lines, has_word_boxes=True))
    return {"drawn": pages}
