"""Open containers, read their headers and choose streams.

Two kinds of formats are rejected: formats that refer to other files, and formats that show any text file as video.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import av
import av.subtitles.stream  # PyAV would load it with the first file

from ...errors import OpenError, ReadError, SourceNotFoundError, StreamError
from ..common.checks import whole_number
from ..common.interrupts import interrupts_kept
from ..common.pictures import Orientation
from ..containers.boxes import display_matrix
from ..sources.readers import LOCAL_BLOCK_BYTES, MemoryReader, Reader
from ..sources.source import Source

# FFmpeg's names, by the numbers of H.273 that PyAV reports. 2 means "unspecified".
PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020"}
PRIMARIES |= {10: "smpte428", 11: "smpte431", 12: "smpte432", 22: "ebu3213"}
TRANSFERS = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100"}
TRANSFERS |= {10: "log316", 11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12"}
TRANSFERS |= {16: "smpte2084", 17: "smpte428", 18: "arib-std-b67"}
SPACES = {0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc"}
SPACES |= {10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp"}
RANGES = {1: "tv", 2: "pc"}

_UNKNOWN = "unknown"

NO_TIMESTAMPS_FLAG = 0x80  # AVFMT_NOTIMESTAMPS

# Largest numbers of tags and chapters that are kept. A malicious header may have millions.
MAX_NUM_TAGS = 256
MAX_TAG_CHARACTERS = 1 << 16
MAX_NUM_CHAPTERS = 10_000

_UNSET = -(1 << 63)  # AV_NOPTS_VALUE

#: Container formats that can store a display matrix.
FORMATS_THAT_TURN = frozenset(("mov", "mp4", "matroska", "webm"))
# One of these muxers accepts any codec that is used with a display matrix, except VP8 and Theora.
_MATRIX_MUXERS = ("mov", "mp4")


@dataclass(frozen=True)
class StreamInfo:
    """One stream as described by its header. Unknown values are ``None``."""

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
    #: According to the container; ``None`` if unknown, or if it has not been read.
    orientation: Orientation | None = None
    # Audio
    sample_rate: int | None = None
    num_channels: int | None = None
    sample_format: str | None = None
    channel_layout: str | None = None
    # Subtitles: whether they are stored as text, not as images; None if FFmpeg has no decoder for them
    is_text: bool | None = None

    @property
    def start_seconds(self) -> float | None:
        return _seconds(self.start_pts, self.time_base)

    @property
    def duration_seconds(self) -> float | None:
        return _seconds(self.duration_pts, self.time_base)


@dataclass(frozen=True)
class ChapterInfo:
    start_seconds: float
    end_seconds: float
    tags: dict[str, str]


@dataclass(frozen=True)
class ContainerInfo:
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


def container_info(container: Any, known: StreamInfo | None = None) -> ContainerInfo:
    """Describe a container. ``known`` is the description of one of its streams, if the caller has made it already."""
    best_video, best_audio = container.streams.best("video"), container.streams.best("audio")
    streams = tuple(
        [stream_info(stream) if known is None or stream.index != known.index else known for stream in container.streams]
    )
    return ContainerInfo(
        format_name=container.format.name,
        duration_seconds=None if container.duration is None else container.duration / av.time_base,
        bit_rate=container.bit_rate or None,
        streams=streams,
        best_video_stream_index=None if best_video is None else best_video.index,
        best_audio_stream_index=None if best_audio is None else best_audio.index,
        best_subtitle_stream_index=_best_subtitle_stream_index(streams),
        has_no_timestamps=bool(container.format.flags & NO_TIMESTAMPS_FLAG),
        tags=_read_tags(container.metadata),
        chapters=_read_chapters(container),
    )


def _best_subtitle_stream_index(streams: Sequence[StreamInfo]) -> int | None:
    """Return the index of the best subtitle stream, or ``None`` if there are no subtitles.

    Text streams are preferred to image streams. Among streams of one kind, default streams are preferred, and then
    streams with a low index.
    """
    subtitles = [stream for stream in streams if stream.media_type == "subtitle"]
    ranks = {(not stream.is_text, "default" not in stream.disposition, stream.index) for stream in subtitles}
    return min(ranks)[-1] if ranks else None


def _read_chapters(container: Any) -> tuple[ChapterInfo, ...]:
    chapters = []
    for chapter in islice(container.chapters(), MAX_NUM_CHAPTERS):
        time_base = fraction(chapter["time_base"])
        if time_base is None or chapter["start"] == _UNSET:
            continue
        start = float(chapter["start"] * time_base)
        end = start if chapter["end"] == _UNSET else float(chapter["end"] * time_base)
        chapters.append(ChapterInfo(start, max(start, end), _read_tags(chapter["metadata"])))
    return tuple(chapters)


def _read_tags(metadata: Mapping[str, str]) -> dict[str, str]:
    r"""Return at most `MAX_NUM_TAGS` tags, shortened if long. Surrogates, which Python cannot print, become "?".

    >>> _read_tags({"title": "b\udc80c"})
    {'title': 'b?c'}
    """
    return {
        key[:MAX_TAG_CHARACTERS].encode("utf-8", "replace").decode(): (
            value[:MAX_TAG_CHARACTERS].encode("utf-8", "replace").decode()
        )
        for key, value in islice(metadata.items(), MAX_NUM_TAGS)
    }


@cache
def _flag_names(flags: Any, value: int) -> tuple[str, ...]:
    """Return the names of the flags that are set in ``value``. Results are cached, because enum lookups are slow."""
    return tuple(flag.name for flag in flags if (bit := flag.value) and bit & value == bit)


def stream_info(stream: Any) -> StreamInfo:
    context = getattr(stream, "codec_context", None)
    disposition = stream.disposition
    flags: Any = type(disposition)
    common: dict[str, Any] = {
        "index": stream.index,
        "media_type": stream.type or "unknown",
        "codec": None if context is None else context.codec.canonical_name,
        "time_base": fraction(stream.time_base),
        "start_pts": stream.start_time,
        "duration_pts": stream.duration,
        "num_frames": stream.frames or None,
        "bit_rate": getattr(context, "bit_rate", None) or None,
        "disposition": _flag_names(flags, int(disposition.value)),
        "language": None if stream.language == "und" else stream.language,  # "undetermined"
        "tags": _read_tags(stream.metadata),
    }
    # A transport stream can change the type of a stream within the file, but its codec context keeps the first type.
    if context is None or context.type != stream.type:
        return StreamInfo(**common)
    if stream.type == "video":
        common |= _video_info(stream, context)
    elif stream.type == "audio":
        layout = context.layout.name if context.layout is not None and context.channels else ""
        common |= {
            "profile": context.profile,
            "sample_rate": context.sample_rate or None,
            "num_channels": context.channels or None,
            "sample_format": context.format.name if context.format is not None else None,
            # A name such as "6 channels" states no layout.
            "channel_layout": layout if layout and not layout.endswith(" channels") else None,
        }
    elif stream.type == "subtitle":
        common["is_text"] = bool(context.codec.text_sub)
    return StreamInfo(**common)


def with_orientation(info: StreamInfo, stream: Any) -> StreamInfo:
    return replace(info, orientation=_stated_orientation(stream))


def _stated_orientation(stream: Any) -> Orientation | None:
    """Return the orientation that a container states for a stream; ``None`` if it states none, or it is unknown.

    PyAV before version 19 hides the display matrix of a stream, but copies it with the stream. So FFmpeg writes the
    header of another file with this stream to memory, and the matrix is read from there.
    """
    if (
        stream.type != "video"
        or stream.codec_context is None
        or FORMATS_THAT_TURN.isdisjoint(stream.container.format.name.split(","))
    ):
        return None
    for muxer in _MATRIX_MUXERS:
        file = io.BytesIO()
        try:
            with av.open(file, "w", format=muxer, options={"movflags": "empty_moov"}) as output:
                output.add_stream_from_template(stream, opaque=True)
                output.start_encoding()
        except (av.FFmpegError, ValueError):
            continue
        matrix = struct.unpack(">9i", display_matrix(file.getbuffer()))
        return Orientation.from_display_matrix(struct.pack("=9i", *matrix))
    return None


def _video_info(stream: Any, context: Any) -> dict[str, Any]:
    pixel_format = context.format
    return {
        "profile": context.profile,
        "width": context.width or None,
        "height": context.height or None,
        "pixel_format": None if pixel_format is None else pixel_format.name,
        "bits_per_component": None if pixel_format is None else max([c.bits for c in pixel_format.components]),
        "frame_rate": _frame_rate(stream),
        "pixel_aspect_ratio": fraction(stream.sample_aspect_ratio),
        "color_primaries": PRIMARIES.get(context.color_primaries),
        "color_transfer_characteristic": TRANSFERS.get(context.color_trc),
        "color_space": SPACES.get(context.colorspace),
        # The yuvj formats are full range by definition, even if the container states another range.
        "color_range": "pc" if (context.pix_fmt or "").startswith("yuvj") else RANGES.get(context.color_range),
    }


class FrameColors(NamedTuple):
    """FFmpeg's names for the colour properties of a frame; ``"unknown"`` for those that the frame does not state."""

    space: str
    range: str
    primaries: str
    transfer_characteristic: str


