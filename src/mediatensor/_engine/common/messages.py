"""Make texts for users: warnings, progress bars, counts, times, SubRip subtitles and JSON."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, TypeVar

from .locks import ForkSafeLock

# Messages contain file names and numbers, so few are equal and their number must be limited.
_MAX_NUM_WARNED = 1024

_warned: dict[str, None] = {}
_lock = ForkSafeLock()


def warn_user(message: str) -> None:
    """Show a warning that points to the line of the user's program that called the library."""
    warnings.warn(message, stacklevel=_levels_to_the_user())


def warn_once(message: str, category: type[Warning] = UserWarning, *, subject: str | None = None) -> None:
    """Show a warning like `warn_user`, but only the first time that this process warns about ``subject``.

    By default, the subject is the message. Only the last 1024 subjects are remembered.
    """
    subject = message if subject is None else subject
    with _lock:
        if subject in _warned:
            return
        if len(_warned) >= _MAX_NUM_WARNED:
            del _warned[next(iter(_warned))]
        _warned[subject] = None
    warnings.warn(message, category, stacklevel=_levels_to_the_user())


def forget_warnings() -> None:
    """Let `warn_once` show all messages again."""
    with _lock:
        _warned.clear()


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests a similar name; empty if no known name is similar."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _levels_to_the_user() -> int:
    """Return the ``stacklevel`` with which a warning of the caller points to the innermost line of another program.

    torch's lines do not count, because its modules and decorators call the library.
    """
    packages = (__name__.partition(".")[0], "torch")
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame, levels = frame.f_back, levels + 1
    return levels


T = TypeVar("T")


def progress(items: Iterable[T], description: str, total: int | None = None, unit: str = "frame") -> Iterable[T]:
    """Return an iterable over ``items``, with a progress bar if tqdm is installed and stderr is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[T] = tqdm(items, desc=description, total=total, leave=False, unit=unit, file=sys.stderr)
    return bar


def without_bars() -> AbstractContextManager[Any]:
    """Return a context manager that hides progress bars, so that its block can print lines to the terminal."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    blank: AbstractContextManager[Any] = tqdm.tqdm.external_write_mode(file=sys.stderr)
    return blank


