"""Compute signatures of videos, and find the videos that share a part by their signatures (`find_shared_parts`).

A signature has five samples per second. Each sample is a grid of 60 cells of the frame without its black bars. Cells do
not depend on the brightness and contrast of the video.

Two videos share a part if the cells of their signatures *change* in the same way for some time. Cells that only look
alike are not evidence: recordings of one static set-up, title cards and black frames look alike. The search has two
steps, and neither compares all pairs of videos:

1. Changes between samples are hashed (cross-polytope hashing; Andoni et al., 2015, https://arxiv.org/abs/1509.02897).
   Changes with equal hashes vote for a pair of videos and a time offset.
2. For pairs with enough votes, the cells of both videos are correlated over time. This gives the parts that agree.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .contents import spans_of

# Signatures

SAMPLES_PER_SECOND = 5
NUM_ROWS, NUM_COLUMNS = 6, 10
NUM_CELLS = NUM_ROWS * NUM_COLUMNS
# Twelve hours. Later frames are not compared. This limits the size of a signature.
_MAX_SAMPLES = 12 * 3600 * SAMPLES_PER_SECOND
# Where there is no frame, the previous one counts for at most two seconds.
_MAX_HELD_SAMPLES = 2 * SAMPLES_PER_SECOND
# Bars are found in the first ten minutes, which bounds the memory for frames.
_NUM_SAMPLES_FOR_BARS = 600 * SAMPLES_PER_SECOND
_MAX_BAR_LEVEL, _MAX_BAR_SPREAD, _MAX_BAR_SHARE = 40.0, 4.0, 0.4
# A cell is stored as its distance from the median of the cells, in units of a 32nd of their spread.
UNITS, _MIN_SPREAD = 32, 6.0


class SignatureMaker:
    """Computes the signature of a video from small gray frames, which `add` takes in order."""

    def __init__(self) -> None:
        self._first_seconds: float | None = None
        self._open: dict[int, tuple[NDArray[np.float32], float]] = {}
        self._pictures: dict[int, NDArray[np.float32]] = {}
        self._cells: dict[int, NDArray[np.int8]] = {}
        self._weights: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self._spread = _MIN_SPREAD

    def add(self, pts_seconds: NDArray[np.float64], frames: NDArray[np.float32]) -> None:
        """Add frames of shape (N, H, W), with values from 0 to 255.

        A sample is a weighted mean of the frames less than a step from its time. A frame at the time of the sample has
        the weight 1, and one step away it has the weight 0. So a signature hardly depends on the frame rate.
        """
        if self._first_seconds is None:
            self._first_seconds = float(pts_seconds[0])
        steps = (pts_seconds - self._first_seconds) * SAMPLES_PER_SECOND
        is_early = (steps >= 0) & (steps < _MAX_SAMPLES - 1)
        steps, frames = steps[is_early], frames[is_early]
        if not len(steps):
            return
        before = np.floor(steps).astype(np.int64)
        numbers, place = np.unique(np.concatenate([before, before + 1]), return_inverse=True)
        share = (steps - before).astype(np.float32)
        weights = np.zeros((len(numbers), len(steps)), np.float32)
        columns = np.arange(len(steps))
        weights[place[: len(steps)], columns] = 1 - share
        weights[place[len(steps) :], columns] = share
        sums = (weights @ frames.reshape(len(frames), -1)).reshape(-1, *frames.shape[1:])
        for number, total, weight in zip(numbers.tolist(), sums, weights.sum(1).tolist(), strict=True):
            old = self._open.get(number)
            self._open[number] = (total, weight) if old is None else (old[0] + total, old[1] + weight)
        self._close(int(before[-1]))

    def finish(self) -> str | None:
        """Return the signature as text, or ``None`` if there are no frames."""
        self._close(_MAX_SAMPLES)
        self._reduce()
        if not self._cells:
            return None
        numbers = np.array(list(self._cells))
        last = np.repeat(numbers, np.diff(numbers, append=numbers[-1] + 1))
        cells = np.stack(list(self._cells.values()))
        held = np.arange(len(last)) - last
        rows = cells[np.searchsorted(numbers, last)]
        rows[held > _MAX_HELD_SAMPLES] = 0
        return _pack(rows)

    def _close(self, number: int) -> None:
        """Finish the samples before a number, to which no more frames will be added."""
        for sample in [sample for sample in self._open if sample < number]:
            total, weight = self._open.pop(sample)
            if weight > 0:
                self._pictures[sample] = total / weight
        if self._weights is not None or len(self._pictures) >= _NUM_SAMPLES_FOR_BARS:
            self._reduce()

    def _reduce(self) -> None:
        """Reduce the finished samples to cells."""
        if not self._pictures:
            return
        pictures = np.stack(list(self._pictures.values()))
        if self._weights is None:
            top, bottom = _find_bars(pictures)
            left, right = _find_bars(pictures.transpose(0, 2, 1))
            self._weights = (
                _mean_weights(pictures.shape[1], top, bottom, NUM_ROWS),
                _mean_weights(pictures.shape[2], left, right, NUM_COLUMNS),
            )
            self._spread = max(float(np.median(self._cells_of(pictures).std(1))), _MIN_SPREAD)
        # The median hardly changes if a caption or a logo covers a few cells.
        cells = self._cells_of(pictures)
        cells = (cells - np.median(cells, axis=1, keepdims=True)) * (UNITS / self._spread)
        self._cells.update(zip(self._pictures, np.clip(np.round(cells), -127, 127).astype(np.int8), strict=True))
        self._pictures.clear()

    def _cells_of(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        rows, columns = self._weights or (np.empty(0), np.empty(0))
        cells: NDArray[np.float32] = np.einsum("rh,nhw,cw->nrc", rows, pictures, columns, optimize=True)
        return cells.reshape(len(pictures), -1)


def _find_bars(pictures: NDArray[np.float32]) -> tuple[int, int]:
    """Return the range [first, last) of rows that are not black bars at the top and bottom of frames (N, H, W)."""
    num_rows = pictures.shape[1]
    # A subtitle in a bar covers only some of its pixels for some of the time.
    levels = np.percentile(pictures, (5, 90), axis=(0, 2))
    is_bar = (levels[1] <= _MAX_BAR_LEVEL) & (levels[1] - levels[0] <= _MAX_BAR_SPREAD)
    inside = np.flatnonzero(~is_bar)
    if not len(inside):
        return 0, num_rows
    # The row next to a bar can be a mixture of both.
    first, last = int(inside[0]), int(inside[-1]) + 1
    first, last = first + (first > 0), last - (last < num_rows)
    limit = int(_MAX_BAR_SHARE * num_rows)
    return min(first, limit), max(last, num_rows - limit)


def _mean_weights(size: int, first: int, last: int, count: int) -> NDArray[np.float32]:
    """Return weights (count, size) for the means of ``count`` equal parts of the pixels from ``first`` to ``last``."""
    edges = np.linspace(first, last, count + 1)[:, None]
    pixels = np.arange(size)
    covered = np.clip(edges[1:] - pixels, 0, 1) - np.clip(edges[:-1] - pixels, 0, 1)
    weights: NDArray[np.float32] = (covered * count / (last - first)).astype(np.float32)
    return weights


def _pack(cells: NDArray[np.int8]) -> str:
    changes = np.diff(cells.view(np.uint8), axis=0, prepend=np.uint8(0))
    return base64.b64encode(zlib.compress(changes.tobytes(), 6)).decode()


def cells_of(signature: str) -> NDArray[np.int8]:
    """Return the samples of a signature: cells (N, 60), in units of 1/`UNITS`; none if it is damaged."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(signature), _MAX_SAMPLES * NUM_CELLS)
    except (binascii.Error, zlib.error):
        data = b""
    whole = len(data) // NUM_CELLS * NUM_CELLS
    changes = np.frombuffer(data[:whole], np.uint8).reshape(-1, NUM_CELLS)
    cells: NDArray[np.int8] = np.cumsum(changes, axis=0, dtype=np.uint8).view(np.int8)
    return cells


