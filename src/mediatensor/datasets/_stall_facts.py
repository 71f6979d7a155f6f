"""From what a stall meter wrote down to shares and means. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._stages import STAGES
from ._stall_records import EpochRecord, add_seconds

__all__ = ["StallFacts", "facts_of"]

#: What reading took and no stage accounts for.
OTHER = "other"

# What is left of a sum when all its parts are taken away.
_ROUNDING_SECONDS = 1e-9


@dataclass(frozen=True)
class StallFacts:
    """How a training loop and the workers that read for it spent their time.

    What comes before the loop has its first batch of an epoch, the start of the workers above all, is kept apart: it
    is in ``first_batch_seconds``, and beside that only in the seconds of stages, and in their sum.

    Attributes:
        num_epochs: Iterations over loaders.
        num_batches: Batches that were given, the first ones included.
        num_workers: Of the last loader; 0 if the loop's own process reads, ``None`` if it is not known.
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
        epochs: What was written down. Those without a batch do not count.
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
    """What was waited for batches that had been read, without what the loop's own thread did meanwhile."""
    begin, end, finished = _waits(epoch)
    spent = np.clip(end - np.fmax(begin, finished), 0.0, None)
    waited = float(spent[~np.isnan(finished)].sum())
    return max(0.0, waited - (0.0 if epoch.is_read_here else sum(epoch.loop_stage_seconds.values())))


def _uneven_seconds(epoch: EpochRecord) -> float:
    """What was waited for batches that were being read while a later one was ready."""
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
