"""Exceptions of an isolated process: those of this library and of Python are raised again with their own type."""

from __future__ import annotations

import builtins
import errno
import os
import traceback
from collections.abc import Mapping
from typing import Any

from .. import errors
from ..errors import IsolatedWorkerError
from ._values import encode

__all__ = ["failure_of", "raised", "ran_out_of_memory"]

_MAX_TEXT_CHARACTERS = 1 << 14
_MAX_ARGUMENTS_BYTES = 1 << 20


def failure_of(error: BaseException) -> dict[str, Any]:
    """Describe an exception: its type, arguments, text and trace.

    Example:
        >>> failure = failure_of(KeyError("a"))
        >>> failure["type"], failure["args"]
        ('builtins.KeyError', ['a'])
    """
    kind = type(error)
    text = _text_of(error)
    try:
        parts = error.__reduce__()[1]
        arguments = [os.fspath(part) if isinstance(part, os.PathLike) else part for part in parts]
        are_short = len(encode(arguments)[0]) <= _MAX_ARGUMENTS_BYTES
    except Exception:  # libraries define exceptions in many ways
        are_short = False
    trace = "".join(traceback.format_exception(error))
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "args": arguments if are_short else [text],
        "text": text,
        "trace": trace[-_MAX_TEXT_CHARACTERS:],
    }


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one of its causes, says that memory ran out.

    Example:
        >>> ran_out_of_memory(MemoryError()), ran_out_of_memory(KeyError("a"))
        (True, False)
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = _text_of(current)
        if isinstance(current, MemoryError) or "can't allocate memory" in text:
            return True
        if getattr(current, "errno", None) == errno.ENOMEM or "Cannot allocate memory" in text:
            return True
        current = current.__cause__ or current.__context__
    return False


def raised(failure: Mapping[str, Any]) -> Exception:
    """The exception to raise for a description by `failure_of`.

    Returns:
        An exception of the same type, if that is one of ``mediatensor.errors`` or of Python; otherwise an
        `IsolatedWorkerError` with the reason "exception". The trace is added as a note.

    Example:
        >>> raised(failure_of(KeyError("a")))
        KeyError('a')
    """
    text, name = str(failure["text"])[:_MAX_TEXT_CHARACTERS], str(failure["type"])[:200]
    cls = _known(name)
    try:
        error = None if cls is None else cls(*failure["args"])
    except Exception:  # arguments of another type
        error = None
    if error is None:
        error = IsolatedWorkerError(f"The isolated function raised {name}: {text}", "exception")
    error.add_note(f"In the isolated process:\n{str(failure['trace'])[-_MAX_TEXT_CHARACTERS:]}")
    return error


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_TEXT_CHARACTERS]
    except Exception:  # __str__ of the class raised
        return f"a {type(error).__name__} that has no text"


def _known(name: str) -> type[Exception] | None:
    module, _, class_name = name.rpartition(".")
    found: Any = None
    if module == errors.__name__ and class_name in errors.__all__:
        found = getattr(errors, class_name)
    elif module == "builtins":
        found = getattr(builtins, class_name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
