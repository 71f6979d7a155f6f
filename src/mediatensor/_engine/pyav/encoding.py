"""Write containers (header, packets and trailer), and encode audio streams, with PyAV."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import EncodeError, InvalidArgumentError, MissingDependencyError, WriteError
from ..common.interrupts import interrupts_kept
from ..common.messages import warn_user
from .audio import mix_gain
from .encoding_video import (
    MP4_FAMILY,
    WITHOUT_LOG,
    VideoSettings,
    VideoTrack,
    add_stream,
    find_encoder,
    options_of_all_encoders,
    unused_options,
)
from .opening import error_text

# Common format names that differ from FFmpeg's names.
_FORMAT_ALIASES = {"mkv": "matroska", "mka": "matroska", "ts": "mpegts", "m4a": "ipod"}
_WRITES_ITS_OWN_FILES = 0x1  # AVFMT_NOFILE
_READ = 0x1  # AVIO_FLAG_READ
_USUAL_MOVIE_TIMESCALE = 1000  # FFmpeg's
# Options of one format that users often pass for all formats.
_OPTIONS_NEVER_REFUSED = frozenset(("movflags",))

# The buffer is large because each write takes the GIL and copies the bytes.
_BUFFER_BYTES = 1 << 20


class OutputFile(Protocol):
    """The file object to which a `Muxer` writes. Its methods store exceptions in ``error`` instead of raising them."""

    name: str
    error: BaseException | None
    closed: bool

    def write(self, data: bytes) -> int: ...
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def tell(self) -> int: ...
    def seekable(self) -> bool: ...
    def reader(self) -> Any:
        """Return a file object that reads the bytes that have been written so far."""


def format_of_name(name: str) -> str:
    """Return FFmpeg's name of the muxer for a format that the user named.

    Raise `InvalidArgumentError` if there is none.
    """
    muxer_name = _FORMAT_ALIASES.get(name.lower(), name.lower()) if isinstance(name, str) else ""
    try:
        container_format = av.ContainerFormat(muxer_name, "w")
    except ValueError:
        raise InvalidArgumentError(
            f"Couldn't allocate AVFormatContext: FFmpeg has no format of this name. Check the desired format? Got "
            f"format={name!r}; mp4, mov, mkv, webm, avi, gif, wav, mp3, flac and ogg are some that it has."
        ) from None
    return _check_single_file(container_format, f"format={name!r}")


def format_of_path(path: str | os.PathLike[str]) -> str:
    """Return FFmpeg's name of the muxer for the extension of a path. Raise `InvalidArgumentError` if there is none."""
    name = os.path.basename(os.fspath(path))
    try:
        container_format = av.open(name, "w").format
    except (ValueError, av.FFmpegError):
        raise InvalidArgumentError(
            f"Couldn't allocate AVFormatContext. The destination file is {os.fspath(path)}, check the desired "
            "extension? FFmpeg knows no format that goes with it; .mp4, .mkv, .webm, .mov, .wav, .mp3 and .flac are "
            "some that it knows."
        ) from None
    return _check_single_file(container_format, os.fspath(path))


def _check_single_file(container_format: Any, wanted: str) -> str:
    if container_format.flags & _WRITES_ITS_OWN_FILES:
        raise InvalidArgumentError(
            f"{wanted} is FFmpeg's format {container_format.name!r}, which writes several files. Use a format with "
            "one file (for single images, JpegEncoder or PngEncoder)."
        )
    return str(container_format.name)


# Number of samples in each call of FFmpeg. A fixed number makes the file independent of how the input is divided. Large
# blocks need few calls, but if each block becomes one packet, blocks must be short enough for playback.
_BLOCK_SAMPLES, _PACKET_SAMPLES = 1 << 16, 4096
# FFmpeg's limit (FF_SANE_NB_CHANNELS).
_MAX_CHANNELS = 512

# WAV stores all samples contiguously, so packet boundaries make no difference to the file.
_WAV, _WAV_CODEC = "wav", "pcm_s16le"
_INT16 = np.iinfo(np.int16)

_ANY_FRAME_SIZE = int(av.codec.codec.Capabilities.variable_frame_size)

# PyAV miscounts the planes of frames with eight channels.
_MOST_PLANES = 7

