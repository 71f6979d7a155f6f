"""Fetch byte ranges of a file on an HTTP server, or the whole file. Every response is checked.

`HttpRanges` keeps one connection alive. It replaces FFmpeg's own HTTP protocol, which has three drawbacks. FFmpeg
requests all bytes from a position to the end of the file, and closes the connection when it has enough; on a fast
network, the server has sent megabytes by then. FFmpeg does not notice if the file changes between two requests. And it
does not give access to the bytes.
"""

from __future__ import annotations

import email.message
import functools
import http.client
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

from ...errors import InvalidArgumentError, OpenError, SourceNotFoundError

# Time limit for connecting, and for waiting for data.
TIMEOUT_SECONDS = 30.0
# A server that sends less is treated as not responding.
_MIN_BYTES_PER_SECOND = 10_000
_MAX_REDIRECTS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PORTS = {"http": 80, "https": 443}
_CONTENT_RANGE = re.compile(r"^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$")
_WEB = re.compile(r"(https?)://", re.IGNORECASE)
# The HTTP statuses "not found" and "gone".
NOT_THERE = frozenset((404, 410))
_NUMBERED = re.compile(r"%\d*d\.\w+$")
_PLAYLISTS = (".m3u8", ".m3u", ".mpd")
_CHUNK_BYTES = 1 << 18
# Characters that a URL may contain unescaped. "%" is included because some characters are escaped already.
_URL_CHARACTERS = "%/:=&?~+!$,;'@()*[]"


class HttpError(Exception):
    """A request failed. ``status`` is the HTTP status, or ``None`` if there was no valid response."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NotAFileError(HttpError):
    """The response is not the content of a file, or does not state the size of the file."""


class FileChangedError(HttpError):
    """The file on the server has changed: its version is not the expected one."""


class FileVersion(NamedTuple):
    """The size and the tag of a file. If either changes, the file has changed."""

    size: int
    tag: str | None  # the server's ETag or, if there is none, the time of the last change


def is_plain_http(url: str) -> bool:
    """Return whether plain GET requests can read a URL: it has no password, proxy or pattern for several files."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme.lower() not in _PORTS or not host or "@" in parts.netloc:
        return False
    has_proxy = parts.scheme.lower() in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
    return not has_proxy and _NUMBERED.search(parts.path) is None