def counted(number: int, noun: str) -> str:
    """Return a number followed by ``noun``, which is put in the plural unless the number is 1.

    >>> counted(1, "frame"), counted(300, "frame"), counted(0, "batch")
    ('1 frame', '300 frames', '0 batches')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def seconds_from_text(text: str) -> float:
    """Parse a time given as seconds, ``m:ss`` or ``h:mm:ss``, with or without decimals. Return it in seconds.

    Raises ValueError for any other text.

    >>> seconds_from_text("83.5") == seconds_from_text("1:23.5") == seconds_from_text("0:01:23.5") == 83.5
    True
    """
    text = text.strip()
    sign = -1.0 if text.startswith("-") else 1.0
    parts = [float(part) for part in text.removeprefix("-").split(":")]
    if len(parts) > 3 or not all(part >= 0 and math.isfinite(part) for part in parts):
        raise ValueError(f"{text!r} is not a time: write seconds, m:ss or h:mm:ss")
    value = 0.0
    for part in parts:
        value = value * 60 + part
    return sign * value


def clock(seconds: float, digits: int = 3) -> str:
    """Format a time in seconds as ``m:ss`` or, if it is an hour or more, as ``h:mm:ss``, with ``digits`` decimals.

    >>> clock(9.8675), clock(3723.5), clock(-0.04), clock(59.9996), clock(75, 0)
    ('0:09.868', '1:02:03.500', '-0:00.040', '1:00.000', '1:15')
    """
    # Round before splitting. Rounding the seconds afterwards could print 0:60.000.
    units = round(abs(seconds) * 10**digits)
    whole, part = divmod(units, 10**digits)
    minutes, hours = whole // 60 % 60, whole // 3600
    text = f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
    return ("-" if seconds < 0 and units else "") + text + (f".{part:0{digits}d}" if digits else "")


def duration(seconds: float) -> str:
    """Format a duration with about three digits, in milliseconds or seconds.

    >>> duration(0.00042), duration(0.0123), duration(3.14159)
    ('0.42 ms', '12.3 ms', '3.14 s')
    """
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{seconds * 1000:.3g} ms"


# A zero-width character that forbids a line break. In text that looks like markup, it stops players from reading it as
# markup. FFmpeg writes it into ASS for this purpose.
WORD_JOINER = "\u2060"

# Players read these as markup: tags, override codes of ASS and MicroDVD, and the arrow between two times.
_MARKUP = re.compile(r"<(?=[^<]*>)|\{(?=\\|[A-Za-z]:)|--(?=>)")
_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Characters without a glyph that make files invalid: control characters, halves of surrogate pairs, the byte order
# mark.
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")


def subrip(cues: Iterable[tuple[int, int, Sequence[str]]]) -> str:
    """Return subtitles in SubRip format. Each cue is (start in milliseconds, end in milliseconds, lines of text).

    Cues without lines are left out. SubRip has no way to escape markup. So a zero-width character is inserted wherever
    players would interpret the text as markup.

    >>> print(subrip([(1000, 2500, ["Hello"])]), end="")
    1
    00:00:01,000 --> 00:00:02,500
    Hello
    """
    parts: list[str] = []
    for start, end, lines in cues:
        if lines:
            text = _MARKUP.sub(lambda match: match[0] + WORD_JOINER, "\n".join(lines))
            parts.append(f"{len(parts) + 1}\n{timestamp(start, ',')} --> {timestamp(end, ',')}\n{text}\n")
    return "\n".join(parts)


def text_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank. Remove characters that subtitle files cannot contain."""
    lines = (_NOT_TEXT.sub("", line).replace("\t", " ").strip() for line in _LINE_BREAKS.split(text))
    return [line for line in lines if line]


def timestamp(milliseconds: int, point: str) -> str:
    """Format a time as ``hh:mm:ss`` and milliseconds. ``point`` is the separator between seconds and milliseconds."""
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{milliseconds:03d}"


def to_json(value: Any, *, has_nan: bool = False) -> Any:
    """Convert a value to types that JSON can store. Fractions become ``"a/b"``; infinity and NaN become ``None``.

    Dataclasses become dictionaries of their fields. With ``has_nan``, infinity and NaN stay.

    >>> to_json({"rate": Fraction(30000, 1001), "gain": math.nan, "sizes": (1, 2)})
    {'rate': '30000/1001', 'gain': None, 'sizes': [1, 2]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {spec.name: to_json(getattr(value, spec.name), has_nan=has_nan) for spec in fields(value)}
    if isinstance(value, dict):
        return {key: to_json(item, has_nan=has_nan) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, has_nan=has_nan) for item in value]
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, float) and not math.isfinite(value) and not has_nan:
        return None
    return value


def json_bytes(value: Any, indent: int | None = None, *, has_nan: bool = False) -> bytes:
    """Return a value as standard JSON in UTF-8. Infinity and NaN become null.

    With ``has_nan``, they become ``NaN``, ``Infinity`` and ``-Infinity``. Python reads these words, but they are not
    standard JSON.

    Some file names contain characters that UTF-8 cannot encode. They are written as escape sequences, which JSON
    parsers convert back.

    >>> json_bytes({"gain": math.nan, "name": "caf\\udce9"}), json_bytes("café").decode()
    (b'{"gain": null, "name": "caf\\\\udce9"}', '"café"')
    """
    plain = to_json(value, has_nan=has_nan)
    try:
        return json.dumps(plain, ensure_ascii=False, indent=indent, allow_nan=has_nan).encode()
    except UnicodeEncodeError:
        return json.dumps(plain, indent=indent, allow_nan=has_nan).encode()
