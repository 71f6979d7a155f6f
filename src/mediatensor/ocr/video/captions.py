"""`Captions`, which writes text tracks as subtitles in the formats SubRip, WebVTT or ASS.

SubRip and WebVTT store times in milliseconds, ASS in centiseconds. Times are rounded down, because players show a
subtitle from its start until just before its end. The subtitle therefore appears in exactly the frames of its track::

    frames      |  first   |   ...    |   last   | first without it
                ^ 1.03333                        ^ 2.96667 seconds
    subtitle   | 1.033                          | 2.966
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, SupportsIndex, get_args, overload

from ..._engine.common.checks import MAX_INT, path_text, shown, whole_number
from ..._engine.common.messages import WORD_JOINER, subrip, text_lines, timestamp
from ..._engine.sources.output_files import write_file
from ...errors import InvalidArgumentError
from .tracks import Box, TextKind, TextTrack, check_seconds, check_tracks

__all__ = ["Captions", "SubtitleFormat"]

SubtitleFormat = Literal["srt", "vtt", "ass"]

# A time less than this below a whole unit is rounded up: 2.9999999 seconds become 3 seconds.
_ROUNDING_ERROR = 1e-6

# Where captions usually are: centred, and in the lowest third of the frame.
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
# Ratio of the font size to the height of a line box. Line boxes have a margin.
_SIZE_OF_LINE = 0.82
# A font size within this factor of the usual size for the kind of text is written as the usual size.
_SAME_SIZE = 1.35


class Captions(Sequence[TextTrack]):
    """A sequence of `TextTrack`, ordered by start, that can be written as a subtitle file.

    Times in files are rounded down, to milliseconds in SubRip and WebVTT, and to centiseconds in ASS. If one track
    starts when another ends, the two times in the file are equal too. No subtitle has a duration of 0.

    Args:
        tracks: Tracks in any order.
        height: Height of the upright video in pixels. Only the ASS format uses ``height`` and ``width``, for the
            positions and sizes of texts.
        width: Width of the upright video in pixels.

    Raises:
        InvalidArgumentError: An item of ``tracks`` is not a `TextTrack`, or ``height`` or ``width`` is not positive.

    Example:
        >>> from mediatensor.ocr.video import Captions, TextTrack
        >>> track = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.3, 0.88), (0.7, 0.94)), 0.97)
        >>> captions = Captions([track], height=720, width=1280)
        >>> captions.save("talk.srt")
        >>> print(captions.render("srt").strip())
        1
        00:00:01,000 --> 00:00:02,500
        Good evening
    """

    def __init__(self, tracks: Iterable[TextTrack], *, height: int = 1080, width: int = 1920) -> None:
        self._tracks = check_tracks(tracks)
        self._height = whole_number("height", height, at_least=1, at_most=MAX_INT)
        self._width = whole_number("width", width, at_least=1, at_most=MAX_INT)

    def __len__(self) -> int:
        return len(self._tracks)

    @overload
    def __getitem__(self, key: SupportsIndex) -> TextTrack: ...
    @overload
    def __getitem__(self, key: slice) -> Captions: ...
    def __getitem__(self, key: Any) -> TextTrack | Captions:
        """Return the track at an index or, for a slice, new `Captions` with the tracks in the slice."""
        if isinstance(key, slice):
            return Captions(self._tracks[key], height=self._height, width=self._width)
        return self._tracks[key]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Captions):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Captions({len(self)} tracks, height={self._height}, width={self._width})"

    def render(self, format: SubtitleFormat = "srt", *, offset_seconds: float = 0.0) -> str:
        """Return the captions as a subtitle file, a string.

        Text that players would interpret as markup, such as ``<i>``, is changed so that it is displayed as it is.
        WebVTT and ASS have escapes for this; in addition, an invisible word joiner (U+2060) is added after each
        backslash in ASS. SubRip has no escapes, so a word joiner is inserted into the text. ASS files include the
        position and size of each text. WebVTT files include the position, unless it is the bottom centre.

        Args:
            format: ``"srt"``, ``"vtt"`` or ``"ass"``.
            offset_seconds: Seconds to add to all times. The times of some videos, such as MPEG-TS files, do not start
                at zero, but some players count from zero. For such a player, pass the start time of the video with a
                minus sign. Times that become negative are set to zero.

        Returns:
            The contents of the file.

        Raises:
            InvalidArgumentError: The format is unknown, or the offset is not a finite number.

        Example:
            >>> from mediatensor.ocr.video import Captions, TextTrack
            >>> track = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.1, 0.05), (0.5, 0.11)), 0.97)
            >>> Captions([track]).render("vtt").splitlines()[2:]
            ['00:00:01.000 --> 00:00:02.500 line:5% position:10% align:left', 'Good evening']
        """
        offset = check_seconds("offset_seconds", offset_seconds)
        if format == "srt":
            timed = _timed_lines([_split_roll_up(track)[0] for track in self._tracks], 1000, offset)
            return subrip((start, end, lines) for lines, start, end, _ in timed)
        if format == "vtt":
            return _render_vtt(self._tracks, offset)
        if format == "ass":
            return _render_ass(self._tracks, self._height, self._width, offset)
        raise InvalidArgumentError(f"format must be one of {get_args(SubtitleFormat)} (got {shown(format)}).")

    def save(
        self, path: str | os.PathLike[str], format: SubtitleFormat | None = None, *, offset_seconds: float = 0.0
    ) -> None:
        """Write a subtitle file in UTF-8.

        An existing file is replaced only when the new one is complete.

        Args:
            path: Path of the file.
            format: ``"srt"``, ``"vtt"`` or ``"ass"``; by default, the suffix of ``path``.
            offset_seconds: Seconds to add to all times, as for `render`.

        Raises:
            InvalidArgumentError: The format is unknown.
            WriteError: The file cannot be written.
            SourceTypeError: ``path`` is not a path.
        """
        chosen: Any = format_of(path, get_args(SubtitleFormat), format)
        write_file(path, self.render(chosen, offset_seconds=offset_seconds).encode())

    def _key(self) -> tuple[Any, ...]:
        return self._tracks, self._height, self._width


def format_of(path: str | os.PathLike[str], formats: Sequence[str], format: str | None) -> str:
    """Return ``format`` or, if it is None, the format that the suffix of ``path`` names.

    Raises:
        InvalidArgumentError: The result is not in ``formats``.
    """
    suffix = os.path.splitext(path_text("path", path))[1][1:].lower()
    if format is None and suffix not in formats:
        raise InvalidArgumentError(
            f"The suffix of path must be one of {', '.join(formats)}, or format must be given (got {shown(path)})."
        )
    chosen = suffix if format is None else format
    if chosen not in formats:
        raise InvalidArgumentError(f"format must be one of {', '.join(formats)} (got {shown(format)}).")
    return chosen


def _round_times(tracks: Sequence[TextTrack], units_per_second: int, offset_seconds: float) -> list[tuple[int, int]]:
    """Return the start and end of each track in units of ``1 / units_per_second`` s. Negative times become 0.

    Times that are equal remain equal, the order of times is preserved, and every start is before its end.
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
        # A track of duration 0 gets its end in the last loop.
        latest = max([latest, *(starts[number] + 1 for number in ending if tracks[number].start_seconds < seconds)])
        for number in starting_at.get(seconds, []):
            starts[number] = latest
        for number in ending:
            ends[number] = max(latest, starts[number] + 1)
    return list(zip(starts, ends, strict=True))