class HttpRanges:
    """Fetches byte ranges of one file on an HTTP server. `is_plain_http` must be true for ``url``.

    ``version`` is the version of the file that an earlier `HttpRanges` object found. If the file now has another
    version, requests fail.
    """

    def __init__(self, url: str, version: FileVersion | None = None) -> None:
        self._original_url = self._url = url
        self._connection: http.client.HTTPConnection | None = None
        self._origin: tuple[str, str, int] | None = None
        self._process = os.getpid()
        self.version = version
        # Used if the server does not support ranges: a response with the whole file, and the read position in it.
        self._has_parts = self._sends_whole_file = False
        self._whole: http.client.HTTPResponse | None = None
        self._whole_position = 0

    @property
    def size(self) -> int:
        """The file's size in bytes, known after the first `fetch`."""
        assert self.version is not None
        return self.version.size

    def fetch(self, start: int, stop: int) -> bytes:
        """Return bytes [start, stop) of the file. Fewer bytes are returned only if the file ends before ``stop``.

        Raises `HttpError` if the server does not return these bytes or has another version of the file, and
        `NotAFileError` if the response does not state its range and the size of the file.
        """
        if self._process != os.getpid():  # the connection belongs to the parent
            self._connection, self._whole, self._process = None, None, os.getpid()
        try:
            return self._fetch_with_second_try(start, stop)
        except BaseException as error:
            self.close()  # the state of the connection is unknown
            if isinstance(error, (OSError, http.client.HTTPException, UnicodeError)):
                raise HttpError(_describe_error(error)) from error
            raise

    def _fetch_with_second_try(self, start: int, stop: int) -> bytes:
        try:
            return self._fetch_once(start, stop)
        except (TimeoutError, ssl.SSLError, http.client.InvalidURL):
            raise
        except (OSError, http.client.HTTPException):
            self.close()  # a server may close an idle connection
        except HttpError as error:
            if error.status is None or self._url == self._original_url:
                raise
            self._url = self._original_url  # the target of a redirection may have expired
        return self._fetch_once(start, stop)

    def _fetch_once(self, start: int, stop: int) -> bytes:
        if self._sends_whole_file:
            return self._fetch_from_whole(start, stop)
        response = self._request({"Range": f"bytes={start}-{stop - 1}"})
        if response.status == 200 and not self._has_parts:
            self._sends_whole_file = True
            self._begin_whole(response)
            return self._fetch_from_whole(start, stop)
        num_bytes = self._check_part(response, start, stop)
        data = self._read_body(response, num_bytes)
        if response.length == 0:
            response.read()  # lets the connection be used again
        if not response.isclosed():
            self.close()
        return data

    def _fetch_from_whole(self, start: int, stop: int) -> bytes:
        """Return bytes [start, stop) from a server that can only send whole files. A step back makes a new request."""
        if self._whole is None or start < self._whole_position:
            self.close()
            self._begin_whole(self._request({}))
        assert self._whole is not None
        while self._whole_position < start:
            self._read_whole(min(start - self._whole_position, _CHUNK_BYTES))
        return self._read_whole(min(stop, self.size) - start)

    def _begin_whole(self, response: http.client.HTTPResponse) -> None:
        if response.status != 200:
            raise self._status_error(response)
        self._check_encoding(response)
        if response.length is None:
            raise NotAFileError("the server does not say how long the file is", response.status)
        self._remember_version(response, response.length)
        self._whole, self._whole_position = response, 0

    def _read_whole(self, num_bytes: int) -> bytes:
        assert self._whole is not None
        data = self._read_body(self._whole, num_bytes)
        self._whole_position += num_bytes
        return data

    # One request

    def _request(self, headers: dict[str, str]) -> http.client.HTTPResponse:
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._send(headers)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or location is None:
                return response
            self.close()
            # Header fields are read as Latin-1, so this gives back the bytes of an address with other characters.
            location = urllib.parse.quote(location, _URL_CHARACTERS + "#", encoding="latin-1")
            target = urllib.parse.urljoin(self._url, location)
            if not is_plain_http(target):
                raise NotAFileError(f"it is redirected to {target[:200]!r}", response.status)
            self._url = target
        raise HttpError(f"there are more than {_MAX_REDIRECTS} redirections, the last one to {self._url[:200]!r}")

    def _send(self, headers: dict[str, str]) -> http.client.HTTPResponse:
        parts = urllib.parse.urlsplit(self._url)
        scheme = parts.scheme.lower()
        origin = (scheme, parts.hostname or "", parts.port or _PORTS[scheme])
        if self._connection is None or origin != self._origin:
            self.close()
            self._connection, self._origin = _connect(*origin), origin
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request(
            "GET",
            urllib.parse.quote(target, _URL_CHARACTERS),
            headers={"User-Agent": "mediatensor", "Accept-Encoding": "identity", **headers},
        )
        return self._connection.getresponse()

    def _check_part(self, response: http.client.HTTPResponse, start: int, stop: int) -> int:
        if response.status != 206:
            raise self._status_error(response)
        self._check_encoding(response)
        match = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if match is None:
            raise NotAFileError("the server does not say which part of the file it sends", response.status)
        first, last, size = map(int, match.groups())
        if (first, last + 1) != (start, min(stop, size)):
            raise NotAFileError(
                f"the server sent bytes {first} to {last} of {size} instead of {start} to {stop - 1}", response.status
            )
        self._remember_version(response, size)
        self._has_parts = True
        return last + 1 - first

    def _check_encoding(self, response: http.client.HTTPResponse) -> None:
        """Raise if the response is compressed, because compressed bytes can only be read in order, without seeking.

        For a playlist, the error is `NotAFileError`. The caller then leaves the URL to FFmpeg, which reads playlists
        once, from their start. For all other files, the error is `HttpError`, because FFmpeg could try to seek in
        these files forever.
        """
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding == "identity":
            return
        message = f"the server sends it with Content-Encoding {encoding[:40]!r}; turn this off for media files"
        is_playlist = urllib.parse.urlsplit(self._url).path.lower().endswith(_PLAYLISTS)
        raise (NotAFileError if is_playlist else HttpError)(message, response.status)

    def _status_error(self, response: http.client.HTTPResponse) -> HttpError:
        return HttpError(f"the server answered {response.status} {response.reason[:80]}".rstrip(), response.status)

    def _remember_version(self, response: http.client.HTTPResponse, size: int) -> None:
        version = FileVersion(size, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        if self.version not in (None, version):
            raise FileChangedError(f"the file has changed since it was opened (from {self.version} to {version})")
        self.version = version

    def _read_body(self, response: http.client.HTTPResponse, num_bytes: int) -> bytes:
        deadline = time.monotonic() + TIMEOUT_SECONDS + num_bytes / _MIN_BYTES_PER_SECOND
        body = bytearray()
        while len(body) < num_bytes:
            chunk = response.read1(min(num_bytes - len(body), _CHUNK_BYTES))
            if not chunk:
                raise http.client.IncompleteRead(b"", num_bytes - len(body))
            body += chunk
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(body)} of {num_bytes} bytes came in time")
        return bytes(body)

    def close(self) -> None:
        """Close the connection. The next `fetch` connects again."""
        self._whole = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connect(scheme: str, host: str, port: int) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=_tls_context())
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# Whole files