def frame_colors(picture: Any) -> FrameColors:
    """Return the colour properties of a PyAV frame, or of a `Surface`, which states no primaries and no transfer."""
    space = getattr(picture, "colorspace", None)
    return FrameColors(
        SPACES.get(int(picture.matrix if space is None else space), _UNKNOWN),
        RANGES.get(int(picture.color_range), _UNKNOWN),
        PRIMARIES.get(int(getattr(picture, "color_primaries", 2)), _UNKNOWN),
        TRANSFERS.get(int(getattr(picture, "color_trc", 2)), _UNKNOWN),
    )


def _frame_rate(stream: Any) -> Fraction | None:
    """Return the average frame rate of a stream, or ``None`` if unknown.

    If the average is missing, or is more than twice the frame rate that FFmpeg guesses, FFmpeg's guess is returned.
    """
    average, guessed = fraction(stream.average_rate), fraction(stream.guessed_rate)
    return guessed if average is None or (guessed is not None and average > 2 * guessed) else average


def fraction(value: Any) -> Fraction | None:
    """Convert a rational number from PyAV to a `Fraction`; return ``None`` if it is zero or missing.

    The types of such numbers differ between versions of PyAV.
    """
    if not value:
        return None
    return value if type(value) is Fraction else Fraction(value.numerator, value.denominator)


