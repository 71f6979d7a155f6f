"""Watch the frames of a video for text: check whether known texts are visible, find new text, and read it.

The strokes of a text are brighter or darker than their surroundings. When a text is detected, a `Template` stores how
much each of its pixels differs from the surroundings. Correlating it with a frame gives the visible share of the text.
The share is 1 if the whole text is visible, 0 if there is no text or another text, and in between during a fade. This
is a matched filter (G. L. Turin, "An introduction to matched filters", 1960).

Text overlaid on a video stays still over moving content. Its strokes are edges that stay the same from one moment to
the next, and that were not there when this part of the frame was last searched for text. `ChangeWatch` ignores moving
objects, because they do not stay still, and still content, because it does not change.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from .._lines.characters import is_east_asian
from .._lines.reading import LineRecognizer, read_lines
from .._lines.words import LineWord
from .._networks.transfers import is_compiled
from .._networks.weights import stored_arrays
from ..detection.predictor import DetectionPredictor
from ..recognition.predictor import RecognitionPredictor

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Brightness = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels
Shift = tuple[int, int]  # right, down in pixels
TALLEST_LINE = 0.25  # greatest height of a line of text, as a share of the frame's height
# Pixels with at least this share of the greatest difference from their surroundings are strokes.
STROKE_CONTRAST = 0.3
# Least value of the greatest difference of strokes from their surroundings, of 255; noise is lower.
MIN_STROKE_CONTRAST = 10.0
STILL_DIFFERENCE = 24  # greatest change of a stroke pixel from frame to frame
INNER_CONTRAST = 0.45  # pixels with at least this share of the greatest difference are inside a stroke
NUM_PARTS = 16  # number of parts, from left to right, whose brightness is tracked to detect sung words
FEWEST_IN_PART = 12
LEAST_CHANGE = 6.0  # least change of brightness of a sung word, of 255
MOST_SUNG_BEFORE = 0.4  # greatest share of parts that may already have been sung at detection
FEWEST_STEPS = 3
# Least share of strokes that must be still; a smaller share may be a moving background.
MIN_STILL_SHARE = 0.25
LEAST_INSIDE = 0.25  # least share of a moving text that must be inside the frame
SMALL_HEIGHT = 360  # approximate height in pixels of the downscaled frames
REST_DIFFERENCE = 12  # greatest change of a pixel at rest from one comparison to the next, of 255
CHANGE_DIFFERENCE = 32  # least change of a pixel since the last detection
EDGE_CONTRAST = 36  # least difference of strokes from their surroundings
CELL_SIZE = 8  # side in pixels of the cells in which edges are counted
EDGES_IN_WINDOW = 36  # least number of edge pixels that may be text, in a row of WINDOW_CELLS cells
WINDOW_CELLS = 5
MARGIN_CELLS = 3  # rows of cells added to a band above and below
# For this many comparisons after detection in a region, changes there must rest twice as long to be accepted.
# Otherwise, alternating content would trigger detection again and again. New text is delayed by at most this long.
HESITANT_COMPARISONS = 2
# Outlines of known lines extend beyond their boxes by up to 1 / KNOWN_MARGIN of the box height.
KNOWN_MARGIN = 5
FEWEST_SHARED_LETTERS = 4  # least number of letters that two readings of parts of a moving text share
# Width of a character, including its gap, in line heights: usual, and least of letterspaced text. Recognisers do not
# find the spaces of letterspaced text.
USUAL_PITCH, WIDE_PITCH = 0.45, 0.6
SPECK_CONFIDENCE = 0.5  # single characters with a lower confidence at the ends of a line are left out
CARON_BEFORE_APOSTROPHE = re.compile(r"[ďťľĽ](?=['\u2019][^\W\d_])")
SIGNS_FILE = Path(__file__).with_name("signs.npz")
SIGNS_SHA256 = "0b6a48c0f607b951b4491185c0c01eb441841d84eb30786030688f55fbc3b9b8"
MOST_PIXELS = 520_000  # frames with more pixels are downscaled to this number before detection


class Picture(NamedTuple):
    """A frame: its index, its presentation time, and its luma (H, W)."""

    frame: int
    seconds: float
    luma: Gray


class Template:
    """The strokes (pixels of the glyphs) of a text that stays at one place in the frame.

    Args:
        luma: A frame (H, W) that shows the text.
        box: Left, top, right, bottom of the text's line, in pixels.
        others: More frames that show the text. Pixels that differ between these frames are not part of the text.
    """

    def __init__(self, luma: Gray, box: Box, others: Sequence[Gray] = ()) -> None:
        height, width = luma.shape
        left, top, right, bottom = box
        pad = max(2, (bottom - top) // 8)
        self.box = (max(left - pad, 0), max(top - pad, 0), min(right + pad, width), min(bottom + pad, height))
        self._shown = self.part(luma).copy()
        picture = self._shown.astype(np.float32)
        strokes = picture - _blur(picture, max(2, (bottom - top) // 2))
        size = np.abs(strokes)
        greatest = float(np.quantile(size, 0.98)) if size.size else 0.0
        mask = size > STROKE_CONTRAST * greatest
        if others:
            still = np.ones_like(mask)
            for other in others:
                still &= np.abs(self.part(other).astype(np.float32) - picture) < STILL_DIFFERENCE
            if (mask & still).sum() >= MIN_STILL_SHARE * mask.sum():
                mask &= still
        weights = np.where(mask, strokes, 0)
        # Subtract the mean so that the brightness of the background has no effect.
        if mask.any():
            weights[mask] -= weights[mask].mean()
        norm = float((weights * picture).sum())
        self.contrast = greatest
        self.is_usable = greatest >= MIN_STROKE_CONTRAST and norm > 0
        self._weights = weights / norm if self.is_usable else np.zeros_like(weights)
        columns = np.broadcast_to(np.arange(strokes.shape[1]) * NUM_PARTS // max(strokes.shape[1], 1), strokes.shape)
        self._solid = [np.flatnonzero(sign * strokes > INNER_CONTRAST * greatest) for sign in (1, -1)]
        self._parts = [columns.ravel()[solid] for solid in self._solid]

    def part(self, luma: Gray) -> Gray:
        """Return the region of a frame that contains the text."""
        left, top, right, bottom = self.box
        return luma[top:bottom, left:right]

    def change(self, difference: npt.NDArray[np.float32]) -> float:
        """Return how much the pixels of the strokes change on average between two frames.

        ``difference`` is the difference between the results of `part` for the two frames.
        """
        return float(np.abs(difference[self._weights != 0]).mean())

    def share(self, luma: Gray) -> float:
        """Return the visible share of the text in a frame, from 0 to 1."""
        return float(np.vdot(self._weights, self.part(luma)))

    def find(self, luma: Gray, shifts: Iterable[Shift]) -> tuple[float, Shift]:
        """Find a text that may have moved by one of ``shifts``. Return its visible share, and its shift."""
        return max((self._share_of_moved(luma, shift), shift) for shift in shifts)

    def _share_of_moved(self, luma: Gray, shift: Shift) -> float:
        """Return the visible share of the part of a moved text that is inside the frame; 0 if this part is small."""
        (height, width), (left, top, right, bottom) = luma.shape, self.box
        x, y = left + shift[0], top + shift[1]
        rows = slice(max(-y, 0), max(min(bottom - top, height - y), 0))
        columns = slice(max(-x, 0), max(min(right - left, width - x), 0))
        weights, whole = self._weights[rows, columns], 1.0
        if weights.shape != self._weights.shape:
            strokes = weights != 0
            if not strokes.any():
                return 0.0
            weights = np.where(strokes, weights - weights[strokes].mean(), 0)
            whole = float(np.vdot(weights, self._shown[rows, columns]))
            if whole < LEAST_INSIDE:
                return 0.0
        part = luma[y + rows.start : y + rows.stop, x + columns.start : x + columns.stop]
        return float(np.vdot(weights, part)) / whole

    def brightness(self, luma: Gray) -> Brightness:
        """Return the mean brightness of the strokes in each of `NUM_PARTS` parts of the text, from left to right.

        The result is (2, NUM_PARTS): first bright strokes, then dark strokes; NaN for parts with few stroke pixels.
        """
        pixels = self.part(luma).ravel()
        means = np.full((2, NUM_PARTS), np.nan, np.float32)
        for mean, solid, parts in zip(means, self._solid, self._parts, strict=True):
            counts = np.bincount(parts, minlength=NUM_PARTS)
            enough = counts >= FEWEST_IN_PART
            mean[enough] = np.bincount(parts, pixels[solid], NUM_PARTS)[enough] / counts[enough]
        return means


def is_sung(course: Sequence[Brightness]) -> bool:
    """Return whether a text changes its brightness word by word, from left to right, as in karaoke."""
    return len(course) > FEWEST_STEPS and any(_steps_forward(one) for one in np.stack(course, axis=1))


def _steps_forward(course: Brightness) -> bool:
    """Return whether each part of the text changes its brightness once, and not before the part to its left.

    ``course`` (moments, parts) is the brightness of the parts over time.
    """
    course = course[:, ~np.isnan(course).any(axis=0)]
    change = course[-1] - course[0]
    changed = np.abs(change) >= LEAST_CHANGE
    num_before = int(changed.argmax()) if changed.any() else len(changed)
    if len(change) < FEWEST_STEPS or num_before > MOST_SUNG_BEFORE * len(change):
        return False
    change, course = change[num_before:], course[:, num_before:]
    if not (changed[num_before:].all() and (np.sign(change) == np.sign(change[0])).all()):
        return False
    is_done = (course - course[0]) / change > 0.5
    at = is_done.argmax(axis=0)
    once = all(done[first:].all() for done, first in zip(is_done.T, at, strict=True))
    return bool(once and (np.diff(at) >= 0).all() and len(set(at.tolist())) >= FEWEST_STEPS)


def _blur(picture: npt.NDArray[np.float32], reach: int) -> npt.NDArray[np.float32]:
    """Replace each pixel by the mean of a square window around it that extends ``reach`` pixels in each direction."""
    padded = np.pad(picture, reach + 1, mode="edge").astype(np.float64)
    sums = padded.cumsum(0).cumsum(1)
    side = 2 * reach + 1
    low, high = slice(None, -side - 1), slice(side, -1)
    total = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    mean: npt.NDArray[np.float32] = (total / side**2).astype(np.float32)
    return mean


@dataclass(frozen=True)
class Band:
    """A horizontal band of a frame: its top and bottom, as fractions of the frame's height."""

    top: float
    bottom: float


