"""`SubtitleDecoder`, which returns subtitles as text with times."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsIndex, overload

from .._engine.common.checks import finite_number, optional_text
from .._engine.common.locks import Closing, ForkSafeLock
from .._engine.metadata import SubtitleStreamHeaderMetadata, stream_header_metadata
from .._engine.pyav.reading import READABLE_PACKETS, SubtitlePacket, read_subtitle_info, read_subtitle_packets
from .._engine.sources.source import make_source
from ..errors import ClosedError, DecodeError, InvalidArgumentError, OutOfRangeError, StreamError

# A pattern must not search the rest of the text repeatedly, because malicious markup could then take quadratic time.
_HTML_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# Override codes of ASS and MicroDVD, which players accept in SubRip. Other braces are text.
_SUBRIP_CODE = re.compile(r"\{(?:\\|[A-Za-z]:)[^{}]*\}")
_WEBVTT_TAG = re.compile(r"<[^>]*>?")
_WEBVTT_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^>]*)>?")
# An override block, an escaped character, or a stretch of text.
_ASS_PIECE = re.compile(r"\{[^}]*\}|\\.|[^{\\]+|.", re.DOTALL)
_ASS_TEXT = re.compile(r"\\.|[^\\]+|.", re.DOTALL)
_ASS_ESCAPES = {"\\N": "\n", "\\n": " ", "\\h": "\N{NO-BREAK SPACE}", "\\{": "{", "\\}": "}"}
_ASS_DRAWING = re.compile(r"\\p(\d+)")
_NUM_ASS_FIELDS = 9  # ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect, Text


def parse_text(codec: str, line: bytes, encoding: str = "utf-8") -> Subtitle:
    """Return a subtitle with the text, markup, speaker and style in ``line``. Its times are NaN.

    Args:
        codec: FFmpeg's name of the codec.
        line: The bytes of the packet if ``codec`` is in `READABLE_PACKETS`; otherwise the ASS line that FFmpeg has
            decoded from the packet.
        encoding: Encoding of the text in ``line``.

    Raises:
        UnicodeDecodeError: if the bytes are not valid in the encoding.

    >>> parse_text("subrip", b"<i>Hello</i> {you}").text
    'Hello {you}'
    """
    if codec == "mov_text":
        # A 3GPP timed text sample. Style boxes follow the text.
        content = line[2 : 2 + int.from_bytes(line[:2], "big")]
        text = content.decode("utf-16" if content[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-8")
        return _untimed(_tidy(text), markup=text)
    markup = line.rstrip(b"\0").decode(encoding)
    if codec == "text":
        return _untimed(_tidy(markup), markup=markup)
    if codec == "subrip":
        return _untimed(_tidy(_SUBRIP_CODE.sub("", _HTML_TAG.sub("", markup))), markup=markup)
    if codec == "webvtt":
        return _webvtt(markup)
    return _ass(markup)


def is_ascii_superset(encoding: str) -> bool:
    """Return whether an encoding stores ASCII characters as ASCII bytes, as the syntax of subtitle files requires.

    >>> is_ascii_superset("cp1252"), is_ascii_superset("utf-16")
    (True, False)

    Raises:
        LookupError: if Python does not have the encoding.
    """
    sample = "0:1, -->\n<i>{\\N}&"
    try:
        return sample.encode(encoding) == sample.encode("ascii")
    except UnicodeError:
        return False


def _webvtt(markup: str) -> Subtitle:
    voices = filter(None, map(_WEBVTT_VOICE.fullmatch, _WEBVTT_TAG.findall(markup)))
    names = {html.unescape(voice[1]).strip() for voice in voices}
    speaker = names.pop() if len(names) == 1 else None
    return _untimed(_tidy(html.unescape(_WEBVTT_TAG.sub("", markup))), markup=markup, speaker=speaker)


def _ass(line: str) -> Subtitle:
    fields = line.split(",", _NUM_ASS_FIELDS - 1)
    if len(fields) < _NUM_ASS_FIELDS:
        return _untimed("", markup=line)
    markup = fields[-1]
    speaker, style = fields[3].strip() or None, fields[2].strip() or None
    return _untimed(_tidy(_plain_ass(markup)), markup=markup, speaker=speaker, style=style)


def _plain_ass(markup: str) -> str:
    """Return the text of an ASS line without override codes and drawings (the data between {\\p1} and {\\p0})."""
    pieces, is_drawing = [], False
    end_of_blocks = markup.rfind("}") + 1  # opening braces after this position are text
    for piece in _ASS_PIECE.findall(markup, 0, end_of_blocks) + _ASS_TEXT.findall(markup, end_of_blocks):
        if piece.startswith("{") and piece.endswith("}"):
            for scale in _ASS_DRAWING.findall(piece):
                is_drawing = int(scale[:9]) > 0
        elif not is_drawing:
            pieces.append(_ASS_ESCAPES.get(piece, piece))
    return "".join(pieces)


def _tidy(text: str) -> str:
    """Return the text with ``\\n`` as line breaks and without surrounding whitespace."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


