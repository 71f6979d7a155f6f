"""Read weights from ONNX files with NumPy: tensors, the order of the layers, and metadata.

An ONNX file is one protocol-buffer message (https://onnx.ai/onnx/repo-docs/IR.html). Nothing in it is executed. PyTorch
modules take their parameters from it in the order in which the graph uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ....errors import WeightsError

__all__ = ["OnnxGraph", "add_output", "fill_layers", "read_onnx"]

MAX_FILE_BYTES = 2**31 - 1
"""The size limit of protocol-buffer messages; known files are far smaller."""

_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}

_NOT_RAW = 2**20
"""Limit on the numbers of a tensor that are listed one by one, which is slow. Exporters write parameters as bytes."""

_MOST_NODES = 2**17
"""Limit on the operations and tensors of a graph; the largest known network has 5,000."""

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
FieldValue: TypeAlias = "int | memoryview"

_PARAMETERS = ("weight", "bias", "running_mean", "running_var")


class OnnxNode(NamedTuple):
    """An operation: its type, the names of its inputs, and the name of its first output."""

    op: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class OnnxGraph:
    """The content of a file: tensors by name, nodes in the order of execution (``Identity`` resolved), and metadata.

    Attributes:
        inputs: Names of the inputs, except those whose tensors the file contains.
        outputs: Names of the outputs.
    """

    tensors: dict[str, Array]
    nodes: tuple[OnnxNode, ...]
    metadata: dict[str, str]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def read_onnx(path: Path) -> OnnxGraph:
    """Read an ONNX file, which must contain its tensors; the arrays are views of the file's bytes.

    Raises:
        WeightsError: The file is damaged or not an ONNX file.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise WeightsError(f"{path} is larger than an ONNX file can be ({MAX_FILE_BYTES} bytes).")
    try:
        return _parse_model(memoryview(path.read_bytes()))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WeightsError(f"{path} is not a readable ONNX file ({error}): install or copy it again.") from error


def add_output(data: bytes, name: str) -> bytes:
    """Return the content of an ONNX file in which an inner tensor is an additional output.

    Protocol buffers merge repeated messages, so it is enough to append a graph that contains only the output.
    """
    message = name.encode()
    for number in (1, 12, 7):  # nested fields: name of a value, output of a graph, graph of a model
        message = bytes([number << 3 | 2]) + _write_varint(len(message)) + message
    return data + message


def fill_layers(layers: Sequence[nn.Module], graph: OnnxGraph) -> None:
    """Copy a graph's parameters into layers, given in the order in which the graph uses them.

    Raises:
        WeightsError: The layers of the graph do not match.
    """
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
    """Return a copy with denormal numbers set to 0.

    Training moves unused weights towards 0, and arithmetic with denormals is slow: the 250,000 denormals in PP-OCRv6's
    detector more than double its time without affecting its output.
    """
    values = np.array(array, dtype=np.float32)
    values[np.abs(values) < np.finfo(np.float32).tiny] = 0
    return values


