"""Compare boxes and texts with the ground truth.

Boxes are compared by their overlap (intersection over union) and matched with true boxes; texts by exact matches of
words, and by error rates of characters and words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import checked, number_array, real_number, shown
from ...errors import InvalidArgumentError, MissingDependencyError
from .geometry import boxes_around

# Names of the comparisons, in the order of `string_match`.
MATCHES = ("raw", "caseless", "anyascii", "unicase")

# Number of pairs of boxes to compare at a time, so that intermediate results fit into the cache.
_CHUNK = 1 << 20
# Number of pairs of polygons to clip at a time; a pair takes about a kilobyte.
_POLYGON_CHUNK = 1 << 14

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Overlaps(NamedTuple):
    """The P pairs of overlapping boxes from two arrays: their indices, and their intersection over union."""

    first: Indices
    second: Indices
    iou: Floats


@checked(boxes_1=number_array, boxes_2=number_array)
def box_iou(boxes_1: NDArray[Any], boxes_2: NDArray[Any]) -> NDArray[Any]:
    """Return the intersection over union (IoU) of each box in ``boxes_1`` with each box in ``boxes_2``.

    Args:
        boxes_1: N axis-aligned boxes, (N, 4), each (xmin, ymin, xmax, ymax).
        boxes_2: M boxes in the same form and unit, (M, 4).

    Returns:
        The IoU of each pair, (N, M): float64 if an input is float64 or has integers of at least 32 bits, otherwise
        float32. It is 0 for pairs in which neither box has an area.

    Raises:
        InvalidArgumentError: if the boxes have a wrong shape.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import box_iou
    >>> box_iou(np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[0.0, 0.0, 2.0, 1.0], [5.0, 5.0, 6.0, 6.0]])).tolist()
    [[0.5, 0.0]]
    """
    matrix = np.zeros((len(boxes_1), len(boxes_2)), dtype=np.result_type(boxes_1.dtype, boxes_2.dtype, np.float32))
    return _fill(matrix, overlaps(boxes_1, boxes_2))


@checked(polys_1=number_array, polys_2=number_array)
def polygon_iou(polys_1: NDArray[Any], polys_2: NDArray[Any]) -> NDArray[np.float32]:
    """Return the intersection over union (IoU) of each polygon in ``polys_1`` with each polygon in ``polys_2``.

    The result is exact unless edges of the same polygon cross each other.

    Args:
        polys_1: N polygons as corners (x, y), clockwise or counter-clockwise: (N, 4, 2), or (N, K, 2) for K corners, at
            least 3.
        polys_2: M polygons in the same form and unit.

    Returns:
        The IoU of each pair, (N, M) float32. It is 0 for pairs in which neither polygon has an area.

    Raises:
        InvalidArgumentError: if the polygons do not have this shape.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import polygon_iou
    >>> square = np.array([[[0, 0], [2, 0], [2, 2], [0, 2]]])
    >>> polygon_iou(square, square[:, ::-1] + [1, 0]).round(3).tolist()
    [[0.3330000042915344]]
    """
    matrix: NDArray[np.float32] = np.zeros((len(polys_1), len(polys_2)), dtype=np.float32)
    return _fill(matrix, overlaps(polys_1, polys_2, use_polygons=True))


def _fill(matrix: NDArray[Any], pairs: Overlaps) -> NDArray[Any]:
    matrix[pairs.first, pairs.second] = pairs.iou
    return matrix


def overlaps(boxes_1: NDArray[Any], boxes_2: NDArray[Any], use_polygons: bool = False) -> Overlaps:
    """Find all pairs of overlapping boxes, (N, 4), or polygons, (N, K, 2), ordered by the index in ``boxes_1``."""
    for boxes in (boxes_1, boxes_2):
        is_polygon = boxes.ndim == 3 and boxes.shape[1] > 2 and boxes.shape[2] == 2
        if len(boxes) and not (is_polygon if use_polygons else boxes.shape[1:] == (4,)):
            raise InvalidArgumentError(
                f"boxes must be {'polygons (N, 4, 2)' if use_polygons else '(N, 4)'}, got shape {boxes.shape}"
            )
    nothing = np.zeros(0, dtype=np.intp)
    if len(boxes_1) == 0 or len(boxes_2) == 0:
        return Overlaps(nothing, nothing, np.zeros(0))
    ones, others = boxes_1.astype(np.float64), boxes_2.astype(np.float64)
    extents = (ones, others) if not use_polygons else (boxes_around(ones), boxes_around(others))
    first, second = _touching(*extents)
    if use_polygons:
        shared = np.concatenate([np.zeros(0), *_shared_areas(ones, others, first, second)])
        areas = np.abs(_signed_areas(ones))[first] + np.abs(_signed_areas(others))[second]
    else:
        low = np.maximum(ones[first, :2], others[second, :2])
        high = np.minimum(ones[first, 2:], others[second, 2:])
        shared = (high - low).prod(axis=1)
        areas = (ones[:, 2:] - ones[:, :2]).prod(axis=1)[first] + (others[:, 2:] - others[:, :2]).prod(axis=1)[second]
    union = areas - shared
    iou = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).clip(0, 1)
    kept = iou > 0
    return Overlaps(first[kept], second[kept], iou[kept])


def _touching(ones: Floats, others: Floats) -> tuple[Indices, Indices]:
    """Return the indices of all pairs of straight boxes that overlap. Chunks of boxes keep the memory small."""
    step = max(_CHUNK // len(others), 1)
    left, top, right, bottom = others.T
    firsts, seconds = [], []
    for start in range(0, len(ones), step):
        rows = ones[start : start + step, :, None]
        meet = (rows[:, 0] < right) & (rows[:, 2] > left) & (rows[:, 1] < bottom) & (rows[:, 3] > top)
        first, second = np.nonzero(meet)
        firsts.append(first + start)
        seconds.append(second)
    return np.concatenate(firsts), np.concatenate(seconds)


def _signed_areas(polygons: Floats) -> Floats:
    """Return the areas of polygons (..., K, 2) by the shoelace formula. The sign shows the order of the corners."""
    corners = polygons - polygons[..., :1, :]
    x, y = corners[..., 0], corners[..., 1]
    area: Floats = (x * np.roll(y, -1, axis=-1) - y * np.roll(x, -1, axis=-1)).sum(axis=-1) / 2
    return area


def _shared_areas(ones: Floats, others: Floats, first: Indices, second: Indices) -> Iterator[Floats]:
    """Yield, chunk by chunk, the area of the intersection of ``ones[first[i]]`` and ``others[second[i]]``, for all i.

    The polygon from ``others`` does not need to be convex. It is split into triangles that all start at its first
    corner, and the polygon from ``ones`` is clipped by each triangle. Areas from triangles with one orientation
    (clockwise or counter-clockwise) are added, and those with the other orientation subtracted.
    """
    for start in range(0, len(first), _POLYGON_CHUNK):
        subject = ones[first[start : start + _POLYGON_CHUNK]]
        window = others[second[start : start + _POLYGON_CHUNK]]
        # Coordinates relative to the first corner keep precision if coordinates are large.
        origin = subject[:, :1].copy()
        subject, window = subject - origin, window - origin
        total = np.zeros(len(subject))
        for corner in range(1, window.shape[1] - 1):
            triangles = window[:, [0, corner, corner + 1]]
            signs = np.sign(_signed_areas(triangles))
            triangles = np.where(signs[:, None, None] < 0, triangles[:, ::-1], triangles)
            path = subject
            for edge in range(3):
                path = _clip(path, triangles[:, edge], triangles[:, (edge + 1) % 3])
            total += signs * _signed_areas(path)
        yield np.abs(total)


def _clip(path: Floats, start: Floats, end: Floats) -> Floats:
    """Cut off the part of each closed path that lies to the right of the line from ``start`` to ``end``.

    There are P paths (P, V, 2) and P lines, whose points ``start`` and ``end`` are (P, 2). The algorithm is from
    Sutherland and Hodgman ("Reentrant polygon clipping", 1974), with one change. A corner on the wrong side is not
    removed, but moved to the nearest point of the line. This creates edges along the line, which add no area. All
    resulting paths have the same number of corners, (P, 2 V, 2).
    """
    direction = (end - start)[:, None]
    normal = np.stack([-direction[..., 1], direction[..., 0]], axis=-1)
    length = (direction**2).sum(axis=-1)
    distance = ((path - start[:, None]) * normal).sum(axis=-1)
    # The result does not matter for a triangle without area, whose sign is 0.
    scaled = distance / np.where(length > 0, length, 1.0)
    inside = np.where(distance[..., None] >= 0, path, path - scaled[..., None] * normal)
    after, distance_after = np.roll(path, -1, axis=1), np.roll(distance, -1, axis=1)
    crosses = distance * distance_after < 0
    share = distance / np.where(crosses, distance - distance_after, 1.0)
    crossing = np.where(crosses[..., None], path + share[..., None] * (after - path), inside)
    return np.stack([inside, crossing], axis=2).reshape(len(path), -1, 2)


@checked(boxes=number_array, thresh=real_number)
def nms(boxes: NDArray[Any], thresh: float = 0.5) -> list[int]:
    """Drop boxes that overlap a box with a better score (non-maximum suppression).

    Args:
        boxes: (N, 5) as (xmin, ymin, xmax, ymax, score).
        thresh: A box is dropped if its IoU with a remaining box that has a better score is above this value.

    Returns:
        List of the indices of the remaining boxes, by descending score. Boxes with equal scores keep their order.

    Raises:
        InvalidArgumentError: if the boxes have a wrong shape.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import nms
    >>> nms(np.array([[0, 0, 10, 10, 0.5], [1, 0, 10, 10, 0.9], [20, 0, 30, 10, 0.1]]))
    [1, 2]
    """
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise InvalidArgumentError(f"boxes must be (N, 5) as (xmin, ymin, xmax, ymax, score), got {boxes.shape}")
    order = np.argsort(-boxes[:, 4], kind="stable")
    kept = []
    while order.size:
        best, order = order[:1], order[1:]
        kept.append(int(best[0]))
        order = order[box_iou(boxes[best, :4], boxes[order, :4])[0] <= thresh]
    return kept


class Matches(NamedTuple):
    """Matching pairs: the indices of true boxes, ascending, and of predicted boxes, (P,).

    ``total_iou`` does not depend on the pairs: it is the sum of the largest IoU of each
    predicted box with any true box.
    """

    truth: Indices
    prediction: Indices
    total_iou: float


def check_threshold(iou_thresh: float) -> float:
    """Return ``iou_thresh``, or raise `InvalidArgumentError` if it is not in (0, 1]."""
    if not 0 < real_number("iou_thresh", iou_thresh) <= 1:
        raise InvalidArgumentError(f"iou_thresh must be in (0, 1], got {iou_thresh}")
    return iou_thresh


def match_boxes(gts: NDArray[Any], preds: NDArray[Any], iou_thresh: float, use_polygons: bool) -> Matches:
    """Pair each true box with at most one predicted box, so that the sum of the pairs' IoU is as large as possible.

    Pairs whose IoU is below ``iou_thresh`` are dropped afterwards. Boxes affect each other's pairing only in groups
    that overlap. Such groups are small, even on a page of thousands of words, so SciPy solves each of them separately.
    """
    pairs = overlaps(gts, preds, use_polygons)
    best = np.zeros(len(preds))
    np.maximum.at(best, pairs.second, pairs.iou)
    chosen = _assign(pairs, len(gts), len(preds))
    chosen = chosen[pairs.iou[chosen] >= iou_thresh]
    return Matches(pairs.first[chosen], pairs.second[chosen], float(best.sum()))


def _assign(pairs: Overlaps, count: int, other_count: int) -> Indices:
    """Return the ascending indices of the pairs with the largest sum of IoU such that each box is in one pair at most.

    ``count`` and ``other_count`` are the numbers of boxes in both arrays.
    """
    alone = (np.bincount(pairs.first, minlength=count)[pairs.first] == 1) & (
        np.bincount(pairs.second, minlength=other_count)[pairs.second] == 1
    )
    chosen = [np.flatnonzero(alone)]
    contested = np.flatnonzero(~alone)
    if contested.size:
        chosen += [group[_best_of(pairs, group)] for group in _groups(pairs, contested, count, other_count)]
    return np.sort(np.concatenate(chosen))


def _groups(pairs: Overlaps, contested: Indices, count: int, other_count: int) -> list[Indices]:
    """Split the ``contested`` pairs, which share a box with another pair, into groups that have no boxes in common."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        raise MissingDependencyError('Matching boxes needs SciPy: pip install "mediatensor[ocr]".') from None
    nodes = count + other_count
    links = (pairs.first[contested], pairs.second[contested] + count)
    graph = coo_array((np.ones(contested.size, dtype=np.int8), links), shape=(nodes, nodes))
    _, labels = connected_components(graph, directed=False)
    group = labels[pairs.first[contested]]
    order = np.argsort(group, kind="stable")
    borders = np.flatnonzero(np.diff(group[order])) + 1
    return np.split(contested[order], borders)