# The search

_Cells = NDArray[np.float32]
_Samples = NDArray[np.int8]

# The hashed changes are those between samples 0.8 s apart. Smaller changes, in units of the cells' spread, are noise.
_REACH, _MIN_CHANGE = 2, 0.1
# In each table, a change has a key of 15 bits, and is compared with the next six changes that have the same key. So the
# time does not grow with the square of the number of videos, even if all videos look alike.
_NUM_TABLES, _HASHES_PER_KEY, _HASH_DIMENSIONS, _NUM_NEIGHBOURS = 12, 3, 16, 6
_MIN_VOTES, _MAX_CANDIDATES = 2, 20
# Offsets are below 2 ** 18 samples.
_OFFSET_BITS = 20
# Cells are compared after subtracting their mean over three seconds. Samples belong to a part if they change, and if
# the correlation over 1.6 s is at least this.
_TREND_SAMPLES, _WINDOW_SAMPLES = 15, 8
_MIN_MOTION, _MIN_CORRELATION = 0.05, 0.7
# The median correlation of the cells themselves within a part.
_MIN_LIKENESS = 0.6
# The crop at each side that is tried if cells agree better with it.
_CROP = 0.05
# The evidence that a part needs. It was chosen with the development films of `benchmarks.data.near_copies`: 45 real
# clips, and generated films, up to seven of which are recordings of one set-up. The ranges tried were correlations of
# 0.8 to 0.97, 2 to 4 bits, and shares of chance (see below) of 0.15 to 0.5. Recordings of one robot arm correlate by up
# to 0.95 (3 bits) or 0.94 (8 bits), but also by 0.6 to 0.9 at other times, so the share of chance excludes them. With
# 0.85, 2 bits and 0.5, 47 parts of different films agreed; with 0.88, 3.5 bits and 0.15, none did. But with 0.9 and 4
# bits, five of 33 pairs of further screens on which text is typed agreed (up to 0.97 with 4.3 bits, 0.91 with 5.5
# bits), so both limits were raised.
_MIN_TOTAL, _MIN_BITS, _MAX_CORRELATION = 0.92, 5.0, 0.99
_MIN_SECONDS = 1.2
# A part must agree much better than it agrees by chance with both videos, at least 1.6 s earlier or later. Its distance
# from the correlation 1 is at most this share of the distance by chance. Content that repeats agrees everywhere, and
# needs a correlation of 0.9925.
_MAX_SHARE_OF_CHANCE, _MAX_CHANCE = 0.15, 0.95
_CHANCE_SAMPLES, _CHANCE_DISTANCE, _MIN_SHARE_OF_ENERGY = 75, 8, 0.25


