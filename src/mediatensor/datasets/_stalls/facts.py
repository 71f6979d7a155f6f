"""Shares, means and advice, computed from the times that a stall meter wrote down. Pure; no I/O."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._common.stages import STAGES
from .._rows import Batch, ColumnDict, Sample, Skipped, Timing

__all__ = ["EpochRecord", "StallFacts", "add_seconds", "advice", "facts_of", "timings_of"]

K = TypeVar("K", bound=Hashable)

#: The number of the worker of rows that another thread of the loop's process has read.
OTHER_THREAD = -1


@dataclass
class EpochRecord:
    """One iteration over a loader, in seconds of the machine's monotonic clock. For each batch 24 bytes are kept.

    Attributes:
        num_workers: Workers of the loader; ``None`` if it does not say.
        num_batches_ahead: How many batches the loader has taken in when it gives one: then the loop waits for a later
            batch than for the one that it is given.
        asked: When each batch was asked for.
        given: When the loop had it.
        finished: When it had been read by a worker; NaN if that is not known, or if it was read while the loop waited.
        stage_seconds: By stage, of the workers.
        busy_seconds: By worker, from when the loop had its first batch.
        read_seconds: Seconds of reading, of all workers, from the first row on.
        loop_stage_seconds: By stage, of the loop's own thread while it waited.
        is_read_here: Whether rows were read by the loop's own thread.
        ended: When the last batch had been worked on; ``None`` while that goes on.
    """

    num_workers: int | None = None
    num_batches_ahead: int = 0
    asked: array[float] = field(default_factory=lambda: array("d"))
    given: array[float] = field(default_factory=lambda: array("d"))
    finished: array[float] = field(default_factory=lambda: array("d"))
    stage_seconds: dict[str, float] = field(default_factory=dict)
    busy_seconds: dict[int, float] = field(default_factory=dict)
    read_seconds: float = 0.0
    loop_stage_seconds: dict[str, float] = field(default_factory=dict)
    is_read_here: bool = False
    ended: float | None = None

    def add(self, asked: float, given: float, timings: tuple[Timing, ...], loop_seconds: Mapping[str, float]) -> None:
        """Write down a batch.

        Args:
            asked: When it was asked for.
            given: When the loop had it.
            timings: The timings of its rows.
            loop_seconds: By stage, of the loop's own thread from ``asked`` to ``given``.
        """
        self.asked.append(asked)
        self.given.append(given)
        add_seconds(self.loop_stage_seconds, loop_seconds)
        elsewhere = [timing for timing in timings if not self._was_read_here(timing)]
        self.is_read_here |= len(elsewhere) < len(timings)
        self.finished.append(max((timing.finished for timing in elsewhere), default=float("nan")))
        for timing in elsewhere:
            add_seconds(self.stage_seconds, timing.stage_seconds)
            self.read_seconds += timing.finished - timing.started
            worker = OTHER_THREAD if timing.worker is None else timing.worker
            begun = max(timing.started, self.given[0])
            add_seconds(self.busy_seconds, {worker: max(0.0, timing.finished - begun)})

    def _was_read_here(self, timing: Timing) -> bool:
        """Whether rows were read while the loop waited, by its own thread: then its own stages have that time."""
        if timing.worker is not None:
            return False
        last_asked = bisect_right(self.asked, timing.started) - 1
        return last_asked >= 0 and timing.started <= self.given[last_asked]


def timings_of(batch: object) -> tuple[Timing, ...]:
    """Where the time of the rows of a batch went, of a `Batch` and of samples in a list; nothing of other batches."""
    return batch.timings if isinstance(batch, Batch | ColumnDict) else tuple(_timings_of_samples(batch))


def _timings_of_samples(batch: object) -> Iterator[Timing]:
    for sample in batch if isinstance(batch, (list, tuple)) else [batch]:
        if isinstance(sample, (Sample, Skipped)) and sample.timing is not None:
            yield sample.timing


def add_seconds(total: dict[K, float], seconds: Mapping[K, float]) -> None:
    """Add seconds to those of the same names."""
    for name, spent in seconds.items():
        total[name] = total.get(name, 0.0) + spent


#: The time of reading that no stage accounts for.
OTHER = "other"

# The remainder of a sum of which all parts were subtracted.
_ROUNDING_SECONDS = 1e-9


@dataclass(frozen=True)
class StallFacts:
    """How a training loop and the workers that read for it spent their time.

    The time until the first batch of an epoch, which is mostly the start of the workers, is kept apart. It is in
    ``first_batch_seconds``, and otherwise counts only in the seconds of stages and in their sum.

    Attributes:
        num_epochs: Iterations over loaders.
        num_batches: Batches that were given, the first ones included.
        num_workers: Workers of the last loader; 0 if the loop's own process reads, ``None`` if it is not known.
        num_cores: CPU cores that this process may run on.
        first_batch_seconds: For each epoch, how long the loop waited for its first batch.
        elapsed_seconds: From the first batch of an epoch to the end of its last, of all epochs together.
        waited_seconds: How much of that the loop waited for batches.
        uneven_seconds: How much of the waiting was for a batch while one that comes after it was ready.
        handover_seconds: How much of the waiting was for a batch whose rows had all been read: it was being collated,
            sent, pinned, or copied.
        stage_seconds: By stage, of all workers together; ``"other"`` is what no stage accounts for.
        read_seconds: Sum of these.
        loop_stage_seconds: By stage, of the loop's own thread while it waited, first batches included; without workers
            ``"other"`` is the rest of the waiting.
        worker_busy_shares: For each worker, how much of the elapsed time it was reading, from 0 to 1.
        mean_num_ready: How many batches were read and not given yet, on average over the elapsed time (Little's law:
            the sum of the times that batches waited, divided by the elapsed time); ``None`` if it is not known.

    Example:
        >>> from mediatensor.datasets import StallMeter
        >>> StallMeter().facts.waited_seconds
        0.0
    """

    num_epochs: int = 0
    num_batches: int = 0
    num_workers: int | None = None
    num_cores: int = 1
    first_batch_seconds: tuple[float, ...] = ()
    elapsed_seconds: float = 0.0
    waited_seconds: float = 0.0
    uneven_seconds: float = 0.0
    handover_seconds: float = 0.0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    read_seconds: float = 0.0
    loop_stage_seconds: Mapping[str, float] = field(default_factory=dict)
    worker_busy_shares: Mapping[int, float] = field(default_factory=dict)
    mean_num_ready: float | None = None

    @property
    def wait_share(self) -> float:
        """How much of the elapsed time the loop waited, from 0 to 1."""
        return self.waited_seconds / self.elapsed_seconds if self.elapsed_seconds else 0.0

    @property
    def busy_share(self) -> float | None:
        """How much of the elapsed time the workers were reading, on average; ``None`` if it is not known."""
        shares = self.worker_busy_shares.values()
        return sum(shares) / len(shares) if shares else None

    @property
    def reading(self) -> Mapping[str, float]:
        """Seconds by stage of whoever reads: the workers, or without any the loop."""
        return self.stage_seconds or self.loop_stage_seconds


def facts_of(epochs: Sequence[EpochRecord], *, now: float, num_cores: int) -> StallFacts:
    """The facts of all epochs together.

    Args:
        epochs: The records of the epochs. Those without a batch do not count.
        now: When an epoch that still goes on is taken to end.
        num_cores: CPU cores that this process may run on.
    """
    epochs = [epoch for epoch in epochs if len(epoch.given)]
    if not epochs:
        return StallFacts(num_cores=num_cores)
    elapsed = sum(_elapsed(epoch, now) for epoch in epochs)
    busy: dict[int, float] = {}
    stages: dict[str, float] = {}
    loop_stages: dict[str, float] = {}
    for epoch in epochs:
        add_seconds(busy, dict.fromkeys(range(epoch.num_workers or 0), 0.0))
        add_seconds(busy, epoch.busy_seconds)
        add_seconds(stages, epoch.stage_seconds)
        add_seconds(loop_stages, epoch.loop_stage_seconds)
    read_seconds = sum(epoch.read_seconds for epoch in epochs)
    has_times = read_seconds > 0
    stages[OTHER] = max(0.0, read_seconds - sum(stages.values()))
    firsts = tuple(epoch.given[0] - epoch.asked[0] for epoch in epochs)
    waited = sum(map(_waited_seconds, epochs))
    num_workers = _num_workers(epochs[-1], len(busy))
    if num_workers == 0:
        loop_stages[OTHER] = max(0.0, waited + sum(firsts) - sum(loop_stages.values()))
    return StallFacts(
        num_epochs=len(epochs),
        num_batches=sum(len(epoch.given) for epoch in epochs),
        num_workers=num_workers,
        num_cores=num_cores,
        first_batch_seconds=firsts,
        elapsed_seconds=elapsed,
        waited_seconds=waited,
        uneven_seconds=sum(map(_uneven_seconds, epochs)),
        handover_seconds=sum(map(_handover_seconds, epochs)),
        stage_seconds=in_order(stages) if has_times else {},
        read_seconds=read_seconds,
        loop_stage_seconds=in_order(loop_stages),
        worker_busy_shares={worker: busy[worker] / elapsed for worker in sorted(busy)} if has_times and elapsed else {},
        mean_num_ready=sum(map(_ready_seconds, epochs)) / elapsed if has_times and elapsed else None,
    )


def in_order(seconds: Mapping[str, float]) -> dict[str, float]:
    """By stage, in the order in which a sample goes through them; stages that took less than a nanosecond are left out.

    >>> in_order({"other": 0.5, "decode": 2.0, "open": 1.0, "copy": 0.0})
    {'open': 1.0, 'decode': 2.0, 'other': 0.5}
    """
    names = [*STAGES, *sorted(seconds.keys() - set(STAGES))]
    return {name: seconds[name] for name in names if seconds.get(name, 0.0) > _ROUNDING_SECONDS}


def _num_workers(epoch: EpochRecord, num_seen: int) -> int | None:
    if epoch.num_workers is not None:
        return epoch.num_workers
    return 0 if epoch.is_read_here else num_seen or None


def _elapsed(epoch: EpochRecord, now: float) -> float:
    return (now if epoch.ended is None else epoch.ended) - epoch.given[0]


# The waits of an epoch are all but its first: (begin, end, when the batch that it was for had been read).
_Waits = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _waits(epoch: EpochRecord) -> _Waits:
    asked, given, finished = (np.array(times, np.float64) for times in (epoch.asked, epoch.given, epoch.finished))
    ahead = epoch.num_batches_ahead
    waited_for = np.append(finished[ahead:], np.full(min(ahead, len(finished)), np.nan))
    return asked[1:], given[1:], waited_for[1:]


def _waited_seconds(epoch: EpochRecord) -> float:
    begin, end, _ = _waits(epoch)
    return float((end - begin).sum())


def _handover_seconds(epoch: EpochRecord) -> float:
    """Seconds of waiting for batches that had been read, without the work of the loop's own thread in that time."""
    begin, end, finished = _waits(epoch)
    spent = np.clip(end - np.fmax(begin, finished), 0.0, None)
    waited = float(spent[~np.isnan(finished)].sum())
    return max(0.0, waited - (0.0 if epoch.is_read_here else sum(epoch.loop_stage_seconds.values())))


