"""The module that a program was started as, imported again in a child: functions of it are found there."""

from __future__ import annotations

import os
import runpy
import sys
import types
from typing import NamedTuple

__all__ = ["CHILD_MAIN", "MainModule", "import_main", "is_importing_main", "this_main"]

#: Its name in the child, as in those of ``multiprocessing``, so that ``if __name__ == "__main__"`` holds once.
CHILD_MAIN = "__mp_main__"

_state = {"is_importing": False, "is_imported": False}


class MainModule(NamedTuple):
    """Where the module can be imported from.

    Attributes:
        name: Of the module, if it was started with ``python -m``.
        path: Of its file; with neither (a notebook, a console) it cannot be imported.
    """

    name: str | None
    path: str | None


def this_main() -> MainModule:
    """That of this process."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        return MainModule(None, None)
    return MainModule(spec.name if spec else None, os.path.abspath(path))


def is_importing_main() -> bool:
    """Whether this process is a child that imports that module now."""
    return _state["is_importing"]


def import_main(main: MainModule) -> None:
    """Put the module into this process, once.

    Raises:
        Exception: whatever the module raises.
    """
    if _state["is_imported"] or main.path is None:
        return
    _state["is_importing"] = True
    try:
        if main.name is not None:
            found = runpy.run_module(main.name, run_name=CHILD_MAIN, alter_sys=True)
        else:
            found = runpy.run_path(main.path, run_name=CHILD_MAIN)
    finally:
        _state["is_importing"] = False
    module = types.ModuleType(CHILD_MAIN)
    vars(module).update(found)
    sys.modules["__main__"] = sys.modules[CHILD_MAIN] = module
    _state["is_imported"] = True
