"""A picture of a page with what was read on it, drawn with Pillow alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ...errors import InvalidArgumentError
from ._drawing import Lettering, Placed, as_picture, confidence_color, pixel_quad, place
from .reconstitution import synthesize_kie_page, synthesize_page

__all__ = ["OverlayText", "overlay"]

OverlayText = Literal["above", "beside", "none"]

# Of 255; the text below a box stays legible.
_FILL, _LABEL = 48, 208
_UNREAD = (150, 0, 200)
# A label above a box, in parts of the height of the box.
_LABEL_HEIGHT = 0.7
_LABEL_SIZES = (7, 40)


def overlay(
    page: Any,
    image: NDArray[Any] | torch.Tensor | None = None,
    *,
    text: OverlayText = "beside",
    line_width: int | None = None,
    font_family: str | None = None,
) -> NDArray[np.uint8]:
    """Draw the boxes of the words on their page, colored by confidence, and what was read.

    Args:
        page: A `Page` or `KIEPage`, or an exported one.
        image: The pixels: array (H, W, 3) or tensor (3, H, W), uint8. ``None`` takes those of the element.
        text: Where to write what was read: on a sheet ``"beside"`` the page (the result is twice as wide), ``"above"``
            each box (for few words, as in a frame of a video), or ``"none"``.
        line_width: Of the outlines, in pixels; ``None`` follows the size of the page.
        font_family: As for `get_font`.

    Returns:
        Array (H, W, 3) uint8, or (H, 2 W, 3): blue boxes are sure, orange ones less so, red ones have a confidence of
        0.5 or less, and purple ones are lines that were not read, or not in full.

    Raises:
        InvalidArgumentError: if there is no image, or an argument has no usable value.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import overlay
        >>> overlay(page, text="none").shape, overlay(page).shape
        ((80, 120, 3), (80, 240, 3))
    """
    if text not in get_args(OverlayText):
        raise InvalidArgumentError(f"text must be one of {get_args(OverlayText)}, got {text!r}")
    if line_width is not None and line_width < 1:
        raise InvalidArgumentError(f"line_width must be at least 1, got {line_width}")
    exported: Mapping[str, Any] = page if isinstance(page, Mapping) else page.export()
    image = getattr(page, "page", None) if image is None else image
    if image is None:
        raise InvalidArgumentError("an exported page has no pixels: give the image of the page too")
    picture = as_picture(image)
    size = picture.shape[0], picture.shape[1]
    words = [place(word, size, confidence_color(word["confidence"])) for word in _words(exported)]
    unread = [Placed("", pixel_quad(line["geometry"], size), _UNREAD) for line in exported.get("unread") or ()]
    canvas = _with_boxes(picture, words + unread, line_width or max(round(max(size) / 1000), 1))
    if text == "above":
        _label(canvas, words, font_family)
    if text == "beside":
        synthesize = synthesize_kie_page if "predictions" in exported else synthesize_page
        # The page as it was read may have had another size than the picture given.
        read = synthesize({**exported, "dimensions": size}, draw_proba=True, font_family=font_family)
        return np.concatenate([np.asarray(canvas), read], axis=1)
    return np.array(canvas)


def _words(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for block in page.get("blocks") or ():
        for line in block["lines"]:
            yield from line["words"]
    for predictions in (page.get("predictions") or {}).values():
        yield from predictions
    for table in page.get("tables") or ():
        yield from table["cells"]


def _with_boxes(picture: NDArray[np.uint8], words: list[Placed], line_width: int) -> Image.Image:
    tint = Image.new("RGBA", (picture.shape[1], picture.shape[0]))
    draw = ImageDraw.Draw(tint)
    for word in words:
        corners = [(x, y) for x, y in word.quad.tolist()]
        draw.polygon(corners, fill=(*word.color, _FILL), outline=(*word.color, 255), width=line_width)
    canvas = Image.fromarray(picture)
    canvas.paste(tint, mask=tint)
    return canvas


def _label(canvas: Image.Image, words: list[Placed], font_family: str | None) -> None:
    """Write each text on a light strip above its box, in the direction of its box."""
    labels = [word._replace(quad=_strip(word.quad)) for word in words if word.text]
    paper = Image.new("RGBA", canvas.size)
    draw = ImageDraw.Draw(paper)
    for label in labels:
        draw.polygon([(x, y) for x, y in label.quad.tolist()], fill=(255, 255, 255, _LABEL))
    canvas.paste(paper, mask=paper)
    lettering = Lettering(canvas, font_family, *_LABEL_SIZES)
    for label in labels:
        lettering.write_line([label])


def _strip(quad: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place above a box; within its upper part where the page ends there."""
    up = (quad[[0, 1]] - quad[[3, 2]]) * _LABEL_HEIGHT
    lower = quad[[0, 1]]
    if (lower + up)[:, 1].min() < 0:
        lower = lower - up
    return np.concatenate([lower + up, lower[::-1]])
