"""A handle on one audio stream, used by one call at a time: the open stream, its codec threads, and retries.

A handle reads a range in three steps: plan, stream, batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ..common.handle_pool import reclaim_threads
from ..common.threads import ThreadLease, lease_threads
from ..pyav.audio import AudioReader, has_frame_threads
from ..sources.source import Source
from .batch import samples_of
from .plan import SamplePlan
from .reader import SeekMissedError, SoundReader, UnknownPositionError
from .stream import AudioStream

__all__ = ["AudioHandle", "AudioHandleSpec"]

# Shorter audio is decoded before its threads have started.
_MIN_SECONDS_FOR_THREADS = 10.0

# Largest length in a header for which memory is allocated: ten hours at 48 kHz.
_MAX_EXPECTED_SAMPLES = 36_000 * 48_000


class AudioHandle:
    """An open stream and the threads of its codec.

    Args:
        open_reader: Opens a reader, given the number of codec threads.
        num_threads: Number of threads; ``None`` to choose by the length of a range.

    Attributes:
        stream: The usual stream, which seeks if its format and codec allow it.
        is_at_end: Whether the last range ended at the end of the stream.
    """

    # Most calls read to the end of the stream, and PyAV may drop a signal's exception while it raises that end.
    keeps_interrupts = True

    def __init__(self, open_reader: Callable[[int], AudioReader], num_threads: int | None) -> None:
        self._open_reader = open_reader
        self._num_threads = 1 if num_threads is None else num_threads
        reader = open_reader(self._num_threads)
        self.stream = AudioStream(reader)
        self._sequential_stream: AudioStream | None = None
        self.is_at_end = False
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self._may_have_threads = num_threads is None and has_frame_threads(self.stream.codec)

    def read(self, plan: SamplePlan, duration_seconds: float | None) -> Tensor:
        """Return the samples of a plan as float32 (channels, samples); fewer if the stream ends early.

        Args:
            plan: Made for the stream's sample rate.
            duration_seconds: Duration of the stream, according to its header.

        Raises:
            DecodeError: if a packet with wanted samples cannot be decoded.
            ReadError: if the source cannot be read.
        """
        start = plan.start or 0
        if plan.stop is None:
            length = min(math.ceil((duration_seconds or 0.0) * plan.stream_rate), _MAX_EXPECTED_SAMPLES) - start
        else:
            length = plan.stop - start
        if self._may_have_threads:
            self._take_threads(math.inf if plan.start is None else length / plan.stream_rate)
        stream = self.stream
        while True:
            try:
                samples = samples_of(stream.slices(plan), plan, length)
            except UnknownPositionError:
                # The second stream has its own reader. The first stream still seeks, so that the samples of a range do
                # not depend on earlier ranges.
                if self._sequential_stream is None:
                    self._sequential_stream = AudioStream(self._open_reader(self._num_threads), is_sequential=True)
                stream = self._sequential_stream
            except SeekMissedError:
                continue
            else:
                self.is_at_end = stream.is_at_end
                return samples

    def _take_threads(self, seconds: float) -> None:
        """Lease threads from the process's budget if a range of ``seconds`` is long enough."""
        if self.lease.num_threads == 1 and seconds >= _MIN_SECONDS_FOR_THREADS:
            self.lease = lease_threads(reclaim_threads)
            if self.lease.num_threads > 1:
                self._num_threads = self.lease.num_threads
                self.stream.use_threads(self._num_threads)

    def close(self) -> None:
        self.stream.reader.close()
        if self._sequential_stream is not None:
            self._sequential_stream.reader.close()
        self.lease.release()


@dataclass(frozen=True)
class AudioHandleSpec:
    """The arguments for opening a handle; picklable."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None

    def open(self) -> AudioHandle:
        return AudioHandle(partial(SoundReader, self.source, self.stream_index), self.num_ffmpeg_threads)
