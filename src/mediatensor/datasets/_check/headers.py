"""Lengths that the header of a Matroska file states, compared with the streams themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .findings import Finding

__all__ = ["Stated", "missing_end", "missing_frames", "stated_lengths"]


# Headers of AVI count empty chunks.
_FRAMES_APART, _SHARE_APART = 2, 0.01
# A last frame whose duration no block states seems shorter than it is. Over the Matroska and WebM files of our corpora
# the largest difference of an intact stream is 0.1 s.
_SECONDS_APART, _SHARE_OF_SECONDS_APART = 0.5, 0.02
_CLOCK = re.compile(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,9})?)")


class Stated(NamedTuple):
    """The length of a stream by its header; ``None`` where the header lacks it.

    Attributes:
        num_frames: How many packets it has.
        end_seconds: When the last one ends.
    """

    num_frames: int | None = None
    end_seconds: float | None = None


def stated_lengths(tags: Mapping[str, str], container_tags: Mapping[str, str]) -> Stated:
    """Return the length of a Matroska stream that its tags state.

    Tags of mkvmerge have names such as ``NUMBER_OF_FRAMES-eng``. FFmpeg copies them into what it cuts, so they are
    ignored in the files that it wrote; its own tag is ``DURATION``.

    >>> stated_lengths({"NUMBER_OF_FRAMES-eng": "141", "DURATION-eng": "00:00:05.64"}, {"encoder": "libebml v1.4.2"})
    Stated(num_frames=141, end_seconds=5.64)
    >>> stated_lengths({"NUMBER_OF_FRAMES-eng": "141", "DURATION": "00:00:05.64"}, {"ENCODER": "Lavf61.1.100"})
    Stated(num_frames=None, end_seconds=5.64)
    """
    encoder = next((value for name, value in container_tags.items() if name.lower() == "encoder"), "")
    is_copied = encoder.startswith("Lavf")
    named: dict[str, str] = {}
    for name, value in tags.items():
        if not is_copied or name == "DURATION":
            named.setdefault(name.partition("-")[0].upper(), value)
    clock = _CLOCK.match(named.get("DURATION", ""))
    seconds = None if clock is None else int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    count = named.get("NUMBER_OF_FRAMES", "")
    return Stated(int(count) if re.fullmatch(r"[1-9]\d{0,17}", count) else None, seconds)


def missing_frames(stated: int | None, count: int) -> list[Finding]:
    """Return a finding if a header states another number of frames than there are."""
    if stated is None or abs(stated - count) <= max(_FRAMES_APART, _SHARE_APART * stated):
        return []
    return [Finding("frame-count", f"the header promises {stated} frames, and there are {count}")]


def missing_end(kind: str, stated_seconds: float | None, end_seconds: float, longest_step: float) -> list[Finding]:
    """Return a finding if a stream ends earlier than its header states.

    Args:
        kind: ``"video"`` or ``"sound"``, for the message.
        stated_seconds: When it ends, as the header states.
        end_seconds: When its last frame or sample ends.
        longest_step: The most seconds from one frame to the next.
    """
    if stated_seconds is None:
        return []
    apart = stated_seconds - end_seconds
    if apart <= max(_SECONDS_APART, _SHARE_OF_SECONDS_APART * stated_seconds, longest_step):
        return []
    text = f"by its header, the {kind} ends at {stated_seconds:.2f} s, and it ends at {end_seconds:.2f} s"
    return [Finding("cut-off", text, end_seconds, stated_seconds)]
