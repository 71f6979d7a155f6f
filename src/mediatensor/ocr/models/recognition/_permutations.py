"""The orders in which PARSeq learns to read a word, and which characters each order lets a character see.

After Bautista and Atienza, "Scene Text Recognition with Permuted Autoregressive Sequence Models" (2022), section 3.2.
"""

from __future__ import annotations

import math

import torch

__all__ = ["draw_permutations", "visible_positions"]

_PAIRS = 3
"""How many orders to draw, each with its reverse."""


def draw_permutations(length: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Draw the orders for a batch; the first is from left to right, the second its reverse.

    Orders come in pairs of one and its reverse. The generator is torch's own, so :func:`torch.manual_seed` fixes them.

    Args:
        length: characters of the longest word.
        device: where the result lies.

    Returns:
        (K, length + 2) int64, K even and at most 6: positions in the order in which they are read; 0 is the start
        mark, ``length + 1`` the end mark. In all but the second order the end mark comes last.

    >>> draw_permutations(1).tolist()
    [[0, 1, 2], [0, 2, 1]]
    """
    forward = tuple(range(length))
    orders = [forward, forward[::-1]]
    # A word of few characters has fewer orders; of none or one, a single one.
    pairs = min(_PAIRS, max(1, math.factorial(length) // 2))
    while len(orders) < 2 * pairs:
        order = tuple(torch.randperm(length).tolist())
        if order not in orders:
            orders += [order, order[::-1]]
    permutations = torch.zeros(len(orders), length + 2, dtype=torch.int64)
    permutations[:, 1:-1] = torch.tensor(orders).reshape(len(orders), length) + 1
    permutations[:, -1] = length + 1
    # Read backwards, a word begins with its end mark.
    permutations[1, 1:] = torch.arange(length + 1, 0, -1)
    return permutations.to(device)


def visible_positions(permutation: torch.Tensor) -> torch.Tensor:
    """Which positions each character may look at, when read in a given order: those read before it.

    Args:
        permutation: (L,) int64, positions in the order in which they are read, the start mark first.

    Returns:
        (L - 1, L - 1) bool: row ``i`` is position ``i + 1``, the one to be predicted; column ``j`` is position ``j``.

    >>> import torch
    >>> visible_positions(torch.tensor([0, 2, 1, 3])).int().tolist()
    [[1, 0, 1], [1, 0, 0], [1, 1, 1]]
    """
    rank = permutation.argsort()
    return rank[:-1] < rank[1:, None]