class ChangeWatch:
    """Finds the parts of a video in which new text may have appeared.

    It compares each frame with the previous frame, to find pixels that stay still. It also compares each part of the
    frame with the frame in which this part was last searched for text, to find pixels that are new.
    """

    def __init__(self, height: int) -> None:
        self._step = max(1, round(height / SMALL_HEIGHT))
        self._earlier: Gray | None = None
        self._before: Gray | None = None
        self._looked_at: Gray = np.zeros((0, 0), np.uint8)
        self._is_unseen: Mask = np.ones((0, 0), bool)  # pixels that count as new, whatever their brightness
        #: For each of the last comparisons, the regions in which text was searched.
        self._searched: deque[list[tuple[slice, slice]]] = deque(maxlen=HESITANT_COMPARISONS)

    def see(self, luma: Gray, known: Sequence[Box] = ()) -> list[Band]:
        """Process the next frame. Return the bands in which new text may have appeared, from top to bottom.

        Args:
            luma: (H, W), the frame about 0.1 seconds after the previous one.
            known: Boxes of the lines in the frame that are already tracked. They are not new text.
        """
        small = luma[:: self._step, :: self._step].copy()
        earlier, before = self._earlier, self._before
        self._earlier, self._before = before, small
        if before is None or before.shape != small.shape:
            self._looked_at, self._is_unseen = small.copy(), np.ones(small.shape, bool)
            return []
        news = self._is_unseen | (difference(small, self._looked_at) > CHANGE_DIFFERENCE)
        news &= difference(small, before) <= REST_DIFFERENCE
        if earlier is not None and earlier.shape == small.shape:
            for part in itertools.chain(*self._searched):
                news[part] &= difference(small[part], earlier[part]) <= REST_DIFFERENCE
        news[:, 1:-1] &= difference(small[:, 2:], small[:, :-2]) > EDGE_CONTRAST
        news[:, [0, -1]] = False
        for left, top, right, bottom in known:
            pad = (bottom - top) // KNOWN_MARGIN
            rows = slice(max(top - pad, 0) // self._step, (bottom + pad) // self._step + 1)
            news[rows, max(left - pad, 0) // self._step : (right + pad) // self._step + 1] = False
        bands = self._bands(news, [(top / len(luma), bottom / len(luma)) for _, top, _, bottom in known])
        parts = [_pixels((0, band.top, 1, band.bottom), *small.shape) for band in bands]
        for part in parts:
            self._looked_at[part], self._is_unseen[part] = small[part], False
        self._searched.append(parts)
        return bands

    def forget(self, box: Sequence[float]) -> None:
        """Search a region again in the next frame, because its text has disappeared and new text may already be there.

        ``box`` is left, top, right, bottom, relative to the frame.
        """
        if self._before is None:
            return
        gone = _pixels(box, *self._before.shape)
        self._is_unseen[gone] = True
        for parts in self._searched:
            parts[:] = [part for part in parts if not all(map(_overlap, part, gone))]

    def _bands(self, news: Mask, known: Sequence[tuple[float, float]]) -> list[Band]:
        height = len(news)
        cells = count_in_cells(news)
        rows, columns = cells.shape
        # Edges are counted in pairs of rows, because a line may lie across two rows of cells.
        pairs = cells + np.concatenate([cells[1:], np.zeros((1, columns), np.int32)])
        sums = np.cumsum(np.pad(pairs, ((0, 0), (1, 0))), axis=1)
        window = min(WINDOW_CELLS, columns)
        hits = (sums[:, window:] - sums[:, :-window]).max(axis=1) >= EDGES_IN_WINDOW
        marked = np.zeros(rows + 2 * MARGIN_CELLS, bool)
        for shift in range(2 * MARGIN_CELLS + 2):  # each entry covers its row of cells and the next row
            marked[shift : shift + rows] |= hits[: len(marked) - shift]
        marked = marked[MARGIN_CELLS : MARGIN_CELLS + rows]
        # Bands must not cut a known line, because the detector would report its parts as other lines.
        spans = sorted(
            (max(int(above * height) // CELL_SIZE - 1, 0), int(below * height) // CELL_SIZE + 2)
            for above, below in known
        )
        for first, end in (*spans, *reversed(spans)):
            marked[first:end] |= marked[first:end].any()
        edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
        return [
            Band(top * CELL_SIZE / height, min(bottom * CELL_SIZE / height, 1.0))
            for top, bottom in edges.reshape(-1, 2).tolist()
        ]


def difference(one: Gray, other: Gray) -> Gray:
    absolute: Gray = np.maximum(one, other) - np.minimum(one, other)
    return absolute


def count_in_cells(mask: Mask) -> npt.NDArray[np.int32]:
    """Count the marked pixels in each cell of a grid, (rows, columns). Cells are squares of `CELL_SIZE` pixels."""
    height, width = mask.shape
    rows, columns = -(-height // CELL_SIZE), -(-width // CELL_SIZE)
    padded = np.zeros((rows * CELL_SIZE, columns * CELL_SIZE), np.uint8)
    padded[:height, :width] = mask
    # Eight pixels of a row are the bytes of one integer, so they are added at once. No byte exceeds 64.
    by_column = padded.view(np.uint64).reshape(rows, CELL_SIZE, columns).sum(axis=1)
    counts: npt.NDArray[np.int32] = (by_column * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int32)
    return counts


def _pixels(box: Sequence[float], height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns of an image that a box covers. The box is relative to the image."""
    left, top, right, bottom = box
    return (
        slice(int(top * height), int(np.ceil(bottom * height))),
        slice(int(left * width), int(np.ceil(right * width))),
    )


def _overlap(one: slice, other: slice) -> bool:
    return bool(one.start < other.stop and other.start < one.stop)


class Reading(NamedTuple):
    """The result of reading a line once: its text, and the probability that it is right.

    ``script`` is the name of the line's script if the recogniser cannot read this script.
    """

    text: str
    confidence: float
    is_readable: bool = True
    script: str | None = None


class FrameReader:
    """Detects and reads lines of text in the current frame. Colours are decoded only if this is needed.

    ``script_readers`` maps names of scripts that ``recogniser`` cannot read to readers of these scripts. ``size`` is
    the height and width in pixels of the whole frame, of which the region that is read may be a part.
    """

    def __init__(
        self,
        detector: DetectionPredictor,
        recogniser: RecognitionPredictor,
        script_readers: Mapping[str, LineRecognizer],
        size: tuple[int, int],
    ) -> None:
        self._detector, self._recogniser = detector, _with_signs(recogniser.model)
        self._tallest = TALLEST_LINE * size[0]
        self._scale = min(1.0, math.sqrt(MOST_PIXELS / max(size[0] * size[1], 1)))
        self._script_readers = script_readers
        self._colours: Callable[[], npt.NDArray[np.uint8]] | None = None
        self._picture: Tensor | None = None

    def show(self, colours: Callable[[], npt.NDArray[np.uint8]]) -> None:
        """Make the next frame the current one. ``colours`` is a function that decodes it as (H, W, 3)."""
        self._colours, self._picture = colours, None

    @torch.inference_mode()
    def find(self, bands: Sequence[Band]) -> list[Box]:
        """Detect lines of text in ``bands`` of the current frame. Return their boxes in pixels of the frame."""
        picture = self._seen()
        height = picture.shape[1]
        spans = [(math.floor(band.top * height), math.ceil(band.bottom * height)) for band in bands]
        boxes: list[Box] = []
        searched: list[tuple[int, int]] = []
        while spans:
            top, bottom = spans.pop(0)
            # A band that was extended may contain the next band.
            if any(first <= top and bottom <= end for first, end in searched):
                continue
            part = picture[:, top : max(bottom, min(top + 32, height))]
            found, above, below = [], 0, 0
            for left, upper, right, lower in self._lines_in(part):
                # The edge of the band may cut a line in two. Bands have margins, so one line is not cut by both edges.
                is_cut_above, is_cut_below = upper <= 3 and top > 0, lower >= part.shape[1] - 3 and bottom < height
                if is_cut_above and is_cut_below:
                    continue
                if 4 < lower - upper < self._tallest and right - left > 4:
                    found.append((left, upper + top, right, lower + top))
                if is_cut_above:
                    above = max(above, 2 * (lower - upper) + 16)
                if is_cut_below:
                    below = max(below, 2 * (lower - upper) + 16)
            if above or below:
                is_small = bottom - top < 0.7 * height
                spans.insert(0, (max(top - above, 0), min(bottom + below, height)) if is_small else (0, height))
            else:
                boxes += found
                searched.append((top, bottom))
        return boxes

    @torch.inference_mode()
    def find_letterspaced(self, box: Box, pitch: float) -> Box | None:
        """Detect the whole letterspaced line of which ``box`` is a part, in a frame that is compressed horizontally.

        ``pitch`` is the distance between its letters, see `pitch_of`. Return None if the line is not found.
        """
        picture = self._seen()
        height, width = picture.shape[1:]
        top, bottom = max(2 * box[1] - box[3], 0), min(2 * box[3] - box[1], height)
        factor = USUAL_PITCH / pitch
        size = (bottom - top, max(round(width * factor), 1))
        part = functional.interpolate(picture[None, :, top:bottom].float(), size=size, mode="bicubic", antialias=True)[
            0
        ]
        found = [
            (round(left / factor), upper + top, min(round(right / factor), width), lower + top)
            for left, upper, right, lower in self._lines_in(part.round().clamp(0, 255).to(torch.uint8))
        ]
        own = [line for line in found if lines_overlap(line, box) and is_within(box, line)]
        return own[0] if own else None

    @torch.inference_mode()
    def read(self, boxes: Sequence[Box], stretch: float) -> list[Reading]:
        """Read the lines in ``boxes`` of the current frame, after stretching each line horizontally by a factor."""
        return self._read(self._seen(), boxes, stretch)

    @torch.inference_mode()
    def read_gray(self, line: Gray, stretch: float) -> Reading:
        """Read one line, given as an image (H, W), after stretching it horizontally by a factor."""
        height, width = line.shape
        (reading,) = self._read(torch.from_numpy(line).expand(3, height, width), [(0, 0, width, height)], stretch)
        return reading

    def _seen(self) -> Tensor:
        if self._picture is None:
            assert self._colours is not None
            self._picture = torch.from_numpy(self._colours()).permute(2, 0, 1)
        return self._picture

    def _lines_in(self, part: Tensor) -> list[Box]:
        height, width = part.shape[1:]
        if self._scale < 1:
            size = (max(round(height * self._scale), 1), max(round(width * self._scale), 1))
            part = functional.interpolate(part[None], size=size, mode="bilinear", antialias=True)[0]
        (found,) = self._detector([part])
        boxes = next(iter(found.values()))[:, :4] * (width, height, width, height)
        return [
            (max(round(left), 0), max(round(top), 0), min(round(right), width), min(round(bottom), height))
            for left, top, right, bottom in boxes.tolist()
        ]

    def _read(self, picture: Tensor, boxes: Sequence[Box], stretch: float) -> list[Reading]:
        """Read the lines in ``boxes`` of a frame (3, H, W), after stretching each line horizontally by a factor.

        Reading a line twice, with different factors, checks the reading: if a line is hard to read, the two texts
        differ.
        """
        read = []
        for box in boxes:
            reading = self._read_line(picture, box, stretch)
            if (pitch := pitch_of(box, reading.text)) > WIDE_PITCH:
                closer = self._read_line(picture, box, stretch * USUAL_PITCH / pitch)
                if closer.text.replace(" ", "") == reading.text.replace(" ", ""):
                    # The letters were read twice with the same result, and the spaces may be missing in one reading.
                    confidence = max(closer.confidence, reading.confidence)
                    reading = reading._replace(text=max(reading.text, closer.text, key=len), confidence=confidence)
            read.append(reading)
        return read

    def _read_line(self, picture: Tensor, box: Box, stretch: float) -> Reading:
        left, top, right, bottom = box
        line = picture[:, top:bottom, left:right]
        height, width = line.shape[1], max(round(line.shape[2] * stretch), 1)
        if stretch != 1:
            wider = functional.interpolate(line[None].float(), size=(height, width), mode="bicubic")[0]
            line = wider.round().clamp(0, 255).to(torch.uint8)
        quad = np.array([[(0, 0), (width, 0), (width, height), (0, height)]], dtype=np.float64)
        (found,) = read_lines(self._recogniser, line, quad)
        if (reader := self._script_readers.get(found.script or "")) is not None:
            (other,) = read_lines(reader, line, quad)
            # Busy backgrounds may look like accents of another script.
            found = other if other.num_right >= found.num_right else replace(found, script=None)
        words = _without_specks(found.words)
        odds = math.prod(word.confidence for word in words) if words else 0.0
        # An apostrophe looks like the caron of the letter before it, and may be read as both.
        text = CARON_BEFORE_APOSTROPHE.sub(
            lambda letter: normalize("NFD", letter[0])[0], " ".join(word.value for word in words)
        )
        return Reading(text, odds, bool(words) and not found.script, found.script)


def _with_signs(model: Any) -> Any:
    """Return a recogniser that shares the layers of ``model`` except the last, and reads more signs.

    The default recogniser leaves out music notes, and takes most dashes and quotation marks for the usual ones of
    documents. `SIGNS_FILE` has weights of the last layer for these signs and for letters with accents, which
    ``python -m benchmarks.calibration.signs`` fitted to captions. Other weights and other vocabularies stay as they
    are.
    """
    if getattr(model, "script_classifier", None) is None or is_compiled(model):
        return model
    reader = copy.copy(model)
    # `copy.copy` shares these dictionaries with the original model, which must not change.
    reader._modules, reader._buffers, reader.cfg = dict(model._modules), dict(model._buffers), {**model.cfg}
    stored = stored_arrays(SIGNS_FILE, SIGNS_SHA256)
    reader.set_classes(stored["characters"].tolist(), torch.from_numpy(stored["rows"]))
    reader.script_classifier = model.script_classifier
    return reader


def _without_specks(words: Sequence[LineWord]) -> Sequence[LineWord]:
    """Leave out uncertain single characters at the ends of a line of several words."""
    kept = list(words)
    for end in (0, -1):
        if len(kept) > 2 and len(kept[end].value) == 1 and kept[end].confidence < SPECK_CONFIDENCE:
            del kept[end]
    return kept


def join_pieces(first: str, second: str) -> str:
    """Join readings of two parts of a text, which overlap. Letters at the ends of a part may be cut and misread.

    >>> join_pieces("Storm closes ferry por", "es ferry port until")
    'Storm closes ferry port until'
    """
    match = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
    if match.size < FEWEST_SHARED_LETTERS:
        return f"{first} {second}"
    middle = match.size // 2
    return first[: match.a + middle] + second[match.b + middle :]


def union(*boxes: Box) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def pitch_of(box: Box, text: str) -> float:
    """Return the distance between adjacent letters of a line, in line heights; 0 for East Asian text, which is wide."""
    height = box[3] - box[1]
    if any(map(is_east_asian, text)):
        return 0.0
    # The box is wider than the distance from the first to the last letter: by one letter and two margins.
    return (box[2] - box[0] - height) / (height * max(len(text) - 1, 1))


def lines_overlap(one: Box, other: Box) -> bool:
    width, height = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return width > 0 and height > 0.4 * min(one[3] - one[1], other[3] - other[1])


def is_in_line(one: Box, other: Box) -> bool:
    """Return whether two boxes have the same top and bottom, with a tolerance of a fifth of a line height."""
    slack = 0.2 * min(one[3] - one[1], other[3] - other[1])
    return abs(one[1] - other[1]) <= slack and abs(one[3] - other[3]) <= slack


def is_within(inner: Box, outer: Box) -> bool:
    """Return whether line ``inner`` is horizontally within line ``outer``, with a tolerance of half a line height."""
    height, own = outer[3] - outer[1], inner[3] - inner[1]
    slack = 0.5 * height
    return 0.5 < own / height < 2 and inner[0] >= outer[0] - slack and inner[2] <= outer[2] + slack


def has_moved_to(one: Box, other: Box) -> bool:
    """Return whether a moving text can have moved from box ``one`` to box ``other`` between two detections."""
    height, own = one[3] - one[1], other[3] - other[1]
    if not 0.7 < own / height < 1.4:
        return False
    reach = 6 * max(height, own)
    down = abs(one[1] + one[3] - other[1] - other[3]) / 2
    right = min(abs(one[0] - other[0]), abs(one[2] - other[2]))
    return down < reach and right < reach and (down < height or right < height)
