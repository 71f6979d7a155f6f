"""The demuxer: an open container, the packets of some of its streams, and seeks."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, TypeVar

import av
import av.packet
from av.stream import Discard

from ...errors import MediaTensorError, ReadError
from ..common import interrupts
from ..sources.readers import DescriptorReader, Reader, SourceFaultError
from ..sources.source import Source
from .opening import choose_stream, close_container, error_text, open_container, raise_interruption
from .packet_decoder import keep_from_parent, let_rest
from .probe import NO_TIMESTAMPS_FLAG, ContainerInfo, container_info

__all__ = ["Demuxer", "set_side_data"]

# FFmpeg counts time in 64 bits.
_MAX_TIMESTAMP = 2**62

_TIMES_MAY_RESTART_FLAG = 0x200  # AVFMT_TS_DISCONT

_Result = TypeVar("_Result")


class Demuxer:
    """An open container: the packets of some of its streams in the order of the file, and seeks.

    Args:
        source: Where to read from.
        choose: Picks streams of the PyAV container that was opened. `reopen` takes the same ones again.

    Attributes:
        streams: PyAV's streams, in the order in which they were picked; none after `close`.
        is_fresh: Whether nothing has been read since the container was opened.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such stream.
    """

    def __init__(self, source: Source, choose: Callable[[Any], Sequence[Any]]) -> None:
        self._source = source
        self._choose = choose
        self._process = os.getpid()
        self._container: Any = None
        self._reader: Any = None
        self._packets: Iterator[Any] = iter(())
        self.streams: Sequence[Any] = ()
        # (index, media type) of each stream, once they were picked.
        self._picked: list[tuple[int, str]] | None = None
        # Indices of the streams whose codec belongs to somebody else, see `take_codec`.
        self._taken: set[int] = set()
        self._palettes: dict[int, _Palettes] = {}
        self.open()

    def open(self) -> None:
        """Open the container, and stand at its beginning."""
        self._container, self._reader = open_container(self._source)
        self._process = os.getpid()
        self._taken = set()
        try:
            if self._picked is None:
                self.streams = self._choose(self._container)
                self._picked = [(int(stream.index), stream.type) for stream in self.streams]
            else:
                self.streams = [choose_stream(self._container, *picked) for picked in self._picked]
            indices = self.stream_indices
            for stream in self._container.streams:
                if stream.index not in indices:
                    stream.discard = Discard.all
        except BaseException:
            self.close()
            raise
        self._packets = self._container.demux(*self.streams)
        self.is_fresh = True
        if self._palettes.keys() != (paletted := self._paletted_streams()):
            self._palettes = {index: _Palettes() for index in paletted}
            self._read_first_palettes(paletted)

    def _paletted_streams(self) -> set[int]:
        return {stream.index for stream in self.streams if getattr(stream.codec_context, "pix_fmt", None) == "pal8"}

    def _read_first_palettes(self, indices: set[int]) -> None:
        """Note the palettes of the header, which come with the first packets: a seek would drop these."""
        packets = []
        try:
            while indices and (packet := self.read_packet()) is not None:
                packets.append(packet)
                indices.discard(packet.stream_index)
        except ReadError:
            packets = []  # it is raised once more when they are asked for
        if packets:
            self.push_back(packets)
            self.is_fresh = True
        else:
            self.reopen()

    @property
    def stream_indices(self) -> list[int]:
        """Indices of the streams among all of the container, in the order in which they were picked."""
        return [index for index, _ in self._picked or ()]

    def container_info(self) -> ContainerInfo:
        """What the headers say."""
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
    def has_no_timestamps(self) -> bool:
        """Whether the format stores no times (elementary streams), so that they are made up while reading."""
        return bool(self._container.format.flags & NO_TIMESTAMPS_FLAG)

    @property
    def times_may_restart(self) -> bool:
        """Whether files of the format are often joined end to end, so that time starts again midway."""
        return bool(self._container.format.flags & _TIMES_MAY_RESTART_FLAG)

    @property
    def byte_reader(self) -> Reader | None:
        """What the demuxer reads from, if not FFmpeg's own; leave its position as it was."""
        return self._reader  # type: ignore[no-any-return]

    @property
    def small_read_bytes(self) -> int:
        """How much a read of `look_at_bytes` may as well take at once: it costs hardly more than one byte."""
        reader: type[Reader] | Reader = self._reader or DescriptorReader
        return reader.small_read_bytes

    def look_at_bytes(self, look: Callable[[Callable[[int, int], bytes], int], _Result | None]) -> _Result | None:
        """What a function finds in the file, which the demuxer goes on reading as if nothing had happened.

        Args:
            look: Gets a function from (position, count) to bytes, and the size of the file.

        Returns:
            The function's result; ``None`` if the file cannot be read beside the demuxer (too many open files, say).
        """
        shared = self.byte_reader
        try:
            file = self._source.open_bytes() if shared is None else shared
        except MediaTensorError:
            return None
        if file is None:
            return None
        position = file.tell()
        try:
            return look(file.read_at, file.seek(0, os.SEEK_END))
        except (MediaTensorError, OSError):
            return None
        finally:
            file.seek(position)
            if shared is None:
                file.close()

    @property
    def changes_palette(self) -> bool:
        """Whether the packets of a stream read so far have different palettes, so that each depends on others."""
        return any(palettes.changes for palettes in self._palettes.values())

    def will_need(self, start: int, stop: int) -> None:
        """Say that bytes ``start`` to ``stop`` of the file are read next, for a source that fetches them from afar."""
        if self._reader is not None:
            self._reader.will_need(start, stop)

    def read_packet(self) -> Any | None:
        """The next packet, or ``None`` at the end.

        Raises:
            ReadError: if the demuxer reports an error other than the end of the file.
        """
        self.is_fresh = False
        while True:
            if interrupts.interrupted is not None:
                interrupts.raise_kept_interrupt()
            try:
                for packet in self._packets:
                    if packet.size:
                        if self._palettes and packet.stream_index in self._palettes:
                            self._palettes[packet.stream_index].complete(packet)
                        return packet
                return None
            except (av.FFmpegError, ReadError, IndexError) as error:
                if self._ends_with(error):
                    return None

    def _ends_with(self, error: Exception) -> bool:
        """Whether an error of PyAV is the end of the file. ``False``: reading goes on.

        Raises:
            ReadError: if it is an error indeed.
        """
        if isinstance(error, av.EOFError):
            return True
        if isinstance(error, IndexError):
            # PyAV stumbles over packets of streams that appear midway; it goes on after them.
            self._packets = self._container.demux(*self.streams)
            return False
        raise_interruption(self._reader)
        if isinstance(error, ReadError):
            raise error
        kind = SourceFaultError if isinstance(error, (TimeoutError, ConnectionError)) else ReadError
        raise kind(f"Failed to read from {self._source.describe()}: {error_text(error)}.") from error

    def push_back(self, packets: Iterable[Any]) -> None:
        """Have packets that were read handed out once more, before the others."""
        self._packets = chain(packets, self._packets)

    def seek(self, timestamp: int, number: int = 0) -> bool:
        """Ask for a key frame at or before a time.

        Args:
            timestamp: In ticks of the time base of a stream.
            number: Which of the streams that were picked.

        Returns:
            Whether the container could seek at all. Where it landed is for the caller to check.
        """
        # A time of far beyond the end is no number that FFmpeg can take.
        return self._seek(max(-_MAX_TIMESTAMP, min(timestamp, _MAX_TIMESTAMP)), number)

    def seek_bytes(self, position: int) -> bool:
        """Go to a byte of the file; the next packet is the first that begins after it. ``False`` if that cannot be."""
        return self._seek(position, 0, unsupported_byte_offset=True)

    def _seek(self, offset: int, number: int, **how: bool) -> bool:
        if self._taken:
            self.reopen()  # PyAV flushes the codecs of a container that seeks
        try:
            self._container.seek(offset, stream=self.streams[number], **how)
        except av.FFmpegError:
            raise_interruption(self._reader)
            return False
        except ReadError:
            raise_interruption(self._reader)
            raise
        self._packets = self._container.demux(*self.streams)
        self.is_fresh = False
        return True

    def take_codec(self, number: int) -> Any:
        """A codec context of a picked stream, not open yet, that is the caller's from now on: no seek flushes it.

        Raises:
            OpenError, StreamError: if the source, which every further one needs, cannot be opened again.
        """
        assert self._picked is not None
        index, media_type = self._picked[number]
        if index not in self._taken:
            self._taken.add(index)
            return self.streams[number].codec_context
        container, reader = open_container(self._source)
        try:
            return choose_stream(container, index, media_type).codec_context
        finally:
            close_container(container, reader)

    def reopen(self) -> None:
        """Start over from the beginning with a fresh demuxer and fresh codecs."""
        self.close()
        self.open()

    def close(self) -> None:
        """Close the container. Codecs that were taken go on."""
        container, self._container = self._container, None
        streams, self.streams = self.streams, ()
        self._packets = iter(())
        if self._process != os.getpid():
            keep_from_parent(streams)
        else:
            for stream in streams:
                if stream.index not in self._taken:
                    let_rest(stream.codec_context)
        if container is not None:
            close_container(container, self._reader)

    def __del__(self) -> None:
        # The codecs of a demuxer that nobody has closed must rest, too, before they are freed.
        if hasattr(self, "_palettes"):
            self.close()


class _Palettes:
    """The palettes of a stream. Demuxers hand out each palette once, with the first packet that it holds for."""

    def __init__(self) -> None:
        # (position in the file, palette) of the packets that came with another palette than the one before.
        self._known: list[tuple[int, bytes]] = []

    @property
    def changes(self) -> bool:
        return len(self._known) > 1

    def complete(self, packet: Any) -> None:
        """Have a packet bring the palette that holds for it."""
        position = -1 if packet.pos is None else packet.pos
        number = bisect_right(self._known, position, key=itemgetter(0))
        current = self._known[max(0, number - 1)][1] if self._known else None
        if packet.has_sidedata("palette"):
            palette = bytes(packet.get_sidedata("palette"))
            if palette != current:
                self._known.insert(number, (position, palette))
        elif current is not None:
            set_side_data(packet, "palette", current)


def set_side_data(packet: Any, kind: Literal["palette", "skip_samples"], data: bytes) -> None:
    """Give a packet side data of a kind, in place of what it has of that."""
    make_side_data: Any = av.packet.PacketSideData  # its type hints know no constructor
    side_data = make_side_data(av.packet.packet_sidedata_type_from_literal(kind), len(data))
    side_data.update(data)
    packet.set_sidedata(side_data)
