"""The private engine of the public packages: it turns the bytes of a source into frames and samples.

The packages themselves load their public names on first use, with `lazy_names`, because importing torch is slow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module-level ``__getattr__`` that imports the public names of a package on first use (PEP 562).

    ``modules`` maps each public name to the module that defines it, relative to the package. If the name is itself a
    module of the package, it is mapped to ``"."``. Type checkers do not see names that are imported in this way.
    Therefore the package must also import them under ``if TYPE_CHECKING:``.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        value = import_module(f".{name}", package) if module == "." else getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)  # later lookups do not call this function
        return value

    return get
