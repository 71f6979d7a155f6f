"""An HTTP service that reads images, PDF files and videos.

Uploads are read in separate processes with time and memory limits. Each upload belongs to a job, and is deleted with
it. The command ``mediatensor serve`` runs the service. The packages that it needs are installed with
``mediatensor[serve]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._engine.common.checks import items_of, shown, whole_number
from ..errors import InvalidArgumentError, MissingDependencyError
from ..isolate import DEFAULT_MAX_MEMORY_BYTES
from ._settings import (
    DEFAULT_KEEP_SECONDS,
    DEFAULT_MAX_UPLOAD_BYTES,
    DEFAULT_NUM_WORKERS,
    DEFAULT_TIMEOUT_SECONDS,
    Settings,
    check_host,
    check_seconds,
    check_token,
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

    Uploads are read by ``num_workers`` worker processes, which have loaded the models. One more process renders images
    of pages and frames for display. A process is ended and replaced if it exceeds its time or memory limit or crashes,
    or if the client that it works for disconnects. An ASGI application cannot limit the number of connections, or
    disconnect slow clients. The server that ``mediatensor serve`` runs does both.

    Args:
        token: Secret token that clients must send. By default, no token is needed, and all requests to an allowed host
            are accepted.
        max_upload_bytes: Maximum size of an upload in bytes.
        max_stored_bytes: Maximum total size of all stored uploads and results in bytes; by default, four times
            ``max_upload_bytes``.
        timeout_seconds: Maximum time in seconds for processing an upload.
        max_memory_bytes: Maximum memory in bytes that a worker process can use, not counting its models.
        num_workers: Number of uploads that are read in parallel.
        keep_seconds: Time in seconds for which a finished job and its upload are kept. After that, they are deleted.
        allowed_hosts: Host names, without port, that requests can use in addition to ``localhost`` and the loopback
            addresses. If there is a token, requests can also use any IP address.
        folder: Folder in which uploads and results are stored; by default, the system's temporary folder.

    Returns:
        A FastAPI application. Its interface is described at ``/openapi.json``.

    Raises:
        InvalidArgumentError: if an argument has a wrong type or value.
        MissingDependencyError: if a package that ``mediatensor[serve]`` installs is missing.

    Example:
        >>> from mediatensor.serve import create_app
        >>> app = create_app(max_upload_bytes=50_000_000)
        >>> app.title
        'mediatensor'
    """
    max_upload_bytes = whole_number("max_upload_bytes", max_upload_bytes, at_least=1)
    if max_stored_bytes is None:
        max_stored_bytes = 4 * max_upload_bytes
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise InvalidArgumentError(f"folder must be a path, or None (got {shown(folder)}).")
    hosts = items_of("allowed_hosts", allowed_hosts, of="host names")
    settings = Settings(
        token=check_token(token),
        max_upload_bytes=max_upload_bytes,
        max_stored_bytes=whole_number("max_stored_bytes", max_stored_bytes, at_least=max_upload_bytes),
        timeout_seconds=check_seconds("timeout_seconds", timeout_seconds),
        max_memory_bytes=whole_number("max_memory_bytes", max_memory_bytes, at_least=1 << 20),
        num_workers=whole_number("num_workers", num_workers, at_least=1, at_most=256),
        keep_seconds=check_seconds("keep_seconds", keep_seconds),
        allowed_hosts=tuple(map(check_host, hosts)),
        folder=None if folder is None else Path(folder),
    )
    try:
        from ._routes import application
    except ImportError as error:
        raise _missing(error) from error
    return application(settings)


def make_server(app: FastAPI, host: str, port: int, **options: Any) -> Server:
    """Return the server that ``mediatensor serve`` uses. It limits connections, and disconnects slow clients.

    For ``options``, see `_server.make_server`.
    """
    try:
        from . import _server
    except ImportError as error:
        raise _missing(error) from error
    return _server.make_server(app, host, port, **options)


def _missing(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f'Serving needs {error.name}: pip install "mediatensor[serve]".')
