"""Search for words, phrases and regular expressions in text that was read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from ..._engine.common.checks import shown
from ..._engine.common.messages import warn_user
from ...errors import InvalidArgumentError

# A hyphen at a line end, which may divide a word; and ideographs, which need no space after a line end.
_HYPHEN_AT_END = re.compile("(?<=\\w)[-\u00ac\u00ad\u2010\u2011]$")
_IDEOGRAPH_AT_END = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]$")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
# Characters that a search for a phrase does not distinguish: apostrophes and quotes, double quotes, and dashes.
_EQUAL_CHARACTERS = (
    "'`\u00b4\u02bc\u2018\u2019\u201a\u201b\u2032",
    '"\u201c\u201d\u201e\u201f\u2033',
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
)


def phrase_pattern(text: str, *, has_case: bool = False) -> re.Pattern[str]:
    """Compile a word or a phrase. It may also be a part of a word. A space matches any white space.

    Apostrophes and quotes, double quotes, and dashes match all characters of their kind. If case is ignored, "ss" and
    "ß" are equal. Text with other spaces also matches, but only from the beginning of a word to the end of a word.
    Otherwise, "Ian" would be found in "Julia Nowak".

    >>> phrase_pattern("error 503").search("An Error\\n503 came.") is not None
    True
    >>> phrase_pattern("o'brien-strasse 12").search("O\\u2019Brien\\u2013Straße12") is not None
    True

    Raises:
        InvalidArgumentError: if the text is empty.
    """
    words = [_character_patterns(word, has_case) for word in normalize_text(text).split()]
    if not words:
        raise InvalidArgumentError(f"The text {text!r} is empty; give a text to find.")
    phrase = r"\s+".join("".join(characters) for characters in words)
    other_spaces = r"\s*".join(chain.from_iterable(words)).replace("ss|", r"s\s*s|")
    return re.compile(rf"{phrase}|(?<!\w){other_spaces}(?!\w)", 0 if has_case else re.IGNORECASE)


def _character_patterns(word: str, has_case: bool) -> list[str]:
    """Return a regular expression for each character of a word, and for each "ss" if case is ignored."""
    patterns = []
    for character in re.findall("." if has_case else "ss|ß|.", word, re.IGNORECASE):
        kind = next((kind for kind in _EQUAL_CHARACTERS if character in kind), "")
        if kind:
            patterns.append(f"[{re.escape(kind)}]")
        elif not has_case and character.lower() in ("ss", "ß"):
            patterns.append("(?:ss|ß)")
        else:
            patterns.append(re.escape(character))
    return patterns


def search_patterns(texts: Sequence[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    """Return a regular expression for each text to find. Raise an error if one is empty, or matches the empty text."""
    patterns = []
    for text in texts:
        if isinstance(text, str):
            patterns.append(phrase_pattern(text))
        elif isinstance(text, re.Pattern) and isinstance(text.pattern, str):
            if text.search("") is not None:
                raise InvalidArgumentError(
                    f"{text.pattern!r} matches the empty text; give an expression that does not."
                )
            patterns.append(text)
        else:
            raise InvalidArgumentError(f"{shown(text)} is not a text to find; give a str, or a re.Pattern of a str.")
    return patterns


def warn_without_match(text: str | re.Pattern[str], where: str) -> None:
    """Warn that nothing was redacted for a text. ``where`` is the place that was searched, such as "on the pages"."""
    query = shown(text if isinstance(text, str) else text.pattern)
    warn_user(
        f"Nothing matches {query}, so nothing was redacted for it. If the text is {where}, it was read differently: "
        "redact its region."
    )


def normalize_text(text: str) -> str:
    """Replace ligatures, wide letters and separate accents by usual characters (NFKC), and remove invisible ones.

    >>> normalize_text("o\\ufb03ce \\uff15"), normalize_text("Mu\\u0308l\\u00adler")
    ('office 5', 'Müller')
    """
    # NFKC would divide a word at an acute accent that is used as an apostrophe, and a double prime into two.
    text = text.replace("\u00b4", "'").replace("\u2033", '"')
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


def find_words(pattern: re.Pattern[str], lines: Sequence[Sequence[str]]) -> list[tuple[int, ...]]:
    """Return the words of each match of a pattern, as numbers that count the words of all lines from 0.

    Words are joined by spaces, and lines by line breaks. A word that is divided at a line end is also found as one
    word, with and without its hyphen. Texts are searched as they are, and as `normalize_text` returns them.

    >>> find_words(re.compile("Meyer"), [["by", "Anna", "Mey-"], ["er,", "Bonn"]])
    [(2, 3)]
    """
    lines = [line for line in lines if line]
    normal_lines = [[normalize_text(word) for word in line] for line in lines]
    last_words = [line[-1] for line in lines]
    matches: dict[tuple[int, ...], None] = {}
    for texts in (lines, normal_lines) if normal_lines != lines else (lines,):
        for joints in _line_joints(last_words):
            matches |= dict.fromkeys(_matches(pattern, texts, joints))
    return list(matches)


def _line_joints(last_words: Sequence[str]) -> Iterator[list[tuple[bool, str]]]:
    """Yield ways to join lines: for the end of each, (whether to drop the last character, separator)."""
    yield [(False, "\n")] * len(last_words)
    divided = [bool(_HYPHEN_AT_END.search(word)) for word in last_words]
    unspaced = [bool(_IDEOGRAPH_AT_END.search(word)) for word in last_words]
    if any(divided) or any(unspaced):
        ways = list(zip(divided, unspaced, strict=True))
        yield [(is_divided, "" if is_divided or is_unspaced else "\n") for is_divided, is_unspaced in ways]
        yield [(False, "" if is_divided else "\n") for is_divided, _ in ways]


def _matches(
    pattern: re.Pattern[str], lines: Sequence[Sequence[str]], joints: Sequence[tuple[bool, str]]
) -> Iterator[tuple[int, ...]]:
    pieces: list[str] = []
    ends: list[str] = []
    for line, (drops, separator) in zip(lines, joints, strict=True):
        last = re.sub(_HYPHEN_AT_END, "", line[-1]) if drops else line[-1]
        pieces += [*line[:-1], last]
        ends += [*[" "] * (len(line) - 1), separator]
    text = "".join(chain.from_iterable(zip(pieces, ends, strict=True)))
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    stops = np.cumsum(lengths + [len(end) for end in ends])
    starts = stops - lengths - [len(end) for end in ends]
    for match in pattern.finditer(text):
        first = int(np.searchsorted(starts + lengths, match.start(), side="right"))
        # A match without characters, such as of "(?=4)", stands for the character after it.
        last_number = int(np.searchsorted(starts, max(match.end(), match.start() + 1), side="left"))
        if words := tuple(range(first, last_number)):
            yield words
