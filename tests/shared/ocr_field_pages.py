"""Pages of words for tests of fields: written as text, where a space is half an em."""

from __future__ import annotations

import numpy as np

from mediatensor.ocr.structure import PageContent


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
    count = len(texts)
    return PageContent(
        max([100.0, *(box[2] for box in boxes)]),
        len(lines) * size * 1.5 + size,
        np.array(boxes, float).reshape(-1, 4),
        tuple(texts),
        np.array(ids, np.int64),
        np.ones(count),
        np.full(count, np.nan),
        np.zeros(count, bool),
        horizontal_rules=np.array(rules or [], float).reshape(-1, 4),
    )