def _seconds(ticks: int | None, time_base: Fraction | None) -> float | None:
    if ticks is None or time_base is None:
        return None
    return ticks * time_base.numerator / time_base.denominator


#: The major version of the FFmpeg that PyAV brings, such as 8.
ffmpeg_major_version: int = av.library_versions["libavcodec"][0] - 54


def build_versions() -> tuple[str, dict[str, str]]:
    """Return the version of the FFmpeg that PyAV uses, and a dictionary with the version of each FFmpeg library."""
    libraries = {name: ".".join(map(str, numbers)) for name, numbers in av.library_versions.items()}
    return str(getattr(av, "ffmpeg_version_info", "")) or f"libavcodec {libraries['libavcodec']}", libraries


def has_codec(name: str, mode: Literal["r", "w"]) -> bool:
    """Return whether this build of FFmpeg can decode (``"r"``) or encode (``"w"``) with the codec called ``name``."""
    try:
        return bool(name) and av.Codec(name, mode) is not None
    except ValueError:
        return False


_Result = TypeVar("_Result")

# Time limit of FFmpeg's own protocols for opening a file and for reading a packet. Without it, a server that sends
# nothing could block them forever.
_TIMEOUT_SECONDS = 30

# FFmpeg searches five megabytes of a WAV file for hidden DTS. That takes longer than decoding a minute of audio.
_WAV_PROBE_BYTES = "65536"
_NUM_BYTES_TO_TELL_WAV = 12

