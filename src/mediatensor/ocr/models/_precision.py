"""Half precision: what is decided by a threshold or a maximum, or reported as a probability, is computed in float32."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["at_least_float32"]


def at_least_float32(values: Tensor) -> Tensor:
    """bfloat16 and float16 as float32; any other type as it is."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
