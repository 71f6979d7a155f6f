"""A file inside a tar archive as a source of media, read where it lies."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Never

from .._readers import Reader
from .._source import Source
from ..errors import OpenError, ReadError, SourceNotFoundError

__all__ = ["TarMember", "UnreadableSource"]


@dataclass(frozen=True)
class TarMember(Source):
    """A file in an uncompressed tar archive on this machine. Decoders read of it what they need, and no more.

    Picklable and small; nothing is open until a decoder opens it, and every opening has a descriptor of its own.

    Attributes:
        archive: Path of the archive.
        name: Of the member.
        offset: Where its bytes begin.
        size: How many there are.
    """

    archive: str
    name: str
    offset: int
    size: int

    def open(self) -> Reader:
        """A reader of the member.

        Raises:
            SourceNotFoundError: if the archive is gone.
            OpenError: if the member is empty, or the archive cannot be opened.
            ReadError: if the archive is shorter than it was when it was indexed.
        """
        if self.size == 0:
            raise OpenError(f"Could not open {self.describe()}: it is empty.")
        try:
            file = io.FileIO(self.archive)
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.archive} does not exist.") from None
        except OSError as error:
            raise OpenError(f"Could not open input file: {self.archive} ({error}).") from None
        if os.fstat(file.fileno()).st_size < self.offset + self.size:
            file.close()
            raise ReadError(f"{self.archive} is shorter than when it was indexed; make new TarItems of it.")
        return _MemberReader(file, self)

    def open_bytes(self) -> Reader:
        """The same as `open`."""
        return self.open()

    def describe(self) -> str:
        return f"{self.archive}/{self.name}"


class _MemberReader(Reader):
    """Reads a part of a file by position, so that the offset of a forked process does not matter."""

    def __init__(self, file: io.FileIO, member: TarMember) -> None:
        super().__init__()
        self._file = file
        self._member = member

    def _size(self) -> int:
        return self._member.size

    def _read_at(self, position: int, size: int) -> bytes:
        size = max(0, min(size, self._member.size - position))
        try:
            return os.pread(self._file.fileno(), size, self._member.offset + position)
        except (OSError, ValueError) as error:
            raise ReadError(
                f"Reading {size} bytes at {position} of {self._member.describe()} failed: {error}."
            ) from error

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class UnreadableSource(Source):
    """Stands for what cannot be read, so that it fails where the error policy of a dataset sees it.

    Attributes:
        reason: The message of the error.
    """

    reason: str

    def open(self) -> Never:
        """Say why it cannot be read.

        Raises:
            ReadError: always.
        """
        raise ReadError(self.reason)

    def describe(self) -> str:
        return self.reason
