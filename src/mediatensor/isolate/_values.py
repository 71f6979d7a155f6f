"""Serialize values and exceptions as plain data, because the sender of a result is not trusted.

The structure of a value is JSON. If JSON lacks the type of a value, the value becomes a JSON object whose only key is
the name of the type: ``{"tuple": [1, 2]}``. The contents of tensors, arrays and ``bytes`` are in a separate block. An
object is stored as the name of its class, which must be in a fixed table, and the values of its fields. So the
structure cannot make the reader run code, build a cyclic value, or use more bytes than were sent. Malformed data raise
an error.

One byte of JSON can become up to fifty bytes of memory (``[]`` is a list), and deep nesting could overflow the reader's
stack. Therefore the reader first counts values and nesting, which needs no more memory than the JSON text itself.
"""

from __future__ import annotations

import builtins
import dataclasses
import errno
import importlib
import json
import math
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import errors, frames
from ..errors import InvalidArgumentError, IsolatedWorkerError

_MAX_TEXT_CHARACTERS = 1 << 14
_MAX_ARGUMENTS_BYTES = 1 << 20

_RESULT_TYPES = {
    "mediatensor.frames": tuple(frames.__all__),
    "mediatensor.decoders": (
        "AudioStreamHeaderMetadata",
        "AudioStreamMetadata",
        "Chapter",
        "ContainerMetadata",
        "CpuFallbackStatus",
        "DemuxerMetadata",
        "StreamMetadata",
        "Subtitle",
        "SubtitleStreamHeaderMetadata",
        "VideoStreamHeaderMetadata",
        "VideoStreamMetadata",
    ),
    # Objects of these classes are restored from their attributes, data classes through their constructor.
    "mediatensor.ocr.io.elements": (
        "Artefact",
        "Block",
        "Character",
        "Document",
        "KIEDocument",
        "KIEPage",
        "LayoutElement",
        "Line",
        "Page",
        "Prediction",
        "Table",
        "TableCell",
        "Word",
    ),
}

#: Largest nesting of lists, dictionaries and objects.
MAX_DEPTH = 100

#: Largest number of dictionary keys that are not text. Numbers can be chosen so that lookups take quadratic time;
#: hashes of text cannot be predicted.
MAX_NUM_HASHED = 16_384

_MAX_NUM_DIMENSIONS = 64  # limit of NumPy
_MAX_DIMENSION = 1 << 62

