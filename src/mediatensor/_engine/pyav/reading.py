"""Reading and decoding one stream: a demuxer and a decoder together, and what is particular to video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import av
from av.video.frame import PictureType

from ...errors import MediaTensorError, ReadError, StreamError
from ..common.interrupts import raise_kept_interrupt
from ..sources.source import Source
from .demuxer import Demuxer
from .opening import choose_stream, close_container, open_container
from .packet_decoder import PacketDecoder, codec_has_threads, configure_video_codec
from .probe import StreamInfo, stream_info

__all__ = [
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "StreamReader",
    "VideoReader",
    "is_key_frame",
]

#: Flags of `VideoReader.index_entries`.
KEY_ENTRY, DISCARD_ENTRY = 1, 2

# The demuxers that say how packets are encrypted, and those that pass on what another one says.
_FORMATS_OF_ENCRYPTION = frozenset(("concat", "dash", "hls", "mov", "mp4"))


class Decoder(Protocol):
    """What a reader needs of that which decodes its packets, see `mediatensor.backends.PictureDecoder`."""

    @property
    def is_open(self) -> bool: ...
    def decode(self, packet: Any | None) -> Sequence[Any]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class StreamReader(Demuxer, ABC):
    """A demuxer of one stream, with what decodes its packets.

    Args:
        source: Where to read from.
        stream_index: Index among all streams; ``None`` for the one FFmpeg thinks best.
        num_threads: Threads of the codec; 0 lets FFmpeg decide.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such stream of the reader's kind.
    """

    #: ``"video"``, ``"audio"`` or ``"subtitle"``.
    media_type: str

    def __init__(self, source: Source, stream_index: int | None, num_threads: int) -> None:
        self._num_threads = num_threads
        self._stream: Any = None
        self._context: Any = None
        self._decoder: Decoder | None = None
        media_type = self.media_type
        super().__init__(source, lambda container: [choose_stream(container, stream_index, media_type)])

    def open(self) -> None:
        super().open()
        self._stream = self.streams[0]
        self._context = self._stream.codec_context
        self._configure_codec(self._context)

    @abstractmethod
    def _configure_codec(self, context: Any) -> None:
        """Set threads and options of a codec that is not open yet."""

    def _make_decoder(self) -> Decoder:
        """What decodes the packets; it is not made before it is needed, since reading packets takes none."""
        return PacketDecoder(self._context)

    @property
    def stream_index(self) -> int:
        return self.stream_indices[0]

    def stream_info(self) -> StreamInfo:
        """What the header says of the stream."""
        return stream_info(self._stream)

    @property
    def extradata(self) -> bytes:
        """The codec's configuration record; empty if there is none."""
        return bytes(self._context.extradata or b"")

    @property
    def is_codec_open(self) -> bool:
        return self._decoder is not None and self._decoder.is_open

    def use_threads(self, num_threads: int) -> bool:
        """From now on decode with another number of threads.

        Returns:
            Whether reading starts over, because the codec was open already.
        """
        self._num_threads = num_threads
        if self._context.is_open:
            self.reopen()
            return True
        self._configure_codec(self._context)
        return False

    def decode(self, packet: Any | None) -> Sequence[Any]:
        """Feed one packet (``None`` drains the codec) and take the frames that come out, in the codec's order.

        Raises:
            UndecodablePacketError: if the codec refuses the packet.
        """
        if self._decoder is None:
            self._decoder = self._make_decoder()
        return self._decoder.decode(packet)

    def _seek(self, offset: int, number: int, **how: bool) -> bool:
        has_moved = super()._seek(offset, number, **how)
        if has_moved and self._decoder is not None:
            self._decoder.flush()
        return has_moved

    def close(self) -> None:
        decoder, self._decoder = self._decoder, None
        # A frame in somebody's hands, or a kept exception, keeps this object; its codec's threads must not live on.
        self._stream = self._context = None
        try:
            if decoder is not None:
                decoder.close()
        finally:
            super().close()