# Limits for damaged and malicious files: a film has about 2,000 subtitles, in 100 kB.
_MAX_NUM_SUBTITLES = 1_000_000
_MAX_TOTAL_BYTES = 1 << 28

# Codecs whose format specifies the encoding.
_FIXED_ENCODING = ("mov_text",)


@dataclass(frozen=True)
class Subtitle:
    """One subtitle: its text and its start and end times.

    Attributes:
        text: Plain text; lines are separated by ``"\\n"``.
        start_seconds: Time in seconds at which the subtitle appears.
        end_seconds: Time in seconds at which the subtitle disappears. If the file does not state this time, it is the
            start of the next subtitle or, after the last subtitle, the end of the file.
        markup: The text with its markup as stored: tags of SubRip and WebVTT, override codes of ASS. 3GPP timed text
            (``mov_text``) has no markup, so ``markup`` is the plain text. For other codecs, ``markup`` is the ASS text
            to which FFmpeg converts the subtitle.
        speaker: Name of the speaker, from the voice tag of WebVTT or the name field of ASS; ``None`` if there is none.
        style: Name of the subtitle's style in ASS; ``None`` if there is none.

    Example:
        >>> from mediatensor.decoders import Subtitle
        >>> Subtitle("Hello\\nworld", 1.0, 2.5).duration_seconds
        1.5
    """

    text: str
    start_seconds: float
    end_seconds: float
    markup: str = ""
    speaker: str | None = None
    style: str | None = None

    @property
    def duration_seconds(self) -> float:
        """Duration in seconds."""
        return self.end_seconds - self.start_seconds


_untimed = partial(Subtitle, start_seconds=math.nan, end_seconds=math.nan)


