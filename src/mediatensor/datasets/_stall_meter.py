"""`StallMeter`: measure how long a training loop waits for its input, and advise what to change.

The meter splits the time of a loop into its own work and four kinds of waiting: for the first batch of an epoch; for
rows that a worker is still reading; for rows that a worker has read, but that have not arrived; and for a copy or
transform that runs in the loop's own thread, as in `ToDevice`. The advice is about the largest part.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from .._engine.common.devices import checked_device
from .._engine.common.messages import counted
from .._engine.common.stages import STAGES, collect_stages, trace_range
from .._engine.common.threads import available_cores
from ..errors import InvalidArgumentError
from ._rows.samples import Batch, ColumnDict, Sample, Skipped, Timing

B = TypeVar("B")
K = TypeVar("K", bound=Hashable)

# Maximum nesting of loaders in which to search for a loader with workers.
_MAX_DEPTH = 8

#: Reading time outside the measured stages.
_OTHER = "other"

# Worker number for rows that were read in another thread of the loop's own process.
_OTHER_THREAD = -1

# Seconds of a stage up to this are rounding errors: all time of the stage has been subtracted again.
_ROUNDING_SECONDS = 1e-9

_BAR_WIDTH = 30
_LINE_LENGTH = 100


@dataclass(frozen=True)
class StallFacts:
    """Measurements of a training loop and of the workers that read its batches.

    The wait for the first batch of an epoch is mostly the start of the workers. It is counted in
    ``first_batch_seconds``, and in no other attribute. The stages of processing are ``"open"``, ``"index"``,
    ``"seek"``, ``"decode"``, ``"convert"``, ``"transform"``, ``"collate"`` and ``"copy"``.

    Attributes:
        num_epochs: Number of iterations over a loader in which the loop received at least one batch.
        num_batches: Number of batches that the loop received, including the first batch of each epoch.
        num_workers: Number of workers of the loader that was used last; ``None`` if unknown. With 0, the loop's own
            process reads.
        num_cores: Number of CPU cores that this process may use.
        first_batch_seconds: Tuple with the seconds that the loop waited for the first batch of each epoch.
        elapsed_seconds: Seconds from the first batch of an epoch to the end of the loop's work on the last batch,
            summed over the epochs.
        waited_seconds: Part of ``elapsed_seconds`` in which the loop waited for batches.
        handover_seconds: Part of ``waited_seconds`` after a worker had read the batch: time to send it to the loop's
            process, to pin it, or to process it in a function around the loader.
        loop_stage_seconds: Dict from stages to the part of ``waited_seconds`` in which the loop's own thread processed
            batches (copied them, for example). Reading rows is not included.
        stage_seconds: Dict from stages to the seconds spent on reading rows, summed over the workers. ``"other"`` is
            reading time outside the named stages. Without workers, ``stage_seconds`` has the reading time of the loop's
            own thread.
        worker_busy_shares: Dict from worker numbers to the share of the elapsed time in which the worker was reading,
            from 0 to 1. The number -1 stands for other threads of the loop's process.

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
    handover_seconds: float = 0.0
    loop_stage_seconds: Mapping[str, float] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    worker_busy_shares: Mapping[int, float] = field(default_factory=dict)

    @property
    def wait_share(self) -> float:
        """Share of ``elapsed_seconds`` in which the loop waited for batches, from 0 to 1."""
        return self.waited_seconds / self.elapsed_seconds if self.elapsed_seconds else 0.0

    @property
    def busy_share(self) -> float | None:
        """Share of ``elapsed_seconds`` in which a worker was reading, from 0 to 1, as the mean of all workers.

        It is ``None`` if no worker's reading times are known.
        """
        shares = self.worker_busy_shares.values()
        return sum(shares) / len(shares) if shares else None


