"""Which colours an encoded video has: the matrix of its conversion from RGB, its range, and the tags that say so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import av

from ..errors import InvalidArgumentError
from .facts import _PRIMARIES, _RANGES, _SPACES, _TRANSFERS

__all__ = ["Colour", "choose_colour", "take_colour_options"]

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
    for option, field in (
        ("colorspace", "matrix"),
        ("color_primaries", "primaries"),
        ("color_trc", "transfer"),
        ("color_range", "range"),
    ):
        if option in options:
            changes[field] = _number_of(option, options.pop(option))
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
