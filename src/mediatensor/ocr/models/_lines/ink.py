"""Find the ink in images of text lines and pages, and the signs in it that networks often miss.

In a line, the ink shows where words and letters end. On a page, its connected pieces show text outside all boxes, check
boxes and colons:

* A check box has four straight sides (`_frame_of`) and is about as high as a line of text. Nothing touches it from
  outside, and a word is next to it in the same row. Its middle shows whether it has a mark.
* A colon is two dots of the same size, one above the other, within the height of the letters of a line, and with no
  other ink around them. Many are faint, or far from their word, as on receipts: ``Discount  :  0.00``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...utils._page_images import image_tools

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
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
BLOCK_SIZE = 32
"""Side in pixels of the squares whose median, smoothed over neighbours, is the background level."""
LEAST_PAGE_CONTRAST = 20.0
"""Least difference between ink and background, in grey levels of 256."""
NOISE_FACTOR = 3.5
"""Least difference between ink and background, in median deviations of the page, to ignore grain."""
SMALLEST_DOT, LARGEST_DOT = 0.04, 0.24
"""Range of dot sizes. All lengths of colons are in box heights, about 1.5 times the height of capitals."""
COLON_LEAST_FILL, COLON_LONGEST = 0.5, 2.0
"""Least share of its bounds that a dot fills, and greatest ratio of its sides."""
MOST_UNLIKE = 1.6
"""Greatest size ratio between two dots, in each dimension."""
UPPER, LOWER, APART = (0.28, 0.55), (0.58, 0.92), (0.2, 0.48)
"""Ranges of the centers of the upper and lower dot, from the top of the box, and of their distance."""
MOST_SLANT = 0.05
"""Greatest horizontal distance between the two dots."""
COLON_REACH = 1.3
"""Greatest distance between the dots and the end of the box."""
RULE_APART = 1.3
"""Other dots must be farther above or below a colon than this many times the distance between its two dots."""
SMALLEST_PIECE, MOST_SPECKS_KEPT = 3, 0.5
"""Pieces with fewer pixels are ignored if more than this share of a page's pieces have fewer."""
MOST_PIECES = 4000
"""Pages with more dots than this are photos or noise, and not searched for colons."""
_EXTREMES = (np.minimum, np.minimum, np.maximum, np.maximum)
EMPTY_BOX, TICKED_BOX = "\u2610", "\u2611"
# The numbers of check boxes were chosen on 74 forms of FUNSD. On all 149 forms, 92 of 123 annotated boxes are found, 91
# with the right sign; on 150 receipts, which have none, one is. The other boxes have lost a side, or touch words.
SMALLEST, LARGEST = 0.45, 2.4
"""Range of the sides of check boxes, in median heights of the page's words."""
FEWEST_PIXELS = 6
"""Least side of a check box in pixels."""
LONGEST = 1.7
"""Greatest ratio of the sides."""
LEAST_SIDE = 0.8
"""Least share of each side that has ink."""
MOST_EXTENDED = 1.5
"""Greatest size of a box and its mark, as a multiple of the greatest size of a box."""
SEARCHED, ALMOST_AS_FULL = 0.45, 0.05
"""Share of a piece of ink in which each side is searched, and greatest difference of its inked share to the fullest."""
GROWN = 0.1
"""Boxes are enlarged by this share of their side, as boxes of words are."""
MARGIN, MOST_INK_AROUND, FEWEST_CLEAR = 0.12, 0.15, 3
"""Width of the margins around a box, as a share of its side; greatest share of ink in a margin; and least number of
margins with no more ink.
"""
OUTSIDE, OVERHANG, MOST_OVERHANG, MOST_LONGER = 2, 0.2, 0.7, 2
"""Sides of cells continue beyond the corners: pixels to skip, length to look at as a share of the side, least share of
ink, and greatest number of the eight ends of sides that may continue. Marks often extend beyond their box.
"""
PART_OF_SIDE, MARK, FEWEST_INSIDE, MIDDLE, MARK_IN_MIDDLE, MOST_FILLED = 0.5, 0.06, 4, 0.28, 0.3, 0.8
"""A box has a mark if the mean contrast within its sides is at least the share `MARK` of the frame's. Rows and columns
next to a side, with a mean contrast above `PART_OF_SIDE`, belong to it. If fewer than `FEWEST_INSIDE` pixels are left,
only the middle shows a mark: it begins at the share `MIDDLE` of the sides, and must have `MARK_IN_MIDDLE`. Beyond
`MOST_FILLED`, the box is a filled square.
"""
LIGHT_PART, LIGHTEST = 5, 0.4
"""Between the strokes of a mark there is paper: this percentile of the contrast within the sides is at most that share.
"""
LABEL_REACH = 3.0
"""Greatest distance of the nearest word in the same row, in median heights of words."""
SAME_ROW = 0.4
"""A word is in the row of a box if they overlap vertically by this share of the lower height."""


