"""Pages of words for tests of fields: written as text, where a space is half an em."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mediatensor.ocr.structure import PageContent


def content_of_words(
    width: float, height: float, boxes: Any, texts: Sequence[str], lines: Sequence[int], **given: Any
) -> PageContent:
    """A page of words of the lines with these numbers; their type size is not known, and none is bold."""
    count = len(texts)
    return PageContent(
        width, height, np.array(boxes, float).reshape(-1, 4), tuple(texts), np.array(lines, np.int64), np.ones(count),
        **{"font_sizes": np.full(count, np.nan), "is_bold": np.zeros(count, bool)} | given,
    )  # fmt: skip


def page_of(*lines: str, size: float = 10.0, rules: list[list[float]] | None = None) -> PageContent:
    """A page in type of one width: each line 1.5 em below the last, each character half an em wide."""
    boxes, texts, ids = [], [], []
    for row, line in enumerate(lines):
        at = 0
        for word in line.split(" "):
            if word:
                left, top = at * size / 2, row * size * 1.5
                boxes.append((left, top, left + len(word) * size / 2, top + size))
                texts.append(word)
                ids.append(row)
            at += len(word) + 1
    width = max([100.0, *(box[2] for box in boxes)])
    across = np.array(rules or [], float).reshape(-1, 4)
    return content_of_words(width, len(lines) * size * 1.5 + size, boxes, texts, ids, horizontal_rules=across)


def page_beside(left: Sequence[str], right: Sequence[str], shift: float) -> PageContent:
    """A page with two columns of lines; the right one starts at character 60, ``shift`` lines lower."""
    size = max(len(left), len(right))
    pairs = zip((*left, *[""] * (size - len(left))), (*right, *[""] * (size - len(right))), strict=True)
    page = page_of("", "", *(f"{one:60}{other}" for one, other in pairs))
    is_right = page.boxes[:, 0] >= 5.0 * 60
    boxes = page.boxes + np.outer(is_right * shift * 15.0, (0, 1, 0, 1))
    return replace(page, boxes=boxes, line_ids=2 * page.line_ids + is_right)
