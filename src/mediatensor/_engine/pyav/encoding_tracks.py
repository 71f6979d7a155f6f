"""Encode one video or audio stream: find the encoder, check its options, turn arrays into packets."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import EncodeError, InvalidArgumentError
from .audio import mix_gain
from .encoding_colours import RgbConverter, choose_colour, take_colour_options
from .opening import error_text

#: Options that silence an encoder's log. Opening or freeing an encoder waits for its threads while holding the GIL. If
#: the application makes PyAV forward FFmpeg's log (``av.logging.set_level``), these threads need the GIL to log, which
#: is a deadlock. Unlike a decoder (`opening.let_rest`), a dropped encoder cannot be flushed first.
WITHOUT_LOG = {"log_level_offset": str(1 << 30)}

# Numbers of FFmpeg's AVOptionType.
_NUMERIC_TYPES = ("INT", "INT64", "UINT", "UINT64", "FLOAT", "DOUBLE")
# FFmpeg's own notation: 2M, 1.5k, 64Ki, 0x10.
_NUMBER = re.compile(r"[-+]?(0x[\da-fA-F]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?([yzafpnumcdhkKMGTPEZY]i?)?B?)")
_EXPRESSION = re.compile(r"[*/()^;]|[^e]\b[-+]")
_GENERAL_WORDS = ("default", "max", "min", "none", "all")
_BOOLEANS = frozenset(("1", "0", "-1", "auto", "true", "y", "yes", "enable", "enabled", "on"))
_BOOLEANS |= {"false", "n", "no", "disable", "disabled", "off"}


def find_encoder(kind: str, wanted: str | None, default: str, container: str, *, known: str) -> Any:
    """Return the named encoder as PyAV's ``Codec``. ``known`` lists examples for the error message."""
    name = wanted or default
    try:
        codec = av.Codec(name, "w")
    except (ValueError, av.FFmpegError):
        if wanted is None:
            raise InvalidArgumentError(
                f"The format {container} has no default {kind} codec that can be encoded here; use another format."
            ) from None
        raise InvalidArgumentError(
            f"{kind.capitalize()} codec {name} not found: FFmpeg has no encoder of this name. {known} are some that it "
            "has."
        ) from None
    if codec.type != kind:
        raise InvalidArgumentError(f"{kind.capitalize()} codec {name} not found: it is a codec for {codec.type}.")
    return codec


def _add_stream(container: Any, codec: Any, rate: Any, time_base: Fraction, bit_rate: int | None = None) -> Any:
    """Add a stream to a container. Without ``bit_rate``, use the encoder's default instead of PyAV's."""
    if bit_rate is None:
        defaults: Any = av.CodecContext.create(codec.name, "w")
        bit_rate = defaults.bit_rate
    try:
        stream = container.add_stream(
            codec.name,
            rate=rate,
            time_base=time_base,
            bit_rate=bit_rate or 0,
            bit_rate_tolerance=_DEFAULT_BIT_RATE_TOLERANCE,
        )
    except ValueError as error:
        raise InvalidArgumentError(f"The codec {codec.name} does not go with the container: {error}.") from None
    # With PyAV's default thread type, x264 would split every frame into slices.
    stream.codec_context.thread_type, stream.codec_context.thread_count = "AUTO", 0
    return stream


class EncoderOption(NamedTuple):
    """FFmpeg's description of an option: its type (such as ``"INT"``), numeric bounds, and named values."""

    kind: str
    lowest: float
    highest: float
    words: tuple[str, ...]


@lru_cache(maxsize=64)
def encoder_options(codec_name: str) -> dict[str, EncoderOption]:
    """Return an encoder's options by name. As in FFmpeg, its private options override general options."""
    context: Any = av.CodecContext.create(codec_name, "w")
    supported = context.supported_options
    return {
        option.name: EncoderOption(
            "ARRAY" if option.is_array else getattr(option.type, "name", ""),
            option.min,
            option.max,
            tuple(choice.name for choice in option.choices),
        )
        for option in (*supported.generic, *supported.private)
    }


@lru_cache(maxsize=1)
def options_of_all_encoders() -> frozenset[str]:
    """Return the names of all options of all encoders."""
    names: set[str] = set()
    for name in av.codecs_available:
        with suppress(ValueError, av.FFmpegError):  # decoders
            names.update(encoder_options(av.Codec(name, "w").name))
    return frozenset(names)