def ink_map(gray: npt.NDArray[np.floating]) -> BoolArray:
    """Return a mask (H, W) that is true where ``gray`` (H, W), in [0, 1], has ink. Text can be dark or light."""
    contrast = np.abs(gray - np.median(gray))
    strongest = float(np.percentile(contrast, STRONG_PERCENTILE))
    inked: BoolArray = contrast > max(INK_CONTRAST * strongest, LEAST_CONTRAST)
    return inked


def remove_rules(ink: BoolArray, length: float = RULE_LENGTH) -> BoolArray:
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


def _long_runs(ink: BoolArray, length: int) -> BoolArray | None:
    """Return a mask of the ink in horizontal runs of at least ``length`` pixels, or ``None`` if there is none."""
    sums = _sums(ink)
    starts = sums[:, length:] - sums[:, :-length] == length
    if not starts.any():
        return None
    counts, behind = _sums(starts), np.arange(1, ink.shape[1] + 1)
    runs: BoolArray = counts[:, np.minimum(behind, starts.shape[1])] > counts[:, np.maximum(behind - length, 0)]
    return runs


def _sums(ink: BoolArray) -> npt.NDArray[np.int32]:
    """Return the cumulative sums of each row, with a 0 before the first."""
    sums = np.zeros((ink.shape[0], ink.shape[1] + 1), np.int32)
    np.cumsum(ink, axis=1, out=sums[:, 1:])
    return sums


def ink_band(ink: BoolArray) -> tuple[int, int]:
    """Return (start, stop) of the band of rows with the most ink, the line itself; all rows if there is no ink."""
    rows = ink.mean(axis=1) if ink.size else np.zeros(len(ink))
    full = rows > BAND_DENSITY * rows.max(initial=0.0)
    if not full.any():
        return 0, len(ink)
    starts, stops = runs_of_true(full, BAND_GAP * len(ink)).T
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    fullest = int(np.argmax(sums[stops] - sums[starts]))
    return int(starts[fullest]), int(stops[fullest])


def runs_of_true(flags: BoolArray, gap: float = 0.0) -> IntArray:
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


def ink_of_line(inks: npt.NDArray[np.generic], position: int, width: int) -> BoolArray:
    """Return the mask (H, width) of the line at ``position`` from ``inks``, the result of `inks_of_lines`."""
    own = inks[position]
    bits = own if own.dtype == np.bool_ else np.unpackbits(own.astype(np.uint8), axis=1, bitorder="little")
    line: BoolArray = bits[:, :width].astype(bool)
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


