"""Colours of encoded video: choose the matrix, tag the stream, and convert from RGB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from ...errors import InvalidArgumentError
from .opening import PRIMARIES, RANGES, SPACES, TRANSFERS, error_text

_PROBE_SIZE = 16

# Numbers of H.273.
_GBR, _BT709, _UNSPECIFIED, _SMPTE170M = 0, 1, 2, 6
_LIMITED, _FULL = 1, 2

# PyAV's names of the matrices to which swscale can convert.
_MATRIX_NAMES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: "BT2020"}

# Codecs whose bit streams store the matrix, and containers that store it for (almost) any codec.
_CODECS_WITH_TAGS = frozenset(("av1", "dnxhd", "h264", "hevc", "mpeg2video", "prores", "utvideo", "vp9"))
_CONTAINERS_WITH_TAGS = frozenset(("f4v", "ipod", "ismv", "matroska", "mov", "mp4", "webm"))
# Decoders of these codecs always use one matrix, even if the container states another.
_ALWAYS_BT601 = frozenset(("h263", "mjpeg", "vp8", "webp"))
_ALWAYS_BT709 = frozenset(("dnxhd",))
_ALWAYS_FULL_RANGE = frozenset(("mjpeg",))

# From this width or height, players treat a video without tags as HD.
_HD_WIDTH, _HD_HEIGHT = 1280, 577

_OPTION_VALUES = {
    "colorspace": SPACES,
    "color_primaries": PRIMARIES,
    "color_trc": TRANSFERS,
    "color_range": RANGES | {_LIMITED: "tv", _FULL: "pc"},
}
_RANGE_ALIASES = {"limited": "tv", "mpeg": "tv", "full": "pc", "jpeg": "pc"}


@dataclass(frozen=True)
class Colour:
    """Colour numbers of H.273, except for the range, which has FFmpeg's numbers (1 limited, 2 full)."""

    matrix: int
    primaries: int
    transfer: int
    range: int
    is_rgb: bool

    @property
    def conversion(self) -> dict[str, Any]:
        """Return the arguments with which PyAV's ``reformat`` converts RGB to these colours."""
        if self.is_rgb:
            return {}
        return {"dst_colorspace": _MATRIX_NAMES[self.matrix], "dst_color_range": self.range}

    def tag(self, target: Any) -> None:
        """Set the colour tags of a codec context or a frame."""
        target.colorspace, target.color_range = self.matrix, self.range
        target.color_primaries, target.color_trc = self.primaries, self.transfer


def choose_colour(codec: str, container: str, pixel_format: str, width: int, height: int) -> Colour:
    """Choose colours that every player shows correctly, given the codec's canonical name and the muxer's name.

    The matrix is BT.709 from 1280 columns or 577 lines, and BT.601 for smaller frames, as players assume for a video
    without tags. If neither codec nor container can store tags, it is BT.601, which FFmpeg assumes at any size. Some
    codecs always use one matrix.
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
    """Return ``colour`` as changed by FFmpeg's colour options in ``options``, and remove these options there.

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
            changes[name] = _colour_number(option, options.pop(option))
    matrix = changes.get("matrix", colour.matrix)
    if not colour.is_rgb and matrix not in _MATRIX_NAMES:
        names = ", ".join(SPACES[number] for number in _MATRIX_NAMES)
        raise InvalidArgumentError(f"colorspace={SPACES.get(matrix, matrix)} is not supported; use one of {names}.")
    return replace(colour, **changes)


def _colour_number(option: str, value: str) -> int:
    names = _OPTION_VALUES[option]
    wanted = _RANGE_ALIASES.get(value, value)
    for number, name in names.items():
        if wanted in (name, str(number)):
            return number
    raise InvalidArgumentError(f"{option}={value} is not known; use one of {', '.join(names.values())}.")


class RgbConverter:
    """Converts RGB pixels to frames for an encoder. The result depends only on the pixels.

    The conversion uses swscale with bicubic filtering and one thread, as in the ``ffmpeg`` program.
    """

    def __init__(self, pixel_format: str, colour: Colour) -> None:
        self._pixel_format = pixel_format
        self._colour = colour
        self._reformatter = VideoReformatter()
        self._planes: Any = None

    def check(self) -> None:
        """Raise if FFmpeg cannot convert RGB to this pixel format."""
        try:
            self.frame(np.zeros((3, _PROBE_SIZE, _PROBE_SIZE), np.uint8))
        except (av.FFmpegError, ValueError) as error:
            raise InvalidArgumentError(
                f"FFmpeg cannot convert RGB to the pixel format {self._pixel_format} ({error_text(error)})."
            ) from error

    def frame(self, picture: NDArray[np.uint8]) -> Any:
        """Return a frame for RGB pixels (3, H, W). The frame owns its memory, because the encoder may keep it."""
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
        """Return a frame with one plane per colour. swscale converts it to the same result as packed RGB."""
        height, width = picture.shape[1:]
        frame = self._planes
        # The frame is reused, unless the encoder gets it without a conversion.
        if frame is None or (frame.height, frame.width) != (height, width) or self._pixel_format == "gbrp":
            frame = self._planes = av.VideoFrame(width, height, "gbrp")
        for plane, channel in zip(frame.planes, (1, 2, 0), strict=True):
            np.copyto(_plane_lines(plane, width), picture[channel])
        return frame


def _plane_lines(plane: Any, num_bytes: int) -> NDArray[np.uint8]:
    """Return a view of the first ``num_bytes`` of each line of a plane: (H, num_bytes)."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, :num_bytes]
