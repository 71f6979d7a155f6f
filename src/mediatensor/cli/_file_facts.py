"""What is in a media file, as plain values: what its headers say, and what reading its streams finds."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from .._pyav import ContainerFacts, read_container_facts
from .._pyav import StreamFacts as HeaderFacts
from .._source import make_source
from ..decoders import Chapter, SubtitleDecoder
from ..decoders._container_metadata import container_metadata
from ..errors import MediaTensorError, StreamError
from ._video_facts import VideoFacts, video_facts

__all__ = ["AudioFacts", "FileFacts", "StreamSummary", "SubtitleFacts", "collect"]


@dataclass(frozen=True)
class StreamSummary:
    """What the headers say of one stream."""

    index: int
    media_type: str
    codec: str | None
    duration_seconds: float | None = None
    bit_rate: float | None = None
    width: int | None = None
    height: int | None = None
    average_fps: float | None = None
    sample_rate: int | None = None
    num_channels: int | None = None
    channel_layout: str | None = None
    language: str | None = None
    disposition: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AudioFacts:
    """The chosen audio stream, as ``--json`` prints it."""

    stream_index: int
    codec: str | None = None
    profile: str | None = None
    sample_rate: int | None = None
    num_channels: int | None = None
    channel_layout: str | None = None
    sample_format: str | None = None
    bit_rate: float | None = None
    language: str | None = None
    begin_seconds: float | None = None
    duration_seconds: float | None = None


@dataclass(frozen=True)
class SubtitleFacts:
    """The chosen stream of subtitles, as ``--json`` prints it."""

    stream_index: int
    codec: str | None = None
    language: str | None = None
    is_text: bool | None = None
    scanned: bool = False
    num_subtitles: int | None = None
    begin_seconds: float | None = None
    end_seconds: float | None = None
    anomalies: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """A media file, as ``--json`` prints it."""

    file: str
    file_size_bytes: int | None
    container: str | None
    duration_seconds: float | None
    bit_rate: float | None
    tags: dict[str, str] = field(default_factory=dict)
    chapters: tuple[Chapter, ...] = ()
    streams: tuple[StreamSummary, ...]
    video: VideoFacts | None = None
    audio: AudioFacts | None = None
    subtitles: SubtitleFacts | None = None
    error: str | None = None


def collect(file: str, stream_index: int | None, *, scan: bool) -> FileFacts:
    """Read what is in ``file``.

    Args:
        file: Path or URL.
        stream_index: The stream to describe instead of the best one of its kind.
        scan: Read the packets of the video and of the subtitles, and decode a frame.

    Raises:
        MediaTensorError: if the file cannot be opened. A video stream that cannot be decoded is no reason to raise:
            the result says so in ``error``, beside all that the headers say.
    """
    container = read_container_facts(make_source(file))
    facts = FileFacts(
        file=file,
        file_size_bytes=os.path.getsize(file) if os.path.isfile(file) else None,
        container=container.format_name,
        duration_seconds=container.duration_seconds,
        bit_rate=container.bit_rate,
        tags=container.tags,
        chapters=container_metadata(container).chapters,
        streams=tuple(_stream_summary(stream) for stream in container.streams),
    )
    try:
        chosen = _choose(container, stream_index)
    except StreamError as failure:
        return replace(facts, error=str(failure))
    if "audio" in chosen:
        facts = replace(facts, audio=_audio_facts(chosen["audio"], container.duration_seconds))
    if "subtitle" in chosen:
        facts = replace(facts, subtitles=_subtitle_facts(file, chosen["subtitle"], scan=scan))
    if "video" in chosen:
        try:
            facts = replace(facts, video=video_facts(file, chosen["video"], scan=scan))
        except MediaTensorError as failure:
            facts = replace(facts, error=str(failure))
    return facts


def _choose(container: ContainerFacts, stream_index: int | None) -> dict[str, HeaderFacts]:
    """The stream of each kind that is described: the best, or the one that was asked for."""
    streams = {stream.index: stream for stream in container.streams}
    best = (
        ("video", container.best_video_stream_index),
        ("audio", container.best_audio_stream_index),
        ("subtitle", container.best_subtitle_stream_index),
    )
    chosen = {kind: streams[index] for kind, index in best if index is not None}
    if stream_index is not None:
        asked = streams.get(stream_index)
        if asked is None or asked.media_type not in ("video", "audio", "subtitle"):
            others = ", ".join(f"{stream.index} {stream.media_type}" for stream in container.streams)
            raise StreamError(
                f"Stream {stream_index} is not a stream of video, audio or subtitles of this file ({others})."
            )
        chosen[asked.media_type] = asked
    return chosen


def _stream_summary(header: HeaderFacts) -> StreamSummary:
    return StreamSummary(
        index=header.index,
        media_type=header.media_type,
        codec=header.codec,
        duration_seconds=header.duration_seconds,
        bit_rate=header.bit_rate,
        width=header.width,
        height=header.height,
        average_fps=float(header.frame_rate) if header.frame_rate else None,
        sample_rate=header.sample_rate,
        num_channels=header.num_channels,
        channel_layout=header.channel_layout,
        language=header.language,
        disposition=header.disposition,
        tags=header.tags,
    )


def _audio_facts(header: HeaderFacts, container_duration_seconds: float | None) -> AudioFacts:
    duration = header.duration_seconds
    return AudioFacts(
        stream_index=header.index,
        codec=header.codec,
        profile=header.profile,
        sample_rate=header.sample_rate,
        num_channels=header.num_channels,
        channel_layout=header.channel_layout,
        sample_format=header.sample_format,
        bit_rate=header.bit_rate,
        language=header.language,
        begin_seconds=header.start_seconds,
        duration_seconds=container_duration_seconds if duration is None else duration,
    )


def _subtitle_facts(file: str, header: HeaderFacts, *, scan: bool) -> SubtitleFacts:
    facts = SubtitleFacts(header.index, header.codec, header.language, header.is_text)
    if not scan or not header.is_text:
        return facts
    try:
        subtitles = SubtitleDecoder(file, stream_index=header.index).get_all_subtitles()
    except MediaTensorError as failure:
        return replace(facts, anomalies=(str(failure),))
    return replace(
        facts,
        scanned=True,
        num_subtitles=len(subtitles),
        begin_seconds=min((subtitle.start_seconds for subtitle in subtitles), default=None),
        end_seconds=max((subtitle.end_seconds for subtitle in subtitles), default=None),
    )
