"""SubRip: the text of subtitle files with the ending ``.srt``. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["WORD_JOINER", "clock", "subrip", "text_lines"]

# Zero-width, and no place for a line break: it keeps characters of the text from being taken for markup. FFmpeg writes
# it into ASS for this purpose.
WORD_JOINER = "\u2060"

# Players take these for markup: tags, override codes of ASS and of MicroDVD, and arrows of times.
_MARKUP = re.compile(r"<(?=[^<]*>)|\{(?=\\|[A-Za-z]:)|--(?=>)")
_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Characters without a glyph that break formats: control characters, halves of surrogate pairs, the byte order mark.
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")


def subrip(cues: Iterable[tuple[int, int, Sequence[str]]]) -> str:
    """Return the text of a SubRip file.

    SubRip has no escapes, so a zero-width character breaks up what players would take for markup.

    Args:
        cues: Start and end in milliseconds, and the lines of the text. Cues without lines are left out.

    >>> print(subrip([(1000, 2500, ["Hello"])]), end="")
    1
    00:00:01,000 --> 00:00:02,500
    Hello
    """
    parts: list[str] = []
    for start, end, lines in cues:
        if lines:
            text = _MARKUP.sub(lambda match: match[0] + WORD_JOINER, "\n".join(lines))
            parts.append(f"{len(parts) + 1}\n{clock(start, ',')} --> {clock(end, ',')}\n{text}\n")
    return "\n".join(parts)


def text_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without characters that subtitle files cannot hold.

    >>> text_lines(" Good\\x00 \\r\\n\\n evening")
    ['Good', 'evening']
    """
    lines = (_NOT_TEXT.sub("", line).replace("\t", " ").strip() for line in _LINE_BREAKS.split(text))
    return [line for line in lines if line]


def clock(milliseconds: int, point: str) -> str:
    """Format a time.

    >>> clock(3_723_004, ".")
    '01:02:03.004'
    """
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{milliseconds:03d}"
