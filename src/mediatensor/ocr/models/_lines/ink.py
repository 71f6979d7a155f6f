"""Find the ink of text lines: which pixels, which rows, which columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.float64]
INK_CONTRAST = 0.4
"""A pixel is ink from this share of the line's strongest contrast with its background."""
STRONG_PERCENTILE = 98
"""The percentile of contrasts that counts as the strongest."""
LEAST_CONTRAST = 0.05
"""Least contrast of ink, as a share of white; weaker ones are noise of the paper."""
BAND_DENSITY = 0.08
"""Rows with less than this share of the fullest row's ink are not part of the line's band.

They have specks, or the descenders of a neighbour.
"""
BAND_GAP = 3 / 48
"""Widest gap between parts of a band, as a share of the height: the dot of an i belongs to its stem."""
RULE_LENGTH, RULE_THICKNESS = 1.25, 0.3
"""A rule is ink at least this long and less thick than the second, in heights of the line.

No stroke of a letter is as long.
"""
SIDE_OF_FRAME = 0.95
"""Share of ink in a column that is the side of a frame."""
BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def ink_map(gray: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Return bool (H, W): which pixels of ``gray`` (H, W), in [0, 1], are ink, dark on light or light on dark."""
    contrast = np.abs(gray - np.median(gray))
    strongest = float(np.percentile(contrast, STRONG_PERCENTILE))
    inked: npt.NDArray[np.bool_] = contrast > max(INK_CONTRAST * strongest, LEAST_CONTRAST)
    return inked


def remove_rules(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the ink without rules, underlines and frames: boxes go around letters."""
    height = len(ink)
    length, thickness = int(RULE_LENGTH * height) + 1, int(RULE_THICKNESS * height) + 1
    letters = ink
    # A rule at a slight angle continues in the row above or below.
    near = ink.copy()
    near[1:] |= ink[:-1]
    near[:-1] |= ink[1:]
    rules = _long_runs(near, length)
    if rules is not None:
        thick = _long_runs(rules.T, thickness)
        letters = ink & ~(rules if thick is None else rules & ~thick.T)
    sides = ink.mean(axis=0) >= SIDE_OF_FRAME
    return letters & ~sides if sides.any() else letters


def _long_runs(ink: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_] | None:
    """Return the ink in runs of at least ``length`` along the rows, or ``None``."""
    sums = _sums(ink)
    starts = sums[:, length:] - sums[:, :-length] == length
    if not starts.any():
        return None
    counts, behind = _sums(starts), np.arange(1, ink.shape[1] + 1)
    runs: npt.NDArray[np.bool_] = (
        counts[:, np.minimum(behind, starts.shape[1])] > counts[:, np.maximum(behind - length, 0)]
    )
    return runs


def _sums(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Return running sums along the rows, starting with 0."""
    sums = np.zeros((ink.shape[0], ink.shape[1] + 1), np.int32)
    np.cumsum(ink, axis=1, out=sums[:, 1:])
    return sums


def ink_band(ink: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first row of the part with most ink and the row after it; all rows if there is no ink."""
    rows = ink.mean(axis=1) if ink.size else np.zeros(len(ink))
    full = rows > BAND_DENSITY * rows.max(initial=0.0)
    if not full.any():
        return 0, len(ink)
    runs = runs_of_true(full)
    far = runs[1:, 0] - runs[:-1, 1] > BAND_GAP * len(ink)
    starts = runs[np.concatenate([[True], far]), 0]
    stops = runs[np.concatenate([far, [True]]), 1]
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    fullest = int(np.argmax(sums[stops] - sums[starts]))
    return int(starts[fullest]), int(stops[fullest])


def runs_of_true(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the first index and the one after the last of each run of true, (N, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def inks_of_lines(pictures: Tensor) -> Tensor:
    """Return the ink of lines, see `ink_map`, for `ink_of_line`.

    ``pictures`` are RGB in [0, 1], (N, 3, H, W), NaN beyond the end of a line; W is a multiple of 8. On the CPU the
    result is bool (N, H, W); on another device uint8 (N, H, W / 8), one bit per pixel.
    """
    grays = pictures.mean(1)
    if grays.device.type != "cpu":
        return _pack_bits(_map_ink(grays))
    inks = torch.zeros(grays.shape, dtype=torch.bool)
    for gray, ink in zip(grays.numpy(), inks.numpy(), strict=True):
        width = int((~np.isnan(gray[0])).sum())
        ink[:, :width] = ink_map(gray[:, :width])
    return inks


def ink_of_line(inks: npt.NDArray[np.generic], position: int, width: int) -> npt.NDArray[np.bool_]:
    """Return the ink of one line, bool (H, width), from the result of `inks_of_lines`."""
    own = inks[position]
    bits = own if own.dtype == np.bool_ else np.unpackbits(own.astype(np.uint8), axis=1, bitorder="little")
    line: npt.NDArray[np.bool_] = bits[:, :width].astype(bool)
    return line


def _map_ink(grays: Tensor) -> Tensor:
    """Do the same as ``ink_map`` for lines of all widths at once: order statistics from sorted values."""
    rows, columns = grays.shape[1:]
    flat = grays.flatten(1)
    # As floats, which all devices have and which are exact so far.
    number = flat.isnan().logical_not_().sum(1, keepdim=True).float()
    levels = flat.sort(1).values
    middle = (_select_ordered(levels, ((number - 1) / 2).floor()) + _select_ordered(levels, (number / 2).floor())) / 2
    contrasts = (flat - middle).abs()
    ordered = contrasts.sort(1).values
    place = (number - 1) * (STRONG_PERCENTILE / 100)
    below, above = _select_ordered(ordered, place.floor()), _select_ordered(ordered, place.ceil())
    loud = below + (above - below) * (place - place.floor())
    return (contrasts > (loud * INK_CONTRAST).clamp(min=LEAST_CONTRAST)).view(-1, rows, columns)


def _select_ordered(ordered: Tensor, places: Tensor) -> Tensor:
    return ordered.gather(1, places.long())


def _pack_bits(inks: Tensor) -> Tensor:
    """Pack bool (N, H, W) into uint8 (N, H, W / 8), the first pixel in the lowest bit."""
    packed = torch.zeros((*inks.shape[:2], inks.shape[2] // 8), dtype=torch.uint8, device=inks.device)
    for place, bit in enumerate(BITS):
        packed += inks[..., place::8].to(torch.uint8) * bit
    return packed
