"""Fetch files from web servers, and print web pages as PDF.

Fetching a file has limits on size and time, and does not follow redirections from https to http.
"""

from __future__ import annotations

import email.message
import http.client
import importlib
import io
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any, NamedTuple

from ..._engine.images.reading import MAX_FILE_BYTES
from ..._engine.sources.http import TIMEOUT_SECONDS
from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, SourceNotFoundError

__all__ = ["read_html"]

# HTTP status "not found" and "gone".
_NOT_THERE = frozenset((404, 410))
_CHUNK_BYTES = 1 << 18
# If a server sends fewer bytes per second, reading fails after the timeout.
_MIN_BYTES_PER_SECOND = 10_000
_WEB = re.compile(r"(https?)://", re.IGNORECASE)
# All characters that may occur unescaped in a URL, and the percent sign, with which escapes start.
_URL_CHARACTERS = "%/:=&?~+!$,;'@()*[]#"


class Fetched(NamedTuple):
    """The response of a web server.

    ``url`` is the address after all redirections, and ``charset`` is ``None`` if not stated.
    """

    url: str
    data: bytes
    content_type: str
    charset: str | None


def web_scheme(url: object) -> str | None:
    """Return "https" or "http" if ``url`` is a web address, or ``None`` if it is anything else.

    >>> web_scheme("HTTPS://example.com"), web_scheme("file:///etc/hosts"), web_scheme(17)
    ('https', None, None)
    """
    match = _WEB.match(url) if isinstance(url, str) else None
    return match[1].lower() if match else None


def fetch(url: str) -> Fetched:
    """Download a file from a web server. Errors are raised as in `DocumentFile.from_url`."""
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
    # `build_opener` would also read local files and ftp.
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
            raise ValueError(f"it has more than the {MAX_FILE_BYTES} bytes that are accepted")
        if time.monotonic() - begin > TIMEOUT_SECONDS + len(body) / _MIN_BYTES_PER_SECOND:
            raise TimeoutError(f"only {len(body)} bytes arrived in time")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(body)


def read_html(url: str, **kwargs: Any) -> bytes:
    """Print a web page to a PDF file. This needs WeasyPrint, which the extra ``html`` installs.

    What a page can load is restricted. A page that was fetched by https can load images and styles only by https; a
    page that was fetched by http can use both. No web page can make this function read local files. A page that is
    itself a local file can load no other file or URL. If you trust the page, you can lift these restrictions with a
    ``url_fetcher`` such as ``weasyprint.urls.URLFetcher()``.

    Args:
        url: The URL of the page, or any other first argument of ``weasyprint.HTML``, such as the path of a file.
        **kwargs: Further arguments of ``weasyprint.HTML``.

    Returns:
        The contents of the PDF file, as ``bytes``.

    Raises:
        SourceNotFoundError: if the page does not exist.
        OpenError: if the page cannot be read.
        MissingDependencyError: if weasyprint is not installed.

    Example:
        >>> file = read_html("https://www.example.com")  # doctest: +SKIP
    """
    weasyprint = _import_weasyprint()
    if web_scheme(url) and "url_fetcher" not in kwargs:
        return print_page(fetch(url), **kwargs)
    try:
        pdf: bytes = weasyprint.HTML(url, **{"url_fetcher": _local_fetcher(weasyprint, url), **kwargs}).write_pdf()
    except FileNotFoundError:
        raise SourceNotFoundError(f"Could not open {url}: it does not exist.") from None
    except OSError as error:
        raise OpenError(f"Could not open {url}: {error}.") from error
    return pdf


def print_page(page: Fetched, **kwargs: Any) -> bytes:
    """Print ``page``, a web page that has already been downloaded, to a PDF file.

    ``kwargs`` are arguments of ``weasyprint.HTML``.
    """
    weasyprint = _import_weasyprint()
    wanted = {"encoding": page.charset, "base_url": page.url, "url_fetcher": _fetcher(weasyprint, page), **kwargs}
    pdf: bytes = weasyprint.HTML(file_obj=io.BytesIO(page.data), **wanted).write_pdf()
    return pdf


def _import_weasyprint() -> Any:
    try:
        weasyprint = importlib.import_module("weasyprint")
        importlib.import_module("weasyprint.urls").URLFetcher  # noqa: B018
    except (ImportError, AttributeError):
        raise MissingDependencyError(
            'Reading web pages needs weasyprint, 68 or newer: pip install "mediatensor[html]".'
        ) from None
    return weasyprint


def _local_fetcher(weasyprint: Any, page: str) -> Any:
    """Return the URL fetcher for a local file ``page``. It lets the page load only itself and ``data:`` URLs."""

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:" or url == page:
                return super().fetch(url, headers)
            raise InvalidArgumentError(
                f"{url[:200]!r} is not read for {page}; pass a url_fetcher if you trust the page."
            )

    return Fetcher()


def _fetcher(weasyprint: Any, page: Fetched) -> Any:
    """Return the URL fetcher for a web page. It lets the page load images and styles only from web servers.

    ``data:`` URLs are also allowed. A page that was fetched by https can load nothing by http.
    """
    schemes = ("https",) if web_scheme(page.url) == "https" else ("https", "http")

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:":
                return super().fetch(url, headers)
            if web_scheme(url) not in schemes:
                raise InvalidArgumentError(f"{url[:200]!r} is not fetched for {page.url}: it is not {schemes[-1]}.")
            response = fetch(url)
            kind = response.content_type + (f"; charset={response.charset}" if response.charset else "")
            return weasyprint.urls.URLFetcherResponse(response.url, response.data, {"Content-Type": kind})

    return Fetcher()
