"""What a source is known by, so that an index of it can be told from that of another file."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING

from .._pyav import ContainerInfo, StreamInfo
from .._sources import Reader
from ..errors import FrameIndexError, MediaTensorError

if TYPE_CHECKING:
    from .frame_index import FrameIndex
    from .indexing import IndexableStream

__all__ = ["SourceIdentity", "check_index_belongs", "identify"]

# Bytes at each end that are compared. Headers and tables of contents lie there in most formats.
_END_BYTES = 1 << 16


@dataclass(frozen=True)
class SourceIdentity:
    """What is compared. Neither the name nor the time of change counts: both change where the bytes do not.

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

    def differences(self, other: SourceIdentity, *, settled: bool) -> list[str]:
        """What differs, in words.

        Headers are compared only if the bytes of one are not known: another version of FFmpeg may read more from the
        same header. The version counts only for an index made by decoding, which knows pixels.
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
        if settled and self.pyav_version != other.pyav_version:
            found.append(f"the version of PyAV ({self.pyav_version}, not {other.pyav_version})")
        return found

    def key(self, salt: str) -> str | None:
        """A name for what belongs to the source; ``None`` if too little is known of it."""
        if self.num_bytes is None:
            return None
        parts = (salt, self.stream_index, self.num_bytes, self.head, self.tail, self.pyav_version)
        return _digest(repr(parts).encode())


def identify(video: IndexableStream) -> SourceIdentity:
    """The identity of an opened stream: from its header, and at most two short reads of its source.

    A source that cannot be read (any more) is known by its header alone.
    """
    try:
        num_bytes, head, tail = _identify_bytes(video)
    except (OSError, MediaTensorError, ValueError):
        num_bytes = head = tail = None
    return SourceIdentity(
        stream_index=video.facts.index,
        header=_digest(_header_text(video.container_facts, video.facts).encode()),
        num_bytes=num_bytes,
        head=head,
        tail=tail,
        pyav_version=_pyav_version(),
    )


def check_index_belongs(index: FrameIndex, video: IndexableStream) -> None:
    """Raise unless an index was made from this source and this stream.

    Raises:
        FrameIndexError: naming what differs.
    """
    if index.made_from is None:
        differences = ["what it was made from, which is not known"]
    else:
        differences = index.made_from.differences(identify(video), settled=index.settled)
    if index.time_base != video.time_base:
        differences.append(f"the time base ({index.time_base}, not {video.time_base})")
    if differences:
        raise FrameIndexError(
            f"The frame index does not belong to {video.name}, stream {video.facts.index}: {', '.join(differences)} "
            "differ. Pass the index of this file and stream, or none."
        )


@cache
def _pyav_version() -> str:
    return version("av")


def _header_text(container: ContainerInfo, stream: StreamInfo) -> str:
    size = (stream.width, stream.height)
    times = (stream.time_base, stream.start_pts, stream.duration_pts, container.duration_seconds)
    return repr((container.format_name, stream.codec, size, times, stream.num_frames))


def _identify_bytes(video: IndexableStream) -> tuple[int | None, str | None, str | None]:
    """(size, digest of the head, digest of the tail)."""
    own = video.source.open_bytes()
    if own is not None:
        with closing(own):
            return _size_and_ends(own)
    with video.lend_reader(is_moved=False) as reader:
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
