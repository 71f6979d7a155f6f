"""torch's devices: whether a device is available, and how tensors are copied to it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ...errors import DeviceError, InvalidArgumentError

__all__ = [
    "check_has_values",
    "check_process",
    "checked_device",
    "has_lost_cuda",
    "on_device",
    "pinned",
    "pinned_for",
    "resolve_device",
    "tensors_on_cpu",
]


def checked_device(device: Any) -> torch.device:
    """The device of an argument, if tensors can be put on it on this machine.

    Args:
        device: A `torch.device` or its name; ``None`` for torch's default device.

    Raises:
        InvalidArgumentError: if torch does not have the device here, or it is ``"meta"``.
        DeviceError: if it is a CUDA device, and this process was forked from one that uses CUDA.

    Example:
        >>> checked_device("cpu")
        device(type='cpu')
    """
    try:
        wanted = torch.get_default_device() if device is None else torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _no_such_device(device, error) from None
    if wanted.type == "meta":
        raise _no_such_device(wanted, "tensors on this one have no values")
    if wanted.type == "cuda":
        check_process(wanted)
        _check_is_there(wanted)
    else:
        try:
            torch.empty(0, device=wanted)
        except (RuntimeError, AssertionError, ImportError) as error:
            raise _no_such_device(wanted, error) from None
    return wanted


def resolve_device(device: object) -> torch.device:
    """The device of an argument, initialised and with its index.

    Raises:
        InvalidArgumentError: if torch has no such device here.
        DeviceError: if it is a CUDA device and this process was forked from one that used CUDA.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    resolved = checked_device(device)
    # An empty tensor initialises the device, and knows its index.
    return resolved if resolved.type == "cpu" else torch.empty(0, device=resolved).device


def check_has_values(name: str, data: Tensor) -> None:
    """Raise `InvalidArgumentError` if a tensor lies on the device ``"meta"``, where tensors have no values."""
    if data.is_meta:
        raise InvalidArgumentError(
            f"The {name} are on the device 'meta', where tensors have no values. Give a tensor with values, on the "
            "CPU or a GPU."
        )


def check_process(device: torch.device) -> None:
    """Raise `DeviceError` where a CUDA device cannot be used because the process was forked."""
    if device.type == "cuda" and has_lost_cuda():
        raise DeviceError(
            f"The device {str(device)!r} cannot be used in this process, which was forked from one that uses CUDA. "
            "In a DataLoader, take num_workers=0 or multiprocessing_context='spawn'; or decode on the CPU and move "
            "batches with mediatensor.datasets.ToDevice."
        )


def _check_is_there(device: torch.device) -> None:
    # Neither call initialises CUDA, so workers that are forked later can still do so.
    if not torch.cuda.is_available():
        raise _no_such_device(device, "torch finds no CUDA here")
    count = torch.cuda.device_count()
    if device.index is not None and device.index >= count:
        raise _no_such_device(device, f"torch finds {count} CUDA device{'s' * (count != 1)}, numbered from 0")


def _no_such_device(device: object, reason: object) -> InvalidArgumentError:
    first_line = str(reason).partition("\n")[0].rstrip(".")
    return InvalidArgumentError(
        f"Unsupported device: {device}. It must be one that torch has on this machine, such as 'cpu' ({first_line})."
    )


def has_lost_cuda() -> bool:
    """Whether this process was forked from one that uses CUDA, and therefore cannot use it."""
    return bool(torch.cuda._is_in_bad_fork())


def pinned(tensor: Tensor) -> Tensor:
    """The tensor in page-locked memory; one that is on a device stays as it is."""
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor


def pinned_for(device: torch.device, tensor: Tensor) -> Tensor:
    """The tensor in memory from which a copy to the device runs asynchronously: for CUDA, page-locked memory."""
    return pinned(tensor) if device.type == "cuda" else tensor


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device. The copy runs in the order of the current stream, and the program does not wait for it.

    The source may be dropped at once: CUDA and XPU have read pageable memory by the time the call returns, and torch
    keeps page-locked memory until it is read. On MPS the copy may read memory that was already freed
    (https://github.com/pytorch/pytorch/issues/189690), so the program waits for that copy.
    """
    return tensor.to(device, non_blocking=device.type not in ("cpu", "mps"))


def tensors_on_cpu() -> AbstractContextManager[object]:
    """A context in which new tensors are on the CPU, whatever ``torch.set_default_device`` says.

    Media are decoded and collated on the CPU, and their random numbers drawn there: a GPU would draw other numbers, and
    forked workers cannot use it.
    """
    # A device used as a context slows down every function of torch, so it is used only where needed.
    return nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