class SharedPart(NamedTuple):
    """A part that two videos share. Times are in seconds from the first frame.

    ``later`` and ``earlier`` are indices of videos. ``start_seconds`` and ``end_seconds`` are times in the later video.
    """

    later: int
    earlier: int
    is_mirrored: bool
    start_seconds: float
    end_seconds: float
    earlier_start_seconds: float


def find_shared_parts(signatures: Sequence[str]) -> list[SharedPart]:
    """Return the parts that any two of the videos share, longest first. A part can be in the list more than once."""
    videos = [cells_of(signature) for signature in signatures]
    parts = [part for candidate in _find_candidates(videos) for part in _compare(videos, candidate)]
    return sorted(parts, key=lambda part: part.start_seconds - part.end_seconds)


class _Candidate(NamedTuple):
    """Two videos that seem to share a part, which comes ``offset`` samples later in the later video."""

    later: int
    earlier: int
    is_mirrored: bool
    offset: int


def _find_candidates(videos: Sequence[_Samples]) -> list[_Candidate]:
    """Return the pairs with the most votes, at most 20 for each later video."""
    numbers, places, changes = _find_changes(videos)
    if not len(numbers):
        return []
    both = np.concatenate([changes, changes @ _mirror_matrix()])
    count = len(numbers)
    rng = np.random.default_rng(0)
    votes = []
    for _ in range(_NUM_TABLES):
        keys = _hash(both, rng)
        # Equal keys are in random order. If many videos have the same key, each table pairs different ones.
        order = np.lexsort((rng.permutation(len(both)), keys))
        for distance in range(1, _NUM_NEIGHBOURS + 1):
            one, two = order[:-distance], order[distance:]
            is_pair = (keys[one] == keys[two]) & ((one < count) | (two < count))
            one, two = one[is_pair], two[is_pair]
            is_mirrored = (one >= count) | (two >= count)
            one, two = one % count, two % count
            one, two = np.where(numbers[one] > numbers[two], (one, two), (two, one))
            pairs = (numbers[one] * len(videos) + numbers[two]) * 2 + is_mirrored
            codes = (pairs << _OFFSET_BITS) + (places[one] - places[two] + (1 << _OFFSET_BITS - 1))
            votes.append(codes[numbers[one] != numbers[two]])
    codes, counts = np.unique(np.concatenate(votes), return_counts=True)
    # The votes for two consecutive offsets count together, because a part can lie between two samples.
    counts[:-1] += np.where(np.diff(codes) == 1, counts[1:], 0)
    codes, counts = codes[counts >= _MIN_VOTES], counts[counts >= _MIN_VOTES]
    found: dict[int, list[_Candidate]] = defaultdict(list)
    for code in codes[np.argsort(-counts, kind="stable")].tolist():
        pair, offset = divmod(code, 1 << _OFFSET_BITS)
        later, earlier = divmod(pair >> 1, len(videos))
        if len(found[later]) < _MAX_CANDIDATES:
            found[later].append(_Candidate(later, earlier, bool(pair & 1), offset - (1 << _OFFSET_BITS - 1)))
    return [candidate for candidates in found.values() for candidate in candidates]


