"""Check whether torch's devices are available, and copy tensors to them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ...errors import DeviceError, InvalidArgumentError

torch.get_default_device()  # the first call imports a module, which would slow down the first decoder


def checked_device(device: Any) -> torch.device:
    """Return ``device`` as a `torch.device`, after checking that this process can create tensors on it.

    ``None`` gives torch's default device. Raises `InvalidArgumentError` if torch does not have the device, or if it is
    ``"meta"``. Raises `DeviceError` for a CUDA device if this process was forked from a process that uses CUDA.
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
    elif wanted.type != "cpu":
        try:
            torch.empty(0, device=wanted)
        except (RuntimeError, AssertionError, ImportError) as error:
            raise _no_such_device(wanted, error) from None
    return wanted


def resolve_device(device: object) -> torch.device:
    """Check ``device`` like `checked_device`, initialise it, and return it with its index (``cuda:0`` for ``cuda``)."""
    resolved = checked_device(device)
    # Creating an empty tensor initialises the device. The tensor's device has the index.
    return resolved if resolved.type == "cpu" else torch.empty(0, device=resolved).device


def check_has_values(name: str, data: Tensor) -> None:
    """Raise `InvalidArgumentError` if a tensor is on the ``"meta"`` device, where tensors have no values."""
    if data.is_meta:
        raise InvalidArgumentError(
            f"The {name} are on the device 'meta', where tensors have no values. Give a tensor with values, on the "
            "CPU or a GPU."
        )


def check_process(device: torch.device) -> None:
    """Raise `DeviceError` for a CUDA device if this process was forked from a process that uses CUDA."""
    if device.type == "cuda" and has_lost_cuda():
        raise DeviceError(
            f"The device {str(device)!r} cannot be used in this process, which was forked from one that uses CUDA. "
            "In a DataLoader, take num_workers=0 or multiprocessing_context='spawn'; or decode on the CPU and move "
            "batches with mediatensor.datasets.ToDevice."
        )


def _check_is_there(device: torch.device) -> None:
    # These two calls do not initialise CUDA, so workers that are forked later can still do so.
    if not torch.cuda.is_available():
        raise _no_such_device(device, "torch finds no CUDA here")
    count = torch.cuda.device_count()
    if device.index is not None and device.index >= count:
        raise _no_such_device(device, f"torch finds {count} CUDA device{'s' * (count != 1)}, numbered from 0")


def _no_such_device(device: object, reason: object) -> InvalidArgumentError:
    # For an unknown name, torch lists all kinds of devices, also those that this machine does not have.
    first_line = "" if str(reason).startswith("Expected one of") else str(reason).partition("\n")[0].rstrip(".")
    devices = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return InvalidArgumentError(
        f"Unsupported device: {device}. It must be one that torch has on this machine, such as {', '.join(devices)}"
        f"{f' ({first_line})' if first_line else ''}."
    )


def has_lost_cuda() -> bool:
    """Return whether this process cannot use CUDA because it was forked from a process that uses CUDA."""
    return bool(torch.cuda._is_in_bad_fork())


def pinned(tensor: Tensor) -> Tensor:
    """Copy a CPU tensor to page-locked memory. Return tensors on other devices unchanged."""
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor


def pinned_for(device: torch.device, tensor: Tensor) -> Tensor:
    """Prepare a tensor for asynchronous copies to ``device``: copy it to page-locked memory if ``device`` is CUDA."""
    return pinned(tensor) if device.type == "cuda" else tensor


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, on this device's current stream, without waiting until the copy is complete.

    You need not keep ``tensor`` after the call. For CUDA and XPU, pageable memory has been read when the call returns,
    and torch does not free page-locked memory before it has been read. For MPS, the copy could read freed memory
    (https://github.com/pytorch/pytorch/issues/189690), so this function waits for the copy.
    """
    return tensor.to(device, non_blocking=device.type not in ("cpu", "mps"))


def tensors_on_cpu() -> AbstractContextManager[object]:
    """Return a context manager that makes torch create new tensors on the CPU instead of its default device.

    Media are decoded and collated on the CPU, and random numbers come from the CPU generator. A GPU would generate
    different numbers, and forked workers cannot use a GPU.
    """
    # A device as a context slows down every function of torch, so it is used only if needed.
    return nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
