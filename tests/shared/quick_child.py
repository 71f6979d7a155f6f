"""An isolated process that starts at once, because it imports little: a replacement in tests of its parent.

It takes calls and answers in the same way, with plain JSON, and behaves like a compromised process on request.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import time
from pathlib import Path
from typing import Any

PROGRAM = """\
import sys
sys.path[:] = sys.argv[3:]
import quick_child
quick_child.serve(int(sys.argv[1]))
"""
HANGING_PROGRAM = "import time; time.sleep(1000)"

_HEADER = struct.Struct(">cQQ?")
_connection: list[socket.socket] = []


def serve(descriptor: int) -> None:
    _connection.append(socket.socket(fileno=descriptor))
    _read()
    send(message(b"R", b""))
    while True:
        call = _read()
        send(message(b"L", b""))
        function, arguments, keywords = pickle.loads(call)
        send(message(b"V", json.dumps(function(*arguments, **keywords)).encode()))


def message(kind: bytes, body: bytes) -> bytes:
    return _HEADER.pack(kind, len(body), 0, False) + body


def send(data: bytes) -> None:
    _connection[0].sendall(data)


def _read() -> bytes:
    _, num_body_bytes, num_bytes, _ = _HEADER.unpack(_exactly(_HEADER.size))
    return _exactly(num_body_bytes + num_bytes)


def _exactly(num_bytes: int) -> bytes:
    data = b""
    while len(data) < num_bytes:
        chunk = _connection[0].recv(num_bytes - len(data))
        if not chunk:
            raise SystemExit
        data += chunk
    return data


# Requested behaviour


def give(value: Any) -> Any:
    return value


def process_id(seconds: float = 0) -> int:
    time.sleep(seconds)
    return os.getpid()


def sleep_after_writing(pid_file: Path) -> None:
    pid_file.write_text(str(os.getpid()))
    time.sleep(1000)


def send_brackets(num_bytes: int) -> None:
    send(message(b"V", b"[" + b"[]," * (num_bytes // 3) + b"0]"))
    time.sleep(1000)


def send_and_sleep(data: bytes) -> None:
    send(data)
    time.sleep(1000)