class StallMeter:
    """Measures how long a training loop waits for input and what its workers do meanwhile, and advises what to change.

    Time in ``next()`` of the loader counts as waiting, and time between two calls of ``next()`` as working. Batches of
    mediatensor's datasets also record which worker read them, when, and how long each stage took: opening, indexing,
    seeking, decoding, converting, transforming, collating. Times from different processes are comparable, because all
    processes of a machine share one monotonic clock on Linux, macOS and Windows. For batches of other libraries, only
    the waiting time is known.

    The meter adds up all epochs, even if they use different loaders. In a trace of ``torch.profiler``, waiting appears
    as ``mediatensor::wait``. The meter costs a few microseconds per batch.

    Args:
        device: The GPU that the loop uses, such as ``"cuda"``; by default, the meter does not wait for a GPU. Python
            runs ahead of the GPU, so a loop can ask for the next batch while the GPU is still computing. With
            ``device``, the meter waits for the GPU before each ``next()``, and counts this time as working.

    Raises:
        InvalidArgumentError: if the device does not exist.

    Example:
        >>> from mediatensor.datasets import StallMeter
        >>> with StallMeter() as meter:
        ...     for batch in meter.watch([1, 2, 3]):
        ...         pass
        >>> meter.facts.num_batches, meter.advice
        (3, 'Too few batches for advice (3; at least 5).')
        >>> print(meter)  # doctest: +SKIP
        The loop waited 31 % of 20.1 s: 48 batches in 2 epochs, 2 workers on 2 cores.
        ...
    """

    def __init__(self, *, device: str | torch.device | None = None) -> None:
        self._synchronize = _synchronizer(device)
        self._epochs: list[_Epoch] = []

    def watch(self, loader: Iterable[B]) -> Watched[B]:
        """Return an iterable over the batches of a loader. Iterate over it in your training loop instead of the loader.

        Args:
            loader: A ``DataLoader`` of torch or mediatensor, a ``StatefulDataLoader``, a `ToDevice`, or any iterable.

        Example:
            >>> from mediatensor.datasets import StallMeter
            >>> meter = StallMeter()
            >>> list(meter.watch(["first", "second"])), len(meter.watch(["first", "second"]))
            (['first', 'second'], 2)
        """
        return Watched(loader, self._epochs, self._synchronize)

    def __enter__(self) -> StallMeter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.monotonic()
        for epoch in self._epochs:
            epoch.ended = now if epoch.ended is None else epoch.ended

    @property
    def facts(self) -> StallFacts:
        """The measurements of all epochs so far, as `StallFacts`."""
        return _facts_of(self._epochs, now=time.monotonic(), num_cores=available_cores())

    @property
    def advice(self) -> str:
        """One sentence on where the loop could save the most time, and what to change for it."""
        return _advice(self.facts)

    def as_dict(self) -> dict[str, Any]:
        """Return the measurements as a dict that can be written as JSON.

        The keys are the attributes of `StallFacts`, ``wait_share``, ``busy_share`` and ``advice``.

        Example:
            >>> from mediatensor.datasets import StallMeter
            >>> StallMeter().as_dict()["num_batches"]
            0
        """
        facts = self.facts
        return {
            **dataclasses.asdict(facts),
            "first_batch_seconds": list(facts.first_batch_seconds),
            "worker_busy_shares": {str(worker): share for worker, share in facts.worker_busy_shares.items()},
            "wait_share": facts.wait_share,
            "busy_share": facts.busy_share,
            "advice": _advice(facts),
        }

    def __str__(self) -> str:
        facts = self.facts
        return "\n".join(_table_lines(facts)) if facts.num_batches else "No batch was watched."


class Watched(Generic[B]):
    """An iterable over the batches of a loader. A `StallMeter` measures its iterations, each as one epoch."""

    def __init__(self, loader: Iterable[B], epochs: list[_Epoch], synchronize: Callable[[], object]) -> None:
        self._loader = loader
        self._epochs = epochs
        self._synchronize = synchronize

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[B]:
        epoch = _Epoch(_num_workers_of(self._loader), getattr(self._loader, "num_batches_ahead", 0))
        self._epochs.append(epoch)
        batches: Iterator[B] | None = None
        try:
            while True:
                self._synchronize()
                asked = time.monotonic()
                with collect_stages() as seconds, trace_range("wait"):
                    try:
                        if batches is None:
                            batches = iter(self._loader)  # starts the workers
                        batch = next(batches)
                    except StopIteration:
                        epoch.ended = asked
                        return
                epoch.add(asked, time.monotonic(), _timings_of(batch), seconds)
                yield batch
                del batch
        finally:
            epoch.ended = time.monotonic() if epoch.ended is None else epoch.ended


def _num_workers_of(loader: object) -> int | None:
    for _ in range(_MAX_DEPTH):
        num_workers = getattr(loader, "num_workers", None)
        if isinstance(num_workers, int):
            return num_workers
        loader = getattr(loader, "loader", None)
    return None


def _synchronizer(device: str | torch.device | None) -> Callable[[], object]:
    checked = checked_device("cpu" if device is None else device)
    if checked.type == "cpu":
        return lambda: None
    module: Any = getattr(torch, checked.type, None)
    if not hasattr(module, "synchronize"):
        raise InvalidArgumentError(
            f"device must be a device that torch can synchronize with, such as 'cuda' (got {device!r})."
        )
    return partial(module.synchronize, checked) if checked.type in ("cuda", "xpu") else module.synchronize