def fault_in(codec_name: str, options: dict[str, str]) -> str | None:
    """Describe the first option value that an encoder cannot accept; ``None`` if no fault is found.

    FFmpeg itself parses and refuses values (numbers, names, sums of flags, expressions, ratios, durations ...), but
    does not report which value it refused. This function only improves the error message.

    >>> fault_in("libx264", {"crf": "-10"})
    'crf=-10 is out of valid range [-1, 3.40282e+38] of the libx264 encoder.'
    >>> fault_in("libx264", {"profile": "baseline", "g": "2*12", "flags": "+cgop"})
    """
    known = encoder_options(codec_name)
    return next(
        (fault for name in options if (fault := _fault(codec_name, name, options[name], known.get(name)))), None
    )


def _fault(codec_name: str, name: str, value: str, option: EncoderOption | None) -> str | None:
    if option is None:
        return None
    if option.kind == "BOOL" and value.lower() not in _BOOLEANS:
        return f"Option {name} expects true or false but got {value!r}."
    if option.kind == "FLAGS":
        parts = [part for part in re.split(r"[+-]", value) if part]
        wrong = [part for part in parts if part not in (*option.words, *_GENERAL_WORDS) and not _NUMBER.fullmatch(part)]
        if wrong:
            names = ", ".join(option.words)
            return f"Option {name} expects names joined by + or -, of {names}, but got {value!r}."
    if option.kind not in _NUMERIC_TYPES or value in (*option.words, *_GENERAL_WORDS):
        return None
    try:
        number = float(value)
    except ValueError:
        if _NUMBER.fullmatch(value) or _EXPRESSION.search(value):
            return None
        words = f" or one of {', '.join(sorted(option.words))}" if option.words else ""
        return (
            f"Option {name} expects a numeric value but got {value!r}; it must be from {option.lowest:g} to "
            f"{option.highest:g}{words}."
        )
    if not option.lowest <= number <= option.highest:
        bounds = f"[{option.lowest:g}, {option.highest:g}]"
        return f"{name}={value} is out of valid range {bounds} of the {codec_name} encoder."
    return None


