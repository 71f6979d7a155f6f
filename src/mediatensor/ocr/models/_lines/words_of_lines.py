"""From the characters of a line, and the ink in its picture, to words and characters with tight boxes.

A line recogniser says which character it saw at which step of the line, to about half a character. The ink says where
things begin and end, but not what they are. Together: spaces among the characters say where one word ends, the widest
gap between the ink of two words is where to cut, and the ink on each side gives the box. Detectors mark lines about
half as high again as their ink, which is why boxes are taken from ink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .confidence import word_confidence

__all__ = [
    "LineCharacters",
    "LineWord",
    "boxes_between_gaps",
    "ink_map",
    "ink_of_line",
    "inks_of_lines",
    "leaves_ink_over",
    "split_line",
]

FloatArray = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom as fractions of the line's picture."""

INK_CONTRAST = 0.4
"""The share of a line's strongest contrast with its background from which on a pixel is ink."""
STRONG_PERCENTILE = 98
"""The percentile of contrasts that counts as the strongest."""
LEAST_CONTRAST = 0.05
"""The least contrast of ink, as a share of white. Weaker contrasts are noise of the paper."""
BAND_DENSITY = 0.08
"""The share of the fullest row's ink from which on a row belongs to the line's band. Other rows have specks, or the
descenders of a neighbour."""
BAND_GAP = 3 / 48
"""The widest gap between parts of one band, as a share of the height: the dot and the stem of an i belong together."""
REACH = 0.85
"""How far the line may go on from the middle of its first and last character, in widths of a character."""
NEAR_OWN = 0.6
"""In widths of a character: ink that stands apart, farther than this from the middles of a word's first and last
character, is a speck, or the side of a frame, and none of the word."""
MARGIN_LEFT_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 2.5 / 48, 0.22, 0.13
"""The space that people leave between ink and box: sideways as a share of the picture's height, else of the ink's."""

LETTER_INK = 0.2
"""The share of the height of a line that the ink of a letter has at least in a column."""
FARTHEST, MOST_LEFT_OVER = 1.1, 0.6
"""In widths of a character. Ink farther than the first from the middle of every character is left over; a line may have
as much of it as the second. The widest letters, and the ink left over in Latin forms and receipts, are within."""
LINE_SHARE, LOW_LINE_SHARE = 0.25, 0.75
"""Some draw boxes around a word's own ink, others as high as its line: this is how far ours go towards the line. Around
a dash or an asterisk people draw boxes almost as high as the line."""
LOW = 0.5
"""A word is low if its ink is less high than this share of its line's."""
CHECK_BOXES = "□☐☑☒"
"""Signs that are words of their own: the box before an answer stands close to it."""
RULE_LENGTH, RULE_THICKNESS = 1.25, 0.3
"""A rule is ink that goes on sideways for at least the first, and is less high than the second, in heights of the line.
No stroke of a letter is as long."""
SIDE_OF_FRAME = 0.95
"""The share of a column that is ink where the side of a frame crosses the line."""
WIDE_GAP, WIDER_THAN_LETTERS = 0.6, 1.2
"""Columns without ink part words even where no space was seen, if they are wider than the first, as a share of the
ink's height, and than the second, in widths of a character: letters set wide apart are one word."""
WORD_GAP = 0.3
"""The width of columns without ink that part two words, as a share of the ink's height, in a line not read yet."""
BITS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class LineCharacters:
    """The characters of one line, spaces included.

    Attributes:
        values: The text of each.
        starts: Where each begins, as a fraction of the width of the line's picture.
        stops: Where each ends.
        confidences: The probability of each, in [0, 1].
    """

    values: Sequence[str]
    starts: FloatArray
    stops: FloatArray
    confidences: FloatArray


@dataclass(frozen=True)
class LineWord:
    """One word of a line: its text, its box, and the box and confidence of each character."""

    value: str
    box: Box
    boxes: tuple[Box, ...]
    confidences: tuple[float, ...]

    @property
    def confidence(self) -> float:
        """The probability that its text is right."""
        return word_confidence(self.confidences)


