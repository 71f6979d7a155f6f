"""``mediatensor find``: where and when a text is to be seen in videos."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError
from . import _text
from ._arguments import Region
from ._console import STANDARD, emit, emit_json, for_each_file, shown_name
from ._ocr_video import VideoTextReader, place_of
from ._sheet import Mark, check_output, sheet_outputs, write_marked_sheet

if TYPE_CHECKING:
    from ..ocr.video import TextTrack, VideoReading

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
    sheets = sheet_outputs(files, args.sheet) if args.sheet else {}
    for file in sheets:
        if file == STANDARD or _is_stored(file):
            raise InvalidArgumentError(f"--sheet takes frames from videos, and {shown_name(file)} is none.")
        check_output(file, sheets[file])
    reader, found = VideoTextReader(args), list[str]()

    def search(path: str, file: str) -> int:
        reading = _stored(path) if _is_stored(file) else reader.read(path, shown_name(file))
        hits = list(_hits(reading, pattern, args.kinds, args.region))
        for hit in hits:
            _print(hit, shown_name(file), args.json)
        for problem in reading.problems:
            emit(f"{shown_name(file)}: warning: {problem}", sys.stderr)
        found.extend([file] * len(hits))
        if hits and args.sheet:
            marks = [Mark((hit.track.first_frame + hit.track.last_frame) // 2, hit.track.geometry) for hit in hits]
            told = write_marked_sheet(path, sheets[file], marks, f"{args.text!r} in {Path(shown_name(file)).name}")
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


def _hits(
    reading: VideoReading, pattern: re.Pattern[str], kinds: list[str] | None, region: Region | None
) -> Iterator[_Hit]:
    for track in reading.tracks:
        if kinds and track.kind not in kinds:
            continue
        if region and not _is_in(track, region):
            continue
        texts = [track.text, *(other.text for other in track.alternatives)]
        number = next((number for number, text in enumerate(texts) if pattern.search(text)), None)
        if number is not None:
            yield _Hit(track, texts[number] if number else None)


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


def _stored(path: str) -> VideoReading:
    """The reading that `ocr` wrote as JSON.

    Raises:
        InvalidArgumentError: if the file is not such a reading.
    """
    from ..ocr.video import VideoReading

    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidArgumentError(f"It is not JSON: {error}.") from error
    return VideoReading.from_dict(stored)
