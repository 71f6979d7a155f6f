"""Encode a video stream: find an encoder, check its options, choose colours, and turn arrays into packets."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from ...errors import EncodeError, InvalidArgumentError
from .opening import PRIMARIES, RANGES, SPACES, TRANSFERS, error_text

_PROBE_SIZE = 16

# Numbers of H.273.
_GBR, _BT709, _UNSPECIFIED, _SMPTE170M = 0, 1, 2, 6
_LIMITED, _FULL = 1, 2

# PyAV's names of the matrices that swscale supports.
_MATRIX_NAMES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: "BT2020"}

# Codecs whose bit streams store the matrix, and containers that store it for (almost) any codec.
_CODECS_WITH_TAGS = frozenset(("av1", "dnxhd", "h264", "hevc", "mpeg2video", "prores", "utvideo", "vp9"))
_CONTAINERS_WITH_TAGS = frozenset(("f4v", "ipod", "ismv", "matroska", "mov", "mp4", "webm"))
# Decoders of these codecs always use BT.601, even if the container states another matrix.
_ALWAYS_BT601 = frozenset(("h263", "mjpeg", "vp8", "webp"))

# From this width or height on, players treat a video without tags as HD.
_HD_WIDTH, _HD_HEIGHT = 1280, 577

# For each of FFmpeg's colour options: the field of `Colour`, and numbers by name of value.
_COLOUR_OPTIONS = {
    "colorspace": ("matrix", SPACES),
    "color_primaries": ("primaries", PRIMARIES),
    "color_trc": ("transfer", TRANSFERS),
    "color_range": ("range", RANGES),
}
_RANGE_ALIASES = {"limited": "tv", "mpeg": "tv", "full": "pc", "jpeg": "pc"}


@dataclass(frozen=True)
class Colour:
    """The colour properties of a video: matrix, primaries, transfer and range.

    Matrix, primaries and transfer are the code numbers of the standard H.273. The range is FFmpeg's number: 1 for
    limited range, 2 for full range.
    """

    matrix: int
    primaries: int
    transfer: int
    range: int
    is_rgb: bool

    @property
    def conversion(self) -> dict[str, Any]:
        """Return the arguments to pass to PyAV's ``reformat`` when it converts RGB to these colours."""
        if self.is_rgb:
            return {}
        return {"dst_colorspace": _MATRIX_NAMES[self.matrix], "dst_color_range": self.range}

    def tag(self, target: Any) -> None:
        target.colorspace, target.color_range = self.matrix, self.range
        target.color_primaries, target.color_trc = self.primaries, self.transfer


def choose_colour(codec: str, container: str, pixel_format: str, width: int, height: int) -> Colour:
    """Choose colour properties with which every player shows the right colours.

    The matrix is BT.709 for frames with at least 1280 columns or 577 lines, and BT.601 for smaller frames. Players make
    the same choice if a video states no matrix. The rule for the matrix has two exceptions. If neither the codec nor
    the container can store the matrix, the choice is always BT.601, because FFmpeg assumes BT.601 for such files. If
    the decoders of a codec ignore the stated matrix and always use the same matrix, the choice is that matrix.

    ``codec`` is PyAV's ``canonical_name``, and ``container`` is the muxer's name.
    """
    if av.VideoFormat(pixel_format).is_rgb:
        return Colour(_GBR, _BT709, _BT709, _FULL, is_rgb=True)
    is_full = codec == "mjpeg" or pixel_format.startswith(("yuvj", "gray", "ya"))
    color_range = _FULL if is_full else _LIMITED
    has_tags = codec in _CODECS_WITH_TAGS or (container in _CONTAINERS_WITH_TAGS and codec not in _ALWAYS_BT601)
    is_hd = width >= _HD_WIDTH or height >= _HD_HEIGHT
    # Decoders of DNxHD always use BT.709.
    matrix = _BT709 if codec == "dnxhd" or (is_hd and has_tags) else _SMPTE170M
    described = _BT709 if has_tags else _UNSPECIFIED
    return Colour(matrix, described, described, color_range, is_rgb=False)


def take_colour_options(options: dict[str, str], colour: Colour) -> Colour:
    """Move FFmpeg's colour options out of ``options``; return a copy of ``colour`` that has their values.

    >>> options = {"color_range": "pc", "g": "12"}
    >>> take_colour_options(options, Colour(1, 1, 1, 1, False)).range, options
    (2, {'g': '12'})
    """
    changes: dict[str, Any] = {}
    for option, (name, _) in _COLOUR_OPTIONS.items():
        if option in options:
            changes[name] = _colour_number(option, options.pop(option))
    matrix = changes.get("matrix", colour.matrix)
    if not colour.is_rgb and matrix not in _MATRIX_NAMES:
        names = ", ".join(SPACES[number] for number in _MATRIX_NAMES)
        raise InvalidArgumentError(f"colorspace={SPACES.get(matrix, matrix)} is not supported; use one of {names}.")
    return replace(colour, **changes)


