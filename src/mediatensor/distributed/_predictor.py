"""A predictor that is loaded where and when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._devices import checked_device
from .._locks import ForkSafeLock

__all__ = ["LazyPredictor"]


class LazyPredictor:
    """Options of a predictor, which travel between processes, and the predictor, which does not.

    Args:
        options: Of `mediatensor.ocr.ocr_predictor`.
        make: Gives the predictor instead.
        device: Where it goes.
    """

    def __init__(self, options: dict[str, Any], make: Callable[[], Any] | None, device: str) -> None:
        self._options = options
        self._make = make
        self._device = device
        self._loaded: Any = None
        self._lock = ForkSafeLock()

    def load(self) -> Any:
        """The predictor.

        Raises:
            MediaTensorError: if weights or packages are missing, an option is not accepted, or torch has no such
                device.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._made()
            return self._loaded

    def _made(self) -> Any:
        if self._make is not None:
            predictor = self._make()
        else:
            # Reading text is a large part of the package, which those who decode clips need not wait for.
            from ..ocr import ocr_predictor

            predictor = ocr_predictor(**{"pretrained": True, **self._options})
        return predictor.to(checked_device(self._device)) if hasattr(predictor, "to") else predictor

    def __reduce__(self) -> tuple[type[LazyPredictor], tuple[Any, ...]]:
        return LazyPredictor, (self._options, self._make, self._device)
