"""Random numbers of rows in torch's own ``DataLoader``: drawn from torch's generator, as torch users expect.

torch seeds the generator of each worker when an epoch begins, or has persistent workers go on with theirs. Without
workers, a loader reads in the process of the training, and transforms draw from the global generator there.
"""

from __future__ import annotations

import sys
from types import FrameType

import torch
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .recipe import derived_seed, generators_lock

__all__ = ["drawn_seeds", "epoch_seed", "is_asked_by_loader"]

# The methods of torch's iterators, and torchdata's, in which datasets are read.
_READING = frozenset(("_next_data", "__init__"))


def is_asked_by_loader() -> bool:
    """Whether this is called for a ``DataLoader``: in one of its workers, or within its iterator in this process.

    >>> is_asked_by_loader()
    False
    """
    if get_worker_info() is not None:
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # torch does not tell a dataset in any other way that a loader without workers reads it.
        if frame.f_code.co_name in _READING and isinstance(frame.f_locals.get("self"), _BaseDataLoaderIter):
            return True
        frame = frame.f_back
    return False


def drawn_seeds(count: int) -> list[int]:
    """Draw new seeds from torch's global generator."""
    with generators_lock:
        return torch.randint(torch.iinfo(torch.int64).max, (count,), dtype=torch.int64, device="cpu").tolist()


def epoch_seed(num_iterations: int) -> int:
    """A seed that all workers of a loader share in an epoch.

    Args:
        num_iterations: How many iterations this process began before. The seed of persistent workers stays the same.
    """
    worker = get_worker_info()
    if worker is None:
        return drawn_seeds(1)[0]
    return derived_seed(worker.seed - worker.id, num_iterations)
