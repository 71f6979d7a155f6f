"""What one call on a video works with: a stream, a converter, threads, and pictures decoded lately."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from .._common import stages
from .._common.handle_pool import reclaim_threads
from .._common.threads import ThreadLease, lease_threads
from ..backends import PictureConverter
from ..errors import MediaTensorError
from .frame_cache import RecentPictures
from .frame_stream import FrameStream
from .seeking import ApproximateStream

__all__ = ["Handle", "Lane"]


@dataclass
class Lane:
    """What one thread needs to decode: a stream with its codec, and a converter with its scratch memory."""

    stream: FrameStream
    converter: PictureConverter


class Handle:
    """What one call needs: a stream, a converter, threads, and the pictures that were decoded lately.

    Args:
        stream: Stands on a fresh reader.
        make_converter: Makes what converts its frames, for each lane another.
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
        self.recent = RecentPictures()
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        #: The frame that the last call asked for, if it was a single one.
        self.last_single: int | None = None
        self._make_converter = make_converter
        self._open_stream = open_stream
        self._more_lanes: list[Lane] = []

    @property
    def chooses_threads(self) -> bool:
        """Whether the number of threads is ours to choose."""
        return self._open_stream is not None

    def num_threads(self) -> int:
        """How many threads may work on a call: what the budget has left."""
        if self.lease.num_threads == 1:
            self.lease = lease_threads(reclaim_threads)
        return self.lease.num_threads

    def lanes(self, count: int) -> list[Lane]:
        """Up to ``count`` lanes of one thread each; the first is the handle's own stream."""
        assert isinstance(self.stream, FrameStream)
        assert self._open_stream is not None
        self.stream.use_threads(1)
        with stages.OPEN, suppress(MediaTensorError):  # too many open files, say: then fewer
            while len(self._more_lanes) < count - 1:
                self._more_lanes.append(Lane(self._open_stream(), self._make_converter()))
        return [Lane(self.stream, self.converter), *self._more_lanes[: count - 1]]

    def convert_with(self, make_converter: Callable[[], PictureConverter]) -> None:
        """Convert frames in another way from now on."""
        self._make_converter, self.converter = make_converter, make_converter()
        for lane in self._more_lanes:
            lane.converter = make_converter()

    @property
    def num_open_lanes(self) -> int:
        return 1 + len(self._more_lanes)

    def close(self) -> None:
        self.recent.clear()
        for lane in self._more_lanes:
            lane.stream.reader.close()
        self.stream.reader.close()
        self.lease.release()
