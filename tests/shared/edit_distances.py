"""How many edits make one text of another, by the definition."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["slow_edit_distance"]


def slow_edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
