"""What the commands share to talk to the terminal and to the file system."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

from .._progress import progress
from ..errors import InvalidArgumentError, MediaTensorError, WriteError
from ._text import one_line

__all__ = [
    "emit",
    "emit_error",
    "emit_json",
    "non_negative_int",
    "positive_int",
    "positive_number",
    "progress",
    "replacing",
    "time_in_seconds",
    "to_json",
]


def emit(text: str, stream: TextIO | None = None) -> None:
    """Print a line; characters that the terminal cannot show are escaped instead of failing."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def emit_error(message: str) -> None:
    """Print an error as one line to stderr."""
    emit(f"mediatensor: error: {one_line(message)}", sys.stderr)


def to_json(value: Any) -> Any:
    """Facts as JSON values: fractions as ``"a/b"``, what is unknown or not a number as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {spec.name: to_json(getattr(value, spec.name)) for spec in fields(value)}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def emit_json(value: Any) -> None:
    emit(json.dumps(to_json(value), indent=2, allow_nan=False))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, moved over it at the end: a file is whole or it is not there.

    Raises:
        WriteError: if the folder does not exist or cannot be written to, or the disk is full.
    """
    if path.is_dir():
        raise InvalidArgumentError(f"The output must be a file, and {str(path)!r} is a folder.")
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    except MediaTensorError:
        raise
    except OSError as error:
        raise WriteError(f"Could not write to {str(path)!r}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)


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
