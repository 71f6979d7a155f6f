"""Memory that processes share, and worker processes, where there is no ``/dev/shm``, or no room in it.

Containers come without it, or with 64 MiB of it. What is needed of it can be had in other ways, if more slowly.
"""

from __future__ import annotations

import mmap
import multiprocessing
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["new_shared_storage", "share", "shared_numbers", "why_no_workers"]

_INT64_BYTES = 8


def shared_numbers(shape: Sequence[int], value: int) -> Tensor:
    """A tensor, int64, that forked workers share with this process.

    >>> shared_numbers((2,), -1).tolist()
    [-1, -1]
    """
    numbers = torch.full(tuple(shape), value, dtype=torch.int64, device="cpu")
    try:
        return numbers.share_memory_()  # type: ignore[no-untyped-call, no-any-return]
    except (RuntimeError, OSError):
        # Memory of no file: only workers that are forked get it, and where it is needed there are hardly others.
        memory = mmap.mmap(-1, max(1, numbers.numel()) * _INT64_BYTES)
        return torch.frombuffer(memory, dtype=torch.int64)[: numbers.numel()].view(numbers.shape).copy_(numbers)


def new_shared_storage(num_bytes: int) -> torch.UntypedStorage | None:
    """Shared memory for what leaves a worker; ``None``, and a warning, if there is none to be had."""
    try:
        return torch.UntypedStorage._new_shared(num_bytes)  # type: ignore[no-untyped-call, no-any-return]
    except (RuntimeError, OSError):
        _warn_of_slowness()
        return None


def share(tensor: Tensor) -> bool:
    """Move a tensor that is to leave a worker into shared memory, if there is room; whether it is there."""
    if tensor.is_shared():  # type: ignore[no-untyped-call]
        return True
    try:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
    except (RuntimeError, OSError):
        _warn_of_slowness()
        return False
    return True


def why_no_workers(context: Any) -> str | None:
    """Why worker processes cannot be started; ``None`` if they can.

    Args:
        context: Of ``multiprocessing``; ``None`` is the usual one.
    """
    try:
        # Of what a process needs to talk to another, this alone lies in a file.
        (context or multiprocessing).Lock()
    except (OSError, ImportError) as error:
        return str(error)
    return None


def _warn_of_slowness() -> None:
    # Python shows the same words of one line of code once in each process.
    warnings.warn(
        "Shared memory is full or missing, so batches are copied through a pipe, which is slower. Give /dev/shm more "
        "room: with Docker, --shm-size=2g or --ipc=host.",
        stacklevel=1,
    )
