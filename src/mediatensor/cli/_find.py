"""``mediatensor find``: where and when a text is to be seen in videos."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError
from ._console import text as _text
from ._console.arguments import Region
from ._console.output import STANDARD, emit, emit_json, for_each_file, shown_name
from ._ocr import VideoTextReader, place_of
from ._sheet import Mark, sheet_outputs, write_marked_sheet

if TYPE_CHECKING:
    from ..ocr.video import TextTrack

__all__ = ["run"]

_EXIT_NOT_FOUND = 1


@dataclass(frozen=True)
class _Hit:
    """A text with what was looked for; ``alternative`` is the other reading in which it was found, if it was."""

    track: TextTrack
    alternative: str | None


def run(args: argparse.Namespace) -> int:
    pattern = _pattern(args.text, args.regex, args.case)
    files = list(dict.fromkeys(args.files))
    for file in files if args.sheet else ():
        if file == STANDARD or _is_stored(file):
            raise InvalidArgumentError(f"--sheet takes frames from videos, and {shown_name(file)} is none.")
    sheets = sheet_outputs(files, args.sheet, overwrite=args.overwrite) if args.sheet else {}
    reader, found = VideoTextReader(args), list[str]()

    def search(path: str, file: str) -> int:
        name, marks = shown_name(file), list[Mark]()
        for track in _stored(path) if _is_stored(file) else reader.read_on(path):
            if isinstance(track, str):
                emit(f"{name}: warning: {track}", sys.stderr)
            elif (hit := _hit(track, pattern, args.kinds, args.region)) is not None:
                _print(hit, name, args.json)
                marks.append(Mark((track.first_frame + track.last_frame) // 2, track.geometry))
        found.extend([file] * len(marks))
        if marks and args.sheet:
            told = write_marked_sheet(path, sheets[file], marks, f"{args.text!r} in {Path(name).name}")
            if not args.json:
                emit(told)
        return 0

    return for_each_file(files, search) or (0 if found else _EXIT_NOT_FOUND)


def _pattern(text: str, is_regex: bool, has_case: bool) -> re.Pattern[str]:
    """What is looked for; a space of a plain text stands for white space of any kind.

    >>> _pattern("error 503", False, False).search("An Error\\n503 came.") is not None
    True

    Raises:
        InvalidArgumentError: if it is empty, or no regular expression.
    """
    if not text.strip():
        raise InvalidArgumentError("There must be a text to look for (got an empty one).")
    expression = text if is_regex else r"\s+".join(map(re.escape, text.split()))
    try:
        return re.compile(expression, 0 if has_case else re.IGNORECASE)
    except re.error as error:
        raise InvalidArgumentError(f"{text!r} is no regular expression: {error}.") from error


def _hit(track: TextTrack, pattern: re.Pattern[str], kinds: list[str] | None, region: Region | None) -> _Hit | None:
    if (kinds and track.kind not in kinds) or (region and not _is_in(track, region)):
        return None
    texts = [track.text, *(other.text for other in track.alternatives)]
    number = next((number for number, text in enumerate(texts) if pattern.search(text)), None)
    return None if number is None else _Hit(track, texts[number] if number else None)


def _is_in(track: TextTrack, region: Region) -> bool:
    """Whether the middle of a text is in a part of the picture."""
    (left, top), (right, bottom) = track.geometry
    x, y = (left + right) / 2, (top + bottom) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def _print(hit: _Hit, file: str, is_json: bool) -> None:
    track = hit.track
    if is_json:
        names = ("text", "kind", "start_seconds", "end_seconds", "first_frame", "last_frame", "geometry", "confidence")
        emit_json({"file": file} | {name: getattr(track, name) for name in names} | {"alternative": hit.alternative})
        return
    text = " / ".join(track.text.split("\n"))
    if hit.alternative is not None:
        text += f" (or: {' / '.join(hit.alternative.split(chr(10)))})"
    emit(f"{file}  {_text.clock(track.start_seconds)}  {place_of(track)}  {track.kind}  {_text.one_line(text)}")


def _is_stored(file: str) -> bool:
    return "://" not in file and Path(file).suffix.lower() == ".json"


def _stored(path: str) -> Sequence[TextTrack | str]:
    """The texts that `ocr` wrote as JSON, and at last what it could not read.

    Raises:
        ReadError, InvalidArgumentError: if the file is not such a reading.
    """
    from ..ocr.video import VideoReading

    reading = VideoReading.load(Path(path))
    return [*reading.tracks, *reading.problems]
