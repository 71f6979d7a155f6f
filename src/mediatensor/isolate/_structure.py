"""The text of a structure: counted before anything is built of it, then read.

A byte of JSON becomes up to fifty of memory (``[]`` is a list), and what is nested deeply may need more of the stack of
the reader than there is. So lists, objects and commas are counted in the text first, which takes no more memory than
the text.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidArgumentError

__all__ = ["MAX_NESTING", "MAX_NUM_VALUES", "Extent", "extent_of", "read_structure"]

#: Most values of a result: numbers, texts, lists, objects and what describes tensors.
MAX_NUM_VALUES = 2_097_152

#: How deep lists and objects of the text may lie in each other; each of a result is up to three of them.
MAX_NESTING = 300

# What Python itself reads of a whole number, unless a program tells it otherwise: it takes the square of them in time.
_MAX_DIGITS = 4300

_CHUNK_BYTES = 1 << 20

_QUOTE = ord('"')
_MARKS = b'"[]{},'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))

# By byte: how much deeper it is after it; how many values follow it at least, or its object ends.
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_VALUES = np.zeros(256, np.int8)
_VALUES[list(b"[{,")] = 1


class Extent(NamedTuple):
    """How much there is in a structure.

    Attributes:
        num_values: How many values there are at most; a member of an object is one.
        nesting: How deep they lie in each other.
    """

    num_values: int
    nesting: int


def extent_of(structure: bytes) -> Extent:
    """Count what a JSON text of ASCII holds; of what is no JSON, whatever a reader may come to.

    Example:
        >>> extent_of(b'[1, {"a": "[,"}]')
        Extent(num_values=4, nesting=2)
    """
    # Of backslashes in a row each second one is plain text; a quote after one that is left does not end its text.
    plain = structure.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in structure else structure
    marks = np.frombuffer(plain.translate(None, _NO_MARKS), np.uint8)
    num_values, depth, nesting, is_text = 1, 0, 0, 0
    for begin in range(0, len(marks), _CHUNK_BYTES):
        part = marks[begin : begin + _CHUNK_BYTES]
        in_text = (np.cumsum(part == _QUOTE) + is_text) & 1
        outside = part[in_text == 0]
        depths = depth + np.cumsum(_STEPS[outside], dtype=np.int64)
        num_values += int(_VALUES[outside].sum(dtype=np.int64))
        nesting = max(nesting, int(depths.max(initial=0)))
        depth, is_text = int(depths[-1]) if len(depths) else depth, int(in_text[-1])
    return Extent(num_values, nesting)


def read_structure(structure: bytes) -> Any:
    """What a JSON text says, if it is of bounded extent.

    Raises:
        InvalidArgumentError: if there are too many values in it, or they lie too deep in each other.
        ValueError: if it is no JSON.

    Example:
        >>> read_structure(b'[1, {"tuple": []}]')
        [1, {'tuple': []}]
    """
    text = structure.decode("ascii")  # json would take other encodings, in which the marks are other bytes
    extent = extent_of(structure)
    if extent.num_values > MAX_NUM_VALUES:
        raise InvalidArgumentError(f"{extent.num_values} values, of at most {MAX_NUM_VALUES}")
    if extent.nesting > MAX_NESTING:
        raise InvalidArgumentError(f"lists that lie {extent.nesting} deep in each other, of at most {MAX_NESTING}")
    return json.loads(
        text, parse_int=lambda digits: int(_short(digits)), parse_float=lambda digits: float(_short(digits))
    )


def _short(digits: str) -> str:
    if len(digits) > _MAX_DIGITS:
        raise InvalidArgumentError(f"a number of {len(digits)} digits")
    return digits
