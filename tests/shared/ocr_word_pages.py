"""Pages as a detector and a recogniser leave them: words with boxes, laid out by hand.

A page is a list of lines ``(x, y, height, text)`` in pixels. Letters are half as wide as high and words 0.3 of the
height apart, so every box follows from its line by a formula. Two spaces or more leave a gap of as many letters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEIGHT, WIDTH = 1000, 800
LETTER, SPACE = 0.5, 0.3

TEXT = (
    "the quick brown fox jumps over",
    "a lazy dog that sleeps in the",
    "warm sun of a late afternoon",
    "and dreams of nothing at all",
)


@dataclass(frozen=True)
class WordPage:
    """Words of a page in the order of its lines."""

    texts: list[str]
    boxes: np.ndarray  # float64 (N, 4), relative
    lines: np.ndarray  # int64 (N,), the line that each word was written in

    def quads(self, angle: float = 0.0) -> np.ndarray:
        """float64 ``(N, 4, 2)``, relative: the boxes, turned clockwise about the middle of the page."""
        left, top, right, bottom = self.boxes.T
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        points = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1) * (WIDTH, HEIGHT)
        cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        middle = np.array([WIDTH / 2, HEIGHT / 2])
        turned = (points - middle) @ np.array([[cosine, sine], [-sine, cosine]]) + middle
        # A page on its side is as high as it was wide.
        size = (HEIGHT, WIDTH) if angle % 180 == 90 else (WIDTH, HEIGHT)
        return (turned - middle + np.array(size) / 2) / size


def written(lines: list[tuple[float, float, float, str]]) -> WordPage:
    """Cut lines into words with boxes."""
    texts, boxes, numbers = [], [], []
    for number, (x, y, height, text) in enumerate(lines):
        for part in text.split(" "):
            if part:
                width = LETTER * height * len(part)
                texts.append(part)
                boxes.append((x / WIDTH, y / HEIGHT, (x + width) / WIDTH, (y + height) / HEIGHT))
                numbers.append(number)
                x += width + SPACE * height
            else:
                x += LETTER * height
    return WordPage(texts, np.array(boxes), np.array(numbers))


def one_column() -> WordPage:
    first = [(80, 100 + 24 * row, 16, text) for row, text in enumerate(TEXT)]
    second = [(80, 260 + 24 * row, 16, text) for row, text in enumerate(TEXT[:2])]
    return written([(80, 40, 30, "A Title Of The Page"), *first, *second])


def two_columns() -> WordPage:
    rows = [(x, 140 + 22 * row, 14, TEXT[row % 4]) for row in range(12) for x in (60, 430)]
    return written([(60, 50, 28, "A title over both of the columns"), *rows])


def form() -> WordPage:
    fields = [("Name:", "John Smith"), ("Date of birth:", "01/02/1970"), ("City:", "Springfield"), ("Phone:", "555 01")]
    rows = []
    for row, (label, value) in enumerate(fields):
        rows += [(60, 150 + 50 * row, 18, label), (330, 152 + 50 * row, 18, value)]
    return written([(250, 50, 24, "APPLICATION FORM"), *rows])


def receipt() -> WordPage:
    goods = [("MILK 1L", "1.20"), ("BREAD", "2.49"), ("BUTTER", "3.10"), ("TOTAL", "6.79")]
    rows = []
    for row, (item, price) in enumerate(goods):
        rows += [(60, 220 + 30 * row, 20, item), (640, 221 + 30 * row, 20, price)]
    return written(
        [(300, 60, 28, "THE SHOP"), (250, 100, 20, "12 Market Street"), (290, 126, 20, "Tel 555 0199"), *rows]
    )


def loose() -> WordPage:
    """Small print with wide gaps between its words, and wider ones that still part no lines."""
    return written(
        [(100, 100 + 16 * row, 8, text.replace(" ", "  ").replace("  o", "    o")) for row, text in enumerate(TEXT)]
    )


PAGES = {"one_column": one_column, "two_columns": two_columns, "form": form, "receipt": receipt, "loose": loose}


def shuffled(number: int) -> np.ndarray:
    """A shuffled order: the indices in steps of a prime."""
    return np.arange(number) * 7919 % number if number % 7919 else np.arange(number)
