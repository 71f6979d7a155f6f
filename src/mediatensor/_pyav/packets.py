"""Reading the packets of one stream, of whatever kind."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import av
import av.packet
from av.stream import Discard

from .._common.interrupts import raise_kept_interrupt
from .._sources import Reader, Source, SourceFaultError
from ..errors import ReadError
from .opening import choose_stream, close_container, error_text, open_container, raise_interruption
from .probe import ContainerInfo, StreamInfo, container_info, stream_info

__all__ = ["PacketReader", "UndecodablePacketError", "decode_packet", "let_rest", "set_side_data"]


# FFmpeg counts time in 64 bits.
_MAX_TIMESTAMP = 2**62


class UndecodablePacketError(Exception):
    """The codec refused a packet; the next ones may still decode."""


def decode_packet(context: Any, packet: Any | None) -> list[Any]:
    """Feed one packet (``None`` drains the codec) and take the frames that come out, in the codec's order.

    Raises:
        UndecodablePacketError: if the codec refuses the packet.
    """
    try:
        return context.decode(packet)  # type: ignore[no-any-return]
    except av.EOFError:
        return []
    except (av.FFmpegError, ValueError) as error:
        raise UndecodablePacketError(error_text(error)) from error


def let_rest(context: Any) -> None:
    """Wait until the threads of a decoder have nothing to do; to be called before it is freed.

    Freeing waits for them, too, but holds the interpreter's lock meanwhile. They want that lock where the application
    has PyAV hand over what FFmpeg logs (``av.logging.set_level``), and each would wait for the other for good. Flushing
    waits without the lock.
    """
    if context.is_open and context.thread_count != 1:
        context.flush_buffers()


def set_side_data(packet: Any, kind: Literal["palette", "skip_samples"], data: bytes) -> None:
    """Give a packet side data of a kind, in place of what it has of that."""
    make_side_data: Any = av.packet.PacketSideData  # its type hints know no constructor
    side_data = make_side_data(av.packet.packet_sidedata_type_from_literal(kind), len(data))
    side_data.update(data)
    packet.set_sidedata(side_data)


_codecs_of_the_parent: list[Any] = []


class PacketReader(ABC):
    """An open handle on one stream: its packets in order, a seek, and a decoder.

    Args:
        source: Where to read from.
        stream_index: Index among all streams; ``None`` for the one FFmpeg thinks best.
        num_threads: Threads of the codec; 0 lets FFmpeg decide.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such stream of the reader's kind.
    """

    #: ``"video"`` or ``"audio"``.
    media_type: str

    def __init__(self, source: Source, stream_index: int | None, num_threads: int) -> None:
        self._source = source
        self._num_threads = num_threads
        self._process = os.getpid()
        self._container: Any = None
        self._reader: Any = None
        self._stream: Any = None
        self._context: Any = None
        self._open(stream_index)

    def _open(self, stream_index: int | None) -> None:
        self._container, self._reader = open_container(self._source)
        self._process = os.getpid()
        try:
            self._stream = choose_stream(self._container, stream_index, self.media_type)
            # Known, too, when the source could not be opened once more.
            self._stream_index = int(self._stream.index)
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
        self._context = self._stream.codec_context
        self._configure_codec(self._context)

    @abstractmethod
    def _configure_codec(self, context: Any) -> None:
        """Set threads and options of a codec that is not open yet."""

    @property
    def stream_index(self) -> int:
        return self._stream_index

    def stream_info(self) -> StreamInfo:
        """What the header says of the stream."""
        return stream_info(self._stream)

    def container_info(self) -> ContainerInfo:
        return container_info(self._container)

    @property
    def format_name(self) -> str:
        """FFmpeg's names of the format, separated by commas."""
        return str(self._container.format.name)

    @property
    def file_size(self) -> int:
        """In bytes; 0 or less if it is not known."""
        return int(self._container.size)

    @property
    def byte_reader(self) -> Reader | None:
        """What the demuxer reads from, if not FFmpeg's own; leave its position as it was."""
        return self._reader  # type: ignore[no-any-return]

    @property
    def extradata(self) -> bytes:
        """The codec's configuration record; empty if there is none."""
        return bytes(self._context.extradata or b"")

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
        # A time of far beyond the end is no number that FFmpeg can take.
        return self._seek(max(-_MAX_TIMESTAMP, min(timestamp, _MAX_TIMESTAMP)))

    def _flush(self) -> None:  # noqa: B027
        """Have the codec forget what it was fed: a seek has done that for the demuxer's own."""

    def seek_bytes(self, position: int) -> bool:
        """Go to a byte of the file; the next packet is the first that begins after it. ``False`` if that cannot be."""
        return self._seek(position, unsupported_byte_offset=True)

    def _seek(self, offset: int, **how: bool) -> bool:
        try:
            self._container.seek(offset, stream=self._stream, **how)
        except av.FFmpegError:
            raise_interruption(self._reader)
            return False
        except ReadError:
            raise_interruption(self._reader)
            raise
        self._packets = self._container.demux(self._stream)
        self.is_fresh = False
        self._flush()
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
            raise_kept_interrupt()
            try:
                for packet in self._packets:
                    if packet.size:
                        return packet
                return None
            except av.EOFError:
                return None
            except ReadError:
                raise_interruption(self._reader)
                raise
            except av.FFmpegError as error:
                raise_interruption(self._reader)
                kind = SourceFaultError if isinstance(error, (TimeoutError, ConnectionError)) else ReadError
                raise kind(f"Failed to read from {self._source.describe()}: {error_text(error)}.") from error
            except IndexError:
                # PyAV stumbles over packets of streams that appear midway; it goes on after them.
                self._packets = self._container.demux(self._stream)

    def decode(self, packet: Any | None) -> Sequence[Any]:
        """Feed one packet (``None`` drains the codec) and take the frames that come out, in the codec's order.

        Raises:
            UndecodablePacketError: if the codec refuses the packet.
        """
        return decode_packet(self._context, packet)

    def close(self) -> None:
        container, self._container = self._container, None
        if self._process != os.getpid():
            # Freeing a codec in a forked child would wait for threads that the fork did not copy.
            _codecs_of_the_parent.append((self._stream, self._context))
        elif self._context is not None:
            let_rest(self._context)
        # A frame in somebody's hands, or a kept exception, keeps this object; its codec's threads must not live on.
        self._stream = self._context = None
        self._packets = iter(())
        if container is not None:
            close_container(container, self._reader)

    def __del__(self) -> None:
        # Also of what nobody has closed, the codec must rest before it is freed.
        if hasattr(self, "_context"):
            self.close()
