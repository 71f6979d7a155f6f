"""Subtitles to SubRip files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .._atomic_files import write_file
from ..decoders import Subtitle, SubtitleDecoder
from . import _text
from ._extract_files import Job, TimeRange

__all__ = ["SubtitlesJob", "subrip"]


class SubtitlesJob(Job):
    """The subtitles of a file, to be written as SubRip beside ``target``, under its name.

    Raises:
        MediaTensorError: if there are no subtitles that can be read.
    """

    def __init__(
        self, file: str, target: Path, stream_index: int | None, encoding: str | None, span: TimeRange
    ) -> None:
        self._path = target.with_name(f"{target.name}.srt")
        self._decoder = SubtitleDecoder(file, stream_index=stream_index, encoding=encoding)
        self._span = span

    def outputs(self) -> Sequence[Path]:
        return [self._path]

    def write(self) -> str:
        start = 0.0 if self._span.start is None else self._span.start
        subtitles = (
            self._decoder.get_all_subtitles()
            if self._span == TimeRange(None, None)
            else self._decoder.get_subtitles_played_in_range(start, self._span.stop)
        )
        write_file(self._path, subrip(subtitles).encode())
        return f"wrote {self._path}: {_text.count(len(subtitles), 'subtitle')}"

    def close(self) -> None:
        self._decoder.close()


def subrip(subtitles: Iterable[Subtitle]) -> str:
    """Subtitles as the text of a SubRip file.

    >>> print(subrip([Subtitle("Hello", 1.0, 2.5)]), end="")
    1
    00:00:01,000 --> 00:00:02,500
    Hello
    """
    return "\n".join(
        f"{number}\n{_time(subtitle.start_seconds)} --> {_time(subtitle.end_seconds)}\n{_lines(subtitle.text)}\n"
        for number, subtitle in enumerate(subtitles, 1)
    )


def _time(seconds: float) -> str:
    """SubRip knows no time before 0."""
    minutes, milliseconds = divmod(max(round(seconds * 1000), 0), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{milliseconds // 1000:02d},{milliseconds % 1000:03d}"


def _lines(text: str) -> str:
    """The text without blank lines, for one ends a subtitle."""
    return "\n".join(line for line in text.split("\n") if line.strip())
