"""Reading memory that is not torch's, in the order of CUDA's streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["reading_surface"]


@contextmanager
def reading_surface(device: torch.device, cuda: Any) -> Iterator[None]:
    """A block in which the current stream may read a picture that FFmpeg's CUDA decoder gave.

    ::

        default stream   ─ decode, copy to a picture ─┐            ┌─ the picture's memory is used again ─►
        current stream                                └─ convert ──┘

    FFmpeg works on the legacy default stream, which is torch's default, too. On another stream the work must wait for
    that, and since FFmpeg uses the memory of a picture that was dropped for the next one, it has to wait in turn.
    torch's allocator, and so ``record_stream``, knows nothing of such memory.

    Args:
        device: A CUDA device.
        cuda: ``torch.cuda``, or what stands in for it.
    """
    current, default = cuda.current_stream(device), cuda.default_stream(device)
    if current == default:
        yield
        return
    current.wait_stream(default)
    try:
        yield
    finally:
        default.wait_stream(current)
