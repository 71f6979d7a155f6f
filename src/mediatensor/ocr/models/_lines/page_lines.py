"""Read the words of a page, with a recogniser that reads whole lines or one that reads single words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ...io._elements.elements import Character, UnreadLine, line_confidence
from ...utils.geometry import box_around, boxes_around, boxes_to_polygons
from .._networks.transfers import download, uncompiled_module
from .characters import LIKE_CHECK_BOXES, SURE_PROBABILITY, correct_words, is_east_asian, is_english
from .cutting import (
    as_quads,
    cut_lines,
    cut_words,
    line_sizes,
    place_boxes,
    scale_to_pixels,
    signed_turn,
    turn_quads,
)
from .ink import (
    EMPTY_BOX,
    TICKED_BOX,
    InkPieces,
    find_check_boxes,
    find_colons,
    ink_of_line,
    inks_of_lines,
    page_ink,
    remove_rules,
    runs_of_true,
)
from .reading import LineReading, LineRecognizer, read_turned_lines
from .turning import MIN_ADVANTAGE, READS_TURNED, READS_WELL, ReadingsByTurn, legibility
from .words import CHECK_BOXES, Box, LineWord, boxes_between_gaps

FloatingArray = npt.NDArray[np.floating]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CUT_HEIGHT, CUT_WIDTH = 48, 4096
"""Height and maximum width of the crops in which lines are cut into words, in pixels."""
WEAK_READING = 0.8
"""Lines with a lower confidence are also read upside down; on upright pages this is one line in fifty."""
READS_SURELY = 0.95
"""A reading with at least this confidence is taken as it is."""
LETTER_ASPECT = 3.0
"""Boxes whose long side is more than this many times the short side are lines, not letters along a margin."""
LETTER_GAP = 0.6
"""Greatest gap or overlap of two letters along a margin, as a share of the narrower box's width."""
SAME_LETTERS = 0.5
"""If reading letter by letter and reading one line give texts at least this similar, the letters are upright in a
column. Exception: one letter has a low confidence and the line a high confidence. On 149 scanned forms the exception
finds three of four stamped numbers that would otherwise be columns.
"""
SPACE_BESIDE = 1.0
"""Letters form a line along a margin only if no other box is within this many times the line's width."""
BLANK_SIGNS = ".,_"
"""Signs as which the beginning of a blank is read: of the rule to write on, as in ``Name ______``."""
BLANK_LENGTH, BLANK_COVER = 1.5, 0.9
"""A blank goes on after its sign for this many times the line's height, and has ink in this share of the columns."""
BLANK_RUN = 0.5
"""Least length of the parts of a blank that lie in one row of pixels, in line heights, as boxes may be tilted."""
BOX_WORD_HEIGHT, COLON_LINE_HEIGHT = 14, 40
"""Large pages are reduced until the median word is less than twice as high in pixels, to search check boxes, or until
the median line is, to search colons.
"""
STRIP_HEIGHT = 64
"""Height of the strips of a page that are converted to grey at once, in pixels."""
MARKS = frozenset("xX\u2713\u2714\u221a\u00d7")
"""Characters as which the mark of a check box is read."""
LONGER_THAN_BOX = 1.8
"""Unread lines longer than this many times their height have letters, and no check boxes are searched there."""
LETTER_REACH = 2.0
"""Marks have no other single letter next to them within this many times their height."""
COLON_CLEAR, COLON_GAP, SAME_COLON = 0.03, 0.35, 0.6
"""Margin around a colon without other ink, least gap between a word and a colon that is a separate word, and least
distance between two colons, in line heights.
"""
NARROW_SPACE, FEWEST_SPACES = 0.5, 8
"""A colon belongs to the word before it if the space between is narrower than this share of the page's median space. A
page must have at least this many spaces. On forms, spaces before typed colons have at most 0.43 of it; on
receipts, 166 of 186 have at least 0.8.
"""
TOUCHING, WITHIN_PARENTHESES = 0.1, 1.0
"""A slash belongs to the word before it if their boxes are closer than the first limit, and an opening parenthesis to
the closing one or to a word that ends with it, if they are closer than the second. Both are in line heights. On forms,
pairs of parentheses are at most 0.65 apart if they are one word, and at least 1.2 if something is to be filled in.
"""
LIKE_COLONS = frozenset(".,'`\u2018\u2019\u00b7")
"""Signs as which faint colons are read."""
LAST_PART = 0.6
"""A colon after this share of the last letter's box is not part of the letter."""
AMOUNT, UNITS, CENTS = re.compile(r"\D{0,3}\d+([.,])\d\d\D{0,2}"), re.compile(r"\W{0,2}\d{1,4}"), re.compile(r"\d\d")
FEWEST_AMOUNTS, POINT_GAP, FEWEST_ALIGNED, ALIGNED = 5, 0.4, 2, 0.3
"""Least number of amounts with the same point on a page, greatest gap between units and cents, least number of amounts
that end at the same place from left to right, and greatest distance of these ends; lengths are in line heights.
"""
SIGN_CONFIDENCE = 0.9
"""Probability of a colon or point that was added."""
SPECK_SCORE, SPECK_CONFIDENCE, SHARE_OF_SPECKS, FEWEST_LINES = 0.7, 0.9, 0.05, 5
"""A line of one character apart from all others is probably a speck of dirt if the detector's score and its confidence
are below the first two. The third is the expected share of such lines that are right: on 149 forms, one of 37 was. The
page must have this many lines.
"""
APART_IN_ROW, APART_IN_COLUMN, SAME_COLUMN = 3.5, 1.5, 0.5
"""Such a line has no line at most this far away in its row, and in its column: the centers or left sides of lines in a
column are at most the third limit apart. All are in line heights.
"""
LEAST_DOT = 4
"""Least height of a full stop in a crop, in pixels. What is left of a rough rule is lower."""


