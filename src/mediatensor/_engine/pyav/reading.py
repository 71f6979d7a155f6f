"""Read and decode one stream: a packet decoder, and readers for video and subtitles."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import av
from av.video.frame import PictureType

from ...errors import DecodeError, MediaTensorError, ReadError, StreamError
from ..common.interrupts import raise_kept_interrupt
from ..common.pictures import MAX_FRAME_PIXELS
from ..sources.source import Source
from .demuxer import Demuxer
from .opening import (
    ContainerInfo,
    StreamInfo,
    choose_stream,
    container_info,
    error_text,
    fraction,
    keep_from_parent,
    let_rest,
    list_kinds,
    read_container_info,
    stream_info,
    valid_stream_index,
)

# Codecs whose frame threads give wrong or varying frames:
# * FFV1 conceals damage without reporting it, and uses the last frame of the same thread.
# * MPEG-4 threads race for two values: the score that distinguishes damage from the padding bug of some encoders, and
#   the time step of direct prediction in fields.
# * VP3 and its descendants copy quantizers between threads only if they differ, but compare the wrong numbers (a bug in
#   FFmpeg). A frame may therefore be decoded with the quantizers of three frames earlier.
_THREAD_TYPES = {"ffv1": "SLICE", "mpeg4": "SLICE", "theora": "NONE", "vp3": "NONE", "vp4": "NONE"}

# FFmpeg's AV_CODEC_CAP flags for each kind of threads. Codecs from other libraries support both kinds.
_THREAD_CAPABILITIES = {"AUTO": 1 << 12 | 1 << 13 | 1 << 15, "SLICE": 1 << 13 | 1 << 15, "NONE": 0}

# Options that make a codec reject damage. Without "buffer", MPEG-4 takes some damage for an encoder's padding bug.
_STRICT = "explode"
_STRICT_BY_CODEC = {"mpeg4": "explode+buffer"}

# Options that make a codec verify checksums. Other codecs conceal or skip damage, as in the ffmpeg program.
_CHECKED = {"err_detect": "crccheck+explode"}
_AUDIO_OPTIONS = {"flac": _CHECKED, "wavpack": _CHECKED, "tta": _CHECKED}
# AC-3 fills gaps with noise. With this option, the noise depends only on the frame, not on where decoding started.
_AUDIO_OPTIONS |= {"ac3": {"cons_noisegen": "1"}, "eac3": {"cons_noisegen": "1"}}


class UndecodablePacketError(Exception):
    """The codec rejected a packet, but can possibly decode later packets."""


def configure_video_codec(context: Any, num_threads: int, *, is_strict: bool, exports: str | None = None) -> None:
    """Set the threads and options of a video codec before it is opened.

    With ``is_strict``, the codec rejects damaged packets. Otherwise it conceals the damage. ``exports`` names side data
    that the codec adds to frames (`mediatensor._engine.pyav.exports.ExportKind`).
    """
    context.thread_count = num_threads if codec_has_threads(context, exports) else 1
    context.thread_type = "NONE" if context.thread_count == 1 else _THREAD_TYPES.get(context.name, "AUTO")
    strict = _STRICT_BY_CODEC.get(context.name, _STRICT)
    context.options = {"max_pixels": str(MAX_FRAME_PIXELS), "err_detect": strict if is_strict else "0"}
    if exports is not None:
        context.options |= {"export_side_data": exports}


def configure_audio_codec(context: Any, num_threads: int) -> None:
    context.thread_count = num_threads
    context.thread_type = "NONE" if num_threads == 1 else "FRAME"
    context.options = dict(_AUDIO_OPTIONS.get(context.name, {}))


def codec_has_threads(context: Any, exports: str | None = None) -> bool:
    """Return whether a video codec is faster with several threads and still gives the same result."""
    if exports is not None:
        # A frame thread of H.264 exports the data of an earlier frame, which another thread may still be decoding.
        return False
    kind = _THREAD_TYPES.get(context.name, "AUTO")
    return bool(context.codec.capabilities & _THREAD_CAPABILITIES[kind])


def make_packet(data: bytes) -> Any:
    packet = av.Packet(len(data))  # allocates the padding that codecs read beyond the end
    packet.update(data)
    return packet


def without_discard_flag(packet: Any) -> Any:
    """Return a copy of a packet that an edit list hides. Its frame comes out of the codec, without a time stamp."""
    shown = make_packet(bytes(packet))
    shown.dts, shown.time_base, shown.is_keyframe = packet.dts, packet.time_base, packet.is_keyframe
    for side_data in packet.iter_sidedata():
        shown.set_sidedata(side_data)
    return shown


class FrameTags(Protocol):
    """The methods with which a `PacketDecoder` tags pictures; see `mediatensor._engine.pyav.stated_colours`."""

    @property
    def is_active(self) -> bool: ...
    @property
    def is_plain(self) -> Callable[[Any], bool]: ...
    def read(self, packet: Any) -> None: ...
    def tag(self, pictures: Sequence[Any]) -> Sequence[Any]: ...
    def reset(self) -> None: ...


class PacketDecoder:
    """Decodes the packets of one stream to frames. ``context`` is PyAV's codec context, configured but not yet open.

    ``tags`` changes the tags of frames after it has read a packet of a key frame that is not plain.
    """

    def __init__(self, context: Any, tags: FrameTags | None = None) -> None:
        self._context = context
        self.tags = tags
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the codec is open. Decoding the first packet opens it."""
        return bool(self._context.is_open)

    def decode(self, packet: Any | None) -> Sequence[Any]:
        """Feed a packet to the codec; return the pictures that come out, in the codec's output order.

        ``None`` marks the end of the stream and drains the codec. Raises `UndecodablePacketError` if the codec rejects
        the packet.
        """
        tags = self.tags
        if (
            tags is not None
            and packet is not None
            and (tags.is_active or (packet.is_keyframe and not tags.is_plain(packet)))
        ):
            tags.read(packet)
        try:
            pictures: Sequence[Any] = self._context.decode(packet)
        except av.EOFError:
            return []
        except (av.FFmpegError, ValueError) as error:
            raise UndecodablePacketError(error_text(error)) from error
        return pictures if tags is None or not tags.is_active else tags.tag(pictures)

    def flush(self) -> None:
        """Discard the codec's state. Call this before decoding packets from another position in the stream."""
        self._context.flush_buffers()
        if self.tags is not None and self.tags.is_active:
            self.tags.reset()

    def close(self) -> None:
        context, self._context = self._context, None
        if self._process != os.getpid():
            keep_from_parent(context)
        elif context is not None:
            let_rest(context)


