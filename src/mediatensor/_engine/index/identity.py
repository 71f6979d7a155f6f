"""The identity of a source, by which an index of it is told from that of another file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version

from ...errors import MediaTensorError
from ..pyav.opening import ContainerInfo, StreamInfo
from ..pyav.reading import VideoReader
from ..sources.readers import Reader
from ..sources.source import Source

__all__ = ["LendReader", "SourceIdentity", "identify"]

#: Lends a reader of the stream for the time of a ``with`` block.
LendReader = Callable[[], AbstractContextManager[VideoReader]]

# Bytes at each end that are compared. Headers and tables of contents lie there in most formats.
_END_BYTES = 1 << 16


@dataclass(frozen=True)
class SourceIdentity:
    """The properties of a source that are compared. Its name and time of change are not: its bytes survive both.

    Attributes:
        stream_index: Which stream of the source.
        header: Digest of what the header says of the container and the stream.
        num_bytes: Size of the source; ``None`` where its bytes are not ours to read (URLs that FFmpeg opens).
        head, tail: Digests of the first and the last 64 KiB; ``None`` like ``num_bytes``.
        pyav_version: Of the decoder that was at work.
    """

    stream_index: int
    header: str
    num_bytes: int | None
    head: str | None
    tail: str | None
    pyav_version: str

    def differences(self, other: SourceIdentity, *, is_decoded: bool) -> list[str]:
        """What differs, in words.

        Headers are compared only if the bytes of one are not known: another version of FFmpeg may read more from the
        same header. The version of PyAV counts only for an index made by decoding (``is_decoded``), which knows pixels.
        """
        found = []
        if self.stream_index != other.stream_index:
            found.append(f"the stream ({self.stream_index}, not {other.stream_index})")
        if self.num_bytes is None or other.num_bytes is None:
            if self.header != other.header:
                found.append("the header (format, codec, picture size, start or duration)")
        elif self.num_bytes != other.num_bytes:
            found.append(f"the size ({self.num_bytes} bytes, not {other.num_bytes})")
        else:
            if self.head != other.head:
                found.append(f"the first {_END_BYTES >> 10} KiB")
            if self.tail != other.tail:
                found.append(f"the last {_END_BYTES >> 10} KiB")
        if is_decoded and self.pyav_version != other.pyav_version:
            found.append(f"the version of PyAV ({self.pyav_version}, not {other.pyav_version})")
        return found

    def key(self, salt: str) -> str | None:
        """A name for what belongs to the source; ``None`` if too little is known of it."""
        if self.num_bytes is None:
            return None
        parts = (salt, self.stream_index, self.num_bytes, self.head, self.tail, self.pyav_version)
        return _digest(repr(parts).encode())


def identify(source: Source, container: ContainerInfo, stream: StreamInfo, lend_reader: LendReader) -> SourceIdentity:
    """The identity of an opened stream: from its header, and at most two short reads of its source.

    A source that cannot be read (any more) is known by its header alone.

    Args:
        source: Where the stream is read from.
        container, stream: What the header says.
        lend_reader: Lends a reader, which is not moved. It serves where the source cannot be opened a second time.
    """
    try:
        num_bytes, head, tail = _identify_bytes(source, lend_reader)
    except (OSError, MediaTensorError, ValueError):
        num_bytes = head = tail = None
    return SourceIdentity(
        stream_index=stream.index,
        header=_digest(_header_text(container, stream).encode()),
        num_bytes=num_bytes,
        head=head,
        tail=tail,
        pyav_version=_pyav_version(),
    )


@cache
def _pyav_version() -> str:
    return version("av")


def _header_text(container: ContainerInfo, stream: StreamInfo) -> str:
    size = (stream.width, stream.height)
    times = (stream.time_base, stream.start_pts, stream.duration_pts, container.duration_seconds)
    return repr((container.format_name, stream.codec, size, times, stream.num_frames))


def _identify_bytes(source: Source, lend_reader: LendReader) -> tuple[int | None, str | None, str | None]:
    """(size, digest of the head, digest of the tail)."""
    own = source.open_bytes()
    if own is not None:
        with closing(own):
            return _size_and_ends(own)
    with lend_reader() as reader:
        # The demuxer's own reader may have fetched these bytes already.
        shared = reader.byte_reader
        if shared is None:
            return None, None, None
        position = shared.tell()
        try:
            return _size_and_ends(shared)
        finally:
            shared.seek(position)


def _size_and_ends(file: Reader) -> tuple[int, str, str]:
    num_bytes = file.seek(0, os.SEEK_END)
    head = file.read_at(0, min(_END_BYTES, num_bytes))
    tail_start = max(0, num_bytes - _END_BYTES)
    tail = head if tail_start == 0 else file.read_at(tail_start, num_bytes - tail_start)
    return num_bytes, _digest(head), _digest(tail)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