def _uneven_seconds(epoch: EpochRecord) -> float:
    """Seconds of waiting for batches that were being read while a later one was ready."""
    begin, end, finished = _waits(epoch)
    if len(finished) < 2:
        return 0.0
    later = np.fmin.accumulate(finished[:0:-1])[::-1]  # the first of those behind each that was ready
    spent = np.fmin(end, finished)[:-1] - np.fmax(begin[:-1], later)
    return float(np.nansum(np.clip(spent, 0.0, None)))


def _ready_seconds(epoch: EpochRecord) -> float:
    """For how long batches had been read and were not given yet, all of them added up."""
    given, finished = np.array(epoch.given, np.float64), np.array(epoch.finished, np.float64)
    return float(np.nansum(np.clip(given - np.maximum(finished, given[0]), 0.0, None)))


# Fewer batches than this say more about the start than about what follows.
MIN_BATCHES = 5
# A loop that waits less than this part of its time is as fast as it would be with any input.
WAITS_LITTLE = 0.05
# Workers that read this part of the time have no time left: the rest is sending batches, and waiting for a core.
BUSY = 0.8
# Workers that read less than this part of the time are more than it takes.
IDLE = 0.5
# A stage, or a cause of waiting, is worth a word from this part on.
WORTH_A_WORD = 0.25
# So are first batches that take this part of all the time.
LONG_START = 0.2

