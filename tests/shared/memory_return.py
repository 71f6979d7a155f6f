"""Return memory after the tests of a file, and after the doctests of a package: glibc would keep what was freed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

from mediatensor._engine.common import buffers

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # musl has none


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    yield
    # Returning takes too long to do it after each of the modules with doctests.
    ends = nextitem is None or nextitem.path.parent != item.path.parent
    if ends or (isinstance(item, pytest.Function) and nextitem.path != item.path):
        _clear_caches(getattr(item, "module", None))
        # Of its buffers, the library keeps up to 1 GiB.
        buffers._pool.free_idle_blocks()
        if _malloc_trim is not None:
            _malloc_trim(0)


def _clear_caches(module: ModuleType | None) -> None:
    """Clear the caches of a module of tests, of the benchmarks, and of the truth about audio."""
    large = ("benchmarks.", "audio_exactness")
    others = [module for name, module in list(sys.modules.items()) if name.startswith(large)]
    for owner in (*([] if module is None else [module]), *others):
        for value in list(vars(owner).values()):
            if callable(getattr(value, "cache_clear", None)) and value.__module__ == owner.__name__:
                value.cache_clear()
