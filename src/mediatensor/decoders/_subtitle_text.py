"""From what a packet of subtitles holds to plain text. Pure; no I/O.

Every codec has markup of its own: tags of HTML in SubRip, tags and character references in WebVTT, override codes in
ASS. Whatever asks for a look or a place is dropped; line breaks are kept.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

__all__ = ["Words", "is_ascii_superset", "words_of_packet"]

# Hostile markup must not take quadratic time: no pattern may look for an end that another look already missed.
_HTML_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# Override codes of ASS and of MicroDVD, which players accept in SubRip; other braces are text.
_SUBRIP_CODE = re.compile(r"\{(?:\\|[A-Za-z]:)[^{}]*\}")
_WEBVTT_TAG = re.compile(r"<[^>]*>?")
_WEBVTT_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^>]*)>?")
# An override block, an escaped character, or a stretch of text.
_ASS_PIECE = re.compile(r"\{[^}]*\}|\\.|[^{\\]+|.", re.DOTALL)
_ASS_TEXT = re.compile(r"\\.|[^\\]+|.", re.DOTALL)
_ASS_ESCAPES = {"\\N": "\n", "\\n": " ", "\\h": "\N{NO-BREAK SPACE}", "\\{": "{", "\\}": "}"}
_ASS_DRAWING = re.compile(r"\\p(\d+)")
_NUM_ASS_FIELDS = 9  # ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect, Text


@dataclass(frozen=True)
class Words:
    """What a subtitle says.

    Attributes:
        text: Without markup.
        markup: As it is stored.
        speaker: Who says it, if that is marked.
        style: Name of its style, if the codec has such.
    """

    text: str
    markup: str
    speaker: str | None = None
    style: str | None = None


def words_of_packet(codec: str, line: bytes, encoding: str = "utf-8") -> Words:
    """What a packet says, or a line of ASS into which it was decoded.

    Args:
        codec: FFmpeg's name.
        line: The packet of a codec whose packets can be read as they are; else the fields of a line of ASS.
        encoding: Of the characters.

    Raises:
        UnicodeDecodeError: if the bytes are not in the encoding.

    >>> words_of_packet("subrip", b"<i>Hello</i> {you}").text
    'Hello {you}'
    """
    if codec == "mov_text":
        text = _mov_text(line)
        return Words(_tidy(text), text)
    markup = line.rstrip(b"\0").decode(encoding)
    if codec == "text":
        return Words(_tidy(markup), markup)
    if codec == "subrip":
        return Words(_tidy(_SUBRIP_CODE.sub("", _HTML_TAG.sub("", markup))), markup)
    if codec == "webvtt":
        return _webvtt(markup)
    return _ass(markup)


def is_ascii_superset(encoding: str) -> bool:
    """Whether the characters that formats of subtitles are made of are single bytes, those of ASCII.

    >>> is_ascii_superset("cp1252"), is_ascii_superset("utf-16")
    (True, False)

    Raises:
        LookupError: if Python knows no such encoding.
    """
    sample = "0:1, -->\n<i>{\\N}&"
    try:
        return sample.encode(encoding) == sample.encode("ascii")
    except UnicodeError:
        return False


def _mov_text(packet: bytes) -> str:
    """The text of a sample of 3GPP timed text; boxes with its style follow and are passed over."""
    text = packet[2 : 2 + int.from_bytes(packet[:2], "big")]
    has_mark_of_utf16 = text[:2] in (b"\xfe\xff", b"\xff\xfe")
    return text.decode("utf-16" if has_mark_of_utf16 else "utf-8")


def _webvtt(markup: str) -> Words:
    voices = filter(None, map(_WEBVTT_VOICE.fullmatch, _WEBVTT_TAG.findall(markup)))
    names = {html.unescape(voice[1]).strip() for voice in voices}
    speaker = names.pop() if len(names) == 1 else None
    return Words(_tidy(html.unescape(_WEBVTT_TAG.sub("", markup))), markup, speaker=speaker)


def _ass(line: str) -> Words:
    fields = line.split(",", _NUM_ASS_FIELDS - 1)
    if len(fields) < _NUM_ASS_FIELDS:
        return Words("", line)
    markup = fields[-1]
    return Words(_tidy(_plain_ass(markup)), markup, speaker=fields[3].strip() or None, style=fields[2].strip() or None)


def _plain_ass(markup: str) -> str:
    r"""The text of a line of ASS: no override codes, and no drawings (what stands between {\p1} and {\p0})."""
    pieces, is_drawing = [], False
    end_of_blocks = markup.rfind("}") + 1  # behind it, braces that open are text
    for piece in _ASS_PIECE.findall(markup, 0, end_of_blocks) + _ASS_TEXT.findall(markup, end_of_blocks):
        if piece.startswith("{") and piece.endswith("}"):
            for scale in _ASS_DRAWING.findall(piece):
                is_drawing = int(scale[:9]) > 0
        elif not is_drawing:
            pieces.append(_ASS_ESCAPES.get(piece, piece))
    return "".join(pieces)


def _tidy(text: str) -> str:
    """The text with line breaks of one kind, and no blank at its ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