def _best_of(pairs: Overlaps, group: Indices) -> Indices:
    """Choose the pairs of one group with the largest sum of IoU such that each box is in at most one pair."""
    from scipy.optimize import linear_sum_assignment

    rows, row_of = np.unique(pairs.first[group], return_inverse=True)
    columns, column_of = np.unique(pairs.second[group], return_inverse=True)
    position = np.full((rows.size, columns.size), -1, dtype=np.intp)
    position[row_of, column_of] = np.arange(group.size)
    gain = np.zeros(position.shape)
    gain[row_of, column_of] = pairs.iou[group]
    taken: Indices = position[linear_sum_assignment(gain, maximize=True)]
    return taken[taken >= 0]


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a string (got {shown(value)}).")
    return value


@checked(word1=_text, word2=_text)
def string_match(word1: str, word2: str) -> tuple[bool, bool, bool, bool]:
    """Compare two strings in four ways, from strict to lenient.

    Args:
        word1: A string.
        word2: Another string.

    Returns:
        Four bools, each True if the strings are equal in one form. The forms are, in this order: unchanged, lower case,
        ASCII ("é" becomes "e", "€" becomes "EUR"), and ASCII in lower case.

    Raises:
        MissingDependencyError: if the strings differ, one is not ASCII, and anyascii is not installed.

    >>> from mediatensor.ocr.utils.metrics import string_match
    >>> string_match("Total", "TOTAL")
    (False, True, False, True)
    """
    if word1 == word2:
        return True, True, True, True
    plain1, plain2 = to_ascii(word1), to_ascii(word2)
    return False, word1.lower() == word2.lower(), plain1 == plain2, plain1.lower() == plain2.lower()