def _colour_number(option: str, value: str) -> int:
    names = _COLOUR_OPTIONS[option][1]
    wanted = _RANGE_ALIASES.get(value, value)
    for number, name in names.items():
        if wanted in (name, str(number)):
            return number
    raise InvalidArgumentError(f"{option}={value} is not known; use one of {', '.join(names.values())}.")


class RgbConverter:
    """Converts RGB pixels to frames in the pixel format of an encoder.

    The result depends only on the pixels, because the conversion always uses the same settings: swscale with bicubic
    filtering and one thread, as in the ``ffmpeg`` program.
    """

    def __init__(self, pixel_format: str, colour: Colour) -> None:
        self._pixel_format = pixel_format
        self._colour = colour
        self._reformatter = VideoReformatter()
        self._planes: Any = None

    def check(self) -> None:
        try:
            self.frame(np.zeros((3, _PROBE_SIZE, _PROBE_SIZE), np.uint8))
        except (av.FFmpegError, ValueError) as error:
            raise InvalidArgumentError(
                f"FFmpeg cannot convert RGB to the pixel format {self._pixel_format} ({error_text(error)})."
            ) from error

    def frame(self, picture: NDArray[np.uint8]) -> Any:
        """Convert RGB pixels (3, H, W) to a frame. The frame owns its memory, so the encoder can keep it."""
        height, width = picture.shape[1:]
        packed = picture.transpose(1, 2, 0)
        is_packed = packed.strides[1:] == (3, 1) and packed.strides[0] >= 3 * width  # like decoded frames
        if is_packed and self._pixel_format == "rgb24":
            frame = av.VideoFrame(width, height, "rgb24")
            np.copyto(_plane_lines(frame.planes[0], 3 * width).reshape(packed.shape), packed)
        else:
            if is_packed:
                source = av.VideoFrame.from_numpy_buffer(packed, format="rgb24")
            else:
                source = self._planar_frame(picture)
            frame = self._reformatter.reformat(
                source,
                format=self._pixel_format,
                interpolation=Interpolation.BICUBIC,
                threads=1,
                **self._colour.conversion,
            )
        self._colour.tag(frame)
        return frame

    def _planar_frame(self, picture: NDArray[np.uint8]) -> Any:
        """Copy RGB pixels (3, H, W) to a frame with one plane for each colour.

        swscale converts this frame to the same result as a frame with interleaved colours.
        """
        height, width = picture.shape[1:]
        frame = self._planes
        # Reuse the frame, unless the encoder gets it without conversion and may keep it.
        if frame is None or (frame.height, frame.width) != (height, width) or self._pixel_format == "gbrp":
            frame = self._planes = av.VideoFrame(width, height, "gbrp")
        for plane, channel in zip(frame.planes, (1, 2, 0), strict=True):
            np.copyto(_plane_lines(plane, width), picture[channel])
        return frame


