"""Attack a service from one address while another address uses it.

``python -m benchmarks.apps.serve_attack --minutes 10``.

The attacker sends slow uploads with large announced sizes, useless jobs under many names, forms with repeated fields,
long queries, and requests for images that it does not read. The other client sends the same page repeatedly, and at the
end fetches a result from before the attack. Each has its own local address (127.0.0.2 and 127.0.0.3).
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import socket
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from ..shared.workers import running_service

ATTACKER, CLIENT = "127.0.0.2", "127.0.0.3"
_BOUNDARY = "-" * 20
_NUM_SLOW_UPLOADS = 40
_NUM_UNREAD_PICTURES = 40
_LOOK_SECONDS = 0.5


@dataclass
class Outcome:
    """The outcome of an attack.

    Attributes:
        num_read: Pages read for the other client.
        refused: Statuses of its refused requests.
        longest_seconds: Its longest wait for a page.
        keeps_result: Whether its result from before the attack still exists at the end.
        num_attacks: Answered requests of the attacker.
        peak_stored_bytes: Peak bytes in the folder of the service.
        peak_memory_bytes: Peak memory of the process that answers requests.
    """

    num_read: int = 0
    refused: list[int] = field(default_factory=list)
    longest_seconds: float = 0.0
    keeps_result: bool = False
    num_attacks: int = 0
    peak_stored_bytes: int = 0
    peak_memory_bytes: int = 0


def attack(port: int, pid: int, folder: Path, seconds: float, announced_bytes: int) -> Outcome:
    """Attack a local service.

    Args:
        port: Its port.
        pid: Its process.
        folder: The folder of its uploads and results.
        seconds: Duration.
        announced_bytes: Size that slow uploads announce.
    """
    outcome, stop = Outcome(), threading.Event()
    page = _page("Invoice 2048")
    before = _post(port, CLIENT, "/jobs", page)
    job = json.loads(before.body)["id"]
    while json.loads(_ask(port, CLIENT, "GET", f"/jobs/{job}").body)["state"] in ("queued", "running"):
        time.sleep(_LOOK_SECONDS)

    def repeat(work: Any) -> None:
        while not stop.is_set():
            with suppress(OSError, http.client.HTTPException):
                work()
                outcome.num_attacks += 1

    works = [
        lambda: _slow_upload(port, announced_bytes, stop),
        lambda: [_post(port, ATTACKER, "/jobs", b"x", client=str(number)) for number in range(50)],
        lambda: _post(port, ATTACKER, "/jobs", _page("noise"), client=str(time.monotonic_ns())),
        lambda: _repeated_fields(port),
        lambda: _ask(port, ATTACKER, "GET", "/?token=x" + "&a" * 5000),
        lambda: _unread_pictures(port, stop),
    ]
    counts = (_NUM_SLOW_UPLOADS, 2, 1, 1, 1, 1)
    threads = [
        threading.Thread(target=repeat, args=(work,), daemon=True)
        for work, count in zip(works, counts, strict=True)
        for _ in range(count)
    ]
    threads.append(threading.Thread(target=_watch, args=(outcome, pid, folder, stop), daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        answer = _post(port, CLIENT, "/ocr", page)
        outcome.longest_seconds = max(outcome.longest_seconds, time.monotonic() - begin)
        if answer.status == 200 and b"2048" in answer.body:
            outcome.num_read += 1
        else:
            outcome.refused.append(answer.status)
    outcome.keeps_result = b"2048" in _ask(port, CLIENT, "GET", f"/jobs/{job}/result").body
    stop.set()
    for thread in threads:
        thread.join(30)
    return outcome


@dataclass
class _Answer:
    status: int
    body: bytes


def _ask(port: int, address: str, method: str, path: str, body: Any = None, **headers: str) -> _Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300, source_address=(address, 0))
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return _Answer(answer.status, answer.read())
    finally:
        connection.close()


def _post(port: int, address: str, path: str, file: bytes, client: str = "") -> _Answer:
    part = b'Content-Disposition: form-data; name="file"; filename="page.png"\r\n\r\n' + file
    body = b"--%b\r\n%b\r\n--%b--\r\n" % (_BOUNDARY.encode(), part, _BOUNDARY.encode())
    return _ask(port, address, "POST", path, body, content_type=_kind(), x_client=client)


def _kind() -> str:
    return f"multipart/form-data; boundary={_BOUNDARY}"


def _page(text: str) -> bytes:
    image = Image.new("RGB", (480, 120), "white")
    ImageDraw.Draw(image).text((30, 30), text, fill="black", font_size=40)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(ATTACKER, 0))


def _slow_upload(port: int, announced_bytes: int, stop: threading.Event) -> None:
    head = f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: {_kind()}\r\n"
    head += f"Content-Length: {announced_bytes}\r\n\r\n"
    with _connect(port) as connection:
        connection.sendall(head.encode() + b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
                           % _BOUNDARY.encode())  # fmt: skip
        while not stop.wait(1):
            connection.sendall(b"x" * 100)


def _repeated_fields(port: int) -> None:
    part = b'--%b\r\nContent-Disposition: form-data; name="pages"\r\n\r\n%b\r\n' % (_BOUNDARY.encode(), b"1" * 10_000)
    body = iter([part] * 2000)  # in chunks, without a length
    _ask(port, ATTACKER, "POST", "/jobs", body, content_type=_kind(), transfer_encoding="chunked")


def _unread_pictures(port: int, stop: threading.Event) -> None:
    job = json.loads(_post(port, ATTACKER, "/jobs", _page("picture"), client="pictures").body).get("id")
    if job is None or stop.wait(2):
        return
    request = f"GET /jobs/{job}/pages/0.png?max_width=4096 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    connections = [_connect(port) for _ in range(_NUM_UNREAD_PICTURES)]
    for connection in connections:
        connection.sendall(request)
    stop.wait(10)
    for connection in connections:
        connection.close()


def _watch(outcome: Outcome, pid: int, folder: Path, stop: threading.Event) -> None:
    while not stop.wait(_LOOK_SECONDS):
        num_bytes = 0
        with suppress(OSError):  # files come and go
            for path in folder.rglob("*"):
                num_bytes += path.stat().st_size if path.is_file() else 0
        outcome.peak_stored_bytes = max(outcome.peak_stored_bytes, num_bytes)
        with suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            outcome.peak_memory_bytes = max(outcome.peak_memory_bytes, pages * 4096)


def main() -> None:
    """Start a service with the limits of the documentation, attack it, and print the outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the attack (default 10)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_service(folder) as (port, pid):
        outcome = attack(port, pid, Path(folder), 60 * args.minutes, 1 << 30)
    print(json.dumps(asdict(outcome), indent=1))


if __name__ == "__main__":
    main()
