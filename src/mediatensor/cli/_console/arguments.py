"""Arguments of the command line: their types, and the names that some of them take."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..._engine.common.messages import seconds_from_text
from ...errors import InvalidArgumentError

if TYPE_CHECKING:  # the command's help needs neither numpy nor FFmpeg
    from ..._engine.index.frame_index import FrameIndex

__all__ = [
    "FORMATS",
    "KINDS",
    "VIDEO_FORMATS",
    "PageRanges",
    "Region",
    "format_names",
    "frame_indices",
    "grid_frames",
    "grid_times",
    "kind_names",
    "non_negative_int",
    "page_ranges",
    "picture_size",
    "port_number",
    "positive_int",
    "positive_number",
    "region",
    "share",
    "time_in_seconds",
]

_MAX_GRID_TIMES = 10_000_000

#: Extension of what `ocr` writes of documents, by the name of the format.
FORMATS = {
    "txt": ".txt",
    "json": ".json",
    "md": ".md",
    "adoc": ".adoc",
    "html": ".html",
    "hocr": ".hocr",
    "alto": ".alto.xml",
    "tsv": ".tsv",
    "csv": ".csv",
    "xlsx": ".xlsx",
    "pdf": ".ocr.pdf",
}

#: And of videos.
VIDEO_FORMATS = {
    "srt": ".srt",
    "vtt": ".vtt",
    "ass": ".ass",
    "json": ".json",
    "csv": ".csv",
    "md": ".md",
    "pdf": ".ocr.pdf",
}

#: Of text in video.
KINDS = ("caption", "overlay", "scene", "slide")

#: Page numbers from 1, first and last; ``None`` is the end of the document.
PageRanges = tuple[tuple[int, int | None], ...]

#: Left, top, right and bottom as shares of the picture.
Region = tuple[float, float, float, float]

_MAX_PAGE_NUMBER = 10_000_000


def positive_number(text: str) -> float:
    """Argument type: a number above 0, or a fraction such as 30000/1001.

    >>> positive_number("0.5"), positive_number("30/4")
    (0.5, 7.5)
    """
    try:
        value = float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected a number above 0, such as 2.5 or 30000/1001 (got {text!r})")
    return value


def share(text: str) -> float:
    """Argument type: a number above 0 and at most 1.

    >>> share("0.5")
    0.5
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1 (got {text!r})")
    return value


def positive_int(text: str) -> int:
    """Argument type: a whole number, at least 1."""
    return _int_from(text, 1)


def non_negative_int(text: str) -> int:
    """Argument type: a whole number, at least 0."""
    return _int_from(text, 0)


def port_number(text: str) -> int:
    """Argument type: a port of this machine, or 0 for any that is free."""
    if (value := _int_from(text, 0)) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535 (got {text!r})")
    return value


def _int_from(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least} (got {text!r})")
    return value


def time_in_seconds(text: str) -> float:
    """Argument type: a time as seconds, ``m:ss`` or ``h:mm:ss``, with or without decimals.

    >>> time_in_seconds("83.5") == time_in_seconds("1:23.5") == time_in_seconds("0:01:23.5") == 83.5
    True
    """
    try:
        return seconds_from_text(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time such as 83.5, 1:23.5 or 0:01:23.5 (got {text!r})") from None


def frame_indices(text: str) -> tuple[int, ...]:
    """Argument type: whole numbers, separated by commas.

    >>> frame_indices("0,10,-1")
    (0, 10, -1)
    """
    if not re.fullmatch(r"-?\d{1,18}(,-?\d{1,18})*", text):
        raise argparse.ArgumentTypeError(f"expected frame indices such as 0,10,20 (got {text!r})")
    return tuple(int(part) for part in text.split(","))


def picture_size(text: str) -> tuple[int, int]:
    """Argument type: (width, height).

    >>> picture_size("640x360")
    (640, 360)
    """
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if 0 in size:
        raise argparse.ArgumentTypeError(f"expected a width and a height such as 640x360 (got {text!r})")
    return size


def page_ranges(text: str) -> PageRanges:
    """Argument type: page numbers and ranges of them, from 1.

    >>> page_ranges("1-3,7,10-")
    ((1, 3), (7, 7), (10, None))
    """
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,8})(?:(-)(\d{1,8})?)?", part.strip())
        first = int(match[1]) if match else 0
        last = None if match and match[2] and not match[3] else int(match[3] or first) if match else 0
        if first < 1 or (last is not None and not first <= last <= _MAX_PAGE_NUMBER):
            raise argparse.ArgumentTypeError(f"expected page numbers from 1, such as 1-3,7,10- (got {text!r})")
        ranges.append((first, last))
    return tuple(ranges)


def format_names(text: str) -> list[str]:
    """Argument type: names of formats, separated by commas.

    >>> format_names("txt,pdf")
    ['txt', 'pdf']
    """
    return _names_from(text, list(FORMATS | VIDEO_FORMATS))


def kind_names(text: str) -> list[str]:
    """Argument type: kinds of text, separated by commas.

    >>> kind_names("caption,scene")
    ['caption', 'scene']
    """
    return _names_from(text, KINDS)


def _names_from(text: str, known: Sequence[str]) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)} (got {name!r})")
    return list(dict.fromkeys(names))


def region(text: str) -> Region:
    """Argument type: a part of the picture, in shares of it.

    >>> region("0,0.7,1,1")
    (0.0, 0.7, 1.0, 1.0)
    """
    try:
        left, top, right, bottom = (float(part) for part in text.split(","))
    except ValueError:
        left = top = right = bottom = 0.0
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise argparse.ArgumentTypeError(
            f"expected left, top, right and bottom as shares of the picture, such as 0,0.7,1,1 (got {text!r})"
        )
    return left, top, right, bottom


def grid_times(start: float, stop: float, every_seconds: float | None, fps: float | None) -> list[float]:
    """Times in [start, stop), ``every_seconds`` apart or ``fps`` in a second.

    >>> grid_times(1.0, 2.0, 0.4, None), grid_times(0.0, 0.2, None, 10.0)
    ([1.0, 1.4, 1.8], [0.0, 0.1])
    """
    from ..._engine.common.checks import TIME_TOLERANCE

    step = every_seconds if every_seconds is not None else 1 / (fps or 1.0)
    if step <= 0 or (stop - start) / step > _MAX_GRID_TIMES:
        raise InvalidArgumentError(
            f"That would be more than {_MAX_GRID_TIMES} times in the video; take frames less often."
        )
    count = int((stop - start) / step) + 1
    times = [start + (k / fps if fps else k * step) for k in range(count)]
    return times[:1] + [time for time in times[1:] if time < stop - TIME_TOLERANCE]


def grid_frames(
    index: FrameIndex, start: float, stop: float, every_seconds: float | None, fps: float | None
) -> list[int]:
    """Indices of the frames that are shown at the times of `grid_times`, each once."""
    import numpy as np

    step = every_seconds if every_seconds is not None else 1 / (fps or 1.0)
    clock = index._clock.for_steps(step)
    times = grid_times(clock.exact_start(start), clock.exact_end(stop), clock.exact_step(step), None)
    return list(dict.fromkeys(clock.played_at(np.array(times)).tolist()))
