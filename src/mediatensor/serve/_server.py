"""A uvicorn server for the application, with limits for connections.

It limits the number of connections, and the time in which the headers of a request must arrive.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from ._errors import stopping_error
from ._guard import error_answer
from ._settings import LOOPBACK

#: Largest number of connections: in total, and from one address other than this machine.
MAX_CONNECTIONS = 256
MAX_CONNECTIONS_OF_ONE = 64

# Time limits in seconds: for the head of a request, and between two requests of the same connection.
_HEAD_SECONDS = 15.0
_KEEP_ALIVE_SECONDS = 5
_MAX_HEAD_BYTES = 32 << 10
_SHUTDOWN_SECONDS = 3


class _Protocol(H11Protocol):
    """A connection to a client.

    If there are too many connections, a new one is closed at once. A connection is also closed if the headers of a
    request do not arrive within ``head_seconds``.
    """

    head_seconds: float
    max_connections: int
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        num_own = sum(1 for other in self.connections if _address(other) == address)
        is_one_of_many = num_own > MAX_CONNECTIONS_OF_ONE and address not in LOOPBACK
        if len(self.connections) > self.max_connections or is_one_of_many:
            transport.abort()
            return
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            if self._head_timer is None:
                self._start_timer()
        else:
            self._stop_timer()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _address(protocol: Any) -> str:
    client = getattr(protocol, "client", None)
    return client[0] if client else ""


class _Server(Server):
    """A server that starts and stops the application itself, and raises an error if the application fails to start.

    uvicorn's own server only logs such an error.
    """

    def __init__(self, app: FastAPI, config: Config, when_started: Callable[[], object]) -> None:
        super().__init__(config)
        self._app = app
        self._when_started = when_started
        self._running = AsyncExitStack()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._running.enter_async_context(self._app.router.lifespan_context(self._app))
            await super().startup(sockets)
            self._when_started()
        except BaseException:
            await self._running.aclose()
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Send an error response now to clients that wait for jobs.
        if (service := getattr(self._app.state, "service", None)) is not None:
            service.stop()
        await super().shutdown(sockets)
        if self.server_state.tasks:  # requests that are being cancelled
            await asyncio.wait(self.server_state.tasks, timeout=1)
        await self._running.aclose()


def _answer_cancelled(app: ASGIApp) -> ASGIApp:
    """Wrap the application so that clients get an error response if the server stops and cancels their requests."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await app(scope, receive, note_and_send)
        except asyncio.CancelledError:
            if not has_begun:
                await error_answer(stopping_error())(scope, receive, send)

    return answer


def make_server(
    app: FastAPI,
    host: str,
    port: int,
    *,
    head_seconds: float = _HEAD_SECONDS,
    max_connections: int = MAX_CONNECTIONS,
    when_started: Callable[[], object] = lambda: None,
) -> Server:
    """Return a server for an application, whose method ``run()`` serves until a signal stops the process.

    ``head_seconds`` is the maximum time for receiving the headers of a request, and ``max_connections`` the maximum
    number of open connections. ``when_started`` is called when the server starts to accept requests.
    """
    limits = {"head_seconds": head_seconds, "max_connections": max_connections}
    return _Server(
        app,
        Config(
            _answer_cancelled(app),
            host=host,
            port=port,
            http=type("Protocol", (_Protocol,), limits),
            ws="none",
            lifespan="off",  # _Server runs the lifespan
            log_config=None,
            # URLs contain tokens and identifiers of jobs, which must not be logged.
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        ),
        when_started,
    )