def _layers_of(graph: OnnxGraph) -> Iterator[list[Array]]:
    """Yield the arrays of each layer, in the order of `_PARAMETERS`; layers are in the order of execution.

    Exporters write the bias of a convolution or linear layer as a separate addition. They write a layer norm as basic
    operations: its weight is the vector of a multiplication, and its bias the vector of an addition.
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
    metadata: dict[str, str] = {}
    inputs: list[str] = []
    outputs: list[str] = []
    for number, value in _fields(data):
        if number == 14:
            pair = {key: _text(text) for key, text in _fields(_message(value))}
            metadata[pair.get(1, "")] = pair.get(2, "")
        elif number == 7:
            for part, content in _fields(_message(value)):
                if len(nodes) + len(tensors) > _MOST_NODES:
                    raise ValueError(f"its graph has more than {_MOST_NODES} parts")
                if part == 5:
                    name, array = _parse_tensor(_message(content))
                    tensors[name] = array
                elif part == 1:
                    node, constant = _parse_node(_message(content))
                    if constant is not None:
                        tensors[node.output] = constant
                    else:
                        nodes.append(node)
                elif part in (11, 12):
                    names = inputs if part == 11 else outputs
                    names += [_text(text) for key, text in _fields(_message(content)) if key == 1]
    if not nodes:
        raise ValueError("it has no graph")
    source = _sources_of_identities(nodes)
    kept = tuple(
        node._replace(inputs=tuple(source.get(name, name) for name in node.inputs))
        for node in nodes
        if node.op != "Identity"
    )
    return OnnxGraph(
        tensors,
        kept,
        metadata,
        tuple(name for name in inputs if name not in tensors),
        tuple(source.get(name, name) for name in outputs),
    )


def _sources_of_identities(nodes: Sequence[OnnxNode]) -> dict[str, str]:
    source: dict[str, str] = {}
    for node in nodes:
        if node.op == "Identity":
            source[node.output] = source.get(node.inputs[0], node.inputs[0])
    return source


def _parse_node(data: memoryview) -> tuple[OnnxNode, Array | None]:
    """Return a node, and its value if it is a constant."""
    inputs, outputs, op = [], [], ""
    constant: Array | None = None
    for number, value in _fields(data):
        if number == 1:
            inputs.append(_text(value))
        elif number == 2:
            outputs.append(_text(value))
        elif number == 4:
            op = _text(value)
        elif number == 5:
            constant = _parse_attribute(_message(value)) if constant is None else constant
    return OnnxNode(op, tuple(inputs), outputs[0]), constant if op == "Constant" else None


def _parse_attribute(data: memoryview) -> Array | None:
    """Return the value of an attribute if it is a number, a tensor or a list of numbers."""
    value: Array | None = None
    floats: list[memoryview] = []
    integers: list[int] = []
    for number, content in _fields(data):
        if number == 2:
            value = np.frombuffer(_message(content), "<f4")[0]
        elif number == 3:
            value = np.array(_integers(content)[0])
        elif number == 5:
            value = _parse_tensor(_message(content))[1]
        elif number == 7:
            floats.append(_message(content))
        elif number == 8:
            integers += _integers(content)
    if floats:
        value = np.frombuffer(b"".join(floats), "<f4")
    return np.array(integers) if integers else value


def _parse_tensor(data: memoryview) -> tuple[str, Array]:
    shape: list[int] = []
    dtype, name = 1, ""
    raw: memoryview | None = None
    integers: list[int] = []
    floats: list[memoryview] = []
    for number, value in _fields(data):
        if number == 1:
            shape += _integers(value)
        elif number == 2:
            dtype = _integers(value)[0]
        elif number == 4:
            floats.append(_message(value))
        elif number in (5, 7):
            integers += _integers(value)
        elif number == 8:
            name = _text(value)
        elif number == 9:
            raw = _message(value)
        elif number == 13:
            raise ValueError("its tensors are in another file, which is not read")
        if max(len(integers), len(floats)) > _NOT_RAW:
            raise ValueError(f"a tensor lists more than {_NOT_RAW} numbers one by one")
    if raw is not None:
        array = np.frombuffer(raw, _DTYPES[dtype])
    elif floats:
        array = np.frombuffer(b"".join(floats), "<f4")
    else:
        array = np.array(integers, _DTYPES[dtype])
    return name, array.reshape(shape)


def _text(value: FieldValue) -> str:
    return bytes(_message(value)).decode()


def _message(value: FieldValue) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where a message belongs")
    return value


def _fields(data: memoryview) -> Iterator[tuple[int, FieldValue]]:
    """Yield the field number and the value of each field of a protocol-buffer message."""
    position, size = 0, len(data)
    while position < size:
        key, position = _varint(data, position)
        wire_type = key & 7
        if key < 8:
            raise ValueError("a field without a number")
        if wire_type == 0:
            number, position = _varint(data, position)
            yield key >> 3, number
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if position + length > size:
            raise ValueError("it ends too early")
        yield key >> 3, data[position : position + length]
        position += length


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
    """Return signed integers from one integer or a packed list."""
    if isinstance(value, int):
        return [value - (1 << 64) if value >> 63 else value]
    numbers, position = [], 0
    while position < len(value):
        number, position = _varint(value, position)
        numbers.append(number - (1 << 64) if number >> 63 else number)
    return numbers
