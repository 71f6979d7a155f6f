"""A sheet of paper that records its words and their positions."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Quad = NDArray[np.float64]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Files that matplotlib brings along.
SANS, BOLD, SERIF, MONO, TIMES = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSansMono.ttf",
    "STIXGeneral.ttf",
)
_SUPERSAMPLING = 3


class TextBox(NamedTuple):
    """A word or a line: its text, and the (4, 2) corners around its ink, TL, TR, BR, BL in reading direction."""

    text: str
    quad: Quad


@lru_cache
def _font(name: str, size: int) -> Font:
    """A font of matplotlib; Pillow's own where matplotlib is not installed."""
    try:
        from matplotlib import get_data_path
    except ImportError:
        return ImageFont.load_default(size)
    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / name), size)


class Sheet:
    """A white sheet that records its words. Lengths are in points of 1/72 inch."""

    def __init__(self, width: float, height: float, dpi: float, size: float, rng: random.Random) -> None:
        # Drawn larger and made smaller at the end: strokes get the grey edges that a scan has.
        self.scale = dpi / 72 * _SUPERSAMPLING
        self.width, self.height = width, height
        self.size = size
        self.rng = rng
        pixels = [max(1, round(length * dpi / 72)) * _SUPERSAMPLING for length in (width, height)]
        self.picture = Image.new("L", (pixels[0], pixels[1]), 255)
        self.draw = ImageDraw.Draw(self.picture)
        self.lines: list[list[TextBox]] = []

    def font(self, name: str, factor: float = 1.0) -> Font:
        return _font(name, max(6, round(self.size * factor * self.scale)))

    def length(self, text: str, font: Font) -> float:
        return self.advance(text, font) / self.scale

    def advance(self, text: str, font: Font) -> float:
        """By how many pixels of the picture the pen moves on."""
        return font.getlength(text)

    def write(self, x: float, baseline: float, text: str, font: Font, ink: int = 0, align: str = "left") -> float:
        """Write one line, and return where it ends."""
        if align == "right":
            x -= self.length(text, font)
        elif align == "centre":
            x -= self.length(text, font) / 2
        words, written = [], ""
        for word in text.split():
            place = (round(x * self.scale + self.advance(written, font)), round(baseline * self.scale))
            mask, (left, top) = self.letters(word, font)
            corner = (place[0] + left, place[1] + top)
            self.picture.paste(ink, corner, mask)
            x0, y0, x1, y1 = mask.getbbox() or (0, 0, 1, 1)
            corners = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], float) + corner
            words.append(TextBox(word, corners / _SUPERSAMPLING))
            written += word + " "
        self.lines.append(words)
        return x + self.length(text, font)

    def letters(self, word: str, font: Font) -> tuple[Image.Image, tuple[int, int]]:
        """The ink of a word, and the place of this picture's corner, seen from the beginning of the baseline."""
        # What Pillow calls the box of a word ends where the next letter would begin.
        left, top, right, bottom = (round(edge) for edge in self.draw.textbbox((0, 0), word, font=font, anchor="ls"))
        mask = Image.new("L", (right - left + 2, bottom - top + 2))
        ImageDraw.Draw(mask).text((1 - left, 1 - top), word, font=font, fill=255, anchor="ls")
        return mask, (left - 1, top - 1)

    def rule(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.8) -> None:
        points = [round(value * self.scale) for value in (x0, y0, x1, y1)]
        self.draw.line(points, fill=40, width=max(1, round(width * self.scale)))

    def box(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.8, fill: int | None = None) -> None:
        points = [round(value * self.scale) for value in (x0, y0, x1, y1)]
        self.draw.rectangle(points, fill=fill, outline=40, width=max(1, round(width * self.scale)))

    def check_box(self, x: float, y: float, size: float, ticked: str = "") -> None:
        """Draw a square with an empty middle, a "cross" or a "tick"."""
        self.box(x, y, x + size, y + size)
        for shape, points in (("cross", (0.2, 0.2, 0.8, 0.8)), ("cross", (0.2, 0.8, 0.8, 0.2)),
                              ("tick", (0.2, 0.5, 0.45, 0.8)), ("tick", (0.45, 0.8, 1.1, -0.2))):  # fmt: skip
            if shape == ticked:
                x0, y0, x1, y1 = (size * share for share in points)
                self.rule(x + x0, y + y0, x + x1, y + y1)
        corners = np.array([(x, y), (x + size, y), (x + size, y + size), (x, y + size)]) * self.scale / _SUPERSAMPLING
        self.lines.append([TextBox("\u2611" if ticked else "\u2610", corners)])

    def pixels(self) -> NDArray[np.uint8]:
        """(H, W, 3), at the resolution that was asked for."""
        size = (self.picture.width // _SUPERSAMPLING, self.picture.height // _SUPERSAMPLING)
        grey = np.asarray(self.picture.resize(size, Image.Resampling.BOX))
        return np.repeat(grey[:, :, None], 3, axis=2)
