"""Random numbers for each row of a dataset, and the position in a file where a sampler will start to read.

Samplers and transforms draw from the global generators of torch, NumPy and Python. All threads share these generators.
If threads that read rows used them directly, only one thread could decode at a time.

Therefore each row has its own generators, which `row_random` makes. Built-in samplers draw from them. Other code draws
from the global generators, so it is called in the context manager `global_random`. The context manager temporarily
copies the states of the row's generators to the global generators, and lets in only one thread at a time. In both
cases, a row gets the same numbers as if the global generators had been seeded for it.

The second half of this module is about where a sampler will start to read in a file. A batch reads its rows of one
file in the order of these positions (`first_position`). The decorators `planned_by` and `starts_reading_at` give a
sampler a function that computes its position. This function draws the same random numbers as the sampler, and the
decorators also apply `uses_row_random` to the sampler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from .._engine.common.locks import ForkSafeLock

F = TypeVar("F", bound=Callable[..., Any])

#: Held while the global generators are in the state of a row.
global_random_lock = ForkSafeLock()


class _RowRandom:
    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self._seed = seed
        # States of NumPy's and Python's generators. They are seeded on first use.
        self._states: tuple[Any, Any] | None = None

    def install(self) -> None:
        """Copy the states of the row's generators to the global generators."""
        torch.set_rng_state(self.generator.get_state())
        if self._states is None:
            np.random.seed(self._seed & 0xFFFFFFFF)
            random.seed(self._seed)
        else:
            np.random.set_state(self._states[0])
            random.setstate(self._states[1])

    def take_back(self) -> None:
        """Copy the states of the global generators back to the row's generators."""
        self.generator.set_state(torch.get_rng_state())
        self._states = np.random.get_state(), random.getstate()


_row: ContextVar[_RowRandom | None] = ContextVar("row_random", default=None)


@contextmanager
def row_random(seed: int) -> Iterator[None]:
    """Use new generators, seeded with ``seed``, for the dataset row that this thread reads in the ``with`` block."""
    token = _row.set(_RowRandom(seed))
    try:
        yield
    finally:
        _row.reset(token)


def sampling_generator() -> torch.Generator | None:
    """Return the generator from which samplers draw: the row's, or None for torch's global one if no row is read."""
    row = _row.get()
    return None if row is None else row.generator


@contextmanager
def global_random() -> Iterator[None]:
    """Give the global generators the states of the current row's generators during a ``with`` block.

    Afterwards, the global generators get their previous states back. If no row is being read, this has no effect.
    """
    row = _row.get()
    if row is None:
        yield
        return
    with global_random_lock:
        saved = torch.get_rng_state(), np.random.get_state(), random.getstate()
        token = _row.set(None)
        row.install()
        try:
            yield
        finally:
            row.take_back()
            _row.reset(token)
            torch.set_rng_state(saved[0])
            np.random.set_state(saved[1])
            random.setstate(saved[2])


def uses_row_random(function: F) -> F:
    """Mark a function that draws from `sampling_generator`, so that it does not need to run in `global_random`.

    If the function calls other code that draws random numbers, it must call that code in `global_random`.
    """
    function._uses_row_random = True  # type: ignore[attr-defined]
    return function


def random_for(function: Any) -> AbstractContextManager[None]:
    """Return the context manager in which ``function`` must be called."""
    return nullcontext() if getattr(function, "_uses_row_random", False) else global_random()


# Where a sampler starts to read


def starts_reading_at(first_position: Callable[..., float]) -> Callable[[F], F]:
    """Return a decorator that sets the attribute ``first_position`` of a sampler.

    ``first_position`` is a function with the same arguments as the sampler. It returns the position at which the
    sampler will start to read. It must draw the same random numbers as the sampler, but not decode.
    """

    def add(sampler: F) -> F:
        sampler.first_position = first_position  # type: ignore[attr-defined]
        return uses_row_random(sampler)

    return add


def planned_by(plan: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that makes ``plan(...).first_position(decoder)`` the ``first_position`` of a sampler."""
    return starts_reading_at(lambda decoder, **options: plan(decoder, **options).first_position(decoder))


def unwrap_partial(sampler: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function inside nested ``functools.partial`` objects, and the arguments that they bind to it."""
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    while isinstance(sampler, partial):
        arguments, options = (*sampler.args, *arguments), {**sampler.keywords, **options}
        sampler = sampler.func
    return sampler, arguments, options


def first_position(sampler: Callable[[Any], Any], decoder: Any) -> float | None:
    """Return the position in the file where ``sampler`` will start to read, or None if it has no ``first_position``.

    Positions only need to grow with time: they can be seconds or frame indices, for example.
    """
    function, arguments, options = unwrap_partial(sampler)
    method = getattr(function, "first_position", None)
    return None if method is None else float(method(*arguments, decoder, **options))
