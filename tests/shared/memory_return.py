"""Return memory after the tests of a file, after the doctests of a package, and after tests that took much of it.

glibc would keep what was freed.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

from mediatensor._engine.common import buffers

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # musl has none

# A process that has grown by this much since it last returned memory does so after the test.
_MUCH_BYTES = 64 << 20
# A process larger than this collects garbage if it has grown by as much since it last did so.
_LARGE_BYTES = 900 << 20
_bytes_after_last_return = _bytes_after_last_collection = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    yield
    # Returning takes too long to do it after each of the modules with doctests.
    ends = nextitem is None or nextitem.path.parent != item.path.parent
    if ends or (isinstance(item, pytest.Function) and nextitem.path != item.path):
        _clear_caches(getattr(item, "module", None))
        _return_memory()
    elif _resident_bytes() > _bytes_after_last_return + _MUCH_BYTES:
        _return_memory()


def _return_memory() -> None:
    global _bytes_after_last_return, _bytes_after_last_collection
    _free_blocks()
    resident_bytes = _resident_bytes()
    if resident_bytes > max(_bytes_after_last_collection + _MUCH_BYTES, _LARGE_BYTES):
        # Networks in cycles are few objects, for which Python would collect no garbage yet.
        gc.collect()
        _free_blocks()
        _bytes_after_last_collection = resident_bytes = _resident_bytes()
    _bytes_after_last_return = resident_bytes


def _free_blocks() -> None:
    buffers._pool.free_idle_blocks()  # of which the library keeps up to 1 GiB
    if _malloc_trim is not None:
        _malloc_trim(0)


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:  # only Linux has it
        return 0


def _clear_caches(module: ModuleType | None) -> None:
    """Clear the caches of a module of tests, of the benchmarks, and of the truth about audio."""
    large = ("benchmarks.", "audio_exactness")
    others = [module for name, module in list(sys.modules.items()) if name.startswith(large)]
    for owner in (*([] if module is None else [module]), *others):
        for value in list(vars(owner).values()):
            if callable(getattr(value, "cache_clear", None)) and value.__module__ == owner.__name__:
                value.cache_clear()