def ink_map(gray: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Which pixels are ink, dark on light or light on dark.

    Args:
        gray: (H, W), in [0, 1].

    Returns:
        bool (H, W).
    """
    contrast = np.abs(gray - np.median(gray))
    strongest = float(np.percentile(contrast, STRONG_PERCENTILE))
    inked: npt.NDArray[np.bool_] = contrast > max(INK_CONTRAST * strongest, LEAST_CONTRAST)
    return inked


def split_line(characters: LineCharacters, ink: npt.NDArray[np.bool_], split_after: str = "") -> list[LineWord]:
    """Cut a line into words where the recogniser saw spaces.

    Args:
        characters: The characters of the line.
        ink: The ink of its picture, see :func:`ink_map`, (H, W).
        split_after: Characters that end a word too.

    Returns:
        The words, in the order of the line. None if there is nothing but spaces.
    """
    groups = _between_spaces(characters.values, split_after)
    if not groups:
        return []
    ink = _without_rules(ink)
    height, width = ink.shape
    middles = (characters.starts + characters.stops) / 2 * width
    pitch = _pitch(middles, groups, height)
    first, last = middles[groups[0][0]], middles[groups[-1][-1]]
    limits = max(0.0, first - REACH * pitch), min(float(width), last + REACH * pitch)
    band = ink_band(ink[:, max(0, int(first - pitch)) : int(last + pitch) + 1])
    inside: npt.NDArray[np.bool_] = np.asarray(ink[band[0] : band[1]].any(axis=0))
    groups = _at_wide_gaps(groups, characters.values, middles, inside, band[1] - band[0], pitch)
    gaps = [_gap(inside, ink, middles[a[-1]], middles[b[0]]) for a, b in pairwise(groups)]
    begins = [limits[0], *(gap[1] for gap in gaps)]
    ends = [*(gap[0] for gap in gaps), limits[1]]
    return [
        _word(characters, middles, group, (begin, end), inside, ink, band, pitch)
        for group, begin, end in zip(groups, begins, ends, strict=True)
    ]


def boxes_between_gaps(ink: npt.NDArray[np.bool_]) -> list[Box]:
    """Boxes of words by their ink alone, for lines that are cut before they are read.

    Args:
        ink: The ink of the line, see :func:`ink_map`, (H, W).

    Returns:
        Boxes, in the order of the line; the whole line where there is no ink.
    """
    ink = _without_rules(ink)
    height, width = ink.shape
    top, bottom = ink_band(ink)
    runs = runs_of_true(np.asarray(ink[top:bottom].any(axis=0)))
    if not len(runs):
        return [(0.0, 0.0, 1.0, 1.0)]
    far = runs[1:, 0] - runs[:-1, 1] > WORD_GAP * (bottom - top)
    lefts = runs[np.concatenate([[True], far]), 0] - MARGIN_LEFT_RIGHT * height
    rights = runs[np.concatenate([far, [True]]), 1] + MARGIN_LEFT_RIGHT * height
    band_height = bottom - top
    upper = max(0.0, top - MARGIN_TOP * band_height) / height
    lower = min(float(height), bottom + MARGIN_BOTTOM * band_height) / height
    return [
        (max(0.0, float(left)) / width, upper, min(float(width), float(right)) / width, lower)
        for left, right in zip(lefts, rights, strict=True)
    ]


def leaves_ink_over(characters: LineCharacters, ink: npt.NDArray[np.bool_]) -> bool:
    """Whether a line has ink so far from all characters that it cannot be theirs.

    A recogniser passes over letters that it does not know; what it makes of the rest of their line may look sure.

    Args:
        characters: The characters of the line.
        ink: The ink of its picture, see :func:`ink_map`, (H, W).
    """
    groups = _between_spaces(characters.values, "")
    kept = [index for group in groups for index in group]
    if not kept:
        return False
    height, width = ink.shape
    middles = (characters.starts + characters.stops) / 2 * width
    # One character may be as wide as the line is high.
    pitch = max(_pitch(middles, groups, height), 1.0) if len(kept) > 1 else float(height)
    top, bottom = ink_band(ink)
    # A rule under the line, or through it, is ink in few rows.
    columns = np.flatnonzero(ink[top:bottom].mean(axis=0) >= LETTER_INK) + 0.5
    own = middles[kept]
    after = np.searchsorted(own, columns)
    before, behind = own[np.maximum(after - 1, 0)], own[np.minimum(after, len(own) - 1)]
    distances = np.minimum(np.abs(columns - before), np.abs(columns - behind))
    left_over = columns[distances > FARTHEST * pitch]
    if len(left_over) <= MOST_LEFT_OVER * pitch:
        return False
    boxes = _check_boxes(ink[top:bottom])
    is_box = ((left_over[:, None] > boxes[:, 0]) & (left_over[:, None] < boxes[:, 1])).any(axis=1)
    return int((~is_box).sum()) > MOST_LEFT_OVER * pitch


def _check_boxes(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """First and behind-the-last column of each empty check box: a frame about as wide as high, with nothing in it."""
    found = []
    for start, stop in runs_of_true(np.asarray(ink.any(axis=0))).tolist():
        rows = np.flatnonzero(ink[:, start:stop].any(axis=1))
        box = ink[rows[0] : rows[-1] + 1, start:stop]
        height, width = box.shape
        if not 0.5 * len(ink) <= height or not 0.7 * height <= width <= 1.4 * height:
            continue
        y, x = max(height // 4, 1), max(width // 4, 1)
        has_sides = all(side.all() for side in (box[:y].any(0), box[-y:].any(0), box[:, :x].any(1), box[:, -x:].any(1)))
        # The corners of an O have no ink.
        ends = np.ix_([*range(y // 2), *range(-(y // 2), 0)], [*range(x // 2), *range(-(x // 2), 0)])
        has_corners = box[ends].reshape(2, y // 2, 2, x // 2).any(axis=(1, 3)).all()
        if has_sides and has_corners and not box[y:-y, x:-x].any():
            found.append((start, stop))
    return np.array(found, np.int64).reshape(-1, 2)


def _without_rules(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The ink without the rules that text stands on, without underlines and frames: boxes go around letters."""
    height = len(ink)
    length, thickness = int(RULE_LENGTH * height) + 1, int(RULE_THICKNESS * height) + 1
    letters = ink
    # A rule at a slight angle goes on in the row above or below.
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
    """The ink in runs of at least ``length`` along the rows; None if there is none."""
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
    """Running sums along the rows, which begin with 0."""
    sums = np.zeros((ink.shape[0], ink.shape[1] + 1), np.int32)
    np.cumsum(ink, axis=1, out=sums[:, 1:])
    return sums


def _between_spaces(values: Sequence[str], split_after: str) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    for index, value in enumerate(values):
        if value.isspace():
            groups.append([])
            continue
        if value in CHECK_BOXES:
            groups.append([])
        groups[-1].append(index)
        if value in split_after or value in CHECK_BOXES:
            groups.append([])
    return [group for group in groups if group]


def _at_wide_gaps(
    groups: list[list[int]],
    values: Sequence[str],
    middles: FloatArray,
    inside: npt.NDArray[np.bool_],
    height: int,
    pitch: float,
) -> list[list[int]]:
    """Words cut where they have a wide run of columns without ink; a full stop stays with its word."""
    empty = runs_of_true(~inside)
    wide = empty[empty[:, 1] - empty[:, 0] > max(WIDE_GAP * height, WIDER_THAN_LETTERS * pitch)]
    if not len(wide):
        return groups
    cut = []
    for group in groups:
        own, begin = middles[group], 0
        for start, stop in wide.tolist():
            end = int(np.searchsorted(own, (start + stop) / 2))
            # Places of characters are exact to a part of a character; one farther inside is no neighbour of the gap.
            near = 0 < end < len(own) and own[end - 1] <= start + 0.3 * pitch and own[end] >= stop - 0.3 * pitch
            if near and end > begin and values[group[end]] not in ",.;":
                cut.append(group[begin:end])
                begin = end
        cut.append(group[begin:])
    return cut


def _pitch(middles: FloatArray, groups: list[list[int]], height: int) -> float:
    """The usual distance from character to character, in pixels."""
    distances = np.concatenate([np.diff(middles[group]) for group in groups])
    return float(np.median(distances)) if len(distances) else 0.4 * height


def ink_band(ink: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """First row of the part with most ink, and the row behind it; all rows where there is no ink."""
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


def _gap(inside: npt.NDArray[np.bool_], ink: npt.NDArray[np.bool_], left: float, right: float) -> tuple[float, float]:
    """The widest run of columns without ink between two places; the emptiest column where there is none."""
    # A network may see a character behind the end of the line, in the padding.
    start, stop = min(int(left), ink.shape[1] - 1), int(right) + 1
    empty = ~inside[start:stop]
    if empty.any():
        runs = runs_of_true(empty)
        widest = runs[np.argmax(runs[:, 1] - runs[:, 0])]
        return float(start + widest[0]), float(start + widest[1])
    emptiest = float(start + int(np.argmin(ink[:, start:stop].sum(axis=0)))) if stop > start else left
    return emptiest, emptiest


def _word(
    characters: LineCharacters,
    middles: FloatArray,
    group: list[int],
    limits: tuple[float, float],
    inside: npt.NDArray[np.bool_],
    ink: npt.NDArray[np.bool_],
    band: tuple[int, int],
    pitch: float,
) -> LineWord:
    height, width = ink.shape
    start = int(max(0.0, min(limits[0], middles[group[0]])))
    stop = int(np.ceil(min(float(width), max(limits[1], middles[group[-1]] + 1))))
    runs = start + runs_of_true(inside[start:stop])
    first, last = middles[group[0]], middles[group[-1]]
    own_runs = runs[(runs[:, 1] > first - NEAR_OWN * pitch) & (runs[:, 0] < last + NEAR_OWN * pitch)]
    runs = own_runs if len(own_runs) else runs
    if len(runs):
        left, right = float(runs[0, 0]), float(runs[-1, 1])
    else:
        left, right = middles[group[0]] - pitch / 2, middles[group[-1]] + pitch / 2
    margin = MARGIN_LEFT_RIGHT * height
    left, right = max(0.0, left - margin), min(float(width), right + margin)
    own = ink_band(ink[:, int(left) : int(right) + 1])
    share = LOW_LINE_SHARE if own[1] - own[0] < LOW * (band[1] - band[0]) else LINE_SHARE
    first_row = (1 - share) * own[0] + share * min(band[0], own[0])
    end_row = (1 - share) * own[1] + share * max(band[1], own[1])
    top = max(0.0, first_row - MARGIN_TOP * (end_row - first_row)) / height
    bottom = min(float(height), end_row + MARGIN_BOTTOM * (end_row - first_row)) / height
    cuts = [left, *((middles[a] + middles[b]) / 2 for a, b in pairwise(group)), right]
    cuts = np.clip(np.maximum.accumulate(cuts), left, right) / width
    return LineWord(
        "".join(characters.values[index] for index in group),
        (float(left / width), top, float(right / width), bottom),
        tuple((float(a), top, float(b), bottom) for a, b in pairwise(cuts)),
        tuple(float(characters.confidences[index]) for index in group),
    )


def runs_of_true(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """First and behind-the-last index of each run of true, (N, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def inks_of_lines(pictures: Tensor) -> Tensor:
    """Which pixels of lines are ink, see :func:`ink_map`, for :func:`ink_of_line`.

    Args:
        pictures: RGB in [0, 1], (N, 3, H, W), NaN right of a line's picture; W a multiple of 8.

    Returns:
        On the CPU bool (N, H, W); on another device uint8 (N, H, W / 8), a bit for each pixel.
    """
    grays = pictures.mean(1)
    if grays.device.type != "cpu":
        return _packed(_inked(grays))
    inks = torch.zeros(grays.shape, dtype=torch.bool)
    for gray, ink in zip(grays.numpy(), inks.numpy(), strict=True):
        width = int((~np.isnan(gray[0])).sum())
        ink[:, :width] = ink_map(gray[:, :width])
    return inks


def ink_of_line(inks: npt.NDArray[np.generic], position: int, width: int) -> npt.NDArray[np.bool_]:
    """That of one line.

    Args:
        inks: The result of :func:`inks_of_lines`, as an array.
        position: Which line.
        width: Columns of its picture.

    Returns:
        bool (H, width).
    """
    own = inks[position]
    bits = own if own.dtype == np.bool_ else np.unpackbits(own.astype(np.uint8), axis=1, bitorder="little")
    line: npt.NDArray[np.bool_] = bits[:, :width].astype(bool)
    return line


def _inked(grays: Tensor) -> Tensor:
    """The same as ``ink_map``, for lines of all widths at once: order statistics are taken from sorted values."""
    rows, columns = grays.shape[1:]
    flat = grays.flatten(1)
    # As floats, which all devices have and which are exact so far.
    number = flat.isnan().logical_not_().sum(1, keepdim=True).float()
    levels = flat.sort(1).values
    middle = (_at(levels, ((number - 1) / 2).floor()) + _at(levels, (number / 2).floor())) / 2
    contrasts = (flat - middle).abs()
    ordered = contrasts.sort(1).values
    place = (number - 1) * (STRONG_PERCENTILE / 100)
    below, above = _at(ordered, place.floor()), _at(ordered, place.ceil())
    loud = below + (above - below) * (place - place.floor())
    return (contrasts > (loud * INK_CONTRAST).clamp(min=LEAST_CONTRAST)).view(-1, rows, columns)


def _at(ordered: Tensor, places: Tensor) -> Tensor:
    return ordered.gather(1, places.long())


def _packed(inks: Tensor) -> Tensor:
    """Bool (N, H, W) as uint8 (N, H, W / 8), the first pixel in the lowest bit."""
    packed = torch.zeros((*inks.shape[:2], inks.shape[2] // 8), dtype=torch.uint8, device=inks.device)
    for place, bit in enumerate(BITS):
        packed += inks[..., place::8].to(torch.uint8) * bit
    return packed
