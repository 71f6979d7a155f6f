"""Fetch a file from a web server, with limits on size and time, and without redirections from https to http."""

from __future__ import annotations

import email.message
import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, NamedTuple

from ...._engine.images.decoding import MAX_FILE_BYTES
from ...._engine.sources.http import TIMEOUT_SECONDS
from ....errors import InvalidArgumentError, OpenError, SourceNotFoundError

__all__ = ["Fetched", "fetch", "web_scheme"]

# "Not found" and "gone".
_NOT_THERE = frozenset((404, 410))
_CHUNK_BYTES = 1 << 18
# A slower server is given up after the timeout.
_MIN_BYTES_PER_SECOND = 10_000
_WEB = re.compile(r"(https?)://", re.IGNORECASE)
# All characters that may occur unescaped in a URL, and the percent sign of escaped ones.
_URL_CHARACTERS = "%/:=&?~+!$,;'@()*[]#"


class Fetched(NamedTuple):
    """The response of a server: URL after all redirections, body, content type, and character set if it is sent."""

    url: str
    data: bytes
    content_type: str
    charset: str | None


def web_scheme(url: object) -> str | None:
    """The scheme of a URL of the web, "https" or "http"; ``None`` for anything else.

    >>> web_scheme("HTTPS://example.com"), web_scheme("file:///etc/hosts"), web_scheme(17)
    ('https', None, None)
    """
    match = _WEB.match(url) if isinstance(url, str) else None
    return match[1].lower() if match else None


def fetch(url: str) -> Fetched:
    """Fetch a file from a web server.

    Raises:
        InvalidArgumentError: if ``url`` is not an https or http URL.
        SourceNotFoundError, OpenError: if there is no such file, or it cannot be fetched.
    """
    if web_scheme(url) is None:
        raise InvalidArgumentError(f"url = {url!r} should be a str that begins with https:// or http://.")
    try:
        with _opener().open(urllib.parse.quote(url, _URL_CHARACTERS), timeout=TIMEOUT_SECONDS) as response:
            data = _body(response)
            headers = response.headers
            return Fetched(response.geturl(), data, headers.get_content_type(), headers.get_content_charset())
    except urllib.error.HTTPError as error:
        error.close()
        kind = SourceNotFoundError if error.code in _NOT_THERE else OpenError
        raise kind(f"Could not open {url}: the server answered {error.code} {error.reason}.") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise OpenError(f"Could not open {url}: {reason or type(error).__name__}.") from error


def _opener() -> urllib.request.OpenerDirector:
    # Not `build_opener`, which would also read local files and ftp.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _NoDowngrade(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "mediatensor"), ("Accept-Encoding", "identity")]
    return opener


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage | email.message.Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        if web_scheme(req.full_url) == "https" and web_scheme(newurl) != "https":
            raise ValueError(f"it is redirected from https to {newurl[:200]!r}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _body(response: http.client.HTTPResponse) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"it is compressed ({encoding[:40]!r}), although the request excluded that")
    body = bytearray()
    begin = time.monotonic()
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than the {MAX_FILE_BYTES} bytes that are read")
        if time.monotonic() - begin > TIMEOUT_SECONDS + len(body) / _MIN_BYTES_PER_SECOND:
            raise TimeoutError(f"only {len(body)} bytes arrived in time")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(body)
