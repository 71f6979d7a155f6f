"""Text in videos: the command ``mediatensor find``, and the part of ``mediatensor ocr`` that reads videos."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._engine.common.messages import clock, counted
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError
from . import _text
from ._arguments import Region
from ._console import EXIT_ERROR, STANDARD, StreamName, emit, emit_json, for_each_file, shown_name
from ._ocr_files import Task, load_predictor, write_each
from ._ocr_state import ProgressStore, WrittenOutputs, source_key
from ._sheet import Mark, sheet_outputs, write_marked_sheet

if TYPE_CHECKING:
    from ..ocr.video import TextTrack, VideoReading

_EXIT_NOT_FOUND = 1


class VideoTextReader:
    """Reads text in videos with OCR models. The models are loaded on first use."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._predictor: Any = None

    def _load(self) -> Any:
        from ..ocr import video_text_predictor

        if self._predictor is None:
            given = {name: value for name, value in self.options().items() if value is not None}
            self._predictor = load_predictor(lambda: video_text_predictor(pretrained=True, **given), self._args.device)
        return self._predictor

    def options(self) -> dict[str, Any]:
        return {name: getattr(self._args, name) for name in ("det_arch", "reco_arch", "region", "languages")}

    @contextmanager
    def read(self, path: str, name: str, store: ProgressStore) -> Iterator[VideoReading]:
        """Read all text of a video, and yield it for a ``with`` block.

        Reading resumes from the state in ``store``, and stores its progress there. The video stays open during the
        block, because pictures of slides are decoded only when they are written.
        """
        from ..ocr.models.video_predictor.predictor import read_resumably

        with VideoDecoder(path) as decoder:
            predictor = self._load()
            state = store.get()
            try:
                reading: VideoReading = read_resumably(predictor, decoder, state, store.put)
            except InvalidArgumentError:
                if state is None:
                    raise
                store.clear()  # the URL may return another video now
                reading = read_resumably(predictor, decoder, None, store.put)
            yield replace(reading, name=name)

    def read_on(self, path: str) -> Iterator[TextTrack | str]:
        """Yield each text after it has disappeared from the video, then messages about parts that cannot be read."""
        with VideoDecoder(path) as decoder, closing(self._load().stream(decoder)) as stream:
            yield from stream
            yield from stream.problems


class VideoWriter:
    def __init__(self, args: argparse.Namespace, written: WrittenOutputs, messages: StreamName) -> None:
        self._args = args
        self._written = written
        self._messages = messages
        self._reader = VideoTextReader(args)

    def key(self, task: Task, path: str) -> dict[str, Any]:
        """Return the source of a video and all options that affect its outputs."""
        return source_key(task, path) | {"options": self._reader.options() | {"kinds": self._args.kinds}}

    def write(self, task: Task, path: str) -> int:
        key, overwrite = self.key(task, path), self._args.overwrite
        missing = self._written.missing(task, key, self._messages, overwrite=overwrite)
        if not missing:
            return 0
        name = shown_name(os.path.basename(task.source))
        store = ProgressStore(task, {**source_key(task, path), "options": self._reader.options()})
        if overwrite:
            store.clear()
        with self._reader.read(path, name, store) as reading:
            task.folder.mkdir(parents=True, exist_ok=True)
            chosen = _select_kinds(reading, self._args.kinds)

            def save(name_of_format: str) -> None:
                message = self._save(chosen, task.output(name_of_format), name_of_format)
                self._written.add(task.output(name_of_format), key)
                emit(message, self._messages)  # may fail, so the output must be recorded first

            failures = write_each(missing, save, name)
        # If the video has no slides, repeating the command cannot write any, so drop the state.
        if all(isinstance(error, InvalidArgumentError) for error in failures):
            store.clear()
        for problem in reading.problems:
            emit(f"{name}: warning: {problem}", self._messages)
        return EXIT_ERROR if failures else 0

    def _save(self, reading: VideoReading, output: Path, name: str) -> str:
        """Write an output of a video. Return the message about it."""
        if name in ("srt", "vtt", "ass"):
            captions = reading.of_kind(*(self._args.kinds or ("caption",)))
            captions.save(output, name)  # type: ignore[arg-type]
            contents = counted(len(captions), "caption")
        else:
            reading.save(output, name)  # type: ignore[arg-type]
            contents = counted(len(reading.slides), "slide")
            if name in ("json", "csv"):
                contents = f"{counted(len(reading.tracks), 'text')}, {contents}"
        place = "standard output" if str(self._args.output) == STANDARD else output
        return f"wrote {place}: {contents}"


