"""Pages to read on the device, rendered with Pillow and its own font, and the similarity of two readings."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

_TEXT = (
    "invoice total amount delivery number address customer order 2048 1,995.00 $12.50 reference quality exact frames "
    "pixels become tensors while words in them turn into data Monday 17:45 section table figure (page) e-mail 42%"
)
_WORDS = _TEXT.split()


def draw_page(number: int, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Page ``number`` (height, width, 3), dark on light: lines of words of three heights, with grain."""
    width, height = size
    generator = np.random.default_rng(number)
    page = Image.new("RGB", size, (255, 255, 250 - 10 * (number % 3)))
    draw = ImageDraw.Draw(page)
    y = 20
    while y < height - 60:
        letters = int(generator.choice([18, 22, 30]))
        font, x = ImageFont.load_default(letters), 24.0
        while True:
            word = _WORDS[int(generator.integers(len(_WORDS)))]
            if x + font.getlength(word) > width - 24:
                break
            draw.text((x, y), word, font=font, fill=(20, 20, 40))
            x += font.getlength(word + " ")
        y += round(letters * 1.9)
    grain = generator.normal(0, 4, (height, width, 1))
    return np.clip(np.asarray(page) + grain, 0, 255).astype(np.uint8)


def words_of(document: Any) -> list[str]:
    """Return all words of a document in reading order."""
    return [
        word.value for page in document.pages for block in page.blocks for line in block.lines for word in line.words
    ]


def share_of_words(found: list[str], expected: list[str]) -> float:
    """Return the share of equal words in the same order, relative to the longer list.

    Example:
        >>> share_of_words(["a", "b", "c", "d"], ["a", "b", "x", "d"])
        0.75
    """
    matches = SequenceMatcher(None, found, expected, autojunk=False).get_matching_blocks()
    return sum(match.size for match in matches) / max(1, len(found), len(expected))