# All names of a format, separated by commas, by the first of them
_NAMES = {names.partition(",")[0]: names for names in av.formats_available if "," in names}
_BRANDS_OF_JPEG = (b"jp2 ", b"jpx ", b"jxl ")
# The element DocType (RFC 8794, 11.2.4) with its size
_MATROSKA_NAMES = (b"\x42\x82\x84webm", b"\x42\x82\x88matroska")

PYAV_VERSION: str = av.__version__
# To find the properties of streams, FFmpeg decodes a few frames, which it drops. They need no loop filters.
_OPTIONS: dict[str, Any] = {"options": {"skip_loop_filter": "all"}}
# Tags may not be UTF-8. Later versions of PyAV replace invalid bytes by default.
_OPTIONS |= {"metadata_errors": "replace"} if int(PYAV_VERSION.split(".")[0]) < 19 else {}

# Demuxers that open other files or URLs, which their input names.
_REFERRING_FORMATS = frozenset(("concat", "dash", "hls", "image2", "image2pipe", "imf", "lavfi", "mlv", "rtp", "rtsp"))
_REFERRING_FORMATS |= {"sap", "sdp", "vapoursynth", "vobsub", "webm_dash_manifest"}
# Demuxers that render the bytes of a file as letters. FFmpeg selects them by the file's name (.txt, .nfo, .asc, .bin
# ...), so any text file would be a video.
_TEXT_FORMATS = frozenset(("adf", "bin", "idf", "tty"))
_SELF_CONTAINED_FORMATS = ",".join(sorted(av.formats_available - _REFERRING_FORMATS - _TEXT_FORMATS))

# How playlists of the formats hls, concat, dash and sdp begin.
_PLAYLIST_SIGNS = (b"#EXTM3U", b"ffconcat", b"<?xml", b"<MPD", b"v=0")
_PLAYLIST_ADVICE = " Playlists that name other files are opened only from a URL such as 'file:/path/list.m3u8'."
_TGA_ADVICE = " A TGA image is opened only by the path of a file whose name has none of the characters % * ? [ {."


def _deny_opening(url: str, *_: object) -> Any:
    raise PermissionError(f"the media refers to another resource ({url!r}), which is not opened")


class _FileForFFmpeg:
    """A file object that PyAV reads for FFmpeg.

    PyAV would swallow exceptions such as `KeyboardInterrupt`. So this object stores them in the `Reader` that it wraps,
    and `raise_interruption` raises them later.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, size: int) -> bytes:
        return self._call(self._reader.read, size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._call(self._reader.seek, offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def _call(self, function: Callable[..., _Result], *args: int) -> _Result:
        if self._reader.interruption is None:
            try:
                return function(*args)
            except Exception:
                raise
            except BaseException as error:
                self._reader.interruption = error
        raise ReadError("Reading the source was interrupted.")


def raise_interruption(reader: Reader | None) -> None:
    """If ``reader`` stored an exception such as `KeyboardInterrupt` while FFmpeg read from it, raise this exception."""
    if reader is not None and reader.interruption is not None:
        error, reader.interruption = reader.interruption, None
        raise error


def _read_first_bytes(source: Source, target: str | Reader) -> bytes:
    """Return the first bytes of ``target``, which show its format. For remote or streamed sources, return no bytes."""
    if source.magic:
        return source.magic
    if isinstance(target, MemoryReader):
        return _first_bytes_of(target)
    if isinstance(target, str) and target.startswith("file:") and os.path.isfile(path := target[len("file:") :]):
        with suppress(OSError), open(path, "rb", buffering=0) as file:
            return file.read(_NUM_BYTES_TO_TELL_WAV)
    return b""


def _first_bytes_of(reader: Reader | None) -> bytes:
    """Return the first bytes of a source that FFmpeg reads at the moment. The reader's position does not change."""
    if reader is None:
        return b""
    position = reader.tell()
    beginning = reader.read_at(0, _NUM_BYTES_TO_TELL_WAV)
    reader.seek(position)
    return beginning