class SubtitleDecoder(Closing, Sequence[Subtitle]):
    """Reads the subtitles of a file as text with times, in order of appearance.

    The decoder is a sequence: ``len(decoder)``, ``decoder[0]``, ``decoder[-5:]`` and ``for subtitle in decoder`` work.
    The first access reads all subtitles of the file into memory; the file does not stay open. A decoder can be pickled
    and copied, used after a fork, and called from several threads at the same time.

    The decoder reads SubRip (.srt), WebVTT (.vtt), ASS and SSA, 3GPP timed text (mp4, mov), and every other codec that
    FFmpeg decodes to text. The source can be a subtitle file or a container (mkv, webm, mp4, ...). Subtitles without
    text, such as drawings, are left out. Times are on the same time axis as the file's video frames and audio samples.

    Args:
        source: A path, URL, ``bytes``, 1-D uint8 tensor or binary file object, as for `VideoDecoder`.
        stream_index: Index of the stream among all streams. By default, the first text stream whose default flag is set
            or, if there is none, the first text stream.
        encoding: Encoding of the text in the file, by its Python name, such as ``"cp1252"``; by default UTF-8. UTF-16
            with a byte order mark is detected automatically.

    Attributes:
        stream_index: Index of the stream that is read.
        metadata: `SubtitleStreamHeaderMetadata`, the properties of the stream according to its header.

    Raises:
        SourceTypeError, SourceNotFoundError, OpenError, ReadError: if the source cannot be opened.
        StreamError: if there is no such subtitle stream, or its subtitles are images (DVD, Blu-ray, DVB).
        InvalidArgumentError: if ``encoding`` is unknown or incompatible with ASCII, or is passed for a codec whose text
            is always UTF-8.

    Example:
        >>> from mediatensor.decoders import SubtitleDecoder
        >>> lines = ["1", "00:00:01,500 --> 00:00:03,000", "Good evening.", ""]
        >>> decoder = SubtitleDecoder("\\n".join(lines).encode())  # or the name of a video
        >>> decoder[0].text, decoder[0].start_seconds
        ('Good evening.', 1.5)
        >>> [subtitle.text for subtitle in decoder.get_subtitles_played_in_range(0, 5)]
        ['Good evening.']
        >>> decoder.get_all_subtitles() == list(decoder), decoder.get_subtitles_played_at(4.0)
        (True, [])
        >>> decoder.close()
    """

    def __init__(self, source: object, *, stream_index: int | None = None, encoding: str | None = None) -> None:
        self._source = make_source(source)
        container, info = read_subtitle_info(self._source, stream_index)
        self._codec = info.codec or "unknown"
        self._encoding = _check_encoding(encoding, self._codec)
        self._file_end = container.duration_seconds
        self._lock = ForkSafeLock()
        self._subtitles: list[Subtitle] | None = None
        self._is_closed = False
        metadata = stream_header_metadata(info)
        assert isinstance(metadata, SubtitleStreamHeaderMetadata)
        self.metadata: SubtitleStreamHeaderMetadata = metadata
        self.stream_index: int = info.index

    # As a sequence

    def __len__(self) -> int:
        """Number of subtitles."""
        return len(self._all())

    @overload
    def __getitem__(self, key: SupportsIndex) -> Subtitle: ...
    @overload
    def __getitem__(self, key: slice) -> list[Subtitle]: ...
    def __getitem__(self, key: Any) -> Subtitle | list[Subtitle]:
        """Return the subtitle at an index, or a list for a slice.

        Raises:
            OutOfRangeError: if an index is out of range.
            TypeError: if the key is neither an integer nor a slice.
        """
        subtitles = self._all()
        if isinstance(key, slice):
            return subtitles[key]
        if not hasattr(key, "__index__"):
            raise TypeError(f"Unsupported key type: {type(key)}. Supported types are int and slice.")
        index = int(key.__index__())
        if not -len(subtitles) <= index < len(subtitles):
            raise OutOfRangeError(f"Invalid subtitle index={index}; there are {len(subtitles)} subtitles.")
        return subtitles[index]

    def __iter__(self) -> Iterator[Subtitle]:
        """Yield all subtitles in order."""
        return iter(self.get_all_subtitles())

    # The same methods as in other decoders

    def get_all_subtitles(self) -> list[Subtitle]:
        """Return a list of all subtitles, sorted by start time. Subtitles with equal start times keep the file order.

        Raises:
            ReadError: if the source cannot be read.
            DecodeError: if a subtitle is damaged, or its text is not in the decoder's ``encoding``. The message states
                the subtitle's time.
        """
        return list(self._all())

    def get_subtitles_played_at(self, seconds: float) -> list[Subtitle]:
        """Return a list of the subtitles shown at a time: none, one or several.

        A subtitle is shown from ``start_seconds`` up to, but not including, ``end_seconds``.

        Args:
            seconds: Any finite time in seconds, even before the start or after the end of the file.

        Raises:
            InvalidArgumentError: if the time is not a finite number.
        """
        seconds = finite_number("seconds", seconds)
        return [subtitle for subtitle in self._all() if subtitle.start_seconds <= seconds < subtitle.end_seconds]

    def get_subtitles_played_in_range(
        self, start_seconds: float = 0.0, stop_seconds: float | None = None
    ) -> list[Subtitle]:
        """Return a list of the subtitles that are shown at any time in [start_seconds, stop_seconds).

        A subtitle that starts before the range or ends after it is returned with its own start and end times.

        Args:
            start_seconds: Start of the range in seconds, inclusive.
            stop_seconds: End of the range in seconds, exclusive; ``None`` means the end of the file.

        Raises:
            InvalidArgumentError: if the times are not finite, or start is after stop.
        """
        start_seconds = finite_number("start_seconds", start_seconds)
        stop = math.inf if stop_seconds is None else finite_number("stop_seconds", stop_seconds)
        if start_seconds > stop:
            raise InvalidArgumentError(
                f"Invalid start seconds: {start_seconds}. It must be less than or equal to stop seconds ({stop})."
            )
        return [
            subtitle
            for subtitle in self._all()
            if max(subtitle.start_seconds, start_seconds) < min(subtitle.end_seconds, stop)
        ]

    # Lifetime

    def close(self) -> None:
        """Release the subtitles from memory. Later calls raise `ClosedError`."""
        self._is_closed, self._subtitles = True, None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=ForkSafeLock())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source.describe()!r}, stream_index={self.stream_index})"

    def _all(self) -> list[Subtitle]:
        with self._lock:
            if self._is_closed:
                raise ClosedError("The decoder is closed; make a new one to read more.")
            if self._subtitles is None:
                with closing(read_subtitle_packets(self._source, self.stream_index)) as packets:
                    self._subtitles = _subtitles(packets, self._codec, self._encoding, self._file_end)
            return self._subtitles


