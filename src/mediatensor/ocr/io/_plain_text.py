"""Text as it may stand in a file of one format or another."""

from __future__ import annotations

import re

__all__ = ["one_line", "percent", "xml_name"]

# Controls, surrogates and non-characters: XML 1.0 forbids most of them even as references, HTML the rest.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SPACES = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")


def one_line(text: str) -> str:
    """The text without what would break a line or a file: breaks and tabs become a space, controls go.

    Example:
        >>> one_line("a\\tb\\x00c")
        'a bc'
    """
    return _UNPRINTABLE.sub("", _SPACES.sub(" ", text))


def xml_name(text: str) -> str:
    """The text as it may stand in an identifier: all but letters, digits, ``.``, ``-`` and ``_`` become ``_``."""
    return re.sub(r"[^\w.-]", "_", text)


def percent(confidence: float) -> float:
    """A confidence in [0, 1] as a percentage in [0, 100]; 0.0 for one that is not a number."""
    return min(max(100.0 * float(confidence), 0.0), 100.0) if confidence == confidence else 0.0