def _plane_lines(plane: Any, num_bytes: int) -> NDArray[np.uint8]:
    """Return a view (H, num_bytes) of a plane: the first ``num_bytes`` bytes of each line."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, :num_bytes]


#: Options that silence an encoder's log. Opening or freeing an encoder waits for its threads while holding the GIL. If
#: the application makes PyAV forward FFmpeg's log (``av.logging.set_level``), these threads need the GIL to log, which
#: would be a deadlock. Decoders avoid it by a flush (`opening.let_rest`), but a dropped encoder cannot be flushed
#: first.
WITHOUT_LOG = {"log_level_offset": str(1 << 30)}

# Numbers of FFmpeg's AVOptionType.
_NUMERIC_TYPES = ("INT", "INT64", "UINT", "UINT64", "FLOAT", "DOUBLE")
# Numbers in FFmpeg's notation: 2M, 1.5k, 64Ki, 0x10.
_NUMBER = re.compile(r"[-+]?(0x[\da-fA-F]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?([yzafpnumcdhkKMGTPEZY]i?)?B?)")
_EXPRESSION = re.compile(r"[*/()^;]|[^e]\b[-+]")
_GENERAL_WORDS = ("default", "max", "min", "none", "all")
_BOOLEANS = frozenset(("1", "0", "-1", "auto", "true", "y", "yes", "enable", "enabled", "on"))
_BOOLEANS |= {"false", "n", "no", "disable", "disabled", "off"}


def find_encoder(kind: str, wanted: str | None, default: str, container: str, *, known: str) -> Any:
    """Return the encoder ``wanted`` as PyAV's ``Codec``; if ``wanted`` is ``None``, return the encoder ``default``.

    If there is no encoder with the wanted name, the error message lists ``known``, the names of some encoders.
    """
    name = default if wanted is None else wanted
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


def add_stream(container: Any, codec: Any, rate: Any, time_base: Fraction, bit_rate: int | None = None) -> Any:
    """Add a stream to a container. If ``bit_rate`` is ``None``, use the encoder's default instead of PyAV's default."""
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
    """FFmpeg's description of an encoder option.

    ``kind`` is the type of its value, such as ``"INT"``. Numbers must be from ``lowest`` to ``highest``. ``words`` are
    the names that are accepted as values.
    """

    kind: str
    lowest: float
    highest: float
    words: tuple[str, ...]


@lru_cache(maxsize=64)
def encoder_options(codec_name: str) -> dict[str, EncoderOption]:
    """Return the options of an encoder, as a dictionary from option name to description.

    FFmpeg has general options, which all encoders share, and private options of each encoder. If both have the same
    name, the private option is returned, because FFmpeg uses it.
    """
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
    names: set[str] = set()
    for name in av.codecs_available:
        with suppress(ValueError, av.FFmpegError):  # decoders
            names.update(encoder_options(av.Codec(name, "w").name))
    return frozenset(names)


def fault_in(codec_name: str, options: dict[str, str]) -> str | None:
    """Describe the first option whose value the encoder cannot accept; return ``None`` if no fault is found.

    FFmpeg parses all values itself (numbers, names, sums of flags, expressions, ratios, durations ...), but does not
    report which value it rejected. This function finds that value, so that an error message can name it.

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
    """Find the options that a container does not support, while a ``with`` block writes the container's header.

    PyAV reports these options only in a log record, which is hidden from the user's log. Their names are added to the
    set that this context manager yields.
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


_DEFAULT_BIT_RATE_TOLERANCE = 4_000_000  # FFmpeg's default, which PyAV would replace
_VIDEO_ENCODERS = "libx264, libx265, libvpx-vp9, libsvtav1, ffv1 and mpeg4"
# Encoders of frames whose width or height is odd although chroma is subsampled.
_ENCODERS_OF_ODD_SIZES = frozenset(("libvpx-vp9",))
_GLOBAL_HEADER = av.codec.context.Flags.global_header

# Containers that only store a frame rate. FFmpeg would write frames with variable times to them, with wrong times.
_CONTAINERS_OF_ONE_RATE = frozenset(("avi", "yuv4mpegpipe"))
# MPEG-4 stores the denominator in 16 bits. Frame durations of 24, 25, 30, 50, 60 and 60000/1001 fps are multiples.
_FINE_MPEG4_TIME_BASE = Fraction(1, 60_000)

#: Containers that store the time between packets instead of the time of each packet.
MP4_FAMILY = frozenset(("f4v", "ipod", "mov", "mp4"))


@dataclass(frozen=True)
class VideoSettings:
    """Settings of a video stream. ``None`` means the default of the container or the encoder."""

    height: int
    width: int
    frame_rate: Fraction  # nominal, in frames per second
    time_base: Fraction  # unit of the frames' times, in seconds
    is_variable: bool = False  # whether frames are unevenly spaced
    codec: str | None = None  # name of an encoder or of a codec
    pixel_format: str | None = None  # FFmpeg's name
    options: dict[str, str] = field(default_factory=dict)  # for the encoder and the container
    colour: Colour | None = None  # of frames that are not converted from RGB
    pixel_aspect_ratio: Fraction | None = None
    display_matrix: tuple[int, ...] | None = None  # nine integers, as in FFmpeg's side data


class VideoTrack:
    """A video stream of a container that is being written. It encodes frames to packets."""

    def __init__(self, container: Any, container_name: str, settings: VideoSettings) -> None:
        codec = find_encoder(
            "video", settings.codec, container.default_video_codec, container_name, known=_VIDEO_ENCODERS
        )
        self.codec_name: str = codec.name
        self._settings = settings
        if settings.is_variable and container_name in _CONTAINERS_OF_ONE_RATE:
            raise InvalidArgumentError(
                f"The format {container_name} does not store the times of frames, so they must be evenly spaced. Pass "
                "frame_rate, or use mp4, mov, mkv or webm."
            )
        #: Unit of packet times in seconds.
        self.time_base = settings.time_base
        if settings.is_variable and codec.canonical_name == "mpeg4":
            self.time_base = max(self.time_base, _FINE_MPEG4_TIME_BASE)
        self._pixel_format = _choose_pixel_format(codec, settings.pixel_format)
        self._options = dict(settings.options)
        self._colour = settings.colour or take_colour_options(
            self._options,
            choose_colour(codec.canonical_name, container_name, self._pixel_format, settings.width, settings.height),
        )
        self._converter = RgbConverter(self._pixel_format, self._colour)
        stream = add_stream(container, codec, settings.frame_rate, self.time_base)
        stream.width, stream.height, stream.pix_fmt = settings.width, settings.height, self._pixel_format
        stream.codec_context.flags |= av.codec.context.Flags.frame_duration
        self._colour.tag(stream.codec_context)
        if codec.canonical_name == "hevc" and container_name in MP4_FAMILY:
            stream.codec_context.codec_tag = "hvc1"  # Apple's players do not open FFmpeg's default, hev1
        if settings.pixel_aspect_ratio is not None:
            stream.codec_context.sample_aspect_ratio = settings.pixel_aspect_ratio
        if settings.display_matrix is not None:
            stream.set_display_matrix(settings.display_matrix)
        self._stream = stream
        if settings.is_variable and container_name in MP4_FAMILY and "bf" not in self._options:
            # With B-frames, packets have another order than frames, so the distances between them differ.
            self._stream.codec_context.max_b_frames = 0

    def open(self) -> dict[str, str]:
        """Open the encoder, and return the options that it does not support."""
        _be_quiet(self.codec_name, self._options)
        context = self._stream.codec_context
        if re.match(r"[^-+]", self._options.get("flags", "")):
            # Values without a sign would replace the flags that the container and the durations of packets need.
            self._options["flags"] += f"+frame_duration{'+global_header' * bool(context.flags & _GLOBAL_HEADER)}"
        context.options = {**WITHOUT_LOG, **self._options}
        try:
            with _own_scheduling():
                context.open()
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error
        if self._settings.colour is None:
            self._converter.check()
        return {name: value for name, value in context.options.items() if name in self._options}

    def _refusal(self, error: Exception) -> Exception:
        settings = self._settings
        fault = fault_in(self.codec_name, self._options)
        if fault is not None:
            return InvalidArgumentError(fault)
        size = settings.height, settings.width
        if _is_off_grid(self._pixel_format, *size):
            fitting = [name for name in _supported_pixel_formats(self.codec_name) if not _is_off_grid(name, *size)]
            advice = f"Pass pixel_format={fitting[0]!r}, or crop" if fitting else "Crop"
            return InvalidArgumentError(
                f"The {self.codec_name} encoder refused frames of height {settings.height} and width "
                f"{settings.width}: with the pixel format {self._pixel_format}, which keeps one colour for several "
                f"pixels, sizes must be even. {advice} or pad the frames."
            )
        return EncodeError(
            f"The {self.codec_name} encoder could not be opened ({error_text(error)}) for frames of height "
            f"{settings.height} and width {settings.width}, pixel format {self._pixel_format}, "
            f"{settings.frame_rate} frames a second and options {self._options}. It may refuse one of these"
            f"{', or need evenly spaced frames (pass frame_rate)' if settings.is_variable else ''}."
        )

    def encode(self, picture: NDArray[np.uint8] | av.VideoFrame, pts: int, duration: int) -> list[Any]:
        """Encode an RGB frame (3, H, W), or a frame in the stream's pixel format; return the packets that are ready.

        ``pts`` and ``duration`` are in units of the track's `time_base`.
        """
        if isinstance(picture, av.VideoFrame):
            frame: Any = picture
            self._colour.tag(frame)
        else:
            frame = self._converter.frame(picture)
        frame.pts, frame.duration, frame.time_base = pts, duration, self.time_base
        packets: list[Any] = self._stream.encode(frame)
        return packets

    def flush(self) -> list[Any]:
        packets: list[Any] = self._stream.encode(None)
        return packets


def _is_off_grid(pixel_format: str, height: int, width: int) -> bool:
    """Return whether the width or height is not a multiple of the chroma subsampling of ``pixel_format``."""
    whole = av.VideoFormat(pixel_format, 64, 64)
    return bool(width % (64 // whole.chroma_width()) or height % (64 // whole.chroma_height()))


def accepts_frames(codec_name: str, pixel_format: str, height: int, width: int) -> bool:
    is_any_size = codec_name in _ENCODERS_OF_ODD_SIZES
    is_supported = pixel_format in _supported_pixel_formats(codec_name)
    return is_supported and (is_any_size or not _is_off_grid(pixel_format, height, width))


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
    """Restore the calling thread's scheduling policy at the end of a ``with`` block.

    If run as root, SVT-AV1 turns the thread that opens it into a real-time thread. Later work in this thread, and in
    threads that it starts, would then starve the rest of the machine.
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
    """Change ``options`` or the environment so that an encoder does not write its own messages to the terminal."""
    if codec_name == "libx265":
        parameters = options.get("x265-params")
        options["x265-params"] = "log-level=error" + (f":{parameters}" if parameters else "")
    elif codec_name == "libsvtav1":
        os.environ.setdefault("SVT_LOG", "1")
