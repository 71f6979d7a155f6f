"""All bytes of a source, for pictures, which are decoded as a whole."""

from __future__ import annotations

import os

from .._source import MemorySource, PathSource, Source, UrlSource, make_source
from ..errors import OpenError

__all__ = ["MAX_FILE_BYTES", "read_bytes"]

#: Largest file of a picture that is read.
MAX_FILE_BYTES = 1 << 30

_FILE_SCHEME = "file:"


def read_bytes(source: object) -> tuple[bytes, str]:
    """(the bytes, what to call the source in messages).

    Args:
        source: Whatever `make_source` takes. Of a file object, everything from its beginning; it stays open.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: as `make_source`.
        OpenError: if the source has no bytes, more than `MAX_FILE_BYTES`, or is of a kind that only FFmpeg reads.
    """
    made = make_source(source)
    if isinstance(made, UrlSource) and made.url.startswith(_FILE_SCHEME):
        made = PathSource(made.url.removeprefix(_FILE_SCHEME))
    name = made.describe()
    if isinstance(made, MemorySource):
        return made.data if isinstance(made.data, bytes) else made.data.numpy().tobytes(), name
    data = _read_path(made) if isinstance(made, PathSource) else _read_source(made)
    if not data:
        raise OpenError(f"Could not open {name}: it is empty.")
    return data, name


def _read_path(source: PathSource) -> bytes:
    source.check_opens_at_once()
    path = source.path
    parts: list[bytes] = []
    num_bytes = 0
    try:
        with open(path, "rb", buffering=0) as file:
            # The size first, so that a plain file comes in one piece; a pipe says 0.
            size = max(1, os.fstat(file.fileno()).st_size)
            _check_size(size, path)
            while part := file.read(size):
                parts.append(part)
                num_bytes += len(part)
                _check_size(num_bytes, path)
                size = 1 << 20
    except OSError as error:
        raise OpenError(f"Could not open input file: {path} ({error}).") from None
    return b"".join(parts)


def _read_source(source: Source) -> bytes:
    reader = source.open()
    if isinstance(reader, str):
        raise OpenError(
            f"Could not open {reader} as an image: images come from paths, memory, file objects, http(s) and what "
            "fsspec reads."
        )
    try:
        size = reader.seek(0, os.SEEK_END)
        _check_size(size, source.describe())
        reader.will_need(0, size)
        return reader.read_at(0, size)
    finally:
        reader.close()


def _check_size(size: int, name: str) -> None:
    if size > MAX_FILE_BYTES:
        raise OpenError(f"Could not open {name} as an image: more than {MAX_FILE_BYTES} bytes are not read.")
