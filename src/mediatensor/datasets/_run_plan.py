"""`plan_run`: what a long run over many files will read, ask for and cost, from a few of the files.

The files are far away, and read by ranges: in blocks of B bytes, of which an open file keeps what it has fetched. A
file is opened, r clips of it are read, and it is closed::

    opening     clip 1        clip 2 ...
    |##|        |----####|            |####----|          # a clip; what lies before it in its groups of pictures: -

    blocks of a clip           k = 1 + (x - 1) / B           x bytes lie anywhere on a grid of blocks
    share of F blocks cached   c(r) = 1 - (1 - c(0)) (1 - k / F)^r
    groups that r clips touch  D(r) = G (1 - (1 - g / G)^r)  of G groups, of which a clip touches g
    bytes of an opening        O + B F (c(r) - c(0))         O is what opening the file takes, as measured
    requests of an opening     Q + D(r) (1 - c(0)) ceil(bytes of a group / M)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._common.checks import finite_number, whole_number
from .._sources import BLOCK_BYTES, MAX_CACHED_BYTES, MAX_REQUEST_BYTES, RangeReader, Reader, Source, make_source
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, MediaTensorError, OpenError
from ..samplers import check_clip_length, check_positive_integer
from ._batches import Shuffle
from ._sources import Item, as_items, rows_of_files

__all__ = ["FileCost", "RunPlan", "plan_run"]


@dataclass(frozen=True)
class FileCost:
    """What was measured of a file.

    Attributes:
        num_bytes: Its size.
        opening_bytes: What opening it and making its index fetch.
        opening_requests: In how many requests.
        clip_bytes: What a clip needs: from its key frame to its last frame, the mean over all places.
        clip_groups: How many groups of pictures a clip touches, likewise.
        num_groups: How many groups the file has.
        seconds: Of a processor, to decode a clip.

    Example:
        >>> from mediatensor.datasets import FileCost
        >>> file = FileCost(50_000_000, 200_000, 2, 1_000_000, 1.5, 40, 0.02)
        >>> round(file.bytes_per_clip(1)), round(file.requests_per_clip(1), 3)
        (1261273, 3.494)
    """

    num_bytes: int
    opening_bytes: int
    opening_requests: int
    clip_bytes: float
    clip_groups: float
    num_groups: int
    seconds: float

    @property
    def _num_blocks(self) -> float:
        return max(1.0, self.num_bytes / BLOCK_BYTES)

    @property
    def _share_of_opening(self) -> float:
        """The share of the file that is cached when it is open."""
        return min(1.0, min(self.opening_bytes, MAX_CACHED_BYTES) / self.num_bytes)

    def bytes_per_clip(self, clips_per_opening: int) -> float:
        """What a clip fetches on average, its share of opening included."""
        blocks = min(1 + (self.clip_bytes - 1) / BLOCK_BYTES, self._num_blocks)
        fetched = (1 - self._share_of_opening) * (1 - (1 - blocks / self._num_blocks) ** clips_per_opening)
        return (self.opening_bytes + self.num_bytes * fetched) / clips_per_opening

    def requests_per_clip(self, clips_per_opening: int) -> float:
        """How many requests a clip makes on average, its share of opening included."""
        groups = self.num_groups * (1 - (1 - min(1.0, self.clip_groups / self.num_groups)) ** clips_per_opening)
        pieces = math.ceil(self.clip_bytes / self.clip_groups / MAX_REQUEST_BYTES)
        return (self.opening_requests + groups * (1 - self._share_of_opening) * pieces) / clips_per_opening


@dataclass(frozen=True)
class RunPlan:
    """What a run will take; see `plan_run`.

    Attributes:
        num_clips: Clips of the run.
        bytes_per_clip: What a clip fetches, its share of opening included.
        requests_per_clip: How many requests it makes.
        needed_bytes_per_clip: From its key frame to its last frame: what it would fetch without blocks and openings.
        total_bytes: Of the run.
        total_requests: Of the run.
        cost: Of bytes and requests, in the currency of the prices.
        same_file_share: How many of two random clips of a batch are of one file, as a share.
        files_per_batch: How many different files a batch has; segments of one file are one.
        effective_batch_size: How many independent clips are worth as much as the batch.
        seconds_per_clip: Seconds of a worker: decoding, waiting for answers, and fetching.
        num_workers: How many workers feed what takes ``clips_per_second``; 0 if that is not given.
        hours: How long the run takes with them; NaN if that is not given.
        files: What was measured.

    Example:
        >>> from mediatensor.datasets import plan_run
        >>> plan = plan_run("videos", 1e6, clips_per_second=500)
        >>> round(plan.hours, 2), len(plan.files)
        (0.56, 3)
    """

    num_clips: int
    bytes_per_clip: float
    requests_per_clip: float
    needed_bytes_per_clip: float
    total_bytes: float
    total_requests: float
    cost: float
    same_file_share: float
    files_per_batch: float
    effective_batch_size: float
    seconds_per_clip: float
    num_workers: int
    hours: float
    files: tuple[FileCost, ...]

    def __str__(self) -> str:
        names = [field.name for field in fields(self) if field.name != "files"]
        shown = {name: f"{getattr(self, name):,.6g}" for name in names}
        if math.isnan(self.hours):
            shown.update(num_workers="clips_per_second not given", hours="clips_per_second not given")
        return "\n".join(f"{name.replace('_', ' '):24} {value}" for name, value in shown.items())


def plan_run(
    source: Any,
    num_clips: float,
    *,
    num_frames_per_clip: int = 16,
    num_indices_between_frames: int = 1,
    rows_per_file: int = 1,
    batch_size: int = 32,
    shuffle: Shuffle | None = None,
    correlation: float = 1.0,
    clips_per_second: float | None = None,
    latency_seconds: float = 0.03,
    bytes_per_second: float = 1e8,
    price_per_million_requests: float = 0.0,
    price_per_gigabyte: float = 0.0,
    num_files: int = 8,
) -> RunPlan:
    """What a run over videos that are far away will read, ask for and cost, and how well its batches are mixed.

    Some of the files are opened and measured, as if they were read by ranges, wherever they are. All else is computed;
    `docs/distributed.md` has the formulae, and how far they were off.

    Args:
        source: The videos, as for `VideoClips`.
        num_clips: How many clips the run reads: 1e8.
        num_frames_per_clip: Frames of a clip.
        num_indices_between_frames: From one frame of a clip to the next.
        rows_per_file: How many clips of each file an epoch has.
        batch_size: Clips of a batch.
        shuffle: How rows are shuffled. ``rows_together`` is also how many clips a file is opened for.
        correlation: How alike two clips of a file are to the training, from 0 (no more than of others) to 1 (the same).
        clips_per_second: How many clips all GPUs together take.
        latency_seconds: Until the answer to a request begins.
        bytes_per_second: That a worker receives.
        price_per_million_requests: In any currency.
        price_per_gigabyte: Of 1e9 bytes that are sent.
        num_files: How many files are measured, spread over the source. Those that cannot be read are passed over.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.
        OpenError: if none of the files could be read.

    Example:
        >>> from mediatensor.datasets import Shuffle, plan_run
        >>> options = {"rows_per_file": 100, "price_per_million_requests": 0.4}
        >>> one = plan_run("videos", 1e8, **options)
        >>> four = plan_run("videos", 1e8, shuffle=Shuffle(rows_together=4), **options)
        >>> one.total_requests / four.total_requests > 2, one.effective_batch_size > four.effective_batch_size
        (True, True)
    """
    total = finite_number("num_clips", num_clips)
    span = (check_clip_length(num_frames_per_clip) - 1) * check_positive_integer(
        "num_indices_between_frames", num_indices_between_frames
    ) + 1
    counts = {"rows_per_file": rows_per_file, "batch_size": batch_size, "num_files": num_files}
    rows, batch, most = (whole_number(name, value, at_least=1) for name, value in counts.items())
    numbers = {
        "num_clips": total - 1, "correlation": correlation, "latency_seconds": latency_seconds,
        "price_per_million_requests": price_per_million_requests, "price_per_gigabyte": price_per_gigabyte,
        "clips_per_second": 0.0 if clips_per_second is None else clips_per_second, "bytes_per_second": bytes_per_second,
    }  # fmt: skip
    for name, value in numbers.items():
        if not finite_number(name, value) >= 0 or (name == "correlation" and value > 1):
            raise InvalidArgumentError(f"{name} must be positive, and correlation at most 1 (got {value!r}).")
    shuffle = shuffle or Shuffle()
    items = as_items(source, kind="video")
    files = _measured([items[i].source for i in _spread(len(items), most)], span, num_frames_per_clip)
    together = min(shuffle.rows_together, rows)

    def mean(of: Callable[[FileCost], float]) -> float:
        return float(np.mean([of(file) for file in files]))

    num_bytes, requests = (
        mean(lambda file: file.bytes_per_clip(together)),
        mean(lambda file: file.requests_per_clip(together)),
    )
    companions, distinct = _of_whole_files(items, batch, *_companions(len(items), rows, batch, shuffle))
    seconds = mean(lambda file: file.seconds) + requests * latency_seconds + num_bytes / max(bytes_per_second, 1e-9)
    return RunPlan(
        num_clips=int(total),
        bytes_per_clip=num_bytes,
        requests_per_clip=requests,
        needed_bytes_per_clip=mean(lambda file: file.clip_bytes),
        total_bytes=total * num_bytes,
        total_requests=total * requests,
        cost=total * (requests * price_per_million_requests / 1e6 + num_bytes * price_per_gigabyte / 1e9),
        same_file_share=companions / max(1, batch - 1),
        files_per_batch=distinct,
        effective_batch_size=batch / (1 + correlation * companions),
        seconds_per_clip=seconds,
        num_workers=0 if clips_per_second is None else math.ceil(clips_per_second * seconds),
        hours=math.nan if not clips_per_second else total / clips_per_second / 3600,
        files=tuple(files),
    )


def _spread(length: int, count: int) -> list[int]:
    places: list[int] = np.unique(np.linspace(0, length - 1, min(length, count)).round().astype(int)).tolist()
    return places


def _companions(num_files: int, rows_per_file: int, batch_size: int, shuffle: Shuffle) -> tuple[float, float]:
    """How many other clips of its file a clip has in its batch, and how many files a batch has, on average.

    Groups of r rows of a file are drawn among the rows of the epoch, without putting back. With a window of w rows, a
    group waits for w rows on average, with an exponential distribution. Two of one file are then at one place of the
    order with a probability of 1 / 2w, as if they were drawn among twice the window.
    """
    together = min(shuffle.rows_together, rows_per_file, batch_size)
    total = num_files * rows_per_file
    pool = total if shuffle.window is None else min(total, max(2 * shuffle.window, batch_size))
    files, groups_of_file = pool / rows_per_file, rows_per_file / together
    groups, drawn = pool / together, min(batch_size, total) / together
    companions = together - 1.0
    if groups > 1:
        companions += (drawn - 1) * together * (groups_of_file - 1) / (groups - 1)
    # A file is in none of the groups that are drawn one after the other.
    absent = np.prod([max(0.0, 1 - groups_of_file / (groups - i)) for i in range(math.ceil(drawn))])
    return min(companions, batch_size - 1.0), min(files * (1 - float(absent)), drawn)


def _of_whole_files(items: Sequence[Item], batch_size: int, companions: float, distinct: float) -> tuple[float, float]:
    """`_companions` of files, from those of items, which may be segments of files.

    The other items of a batch are any of the others. A file of n_f among n items is in none of d items with a
    probability of (n - d over n_f) / (n over n_f).
    """
    num_items, counts = len(items), np.array(rows_of_files(items))
    sharing = float((counts * (counts - 1)).sum()) / max(1, num_items * (num_items - 1))
    companions += max(0.0, batch_size - 1 - companions) * sharing
    sizes, numbers = np.unique(counts, return_counts=True)
    absent = [np.prod(np.maximum(0.0, 1 - distinct / (num_items - np.arange(size)))) for size in sizes]
    return companions, float((numbers * (1 - np.array(absent))).sum())


# Measuring


def _measured(sources: Sequence[Any], span: int, num_frames: int) -> list[FileCost]:
    found, error = [], None
    for source in sources:
        try:
            found.append(_cost(source, span, num_frames))
        except (MediaTensorError, OSError) as raised:
            error = raised
    if not found:
        raise OpenError(f"None of {len(sources)} files could be read; the last: {error}") from error
    return found


def _cost(source: Any, span: int, num_frames: int) -> FileCost:
    counted = _CountedSource(make_source(source))
    with VideoDecoder(counted, num_ffmpeg_threads=1) as decoder:
        decoder._make_index()
        opening_bytes, opening_requests = counted.num_bytes, counted.num_requests
        index = decoder.frame_index
        places = np.linspace(0, max(0, len(index) - span), 4).astype(int)
        step = max(1, (span - 1) // max(1, num_frames - 1))
        begin = time.process_time()
        for first in places.tolist():
            decoder.get_frames_at([min(first + i * step, len(index) - 1) for i in range(num_frames)])
        seconds = (time.process_time() - begin) / len(places)
    sizes, lengths = index.gop_bytes.numpy().astype(float), index.gop_lengths.numpy()
    if not len(lengths) or (sizes < 0).any():
        raise OpenError(f"{counted.describe()} has no frames, or nothing says how large they are.")
    # Other streams lie between those of the pictures.
    sizes *= max(1.0, counted.size / max(1.0, sizes.sum()))
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = np.arange(max(1, len(index) - span + 1))
    last = np.minimum(first + span - 1, len(index) - 1)
    first_gop, last_gop = (np.searchsorted(starts, frames, side="right") - 1 for frames in (first, last))
    share = np.minimum(1.0, (last + 2 - starts[last_gop]) / lengths[last_gop])
    needed = before[last_gop] + share * sizes[last_gop] - before[first_gop]
    groups = float((last_gop - first_gop + 1).mean())
    return FileCost(counted.size, opening_bytes, opening_requests, float(needed.mean()), groups, len(lengths), seconds)


class _CountedSource(Source):
    """Reads a source by ranges, as if it were far away, and counts them.

    Args:
        whole: The source, of which bytes can be read.
    """

    def __init__(self, whole: Source) -> None:
        self._whole = whole
        self.num_bytes = self.num_requests = self.size = 0

    def open(self) -> Reader:
        reader = self._whole.open_bytes()
        if reader is None:
            opened = self._whole.open()
            if isinstance(opened, str):
                raise OpenError(f"Could not open {self.describe()}: it cannot be read by ranges.")
            reader = opened
        self.size = reader.seek(0, 2)
        return RangeReader(_CountedRanges(self, reader), self.size, self.describe())

    def describe(self) -> str:
        return self._whole.describe()


class _CountedRanges:
    """Fetches ranges of an open source."""

    def __init__(self, source: _CountedSource, reader: Reader) -> None:
        self._source = source
        self._reader = reader

    def fetch(self, start: int, stop: int) -> bytes:
        self._source.num_bytes += stop - start
        self._source.num_requests += 1
        return self._reader.read_at(start, stop - start)

    def close(self) -> None:
        self._reader.close()
