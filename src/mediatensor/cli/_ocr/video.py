"""Text in video, for ``mediatensor ocr`` and ``mediatensor find``: reading it with a bar, and writing it as files."""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ... import __version__
from ..._engine.common.devices import checked_device
from ..._engine.common.messages import counted
from ..._engine.sources.atomic_files import write_file
from ...decoders import VideoDecoder
from ...errors import InvalidArgumentError, MediaTensorError
from .._console.output import EXIT_ERROR, STANDARD, StopError, emit, shown_name
from .files import Task, WrittenOutputs, source_key, write_each

if TYPE_CHECKING:
    from ...ocr.video import TextTrack, VideoReading

__all__ = ["ProgressStore", "VideoTextReader", "VideoWriter", "place_of"]

# An interrupted run loses no more than this; a state takes a fraction of a second to make.
_SECONDS_BETWEEN_STATES = 10.0

# What states have in them besides classes of this library.
_OF_STATES = {
    ("builtins", "range"), ("collections", "deque"), ("numpy", "dtype"), ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("numpy.core.numeric", "_frombuffer"),
}  # fmt: skip


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
        from ...ocr import video_text_predictor

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

    @contextmanager
    def read(self, path: str, name: str, store: ProgressStore) -> Iterator[VideoReading]:
        """Read all text of a video, of the region that was asked for.

        The video stays open in the ``with`` block, since the pictures of slides are decoded when they are written.

        Args:
            path: The video.
            name: What the reading calls it.
            store: Has how far an interrupted run came, and takes how far this one is.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        with VideoDecoder(path) as decoder:
            self.load()
            kept = store.get()
            try:
                reading: VideoReading = self._predictor._read_on(decoder, kept, store.put)
            except InvalidArgumentError:
                if kept is None:
                    raise
                store.clear()  # a URL may have another video by now
                reading = self._predictor._read_on(decoder, None, store.put)
            yield replace(reading, name=name)

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


class ProgressStore:
    """How far the reading of a video is, in a file of a hidden folder. It is stored whole or not at all.

    Args:
        folder: Where it is kept.
        key: The source and the options that the reading depends on. What was kept for another key does not count.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._file = folder / "video.state"
        self._key = json.dumps(key, sort_keys=True).encode() + b"\n"
        self._put_at = time.monotonic()

    def get(self) -> Any:
        """What was put; ``None`` if there is nothing that can be used."""
        try:
            data = self._file.read_bytes()
            return _ProgressUnpickler(io.BytesIO(data[len(self._key) :])).load() if data.startswith(self._key) else None
        except FileNotFoundError:
            return None
        except Exception:  # what damaged bytes raise has no one type
            return None

    def put(self, make: Callable[[], Any]) -> None:
        """Keep what a function makes, if the last time was some seconds ago."""
        if time.monotonic() - self._put_at < _SECONDS_BETWEEN_STATES:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._file, self._key + pickle.dumps(make(), pickle.HIGHEST_PROTOCOL))
        self._put_at = time.monotonic()

    def clear(self) -> None:
        """Delete it."""
        self._file.unlink(missing_ok=True)
        with suppress(OSError):  # it has other files in it, or is not there
            self._file.parent.rmdir()


class _ProgressUnpickler(pickle.Unpickler):
    """Makes data alone: somebody else may have put the file into the folder."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OF_STATES:
            return super().find_class(module, name)
        is_ours = module.startswith(("mediatensor.ocr.video.", "mediatensor.ocr.models.video_predictor."))
        found = super().find_class(module, name) if is_ours and "." not in name else None
        if isinstance(found, type) and found.__module__ == module:
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a state")


class VideoWriter:
    """Reads videos and writes what is asked for, next to the outputs of documents."""

    def __init__(self, args: argparse.Namespace, written: WrittenOutputs, messages: TextIO) -> None:
        self._args = args
        self._written = written
        self._messages = messages
        self._reader = VideoTextReader(args)

    def key(self, task: Task, path: str) -> dict[str, Any]:
        """Return the source and the options that the outputs of a video depend on."""
        return source_key(task.source, path) | {"options": self._reader.options() | {"kinds": self._args.kinds}}

    def write(self, task: Task, path: str) -> int:
        """Read a video and write what is missing; returns an exit code."""
        key, overwrite = self.key(task, path), self._args.overwrite
        missing = self._written.missing(task, key, self._messages, overwrite=overwrite)
        if not missing:
            return 0
        name = shown_name(os.path.basename(task.source))
        of_reading = {**source_key(task.source, path), "options": self._reader.options(), "version": __version__}
        store = ProgressStore(task.work_folder, of_reading)
        if overwrite:
            store.clear()
        with self._reader.read(path, name, store) as reading:
            task.folder.mkdir(parents=True, exist_ok=True)
            chosen = _of_kinds(reading, self._args.kinds)

            def save(name_of_format: str) -> None:
                self._save(chosen, task.output(name_of_format), name_of_format)
                self._written.add(task.output(name_of_format), key)

            failures = write_each(missing, save, name)
        # Without slides there is nothing to write, however often the command is repeated.
        if all(isinstance(error, InvalidArgumentError) for error in failures):
            store.clear()
        for problem in reading.problems:
            emit(f"{name}: warning: {problem}", self._messages)
        return EXIT_ERROR if failures else 0

    def _save(self, reading: VideoReading, output: Path, name: str) -> None:
        if name in ("srt", "vtt", "ass"):
            captions = reading.of_kind(*(self._args.kinds or ("caption",)))
            captions.save(output, name)  # type: ignore[arg-type]
            told = counted(len(captions), "caption")
        else:
            reading.save(output, name)  # type: ignore[arg-type]
            told = counted(len(reading.slides), "slide")
            if name in ("json", "csv"):
                told = f"{counted(len(reading.tracks), 'text')}, {told}"
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
