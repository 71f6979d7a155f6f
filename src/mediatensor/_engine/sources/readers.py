"""Readers: file objects from which the demuxer reads. They are not used for sources that FFmpeg opens itself.

Several handles can read one source at the same time, for example a scan and a decoder in two threads. Each of them has
its own reader, with its own position. `RangeCache` decides which ranges of a remote file to fetch.
"""

from __future__ import annotations

import io
import os
import stat
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from ...errors import MediaTensorError, ReadError, SourceTypeError
from ..common.checks import is_integer
from ..common.interrupts import call_of_user
from ..common.locks import ForkSafeLock

BLOCK_BYTES = 1 << 16
# On any network, an additional request takes longer than fetching this many bytes.
MIN_REQUEST_BYTES = 1 << 17
# Twice this value would save few requests, but waste twice as much after a wrong guess.
MAX_REQUEST_BYTES = 1 << 22
# Largest size of the cache of each open handle.
MAX_CACHED_BYTES = 1 << 24
# Largest number of cached blocks that are fetched again, to avoid splitting a request in two.
_MAX_BRIDGED_BLOCKS = 1


class RangeCache:
    """Decides which ranges of one remote file to request, and caches the fetched data. It does no I/O itself.

    The file is divided into blocks of ``block_bytes``. Fetched blocks are cached. If the cache is full, the least
    recently used blocks are dropped. A read has these effects::

        read bytes 10..20, empty cache       fetch the block that has byte 10, and a little more
        consecutive reads                    fetch twice as much each time, up to a limit
        a read inside an announced range     fetch up to the end of that range
        a read with some blocks cached       fetch the missing blocks, as one range if gaps are small

    Requests consist of whole blocks; only the last block of the file can be shorter. The caller must not read more than
    ``max_request_bytes`` at once. ``max_cached_bytes`` must be enough for two of the largest requests and a few more
    blocks.

    >>> cache = RangeCache(1000, block_bytes=10, min_request_bytes=20, max_request_bytes=80, max_cached_bytes=300)
    >>> cache.plan(5, 8)
    [(0, 20)]
    >>> cache.store(0, bytes(20))
    >>> cache.plan(15, 25)  # continues where the last range ended: twice as much
    [(20, 60)]
    >>> cache.take(15, 18)
    b'\\x00\\x00\\x00'
    """

    def __init__(
        self,
        size: int,
        *,
        block_bytes: int = BLOCK_BYTES,
        min_request_bytes: int = MIN_REQUEST_BYTES,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_cached_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        self.size = size
        self.max_read_bytes = max_request_bytes
        self._block_bytes = block_bytes
        self._num_blocks = _ceil_div(size, block_bytes)
        self._min_blocks = min_request_bytes // block_bytes
        self._max_blocks = max_request_bytes // block_bytes
        self._max_cached_blocks = max_cached_bytes // block_bytes
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._window = self._min_blocks
        self._frontier = -1
        self._announced = range(0)

    @property
    def num_cached_bytes(self) -> int:
        return sum(map(len, self._blocks.values()))

    def will_need(self, start: int, stop: int) -> None:
        """Announce that bytes [start, stop) will be read next. This replaces earlier announcements."""
        self._announced = range(max(0, start) // self._block_bytes, _ceil_div(min(stop, self.size), self._block_bytes))

    def plan(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges (start, stop) that must be fetched before bytes [start, stop) can be read.

        Pass the fetched data to `store`, and then call `take`. ``stop`` must be at most the size of the file, and at
        most ``start + max_read_bytes``.
        """
        first, end = start // self._block_bytes, _ceil_div(stop, self._block_bytes)
        missing = []
        for block in range(first, end):
            if block in self._blocks:
                self._blocks.move_to_end(block)
            else:
                missing.append(block)
        if not missing:
            return []
        runs = _join_blocks(missing)
        if runs[-1][1] == end:
            runs[-1] = (runs[-1][0], self._extend_run(*runs[-1]))
        self._frontier = runs[-1][1]
        # Blocks are aligned, so the longest read can take one block more than the largest request.
        return [self._bytes_of(*piece) for run in runs for piece in _split_run(*run, self._max_blocks)]

    def _extend_run(self, begin: int, end: int) -> int:
        """Return the new end of the run of missing blocks [begin, end), with blocks that are likely to be read next."""
        if begin in self._announced:
            self._window = self._min_blocks
            wanted_end = self._announced.stop
        else:
            is_sequential = begin == self._frontier
            self._window = min(2 * self._window, self._max_blocks) if is_sequential else self._min_blocks
            wanted_end = begin + self._window
        limit = min(wanted_end, begin + self._max_blocks, self._num_blocks)
        while end < limit and end not in self._blocks:
            end += 1
        return end

    def _bytes_of(self, begin: int, end: int) -> tuple[int, int]:
        return begin * self._block_bytes, min(end * self._block_bytes, self.size)

    def store(self, start: int, data: bytes) -> None:
        """Cache data that were fetched from position ``start``: whole blocks, except at the end of the file."""
        for offset in range(0, len(data), self._block_bytes):
            block = (start + offset) // self._block_bytes
            self._blocks[block] = data[offset : offset + self._block_bytes]
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_cached_blocks:
            self._blocks.popitem(last=False)

    def take(self, start: int, stop: int) -> bytes:
        """Return bytes [start, stop) from the cache. First `store` the ranges that `plan` returned for these bytes."""
        first, end = start // self._block_bytes, _ceil_div(stop, self._block_bytes)
        joined = b"".join(self._blocks[block] for block in range(first, end))
        offset = first * self._block_bytes
        return joined[start - offset : stop - offset]


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _join_blocks(blocks: list[int]) -> list[tuple[int, int]]:
    """Join ascending block numbers to ranges (begin, end). Small gaps between the numbers become part of a range."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and block - runs[-1][1] <= _MAX_BRIDGED_BLOCKS:
            runs[-1] = (runs[-1][0], block + 1)
        else:
            runs.append((block, block + 1))
    return runs


def _split_run(begin: int, end: int, max_length: int) -> list[tuple[int, int]]:
    return [(piece, min(piece + max_length, end)) for piece in range(begin, end, max_length)]


#: Number of bytes that FFmpeg reads of a local file at once. FFmpeg's default is four times as large. A clip from a few
#: small groups of pictures would not use most of it. Reading a whole file takes a few more system calls.
LOCAL_BLOCK_BYTES = 1 << 13


class Reader(ABC):
    """A binary file for the demuxer. ``read`` never returns more than requested; ``seek`` returns the new position."""

    #: A read of this many bytes takes hardly longer than a read of one byte.
    small_read_bytes = 1 << 13
    #: Number of bytes that FFmpeg requests at once. This is FFmpeg's default.
    block_bytes = 1 << 15

    def __init__(self) -> None:
        self._position = 0
        #: An exception such as `KeyboardInterrupt`, raised while FFmpeg read; see `pyav.opening.raise_interruption`.
        self.interruption: BaseException | None = None

    @abstractmethod
    def _size(self) -> int: ...

    @abstractmethod
    def _read_at(self, position: int, size: int) -> bytes: ...

    def read(self, size: int) -> bytes:
        data = self._read_at(self._position, size)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, (self._size() if base is None else base) + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def read_at(self, position: int, size: int) -> bytes:
        """Read ``size`` bytes from ``position``; return fewer only at the end of the file."""
        self.seek(position)
        data = bytearray()
        while len(data) < size and (part := self.read(size - len(data))):
            data += part
        return bytes(data)

    def will_need(self, start: int, stop: int) -> None:  # noqa: B027
        """Announce that bytes [start, stop) will be read next. Only readers that fetch data in advance use this."""

    def close(self) -> None:  # noqa: B027
        """Close everything that this reader has opened, but not a file object that the user opened."""


class RawFile(io.RawIOBase):
    """A `Reader` as a file of the module ``io``. Closing the file closes the reader."""

    def __init__(self, reader: Reader, *, can_seek: bool = False) -> None:
        self._reader = reader
        self._can_seek = can_seek

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._can_seek

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


class SpanReader(Reader):
    """Reads bytes [start, stop) of another reader, which is closed together with this one."""

    def __init__(self, whole: Reader, start: int, stop: int) -> None:
        super().__init__()
        self._whole = whole
        self._start = start
        self._length = stop - start
        self.small_read_bytes = whole.small_read_bytes
        self.block_bytes = whole.block_bytes

    def _size(self) -> int:
        return self._length

    def _read_at(self, position: int, size: int) -> bytes:
        return self._whole.read_at(self._start + position, max(0, min(size, self._length - position)))

    def will_need(self, start: int, stop: int) -> None:
        self._whole.will_need(self._start + start, self._start + stop)

    def close(self) -> None:
        self._whole.close()


class MemoryReader(Reader):
    small_read_bytes = 1 << 6

    def __init__(self, data: memoryview) -> None:
        super().__init__()
        self._data = data

    def _size(self) -> int:
        return len(self._data)

    def _read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])


class DescriptorReader(Reader):
    """Reads a regular file by its descriptor.

    Each read passes its own position to the system. So the reader still works if the user or a forked process moves the
    position of the file. ``descriptor`` is the result of `regular_file_descriptor`. With ``close=True``, closing the
    reader closes the file.
    """

    # The system reads ahead, so smaller reads do not take less time.
    small_read_bytes = 1 << 14
    block_bytes = LOCAL_BLOCK_BYTES

    def __init__(self, file: Any, descriptor: int, *, close: bool = False) -> None:
        super().__init__()
        self._file = file
        self._descriptor = descriptor
        self._close = close

    def _size(self) -> int:
        self._check()
        return os.fstat(self._descriptor).st_size

    def _read_at(self, position: int, size: int) -> bytes:
        self._check()
        return os.pread(self._descriptor, size, position)

    def read_at(self, position: int, size: int) -> bytes:
        if self._file.closed:
            self._check()
        # One system call returns all bytes, except at the end of the file and for enormous sizes.
        try:
            data = os.pread(self._descriptor, size, position)
        except OSError as error:
            raise ReadError(f"Reading {size} bytes at {position} of {self._file.name} failed: {error}.") from error
        return data if len(data) == size or not data else data + super().read_at(position + len(data), size - len(data))

    def close(self) -> None:
        if self._close:
            self._file.close()

    def _check(self) -> None:
        if self._file.closed:
            raise ReadError("The source file was closed while the decoder still needs it; keep it open.")


class SharedFile:
    """A file object that several readers share. Each reader seeks to its own position before it reads."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.lock = ForkSafeLock()
        self.last_reader: object = None

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["file"])  # type: ignore[misc]

    def check_open(self) -> None:
        if getattr(self.file, "closed", False) is True:
            raise ReadError("The source file is closed; pass an open file and keep it open.")


class FileReader(Reader):
    """Reads a file object. With ``close=True``, closing the reader closes the file object.

    ``owner`` is an object that must live as long as the reader. For example, an archive closes its files when it is
    freed.
    """

    def __init__(self, shared: SharedFile, *, close: bool, owner: object = None) -> None:
        super().__init__()
        self._shared = shared
        self._owner = owner
        self._close = close
        self._file_position = -1
        self._last_seek: object = None

    def _size(self) -> int:
        with self._shared.lock:
            self._shared.last_reader = None
            self._seek(0, os.SEEK_END)
            size: Any = self._last_seek
            if not is_integer(size) and (tell := getattr(self._shared.file, "tell", None)) is not None:
                size = self._call("Asking for the position", tell)
        if not is_integer(size):
            raise ReadError(f"seek of {type(self._shared.file).__name__} must return the new position (got {size!r}).")
        return int(size)

    def _seek(self, offset: int, whence: int) -> None:
        self._shared.check_open()
        self._last_seek = self._call(f"Seeking to {offset} (whence={whence})", self._shared.file.seek, offset, whence)

    def _call(self, what: str, function: Callable[..., Any], *args: int) -> Any:
        """Call a method of the file object. Turn any `Exception` that is not from this library into `ReadError`."""
        try:
            return call_of_user(function, *args)
        except MediaTensorError:
            raise
        except OSError as error:
            raise ReadError(f"{what} in the source file failed: {error}.") from error
        except Exception as error:
            try:
                text = str(error)
            except Exception:  # even its __str__ may raise
                text = ""
            reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
            raise SourceFaultError(f"{what} in the source file failed ({reason}).") from error

    def _read_at(self, position: int, size: int) -> bytes:
        with self._shared.lock:
            self._shared.check_open()
            # After a fork, the child's copy of the reader may share its file position with the parent.
            me = (os.getpid(), id(self))
            if self._shared.last_reader != me:
                self._seek(position, os.SEEK_SET)
                self._shared.last_reader = me
            elif position != self._file_position:
                self._seek(position, os.SEEK_SET)
            data = self._call(f"Reading {size} bytes at {position}", self._shared.file.read, size)
            data = self._check_data(data, size)
            self._file_position = position + len(data)
        return data

    def _check_data(self, data: object, size: int) -> bytes:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise SourceTypeError(
                f"read of the source file must return bytes (got {type(data).__name__}). Open it in binary mode."
            )
        data = bytes(data)  # an item of a memoryview can have several bytes
        if len(data) > size:
            raise ReadError(
                f"read({size}) of the source file returned {len(data)} bytes, more than asked: "
                "it does not conform to the read protocol."
            )
        return data

    def close(self) -> None:
        if self._close:
            self._shared.file.close()


class SourceFaultError(ReadError):
    """Reading the source failed at a position, so the media is possibly longer than the bytes that could be read."""


class RangeFetcher(Protocol):
    """Fetches bytes for a `RangeReader`. Closing the reader closes the fetcher."""

    def fetch(self, start: int, stop: int) -> bytes:
        """Return exactly the bytes [start, stop), or raise any exception."""

    def close(self) -> None:
        """Close the connections."""


class RangeReader(Reader):
    """Reads a remote file with few requests, which fetch only the ranges that are needed; see `RangeCache`.

    Closing the reader closes ``fetcher``. If the first bytes of the file are known already, pass them as ``beginning``.
    They must be whole blocks of the cache, or the complete file.
    """

    small_read_bytes = MIN_REQUEST_BYTES

    def __init__(self, fetcher: RangeFetcher, size: int, name: str, beginning: bytes = b"") -> None:
        super().__init__()
        self._fetcher = fetcher
        self._name = name
        self._cache = RangeCache(size)
        self._cache.store(0, beginning)

    def _size(self) -> int:
        return self._cache.size

    def _read_at(self, position: int, size: int) -> bytes:
        stop = min(position + min(size, self._cache.max_read_bytes), self._cache.size)
        if stop <= position:
            return b""
        for start, end in self._cache.plan(position, stop):
            self._cache.store(start, self._fetch(start, end))
        return self._cache.take(position, stop)

    def _fetch(self, start: int, stop: int) -> bytes:
        try:
            data = self._fetcher.fetch(start, stop)
        except Exception as error:  # each file system has its own
            message = f"{error or type(error).__name__}"
            raise SourceFaultError(f"Reading bytes {start} to {stop} of {self._name} failed: {message}.") from error
        if len(data) != stop - start:
            raise SourceFaultError(
                f"Reading bytes {start} to {stop} of {self._name} failed: {len(data)} bytes came, "
                f"not {stop - start}; the file may have changed."
            )
        return data

    def will_need(self, start: int, stop: int) -> None:
        self._cache.will_need(start, stop)

    def close(self) -> None:
        self._fetcher.close()


def regular_file_descriptor(file: Any) -> int | None:
    """Return the descriptor of ``file`` if it is a regular file opened by ``open(..., "rb")``; otherwise ``None``."""
    if type(file) not in (io.BufferedReader, io.FileIO) or not hasattr(os, "pread"):
        return None
    try:
        descriptor = file.fileno()
    except OSError:
        return None
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
