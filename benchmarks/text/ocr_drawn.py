"""Render lines and pages in the installed fonts, with the position and text of each word and line.

::

    face = find_face("Roboto-LightItalic")               # by the name of its file; None where it is not installed
    faces = faces_for("Žluťoučký kůň")                   # the installed FACES that have the letters
    look = Look(face, em_px=32, tracking=0.05, noise=8)
    page = draw_lines(["Total due:", "1,250.00 EUR"], look)
    page = draw_text(TEXTS["cs"], look, width_px=1200)   # broken into lines of this width
    page.image, page.words, page.lines                   # as in tests/shared/ocr_pages.py

The same arguments give the same page, with the same versions of Pillow and of the fonts. Text is drawn on a
``DrawnSheet``, which custom layouts can use as well. matplotlib's fonts are always available with matplotlib; other
fonts depend on the machine.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image

from mediatensor.ocr.drawing import Face, find_faces

_TESTS = str(Path(__file__).parents[2] / "tests" / "shared")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
# The pages are rendered by the helpers of the tests.
from ocr_pages import RenderedPage, as_scanned, finished, rotated  # noqa: E402
from ocr_pages_sheet import Font, Sheet  # noqa: E402

#: Font files by kind. The first of each kind, except the last two kinds, comes with matplotlib.
FACES = {
    "sans": "DejaVuSans Roboto-Regular OpenSans-Regular Lato-Regular Carlito-Regular LiberationSans-Regular "
    "NotoSans-Regular NimbusSans-Regular FreeSans",
    "serif": "DejaVuSerif EBGaramond12-Regular LinLibertine_R LiberationSerif-Regular Caladea-Regular C059-Roman "
    "NotoSerif-Regular FreeSerif",
    "mono": "DejaVuSansMono LiberationMono-Regular Inconsolata Cousine-Regular FreeMono CourierPrime",
    "bold": "DejaVuSans-Bold Roboto-Bold LiberationSerif-Bold Lato-Black",
    "italic": "DejaVuSans-Oblique LiberationSerif-Italic Roboto-LightItalic EBGaramond12-Italic Carlito-Italic",
    "narrow": "LiberationSansNarrow-Regular RobotoCondensed-Regular NimbusSansNarrow-Regular",
    "cjk": "NotoSansCJK-Regular NotoSerifCJK-Regular DroidSansFallbackFull",
}


@cache
def _installed() -> dict[str, Face]:
    return {face.name: face for face in find_faces()}


def find_face(name: str) -> Face | None:
    """Find the font whose file has this name, without its extension."""
    return _installed().get(name)


def faces_for(text: str = "", kinds: Sequence[str] = ()) -> list[Face]:
    """Faces of these kinds (keys of ``FACES``; all by default) that are installed and have all letters of a text."""
    names = [name for kind in kinds or FACES for name in FACES[kind].split()]
    return [face for name in names if (face := find_face(name)) and face.has(text)]


@dataclass(frozen=True)
class Look:
    """The appearance of text.

    Attributes:
        face: The face.
        em_px: Its em in pixels of the page.
        slant: How far letters lean to the right, as a share of their height (0.2 is a usual slant).
        tracking: Space added after every letter, in em.
        leading: From baseline to baseline, in em.
        margin_px: Around the text.
        ink, paper: Grey levels.
        rotation: Turns the page counter-clockwise, in degrees.
        blur, noise, jpeg: As in ``ocr_pages.render_page``.
        seed: Seed of the noise.
    """

    face: Face
    em_px: float = 28
    slant: float = 0.0
    tracking: float = 0.0
    leading: float = 1.5
    margin_px: float = 40
    ink: int = 0
    paper: int = 255
    rotation: float = 0.0
    blur: float = 0.0
    noise: float = 0.0
    jpeg: int | None = None
    seed: int = 0


class DrawnSheet(Sheet):
    """A sheet in any font, slanted and tracked. Lengths are pixels; ``size`` is the em."""

    def __init__(self, width: float, height: float, look: Look) -> None:
        super().__init__(width, height, 72, look.em_px, random.Random(look.seed))
        self.look = look

    def font(self, name: str = "", factor: float = 1.0) -> Font:
        face = find_face(name) if name else self.look.face
        if face is None:
            raise ValueError(f"no face of the name {name!r} is installed")
        return face.at(self.size * factor * self.scale)

    def advance(self, text: str, font: Font) -> float:
        return super().advance(text, font) + len(text) * self.look.tracking * getattr(font, "size", 0)

    def letters(self, word: str, font: Font) -> tuple[Image.Image, tuple[int, int]]:
        if not self.look.tracking:
            mask, (left, top) = super().letters(word, font)
        else:
            parts = [
                (round(self.advance(word[:place], font)), *super(DrawnSheet, self).letters(letter, font))
                for place, letter in enumerate(word)
            ]
            left, top = min(x + dx for x, _, (dx, _) in parts), min(dy for _, _, (_, dy) in parts)
            right = max(x + dx + part.width for x, part, (dx, _) in parts)
            bottom = max(dy + part.height for _, part, (_, dy) in parts)
            mask = Image.new("L", (right - left, bottom - top))
            for x, part, (dx, dy) in parts:
                mask.paste(255, (x + dx - left, dy - top), part)
        if not self.look.slant:
            return mask, (left, top)
        # A row at height h over the baseline moves to the right by slant * h.
        slant, before, after = self.look.slant, self.look.slant * -top, self.look.slant * (top + mask.height)
        room = round(max(0.0, after)) + 1
        size = (mask.width + room + round(max(0.0, before)) + 1, mask.height)
        leaning = (1, slant, -room - before, 0, 1, 0)
        return mask.transform(size, Image.Transform.AFFINE, leaning, Image.Resampling.BICUBIC), (left - room, top)


def draw_lines(lines: Sequence[str], look: Look) -> RenderedPage:
    """Render lines one below the other, on a sheet of the necessary size."""
    probe = DrawnSheet(1, 1, look)
    width = max((probe.length(line, probe.font()) for line in lines), default=0.0)
    step = look.leading * look.em_px
    extra = abs(look.slant) * look.em_px
    sheet = DrawnSheet(width + 2 * look.margin_px + extra, step * len(lines) + 2 * look.margin_px, look)
    for number, line in enumerate(lines):
        baseline = look.margin_px + step * number + (look.leading + 0.7) / 2 * look.em_px
        sheet.write(look.margin_px, baseline, line, sheet.font(), look.ink)
    return finished_page(sheet)


def draw_text(sentences: Sequence[str], look: Look, width_px: float = 1200, spaced: bool = True) -> RenderedPage:
    """Render a paragraph for each sentence, broken into lines of at most ``width_px``.

    Args:
        sentences: The text.
        look: The appearance.
        width_px: The maximum width of a line.
        spaced: Whether lines break at spaces; otherwise they break between any two characters.
    """
    probe, lines = DrawnSheet(1, 1, look), list[str]()
    font, joint = probe.font(), " " if spaced else ""
    for sentence in sentences:
        line = ""
        for part in sentence.split() if spaced else sentence:
            if line and probe.length(line + joint + part, font) > width_px:
                lines.append(line)
                line = part
            else:
                line += (joint if line else "") + part
        lines.append(line)
    return draw_lines(lines, look)


def finished_page(sheet: DrawnSheet) -> RenderedPage:
    """Return the sheet as a page with its look's paper, rotation and damage."""
    look = sheet.look
    page = rotated(finished(sheet), look.rotation)
    image = page.image
    if look.paper != 255:
        # Ink keeps its level; lighter levels move with the paper.
        image = (look.ink + (image.astype(float) - look.ink) * (look.paper - look.ink) / (255 - look.ink)).astype(
            "uint8"
        )
    return RenderedPage(as_scanned(image, look.seed, look.noise, look.blur, look.jpeg), page.words, page.lines)
