"""An HTTP service that reads images, PDF files and videos.

Uploads are read in separate processes with limits of time and memory, and are deleted with their jobs. The command
``mediatensor serve`` runs it; needs the extra ``serve``.
"""

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

__all__ = ["create_app"]


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
    """Return the service as an ASGI application, for uvicorn or another server.

    Uploads are read in ``num_workers`` processes with loaded models; another process renders images of pages and
    frames. A process that needs too much time or memory, crashes, or works for a client that disconnected, is ended and
    replaced. ``mediatensor serve`` also limits connections and slow clients, which an application cannot.

    Args:
        token: Token that clients must send; ``None`` admits every client that reaches the server under an allowed name.
        max_upload_bytes: Size limit of an upload.
        max_stored_bytes: Size limit of all uploads and results together; ``None`` for four times the largest upload.
        timeout_seconds: Time limit of the work on one upload.
        max_memory_bytes: Memory limit of reading, in addition to the models.
        num_workers: Number of uploads that are read at the same time.
        keep_seconds: Time for which a finished job and its upload are kept, unless they are deleted first.
        allowed_hosts: Host names, without port, under which clients may call, in addition to this machine's own, such
            as ``localhost``. With a token, numeric addresses are allowed as well.
        folder: Folder of uploads while their jobs exist; ``None`` for the system's folder of temporary files.

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
    settings = Settings.from_arguments(
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
    """Return a server for an application, with limits of connections and time, as `mediatensor serve` has them.

    Args:
        app: The application.
        host, port: The address to listen on.
        head_seconds: Time limit of the head of a request; ``None`` for the default.
        max_connections: Maximum number of connections; ``None`` for the default.
        when_started: Called when the server answers.

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