_AUDIO_ENCODERS = "aac, libmp3lame, libopus, flac, alac and pcm_s16le"
_FLOAT_FORMATS = ("fltp", "flt", "dblp", "dbl")
_SAMPLE_FORMATS = (*_FLOAT_FORMATS, "s32p", "s32")  # in order of preference
# FFmpeg without Vorbis chooses AC-3 for Matroska. AC-3 supports only three sample rates and loses the exact length.
_DEFAULT_CODECS = {("matroska", "ac3"): "aac"}


@dataclass(frozen=True)
class AudioSettings:
    """How to encode an audio stream. ``None`` means the default of the container or the encoder."""

    sample_rate: int
    num_channels: int
    bit_rate: int | None  # in bits per second
    out_num_channels: int
    out_sample_rate: int
    codec: str | None = None  # name of an encoder or of a codec


class AudioTrack:
    """An audio stream of a container that is being written. It encodes samples to packets."""

    def __init__(self, container: Any, container_name: str, settings: AudioSettings) -> None:
        self._settings = settings
        default = container.default_audio_codec
        default = _DEFAULT_CODECS.get((container_name, default), default)
        codec = find_encoder("audio", settings.codec, default, container_name, known=_AUDIO_ENCODERS)
        self.codec_name: str = codec.name
        _check_rate(codec, settings.out_sample_rate)
        if settings.bit_rate is not None and settings.bit_rate < 0:
            raise InvalidArgumentError(f"bit_rate={settings.bit_rate} must be >= 0, in bits a second.")
        #: Unit of packet times in seconds.
        self.time_base = Fraction(1, settings.out_sample_rate)
        self._layout = _layout(settings.num_channels)
        has_own_packets = container_name == _WAV or not codec.capabilities & _ANY_FRAME_SIZE
        self._block_samples = _BLOCK_SAMPLES if has_own_packets else _PACKET_SAMPLES
        self._block = np.zeros((settings.num_channels, self._block_samples), np.float32)
        self._filled = 0
        self._num_samples = 0
        # FFmpeg's mix of floats to fewer channels can exceed full scale. Its mix of integers cannot.
        self._gain = 1.0
        if settings.out_num_channels < settings.num_channels and _sample_format(codec) in _FLOAT_FORMATS:
            with suppress(av.FFmpegError, ValueError):  # `open` reports the error
                self._gain = mix_gain(self._layout, settings.num_channels, settings.out_num_channels)
        is_unchanged = (settings.num_channels, settings.sample_rate) == (
            settings.out_num_channels,
            settings.out_sample_rate,
        )
        self._is_plain_wav = is_unchanged and (container_name, codec.name) == (_WAV, _WAV_CODEC)
        self._stream = add_stream(container, codec, settings.out_sample_rate, self.time_base, settings.bit_rate)
        self._stream.codec_context.layout = _layout(settings.out_num_channels)
        self._stream.codec_context.format = _sample_format(codec)

    def open(self) -> dict[str, str]:
        """Open the encoder. Return an empty dictionary of unused options: users set no options for audio encoders."""
        settings = self._settings
        context = self._stream.codec_context
        context.options = dict(WITHOUT_LOG)
        try:
            context.open()
        except (av.FFmpegError, ValueError) as error:
            if settings.out_num_channels > 2:
                raise InvalidArgumentError(
                    f"Desired number of channels ({settings.out_num_channels}) is not supported by the "
                    f"{self.codec_name} encoder ({error_text(error)}), or not with {settings.out_sample_rate} samples "
                    "a second; pass fewer channels."
                ) from error
            raise EncodeError(
                f"The {self.codec_name} encoder could not be opened ({error_text(error)}) for "
                f"{settings.out_num_channels} channels, {settings.out_sample_rate} samples a second and "
                f"bit_rate={settings.bit_rate}. It may refuse one of these."
            ) from error
        return {}

    def encode(self, samples: NDArray[np.float32]) -> list[Any]:
        """Encode samples (C, N). Return the packets that are complete so far."""
        packets: list[Any] = []
        size, at = self._block_samples, 0
        while at < samples.shape[1]:
            taken = min(size - self._filled, samples.shape[1] - at)
            piece = samples[:, at : at + taken]
            at += taken
            if taken == size:
                packets += self._encode_block(piece)
                continue
            self._block[:, self._filled : self._filled + taken] = piece
            self._filled += taken
            if self._filled == size:
                packets += self._encode_block(self._block)
                self._filled = 0
        return packets

    def _encode_block(self, samples: NDArray[np.float32]) -> list[Any]:
        settings = self._settings
        at, self._num_samples = self._num_samples, self._num_samples + samples.shape[1]
        if self._is_plain_wav:
            return [self._pcm_packet(samples, at)]
        if self._gain != 1.0:
            samples = samples * np.float32(self._gain)
        if settings.num_channels <= _MOST_PLANES:
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=self._layout)
        else:
            packed = np.ascontiguousarray(samples.T).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=self._layout)
        frame.sample_rate, frame.pts = settings.sample_rate, at
        frame.time_base = Fraction(1, settings.sample_rate)
        packets: list[Any] = self._stream.encode(frame)
        return packets

    def _pcm_packet(self, samples: NDArray[np.float32], at: int) -> Any:
        """Convert samples to a packet of 16-bit PCM. ``at`` is the time stamp of the packet.

        This needs fewer copies than FFmpeg's converter and PCM encoder, and gives the same result.
        """
        integers = np.empty((samples.shape[1], len(samples)), "<i2")
        values = np.empty(samples.shape[1], np.float32)
        for number, channel in enumerate(samples):
            np.multiply(channel, -int(_INT16.min), out=values)
            np.rint(values, out=values)
            np.clip(values, _INT16.min, _INT16.max, out=values)
            integers[:, number] = values
        data: Any = integers  # the type hints of Packet allow no buffers except bytes
        packet = av.Packet(data)
        packet.pts = packet.dts = at
        packet.duration, packet.time_base = samples.shape[1], self.time_base
        packet.stream, packet.is_keyframe = self._stream, True
        return packet

    def flush(self) -> list[Any]:
        packets = self._encode_block(self._block[:, : self._filled]) if self._filled else []
        with suppress(EOFError):  # PyAV flushes twice if nothing is converted
            for packet in self._stream.codec_context.encode_lazy(None):
                packet.stream = self._stream
                packets.append(packet)
        return packets