@dataclass(frozen=True)
class FoundLine:
    """A line or word box that was cropped and read."""

    # Relative to the page: a straight box (4,), or four corners (4, 2), of which the first is where the text starts.
    place: FloatingArray
    value: str
    confidence: float
    unread: str | None = None  # why all or part of the line is missing from the page's text, as in `UnreadLine`


@dataclass
class ClassWords:
    """The words on a page that belong to one class of the text detector.

    Each field except ``unread`` and ``found`` has one item for each of the N words.
    """

    boxes: FloatingArray  # relative: straight (N, 4), or quads (N, 4, 2) whose first corner is where the text starts
    scores: FloatingArray  # of the detector, (N,)
    texts: list[tuple[str, float]]  # with their confidences
    orientations: list[dict[str, Any]]  # as ``{"value": degrees, "confidence": ...}``
    line_ids: npt.NDArray[np.int64] | None = None  # of the detected lines; None if the detector found words
    characters: list[Sequence[Character]] | None = None  # None if the recogniser does not locate characters
    unread: list[UnreadLine] = field(default_factory=list)  # lines that were not read, or only partly
    found: list[FoundLine] = field(default_factory=list)  # all lines or word boxes, including those without text


def no_words(straight: bool = True) -> ClassWords:
    return ClassWords(np.zeros((0, 4) if straight else (0, 4, 2)), np.zeros(0), [], [])


def geometries_of(boxes: FloatingArray) -> list[Any]:
    """Convert boxes to geometries of elements: two corners for a straight box (N, 4), four points for a quad."""
    corners = boxes if boxes.ndim == 3 else boxes[:, :4].reshape(-1, 2, 2)
    return [tuple(map(tuple, points)) for points in corners.tolist()]


def read_page_words(
    read: Callable[[Sequence[Tensor]], list[tuple[str, float]]],
    page: Tensor,
    boxes: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    turns: IntArray,
) -> ClassWords:
    """Read the words in ``boxes`` of a page, turned by ``turns`` degrees; boxes without pixels are dropped."""
    straight = boxes.ndim == 2
    places = boxes if straight else turn_quads(boxes.astype(np.float64), turns)
    crops = cut_words(page, places)
    kept = [index for index, crop in enumerate(crops) if crop is not None]
    texts = read([crop for crop in crops if crop is not None])
    orientations = [{"value": signed_turn(int(turns[index])), "confidence": None} for index in kept]
    found = [FoundLine(places[index], *text) for index, text in zip(kept, texts, strict=True)]
    return ClassWords(places[kept], scores[kept], texts, orientations, found=found)


def cut_lines_into_words(
    image: Tensor, quads: npt.NDArray[np.float64], scores: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.floating]]:
    """Cut quads of lines at the gaps in their ink. Return the quads of words, and for each the score of its line."""
    height, width = image.shape[1:]
    seen = [
        (batch.indices, batch.widths, inks_of_lines(batch.data))
        for batch in cut_lines(image, quads * (width, height), CUT_HEIGHT, CUT_WIDTH)
    ]
    parts: dict[int, npt.NDArray[np.float64]] = {}
    for (indices, widths, _), inks in zip(seen, download(*(inks for _, _, inks in seen)), strict=True):
        for position, (index, own) in enumerate(zip(indices, widths, strict=True)):
            boxes = np.array(boxes_between_gaps(ink_of_line(inks, position, own)))
            parts[index] = place_boxes(quads[index], boxes)
    ordered = [parts[index] for index in range(len(quads))]
    return np.concatenate(ordered), np.repeat(scores, [len(part) for part in ordered])