def _timings_of(batch: object) -> tuple[Timing, ...]:
    if isinstance(batch, Batch | ColumnDict):
        return batch.timings
    samples = batch if isinstance(batch, (list, tuple)) else [batch]
    timings = (sample.timing for sample in samples if isinstance(sample, (Sample, Skipped)))
    return tuple(timing for timing in timings if timing is not None)


# Measuring


@dataclass
class _Epoch:
    """The measurements of one iteration over a loader. Times are seconds of the machine's monotonic clock.

    For each batch, ``asked`` and ``given`` are the times when the loop requested and received it. ``finished`` is the
    time when a worker finished reading it; NaN if unknown, or if the loop's own thread read it. Whenever the loader
    returns a batch, it has already fetched the ``num_batches_ahead`` batches after it. ``busy_seconds`` has the reading
    time of each worker since the first batch was received. ``loop_stage_seconds`` has the time that the loop's own
    thread spent in each stage while waiting. ``ended`` is ``None`` while the iteration runs.
    """

    num_workers: int | None = None
    num_batches_ahead: int = 0
    asked: array[float] = field(default_factory=lambda: array("d"))
    given: array[float] = field(default_factory=lambda: array("d"))
    finished: array[float] = field(default_factory=lambda: array("d"))
    stage_seconds: dict[str, float] = field(default_factory=dict)
    busy_seconds: dict[int, float] = field(default_factory=dict)
    loop_stage_seconds: dict[str, float] = field(default_factory=dict)
    reads_itself: bool = False
    ended: float | None = None

    def add(self, asked: float, given: float, timings: Iterable[Timing], loop_seconds: Mapping[str, float]) -> None:
        """Record a batch that the loop requested at ``asked`` and received at ``given``.

        ``loop_seconds`` has the time that the loop's own thread spent in each stage between these two times.
        """
        if self.given:
            _add_seconds(self.loop_stage_seconds, loop_seconds)
        self.asked.append(asked)
        self.given.append(given)
        finished = math.nan
        for timing in timings:
            seconds = timing.finished - timing.started
            stages = timing.stage_seconds | {_OTHER: max(0.0, seconds - sum(timing.stage_seconds.values()))}
            if self._was_read_by_loop(timing):
                self.reads_itself = True
                if timing.started >= self.given[0]:
                    _add_seconds(self.stage_seconds, stages)
                    _add_seconds(self.loop_stage_seconds, {name: -spent for name, spent in stages.items()})
                continue
            finished = max(timing.finished, finished) if finished == finished else timing.finished
            worker = _OTHER_THREAD if timing.worker is None else timing.worker
            begun = max(timing.started, self.given[0])
            _add_seconds(self.busy_seconds, {worker: max(0.0, timing.finished - begun)})
            _add_seconds(self.stage_seconds, stages)
        self.finished.append(finished)

    def _was_read_by_loop(self, timing: Timing) -> bool:
        """Return whether no worker read the rows of ``timing``, and reading began while the loop waited for a batch."""
        if timing.worker is not None:
            return False
        last_asked = bisect_right(self.asked, timing.started) - 1
        return last_asked >= 0 and timing.started <= self.given[last_asked]

    @property
    def waited_seconds(self) -> float:
        return math.fsum(self.given[1:]) - math.fsum(self.asked[1:])

    @property
    def handover_seconds(self) -> float:
        """Time in which the loop waited for batches that workers had read, without processing in its own thread."""
        asked, given, finished = (np.array(times, np.float64) for times in (self.asked, self.given, self.finished))
        ahead = min(self.num_batches_ahead, len(finished))
        finished = np.append(finished[ahead:], np.full(ahead, math.nan))[1:]
        spent = np.clip(given[1:] - np.fmax(asked[1:], finished), 0.0, None)
        return max(0.0, float(spent[~np.isnan(finished)].sum()) - sum(self.loop_stage_seconds.values()))


def _add_seconds(total: dict[K, float], seconds: Mapping[K, float]) -> None:
    for name, spent in seconds.items():
        total[name] = total.get(name, 0.0) + spent


