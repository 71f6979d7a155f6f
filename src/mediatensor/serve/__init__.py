"""An HTTP service that reads images, PDF files and videos.

Uploads are read in separate processes with time and memory limits. An upload is deleted together with its job. The
command ``mediatensor serve`` runs the service, which needs the extra ``serve``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._engine.common.checks import whole_number
from ..errors import MissingDependencyError
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

    ``num_workers`` processes with loaded models read uploads. Another process renders images of pages and frames. A
    process is replaced if it exceeds its time or memory limit, crashes, or works for a client that has disconnected.
    ``mediatensor serve`` also limits connections and slow clients, which an ASGI application itself cannot do.

    Args:
        token: Token that clients must send. By default, all clients that use an allowed host name are admitted.
        max_upload_bytes: Size limit of an upload.
        max_stored_bytes: Limit of the total size of uploads and results; by default, four times ``max_upload_bytes``.
        timeout_seconds: Time limit for processing an upload.
        max_memory_bytes: Memory limit of a worker process, in addition to the memory of its models.
        num_workers: Number of uploads that are read in parallel.
        keep_seconds: Time after which a finished job and its upload are deleted.
        allowed_hosts: Host names without port that requests may use, in addition to names of this machine such as
            ``localhost``. With a token, numeric addresses are also allowed.
        folder: Folder in which uploads and results are stored; by default, the system's temporary folder.

    Returns:
        A FastAPI application. It describes itself at ``/openapi.json``.

    Raises:
        InvalidArgumentError: if the value of an argument is not accepted.
        MissingDependencyError: if the packages of the extra ``serve`` are not installed.

    Example:
        >>> from mediatensor.serve import create_app
        >>> app = create_app(max_upload_bytes=50_000_000)
        >>> app.title
        'mediatensor'
    """
    max_upload_bytes = whole_number("max_upload_bytes", max_upload_bytes, at_least=1)
    if max_stored_bytes is None:
        max_stored_bytes = 4 * max_upload_bytes
    settings = Settings(
        token=check_token(token),
        max_upload_bytes=max_upload_bytes,
        max_stored_bytes=whole_number("max_stored_bytes", max_stored_bytes, at_least=max_upload_bytes),
        timeout_seconds=check_seconds("timeout_seconds", timeout_seconds),
        max_memory_bytes=whole_number("max_memory_bytes", max_memory_bytes, at_least=1 << 20),
        num_workers=whole_number("num_workers", num_workers, at_least=1, at_most=256),
        keep_seconds=check_seconds("keep_seconds", keep_seconds),
        allowed_hosts=tuple(check_host(host) for host in allowed_hosts),
        folder=None if folder is None else Path(folder),
    )
    try:
        from ._routes import application
    except ImportError as error:
        raise _missing(error) from error
    return application(settings)


def make_server(app: FastAPI, host: str, port: int, **options: Any) -> Server:
    """Return a server for an application. It limits connections and times like ``mediatensor serve``.

    ``_server.py`` describes the options.

    Raises:
        MissingDependencyError: if the packages of the extra ``serve`` are not installed.
    """
    try:
        from . import _server
    except ImportError as error:
        raise _missing(error) from error
    return _server.make_server(app, host, port, **options)


def _missing(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f'Serving needs {error.name}: pip install "mediatensor[serve]".')
