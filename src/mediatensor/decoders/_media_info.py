"""Collect the properties of a media file from its headers and its streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, TypeVar

from .._engine.audio.reader import SoundReader
from .._engine.index.frame_index import FrameIndex
from .._engine.index.index_file import SourceIdentity, identify
from .._engine.index.indexing import cached_index, index_by_decoding, index_stream, store_index
from .._engine.index.scan import first_picture
from .._engine.metadata import Chapter, container_metadata, video_stream_metadata
from .._engine.pyav.opening import ContainerInfo, StreamInfo, read_container_info
from .._engine.pyav.pixels import orientation_of
from .._engine.pyav.reading import VideoReader
from .._engine.sources.source import Source, make_source
from .._engine.video.frame_stream import FrameStream, MissingFrameError
from .._engine.video.packet_feed import IndexMismatchError
from ..errors import DecodeError, MediaTensorError, StreamError
from ._subtitle_decoder import SubtitleDecoder

_Info = TypeVar("_Info", "VideoInfo", "StreamSummary", "AudioInfo")


@dataclass(frozen=True)
class VideoInfo:
    stream_index: int
    codec: str | None = None
    profile: str | None = None
    pixel_format: str | None = None
    width: int | None = None
    height: int | None = None
    stored_width: int | None = None
    stored_height: int | None = None
    display_width: int | None = None
    display_height: int | None = None
    pixel_aspect_ratio: Fraction | None = None
    rotation: float | None = None
    color_primaries: str | None = None
    color_transfer: str | None = None
    color_space: str | None = None
    color_range: str | None = None
    scanned: bool = False
    num_frames: int | None = None
    average_fps: float | None = None
    is_constant_frame_rate: bool | None = None
    min_frame_step_seconds: float | None = None
    max_frame_step_seconds: float | None = None
    num_key_frames: int | None = None
    gop_length_min: int | None = None
    gop_length_median: float | None = None
    gop_length_max: int | None = None
    begin_seconds: float | None = None
    end_seconds: float | None = None
    duration_seconds: float | None = None
    anomalies: tuple[str, ...] = ()


def is_constant_frame_rate(pts_seconds: Sequence[float], tick_seconds: float) -> bool | None:
    """Return whether the frame rate is constant; ``None`` if there are too few frames.

    Containers round times to ticks (1 ms in Matroska and FLV; 0 means exact times), so equal steps can become 33, 33
    and 34 ms. The rate counts as constant if no frame is more than one tick away from an even spacing between the first
    and the last frame. For frames shorter than two ticks, this tolerance would hide a missing frame, so all steps must
    be equal.

    >>> is_constant_frame_rate([0.0, 0.033, 0.067, 0.1], tick_seconds=0.001)
    True
    >>> is_constant_frame_rate([0.0, 0.033, 0.1, 0.133], tick_seconds=0.001)
    False
    """
    intervals = len(pts_seconds) - 1
    if intervals < 2:
        return None
    begin, step = pts_seconds[0], (pts_seconds[-1] - pts_seconds[0]) / intervals
    if step <= 0:
        return False
    tolerance = tick_seconds if step >= 2 * tick_seconds else 0.0
    tolerance += 1e-6 * max(step, 1e-6)  # the times are floats
    return all(abs(begin + i * step - pts) <= tolerance for i, pts in enumerate(pts_seconds))


def describe_timing(
    pts_seconds: Sequence[float], key_frame_indices: Sequence[int], tick_seconds: float
) -> dict[str, Any]:
    """Return the fields of `VideoInfo` that depend on frame times. ``pts_seconds`` must be in presentation order."""
    steps = [after - before for before, after in pairwise(pts_seconds)]
    # As in `FrameIndex`: from each key frame up to the next one, and the frames before the first key frame.
    bounds = sorted({0, *key_frame_indices, len(pts_seconds)})
    lengths = [after - before for before, after in pairwise(bounds)]
    return {
        "is_constant_frame_rate": is_constant_frame_rate(pts_seconds, tick_seconds),
        "min_frame_step_seconds": min(steps, default=None),
        "max_frame_step_seconds": max(steps, default=None),
        "num_key_frames": len(key_frame_indices),
        "gop_length_min": min(lengths, default=None),
        "gop_length_median": median(lengths) if lengths else None,
        "gop_length_max": max(lengths, default=None),
    }


def video_info(file: str, header: StreamInfo, *, scan: bool) -> VideoInfo:
    """Describe a video stream by its header and, with ``scan``, also by its packets and its first frame."""
    info = _from_header(
        VideoInfo,
        header,
        stream_index=header.index,
        stored_width=header.width,
        stored_height=header.height,
        color_transfer=header.color_transfer_characteristic,
        average_fps=float(header.frame_rate) if header.frame_rate else None,
        begin_seconds=header.start_seconds,
        width=None,  # the size of the upright frame, which only a scan determines
        height=None,
    )
    if not scan:
        return info
    with closing(IndexedStream(make_source(file), header.index)) as stream:
        return _scan(info, stream)


class IndexedStream:
    """A video stream that is opened to make its `FrameIndex`, without tensors."""

    def __init__(self, source: Source, stream_index: int) -> None:
        self.source = source
        self.reader = VideoReader(source, stream_index, num_threads=1, is_strict=True)
        self.container_info = self.reader.container_info()
        self.stream_info = self.reader.stream_info()

    def _lend_reader(self) -> AbstractContextManager[VideoReader]:
        return nullcontext(self.reader)

    def identify(self) -> SourceIdentity:
        return identify(self.source, self.container_info, self.stream_info, self._lend_reader)

    def make_index(self) -> FrameIndex:
        return cached_index(self.identify, partial(index_stream, self.source, self._lend_reader, lambda reason: None))

    def make_index_by_decoding(self, reason: str) -> FrameIndex:
        index = index_by_decoding(self.source, self._lend_reader, lambda reason: None, reason)
        store_index(index, self.identify)
        return index

    def close(self) -> None:
        self.reader.close()


def _scan(info: VideoInfo, stream: IndexedStream) -> VideoInfo:
    index = stream.make_index()
    index, failure = _decode_first_frame(stream, index)
    try:
        picture = first_picture(stream.reader)
    except MediaTensorError:
        picture = None
    rotation, size = None, (stream.stream_info.height or 1, stream.stream_info.width or 1)
    if picture is not None:
        orientation = orientation_of(picture)
        rotation, size = orientation.rotation, orientation.size(picture.height, picture.width)
    metadata = video_stream_metadata(
        stream.stream_info,
        stream.container_info.duration_seconds,
        rotation=rotation,
        size=size,
        index=index,
    )
    height, width = size
    displayed = display_size(width, height, metadata.pixel_aspect_ratio, metadata.rotation)
    pts_seconds = index.pts.astype(float) * index.time_base.numerator / index.time_base.denominator
    is_key = index.is_key.nonzero()[0].tolist()
    timing = describe_timing(pts_seconds.tolist(), is_key, float(index.time_base))
    return replace(
        info,
        width=width,
        height=height,
        display_width=displayed[0],
        display_height=displayed[1],
        rotation=metadata.rotation,
        scanned=True,
        num_frames=len(index),
        average_fps=metadata.average_fps,
        begin_seconds=metadata.begin_stream_seconds,
        end_seconds=metadata.end_stream_seconds,
        duration_seconds=metadata.duration_seconds,
        anomalies=tuple(index.anomalies) + failure,
        **timing,
    )


def _decode_first_frame(stream: IndexedStream, index: FrameIndex) -> tuple[FrameIndex, tuple[str, ...]]:
    """Decode the first frame, and return the index and, if the frame cannot be decoded, an error message.

    Packets do not show whether a stream is encrypted or lacks its codec data. If the frame does not match ``index``,
    return an index that was made by decoding the stream.
    """
    frames = FrameStream(stream.reader, 1)
    try:
        for _ in frames.run(index, frames.plan(index, [0])):
            pass
    except IndexMismatchError as mismatch:
        return _decode_first_frame(stream, stream.make_index_by_decoding(str(mismatch)))
    except MissingFrameError:
        return index, ("the first frame cannot be decoded: the codec does not return it",)
    except DecodeError as error:
        return index, (f"the first frame cannot be decoded: {error}",)
    return index, ()


@dataclass(frozen=True)
class StreamSummary:
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
class AudioInfo:
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
class SubtitleInfo:
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
class FileInfo:
    file: str
    file_size_bytes: int | None
    container: str | None
    duration_seconds: float | None
    bit_rate: float | None
    tags: dict[str, str] = field(default_factory=dict)
    chapters: tuple[Chapter, ...] = ()
    streams: tuple[StreamSummary, ...]
    video: VideoInfo | None = None
    audio: AudioInfo | None = None
    subtitles: SubtitleInfo | None = None
    error: str | None = None


def collect(file: str, stream_index: int | None, *, scan: bool) -> FileInfo:
    """Describe a file, and one stream of each kind: stream ``stream_index`` if it is of this kind, or the best one.

    With ``scan``, all packets of the video and the subtitles are read, and one frame is decoded.

    Raises:
        MediaTensorError: if the file cannot be opened. If only the video stream is unusable, or there is no stream
            ``stream_index``, the result describes the rest of the file, and its ``error`` states the reason.
    """
    container = read_container_info(make_source(file))
    info = FileInfo(
        file=file,
        file_size_bytes=os.path.getsize(file) if os.path.isfile(file) else None,
        container=container.format_name,
        duration_seconds=container.duration_seconds,
        bit_rate=container.bit_rate,
        tags=container.tags,
        chapters=container_metadata(container).chapters,
        streams=tuple(
            _from_header(StreamSummary, stream, average_fps=float(stream.frame_rate) if stream.frame_rate else None)
            for stream in container.streams
        ),
    )
    try:
        chosen = _choose(container, stream_index)
    except StreamError as failure:
        return replace(info, error=str(failure))
    if "audio" in chosen:
        audio = _audio_info(chosen["audio"], container.duration_seconds)
        joined_seconds = _joined_seconds(file, audio.stream_index) if scan else None
        info = replace(info, audio=audio if joined_seconds is None else replace(audio, duration_seconds=joined_seconds))
    if "subtitle" in chosen:
        info = replace(info, subtitles=_subtitle_info(file, chosen["subtitle"], scan=scan))
    if "video" in chosen:
        try:
            info = replace(info, video=video_info(file, chosen["video"], scan=scan))
        except MediaTensorError as failure:
            info = replace(info, error=str(failure))
    return info


def _choose(container: ContainerInfo, stream_index: int | None) -> dict[str, StreamInfo]:
    """Return the stream to describe for each kind (video, audio, ...): the requested one, or else the best one."""
    streams = {stream.index: stream for stream in container.streams}
    best = {kind: getattr(container, f"best_{kind}_stream_index") for kind in ("video", "audio", "subtitle")}
    chosen = {kind: streams[index] for kind, index in best.items() if index is not None}
    if stream_index is not None:
        asked = streams.get(stream_index)
        if asked is None or asked.media_type not in best:
            others = ", ".join(f"{stream.index} {stream.media_type}" for stream in container.streams)
            raise StreamError(
                f"Stream {stream_index} is not a video, audio or subtitle stream of this file ({others})."
            )
        chosen[asked.media_type] = asked
    return chosen


def _from_header(kind: type[_Info], header: StreamInfo, **values: Any) -> _Info:
    """Make an object of dataclass ``kind`` from ``values``.

    Fields that are not in ``values`` are copied from the attributes of ``header`` with the same names.
    """
    shared = {item.name: getattr(header, item.name) for item in fields(kind) if hasattr(header, item.name)}
    return kind(**(shared | values))


def _audio_info(header: StreamInfo, container_duration_seconds: float | None) -> AudioInfo:
    duration = header.duration_seconds
    return _from_header(
        AudioInfo,
        header,
        stream_index=header.index,
        begin_seconds=header.start_seconds,
        duration_seconds=container_duration_seconds if duration is None else duration,
    )


def _joined_seconds(file: str, stream_index: int) -> float | None:
    """Return the total length of files that were joined end to end, whose header states only that of the first."""
    with suppress(MediaTensorError), closing(SoundReader(make_source(file), stream_index, 1)) as reader:
        return reader.joined_seconds
    return None


def _subtitle_info(file: str, header: StreamInfo, *, scan: bool) -> SubtitleInfo:
    info = SubtitleInfo(header.index, header.codec, header.language, header.is_text)
    if not scan or not header.is_text:
        return info
    try:
        subtitles = SubtitleDecoder(file, stream_index=header.index).get_all_subtitles()
    except MediaTensorError as failure:
        return replace(info, anomalies=(str(failure),))
    return replace(
        info,
        scanned=True,
        num_subtitles=len(subtitles),
        begin_seconds=min((subtitle.start_seconds for subtitle in subtitles), default=None),
        end_seconds=max((subtitle.end_seconds for subtitle in subtitles), default=None),
    )


def display_size(
    width: int, height: int, pixel_aspect_ratio: Fraction | None, rotation: float | None
) -> tuple[int, int]:
    """Return (width, height) of an upright frame in square pixels.

    ``width`` and ``height`` are the size after rotation, but ``pixel_aspect_ratio`` describes the pixels before
    rotation. So after a quarter turn, this ratio stretches the height instead of the width.

    >>> display_size(720, 576, Fraction(64, 45), None), display_size(576, 720, Fraction(64, 45), 90.0)
    ((1024, 576), (576, 1024))
    """
    ratio = pixel_aspect_ratio or Fraction(1)
    if round((rotation or 0) / 90) % 2:
        return width, max(round(height * ratio), 1)
    return max(round(width * ratio), 1), height
