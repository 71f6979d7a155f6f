"""`Encoder`: writes several streams into one file, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn

from .._engine.common.checks import MAX_INT, optional_text, shown, whole_number
from .._engine.common.devices import checked_device
from .._engine.pyav.encoding import format_of_name, format_of_path
from .._engine.pyav.encoding_tracks import AudioSettings, VideoSettings
from ..errors import InvalidArgumentError
from ._session import FINE_TIME_BASE, NOMINAL_FRAME_RATE, Session, frame_rate_fraction
from ._streams import AudioStream, VideoStream
from ._target import FileLikeTarget, make_target

__all__ = ["Encoder", "positive_whole"]


class Encoder:
    """Writes video and audio streams into one file, chunk by chunk.

    Add streams, open a file, add data, and close::

        encoder = Encoder()
        video = encoder.add_video(height=720, width=1280, frame_rate=30)
        audio = encoder.add_audio(sample_rate=48_000, num_channels=2)
        with encoder.open_file("out.mp4"):
            for frames, samples in chunks:
                video.add_frames(frames)
                audio.add_samples(samples)

    **A failure does not leave an incomplete file at a path.** The encoder writes a temporary file next to the
    destination, and renames it on `close`. If the ``with`` block raises, encoding fails, or the encoder is dropped
    without `close`, the temporary file is removed, and an older file at the destination stays. A killed process leaves
    a hidden file whose name ends in ``.part``. Devices, pipes and URLs are written directly. After a failure, a file
    object keeps the bytes written so far, without the trailer that players need.

    **Files that are read while they are written.** For mp4, enable fragments with ``{"movflags":
    "+frag_keyframe+empty_moov"}`` in ``extra_options``. For mkv, ts and other containers that are readable without an
    end, use ``{"flush_packets": 1}``. The file then appears when its header is written, grows with each fragment or
    packet, and is kept even after a failure.

    **Time.** Data without times starts at time zero of the file. If several streams have times (`FrameBatch`,
    `AudioSamples`), the earliest stream starts with the file, and other streams keep their offset to it. Streams that
    were decoded together therefore stay in sync. Packets are kept in memory until all streams have data, and while
    another stream lags behind, so add data to all streams in step.

    **Colours.** RGB is converted to BT.709 for frames of at least 1280 columns or 577 lines, and to BT.601 for smaller
    frames, in limited range. The codec and the container are tagged accordingly. If neither has such tags (MPEG-4 in
    avi, VP8, JPEG), the encoder uses BT.601, which players assume. ``colorspace``, ``color_range``, ``color_primaries``
    and ``color_trc`` in ``extra_options`` select other colours, and the pixels are converted accordingly.

    FFmpeg chooses the number of threads; ``extra_options={"threads": 1}`` sets it. An encoder belongs to one process
    and cannot be pickled. Calls from several threads take turns.

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
        """Add a video stream.

        Args:
            height: Height of the frames in pixels.
            width: Width of the frames in pixels.
            frame_rate: Frames per second, evenly spaced. ``None`` means a variable rate: add every frame in a
                `FrameBatch`, whose times are kept to 1/90000 second (in mkv and webm, to 1/1000). To keep durations,
                mp4 and mov then have no B-frames, unless ``extra_options`` has ``bf``.
            device: Has no effect; accepted for compatibility with torchcodec. Frames may be on any device. They are
                copied to the CPU and encoded there, unless ``codec`` names a hardware encoder such as ``"h264_nvenc"``.
            codec: Name of an encoder (``"libx264"``) or of a codec (``"h264"``); by default the container's own.
            pixel_format: FFmpeg's name of a format, such as ``"yuv420p"``; by default the first that the encoder has.
            crf: Constant rate factor: a smaller number means better quality and a larger file. Range and default depend
                on the encoder. An encoder without this option ignores it with a warning.
            preset: Trade-off of speed and size: a name such as ``"fast"``, or a number, depending on the encoder. An
                encoder without this option ignores it with a warning.
            extra_options: Further options of the encoder or the container by FFmpeg's names, with the values that the
                ``ffmpeg`` program accepts, for example ``{"g": 12, "profile": "baseline", "movflags": "faststart"}``.
                Options that only other encoders have are ignored with a warning.

        Raises:
            InvalidArgumentError: if an argument is not accepted. Codec, pixel format and options are checked when the
                file is opened.
            EncodeError: if the encoder is open.
            ClosedError: after `close`.

        Example:
            >>> from mediatensor.encoders import Encoder
            >>> video = Encoder().add_video(height=720, width=1280, frame_rate=30, codec="libx264", crf=20)
        """
        rate = NOMINAL_FRAME_RATE if frame_rate is None else frame_rate_fraction(frame_rate)
        return self._add_video(
            height=height,
            width=width,
            nominal_rate=rate,
            follows_rate=frame_rate is not None,
            device=device,
            codec=codec,
            pixel_format=pixel_format,
            crf=crf,
            preset=preset,
            extra_options=extra_options,
        )

    def _add_video(
        self,
        *,
        height: int,
        width: int,
        nominal_rate: Fraction,
        follows_rate: bool,
        device: Any,
        codec: str | None,
        pixel_format: str | None,
        crf: float | None,
        preset: str | int | None,
        extra_options: Mapping[str, Any] | None,
    ) -> VideoStream:
        if device is not None:
            checked_device(device)
        optional_text("codec", codec)
        optional_text("pixel_format", pixel_format)
        options = _options_of(extra_options)
        options |= {name: str(value) for name, value in (("crf", crf), ("preset", preset)) if value is not None}
        for name in ("pix_fmt", "pixel_format"):  # passed as an encoder option, it would convert frames twice
            pixel_format = pixel_format or options.pop(name, None)
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
        """Add an audio stream.

        Args:
            sample_rate: Samples per second of the data that you will add.
            num_channels: Number of channels of the data that you will add.
            bit_rate: Bits per second (default: the encoder's own). Lossless codecs ignore it.
            out_num_channels: Number of channels in the file; by default ``num_channels``. The weights for mixing to
                fewer channels add up to at most 1, which prevents clipping: stereo becomes the mean.
            out_sample_rate: Samples per second in the file, resampled by FFmpeg; by default ``sample_rate``.
            codec: Name of an encoder or of a codec; by default the container's own (for mkv, AAC).

        Raises:
            InvalidArgumentError: if an argument is not accepted. Codec and rates (of samples and bits) are checked when
                the file is opened.
            EncodeError: if the encoder is open.
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
            out_num_channels=_or_else("out_num_channels", out_num_channels, num_channels),
            out_sample_rate=_or_else("out_sample_rate", out_sample_rate, sample_rate),
            codec=codec,
        )
        with self._session.lock:
            return AudioStream(self._session, settings)

    def open_file(self, dest: str | os.PathLike[str]) -> Encoder:
        """Open a file; its extension selects the container.

        Args:
            dest: A path, or a URL of a protocol that FFmpeg can write.

        Returns:
            The encoder as a context manager. The end of the block closes it; if the block raises, the file is
            discarded.

        Raises:
            InvalidArgumentError: if no container has this extension, or a setting of a stream is rejected.
            EncodeError: if there are no streams, the encoder is open, or FFmpeg cannot start the encoders.
            WriteError: if the file cannot be created.
            ClosedError: if the encoder was closed.

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
            # Check the extension first, so that a wrong extension creates no file. The target rejects anything that is
            # not a path.
            container = format_of_path(dest) if isinstance(dest, (str, os.PathLike)) else ""
            self._session.open(make_target(dest), container)
        return self

    def open_file_like(self, dest: Any, *, format: str) -> Encoder:
        """Write to a file object.

        Args:
            dest: A binary file object with ``write(data: bytes) -> int`` and ``seek(offset: int, whence: int) -> int``;
                ``seek`` is optional for containers that are written sequentially, such as matroska, mpegts or flac.
                Writing begins at the current position. The file object stays open.
            format: Name of the container, such as ``"mp4"``, ``"mkv"`` or ``"wav"``.

        Returns:
            The encoder as a context manager, like `open_file`.

        Raises:
            SourceTypeError: if ``dest`` cannot be written to.
            InvalidArgumentError: if there is no such format, or a setting of a stream is rejected.
            EncodeError, WriteError, ClosedError: as `open_file`.
        """
        with self._session.lock:
            self._session.check_can_open()
            container = format_of_name(format)
            self._session.open(FileLikeTarget(dest), container)
        return self

    def close(self) -> None:
        """Finish the file. Closing twice is allowed. A video stream without frames stays empty, with a warning.

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

    def __reduce__(self) -> NoReturn:
        raise TypeError("An Encoder cannot be pickled: it writes to an open file. Make encoders where they are used.")


def _or_else(name: str, value: int | None, default: int) -> int:
    return default if value is None else positive_whole(name, value)


def positive_whole(name: str, value: Any) -> int:
    """Return ``value`` as an int; raise unless it is a whole number (int or float) above 0 that FFmpeg can store.

    >>> positive_whole("sample_rate", 16000)
    16000
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return whole_number(name, value, at_least=1, at_most=MAX_INT)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{name} = {shown(value)} must be > 0. (A whole number, at most {MAX_INT}.)"
        ) from None


def _options_of(extra_options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return options as strings for FFmpeg.

    >>> _options_of({"g": 12, "movflags": "faststart"})
    {'g': '12', 'movflags': 'faststart'}
    """
    if extra_options is None:
        return {}
    if not isinstance(extra_options, Mapping) or not all(isinstance(key, str) for key in extra_options):
        raise InvalidArgumentError(f"extra_options must be a dict with str keys (got {shown(extra_options)}).")
    options = {key: str(value) for key, value in extra_options.items()}
    if any("\0" in text for option in options.items() for text in option):
        raise InvalidArgumentError(f"extra_options must not contain the character NUL (got {shown(extra_options)}).")
    return options
