"""Options that several commands have, and the types of arguments."""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = [
    "add_file",
    "add_folder",
    "add_json",
    "add_stream",
    "add_time_range",
    "non_negative_int",
    "positive_int",
    "positive_number",
    "time_in_seconds",
]


def add_file(parser: argparse.ArgumentParser, kind: str) -> None:
    """``FILE``: what is read; ``kind`` is ``"media"`` or ``"video"``."""
    parser.add_argument("file", metavar="FILE", help=f"a {kind} file or a URL")


def add_folder(parser: argparse.ArgumentParser, default: str) -> None:
    """``--output``: a folder for what is written."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(default), metavar="FOLDER",
        help=f"where the files go; made if it is not there (default: {default})",
    )  # fmt: skip


def add_time_range(parser: argparse.ArgumentParser) -> None:
    """``--start`` and ``--stop``."""
    parser.add_argument(
        "--start", type=time_in_seconds, metavar="TIME", help="from this time (83.5, 1:23.5 or 0:01:23.5)"
    )
    parser.add_argument("--stop", type=time_in_seconds, metavar="TIME", help="up to this time")


def add_stream(group: Any, name: str = "--stream", what: str = "the video stream's index (default: best)") -> None:
    """A stream by its index in the file."""
    group.add_argument(name, type=non_negative_int, metavar="N", help=what)


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``; the description of what it prints is the command's own."""
    parser.add_argument("--json", action="store_true", help="print JSON (described below)")


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


def positive_int(text: str) -> int:
    """Argument type: a whole number, at least 1."""
    return _int_from(text, 1)


def non_negative_int(text: str) -> int:
    """Argument type: a whole number, at least 0."""
    return _int_from(text, 0)


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
    sign = -1.0 if text.startswith("-") else 1.0
    try:
        parts = [float(part) for part in text.removeprefix("-").split(":")]
    except ValueError:
        parts = []
    if not 1 <= len(parts) <= 3 or not all(part >= 0 and math.isfinite(part) for part in parts):
        raise argparse.ArgumentTypeError(f"expected a time such as 83.5, 1:23.5 or 0:01:23.5 (got {text!r})")
    value = 0.0
    for part in parts:
        value = value * 60 + part
    return sign * value
