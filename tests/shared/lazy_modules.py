"""Packages that are imported when a test uses them: each process collects all test modules, but runs few of them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

__all__ = ["import_on_use"]


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest looks for its marks in all that a test module has
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


def import_on_use(name: str, reason: str) -> Any:
    """Return a module that is imported with its first attribute; skip the test module if its package is missing."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(reason, allow_module_level=True)
    return _LazyModule(name)
