"""Text in video, for ``mediatensor ocr`` and ``mediatensor find``: reading it with a bar, and writing it as files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .._common.devices import checked_device
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, MediaTensorError
from . import _text
from ._console import EXIT_ERROR, STANDARD, StopError, emit, emit_error, shown_name
from ._ocr_files import Task, WrittenOutputs, source_key

if TYPE_CHECKING:
    from ..ocr.video import TextTrack, VideoReading

__all__ = ["VideoTextReader", "VideoWriter", "place_of"]


class VideoTextReader:
    """Reads text in videos; the models are loaded when they are first needed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._predictor: Any = None

    def load(self) -> None:
        """Load the models, if that was not done yet.

        Raises:
            StopError: if weights or packages are missing, or there is no such device or architecture.
        """
        if self._predictor is not None:
            return
        from ..ocr import video_text_predictor

        given = {name: value for name, value in self.options().items() if value is not None}
        try:
            made = video_text_predictor(pretrained=True, **given)
            self._predictor = made.to(checked_device(self._args.device))
        except MediaTensorError as error:
            raise StopError(str(error)) from error
        except RuntimeError as error:  # no memory is left on it
            reason = str(error).partition("\n")[0]
            raise StopError(f"--device {self._args.device} cannot be used: {reason}") from error

    def options(self) -> dict[str, Any]:
        """What is given to the predictor, on which the result depends."""
        return {name: getattr(self._args, name) for name in ("det_arch", "reco_arch", "region", "languages")}

    def read(self, path: str, name: str) -> VideoReading:
        """Everything that stands in a video, of the region that was asked for.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        with VideoDecoder(path) as decoder:
            self.load()
            reading: VideoReading = self._predictor(decoder)
            return replace(reading, name=name)

    def read_on(self, path: str) -> Iterator[TextTrack | str]:
        """The texts of a video, each when it has ended, and at last sentences about what could not be read.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        with VideoDecoder(path) as decoder:
            self.load()
            with closing(self._predictor.stream(decoder)) as stream:
                yield from stream
                yield from stream.problems


class VideoWriter:
    """Reads videos and writes what is asked for, next to the outputs of documents."""

    def __init__(self, args: argparse.Namespace, written: WrittenOutputs, messages: TextIO) -> None:
        self._args = args
        self._written = written
        self._messages = messages
        self._reader = VideoTextReader(args)

    def write(self, task: Task, path: str) -> int:
        """Read a video and write what is missing; returns an exit code."""
        key = source_key(task.source, path) | {"options": self._reader.options() | {"kinds": self._args.kinds}}
        overwrite = self._args.overwrite
        kept = [self._written.is_kept(task.output(name), key, overwrite, self._messages) for name in task.formats]
        missing = [name for name, stays in zip(task.formats, kept, strict=True) if not stays]
        if not missing:
            return 0
        name = shown_name(os.path.basename(task.source))
        reading, code = self._reader.read(path, name), 0
        task.folder.mkdir(parents=True, exist_ok=True)
        chosen = _of_kinds(reading, self._args.kinds)
        for name_of_format in missing:
            output = task.output(name_of_format)
            try:
                self._save(chosen, output, name_of_format)
            except InvalidArgumentError as error:  # there are no slides to write
                emit_error(f"{name}: {error}")
                code = EXIT_ERROR
                continue
            self._written.add(output, key)
        for problem in reading.problems:
            emit(f"{name}: warning: {problem}", self._messages)
        return code

    def _save(self, reading: VideoReading, output: Path, name: str) -> None:
        if name in ("srt", "vtt", "ass"):
            captions = reading.of_kind(*(self._args.kinds or ("caption",)))
            captions.save(output, name)  # type: ignore[arg-type]
            told = _text.count(len(captions), "caption")
        else:
            reading.save(output, name)  # type: ignore[arg-type]
            told = _text.count(len(reading.slides), "slide")
            if name in ("json", "csv"):
                told = f"{_text.count(len(reading.tracks), 'text')}, {told}"
        place = "standard output" if str(self._args.output) == STANDARD else output
        emit(f"wrote {place}: {told}", self._messages)


def _of_kinds(reading: VideoReading, kinds: Sequence[str] | None) -> VideoReading:
    """The reading with text of these kinds alone, and without slides unless they are among them."""
    if not kinds:
        return reading
    tracks = tuple(track for track in reading.tracks if track.kind in kinds)
    return replace(reading, tracks=tracks, slides=reading.slides if "slide" in kinds else ())


def place_of(track: TextTrack) -> str:
    """Where a text stands, in words.

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
