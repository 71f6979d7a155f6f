"""Rules of tables: pieces put together, frames that hang together, stacks of rules of one width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._found import Box

__all__ = ["Lattice", "Segments", "find_lattices", "joined_rules", "stacks_of_rules"]

# Rules beyond so many, the longest first, are left out: no page needs them, and crossings cost their product.
_MAX_RULES = 4_000

#: float64 (N, 3): where each rule lies across its direction, then its start and end along it.
Segments = NDArray[np.float64]


def joined_rules(rules: NDArray[np.float64], across: bool, em: float) -> Segments:
    """Put the pieces of rules together: dots, dashes, and the borders of cells that lie side by side.

    Args:
        rules: float64 (N, 4): xmin, ymin, xmax, ymax.
        across: Whether they run from left to right.
        em: The height of type.

    Returns:
        Rules at least as long as type is high, sorted by place, then start.
    """
    if not len(rules):
        return np.zeros((0, 3))
    rules = np.asarray(rules, dtype=np.float64)
    if across:
        place, start, end = (rules[:, 1] + rules[:, 3]) / 2, rules[:, 0], rules[:, 2]
    else:
        place, start, end = (rules[:, 0] + rules[:, 2]) / 2, rules[:, 1], rules[:, 3]
    near, gap = 0.2 * em, 0.35 * em
    joined: list[tuple[float, float, float]] = []
    order = np.argsort(place, kind="stable")
    levels = _clusters(place[order], near)
    for first, last in levels:
        level = order[first:last]
        level = level[np.argsort(start[level], kind="stable")]
        at = float(np.average(place[level], weights=np.maximum(end[level] - start[level], 1e-6)))
        reach = np.maximum.accumulate(end[level])
        cuts = np.nonzero(start[level][1:] > reach[:-1] + gap)[0] + 1
        for part in np.split(np.arange(len(level)), cuts):
            joined.append((at, float(start[level[part[0]]]), float(reach[part[-1]])))
    kept = np.array([rule for rule in joined if rule[2] - rule[1] >= em]).reshape(-1, 3)
    if len(kept) > _MAX_RULES:
        kept = kept[np.sort(np.argsort(kept[:, 1] - kept[:, 2], kind="stable")[:_MAX_RULES])]
    return kept


def _clusters(values: NDArray[np.float64], reach: float) -> list[tuple[int, int]]:
    """Part sorted values into ranges of indices, each no wider than ``reach``."""
    parts, first = [], 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] - values[first] > reach:
            parts.append((first, at))
            first = at
    return parts


@dataclass(frozen=True, eq=False)
class Lattice:
    """Rules that hang together.

    Attributes:
        box: The box around them.
        horizontal, vertical: The rules.
    """

    box: Box
    horizontal: Segments
    vertical: Segments


def find_lattices(horizontal: Segments, vertical: Segments, em: float) -> list[Lattice]:
    """Find the sets of rules that touch or cross, each of at least one in either direction."""
    if not len(horizontal) or not len(vertical):
        return []
    reach = 0.4 * em
    parents = list(range(len(horizontal) + len(vertical)))

    def root(at: int) -> int:
        while parents[at] != at:
            parents[at] = parents[parents[at]]
            at = parents[at]
        return at

    for number, (y, start, end) in enumerate(horizontal):
        touching = (
            (vertical[:, 0] >= start - reach)
            & (vertical[:, 0] <= end + reach)
            & (vertical[:, 1] <= y + reach)
            & (vertical[:, 2] >= y - reach)
        )
        for other in np.nonzero(touching)[0]:
            parents[root(len(horizontal) + int(other))] = root(number)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for number in range(len(horizontal)):
        groups.setdefault(root(number), ([], []))[0].append(number)
    for number in range(len(vertical)):
        groups.setdefault(root(len(horizontal) + number), ([], []))[1].append(number)
    found = []
    for across, down in groups.values():
        if across and down:
            own, posts = horizontal[across], vertical[down]
            box = (
                float(min(own[:, 1].min(), posts[:, 0].min())),
                float(min(own[:, 0].min(), posts[:, 1].min())),
                float(max(own[:, 2].max(), posts[:, 0].max())),
                float(max(own[:, 0].max(), posts[:, 2].max())),
            )
            found.append(Lattice(box, own, posts))
    return found


def stacks_of_rules(horizontal: Segments, em: float) -> list[Segments]:
    """Find rules across that lie above each other and have the same ends, from the top: two at least in a stack.

    Pieces on one level count as one rule, as heads of groups of columns are ruled piece by piece.
    """
    levels: list[tuple[float, float, float]] = []
    for y, start, end in horizontal[np.argsort(horizontal[:, 0], kind="stable")]:
        if levels and y - levels[-1][0] < 0.2 * em and 0 <= start - levels[-1][2] < 3 * em:
            levels[-1] = (levels[-1][0], levels[-1][1], float(end))
        else:
            levels.append((float(y), float(start), float(end)))
    stacks: list[list[tuple[float, float, float]]] = []
    for level in levels:
        if level[2] - level[1] < 6 * em:
            continue
        for stack in stacks:
            if abs(stack[-1][1] - level[1]) < em and abs(stack[-1][2] - level[2]) < em:
                stack.append(level)
                break
        else:
            stacks.append([level])
    return [np.array(stack) for stack in stacks if len(stack) > 1]


def clustered(values: Sequence[float], reach: float) -> list[float]:
    """The means of values that lie no wider apart than ``reach``."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return [float(ordered[first:last].mean()) for first, last in _clusters(ordered, reach)]
