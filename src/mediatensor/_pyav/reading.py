"""Reading packets and frames of one video stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from av.video.frame import PictureType

from .._sources import Source
from ..errors import ReadError
from .packets import PacketReader, set_side_data
from .probe import NO_TIMESTAMPS_FLAG, StreamInfo

__all__ = [
    "DISCARD_ENTRY",
    "KEY_ENTRY",
    "PacketInfo",
    "VideoReader",
    "is_key_frame",
    "packet_info",
]

# Largest picture that is decoded, in pixels. A header of a few bytes can ask for terabytes.
MAX_PIXELS = 1 << 28

# FFV1 conceals damage without a word, from whichever picture the same thread decoded before. MPEG-4's frame threads
# race for the score by which it tells damage from the padding bug of some encoders, and for the time step that direct
# prediction of fields needs. Those of VP3 and its descendants take over each other's quantizers only if numbers differ
# that have nothing to do with each other (FFmpeg compares all of one picture's with the second one of another's), so
# that a picture may be decoded with those of three before.
_THREAD_TYPES = {"ffv1": "SLICE", "mpeg4": "SLICE", "theora": "NONE", "vp3": "NONE", "vp4": "NONE"}

# Of FFmpeg's AV_CODEC_CAP, by the kind of threads; those of other libraries are asked for with either.
_THREAD_CAPABILITIES = {"AUTO": 1 << 12 | 1 << 13 | 1 << 15, "SLICE": 1 << 13 | 1 << 15, "NONE": 0}

# What makes a codec refuse damage; MPEG-4 overlooks what it takes for a padding bug unless leftover bits count, too.
_STRICT = "explode"
_STRICT_BY_CODEC = {"mpeg4": "explode+buffer"}

#: Flags of `VideoReader.index_entries`.
KEY_ENTRY, DISCARD_ENTRY = 1, 2

_TIMES_MAY_RESTART_FLAG = 0x200  # AVFMT_TS_DISCONT

# ASF has one time a packet, and many writers put that of decoding there; VC-1 is stored like that elsewhere, too.
_FORMATS_OF_DECODING_TIMES, _CODECS_OF_DECODING_TIMES = frozenset(("asf", "asf_o")), frozenset(("vc1", "wmv3"))


class PacketInfo(NamedTuple):
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


class Decoder(Protocol):
    """What a reader needs of that which decodes its packets, see `mediatensor.backends.PictureDecoder`."""

    @property
    def is_open(self) -> bool: ...
    def decode(self, packet: Any | None) -> Sequence[Any]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class VideoReader(PacketReader):
    """An open handle on one video stream: its packets in order, a seek, and a decoder.

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
        self._decoder: Decoder | None = None
        self._stream_info: StreamInfo | None = None
        # (position in the file, palette) of the packets that came with another palette than the one before.
        self._palettes: list[tuple[int, bytes]] = []
        super().__init__(source, stream_index, num_threads)

    def _open(self, stream_index: int | None) -> None:
        super()._open(stream_index)
        if self._context.pix_fmt != "pal8" or self._palettes:
            return
        # A seek would drop the first packet, with the palette of the header.
        try:
            packet = self.read_packet()
        except ReadError:
            packet = None
        if packet is None:
            self.close()
            super()._open(stream_index)
        else:
            self._packets = chain([packet], self._packets)
            self.is_fresh = True

    def _configure_codec(self, context: Any) -> None:
        context.thread_count = self._num_threads if self.codec_has_threads else 1
        context.thread_type = "NONE" if self._num_threads == 1 else _THREAD_TYPES.get(context.name, "AUTO")
        strict = _STRICT_BY_CODEC.get(context.name, _STRICT)
        context.options = {"max_pixels": str(MAX_PIXELS), "err_detect": strict if self._is_strict else "0"}

    def read_packet(self) -> Any | None:
        packet = super().read_packet()
        if packet is not None and self._context.pix_fmt == "pal8":
            self._complete_with_palette(packet)
        return packet

    def _complete_with_palette(self, packet: Any) -> None:
        """Have a packet bring the palette that holds for it: demuxers hand out each palette but once."""
        position = -1 if packet.pos is None else packet.pos
        number = bisect_right(self._palettes, position, key=itemgetter(0))
        current = self._palettes[max(0, number - 1)][1] if self._palettes else None
        if packet.has_sidedata("palette"):
            palette = bytes(packet.get_sidedata("palette"))
            if palette != current:
                self._palettes.insert(number, (position, palette))
        elif current is not None:
            set_side_data(packet, "palette", current)

    @property
    def changes_palette(self) -> bool:
        """Whether the packets read so far have different palettes, so that each depends on others before it."""
        return len(self._palettes) > 1

    def stream_info(self) -> StreamInfo:
        if self._stream_info is None:
            self._stream_info = super().stream_info()
        return self._stream_info

    @property
    def codec_context(self) -> Any:
        """The codec of the demuxer's stream, configured."""
        return self._context

    @property
    def is_codec_open(self) -> bool:
        if self._open_decoder is None:
            return super().is_codec_open
        return self._decoder is not None and self._decoder.is_open

    def decode(self, packet: Any | None) -> Sequence[Any]:
        if self._open_decoder is None:
            return super().decode(packet)
        if self._decoder is None:  # not before it is needed: reading packets alone takes none
            self._decoder = self._open_decoder(self)
        return self._decoder.decode(packet)

    def _flush(self) -> None:
        if self._decoder is not None:
            self._decoder.flush()

    def close(self) -> None:
        decoder, self._decoder = self._decoder, None
        try:
            if decoder is not None:
                decoder.close()
        finally:
            super().close()

    @property
    def codec_has_threads(self) -> bool:
        """Whether the codec decodes faster with several threads, and right."""
        kind = _THREAD_TYPES.get(self._context.name, "AUTO")
        return bool(self._context.codec.capabilities & _THREAD_CAPABILITIES[kind])

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
    def may_time_decoding(self) -> bool:
        """Whether pictures are reordered, and what passes for their times may be when each is decoded."""
        return self.reorder_depth > 0 and (
            self._container.format.name in _FORMATS_OF_DECODING_TIMES
            or self.stream_info().codec in _CODECS_OF_DECODING_TIMES
        )

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
    def is_strict(self) -> bool:
        """Whether the codec refuses packets in which it finds errors."""
        return self._is_strict

    def decode_leniently(self) -> None:
        """From now on conceal errors as a plain decode does: with one thread, because concealment depends on that."""
        if self._is_strict or self._num_threads != 1:
            self._is_strict, self._num_threads = False, 1
            self.reopen()

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


def packet_info(packet: Any) -> PacketInfo:
    return PacketInfo(
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


def is_key_frame(picture: Any) -> bool:
    """Whether the codec says that a picture refers to no other."""
    return bool(picture.key_frame) or getattr(picture, "pict_type", None) == PictureType.I