def _check_rate(codec: Any, sample_rate: int) -> None:
    rates = codec.audio_rates
    if rates and sample_rate not in rates:
        raise InvalidArgumentError(
            f"invalid sample rate={sample_rate}: the {codec.name} encoder takes {', '.join(map(str, sorted(rates)))}. "
            "Pass one of them as the sample rate of the output, and the samples are resampled."
        )


def _sample_format(codec: Any) -> str:
    """Choose, from the sample formats of an encoder, the one that keeps the most precision of float samples."""
    names = [sample_format.name for sample_format in codec.audio_formats or ()]
    return next((name for name in _SAMPLE_FORMATS if name in names), names[0] if names else "s16")


def _layout(num_channels: int) -> str:
    """Return the name of FFmpeg's default channel layout for a number of channels.

    If FFmpeg has no default, return a layout of unspecified channels.
    """
    if num_channels > _MAX_CHANNELS:
        raise InvalidArgumentError(
            f"Desired number of channels ({num_channels}) is more than FFmpeg can write, which is {_MAX_CHANNELS}. "
            "Samples are expected as (C, N), channels first."
        )
    layout = f"{num_channels}c"
    with suppress(ValueError):
        av.AudioLayout(layout)
        return layout
    return f"{num_channels}C"


def _movie_timescale(tracks: Sequence[VideoTrack | AudioTrack], copied_rates: Sequence[int]) -> int:
    """Return how many ticks per second to use for the start and end times of the streams in an mp4 header.

    If there is audio, use its sample rate, so that these times are exact. ``copied_rates`` are the sample rates of
    copied streams.
    """
    audio_rates = [track.time_base.denominator for track in tracks if isinstance(track, AudioTrack)]
    audio_rates += copied_rates
    return max(audio_rates or [track.time_base.denominator for track in tracks] + [_USUAL_MOVIE_TIMESCALE])


def _want_early_reading(options: Mapping[str, str]) -> bool:
    """Return whether ``options`` show that the file is to be read while it is being written.

    Such options request a fragmented file, or request that each packet is flushed to the file.

    >>> _want_early_reading({"movflags": "+frag_keyframe+empty_moov"}), _want_early_reading({"movflags": "faststart"})
    (True, False)
    """
    flags = re.findall(r"(?:^|\+)(\w+)", options.get("movflags", ""))
    names = (*flags, *options)
    return any(name.startswith("frag_") for name in names) or options.get("flush_packets", "-1") not in ("0", "-1")