def _subtitles(
    packets: Iterable[SubtitlePacket], codec: str, encoding: str, file_end_seconds: float | None
) -> list[Subtitle]:
    """Return the subtitles of a stream sorted by start time, each with an end time."""
    subtitles: list[Subtitle] = []
    total = 0
    for packet in packets:
        for line in packet.lines:
            total += len(line)
            if len(subtitles) == _MAX_NUM_SUBTITLES or total > _MAX_TOTAL_BYTES:
                raise StreamError(
                    f"The stream exceeds the limit of {_MAX_NUM_SUBTITLES} subtitles or {_MAX_TOTAL_BYTES} bytes."
                )
            subtitle = _subtitle(packet, line, codec, encoding)
            if subtitle.text:
                subtitles.append(subtitle)
    subtitles.sort(key=lambda subtitle: subtitle.start_seconds)
    return _complete_ends(subtitles, file_end_seconds)


def _subtitle(packet: SubtitlePacket, line: bytes, codec: str, encoding: str) -> Subtitle:
    try:
        parsed = parse_text(codec, line, encoding if codec in READABLE_PACKETS else "utf-8")
    except UnicodeDecodeError as error:
        advice = "" if codec in _FIXED_ENCODING else '; pass the encoding of the file, such as encoding="cp1252"'
        raise DecodeError(
            f"The subtitle at {packet.start_seconds} seconds is not in the encoding {error.encoding}{advice}."
        ) from error
    # NaN means that the end is not known yet.
    end = math.nan if packet.duration_seconds is None else packet.start_seconds + packet.duration_seconds
    return replace(parsed, start_seconds=packet.start_seconds, end_seconds=end)


def _complete_ends(subtitles: Sequence[Subtitle], file_end_seconds: float | None) -> list[Subtitle]:
    """Replace each unknown end by the start of the next subtitle, or by the end of the file."""
    following = -math.inf if file_end_seconds is None else file_end_seconds
    complete: list[Subtitle] = []
    later = math.nan
    for subtitle in reversed(subtitles):
        if complete and complete[-1].start_seconds > subtitle.start_seconds:
            later = complete[-1].start_seconds
        if math.isnan(subtitle.end_seconds):
            end = max(subtitle.start_seconds, following) if math.isnan(later) else later
            subtitle = replace(subtitle, end_seconds=end)
        complete.append(subtitle)
    return complete[::-1]


def _check_encoding(encoding: str | None, codec: str) -> str:
    if encoding is None:
        return "utf-8"
    optional_text("encoding", encoding)
    if codec not in READABLE_PACKETS or codec in _FIXED_ENCODING:
        raise InvalidArgumentError(
            f"encoding cannot be set for subtitles of the codec {codec}, whose text is always UTF-8."
        )
    try:
        if is_ascii_superset(encoding):
            return encoding
    except LookupError:
        raise InvalidArgumentError(
            f"encoding must be the name of a Python encoding, such as 'cp1252' (got {encoding!r})."
        ) from None
    raise InvalidArgumentError(
        f"encoding must be a superset of ASCII (got {encoding!r}). Files in UTF-16 that start with a byte order mark "
        "are recognised automatically."
    )
