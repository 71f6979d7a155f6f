"""`Encoder`, which writes several streams to one file chunk by chunk, and its `VideoStream` and `AudioStream`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common.checks import MAX_INT, optional_text, real_number, shown, whole_number
from .._engine.common.devices import check_has_values, checked_device
from .._engine.pyav.encoding import AudioSettings, format_of_name, format_of_path
from .._engine.pyav.encoding_video import VideoSettings
from ..errors import InvalidArgumentError
from ..frames import AudioSamples, FrameBatch
from ._session import (
    FINE_TIME_BASE,
    MAX_SECONDS,
    NOMINAL_FRAME_RATE,
    Session,
    WritesToFile,
    batch_times,
    frame_rate_fraction,
    ticks_of,
)
from ._target import FileLikeTarget, make_target

# Smaller gaps and overlaps of audio chunks are ignored, because containers round times to milliseconds.
_TOLERANCE_SECONDS = 1e-3
_MAX_GAP_SECONDS = 24 * 3600
#: Largest number of bytes of frames that are copied from a device at once. A copy waits, and takes CPU memory.
MAX_COPY_BYTES = 1 << 28
# Number of samples that are encoded before their packets are written, to save memory.
_SAMPLES_AT_A_TIME = 1 << 16


class Encoder(WritesToFile):
    """Writes video and audio streams to one file, chunk by chunk.

    Add streams, open a file, add data, and close the encoder::

        encoder = Encoder()
        video = encoder.add_video(height=720, width=1280, frame_rate=30)
        audio = encoder.add_audio(sample_rate=48_000, num_channels=2)
        with encoder.open_file("out.mp4"):
            for frames, samples in chunks:
                video.add_frames(frames)
                audio.add_samples(samples)

    **A failure does not leave an incomplete file at a path.** The encoder writes a temporary file next to the
    destination, and renames it on `close`. If the ``with`` block raises, encoding fails, or the encoder is dropped
    without `close`, the temporary file is removed, and an older file at the destination is kept. A killed process
    leaves a hidden file whose name ends in ``.part``. Devices, pipes and URLs are written directly. If you pass a file
    object, it keeps the bytes written before the failure, but lacks the trailer that players need.

    **Files that are read while they are written.** For mp4, enable fragments with ``{"movflags":
    "+frag_keyframe+empty_moov"}`` in ``extra_options``. For mkv, ts and other containers that can be read before they
    are complete, use ``{"flush_packets": 1}``. The file then appears when its header is written, grows with each
    fragment or packet, and is kept even after a failure.

    **Time.** Data without times start at time zero of the file. If several streams have times (`FrameBatch`,
    `AudioSamples`), the earliest stream starts at time zero of the file, and other streams keep their offset to it. So
    streams that were decoded together stay in sync. In avi, mxf and rm files, which store no start times, all streams
    start at time zero, and a warning names a stream that should start later. While one stream has less data than
    another, the encoder keeps packets in memory. To save memory, alternate between the streams, and add short chunks.

    **Colours.** RGB is converted to BT.709 for frames of at least 1280 columns or 577 lines, and to BT.601 for smaller
    frames, in limited range. The codec and the container are tagged accordingly. If neither has such tags (MPEG-4 in
    avi, VP8, JPEG), the encoder uses BT.601, which players assume. ``colorspace``, ``color_range``, ``color_primaries``
    and ``color_trc`` in ``extra_options`` select other colours, and the pixels are converted accordingly.

    FFmpeg chooses the number of threads, unless you set it with ``extra_options={"threads": 1}``. An encoder belongs to
    one process and cannot be pickled. Calls from several threads wait for each other.

    Example:
        >>> import io, torch
        >>> from mediatensor.encoders import Encoder
        >>> encoder, file = Encoder(), io.BytesIO()
        >>> video = encoder.add_video(height=64, width=96, frame_rate=25, codec="mpeg4")
        >>> with encoder.open_file_like(file, format="mp4"):
        ...     video.add_frames(torch.zeros(10, 3, 64, 96, dtype=torch.uint8))
        >>> file.getvalue()[4:8]
        b'ftyp'
    """

    def __init__(self) -> None:
        self._session = Session()

    def add_video(
        self,
        *,
        height: int,
        width: int,
        frame_rate: float | Fraction | None = None,
        device: Any = None,
        codec: str | None = None,
        pixel_format: str | None = None,
        crf: float | None = None,
        preset: str | int | None = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> VideoStream:
        """Add a video stream, and return the `VideoStream` to which you then add frames.

        Call this method before `open_file`.

        Args:
            height: Height of the frames in pixels.
            width: Width of the frames in pixels.
            frame_rate: Frames per second, if the frames are evenly spaced. ``None`` means a variable rate: pass all
                frames as `FrameBatch`, whose times are rounded to 1/90000 second (in MPEG-4, to 1/60000; in mkv and
                webm, to 1/1000). avi files and the codecs MPEG-1, MPEG-2 and H.263 cannot have a variable rate. At a
                variable rate, mp4 and mov files get no B-frames, to keep the durations of frames. To get B-frames, set
                ``bf`` in ``extra_options``.
            device: Has no effect; accepted for compatibility with torchcodec. Frames can be on any device. They are
                copied to the CPU and encoded there, unless ``codec`` names a hardware encoder such as ``"h264_nvenc"``.
            codec: Name of an encoder (``"libx264"``) or of a codec (``"h264"``); by default the container's default
                codec.
            pixel_format: FFmpeg's name of a pixel format, such as ``"yuv420p"``; by default the first one that the
                encoder supports.
            crf: Constant rate factor: a smaller number means better quality and a larger file. Range and default depend
                on the encoder. An encoder without this option ignores it with a warning.
            preset: Trade-off between speed and size: a name such as ``"fast"``, or a number, depending on the encoder.
                An encoder without this option ignores it with a warning.
            extra_options: Further options of the encoder or the container, with FFmpeg's names and the values that the
                ``ffmpeg`` program accepts, for example ``{"g": 12, "profile": "baseline", "movflags": "faststart"}``.
                An option that only other encoders have is ignored with a warning.

        Raises:
            InvalidArgumentError: if an argument is not accepted. The codec, the pixel format and options are checked
                only when the file is opened.
            EncodeError: if a file is open already.
            ClosedError: after `close`.

        Example:
            >>> from mediatensor.encoders import Encoder
            >>> video = Encoder().add_video(height=720, width=1280, frame_rate=30, codec="libx264", crf=20)
        """
        rate = NOMINAL_FRAME_RATE if frame_rate is None else frame_rate_fraction(frame_rate)
        if device is not None:
            checked_device(device)
        is_even = frame_rate is not None
        return self._add_video(height, width, rate, is_even, codec, pixel_format, crf, preset, extra_options)

    def _add_video(
        self,
        height: int,
        width: int,
        nominal_rate: Fraction,
        follows_rate: bool,
        codec: str | None,
        pixel_format: str | None,
        crf: float | None,
        preset: str | int | None,
        extra_options: Mapping[str, Any] | None,
    ) -> VideoStream:
        optional_text("codec", codec)
        optional_text("pixel_format", pixel_format)
        options = _options_of(extra_options)
        if crf is not None:
            options["crf"] = f"{real_number('crf', crf):.10g}"
        if preset is not None:
            options["preset"] = _preset_text(preset)
        for name in ("pix_fmt", "pixel_format"):  # passed as an encoder option, it would convert frames twice
            stated = options.pop(name, None)
            pixel_format = stated if pixel_format is None else pixel_format
        settings = VideoSettings(
            height=positive_whole("height", height),
            width=positive_whole("width", width),
            frame_rate=nominal_rate,
            time_base=1 / nominal_rate if follows_rate else FINE_TIME_BASE,
            is_variable=not follows_rate,
            codec=codec,
            pixel_format=pixel_format,
            options=options,
        )
        with self._session.lock:
            return VideoStream(self._session, settings, follows_rate=follows_rate)

    def add_audio(
        self,
        *,
        sample_rate: int,
        num_channels: int,
        bit_rate: int | None = None,
        out_num_channels: int | None = None,
        out_sample_rate: int | None = None,
        codec: str | None = None,
    ) -> AudioStream:
        """Add an audio stream, and return the `AudioStream` to which you then add samples.

        Call this method before `open_file`.

        Args:
            sample_rate: Samples per second of the data to be added.
            num_channels: Number of channels of the data to be added.
            bit_rate: Bits per second; by default, the encoder chooses. Lossless codecs ignore it.
            out_num_channels: Number of channels in the file; by default ``num_channels``. The weights for mixing to
                fewer channels add up to at most 1, which prevents clipping: stereo becomes the mean.
            out_sample_rate: Samples per second in the file, to which FFmpeg resamples; by default ``sample_rate``.
            codec: Name of an encoder (``"libmp3lame"``) or of a codec (``"mp3"``); by default the container's default
                codec (for mkv, AAC).

        Raises:
            InvalidArgumentError: if an argument is not accepted. The codec, the sample rate and the bit rate are
                checked only when the file is opened.
            EncodeError: if a file is open already.
            ClosedError: after `close`.

        Example:
            >>> import io, torch
            >>> from mediatensor.encoders import Encoder
            >>> encoder, file = Encoder(), io.BytesIO()
            >>> audio = encoder.add_audio(sample_rate=8_000, num_channels=1)
            >>> with encoder.open_file_like(file, format="wav"):
            ...     audio.add_samples(torch.zeros(1, 8_000))
            >>> file.getvalue()[:4]
            b'RIFF'
        """
        optional_text("codec", codec)
        if bit_rate is not None:
            bit_rate = whole_number("bit_rate", bit_rate, at_most=MAX_INT, or_none=True)
        sample_rate = positive_whole("sample_rate", sample_rate)
        num_channels = positive_whole("num_channels", num_channels)
        settings = AudioSettings(
            sample_rate=sample_rate,
            num_channels=num_channels,
            bit_rate=bit_rate,
            out_num_channels=positive_whole("out_num_channels", out_num_channels, num_channels),
            out_sample_rate=positive_whole("out_sample_rate", out_sample_rate, sample_rate),
            codec=codec,
        )
        with self._session.lock:
            return AudioStream(self._session, settings)

    def open_file(self, dest: str | os.PathLike[str]) -> Encoder:
        """Open a file for writing. Its extension selects the container.

        Args:
            dest: A path, or a URL of a protocol to which FFmpeg can write.

        Returns:
            This encoder, as a context manager: the end of the ``with`` block closes it. If the block raises, the file
            is discarded.

        Raises:
            InvalidArgumentError: if no container has this extension, or a setting of a stream is rejected.
            EncodeError: if there are no streams, a file is open already, or FFmpeg cannot start the encoders.
            WriteError: if the file cannot be created.
            ClosedError: if the encoder has been closed.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import Encoder
            >>> encoder = Encoder()
            >>> video = encoder.add_video(height=64, width=96, frame_rate=25, codec="mpeg4")
            >>> with encoder.open_file("black.mp4"):
            ...     video.add_frames(torch.zeros(10, 3, 64, 96, dtype=torch.uint8))
        """
        with self._session.lock:
            self._session.check_can_open()
            # Check the extension first, so that a wrong one creates no file. `make_target` rejects other types.
            container = format_of_path(dest) if isinstance(dest, (str, os.PathLike)) else ""
            self._session.open(make_target(dest), container)
        return self

    def open_file_like(self, dest: Any, *, format: str) -> Encoder:
        """Open a binary file object for writing, in the container format ``format``.

        Args:
            dest: A binary file object with ``write(data: bytes) -> int`` and ``seek(offset: int, whence: int) -> int``.
                Containers that are written sequentially, such as matroska, mpegts or flac, do not need ``seek``.
                Writing starts at the current position. The file object stays open.
            format: Name of the container, such as ``"mp4"``, ``"mkv"`` or ``"wav"``.

        Returns:
            This encoder, as a context manager, as in `open_file`.

        Raises:
            SourceTypeError: if ``dest`` cannot be written to.
            InvalidArgumentError: if there is no such format, or a setting of a stream is rejected.
            EncodeError, WriteError, ClosedError: see `open_file`.
        """
        with self._session.lock:
            self._session.check_can_open()
            container = format_of_name(format)
            self._session.open(FileLikeTarget(dest), container)
        return self

    def close(self) -> None:
        """Encode the remaining data, complete the file and close the encoder. A second call has no effect.

        If no frames were added to a video stream, it stays empty in the file, and a warning is issued.

        Raises:
            EncodeError: if encoding cannot be finished, or has failed earlier.
            WriteError: if the file cannot be written.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import Encoder
            >>> encoder = Encoder()
            >>> audio = encoder.add_audio(sample_rate=8_000, num_channels=1)
            >>> encoder = encoder.open_file("silence.wav")
            >>> audio.add_samples(torch.zeros(1, 8_000))
            >>> encoder.close()
        """
        with self._session.lock:
            if not self._session.is_closed:
                self._session.finish()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with self._session.lock:
            self._session.abort(error)


def positive_whole(name: str, value: Any, default: int | None = None) -> int:
    """Return ``value``, an int or a whole float from 1 to FFmpeg's largest integer, or ``default`` if it is None.

    The number can be one of Python, NumPy or torch.
    """
    if value is None and default is not None:
        return default
    try:
        if real_number(name, value).is_integer():
            value = int(value)
        return whole_number(name, value, at_least=1, at_most=MAX_INT)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{name} = {shown(value)} must be > 0, a whole number, and at most {MAX_INT}."
        ) from None


def _preset_text(preset: Any) -> str:
    try:
        return str(preset if isinstance(preset, str) else whole_number("preset", preset))
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"preset must be a name such as 'fast', a whole number, or None (got {shown(preset)})."
        ) from None


def _options_of(extra_options: Mapping[str, Any] | None) -> dict[str, str]:
    if extra_options is None:
        return {}
    if not isinstance(extra_options, Mapping) or not all(isinstance(key, str) for key in extra_options):
        raise InvalidArgumentError(f"extra_options must be a dict with str keys (got {shown(extra_options)}).")
    options = {key: str(value) for key, value in extra_options.items()}
    if any("\0" in text for option in options.items() for text in option):
        raise InvalidArgumentError(f"extra_options must not contain the character NUL (got {shown(extra_options)}).")
    return options


class VideoStream(WritesToFile):
    """A video stream of an `Encoder`. Call `Encoder.add_video` to get one."""

    def __init__(self, session: Session, settings: VideoSettings, *, follows_rate: bool) -> None:
        self._session = session
        self._settings = settings
        self._number = session.add(settings)
        self._follows_rate = follows_rate
        self._next_tick = 0

    def add_frames(self, frames: Tensor | FrameBatch) -> None:
        """Encode the next frames.

        Frames are encoded immediately, one by one, and are not kept in memory.

        Args:
            frames: RGB frames, uint8 (N, 3, H, W), as a tensor on any device or a `FrameBatch`, with the stream's
                height and width. Any memory layout works; channels-last, which decoders return, is the fastest. If the
                stream has no ``frame_rate``, pass a `FrameBatch`, whose times are kept. If the stream has a
                ``frame_rate``, frames are evenly spaced. Only the time of the first `FrameBatch` is then used, as the
                start of the stream in the file.

        Raises:
            InvalidArgumentError: if the frames or their times do not fit the stream.
            EncodeError: if no file is open, or encoding has failed earlier.
            ClosedError: if the encoder is closed.
            WriteError: if the file cannot be written.
        """
        with self._session.lock:
            self._session.check_can_add("frames")
            data = check_frames(frames, self._settings.height, self._settings.width)
            if len(data) == 0:
                return
            ticks, durations = self._ticks(frames, len(data))
            for picture, tick, duration in zip(_pictures(data), ticks, durations, strict=True):
                self._session.encode(self._number, picture, tick, duration)

    def _ticks(self, frames: Tensor | FrameBatch, num_frames: int) -> tuple[list[int], list[int]]:
        """Return (times, durations) of frames in units of the time base. Times count from the stream's first frame."""
        times = None
        if isinstance(frames, FrameBatch):
            times = batch_times(frames[:1] if self._follows_rate else frames)
        if not self._follows_rate:
            if times is None:
                raise InvalidArgumentError(
                    "This stream has no frame_rate, so every frame must come with its time: add a FrameBatch, or pass "
                    "frame_rate to add_video()."
                )
            return self._own_ticks(*times)
        self._session.timeline.begin(self._number, None if times is None else float(times[0][0]))
        first = self._next_tick
        self._next_tick += num_frames
        return list(range(first, self._next_tick)), [1] * num_frames

    def _own_ticks(self, pts: NDArray[np.float64], durations: NDArray[np.float64]) -> tuple[list[int], list[int]]:
        start = self._session.timeline.start_of(self._number)
        start = float(pts[0]) if start is None else start
        time_base = self._session.time_base_of(self._number)
        ticks = ticks_of(pts, start, time_base)
        if ticks[0] < self._next_tick or any(later <= sooner for sooner, later in pairwise(ticks)):
            raise InvalidArgumentError(
                f"Frames must be added in the order of their times, and at least {float(time_base):.1e} seconds apart; "
                f"this batch starts at {float(pts[0])}."
            )
        self._session.timeline.begin(self._number, start)
        self._next_tick = ticks[-1] + 1
        return ticks, [max(1, tick) for tick in ticks_of(durations, 0.0, time_base)]


