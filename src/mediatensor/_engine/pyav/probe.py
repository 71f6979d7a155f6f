"""What a container and its streams say of themselves, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import av

# Names as FFmpeg prints them, by the numbers of H.273 that PyAV reports; 2 means "unspecified".
_PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020"}
_PRIMARIES |= {10: "smpte428", 11: "smpte431", 12: "smpte432", 22: "ebu3213"}
_TRANSFERS = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100"}
_TRANSFERS |= {10: "log316", 11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12"}
_TRANSFERS |= {16: "smpte2084", 17: "smpte428", 18: "arib-std-b67"}
_SPACES = {0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc"}
_SPACES |= {10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp"}
_RANGES = {1: "tv", 2: "pc"}

_UNKNOWN = "unknown"

NO_TIMESTAMPS_FLAG = 0x80  # AVFMT_NOTIMESTAMPS

# How many tags and chapters are kept; a hostile header may have millions.
MAX_NUM_TAGS = 256
MAX_TAG_CHARACTERS = 1 << 16
MAX_NUM_CHAPTERS = 10_000

_UNSET = -(1 << 63)  # AV_NOPTS_VALUE


@dataclass(frozen=True)
class StreamInfo:
    """One stream as its header describes it; what is unknown is ``None``."""

    index: int
    media_type: str
    codec: str | None
    time_base: Fraction | None
    start_pts: int | None
    duration_pts: int | None
    num_frames: int | None
    bit_rate: int | None
    disposition: tuple[str, ...] = ()
    language: str | None = None
    profile: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    # Video
    width: int | None = None
    height: int | None = None
    pixel_format: str | None = None
    bits_per_component: int | None = None
    frame_rate: Fraction | None = None
    pixel_aspect_ratio: Fraction | None = None
    color_primaries: str | None = None
    color_transfer_characteristic: str | None = None
    color_space: str | None = None
    color_range: str | None = None
    # Audio
    sample_rate: int | None = None
    num_channels: int | None = None
    sample_format: str | None = None
    channel_layout: str | None = None
    # Subtitles: characters, or pictures of them; None where there is no decoder to tell
    is_text: bool | None = None

    @property
    def start_seconds(self) -> float | None:
        return _seconds(self.start_pts, self.time_base)

    @property
    def duration_seconds(self) -> float | None:
        return _seconds(self.duration_pts, self.time_base)


@dataclass(frozen=True)
class ChapterInfo:
    """One chapter."""

    start_seconds: float
    end_seconds: float
    tags: dict[str, str]


@dataclass(frozen=True)
class ContainerInfo:
    """A container as its header describes it."""

    format_name: str
    duration_seconds: float | None
    bit_rate: int | None
    streams: tuple[StreamInfo, ...]
    best_video_stream_index: int | None
    best_audio_stream_index: int | None
    best_subtitle_stream_index: int | None
    has_no_timestamps: bool
    tags: dict[str, str] = field(default_factory=dict)
    chapters: tuple[ChapterInfo, ...] = ()


def container_info(container: Any) -> ContainerInfo:
    best = {kind: container.streams.best(kind) for kind in ("video", "audio")}
    streams = tuple(stream_info(stream) for stream in container.streams)
    return ContainerInfo(
        format_name=container.format.name,
        duration_seconds=None if container.duration is None else container.duration / av.time_base,
        bit_rate=container.bit_rate or None,
        streams=streams,
        best_video_stream_index=None if best["video"] is None else best["video"].index,
        best_audio_stream_index=None if best["audio"] is None else best["audio"].index,
        best_subtitle_stream_index=_best_subtitle_stream_index(streams),
        has_no_timestamps=bool(container.format.flags & NO_TIMESTAMPS_FLAG),
        tags=_tags(container.metadata),
        chapters=_chapters(container),
    )


def _best_subtitle_stream_index(streams: Sequence[StreamInfo]) -> int | None:
    """The first one of text that is marked as default, else the first one of text, else the first one."""
    subtitles = [stream for stream in streams if stream.media_type == "subtitle"]
    ranks = {(not stream.is_text, "default" not in stream.disposition, stream.index) for stream in subtitles}
    return min(ranks)[-1] if ranks else None


def _chapters(container: Any) -> tuple[ChapterInfo, ...]:
    chapters = []
    for chapter in islice(container.chapters(), MAX_NUM_CHAPTERS):
        time_base = fraction(chapter["time_base"])
        if time_base is None or chapter["start"] == _UNSET:
            continue
        start = float(chapter["start"] * time_base)
        end = start if chapter["end"] == _UNSET else float(chapter["end"] * time_base)
        chapters.append(ChapterInfo(start, max(start, end), _tags(chapter["metadata"])))
    return tuple(chapters)


def _tags(metadata: Mapping[str, str]) -> dict[str, str]:
    """The tags, no more and no longer than the limits; what is not Unicode is replaced."""
    return {_unicode(key): _unicode(value) for key, value in islice(metadata.items(), MAX_NUM_TAGS)}


def _unicode(text: str) -> str:
    r"""The text up to the limit, with a question mark for each surrogate, which Python could not print.

    >>> _unicode("b\udc80c")
    'b?c'
    """
    return text[:MAX_TAG_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


@cache
def _flag_names(flags: Any, value: int) -> tuple[str, ...]:
    """The names of the flags in a value; cached, because members of enums are slow to look up."""
    return tuple(flag.name for flag in flags if flag.value and flag.value & value == flag.value)


def stream_info(stream: Any) -> StreamInfo:
    context = getattr(stream, "codec_context", None)
    disposition = stream.disposition
    flags: Any = type(disposition)
    common = {
        "index": stream.index,
        "media_type": stream.type or "unknown",
        "codec": None if context is None else context.codec.canonical_name,
        "time_base": fraction(stream.time_base),
        "start_pts": stream.start_time,
        "duration_pts": stream.duration,
        "num_frames": stream.frames or None,
        "bit_rate": (getattr(context, "bit_rate", None) if context is not None else None) or None,
        "disposition": _flag_names(flags, int(disposition.value)),
        "language": None if stream.language == "und" else stream.language,  # "undetermined"
        "tags": _tags(stream.metadata),
    }
    # A transport stream can say midway that a stream is of another kind; its codec stays what it was when opened.
    if context is None or context.type != stream.type:
        return StreamInfo(**common)
    if stream.type == "video":
        return StreamInfo(**common, **_video_info(stream, context))
    if stream.type == "audio":
        return StreamInfo(
            **common,
            profile=context.profile,
            sample_rate=context.sample_rate or None,
            num_channels=context.channels or None,
            sample_format=context.format.name if context.format is not None else None,
            channel_layout=_layout_name(context),
        )
    if stream.type == "subtitle":
        return StreamInfo(**common, is_text=bool(context.codec.text_sub))
    return StreamInfo(**common)


def _layout_name(context: Any) -> str | None:
    """FFmpeg's name, such as ``"5.1(side)"``; ``None`` where a number of channels is all that is known."""
    name = context.layout.name if context.layout is not None and context.channels else ""
    return name if name and not name.endswith(" channels") else None


