"""Running the application with uvicorn, with limits of connections and of time."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MAX_CONNECTIONS", "MAX_CONNECTIONS_OF_ONE", "make_server"]

#: Most connections, of all clients together, and of one address that is not this machine.
MAX_CONNECTIONS = 256
MAX_CONNECTIONS_OF_ONE = 64

# A client has so long for the head of a request, and so long between two requests.
_HEAD_SECONDS = 15.0
_KEEP_ALIVE_SECONDS = 5
_MAX_HEAD_BYTES = 32 << 10
_SHUTDOWN_SECONDS = 3
_LOOPBACK = ("127.0.0.1", "::1")


class _Protocol(H11Protocol):
    """A connection that is closed if there are too many, or the head of a request takes too long."""

    head_seconds: float
    max_connections: int
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        num_own = sum(1 for other in self.connections if _address(other) == address)
        is_one_of_many = num_own > MAX_CONNECTIONS_OF_ONE and address not in _LOOPBACK
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


def make_server(
    app: FastAPI, host: str, port: int, head_seconds: float | None = None, max_connections: int | None = None
) -> Server:
    """The server of an application; ``run()`` serves until it is told to stop."""
    limits = {"head_seconds": head_seconds or _HEAD_SECONDS, "max_connections": max_connections or MAX_CONNECTIONS}
    return Server(
        Config(
            app,
            host=host,
            port=port,
            http=type("Protocol", (_Protocol,), limits),
            ws="none",
            lifespan="on",
            log_config=None,
            # Addresses have tokens and the names of jobs in them.
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        )
    )