def join_sideways_letters(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    scores: npt.NDArray[np.floating],
    readings: list[ReadingsByTurn],
    split_after: str,
) -> tuple[FloatArray, npt.NDArray[np.floating], list[ReadingsByTurn]]:
    """Join boxes of single letters that together form one line along a margin.

    Detectors split such lines, for example stamped numbers, into letters. Each isolated column of such boxes is read as
    one line, once upwards and once downwards. If the better reading has a high confidence, the line replaces the boxes
    of its letters. Return the updated ``quads``, ``scores`` and ``readings``, with the new lines at the end.
    """
    stacks = _stacks_of_letters(boxes_around(scale_to_pixels(quads, (page.shape[1], page.shape[2]))))
    if not stacks:
        return quads, scores, readings
    joined = boxes_to_polygons(np.stack([boxes_around(quads[stack].reshape(1, -1, 2))[0] for stack in stacks]))
    turns = np.tile([0, 90, 270], len(stacks))
    read = read_turned_lines(model, page, np.repeat(joined, 3, axis=0), turns, split_after)
    kept, added, more = np.ones(len(quads), dtype=bool), [], []
    for number, stack in enumerate(stacks):
        own: ReadingsByTurn = dict(zip((0, 90, 270), read[3 * number : 3 * number + 3], strict=True))
        best = max(own[90], own[270], key=lambda reading: reading.confidence)
        text = _letters_of(best)
        # A network may also read a column of upright letters letter by letter. Some digits rotated by 90 degrees
        # resemble upright digits, but never all digits of a number.
        letters = [readings[index][0] for index in stack.tolist()]
        by_themselves = "".join(map(_letters_of, letters))
        is_similar = SequenceMatcher(None, by_themselves, text, autojunk=False).ratio() >= SAME_LETTERS
        is_better = legibility(best) >= READS_SURELY and min(map(legibility, letters)) < WEAK_READING
        is_column = is_similar and not is_better
        if legibility(best) >= READS_WELL and len(text) >= max(len(stack), 3) and not is_column:
            kept[stack] = False
            added.append(number)
            more.append(own)
    if not added:
        return quads, scores, readings
    of_lines = np.array([scores[stacks[number]].mean() for number in added])
    return (
        np.concatenate([quads[kept], joined[added]]),
        np.concatenate([scores[kept], of_lines]),
        [own for own, stays in zip(readings, kept.tolist(), strict=True) if stays] + more,
    )


def _letters_of(reading: LineReading) -> str:
    return "".join(word.value for word in reading.words)


def _stacks_of_letters(boxes: npt.NDArray[np.floating]) -> list[IntArray]:
    """Find columns of boxes, each with the size of a letter, that are probably the letters of one line.

    ``boxes`` (N, 4) are in pixels. For each column, return the indices of its boxes from top to bottom.
    """
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    is_letter = (heights <= LETTER_ASPECT * widths) & (widths <= LETTER_ASPECT * heights)
    chosen = np.flatnonzero(is_letter)
    sides = boxes.tolist()
    stacks: list[list[int]] = []
    open_stacks: list[list[int]] = []
    for index in chosen[np.argsort(boxes[chosen, 1], kind="stable")].tolist():
        x0, y0, x1, _ = sides[index]
        # Columns that end too far above this box cannot continue.
        open_stacks = [own for own in open_stacks if y0 - sides[own[-1]][3] <= LETTER_GAP * (x1 - x0)]
        for stack in open_stacks:
            left, _, right, bottom = sides[stack[-1]]
            narrow, wide = sorted((right - left, x1 - x0))
            shared = min(right, x1) - max(left, x0)
            if shared >= 0.6 * narrow and wide <= 1.7 * narrow and abs(y0 - bottom) <= LETTER_GAP * narrow:
                stack.append(index)
                break
        else:
            open_stacks.append([index])
            stacks.append(open_stacks[-1])
    found = []
    for stack in stacks:
        own = np.array(stack)
        left, top, right, bottom = box_around(boxes[own])
        around = SPACE_BESIDE * (right - left)
        is_near = (boxes[:, 0] < right + around) & (boxes[:, 2] > left - around)
        is_near &= (boxes[:, 1] < bottom) & (boxes[:, 3] > top)
        is_near[own] = False
        if len(own) > 1 and bottom - top >= LETTER_ASPECT * (right - left) and not is_near.any():
            found.append(own)
    return found


