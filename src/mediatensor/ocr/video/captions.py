"""`Captions`: tracks that are written as subtitles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, SupportsIndex, get_args, overload

from ..._engine.common.checks import MAX_INT, path_text, shown, whole_number
from ..._engine.sources.atomic_files import write_file
from ...errors import InvalidArgumentError
from ._subtitle_formats import render_ass, render_srt, render_vtt
from .tracks import TextTrack, check_seconds, in_order

__all__ = ["Captions", "SubtitleFormat"]

SubtitleFormat = Literal["srt", "vtt", "ass"]


class Captions(Sequence[TextTrack]):
    """Pieces of text by their start, to be written as subtitles.

    Times in the files are rounded down: to milliseconds in SubRip and WebVTT, and to centiseconds in ASS. Pieces that
    follow each other frame by frame do so in the file, and none has no duration.

    Args:
        tracks: The pieces, in any order.
        height: The height of the upright video, which places in ASS refer to.
        width: Its width.

    Raises:
        InvalidArgumentError: if these are not tracks, or the size is not positive.

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
        self._tracks = checked_tracks(tracks)
        self._height = whole_number("height", height, at_least=1, at_most=MAX_INT)
        self._width = whole_number("width", width, at_least=1, at_most=MAX_INT)

    def __len__(self) -> int:
        return len(self._tracks)

    @overload
    def __getitem__(self, key: SupportsIndex) -> TextTrack: ...
    @overload
    def __getitem__(self, key: slice) -> Captions: ...
    def __getitem__(self, key: Any) -> TextTrack | Captions:
        """The piece of an index, or those of a slice."""
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
        """The text of a subtitle file.

        Characters that would be markup are escaped. SubRip has no escapes: a zero-width word joiner (U+2060) breaks up
        what players would take for markup, such as ``<i>``. In ASS, it follows backslashes. ASS has each text at its
        place, in the size that it had; WebVTT has the place of those that are not in the middle of the bottom.

        Args:
            format: ``"srt"``, ``"vtt"`` or ``"ass"``.
            offset_seconds: Added to all times. Players that count from zero where the clock of the file does not, as
                in MPEG-TS, need minus the start of the file. Times before zero become zero.

        Raises:
            InvalidArgumentError: if there is no such format, or the offset is not a finite number.

        Example:
            >>> from mediatensor.ocr.video import Captions, TextTrack
            >>> track = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.1, 0.05), (0.5, 0.11)), 0.97)
            >>> Captions([track]).render("vtt").splitlines()[2:]
            ['00:00:01.000 --> 00:00:02.500 line:5% position:10% align:left', 'Good evening']
        """
        offset = check_seconds("offset_seconds", offset_seconds)
        if format == "srt":
            return render_srt(self._tracks, offset)
        if format == "vtt":
            return render_vtt(self._tracks, offset)
        if format == "ass":
            return render_ass(self._tracks, self._height, self._width, offset)
        raise InvalidArgumentError(f"format must be one of {get_args(SubtitleFormat)} (got {shown(format)}).")

    def save(
        self, path: str | os.PathLike[str], format: SubtitleFormat | None = None, *, offset_seconds: float = 0.0
    ) -> None:
        """Write a subtitle file in UTF-8, whole or not at all.

        Args:
            path: The file.
            format: As for `render`; ``None`` takes the suffix of the path.
            offset_seconds: As for `render`.

        Raises:
            InvalidArgumentError: if there is no such format.
            WriteError: if the file cannot be written.
            SourceTypeError: if ``path`` is not a path.
        """
        chosen: Any = format_of(path, get_args(SubtitleFormat), format)
        write_file(path, self.render(chosen, offset_seconds=offset_seconds).encode())

    def _key(self) -> tuple[Any, ...]:
        return self._tracks, self._height, self._width


def checked_tracks(tracks: Iterable[TextTrack]) -> tuple[TextTrack, ...]:
    """Tracks in their order.

    Raises:
        InvalidArgumentError: if something else is among them.
    """
    if not isinstance(tracks, Iterable):
        raise InvalidArgumentError(f"tracks must be a series of TextTrack (got {shown(tracks)}).")
    found = tuple(tracks)
    for track in found:
        if not isinstance(track, TextTrack):
            raise InvalidArgumentError(f"tracks must be a series of TextTrack (got {shown(track)} among them).")
    return in_order(found)


def format_of(path: str | os.PathLike[str], formats: Sequence[str], format: str | None) -> str:
    """The format that is asked for, or that the suffix of a path names.

    >>> format_of("talk.SRT", ("srt", "vtt"), None)
    'srt'

    Raises:
        InvalidArgumentError: if it is none of the formats.
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
