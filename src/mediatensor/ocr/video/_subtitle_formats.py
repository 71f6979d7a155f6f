"""Tracks as the text of subtitle files: SubRip, WebVTT and ASS.

SubRip and WebVTT count milliseconds, ASS counts centiseconds. A time is rounded down, so that a player that shows a
subtitle from its start up to its end shows it in just the frames of its track::

    frames      |  first   |   ...    |   last   | first without it
                ^ 1.03333                        ^ 2.96667 seconds
    subtitle   | 1.033                          | 2.966
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ..._engine.common.messages import WORD_JOINER, clock, subrip, text_lines
from .tracks import TextKind, TextTrack

__all__ = ["render_ass", "render_srt", "render_vtt", "rounded_times"]

# Times this little below a whole unit count as that unit: 2.9999999 seconds is 3 seconds.
_ROUNDING_ERROR = 1e-6

# The usual place of a caption: its middle is near the middle of the picture, and it stands in the lowest third.
_USUAL_MIDDLE = (0.42, 0.58)
_USUAL_TOP = 0.66

_ASS_HEADER = """\
[Script Info]
ScriptType: v4.00+
PlayResX: {width}
PlayResY: {height}
WrapStyle: 2
ScaledBorderAndShadow: yes

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
{styles}

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
_ASS_STYLE = (
    "Style: {name},Arial,{size},&H00FFFFFF,&H000000FF,&H00000000,&H80000000,0,0,0,0,100,100,0,0,1,{outline},0,2,"
    "10,10,10,1"
)
# The size of a font counts from the highest accent to the lowest tail; the boxes of lines have a margin around that.
_SIZE_OF_LINE = 0.82
# A line whose height differs by more than this from the usual one of its kind has a size of its own: boxes vary.
_SAME_SIZE = 1.35


def rounded_times(
    tracks: Sequence[TextTrack], units_per_second: int, offset_seconds: float = 0.0
) -> list[tuple[int, int]]:
    """Start and end of each track in whole units, from 0 on.

    Equal times stay equal, the order of times stays, and every start is before its end.

    >>> from mediatensor.ocr.video import TextTrack
    >>> box = ((0.3, 0.88), (0.7, 0.94))
    >>> short = TextTrack("a", "caption", 0, 1 / 240, 0, 0, box, 1)
    >>> next_one = TextTrack("b", "caption", 1 / 240, 2, 1, 479, box, 1)
    >>> rounded_times([short, next_one], 100)
    [(0, 1), (1, 200)]
    """
    starting_at: dict[float, list[int]] = {}
    ending_at: dict[float, list[int]] = {}
    for number, track in enumerate(tracks):
        starting_at.setdefault(track.start_seconds, []).append(number)
        ending_at.setdefault(track.end_seconds, []).append(number)
    starts, ends = [0] * len(tracks), [0] * len(tracks)
    latest = 0
    for seconds in sorted({*starting_at, *ending_at}):
        latest = max(latest, math.floor((seconds + offset_seconds + _ROUNDING_ERROR) * units_per_second))
        ending = ending_at.get(seconds, [])
        # Tracks of no duration at all start and end at one time; their end is set behind it, below.
        latest = max([latest, *(starts[number] + 1 for number in ending if tracks[number].start_seconds < seconds)])
        for number in starting_at.get(seconds, []):
            starts[number] = latest
        for number in ending:
            ends[number] = max(latest, starts[number] + 1)
    return list(zip(starts, ends, strict=True))


def render_srt(tracks: Sequence[TextTrack], offset_seconds: float = 0.0) -> str:
    """Return the text of a SubRip file."""
    shown = _shown([_stages(track)[0] for track in tracks], 1000, offset_seconds)
    return subrip((start, end, lines) for lines, start, end, _ in shown)


def render_vtt(tracks: Sequence[TextTrack], offset_seconds: float = 0.0) -> str:
    """A file in WebVTT; subtitles that are not at the usual place say where they are."""
    parts = ["WEBVTT\n"]
    for lines, start, end, track in _shown([_stages(track)[0] for track in tracks], 1000, offset_seconds):
        text = "\n".join(line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in lines)
        parts.append(f"{clock(start, '.')} --> {clock(end, '.')}{_vtt_place(track)}\n{text}\n")
    return "\n".join(parts)


