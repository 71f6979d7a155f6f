"""A file as every kind of source, and a file object with only the methods for reading."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch


class BareFile:
    """A file object with only the methods for reading, at most so many bytes each time; it counts them."""

    def __init__(self, file: BinaryIO, *, most: int = sys.maxsize) -> None:
        self._file = file
        self._most = most
        self.num_bytes = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._most))
        self.num_bytes += len(data)
        return data

    def seek(self, offset: int, whence: int) -> int:
        return self._file.seek(offset, whence)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "path": Path,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "tensor": lambda path: torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8),
    "bytesio": lambda path: io.BytesIO(path.read_bytes()),
    "buffered file": lambda path: path.open("rb"),
    "raw file": lambda path: path.open("rb", buffering=0),
    "minimal object": lambda path: BareFile(io.BytesIO(path.read_bytes())),
    "short reads": lambda path: BareFile(io.BytesIO(path.read_bytes()), most=1000),
    "url": lambda path: f"file:{path}",
}
