"""Opening an audio stream for one call at a time, and the threads that decode it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .._common.handle_pool import reclaim_threads
from .._common.threads import ThreadLease, lease_threads
from .._pyav import AudioReader, has_frame_threads
from .._sources import Source
from .reader import SoundReader
from .stream import AudioStream

__all__ = ["AudioHandle", "AudioHandleSpec"]

# Sound shorter than this decodes before its threads have started.
_MIN_SECONDS_FOR_THREADS = 10.0


class AudioHandle:
    """What one call needs: a stream, and the threads of its codec.

    Args:
        open_reader: Opens the stream of sound, decoded by that many threads.
        num_threads: Threads to begin with; ``None`` if the number is ours to choose.

    Attributes:
        stream: Seeks, if it can.
        is_at_end: Whether the last range ended because the stream did.
    """

    def __init__(self, open_reader: Callable[[int], AudioReader], num_threads: int | None) -> None:
        self._open_reader = open_reader
        self._num_threads = 1 if num_threads is None else num_threads
        self.stream = AudioStream(open_reader(self._num_threads))
        self._counting_stream: AudioStream | None = None
        self.is_at_end = False
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self._may_have_threads = num_threads is None and has_frame_threads(self.stream.codec)

    @property
    def counting_stream(self) -> AudioStream:
        """The same, decoded from the beginning, for ranges whose time stamps do not tell which samples they are.

        It has a reader of its own: the others still seek, so that what a range is does not depend on earlier ones.
        """
        if self._counting_stream is None:
            self._counting_stream = AudioStream(self._open_reader(self._num_threads), counts=True)
        return self._counting_stream

    def prepare_for(self, seconds: float | None) -> None:
        """Take threads of the process's budget for a call that decodes that much; ``None`` is the whole stream."""
        if not self._may_have_threads or self.lease.num_threads > 1:
            return
        if seconds is None or seconds >= _MIN_SECONDS_FOR_THREADS:
            self.lease = lease_threads(reclaim_threads)
            if self.lease.num_threads > 1:
                self._num_threads = self.lease.num_threads
                self.stream.use_threads(self._num_threads)

    def close(self) -> None:
        self.stream.reader.close()
        if self._counting_stream is not None:
            self._counting_stream.reader.close()
        self.lease.release()


@dataclass(frozen=True)
class AudioHandleSpec:
    """All that opening a handle needs; picklable."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None

    def open(self) -> AudioHandle:
        return AudioHandle(partial(SoundReader, self.source, self.stream_index), self.num_ffmpeg_threads)