def _video_info(stream: Any, context: Any) -> dict[str, Any]:
    pixel_format = context.format
    return {
        "profile": context.profile,
        "width": context.width or None,
        "height": context.height or None,
        "pixel_format": None if pixel_format is None else pixel_format.name,
        "bits_per_component": None if pixel_format is None else max(c.bits for c in pixel_format.components),
        "frame_rate": _frame_rate(stream),
        "pixel_aspect_ratio": fraction(stream.sample_aspect_ratio),
        "color_primaries": _PRIMARIES.get(context.color_primaries),
        "color_transfer_characteristic": _TRANSFERS.get(context.color_trc),
        "color_space": _SPACES.get(context.colorspace),
        # The yuvj formats are full range by definition, whatever the container says.
        "color_range": "pc" if (context.pix_fmt or "").startswith("yuvj") else _RANGES.get(context.color_range),
    }


class FrameColors(NamedTuple):
    """What a decoded frame says of its colours, by FFmpeg's names; ``"unknown"`` where it says nothing."""

    space: str
    range: str
    primaries: str
    transfer_characteristic: str


def frame_colors(picture: Any) -> FrameColors:
    """The colours of a frame of PyAV, or of a `Surface`, which knows nothing of primaries and transfer."""
    space = getattr(picture, "colorspace", None)
    return FrameColors(
        _SPACES.get(int(picture.matrix if space is None else space), _UNKNOWN),
        _RANGES.get(int(picture.color_range), _UNKNOWN),
        _PRIMARIES.get(int(getattr(picture, "color_primaries", 2)), _UNKNOWN),
        _TRANSFERS.get(int(getattr(picture, "color_trc", 2)), _UNKNOWN),
    )


def _frame_rate(stream: Any) -> Fraction | None:
    """The average rate, unless it is missing or far off: demuxers estimate it from the first packets."""
    average, guessed = fraction(stream.average_rate), fraction(stream.guessed_rate)
    return guessed if average is None or (guessed is not None and average > 2 * guessed) else average


def fraction(value: Any) -> Fraction | None:
    """A rational of either PyAV generation; ``None`` where it is not set."""
    return Fraction(value.numerator, value.denominator) if value else None


def _seconds(ticks: int | None, time_base: Fraction | None) -> float | None:
    if ticks is None or time_base is None:
        return None
    return ticks * time_base.numerator / time_base.denominator


def build_versions() -> tuple[str, dict[str, str]]:
    """The version of FFmpeg that PyAV brings, and those of its libraries by name."""
    libraries = {name: ".".join(map(str, numbers)) for name, numbers in av.library_versions.items()}
    return str(getattr(av, "ffmpeg_version_info", "")) or f"libavcodec {libraries['libavcodec']}", libraries


def has_codec(name: str, mode: Literal["r", "w"]) -> bool:
    """Whether this build of FFmpeg decodes (``"r"``) or encodes (``"w"``) with a codec of this name.

    >>> has_codec("h264", "r"), has_codec("", "r")
    (True, False)
    """
    try:
        return bool(name) and av.Codec(name, mode) is not None
    except ValueError:
        return False
