"""From seconds to samples, as all decoders of sound count them, and the checks of ranges. Pure; no I/O.

Sample k of a stream that begins at ``begin`` seconds is played at ``begin + k / rate``. Both ends of a range
[start, stop) are rounded to the nearest sample, halves up, each by itself. Therefore ranges that meet share no sample
and miss none::

    samples   0     1     2     3     4     5
              |-----|-----|-----|-----|-----|
    time          ^ start        ^ stop
    range           [  1     2  )[  3  ...
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .._common.checks import finite_number, items_of, real_number, shown
from ..errors import InvalidArgumentError, OutOfRangeError

__all__ = ["check_range", "check_ranges", "no_samples_error", "sample_offset", "sample_range"]


def sample_offset(seconds: float, begin_seconds: float, sample_rate: int) -> int:
    """The number of the sample nearest to a time, halves rounded up.

    ``round`` would take halves to the even neighbour, so that two chunks that meet at half a sample would share one or
    miss one.

    >>> [sample_offset(k / 4, 0.0, 2) for k in range(5)]
    [0, 1, 1, 2, 2]
    """
    return math.floor((seconds - begin_seconds) * sample_rate + 0.5)


def sample_range(start: float, stop: float | None, begin_seconds: float, sample_rate: int) -> tuple[int, int | None]:
    """The samples [first, last) that are played in a range of seconds; ``None`` is the end of the stream.

    >>> sample_range(0.5, 1.0, 0.0, 8000), sample_range(-1.0, None, 0.0, 8000)
    ((4000, 8000), (0, None))
    """
    first = max(0, sample_offset(start, begin_seconds, sample_rate))
    return first, None if stop is None else max(first, sample_offset(stop, begin_seconds, sample_rate))


def check_range(start_seconds: float, stop_seconds: float | None) -> tuple[float, float | None]:
    """(start, stop) as floats; both must be finite, and start <= stop.

    >>> check_range(0, None)
    (0.0, None)
    """
    start = _finite("start", start_seconds)
    stop = None if stop_seconds is None else _finite("stop", stop_seconds)
    if stop is not None and start > stop:
        raise InvalidArgumentError(
            f"Invalid start seconds: {start}. It must be less than or equal to stop seconds ({stop})."
        )
    return start, stop


def _finite(name: str, seconds: float) -> float:
    try:
        return finite_number(name, seconds)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"Invalid {name} seconds: {shown(seconds)}. It must be a finite number.") from None


def check_ranges(ranges: Iterable[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Pairs of (start, stop) in seconds as a list of floats, each checked by `check_range`."""
    checked = []
    for pair in items_of("ranges", ranges, of="pairs of seconds, (start, stop)"):
        try:
            start, stop = pair
            start, stop = real_number("start", start), None if stop is None else real_number("stop", stop)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"ranges must be pairs of seconds, (start, stop), where stop may be None (got {shown(pair)})."
            ) from None
        checked.append(check_range(start, stop))
    return checked


def no_samples_error(start_seconds: float, stop_seconds: float | None, end_seconds: float | None) -> OutOfRangeError:
    """The error for a range that begins at or behind the end of the stream."""
    end = "" if end_seconds is None else f" The stream ends at {end_seconds} seconds."
    return OutOfRangeError(
        f"No audio frames were decoded: there are no samples to decode between {start_seconds} and "
        f"{'the end' if stop_seconds is None else stop_seconds}. This is probably because start_seconds is too high "
        f"({start_seconds}).{end}"
    )