def _find_changes(videos: Sequence[_Samples]) -> tuple[NDArray[np.int64], NDArray[np.int64], _Cells]:
    """Return the video, the sample, and the cells (N, 60) of each change that is larger than those around it."""
    numbers, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    changes = [np.empty((0, NUM_CELLS), np.float32)]
    for number, samples in enumerate(videos):
        if len(samples) <= 2 * _REACH:
            continue
        cells = _to_cells(samples)
        change = cells[2 * _REACH :] - cells[: -2 * _REACH]
        size = np.sqrt((change**2).mean(1))
        around = np.pad(size, 1)
        at = np.flatnonzero((size >= around[:-2]) & (size >= around[2:]) & (size >= _MIN_CHANGE))
        numbers.append(np.full(len(at), number))
        places.append(at + _REACH)
        changes.append(change[at])
    return np.concatenate(numbers), np.concatenate(places), np.concatenate(changes)


def _hash(changes: _Cells, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a key for each change (N, 60). Similar changes often have the same key."""
    keys = np.zeros(len(changes), np.int64)
    for _ in range(_HASHES_PER_KEY):
        projected = changes @ rng.standard_normal((NUM_CELLS, _HASH_DIMENSIONS), np.float32)
        keys = keys * 2 * _HASH_DIMENSIONS + np.concatenate([projected, -projected], axis=1).argmax(1)
    return keys


class _Agreement(NamedTuple):
    """Two aligned videos: where the overlap starts in each, how they change there, and which samples agree."""

    start: int
    earlier_start: float
    changes: tuple[_Cells, _Cells]
    likeness: NDArray[np.float32]
    is_moving: NDArray[np.bool_]
    is_same: NDArray[np.bool_]
    weight: float


def _compare(videos: Sequence[_Samples], candidate: _Candidate) -> list[SharedPart]:
    """Return the parts that two videos share, if they come about ``candidate.offset`` samples later in one of them."""
    later, earlier = (_to_cells(videos[number]) for number in candidate[:2])
    if candidate.is_mirrored:
        earlier = earlier @ _mirror_matrix()
    shifts = [candidate.offset + shift / 2 for shift in range(-2, 3)]
    aligned = [agreement for shift in shifts if (agreement := _align(later, earlier, shift)) is not None]
    if not any(agreement.is_same.any() for agreement in aligned):
        return []
    best = max(aligned, key=lambda agreement: agreement.weight)
    view = None
    for one, two in _views():
        agreement = _align(later @ one, earlier @ two, best.start - best.earlier_start)
        if agreement is not None and agreement.weight > best.weight:
            best, view = agreement, (one, two)
    if view is not None:
        later, earlier = later @ view[0], earlier @ view[1]
    parts = []
    for first, last in _join_over_stills(best):
        if _is_evident(best, first, last, later, earlier):
            places = best.start + first, best.start + last, best.earlier_start + first
            parts.append(SharedPart(*candidate[:3], *(place / SAMPLES_PER_SECOND for place in places)))
    return parts


def _align(later: _Cells, earlier: _Cells, offset: float) -> _Agreement | None:
    """Compare two videos, of which the earlier one is moved by a whole or a half number of samples."""
    whole = int(np.floor(offset))
    if whole != offset:
        earlier, whole = ((earlier[1:] + earlier[:-1]) / 2).astype(np.float32), whole + 1
    start, stop = max(whole, 0), min(whole + len(earlier), len(later))
    if stop - start < _WINDOW_SAMPLES:
        return None
    later, earlier = later[start:stop], earlier[start - whole : stop - whole]
    one, two = _remove_trend(later), _remove_trend(earlier)
    product, energy, other_energy = (
        _moving_mean((a * b).mean(1), _WINDOW_SAMPLES) for a, b in ((one, two), (one, one), (two, two))
    )
    is_moving = np.minimum(energy, other_energy) >= _MIN_MOTION**2
    correlation = product / np.sqrt(np.maximum(energy * other_energy, 1e-12))
    is_same = is_moving & (correlation >= _MIN_CORRELATION)
    weight = float(correlation[is_same].sum())
    later, earlier = (cells - cells.mean(1, keepdims=True) for cells in (later, earlier))
    sizes = np.sqrt(np.maximum((later**2).sum(1) * (earlier**2).sum(1), 1e-12))
    return _Agreement(start, start - offset, (one, two), (later * earlier).sum(1) / sizes, is_moving, is_same, weight)


def _join_over_stills(agreement: _Agreement) -> list[tuple[int, int]]:
    """Return the ranges [first, last) of samples that agree. Stills between them belong to them if they look alike."""
    joined: list[tuple[int, int]] = []
    is_bridge = ~agreement.is_moving & (agreement.likeness >= _MIN_LIKENESS)
    for first, last in spans_of(agreement.is_same):
        if joined and is_bridge[joined[-1][1] : first].all():
            joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return joined


def _is_evident(agreement: _Agreement, first: int, last: int, later: _Cells, earlier: _Cells) -> bool:
    """Return whether two videos agree so well from ``first`` to ``last`` that they must show the same recording."""
    seconds = agreement.is_same[first:last].sum() / SAMPLES_PER_SECOND
    if seconds < _MIN_SECONDS or np.median(agreement.likeness[first:last]) < _MIN_LIKENESS:
        return False
    one, two = (changes[first:last] for changes in agreement.changes)
    total = _correlate(one, two)
    if total < _MIN_TOTAL:
        return False
    bits = 0.0
    for part in np.array_split(np.arange(last - first), max(round((last - first) / _TREND_SAMPLES), 1)):
        # The mutual information of normal variables, once for each independent component of the change.
        values = np.linalg.svd(one[part] + two[part], compute_uv=False) ** 2
        rank = values.sum() ** 2 / max((values**2).sum(), 1e-12)
        correlation = min(max(_correlate(one[part], two[part]), 0.0), _MAX_CORRELATION)
        bits -= rank * np.log2(1 - correlation**2) / 2
    if bits < _MIN_BITS:
        return False
    start, earlier_start = agreement.start + first, round(agreement.earlier_start) + first
    sample = one[:_CHANCE_SAMPLES]
    chance = max(_correlate_elsewhere(sample, later, start), _correlate_elsewhere(sample, earlier, earlier_start))
    return bool(1 - total <= _MAX_SHARE_OF_CHANCE * (1 - min(chance, _MAX_CHANCE)))


def _correlate(one: _Cells, two: _Cells) -> float:
    return float((one * two).sum() / np.sqrt(max((one**2).sum() * (two**2).sum(), 1e-12)))


def _correlate_elsewhere(part: _Cells, video: _Cells, place: int) -> float:
    """Return the best correlation of a part with a video, except near ``place``."""
    changes = _remove_trend(video)
    count = len(changes) - len(part) + 1
    far = np.abs(np.arange(max(count, 0)) - place) >= _CHANCE_DISTANCE
    if not far.any():
        return 0.0
    products = sum(changes[at : at + count] @ row for at, row in enumerate(part))
    energy = np.convolve((changes**2).sum(1), np.ones(len(part), np.float32), "valid")
    own = float((part**2).sum())
    is_moving = far & (energy >= _MIN_SHARE_OF_ENERGY * own)
    return float((products / np.sqrt(np.maximum(energy * own, 1e-12)))[is_moving].max(initial=0.0))


# Cells


def _to_cells(samples: _Samples) -> _Cells:
    return (samples / np.float32(UNITS)).astype(np.float32)


def _remove_trend(cells: _Cells) -> _Cells:
    changes: _Cells = cells - _moving_mean(cells, _TREND_SAMPLES)
    return changes


def _moving_mean(values: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Return the mean over ``length`` rows around each row, and at the start and end over fewer rows."""
    sums = np.cumsum(values, axis=0, dtype=np.float64)
    sums = np.concatenate([np.zeros_like(sums[:1]), sums])
    at = np.arange(len(values))
    first, last = np.maximum(at - length // 2, 0), np.minimum(at + (length + 1) // 2, len(values))
    counts = (last - first).reshape(-1, *[1] * (values.ndim - 1))
    means: NDArray[np.float32] = ((sums[last] - sums[first]) / counts).astype(np.float32)
    return means


@cache
def _mirror_matrix() -> _Cells:
    numbers = np.arange(NUM_CELLS).reshape(NUM_ROWS, NUM_COLUMNS)
    return np.eye(NUM_CELLS, dtype=np.float32)[:, numbers[:, ::-1].ravel()]


@cache
def _views() -> list[tuple[_Cells, _Cells]]:
    """Return pairs of matrices that remove captions at the bottom or top, or crop the later or earlier video."""
    whole = np.eye(NUM_CELLS, dtype=np.float32)
    below, above = whole[:, :-NUM_COLUMNS], whole[:, NUM_COLUMNS:]
    cropped = np.kron(_crop_matrix(NUM_ROWS), _crop_matrix(NUM_COLUMNS))
    return [(below, below), (above, above), (cropped, whole), (whole, cropped)]


def _crop_matrix(count: int) -> _Cells:
    """Return a matrix (count, count) that interpolates cells at the centres of the cells of a cropped frame."""
    places = (np.arange(count) + 0.5) * (1 - 2 * _CROP) + _CROP * count - 0.5
    weights: _Cells = np.maximum(1 - np.abs(np.arange(count)[:, None] - places), 0).astype(np.float32)
    return weights
