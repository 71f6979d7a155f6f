"""`AudioVideoDecoder`, which returns frames and audio samples of the same time range."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, Unpack

import torch

from .._engine.common.checks import items_of, real_number, shown
from .._engine.common.locks import Closing
from .._engine.index.frame_index import FrameIndex
from .._engine.pyav.audio import Downmix
from .._engine.sources.source import make_source
from .._engine.video.batch import ErrorPolicy, SizeChangePolicy
from ..backends import ToneCurve
from ..errors import InvalidArgumentError
from ..frames import AudioVideoClip
from ._access import AudioAccess
from ._audio_decoder import AudioDecoder
from ._video_decoder import VideoDecoder


class _VideoOptions(TypedDict, total=False):
    dimension_order: Literal["NCHW", "NHWC"]
    device: str | torch.device | None
    decode_backend: str | None
    strict_device: bool
    seek_mode: Literal["exact", "approximate"]
    transforms: Sequence[object] | None
    output_dtype: torch.dtype | Literal["auto"]
    custom_frame_mappings: Any
    frame_index: FrameIndex | str | os.PathLike[str] | None
    on_error: ErrorPolicy
    on_size_change: SizeChangePolicy
    tone_mapping: ToneCurve | None


class AudioVideoDecoder(Closing):
    """Decodes the frames and the audio samples of a time range.

    It combines a `VideoDecoder` and an `AudioDecoder` for one source, and returns an `AudioVideoClip` for each
    requested range. The frames are the same as from `VideoDecoder.get_frames_played_in_range`. The samples always cover
    the whole range. Where the audio has not started, has ended, or has a gap, they are silent, and ``silent_spans`` of
    the clip lists these parts. The first sample is exactly at ``start_seconds``, so the audio of a frame starts at
    sample ``(frame.pts_seconds - start_seconds) * sample_rate``::

        video         |----0----|----1----|----2----|----3----|
        audio                |~~~~~~~~~~~~~~~~~~~~~~~~~~~|
        range            [--------------------------------------)
        frames        |----0----|----1----|----2----|----3----|
        samples          |...|~~~~~~~~~~~~~~~~~~~~~~~~~~~|......|    . is silence

    The start and end of a range are rounded to the nearest sample, so adjacent ranges have no gap and no overlap.

    A decoder can be pickled and copied, used after a fork and in spawned workers, and called from several threads at
    the same time. To release the files early, `close` it or use it in a ``with`` statement.

    Args:
        source: Any source that `VideoDecoder` accepts. The video and the audio decoder can both read from one file
            object.
        video_stream_index: Index of the video stream among all streams; by default FFmpeg's choice.
        audio_stream_index: Index of the audio stream among all streams; by default FFmpeg's choice.
        sample_rate: Samples per second to resample the audio to; by default the sample rate of the stream.
        num_channels: Number of channels to mix the audio to; by default the number of channels of the stream.
        num_ffmpeg_threads: Number of codec threads; see `VideoDecoder` and `AudioDecoder`.
        downmix: How to mix to fewer channels, ``"sum"`` or ``"mean"``; see `AudioDecoder`.
        video_options: The other options of `VideoDecoder`: ``dimension_order``, ``device``, ``decode_backend``,
            ``strict_device``, ``seek_mode``, ``transforms``, ``output_dtype``, ``custom_frame_mappings``,
            ``frame_index``, ``on_error``, ``on_size_change``, ``tone_mapping``. ``device`` applies to frames; samples
            are always on the CPU.

    Attributes:
        video: The `VideoDecoder`.
        audio: The `AudioDecoder`.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be opened.
        StreamError: if the video stream or the audio stream does not exist.
        InvalidArgumentError: if an argument is not accepted.

    Example:
        >>> from mediatensor.decoders import AudioVideoDecoder
        >>> decoder = AudioVideoDecoder("video.mp4", sample_rate=16_000, num_channels=1)
        >>> frames, samples = decoder.get_played_in_range(5.0, 7.0)
        >>> frames.data.shape, samples.data.shape
        (torch.Size([60, 3, 360, 640]), torch.Size([1, 32000]))
    """

    def __init__(
        self,
        source: object,
        *,
        video_stream_index: int | None = None,
        audio_stream_index: int | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        num_ffmpeg_threads: int | None = None,
        downmix: Downmix = "sum",
        **video_options: Unpack[_VideoOptions],
    ) -> None:
        self._source = make_source(source)
        self.video = VideoDecoder(
            self._source, stream_index=video_stream_index, num_ffmpeg_threads=num_ffmpeg_threads, **video_options
        )
        try:
            self.audio = self._open_audio(
                stream_index=audio_stream_index,
                sample_rate=sample_rate,
                num_channels=num_channels,
                num_ffmpeg_threads=num_ffmpeg_threads,
                downmix=downmix,
            )
        except BaseException:
            self.video.close()
            raise
        self._access = AudioAccess(self.audio)

    def _open_audio(self, **options: Any) -> AudioDecoder:
        return AudioDecoder(self._source, **options)

    def get_played_in_range(
        self, start_seconds: float | None = None, stop_seconds: float | None = None, fps: float | None = None
    ) -> AudioVideoClip:
        """Return the frames and the samples that are played in [start_seconds, stop_seconds).

        The first frame is the one shown at ``start_seconds``, even if it started earlier. The samples start exactly at
        ``start_seconds`` and cover the whole range.

        Args:
            start_seconds: Start of the range in seconds, within the video; ``None`` is the start of the video.
            stop_seconds: End of the range, exclusive; ``None`` is the end of the video. If it equals the start, the
                clip is empty.
            fps: Frames per second to resample the frames to; by default, all frames of the range are returned.

        Returns:
            An `AudioVideoClip`, which unpacks as frames (`FrameBatch`) and samples (`AudioSamples`).

        Raises:
            OutOfRangeError: if a time is outside the video.
            InvalidArgumentError: if start is greater than stop, or ``fps`` is not positive.
            DecodeError: if a frame or sample cannot be decoded.

        Example:
            >>> from mediatensor.decoders import AudioVideoDecoder
            >>> clip = AudioVideoDecoder("video.mp4").get_played_in_range(5.0, 7.0, fps=10)
            >>> len(clip.frames), clip.samples.duration_seconds, clip.silent_spans
            (20, 2.0, ())
        """
        (clip,) = self.get_played_in_ranges([(start_seconds, stop_seconds)], fps)
        return clip

    def get_played_in_ranges(
        self, ranges: Iterable[tuple[float | None, float | None]], fps: float | None = None
    ) -> list[AudioVideoClip]:
        """Return an `AudioVideoClip` for each of several time ranges, in the order of ``ranges``.

        Args:
            ranges: Pairs (start, stop) in seconds, see `get_played_in_range`.
            fps: Frames per second to resample the frames to; by default, all frames of a range are returned.

        Returns:
            A list of `AudioVideoClip`, one for each range.

        Raises:
            OutOfRangeError, InvalidArgumentError, DecodeError: see `get_played_in_range`.

        Example:
            >>> from mediatensor.decoders import AudioVideoDecoder
            >>> clips = AudioVideoDecoder("video.mp4").get_played_in_ranges([(0.0, 1.0), (8.0, 9.0)])
            >>> [clip.samples.pts_seconds for clip in clips]
            [0.0, 8.0]
        """
        pairs = items_of("ranges", ranges, of="pairs of seconds, (start, stop)")
        times = [self._times_of(pair) for pair in pairs]
        frames = [self.video.get_frames_played_in_range(start, stop, fps) for start, stop in times]
        clips = zip(frames, self._access.samples_in_ranges(times), strict=True)
        return [AudioVideoClip(batch, samples, silent_spans) for batch, (samples, silent_spans) in clips]

    def _times_of(self, pair: tuple[float | None, float | None]) -> tuple[float, float]:
        begin, end = self.video._frames.span_seconds
        try:
            start, stop = pair
            start, stop = begin if start is None else start, end if stop is None else stop
            return real_number("start", start), real_number("stop", stop)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                "A range must be a pair of seconds, (start, stop), where None means the start or the end of the video "
                f"(got {shown(pair)})."
            ) from None

    def close(self) -> None:
        """Release the files. Later decoding raises `ClosedError`."""
        self.video.close()
        self.audio.close()

    def __copy__(self) -> AudioVideoDecoder:
        """Return an independent decoder of the same source, which opens the files again."""
        return copy.deepcopy(self, {id(self._source): self._source})

    def __repr__(self) -> str:
        return (
            f"AudioVideoDecoder({self._source.describe()!r}, video_stream_index={self.video.stream_index}, "
            f"audio_stream_index={self.audio.stream_index})"
        )
