"""Load public names and torch only on first use, because importing torch is slow. Also define ``cached_property``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from torch import Tensor

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """Python's ``cached_property`` without its lock, which all instances of a class share before Python 3.12.

        If another thread holds that lock during a fork, the child waits for ever. Without the lock, two threads may
        both compute the value; either result is valid.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


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


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether ``value`` is a tensor, without importing torch.

    As long as nothing has imported torch, no value can be a tensor.
    """
    # While torch is being imported, it may not have the name ``Tensor`` yet.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)
