"""The settings of a server: token, limits, and number of worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._engine.common.checks import real_number, shown, whole_number
from ..errors import InvalidArgumentError
from ..isolate import DEFAULT_MAX_MEMORY_BYTES

#: Default size limit of an upload.
DEFAULT_MAX_UPLOAD_BYTES = 1 << 30

#: Default time limit for processing one job.
DEFAULT_TIMEOUT_SECONDS = 600.0

#: Default time for which a finished job is kept.
DEFAULT_KEEP_SECONDS = 1800.0

#: Default number of uploads that are read in parallel.
DEFAULT_NUM_WORKERS = 2

#: Maximum number of waiting jobs and uploads being received: of all clients, and of one client.
MAX_QUEUED_JOBS = 64
MAX_QUEUED_JOBS_OF_ONE = 32

#: Addresses of clients on this machine, such as browsers, and of all clients behind a proxy.
LOOPBACK = ("127.0.0.1", "::1")

#: Maximum number of finished jobs that are kept: of all clients, and of one client.
MAX_KEPT_JOBS = 256
MAX_KEPT_JOBS_OF_ONE = 128

#: Maximum number of pages in a document, and of frames in one request.
MAX_PAGES = 2000
MAX_FRAMES = 256

_MIN_TOKEN_CHARACTERS = 16


@dataclass(frozen=True)
class Settings:
    """The settings of a server; see `create_app`."""

    token: str | None
    max_upload_bytes: int
    max_stored_bytes: int
    timeout_seconds: float
    max_memory_bytes: int
    num_workers: int
    keep_seconds: float
    allowed_hosts: tuple[str, ...]
    folder: Path | None

    @classmethod
    def from_arguments(
        cls,
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
    ) -> Settings:
        """Validate arguments of `create_app`; raise `InvalidArgumentError` for a value that is not accepted."""
        largest = whole_number("max_upload_bytes", max_upload_bytes, at_least=1)
        return cls(
            token=None if token is None else _check_token(token),
            max_upload_bytes=largest,
            max_stored_bytes=4 * largest
            if max_stored_bytes is None
            else whole_number("max_stored_bytes", max_stored_bytes, at_least=largest),
            timeout_seconds=_positive("timeout_seconds", timeout_seconds),
            max_memory_bytes=whole_number("max_memory_bytes", max_memory_bytes, at_least=1 << 20),
            num_workers=whole_number("num_workers", num_workers, at_least=1, at_most=256),
            keep_seconds=_positive("keep_seconds", keep_seconds),
            allowed_hosts=tuple(_check_host(host) for host in allowed_hosts),
            folder=None if folder is None else Path(folder),
        )


def _check_token(token: Any) -> str:
    if not isinstance(token, str) or len(token) < _MIN_TOKEN_CHARACTERS or not _is_token(token):
        raise InvalidArgumentError(
            f"token must have {_MIN_TOKEN_CHARACTERS} or more letters, digits, and any of -._~+/= ; make one with "
            'python -c "import secrets; print(secrets.token_urlsafe())".'
        )
    return token


def _is_token(text: str) -> bool:
    """Return whether a text is a valid bearer token (RFC 6750)."""
    return text.isascii() and all(letter.isalnum() or letter in "-._~+/=" for letter in text)


def _check_host(host: Any) -> str:
    if not isinstance(host, str) or not host or any(letter in "/:@ " for letter in host):
        raise InvalidArgumentError(f"allowed_hosts must be names without scheme and port (got {shown(host)}).")
    return host.lower()


def _positive(name: str, value: Any) -> float:
    number = real_number(name, value)
    if not 0 < number <= 1e9:
        raise InvalidArgumentError(f"{name} must be more than 0 seconds, and at most 1e9 (got {shown(value)}).")
    return number
