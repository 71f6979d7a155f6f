"""Fonts for drawing text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from PIL import ImageFont

from ..._engine.common.checks import checked, finite_number, path_text
from ...errors import InvalidArgumentError, SourceNotFoundError

__all__ = ["Font", "get_font"]

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def _family(name: str, value: Any) -> str | None:
    return None if value is None else path_text(name, value)


def _size(name: str, value: Any) -> Any:
    finite_number(name, value)
    return value


@checked(font_family=_family, font_size=_size)
@lru_cache(maxsize=512)
def get_font(font_family: str | None = None, font_size: int = 13) -> Font:
    """Return a font for drawing.

    Args:
        font_family: The path of a font file, or the name of an installed font ("DejaVuSans.ttf"). ``None`` means
            Pillow's own font, which has only Latin letters, and is the same on every machine.
        font_size: Pixels per em, at least 1.

    Returns:
        The Pillow font.

    Raises:
        InvalidArgumentError: if the size is not positive.
        SourceNotFoundError: if the font does not exist.

    Example:
        >>> from mediatensor.ocr.utils.fonts import get_font
        >>> get_font(font_size=20).getlength("word") > 0
        True
    """
    if font_size < 1:
        raise InvalidArgumentError(f"font_size must be at least 1, got {font_size}")
    if font_family is None:
        return ImageFont.load_default(size=font_size)
    try:
        return ImageFont.truetype(font_family, font_size)
    except OSError:
        raise SourceNotFoundError(
            f"no font {font_family!r}: font_family must be the path of a font file or the name of an installed one"
        ) from None