class Muxer:
    """Writes a container to a file object, or to a URL that FFmpeg opens.

    First add streams with `add_video` and `add_audio`. `start` then opens the encoders and writes the header. Call
    `write` for the packets, and `finish` at the end. A muxer that is discarded before `finish` writes nothing more.
    """

    #: Whether the options suggest that others read the file while it is being written. Known after `start`.
    is_read_while_written = False

    def __init__(self, output: OutputFile | str, container: str) -> None:
        self._output = None if isinstance(output, str) else output
        self._name = container
        # A reference to this object would form a cycle, so large encoders would stay in memory until garbage
        # collection.
        options: dict[str, Any] = {} if self._output is None else {"io_open": partial(_open_again, self._output)}
        with self.reporting("the container could not be made"):
            self._container: Any = av.open(output, "w", format=container, buffer_size=_BUFFER_BYTES, **options)
        self.tracks: list[VideoTrack | AudioTrack] = []
        self._copied_rates: list[int] = []

    def add_video(self, settings: VideoSettings) -> None:
        self.tracks.append(VideoTrack(self._container, self._name, settings))

    def add_audio(self, settings: AudioSettings) -> None:
        self.tracks.append(AudioTrack(self._container, self._name, settings))

    def can_store(self, codec: str) -> bool:
        """Return whether the container can store streams of a codec, and this build of FFmpeg can encode them."""
        return codec in self._container.supported_codecs

    def add_copy(self, stream: Any) -> Any:
        """Add a stream for packets of an audio stream of another container.

        The caller sets ``packet.stream`` to the result. The language is copied; other tags are not.
        """
        codec = stream.codec_context.codec.canonical_name
        with self.reporting(f"the format {self._name} cannot store the audio stream {stream.index} ({codec})"):
            copy = self._container.add_stream_from_template(stream)
        self._copied_rates.append(stream.codec_context.sample_rate or _USUAL_MOVIE_TIMESCALE)
        copy.metadata.clear()
        if stream.language is not None:
            copy.metadata["language"] = stream.language
        return copy

    def start(self) -> None:
        """Open the encoders and write the header.

        Raises `InvalidArgumentError` for an invalid setting, `EncodeError` if an encoder or the container fails, and
        `WriteError` if the output cannot be written.
        """
        leftover: dict[str, str] = {}
        for track in self.tracks:
            leftover |= track.open()
        self.is_read_while_written = _want_early_reading(leftover)
        if self.is_read_while_written:
            leftover.setdefault("flush_packets", "1")
        if self._name in MP4_FAMILY:
            leftover.setdefault("movie_timescale", str(_movie_timescale(self.tracks, self._copied_rates)))
        # The encoders are open already, so only the container gets these options.
        self._container.options.update(leftover)
        with unused_options(leftover) as unused:
            try:
                with self.reporting("the header could not be written"):
                    self._container.start_encoding()
            except EncodeError as error:
                raise EncodeError(self._header_help(error, leftover)) from error
        if unused:
            self._report_unused_options(unused)

    def _report_unused_options(self, names: set[str]) -> None:
        """Warn about unused options. Raise `InvalidArgumentError` if one of them exists in no encoder of FFmpeg.

        ``names`` are options that neither the chosen encoders nor the container use. ``movflags`` is never an error.
        """
        users = f"({', '.join(track.codec_name for track in self.tracks)}) nor the format {self._name}"
        unknown = names - options_of_all_encoders() - _OPTIONS_NEVER_REFUSED
        if unknown:
            raise InvalidArgumentError(
                f"Unknown option in extra_options: {', '.join(sorted(unknown))}. Neither the encoder {users} has it."
            )
        warn_user(
            f"Nothing uses the option {', '.join(sorted(names))}: neither the encoder {users} has it. It is ignored; "
            "extra_options takes the options of this encoder by their own names."
        )

    def _header_help(self, error: EncodeError, options: dict[str, str]) -> str:
        text = str(error)
        if self._output is not None and not self._output.seekable():
            text += f" The destination cannot seek, which the format {self._name} may need; matroska does not."
        codecs = ", ".join(track.codec_name for track in self.tracks)
        text += f" The format is {self._name}, the codecs are {codecs}"
        return text + (f", the options of the container are {options}." if options else ".")

    def write(self, packets: Sequence[Any]) -> None:
        with self.reporting("a packet could not be written"):
            self._container.mux(packets)

    def finish(self) -> None:
        with self.reporting("the end of the file could not be written"):
            self._container.close()

    @contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """Return a context manager that raises errors of FFmpeg as errors of this library. ``what`` says what failed.

        If writing to the output failed, `WriteError` is raised instead.
        """
        with interrupts_kept():  # outermost: a signal handler may raise an OSError, such as TimeoutError
            try:
                yield
            except (av.FFmpegError, ValueError, OSError, EOFError, OverflowError) as error:
                self._raise_output_error()
                if isinstance(error, (InvalidArgumentError, EncodeError)):
                    raise
                if self._output is None and isinstance(error, OSError):
                    raise WriteError(f"Encoding failed: {what} ({error_text(error)}).") from error
                raise EncodeError(f"Encoding failed: {what} ({error_text(error)}).") from error
            self._raise_output_error()

    def _raise_output_error(self) -> None:
        error = None if self._output is None else self._output.error
        if error is None:
            return
        if not isinstance(error, Exception):  # an interrupt, or the end of the program
            raise error
        raise WriteError(f"Writing failed: {error or type(error).__name__}.") from error

    def abandon(self) -> None:
        """Free the encoders after the output was closed. Data that have not been written yet are lost."""
        with interrupts_kept(), suppress(av.FFmpegError, ValueError, OSError):
            self._container.close()
        self.tracks.clear()


