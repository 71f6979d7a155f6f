"""Read tensors, the order of layers, and metadata from ONNX files, with NumPy only.

An ONNX file is one protocol-buffer message (https://onnx.ai/onnx/repo-docs/IR.html). Nothing in the file is executed.
The parameters are copied into PyTorch modules. Parameters and modules are matched by their order in the network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ....errors import WeightsError

MAX_FILE_BYTES = 2**31 - 1
"""The size limit of protocol-buffer messages; known files are far smaller."""

_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}

_NOT_RAW = 2**20
"""Limit on the numbers of a tensor that are stored one by one, and on the fields of a message; both are slow to read.
Exporters store parameters as bytes.
"""

_MOST_NODES = 2**17
"""Limit on the operations and tensors of a graph; the largest known network has 5,000."""

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
FieldValue: TypeAlias = "int | memoryview"

_PARAMETERS = ("weight", "bias", "running_mean", "running_var")


class OnnxNode(NamedTuple):
    """An operation of a graph: its type, the names of its inputs, and the name of its first output."""

    op: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class OnnxGraph:
    """The content of an ONNX file."""

    tensors: dict[str, Array]
    nodes: tuple[OnnxNode, ...]  # in the order of execution, without ``Identity`` operations
    metadata: dict[str, str]  # that the file's author added
    inputs: tuple[str, ...] = ()  # names of the inputs that the caller of the network must provide
    outputs: tuple[str, ...] = ()


def read_onnx(path: Path) -> OnnxGraph:
    """Read an ONNX file, which must contain all its tensors. The returned arrays are views of the file's bytes."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise WeightsError(f"{path} is larger than an ONNX file can be ({MAX_FILE_BYTES} bytes).")
    try:
        return _parse_model(memoryview(path.read_bytes()))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WeightsError(f"{path} is not a readable ONNX file ({error}): install or copy it again.") from error


def add_output(data: bytes, name: str) -> bytes:
    """Return a copy of the ONNX file content ``data`` whose network also returns its internal tensor ``name``.

    Protocol buffers merge repeated messages. Therefore it is enough to append a graph that contains only this output.
    """
    message = name.encode()
    for number in (1, 12, 7):  # nested fields: name of a value, output of a graph, graph of a model
        message = bytes([number << 3 | 2]) + _write_varint(len(message)) + message
    return data + message


def fill_layers(layers: Sequence[nn.Module], graph: OnnxGraph) -> None:
    """Copy the parameters in ``graph`` into ``layers``, which must have the order in which the graph executes them."""
    try:
        found = list(_layers_of(graph))
    except LookupError as error:
        raise WeightsError(f"The weights belong to another network: {error} is missing.") from error
    if len(found) != len(layers):
        raise WeightsError(f"The weights belong to another network: {len(found)} layers, {len(layers)} expected.")
    for position, (layer, arrays) in enumerate(zip(layers, found, strict=True)):
        names = [name for name in _PARAMETERS if getattr(layer, name, None) is not None]
        shapes = [tuple(getattr(layer, name).shape) for name in names]
        if shapes != [array.shape for array in arrays]:
            raise WeightsError(
                f"The weights belong to another network: layer {position} is {layer} with {shapes}, "
                f"the file has {[array.shape for array in arrays]}."
            )
        for name, array in zip(names, arrays, strict=True):
            target: Tensor = getattr(layer, name)
            with torch.no_grad():
                target.copy_(torch.from_numpy(_clear_denormals(array)))


def _clear_denormals(array: Array) -> npt.NDArray[np.float32]:
    """Return a float32 copy with denormal numbers set to 0.

    Denormal numbers are so close to 0 that they have reduced precision. Training leaves unused weights with such
    values, and arithmetic with them is slow: the 250,000 denormals in PP-OCRv6's detector more than double its run time
    without affecting its output.
    """
    values = np.array(array, dtype=np.float32)
    values[np.abs(values) < np.finfo(np.float32).tiny] = 0
    return values


def _layers_of(graph: OnnxGraph) -> Iterator[list[Array]]:
    """Yield the parameters of each layer, in the order in which the graph executes the layers.

    The parameters of a layer have the order of `_PARAMETERS`. Exporters often write the bias of a convolution or linear
    layer as a separate addition. They write a layer norm as basic operations: its weight is the factor of a
    multiplication, and its bias is the term of an addition.
    """
    tensors = graph.tensors
    addends = {node.inputs[0]: node.inputs[1] for node in reversed(graph.nodes) if node.op == "Add"}
    reshaped = {node.output: node.inputs[0] for node in graph.nodes if node.op == "Reshape"}

    def bias_behind(output: str) -> list[Array]:
        name = addends.get(output, "")
        name = reshaped.get(name, name)
        return [tensors[name].reshape(-1)] if name in tensors and tensors[name].ndim > 0 else []

    for node in graph.nodes:
        parameter = tensors.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if parameter is None:
            continue
        if node.op in ("Conv", "ConvTranspose"):
            yield [parameter, *(bias_behind(node.output) or [tensors[name] for name in node.inputs[2:3]])]
        elif node.op == "BatchNormalization":
            yield [tensors[name] for name in node.inputs[1:]]
        elif node.op == "MatMul":
            yield [parameter.T, *bias_behind(node.output)]
        elif node.op == "Mul" and parameter.ndim == 1 and parameter.size > 1:
            yield [parameter, *bias_behind(node.output)]