class VideoReader(StreamReader):
    """A demuxer of one video stream, with what decodes its packets.

    Args:
        source: Where to read from.
        stream_index: Index among all streams; ``None`` for the one FFmpeg thinks best.
        num_threads: Threads of the codec; 0 lets FFmpeg decide.
        is_strict: Let the codec refuse packets in which it finds errors, instead of concealing them.
        open_decoder: Makes what decodes the packets, given this reader; by default the stream's own codec decodes.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such video stream.
    """

    media_type = "video"

    def __init__(
        self,
        source: Source,
        stream_index: int | None,
        num_threads: int,
        *,
        is_strict: bool = False,
        open_decoder: Callable[[VideoReader], Decoder] | None = None,
    ) -> None:
        self._is_strict = is_strict
        self._open_decoder = open_decoder
        self._stream_info: StreamInfo | None = None
        super().__init__(source, stream_index, num_threads)

    def _configure_codec(self, context: Any) -> None:
        configure_video_codec(context, self._num_threads, is_strict=self._is_strict)

    def _make_decoder(self) -> Decoder:
        return super()._make_decoder() if self._open_decoder is None else self._open_decoder(self)

    def stream_info(self) -> StreamInfo:
        if self._stream_info is None:
            self._stream_info = super().stream_info()
        return self._stream_info

    @property
    def codec_context(self) -> Any:
        """The codec of the demuxer's stream, configured."""
        return self._context

    @property
    def codec_has_threads(self) -> bool:
        """Whether the codec decodes faster with several threads, and right."""
        return codec_has_threads(self._context)

    @property
    def reorder_depth(self) -> int:
        """How many frames the codec holds back to put them in order."""
        return int(self._context.reorder_depth)

    @property
    def may_be_encrypted(self) -> bool:
        """Whether packets of the format can say that they are encrypted (side data ``encryption_info``)."""
        return not _FORMATS_OF_ENCRYPTION.isdisjoint(self.format_name.split(","))

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
        chosen = entries if numbers is None else [entries[number] for number in numbers]
        return [(entry.pos, entry.timestamp, entry.size, entry.flags) for entry in chosen]

    @property
    def num_pixels(self) -> int:
        """Pixels of a picture, as the header has it."""
        return int(self._context.width) * int(self._context.height)

    @property
    def is_strict(self) -> bool:
        """Whether the codec refuses packets in which it finds errors."""
        return self._is_strict

    def decode_leniently(self) -> None:
        """From now on conceal errors as a plain decode does: with one thread, because concealment depends on that."""
        if self._is_strict or self._num_threads != 1:
            self._is_strict, self._num_threads = False, 1
            self.reopen()

    def open_another_decoder(self) -> PacketDecoder | None:
        """A decoder of the stream that got no packet yet, with one thread; ``None`` if the source opens only once."""
        try:
            container, reader = open_container(self._source)
        except MediaTensorError:
            return None
        try:
            context = choose_stream(container, self.stream_index, self.media_type).codec_context
        except StreamError:
            return None
        finally:
            close_container(container, reader)
        configure_video_codec(context, 1, is_strict=False)
        return PacketDecoder(context)

    def packets(self) -> Iterator[Any]:
        """What `read_packet` gives, in one loop, which takes less time a packet. What is not taken is left to be read.

        Raises:
            ReadError: if the demuxer reports an error other than the end of the file.
        """
        self.is_fresh = False
        palettes = self._palettes
        while True:
            raise_kept_interrupt()
            try:
                for packet in self._packets:
                    if packet.size:
                        if palettes and packet.stream_index in palettes:
                            palettes[packet.stream_index].complete(packet)
                        yield packet
                        raise_kept_interrupt()
                return
            except (av.FFmpegError, ReadError, IndexError) as error:
                if self._ends_with(error):
                    return

    def peek_packets(self, count: int) -> list[Any]:
        """The packets that `read_packet` gives first, of a fresh reader, which stays so.

        Raises:
            ReadError: if the demuxer reports an error.
        """
        packets = list(islice(self.packets(), count))
        if len(packets) < count:
            self.reopen()
        else:
            self.push_back(packets)
            self.is_fresh = True
        return packets


# FFV1 calls each picture intra, and refers to states of the one before in all but key frames.
_CODECS_OF_INTRA_PICTURES = frozenset(("ffv1",))


def is_key_frame(picture: Any, codec: str | None) -> bool:
    """Whether the codec says that a picture refers to no other.

    Args:
        picture: Its frame.
        codec: FFmpeg's name of the codec.
    """
    if picture.key_frame:
        return True
    return codec not in _CODECS_OF_INTRA_PICTURES and getattr(picture, "pict_type", None) == PictureType.I