def _open_again(output: OutputFile, url: str, flags: int, options: dict[str, str]) -> Any:
    """Open ``url`` for a muxer that reads its own output. Raise PermissionError unless ``url`` is this output."""
    if url != output.name or flags & ~_READ:
        raise PermissionError(f"the container wants to open another file ({url!r}), which is not allowed")
    return output.reader()


_SAMPLE_RATE = 48_000
_AAC_FRAME_LENGTH = 1024


def write_test_pattern(
    path: Path, *, width: int = 640, height: int = 360, fps: int = 30, num_frames: int = 300, gop_length: int = 48
) -> None:
    """Write a test video: a moving pattern as H.264 in MP4 with a B-frame pyramid, and a beep every second as AAC.

    The pattern shows its time and frame number, so no two frames are equal. ``width`` and ``height`` must be even.
    Raises `MissingDependencyError` if this build of FFmpeg has no H.264 encoder.
    """
    if "libx264" not in av.codecs_available:
        raise MissingDependencyError(
            "Writing an H.264 video needs an FFmpeg with the encoder libx264, which this build of PyAV lacks; "
            "the PyAV wheels on PyPI have it."
        )
    pattern = f"testsrc2=size={width}x{height}:rate={fps}"
    beeps = f"sine=frequency=440:beep_factor=4:sample_rate={_SAMPLE_RATE}:duration={num_frames / fps}"
    with av.open(str(path), "w", format="mp4") as output:
        video = output.add_stream("libx264", rate=fps)
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        video.options = {**WITHOUT_LOG, "preset": "veryfast", "crf": "23", "bf": "3", "b-pyramid": "normal"}
        video.codec_context.gop_size = gop_length
        audio = output.add_stream("aac", rate=_SAMPLE_RATE, layout="mono")
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=_SAMPLE_RATE, frame_size=_AAC_FRAME_LENGTH)
        with av.open(beeps, format="lavfi") as source:
            for beep in source.decode(audio=0):
                for piece in resampler.resample(beep):
                    output.mux(audio.encode(piece))
        for piece in resampler.resample(None):
            output.mux(audio.encode(piece))
        output.mux(audio.encode(None))
        with av.open(pattern, format="lavfi") as source:
            for number, frame in enumerate(source.decode(video=0)):
                if number == num_frames:
                    break
                picture = frame.reformat(format="yuv420p")
                # The source marks every frame as an I-frame, which x264 would follow. With 0, the encoder chooses.
                picture.pict_type = 0
                picture.pts, picture.time_base = number, Fraction(1, fps)
                output.mux(video.encode(picture))
        output.mux(video.encode(None))
