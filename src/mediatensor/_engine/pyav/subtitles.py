"""Reading the packets of a stream of subtitles."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import av

from ...errors import DecodeError, StreamError
from ..common.checks import whole_number
from ..sources.source import Source
from .opening import error_text, read_container_info
from .probe import ContainerInfo, StreamInfo, fraction
from .reading import StreamReader

__all__ = ["READABLE_PACKETS", "SubtitlePacket", "read_subtitle_info", "read_subtitle_packets"]

#: Codecs whose packets can be read as they are; those of the others are decoded into lines of ASS.
READABLE_PACKETS = frozenset(("ass", "mov_text", "subrip", "text", "webvtt"))

# How long FFmpeg shows what states no end, in milliseconds.
_FOREVER = 0xFFFFFFFF


class SubtitlePacket(NamedTuple):
    """What one packet shows.

    Attributes:
        start_seconds: When it is shown.
        duration_seconds: For how long; ``None`` if that is not stated.
        lines: The packet, if its codec is among `READABLE_PACKETS`; else the events into which it was decoded, each
            as the fields of a line of ASS.
    """

    start_seconds: float
    duration_seconds: float | None
    lines: tuple[bytes, ...]


def read_subtitle_info(source: Source, stream_index: int | None) -> tuple[ContainerInfo, StreamInfo]:
    """What the headers say of a file and of its stream of text subtitles.

    Args:
        source: Where to read from.
        stream_index: Index among all streams; ``None`` takes the first one of text that is marked as default, else
            the first one of text.

    Raises:
        OpenError, SourceNotFoundError: if the source cannot be opened.
        StreamError: if there is no such stream, or it is not of text.
    """
    container = read_container_info(source)
    return container, _choose_stream(container, stream_index)


def read_subtitle_packets(source: Source, stream_index: int) -> Generator[SubtitlePacket]:
    """Every packet of a stream of text subtitles that has a time, in the order of the file.

    Raises:
        OpenError, StreamError: as `read_subtitle_info`.
        ReadError: if the demuxer reports an error other than the end of the file.
        DecodeError: if a packet does not decode.
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
    """An open handle on one stream of subtitles."""

    media_type = "subtitle"

    def _configure_codec(self, context: Any) -> None:
        """Codecs of subtitles have no threads."""

    def contents(self, packet: Any) -> SubtitlePacket:
        """What a packet shows.

        Raises:
            DecodeError: if it does not decode.
        """
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


def _choose_stream(container: ContainerInfo, stream_index: int | None) -> StreamInfo:
    if stream_index is None:
        stream_index = container.best_subtitle_stream_index
        if stream_index is None:
            kinds = ", ".join(stream.media_type for stream in container.streams) or "none"
            raise StreamError(f"The source has no stream of subtitles (streams: {kinds}).")
    stream_index = whole_number("stream_index", stream_index, or_none=True)
    if not 0 <= stream_index < len(container.streams):
        last = len(container.streams) - 1
        raise StreamError(f"The stream index {stream_index} is not a valid stream. The source has streams 0 to {last}.")
    _check_is_text(container.streams[stream_index])
    return container.streams[stream_index]


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
