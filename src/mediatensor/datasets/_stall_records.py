"""What a stall meter writes down of an epoch: when batches were asked for, read and given, and what that took."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ._samples import Batch, Sample, Skipped, Timing

__all__ = ["EpochRecord", "add_seconds", "timings_of"]

K = TypeVar("K", bound=Hashable)

#: Stands for the worker of what another thread of the loop's process has read.
OTHER_THREAD = -1


@dataclass
class EpochRecord:
    """One iteration over a loader, in seconds of the machine's monotonic clock. For each batch 24 bytes are kept.

    Attributes:
        num_workers: Of the loader; ``None`` if it does not say.
        num_batches_ahead: How many batches the loader has taken in when it gives one: then the loop waits for a later
            batch than for the one that it is given.
        asked: When each batch was asked for.
        given: When the loop had it.
        finished: When it had been read by a worker; NaN if that is not known, or if it was read while the loop waited.
        stage_seconds: By stage, of the workers.
        busy_seconds: By worker, from when the loop had its first batch.
        read_seconds: Of all workers, from the first row on.
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
            timings: Of its rows.
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
    return batch.timings if isinstance(batch, Batch) else tuple(_timings_of_samples(batch))


def _timings_of_samples(batch: object) -> Iterator[Timing]:
    for sample in batch if isinstance(batch, (list, tuple)) else [batch]:
        if isinstance(sample, (Sample, Skipped)) and sample.timing is not None:
            yield sample.timing


def add_seconds(total: dict[K, float], seconds: Mapping[K, float]) -> None:
    """Add seconds to those of the same names."""
    for name, spent in seconds.items():
        total[name] = total.get(name, 0.0) + spent