def render_ass(tracks: Sequence[TextTrack], height: int, width: int, offset_seconds: float = 0.0) -> str:
    """A file in ASS: every subtitle at its place, in the size that it had, in a style for its kind."""
    tracks = sorted((stage for track in tracks for stage in _stages(track)), key=lambda stage: stage.start_seconds)
    sizes: dict[TextKind, list[int]] = {}
    for track in tracks:
        sizes.setdefault(track.kind, []).append(_font_size(track, height))
    usual = {kind: statistics.median_low(of_kind) for kind, of_kind in sizes.items()}
    styles = [_ASS_STYLE.format(name=kind, size=size, outline=max(1, round(size / 16))) for kind, size in usual.items()]
    events = []
    for lines, start, end, track in _shown(tracks, 100, offset_seconds):
        codes = _ass_place(track, height, width)
        size = _font_size(track, height)
        if not 1 / _SAME_SIZE <= size / usual[track.kind] <= _SAME_SIZE:
            codes += f"\\fs{size}"
        text = "\\N".join(line.replace("\\", "\\" + WORD_JOINER).replace("{", "\\{") for line in lines)
        times = f"{_ass_clock(start)},{_ass_clock(end)}"
        events.append(f"Dialogue: 0,{times},{track.kind},,0,0,0,,{{{codes}}}{text}\n")
    return _ASS_HEADER.format(height=height, width=width, styles="\n".join(styles)) + "".join(events)


def _stages(track: TextTrack) -> list[TextTrack]:
    """What a track is at each of its places, if it is a caption that rolls up; itself otherwise.

    Where there are no places, subtitles have the first stage alone: what rolled up would be said twice.
    """
    times = [track.start_seconds, *(place.seconds for place in track.places[1:]), track.end_seconds]
    is_in_order = all(start < end for start, end in pairwise(times))
    if track.kind != "caption" or len(track.places) < 2 or not is_in_order:
        return [track]
    return [
        replace(track, start_seconds=start, end_seconds=end, geometry=place.geometry, places=())
        for place, start, end in zip(track.places, times[:-1], times[1:], strict=True)
    ]


def _shown(
    tracks: Sequence[TextTrack], units_per_second: int, offset_seconds: float
) -> list[tuple[list[str], int, int, TextTrack]]:
    """Lines, start and end in units, and track, of the tracks that have text; by start."""
    times = rounded_times(tracks, units_per_second, offset_seconds)
    shown = [(text_lines(track.text), *time, track) for track, time in zip(tracks, times, strict=True)]
    return [one for one in shown if one[0]]


def _ass_clock(centiseconds: int) -> str:
    seconds, centiseconds = divmod(centiseconds, 100)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{centiseconds:02d}"


def _vtt_place(track: TextTrack) -> str:
    """The settings of a cue: the height of its upper edge, and the edge or the middle that it is aligned by."""
    (left, top), (right, _) = track.geometry
    middle = (left + right) / 2
    is_central = _USUAL_MIDDLE[0] <= middle <= _USUAL_MIDDLE[1]
    if is_central and top >= _USUAL_TOP:
        return ""
    if is_central:
        return f" line:{_percent(top)}"
    # From an edge, a cue may be as wide as there is room; around a middle, it could be half as wide.
    edge, side = (left, "left") if middle < _USUAL_MIDDLE[0] else (right, "right")
    return f" line:{_percent(top)} position:{_percent(edge)} align:{side}"


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.4g}%"


def _ass_place(track: TextTrack, height: int, width: int) -> str:
    """The codes for the place: text in the lower half hangs on its lower edge, and else on its upper one."""
    column = _alignment(track)
    (_, top), (_, bottom) = track.geometry
    is_low = top + bottom > 1

    def point(box: tuple[tuple[float, float], tuple[float, float]]) -> str:
        (left, top), (right, bottom) = box
        x = (left, (left + right) / 2, right)[column - 1]
        return f"{x * width:.0f},{(bottom if is_low else top) * height:.0f}"

    codes = f"\\an{column if is_low else column + 6}"
    if track.places and point(track.places[0].geometry) != point(track.places[-1].geometry):
        return f"{codes}\\move({point(track.places[0].geometry)},{point(track.places[-1].geometry)})"
    return f"{codes}\\pos({point(track.geometry)})"


def _alignment(track: TextTrack) -> int:
    """1 for lines that begin below each other, 3 for lines that end so, and 2 for centred ones and single ones."""
    if len(track.lines) < 2:
        return 2
    boxes = [line.geometry for line in track.lines]
    edges = {
        2: [(left + right) / 2 for (left, _), (right, _) in boxes],
        1: [left for (left, _), _ in boxes],
        3: [right for _, (right, _) in boxes],
    }
    return min(edges, key=lambda column: max(edges[column]) - min(edges[column]))


def _font_size(track: TextTrack, height: int) -> int:
    """The size of the font in pixels, from the usual height of a line."""
    if track.lines:
        line_height = statistics.median(line.geometry[1][1] - line.geometry[0][1] for line in track.lines)
    else:
        line_height = (track.geometry[1][1] - track.geometry[0][1]) / max(len(text_lines(track.text)), 1)
    return max(1, round(line_height * height * _SIZE_OF_LINE))
