"""``mediatensor serve``: run the HTTP service and its web page."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import secrets
import socket
import sys

from ..errors import InvalidArgumentError
from ..serve import create_app, make_server
from ._console import emit

_TOKEN_VARIABLE = "MEDIATENSOR_TOKEN"


def run(args: argparse.Namespace) -> int:
    token = args.token or os.environ.get(_TOKEN_VARIABLE) or None
    is_public = not _is_loopback(args.host)
    is_made = token is None and is_public
    if is_made:
        token = secrets.token_urlsafe(24)
    app = create_app(
        token=token,
        max_upload_bytes=args.max_upload_bytes,
        timeout_seconds=args.timeout,
        max_memory_bytes=args.max_memory_bytes,
        num_workers=args.jobs,
        keep_seconds=args.keep,
        allowed_hosts=args.allow_host,
        folder=args.folder,
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    listener = _listen(args.host, args.port)
    with listener:
        host, port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        suffix = f"/?token={token}" if is_made else "/"
        line = f"mediatensor serves on http://{url_host}:{port}{suffix}"
        make_server(app, args.host, port, when_started=lambda: emit(line)).run(sockets=[listener])
    return 0


def _is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine.

    >>> _is_loopback("127.0.0.1"), _is_loopback("localhost"), _is_loopback("::1"), _is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, address = addresses[0][0], addresses[0][4]
        return socket.create_server(address[:2], family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(
            f"Cannot listen on {host}, port {port} ({getattr(error, 'strerror', None) or error}); choose others with "
            "--host and --port."
        ) from error
