"""The order of the work that `ToDevice` puts into CUDA streams, on a replacement of torch.cuda."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from mediatensor.datasets import ToDevice
from mediatensor.datasets._batches.to_device import CopyAhead, CopyNow


class Stream:
    """Work that is done later, when `Streams.run` gets to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.work: deque[Callable[[], bool]] = deque()

    def wait_event(self, event: Event) -> None:
        self.work.append(lambda: event.is_reached)


class Event:
    is_reached = False

    def record(self, stream: Stream) -> None:
        def reach() -> bool:
            self.is_reached = True
            return True

        stream.work.append(reach)


class Streams:
    """The part of ``torch.cuda`` that `CopyAhead` uses: the current stream, and new streams."""

    def __init__(self) -> None:
        self.main = Stream("main")
        self.current = self.main
        self.side = Stream("side")

    def Stream(self, device: torch.device) -> Stream:
        return self.side

    def Event(self) -> Event:
        return Event()

    def current_stream(self, device: torch.device) -> Stream:
        return self.current

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def run(self, first: Stream, second: Stream) -> None:
        """Do the work of one stream until it waits, then the work of the other, until all is done."""
        while first.work or second.work:
            done = sum(self._advance(stream) for stream in (first, second))
            assert done, "the streams wait for each other"

    @staticmethod
    def _advance(stream: Stream) -> int:
        done = 0
        while stream.work and stream.work[0]():
            stream.work.popleft()
            done += 1
        return done


@dataclass
class Cargo:
    """A batch whose copies take place when its stream gets to them."""

    data: Tensor
    streams: Streams
    is_pinned: bool = False

    def pin_memory(self) -> Cargo:
        return Cargo(self.data, self.streams, is_pinned=True)

    def to(self, device: torch.device, *, non_blocking: bool) -> Cargo:
        assert self.is_pinned
        assert non_blocking
        target = torch.full_like(self.data, -1)

        def copy() -> bool:
            target.copy_(self.data)
            return True

        self.streams.current.work.append(copy)
        return Cargo(target, self.streams)


@pytest.mark.parametrize("main_is_first", [True, False])
def test_computation_waits_for_its_own_copy_only(monkeypatch: pytest.MonkeyPatch, main_is_first: bool) -> None:
    streams = Streams()
    recorded: list[tuple[int, Stream]] = []
    monkeypatch.setattr(Tensor, "record_stream", lambda self, stream: recorded.append((id(self), stream)))
    ahead = CopyAhead(torch.device("cpu"), streams)
    monkeypatch.setattr(CopyNow, "num_ahead", CopyAhead.num_ahead)
    monkeypatch.setattr(CopyNow, "begin", lambda self, batch: ahead.begin(batch))
    monkeypatch.setattr(CopyNow, "complete", lambda self, begun: ahead.complete(begun))
    seen: list[int] = []
    waiting_copies = []

    def compute(data: Tensor) -> Callable[[], bool]:
        def read() -> bool:
            seen.append(int(data[0]))
            return True

        return read

    ready: list[Cargo] = []
    for cargo in ToDevice((Cargo(torch.full((2,), i), streams) for i in range(4)), "cpu"):
        ready.append(cargo)
        assert (id(cargo.data), streams.main) in recorded
        streams.main.work.append(compute(cargo.data))
        waiting_copies.append(len(streams.side.work))
    assert len(recorded) == 4
    # Each copy and its event are in the side stream one batch before they are needed.
    assert waiting_copies == [4, 6, 8, 8]
    streams.run(*((streams.main, streams.side) if main_is_first else (streams.side, streams.main)))
    assert seen == [0, 1, 2, 3]


def test_the_program_does_not_wait_for_the_next_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    monkeypatch.setattr(Tensor, "record_stream", lambda self, stream: None)
    copies = CopyAhead(torch.device("cpu"), streams)
    first, second = (copies.begin(Cargo(torch.ones(1), streams)) for _ in range(2))
    copies.complete(first)
    # The first copy and its event are done, the second is not: the computation on the first can continue.
    for _ in range(2):
        assert streams.side.work.popleft()()
    assert streams.main.work.popleft()()
    copies.complete(second)
    assert not streams.main.work.popleft()()