def _parse_model(data: memoryview) -> OnnxGraph:
    tensors: dict[str, Array] = {}
    nodes: list[OnnxNode] = []
    inputs: list[str] = []
    outputs: list[str] = []
    model = _fields(data)
    pairs = [_fields(_message(pair)) for pair in model[14]]
    for graph in model[7]:
        parts = _fields(_message(graph))
        if len(nodes) + len(tensors) + len(parts[1]) + len(parts[5]) > _MOST_NODES:
            raise ValueError(f"its graph has more than {_MOST_NODES} parts")
        tensors.update(_parse_tensor(_message(content)) for content in parts[5])
        for content in parts[1]:
            node, constant = _parse_node(_message(content))
            if constant is not None:
                tensors[node.output] = constant
            else:
                nodes.append(node)
        for names, values in ((inputs, parts[11]), (outputs, parts[12])):
            names += [_text(name) for value in values for name in _fields(_message(value))[1]]
    if not nodes:
        raise ValueError("it has no graph")
    source: dict[str, str] = {}
    for node in nodes:
        if node.op == "Identity":
            source[node.output] = source.get(node.inputs[0], node.inputs[0])
    kept = tuple(
        node._replace(inputs=tuple(source.get(name, name) for name in node.inputs))
        for node in nodes
        if node.op != "Identity"
    )
    return OnnxGraph(
        tensors,
        kept,
        {_last_text(pair[1]): _last_text(pair[2]) for pair in pairs},
        tuple(name for name in inputs if name not in tensors),
        tuple(source.get(name, name) for name in outputs),
    )


def _parse_node(data: memoryview) -> tuple[OnnxNode, Array | None]:
    """Return an operation and, if the operation is a constant, its value."""
    fields = _fields(data)
    node = OnnxNode(_last_text(fields[4]), tuple(map(_text, fields[1])), _text(fields[2][0]))
    values = map(_parse_attribute, map(_message, fields[5])) if node.op == "Constant" else ()
    return node, next((value for value in values if value is not None), None)


def _parse_attribute(data: memoryview) -> Array | None:
    """Return the value of an attribute if it is a number, a list of numbers or a tensor, otherwise ``None``."""
    fields = _fields(data)
    if fields[8]:
        return np.array([number for value in fields[8] for number in _integers(value)])
    if fields[7]:
        return np.frombuffer(b"".join(map(_message, fields[7])), "<f4")
    if fields[5]:
        return _parse_tensor(_message(fields[5][-1]))[1]
    if fields[3]:
        return np.array(_integers(fields[3][-1])[0])
    return np.frombuffer(_message(fields[2][-1]), "<f4")[0] if fields[2] else None


def _parse_tensor(data: memoryview) -> tuple[str, Array]:
    fields = _fields(data)
    if fields[13]:
        raise ValueError("its tensors are in another file, which is not read")
    shape = [size for value in fields[1] for size in _integers(value)]
    dtype = _integers(fields[2][-1])[0] if fields[2] else 1
    integers: list[int] = []
    for value in (*fields[5], *fields[7]):
        integers += _integers(value)
        if len(integers) > _NOT_RAW:
            raise ValueError(f"a tensor lists more than {_NOT_RAW} numbers one by one")
    if fields[9]:
        array = np.frombuffer(_message(fields[9][-1]), _DTYPES[dtype])
    elif fields[4]:
        array = np.frombuffer(b"".join(map(_message, fields[4])), "<f4")
    else:
        array = np.array(integers, _DTYPES[dtype])
    return _last_text(fields[8]), array.reshape(shape)


def _text(value: FieldValue) -> str:
    return bytes(_message(value)).decode()


def _last_text(values: Sequence[FieldValue]) -> str:
    return _text(values[-1]) if values else ""


def _message(value: FieldValue) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where a message belongs")
    return value


def _fields(data: memoryview) -> defaultdict[int, list[FieldValue]]:
    """Return the fields of a protocol-buffer message: for each field number, the list of its values."""
    fields: defaultdict[int, list[FieldValue]] = defaultdict(list)
    position, size, count = 0, len(data), 0
    while position < size:
        key, position = _varint(data, position)
        wire_type, count = key & 7, count + 1
        if key < 8:
            raise ValueError("a field without a number")
        if count > _NOT_RAW:
            raise ValueError(f"a message has more than {_NOT_RAW} fields")
        if wire_type == 0:
            number, position = _varint(data, position)
            fields[key >> 3].append(number)
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if position + length > size:
            raise ValueError("it ends too early")
        fields[key >> 3].append(data[position : position + length])
        position += length
    return fields


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _write_varint(number: int) -> bytes:
    rest = number >> 7
    return bytes([number & 127 | 128]) + _write_varint(rest) if rest else bytes([number])


def _integers(value: FieldValue) -> list[int]:
    if isinstance(value, int):
        return [value - (1 << 64) if value >> 63 else value]
    numbers, position = [], 0
    while position < len(value):
        number, position = _varint(value, position)
        numbers.append(number - (1 << 64) if number >> 63 else number)
    return numbers
