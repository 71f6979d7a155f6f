"""A web server on this machine that serves a folder by ranges, counts its answers, and can misbehave."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["RangeServer", "serve"]


@dataclass
class RangeServer:
    """The behaviour of the server, and its record.

    Attributes:
        fault: ``None``, a status to answer with, or one of "ignore ranges", "no length", "truncate", "stall",
            "trickle", "wrong range", "no range", "other tag", "encoded", "hang up", "hang up once", "endless redirect".
        paths: That were asked for.
        requests: The (start, stop) that were asked for; ``None`` for a request of a whole file.
        num_bytes: Sent in bodies.
        num_connections: That were accepted.
    """

    folder: Path
    url: str = ""
    fault: str | int | None = None
    paths: list[str] = field(default_factory=list)
    requests: list[tuple[int, int] | None] = field(default_factory=list)
    num_bytes: int = 0
    num_connections: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        self.requests, self.num_bytes, self.num_connections = [], 0, 0


@contextmanager
def serve(folder: Path) -> Iterator[RangeServer]:
    """Serve the files of ``folder``; ``/moved/NAME`` redirects to ``/NAME``."""
    state = RangeServer(folder)

    class Handler(_Handler):
        server_state = state

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that hang up are expected."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: RangeServer

    def setup(self) -> None:
        super().setup()
        self.server_state.num_connections += 1

    def log_message(self, *_: object) -> None:
        """Silence."""

    def do_GET(self) -> None:
        state, fault = self.server_state, self.server_state.fault
        state.paths.append(self.path)
        if fault == "stall":
            state.stopped.wait()
        if fault in ("hang up", "hang up once"):
            state.fault = None if fault == "hang up once" else fault
            self.close_connection = True
            return
        if fault == "endless redirect" or self.path.startswith("/moved/"):
            self._answer(302, {"Location": self.path.removeprefix("/moved"), "Content-Length": "0"})
            return
        path = state.folder / self.path.lstrip("/").partition("?")[0]
        if isinstance(fault, int) or not path.is_file():
            self._answer(fault if isinstance(fault, int) else 404, {"Content-Length": "0"})
            return
        self._send_file(path.read_bytes())

    def _send_file(self, content: bytes) -> None:
        state, fault = self.server_state, self.server_state.fault
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if fault == "no length":
            self.close_connection = True
            self._answer(200, {})
            self._send_body(content)
            return
        if match is None or fault == "ignore ranges":
            state.requests.append(None)
            self._answer(200, {"Content-Length": str(len(content))})
            self._send_body(content)
            return
        start, stop = int(match[1]), min(int(match[2] or len(content)) + 1, len(content))
        state.requests.append((start, stop))
        if start >= len(content):
            self._answer(416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
            return
        body = content[start:stop]
        shift = 1 if fault == "wrong range" else 0
        headers = {
            "Content-Range": f"bytes {start + shift}-{stop - 1 + shift}/{len(content)}",
            "Content-Length": str(len(body)),
            "ETag": '"second"' if fault == "other tag" else '"first"',
        }
        if fault == "no range":
            del headers["Content-Range"]
        if fault == "encoded":
            headers["Content-Encoding"] = "gzip"
        self._answer(206, headers)
        self._send_body(body)

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_body(self, body: bytes) -> None:
        state, fault = self.server_state, self.server_state.fault
        if fault == "truncate":
            body = body[: len(body) // 2]
            self.close_connection = True
        step = 1 if fault == "trickle" else 1 << 16
        for start in range(0, len(body), step):
            piece = body[start : start + step]
            state.num_bytes += len(piece)
            self.wfile.write(piece)
            if fault == "trickle" and state.stopped.wait(0.05):
                return
