"""Reading packets and frames of one video stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import av
from av.stream import Discard
from av.video.frame import PictureType

from .._readers import Reader, SourceFaultError
from .._source import Source
from ..errors import ReadError
from .facts import NO_TIMESTAMPS_FLAG, ContainerFacts, StreamFacts, container_facts, stream_facts
from .opening import choose_stream, close_container, error_text, open_container

__all__ = [
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "ContainerFacts",
    "PacketFacts",
    "StreamFacts",
    "UndecodablePacketError",
    "VideoReader",
    "is_key_frame",
    "packet_facts",
]

# Largest picture that is decoded, in pixels. A header of a few bytes can ask for terabytes.
MAX_PIXELS = 1 << 28

# FFV1 conceals damage without a word, from whichever picture the same thread decoded before. MPEG-4's frame threads
# race for the score by which it tells damage from the padding bug of some encoders, and for the time step that direct
# prediction of fields needs.
_THREAD_TYPES = {"ffv1": "SLICE", "mpeg4": "SLICE"}

# What makes a codec refuse damage; MPEG-4 overlooks what it takes for a padding bug unless leftover bits count, too.
_STRICT = "explode"
_STRICT_BY_CODEC = {"mpeg4": "explode+buffer"}

#: Flags of `VideoReader.index_entries`.
KEY_ENTRY, DISCARD_ENTRY = 1, 2

_TIMES_MAY_RESTART_FLAG = 0x200  # AVFMT_TS_DISCONT


class PacketFacts(NamedTuple):
    """What the index keeps of a packet."""

    pts: int | None
    dts: int | None
    duration: int
    size: int
    position: int
    is_key: bool
    is_discard: bool
    is_corrupt: bool
    is_encrypted: bool


class VideoReader:
    """An open handle on one video stream: its packets in order, a seek, and a decoder.

    Args:
        source: Where to read from.
        stream_index: Index among all streams; ``None`` for the one FFmpeg thinks best.
        num_threads: Threads of the codec; 0 lets FFmpeg decide.
        is_strict: Let the codec refuse packets in which it finds errors, instead of concealing them.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such video stream.
    """

    def __init__(self, source: Source, stream_index: int | None, num_threads: int, *, is_strict: bool = False) -> None:
        self._source = source
        self._num_threads = num_threads
        self._is_strict = is_strict
        self._container: Any = None
        self._reader: Any = None
        self._open(stream_index)

    def _open(self, stream_index: int | None) -> None:
        self._container, self._reader = open_container(self._source)
        try:
            self._stream: Any = choose_stream(self._container, stream_index)
            self._configure()
        except BaseException:
            self.close()
            raise
        self._packets: Iterator[Any] = self._container.demux(self._stream)
        #: Whether nothing has been read since the container was opened.
        self.is_fresh = True

    def _configure(self) -> None:
        for stream in self._container.streams:
            if stream.index != self._stream.index:
                stream.discard = Discard.all
        context = self._stream.codec_context
        context.thread_count = self._num_threads
        context.thread_type = "NONE" if self._num_threads == 1 else _THREAD_TYPES.get(context.name, "AUTO")
        strict = _STRICT_BY_CODEC.get(context.name, _STRICT)
        context.options = {"max_pixels": str(MAX_PIXELS), "err_detect": strict if self._is_strict else "0"}
        self._context = context

    @property
    def stream_index(self) -> int:
        return int(self._stream.index)

    def facts(self) -> StreamFacts:
        return stream_facts(self._stream)

    def container_facts(self) -> ContainerFacts:
        return container_facts(self._container)

    @property
    def format_name(self) -> str:
        """FFmpeg's names of the format, separated by commas."""
        return str(self._container.format.name)

    @property
    def file_size(self) -> int:
        """In bytes; 0 or less if it is not known."""
        return int(self._container.size)

    @property
    def has_no_timestamps(self) -> bool:
        """Whether the format stores no times (elementary streams), so that they are made up while reading."""
        return bool(self._container.format.flags & NO_TIMESTAMPS_FLAG)

    @property
    def times_may_restart(self) -> bool:
        """Whether files of the format are often joined end to end, so that time starts again midway."""
        return bool(self._container.format.flags & _TIMES_MAY_RESTART_FLAG)

    @property
    def reorder_depth(self) -> int:
        """How many frames the codec holds back to put them in order."""
        return int(self._context.reorder_depth)

    @property
    def byte_reader(self) -> Reader | None:
        """What the demuxer reads from, if not FFmpeg's own; leave its position as it was."""
        return self._reader  # type: ignore[no-any-return]

    @property
    def track_id(self) -> int:
        """The format's own number of the stream."""
        return int(self._stream.id)

    @property
    def is_intra_only(self) -> bool:
        """Whether every packet of the codec is a key frame, whatever the container says."""
        return bool(self._context.codec.intra_only)

    @property
    def num_index_entries(self) -> int:
        """Length of the demuxer's own list of packets; how complete it is depends on the format."""
        return len(self._stream.index_entries)

    def index_entries(self, numbers: Sequence[int] | None = None) -> list[tuple[int, int, int, int]]:
        """(position, dts, size, flags) of entries of the demuxer's list, of all by default.

        Flags are `KEY_ENTRY` and `DISCARD_ENTRY`.
        """
        entries = self._stream.index_entries
        chosen = entries if numbers is None else (entries[number] for number in numbers)
        return [(entry.pos, entry.timestamp, entry.size, entry.flags) for entry in chosen]

    @property
    def num_pixels(self) -> int:
        """Of a picture, as the header has it."""
        return int(self._context.width) * int(self._context.height)

    @property
    def extradata(self) -> bytes:
        """The codec's configuration record; empty if there is none."""
        return bytes(self._context.extradata or b"")

    @property
    def is_strict(self) -> bool:
        """Whether the codec refuses packets in which it finds errors."""
        return self._is_strict

    @property
    def is_codec_open(self) -> bool:
        return bool(self._context.is_open)

    def use_threads(self, num_threads: int) -> bool:
        """From now on decode with another number of threads.

        Returns:
            Whether reading starts over, because the codec was open already.
        """
        self._num_threads = num_threads
        if self._context.is_open:
            self.reopen()
            return True
        self._configure()
        return False

    def decode_leniently(self) -> None:
        """From now on conceal errors as a plain decode does: with one thread, because concealment depends on that."""
        if self._is_strict or self._num_threads != 1:
            self._is_strict, self._num_threads = False, 1
            self.reopen()

    def reopen(self) -> None:
        """Start over from the beginning with a fresh demuxer and a fresh codec."""
        stream_index = self.stream_index
        self.close()
        self._open(stream_index)

    def seek(self, timestamp: int) -> bool:
        """Ask the demuxer for a key frame at or before ``timestamp`` (in the stream's time base).

        Returns:
            Whether the container could seek at all. Where it landed is for the caller to check.
        """
        try:
            self._container.seek(timestamp, stream=self._stream)
        except av.FFmpegError:
            return False
        self._packets = self._container.demux(self._stream)
        self.is_fresh = False
        return True

    def seek_bytes(self, position: int) -> bool:
        """Go to a byte of the file; the next packet is the first that begins after it. ``False`` if that cannot be."""
        try:
            self._container.seek(position, stream=self._stream, unsupported_byte_offset=True)
        except av.FFmpegError:
            return False
        self._packets = self._container.demux(self._stream)
        self.is_fresh = False
        return True

    def will_need(self, start: int, stop: int) -> None:
        """Say that bytes ``start`` to ``stop`` of the file are read next, for a source that fetches them from afar."""
        if self._reader is not None:
            self._reader.will_need(start, stop)

    def read_packet(self) -> Any | None:
        """The next packet of the stream, or ``None`` at its end.

        Raises:
            ReadError: if the demuxer reports an error other than the end of the file.
        """
        self.is_fresh = False
        while True:
            try:
                return next((packet for packet in self._packets if packet.size), None)
            except av.EOFError:
                return None
            except av.FFmpegError as error:
                kind = SourceFaultError if isinstance(error, (TimeoutError, ConnectionError)) else ReadError
                raise kind(f"Failed to read from {self._source.describe()}: {error_text(error)}.") from error
            except IndexError:
                # PyAV stumbles over packets of streams that appear midway; it goes on after them.
                self._packets = self._container.demux(self._stream)

    def peek_packets(self, count: int) -> list[Any]:
        """The packets that `read_packet` gives first, of a fresh reader, which stays so.

        Raises:
            ReadError: if the demuxer reports an error.
        """
        packets = list(islice(iter(self.read_packet, None), count))
        if len(packets) < count:
            self.reopen()
        else:
            self._packets = chain(packets, self._packets)
            self.is_fresh = True
        return packets

    def decode(self, packet: Any | None) -> list[Any]:
        """Feed one packet (``None`` drains the codec) and take the frames that come out, in the codec's order.

        Raises:
            UndecodablePacketError: if the codec refuses the packet.
        """
        try:
            return self._context.decode(packet)  # type: ignore[no-any-return]
        except av.EOFError:
            return []
        except (av.FFmpegError, ValueError) as error:
            raise UndecodablePacketError(error_text(error)) from error

    def close(self) -> None:
        container, self._container = self._container, None
        # A frame in somebody's hands, or a kept exception, keeps this object; its codec's threads must not live on.
        self._stream = self._context = None
        self._packets = iter(())
        if container is not None:
            close_container(container, self._reader)


class UndecodablePacketError(Exception):
    """The codec refused a packet; the next ones may still decode."""


def packet_facts(packet: Any) -> PacketFacts:
    return PacketFacts(
        packet.pts,
        packet.dts,
        packet.duration or 0,
        packet.size,
        -1 if packet.pos is None else packet.pos,
        packet.is_keyframe,
        packet.is_discard,
        packet.is_corrupt,
        packet.is_keyframe and packet.has_sidedata("encryption_info"),  # costs more than all the others; begins there
    )


def is_key_frame(frame: Any) -> bool:
    """Whether the codec says that a frame refers to no other."""
    return bool(frame.key_frame) or frame.pict_type == PictureType.I