def _facts_of(epochs: Sequence[_Epoch], *, now: float, num_cores: int) -> StallFacts:
    """Add up the measurements of all epochs with a batch. An epoch that has not ended counts up to the time ``now``."""
    epochs = [epoch for epoch in epochs if len(epoch.given)]
    if not epochs:
        return StallFacts(num_cores=num_cores)
    elapsed = sum((now if epoch.ended is None else epoch.ended) - epoch.given[0] for epoch in epochs)
    busy: dict[int, float] = {}
    stages: dict[str, float] = {}
    loop_stages: dict[str, float] = {}
    for epoch in epochs:
        if epoch.busy_seconds:
            _add_seconds(busy, dict.fromkeys(range(epoch.num_workers or 0), 0.0) | epoch.busy_seconds)
        _add_seconds(stages, epoch.stage_seconds)
        _add_seconds(loop_stages, epoch.loop_stage_seconds)
    num_workers = epochs[-1].num_workers
    if num_workers is None:
        num_workers = 0 if epochs[-1].reads_itself else len(busy) or None
    return StallFacts(
        num_epochs=len(epochs),
        num_batches=sum(len(epoch.given) for epoch in epochs),
        num_workers=num_workers,
        num_cores=num_cores,
        first_batch_seconds=tuple(epoch.given[0] - epoch.asked[0] for epoch in epochs),
        elapsed_seconds=elapsed,
        waited_seconds=sum(epoch.waited_seconds for epoch in epochs),
        handover_seconds=sum(epoch.handover_seconds for epoch in epochs),
        loop_stage_seconds=_in_order(loop_stages),
        stage_seconds=_in_order(stages),
        worker_busy_shares={worker: busy[worker] / elapsed for worker in sorted(busy)} if elapsed else {},
    )