def _render_vtt(tracks: Sequence[TextTrack], offset_seconds: float) -> str:
    parts = ["WEBVTT\n"]
    for lines, start, end, track in _timed_lines([_split_roll_up(track)[0] for track in tracks], 1000, offset_seconds):
        text = "\n".join(line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in lines)
        parts.append(f"{timestamp(start, '.')} --> {timestamp(end, '.')}{_vtt_place(track)}\n{text}\n")
    return "\n".join(parts)


def _render_ass(tracks: Sequence[TextTrack], height: int, width: int, offset_seconds: float) -> str:
    tracks = sorted(
        (stage for track in tracks for stage in _split_roll_up(track)), key=lambda stage: stage.start_seconds
    )
    sizes: dict[TextKind, list[int]] = {}
    for track in tracks:
        sizes.setdefault(track.kind, []).append(_font_size(track, height))
    usual = {kind: statistics.median_low(of_kind) for kind, of_kind in sizes.items()}
    styles = [_ASS_STYLE.format(name=kind, size=size, outline=max(1, round(size / 16))) for kind, size in usual.items()]
    events = []
    for lines, start, end, track in _timed_lines(tracks, 100, offset_seconds):
        codes = _ass_place(track, height, width)
        size = _font_size(track, height)
        if not 1 / _SAME_SIZE <= size / usual[track.kind] <= _SAME_SIZE:
            codes += f"\\fs{size}"
        text = "\\N".join(line.replace("\\", "\\" + WORD_JOINER).replace("{", "\\{") for line in lines)
        times = f"{_ass_clock(start)},{_ass_clock(end)}"
        events.append(f"Dialogue: 0,{times},{track.kind},,0,0,0,,{{{codes}}}{text}\n")
    return _ASS_HEADER.format(height=height, width=width, styles="\n".join(styles)) + "".join(events)


