"""The classes whose objects may come back from an isolated process, and how they are taken apart and put together.

A process that was taken over may send anything. Nothing in a result can therefore name code to be run: an object is the
name of a class of this table, and values for its fields.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
import os
import runpy
import sys
import types
from collections.abc import Iterable, Mapping
from enum import Enum, Flag
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError

__all__ = ["CHILD_MAIN", "MainModule", "ResultTypes", "import_main", "is_importing_main", "this_main"]

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
    # Their attributes are what they are made of; all other classes are built by their constructor.
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


class ResultTypes:
    """The classes of this library whose objects can come back, and those that the user adds.

    Args:
        added: Data classes, named tuples and enumerations.

    Raises:
        InvalidArgumentError: if one of them is something else.
    """

    def __init__(self, added: Iterable[type] = ()) -> None:
        self._added: dict[str, type] = {}
        for cls in added:
            if not (isinstance(cls, type) and (dataclasses.is_dataclass(cls) or _is_enum(cls) or _is_named_tuple(cls))):
                raise InvalidArgumentError(
                    f"result_types must be data classes, named tuples and enumerations (got {cls!r})."
                )
            self._added[_name(cls)] = cls

    def take_apart(self, value: object) -> tuple[str, dict[str, Any]] | None:
        """The name of an object's class, and its fields by name; ``None`` if the object cannot come back."""
        cls = type(value)
        name = _name(cls)
        if self._class(name) is not cls:
            return None
        if isinstance(value, Enum):
            return name, {"name": value.name}
        if isinstance(value, tuple):
            return name, dict(zip(_tuple_fields(cls), value, strict=True))
        if dataclasses.is_dataclass(value):
            return name, {spec.name: getattr(value, spec.name) for spec in dataclasses.fields(value)}
        return name, dict(vars(value))

    def put_together(self, name: str, fields: Mapping[str, Any]) -> Any:
        """Make an object of a class of the table from its fields.

        Raises:
            Exception: of any kind, if there is no such class or the fields do not fit.
        """
        cls = self._class(name)
        if cls is None:
            raise ValueError(f"no object of {name[:200]!r} may come")
        if _is_enum(cls):
            return _member(cls, fields["name"])
        if dataclasses.is_dataclass(cls):
            return _data_object(cls, fields)
        if _is_named_tuple(cls):
            return cls(**fields)
        element: Any = object.__new__(cls)
        vars(element).update(fields)
        return element

    def _class(self, name: str) -> type | None:
        if name in self._added:
            return self._added[name]
        module, _, class_name = name.partition(":")
        if class_name not in _MODULES.get(module, ()):
            return None
        cls: type = getattr(importlib.import_module(module), class_name)
        return cls


def _name(cls: type) -> str:
    """Module and name of a class; the module of a class of this library is the one that users import it from."""
    public = (module for module, names in _MODULES.items() if cls.__name__ in names)
    module = next(public, None) if cls.__module__.split(".")[0] == "mediatensor" else None
    if module is not None:
        return f"{module}:{cls.__name__}"
    own = "__main__" if cls.__module__ == CHILD_MAIN else cls.__module__
    return f"{own}:{cls.__qualname__}"


def _data_object(cls: type, fields: Mapping[str, Any]) -> Any:
    specs = dataclasses.fields(cls)
    if {spec.name for spec in specs} != set(fields):
        raise ValueError(f"the fields of {cls.__name__} are others than {sorted(fields)}")
    made = cls(**{spec.name: fields[spec.name] for spec in specs if spec.init})
    for spec in specs:
        if not spec.init:
            object.__setattr__(made, spec.name, fields[spec.name])
    return made


def _member(cls: Any, name: str) -> Any:
    """The member of an enumeration, or the flags whose names are joined by bars."""
    if name in cls.__members__ or not issubclass(cls, Flag):
        return cls[name]
    parts = name.split("|")
    if len(parts) > len(cls.__members__):
        raise ValueError(f"{len(parts)} flags of a {cls.__name__}, which has {len(cls.__members__)}")
    return functools.reduce(operator.or_, (cls[part] for part in parts))


def _is_enum(cls: type) -> bool:
    return issubclass(cls, Enum)


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _tuple_fields(cls: type) -> tuple[str, ...]:
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    return names
