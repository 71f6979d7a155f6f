"""Access control: check the host name, origin and token of every request before it is processed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ._errors import ServeError, describe_error
from ._settings import Settings

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_COOKIE = "mediatensor_token"

_CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# After an early response, the rest of the request is read and discarded, within these limits. Otherwise, a client that
# is still sending would not see the response.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 << 20
# If the client does not read its response for this time, its connection is closed.
_UNREAD_SECONDS = 60.0


# The page for a browser without the token. Stylesheets and scripts would need the token, so the page has none.
_ASK_FOR_TOKEN = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>mediatensor</title>
</head>
<body>
  <h1>This server asks for its token</h1>
  <p>Open the address that it printed when it was started, or give the token here.</p>
  <form action="./" method="get">
    <p><label>Token <input type="password" name="token" autocomplete="off" required autofocus></label>
    <button type="submit">Open</button></p>
  </form>
</body>
</html>
"""


def error_answer(error: ServeError) -> Response:
    return JSONResponse({"error": describe_error(error)}, error.status, error.headers)


class Guard:
    """Middleware that refuses unauthorised requests, and adds security headers to all responses."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._token = None if settings.token is None else settings.token.encode()
        self._hosts = {*_LOOPBACK, *settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        exchange = _Exchange(receive, send, Headers(scope=scope))
        try:
            answer = self._first_answer(scope)
        except ServeError as error:
            answer = error_answer(error)
        await (answer or self._app)(scope, exchange.receive, exchange.send)

    def _first_answer(self, scope: Scope) -> Response | None:
        """Decide whether a request is admitted. Raise `ServeError` if it is refused, and return None if it is admitted.

        A browser can get a response here: a form that asks for the token or, if the URL has the right token, a redirect
        that sets a cookie.
        """
        headers = Headers(scope=scope)
        self._check_host(headers)
        _check_origin(headers)
        if self._token is None or scope["path"] == "/health":
            return None
        cookie = f"{_COOKIE}_{(scope.get('server') or ('', 0))[1]}"
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            given = _token_in(scope["query_string"])
            if hmac.compare_digest(given.encode(), self._token):
                answer = Response(status_code=303, headers={"Location": "./", "Cache-Control": "no-store"})
                answer.set_cookie(cookie, _cookie_value(self._token), httponly=True, samesite="strict")
                return answer
        elif self._has_token(headers, cookie):
            return None
        if scope["path"] == "/" and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return HTMLResponse(_ASK_FOR_TOKEN, 401, {"WWW-Authenticate": "Bearer"})
        raise ServeError(
            401,
            "Unauthorized",
            "This server asks for its token: send the header Authorization: Bearer TOKEN, or open /?token=TOKEN in a "
            "browser once.",
            {"WWW-Authenticate": "Bearer"},
        )

    def _has_token(self, headers: Headers, cookie: str) -> bool:
        assert self._token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token):
            return True
        with suppress(CookieError):
            morsel = SimpleCookie(headers.get("cookie", "")).get(cookie)
            return morsel is not None and hmac.compare_digest(
                morsel.value.encode(), _cookie_value(self._token).encode()
            )
        return False

    def _check_host(self, headers: Headers) -> None:
        """Raise `ServeError` if the request names an unknown host. This prevents DNS rebinding attacks."""
        name = _host_name(headers.get("host", ""))
        if name in self._hosts or (self._token is not None and _is_address(name)):
            return
        raise ServeError(
            403, "ForeignHost", f"This server is not called {name[:100]!r}; start it with --allow-host NAME."
        )


def _token_in(query: bytes) -> str:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=8).get("token", [""])[0]
    except ValueError:  # too many fields
        return ""


def _check_origin(headers: Headers) -> None:
    """Raise an error if a web page of another origin made the browser send this request, other than by a link."""
    origin = headers.get("origin")
    if origin is not None:
        with suppress(ValueError):
            parts = urlsplit(origin)
            if parts.scheme in ("http", "https") and parts.netloc.lower() == headers.get("host", "").lower():
                return
    elif headers.get("sec-fetch-site") in (None, "same-origin", "none"):
        return
    elif headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document":
        return  # the user followed a link
    raise ServeError(403, "ForeignOrigin", "Pages of other servers may not use this one.")


def _host_name(host: str) -> str:
    """Return the host name in a Host header, in lower case and without the port.

    >>> _host_name("Localhost:8000"), _host_name("[::1]:8000"), _host_name("example.org")
    ('localhost', '::1', 'example.org')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie_value(token: bytes) -> str:
    """Return the value of the login cookie, a hash of the token.

    It is not the token itself, because a browser also sends the cookie to other servers on the same host.
    """
    return hmac.new(token, b"mediatensor serve: the cookie of the page", hashlib.sha256).hexdigest()


class _Exchange:
    """Wraps the functions that receive a request and send its response.

    Security headers are added to the response. If the response is sent before the whole request has arrived, the rest
    of the request is received and discarded, up to a limit.
    """

    def __init__(self, receive: Receive, send: Send, headers: Headers) -> None:
        self._receive, self._send = receive, send
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        # A client that sends "Expect: 100-continue" has not sent its body yet.
        self._is_read = not has_body or "expect" in headers

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._is_read = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            if not self._is_read:
                headers["Connection"] = "close"
        elif message["type"] == "http.response.body" and not message.get("more_body", False) and not self._is_read:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        try:
            # If a client does not read, close its connection, because unsent data stay in memory.
            await asyncio.wait_for(self._send(message), _UNREAD_SECONDS)
        except TimeoutError:
            raise ConnectionAbortedError("The client does not read its answer.") from None

    async def _linger(self) -> None:
        num_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self._is_read and num_bytes < _LINGER_BYTES:
                    num_bytes += len((await self.receive()).get("body", b""))