def read_page_lines(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    scores: npt.NDArray[np.floating],
    turns: IntArray,
    *,
    known_lines: dict[int, LineReading] | None,
    straight: bool,
    second_chance: bool,
    min_confidence: float,
    split_after: str,
    report_scripts: bool,
    script_readers: Mapping[str, LineRecognizer],
    signs_outside: bool,
) -> ClassWords:
    """Read the lines of a page (3, H, W), and split them into words.

    ``quads`` (N, 4, 2) are the lines, relative to the page, with corners clockwise from the top left of the page.
    ``scores`` (N,) are the detector's scores, and ``turns`` (N,) the turns in degrees. ``known_lines`` are
    those that were already read, by index; these are not read again.

    If ``straight``, words have straight boxes instead of quads. If ``second_chance``, lines whose first reading has a
    low confidence are also read upside down. Lines whose expected share of correct words is below ``min_confidence``
    are listed as unread. If ``report_scripts``, so are lines in a script that ``model`` cannot read, unless
    ``script_readers`` has a recogniser for this script. Words end at spaces and after the characters ``split_after``.
    If ``signs_outside``, check boxes, and colons next to the lines, are added to the words.
    """
    known = dict(known_lines or {})
    open_lines = [index for index in range(len(quads)) if index not in known]
    read = read_turned_lines(model, page, quads[open_lines], turns[open_lines], split_after)
    known |= zip(open_lines, read, strict=True)
    if second_chance:
        turns = _turn_bad_lines(model, page, quads, turns, known, split_after)
    # Some words look alike in another script, such as TOBACCO in Cyrillic.
    known |= {
        index: replace(reading, script=None)
        for index, reading in known.items()
        if reading.script is not None and is_english(reading.text)
    }
    for script, reader in script_readers.items():
        own = [index for index, reading in known.items() if reading.script == script]
        if not own:
            continue
        read = read_turned_lines(reader, page, quads[own], turns[own], split_after)
        for index, reading in zip(own, read, strict=True):
            first = known[index]
            has_letters = any(character.isalpha() and not character.isascii() for character in reading.text)
            is_better = reading.confidence >= READS_SURELY or reading.num_right >= first.num_right
            if reading.words and reading.text == first.text:
                # Two models read the same, so the classifier of scripts was wrong.
                known[index] = replace(first, script=None)
            elif has_letters and is_better and reading.share_right >= min_confidence:
                known[index] = reading
    lines = turn_quads(quads, turns)
    known = _with_known_words(known)
    known |= _without_blanks(page, lines, known)
    size = page.shape[1], page.shape[2]
    in_pixels = scale_to_pixels(lines, size)
    known |= _with_points(in_pixels, known)
    known |= _with_close_signs(in_pixels, known)
    adds_colons = _may_return(model, ":")
    adds_boxes = signs_outside and _may_return(model, EMPTY_BOX + TICKED_BOX)
    grey = _grey_page(page, lines) if len(lines) and (adds_colons or adds_boxes) else None
    if adds_colons and grey is not None:
        known |= _with_colons(grey, lines, known, signs_outside)
    if not report_scripts:
        known = {index: replace(reading, script=None) for index, reading in known.items()}
    specks = _find_specks(in_pixels, scores, turns, known)
    shares = [SHARE_OF_SPECKS if index in specks else known[index].share_right for index in range(len(quads))]
    reasons = [_reason_unread(known[index], share >= min_confidence) for index, share in enumerate(shares)]
    kept = [index for index, reason in enumerate(reasons) if reason in (None, "gaps")]
    heights = line_sizes(in_pixels)[1].tolist()
    confidences = [known[index].confidences(height) for index, height in enumerate(heights)]
    words = _words_of(lines, scores, turns, known, confidences, kept, straight)
    if adds_boxes and grey is not None and words.texts:
        letters = lines[[reason in ("script", "low confidence") for reason in reasons]]
        words = _with_check_boxes(words, letters, grey)
    signs = scale_to_pixels(as_quads(words.boxes[[value in CHECK_BOXES for value, _ in words.texts]]), size)
    for index, (line, visible, reason) in enumerate(zip(lines, lines.clip(0, 1), reasons, strict=True)):
        reading = known[index]
        if reason == "gaps" and not _has_gaps(reading, in_pixels[index], signs):
            reason = None
        words.found.append(FoundLine(line, reading.text, line_confidence(confidences[index]), reason))
        if reason is not None:
            (geometry,) = geometries_of(boxes_around(visible[None]) if straight else visible[None])
            words.unread.append(UnreadLine(geometry, reason, reading.text, shares[index], reading.script))
    return words


@dataclass(frozen=True)
class _GreyPage:
    """A page in grey, which may be smaller than the page itself, and its ink."""

    pixels: npt.NDArray[np.uint8]  # (H, W)
    size: FloatArray  # width and height of the page at this scale, which may not be whole numbers
    contrast: npt.NDArray[np.int16]
    pieces: InkPieces

    @classmethod
    def of(cls, pixels: npt.NDArray[np.uint8], size: FloatArray) -> _GreyPage:
        ink, contrast = page_ink(pixels)
        return cls(pixels, size, contrast, InkPieces.of(ink))


