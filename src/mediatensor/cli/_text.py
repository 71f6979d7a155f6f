"""Format values as text, for all commands. Times are precise to a millisecond, which is enough to identify a frame."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


def decimal(value: float, digits: int = 3) -> str:
    """Format a number with at most ``digits`` decimals, without trailing zeros.

    >>> decimal(30.0), decimal(29.97003), decimal(-0.0001)
    ('30', '29.97', '0')
    """
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def seconds(value: float | None) -> str:
    """Format a time in seconds, rounded to a millisecond. A time below a millisecond keeps three significant digits.

    >>> seconds(9.5), seconds(0.00025), seconds(None)
    ('9.5 s', '0.00025 s', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{decimal(value)} s" if value == 0 or abs(value) >= 0.001 else f"{value:.3g} s"


def _with_prefix(value: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:.3g} T{unit}"


def byte_size(value: float | None) -> str:
    """Format a number of bytes in decimal units, such as kB for 1000 bytes."""
    return "unknown" if value is None else _with_prefix(value, "B")


def bit_rate(value: float | None) -> str:
    """Format a number of bits per second in decimal units."""
    return "unknown" if value is None else _with_prefix(value, "b/s")


def ratio(value: Fraction) -> str:
    return f"{value.numerator}:{value.denominator}"


def columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Format rows of cells as lines of text in which columns are aligned at the left. The last column is not padded."""
    table = list(rows)
    widths: dict[int, int] = {}
    for row in table:
        for position, cell in enumerate(row[:-1]):
            widths[position] = max(widths.get(position, 0), len(cell))
    return [
        ("  " + "  ".join([*(cell.ljust(widths[i]) for i, cell in enumerate(row[:-1])), row[-1]])).rstrip()
        for row in table
    ]


def shorten(text: str, length: int) -> str:
    """Shorten ``text`` to ``length`` characters in its middle, because file names often differ at the end."""
    if len(text) <= length:
        return text
    kept = max(length - 3, 2)
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"


def one_line(text: str) -> str:
    """Make a text fit on one line: replace line breaks by spaces, and remove control characters."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