# Stages that the same remedies help with.
_GROUPS = {
    "open": ("open", "index"),
    "decode": ("seek", "decode"),
    "convert": ("convert",),
    "transform": ("transform",),
    "collate": ("collate",),
    "copy": ("copy",),
    "other": ("other",),
}
_REMEDIES = {
    "open": "take more rows of each file that is opened (rows_per_file, Shuffle(rows_together=4)), keep indexes "
    "(mediatensor.set_index_cache), keep more files open (max_open_files)",
    "decode": "fewer or smaller frames, Shuffle(rows_together=4), videos with key frames closer together",
    "convert": "let the decoder make the frames small (decoder_options={'transforms': [Resize(...)]}), and leave "
    "float32 to the device",
    "transform": "transform on the device, behind ToDevice, and crop and resize in the decoder",
    "collate": "bring samples to one shape in the decoder, so that they need no padding",
    "copy": "pinned memory (pin_memory=True), smaller frames, uint8 until they are on the device",
    "other": "look at what the sampler and functions of your own do, with a profiler",
}


def advice(facts: StallFacts) -> list[str]:
    """Advice on what to change: one sentence each, the most important first.

    Example:
        >>> advice(StallFacts(num_batches=100, num_workers=2, elapsed_seconds=10.0, waited_seconds=0.1))
        ['not input-bound: the loop waited 1 % of its time, so that more workers would not make it faster']
    """
    if facts.num_batches < MIN_BATCHES:
        return [f"too few batches to say anything ({facts.num_batches}; at least {MIN_BATCHES})"]
    return [*_about_waiting(facts), *_about_the_start(facts)]


