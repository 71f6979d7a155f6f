"""Copying batches to a device: at once, or in a stream of its own beside the computation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .._devices import pinned
from .._stages import stage

__all__ = ["CopyAhead", "CopyNow"]


class CopyNow:
    """Copies a batch when it is asked for.

    Args:
        device: Where to.
    """

    num_ahead = 0

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def begin(self, batch: Any) -> Any:
        """The batch on the device."""
        with stage("copy"):
            return _moved(batch, self._device, non_blocking=False)

    def complete(self, begun: Any) -> Any:
        """What `begin` gave."""
        return begun


class CopyAhead:
    """Copies batches in a CUDA stream of its own, while others compute.

    Whoever computes must wait for the copy: `complete` has the current stream do so, without halting the program. And
    the memory of a batch belongs to the stream in which it was allocated, the copying one: `complete` notes that the
    current stream uses it, or it might be given to another batch before the computation is done.

    Args:
        device: A CUDA device.
        cuda: ``torch.cuda``, or what stands in for it.
    """

    num_ahead = 1

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)

    def begin(self, batch: Any) -> tuple[Any, Any]:
        """Have the copy of a batch begin; for `complete`."""
        with stage("copy"), self._cuda.stream(self._stream):
            moved = _moved(batch, self._device, non_blocking=True)
            done = self._cuda.Event()
            done.record(self._stream)
        return moved, done

    def complete(self, begun: tuple[Any, Any]) -> Any:
        """The batch, for use in the current stream."""
        moved, done = begun
        current = self._cuda.current_stream(self._device)
        current.wait_event(done)
        for tensor in _tensors_in(moved):
            if tensor.device.type == self._device.type:
                tensor.record_stream(current)
        return moved


def _moved(value: Any, device: torch.device, *, non_blocking: bool) -> Any:
    """A batch with everything in it that can be moved on a device."""
    if hasattr(value, "to"):
        if non_blocking and hasattr(value, "pin_memory"):
            # Only from page-locked memory does a copy run beside the program; what is there already stays.
            value = pinned(value) if isinstance(value, Tensor) else value.pin_memory()
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, dict):
        return {key: _moved(one, device, non_blocking=non_blocking) for key, one in value.items()}
    if isinstance(value, list | tuple):
        moved = [_moved(one, device, non_blocking=non_blocking) for one in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    return value


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of a batch."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors_in(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for spec in dataclasses.fields(value):
            yield from _tensors_in(getattr(value, spec.name))
