"""Encoding pictures: from RGB in memory to packets of one video stream."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from ...errors import EncodeError, InvalidArgumentError
from .encoding_options import WITHOUT_LOG, fault_in, find_encoder
from .opening import error_text
from .probe import _PRIMARIES, _RANGES, _SPACES, _TRANSFERS

__all__ = [
    "MP4_FAMILY",
    "Colour",
    "RgbConverter",
    "VideoSettings",
    "VideoTrack",
    "choose_colour",
    "take_colour_options",
]

# Numbers of H.273.
_GBR, _BT709, _UNSPECIFIED, _SMPTE170M = 0, 1, 2, 6
_LIMITED, _FULL = 1, 2

# The matrices that swscale converts to, by PyAV's names.
_MATRIX_NAMES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: "BT2020"}

# Codecs whose bit streams say which matrix it is, and containers that say it for (almost) any codec.
_CODECS_WITH_TAGS = frozenset(("av1", "dnxhd", "h264", "hevc", "mpeg2video", "prores", "utvideo", "vp9"))
_CONTAINERS_WITH_TAGS = frozenset(("f4v", "ipod", "ismv", "matroska", "mov", "mp4", "webm"))
# Decoders of these take one matrix, whatever the container says.
_ALWAYS_BT601 = frozenset(("h263", "mjpeg", "vp8", "webp"))
_ALWAYS_BT709 = frozenset(("dnxhd",))
_ALWAYS_FULL_RANGE = frozenset(("mjpeg",))

# From here on players take a video without tags for HD.
_HD_WIDTH, _HD_HEIGHT = 1280, 577

_OPTION_VALUES = {
    "colorspace": _SPACES,
    "color_primaries": _PRIMARIES,
    "color_trc": _TRANSFERS,
    "color_range": _RANGES | {_LIMITED: "tv", _FULL: "pc"},
}
_RANGE_ALIASES = {"limited": "tv", "mpeg": "tv", "full": "pc", "jpeg": "pc"}


@dataclass(frozen=True)
class Colour:
    """Numbers of H.273, except the range, which is FFmpeg's (1 limited, 2 full)."""

    matrix: int
    primaries: int
    transfer: int
    range: int
    is_rgb: bool

    @property
    def conversion(self) -> dict[str, Any]:
        """Arguments of PyAV's ``reformat`` for the conversion from RGB."""
        if self.is_rgb:
            return {}
        return {"dst_colorspace": _MATRIX_NAMES[self.matrix], "dst_color_range": self.range}

    def tag(self, target: Any) -> None:
        """Set the tags of a codec context or a frame."""
        target.colorspace, target.color_range = self.matrix, self.range
        target.color_primaries, target.color_trc = self.primaries, self.transfer


def choose_colour(codec: str, container: str, pixel_format: str, width: int, height: int) -> Colour:
    """The colours of a video that can be written so that every player sees them.

    BT.709 from 1280 columns or 577 lines on, BT.601 below: what players take a video for that says nothing. Where
    neither codec nor container can say it, BT.601, because that is what FFmpeg takes for granted at any size.

    Args:
        codec: Canonical name.
        container: Name of the muxer.
        pixel_format: That is encoded.
        width: In pixels.
        height: In pixels.
    """
    if av.VideoFormat(pixel_format).is_rgb:
        return Colour(_GBR, _BT709, _BT709, _FULL, is_rgb=True)
    is_full = codec in _ALWAYS_FULL_RANGE or pixel_format.startswith(("yuvj", "gray", "ya"))
    color_range = _FULL if is_full else _LIMITED
    has_tags = codec in _CODECS_WITH_TAGS or (container in _CONTAINERS_WITH_TAGS and codec not in _ALWAYS_BT601)
    if codec in _ALWAYS_BT709:
        matrix = _BT709
    else:
        is_hd = width >= _HD_WIDTH or height >= _HD_HEIGHT
        matrix = _BT709 if is_hd and has_tags else _SMPTE170M
    described = _BT709 if has_tags else _UNSPECIFIED
    return Colour(matrix, described, described, color_range, is_rgb=False)


