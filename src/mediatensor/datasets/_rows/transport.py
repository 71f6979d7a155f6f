"""Move tensors from a worker to the training process: large tensors in shared memory, small ones through a pipe.

When a worker sends a tensor, torch puts it into its own block of shared memory. Each block takes a copy, a file
descriptor and a round trip. That is slow for a batch, which has one large tensor and about six tensors of a few bytes.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from ..._engine.common import buffers
from ..._engine.common.messages import warn_once
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch

_INT64_BYTES = 8


def shared_numbers(shape: Sequence[int], value: int) -> Tensor:
    """Return an int64 tensor filled with ``value``. This process and its workers share its memory."""
    numbers = torch.full(tuple(shape), value, dtype=torch.int64, device="cpu")
    try:
        return numbers.share_memory_()  # type: ignore[no-untyped-call, no-any-return]
    except (RuntimeError, OSError):
        # Only forked workers share anonymous memory. Systems without shared memory rarely have other workers.
        memory = mmap.mmap(-1, max(1, numbers.numel()) * _INT64_BYTES)
        return torch.frombuffer(memory, dtype=torch.int64)[: numbers.numel()].view(numbers.shape).copy_(numbers)


def _try_to_share(share: Callable[..., Any], *arguments: int) -> Any:
    """Call a function that uses shared memory for data that a worker sends. If it fails, warn and return ``None``."""
    try:
        return share(*arguments)
    except (RuntimeError, OSError):
        warn_once(
            "Shared memory is full or missing, so batches are copied through a pipe, which is slower. Enlarge "
            "/dev/shm: with Docker, use --shm-size=2g or --ipc=host."
        )
        return None


#: Up to this size, copying bytes through a pipe is faster than setting up shared memory.
MAX_INLINE_BYTES = 64 * 1024

_INLINE_DTYPES = frozenset({torch.uint8, torch.int64, torch.float32, torch.float64, torch.bool})


def join_tensors(tensors: Sequence[Tensor], shape: Sequence[int] | None = None, fill: float = 0) -> Tensor:
    """Stack tensors along a new first dimension. In a worker, a large result is allocated in shared memory.

    Each tensor is padded with ``fill`` to ``shape``, by default the shape of the first tensor. The dimensions keep
    their order in memory, so that copying is fast. For example, frames stay channels-last in memory.

    >>> import torch
    >>> join_tensors([torch.ones(1), torch.ones(2)], (3,)).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    shape = tensors[0].shape if shape is None else torch.Size(shape)
    together = _empty(len(tensors), shape, like=tensors[0])
    for number, tensor in enumerate(tensors):
        place = together[number]  # iterating over tensors gives views that autograd does not let change
        if tensor.shape != shape:
            place.fill_(fill)
        place[tuple(slice(size) for size in tensor.shape)].copy_(tensor)
    return together


def _empty(count: int, shape: torch.Size, like: Tensor) -> Tensor:
    """Return a new tensor (count, *shape). Its dimensions have the same order in memory as those in ``like``."""
    order = _memory_order(like)
    size = (count, *(shape[dimension] for dimension in order))
    num_bytes = math.prod(size) * like.element_size()
    is_large = num_bytes > MAX_INLINE_BYTES and like.device.type == "cpu"
    is_sent = is_large and get_worker_info() is not None
    storage = _try_to_share(torch.UntypedStorage._new_shared, num_bytes) if is_sent else None
    if storage is not None:
        together = torch.empty(0, dtype=like.dtype).set_(storage).view(size)
    elif is_large:
        together = torch.from_numpy(buffers.empty((num_bytes,), np.uint8)).view(like.dtype).view(size)
    else:
        together = torch.empty(size, dtype=like.dtype, device=like.device)
    return together.permute(0, *(1 + order.index(dimension) for dimension in range(like.ndim)))


def _memory_order(tensor: Tensor) -> list[int]:
    return sorted(range(tensor.ndim), key=tensor.stride().__getitem__, reverse=True)


class _Inline(NamedTuple):
    """A tensor to be sent through a pipe: its values as an array, and the order of its dimensions in memory."""

    array: NDArray[Any]
    order: list[int]


class _Parts(NamedTuple):
    of: type
    fields: dict[str, Any]


def pack(value: Any) -> Any:
    """Return ``value`` in a form that is faster to pickle if ``value`` has tensors. `unpack` restores the original."""
    if isinstance(value, Tensor):
        is_plain = type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad
        if is_plain and value.layout == torch.strided and value.dtype in _INLINE_DTYPES:
            is_small = value.numel() * value.element_size() <= MAX_INLINE_BYTES
            if is_small or (get_worker_info() is not None and _try_to_share(value.share_memory_) is None):
                order = _memory_order(value)
                return _Inline(value.permute(order).numpy(), order)
        return value
    if type(value) is list:
        return [pack(one) for one in value]
    if type(value) is dict:
        return {key: pack(one) for key, one in value.items()}
    if isinstance(value, FrameBatch | AudioSamples | AudioSamplesBatch):
        return _Parts(type(value), {spec.name: pack(getattr(value, spec.name)) for spec in dataclasses.fields(value)})
    return value


def unpack(value: Any) -> Any:
    if isinstance(value, _Inline):
        order = value.order
        return torch.from_numpy(value.array).permute([order.index(dimension) for dimension in range(len(order))])
    if isinstance(value, _Parts):
        return value.of(**{name: unpack(one) for name, one in value.fields.items()})
    if type(value) is list:
        return [unpack(one) for one in value]
    if type(value) is dict:
        return {key: unpack(one) for key, one in value.items()}
    return value
