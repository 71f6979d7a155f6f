"""Return memory after the tests of a file, after the doctests of a package, and after tests that took much of it.

glibc would keep what was freed. The summary of a run says how much its largest process took and, if this is more than
a process may take, which test took it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import resource
import sys
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

import remembered_features
from mediatensor._engine.common import buffers

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # musl has none

# A process of the tests may take this much: several run side by side.
_LIMIT_BYTES = 2_000_000_000
# A process that has grown by this much since it last returned memory does so after the test.
_MUCH_BYTES = 64 << 20
# A process larger than this collects garbage if it has grown by as much since it last did so.
_LARGE_BYTES = 900 << 20
_bytes_after_last_return = _bytes_after_last_collection = 0
# The peak of the largest process, and the first test in which a process was above the limit.
_largest_key = pytest.StashKey[tuple[int, str]]()
_first_above_limit = ""

# Modules whose caches are large: those that one file fills, and those that the files of a wing share, such as the
# readers of the tests of text (70 MB) and the paper of generated pages (35 MB).
_OF_A_FILE = ("benchmarks.", "audio_exactness", "media_grid")
_OF_A_WING = ("ocr_reading", "mediatensor.ocr.drawing._damage", "mediatensor.serve._work")


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def pytest_sessionfinish(session: pytest.Session) -> None:
    largest = session.config.stash.setdefault(_largest_key, (_peak_bytes(), _first_above_limit))
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["largest"] = largest


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    largest = tuple(getattr(node, "workeroutput", {}).get("largest", (0, "")))
    node.config.stash[_largest_key] = max(node.config.stash.get(_largest_key, (0, "")), largest)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    peak_bytes, test = config.stash[_largest_key]
    terminalreporter.write_line(f"memory of the largest process: {peak_bytes / 1e9:.2f} GB")
    if test:
        limit = f"the limit of {_LIMIT_BYTES / 1e9:.0f} GB"
        terminalreporter.write_line(f"A process exceeded {limit}, first in {test}.", red=True, bold=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    global _first_above_limit
    yield
    if not _first_above_limit and _peak_bytes() > _LIMIT_BYTES:
        _first_above_limit = item.nodeid
    # Returning takes too long to do it after each of the modules with doctests.
    if nextitem is None or _wing_of(nextitem) != _wing_of(item):
        _clear_caches(getattr(item, "module", None), _OF_A_FILE + _OF_A_WING)
        remembered_features.known.clear()  # up to 128 MB
        _return_memory()
    elif nextitem.path.parent != item.path.parent or (isinstance(item, pytest.Function) and nextitem.path != item.path):
        _clear_caches(getattr(item, "module", None), _OF_A_FILE)
        _return_memory()
    elif _resident_bytes() > _bytes_after_last_return + _MUCH_BYTES:
        _return_memory()


def _wing_of(item: pytest.Item) -> list[str]:
    """Return the folder of tests of a wing, such as ``tests/text``, or the folder of all doctests."""
    return item.nodeid.split("/")[:2]


def _return_memory() -> None:
    global _bytes_after_last_return, _bytes_after_last_collection
    _free_blocks()
    resident_bytes = _resident_bytes()
    if resident_bytes > max(_bytes_after_last_collection + _MUCH_BYTES, _LARGE_BYTES):
        # Networks in cycles are few objects, for which Python would collect no garbage yet.
        gc.collect()
        _free_blocks()
        _bytes_after_last_collection = resident_bytes = _resident_bytes()
    # If less is used than after the last collection, later growth may be garbage again.
    _bytes_after_last_collection = min(_bytes_after_last_collection, resident_bytes)
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


def _clear_caches(module: ModuleType | None, prefixes: tuple[str, ...]) -> None:
    """Clear the caches of a module of tests, and of other modules, whose names start with one of the prefixes."""
    others = [module for name, module in list(sys.modules.items()) if name.startswith(prefixes)]
    for owner in (*([] if module is None else [module]), *others):
        for value in list(vars(owner).values()):
            if callable(getattr(value, "cache_clear", None)) and value.__module__ == owner.__name__:
                value.cache_clear()
