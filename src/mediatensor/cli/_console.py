"""What the commands share to talk to the terminal."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, TextIO

from .._progress import progress
from ._text import one_line

__all__ = ["emit", "emit_error", "emit_json", "progress", "to_json"]


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
