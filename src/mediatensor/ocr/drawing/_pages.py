"""Pages: a layout on paper, then what a scanner, a fax, a camera or a file does to it; the truth goes along."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from mediatensor.errors import InvalidArgumentError

from ._damage import Color, chosen_style, damaged, near, papered, random_damage
from ._faces import Face, find_faces, upright_face
from ._layouts import LAYOUTS
from ._lines import as_random
from ._sheet import Sheet
from ._texts import letters_of, texts_of
from ._truth import DrawnPage, moved_truth
from ._warping import random_warp

__all__ = ["PAGE_KINDS", "draw_random_page"]

#: What pages may be; ``"mixed"`` is any of the others.
PAGE_KINDS = (*LAYOUTS, "mixed")

_PAPER_STYLES = {"clean": 10, "print": 25, "scan": 35, "fax": 8, "camera": 22}
_STYLES = {
    "receipt": {"receipt": 55, "scan": 15, "camera": 30},
    "slide": {"clean": 10, "screen": 40, "video": 25, "camera": 15},
    "caption": {"clean": 10, "screen": 30, "video": 60},
}


def draw_random_page(
    rng: random.Random | np.random.Generator,
    *,
    kind: str = "mixed",
    languages: Sequence[str] = ("en",),
    size: tuple[int, int] | None = None,
    faces: Sequence[Face] | None = None,
    style: str = "mixed",
    texts: Sequence[str] = (),
) -> DrawnPage:
    """Draw a random page, with the truth about everything on it.

    The same arguments and the same state of ``rng`` give the same page, on a machine with the same fonts.

    Args:
        rng: Decides everything; a Generator moves on by one draw.
        kind: One of `PAGE_KINDS`.
        languages: Keys of `TEXTS`; a page is in one of them.
        size: (width, height) in pixels; ``None`` for a random resolution of the usual size of the kind.
        faces: The faces to choose from; ``None`` for those of the machine, see `find_faces`.
        style: One of `STYLES`; ``"mixed"`` is any that pages of the kind come in.
        texts: Lines of your own, which are drawn instead of sentences of the language; see `read_texts`.

    Raises:
        InvalidArgumentError: An argument is unknown, or no face has the letters of the language.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import draw_random_page
        >>> page = draw_random_page(random.Random(0), kind="letter", size=(600, 800), style="clean")
        >>> page.image.shape, len(page.words) > 20, page.words[0].polygon.shape
        ((800, 600, 3), True, (4, 2))
    """
    rng = as_random(rng)
    if kind not in PAGE_KINDS:
        raise InvalidArgumentError(f"kind is {kind!r}; accepted: {', '.join(PAGE_KINDS)}")
    if not languages:
        raise InvalidArgumentError("languages is empty; name at least one, such as languages=['en']")
    kind = rng.choices(list(LAYOUTS), (15, 16, 14, 12, 12, 16, 8, 5, 2))[0] if kind == "mixed" else kind
    style = chosen_style(rng, style, _STYLES.get(kind, _PAPER_STYLES))
    language = rng.choice(languages)
    draw, inches, points = LAYOUTS[kind]
    if size is None:
        dpi = rng.uniform(90, 150) if kind not in ("slide", "caption") else rng.uniform(64, 110)
        dpi *= 1.4 if kind == "receipt" else 1
        size = (round(inches[0] * dpi), round(inches[1] * dpi))
        cut = kind == "receipt"
    else:
        cut = False
    if min(size) < 64:
        raise InvalidArgumentError(f"size is {size}; a page has at least 64 pixels each way")
    em = max(7.0, rng.uniform(*points) / 72 * size[0] / inches[0])
    known = find_faces() if faces is None else tuple(faces)
    needed = "".join(texts) or letters_of(language) + "".join(texts_of(language)) + "0123456789:,.-()/"
    body = upright_face(rng, needed, known, fixed=kind == "receipt" and rng.random() < 0.6)
    if body is None:
        raise InvalidArgumentError(
            f"no face has all letters of {language!r}; install a font that has, or name it in faces"
        )
    fixed = upright_face(rng, needed, known, fixed=True) or body
    ink, paper = _colors(rng, kind, style)
    texture = 0.0 if style in ("clean", "screen", "video") else rng.uniform(0, 10)
    sheet = Sheet(
        papered(size, paper, texture, rng), em, rng, body=body, fixed=fixed, faces=known, ink=ink, language=language,
        texts=texts,
    )  # fmt: skip
    draw(sheet)
    image, regions, fields = sheet.canvas, tuple(sheet.regions), tuple(sheet.fields)
    if cut:
        # The printer cuts the paper below the last line.
        bottom = max(float(region.polygon[:, 1].max()) for region in regions) + em * rng.uniform(1.5, 5)
        size = (size[0], min(size[1], round(bottom)))
        image = image.crop((0, 0, *size))
    warp = random_warp(rng, style, size)
    if warp is not None:
        desks = [(90, 70, 50), (40, 40, 40), (150, 150, 155), (60, 70, 80)]
        desk = near(rng, rng.choice(desks), 20) if style == "camera" else near(rng, paper, 5)
        image = warp.applied(image, papered(size, desk, 12 if style == "camera" else 2, rng))
        regions, fields = moved_truth(regions, fields, warp.moved_polygons)
    image = damaged(image, random_damage(rng, style, em), rng)
    return DrawnPage(np.array(image), kind, style, language, regions, fields)


def _colors(rng: random.Random, kind: str, style: str) -> tuple[Color, Color]:
    """Ink and paper."""
    if kind == "slide" and rng.random() < 0.4:
        return near(rng, (240, 240, 240), 15), near(rng, rng.choice([(20, 30, 60), (15, 15, 15), (10, 70, 80)]), 12)
    dark = rng.choice([0, 0, 15, 35, 60])
    if style == "clean":
        return (dark, dark, dark), (255, 255, 255)
    level = rng.randint(232, 255) if style != "camera" else rng.randint(170, 240)
    return near(rng, (dark, dark, dark), 6), near(rng, (level, level, max(0, level - rng.choice([0, 0, 5, 18]))), 3)
