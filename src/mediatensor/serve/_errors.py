"""Convert errors to HTTP responses: a status code, and JSON with the problem and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._engine.images.formats import MAX_PIXELS_ADVICE
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
    """An error that is sent to the client, because a request was refused or a job has failed.

    ``status`` is the HTTP status code. ``kind`` is a short name of the problem, such as "UnknownJob", for use in
    programs.
    """

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def describe_error(error: ServeError) -> dict[str, Any]:
    return {"type": error.kind, "message": str(error)}


def stopping_error() -> ServeError:
    """Return the error to send to clients that are still waiting for a result when the server stops."""
    return ServeError(
        503, "Stopping", "The server stops; send the request again when it is back.", {"Connection": "close"}
    )


def answer_to(error: Exception, path: str, name: str) -> ServeError:
    """Convert an exception about a file to a `ServeError`. The message has ``name`` instead of ``path``."""
    if not isinstance(error, MediaTensorError):
        return answer_to_fault(error)
    message = _for_people(str(error).replace(path, repr(name))) or type(error).__name__
    return ServeError(_status(error), type(error).__name__, message)


def answer_to_fault(error: Exception) -> ServeError:
    """Convert an exception to a `ServeError` without its message, which can contain paths of the server."""
    if isinstance(error, OSError):
        return ServeError(503, "StorageFull", f"A file cannot be stored: {error.strerror or type(error).__name__}.")
    return ServeError(500, "InternalError", "The server has a fault, which its log describes.")


def _for_people(message: str) -> str:
    """Rewrite an error message of the library for clients, who do not write Python.

    Page numbers count from 1, and advice about arguments is removed.

    >>> _for_people("Page 0 (counted from 0) of x cannot be read: too large; if you trust the file, pass a larger "
    ...             "max_pixels, or None for no limit.")
    'Page 1 of x cannot be read: too large.'
    """
    message = re.sub(r"Page (\d+) \(counted from 0\)", lambda match: f"Page {int(match[1]) + 1}", message)
    return message.replace(f"; {MAX_PIXELS_ADVICE}", "").replace("more than max_pixels = ", "more than the limit of ")


def _status(error: MediaTensorError) -> int:
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
        case _:
            return 422
