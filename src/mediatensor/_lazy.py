"""Public names that are imported when they are first used, so that what needs no torch does not wait for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package (PEP 562).

    Type checkers and readers see the same names imported under ``TYPE_CHECKING``.

    Args:
        package: Its name.
        modules: The module of each name, relative to the package; ``"."`` says that the name is a module itself.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        value = import_module(f".{name}", package) if module == "." else getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return get