def _first_bytes_of_url(url: str, options: dict[str, Any]) -> bytes:
    """Return the first bytes of a URL that FFmpeg opens, or no bytes if it cannot be opened again."""
    with (
        suppress(av.FFmpegError, StopIteration),
        av.open(url, "r", **options | {"format": "data"}) as container,
    ):
        return bytes(next(container.demux()))[:_NUM_BYTES_TO_TELL_WAV]
    return b""


def _certain_format(beginning: bytes) -> str | None:
    """Return the format of a file that starts with these bytes, or ``None`` if FFmpeg must try all its formats.

    The rules are those of FFmpeg, for files to which it gives its highest score.
    """
    if beginning[4:8] == b"ftyp" and beginning[:4] >= b"\0\0\0\x08" and beginning[8:12] not in _BRANDS_OF_JPEG:
        return _NAMES.get("mov")
    is_ebml = beginning.startswith(b"\x1a\x45\xdf\xa3")
    return _NAMES.get("matroska") if is_ebml and any(name in beginning for name in _MATROSKA_NAMES) else None


def _is_wav(beginning: bytes) -> bool:
    return beginning[:4] in (b"RIFF", b"RF64", b"BW64") and beginning[8:_NUM_BYTES_TO_TELL_WAV] == b"WAVE"


def _refuse_big_endian(container: Any, source: Source, beginning: bytes) -> None:
    """Raise `StreamError`, and close the container, if FFmpeg would read the samples of a WAV file in wrong byte order.

    FFmpeg reads the header of a big-endian file (RIFX) correctly, but takes its samples for little-endian ones.
    """
    context = container.streams[0].codec_context if container.streams else None
    codec = "" if context is None else context.name
    if beginning[:4] == b"RIFX" and codec.startswith("pcm_") and codec.endswith("le"):
        container.close()
        raise StreamError(
            f"{source.describe()} is a big-endian WAV file (RIFX), whose samples FFmpeg would read in the wrong byte "
            "order. Use WavDecoder for it."
        )


def _is_tga(beginning: bytes) -> bool:
    """Return whether a file that starts with these bytes could be a TGA image.

    TGA files have no signature, so FFmpeg recognises them only by their file names.
    """
    return len(beginning) > 2 and beginning[1] < 2 and beginning[2] in (1, 2, 3, 9, 10, 11)


def _advice(source: Source, beginning: bytes) -> str:
    if beginning.startswith(_PLAYLIST_SIGNS) and not source.may_refer_elsewhere:
        return _PLAYLIST_ADVICE
    return _TGA_ADVICE if source.describe().lower().endswith(".tga") else ""


def open_container(source: Source) -> tuple[Any, Any]:
    """Open a source; return (the PyAV container, the reader). Close the reader after the container.

    The reader is ``None`` if FFmpeg itself opens a path or URL.
    """
    target = source.open()
    try:
        return _open_target(source, target)
    except OpenError as error:
        # From the name photo.jpg, FFmpeg concludes that the file is part of a numbered sequence of images. Sequences
        # are refused. If FFmpeg does not get the name, it reads the file as an image.
        is_refused = isinstance(target, str) and isinstance(error.__cause__, av.ArgumentError)
        reader = source.open_bytes() if is_refused else None
        if reader is None:
            raise
    return _open_target(source, reader)