def _split_roll_up(track: TextTrack) -> list[TextTrack]:
    """Split a roll-up caption, whose text moves up, into one track for each position. Return other tracks unchanged.

    Only ASS uses all of these tracks. SubRip and WebVTT use only the first one, so that the text is not repeated.
    """
    times = [track.start_seconds, *(place.seconds for place in track.places[1:]), track.end_seconds]
    is_in_order = all(start < end for start, end in pairwise(times))
    if track.kind != "caption" or len(track.places) < 2 or not is_in_order:
        return [track]
    return [
        replace(track, start_seconds=start, end_seconds=end, geometry=place.geometry, places=())
        for place, start, end in zip(track.places, times[:-1], times[1:], strict=True)
    ]


def _timed_lines(
    tracks: Sequence[TextTrack], units_per_second: int, offset_seconds: float
) -> list[tuple[list[str], int, int, TextTrack]]:
    """Return (lines of text, start, end, track) for each track that has text. Times are whole units."""
    times = _round_times(tracks, units_per_second, offset_seconds)
    timed = [(text_lines(track.text), *time, track) for track, time in zip(tracks, times, strict=True)]
    return [entry for entry in timed if entry[0]]


def _ass_clock(centiseconds: int) -> str:
    seconds, centiseconds = divmod(centiseconds, 100)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{centiseconds:02d}"


def _vtt_place(track: TextTrack) -> str:
    """Return the WebVTT settings for the place of a track; "" at the bottom centre, the default of players."""
    (left, top), (right, _) = track.geometry
    middle = (left + right) / 2
    is_central = _USUAL_MIDDLE[0] <= middle <= _USUAL_MIDDLE[1]
    if is_central and top >= _USUAL_TOP:
        return ""
    if is_central:
        return f" line:{_percent(top)}"
    # A cue that is aligned to a side may be twice as wide as a centred cue.
    edge, side = (left, "left") if middle < _USUAL_MIDDLE[0] else (right, "right")
    return f" line:{_percent(top)} position:{_percent(edge)} align:{side}"


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.4g}%"


def _ass_place(track: TextTrack, height: int, width: int) -> str:
    """Return ASS codes for the position of a track, and for its movement if it moves.

    The position refers to the bottom of the text if the text is in the lower half of the frame, otherwise to its top.
    """
    column = _alignment(track)
    (_, top), (_, bottom) = track.geometry
    is_low = top + bottom > 1

    def point(box: Box) -> str:
        (left, top), (right, bottom) = box
        x = (left, (left + right) / 2, right)[column - 1]
        return f"{x * width:.0f},{(bottom if is_low else top) * height:.0f}"

    codes = f"\\an{column if is_low else column + 6}"
    if track.places and point(track.places[0].geometry) != point(track.places[-1].geometry):
        return f"{codes}\\move({point(track.places[0].geometry)},{point(track.places[-1].geometry)})"
    return f"{codes}\\pos({point(track.geometry)})"


def _alignment(track: TextTrack) -> int:
    """Return the alignment of the lines as a number of the ASS format: 1 for left, 2 for centre, 3 for right.

    The result depends on which x positions of the lines differ least: left edges, centres or right edges. It is 2 for
    fewer than two lines.
    """
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
    if track.lines:
        line_height = statistics.median(line.geometry[1][1] - line.geometry[0][1] for line in track.lines)
    else:
        line_height = (track.geometry[1][1] - track.geometry[0][1]) / max(len(text_lines(track.text)), 1)
    return max(1, round(line_height * height * _SIZE_OF_LINE))