def _pictures(frames: Tensor) -> Iterator[NDArray[np.uint8]]:
    """Yield each frame as an array (3, H, W) on the CPU."""
    # Copying several frames at a time is faster than slicing the tensor for every frame.
    num_together = max(1, MAX_COPY_BYTES // frames[0].nbytes)
    for at in range(0, len(frames), num_together):
        yield from frames[at : at + num_together].cpu().numpy()


class AudioStream(WritesToFile):
    """An audio stream of an `Encoder`. Call `Encoder.add_audio` to get one."""

    def __init__(self, session: Session, settings: AudioSettings) -> None:
        self._session = session
        self._settings = settings
        self._number = session.add(settings)
        self._num_samples = 0

    def add_samples(self, samples: Tensor | AudioSamples) -> None:
        """Encode the next samples. The result does not depend on how the samples are split into calls.

        Args:
            samples: `AudioSamples` or a tensor on any device: float32 (channels, samples) in [-1, 1], or (samples,) for
                one channel. The time of the first `AudioSamples` determines the start of the stream in the file. Gaps
                of up to 24 hours before later `AudioSamples` are filled with silence. An overlap raises an error.

        Raises:
            InvalidArgumentError: if the samples, their rate or their time do not fit the stream.
            EncodeError: if no file is open, or encoding has failed earlier.
            ClosedError: if the encoder is closed.
            WriteError: if the file cannot be written.
        """
        with self._session.lock:
            self._session.check_can_add("samples")
            data = channels_and_samples(samples, self._settings.num_channels).numpy()
            gap = self._gap(samples) if isinstance(samples, AudioSamples) else 0
            self._session.timeline.begin(
                self._number, samples.pts_seconds if isinstance(samples, AudioSamples) else None
            )
            silence = np.zeros((self._settings.num_channels, min(gap, _SAMPLES_AT_A_TIME)), np.float32)
            for at in range(0, gap, _SAMPLES_AT_A_TIME):
                self._encode(silence[:, : gap - at])
            for at in range(0, data.shape[1], _SAMPLES_AT_A_TIME):
                self._encode(data[:, at : at + _SAMPLES_AT_A_TIME])

    def _encode(self, data: NDArray[np.float32]) -> None:
        self._num_samples += data.shape[1]
        self._session.encode(self._number, data)

    def _gap(self, samples: AudioSamples) -> int:
        """Return the number of silent samples to insert before ``samples``."""
        rate = self._settings.sample_rate
        if samples.sample_rate != rate:
            raise InvalidArgumentError(
                f"The stream takes {rate} samples a second, but these AudioSamples have {samples.sample_rate}. Decode "
                f"with sample_rate={rate}, or call add_audio() with sample_rate={samples.sample_rate} and "
                f"out_sample_rate={rate}."
            )
        if not abs(samples.pts_seconds) <= MAX_SECONDS:  # also false for NaN
            raise InvalidArgumentError(
                f"pts_seconds of AudioSamples must be finite and at most {MAX_SECONDS:g} (got {samples.pts_seconds})."
            )
        start = self._session.timeline.start_of(self._number)
        if start is None:
            return 0
        expected = start + self._num_samples / rate
        late = samples.pts_seconds - expected
        if late > _MAX_GAP_SECONDS:
            raise InvalidArgumentError(
                f"These AudioSamples start at {samples.pts_seconds} seconds, {late:.0f} seconds after the end of the "
                f"earlier samples. Only gaps of up to {_MAX_GAP_SECONDS} seconds are filled with silence. To add the "
                "samples without a gap, pass samples.data, which has no time."
            )
        if late < -_TOLERANCE_SECONDS:
            raise InvalidArgumentError(
                f"These AudioSamples start at {samples.pts_seconds} seconds, before the end of the earlier samples, "
                f"{expected}. Leave out the overlap, or pass samples.data, which has no time."
            )
        return round(late * rate) if late > _TOLERANCE_SECONDS else 0


def check_frames(frames: object, height: int | None = None, width: int | None = None) -> Tensor:
    """Return frames as a tensor (N, 3, H, W) on their device; raise if the dtype or the shape is not accepted."""
    data = frames.data if isinstance(frames, FrameBatch) else frames
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected frames to be a Tensor or a FrameBatch, got {type(data)}.")
    if data.ndim != 4:
        raise InvalidArgumentError(f"Expected 4D frames, (N, C, H, W), got {tuple(data.shape)}.")
    if data.dtype != torch.uint8:
        raise InvalidArgumentError(f"Expected uint8 frames: frames must have uint8 dtype, got {data.dtype}.")
    check_has_values("frames", data)
    if data.shape[1] != 3:
        raise InvalidArgumentError(
            f"Each frame must have 3 channels (R, G, B), got {data.shape[1]}: the shape is {tuple(data.shape)}, and "
            "(N, C, H, W) is expected."
        )
    if height is not None and tuple(data.shape[2:]) != (height, width):
        raise InvalidArgumentError(
            f"All frames must have the same dimensions: height {height} and width {width}, "
            f"got {data.shape[2]} and {data.shape[3]}."
        )
    return data.detach()


def channels_and_samples(samples: object, num_channels: int | None = None) -> Tensor:
    """Return samples as a tensor (C, N) on the CPU; raise if dtype, shape or values are not accepted."""
    data = samples.data if isinstance(samples, AudioSamples) else samples
    if not isinstance(data, Tensor):
        raise InvalidArgumentError(f"Expected samples to be a Tensor or AudioSamples, got {type(data)}.")
    if data.ndim not in (1, 2):
        raise InvalidArgumentError(f"Expected 1D or 2D samples, (N,) or (C, N), got {tuple(data.shape)}.")
    if data.dtype != torch.float32:
        raise InvalidArgumentError(
            f"Expected float32 samples between -1 and 1, got {data.dtype}. Convert 16-bit samples with "
            "samples.float() / 32768."
        )
    check_has_values("samples", data)
    data = data.detach().reshape(1, -1) if data.ndim == 1 else data.detach()
    if num_channels is not None and data.shape[0] != num_channels:
        raise InvalidArgumentError(
            f"Expected {num_channels} channels, got {data.shape[0]}: the shape is {tuple(data.shape)}, and (C, N) is "
            "expected."
        )
    data = data.cpu()
    # Codecs differ in how they encode NaN and infinity, so both are rejected. Checking the extremes, which are NaN if
    # any sample is NaN, needs no tensor of the full size.
    if data.numel() and not torch.isfinite(torch.stack(data.aminmax())).all():
        channel, number = (~torch.isfinite(data)).nonzero()[0].tolist()
        raise InvalidArgumentError(
            f"samples must be finite numbers, but sample {number} of channel {channel} is "
            f"{data[channel, number].item()}; torch.nan_to_num(samples) replaces NaN by silence."
        )
    return data
