"""The video functions of `torchvision.io`, and its class `VideoReader`."""

from __future__ import annotations

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..._engine.common.checks import check_choice, finite_number, options_dict, path_text, shown, whole_number
from ..._engine.common.messages import counted, warn_user
from ..._engine.index.frame_index import FrameIndex
from ...decoders import AudioDecoder, VideoDecoder, get_container_metadata
from ...decoders._access import sample_grid
from ...decoders._audio_decoder import cut_runs
from ...encoders import Encoder
from ...errors import InvalidArgumentError, OutOfRangeError, StreamError
from ...isolate._worker import BoundedCalls, run_bounded

#: A time in seconds, or in units of a stream's time base.
Time: TypeAlias = float | Fraction

# Samples per audio frame. torchvision returns the codec's frames, which have 1,024 samples in AAC.
_SAMPLES_AT_A_TIME = 1024
_SECONDS_DECODED_AT_A_TIME = 1.0
# Beyond this number, the times of neighbouring samples are equal as floats. No file is this long.
_MAX_POSITION = 1 << 50


def read_video(
    filename: Any,
    start_pts: Time = 0,
    end_pts: Time | None = None,
    pts_unit: str = "pts",
    output_format: str = "THWC",
    *,
    timeout_seconds: float | None = None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Read the frames and the audio of a file in a time range.

    The result has all frames with ``start_pts <= pts <= end_pts``. If no frame starts exactly at ``start_pts``, the
    result begins with the frame before ``start_pts``. The audio begins at ``start_pts`` and ends before ``end_pts``.
    Only the first video stream and the first audio stream are read.

    Args:
        filename: A path or URL.
        start_pts: Start of the range, in the unit that ``pts_unit`` selects.
        end_pts: End of the range in the same unit; ``None`` means the end of the file.
        pts_unit: ``"sec"`` for seconds, or ``"pts"`` for units of the video's time base. If there is no video, the unit
            is one audio sample.
        output_format: Order of the dimensions of the frames: ``"THWC"`` or ``"TCHW"``, in upper or lower case.
        timeout_seconds: Time limit for reading in seconds. With a limit, a separate process reads. ``None`` means no
            limit.

    Returns:
        A tuple of three: frames, uint8 (T, H, W, 3) or (T, 3, H, W), depending on ``output_format``; samples, float32
        (channels, N) in [-1, 1]; and a dict. The dict has the frame rate as ``"video_fps"`` if the file has video with
        a known rate, and the sample rate in Hz as ``"audio_fps"`` if it has audio. Without frames, the first tensor has
        no elements: (0, 1, 1, 3) or (0, 3, 1, 1). Without samples, the second tensor has the shape (1, 0).

    Raises:
        InvalidArgumentError: if an argument is invalid, or end_pts < start_pts.
        SourceNotFoundError, OpenError, ReadError: if the file cannot be read.
        DecodeError: if the audio is damaged. Frames that cannot be decoded raise no error: they are left out, with a
            warning.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_video
        >>> frames, samples, info = read_video("video.mp4", 0.5, 0.6, pts_unit="sec", output_format="TCHW")
        >>> frames.shape, samples.shape
        (torch.Size([4, 3, 360, 640]), torch.Size([1, 4800]))
    """
    if not isinstance(output_format, str) or output_format.upper() not in ("THWC", "TCHW"):
        raise InvalidArgumentError(f"output_format must be 'THWC' or 'TCHW' (got {shown(output_format)}).")
    check_choice("pts_unit", pts_unit, ("pts", "sec"))
    for name, value in (("start_pts", start_pts), ("end_pts", end_pts)):
        if value is not None and not isinstance(value, Fraction) and (name, value) != ("end_pts", math.inf):
            finite_number(name, value)
    if end_pts is not None and end_pts < start_pts:
        raise InvalidArgumentError(f"end_pts = {end_pts} must not be less than start_pts = {start_pts}.")
    work = partial(_read, filename, start_pts, math.inf if end_pts is None else end_pts, pts_unit == "sec")
    frames, samples, info, num_lost = run_bounded(work, timeout_seconds)
    if num_lost:
        warn_user(f"Left out {counted(num_lost, 'frame')} of {shown(filename)}, because decoding failed.")
    return (frames if output_format.upper() == "THWC" else frames.permute(0, 3, 1, 2)), samples, info


def read_video_timestamps(
    filename: Any, pts_unit: str = "pts", *, timeout_seconds: float | None = None
) -> tuple[list[int] | list[Fraction], float | None]:
    """Return the presentation times of all frames of a video, and its frame rate.

    Args:
        filename: A path or URL.
        pts_unit: ``"sec"`` for seconds, as `Fraction`, or ``"pts"`` for units of the video's time base, as int.
        timeout_seconds: Time limit for reading in seconds. With a limit, a separate process reads. ``None`` means no
            limit.

    Returns:
        A pair: the list of times in ascending order, and the frames per second according to the header, or ``None`` if
        the header does not state them. For a file without video, ``([], None)``.

    Raises:
        InvalidArgumentError: if ``pts_unit`` has another value.
        SourceNotFoundError, OpenError, ReadError: if the file cannot be read.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_video_timestamps
        >>> times, fps = read_video_timestamps("video.mp4", pts_unit="sec")
        >>> times[:2], fps
        ([Fraction(0, 1), Fraction(1, 30)], 30.0)
    """
    check_choice("pts_unit", pts_unit, ("pts", "sec"))
    timestamps = run_bounded(partial(_timestamps, filename), timeout_seconds)
    if timestamps is None:
        return [], None
    ticks, time_base, fps = timestamps
    return [tick * time_base for tick in ticks] if pts_unit == "sec" else ticks, fps


def _streams_of(source: Any, media_type: str) -> list[Any]:
    return [stream for stream in get_container_metadata(source).streams if stream.media_type == media_type]


def _read(source: Any, start: Time, end: Time, is_seconds: bool) -> tuple[Tensor, Tensor, dict[str, Any], int]:
    """Return frames (T, H, W, 3), samples (channels, N), the dict of `read_video`, and the number of missing frames."""
    info: dict[str, Any] = {}
    frames, num_lost = torch.empty((0, 1, 1, 3), dtype=torch.uint8), 0
    unit = None
    videos, sounds = _streams_of(source, "video"), _streams_of(source, "audio")
    if videos:
        if videos[0].average_fps_from_header is not None:
            info["video_fps"] = float(videos[0].average_fps_from_header)
        with VideoDecoder(
            source,
            stream_index=videos[0].stream_index,
            dimension_order="NHWC",
            on_error="skip",
            on_size_change="scale",
        ) as decoder:
            index = decoder.frame_index
            unit = index.time_base
            wanted = _frames_of(index, start, end, is_seconds)
            if wanted:
                batch = decoder.get_frames_at(wanted)
                frames, num_lost = batch.data, sum(report.num_missing or 1 for report in batch.replaced)
    samples = torch.empty((1, 0))
    if sounds:
        with AudioDecoder(source, stream_index=sounds[0].stream_index) as sound:
            info["audio_fps"] = sound.metadata.sample_rate
            if not is_seconds:
                unit = unit or Fraction(1, sound.metadata.sample_rate or 1)
                start, end = start * unit, end * unit
            stop = None if end == math.inf else max(float(end), 0.0)
            with suppress(OutOfRangeError):
                samples = sound.get_samples_played_in_range(max(float(start), 0.0), stop).data
    return frames, samples, info, num_lost


def _frames_of(index: FrameIndex, start: Time, end: Time, is_seconds: bool) -> list[int]:
    """Return the indices of the frames between two times.

    As in torchvision, times in seconds are rounded to the time base: ``start`` down and ``end`` up.
    """
    if is_seconds:
        start = math.floor(start * (1 / index.time_base))
        end = end if end == math.inf else math.ceil(end * (1 / index.time_base))
    begin = float(start)
    wanted: list[int] = np.flatnonzero((index.pts >= begin) & (index.pts <= float(end))).tolist()
    before = int(np.searchsorted(index.pts, begin))
    if begin > 0 and before > 0 and (before == len(index) or index.pts[before] != begin):
        return [before - 1, *wanted]
    return wanted


def _timestamps(source: Any) -> tuple[list[int], Fraction, float | None] | None:
    videos = _streams_of(source, "video")
    if not videos:
        return None
    with VideoDecoder(source, stream_index=videos[0].stream_index) as decoder:
        index = decoder.frame_index
        return index.pts.tolist(), index.time_base, videos[0].average_fps_from_header


class VideoReader:
    """Iterates over the frames of one video or audio stream.

    Each item is a dict with the keys ``"data"`` (a tensor) and ``"pts"`` (its start time in seconds). For video, the
    tensor is a frame, uint8 (3, H, W). For audio, it is a piece of at most 1,024 samples, float32 (samples, channels)
    in [-1, 1].

    Args:
        src: A path or URL, or the bytes of a file as ``bytes`` or as a 1-D uint8 tensor.
        stream: ``"video"`` or ``"audio"`` for the first stream of this type. A number selects another one:
            ``"audio:1"`` is the second audio stream.
        num_threads: Number of codec threads. 0 means a share of the thread budget of the process; see
            `mediatensor.get_num_threads`.
        timeout_seconds: Time limit in seconds for each call. With a limit, the reader decodes in a separate process.
            ``None`` means no limit.

    Raises:
        InvalidArgumentError: if an argument is invalid.
        SourceNotFoundError, OpenError, ReadError: if the source cannot be read.
        StreamError: if the stream does not exist.

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
        self._metadata = self._calls.run(methodcaller("headers"))
        self._is_video, self._stream_index, self._position = True, 0, 0
        if not self.set_current_stream(stream):
            kinds = [kind for kind, *_ in self._metadata]
            raise StreamError(
                f"There is no stream {stream!r}. Number of video streams: {kinds.count('video')}, of audio streams: "
                f"{kinds.count('audio')}."
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """Return the next frame of video or piece of audio, with its time.

        Raises:
            DecodeError: if the frame cannot be decoded.
        """
        method = "frame" if self._is_video else "sound"
        item = self._calls.run(methodcaller(method, self._stream_index, self._position))
        if item is None:
            raise StopIteration
        data, pts_seconds, self._position = item
        return {"data": data, "pts": pts_seconds}

    def seek(self, time_s: float, keyframes_only: bool = False) -> VideoReader:
        """Move to a time. ``next`` then returns the first frame, or the audio from the first sample, at or after it.

        Args:
            time_s: The time in seconds. A negative time means 0.
            keyframes_only: If ``True``, move to the last key frame at or before the time. This has no effect on audio.

        Returns:
            This reader, so that calls can be chained.

        Raises:
            InvalidArgumentError: if the time is not a finite number.

        Example:
            >>> from mediatensor.compat.torchvision_io import VideoReader
            >>> next(VideoReader("video.mp4").seek(1.95, keyframes_only=True))["pts"]
            1.6
        """
        time_s = max(finite_number("time_s", time_s), 0.0)
        if self._is_video:
            times, keys = self._calls.run(methodcaller("frame_times", self._stream_index))
            self._position = bisect_left(times, time_s)
            if keyframes_only:
                before = bisect_right(keys, bisect_right(times, time_s) - 1)
                self._position = keys[max(before - 1, 0)] if keys else 0
        else:
            self._position = self._calls.run(methodcaller("sample_at", self._stream_index, time_s))
        return self

    def get_metadata(self) -> dict[str, dict[str, list[float | None]]]:
        """Return the rate and the duration of each stream according to its header, grouped by media type.

        Returns:
            A dict with the keys ``"video"`` and ``"audio"``, if the file has such streams. Each value is a dict of two
            lists with one number for each stream, or ``None`` if unknown: ``"duration"`` in seconds, and ``"fps"`` of
            video streams or ``"framerate"`` (sample rate in Hz) of audio streams.

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
        """Select the stream to read, and move to its start.

        Args:
            stream: The name of the stream; see the argument ``stream`` of `VideoReader`.

        Returns:
            Whether the stream exists. If it does not, nothing changes.

        Raises:
            InvalidArgumentError: if ``stream`` is not a name such as ``"video:0"``.

        Example:
            >>> from mediatensor.compat.torchvision_io import VideoReader
            >>> reader = VideoReader("video.mp4")
            >>> reader.set_current_stream("audio:0"), next(reader)["data"].shape
            (True, torch.Size([1024, 1]))
        """
        media_type, _, number = stream.partition(":") if isinstance(stream, str) else ("", "", "")
        if media_type not in ("video", "audio") or not (number or "0").isdecimal():
            raise InvalidArgumentError(
                f"stream must be 'video' or 'audio', with or without a number such as ':0' (got {shown(stream)})."
            )
        indices = [index for kind, index, *_ in self._metadata if kind == media_type]
        if int(number or 0) >= len(indices):
            return False
        self._is_video, self._stream_index = media_type == "video", indices[int(number or 0)]
        self._position = 0
        return True


@dataclass
class _Streams:
    """The decoders of all streams of a file, which are opened on first use."""

    source: Any
    num_threads: int
    decoders: dict[int, Any] = field(default_factory=dict)
    # The last decoded audio: stream index, and by position the pieces: (time of first sample, (samples, channels)).
    decoded: tuple[int, dict[int, tuple[float, Tensor]]] = (-1, {})

    def headers(self) -> list[tuple[str, int, float | None, float | None]]:
        """Return (media type, index, rate, duration) of each video and audio stream according to its header."""
        headers = []
        for stream in get_container_metadata(self.source).streams:
            if stream.media_type in ("video", "audio"):
                rate = getattr(stream, "average_fps_from_header", None) or getattr(stream, "sample_rate", None)
                duration = stream.duration_seconds_from_header
                rate = None if rate is None else float(rate)
                headers.append((stream.media_type, stream.stream_index, rate, duration))
        return headers

    def _opened(self, decoder: Callable[..., Any], index: int) -> Any:
        if index not in self.decoders:
            threads = self.num_threads or None
            self.decoders[index] = decoder(self.source, stream_index=index, num_ffmpeg_threads=threads)
        return self.decoders[index]

    def frame_times(self, stream_index: int) -> tuple[list[float], list[int]]:
        index = self._opened(VideoDecoder, stream_index).frame_index
        return index.pts_seconds.tolist(), index.key_frame_indices.tolist()

    def frame(self, stream_index: int, position: int) -> tuple[Tensor, float, int] | None:
        """Return the frame at a position, its time, and the next position; ``None`` after the last frame."""
        decoder = self._opened(VideoDecoder, stream_index)
        if position >= len(decoder):
            return None
        frame = decoder.get_frame_at(position)
        return frame.data, frame.pts_seconds, position + 1

    def sample_at(self, stream_index: int, seconds: float) -> int:
        """Return the index of the first audio sample at or after a time."""
        grid = sample_grid(self._opened(AudioDecoder, stream_index))
        number = (seconds - grid.begin_seconds) * grid.sample_rate - 1e-6
        return math.ceil(min(max(number, 0.0), _MAX_POSITION))

    def sound(self, stream_index: int, position: int) -> tuple[Tensor, float, int] | None:
        """Return the first piece of audio from a position on, its time, and the next position; ``None`` at the end.

        Positions are times in samples, from the start of the stream. In a gap of the time stamps, they have no audio.
        """
        while True:
            if self.decoded[0] != stream_index or position not in self.decoded[1]:
                self.decoded = stream_index, self._decode_pieces(stream_index, position)
                if not self.decoded[1]:
                    return None
            seconds, piece = self.decoded[1][position]
            position += _SAMPLES_AT_A_TIME
            if len(piece):
                return piece.contiguous(), seconds, position

    def _decode_pieces(self, stream_index: int, position: int) -> dict[int, tuple[float, Tensor]]:
        """Decode about a second from a position on; return the pieces as in ``decoded``, none after the end."""
        decoder = self._opened(AudioDecoder, stream_index)
        grid = sample_grid(decoder)
        stop = (
            position
            + math.ceil(_SECONDS_DECODED_AT_A_TIME * grid.sample_rate / _SAMPLES_AT_A_TIME) * _SAMPLES_AT_A_TIME
        )
        ((runs, is_beyond),) = decoder._existing_runs([(grid.seconds(position), grid.seconds(stop))])
        pieces: dict[int, tuple[float, Tensor]] = {}
        for first in () if is_beyond else range(position, stop, _SAMPLES_AT_A_TIME):
            parts = cut_runs(runs, first, first + _SAMPLES_AT_A_TIME)
            data = torch.cat([samples for _, samples in parts], 1).T if parts else torch.empty(0)
            pieces[first] = grid.seconds(parts[0][0] if parts else first), data
        return pieces


def write_video(
    filename: Any,
    video_array: Any,
    fps: float,
    video_codec: str = "libx264",
    options: Mapping[str, Any] | None = None,
    audio_array: Any = None,
    audio_fps: float | None = None,
    audio_codec: str | None = None,
    audio_options: Mapping[str, Any] | None = None,
    *,
    timeout_seconds: float | None = None,
) -> None:
    """Write a video file from frames and, optionally, audio. The file appears only when it is complete.

    Args:
        filename: Path of the file. Its extension selects the container, such as ``.mp4``.
        video_array: RGB frames (T, H, W, 3), as a tensor or an array. They are converted to uint8.
        fps: Frames per second. The number need not be whole.
        video_codec: Name of an FFmpeg video encoder. ``"libx264rgb"`` stores RGB; all other encoders store
            ``"yuv420p"``.
        options: Options of the video encoder, such as ``{"crf": "17"}``.
        audio_array: Samples (channels, N), as a tensor or an array: floats in [-1, 1], or uint8, int16 or int32 in the
            full range of the type. ``None`` means no audio.
        audio_fps: Sample rate in Hz; required with ``audio_array``.
        audio_codec: Name of an FFmpeg audio encoder; ``None`` means the container's default.
        audio_options: Options of the audio encoder. Only the bit rate can be set: ``{"b": bits_per_second}``.
        timeout_seconds: Time limit for encoding in seconds. With a limit, a separate process encodes. ``None`` means no
            limit.

    Raises:
        InvalidArgumentError: if an argument is invalid.
        EncodeError: if FFmpeg cannot encode the input with these options.
        WriteError: if the file cannot be written.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import read_video, write_video
        >>> write_video("frames.mp4", torch.zeros(10, 48, 64, 3, dtype=torch.uint8), fps=25, options={"crf": "17"})
        >>> read_video("frames.mp4")[0].shape
        torch.Size([10, 48, 64, 3])
    """
    frames = _tensor("video_array", video_array, torch.uint8)
    if frames.ndim != 4 or frames.shape[3] != 3 or len(frames) == 0:
        raise InvalidArgumentError(f"video_array must be frames (T, H, W, 3) (got {shown(frames)}).")
    sound = None
    if audio_array is not None:
        if audio_fps is None:
            raise InvalidArgumentError("audio_array needs audio_fps, the number of samples per second.")
        options_of_sound = options_dict("audio_options", audio_options, _sound_options)
        sample_rate = int(finite_number("audio_fps", audio_fps))
        sound = (_samples(audio_array), sample_rate, audio_codec, _sound_options(**options_of_sound))
    extra_options = options_dict("options", options)
    work = partial(_write, path_text("filename", filename), frames.cpu(), fps, video_codec, extra_options, sound)
    run_bounded(work, timeout_seconds)


def _sound_options(*, b: Any = None, bit_rate: Any = None) -> int | None:
    found = b if b is not None else bit_rate
    try:
        return None if found is None else int(found)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"audio_options has a bit rate that is not a number (got {shown(found)}).") from None


def _tensor(name: str, values: Any, dtype: torch.dtype | None = None) -> Tensor:
    try:
        return torch.as_tensor(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InvalidArgumentError(f"{name} must be a tensor or an array of numbers (got {shown(values)}).") from None


def _samples(audio_array: Any) -> Tensor:
    samples = _tensor("audio_array", audio_array).cpu()
    if samples.ndim != 2 or samples.shape[0] == 0:
        raise InvalidArgumentError(f"audio_array must be samples (channels, N) (got {shown(samples)}).")
    if samples.is_floating_point():
        return samples.float()
    if samples.dtype not in (torch.uint8, torch.int16, torch.int32):
        raise InvalidArgumentError(f"audio_array must be of float, int16, int32 or uint8 (got {samples.dtype}).")
    if samples.dtype == torch.uint8:
        return (samples.float() - 128) / 128
    return (samples.double() / -torch.iinfo(samples.dtype).min).float()


def _write(
    path: str,
    frames: Tensor,
    fps: float,
    codec: str,
    options: dict[str, Any],
    sound: tuple[Tensor, int, str | None, int | None] | None,
) -> None:
    encoder = Encoder()
    pixel_format = "rgb24" if codec == "libx264rgb" else "yuv420p"
    video = encoder.add_video(
        height=frames.shape[1],
        width=frames.shape[2],
        frame_rate=fps,
        codec=codec,
        pixel_format=pixel_format,
        extra_options=options,
    )
    audio = None
    if sound is not None:
        samples, rate, audio_codec, bit_rate = sound
        audio = encoder.add_audio(sample_rate=rate, num_channels=len(samples), codec=audio_codec, bit_rate=bit_rate)
    with encoder.open_file(path):
        if audio is not None:
            audio.add_samples(samples)
        video.add_frames(frames.permute(0, 3, 1, 2))
