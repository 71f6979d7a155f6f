"""`VideoReader`: one stream of a file, frame by frame."""

from __future__ import annotations

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from ..._engine.common.checks import finite_number, shown, whole_number
from ...decoders import AudioDecoder, VideoDecoder, get_container_metadata
from ...errors import InvalidArgumentError, OutOfRangeError, StreamError
from .. import BoundedCalls

__all__ = ["VideoReader"]

# What torchvision gives at a time is what the codec does; for AAC, that is this many samples.
_SAMPLES_AT_A_TIME = 1024
_SECONDS_DECODED_AT_A_TIME = 1.0


class VideoReader:
    """Frames of one stream in turn, each a dictionary with ``"data"`` and its time ``"pts"`` in seconds.

    Data of a video are (3, H, W) of uint8, those of sound (samples, channels) of float32 in [-1, 1], 1,024 samples at a
    time.

    Args:
        src: A path or URL, the ``bytes`` of a file, or the same as a 1-D uint8 tensor.
        stream: Which stream: ``"video"`` or ``"audio"``, or ``"audio:1"`` for the second of its type.
        num_threads: Codec threads; 0 shares the budget of the process.
        timeout_seconds: Most seconds of a call; the calls are then made in a process of the reader's own. ``None`` for
            no limit.

    Raises:
        InvalidArgumentError: if an argument is not accepted.
        SourceNotFoundError, OpenError, ReadError: if the source cannot be read.
        StreamError: if there is no such stream.

    Example:
        >>> import itertools
        >>> from mediatensor.compat.torchvision_io import VideoReader
        >>> reader = VideoReader("video.mp4")
        >>> frame = next(reader.seek(2.0))
        >>> frame["data"].shape, frame["pts"]
        (torch.Size([3, 360, 640]), 2.0)
        >>> len([frame["data"] for frame in itertools.takewhile(lambda frame: frame["pts"] <= 5, reader.seek(2))])
        91
    """

    def __init__(
        self, src: Any, stream: str = "video", num_threads: int = 0, *, timeout_seconds: float | None = None
    ) -> None:
        if not isinstance(src, (str, bytes, os.PathLike, Tensor)) or (isinstance(src, str) and not src):
            raise InvalidArgumentError(f"src must be a path, a URL, or the bytes of a file (got {shown(src)}).")
        num_threads = whole_number("num_threads", num_threads, at_least=0)
        self._calls = BoundedCalls(partial(_Streams, src, num_threads), timeout_seconds)
        self._metadata = self._calls.run(_headers)
        self._is_video, self._stream_index, self._position = True, 0, 0
        if not self.set_current_stream(stream):
            raise StreamError(f"There is no stream {stream!r}; the file has {self._counts()}.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next frame of the current stream.

        Raises:
            DecodeError: if it cannot be decoded.
        """
        read = _frame if self._is_video else _sound
        found = self._calls.run(partial(read, stream_index=self._stream_index, position=self._position))
        if found is None:
            raise StopIteration
        data, pts_seconds = found
        self._position += 1 if self._is_video else len(data)
        return {"data": data, "pts": pts_seconds}

    def seek(self, time_s: float, keyframes_only: bool = False) -> VideoReader:
        """Go to the first frame from a time on.

        Args:
            time_s: Seconds; a negative time is 0.
            keyframes_only: Go to the last key frame up to the time instead.

        Returns:
            The reader itself.

        Raises:
            InvalidArgumentError: if the time is not a finite number.

        Example:
            >>> from mediatensor.compat.torchvision_io import VideoReader
            >>> next(VideoReader("video.mp4").seek(1.95, keyframes_only=True))["pts"]
            1.6
        """
        time_s = max(finite_number("time_s", time_s), 0.0)
        if self._is_video:
            times, keys = self._calls.run(partial(_times, stream_index=self._stream_index))
            self._position = bisect_left(times, time_s)
            if keyframes_only:
                before = bisect_right(keys, bisect_right(times, time_s) - 1)
                self._position = keys[max(before - 1, 0)] if keys else 0
        else:
            self._position = self._calls.run(partial(_sample, stream_index=self._stream_index, seconds=time_s))
        return self

    def get_metadata(self) -> dict[str, dict[str, list[float | None]]]:
        """Duration and rate of every stream, by its type.

        Example:
            >>> from mediatensor.compat.torchvision_io import VideoReader
            >>> VideoReader("video.mp4").get_metadata()
            {'video': {'fps': [30.0], 'duration': [10.0]}, 'audio': {'framerate': [48000.0], 'duration': [10.0]}}
        """
        rates = {"video": "fps", "audio": "framerate"}
        return {
            media_type: {
                rates[media_type]: [rate for kind, _, rate, _ in self._metadata if kind == media_type],
                "duration": [duration for kind, _, _, duration in self._metadata if kind == media_type],
            }
            for media_type in dict.fromkeys(kind for kind, *_ in self._metadata)
        }

    def set_current_stream(self, stream: str) -> bool:
        """Read another stream, from its beginning.

        Args:
            stream: As of the reader.

        Returns:
            Whether there is such a stream; if not, the reader stays where it is.

        Raises:
            InvalidArgumentError: if it is not written like this.

        Example:
            >>> from mediatensor.compat.torchvision_io import VideoReader
            >>> reader = VideoReader("video.mp4")
            >>> reader.set_current_stream("audio:0"), next(reader)["data"].shape
            (True, torch.Size([1024, 1]))
        """
        media_type, _, number = stream.partition(":") if isinstance(stream, str) else ("", "", "")
        if media_type not in ("video", "audio") or not (number or "0").isdecimal():
            raise InvalidArgumentError(f"stream must be 'video', 'audio', 'video:0' or the like (got {shown(stream)}).")
        indices = [index for kind, index, *_ in self._metadata if kind == media_type]
        if int(number or 0) >= len(indices):
            return False
        self._is_video, self._stream_index = media_type == "video", indices[int(number or 0)]
        self._position = 0
        return True

    def _counts(self) -> str:
        kinds = [kind for kind, *_ in self._metadata]
        return f"{kinds.count('video')} of video and {kinds.count('audio')} of sound"


@dataclass
class _Streams:
    """The decoders of a file, made when a stream is first read."""

    source: Any
    num_threads: int
    videos: dict[int, VideoDecoder] = field(default_factory=dict)
    sounds: dict[int, AudioDecoder] = field(default_factory=dict)
    # The samples decoded last: of which stream, from which sample on, and the samples (channels, N).
    decoded: tuple[int, int, Tensor] | None = None

    def video(self, index: int) -> VideoDecoder:
        threads = self.num_threads or None
        if index not in self.videos:
            self.videos[index] = VideoDecoder(self.source, stream_index=index, num_ffmpeg_threads=threads)
        return self.videos[index]

    def sound(self, index: int) -> AudioDecoder:
        threads = self.num_threads or None
        if index not in self.sounds:
            self.sounds[index] = AudioDecoder(self.source, stream_index=index, num_ffmpeg_threads=threads)
        return self.sounds[index]


def _headers(streams: _Streams) -> list[tuple[str, int, float | None, float | None]]:
    """Type, index, rate and duration of each stream of pictures or sound."""
    found = []
    for stream in get_container_metadata(streams.source).streams:
        if stream.media_type in ("video", "audio"):
            rate = getattr(stream, "average_fps_from_header", None) or getattr(stream, "sample_rate", None)
            duration = stream.duration_seconds_from_header
            found.append((stream.media_type, stream.stream_index, None if rate is None else float(rate), duration))
    return found


def _times(streams: _Streams, stream_index: int) -> tuple[list[float], list[int]]:
    index = streams.video(stream_index).frame_index
    return index.pts_seconds.tolist(), index.key_frame_indices.tolist()


def _frame(streams: _Streams, stream_index: int, position: int) -> tuple[Tensor, float] | None:
    decoder = streams.video(stream_index)
    if position >= len(decoder):
        return None
    frame = decoder.get_frame_at(position)
    return frame.data, frame.pts_seconds


def _sample(streams: _Streams, stream_index: int, seconds: float) -> int:
    """The first sample from a time on."""
    metadata = streams.sound(stream_index).metadata
    return max(math.ceil((seconds - metadata.begin_stream_seconds) * (metadata.sample_rate or 1) - 1e-6), 0)


def _sound(streams: _Streams, stream_index: int, position: int) -> tuple[Tensor, float] | None:
    decoder = streams.sound(stream_index)
    begin, rate = decoder.metadata.begin_stream_seconds, decoder.metadata.sample_rate or 1
    kept = streams.decoded
    if kept is None or kept[0] != stream_index or not kept[1] <= position < kept[1] + kept[2].shape[1]:
        # Whole pieces, so that none is cut where the next second begins.
        count = math.ceil(_SECONDS_DECODED_AT_A_TIME * rate / _SAMPLES_AT_A_TIME) * _SAMPLES_AT_A_TIME
        try:
            samples = decoder.get_samples_played_in_range(begin + position / rate, begin + (position + count) / rate)
        except OutOfRangeError:
            return None
        kept = streams.decoded = (stream_index, position, samples.data)
    piece = kept[2][:, position - kept[1] :][:, :_SAMPLES_AT_A_TIME]
    return (piece.T.contiguous(), begin + position / rate) if piece.shape[1] else None