def take_colour_options(options: dict[str, str], colour: Colour) -> Colour:
    """``colour`` as the options of FFmpeg change it; they are removed, because the conversion must follow them.

    >>> options = {"color_range": "pc", "g": "12"}
    >>> take_colour_options(options, Colour(1, 1, 1, 1, False)).range, options
    (2, {'g': '12'})
    """
    changes: dict[str, Any] = {}
    for option, name in (
        ("colorspace", "matrix"),
        ("color_primaries", "primaries"),
        ("color_trc", "transfer"),
        ("color_range", "range"),
    ):
        if option in options:
            changes[name] = _number_of(option, options.pop(option))
    matrix = changes.get("matrix", colour.matrix)
    if not colour.is_rgb and matrix not in _MATRIX_NAMES:
        names = ", ".join(_SPACES[number] for number in _MATRIX_NAMES)
        raise InvalidArgumentError(f"colorspace={_SPACES.get(matrix, matrix)} is not supported; use one of {names}.")
    return replace(colour, **changes)


def _number_of(option: str, value: str) -> int:
    names = _OPTION_VALUES[option]
    wanted = _RANGE_ALIASES.get(value, value)
    for number, name in names.items():
        if wanted in (name, str(number)):
            return number
    raise InvalidArgumentError(f"{option}={value} is not known; use one of {', '.join(names.values())}.")


_DEFAULT_BIT_RATE_TOLERANCE = 4_000_000  # FFmpeg's, where PyAV has its own
_ENCODERS = "libx264, libx265, libvpx-vp9, libsvtav1, ffv1 and mpeg4"
_PROBE_SIZE = 16
_GLOBAL_HEADER = av.codec.context.Flags.global_header

#: Containers that tell times by how far packets are apart.
MP4_FAMILY = frozenset(("f4v", "ipod", "mov", "mp4"))


@dataclass(frozen=True)
class VideoSettings:
    """What a video stream is to be.

    Attributes:
        height: In pixels.
        width: In pixels.
        frame_rate: Nominal frames a second.
        time_base: Unit of the times of frames, in seconds.
        codec: Name of an encoder or of a codec; ``None`` for the container's default.
        is_variable: Whether frames are unevenly spaced.
        pixel_format: FFmpeg's name; ``None`` for the first one that the encoder lists.
        options: For the encoder and for the container.
    """

    height: int
    width: int
    frame_rate: Fraction
    time_base: Fraction
    is_variable: bool = False
    codec: str | None = None
    pixel_format: str | None = None
    options: dict[str, str] = field(default_factory=dict)


