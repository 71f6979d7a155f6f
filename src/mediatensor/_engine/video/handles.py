"""What one call on a video works with: a stream, a converter, threads, and the frame cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ...backends import PictureConverter
from ...errors import MediaTensorError
from ..common import stages
from ..common.handle_pool import reclaim_threads
from ..common.threads import ThreadLease, lease_threads
from .approximate_stream import ApproximateStream
from .frame_cache import FrameCache
from .frame_stream import FrameStream

__all__ = ["Handle", "Worker"]


@dataclass(slots=True)
class Worker:
    """What one thread needs to decode: a stream with its codec, and a converter with its scratch memory."""

    stream: FrameStream
    converter: PictureConverter


class Handle:
    """What one call needs: a stream, a converter, threads, and the frame cache.

    Args:
        stream: Stands on a fresh reader.
        make_converter: Makes what converts its frames, for each worker another.
        open_stream: Opens the source once more for one thread; ``None`` if the number of codec threads is the user's
            choice.
    """

    def __init__(
        self,
        stream: FrameStream | ApproximateStream,
        make_converter: Callable[[], PictureConverter],
        open_stream: Callable[[], FrameStream] | None = None,
    ) -> None:
        self.stream = stream
        self.converter = make_converter()
        if isinstance(stream, FrameStream):
            #: The handle's own stream and converter; there is none in approximate mode.
            self.worker = Worker(stream, self.converter)
        self.frame_cache = FrameCache()
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        #: The frame that the last call asked for, if it was a single one.
        self.last_single: int | None = None
        self._make_converter = make_converter
        self._open_stream = open_stream
        self._more_workers: list[Worker] = []

    @property
    def chooses_threads(self) -> bool:
        """Whether the number of threads is ours to choose."""
        return self._open_stream is not None

    def num_threads(self) -> int:
        """How many threads may work on a call: those of the budget that nobody else uses."""
        if self.lease.num_threads == 1:
            self.lease = lease_threads(reclaim_threads)
        return self.lease.num_threads

    def workers(self, count: int) -> list[Worker]:
        """Up to ``count`` workers of one thread each; the first has the handle's own stream."""
        first = self.worker
        assert self._open_stream is not None
        first.stream.use_threads(1)
        with stages.OPEN, suppress(MediaTensorError):  # too many open files, say: then fewer
            while len(self._more_workers) < count - 1:
                self._more_workers.append(Worker(self._open_stream(), self._make_converter()))
        return [first, *self._more_workers[: count - 1]]

    @property
    def num_open_workers(self) -> int:
        return 1 + len(self._more_workers)

    def convert_with(self, make_converter: Callable[[], PictureConverter]) -> None:
        """Convert frames in another way from now on."""
        self._make_converter, self.converter = make_converter, make_converter()
        if isinstance(self.stream, FrameStream):
            self.worker = Worker(self.stream, self.converter)
        for worker in self._more_workers:
            worker.converter = make_converter()

    def close(self) -> None:
        self.frame_cache.close()
        for worker in self._more_workers:
            worker.stream.reader.close()
        self.stream.reader.close()
        self.lease.release()
