"""Networks of ONNX files, run by PyTorch's operations: for files that no module of this package was written for.

::

    graph of the file        nodes and tensors                                          onnx
         |
         v
    layers ................. a convolution takes in the scale and the bias behind it; a product with a matrix
         |                   and the bias behind it become a linear layer
         v
    trial .................. the network runs on the sizes of its input alone, without memory, and must be modest
         |
         v
    network ................ a module like any other: it moves, converts, trains, pickles

Operators are those of the networks of PP-OCR; any other is refused by its name. Files may come from anywhere: nothing
in them is code, and what they may ask of the machine is limited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ....errors import WeightsError
from .fused import convolve
from .onnx import Array, OnnxGraph, OnnxNode

__all__ = ["OnnxNetwork"]

MAX_NODES = 20_000
MAX_VALUES = 2**14
"""The most numbers that are held at once on the way through the network, for each column of a picture. The largest
recogniser known holds a third of that."""
MAX_WORK = 2**28
"""The most multiplications for each column of a picture; the largest recogniser known takes a tenth."""
MAX_LIST = 4096
"""The most entries of a list of integers, such as a shape."""
MAX_INTEGER = 2**48
"""The greatest integer in such a list: what is computed from shapes stays exact, and small."""

Value: TypeAlias = "Tensor | float | int | tuple[int, ...]"
"""What goes from step to step. Integers are shapes and places: they stay on the host, as numbers of Python."""
Attributes: TypeAlias = Mapping[str, Any]


class Step(NamedTuple):
    """One operation: its name, the names of its inputs and of its result, and its attributes.

    ``layer`` is the place of its layer, -1 without one; ``last_use`` names what nobody needs afterwards.
    """

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]
    layer: int = -1
    last_use: tuple[str, ...] = ()


class OnnxNetwork(nn.Module):
    """The network of an ONNX file with one input and one output.

    Args:
        graph: The content of the file.
        file: Its path, for errors.

    Raises:
        WeightsError: The graph has operators that are not known here, or is damaged.
    """

    def __init__(self, graph: OnnxGraph, file: Path) -> None:
        super().__init__()
        self.file = file
        self.tried: set[tuple[int, ...]] = set()
        if len(graph.nodes) > MAX_NODES:
            raise self._refused(f"it has {len(graph.nodes)} operations, {MAX_NODES} are accepted")
        unknown = sorted({node.op for node in graph.nodes} - set(_OPERATIONS))
        if unknown:
            raise self._refused(
                f"its operators {', '.join(unknown)} are not known here. Recognisers of lines of PP-OCRv3 to v6 are "
                f"accepted, whose operators are {', '.join(sorted(_OPERATIONS))}"
            )
        if len(graph.inputs) != 1 or len(graph.outputs) != 1:
            raise self._refused(f"it has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, not one of each")
        self.input, self.output = graph.inputs[0], graph.outputs[0]
        self.layers, self.tensors = nn.ModuleList(), nn.ParameterList()
        self.constants: dict[str, Value] = {}
        self.tensor_names: list[str] = []
        try:
            self.steps = _with_last_uses(self._built(graph), self.output)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise self._refused(f"its layers do not fit together ({error})") from error

    def forward(self, x: Tensor, account: Callable[[Step, Sequence[Value], Value], None] | None = None) -> Tensor:
        """The output for a picture.

        Args:
            x: (N, C, H, W), of a size that the network was made for.
            account: Called after each step, with what goes into it and what comes out.
        """
        size = tuple(x.shape[1:])
        if account is None and not torch.compiler.is_compiling() and size not in self.tried:
            # Shapes that a file computes of the width may be far greater at one width than at all others.
            self.try_on(2, *size)
            self.tried.add(size)
        values: dict[str, Value] = dict(self.constants)
        values.update(zip(self.tensor_names, self.tensors, strict=True))
        values[self.input] = x
        for step in self.steps:
            inputs: list[Any] = [values[name] if name else None for name in step.inputs]
            result = (
                _OPERATIONS[step.op](step.attributes, *inputs) if step.layer < 0 else self._layer_of(step, inputs[0])
            )
            values[step.output] = result if isinstance(result, Tensor) else _checked(result)
            if account is not None:
                account(step, inputs, result)
            for name in step.last_use:
                del values[name]
        out = values[self.output]
        if not isinstance(out, Tensor):
            raise TypeError("the output is no tensor")
        return out

    def try_on(self, *shape: int) -> tuple[int, ...]:
        """The size of the output for pictures of a size, found without memory and arithmetic.

        Args:
            *shape: The size of the input, (N, C, H, W).

        Raises:
            WeightsError: The network does not take it, or would need too much memory or time for it.
        """
        left, held, place = MAX_WORK * shape[0] * shape[-1], {}, "its input"

        def account(step: Step, inputs: Sequence[Value], result: Value) -> None:
            nonlocal left, place
            place = f"{step.op} {step.output!r}"
            if isinstance(result, Tensor):
                held[step.output] = result.numel()
                left -= result.numel() * self._work_of_a_number(step, inputs)
                if result.ndim > 8 or sum(held.values()) > MAX_VALUES * shape[0] * shape[-1] or left < 0:
                    raise ValueError(f"a result of size {tuple(result.shape)} takes too much memory or time")
            for name in step.last_use:
                held.pop(name, None)

        sizes = {name: tensor.detach().to("meta") for name, tensor in self.state_dict().items()}
        picture = torch.empty(shape, device="meta", dtype=torch.float32)
        try:
            with torch.no_grad():
                return tuple(functional_call(self, sizes, (picture, account)).shape)
        except Exception as error:  # Operations on sizes that do not fit raise nearly anything.
            reason = str(error).partition("\n")[0]
            raise self._refused(f"it does not take pictures of size {shape}: after {place}, {reason}") from error

    def take_last_linear(self) -> nn.Linear:
        """Remove the linear layer at the end, and the softmax behind it; the output is then what goes into it.

        Raises:
            WeightsError: The network does not end in these.
        """
        steps = list(self.steps)
        if steps and steps[-1].op == "Softmax" and steps[-1].output == self.output:
            self.output = steps.pop().inputs[0]
        if not steps or steps[-1].op != "Linear" or steps[-1].output != self.output:
            raise self._refused("it does not end in a linear layer of classes, as recognisers with CTC do")
        last = steps.pop()
        layer = self.layers[last.layer]
        assert isinstance(layer, nn.Linear)
        self.layers = nn.ModuleList(list(self.layers)[: last.layer])
        self.output = last.inputs[0]
        self.steps = _with_last_uses(steps, self.output)
        return layer

    def _refused(self, reason: str) -> WeightsError:
        return WeightsError(f"{self.file} cannot be used as a network: {reason}.")

    def _layer_of(self, step: Step, x: Tensor) -> Tensor:
        layer: Any = self.layers[step.layer]
        if step.op == "Linear":
            y: Tensor = layer(x)
            return y
        pads = step.attributes["pads"]
        return convolve(layer, x if pads is None else _padded(x, pads, layer, 0.0))

    def _work_of_a_number(self, step: Step, inputs: Sequence[Value]) -> int:
        """About how many multiplications each number of a result takes."""
        if step.layer >= 0:
            weight: Any = self.layers[step.layer].weight
            return int(weight.numel() // len(weight))
        if step.op == "MatMul" and isinstance(inputs[0], Tensor):
            return int(inputs[0].shape[-1])
        return math.prod(step.attributes.get("kernel_shape", ()))

    def _built(self, graph: OnnxGraph) -> list[Step]:
        """The steps, with convolutions and linear layers as modules, and constants where the steps find them."""
        graph = _without_constant_reshapes(graph)
        uses = Counter(name for node in graph.nodes for name in node.inputs)
        uses[self.output] += 1
        known = {self.input, "", *graph.tensors}
        steps: list[Step] = []
        merged: dict[str, str] = {}
        maker: dict[str, int] = {}
        for node in graph.nodes:
            inputs = tuple(merged.get(name, name) for name in node.inputs)
            missing = [name for name in inputs if name not in known]
            if missing:
                raise ValueError(f"{node.op} {node.output!r} uses {missing[0]!r}, which comes later or never")
            node = node._replace(inputs=inputs)
            known.add(node.output)
            before = maker.get(self._varying(node, graph))
            if before is not None and uses[steps[before].output] == 1 and self._merged(steps[before], node, graph):
                # The result keeps the name of the layer that took the node in.
                merged[node.output] = steps[before].output
                uses[steps[before].output] = uses[node.output]
                continue
            step = self._step(node, graph)
            if step.layer >= 0:
                maker[step.output] = len(steps)
            steps.append(step)
        self.output = merged.get(self.output, self.output)
        self._keep_constants(graph, steps)
        return steps

    def _varying(self, node: OnnxNode, graph: OnnxGraph) -> str:
        """The one input of a node that is no constant, if there is one."""
        names = [name for name in node.inputs if name and name not in graph.tensors]
        return names[0] if len(names) == 1 else ""

    def _step(self, node: OnnxNode, graph: OnnxGraph) -> Step:
        attributes = dict(node.attributes)
        weight = graph.tensors.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.op == "Conv":
            if weight is None or any(name not in graph.tensors for name in node.inputs[1:] if name):
                raise ValueError(f"the weights of {node.op} {node.output!r} are no constants")
            bias = graph.tensors[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else None
            layer, pads = _convolution(attributes, _floats(weight), None if bias is None else _floats(bias))
            self.layers.append(layer)
            return Step(node.op, node.inputs[:1], node.output, {"pads": pads}, len(self.layers) - 1)
        if node.op == "MatMul" and weight is not None and weight.ndim == 2:
            self.layers.append(_linear(_floats(weight).T.contiguous()))
            return Step("Linear", node.inputs[:1], node.output, {}, len(self.layers) - 1)
        return Step(node.op, node.inputs, node.output, attributes)

    def _merged(self, step: Step, node: OnnxNode, graph: OnnxGraph) -> bool:
        """Whether a layer could take in the node behind it: a scale or a bias of its channels."""
        layer: Any = self.layers[step.layer]
        is_linear = step.op == "Linear"
        channels = layer.out_features if is_linear else layer.out_channels
        if node.op == "BatchNormalization" and not is_linear and len(node.inputs) == 5:
            weight, bias, mean, variance = (_floats(graph.tensors[name]) for name in node.inputs[1:])
            if any(tensor.shape != (channels,) for tensor in (weight, bias, mean, variance)):
                raise ValueError(f"{node.op} {node.output!r} has other channels than its input")
            scale = weight / (variance + _epsilon(dict(node.attributes))).sqrt()
            _scale(layer, scale)
            _shift(layer, bias - mean * scale)
            return True
        if node.op not in ("Add", "Mul"):
            return False
        (constant,) = (graph.tensors[name] for name in node.inputs if name in graph.tensors)
        shape = constant.shape
        per_channel = shape == (channels,) if is_linear else shape in ((channels, 1, 1), (1, channels, 1, 1))
        if not per_channel and shape not in ((), (1,)):
            return False
        if node.op == "Add":
            _shift(layer, _floats(constant).reshape(-1).expand(channels))
        else:
            _scale(layer, _floats(constant).reshape(-1).expand(channels))
        return True

    def _keep_constants(self, graph: OnnxGraph, steps: Sequence[Step]) -> None:
        arithmetic = ("Add", "Sub", "Mul", "Div", "Pow", "Clip")
        wants_tensor = {name for step in steps if step.op not in arithmetic for name in step.inputs}
        for name in sorted({name for step in steps for name in step.inputs} & set(graph.tensors)):
            array = graph.tensors[name]
            if array.dtype.kind in "iub":
                if array.ndim > 1:
                    raise ValueError(f"{name!r} is a table of integers, of size {array.shape}")
                # "To the end" is written as the greatest integer there is.
                numbers = [
                    min(max(int(number), 1 - MAX_INTEGER), MAX_INTEGER - 1) for number in array.flat[: MAX_LIST + 1]
                ]
                self.constants[name] = _checked(tuple(numbers) if array.ndim else numbers[0])
            elif array.shape in ((), (1,)) and name not in wants_tensor:
                self.constants[name] = float(_floats(array).reshape(()))
            else:
                self.tensor_names.append(name)
                self.tensors.append(nn.Parameter(_floats(array)))


def _with_last_uses(steps: Sequence[Step], output: str) -> list[Step]:
    """The steps, each with the results that nobody needs after it."""
    made = {step.output for step in steps}
    ended = {output}
    result = []
    for step in reversed(steps):
        last = tuple(dict.fromkeys(name for name in (*step.inputs, step.output) if name in made - ended))
        ended.update(last)
        result.append(step._replace(last_use=last))
    return result[::-1]


def _without_constant_reshapes(graph: OnnxGraph) -> OnnxGraph:
    """Exporters write a bias as a reshaped constant: here it is a constant of that size."""
    tensors = dict(graph.tensors)
    nodes = []
    for node in graph.nodes:
        if node.op == "Reshape" and len(node.inputs) == 2 and all(name in tensors for name in node.inputs):
            tensors[node.output] = tensors[node.inputs[0]].reshape([int(size) for size in tensors[node.inputs[1]]])
        else:
            nodes.append(node)
    return OnnxGraph(tensors, tuple(nodes), graph.metadata, graph.inputs, graph.outputs)


def _floats(array: Array) -> Tensor:
    """A constant as float32; numbers too small for a normal float, which are slow, are 0."""
    if array.dtype.kind != "f":
        raise TypeError(f"a tensor of type {array.dtype} where floats belong")
    values = np.array(array, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError("a weight is not finite")
    values[np.abs(values) < np.finfo(np.float32).tiny] = 0
    return torch.from_numpy(values)


def _linear(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = nn.Parameter(weight)
    return layer


def _convolution(attributes: Attributes, weight: Tensor, bias: Tensor | None) -> tuple[nn.Conv2d, Any]:
    """The layer, and by how much its input is padded first where it does not do it itself."""
    if weight.ndim != 4:
        raise ValueError(f"a convolution with weights of size {tuple(weight.shape)}: pictures have two dimensions")
    groups, padding = int(attributes.get("group", 1)), attributes.get("auto_pad", "NOTSET")
    strides, dilations = (tuple(attributes.get(name, (1, 1))) for name in ("strides", "dilations"))
    pads = tuple(attributes.get("pads", (0, 0, 0, 0)))
    in_range = 0 < groups <= MAX_LIST and all(0 < number <= 64 for number in (*strides, *dilations))
    in_range &= (len(strides), len(dilations), len(pads)) == (2, 2, 4) and all(0 <= pad <= 1024 for pad in pads)
    if not in_range or padding not in ("NOTSET", "VALID", "SAME_UPPER"):
        raise ValueError(f"a convolution with {dict(attributes)}")
    outside: Any = None
    if padding == "SAME_UPPER" or pads[:2] != pads[2:]:
        outside, pads = (padding if padding == "SAME_UPPER" else pads), (0, 0, 0, 0)
    layer = nn.Conv2d(
        weight.shape[1] * groups,
        len(weight),
        (weight.shape[2], weight.shape[3]),
        strides,
        pads[:2],
        dilations,
        groups,
        bias=False,
        device="meta",
    )
    layer.weight = nn.Parameter(weight)
    layer.bias = None if bias is None else nn.Parameter(bias)
    return layer, outside


def _scale(layer: Any, scale: Tensor) -> None:
    with torch.no_grad():
        layer.weight.mul_(scale.view(-1, *[1] * (layer.weight.ndim - 1)))
        if layer.bias is not None:
            layer.bias.mul_(scale)


def _shift(layer: Any, bias: Tensor) -> None:
    with torch.no_grad():
        layer.bias = nn.Parameter(bias.clone() if layer.bias is None else layer.bias + bias)


def _checked(value: Any) -> Any:
    """A number or a list of integers that is not too large to go on with."""
    if isinstance(value, float):
        return value
    numbers = value if isinstance(value, tuple) else (value,)
    if len(numbers) > MAX_LIST or any(not -MAX_INTEGER < number < MAX_INTEGER for number in numbers):
        raise ValueError("a list of integers is too long, or its numbers are too large")
    return value


def _same(length: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """The padding at which an output is as long as the input, divided by the stride; the rest goes behind."""
    total = max((-(-length // stride) - 1) * stride + (kernel - 1) * dilation + 1 - length, 0)
    return total // 2, total - total // 2


def _padded(x: Tensor, pads: Any, layer: Any, value: float) -> Tensor:
    if pads == "SAME_UPPER":
        sizes = zip(x.shape[2:], layer.kernel_size, layer.stride, layer.dilation, strict=True)
        (top, bottom), (left, right) = (_same(*size) for size in sizes)
    else:
        top, left, bottom, right = pads
    return F.pad(x, (left, right, top, bottom), value=value)


class _Window(NamedTuple):
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)


def _pool(a: Attributes, x: Any, value: float) -> tuple[Tensor, _Window]:
    """What a pooling sees: the picture with its margins, and its window."""
    window = _Window(tuple(a["kernel_shape"]), tuple(a.get("strides", (1, 1))))
    pads = a["auto_pad"] if a.get("auto_pad", "NOTSET") == "SAME_UPPER" else tuple(a.get("pads", (0, 0, 0, 0)))
    sizes = (*window.kernel_size, *window.stride)
    if len(sizes) != 4 or not all(0 < size <= 256 for size in sizes) or len(pads) not in (4, len("SAME_UPPER")):
        raise ValueError(f"pooling with {dict(a)}")
    if a.get("ceil_mode", 0) or any(size != 1 for size in a.get("dilations", ())) or x.ndim != 4:
        raise ValueError(f"pooling with {dict(a)}")
    return (_padded(x, pads, window, value) if any(pads) else x), window


def _max_pool(a: Attributes, x: Any) -> Tensor:
    seen, window = _pool(a, x, -torch.inf)
    return F.max_pool2d(seen, window.kernel_size, window.stride)


def _average_pool(a: Attributes, x: Any) -> Tensor:
    seen, window = _pool(a, x, 0.0)
    if seen is not x and not a.get("count_include_pad", 0):
        raise ValueError("a mean over a picture and its margins that leaves the margins out")
    return F.avg_pool2d(seen, window.kernel_size, window.stride)


def _epsilon(a: Attributes) -> float:
    return float(a.get("epsilon", 1e-5))


def _batch_norm(a: Attributes, x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Tensor:
    scale = weight / (variance + _epsilon(a)).sqrt()
    shape = (1, -1, *[1] * (x.ndim - 2))
    y: Tensor = x * scale.view(shape) + (bias - mean * scale).view(shape)
    return y


def _clip(a: Attributes, x: Any, low: Any = None, high: Any = None) -> Any:
    low, high = a.get("min") if low is None else low, a.get("max") if high is None else high
    return x.clamp(low, high)


def _reduce_mean(a: Attributes, x: Any, axes: Any = None) -> Any:
    axes = a.get("axes") if axes is None else axes
    return x.mean(tuple(range(x.ndim)) if axes is None else axes, keepdim=bool(a.get("keepdims", 1)))


def _pairwise(of: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """An operation on tensors and numbers, and on lists of integers, entry by entry."""

    def operation(a: Attributes, x: Any, y: Any) -> Any:
        if isinstance(x, tuple) or isinstance(y, tuple):
            length = max(len(value) for value in (x, y) if isinstance(value, tuple))
            rows = [value if isinstance(value, tuple) and len(value) > 1 else _one(value) * length for value in (x, y)]
            return tuple(of(left, right) for left, right in zip(*rows, strict=True))
        return of(x, y)

    return operation


def _one(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _quotient(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return int(x / y) if abs(x) < MAX_INTEGER else 0  # integers are divided towards 0
    return x / y


def _power(x: Any, y: Any) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError("the power of a number that is no tensor")
    return x * x if y == 2 else x**y


def _cast(a: Attributes, x: Any) -> Any:
    if a["to"] in (6, 7) and not isinstance(x, Tensor):
        return tuple(int(value) for value in x) if isinstance(x, tuple) else int(x)
    if a["to"] == 1 and isinstance(x, Tensor):
        return x
    raise ValueError(f"a cast to type {a['to']}")


def _concat(a: Attributes, *values: Any) -> Any:
    if all(isinstance(value, Tensor) for value in values):
        return torch.cat(values, a["axis"])
    return tuple(number for value in values for number in _one(value))


def _gather(a: Attributes, x: Any, places: Any) -> Any:
    axis = a.get("axis", 0)
    if isinstance(x, Tensor):
        if isinstance(places, int):
            return x.select(axis, places)
        return torch.cat([x.narrow(axis, place, 1) for place in places], axis)
    return tuple(x[place] for place in places) if isinstance(places, tuple) else x[places]


def _reshape(a: Attributes, x: Any, shape: Any) -> Any:
    if not isinstance(x, Tensor):
        return x[0] if shape == () and isinstance(x, tuple) else _one(x)
    return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(shape)])


def _slice(a: Attributes, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts = a["starts"] if starts is None else starts
    ends = a["ends"] if ends is None else ends
    axes = a.get("axes", tuple(range(len(starts)))) if axes is None else axes
    if steps is not None and any(step != 1 for step in steps):
        raise ValueError(f"a slice with steps {steps}")
    if isinstance(x, tuple):
        return x[starts[0] : ends[0]]
    for axis, start, end in zip(axes, starts, ends, strict=True):
        x = x[(*[slice(None)] * (axis % x.ndim), slice(start, end))]
    return x


def _squeeze(a: Attributes, x: Any, axes: Any = None) -> Any:
    axes = a.get("axes") if axes is None else axes
    if not isinstance(x, Tensor):
        (number,) = _one(x)
        return number
    if axes is None:
        raise ValueError("Squeeze without axes")
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"Squeeze of axes {axes} of size {tuple(x.shape)}")
    return x.squeeze(tuple(axes))


def _softmax(a: Attributes, x: Any) -> Tensor:
    axis = a.get("axis", -1)
    if axis not in (-1, x.ndim - 1):
        raise ValueError(f"Softmax along axis {axis} of {x.ndim}")
    y: Tensor = x.softmax(-1)
    return y


def _unsqueeze(a: Attributes, x: Any, axes: Any = None) -> Any:
    axes = a.get("axes") if axes is None else axes
    if not isinstance(x, Tensor):
        return _one(x)
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": _pairwise(lambda x, y: x + y),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": lambda a, x, w, b=None: F.conv2d(x, w, b),
    "Div": _pairwise(_quotient),
    "Erf": lambda a, x: x.erf(),
    "Gather": _gather,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda a, x: (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": lambda a, x: F.hardswish(x),
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": _max_pool,
    "Mul": _pairwise(lambda x, y: x * y),
    "Pow": lambda a, x, y: _power(x, y),
    "ReduceMean": _reduce_mean,
    "Relu": lambda a, x: x.relu(),
    "Reshape": _reshape,
    "Shape": lambda a, x: tuple(x.shape),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "Slice": _slice,
    "Softmax": _softmax,
    "Sqrt": lambda a, x: x.sqrt(),
    "Squeeze": _squeeze,
    "Sub": _pairwise(lambda x, y: x - y),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Unsqueeze": _unsqueeze,
}
"""By the operator's name: a function of its attributes and inputs."""