def to_ascii(text: str) -> str:
    """Return the ASCII form of a text, such as "EUR" for "€", or raise an error if anyascii is not installed."""
    if text.isascii():
        return text
    try:
        from anyascii import anyascii
    except ImportError:
        raise MissingDependencyError(
            f'Comparing {text!r} in ASCII needs anyascii: pip install "mediatensor[ocr]".'
        ) from None
    plain: str = anyascii(text)
    return plain


def _check_pairs(gt: Sequence[str], pred: Sequence[str]) -> None:
    for name, texts in (("gt", gt), ("pred", pred)):
        if isinstance(texts, str):
            raise InvalidArgumentError(f"{name} must be a list of strings, got the string {texts[:20]!r}: [{name}]?")
        if not isinstance(texts, Collection) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError(f"{name} must be a list of strings (got {shown(texts)}).")
    if len(gt) != len(pred):
        raise InvalidArgumentError(f"gt and pred must be of one length, got {len(gt)} and {len(pred)} strings")


class TextMatch:
    """Metric: the share of words that are recognised without any error.

    Call `update` for each batch of words, and `summary` at the end.

    >>> from mediatensor.ocr.utils import TextMatch
    >>> metric = TextMatch()
    >>> metric.update(["Hello", "world"], ["hello", "world"])
    >>> metric.summary()
    {'raw': 0.5, 'caseless': 1.0, 'anyascii': 0.5, 'unicase': 1.0}
    >>> metric.reset()
    """

    def __init__(self) -> None:
        self.reset()

    def update(self, gt: Sequence[str], pred: Sequence[str]) -> None:
        """Compare true and recognised words, and count how many are equal.

        Args:
            gt: True words.
            pred: Recognised words, one for each true word.

        Raises:
            InvalidArgumentError: if ``gt`` and ``pred`` differ in length, or one of them is a single string.
            MissingDependencyError: if anyascii is needed and not installed; see `string_match`.
        """
        _check_pairs(gt, pred)
        for true, read in zip(gt, pred, strict=True):
            raw, caseless, anyascii, unicase = string_match(true, read)
            self.raw += raw
            self.caseless += caseless
            self.anyascii += anyascii
            self.unicase += unicase
        self.total += len(gt)

    def summary(self) -> dict[str, float]:
        """Return the shares of words that were recognised exactly, for each way of comparing them.

        Returns:
            A dict of shares in [0, 1]. Its keys are the comparisons of `string_match`: ``raw`` (unchanged),
            ``caseless`` (lower case), ``anyascii`` (ASCII) and ``unicase`` (ASCII in lower case).

        Raises:
            InvalidArgumentError: if no word was counted.
        """
        if self.total == 0:
            raise InvalidArgumentError("TextMatch has no words to summarise: call update() with at least one")
        return {name: getattr(self, name) / self.total for name in MATCHES}

    def reset(self) -> None:
        """Discard all words counted so far."""
        self.raw = self.caseless = self.anyascii = self.unicase = self.total = 0


