"""Pages to read, drawn with Pillow, with the exact place and text of every word and line on them.

::

    page = render_page("form", seed=0, dpi=100, rotation=7.5)
    page.image                       # (H, W, 3) uint8, RGB
    page.words[0].text               # 'REGISTRATION'
    page.words[0].quad               # (4, 2) float64: TL, TR, BR, BL in reading direction, pixels, (x, y)
    page.relative_quads()            # (words, 4, 2), divided by width and height
    page.text                        # lines in reading order, joined by line breaks

The same arguments give the same page, with the same versions of Pillow and of the fonts. Quads go around the ink.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from ocr_pages_layouts import draw_columns, draw_form, draw_letter, draw_receipt, draw_ruled
from ocr_pages_sheet import SANS, Quad, Sheet, TextBox

__all__ = ["PAGE_KINDS", "RenderedPage", "TextBox", "as_scanned", "finished", "render_page", "render_text", "rotated"]


@dataclass(frozen=True)
class RenderedPage:
    """A page (H, W, 3) uint8, RGB, and its contents in reading order."""

    image: NDArray[np.uint8]
    words: tuple[TextBox, ...]  # separated by spaces
    lines: tuple[TextBox, ...]  # runs of words without a wide gap

    @property
    def text(self) -> str:
        """The lines, one below the other."""
        return "\n".join(line.text for line in self.lines)

    def boxes(self) -> Quad:
        """(words, 4): the upright boxes around the quads, as x0, y0, x1, y1 in pixels."""
        quads = _stacked(self.words)
        return np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)

    def relative_quads(self) -> Quad:
        """(words, 4, 2) in units of the width and height."""
        height, width = self.image.shape[:2]
        return _stacked(self.words) / (width, height)


def _stacked(boxes: Sequence[TextBox]) -> Quad:
    return np.stack([box.quad for box in boxes]) if boxes else np.zeros((0, 4, 2))


#: How each kind is drawn, its width and height in inches and its text size in points.
_KINDS: dict[str, tuple[Callable[[Sheet], None], tuple[float, float], float]] = {
    "columns": (draw_columns, (8.5, 11), 10),
    "form": (draw_form, (8.5, 11), 10),
    "letter": (draw_letter, (8.5, 11), 11),
    "receipt": (draw_receipt, (3.5, 7), 9),
    "ruled": (draw_ruled, (8.5, 7), 10),
}

#: Names of what `render_page` draws.
PAGE_KINDS = tuple(_KINDS)


def render_page(
    kind: str = "letter",
    seed: int = 0,
    *,
    dpi: float = 100,
    size: tuple[float, float] | None = None,
    font_size: float | None = None,
    rotation: float = 0.0,
    noise: float = 0.0,
    blur: float = 0.0,
    jpeg: int | None = None,
    contrast: float = 1.0,
    inverted: bool = False,
) -> RenderedPage:
    """Draw a page.

    Args:
        kind: One of `PAGE_KINDS`.
        seed: Chooses the text and the noise.
        size: (width, height) in inches; each kind has its own by default.
        font_size: Size of the running text, in points.
        rotation: Turns the page counter-clockwise, in degrees; the sheet grows so that nothing is lost.
        noise: Standard deviation of grey noise, in levels of 256.
        blur: Radius of a Gaussian, in pixels.
        jpeg: Quality of a JPEG file that the page goes through; ``None`` for none.
        contrast: 1 is black on white, 0.2 is dark grey on grey.
    """
    draw, usual_size, usual_font_size = _KINDS[kind]
    width, height = size or usual_size
    sheet = Sheet(width * 72, height * 72, dpi, font_size or usual_font_size, random.Random(f"{kind} {seed}"))
    draw(sheet)
    page = rotated(finished(sheet), rotation)
    image = _with_contrast(page.image, contrast, inverted=inverted)
    return RenderedPage(as_scanned(image, seed, noise, blur, jpeg), page.words, page.lines)


def render_text(
    lines: Sequence[str], *, dpi: float = 100, font_size: float = 12, margin: float = 20, font: str = SANS
) -> RenderedPage:
    """A sheet that is as large as it must be, with these lines on it; sizes are in points."""
    step = font_size * 1.5
    probe = Sheet(1, 1, dpi, font_size, random.Random(0))
    width = max((probe.length(line, probe.font(font)) for line in lines), default=0.0)
    sheet = Sheet(width + 2 * margin, step * len(lines) + 2 * margin, dpi, font_size, random.Random(0))
    for number, line in enumerate(lines):
        sheet.write(margin, margin + step * (number + 0.75), line, sheet.font(font))
    return finished(sheet)


def finished(sheet: Sheet) -> RenderedPage:
    """Return the contents of a sheet as a page."""
    words = tuple(word for line in sheet.lines for word in line)
    return RenderedPage(sheet.pixels(), words, tuple(map(_joined, sheet.lines)))


def _joined(words: Sequence[TextBox]) -> TextBox:
    points = np.concatenate([word.quad for word in words])
    (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
    corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
    return TextBox(" ".join(word.text for word in words), corners)


def rotated(page: RenderedPage, degrees: float) -> RenderedPage:
    if degrees % 360 == 0:
        return page
    height, width = page.image.shape[:2]
    if degrees % 90 == 0:
        image = np.ascontiguousarray(np.rot90(page.image, int(degrees // 90)))
    else:
        turned = Image.fromarray(page.image).rotate(
            degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=(255, 255, 255)
        )
        image = np.array(turned)
    angle = np.deg2rad(degrees)
    # Counter-clockwise, where y goes down.
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle, new_middle = np.array([width, height]) / 2, np.array(image.shape[1::-1]) / 2

    def turn(box: TextBox) -> TextBox:
        return TextBox(box.text, (box.quad - middle) @ matrix.T + new_middle)

    return RenderedPage(image, tuple(map(turn, page.words)), tuple(map(turn, page.lines)))


def _with_contrast(image: NDArray[np.uint8], contrast: float, *, inverted: bool) -> NDArray[np.uint8]:
    levels = 128 + (image.astype(np.float32) - 128) * contrast
    if inverted:
        levels = 255 - levels
    return levels.round().clip(0, 255).astype(np.uint8)


def as_scanned(image: NDArray[np.uint8], seed: int, noise: float, blur: float, jpeg: int | None) -> NDArray[np.uint8]:
    """The picture as a camera or a scanner would have it: blurred, then with noise, then through a JPEG file."""
    picture = Image.fromarray(image)
    if blur:
        picture = picture.filter(ImageFilter.GaussianBlur(blur))
    if noise:
        grain = np.random.default_rng(seed).normal(0, noise, (picture.height, picture.width, 1))
        picture = Image.fromarray((np.asarray(picture) + grain).round().clip(0, 255).astype(np.uint8))
    if jpeg is not None:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=jpeg)
        picture = Image.open(file).convert("RGB")
    return np.array(picture)
