"""Metadata of a whole file: its streams, tags and chapters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._engine.metadata import Printed, StreamMetadata, stream_header_metadata
from .._engine.pyav.opening import ContainerInfo, read_container_info
from .._engine.sources.source import make_source


@dataclass(frozen=True)
class Chapter:
    """A named part of a file.

    Attributes:
        start_seconds: Start in seconds.
        end_seconds: End in seconds.
        title: Title, if the chapter has one.
        tags: All tags of the chapter, including the title.
    """

    start_seconds: float
    end_seconds: float
    title: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(repr=False)
class DemuxerMetadata(Printed):
    """Properties of the whole file according to the header of its container, see `Demuxer.metadata`.

    Attributes:
        duration_seconds_from_header: Duration in seconds; ``None`` if the header does not state it.
        bit_rate_from_header: Bits per second of the whole file; ``None`` if the header does not state it.
        best_video_stream_index: The video stream that is decoded by default; ``None`` if there is none.
        best_audio_stream_index: The audio stream that is decoded by default; ``None`` if there is none.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> Demuxer("video.mp4").metadata.duration_seconds_from_header
        10.0
    """

    duration_seconds_from_header: float | None
    bit_rate_from_header: float | None
    best_video_stream_index: int | None
    best_audio_stream_index: int | None


@dataclass(repr=False)
class ContainerMetadata(DemuxerMetadata):
    """Properties of a container and of all its streams according to their headers.

    Attributes:
        streams: One item for each stream: `VideoStreamHeaderMetadata`, `AudioStreamHeaderMetadata`,
            `SubtitleStreamHeaderMetadata` or `StreamMetadata`.
        format_name: FFmpeg's name of the container format.
        tags: Tags of the file under the container's names, such as ``{"title": "Lesson 1"}``: at most 256 tags of at
            most 65,536 characters. Invalid Unicode is replaced by U+FFFD.
        chapters: At most 10,000 chapters, in file order.
        best_subtitle_stream_index: The stream that `SubtitleDecoder` reads by default; ``None`` if there is none. Text
            streams are preferred to image streams; among streams of the same kind, those marked as default.

    Example:
        >>> from mediatensor.decoders import get_container_metadata
        >>> metadata = get_container_metadata("video.mp4")
        >>> metadata.duration_seconds_from_header, [stream.codec for stream in metadata.streams]
        (10.0, ['h264', 'aac'])
    """

    streams: list[StreamMetadata]
    format_name: str
    tags: dict[str, str] = field(default_factory=dict)
    chapters: tuple[Chapter, ...] = ()
    best_subtitle_stream_index: int | None = None


def get_container_metadata(source: object) -> ContainerMetadata:
    """Read the headers of a file without scanning or decoding.

    Args:
        source: Any source that `VideoDecoder` accepts.

    Returns:
        `ContainerMetadata`: streams, tags, chapters, and the streams that decoders take by default.

    Raises:
        OpenError, SourceNotFoundError, SourceTypeError: if the source cannot be opened.

    Example:
        >>> from mediatensor.decoders import get_container_metadata
        >>> metadata = get_container_metadata("video.mp4")
        >>> metadata.streams[metadata.best_video_stream_index].codec
        'h264'
        >>> metadata.tags.get("title", "no title"), [chapter.title for chapter in metadata.chapters]
        ('no title', [])
    """
    return container_metadata(read_container_info(make_source(source)))


def container_metadata(info: ContainerInfo) -> ContainerMetadata:
    return ContainerMetadata(
        **_of_the_file(info),
        streams=[stream_header_metadata(stream) for stream in info.streams],
        format_name=info.format_name,
        tags=dict(info.tags),
        chapters=tuple(
            Chapter(chapter.start_seconds, chapter.end_seconds, _title(chapter.tags), dict(chapter.tags))
            for chapter in info.chapters
        ),
        best_subtitle_stream_index=info.best_subtitle_stream_index,
    )


def demuxer_metadata(info: ContainerInfo) -> DemuxerMetadata:
    """Return the metadata of an opened container without its streams."""
    return DemuxerMetadata(**_of_the_file(info))


def _of_the_file(info: ContainerInfo) -> dict[str, Any]:
    return {
        "duration_seconds_from_header": info.duration_seconds,
        "bit_rate_from_header": info.bit_rate,
        "best_video_stream_index": info.best_video_stream_index,
        "best_audio_stream_index": info.best_audio_stream_index,
    }


def _title(tags: dict[str, str]) -> str | None:
    return next((value for name, value in tags.items() if name.lower() == "title"), None)
