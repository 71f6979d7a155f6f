"""Words that were parted at the end of a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["mend_hyphenation"]

_PARTED = re.compile(r"(?P<word>[^\s]*[^\W_])(?P<hyphen>[-\u2010\u00ad])$")
_FIRST = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]+")
# Both halves of a compound have at least so many letters.
_MIN_LETTERS = 4


def mend_hyphenation(lines: Sequence[str], context: str = "") -> str:
    """Join the lines of a paragraph, and the words that were parted at their ends.

    A hyphen stays where it belongs to the word: before a capital or a digit, in words that have another hyphen, and in
    compounds, which show in the other text of the page: with their hyphen, or as two words of their own.

    Args:
        lines: From the first to the last.
        context: Other text of the page; the lines themselves count as well.

    Returns:
        One line of text.

    Example:
        >>> from mediatensor.ocr.structure import mend_hyphenation
        >>> mend_hyphenation(["An exam-", "ple of Navier-", "Stokes and well-", "known text"], "a well-known page")
        'An example of Navier-Stokes and well-known text'
    """
    stripped = [line.strip() for line in lines]
    # Halves are no words by standing at the ends of lines.
    inner = [" ".join(line.split()[1:-1]) for line in stripped]
    whole = " ".join([context, *inner]).casefold()
    known = set(_LETTERS.findall(whole))
    mended = ""
    for line in stripped:
        parted = _PARTED.search(mended)
        first = _FIRST.match(line)
        if not mended or not line:
            mended += line
        elif parted is None or (parted["hyphen"] != "\u00ad" and first is None):
            mended += f" {line}"
        elif parted["hyphen"] == "\u00ad":
            mended = mended[:-1] + line
        else:
            stem, rest = _LETTERS.findall(parted["word"].casefold()), first[0] if first else ""
            keeps = not rest[:1].islower() or _is_compound(stem[-1] if stem else "", rest.casefold(), whole, known)
            keeps |= "-" in parted["word"] or not parted["word"][-1].isalpha()
            mended = mended + line if keeps else mended[:-1] + line
    return mended


def _is_compound(first: str, second: str, whole: str, known: set[str]) -> bool:
    """Whether two halves are joined by a hyphen elsewhere, or stand alone as words."""
    if f"{first}-{second}" in whole:
        return True
    if first + second in known:
        return False
    return min(len(first), len(second)) >= _MIN_LETTERS and {first, second} <= known
