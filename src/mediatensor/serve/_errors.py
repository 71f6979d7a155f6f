"""Convert errors to HTTP responses: a status, and JSON that states the problem and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import (
    InvalidArgumentError,
    IsolatedWorkerError,
    MediaTensorError,
    MissingDependencyError,
    OpenError,
    OutOfRangeError,
    WeightsError,
    WriteError,
)


class ServeError(Exception):
    """The error of a refused request or a failed job. ``kind`` is a name of the problem for programs."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def describe_error(error: ServeError) -> dict[str, Any]:
    """Return an error as JSON.

    >>> describe_error(ServeError(404, "UnknownJob", "There is no such job."))
    {'type': 'UnknownJob', 'message': 'There is no such job.'}
    """
    return {"type": error.kind, "message": str(error)}


def stopping_error() -> ServeError:
    """Return the error for clients that are still waiting when the server stops."""
    return ServeError(
        503, "Stopping", "The server stops; send the request again when it is back.", {"Connection": "close"}
    )


def answer_to(error: Exception, path: str, name: str) -> ServeError:
    """Convert an error of the library to a `ServeError` whose message has the upload's ``name`` for its ``path``."""
    message = _for_people(str(error).replace(path, repr(name))) or type(error).__name__
    return ServeError(_status(error), type(error).__name__, message)


def _for_people(message: str) -> str:
    """Remove advice that is meant for Python programmers from a message of the library.

    >>> _for_people("Page 0 (counted from 0) of x cannot be read: too large; if you trust the file, pass a larger "
    ...             "max_pixels, or None for no limit.")
    'Page 1 of x cannot be read: too large.'
    """
    message = re.sub(r"Page (\d+) \(counted from 0\)", lambda match: f"Page {int(match[1]) + 1}", message)
    message = re.sub(
        r"[.;] if you trust the file, pass a larger max_pixels, or None for no limit", "", message, flags=re.I
    )
    return message.replace("more than max_pixels = ", "more than the most that is read here, ")


def _status(error: Exception) -> int:
    match error:
        case IsolatedWorkerError(reason="timeout"):
            return 504
        case IsolatedWorkerError(reason="memory" | "crash"):
            return 422
        case InvalidArgumentError() | OutOfRangeError():
            return 400
        case OpenError():
            return 415
        case MissingDependencyError() | WeightsError() | WriteError():
            return 500
        case MediaTensorError():
            return 422
        case _:
            return 500