def _about_waiting(facts: StallFacts) -> list[str]:
    waited = f"the loop waited {_percent(facts.wait_share)} of its time"
    if facts.wait_share < WAITS_LITTLE:
        return [f"not input-bound: {waited}, so that more workers would not make it faster", *_about_surplus(facts)]
    if facts.num_workers == 0:
        return [_about_no_workers(facts, waited), *_about_stages(facts, "", skip=0)]
    if facts.busy_share is None:
        how = (
            "if batches were a Batch of mediatensor.datasets (collate_fn=stack, ragged, pad), it could be said what for"
        )
        return [f"input-bound: {waited}; {how}"]
    return _about_workers(facts, facts.busy_share) if facts.busy_share >= BUSY else _about_idle_workers(facts, waited)


def _about_surplus(facts: StallFacts) -> list[str]:
    needed = max(1, math.ceil(sum(facts.worker_busy_shares.values()) / BUSY))
    if facts.busy_share is None or facts.busy_share >= IDLE or not facts.num_workers or needed >= facts.num_workers:
        return []
    return [f"workers are busy {_percent(facts.busy_share)}: num_workers={needed} would do"]


def _about_no_workers(facts: StallFacts, waited: str) -> str:
    num_workers = min(max(1, _num_workers_needed(1, facts.wait_share)), max(1, facts.num_cores))
    return (
        f"read by the loop itself (num_workers=0): {waited}; with num_workers={num_workers} ({_cores(facts)}) reading "
        "goes on while it works"
    )