def _units(name: str, value: Any) -> Any:
    if not isinstance(value, Sequence):
        raise InvalidArgumentError(f"{name} must be a string or a list (got {shown(value)}).")
    return value


@checked(one=_units, other=_units)
def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the minimum number of insertions, deletions and replacements between two sequences (Levenshtein).

    The rows of the edit distance table are stored as bits of Python integers, so comparing two pages of text takes
    milliseconds. (Myers, "A fast bit-vector algorithm for approximate string matching", 1999; Hyyrö, "Explaining and
    extending the bit-parallel approximate string matching algorithm of Myers", 2001.)

    Args:
        one: A string, or a list of words. The units that are edited are then characters, or words.
        other: Another string or list of words.

    >>> from mediatensor.ocr.utils.metrics import edit_distance
    >>> edit_distance("kitten", "sitting")
    3
    """
    wide, short = (one, other) if len(one) >= len(other) else (other, one)
    if not short:
        return len(wide)
    places: defaultdict[Hashable, int] = defaultdict(int)
    for index, item in enumerate(wide):
        places[item] |= 1 << index
    everywhere, last = (1 << len(wide)) - 1, 1 << (len(wide) - 1)
    # Bits mark positions where the table grows, or falls, by one.
    grows, falls, distance = everywhere, 0, len(wide)
    for item in short:
        equal = places.get(item, 0)
        steady = equal | falls
        across = (((equal & grows) + grows) ^ grows) | equal
        right_grows, right_falls = falls | (everywhere & ~(across | grows)), grows & across
        distance += bool(right_grows & last) - bool(right_falls & last)
        right_grows, right_falls = (right_grows << 1) | 1, right_falls << 1
        grows = (right_falls | ~(steady | right_grows)) & everywhere
        falls = right_grows & steady
    return distance


def aligned(true: str, read: str) -> list[tuple[str, str]]:
    """Pair the characters of two texts so that the number of edits is minimal (Wagner and Fischer, 1974).

    A character without a counterpart in the other text is paired with ``""``. If several alignments have the minimum
    number of edits, replacements are preferred to deletions and insertions.

    >>> from mediatensor.ocr.utils._scores import aligned
    >>> aligned("cats", "cut")
    [('c', 'c'), ('a', 'u'), ('t', 't'), ('s', '')]
    """
    shorter = min(len(true), len(read))
    start = next((i for i in range(shorter) if true[i] != read[i]), shorter)
    rest = shorter - start
    end = next((i for i in range(rest) if true[-1 - i] != read[-1 - i]), rest)
    one, other = true[start : len(true) - end], read[start : len(read) - end]
    columns = np.arange(len(other) + 1, dtype=np.int32)
    codes = np.array([ord(character) for character in other], dtype=np.int32)
    table = np.empty((len(one) + 1, len(other) + 1), dtype=np.int32)
    table[0] = columns
    for row, character in enumerate(one, 1):
        table[row, 0] = row
        table[row, 1:] = np.minimum(table[row - 1, 1:] + 1, table[row - 1, :-1] + (codes != ord(character)))
        # Insertions extend along the row: entry j is the minimum of entry k + j - k over all k <= j.
        table[row] = np.minimum.accumulate(table[row] - columns) + columns
    pairs, i, j = [], len(one), len(other)
    while i or j:
        if i and j and table[i, j] == table[i - 1, j - 1] + (one[i - 1] != other[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((one[i], other[j]))
        elif i and table[i, j] == table[i - 1, j] + 1:
            i -= 1
            pairs.append((one[i], ""))
        else:
            j -= 1
            pairs.append(("", other[j]))
    same = [(character, character) for character in true]
    return same[:start] + pairs[::-1] + same[len(true) - end :]


class _ErrorRate:
    """Base class of error rates: edits of units, such as characters, divided by the number of true units."""

    def __init__(self) -> None:
        self.reset()

    def _units(self, text: str) -> Sequence[str]:
        raise NotImplementedError

    def update(self, gt: Sequence[str], pred: Sequence[str]) -> None:
        """Compare true and recognised texts, and count their edits and lengths.

        Args:
            gt: True texts, such as words, lines or pages.
            pred: Recognised texts, one for each true text.

        Raises:
            InvalidArgumentError: if ``gt`` and ``pred`` differ in length, or one of them is a single string.
        """
        _check_pairs(gt, pred)
        for true, read in zip(gt, pred, strict=True):
            units = self._units(true)
            self.edits += edit_distance(units, self._units(read))
            self.total += len(units)

    def summary(self) -> float | None:
        """Return the error rate, or None if the true texts are empty.

        It is 0 for perfect texts, and can exceed 1 if many units are inserted.
        """
        return self.edits / self.total if self.total else None

    def reset(self) -> None:
        self.edits = self.total = 0


class CharacterErrorRate(_ErrorRate):
    """Character error rate (CER): number of wrong characters, divided by the number of characters in the true texts.

    Insertions, deletions and replacements count as errors. A character is a Unicode code point, and spaces count. Texts
    are not normalised before they are compared. Errors and characters are added up over all texts before the division,
    so longer texts have more weight.

    >>> from mediatensor.ocr.utils import CharacterErrorRate
    >>> metric = CharacterErrorRate()
    >>> metric.update(["TOTAL 12.50", "CASH"], ["T0TAL 12.50", "CASH"])
    >>> metric.summary() == 1 / 15
    True
    >>> metric.reset()
    """

    def _units(self, text: str) -> Sequence[str]:
        return text


class WordErrorRate(_ErrorRate):
    """Word error rate (WER): number of wrong words, divided by the number of words in the true texts.

    Insertions, deletions and replacements count as errors. Words are separated by white space. Errors and words are
    added up over all texts before the division.

    >>> from mediatensor.ocr.utils import WordErrorRate
    >>> metric = WordErrorRate()
    >>> metric.update(["the quick brown fox"], ["the quick fox"])
    >>> metric.summary()
    0.25
    """

    def _units(self, text: str) -> Sequence[str]:
        return text.split()