def _grey_page(page: Tensor, quads: FloatingArray) -> _GreyPage:
    """Return a page (3, H, W) in grey, for lines ``quads`` (N, 4, 2) of a moderate height."""
    height, width = page.shape[1:]
    size = np.array([width, height], dtype=np.float64)
    scale = min(_reduction(quads * size, COLON_LINE_HEIGHT), height, width)
    # On a CPU, strips that fit into its cache are several times as fast as the whole page.
    rows = max(STRIP_HEIGHT // scale, 1) if page.device.type == "cpu" else height
    white = 1 if page.dtype == torch.uint8 else 255
    parts = [
        _reduce((strip[0].float() + strip[1] + strip[2]) / 3 * white, scale).clamp(0, 255).to(torch.uint8)
        for strip in torch.split(page[:, : height // scale * scale], rows * scale, dim=1)
    ]
    (pixels,) = download(torch.cat(parts))
    return _GreyPage.of(pixels, size / scale)


def _reduce(shades: Tensor, scale: int) -> Tensor:
    """Return the means of squares of ``scale`` by ``scale`` pixels of an image (H, W)."""
    return shades if scale == 1 else F.avg_pool2d(shades[None].float(), scale)[0]


def _reduction(quads: FloatingArray, height: float) -> int:
    """Return the factor that makes the median of ``quads`` (N, 4, 2), in pixels, less than twice ``height`` high."""
    across = quads[:, 3] - quads[:, 0]
    return max(1, int(float(np.median(np.hypot(across[:, 0], across[:, 1]))) / height))


def _with_check_boxes(words: ClassWords, lines: FloatArray, grey: _GreyPage) -> ClassWords:
    """Add the check boxes of a page to its words, each as a word of one character.

    It replaces a word as which the recogniser read a box or the mark in it. The letters of ``lines`` (N, 4, 2), which
    are relative to the page, are not among the words.
    """
    straight, corners = words.boxes.ndim == 2, as_quads(words.boxes)
    scale = min(_reduction(corners * grey.size, BOX_WORD_HEIGHT), *grey.pixels.shape)
    if scale > 1:
        pixels = _reduce(torch.from_numpy(grey.pixels), scale).to(torch.uint8).numpy()
        grey = _GreyPage.of(pixels, grey.size / scale)
    values = [text for text, _ in words.texts]
    # Other ideographs may be real, and also have straight sides.
    are_boxes = all(one in LIKE_CHECK_BOXES for value in values for one in value if is_east_asian(one))
    may_be_empty = np.array([one in CHECK_BOXES or (are_boxes and one in LIKE_CHECK_BOXES) for one in values])
    # Single letters side by side, as on keys and in fields with a box for each letter, are no marks.
    places = boxes_around(corners * grey.size)
    letters = places[[len(value) == 1 and value.isalnum() for value in values]]
    may_be_ticked = may_be_empty | np.array(
        [value in MARKS and _count_near(letters, place) <= 1 for value, place in zip(values, places, strict=True)]
    )
    unread = boxes_around(lines * grey.size)
    # A box alone on its line may be unread because of its mark.
    unread = unread[unread[:, 2] - unread[:, 0] > LONGER_THAN_BOX * (unread[:, 3] - unread[:, 1])]
    boxes = find_check_boxes(grey.pieces, grey.contrast, places, may_be_empty, may_be_ticked, unread)
    if not boxes:
        return words
    assert words.line_ids is not None
    assert words.characters is not None
    kept = np.setdiff1d(np.arange(len(values)), [box.word for box in boxes if box.word is not None]).tolist()
    found = boxes_to_polygons(np.array([box.box for box in boxes])) / grey.size
    added = boxes_around(found) if straight else found
    geometries, line = geometries_of(added), words.line_ids.max(initial=-1) + 1
    return replace(
        words,
        boxes=np.concatenate([words.boxes[kept], added]),
        scores=np.concatenate([words.scores[kept], [box.confidence for box in boxes]]),
        texts=[words.texts[index] for index in kept] + [(box.value, box.confidence) for box in boxes],
        orientations=[words.orientations[index] for index in kept] + [{"value": 0, "confidence": None} for _ in boxes],
        line_ids=np.concatenate([words.line_ids[kept], np.arange(line, line + len(boxes))]),
        characters=[words.characters[index] for index in kept]
        + [[Character(box.value, box.confidence, place)] for box, place in zip(boxes, geometries, strict=True)],
    )


def _count_near(boxes: FloatArray, box: FloatArray) -> int:
    """Return how many ``boxes`` (N, 4) are in the row of a box, and at most `LETTER_REACH` of its height away."""
    reach = LETTER_REACH * (box[3] - box[1])
    in_row = (boxes[:, 1] < box[3]) & (boxes[:, 3] > box[1])
    return int((in_row & (boxes[:, 0] < box[2] + reach) & (boxes[:, 2] > box[0] - reach)).sum())


def _with_points(lines: FloatArray, readings: Mapping[int, LineReading]) -> dict[int, LineReading]:
    """Join two numbers at the end of a line to an amount if its point was not read and other amounts end there.

    ``lines`` (N, 4, 2) are in pixels. Return the readings that change.
    """
    ends: dict[str, list[float]] = {".": [], ",": []}
    for index, reading in readings.items():
        for word in reading.words:
            if amount := AMOUNT.fullmatch(word.value):
                ends[amount[1]].append(_end_of(word, lines[index]))
    sign = max(ends, key=lambda one: len(ends[one]))
    if len(ends[sign]) < FEWEST_AMOUNTS:
        return {}
    widths, heights = line_sizes(lines)
    changed = {}
    for index, reading in readings.items():
        if len(reading.words) < 2:
            continue
        units, cents = reading.words[-2:]
        follows_number = any(word.value[-1].isdecimal() for word in reading.words[-3:-2])
        if not UNITS.fullmatch(units.value) or not CENTS.fullmatch(cents.value) or follows_number:
            continue
        gap = (cents.box[0] - units.box[2]) * widths[index]
        distances = np.abs(np.array(ends[sign]) - _end_of(cents, lines[index]))
        num_aligned = int((distances < ALIGNED * heights[index]).sum())
        if gap < POINT_GAP * heights[index] and num_aligned >= FEWEST_ALIGNED:
            point = _sign(sign, (units.box[2], units.box[1], cents.box[0], units.box[3]))
            changed[index] = replace(reading, words=[*reading.words[:-2], units.joined(point, cents)])
    return changed


def _sign(value: str, box: Box) -> LineWord:
    """Return a sign that the recogniser did not read as a word."""
    return LineWord(value, box, (box,), (SIGN_CONFIDENCE,))


def _end_of(word: LineWord, line: FloatArray) -> float:
    """Return where on the page a word of a ``line`` (4, 2), in pixels, ends from left to right."""
    return float(line[0, 0] + word.box[2] * (line[1, 0] - line[0, 0]))


def _with_colons(
    grey: _GreyPage, lines: FloatArray, readings: Mapping[int, LineReading], outside: bool
) -> dict[int, LineReading]:
    """Add the colons in lines, and if ``outside``, those next to lines. Return the readings that change."""
    quads = lines * grey.size
    widths, heights = line_sizes(quads)
    changed: dict[int, LineReading] = {}
    for colon in find_colons(quads, grey.pieces, COLON_CLEAR):
        if colon.gap and not outside:
            continue
        width, height, reading = widths[colon.line], heights[colon.line], changed.get(colon.line, readings[colon.line])
        box = colon.start / width, colon.top / height, colon.stop / width, colon.bottom / height
        words = _with_colon(reading.words, box, height / width)
        if words is not reading.words:
            changed[colon.line] = replace(reading, words=words)
    return changed


def _with_colon(words: list[LineWord], box: Box, height: float) -> list[LineWord]:
    """Add a colon to the words of a line, unless it was read. ``height`` is that of the line, relative to its width."""
    lefts = [word.box[0] for word in words]
    if not words or lefts != sorted(lefts):
        return words
    middle = (box[0] + box[2]) / 2
    characters = [(word, place) for word in words for place in range(len(word.value))]
    for word, place in characters:
        left, _, right, _ = word.boxes[place]
        if word.value[place] in ":;" and abs((left + right) / 2 - middle) < SAME_COLON * height:
            return words
    for word, place in characters:
        left, _, right, _ = word.boxes[place]
        if left <= middle <= right:
            value, is_last = word.value[place], place == len(word.value) - 1
            if value in LIKE_COLONS and word.confidences[place] < SURE_PROBABILITY:
                colon = f"{word.value[:place]}:{word.value[place + 1 :]}"
                return [replace(other, value=colon) if other is word else other for other in words]
            # The box of the last letter may include the colon.
            if not (is_last and value.isalnum() and middle > left + LAST_PART * (right - left)):
                return words
    before, added = [word for word in words if word.box[0] < middle], _sign(":", box)
    if before and box[0] - before[-1].box[2] < COLON_GAP * height:
        added = before.pop().joined(added)
    return [*before, added, *words[len(before) + (len(added.value) > 1) :]]


def _with_close_signs(lines: FloatArray, readings: Mapping[int, LineReading]) -> dict[int, LineReading]:
    """Join signs to the words that they belong to, although there is a space between them.

    These are colons after a narrow space, as behind letters of a fixed width; slashes that almost touch the word before
    them; and opening parentheses before the closing one. ``lines`` (N, 4, 2) are in pixels. Return the readings that
    change.
    """
    widths, heights = line_sizes(lines)
    spaces = {
        (index, place): (after.box[0] - word.box[2]) * widths[index] / max(heights[index], 1)
        for index, reading in readings.items()
        for place, (word, after) in enumerate(pairwise(reading.words), 1)
    }
    usual = [space for (index, place), space in spaces.items() if readings[index].words[place].value != ":"]
    narrow = NARROW_SPACE * float(np.median(usual)) if len(usual) >= FEWEST_SPACES else 0.0
    changed: dict[int, LineReading] = {}
    for (index, place), space in reversed(spaces.items()):
        reading = changed.get(index, readings[index])
        word, after = reading.words[place - 1 : place + 1]
        is_close = after.value == ":" and space < narrow and not word.value.endswith(":")
        is_close |= after.value == "/" and space < TOUCHING and word.value[-1:].isalnum()
        is_close |= word.value == "(" and after.value.endswith(")") and space < WITHIN_PARENTHESES
        if is_close:
            words = [*reading.words[: place - 1], word.joined(after), *reading.words[place + 1 :]]
            changed[index] = replace(reading, words=words)
    return changed


def _may_return(model: LineRecognizer, characters: str) -> bool:
    """Return whether a recogniser has all ``characters``, and no hook forbids one, as that of `add_whitelist`."""
    plain: LineRecognizer = uncompiled_module(model)
    if not set(characters).issubset(plain.characters):
        return False
    if not plain.head._forward_hooks:
        return True
    weight = plain.head.weight
    classes = [1 + plain.characters.index(character) for character in characters]
    return bool(plain.head(weight.new_zeros(1, weight.shape[1]))[0, classes].isfinite().all())


def _with_known_words(readings: Mapping[int, LineReading]) -> dict[int, LineReading]:
    """Return the readings of a page's lines with the words that `correct_words` finds."""
    words = [word for reading in readings.values() for word in reading.words]
    confidences, doubts = [word.confidences for word in words], [word.doubts for word in words]
    found = iter(correct_words([word.value for word in words], confidences, doubts))
    return {
        index: replace(reading, words=[_corrected(word, *next(found)) for word in reading.words])
        for index, reading in readings.items()
    }


def _corrected(word: LineWord, texts: tuple[str, ...], confidences: tuple[float, ...]) -> LineWord:
    """Return a word with other ``texts`` of its characters. If a text is longer, its characters share the box."""
    value = "".join(texts)
    if value == word.value:
        return word
    boxes, shares = [], []
    for text, (left, top, right, bottom), share in zip(texts, word.boxes, confidences, strict=True):
        edges = np.linspace(left, right, len(text) + 1).tolist()
        boxes += [(start, top, stop, bottom) for start, stop in pairwise(edges)]
        shares += [share] * len(text)
    return replace(word, value=value, boxes=tuple(boxes), confidences=tuple(shares))


def _without_blanks(page: Tensor, lines: FloatArray, readings: Mapping[int, LineReading]) -> dict[int, LineReading]:
    """Remove signs at the ends of words that are the beginning of a blank, and return the readings that change."""
    widths, heights = line_sizes(scale_to_pixels(lines, (page.shape[1], page.shape[2])))
    found, quads = [], []
    for index, reading in readings.items():
        for number, word in enumerate(reading.words):
            if word.value[-1] in BLANK_SIGNS:
                left, (sign, _, right, _) = word.boxes[-2:][0][0], word.boxes[-1]
                end = right + BLANK_LENGTH * heights[index] / max(widths[index], 1e-6)
                quad = place_boxes(lines[index], np.array([(left, 0.0, end, 1.0)]))[0]
                is_last = all(other.box[0] > end for other in reading.words[number + 1 :])
                if is_last and quad.min() > 0 and quad.max() < 1:
                    found.append((index, number, (sign - left) / (end - left), (right - left) / (end - left)))
                    quads.append(quad)
    if not quads:
        return {}
    corners = scale_to_pixels(np.array(quads), (page.shape[1], page.shape[2]))
    batches = [(batch, inks_of_lines(batch.data)) for batch in cut_lines(page, corners, CUT_HEIGHT, CUT_WIDTH)]
    blanks: dict[int, set[int]] = {}
    for (batch, _), inks in zip(batches, download(*(inks for _, inks in batches)), strict=True):
        for position, (place, width) in enumerate(zip(batch.indices, batch.widths, strict=True)):
            index, number, sign, right = found[place]
            ink, places = ink_of_line(inks, position, width), (int(sign * width), int(right * width))
            if _is_blank(ink, *places, readings[index].words[number].value[-1]):
                blanks.setdefault(index, set()).add(number)
    changed = {}
    for index, numbers in blanks.items():
        words = [
            word.part(0, len(word.value) - 1) if number in numbers else word
            for number, word in enumerate(readings[index].words)
        ]
        changed[index] = replace(readings[index], words=[word for word in words if word.value])
    return changed


def _is_blank(ink: npt.NDArray[np.bool_], start: int, stop: int, sign: str) -> bool:
    """Return whether a sign in the columns from ``start`` to ``stop`` is the beginning of a rule that goes on.

    A real full stop has ink of its own, and a rule under text also has ink under the letter before the sign. A real
    underscore does not go on.
    """
    letters = remove_rules(ink, BLANK_RUN)
    rules = np.asarray((ink & ~letters)[len(ink) // 2 :].any(axis=0))
    inked = runs_of_true(np.asarray(letters.any(axis=0))).tolist()
    # The crop begins with the letter before the sign. The boxes of both are not exact.
    before = max((end for begin, end in inked if begin < start / 2), default=0)
    goes_on = bool(rules[stop:].mean() >= BLANK_COVER)
    if sign == "_":
        return goes_on
    goes_on &= not rules[max(before - 2, 0) : before].any()
    return goes_on and int(letters[:, before:stop].sum(axis=0).max(initial=0)) < LEAST_DOT


def _reason_unread(reading: LineReading, is_confident: bool) -> str | None:
    """Return why all or part of a line will be missing from the page's text, or ``None`` if nothing will be missing."""
    if reading.script is not None:
        return "script"
    if not reading.words:
        return "no text"
    if is_confident:
        return None if reading.left_over is None else "gaps"
    return "low confidence"


def _has_gaps(reading: LineReading, line: FloatArray, boxes: FloatArray) -> bool:
    """Return whether ink of a ``line`` (4, 2) is left over, apart from check ``boxes`` (N, 4, 2), all in pixels."""
    along, across = line[1] - line[0], line[3] - line[0]
    rows = (boxes.mean(axis=1) - line[0]) @ across
    places = (boxes[(rows > 0) & (rows < across @ across)] - line[0]) @ along / max(along @ along, 1e-9)
    spans = np.stack([places.min(axis=1), places.max(axis=1)], axis=1)
    return reading.left_over is not None and reading.left_over.has_letters(spans)


def _find_specks(
    lines: FloatArray, scores: npt.NDArray[np.floating], turns: IntArray, readings: Mapping[int, LineReading]
) -> set[int]:
    """Return the lines of a page that are probably specks of dirt. ``lines`` (N, 4, 2) are in pixels."""
    read = [index for index, reading in readings.items() if reading.words]
    if len(read) < FEWEST_LINES:
        return set()
    height, boxes = float(np.median(line_sizes(lines[read])[1])), boxes_around(lines)
    if np.count_nonzero(turns % 180) > len(turns) / 2:
        boxes = boxes[:, [1, 0, 3, 2]]  # the text runs from top to bottom
    boxes, middles = boxes / height, (boxes[:, :2] + boxes[:, 2:]) / 2 / height
    found = set()
    for index in read:
        reading = readings[index]
        if len(reading.text) > 1 or scores[index] >= SPECK_SCORE or reading.share_right >= SPECK_CONFIDENCE:
            continue
        gaps = np.maximum(boxes[read, :2] - boxes[index, 2:], boxes[index, :2] - boxes[read, 2:])
        in_row = (boxes[read, 1] < middles[index, 1]) & (boxes[read, 3] > middles[index, 1])
        in_column = np.abs(middles[read, 0] - middles[index, 0]) < SAME_COLUMN
        in_column |= np.abs(boxes[read, 0] - boxes[index, 0]) < SAME_COLUMN
        is_near = (in_row & (gaps[:, 0] < APART_IN_ROW)) | (in_column & (gaps[:, 1] < APART_IN_COLUMN))
        if np.count_nonzero(is_near) == 1:  # the line itself
            found.add(index)
    return found


def _turn_bad_lines(
    model: LineRecognizer,
    page: Tensor,
    quads: FloatArray,
    turns: IntArray,
    known: dict[int, LineReading],
    split_after: str,
) -> IntArray:
    # Upright text in an unknown script yields no text, and upside-down text yields other letters.
    weak = [index for index, reading in known.items() if reading.words and reading.confidence < WEAK_READING]
    result = turns.copy()
    read = read_turned_lines(model, page, quads[weak], turns[weak] + 180, split_after)
    for index, reading in zip(weak, read, strict=True):
        if legibility(reading) >= max(READS_TURNED, known[index].confidence + MIN_ADVANTAGE):
            known[index] = reading
            result[index] = (result[index] + 180) % 360
    return result


def _words_of(
    lines: FloatArray,
    scores: npt.NDArray[np.floating],
    turns: IntArray,
    readings: Mapping[int, LineReading],
    confidences: Sequence[Sequence[float]],
    kept: Sequence[int],
    straight: bool,
) -> ClassWords:
    found = [(index, *pair) for index in kept for pair in zip(readings[index].words, confidences[index], strict=True)]
    corners = [place_boxes(lines[index], np.array([word.box]))[0] for index, word, _ in found]
    quads_of_words = np.array(corners).reshape(-1, 4, 2)
    characters: list[Sequence[Character]] = []
    for index, word, _ in found:
        quads = place_boxes(lines[index], np.array(word.boxes))
        places = geometries_of(boxes_around(quads) if straight else quads)
        characters.append([Character(*one) for one in zip(word.value, word.confidences, places, strict=True)])
    return ClassWords(
        boxes_around(quads_of_words) if straight else quads_of_words,
        np.array([float(scores[index]) for index, _, _ in found]),
        [(word.value, confidence) for _, word, confidence in found],
        [{"value": signed_turn(int(turns[index])), "confidence": None} for index, _, _ in found],
        np.array([index for index, _, _ in found], dtype=np.int64),
        characters,
    )
