"""Opening containers, and reading packets and frames of one video stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import av
from av.stream import Discard
from av.video.frame import PictureType

from .._source import Source
from ..errors import OpenError, ReadError, SourceNotFoundError, StreamError
from .facts import NO_TIMESTAMPS_FLAG, ContainerFacts, StreamFacts, container_facts, stream_facts

__all__ = ["ContainerFacts", "PacketFacts", "StreamFacts", "VideoReader", "read_container_facts"]

# Largest picture that is decoded, in pixels. A header of a few bytes can ask for terabytes.
MAX_PIXELS = 1 << 28

# FFV1 conceals damage without a word, from whichever picture the same thread decoded before.
_THREAD_TYPES = {"ffv1": "SLICE"}

_MAJOR_VERSION = int(av.__version__.split(".")[0])

# Demuxers whose input names other files or URLs.
_REFERRING_FORMATS = frozenset(
    (
        "concat",
        "dash",
        "hls",
        "image2",
        "image2pipe",
        "imf",
        "rtsp",
        "sdp",
        "vapoursynth",
        "vobsub",
        "mlv",
        "webm_dash_manifest",
    )
)
_SELF_CONTAINED_FORMATS = ",".join(sorted(av.formats_available - _REFERRING_FORMATS))


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


def _deny_opening(url: str, *_: object) -> Any:
    raise PermissionError(f"the media refers to another resource ({url!r}), which is not opened")


def open_container(source: Source) -> tuple[Any, Any]:
    """(container, reader): an open PyAV container and what must be closed after it (``None`` for a path or URL)."""
    target = source.open()
    options: dict[str, Any] = {}
    if _MAJOR_VERSION < 19:
        options["metadata_errors"] = "replace"  # tags need not be UTF-8; later versions never raise for them
    if not source.may_refer_elsewhere:
        options["options"] = {"format_whitelist": _SELF_CONTAINED_FORMATS}
    reader = None if isinstance(target, str) else target
    if reader is not None:
        options["io_open"] = _deny_opening
    try:
        return av.open(target, "r", **options), reader
    except av.FileNotFoundError as error:
        raise SourceNotFoundError(f"Could not open input file: {source.describe()} ({_text(error)}).") from error
    except (av.FFmpegError, UnicodeDecodeError) as error:
        if reader is not None:
            reader.close()
        raise OpenError(
            f"Could not open input file: {source.describe()} ({_text(error)}). It must be media that FFmpeg can read; "
            "playlists that name other files are opened only from a URL such as 'file:/path/list.m3u8'."
        ) from error
    except BaseException:
        if reader is not None:
            reader.close()
        raise


def read_container_facts(source: Source) -> ContainerFacts:
    """Open ``source``, read what its headers say, and close it."""
    container, reader = open_container(source)
    try:
        return container_facts(container)
    finally:
        _close(container, reader)


def _text(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)


def _close(container: Any, reader: Any) -> None:
    container.close()
    if reader is not None:
        reader.close()


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
            self._stream = _choose_stream(self._container, stream_index)
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
        context.options = {"max_pixels": str(MAX_PIXELS), "err_detect": "explode" if self._is_strict else "0"}
        self._context = context

    @property
    def stream_index(self) -> int:
        return int(self._stream.index)

    def facts(self) -> StreamFacts:
        return stream_facts(self._stream)

    def container_facts(self) -> ContainerFacts:
        return container_facts(self._container)

    @property
    def has_no_timestamps(self) -> bool:
        """Whether the format stores no times (elementary streams), so that they are made up while reading."""
        return bool(self._container.format.flags & NO_TIMESTAMPS_FLAG)

    @property
    def reorder_depth(self) -> int:
        """How many frames the codec holds back to put them in order."""
        return int(self._context.reorder_depth)

    @property
    def extradata(self) -> bytes:
        """The codec's configuration record; empty if there is none."""
        return bytes(self._context.extradata or b"")

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
                raise ReadError(f"Failed to read from {self._source.describe()}: {_text(error)}.") from error
            except IndexError:
                # PyAV stumbles over packets of streams that appear midway; it goes on after them.
                self._packets = self._container.demux(self._stream)

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
            raise UndecodablePacketError(_text(error)) from error

    def close(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            _close(container, self._reader)


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
        packet.has_sidedata("encryption_info"),
    )


def is_key_frame(frame: Any) -> bool:
    """Whether the codec says that a frame refers to no other."""
    return bool(frame.key_frame) or frame.pict_type == PictureType.I


def _choose_stream(container: Any, stream_index: int | None) -> Any:
    streams = container.streams
    if stream_index is None:
        best = streams.best("video")
        if best is None or best.codec_context is None:
            kinds = ", ".join(stream.type or "unknown" for stream in streams) or "none"
            raise StreamError(
                "The best video stream is unknown and there is no specified stream. "
                f"The source has no video stream that can be decoded (streams: {kinds})."
            )
        return best
    if not 0 <= stream_index < len(streams):
        raise StreamError(
            f"The stream index {stream_index} is not a valid stream. The source has streams 0 to {len(streams) - 1}."
        )
    stream = streams[stream_index]
    if stream.type != "video" or stream.codec_context is None:
        raise StreamError(
            f"The stream at index {stream_index} is not a video stream that can be decoded. "
            f"It is of type {stream.type or 'unknown'!r}."
        )
    return stream