class Download(NamedTuple):
    """A file from a web server, and what the server says about it.

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


def download(url: str, max_bytes: int) -> Download:
    """Download a whole file, also through a proxy, and from servers that do not state its size.

    A redirection from https to http is not followed. Raises `SourceNotFoundError` if the file does not exist, and
    `OpenError` if it cannot be downloaded or has more than ``max_bytes``.
    """
    if web_scheme(url) is None:
        raise InvalidArgumentError(f"url = {url!r} should be a str that begins with https:// or http://.")
    try:
        with _opener().open(urllib.parse.quote(url, _URL_CHARACTERS + "#"), timeout=TIMEOUT_SECONDS) as response:
            data = _read_all(response, max_bytes)
            headers = response.headers
            return Download(response.geturl(), data, headers.get_content_type(), headers.get_content_charset())
    except urllib.error.HTTPError as error:
        error.close()
        kind = SourceNotFoundError if error.code in NOT_THERE else OpenError
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


def _read_all(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"it is compressed ({encoding[:40]!r}), although the request excluded that")
    body = bytearray()
    begin = time.monotonic()
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            raise ValueError(f"it has more than the {max_bytes} bytes that are accepted")
        if time.monotonic() - begin > TIMEOUT_SECONDS + len(body) / _MIN_BYTES_PER_SECOND:
            raise TimeoutError(f"only {len(body)} bytes arrived in time")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(body)


# Other file systems


# Keys in fsspec's file information: size, time of the last change, and tags or checksums of the content.
_VERSION_FACTS = (
    "size", "mtime", "modified", "last_modified", "LastModified", "updated", "ETag", "etag", "e_tag", "generation",
    "content_md5", "md5Hash", "md5", "checksum",
)  # fmt: skip


def has_ranges(file_system: Any) -> bool:
    """Return whether an fsspec file system can fetch a byte range of a file with one request.

    A file system that cannot do this opens the file and seeks for every range. In a compressed archive, that means
    reading everything before the range. The result is also ``False`` for file systems that keep local copies, because
    they fetch missing data only when they open a file.
    """
    from fsspec.implementations.cached import CachingFileSystem
    from fsspec.spec import AbstractFileSystem

    if isinstance(file_system, CachingFileSystem):
        return False
    # Asynchronous file systems set their synchronous methods on the instance.
    return "cat_file" in vars(file_system) or type(file_system).cat_file is not AbstractFileSystem.cat_file


def facts_of_version(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return those of fsspec's ``facts`` about a file that change when it changes, such as its size and its ETag."""
    return tuple((name, str(facts[name])) for name in _VERSION_FACTS if facts.get(name) is not None)


class FsspecRanges:
    """Fetches byte ranges of one file with fsspec. `has_ranges` must be true for ``file_system``."""

    def __init__(self, file_system: Any, path: str) -> None:
        self._file_system = file_system
        self._path = path

    def fetch(self, start: int, stop: int) -> bytes:
        return bytes(self._file_system.cat_file(self._path, start=start, end=stop))

    def close(self) -> None:
        """Do nothing, because fsspec itself keeps the connections open until the process ends."""
