"""Random numbers that depend on a row and on nothing else."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from .._checks import whole_number
from .._locks import ForkSafeLock

__all__ = ["checked_epoch", "derived_seed", "seeded"]

# Workers hear of epochs by numbers of 64 bits.
_MAX_EPOCH = 1 << 62

# The generators belong to the process: threads that read rows take turns.
_lock = ForkSafeLock()


def derived_seed(*parts: int | str) -> int:
    """A number of 63 bits that depends on all parts; close parts give unrelated numbers.

    >>> derived_seed(0, 1) == derived_seed(0, 1), derived_seed(0, 1) == derived_seed(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def checked_epoch(epoch: int) -> int:
    """The number of an epoch, if it is one.

    >>> checked_epoch(3)
    3
    """
    return whole_number("epoch", epoch, at_least=0, at_most=_MAX_EPOCH)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of torch (CPU), NumPy and Python for a ``with`` block; they go on afterwards as before."""
    with _lock:
        torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        random.seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(torch_state)
            np.random.set_state(numpy_state)
            random.setstate(python_state)
