"""Shared by tests of the service: a server in a separate process, and a badly behaved client."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
BOUNDARY = uuid.uuid4().hex
FORM = f"multipart/form-data; boundary={BOUNDARY}"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server(NamedTuple):
    """A running ``mediatensor serve``."""

    process: subprocess.Popen[str]
    port: int
    folder: Path

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request, and its answer; ``x_client`` is the header X-Client."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, file: bytes, name: str = "file", client: str = "", **options: object) -> Answer:
        """A form with a file."""
        return self.ask("POST", path, form(file, name, **options), content_type=FORM, x_client=client)

    def raw(self, data: bytes) -> socket.socket:
        """A connection to which something was written."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(data)
        return connection

    def uploads(self) -> list[Path]:
        """The folders of jobs on disk."""
        return list(self.folder.glob("*/run-*/job-*"))

    def children(self) -> set[int]:
        """Its processes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        threads = Path(f"/proc/{self.process.pid}/task").iterdir() if path.exists() else []
        return {int(pid) for thread in threads for pid in (thread / "children").read_text().split()}


def form(file: bytes, name: str, **options: object) -> bytes:
    parts = [f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in options.items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + file)
    return b"".join(b"--%b\r\n%b\r\n" % (BOUNDARY.encode(), part) for part in parts) + b"--%b--\r\n" % BOUNDARY.encode()


def command_with_forks(*arguments: str) -> list[str]:
    """The ``mediatensor`` command, whose isolated processes are forks: new ones spend two seconds on imports."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import forked_isolation as forked"
    return [sys.executable, "-c", f"{program}; forked.run_command()", *arguments]


@contextmanager
def serving(
    folder: Path, *options: str, token: str | None = None, errors: Path | None = None, forks: bool = True
) -> Iterator[Server]:
    """A server at a free port; it is asked to stop in the end, if it was not killed. Its log goes to ``errors``."""
    arguments = ["serve", "--port", "0", "--folder", str(folder), *options]
    command = command_with_forks(*arguments) if forks else [sys.executable, "-m", "mediatensor", *arguments]
    environment = dict(os.environ)
    if token is not None:
        environment["MEDIATENSOR_TOKEN"] = token
    with (
        open(errors or os.devnull, "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            yield Server(process, int(line.rstrip("/\n").rpartition(":")[2]), folder)
        finally:
            process.terminate()
            process.wait(60)
