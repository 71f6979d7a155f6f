"""The levels of headings: by their numbers where they have some, by the size and weight of their type otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .blocks import Block

__all__ = ["levels_of"]

_DECIMAL = re.compile(r"^(?:[A-Z]\.)?(\d{1,2}(?:\.\d{1,2}){0,5})\.?(?:\s|$)")
# Sizes closer than this are one, and so many levels are told from sizes.
_SAME_SIZE = 1.08
_MAX_LEVEL = 6
_BOLD = 0.6


def levels_of(blocks: Sequence[Block], kinds: Sequence[str]) -> list[int]:
    """The level of each block, from 1 for sections right below the title; 0 for the title and all that is no heading.

    A heading with the number 2.1 is one level below those with the number 2. Headings without a number are as deep as
    those of their size and weight.
    """
    heads = [index for index, kind in enumerate(kinds) if kind == "Section-header"]
    looks: list[tuple[float, bool]] = []
    for index in sorted(heads, key=lambda index: (-blocks[index].size, blocks[index].bold < _BOLD)):
        look = (blocks[index].size, blocks[index].bold >= _BOLD)
        if not looks or looks[-1][0] > _SAME_SIZE * look[0] or looks[-1][1] != look[1]:
            looks.append(look)
    levels = [0] * len(blocks)
    depths = {index: _depth(blocks[index].text) for index in heads}
    # What numbers say holds for the headings that look alike and have none.
    by_look: dict[int, list[int]] = {}
    rank = {index: _rank(blocks[index], looks) for index in heads}
    for index in heads:
        if depths[index]:
            by_look.setdefault(rank[index], []).append(depths[index])
    for index in heads:
        alike = by_look.get(rank[index])
        depth = depths[index] or (min(alike) if alike else 1 + rank[index])
        levels[index] = min(_MAX_LEVEL, depth)
    return levels


def _depth(text: str) -> int:
    match = _DECIMAL.match(text)
    return 0 if match is None else match[1].count(".") + 1


def _rank(block: Block, looks: list[tuple[float, bool]]) -> int:
    for rank, (size, bold) in enumerate(looks):
        if size <= _SAME_SIZE * block.size and bold == (block.bold >= _BOLD):
            return rank
    return len(looks) - 1