class VideoTrack:
    """A video stream of a container that is being written.

    Raises:
        InvalidArgumentError: if codec or pixel format do not exist, or do not go with each other or the container.
    """

    def __init__(self, container: Any, container_name: str, settings: VideoSettings) -> None:
        codec = find_encoder("video", settings.codec, container.default_video_codec, container_name, known=_ENCODERS)
        self.codec_name: str = codec.name
        self._settings = settings
        self._pixel_format = _pixel_format(codec, settings.pixel_format)
        self._options = dict(settings.options)
        colour = choose_colour(
            codec.canonical_name, container_name, self._pixel_format, settings.width, settings.height
        )
        self._colour = take_colour_options(self._options, colour)
        self._converter = RgbConverter(self._pixel_format, self._colour)
        self._stream = self._add_stream(container, codec)
        if settings.is_variable and container_name in MP4_FAMILY and "bf" not in self._options:
            # In another order than they are shown, packets are apart by other times than their frames.
            self._stream.codec_context.max_b_frames = 0

    def _add_stream(self, container: Any, codec: Any) -> Any:
        settings = self._settings
        defaults: Any = av.CodecContext.create(codec.name, "w")
        try:
            stream = container.add_stream(
                codec.name,
                rate=settings.frame_rate,
                time_base=settings.time_base,
                bit_rate=defaults.bit_rate or 0,
                bit_rate_tolerance=_DEFAULT_BIT_RATE_TOLERANCE,
            )
        except ValueError as error:
            raise InvalidArgumentError(f"The codec {codec.name} does not go with the container: {error}.") from None
        stream.width, stream.height, stream.pix_fmt = settings.width, settings.height, self._pixel_format
        context = stream.codec_context
        # PyAV's default would have x264 cut every picture into slices.
        context.thread_type, context.thread_count = "AUTO", 0
        context.flags |= av.codec.context.Flags.frame_duration
        self._colour.tag(context)
        return stream

    @property
    def time_base(self) -> Fraction:
        """Unit of the times of frames and packets."""
        return self._settings.time_base

    def open(self) -> dict[str, str]:
        """Open the encoder; the options that it does not have are the result."""
        _be_quiet(self.codec_name, self._options)
        context = self._stream.codec_context
        if re.match(r"[^-+]", self._options.get("flags", "")):
            # Without a sign they replace what was set: for the container, and so that durations reach the packets.
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
            fitting = [name for name in _pixel_formats(self.codec_name) if not self._is_off_grid(name)]
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
        """Whether the size is no whole number of chroma samples."""
        whole = av.VideoFormat(pixel_format, 64, 64)
        return bool(
            self._settings.width % (64 // whole.chroma_width()) or self._settings.height % (64 // whole.chroma_height())
        )

    def encode(self, picture: NDArray[np.uint8], pts: int, duration: int) -> list[Any]:
        """The packets that come of one more picture.

        Args:
            picture: RGB, (3, H, W).
            pts: When it is shown, in units of `time_base`.
            duration: For how long.
        """
        frame = self._converter.frame(picture)
        frame.pts, frame.duration, frame.time_base = pts, duration, self.time_base
        packets: list[Any] = self._stream.encode(frame)
        return packets

    def flush(self) -> list[Any]:
        """The last packets."""
        packets: list[Any] = self._stream.encode(None)
        return packets


class RgbConverter:
    """Turns RGB pictures into frames for an encoder; the pixels depend on nothing but the picture.

    swscale with bicubic filtering, as the ``ffmpeg`` program has it, and one thread.
    """

    def __init__(self, pixel_format: str, colour: Colour) -> None:
        self._pixel_format = pixel_format
        self._colour = colour
        self._reformatter = VideoReformatter()
        self._planes: Any = None

    def check(self) -> None:
        """Raise if FFmpeg cannot make this pixel format from RGB."""
        try:
            self.frame(np.zeros((3, _PROBE_SIZE, _PROBE_SIZE), np.uint8))
        except (av.FFmpegError, ValueError) as error:
            raise InvalidArgumentError(
                f"FFmpeg cannot convert RGB to the pixel format {self._pixel_format} ({error_text(error)})."
            ) from error

    def frame(self, picture: NDArray[np.uint8]) -> Any:
        """A frame of a picture (3, H, W). Its memory is its own: the encoder may keep it for a while."""
        height, width = picture.shape[1:]
        packed = picture.transpose(1, 2, 0)
        is_packed = packed.strides[1:] == (3, 1) and packed.strides[0] >= 3 * width  # as decoded pictures are
        if is_packed and self._pixel_format == "rgb24":
            frame = av.VideoFrame(width, height, "rgb24")
            np.copyto(_lines(frame.planes[0], 3 * width).reshape(packed.shape), packed)
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
        """A copy with a plane for each colour, of which swscale makes the same pixels as of packed RGB."""
        height, width = picture.shape[1:]
        frame = self._planes
        # The frame is filled again for the next picture, unless the encoder gets it as it is.
        if frame is None or (frame.height, frame.width) != (height, width) or self._pixel_format == "gbrp":
            frame = self._planes = av.VideoFrame(width, height, "gbrp")
        for plane, channel in zip(frame.planes, (1, 2, 0), strict=True):
            np.copyto(_lines(plane, width), picture[channel])
        return frame


def _lines(plane: Any, num_bytes: int) -> NDArray[np.uint8]:
    """The memory of a plane, so many bytes of each line: (H, num_bytes)."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, :num_bytes]


def _pixel_formats(codec_name: str) -> list[str]:
    return [pixel_format.name for pixel_format in av.Codec(codec_name, "w").video_formats or ()]


def _pixel_format(codec: Any, wanted: str | None) -> str:
    supported = _pixel_formats(codec.name)
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
    """Give the thread its own priority back.

    SVT-AV1 makes the thread that opens it a real-time one where it may, as root, and leaves it so: whatever is computed
    there later, and the threads that are started from there, would then starve the rest of the machine.
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
    """Keep encoders that write to the terminal by themselves from it."""
    if codec_name == "libx265":
        parameters = options.get("x265-params")
        options["x265-params"] = "log-level=error" + (f":{parameters}" if parameters else "")
    elif codec_name == "libsvtav1":
        os.environ.setdefault("SVT_LOG", "1")