#: Flags of `VideoReader.index_entries`.
KEY_ENTRY, DISCARD_ENTRY = 1, 2

# Demuxers that mark encrypted packets, and demuxers that use these demuxers.
_FORMATS_OF_ENCRYPTION = frozenset(("concat", "dash", "hls", "mov", "mp4"))


class Decoder(Protocol):
    """The methods that a `StreamReader` needs of its decoder; see `mediatensor.backends.PictureDecoder`."""

    @property
    def is_open(self) -> bool: ...
    def decode(self, packet: Any | None) -> Sequence[Any]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class StreamReader(Demuxer, ABC):
    """Reads the packets of one stream, and decodes them.

    ``stream_index`` is an index among all streams of the file; ``None`` selects FFmpeg's best stream of type
    ``media_type``. With ``num_threads=0``, FFmpeg chooses the number of threads.
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
        """Set the threads and options of a codec before it is opened."""

    def _make_decoder(self) -> Decoder:
        """Make the decoder. This is called only when the first packet is decoded; reading packets needs no decoder."""
        return PacketDecoder(self._context)

    @property
    def stream_index(self) -> int:
        return self.stream_indices[0]

    def stream_info(self) -> StreamInfo:
        return stream_info(self._stream)

    @property
    def extradata(self) -> bytes:
        """The codec's configuration record as stored by the container. It is empty if there is none."""
        return bytes(self._context.extradata or b"")

    @property
    def is_codec_open(self) -> bool:
        return self._decoder is not None and self._decoder.is_open

    def use_threads(self, num_threads: int) -> bool:
        """Change the number of codec threads. Return whether this has reopened the stream.

        The stream is reopened if the codec is open, because an open codec cannot change its threads.
        """
        self._num_threads = num_threads
        if self._context.is_open:
            self.reopen()
            return True
        self._configure_codec(self._context)
        return False

    @property
    def decoder(self) -> Decoder:
        """The current decoder. Do not keep it, because reopening the reader replaces it."""
        if self._decoder is None:
            self._decoder = self._make_decoder()
        return self._decoder

    def decode(self, packet: Any | None) -> Sequence[Any]:
        return self.decoder.decode(packet)

    def _seek(self, offset: int, number: int, **how: bool) -> bool:
        has_moved = super()._seek(offset, number, **how)
        if has_moved and self._decoder is not None:
            self._decoder.flush()
        return has_moved

    def close(self) -> None:
        decoder, self._decoder = self._decoder, None
        # A user's frame or a stored exception may keep this object alive. The codec's threads must end anyway.
        self._stream = self._context = None
        try:
            if decoder is not None:
                decoder.close()
        finally:
            super().close()


