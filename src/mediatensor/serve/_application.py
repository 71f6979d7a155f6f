"""`create_app`: the interface as an ASGI application."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..errors import MissingDependencyError
from ..isolate import DEFAULT_MAX_MEMORY_BYTES
from ._settings import (
    DEFAULT_KEEP_SECONDS,
    DEFAULT_MAX_UPLOAD_BYTES,
    DEFAULT_NUM_WORKERS,
    DEFAULT_TIMEOUT_SECONDS,
    Settings,
)

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

__all__ = ["create_app", "make_server"]


def create_app(
    *,
    token: str | None = None,
    max_upload_bytes: int = DEFAULT_MAX_UPLOAD_BYTES,
    max_stored_bytes: int | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES,
    num_workers: int = DEFAULT_NUM_WORKERS,
    keep_seconds: float = DEFAULT_KEEP_SECONDS,
    allowed_hosts: Iterable[str] = (),
    folder: str | os.PathLike[str] | None = None,
) -> FastAPI:
    """The service as an ASGI application, for uvicorn or another server.

    Uploads are read in ``num_workers`` processes with loaded models; one more draws pictures of pages and frames. A
    process that needs too much time or memory, crashes, or works for a client that went away, is ended and replaced.
    ``mediatensor serve`` also limits connections and waits for slow clients no longer than it says, which is the part
    of the server.

    Args:
        token: Who knows it may come in; ``None`` lets everybody in who can reach the server under an allowed name.
        max_upload_bytes: The largest upload.
        max_stored_bytes: Most bytes of all uploads and results together; ``None`` for four times the largest upload.
        timeout_seconds: Most seconds that one upload is worked on.
        max_memory_bytes: Most memory that reading may take, beside the models.
        num_workers: How many uploads are read at once.
        keep_seconds: For how long a job that ended, with its upload, is kept, unless it is deleted first.
        allowed_hosts: Names, without port, under which the server may be called, beside those of this machine for
            itself, such as ``localhost``. With a token, addresses in numbers are allowed, too.
        folder: Where uploads are kept while their jobs exist; ``None`` for the system's folder of temporary files.

    Returns:
        A FastAPI application; ``/openapi.json`` describes it.

    Raises:
        InvalidArgumentError: if an argument has a value that is not accepted.
        MissingDependencyError: if the packages of the extra ``serve`` are not installed.

    Example:
        >>> from mediatensor.serve import create_app
        >>> app = create_app(max_upload_bytes=50_000_000)
        >>> app.title
        'mediatensor'
    """
    settings = Settings.checked(
        token=token,
        max_upload_bytes=max_upload_bytes,
        max_stored_bytes=max_stored_bytes,
        timeout_seconds=timeout_seconds,
        max_memory_bytes=max_memory_bytes,
        num_workers=num_workers,
        keep_seconds=keep_seconds,
        allowed_hosts=allowed_hosts,
        folder=folder,
    )
    try:
        from ._routes import application
    except ImportError as error:
        raise _missing(error) from error
    return application(settings)


def make_server(
    app: FastAPI,
    host: str,
    port: int,
    *,
    head_seconds: float | None = None,
    max_connections: int | None = None,
    when_started: Callable[[], object] | None = None,
) -> Server:
    """A server for an application, with limits of connections and of time; see `mediatensor serve`.

    Args:
        app: The application.
        host: Where it listens.
        port: Where it listens.
        head_seconds: How long a client has for the head of a request; ``None`` for the usual time.
        max_connections: How many connections there may be; ``None`` for the usual number.
        when_started: Is called when it answers.

    Raises:
        MissingDependencyError: if the packages of the extra ``serve`` are not installed.
    """
    try:
        from . import _server
    except ImportError as error:
        raise _missing(error) from error
    return _server.make_server(app, host, port, head_seconds, max_connections, when_started)


def _missing(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f'Serving needs {error.name}: pip install "mediatensor[serve]".')
