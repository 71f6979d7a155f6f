"""Find the ink in images of text lines: which pixels are ink, and in which rows and columns it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.float64]
INK_CONTRAST = 0.4
"""Pixels with at least this share of the line's strongest contrast are ink."""
STRONG_PERCENTILE = 98
"""Percentile of a line's contrasts that counts as the strongest contrast."""
LEAST_CONTRAST = 0.05
"""Least contrast of ink, as a share of the contrast of black and white; weaker contrasts are paper noise."""
BAND_DENSITY = 0.08
"""Rows with less than this share of the fullest row's ink are outside the line's band.

Such rows contain specks or descenders of the line above.
"""
BAND_GAP = 3 / 48
"""Greatest gap within a band, as a share of the image's height, so that the dot of an i stays with its stem."""
RULE_LENGTH, RULE_THICKNESS = 1.25, 0.3
"""Least length and greatest thickness of a rule, in line heights.

Strokes of letters are shorter.
"""
SIDE_OF_FRAME = 0.95
"""Columns with at least this share of ink are sides of a frame."""
BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def ink_map(gray: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Return a mask (H, W) that is true where ``gray`` (H, W), in [0, 1], has ink. Text can be dark or light."""
    contrast = np.abs(gray - np.median(gray))
    strongest = float(np.percentile(contrast, STRONG_PERCENTILE))
    inked: npt.NDArray[np.bool_] = contrast > max(INK_CONTRAST * strongest, LEAST_CONTRAST)
    return inked


def remove_rules(ink: npt.NDArray[np.bool_], length: float = RULE_LENGTH) -> npt.NDArray[np.bool_]:
    """Return the ink without rules, underlines and frames, so that boxes around the ink enclose only letters.

    ``length`` is the least length of a rule in line heights.
    """
    height = len(ink)
    least, thickness = int(length * height) + 1, int(RULE_THICKNESS * height) + 1
    letters = ink
    # A slightly rotated rule continues in the row above or below.
    near = ink.copy()
    near[1:] |= ink[:-1]
    near[:-1] |= ink[1:]
    rules = _long_runs(near, least)
    if rules is not None:
        thick = _long_runs(rules.T, thickness)
        letters = ink & ~(rules if thick is None else rules & ~thick.T)
    sides = ink.mean(axis=0) >= SIDE_OF_FRAME
    return letters & ~sides if sides.any() else letters


def _long_runs(ink: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the ink in horizontal runs of at least ``length`` pixels, or ``None`` if there is none."""
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
    """Return the cumulative sums of each row, with a 0 before the first."""
    sums = np.zeros((ink.shape[0], ink.shape[1] + 1), np.int32)
    np.cumsum(ink, axis=1, out=sums[:, 1:])
    return sums


def ink_band(ink: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return (start, stop) of the band of rows with the most ink, the line itself; all rows if there is no ink."""
    rows = ink.mean(axis=1) if ink.size else np.zeros(len(ink))
    full = rows > BAND_DENSITY * rows.max(initial=0.0)
    if not full.any():
        return 0, len(ink)
    starts, stops = runs_of_true(full, BAND_GAP * len(ink)).T
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    fullest = int(np.argmax(sums[stops] - sums[starts]))
    return int(starts[fullest]), int(stops[fullest])


def runs_of_true(flags: npt.NDArray[np.bool_], gap: float = 0.0) -> npt.NDArray[np.int64]:
    """Return (start, stop) of each run of true values, as an array (N, 2). Join runs that are at most ``gap`` apart."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if gap:
        is_far = np.diff(edges)[1::2] > gap
        edges = edges[np.concatenate([[True], np.repeat(is_far, 2), [True]])] if len(edges) else edges
    return edges.reshape(-1, 2)


def inks_of_lines(pictures: Tensor) -> Tensor:
    """Return the ink masks of several lines; see `ink_map`. Use `ink_of_line` to get the mask of one line.

    ``pictures`` are RGB in [0, 1], (N, 3, H, W), with NaN after the end of each line. W must be a multiple of 8. On the
    CPU, the result is bool (N, H, W). On other devices, it is uint8 (N, H, W / 8), with one bit for each pixel.
    """
    grays = pictures.mean(1)
    if grays.device.type != "cpu":
        flags = _map_ink(grays)
        packed = torch.zeros((*flags.shape[:2], flags.shape[2] // 8), dtype=torch.uint8, device=flags.device)
        for place, bit in enumerate(BITS):
            packed += flags[..., place::8].to(torch.uint8) * bit
        return packed
    inks = torch.zeros(grays.shape, dtype=torch.bool)
    for gray, ink in zip(grays.numpy(), inks.numpy(), strict=True):
        width = int((~np.isnan(gray[0])).sum())
        ink[:, :width] = ink_map(gray[:, :width])
    return inks


def ink_of_line(inks: npt.NDArray[np.generic], position: int, width: int) -> npt.NDArray[np.bool_]:
    """Return the mask (H, width) of the line at ``position`` from ``inks``, the result of `inks_of_lines`."""
    own = inks[position]
    bits = own if own.dtype == np.bool_ else np.unpackbits(own.astype(np.uint8), axis=1, bitorder="little")
    line: npt.NDArray[np.bool_] = bits[:, :width].astype(bool)
    return line


def _map_ink(grays: Tensor) -> Tensor:
    """Compute `ink_map` for lines of different widths at once, with medians and percentiles from sorted pixels."""
    rows, columns = grays.shape[1:]
    flat = grays.flatten(1)
    # Floats, because all devices support them and they represent these counts exactly.
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