def _in_order(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each stage that took time, in the order in which a sample goes through the stages.

    >>> _in_order({"other": 0.5, "decode": 2.0, "open": 1.0, "copy": 0.0})
    {'open': 1.0, 'decode': 2.0, 'other': 0.5}
    """
    names = [*STAGES, *sorted(seconds.keys() - set(STAGES))]
    return {name: seconds[name] for name in names if seconds.get(name, 0.0) > _ROUNDING_SECONDS}


# Advice

# With fewer batches, the start dominates the measurement.
_MIN_BATCHES = 5
# A loop that waits for a smaller share of its time gains little from faster input.
_WAITS_LITTLE = 0.05
# Workers that read for a larger share of the time have no more capacity: they also send batches, and wait for a core.
_BUSY = 0.8
# First batches with a smaller share of the total time need no advice.
_LONG_START = 0.2

# Stages with the same remedy.
_GROUPS = {"index": "open", "seek": "decode"}
_REMEDIES = {
    "open": "more rows of each opened file (rows_per_file, Shuffle(rows_together=4)), kept indexes "
    "(mediatensor.set_index_cache), more open files (max_open_files)",
    "decode": "fewer or smaller frames, Shuffle(rows_together=4), videos with key frames closer together",
    "convert": "smaller frames from the decoder (decoder_options={'transforms': [Resize(...)]}), and float32 only on "
    "the device",
    "transform": "transforms on the device (ToDevice), and crop and resize in the decoder",
    "collate": "samples of one shape from the decoder, so that they need no padding",
    "other": "a profiler, to see what the sampler and your own functions do",
}


def _advice(facts: StallFacts) -> str:
    """Return one sentence on where the loop could save the most time, and what to change for it.

    >>> _advice(StallFacts(num_batches=100, num_workers=2, elapsed_seconds=10.0, waited_seconds=0.1))[:58]
    'The loop body is the bottleneck: the loop waits for input '
    """
    if facts.num_batches < _MIN_BATCHES:
        return f"Too few batches for advice ({facts.num_batches}; at least {_MIN_BATCHES})."
    start = sum(facts.first_batch_seconds)
    if start > facts.waited_seconds and start >= _LONG_START * (start + facts.elapsed_seconds):
        share = _percent(start / (start + facts.elapsed_seconds))
        return (
            f"The start is slow: the first batch of an epoch takes {start / len(facts.first_batch_seconds):.2g} s, "
            f"{share} of all time: try persistent_workers=True, fewer workers, mediatensor.set_index_cache."
        )
    waiting = f"the loop waits for input {_percent(facts.wait_share)} of its time"
    if facts.wait_share < _WAITS_LITTLE:
        return f"The loop body is the bottleneck: {waiting}, and a faster input would not help."
    parts = dict(facts.loop_stage_seconds)
    if facts.num_workers == 0 and not facts.stage_seconds:  # reading stages of other libraries' batches are unknown
        parts = {name: parts[name] for name in ("transform", "copy") if name in parts}
    parts["handover"] = facts.handover_seconds
    parts["reading"] = facts.waited_seconds - sum(parts.values())
    largest = max(parts, key=parts.__getitem__)
    share = _percent(parts[largest] / facts.waited_seconds)
    if largest == "reading":
        return _advice_on_reading(facts, waiting)
    if largest == "copy":
        return (
            f"The copy to the device is slow: {waiting}, {share} of it for copies in its own thread: try "
            "pin_memory=True, smaller frames, uint8 until they are on the device."
        )
    if largest == "handover":
        return (
            f"The transfer from the workers is slow: {waiting}, {share} of it for batches that had been read and were "
            "being sent or pinned, or were in a function around the loader: try smaller frames, uint8 until they are "
            "on the device, and that function in the workers."
        )
    return (
        f"Work in the loop's own thread is slow: {waiting}, {share} of it for {largest} in that thread: make this "
        "cheaper, or have the workers do it (transform=... of the dataset)."
    )


def _advice_on_reading(facts: StallFacts, waiting: str) -> str:
    if facts.num_workers == 0:
        return (
            f"The loop reads its batches itself (num_workers=0): {waiting}: try num_workers={_num_needed(1, facts)} "
            f"({counted(facts.num_cores, 'core')} here), so that workers read while the loop works."
        )
    if facts.busy_share is None:
        return (
            f"The input is the bottleneck: {waiting}. The reason is unknown, because only objects of type Batch record "
            "it: use collate_fn=stack, ragged or pad of mediatensor.datasets."
        )
    if facts.busy_share < _BUSY:
        return (
            f"The workers do not read far enough ahead: {waiting}, for batches that are being read, while workers are "
            f"idle {_percent(1 - facts.busy_share)}: try prefetch_factor=4, or batches of similar cost (bucket_by)."
        )
    num_workers = facts.num_workers or len(facts.worker_busy_shares)
    groups: dict[str, float] = {}
    for stage, seconds in facts.stage_seconds.items():
        _add_seconds(groups, {_GROUPS.get(stage, stage): seconds})
    main = max(groups, key=groups.__getitem__)
    share = _percent(groups[main] / sum(groups.values()))
    needed, cores = _num_needed(num_workers, facts), counted(facts.num_cores, "core")
    more = f"num_workers={needed} ({cores} here), " if needed > num_workers else ""
    return (
        f"The workers are slow: {waiting}, and {counted(num_workers, 'worker')} on {cores} read for "
        f"{_percent(facts.busy_share)} of it, {share} of that in {main}: try {more}{_REMEDIES.get(main, main)}."
    )


def _num_needed(num_workers: int, facts: StallFacts) -> int:
    """Return the estimated number of workers that would keep up with the loop, but at most the number of cores."""
    return max(1, min(math.ceil(num_workers / max(1e-3, 1 - facts.wait_share)), facts.num_cores))


# Text


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _table_lines(facts: StallFacts) -> Iterator[str]:
    readers = "," if facts.num_workers is None else f", {counted(facts.num_workers, 'worker')} on"
    yield (
        f"The loop waited {_percent(facts.wait_share)} of {_seconds(facts.elapsed_seconds)}: "
        f"{counted(facts.num_batches, 'batch')} in {counted(facts.num_epochs, 'epoch')}"
        f"{readers} {counted(facts.num_cores, 'core')}."
    )
    firsts = ", ".join(map(_seconds, facts.first_batch_seconds[:5])) + (", ..." if facts.num_epochs > 5 else "")
    yield f"First {'batch' if facts.num_epochs == 1 else 'batches'}, not counted in it: {firsts}"
    elapsed = facts.elapsed_seconds
    waits = dict(facts.loop_stage_seconds) | {"handover": facts.handover_seconds}
    waits["reading" if facts.stage_seconds else "unknown"] = facts.waited_seconds - sum(waits.values())
    busy = {
        "thread" if worker == _OTHER_THREAD else f"worker {worker}": share * elapsed
        for worker, share in facts.worker_busy_shares.items()
    }
    yield from _bars("loop", {"working": elapsed - facts.waited_seconds, "waiting": facts.waited_seconds}, elapsed)
    yield from _bars("waiting for", waits, facts.waited_seconds)
    yield from _bars("workers, busy", busy, elapsed)
    yield from _bars("reading", facts.stage_seconds, sum(facts.stage_seconds.values()))
    yield ""
    yield textwrap.fill(_advice(facts), _LINE_LENGTH)


def _bars(title: str, seconds: Mapping[str, float], total: float) -> Iterator[str]:
    if seconds and total:
        yield from ("", title)
    for name, spent in seconds.items() if total else ():
        bar = "#" * round(_BAR_WIDTH * spent / total)
        yield f"  {name:<10} {bar:<{_BAR_WIDTH}} {100 * spent / total:3.0f} %  {_seconds(spent)}"
