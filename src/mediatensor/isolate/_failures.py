"""Exceptions on their way from an isolated process: those of this library and of Python come as themselves."""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Mapping
from typing import Any

from .. import errors
from ..errors import IsolatedWorkerError
from ._result_types import ResultTypes
from ._values import encode

__all__ = ["failure_of", "raised"]

_MAX_TEXT_CHARACTERS = 1 << 14


def failure_of(error: BaseException) -> dict[str, Any]:
    """What is told of an exception: its type, arguments, text and trace.

    Example:
        >>> failure = failure_of(KeyError("a"))
        >>> failure["type"], failure["args"]
        ('builtins.KeyError', ['a'])
    """
    kind = type(error)
    try:
        arguments = list(error.__reduce__()[1])
        encode(arguments, ResultTypes())
    except Exception:  # no two libraries make exceptions alike
        arguments = [str(error)]
    trace = "".join(traceback.format_exception(error))
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "args": arguments,
        "text": str(error)[:_MAX_TEXT_CHARACTERS],
        "trace": trace[-_MAX_TEXT_CHARACTERS:],
    }


def raised(failure: Mapping[str, Any]) -> Exception:
    """The exception to raise here for what `failure_of` told.

    Returns:
        One of the same type, if it is one of ``mediatensor.errors`` or of Python; else an `IsolatedWorkerError` of
        reason "exception". The trace is a note of it.

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


def _known(name: str) -> type[Exception] | None:
    module, _, class_name = name.rpartition(".")
    found: Any = None
    if module == errors.__name__ and class_name in errors.__all__:
        found = getattr(errors, class_name)
    elif module == "builtins":
        found = getattr(builtins, class_name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
