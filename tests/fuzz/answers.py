"""The results of reading a file, in a form in which two readings can be compared."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from mediatensor.errors import MediaTensorError

__all__ = ["Answers", "WrongAnswerError", "digest"]

T = TypeVar("T")


class WrongAnswerError(Exception):
    """Something was given as right that is not; the message says what."""


class Answers:
    """Every answer so far: a digest of the result, or the type of the error."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors: Counter[str] = Counter()
        self.num_results = 0
        self.is_left_to_codec = False

    def ask(self, name: str, question: Callable[[], T]) -> T | None:
        """The result; ``None`` for an error of the library's own. Any other error is the caller's."""
        try:
            result = question()
        except MediaTensorError as error:
            self.errors[type(error).__name__] += 1
            self.lines.append(f"{name}: {type(error).__name__}")
            return None
        self.num_results += 1
        self.lines.append(f"{name}: {digest(result)}")
        return result

    @property
    def outcome(self) -> str:
        """In a word: a result, some of them, or the error that came first."""
        if not self.errors:
            return "result"
        return "partly" if self.num_results > 1 else f"refused: {next(iter(self.errors))}"


def digest(value: Any) -> object:
    """Return a short value that is equal for equal values; objects without a value count by type."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, zlib.crc32(np.ascontiguousarray(value).view(np.uint8).reshape(-1))
    if isinstance(value, bytes):
        return len(value), zlib.crc32(value)
    if isinstance(value, str):
        return zlib.crc32(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int | float | None):
        return repr(value)
    if isinstance(value, Mapping):
        return [(digest(key), digest(item)) for key, item in value.items()]
    if is_dataclass(value):
        return [digest(getattr(value, item.name)) for item in fields(value) if not item.name.startswith("_")]
    if isinstance(value, list | tuple):
        return [digest(item) for item in value]
    return type(value).__name__
