"""`StallMeter`: whether a training loop waits for its input, and what to do about it."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from ..._common.devices import checked_device
from ..._common.stages import collect_stages, trace_range
from ..._common.threads import available_cores
from ...errors import InvalidArgumentError
from .facts import EpochRecord, StallFacts, advice, facts_of, timings_of
from .plot import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["StallMeter"]

B = TypeVar("B")

# Loaders within loaders are looked through to this depth for one that has workers.
_MAX_DEPTH = 8


class StallMeter:
    """Tells how much of its time a training loop waits for input, what its workers do meanwhile, and what may help.

    The time within ``next()`` counts as waiting, and the time between two calls as working. Batches of mediatensor's
    datasets also tell which worker read them, when, and how long each stage took: opening, indexing, seeking,
    decoding, converting, transforming. Times of different processes can be compared because Python's monotonic clock
    is the same for all processes of a machine, on Linux, macOS and Windows. For other batches, only the waiting is
    known.

    Several epochs, also of several loaders, add up. In a trace of ``torch.profiler``, waiting appears as
    ``mediatensor::wait``. Watching costs some microseconds a batch.

    Args:
        device: A GPU that the loop works on. Python runs ahead of the GPU, so that a loop may wait for input while the
            GPU still works. With a device, the meter waits for it before each ``next()``, and its work counts as
            working.

    Raises:
        InvalidArgumentError: if there is no such device.

    Example:
        >>> from mediatensor.datasets import StallMeter
        >>> with StallMeter() as meter:
        ...     for batch in meter.watch([1, 2, 3]):
        ...         pass
        >>> meter.facts.num_batches, meter.advice
        (3, ['too few batches to say anything (3; at least 5)'])
        >>> print(meter)  # doctest: +SKIP
        The loop waited 31 % of 20.1 s: 48 batches in 2 epochs, 2 workers on 2 cores.
        ...
    """

    def __init__(self, *, device: str | torch.device | None = None) -> None:
        self._synchronize = _synchronizer(device)
        self._epochs: list[EpochRecord] = []

    def watch(self, loader: Iterable[B]) -> Watched[B]:
        """The batches of a loader; to be iterated over in place of it.

        Args:
            loader: torch's ``DataLoader`` or ours, a ``StatefulDataLoader``, `ToDevice`, or anything that gives
                batches.

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
        """The measurements so far, of all epochs together."""
        return facts_of(self._epochs, now=time.monotonic(), num_cores=available_cores())

    @property
    def advice(self) -> list[str]:
        """Advice on how to make the input faster, or that it is fast enough; the most important sentence first."""
        return advice(self.facts)

    def as_dict(self) -> dict[str, Any]:
        """The fields of `facts`, shares and advice; plain numbers, texts and lists, as JSON takes them.

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
            "advice": advice(facts),
        }

    def __str__(self) -> str:
        facts = self.facts
        return table(facts, advice(facts))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw how long each batch was waited for and worked on, and how the loop and its workers spent their time.

        Args:
            path: A file to write, such as ``"stalls.png"`` or ``"stalls.svg"``.

        Returns:
            The figure; notebooks show it.

        Raises:
            MissingDependencyError: if matplotlib is not installed.
            WriteError: if the file cannot be written.

        Example:
            >>> from mediatensor.datasets import DataLoader, StallMeter, VideoClips
            >>> with StallMeter() as meter:
            ...     for batch in meter.watch(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1)):
            ...         pass
            >>> figure = meter.plot("stalls.png")
        """
        from .plot import plot_stalls, save_figure

        figure: Figure = plot_stalls(self._epochs, self.facts)
        if path is not None:
            save_figure(figure, path)
        return figure


class Watched(Generic[B]):
    """The batches of a loader that a `StallMeter` watches; each iteration is an epoch of the meter."""

    def __init__(self, loader: Iterable[B], epochs: list[EpochRecord], synchronize: Callable[[], object]) -> None:
        self._loader = loader
        self._epochs = epochs
        self._synchronize = synchronize

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[B]:
        epoch = EpochRecord(_num_workers(self._loader), getattr(self._loader, "num_batches_ahead", 0))
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
                given = time.monotonic()
                epoch.add(asked, given, timings_of(batch), seconds)
                yield batch
                del batch
        finally:
            epoch.ended = time.monotonic() if epoch.ended is None else epoch.ended


def _num_workers(loader: object) -> int | None:
    """How many workers a loader has, or one that it wraps."""
    for _ in range(_MAX_DEPTH):
        num_workers = getattr(loader, "num_workers", None)
        if isinstance(num_workers, int):
            return num_workers
        loader = getattr(loader, "loader", None)
    return None


def _synchronizer(device: str | torch.device | None) -> Callable[[], object]:
    """A function that waits until a device has nothing left to do."""
    checked = checked_device("cpu" if device is None else device)
    if checked.type == "cpu":
        return lambda: None
    module: Any = getattr(torch, checked.type, None)
    if not hasattr(module, "synchronize"):
        raise InvalidArgumentError(f"device must be one that can be waited for, such as 'cuda' (got {device!r}).")
    return partial(module.synchronize, checked) if checked.type in ("cuda", "xpu") else module.synchronize
