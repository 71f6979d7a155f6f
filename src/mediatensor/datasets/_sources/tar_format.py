"""Read the members of tar archives in order, and find the place of each member in the archive.

``tarfile.TarInfo`` of the standard library parses and checks the headers. The class ``tarfile.TarFile`` is not used,
for two reasons. First, it treats a damaged header as the end of the archive, so that all later members would silently
be lost. Second, it reads headers of any length into memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..._engine.sources.readers import LOCAL_BLOCK_BYTES, Reader
from ..._engine.sources.source import Source, SpanSource, make_source, stamp_of, url_scheme
from ...errors import OpenError, ReadError, SourceNotFoundError

#: Bytes of a tar header that holds a long name. A name of 4096 bytes, times and permissions take far less.
MAX_TAR_HEADER_BYTES = 1 << 20

_BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 20
# Types without data, even if the header states a size: links, devices, folders, pipes.
_WITHOUT_DATA = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip
_PLAIN_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_LINKS = (tarfile.LNKTYPE, tarfile.SYMTYPE)
_MAX_LINKS = 40  # like Linux
_SPARSE = "GNU.sparse"
# Undecodable bytes of a name stay visible, so that different names stay different.
_NAME_ENCODING = ("utf-8", "backslashreplace")


class Member(NamedTuple):
    """A file in an archive, with the position of its data; -1 for a link whose target cannot be found."""

    name: str
    offset: int
    size: int

    @property
    def is_broken_link(self) -> bool:
        return self.offset < 0


class TarReader:
    """Iterates over the files in an archive, in order.

    If the archive is damaged or has no end marker, the iteration raises ReadError.

    If a file is added to an archive twice, tar stores a hard link the second time. Links to files in the archive are
    followed, except in compressed archives and pipes, where the reader cannot seek back to the target. With
    ``can_seek``, the reader seeks to the next header instead of reading all data before it.
    """

    def __init__(self, file: io.BufferedIOBase, name: str, *, can_seek: bool = False) -> None:
        self._file = file
        self._name = name
        self._position = 0
        self._num_bytes = file.seek(0, os.SEEK_END) if can_seek else None
        if can_seek:
            file.seek(0)
        self._member: Member | None = None
        self._targets: dict[str, Member | str] | None = None

    def __iter__(self) -> Iterator[Member]:
        for member, target in self._entries():
            self._member = member if target is None else self._follow(member.name, target)
            yield self._member

    def _entries(self) -> Iterator[tuple[Member, str | None]]:
        """Yield (member, ``None``) for every file, and (member, name of the target) for every link."""
        common: dict[str, str] = {}  # records that apply to all later members
        own: dict[str, str] = {}  # records that apply to the next member
        link = ""
        while (header := self._header()) is not None:
            start = self._position
            if header.type == tarfile.GNUTYPE_LONGNAME:
                own["path"] = self._extended(header).split(b"\0", 1)[0].decode(*_NAME_ENCODING)
            elif header.type == tarfile.GNUTYPE_LONGLINK:
                link = self._extended(header).split(b"\0", 1)[0].decode(*_NAME_ENCODING)
            elif header.type == tarfile.XHDTYPE or header.type == tarfile.SOLARIS_XHDTYPE:
                own |= self._records(header)
            elif header.type == tarfile.XGLTYPE:
                common |= self._records(header)
            else:
                records, own = {**common, **own}, {}
                size = 0 if header.type in _WITHOUT_DATA else self._checked_size(header, records)
                if header.type in _PLAIN_FILES + _LINKS:
                    name = records.get("path", header.name).removeprefix("./")
                    target = None
                    if header.type in _LINKS:
                        target = records.get("linkpath", link or header.linkname).removeprefix("./")
                        if header.type == tarfile.SYMTYPE:
                            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                    link = ""
                    yield Member(name, start, size), target
                self._pass_to(start + _whole_blocks(size))
                continue
            self._pass_to(start + _whole_blocks(self._checked_size(header, {})))

    def _follow(self, name: str, target: str) -> Member:
        """Follow a link, and links at its target. Return a `Member` with the link's ``name`` and the file's place."""
        if isinstance(self._file, gzip.GzipFile | bz2.BZ2File) or not self._file.seekable():
            return Member(name, -1, 0)
        if self._targets is None:
            # A symbolic link may come before its target. Archives without links do not need this second pass.
            place = self._file.tell()
            self._file.seek(0)
            entries = TarReader(self._file, self._name, can_seek=True)._entries()
            self._targets = {member.name: member if link is None else link for member, link in entries}
            self._file.seek(place)
        end: Member | str | None = target
        for _ in range(_MAX_LINKS):
            if not isinstance(end, str):
                break
            end = self._targets.get(end)
        return end._replace(name=name) if isinstance(end, Member) else Member(name, -1, 0)

    def read(self, size: int) -> bytes:
        """Return the first ``size`` bytes of the member that the iteration has just yielded."""
        place, member = self._position, self._member
        if member is None or member.offset == place:
            return self._read_whole(size)
        self._file.seek(member.offset)
        try:
            return self._read_whole(size)
        finally:
            self._file.seek(place)
            self._position = place

    def _read_whole(self, size: int) -> bytes:
        parts = []
        while size:
            # Read in parts, because a header may state a size that the file does not have.
            part = self._read_some(min(size, _CHUNK_BYTES))
            if not part:
                raise self._damage("it ends within a file")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _header(self) -> tarfile.TarInfo | None:
        """Read the next header. At the end marker of the archive, return ``None``."""
        block = b""
        while len(block) < _BLOCK_BYTES and (part := self._read_some(_BLOCK_BYTES - len(block))):
            block += part
        if len(block) < _BLOCK_BYTES:
            raise self._damage("it ends without the end marker of tar archives: it was cut off, or never closed")
        if not any(block):
            return None
        try:
            return tarfile.TarInfo.frombuf(block, *_NAME_ENCODING)
        except tarfile.HeaderError as error:
            raise self._damage(f"there is no header of a file ({error})") from None

    def _checked_size(self, header: tarfile.TarInfo, records: dict[str, str]) -> int:
        if header.type == tarfile.GNUTYPE_SPARSE or _SPARSE in records:
            raise self._damage(
                f"{header.name!r} is stored as a sparse file, which is not supported. Use tar without -S"
            )
        text = records.get("size", str(header.size))
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise self._damage(f"{header.name!r} has a size of {text[:40]!r}")
        return int(text)

    def _records(self, header: tarfile.TarInfo) -> dict[str, str]:
        try:
            return _pax_records(self._extended(header))
        except ValueError as error:
            raise self._damage(str(error)) from None

    def _extended(self, header: tarfile.TarInfo) -> bytes:
        size = self._checked_size(header, {})
        if size > MAX_TAR_HEADER_BYTES:
            raise self._damage(f"a header has {size} bytes, more than the limit of {MAX_TAR_HEADER_BYTES}")
        return self._read_whole(size)

    def _pass_to(self, position: int) -> None:
        if self._num_bytes is not None:
            if position > self._num_bytes:
                raise self._damage("it ends within a file")
            if position != self._position:
                self._file.seek(position)
            self._position = position
            return
        while self._position < position:
            if not self._read_some(min(position - self._position, _CHUNK_BYTES)):
                raise self._damage("it ends within a file")

    def _read_some(self, size: int) -> bytes:
        try:
            part = self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise self._damage(f"reading failed ({error or type(error).__name__})") from error
        self._position += len(part)
        return part

    def _damage(self, reason: str) -> ReadError:
        return ReadError(f"The tar archive {self._name} is damaged at byte {self._position}: {reason}.")


def _whole_blocks(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _pax_records(data: bytes) -> dict[str, str]:
    """Parse an extended POSIX (pax) header, and return its records for the path, the link target and the size.

    A record is a length, a space, ``keyword=value`` and a line feed. The key ``GNU.sparse`` marks a sparse file.

    >>> _pax_records(b"14 path=b.mp4\\n")
    {'path': 'b.mp4'}
    """
    records: dict[str, str] = {}
    position = 0
    while position < len(data) and data[position]:
        length = data[position : position + 20].split(b" ", 1)[0]
        end = position + int(length) if length.isdigit() else position
        keyword, separator, value = data[position + len(length) + 1 : max(position, end - 1)].partition(b"=")
        if not separator or data[end - 1 : end] != b"\n":
            raise ValueError("an extended header has a malformed record")
        if keyword in (b"path", b"linkpath", b"size"):
            records[keyword.decode()] = value.decode(*_NAME_ENCODING)
        elif keyword.startswith(b"GNU.sparse."):
            records[_SPARSE] = ""
        position = end
    return records


@dataclass(frozen=True)
class TarMember(Source):
    """A file in an uncompressed tar archive, as a source to open. ``archive`` is a path or URL.

    The object is small and can be pickled. Each decoder that opens it gets its own file descriptor, and reads only the
    parts that it needs. Opening fails if the archive has changed since ``stamp``, a result of `stamp_of`. With
    ``None``, this is not checked.
    """

    archive: str
    name: str
    offset: int
    size: int
    stamp: tuple[int, int] | None = None

    def open(self) -> Reader:
        if self.size == 0:
            raise OpenError(f"Could not open {self.describe()}: it is empty.")
        if url_scheme(self.archive) is not None and not os.path.exists(self.archive):
            return SpanSource(make_source(self.archive), self.offset, self.offset + self.size).open()
        try:
            file = io.FileIO(self.archive)
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.archive} does not exist.") from None
        except OSError as error:
            raise OpenError(f"Could not open input file: {self.archive} ({error}).") from None
        is_changed = self.stamp is not None and self.stamp != stamp_of(file.fileno())
        if is_changed or os.fstat(file.fileno()).st_size < self.offset + self.size:
            file.close()
            raise ReadError(f"{self.archive} has changed since it was indexed; make new TarItems of it.")
        return _MemberReader(file, self)

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"{self.archive}/{self.name}"


class _MemberReader(Reader):
    # The file's current offset is not used, because processes share it after a fork.

    block_bytes = LOCAL_BLOCK_BYTES

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
