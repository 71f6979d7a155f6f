"""Create things on first use: public names, torch (not every program needs its slow import), and properties."""

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
        """Python's, without the lock that it had until 3.12, one for all instances of a class.

        Where a process is forked while another thread holds that lock, the child would wait for it for ever. Without
        it two threads may both make a value, of which either will do.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562).

    Type checkers and readers see the same names imported under ``TYPE_CHECKING``. ``modules`` has the module of each
    name, relative to the package; ``"."`` if the name is a module itself.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        value = import_module(f".{name}", package) if module == "." else getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return get


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether ``value`` is a tensor; always false while torch is not imported."""
    # A torch that is still being imported has no such name yet.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)