class VideoReader(StreamReader):
    """Reads the packets of one video stream, and decodes them.

    With ``is_strict``, the codec rejects damaged packets. Otherwise it conceals the damage. ``open_decoder`` makes the
    decoder for this reader; by default, the stream's own codec decodes. ``exports`` names side data that this codec
    adds to frames.
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
        exports: str | None = None,
    ) -> None:
        self.is_strict = is_strict
        self.exports = exports
        self._open_decoder = open_decoder
        self._stream_info: StreamInfo | None = None
        super().__init__(source, stream_index, num_threads)

    def _configure_codec(self, context: Any) -> None:
        configure_video_codec(context, self._num_threads, is_strict=self.is_strict, exports=self.exports)

    def _make_decoder(self) -> Decoder:
        return super()._make_decoder() if self._open_decoder is None else self._open_decoder(self)

    def decode_with(self, open_decoder: Callable[[VideoReader], Decoder]) -> None:
        """Make decoders with another function from now on. Reopen the stream if it has a decoder."""
        self._open_decoder = open_decoder
        if self._decoder is not None:
            self.reopen()

    def stream_info(self) -> StreamInfo:
        if self._stream_info is None:
            self._stream_info = super().stream_info()
        return self._stream_info

    def container_info(self) -> ContainerInfo:
        return container_info(self._container, self._stream_info)

    @property
    def codec_context(self) -> Any:
        return self._context

    @property
    def codec_has_threads(self) -> bool:
        return codec_has_threads(self._context, self.exports)

    @property
    def reorder_depth(self) -> int:
        """How many frames the codec holds back before it can return them in presentation order."""
        return int(self._context.reorder_depth)

    @property
    def may_be_encrypted(self) -> bool:
        """Whether the format can have encrypted packets. Its demuxer marks them with the side data encryption_info."""
        return not _FORMATS_OF_ENCRYPTION.isdisjoint(self.format_name.split(","))

    @property
    def track_id(self) -> int:
        """The stream's ID in the container, which can differ from its index."""
        return int(self._stream.id)

    @property
    def is_intra_only(self) -> bool:
        """Whether the codec makes only key frames. The container does not always mark all of them as key frames."""
        return bool(self._context.codec.intra_only)

    @property
    def num_index_entries(self) -> int:
        """The number of entries in the packet list of FFmpeg's demuxer. In some formats, the list can be incomplete."""
        return len(self._stream.index_entries)

    def index_entries(self, numbers: Sequence[int] | None = None) -> list[list[int]]:
        """Return the columns position, dts, size and flags of the packet list, or of its entries with these numbers.

        If the codec makes only key frames, all entries have the flag of key frames.
        """
        entries = self._stream.index_entries
        chosen = list(entries) if numbers is None else [entries[number] for number in numbers]
        intra = KEY_ENTRY if self.is_intra_only else 0
        flags = [entry.flags | intra for entry in chosen]
        return [[entry.pos for entry in chosen], [entry.timestamp for entry in chosen], [e.size for e in chosen], flags]

    @property
    def num_pixels(self) -> int:
        return int(self._context.width) * int(self._context.height)

    def decode_leniently(self) -> None:
        """From now on, conceal damage instead of rejecting packets, and use one thread.

        With several threads, the concealed frames would depend on the number of threads.
        """
        if self.is_strict or self._num_threads != 1:
            self.is_strict, self._num_threads = False, 1
            self.reopen()

    def open_another_decoder(self) -> PacketDecoder | None:
        """Return a new decoder of the stream that uses one thread, or ``None`` if the source cannot be opened again."""
        try:
            context = self._open_codec(self.stream_index, self.media_type)
        except MediaTensorError:
            return None
        configure_video_codec(context, 1, is_strict=False)
        return PacketDecoder(context)

    def packets(self) -> Iterator[Any]:
        """Yield the remaining packets of the stream. This is faster than calling `read_packet` for each packet.

        If the caller stops early, it can still read the remaining packets.
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
        """Return the first ``count`` packets without consuming them. The reader must be at the stream's beginning."""
        packets = list(islice(self.packets(), count))
        if len(packets) < count:
            self.reopen()
        else:
            self.push_back(packets)
            self.is_fresh = True
        return packets