@contextmanager
def unused_options(options: dict[str, str]) -> Iterator[set[str]]:
    """In a ``with`` block that writes a container's header, collect the options that the container does not support.

    PyAV reports these options only in a log record, which is kept out of the user's log.
    """
    unused: set[str] = set()
    thread = threading.get_ident()

    def catch(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.thread != thread or "not used" not in message:
            return True
        unused.update(name for name in options if repr(name) in message)
        return False

    logger = logging.getLogger("av.container.output")
    logger.addFilter(catch)
    try:
        yield unused
    finally:
        logger.removeFilter(catch)


_DEFAULT_BIT_RATE_TOLERANCE = 4_000_000  # FFmpeg's, where PyAV has its own
_VIDEO_ENCODERS = "libx264, libx265, libvpx-vp9, libsvtav1, ffv1 and mpeg4"
_GLOBAL_HEADER = av.codec.context.Flags.global_header

#: Containers that store times as the distances between packets.
MP4_FAMILY = frozenset(("f4v", "ipod", "mov", "mp4"))


@dataclass(frozen=True)
class VideoSettings:
    """Settings of a video stream; ``None`` selects the default of the container or the encoder."""

    height: int
    width: int
    frame_rate: Fraction  # nominal, in frames per second
    time_base: Fraction  # unit of the frames' times, in seconds
    is_variable: bool = False  # whether frames are unevenly spaced
    codec: str | None = None  # name of an encoder or of a codec
    pixel_format: str | None = None  # FFmpeg's name
    options: dict[str, str] = field(default_factory=dict)  # for the encoder and the container


class VideoTrack:
    """A video stream of a container that is being written."""

    def __init__(self, container: Any, container_name: str, settings: VideoSettings) -> None:
        codec = find_encoder(
            "video", settings.codec, container.default_video_codec, container_name, known=_VIDEO_ENCODERS
        )
        self.codec_name: str = codec.name
        self._settings = settings
        self._pixel_format = _choose_pixel_format(codec, settings.pixel_format)
        self._options = dict(settings.options)
        colour = choose_colour(
            codec.canonical_name, container_name, self._pixel_format, settings.width, settings.height
        )
        self._colour = take_colour_options(self._options, colour)
        self._converter = RgbConverter(self._pixel_format, self._colour)
        self._stream = self._add_stream(container, codec)
        if settings.is_variable and container_name in MP4_FAMILY and "bf" not in self._options:
            # B-frames reorder packets, so that the distances between packets and between frames differ.
            self._stream.codec_context.max_b_frames = 0

    def _add_stream(self, container: Any, codec: Any) -> Any:
        settings = self._settings
        stream = _add_stream(container, codec, settings.frame_rate, settings.time_base)
        stream.width, stream.height, stream.pix_fmt = settings.width, settings.height, self._pixel_format
        stream.codec_context.flags |= av.codec.context.Flags.frame_duration
        self._colour.tag(stream.codec_context)
        return stream

    @property
    def time_base(self) -> Fraction:
        return self._settings.time_base

    def open(self) -> dict[str, str]:
        """Open the encoder, and return the options that it does not support."""
        _be_quiet(self.codec_name, self._options)
        context = self._stream.codec_context
        if re.match(r"[^-+]", self._options.get("flags", "")):
            # Flags without a sign would replace the flags that the container and packet durations need.
            self._options["flags"] += f"+frame_duration{'+global_header' * bool(context.flags & _GLOBAL_HEADER)}"
        context.options = {**WITHOUT_LOG, **self._options}
        try:
            with _own_scheduling():
                context.open()
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error
        self._converter.check()
        return {name: value for name, value in context.options.items() if name in self._options}

    def _refusal(self, error: Exception) -> Exception:
        settings = self._settings
        fault = fault_in(self.codec_name, self._options)
        if fault is not None:
            return InvalidArgumentError(fault)
        if self._is_off_grid(self._pixel_format):
            fitting = [name for name in _supported_pixel_formats(self.codec_name) if not self._is_off_grid(name)]
            advice = f"pass pixel_format={fitting[0]!r}, or " if fitting else ""
            return InvalidArgumentError(
                f"The {self.codec_name} encoder refused frames of height {settings.height} and width "
                f"{settings.width}: with the pixel format {self._pixel_format}, which keeps one colour for several "
                f"pixels, sizes must be even. {advice[:1].upper()}{advice[1:]}{'crop' if advice else 'Crop'} or pad "
                "the frames."
            )
        return EncodeError(
            f"The {self.codec_name} encoder could not be opened ({error_text(error)}) for frames of height "
            f"{settings.height} and width {settings.width}, pixel format {self._pixel_format}, "
            f"{settings.frame_rate} frames a second and options {self._options}. It may refuse one of these."
        )

    def _is_off_grid(self, pixel_format: str) -> bool:
        """Return whether the width or height is not a multiple of the chroma subsampling."""
        whole = av.VideoFormat(pixel_format, 64, 64)
        return bool(
            self._settings.width % (64 // whole.chroma_width()) or self._settings.height % (64 // whole.chroma_height())
        )

    def encode(self, picture: NDArray[np.uint8], pts: int, duration: int) -> list[Any]:
        """Encode an RGB frame (3, H, W), and return the packets that are ready.

        ``pts`` and ``duration`` are in units of `time_base`.
        """
        frame = self._converter.frame(picture)
        frame.pts, frame.duration, frame.time_base = pts, duration, self.time_base
        packets: list[Any] = self._stream.encode(frame)
        return packets

    def flush(self) -> list[Any]:
        """Flush the encoder and return the last packets."""
        packets: list[Any] = self._stream.encode(None)
        return packets


def _supported_pixel_formats(codec_name: str) -> list[str]:
    return [pixel_format.name for pixel_format in av.Codec(codec_name, "w").video_formats or ()]


def _choose_pixel_format(codec: Any, wanted: str | None) -> str:
    supported = _supported_pixel_formats(codec.name)
    if wanted is None:
        return supported[0] if supported else "yuv420p"
    try:
        av.VideoFormat(wanted)
    except ValueError:
        raise InvalidArgumentError(f"Unknown pixel format: {wanted}. yuv420p and yuv444p are usual ones.") from None
    if supported and wanted not in supported:
        raise InvalidArgumentError(
            f"Specified pixel format {wanted} is not supported by the {codec.name} encoder. It supports "
            f"{', '.join(supported)}."
        )
    return wanted


@contextmanager
def _own_scheduling() -> Iterator[None]:
    """Restore the calling thread's scheduling priority at the end of a ``with`` block.

    As root, SVT-AV1 makes the thread that opens it a real-time thread. If it stayed one, later work in that thread, and
    the threads that it starts, would starve the rest of the machine.
    """
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if (os.sched_getscheduler(0), os.sched_getparam(0)) != (policy, parameters):
            os.sched_setscheduler(0, policy, parameters)


def _be_quiet(codec_name: str, options: dict[str, str]) -> None:
    """Silence encoders that write to the terminal themselves."""
    if codec_name == "libx265":
        parameters = options.get("x265-params")
        options["x265-params"] = "log-level=error" + (f":{parameters}" if parameters else "")
    elif codec_name == "libsvtav1":
        os.environ.setdefault("SVT_LOG", "1")


# Samples in each call of FFmpeg. The number is fixed, so that the file does not depend on the size of the input. Large
# blocks need fewer calls. If each block becomes one packet, blocks must be short enough for playback.
_BLOCK_SAMPLES, _PACKET_SAMPLES = 1 << 16, 4096
# FFmpeg's limit (FF_SANE_NB_CHANNELS).
_MAX_CHANNELS = 512

# WAV stores all samples contiguously, so packet boundaries do not change the file.
_WAV, _WAV_CODEC = "wav", "pcm_s16le"
_INT16 = np.iinfo(np.int16)

_ANY_FRAME_SIZE = int(av.codec.codec.Capabilities.variable_frame_size)

# PyAV miscounts the planes of frames with eight channels.
_MOST_PLANES = 7

_AUDIO_ENCODERS = "aac, libmp3lame, libopus, flac, alac and pcm_s16le"
_FLOAT_FORMATS = ("fltp", "flt", "dblp", "dbl")
_SAMPLE_FORMATS = (*_FLOAT_FORMATS, "s32p", "s32")  # in order of preference
# Without Vorbis, FFmpeg chooses AC-3 for Matroska. AC-3 supports only three sample rates and loses the exact length.
_DEFAULT_CODECS = {("matroska", "ac3"): "aac"}


@dataclass(frozen=True)
class AudioSettings:
    """Settings of an audio stream; ``None`` selects the default of the container or the encoder."""

    sample_rate: int
    num_channels: int
    bit_rate: int | None  # in bits per second
    out_num_channels: int
    out_sample_rate: int
    codec: str | None = None  # name of an encoder or of a codec


class AudioTrack:
    """An audio stream of a container that is being written."""

    def __init__(self, container: Any, container_name: str, settings: AudioSettings) -> None:
        self._settings = settings
        default = container.default_audio_codec
        default = _DEFAULT_CODECS.get((container_name, default), default)
        codec = find_encoder("audio", settings.codec, default, container_name, known=_AUDIO_ENCODERS)
        self.codec_name: str = codec.name
        _check_rate(codec, settings.out_sample_rate)
        if settings.bit_rate is not None and settings.bit_rate < 0:
            raise InvalidArgumentError(f"bit_rate={settings.bit_rate} must be >= 0, in bits a second.")
        #: Unit of packet times.
        self.time_base = Fraction(1, settings.out_sample_rate)
        self._layout = _layout(settings.num_channels)
        has_own_packets = container_name == _WAV or not codec.capabilities & _ANY_FRAME_SIZE
        self._block_samples = _BLOCK_SAMPLES if has_own_packets else _PACKET_SAMPLES
        self._block = np.zeros((settings.num_channels, self._block_samples), np.float32)
        self._filled = 0
        self._num_samples = 0
        # FFmpeg's mix to fewer channels can exceed full scale for floats, but not for integers.
        self._gain = 1.0
        if settings.out_num_channels < settings.num_channels and _sample_format(codec) in _FLOAT_FORMATS:
            with suppress(av.FFmpegError, ValueError):  # `open` reports the error
                self._gain = mix_gain(self._layout, settings.num_channels, settings.out_num_channels)
        is_unchanged = (settings.num_channels, settings.sample_rate) == (
            settings.out_num_channels,
            settings.out_sample_rate,
        )
        self._is_plain_wav = is_unchanged and (container_name, codec.name) == (_WAV, _WAV_CODEC)
        self._stream = self._add_stream(container, codec)

    def _add_stream(self, container: Any, codec: Any) -> Any:
        settings = self._settings
        stream = _add_stream(container, codec, settings.out_sample_rate, self.time_base, settings.bit_rate)
        stream.codec_context.layout = _layout(settings.out_num_channels)
        stream.codec_context.format = _sample_format(codec)
        return stream

    def open(self) -> dict[str, str]:
        """Open the encoder. It takes no options, so the returned dictionary is empty."""
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
        """Encode samples (C, N), and return the packets that are ready."""
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
        """Convert samples with the same result as FFmpeg's converter and PCM encoder, but with fewer copies."""
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
        """Flush the encoder and return the last packets."""
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
    """Return the encoder's sample format that loses the least precision of float samples."""
    names = [sample_format.name for sample_format in codec.audio_formats or ()]
    return next((name for name in _SAMPLE_FORMATS if name in names), names[0] if names else "s16")


def _layout(num_channels: int) -> str:
    """Return FFmpeg's default layout for a number of channels, or an unspecified layout if FFmpeg has none."""
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
