"""Define the metadata of streams and of whole files that the public API returns."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from operator import attrgetter
from typing import Any

from .index.frame_index import FrameIndex
from .pyav.opening import ContainerInfo, StreamInfo, read_container_info
from .sources.source import make_source

# A header that counts fewer frames than this share of duration times frame rate does not count all of them.
_MIN_SHARE_OF_ESTIMATE = 0.9


class Printed:
    """Base of dataclasses whose ``repr`` has one line for each field. Keyword-only fields come last."""

    def __repr__(self) -> str:
        specs = fields(self)  # type: ignore[arg-type]
        lines = [f"  {spec.name}: {getattr(self, spec.name)}" for spec in sorted(specs, key=attrgetter("kw_only"))]
        return "\n".join([f"{type(self).__name__}:", *lines])


@dataclass(repr=False)
class StreamMetadata(Printed):
    """Metadata that streams of all kinds have. Unknown values are ``None``.

    Attributes:
        duration_seconds_from_header: Duration in seconds, as the container states it.
        begin_stream_seconds_from_header: Start time in seconds, as the container states it.
        bit_rate: Bits per second.
        codec: FFmpeg's name of the codec, such as ``"h264"``.
        stream_index: Index of the stream among all streams of the container.
        media_type: ``"video"``, ``"audio"``, ``"subtitle"``, ``"data"``, ``"attachment"`` or ``"unknown"``.
        tags: The container's tags for the stream, such as ``{"language": "eng", "title": "Comments"}``. At most 256
            tags are read, and at most 65,536 characters of each tag.
        disposition: FFmpeg's names of the flags that state the purpose of the stream, such as ``("default",
            "forced")``.
    """

    duration_seconds_from_header: float | None
    begin_stream_seconds_from_header: float | None
    bit_rate: float | None
    codec: str | None
    stream_index: int
    media_type: str
    tags: dict[str, str] = field(default_factory=dict, kw_only=True)
    disposition: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(repr=False)
class VideoStreamHeaderMetadata(StreamMetadata):
    """Metadata in the header of a video stream.

    Attributes:
        width: Width in pixels, after rotation if ``rotation`` is known.
        height: Height in pixels, after rotation if ``rotation`` is known.
        num_frames_from_header: Number of frames, as the container states it.
        average_fps_from_header: Frames per second, as the container states it.
        pixel_aspect_ratio: Width of a pixel divided by its height.
        rotation: Counter-clockwise angle in degrees by which players rotate the stored frames; ``None`` if they do not,
            or if the angle is unknown.
        color_primaries: FFmpeg's name of the colour primaries, such as ``"bt709"``.
        color_space: FFmpeg's name of the YCbCr matrix, such as ``"bt709"``.
        color_transfer_characteristic: FFmpeg's name of the transfer function, such as ``"smpte2084"``.
        pixel_format: FFmpeg's name of the stored pixel format, such as ``"yuv420p"``.
    """

    width: int | None
    height: int | None
    num_frames_from_header: int | None
    average_fps_from_header: float | None
    pixel_aspect_ratio: Fraction | None
    rotation: float | None
    color_primaries: str | None
    color_space: str | None
    color_transfer_characteristic: str | None
    pixel_format: str | None


@dataclass(repr=False)
class VideoStreamMetadata(VideoStreamHeaderMetadata):
    """Metadata of the stream that a `VideoDecoder` decodes.

    "From the content" means from the decoder's frame index. If the decoder has no index, values come from the header.

    Attributes:
        begin_stream_seconds_from_content: Time of the first frame in seconds; ``None`` if there is no index.
        end_stream_seconds_from_content: End time of the last frame in seconds; ``None`` if there is no index.
        num_frames_from_content: Number of frames in the index; ``None`` if there is no index.
        duration_seconds: Duration in seconds. It is the first known of these values: the duration from the content, the
            duration from the stream's header, the number of frames divided by the frame rate, the duration from the
            container's header. ``None`` if none is known.
        begin_stream_seconds: Start time in seconds from the content. Without an index, it comes from the header, or is
            0 if the header does not state it.
        end_stream_seconds: End time in seconds from the content. Without an index, it is the start time plus the
            duration; ``None`` if the duration is unknown.
        num_frames: Number of frames from the content. Without an index, it comes from the header. If the header does
            not state it, or counts only a part of a fragmented file, it is the duration times the frame rate; ``None``
            if these are unknown.
        average_fps: Average number of frames per second from the content; without an index, from the header. ``None``
            if unknown.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> metadata = VideoDecoder("video.mp4").metadata
        >>> metadata.num_frames, metadata.average_fps, metadata.width, metadata.height
        (300, 30.0, 640, 360)
    """

    begin_stream_seconds_from_content: float | None
    end_stream_seconds_from_content: float | None
    num_frames_from_content: int | None
    duration_seconds: float | None
    begin_stream_seconds: float
    end_stream_seconds: float | None
    num_frames: int | None
    average_fps: float | None


@dataclass(repr=False)
class AudioStreamHeaderMetadata(StreamMetadata):
    """Metadata in the header of an audio stream.

    Attributes:
        sample_rate: Sample rate in Hz.
        num_channels: Number of channels.
        sample_format: FFmpeg's name of the sample format, such as ``"fltp"``.
        channel_layout: FFmpeg's name of the layout, such as ``"stereo"`` or ``"5.1(side)"``.
    """

    sample_rate: int | None
    num_channels: int | None
    sample_format: str | None
    channel_layout: str | None = field(default=None, kw_only=True)


@dataclass(repr=False)
class SubtitleStreamHeaderMetadata(StreamMetadata):
    """Metadata in the header of a subtitle stream.

    Attributes:
        language: The container's language code, usually three letters of ISO 639-2 such as ``"eng"``; ``None`` if
            undetermined.
        is_text: ``True`` if the subtitles are text, which `SubtitleDecoder` can read; ``False`` if they are images;
            ``None`` if there is no decoder for the codec.
    """

    language: str | None = field(default=None, kw_only=True)
    is_text: bool | None = field(default=None, kw_only=True)


def stream_header_metadata(info: StreamInfo) -> StreamMetadata:
    """Return the header metadata of a stream. The class of the result depends on the kind of stream."""
    if info.media_type == "video":
        rotation = size = None
        if info.orientation is not None:
            rotation = info.orientation.rotation
            if info.height is not None and info.width is not None:
                size = info.orientation.size(info.height, info.width)
        return VideoStreamHeaderMetadata(**_common(info), **_video_header(info, rotation, size))
    if info.media_type == "audio":
        return AudioStreamHeaderMetadata(**_common(info), **_audio_header(info))
    if info.media_type == "subtitle":
        return SubtitleStreamHeaderMetadata(**_common(info), language=info.language, is_text=info.is_text)
    return StreamMetadata(**_common(info))


def _common(info: StreamInfo) -> dict[str, Any]:
    return {
        "duration_seconds_from_header": info.duration_seconds,
        "begin_stream_seconds_from_header": info.start_seconds,
        "bit_rate": info.bit_rate,
        "codec": info.codec,
        "stream_index": info.index,
        "media_type": info.media_type,
        "tags": dict(info.tags),
        "disposition": info.disposition,
    }


def _audio_header(info: StreamInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in ("sample_rate", "num_channels", "sample_format", "channel_layout")}


def _video_header(info: StreamInfo, rotation: float | None, size: tuple[int, int] | None) -> dict[str, Any]:
    height, width = size or (info.height, info.width)
    colours = ("color_primaries", "color_space", "color_transfer_characteristic")
    return {
        "width": width,
        "height": height,
        "num_frames_from_header": info.num_frames,
        "average_fps_from_header": float(info.frame_rate) if info.frame_rate else None,
        "rotation": rotation,
        **{name: getattr(info, name) for name in ("pixel_aspect_ratio", *colours, "pixel_format")},
    }


def video_stream_metadata(
    info: StreamInfo,
    container_duration_seconds: float | None,
    *,
    rotation: float | None,
    size: tuple[int, int] | None,
    index: FrameIndex | None,
) -> VideoStreamMetadata:
    """Return the metadata of the stream of a video decoder. Values come from ``index``, unless it is ``None``.

    ``container_duration_seconds`` is used if the stream states no duration. ``rotation`` is the counter-clockwise angle
    of the display matrix. ``size`` is the (height, width) of a decoded frame after rotation, or ``None`` if no frame
    was decoded.
    """
    header = {**_common(info), **_video_header(info, rotation, size)}
    num_frames: int | None
    duration: float | None
    end: float | None
    if index is not None:
        begin, end, num_frames, fps = index.begin_seconds, index.end_seconds, len(index), index.average_fps
        duration = end - begin
    else:
        num_frames, fps = info.num_frames, header["average_fps_from_header"]
        duration = info.duration_seconds
        if duration is None and num_frames and fps is not None:
            duration = num_frames / fps
        if duration is None:
            duration = container_duration_seconds
        if duration is not None and fps is not None:
            estimate = int(fps * duration)
            # The first header of a fragmented mp4 may count only the frames before the first fragment.
            if num_frames is None or num_frames < _MIN_SHARE_OF_ESTIMATE * estimate:
                num_frames = estimate
        begin = info.start_seconds or 0.0
        end = None if duration is None else begin + duration
    has_content = index is not None
    return VideoStreamMetadata(
        **header,
        begin_stream_seconds_from_content=begin if has_content else None,
        end_stream_seconds_from_content=end if has_content else None,
        num_frames_from_content=num_frames if has_content else None,
        duration_seconds=duration,
        begin_stream_seconds=begin,
        end_stream_seconds=end,
        num_frames=num_frames,
        average_fps=fps,
    )


@dataclass(repr=False)
class AudioStreamMetadata(AudioStreamHeaderMetadata):
    """Metadata of the stream that an `AudioDecoder` or a `WavDecoder` decodes, from its header and its first frame.

    Attributes:
        duration_seconds: Duration in seconds from the stream's header. If that header does not state it, the duration
            comes from the container's header. ``None`` if unknown.
        begin_stream_seconds: Time of the first sample in seconds; 0 if the header does not state it.
        end_stream_seconds: Start time plus duration, in seconds; ``None`` if the duration is unknown.

    Example:
        >>> from mediatensor.decoders import AudioDecoder
        >>> metadata = AudioDecoder("video.mp4").metadata
        >>> metadata.codec, metadata.sample_rate, metadata.num_channels, metadata.duration_seconds
        ('aac', 48000, 1, 10.0)
    """

    duration_seconds: float | None
    begin_stream_seconds: float
    end_stream_seconds: float | None


def audio_stream_metadata(
    info: StreamInfo,
    container: ContainerInfo,
    begin_seconds: float,
    priming_seconds: float,
    joined_seconds: float | None,
) -> AudioStreamMetadata:
    """Return the metadata of the stream of an audio decoder.

    ``begin_seconds`` is the time of the first sample. ``priming_seconds`` is the encoder's delay before that sample. If
    several files were joined, the header states only the length of the first one, so ``joined_seconds`` is their total
    length.
    """
    end: float | None = None
    if joined_seconds is not None:
        end = begin_seconds + joined_seconds
    elif info.duration_seconds is not None:
        counts_priming = container.format_name == "ogg" and info.codec == "opus"
        end = begin_seconds + info.duration_seconds - (priming_seconds if counts_priming else 0.0)
    elif container.duration_seconds is not None:
        # In Matroska and Flash, durations are counted from time 0.
        end = max(begin_seconds, container.duration_seconds)
    return AudioStreamMetadata(
        **_common(info),
        **_audio_header(info),
        duration_seconds=None if end is None else end - begin_seconds,
        begin_stream_seconds=begin_seconds,
        end_stream_seconds=end,
    )


# Metadata of a whole file


@dataclass(frozen=True)
class Chapter:
    """A chapter of a file: a part with a start, an end and usually a title.

    Attributes:
        start_seconds: Start time in seconds.
        end_seconds: End time in seconds.
        title: Title; ``None`` if the chapter has no title.
        tags: All tags of the chapter, including the title, by name.
    """

    start_seconds: float
    end_seconds: float
    title: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(repr=False)
class DemuxerMetadata(Printed):
    """Properties of a whole file according to the header of its container; returned by `Demuxer.metadata`.

    Attributes:
        duration_seconds_from_header: Duration in seconds; ``None`` if the header does not state it.
        bit_rate_from_header: Bits per second of the whole file; ``None`` if the header does not state it.
        best_video_stream_index: Index, among all streams of the file, of the video stream that is decoded by default;
            ``None`` if there is no video stream.
        best_audio_stream_index: Index, among all streams of the file, of the audio stream that is decoded by default;
            ``None`` if there is no audio stream.

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
        streams: One item for each stream of the container: `VideoStreamHeaderMetadata`, `AudioStreamHeaderMetadata`,
            `SubtitleStreamHeaderMetadata`, or `StreamMetadata` for other kinds.
        format_name: FFmpeg's name of the container format.
        tags: Tags of the file under the container's names, such as ``{"title": "Lesson 1"}``. At most 256 tags are
            read, and at most 65,536 characters of each tag. Invalid Unicode is replaced by U+FFFD.
        chapters: Tuple of `Chapter` objects in file order. At most 10,000 are read.
        best_subtitle_stream_index: Index of the stream that `SubtitleDecoder` reads by default; ``None`` if there is
            no subtitle stream. Text streams are preferred to image streams. Among streams of the same kind, those
            marked as default are preferred.

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
    """Return the metadata from the headers of a file, without scanning or decoding its streams.

    Args:
        source: Any source that `VideoDecoder` accepts, such as a path, a URL or the bytes of a file.

    Returns:
        `ContainerMetadata` with the streams, tags and chapters, and the indices of the streams that decoders read by
        default.

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
    return container_metadata(read_container_info(make_source(source), reads_orientation=True))


def container_metadata(info: ContainerInfo) -> ContainerMetadata:
    return ContainerMetadata(
        **_of_the_file(info),
        streams=[stream_header_metadata(stream) for stream in info.streams],
        format_name=info.format_name,
        tags=dict(info.tags),
        chapters=tuple(
            Chapter(
                chapter.start_seconds,
                chapter.end_seconds,
                next((value for name, value in chapter.tags.items() if name.lower() == "title"), None),
                dict(chapter.tags),
            )
            for chapter in info.chapters
        ),
        best_subtitle_stream_index=info.best_subtitle_stream_index,
    )


def demuxer_metadata(info: ContainerInfo) -> DemuxerMetadata:
    return DemuxerMetadata(**_of_the_file(info))


def _of_the_file(info: ContainerInfo) -> dict[str, Any]:
    return {
        "duration_seconds_from_header": info.duration_seconds,
        "bit_rate_from_header": info.bit_rate,
        "best_video_stream_index": info.best_video_stream_index,
        "best_audio_stream_index": info.best_audio_stream_index,
    }