def _about_workers(facts: StallFacts, busy_share: float) -> list[str]:
    num_workers = facts.num_workers or len(facts.worker_busy_shares)
    num_busy = sum(share >= BUSY for share in facts.worker_busy_shares.values())
    needed = min(_num_workers_needed(num_workers, facts.wait_share), facts.num_cores)
    more = f"num_workers={needed} ({_cores(facts)})" if needed > num_workers else ""
    busy = f"{num_busy} of {num_workers} workers busy {_percent(busy_share)}"
    main, share = _shares(facts)[0]
    remedies = ", ".join(part for part in (more, _REMEDIES[main]) if part)
    full = "" if more else f" on {facts.num_cores} {'core' if facts.num_cores == 1 else 'cores'}"
    first = f"{main}-bound: {busy}{full}, {_percent(share)} of it with {_named(main)}: try {remedies}"
    return [first, *_about_stages(facts, "then ", skip=1)]


def _about_stages(facts: StallFacts, lead: str, *, skip: int) -> list[str]:
    return [
        f"{lead}{name}: {_percent(share)} of reading goes into {_named(name)}: {_REMEDIES[name]}"
        for name, share in _shares(facts)[skip:]
        if share >= WORTH_A_WORD
    ]


def _about_idle_workers(facts: StallFacts, waited: str) -> list[str]:
    assert facts.busy_share is not None
    idle = f"{waited} although workers were busy only {_percent(facts.busy_share)}"
    handover = "it waited for batches that had been read, and were being collated and sent"
    uneven = "it waited for one slow batch while later ones were ready"
    causes = {
        f"copy-bound: {idle}; the loop copies meanwhile: {_REMEDIES['copy']}": facts.loop_stage_seconds.get("copy", 0),
        f"collate-bound: {idle}; {handover}: smaller batches or frames, a lighter collate_fn": facts.handover_seconds,
        f"uneven batches: {idle}; {uneven}: prefetch_factor=4, bucket_by, files of like cost": facts.uneven_seconds,
    }
    largest = max(causes, key=causes.__getitem__)
    if causes[largest] >= WORTH_A_WORD * facts.waited_seconds:
        return [largest]
    return [f"workers idle: {idle}: let them read further ahead (prefetch_factor=4), or give them cores of their own"]


def _about_the_start(facts: StallFacts) -> list[str]:
    first = sum(facts.first_batch_seconds)
    share = first / (first + facts.elapsed_seconds) if first else 0.0
    if share < LONG_START:
        return []
    mean = first / len(facts.first_batch_seconds)
    remedies = "persistent_workers=True, fewer workers, mediatensor.set_index_cache"
    return [f"long start: the first batch of an epoch takes {mean:.2g} s, {_percent(share)} of all: {remedies}"]


def _shares(facts: StallFacts) -> list[tuple[str, float]]:
    """Groups of stages and their parts of all reading, the largest first."""
    seconds = facts.reading
    total = sum(seconds.values()) or 1.0
    groups = {name: sum(seconds.get(stage, 0.0) for stage in stages) / total for name, stages in _GROUPS.items()}
    return sorted(groups.items(), key=lambda item: -item[1])


def _num_workers_needed(num_workers: int, wait_share: float) -> int:
    """How many would read as fast as the loop works, if each reads as fast as those that there are."""
    return math.ceil(num_workers / max(1e-3, 1 - wait_share))


def _named(group: str) -> str:
    return " and ".join(_GROUPS[group])


def _cores(facts: StallFacts) -> str:
    return f"{facts.num_cores} {'core' if facts.num_cores == 1 else 'cores'} here"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
