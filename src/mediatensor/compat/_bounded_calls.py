"""Call functions with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .._engine.common.checks import real_number
from ..errors import InvalidArgumentError
from ..isolate import IsolatedWorker

Decoder = TypeVar("Decoder")
Result = TypeVar("Result")


class BoundedCalls(Generic[Decoder]):
    """Opens a decoder with ``make``, and calls functions with it.

    With a time limit, this happens in a separate process, so ``make`` and the functions must be picklable.
    """

    def __init__(self, make: Callable[[], Decoder], timeout_seconds: float | None) -> None:
        self._make = make
        self._worker = _worker(timeout_seconds)
        self._decoder = make() if self._worker is None else None

    def run(self, function: Callable[[Decoder], Result]) -> Result:
        """Return ``function(decoder)``. After an `IsolatedWorkerError`, the next call starts a new process."""
        if self._worker is None:
            assert self._decoder is not None
            return function(self._decoder)
        # Send `make` only once to each process, because it may contain a file.
        result = self._worker.run(_run_on_kept, function)
        if result is None:
            result = self._worker.run(_run_on_kept, function, self._make)
        assert result is not None
        return result[0]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


def check_timeout(timeout_seconds: float | None) -> None:
    if timeout_seconds is not None and not real_number("timeout_seconds", timeout_seconds) > 0:
        raise InvalidArgumentError(f"timeout_seconds must be positive, or None for no limit (got {timeout_seconds}).")


def run_bounded(function: Callable[[], Result], timeout_seconds: float | None) -> Result:
    """Return ``function()``. With a time limit, a separate process calls it, so it must be picklable."""
    worker = _worker(timeout_seconds)
    if worker is None:
        return function()
    with worker:
        return worker.run(function)


def _worker(timeout_seconds: float | None) -> IsolatedWorker | None:
    check_timeout(timeout_seconds)
    if timeout_seconds is None:
        return None
    return IsolatedWorker(timeout_seconds=timeout_seconds, max_memory_bytes=None, allow_network=True)


# The open decoder in a separate process. Each process serves a single reader.
_kept: list[Any] = []


def _run_on_kept(function: Callable[[Any], Result], make: Callable[[], Any] | None = None) -> tuple[Result] | None:
    if make is not None:
        _kept[:] = [make()]
    return (function(_kept[0]),) if _kept else None
