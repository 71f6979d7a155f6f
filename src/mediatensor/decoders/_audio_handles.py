"""Opening an audio stream for one call at a time, and the threads that decode it."""

from __future__ import annotations

from dataclasses import dataclass

from .._pyav import has_frame_threads
from .._source import Source
from .._threads import ThreadLease, lease_threads
from ._audio_stream import AudioStream
from ._handle_pool import reclaim_threads
from ._mp3_reader import Mp3SeekingReader

__all__ = ["AudioHandle", "AudioHandleSpec"]

# Sound shorter than this decodes before its threads have started.
_MIN_SECONDS_FOR_THREADS = 10.0


class AudioHandle:
    """What one call needs: a stream, and the threads of its codec.

    Args:
        stream: Stands on a fresh reader.
        chooses_threads: Whether the number of threads is ours to choose.
    """

    def __init__(self, stream: AudioStream, *, chooses_threads: bool) -> None:
        self.stream = stream
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self._may_have_threads = chooses_threads and has_frame_threads(stream.codec)

    def prepare_for(self, seconds: float | None) -> None:
        """Take threads of the process's budget for a call that decodes that much; ``None`` is the whole stream."""
        if not self._may_have_threads or self.lease.num_threads > 1:
            return
        if seconds is None or seconds >= _MIN_SECONDS_FOR_THREADS:
            self.lease = lease_threads(reclaim_threads)
            if self.lease.num_threads > 1:
                self.stream.use_threads(self.lease.num_threads)

    def close(self) -> None:
        self.stream.reader.close()
        self.lease.release()


@dataclass(frozen=True)
class AudioHandleSpec:
    """All that opening a handle needs; picklable."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None

    def open(self) -> AudioHandle:
        num_threads = 1 if self.num_ffmpeg_threads is None else self.num_ffmpeg_threads
        reader = Mp3SeekingReader(self.source, self.stream_index, num_threads)
        return AudioHandle(AudioStream(reader), chooses_threads=self.num_ffmpeg_threads is None)