def _select_kinds(reading: VideoReading, kinds: Sequence[str] | None) -> VideoReading:
    """Keep only the text of the given kinds; ``None`` keeps everything. Slides have the kind "slide"."""
    if not kinds:
        return reading
    tracks = tuple(track for track in reading.tracks if track.kind in kinds)
    return replace(reading, tracks=tracks, slides=reading.slides if "slide" in kinds else ())


def place_of(track: TextTrack) -> str:
    """Describe the position of a text in the frame, such as "top right".

    >>> from mediatensor.ocr.video import TextTrack
    >>> place_of(TextTrack("Hi", "caption", 0.0, 1.0, 0, 9, ((0.4, 0.85), (0.6, 0.9)), 0.9))
    'bottom'
    >>> place_of(TextTrack("ONE", "overlay", 0.0, 1.0, 0, 9, ((0.9, 0.05), (0.97, 0.1)), 0.9))
    'top right'
    """
    (left, top), (right, bottom) = track.geometry
    row = ("top", "", "bottom")[min(2, int(1.5 * (top + bottom)))]
    column = ("left", "", "right")[min(2, int(1.5 * (left + right)))]
    return f"{row} {column}".strip() or "middle"


def run(args: argparse.Namespace) -> int:
    from ..ocr.utils._text_search import normalize_text, phrase_pattern

    pattern = phrase_pattern(args.text, has_case=args.case)  # raises for an empty text
    if args.regex:
        pattern = compile_regex(args.text, has_case=args.case)
    files = list(dict.fromkeys(args.files))
    for file in files if args.sheet else ():
        if file == STANDARD or _is_stored_reading(file):
            raise InvalidArgumentError(f"--sheet takes frames from videos, and {shown_name(file)} is not a video.")
    sheets = sheet_outputs(args.files, args.sheet, overwrite=args.overwrite) if args.sheet else {}
    reader, files_with_hits = VideoTextReader(args), set[str]()

    def is_match(text: str) -> bool:
        return any(map(pattern.search, (text, normalize_text(text))))

    def search(path: str, file: str) -> int:
        name, marks = shown_name(file), list[Mark]()
        for track in _load_reading(path) if _is_stored_reading(file) else reader.read_on(path):
            if isinstance(track, str):
                emit(f"{name}: warning: {track}", "stderr")
            elif (not args.kinds or track.kind in args.kinds) and _is_in_region(track, args.region):
                texts = [track.text, *(other.text for other in track.alternatives)]
                number = next((number for number, text in enumerate(texts) if is_match(text)), None)
                if number is None:
                    continue
                _print_hit(track, texts[number] if number else None, name, args.json)
                marks.append(Mark((track.first_frame + track.last_frame) // 2, track.geometry))
        if marks:
            files_with_hits.add(file)
        if marks and args.sheet:
            summary = write_marked_sheet(path, sheets[file], marks, f"{args.text!r} in {Path(name).name}")
            if not args.json:
                emit(summary)
        return 0

    return for_each_file(files, search) or (0 if files_with_hits else _EXIT_NOT_FOUND)


def compile_regex(text: str, *, has_case: bool = False) -> re.Pattern[str]:
    try:
        return re.compile(text, 0 if has_case else re.IGNORECASE)
    except re.error as error:
        raise InvalidArgumentError(f"{text!r} is not a regular expression: {error}.") from error


def _is_in_region(track: TextTrack, region: Region | None) -> bool:
    """Return whether the centre of a text is in a region of the frame. ``None`` means the whole frame."""
    if region is None:
        return True
    (left, top), (right, bottom) = track.geometry
    x, y = (left + right) / 2, (top + bottom) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def _print_hit(track: TextTrack, alternative: str | None, file: str, is_json: bool) -> None:
    """Print a text that matches the search. If only another reading of it matches, that is ``alternative``."""
    if is_json:
        names = ("text", "kind", "start_seconds", "end_seconds", "first_frame", "last_frame", "geometry", "confidence")
        emit_json({"file": file} | {name: getattr(track, name) for name in names} | {"alternative": alternative})
        return
    text = " / ".join(track.text.split("\n"))
    if alternative is not None:
        text += f" (or: {' / '.join(alternative.split(chr(10)))})"
    emit(f"{file}  {clock(track.start_seconds)}  {place_of(track)}  {track.kind}  {_text.one_line(text)}")


def _is_stored_reading(file: str) -> bool:
    return "://" not in file and Path(file).suffix.lower() == ".json"


def _load_reading(path: str) -> Sequence[TextTrack | str]:
    """Load the text of a video from a JSON file that `ocr` wrote, followed by messages about unreadable parts."""
    from ..ocr.video import VideoReading

    try:
        reading = VideoReading.load(Path(path))
    except InvalidArgumentError:
        raise InvalidArgumentError(
            "This is not the text of a video; `mediatensor ocr VIDEO --format json` writes it."
        ) from None
    return [*reading.tracks, *reading.problems]
