"""Read the packets of selected streams of a container, and seek."""

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
from .opening import (
    NO_TIMESTAMPS_FLAG,
    ContainerInfo,
    choose_stream,
    close_container,
    container_info,
    error_text,
    keep_from_parent,
    let_rest,
    open_container,
    raise_interruption,
)

_MAX_TIMESTAMP = 2**62  # FFmpeg refuses much larger ones
_TIMES_MAY_RESTART_FLAG = 0x200  # AVFMT_TS_DISCONT

_Result = TypeVar("_Result")


class Demuxer:
    """Opens a container, and returns the packets of selected streams in file order.

    ``choose`` is called with PyAV's container, and returns the streams to select. `reopen` selects the same streams
    again. The attribute ``streams`` has PyAV's streams in the order of selection; after `close`, it is empty.
    ``is_fresh`` is true until something is read.

    Raises `OpenError` or `SourceNotFoundError` if the source cannot be opened, and passes on errors that ``choose``
    raises.
    """

    def __init__(self, source: Source, choose: Callable[[Any], Sequence[Any]]) -> None:
        self.source = source
        self._choose = choose
        self._process = os.getpid()
        self._container: Any = None
        self._reader: Any = None
        self._packets: Iterator[Any] = iter(())
        self.streams: Sequence[Any] = ()
        # (index, media type) of each selected stream; `None` before the first opening.
        self._picked: list[tuple[int, str]] | None = None
        # Indices of streams whose codec context was returned by `take_codec`.
        self._taken: set[int] = set()
        self._palettes: dict[int, _Palettes] = {}
        self.open()

    def open(self) -> None:
        """Open the container, and select the streams. Reading starts at the beginning."""
        self._container, self._reader = open_container(self.source)
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
        contexts = {stream.index: stream.codec_context for stream in self.streams}
        paletted = {index for index, context in contexts.items() if getattr(context, "pix_fmt", None) == "pal8"}
        if self._palettes.keys() != paletted:
            self._palettes = {index: _Palettes() for index in paletted}
            self._read_first_palettes(paletted)

    def _read_first_palettes(self, indices: set[int]) -> None:
        """Keep the palettes of the header, for callers that seek before they read the first packet, which has them."""
        packets = []
        try:
            while indices and (packet := self.read_packet()) is not None:
                packets.append(packet)
                indices.discard(packet.stream_index)
        except ReadError:
            packets = []  # the next read raises it again
        if packets:
            self.push_back(packets)
            self.is_fresh = True
        else:
            self.reopen()

    @property
    def is_open(self) -> bool:
        """Whether the source is open. It is not after `reopen` has failed."""
        return self._container is not None

    @property
    def stream_indices(self) -> list[int]:
        """Indices of the selected streams among all streams of the container, in the order of selection."""
        return [index for index, _ in self._picked or ()]

    def container_info(self) -> ContainerInfo:
        return container_info(self._container)

    @property
    def format_name(self) -> str:
        """FFmpeg's name of the format. It can be several names, separated by commas."""
        return str(self._container.format.name)

    @property
    def file_size(self) -> int:
        """Size of the file in bytes; 0 or less if unknown."""
        return int(self._container.size)

    @property
    def has_no_timestamps(self) -> bool:
        """Whether the format stores no times, so that FFmpeg makes them up (elementary streams)."""
        return bool(self._container.format.flags & NO_TIMESTAMPS_FLAG)

    @property
    def times_may_restart(self) -> bool:
        """Whether files of this format are often joined end to end, so that times can restart within the file."""
        return bool(self._container.format.flags & _TIMES_MAY_RESTART_FLAG)

    @property
    def byte_reader(self) -> Reader | None:
        """The object from which FFmpeg reads bytes, or ``None`` if FFmpeg opened the source itself.

        A caller that uses it must restore its position.
        """
        return self._reader  # type: ignore[no-any-return]

    @property
    def small_read_bytes(self) -> int:
        """Number of bytes that `look_at_bytes` can read at once in about the same time as a single byte."""
        reader: type[Reader] | Reader = self._reader or DescriptorReader
        return reader.small_read_bytes

    def look_at_bytes(self, look: Callable[[Callable[[int, int], bytes], int], _Result | None]) -> _Result | None:
        """Call ``look(read_at, file_size)``, where ``read_at(position, num_bytes)`` reads any bytes of the file.

        Return the result of ``look``, or ``None`` if the file cannot be opened or read, for example because too many
        files are open. The position of the demuxer does not change.
        """
        shared = self.byte_reader
        try:
            file = self.source.open_bytes() if shared is None else shared
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
        """Whether the palette of a stream changes. Its packets then depend on earlier packets."""
        return any(palettes.changes for palettes in self._palettes.values())

    def will_need(self, start: int, stop: int) -> None:
        """Tell the source that bytes [start, stop) will be read next. A remote source can fetch them in one request."""
        if self._reader is not None:
            self._reader.will_need(start, stop)

    def read_packet(self) -> Any | None:
        """Return the next packet, or ``None`` at the end of the file. Raise `ReadError` if reading fails."""
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
        """Return whether an error during reading means the end of the file. If it does not, reading can continue.

        Raises `ReadError` if reading has failed.
        """
        if isinstance(error, av.EOFError):
            return True
        if isinstance(error, IndexError):
            # PyAV raises this for packets of a stream that only starts later in the file. Reading can continue.
            self._packets = self._container.demux(*self.streams)
            return False
        raise_interruption(self._reader)
        if isinstance(error, ReadError):
            raise error
        kind = SourceFaultError if isinstance(error, (TimeoutError, ConnectionError)) else ReadError
        raise kind(f"Failed to read from {self.source.describe()}: {error_text(error)}.") from error

    def push_back(self, packets: Iterable[Any]) -> None:
        """Return packets to the demuxer, which will yield them again before the rest of the file."""
        self._packets = chain(packets, self._packets)

    def seek(self, timestamp: int, number: int = 0) -> bool:
        """Seek to a key frame at or before a time. Return ``False`` if seeking fails.

        ``timestamp`` is in ticks of the selected stream with this ``number``. FFmpeg can end up elsewhere, so the
        caller must check the time of the next packet.
        """
        return self._seek(max(-_MAX_TIMESTAMP, min(timestamp, _MAX_TIMESTAMP)), number)

    def seek_bytes(self, position: int) -> bool:
        """Seek to a byte position, so that the next packet starts there or later. Return ``False`` if seeking fails."""
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
        """Return a codec context that has not been opened, for the selected stream with this ``number``.

        When this demuxer seeks, it does not flush the codec. For a second or later codec context of the same stream,
        the source is opened again.
        """
        assert self._picked is not None
        index, media_type = self._picked[number]
        if index not in self._taken:
            self._taken.add(index)
            return self.streams[number].codec_context
        return self._open_codec(index, media_type)

    def _open_codec(self, index: int, media_type: str) -> Any:
        """Open the source again to get another codec context of the stream with this ``index``."""
        container, reader = open_container(self.source)
        try:
            return choose_stream(container, index, media_type).codec_context
        finally:
            close_container(container, reader)

    def reopen(self) -> None:
        self.close()
        self.open()

    def rewind(self) -> None:
        """Reopen the source, unless the demuxer is at the beginning."""
        if not self.is_fresh:
            self.reopen()

    def close(self) -> None:
        """Close the container. Codecs from `take_codec` can still be used."""
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
        # `close` waits for the codecs' threads, so it must run before the codecs are freed. If nothing is open, it must
        # not run, because at the exit of the interpreter the functions that it calls may be gone.
        if getattr(self, "_container", None) is not None:
            self.close()


class _Palettes:
    """Keeps the palettes of a stream, because demuxers return a palette only with the first packet that uses it."""

    def __init__(self) -> None:
        # (position in the file, palette) of each packet that comes with a new palette.
        self._known: list[tuple[int, bytes]] = []

    @property
    def changes(self) -> bool:
        return len(self._known) > 1

    def complete(self, packet: Any) -> None:
        """Attach the current palette to a packet that has no palette. If the packet has a palette, store it."""
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
    make_side_data: Any = av.packet.PacketSideData  # its type hints have no constructor
    side_data = make_side_data(av.packet.packet_sidedata_type_from_literal(kind), len(data))
    side_data.update(data)
    packet.set_sidedata(side_data)
