"""`Encoder`: several streams into one file, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn

from .._common.checks import MAX_INT, optional_text, shown, whole_number
from .._common.devices import checked_device
from .._pyav.encoding import format_of_name, format_of_path
from .._pyav.encoding_audio import AudioSettings
from .._pyav.encoding_video import VideoSettings
from ..errors import InvalidArgumentError
from ._session import Session
from ._streams import AudioStream, VideoStream
from ._target import FileLikeTarget, make_target
from ._times import FINE_TIME_BASE, NOMINAL_FRAME_RATE, frame_rate_fraction

__all__ = ["Encoder", "positive_whole"]


class Encoder:
    """Writes videos and sounds into one file, as they come.

    Add streams, open a file, add data, close::

        encoder = Encoder()
        video = encoder.add_video(height=720, width=1280, frame_rate=30)
        audio = encoder.add_audio(sample_rate=48_000, num_channels=2)
        with encoder.open_file("out.mp4"):
            for frames, samples in chunks:
                video.add_frames(frames)
                audio.add_samples(samples)

    **No file that looks whole is left by a failure.** A file is written under a temporary name beside its destination
    and takes its place, whole, when the encoder is closed. If the ``with`` block raises, if something fails, or if the
    encoder is dropped without `close`, the temporary file is removed, and what was there before stays. A process that
    is killed leaves a hidden file whose name ends in ``.part``. Devices, pipes and URLs are written directly; a file
    object keeps what was written to it, without the end that players need.

    **Files to be read while they are written.** Where ``extra_options`` asks for fragments, such as ``{"movflags":
    "+frag_keyframe+empty_moov"}``, or has ``{"flush_packets": 1}`` (for mkv, ts and others that can be read without an
    end), the file takes its name with its header, grows with each fragment or packet, and is kept whatever happens.

    **Time.** Data without times begins with the file. Of the streams whose first data has a time (`FrameBatch`,
    `AudioSamples`), the earliest begins with the file and the others as much later as their times say, so that what was
    decoded together stays together; packets wait until all streams have begun. Add streams in step: what is added far
    ahead of another stream waits in memory, encoded.

    **Colours.** RGB is converted to BT.709 from 1280 columns or 577 lines on, to BT.601 below, in limited range, and
    the file says so, for the codec and in the container. Where neither can say it (MPEG-4 in avi, VP8, JPEG) it
    is BT.601, which players take for granted. ``colorspace``, ``color_range``, ``color_primaries`` and ``color_trc`` in
    ``extra_options`` choose otherwise: the pixels are converted as they say.

    Encoders use as many threads as FFmpeg thinks right; ``extra_options={"threads": 1}`` sets a number. An encoder
    belongs to one process and cannot be pickled. Calls from several threads take turns.

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
            height: Of the frames, in pixels.
            width: Of the frames, in pixels.
            frame_rate: Frames a second, evenly spaced. ``None`` for a variable rate: every frame comes in a
                `FrameBatch` and keeps its time, to 1/90000 second (in mkv and webm, to 1/1000). So that mp4 and mov
                keep durations, too, there are no B pictures in them then, unless ``extra_options`` has ``bf``.
            device: Of the frames, for code written for torchcodec; it changes nothing. Frames may be on any device, and
                are encoded on the CPU: a batch is copied there as a whole. (A hardware encoder can be named with
                ``codec``, for instance ``"h264_nvenc"``.)
            codec: Name of an encoder (``"libx264"``) or of a codec (``"h264"``); by default the container's own.
            pixel_format: FFmpeg's name, such as ``"yuv420p"`` or ``"yuv444p"``; by default the encoder's first.
            crf: Constant rate factor: less is better and larger. Encoders have their own ranges and defaults; one that
                has none ignores it, with a warning.
            preset: Speed against size, such as ``"fast"``, or a number, as the encoder has them; or ignored as ``crf``.
            extra_options: Further options of FFmpeg by name, of the encoder or the container, with values as its
                program takes them, for instance ``{"g": 12, "profile": "baseline", "movflags": "faststart"}``. One that
                only other encoders have is ignored, with a warning.

        Raises:
            InvalidArgumentError: if an argument is not accepted. Codec, pixel format and options are checked when the
                file is opened.
            EncodeError: if the encoder is open.
            ClosedError: if it was closed.

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
        for name in ("pix_fmt", "pixel_format"):  # else frames would be converted twice
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
            sample_rate: Of the samples that will be added, a second.
            num_channels: Of the samples that will be added.
            bit_rate: Bits a second; by default the encoder's own. Lossless codecs ignore it.
            out_num_channels: Channels in the file, mixed by FFmpeg; by default as many as come.
            out_sample_rate: Samples a second in the file, resampled by FFmpeg; by default as many as come.
            codec: Name of an encoder or of a codec; by default the container's own (for mkv, AAC).

        Raises:
            InvalidArgumentError: if an argument is not accepted. Codec and rates (of samples and bits) are checked when
                the file is opened.
            EncodeError: if the encoder is open.
            ClosedError: if it was closed.

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
        """Open a file; its extension decides on the container.

        Args:
            dest: A path, or a URL of a protocol that FFmpeg can write.

        Returns:
            The encoder, for ``with``: it is closed at the end of the block, or given up if the block raises.

        Raises:
            InvalidArgumentError: if no container goes with the extension, or a setting of a stream is refused.
            EncodeError: if there are no streams, if it is open, or if FFmpeg refuses something.
            WriteError: if the file cannot be made.
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
            # Nothing is made for a wrong extension; what is no path at all, the target tells.
            container = format_of_path(dest) if isinstance(dest, (str, os.PathLike)) else ""
            self._session.open(make_target(dest), container)
        return self

    def open_file_like(self, dest: Any, *, format: str) -> Encoder:
        """Write to a file object.

        Args:
            dest: A binary file object with ``write(data: bytes) -> int`` and ``seek(offset: int, whence: int) -> int``;
                without ``seek``, only for containers that can be written in one go, such as matroska, mpegts or flac.
                What it holds already stays: the file begins where it stands. It stays open.
            format: Name of the container, such as ``"mp4"``, ``"mkv"`` or ``"wav"``.

        Returns:
            The encoder, for ``with``, as `open_file`.

        Raises:
            SourceTypeError: if it cannot be written to.
            InvalidArgumentError: if there is no such format, or a setting of a stream is refused.
            EncodeError, WriteError, ClosedError: as `open_file`.
        """
        with self._session.lock:
            self._session.check_can_open()
            container = format_of_name(format)
            self._session.open(FileLikeTarget(dest), container)
        return self

    def close(self) -> None:
        """Finish the file. Closing again does nothing. A video stream without frames is left empty, with a warning.

        Raises:
            EncodeError: if encoding cannot be finished, or failed before.
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
    """``value`` as an int, if it is a whole number above 0 that FFmpeg can hold; a float may be whole, too.

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
    """Options as FFmpeg takes them: text.

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
