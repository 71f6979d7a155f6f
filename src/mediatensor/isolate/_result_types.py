"""The classes whose objects may come back from an isolated process, and how they are taken apart and put together.

A process that was taken over may send anything. Nothing in a result can therefore name code to be run: an object is the
name of a class of this table, and values for its fields.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import runpy
import sys
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["CHILD_MAIN", "MainModule", "import_main", "is_importing_main", "put_together", "take_apart", "this_main"]

#: The name of the main module in the child, as in ``multiprocessing``: ``__name__ == "__main__"`` holds only once.
CHILD_MAIN = "__mp_main__"

_state = {"is_importing": False, "is_imported": False}


class MainModule(NamedTuple):
    """Where the main module can be imported from; without a name and a path (a notebook) it cannot be imported.

    Attributes:
        name: The name of the module, if it was started with ``python -m``.
        path: The path of its file.
    """

    name: str | None
    path: str | None


def this_main() -> MainModule:
    """The main module of this process."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        return MainModule(None, None)
    return MainModule(spec.name if spec else None, os.path.abspath(path))


def is_importing_main() -> bool:
    """Whether this process is a child that is importing the main module now."""
    return _state["is_importing"]


def import_main(main: MainModule) -> None:
    """Import the main module of the parent into this process, once.

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


_MODULES = {
    "mediatensor.frames": (
        "AudioSamples",
        "AudioSamplesBatch",
        "AudioVideoClip",
        "Frame",
        "FrameBatch",
        "ReplacedFrame",
    ),
    "mediatensor.decoders": (
        "AudioStreamHeaderMetadata",
        "AudioStreamMetadata",
        "Chapter",
        "ContainerMetadata",
        "CpuFallbackStatus",
        "StreamMetadata",
        "Subtitle",
        "SubtitleStreamHeaderMetadata",
        "VideoStreamHeaderMetadata",
        "VideoStreamMetadata",
    ),
    # Their attributes are what they are made of; data classes are built by their constructor.
    "mediatensor.ocr.io.elements": (
        "Artefact",
        "Block",
        "Character",
        "Document",
        "KIEDocument",
        "KIEPage",
        "LayoutElement",
        "Line",
        "Page",
        "Prediction",
        "Table",
        "TableCell",
        "Word",
    ),
}


def take_apart(value: object) -> tuple[str, dict[str, Any]] | None:
    """Return the name of an object's class and its fields by name, or ``None`` if the object cannot come back."""
    cls = type(value)
    name = f"{_public_module(cls)}:{cls.__name__}"
    if _class_of(name) is not cls:
        return None
    if dataclasses.is_dataclass(value):
        return name, {spec.name: getattr(value, spec.name) for spec in dataclasses.fields(value)}
    return name, dict(vars(value))


def put_together(name: str, fields: Mapping[str, Any]) -> Any:
    """Make an object of a class of the table from its fields.

    Raises:
        Exception: of any kind, if there is no such class or the fields do not fit.
    """
    cls = _class_of(name)
    if cls is None:
        raise ValueError(f"an object of {name[:200]!r} may not come")
    if dataclasses.is_dataclass(cls):
        return cls(**fields)
    element: Any = object.__new__(cls)
    vars(element).update(fields)
    return element


def _class_of(name: str) -> type | None:
    module, _, class_name = name.partition(":")
    if class_name not in _MODULES.get(module, ()):
        return None
    cls: type = getattr(importlib.import_module(module), class_name)
    return cls


def _public_module(cls: type) -> str | None:
    """The module that users import a class of this library from."""
    if cls.__module__.split(".")[0] != "mediatensor":
        return None
    return next((module for module, names in _MODULES.items() if cls.__name__ in names), None)