# A multiple of the alignments of all number types.
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
            raise InvalidArgumentError(f"lists and dictionaries that are nested more than {MAX_DEPTH} levels deep")
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
        parts = _take_apart(value)
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
        # Keep the memory layout: for example, a permuted view of (N, H, W, 3) is sent as (N, H, W, 3).
        order = sorted(range(plain.ndim), key=lambda dim: (plain.stride(dim), plain.shape[dim]), reverse=True)
        if not (dense := plain.permute(order)).is_contiguous():
            order, dense = list(range(plain.ndim)), plain.contiguous()
        # A dimension of length 1 can have any stride, but `view` requires 1.
        flat = dense.as_strided((dense.numel(),), (1,))
        data = memoryview(flat.view(torch.uint8).numpy().data)
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
    """Return the structure of a value as JSON, and the contents of its tensors, arrays and ``bytes`` in pieces.

    The pieces, one after the other, form the block of bytes to which the structure refers. Tensors can be on any
    device. Their gradients are dropped.

    Raises:
        InvalidArgumentError: if a value cannot be sent. The message names this value.

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
            "object": lambda node: _put_together(node[0], {key: self.node(item) for key, item in node[1].items()}),
        }

    def node(self, node: Any) -> Any:
        if isinstance(node, _PLAIN):
            return node
        if isinstance(node, list):
            if not _PLAIN_SET.issuperset(map(type, node)):
                for index, item in enumerate(node):  # in place, without a second list
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
        # Some kinds copy their part of the block. If they all used the same part, they could fill the memory.
        self._num_bytes += num_bytes
        if self._num_bytes > len(self._contents):
            raise ValueError(f"parts with a total of {self._num_bytes} bytes, of {len(self._contents)}")
        return self._contents[begin : begin + num_bytes]

    def _tensor(self, name: str, shape: list[int], order: list[int], begin: int, num_bytes: int) -> Tensor:
        dtype = _TORCH_DTYPES[name]
        part = self._check_part(dtype.itemsize, shape, order, begin, num_bytes)
        # torch requires that the bytes of bools are 0 or 1.
        flat = part != 0 if dtype is torch.bool else part.view(dtype) if num_bytes else part.new_empty(0, dtype=dtype)
        return flat.reshape(shape).permute(np.argsort(order).tolist())

    def _array(self, name: str, shape: list[int], order: list[int], begin: int, num_bytes: int) -> NDArray[Any]:
        if not _DTYPE.fullmatch(name):  # NumPy would evaluate other text as Python
            raise ValueError(f"an array of dtype {name[:100]!r}")
        dtype = np.dtype(name)
        if dtype.kind not in _NUMPY_KINDS or dtype.itemsize == 0:
            raise ValueError(f"an array of dtype {dtype}")
        part = self._check_part(dtype.itemsize, shape, order, begin, num_bytes).numpy()
        flat = part != 0 if dtype.kind == "b" else part.view(dtype)
        return flat.reshape(shape).transpose(np.argsort(order).tolist())

    def _check_part(self, item_bytes: int, shape: list[int], order: list[int], begin: int, num_bytes: int) -> Tensor:
        if len(shape) > _MAX_NUM_DIMENSIONS or max(shape, default=0) > _MAX_DIMENSION:
            raise ValueError(f"{len(shape)} dimensions, one of them too large")
        if sorted(order) != list(range(len(shape))):
            raise ValueError(f"{order} is not an order of {len(shape)} dimensions")
        if min(shape, default=0) < 0 or math.prod(shape) * item_bytes != num_bytes:
            raise ValueError(f"{num_bytes} bytes for the shape {shape}")
        return self._part(begin, num_bytes)


def _count_keys(count: int, keys: Iterable[Any]) -> int:
    """Return ``count`` plus the number of ``keys`` that are not text; raise if it exceeds `MAX_NUM_HASHED`.

    A long integer counts as several keys: one more for every 1,024 bits.
    """
    for key in keys:
        if type(key) not in _PLAIN_SET:
            raise InvalidArgumentError(f"a dictionary key of {type(key).__module__}.{type(key).__qualname__}")
        if type(key) is not str:
            count += 1 + (key.bit_length() >> 10 if type(key) is int else 0)
    if count > MAX_NUM_HASHED:
        raise InvalidArgumentError(f"more than {MAX_NUM_HASHED} dictionary keys that are not text")
    return count


def decode(structure: bytes, contents: Tensor) -> Any:
    """Rebuild a value from its structure and contents.

    Tensors and arrays in the value are views of ``contents``, which must be writable uint8 (bytes,).

    Raises:
        Exception: of any type, if `encode` cannot have produced this structure.
    """
    return _Decoder(contents).node(read_structure(structure))


#: Largest number of values in a result: numbers, texts, lists, objects and descriptions of tensors.
MAX_NUM_VALUES = 2_097_152

#: Largest nesting of lists and objects in the text. A level of nesting in a result becomes up to three levels.
MAX_NESTING = 300

# Python's default limit for the digits of an integer. It is needed because reading long integers takes quadratic time.
_MAX_DIGITS = 4300

_CHUNK_BYTES = 1 << 20

_QUOTE = ord('"')
_MARKS = b'"[]{},'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))

# For each byte: how it changes the depth, and the number of values that it announces.
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_VALUES = np.zeros(256, np.int8)
_VALUES[list(b"[{,")] = 1


class Extent(NamedTuple):
    num_values: int  # an upper bound
    nesting: int


def extent_of(structure: bytes) -> Extent:
    """Return the number of values and the nesting depth of an ASCII JSON text.

    If the text is invalid, they cover at least the part that a parser reads before it fails.

    >>> extent_of(b'[1, {"a": "[,"}]')
    Extent(num_values=4, nesting=2)
    """
    # Remove escaped backslashes first, then escaped quotes, which do not end a text.
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
    """Parse a JSON text; raise if it is not JSON, has too many values, or is nested too deeply."""
    text = structure.decode("ascii")  # json would accept other encodings, in which brackets and quotes have other bytes
    extent = extent_of(structure)
    if extent.num_values > MAX_NUM_VALUES:
        raise InvalidArgumentError(f"{extent.num_values} values, of at most {MAX_NUM_VALUES}")
    if extent.nesting > MAX_NESTING:
        raise InvalidArgumentError(f"{extent.nesting} levels of nesting, of at most {MAX_NESTING}")
    return json.loads(
        text, parse_int=lambda digits: int(_short(digits)), parse_float=lambda digits: float(_short(digits))
    )


def _short(digits: str) -> str:
    if len(digits) > _MAX_DIGITS:
        raise InvalidArgumentError(f"a number of {len(digits)} digits")
    return digits


def _take_apart(value: object) -> tuple[str, dict[str, Any]] | None:
    """Return the class name and the fields of an object; ``None`` if objects of this class cannot be sent."""
    cls = type(value)
    is_ours = cls.__module__.split(".")[0] == "mediatensor"
    # Users import the class from this module.
    module = next((module for module, names in _RESULT_TYPES.items() if is_ours and cls.__name__ in names), None)
    name = f"{module}:{cls.__name__}"
    if _class_of(name) is not cls:
        return None
    if dataclasses.is_dataclass(value):
        return name, {spec.name: getattr(value, spec.name) for spec in dataclasses.fields(value)}
    return name, dict(vars(value))


def _put_together(name: str, fields: Mapping[str, Any]) -> Any:
    """Make an object of class ``name`` with these fields. Raise an exception of any type if they are not accepted."""
    cls = _class_of(name)
    if cls is None:
        raise ValueError(f"an object of {name[:200]!r} is not accepted")
    if dataclasses.is_dataclass(cls):
        return cls(**fields)
    element: Any = object.__new__(cls)
    vars(element).update(fields)
    return element


def _class_of(name: str) -> type | None:
    module, _, class_name = name.partition(":")
    if class_name not in _RESULT_TYPES.get(module, ()):
        return None
    cls: type = getattr(importlib.import_module(module), class_name)
    return cls


def failure_of(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    text = _text_of(error)
    try:
        parts = error.__reduce__()[1]
        arguments = [os.fspath(part) if isinstance(part, os.PathLike) else part for part in parts]
        are_short = len(encode(arguments)[0]) <= _MAX_ARGUMENTS_BYTES
    except Exception:  # exceptions of libraries may fail in many ways
        are_short = False
    trace = "".join(traceback.format_exception(error))
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "args": arguments if are_short else [text],
        "text": text,
        "trace": trace[-_MAX_TEXT_CHARACTERS:],
    }


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception or one of its causes means that memory ran out."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = _text_of(current)
        if isinstance(current, MemoryError) or "can't allocate memory" in text:
            return True
        if getattr(current, "errno", None) == errno.ENOMEM or "Cannot allocate memory" in text:
            return True
        current = current.__cause__ or current.__context__
    return False


def rebuild_error(failure: Mapping[str, Any]) -> Exception:
    """Return an exception for the description that `failure_of` made.

    It has the same type if ``mediatensor.errors`` or ``builtins`` defines this type; otherwise, it is an
    `IsolatedWorkerError` with the reason "exception". The trace is added as a note.
    """
    text, name = str(failure["text"])[:_MAX_TEXT_CHARACTERS], str(failure["type"])[:200]
    cls = _exception_class(name)
    try:
        error = None if cls is None else cls(*failure["args"])
    except Exception:  # the arguments may have another type
        error = None
    if error is None:
        error = IsolatedWorkerError(f"The isolated function raised {name}: {text}", "exception")
    error.add_note(f"In the isolated process:\n{str(failure['trace'])[-_MAX_TEXT_CHARACTERS:]}")
    return error


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_TEXT_CHARACTERS]
    except Exception:  # __str__ of the class raised
        return f"a {type(error).__name__} that has no text"


def _exception_class(name: str) -> type[Exception] | None:
    module, _, class_name = name.rpartition(".")
    candidate: Any = None
    if module == errors.__name__ and class_name in errors.__all__:
        candidate = getattr(errors, class_name)
    elif module == "builtins":
        candidate = getattr(builtins, class_name, None)
    return candidate if isinstance(candidate, type) and issubclass(candidate, Exception) else None
