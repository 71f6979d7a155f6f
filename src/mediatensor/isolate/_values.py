"""Plain data, arrays and result types of this library as text and bytes, and back, for an untrusted sender.

The structure is JSON. A value that JSON does not have is an object with one key, its kind: ``{"tuple": [1, 2]}``. The
contents of tensors, arrays and ``bytes`` lie beside it, in one block. Nothing in the structure can name code to be run,
refer to itself, or claim that more came than did; anything malformed raises.

One byte of JSON becomes up to fifty bytes of memory (``[]`` is a list), and deep nesting may exceed the stack of the
reader. Lists, objects and commas are therefore counted in the text before anything is built from it, which takes no
more memory than the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InvalidArgumentError
from ._result_types import put_together, take_apart

__all__ = [
    "MAX_DEPTH",
    "MAX_NESTING",
    "MAX_NUM_HASHED",
    "MAX_NUM_VALUES",
    "Extent",
    "decode",
    "encode",
    "extent_of",
    "read_structure",
]

#: How deep lists, dictionaries and objects may lie in each other.
MAX_DEPTH = 100

#: Most dictionary keys that are not text. Numbers can be chosen so that looking them up takes time by the square of
#: their count. The places of text cannot be foreseen.
MAX_NUM_HASHED = 16_384

_MAX_NUM_DIMENSIONS = 64  # NumPy's
_MAX_DIMENSION = 1 << 62

# Any number of bytes that every type of number can begin at.
_ALIGNMENT = 64

_DTYPE = re.compile(r"[<>|=]?[biufcmMSU]\d{0,10}(\[\w{1,12}\])?")

_PLAIN = (str, int, float, bool, type(None))
_PLAIN_SET = frozenset(_PLAIN)
_NUMPY_KINDS = "biufcmMSU"
_TORCH_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
} | {name: getattr(torch, name) for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")}


class _Encoder:
    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.num_bytes = 0
        self._depth = 0
        self._num_hashed = 0

    def node(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN_SET:
            return value
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidArgumentError(f"lists and dictionaries that lie more than {MAX_DEPTH} deep in each other")
        try:
            return self._node(value, kind)
        finally:
            self._depth -= 1

    def _node(self, value: Any, kind: type) -> Any:
        if kind is list:
            return value if _PLAIN_SET.issuperset(map(type, value)) else [self.node(item) for item in value]
        if kind is tuple or kind is torch.Size:
            return {"tuple": [self.node(item) for item in value]}
        if issubclass(kind, dict) and kind.__module__ in ("builtins", "collections"):
            self._num_hashed = _count_keys(self._num_hashed, value)
            return {"dict": [[key, self.node(item)] for key, item in value.items()]}
        if kind is bytes:
            return {"bytes": self._bytes(memoryview(value))}
        if isinstance(value, Tensor):
            return {"tensor": self._tensor(value)}
        if kind is np.ndarray or isinstance(value, np.generic):
            return {"array" if kind is np.ndarray else "scalar": self._array(np.asarray(value))}
        if kind is Fraction:  # in the metadata of streams
            return {"fraction": [value.numerator, value.denominator]}
        parts = take_apart(value)
        if parts is None:
            raise InvalidArgumentError(f"an object of {kind.__module__}.{kind.__qualname__}")
        name, fields = parts
        return {"object": [name, {key: self.node(item) for key, item in fields.items()}]}

    def _bytes(self, data: memoryview) -> list[int]:
        begin = self.num_bytes
        self.pieces.append(data)
        self.num_bytes += len(data)
        padding = -self.num_bytes % _ALIGNMENT
        self.pieces.append(memoryview(bytes(padding)))
        self.num_bytes += padding
        return [begin, len(data)]

    def _tensor(self, tensor: Tensor) -> list[Any]:
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            raise InvalidArgumentError(f"a tensor of layout {tensor.layout} on {tensor.device}")
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        # As it lies in memory: what is (N, H, W, 3) there stays so, whichever way it is seen.
        order = sorted(range(plain.ndim), key=lambda dim: (plain.stride(dim), plain.shape[dim]), reverse=True)
        if not (dense := plain.permute(order)).is_contiguous():
            order, dense = list(range(plain.ndim)), plain.contiguous()
        data = memoryview(dense.reshape(-1).view(torch.uint8).numpy().data)
        return [str(dense.dtype).removeprefix("torch."), list(dense.shape), order, *self._bytes(data)]

    def _array(self, array: NDArray[Any]) -> list[Any]:
        if array.dtype.kind not in _NUMPY_KINDS or array.dtype.itemsize == 0:
            raise InvalidArgumentError(f"an array of dtype {array.dtype}")
        order = sorted(range(array.ndim), key=lambda dim: (array.strides[dim], array.shape[dim]), reverse=True)
        if not (dense := array.transpose(order)).flags.c_contiguous:
            order, dense = list(range(array.ndim)), np.ascontiguousarray(array)
        data = memoryview(dense.reshape(-1).view(np.uint8).data)
        return [dense.dtype.str, list(dense.shape), order, *self._bytes(data)]


def encode(value: Any) -> tuple[bytes, list[memoryview]]:
    """(structure, contents): a value as JSON, and the pieces of the block beside it.

    Tensors come from whatever device they are on and go without gradients.

    Raises:
        InvalidArgumentError: naming something in it that cannot come back.

    Example:
        >>> encode({1: (2, b"ab")})[0]
        b'{"dict": [[1, {"tuple": [2, {"bytes": [0, 2]}]}]]}'
    """
    encoder = _Encoder()
    structure = encoder.node(value)
    return json.dumps(structure).encode(), encoder.pieces


class _Decoder:
    def __init__(self, contents: Tensor) -> None:
        self._contents = contents
        self._num_hashed = 0
        self._num_bytes = 0
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "tuple": lambda node: tuple(map(self.node, node)),
            "dict": self._dict,
            "bytes": lambda node: self._part(*node).numpy().tobytes(),
            "tensor": lambda node: self._tensor(*node),
            "array": lambda node: self._array(*node),
            "scalar": lambda node: self._array(*node)[()],
            "fraction": lambda node: Fraction(*map(int, node)),
            "object": lambda node: put_together(node[0], {key: self.node(item) for key, item in node[1].items()}),
        }

    def node(self, node: Any) -> Any:
        if isinstance(node, _PLAIN):
            return node
        if isinstance(node, list):
            if not _PLAIN_SET.issuperset(map(type, node)):
                for index, item in enumerate(node):  # in place: no second list beside the first
                    node[index] = self.node(item)
            return node
        ((kind, content),) = node.items()
        return self._kinds[kind](content)

    def _dict(self, node: list[Any]) -> dict[Any, Any]:
        self._num_hashed = _count_keys(self._num_hashed, (key for key, _ in node))
        return {key: self.node(item) for key, item in node}

    def _part(self, begin: int, num_bytes: int) -> Tensor:
        if not (0 <= begin <= begin + num_bytes <= len(self._contents)):
            raise ValueError(f"bytes {begin} to {begin + num_bytes} of {len(self._contents)}")
        # Some kinds are copies of their part: the same part again and again would fill the memory.
        self._num_bytes += num_bytes
        if self._num_bytes > len(self._contents):
            raise ValueError(f"parts of {self._num_bytes} bytes altogether, of {len(self._contents)}")
        return self._contents[begin : begin + num_bytes]

    def _tensor(self, name: str, shape: list[int], order: list[int], begin: int, num_bytes: int) -> Tensor:
        dtype = _TORCH_DTYPES[name]
        part = self._checked(dtype.itemsize, shape, order, begin, num_bytes)
        # Any other byte would be no truth value, which torch relies on.
        flat = part != 0 if dtype is torch.bool else part.view(dtype) if num_bytes else part.new_empty(0, dtype=dtype)
        return flat.reshape(shape).permute(_inverse(order))

    def _array(self, name: str, shape: list[int], order: list[int], begin: int, num_bytes: int) -> NDArray[Any]:
        if not _DTYPE.fullmatch(name):  # NumPy would read anything else as Python
            raise ValueError(f"an array of dtype {name[:100]!r}")
        dtype = np.dtype(name)
        if dtype.kind not in _NUMPY_KINDS or dtype.itemsize == 0:
            raise ValueError(f"an array of dtype {dtype}")
        part = self._checked(dtype.itemsize, shape, order, begin, num_bytes).numpy()
        flat = part != 0 if dtype.kind == "b" else part.view(dtype)
        return flat.reshape(shape).transpose(_inverse(order))

    def _checked(self, item_bytes: int, shape: list[int], order: list[int], begin: int, num_bytes: int) -> Tensor:
        if len(shape) > _MAX_NUM_DIMENSIONS or max(shape, default=0) > _MAX_DIMENSION:
            raise ValueError(f"{len(shape)} dimensions, one of them too large")
        if sorted(order) != list(range(len(shape))):
            raise ValueError(f"{order} is no order of {len(shape)} dimensions")
        if min(shape, default=0) < 0 or math.prod(shape) * item_bytes != num_bytes:
            raise ValueError(f"{num_bytes} bytes for the shape {shape}")
        return self._part(begin, num_bytes)


def _count_keys(count: int, keys: Iterable[Any]) -> int:
    """Add the keys of a dictionary that are not text to their count; large numbers count more."""
    for key in keys:
        if type(key) not in _PLAIN_SET:
            raise InvalidArgumentError(f"a dictionary key of {type(key).__module__}.{type(key).__qualname__}")
        if type(key) is not str:
            count += 1 + (key.bit_length() >> 10 if type(key) is int else 0)
    if count > MAX_NUM_HASHED:
        raise InvalidArgumentError(f"more than {MAX_NUM_HASHED} dictionary keys that are not text")
    return count


def _inverse(order: Sequence[int]) -> list[int]:
    inverse = [0] * len(order)
    for place, dim in enumerate(order):
        inverse[dim] = place
    return inverse


def decode(structure: bytes, contents: Tensor) -> Any:
    """The value that `encode` took apart; its tensors and arrays lie in ``contents``.

    Args:
        structure: The JSON.
        contents: The block beside it, a uint8 tensor (bytes,) that may be written to.

    Raises:
        Exception: of whatever kind, if it is not what `encode` makes.

    Example:
        >>> import torch
        >>> structure, pieces = encode([1.5, ("x",), None])
        >>> decode(structure, torch.empty(0, dtype=torch.uint8))
        [1.5, ('x',), None]
    """
    return _Decoder(contents).node(read_structure(structure))


# The text of a structure: counted, then read

#: Most values of a result: numbers, texts, lists, objects and what describes tensors.
MAX_NUM_VALUES = 2_097_152

#: How deep lists and objects of the text may be nested; each level of a result is up to three of them.
MAX_NESTING = 300

# Python's own default limit for digits of a whole number: reading them takes time with the square of their count.
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
    # In a row of backslashes each second one is plain text. A quote after one that remains does not end its text.
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