def _open_target(source: Source, target: str | Reader) -> tuple[Any, Any]:
    demuxer_options = {"format_whitelist": _SELF_CONTAINED_FORMATS, "protocol_whitelist": "file"}
    options: dict[str, Any] = _OPTIONS | {"container_options": demuxer_options}
    is_local = isinstance(target, str) and target.startswith("file:")
    if isinstance(target, str) and source.may_refer_elsewhere:
        options["container_options"] = demuxer_options = {"rw_timeout": str(_TIMEOUT_SECONDS * 1_000_000)}
        options["timeout"] = float(_TIMEOUT_SECONDS)
    if is_local:
        demuxer_options["blocksize"] = str(LOCAL_BLOCK_BYTES)
    reader = None if isinstance(target, str) else target
    if reader is not None:
        options["io_open"] = _deny_opening
        options["buffer_size"] = reader.block_bytes
    beginning = _read_first_bytes(source, target)
    options["format"] = _certain_format(beginning)
    if _is_wav(beginning):
        demuxer_options["probesize"] = _WAV_PROBE_BYTES
    if is_local and str(target).lower().endswith(".tga") and _is_tga(beginning):
        # With filename patterns turned off, the demuxer of numbered images reads exactly this file.
        options["format"] = "image2"
        demuxer_options |= {"format_whitelist": "image2", "pattern_type": "none"}
    try:
        with interrupts_kept():
            container = av.open(target if reader is None else _FileForFFmpeg(reader), "r", **options)
            raise_interruption(reader)
        if container.format.name in _TEXT_FORMATS:  # possible only for URLs, which have no whitelist
            container.close()
            raise OpenError(f"Could not open input file: {source.describe()}. It is text, and not media.")
        for stream in container.streams.audio:
            if stream.codec_context is not None:
                _replace_listed_layout(stream.codec_context)
        if container.format.name == "wav":
            beginning = beginning or _first_bytes_of(reader)
            if not beginning and container.size > 0:  # not a pipe or a live stream, whose start is gone
                beginning = _first_bytes_of_url(str(target), options)
            _refuse_big_endian(container, source, beginning)
        return container, reader
    except BaseException as error:
        if reader is not None:
            reader.close()
        raise_interruption(reader)
        if not isinstance(error, (av.FFmpegError, UnicodeDecodeError)):
            raise
        fault = f"Could not open input file: {source.describe()} ({error_text(error)})."
        if isinstance(error, av.FileNotFoundError):
            raise SourceNotFoundError(fault) from error
        advice = _advice(source, beginning)
        raise OpenError(f"{fault} It must be a complete file of media that FFmpeg can read.{advice}") from error


# FFmpeg's names of channels in the order in which a layout has them, unless it lists its channels.
_CHANNELS = (
    " FL FR FC LFE BL BR FLC FRC BC SL SR TC TFL TFC TFR TBL TBC TBR DL DR WL WR SDL SDR LFE2 TSL TSR BFC BFL BFR "
    "SSL SSR TTL TTR "
)


def _replace_listed_layout(context: Any) -> None:
    """Replace a channel layout that lists its channels by a layout without a list.

    PyAV frees the list, and FFmpeg frees it again, which would crash the process. FFmpeg makes a list if a file (CAF,
    MOV, MP4) states each channel. If the channels are in an unusual order, the new layout states only their number.
    Frames need no such guard: of FFmpeg's decoders, only the one for xHE-AAC makes a list, and it replaces the list
    before it returns a frame.
    """
    layout = context.layout
    if not layout.nb_channels or layout.name.endswith(" channels"):  # there is no list
        return
    names = [channel.name for channel in layout.channels]
    places = [_CHANNELS.find(f" {name} ") for name in names]
    is_in_order = all(before < place for before, place in pairwise([-1, *places]))
    if is_in_order or layout.name.startswith("ambisonic"):
        context.layout = "+".join(names) if layout.name.endswith(")") and "channels" in layout.name else layout.name
    else:
        context.layout = f"{layout.nb_channels} channels"


def read_container_info(source: Source, *, reads_orientation: bool = False) -> ContainerInfo:
    container, reader = open_container(source)
    try:
        info = container_info(container)
        if reads_orientation:
            streams = [with_orientation(stream, container.streams[stream.index]) for stream in info.streams]
            info = replace(info, streams=tuple(streams))
        return info
    finally:
        close_container(container, reader)


def error_text(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)


