"""Opening containers and choosing a stream; formats that name other files, or draw text, stay closed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import av
import av.subtitles.stream  # PyAV would load it with the first file

from ...errors import OpenError, ReadError, SourceNotFoundError, StreamError
from ..common.checks import whole_number
from ..common.interrupts import interrupts_kept
from ..sources.readers import LOCAL_BLOCK_BYTES, MemoryReader, Reader
from ..sources.source import Source
from .probe import ContainerInfo, container_info

__all__ = [
    "choose_stream",
    "choose_streams",
    "close_container",
    "error_text",
    "open_container",
    "raise_interruption",
    "read_container_info",
]

_Result = TypeVar("_Result")

# How long FFmpeg's own protocols wait for a silent server, and how long they may take for a packet or for opening a
# file: a protocol that is busy without an end can be interrupted only by this.
_TIMEOUT_SECONDS = 30

# FFmpeg looks through five megabytes of a WAV file for DTS in disguise, which takes longer than decoding a minute.
_WAV_PROBE_BYTES = "65536"
_NUM_BYTES_TO_TELL_WAV = 12

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
        "lavfi",
        "rtp",
        "rtsp",
        "sap",
        "sdp",
        "vapoursynth",
        "vobsub",
        "mlv",
        "webm_dash_manifest",
    )
)
# Demuxers that accept a file of any content by its name (.txt, .nfo, .asc, .bin ...), and draw its bytes as letters on
# a screen: any text file would be a video.
_TEXT_FORMATS = frozenset(("adf", "bin", "idf", "tty"))
_SELF_CONTAINED_FORMATS = ",".join(sorted(av.formats_available - _REFERRING_FORMATS - _TEXT_FORMATS))


_TGA_ADVICE = " A TGA image is opened only by the path of a file whose name has none of the characters % * ? [ {."


def _deny_opening(url: str, *_: object) -> Any:
    raise PermissionError(f"the media refers to another resource ({url!r}), which is not opened")


class _FileForFFmpeg:
    """What FFmpeg reads from by way of PyAV, which passes on what is an `Exception`, and forgets the rest."""

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
    """Raise what is no `Exception`, such as `KeyboardInterrupt`, and came up while FFmpeg read from the reader."""
    if reader is not None and reader.interruption is not None:
        error, reader.interruption = reader.interruption, None
        raise error


def _beginning(source: Source, target: str | Reader) -> bytes:
    """The first bytes of a file on this machine or in memory; nothing of what is fetched, or gives them only once."""
    if source.magic:
        return source.magic
    if isinstance(target, MemoryReader):
        beginning = target.read_at(0, _NUM_BYTES_TO_TELL_WAV)
        target.seek(0)
        return beginning
    if isinstance(target, str) and target.startswith("file:") and os.path.isfile(path := target[len("file:") :]):
        with suppress(OSError), open(path, "rb", buffering=0) as file:
            return file.read(_NUM_BYTES_TO_TELL_WAV)
    return b""


def _is_wav(beginning: bytes) -> bool:
    return beginning[:4] in (b"RIFF", b"RF64", b"BW64") and beginning[8:_NUM_BYTES_TO_TELL_WAV] == b"WAVE"


def _is_tga(beginning: bytes) -> bool:
    """Whether a file may be a TGA image. These have no signature, and FFmpeg knows them only by their names."""
    return len(beginning) > 2 and beginning[1] < 2 and beginning[2] in (1, 2, 3, 9, 10, 11)


def open_container(source: Source) -> tuple[Any, Any]:
    """(container, reader): an open PyAV container and what must be closed after it (``None`` for a path or URL)."""
    target = source.open()
    try:
        return _open_target(source, target)
    except _NameSuggestsOtherFormatError as error:
        reported, cause = error.reported, error.__cause__
    # By its name alone (photo.jpg), FFmpeg takes a file for a numbered sequence of images. Its bytes have no name.
    reader = source.open_bytes()
    if reader is None:
        raise reported from cause
    return _open_target(source, reader)


class _NameSuggestsOtherFormatError(Exception):
    """FFmpeg chose a format that refers to other files, perhaps by the name of the file; carries what to report."""

    def __init__(self, reported: OpenError) -> None:
        super().__init__()
        self.reported = reported


def _open_target(source: Source, target: str | Reader) -> tuple[Any, Any]:
    options: dict[str, Any] = {}
    if _MAJOR_VERSION < 19:
        options["metadata_errors"] = "replace"  # tags need not be UTF-8; later versions never raise for them
    if isinstance(target, str) and source.may_refer_elsewhere:
        options["options"] = {"rw_timeout": str(_TIMEOUT_SECONDS * 1_000_000)}
        options["timeout"] = float(_TIMEOUT_SECONDS)
    else:
        options["options"] = {"format_whitelist": _SELF_CONTAINED_FORMATS, "protocol_whitelist": "file"}
    if isinstance(target, str) and target.startswith("file:"):
        options["options"]["blocksize"] = str(LOCAL_BLOCK_BYTES)
    reader = None if isinstance(target, str) else target
    if reader is not None:
        options["io_open"] = _deny_opening
        options["buffer_size"] = reader.block_bytes
    beginning = _beginning(source, target)
    if _is_wav(beginning):
        options["options"]["probesize"] = _WAV_PROBE_BYTES
    if (
        isinstance(target, str)
        and target.startswith("file:")
        and target.lower().endswith(".tga")
        and _is_tga(beginning)
    ):
        # Without patterns in names, the demuxer of numbered sequences of images reads this one file.
        options["format"] = "image2"
        options["options"] |= {"format_whitelist": "image2", "pattern_type": "none"}
    try:
        with interrupts_kept():
            container = av.open(target if reader is None else _FileForFFmpeg(reader), "r", **options)
            raise_interruption(reader)
        if container.format.name in _TEXT_FORMATS:  # a URL, for which all formats are open
            container.close()
            raise OpenError(f"Could not open input file: {source.describe()}. It is text, and not media.")
        return container, reader
    except av.FileNotFoundError as error:
        raise SourceNotFoundError(f"Could not open input file: {source.describe()} ({error_text(error)}).") from error
    except (av.FFmpegError, UnicodeDecodeError) as error:
        if reader is not None:
            reader.close()
        raise_interruption(reader)
        reported = OpenError(
            f"Could not open input file: {source.describe()} ({error_text(error)}). It must be media that FFmpeg "
            "can read; playlists that name other files are opened only from a URL such as 'file:/path/list.m3u8'."
            f"{_TGA_ADVICE if source.describe().lower().endswith('.tga') else ''}"
        )
        if reader is None and isinstance(error, av.ArgumentError):
            raise _NameSuggestsOtherFormatError(reported) from error
        raise reported from error
    except BaseException:
        if reader is not None:
            reader.close()
        raise_interruption(reader)
        raise


def read_container_info(source: Source) -> ContainerInfo:
    """Open ``source``, read what its headers say, and close it."""
    container, reader = open_container(source)
    try:
        return container_info(container)
    finally:
        close_container(container, reader)


def error_text(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)


def close_container(container: Any, reader: Any) -> None:
    container.close()
    if reader is not None:
        reader.close()


def choose_stream(container: Any, stream_index: int | None, media_type: str) -> Any:
    """The stream of that number, or the one of the type that FFmpeg thinks best.

    Raises:
        StreamError: if there is none, or it is of another type or cannot be decoded.
    """
    streams = container.streams
    if stream_index is None:
        best = streams.best(media_type)
        if best is None or best.codec_context is None:
            kinds = ", ".join(stream.type or "unknown" for stream in streams) or "none"
            raise StreamError(
                f"The best {media_type} stream is unknown and there is no specified stream. "
                f"The source has no {media_type} stream that can be decoded (streams: {kinds})."
            )
        return best
    stream_index = whole_number("stream_index", stream_index, or_none=True)
    if not 0 <= stream_index < len(streams):
        raise StreamError(
            f"The stream index {stream_index} is not a valid stream. The source has streams 0 to {len(streams) - 1}."
        )
    stream = streams[stream_index]
    if stream.type != media_type or stream.codec_context is None:
        raise StreamError(
            f"The stream at index {stream_index} is not a{'n' if media_type[0] in 'aeiou' else ''} {media_type} stream "
            f"that can be decoded. It is of type {stream.type or 'unknown'!r}."
        )
    return stream


def choose_streams(container: Any, selectors: Sequence[int | str]) -> list[Any]:
    """Streams of video and sound, in the order of what selects them.

    Args:
        container: PyAV's, just opened.
        selectors: ``"video"`` or ``"audio"`` for the one that FFmpeg thinks best, or numbers among all streams;
            ``["all"]`` for all of both kinds.

    Raises:
        StreamError: if there is none, if one is named twice, or is of another kind or cannot be decoded.
    """
    streams = container.streams
    if list(selectors) == ["all"]:
        found = [stream for stream in streams if stream.type in _DECODABLE and stream.codec_context is not None]
        if not found:
            kinds = ", ".join(stream.type or "unknown" for stream in streams) or "none"
            raise StreamError(f"No valid video or audio stream found in input file (streams: {kinds}).")
        return found
    chosen: list[Any] = []
    for selector in selectors:
        if isinstance(selector, str):
            if streams.best(selector) is None:
                raise StreamError(f"No valid {selector} stream found in input file.")
            stream = choose_stream(container, None, selector)
        else:
            stream = _decodable_stream(container, selector)
        if any(stream.index == other.index for other in chosen):
            raise StreamError(f"The stream at index {stream.index} is already being demuxed; name each stream once.")
        chosen.append(stream)
    return chosen


_DECODABLE = ("video", "audio")


def _decodable_stream(container: Any, stream_index: int) -> Any:
    streams = container.streams
    if 0 <= stream_index < len(streams) and (kind := streams[stream_index].type) not in _DECODABLE:
        raise StreamError(
            f"The stream at index {stream_index} is of type {kind or 'unknown'!r}, which cannot be decoded. Only audio "
            "and video streams can."
        )
    kind = streams[stream_index].type if 0 <= stream_index < len(streams) else "video"
    return choose_stream(container, stream_index, kind)
