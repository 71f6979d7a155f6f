"""The settings of a server: token, limits, and number of worker processes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._engine.common.checks import real_number, shown
from ..errors import InvalidArgumentError

#: Default size limit of an upload.
DEFAULT_MAX_UPLOAD_BYTES = 1 << 30

#: Default time limit for processing a job.
DEFAULT_TIMEOUT_SECONDS = 600.0

#: Default time for which a finished job is kept.
DEFAULT_KEEP_SECONDS = 1800.0

#: Default number of uploads that are read in parallel.
DEFAULT_NUM_WORKERS = 2

#: Largest number of jobs that are waiting and uploads that are being received: of all clients, and of one client.
MAX_QUEUED_JOBS = 64
MAX_QUEUED_JOBS_OF_ONE = 32

#: Addresses of clients on this machine, such as browsers. Behind a proxy, all clients have one of them. The address of
#: clients of a Unix socket is empty.
LOOPBACK = ("127.0.0.1", "::1", "")

#: Largest number of finished jobs that are kept: of all clients, and of one client.
MAX_KEPT_JOBS = 256
MAX_KEPT_JOBS_OF_ONE = 128

#: Largest number of pages in a document, and of frames in a request.
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


def check_token(token: Any) -> str | None:
    """Return ``token``, which can be None. Raise `InvalidArgumentError` for an invalid bearer token (RFC 6750)."""
    if token is None:
        return None
    pattern = rf"[\w.~+/=-]{{{_MIN_TOKEN_CHARACTERS},}}"
    if not isinstance(token, str) or not re.fullmatch(pattern, token, re.ASCII):
        raise InvalidArgumentError(
            f"token must have {_MIN_TOKEN_CHARACTERS} or more letters, digits, and any of -._~+/= ; make one with "
            'python -c "import secrets; print(secrets.token_urlsafe())".'
        )
    return token


def check_host(host: Any) -> str:
    if not isinstance(host, str) or not host or any(letter in "/:@ " for letter in host):
        raise InvalidArgumentError(f"allowed_hosts must be names without scheme and port (got {shown(host)}).")
    return host.lower()


def check_seconds(name: str, value: Any) -> float:
    number = real_number(name, value)
    if not 0 < number <= 1e9:
        raise InvalidArgumentError(f"{name} must be more than 0 seconds, and at most 1e9 (got {shown(value)}).")
    return number
