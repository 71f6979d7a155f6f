"""Reading on the CPU, also where a program has torch make its tensors on another device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["tensors_on_cpu"]


def tensors_on_cpu() -> AbstractContextManager[object]:
    """For a ``with`` block in which tensors are made on the CPU, whatever ``torch.set_default_device`` says.

    Media are decoded and collated there, and random numbers for them drawn: on a GPU they would be others, and workers
    that were forked cannot use it.
    """
    # As a context a device slows down each of torch's functions: only where it is needed.
    return nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