def page_ink(gray: npt.NDArray[np.uint8]) -> tuple[BoolArray, npt.NDArray[np.int16]]:
    """Return which pixels of a page ``gray`` (H, W) are ink, and the contrast of all pixels, in grey levels."""
    ndimage = image_tools()
    height, width = gray.shape
    rows, columns = -(-height // BLOCK_SIZE), -(-width // BLOCK_SIZE)
    # Every second pixel is enough for a median.
    padded = np.pad(gray, ((0, rows * BLOCK_SIZE - height), (0, columns * BLOCK_SIZE - width)), mode="edge")[::2, ::2]
    half = BLOCK_SIZE // 2
    blocks = padded.reshape(rows, half, columns, half).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    middle = half * half // 2
    levels = ndimage.median_filter(np.partition(blocks, middle, axis=2)[:, :, middle], 3, mode="nearest")
    background = levels.repeat(BLOCK_SIZE, axis=0)[:height].repeat(BLOCK_SIZE, axis=1)[:, :width]
    contrast: npt.NDArray[np.int16] = np.abs(gray.astype(np.int16) - background)
    noise = float(np.median(contrast[::3, ::3]))
    return contrast >= max(LEAST_PAGE_CONTRAST, NOISE_FACTOR * noise), contrast


@dataclass(frozen=True)
class InkPieces:
    """The M connected pieces of ink of a page."""

    labels: npt.NDArray[np.int32]  # a map of the page, (H, W): the number of the piece from 1 to M, or 0 for paper
    bounds: IntArray  # int64 (M, 4): left, top, right, bottom; the last two are one past the last pixel
    areas: IntArray  # numbers of pixels, (M,)

    @classmethod
    def of(cls, ink: BoolArray) -> InkPieces:
        labels, number = image_tools().label(ink, structure=np.ones((3, 3), dtype=np.int8))
        # A run of ink in a row belongs to one piece. There are far fewer runs than pixels.
        edges = np.flatnonzero(np.diff(ink, axis=1, prepend=False, append=False))
        rows, columns = np.divmod(edges, ink.shape[1] + 1)
        rows, starts, stops = rows[::2], columns[::2], columns[1::2]
        piece_of_run = labels[rows, starts] - 1
        areas = np.bincount(piece_of_run, stops - starts, number).astype(np.int64)
        bounds = np.tile([*ink.shape[::-1], 0, 0], (number, 1)).T
        for side, places, extreme in zip(bounds, (starts, rows, stops, rows + 1), _EXTREMES, strict=True):
            extreme.at(side, piece_of_run, places)
        pieces = cls(labels, bounds.T, areas)
        kept = areas >= SMALLEST_PIECE
        # Grain has very many specks, and each piece takes time.
        return pieces.select(kept) if np.count_nonzero(kept) < MOST_SPECKS_KEPT * number else pieces

    @property
    def fill(self) -> FloatArray:
        """The share of each bounding box that is ink, (M,)."""
        return np.asarray(self.areas / (self.bounds[:, 2:] - self.bounds[:, :2]).prod(axis=1))

    def select(self, kept: BoolArray) -> InkPieces:
        """Return some of the pieces, in the same order. The other ones become paper."""
        numbers = np.concatenate([[0], np.where(kept, np.cumsum(kept), 0)]).astype(np.int32)
        return InkPieces(numbers[self.labels], self.bounds[kept], self.areas[kept])


@dataclass(frozen=True)
class Colon:
    """A colon in or next to a line; lengths are in pixels along the line, from its start."""

    line: int  # the index of the line
    start: float
    stop: float
    gap: float  # between the colon and the line's nearest end; 0 in the line
    top: float  # across the line, from its top
    bottom: float


def find_colons(lines: FloatArray, pieces: InkPieces, clear: float) -> list[Colon]:
    """Find the colons of a page in and next to its ``lines`` (N, 4, 2), in pixels.

    ``clear`` is the margin around the dots that must contain no other ink, in heights of the line.
    """
    sizes = (pieces.bounds[:, 2:] - pieces.bounds[:, :2]).astype(np.float64)
    low, high = sizes.min(axis=1, initial=np.inf), sizes.max(axis=1, initial=0)
    # For small dots, a difference of one pixel is ignored.
    (dots,) = np.nonzero((low >= 2) & (high <= COLON_LONGEST * low + 1) & (pieces.fill >= COLON_LEAST_FILL))
    if not 2 <= len(dots) <= MOST_PIECES:
        return []
    sizes, high = sizes[dots], high[dots]
    middles = (pieces.bounds[dots, :2] + pieces.bounds[dots, 2:]) / 2
    nearest: dict[tuple[int, int], Colon] = {}
    for number, line in enumerate(lines):
        along, across = line[1] - line[0], line[3] - line[0]
        width, height = float(np.hypot(*along)), float(np.hypot(*across))
        if width < height or height < 1:
            continue
        x, y = (middles - line[0]) @ along / width, (middles - line[0]) @ across / height**2
        fits = (high <= LARGEST_DOT * height) & (high >= SMALLEST_DOT * height)
        fits &= (x > -COLON_REACH * height) & (x < width + COLON_REACH * height)
        uppers = np.flatnonzero(fits & (y > UPPER[0]) & (y < UPPER[1]))
        lowers = np.flatnonzero(fits & (y > LOWER[0]) & (y < LOWER[1]))
        if not len(uppers) or not len(lowers):
            continue
        apart = y[lowers] - y[uppers, None]
        pairs = (apart > APART[0]) & (apart < APART[1])
        pairs &= np.abs(x[lowers] - x[uppers, None]) <= MOST_SLANT * height + 1
        one, other = sizes[uppers, None], sizes[lowers]
        pairs &= (np.maximum(one, other) <= MOST_UNLIKE * np.minimum(one, other) + 1).all(axis=2)
        for place in zip(*np.nonzero(pairs), strict=True):
            upper, lower = int(uppers[place[0]]), int(lowers[place[1]])
            # Dots of a dotted rule have more dots above or below.
            rows = y[np.abs(x - x[upper]) <= MOST_SLANT * height + 1]
            near = RULE_APART * (y[lower] - y[upper])
            if ((rows >= y[upper] - near) & (rows <= y[lower] + near)).sum() > 2:
                continue
            both = [upper, lower]
            if not _is_alone(dots[both], pieces, clear * height):
                continue
            start, stop = float(x[both].min()), float(x[both].max())
            gap = max(0.0, stop - width, -start)
            half = sizes[both].max(axis=0) / 2
            if (upper, lower) not in nearest or gap < nearest[upper, lower].gap:
                top, bottom = y[both] * height + (-half[1], half[1])
                nearest[upper, lower] = Colon(number, start - half[0], stop + half[0], gap, top, bottom)
    return list(nearest.values())


def _is_alone(dots: IntArray, pieces: InkPieces, margin: float) -> bool:
    """Return whether there is no other ink within ``margin`` pixels of two dots.

    Specks of dirt and dotted lines have other ink around them. Pixels are compared rather than bounding boxes, because
    the bounding box of a frame around the page contains everything.
    """
    bounds = pieces.bounds[dots]
    left, top = np.maximum(np.floor(bounds[:, :2].min(axis=0) - margin), 0).astype(np.int64)
    right, bottom = np.ceil(bounds[:, 2:].max(axis=0) + margin).astype(np.int64)
    return bool(np.count_nonzero(pieces.labels[top:bottom, left:right]) == pieces.areas[dots].sum())


@dataclass(frozen=True)
class CheckBox:
    """A check box of a page.

    Attributes:
        box: Left, top, right and bottom in pixels.
        is_ticked: Whether there is a mark in it.
        confidence: The share of its faintest side that has ink, in [0, 1].
        word: The index of the word as which it was read, or ``None``.
    """

    box: tuple[float, float, float, float]
    is_ticked: bool
    confidence: float
    word: int | None

    @property
    def value(self) -> str:
        return TICKED_BOX if self.is_ticked else EMPTY_BOX


def find_check_boxes(
    pieces: InkPieces,
    contrast: npt.NDArray[np.int16],
    words: FloatArray,
    may_be_empty: BoolArray,
    may_be_ticked: BoolArray,
    unread: FloatArray,
) -> list[CheckBox]:
    """Find the check boxes of an upright page.

    Args:
        pieces: Its pieces of ink.
        contrast: The contrast of its pixels, (H, W); see `page_ink`.
        words: The boxes of its words, (N, 4), in pixels: left, top, right, bottom.
        may_be_empty: Whether an empty box could have been read as this word, (N,).
        may_be_ticked: Whether a ticked box could have been read as this word, (N,).
        unread: The boxes (M, 4) of lines whose letters are not among the words.
    """
    height = float(np.median(words[:, 3] - words[:, 1]))
    smallest, largest = max(SMALLEST * height, FEWEST_PIXELS), LARGEST * height
    in_words = np.zeros(contrast.shape, dtype=bool)
    letters = np.concatenate([words[~(may_be_empty | may_be_ticked)], unread])
    for x0, y0, x1, y1 in letters.astype(int).tolist():
        in_words[max(y0, 0) : y1, max(x0, 0) : x1] = True
    sizes = pieces.bounds[:, 2:] - pieces.bounds[:, :2]
    middles = (pieces.bounds[:, :2] + pieces.bounds[:, 2:]) // 2
    # Marks may extend beyond the box.
    likely = (sizes.min(axis=1) >= smallest) & (sizes.max(axis=1) <= MOST_EXTENDED * largest)
    likely &= ~in_words[middles[:, 1], middles[:, 0]]
    found = []
    for number in np.flatnonzero(likely).tolist():
        x0, y0, x1, y1 = pieces.bounds[number].tolist()
        piece = pieces.labels[y0:y1, x0:x1] == number + 1
        frame, confidence = _frame_of(piece)
        sides = (frame[2:] - frame[:2]).tolist()
        is_square = smallest <= min(sides) and max(sides) <= min(largest, LONGEST * min(sides))
        if not is_square or confidence < LEAST_SIDE or _goes_on(piece, frame):
            continue
        left, top, right, bottom = (frame + np.array([x0, y0, x0, y0])).tolist()
        if not _is_clear(pieces.labels, left, top, right, bottom):
            continue
        strength = float(np.percentile(contrast[y0:y1, x0:x1][piece], 75))
        is_ticked, fill = _measure_mark(contrast[top:bottom, left:right] / strength)
        box = np.array([left, top, right, bottom], dtype=np.float64)
        word = _word_in(box, words)
        may_be = may_be_ticked if is_ticked else may_be_empty
        if fill > MOST_FILLED or not (word is None or may_be[word]) or not _has_label(box, words, word, height):
            continue
        grown = GROWN * min(sides)
        around = (left - grown, top - grown, right + grown, bottom + grown)
        found.append(CheckBox(around, is_ticked, confidence, word))
    return found


def _measure_mark(contrast: npt.NDArray[np.floating]) -> tuple[bool, float]:
    """Return whether a box has a mark, and the mean of its middle, from its ``contrast`` relative to the frame's."""
    ends = []
    for view in (contrast, contrast[::-1], contrast.T, contrast.T[::-1]):
        of_side = view.mean(axis=1)[: int(SEARCHED * len(view))] > PART_OF_SIDE
        ends.append(int(np.flatnonzero(of_side)[-1]) + 1 if of_side.any() else 0)
    above, below, left, right = ends
    height, width = contrast.shape
    y, x = (max(2, round(MIDDLE * side)) for side in contrast.shape)
    middle, inside = contrast[y:-y, x:-x], contrast[above + 1 : height - below - 1, left + 1 : width - right - 1]
    fill = float(middle.mean()) if middle.size else 0.0
    is_wide = min(inside.shape) >= FEWEST_INSIDE
    if min(middle.shape) >= FEWEST_INSIDE and np.percentile(middle, LIGHT_PART) > LIGHTEST:
        fill = 1.0
    return fill >= MARK_IN_MIDDLE or (is_wide and float(inside.mean()) >= MARK), fill


def _frame_of(piece: BoolArray) -> tuple[IntArray, float]:
    """Return the frame (left, top, right, bottom) in a piece of ink (H, W), and the inked share of its faintest side.

    Each side is the outermost row or column, of those near the edge, that has almost as much ink as the fullest.
    """
    across, along = piece.copy(), piece.copy()
    # Sides may be tilted by one pixel.
    across[1:] |= piece[:-1]
    across[:-1] |= piece[1:]
    along[:, 1:] |= piece[:, :-1]
    along[:, :-1] |= piece[:, 1:]
    left, top, right, bottom = 0, 0, piece.shape[1], piece.shape[0]
    # The share of a row that has ink depends on where the columns of the frame are, and the other way round.
    for _ in range(3):
        top, bottom = _outer_sides(across[:, left:right].mean(axis=1))
        left, right = _outer_sides(along[top:bottom].mean(axis=0))
    rows, columns = across[[top, bottom - 1], left:right], along[top:bottom, [left, right - 1]]
    return np.array([left, top, right, bottom]), float(min(*rows.mean(axis=1), *columns.mean(axis=0)))


def _outer_sides(shares: npt.NDArray[np.floating]) -> tuple[int, int]:
    """Return the first and one past the last place of a frame along an axis, from the inked ``shares`` of its lines."""
    part = max(1, int(SEARCHED * len(shares)))
    first, last = shares[:part], shares[::-1][:part]
    return (
        int(np.argmax(first >= first.max() - ALMOST_AS_FULL)),
        len(shares) - int(np.argmax(last >= last.max() - ALMOST_AS_FULL)),
    )


def _goes_on(piece: BoolArray, frame: IntArray) -> bool:
    """Return whether more sides of a frame continue beyond its corners than a mark could cross."""
    left, top, right, bottom = frame + 2 + OUTSIDE
    length = max(2, round(OVERHANG * float(min(frame[2:] - frame[:2]))))
    padded = np.pad(piece, 2 + OUTSIDE)
    count = 0
    for view, (start, stop, near, far) in (
        (padded, (left, right, top, bottom - 1)),
        (padded.T, (top, bottom, left, right - 1)),
    ):
        for line in (near, far):
            rows = np.asarray(view[line - 1 : line + 2].any(axis=0))
            before, behind = rows[max(start - OUTSIDE - length, 0) : start - OUTSIDE], rows[stop + OUTSIDE :][:length]
            count += sum(len(end) > 0 and float(end.mean()) > MOST_OVERHANG for end in (before, behind))
    return count > MOST_LONGER


def _is_clear(labels: npt.NDArray[np.int32], left: int, top: int, right: int, bottom: int) -> bool:
    """Return whether there is little ink around a frame, except on one side."""
    width = max(1, round(MARGIN * min(right - left, bottom - top)))
    margins = (
        labels[max(top - 1 - width, 0) : max(top - 1, 0), left:right],
        labels[bottom + 1 : bottom + 1 + width, left:right],
        labels[top:bottom, max(left - 1 - width, 0) : max(left - 1, 0)],
        labels[top:bottom, right + 1 : right + 1 + width],
    )
    clear = [margin.size == 0 or float((margin > 0).mean()) < MOST_INK_AROUND for margin in margins]
    return sum(clear) >= FEWEST_CLEAR


def _word_in(box: FloatArray, words: FloatArray) -> int | None:
    """Return the word that covers the middle of a box, or ``None``."""
    middle = (box[:2] + box[2:]) / 2
    around = np.flatnonzero(((words[:, :2] <= middle) & (middle <= words[:, 2:])).all(axis=1))
    return int(around[0]) if len(around) else None


def _has_label(box: FloatArray, words: FloatArray, own: int | None, height: float) -> bool:
    shared = np.minimum(words[:, 3], box[3]) - np.maximum(words[:, 1], box[1])
    in_row = shared > SAME_ROW * np.minimum(words[:, 3] - words[:, 1], box[3] - box[1])
    gap = np.maximum(words[:, 0] - box[2], box[0] - words[:, 2])
    is_beside = in_row & (gap > (box[0] - box[2]) / 2) & (gap < LABEL_REACH * height)
    if own is not None:
        is_beside[own] = False
    return bool(is_beside.any())