# FFV1 marks every frame as intra, although only its key frames are independent of the previous frame.
_CODECS_WITHOUT_INTRA_TYPES = frozenset(("ffv1",))


def is_key_frame(picture: Any, codec: str | None) -> bool:
    """Return whether the codec marks a frame as decodable without other frames."""
    if picture.key_frame:
        return True
    return codec not in _CODECS_WITHOUT_INTRA_TYPES and getattr(picture, "pict_type", None) == PictureType.I


#: Codecs whose packets contain text. Packets of other codecs are decoded to lines of ASS.
READABLE_PACKETS = frozenset(("ass", "mov_text", "subrip", "text", "webvtt"))

# The duration in milliseconds that FFmpeg gives a subtitle without an end.
_FOREVER = 0xFFFFFFFF


class SubtitlePacket(NamedTuple):
    """A subtitle packet: its start, its duration, and its lines of text."""

    start_seconds: float
    duration_seconds: float | None  # `None` if the file does not state it
    # The packet itself if its codec is in `READABLE_PACKETS`, otherwise the fields of an ASS line for each decoded
    # event.
    lines: tuple[bytes, ...]


def read_subtitle_info(source: Source, stream_index: int | None) -> tuple[ContainerInfo, StreamInfo]:
    """Return the header of a file, and the header of one of its text subtitle streams.

    ``stream_index`` is an index among all streams. ``None`` selects the first default text stream or, if there is none,
    the first text stream. Raises `StreamError` if there is no such stream, or if it has no text.
    """
    container = read_container_info(source)
    if stream_index is None:
        stream_index = container.best_subtitle_stream_index
        if stream_index is None:
            kinds = list_kinds(stream.media_type for stream in container.streams)
            raise StreamError(f"The source has no stream of subtitles (streams: {kinds}).")
    stream = container.streams[valid_stream_index(stream_index, len(container.streams))]
    _check_is_text(stream)
    return container, stream


def read_subtitle_packets(source: Source, stream_index: int) -> Generator[SubtitlePacket]:
    """Yield the packets of a text subtitle stream in file order. Skip packets that have no time.

    Raises `ReadError` if reading fails, and `DecodeError` if a packet cannot be decoded.
    """
    reader = _SubtitleReader(source, stream_index, num_threads=1)
    try:
        _check_is_text(reader.stream_info())
        for packet in iter(reader.read_packet, None):
            if packet.pts is not None:
                yield reader.contents(packet)
    finally:
        reader.close()


class _SubtitleReader(StreamReader):
    media_type = "subtitle"

    def _configure_codec(self, context: Any) -> None:
        """Do nothing: subtitle codecs have no threads."""

    def contents(self, packet: Any) -> SubtitlePacket:
        tick = fraction(packet.time_base) or fraction(self._stream.time_base)
        start = float(packet.pts * tick) if tick else 0.0
        duration = float(packet.duration * tick) if tick and packet.duration and packet.duration > 0 else None
        if self._context.codec.canonical_name in READABLE_PACKETS:
            return SubtitlePacket(start, duration, (bytes(packet),))
        try:
            shown = self._context.decode2(packet)
        except (av.FFmpegError, ValueError) as error:
            raise DecodeError(f"The subtitle at {start} seconds does not decode: {error_text(error)}.") from error
        if shown is None:
            return SubtitlePacket(start, duration, ())
        if duration is None and 0 < shown.end_display_time < _FOREVER:
            duration = shown.end_display_time / 1000
        return SubtitlePacket(start, duration, tuple(rect.ass for rect in shown if rect.type in (b"ass", b"text")))


def _check_is_text(stream: StreamInfo) -> None:
    if stream.media_type != "subtitle":
        raise StreamError(
            f"The stream at index {stream.index} is not a stream of subtitles. It is of type {stream.media_type!r}."
        )
    if stream.is_text is None:
        raise StreamError(f"The subtitles in stream {stream.index} are of a codec that FFmpeg has no decoder for.")
    if not stream.is_text:
        raise StreamError(
            f"The subtitles in stream {stream.index} are pictures ({stream.codec}); only subtitles that are stored as "
            "text can be read."
        )