def close_container(container: Any, reader: Any) -> None:
    container.close()
    if reader is not None:
        reader.close()


def let_rest(context: Any) -> None:
    """Wait until the threads of a codec are idle. Call this before the codec is freed, to avoid a deadlock.

    Freeing a codec also waits for its threads, but holds the GIL while it waits. If the application makes PyAV forward
    FFmpeg's log (``av.logging.set_level``), the threads need the GIL to log, so they would never become idle. This
    function flushes the codec instead, which waits without holding the GIL.
    """
    if context.is_open and context.thread_count != 1:
        context.flush_buffers()


_kept_from_parent: list[Any] = []


def keep_from_parent(codecs: Any) -> None:
    """In a forked child process, keep codecs of the parent process alive.

    Freeing them would wait for their threads. These threads exist only in the parent, so the child would wait forever.
    """
    _kept_from_parent.append(codecs)


def choose_stream(container: Any, stream_index: int | None, media_type: str) -> Any:
    """Return the stream at ``stream_index``; if it is ``None``, return FFmpeg's best stream of type ``media_type``.

    Raises `StreamError` if the stream does not exist, has another type, or cannot be decoded.
    """
    streams = container.streams
    if stream_index is None:
        best = streams.best(media_type)
        if best is None or best.codec_context is None:
            raise StreamError(
                f"The best {media_type} stream is unknown and there is no specified stream. The source has no "
                f"{media_type} stream that can be decoded (streams: {list_kinds(stream.type for stream in streams)})."
            )
        return best
    stream = streams[valid_stream_index(stream_index, len(streams))]
    if stream.type != media_type or stream.codec_context is None:
        raise StreamError(
            f"The stream at index {stream_index} is not a{'n' if media_type[0] in 'aeiou' else ''} {media_type} stream "
            f"that can be decoded. It is of type {stream.type or 'unknown'!r}."
        )
    return stream


def valid_stream_index(stream_index: int, num_streams: int) -> int:
    """Return the index as an int; raise `StreamError` if there is no such stream."""
    number = whole_number("stream_index", stream_index, or_none=True)
    if not 0 <= number < num_streams:
        raise StreamError(
            f"The stream index {number} is not a valid stream. The source has streams 0 to {num_streams - 1}."
        )
    return number


def list_kinds(media_types: Iterable[str | None]) -> str:
    """Return media types as text for an error message, such as "video, audio"."""
    return ", ".join(media_type or "unknown" for media_type in media_types) or "none"


_DECODABLE = ("video", "audio")


def choose_streams(container: Any, selectors: Sequence[int | str]) -> list[Any]:
    """Return the selected video and audio streams, in the order of the selectors.

    A selector is ``"video"`` or ``"audio"`` for FFmpeg's best stream, or an index among all streams. ``["all"]``
    selects all video and audio streams. Raises `StreamError` if a stream does not exist, is selected twice, or cannot
    be decoded.
    """
    streams = container.streams
    if list(selectors) == ["all"]:
        decodable = [stream for stream in streams if stream.type in _DECODABLE and stream.codec_context is not None]
        if not decodable:
            kinds = list_kinds(stream.type for stream in streams)
            raise StreamError(f"No valid video or audio stream found in input file (streams: {kinds}).")
        return decodable
    chosen: list[Any] = []
    for selector in selectors:
        if isinstance(selector, str):
            if streams.best(selector) is None:
                raise StreamError(f"No valid {selector} stream found in input file.")
            stream = choose_stream(container, None, selector)
        else:
            kind = streams[selector].type if 0 <= selector < len(streams) else "video"
            if kind not in _DECODABLE:
                raise StreamError(
                    f"The stream at index {selector} is of type {kind or 'unknown'!r}, which cannot be decoded. Only "
                    "audio and video streams can."
                )
            stream = choose_stream(container, selector, kind)
        if any(stream.index == other.index for other in chosen):
            raise StreamError(f"The stream at index {stream.index} is already being demuxed; name each stream once.")
        chosen.append(stream)
    return chosen
