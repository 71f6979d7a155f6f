"""``mediatensor ocr --export-lines``: pictures of lines with the texts that were read, to correct and to train on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ... import __version__
from ..._engine.common.messages import counted
from ..._engine.sources.output_files import check_outputs
from ...errors import InvalidArgumentError
from .._console.output import EXIT_ERROR, STANDARD, emit, emit_error, shown_name
from .files import PageImages, PageStore, Record, Task, choose_pages, open_pages, read_missing, source_key

if TYPE_CHECKING:
    from ...ocr.models.predictor import CutLine

__all__ = ["LineExporter", "check_arguments"]

# From this overlap on (intersection over union), the same text on two frames is one line.
_SAME_PLACE = 0.5


def check_arguments(args: argparse.Namespace, default_output: Path) -> None:
    """Refuse options of documents beside ``--export-lines``.

    Raises:
        InvalidArgumentError: if there are any.
    """
    given = {
        "--format": args.format,
        "--layout": args.layout,
        "--tables": args.tables,
        "--fields": args.fields,
        "--text-layer": args.text_layer,
        "--keep-look": args.keep_look,
        "--overlay": args.overlay,
        "-o": args.output != default_output,
    }
    refused = [option for option, value in given.items() if value]
    if refused:
        raise InvalidArgumentError(
            f"--export-lines writes lines instead of documents: leave out {', '.join(refused)}, or run ocr twice."
        )


class _Reader(Protocol):
    def load(self) -> None: ...

    def cut_lines(self, images: PageImages, number: int) -> list[CutLine]: ...


class LineExporter:
    """Cuts out the lines of documents, page by page, and goes on where an earlier run stopped.

    Args:
        args: The options of the command.
        options: Those on which lines depend.
        reader: Reads pages.
        describe: Gives the message for a page that failed: of the document, the page from 0, and the error.
        messages: Where it is told what was written.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        options: Mapping[str, Any],
        reader: _Reader,
        describe: Callable[[str, int, Exception], str],
        messages: TextIO,
    ) -> None:
        from ...ocr.training import LineFolder

        self._args = args
        self._options = options
        self._reader = reader
        self._describe = describe
        self._messages = messages
        self._folder = LineFolder(args.export_lines)
        self._complete = _CompleteDocuments(args.export_lines)

    def check_outputs(self, tasks: Sequence[Task], files: Sequence[str]) -> None:
        """Refuse pictures that would replace a file that is read, or one that this command did not write.

        Lines are added to the file of texts, which is never replaced by others.

        Raises:
            InvalidArgumentError: if one would.
        """
        missing = [task for task in tasks if self._args.overwrite or not self._complete.is_known(task.source)]
        task_of = {task.source: task for task in missing if not task.is_video}
        existing = self._folder.pictures_of({source: task.stem for source, task in task_of.items()})
        pictures = {str(path): task_of[source] for path, source in existing.items()}

        def is_own(output: str, existing: str) -> bool:
            if output not in pictures:
                return self._folder.is_own(existing)
            task = pictures[output]
            source = source_key(task.source, task.source)["source"] if task.source != STANDARD else STANDARD
            return self._folder.is_own(existing) or PageStore.is_of_source(task.work_folder, source)

        outputs = [str(self._folder.file), str(self._folder.page), *pictures]
        check_outputs(outputs, files, overwrite=self._args.overwrite, is_own=is_own, makes_folders=True)

    def write(self, task: Task, path: str) -> int:
        """Cut out the lines of a document; returns an exit code."""
        if task.is_video:
            raise InvalidArgumentError(
                "Lines are cut out of pages: read frames of a video as pages with --every SECONDS."
            )
        name = shown_name(task.source)
        key = source_key(task.source, path) | {"options": self._options, "pages": self._args.pages}
        if not self._args.overwrite and self._complete.has(task.source, key):
            emit(f"kept the lines of {name}: they are complete (--overwrite reads it again)", self._messages)
            return 0
        args = self._args
        with open_pages(path, args.dpi, args.password, args.every, args.page_timeout) as opened:
            numbers = choose_pages(args.pages, len(opened.images))
            store = PageStore(task.work_folder, {**key, "pages": None, "version": __version__})
            if args.overwrite:
                store.clear()
                self._folder.remove(task.source)

            def read(number: int) -> None:
                lines = self._reader.cut_lines(opened.images, number)
                store.claim()
                has_pages = len(opened.images) > 1
                rows = self._folder.write_pictures(lines, task.stem, task.source, number, has_pages=has_pages)
                if number in opened.times:
                    rows = [{**row, "pts_seconds": opened.times[number]} for row in rows]
                store.put(number, {"rows": rows})

            failures = read_missing(task, numbers, store, self._reader.load, read, self._describe)
            for message in failures.values():
                emit_error(message)
            if len(failures) == len(numbers):
                return EXIT_ERROR
            pages = [store.get(number)["rows"] for number in numbers if number not in failures]
            if opened.times:
                pages = self._without_repeats(pages)
        rows = [row for page in pages for row in page]
        self._folder.add(rows)
        written = f"{counted(len(pages), 'page')}, {counted(len(rows), 'line')}"
        emit(f"wrote {self._folder.file}: {written} of {name}", self._messages)
        if failures:
            return EXIT_ERROR
        self._complete.add(task.source, key)
        store.clear()
        return 0

    def say_what_is_next(self) -> None:
        """Tell where the texts are corrected, if there are any."""
        if self._folder.page.exists():
            emit(f"correct the texts in a browser: {self._folder.page}", self._messages)

    def _without_repeats(self, frames: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        """The lines of frames without those that stand as they did on the frame before, whose pictures are deleted."""
        kept: list[list[dict[str, Any]]] = []
        before: list[dict[str, Any]] = []
        for rows in frames:
            new = [row for row in rows if not any(_is_same(row, other) for other in before)]
            for row in rows:
                if row not in new:
                    self._folder.delete_picture(row)
            kept.append(new)
            before = rows
        return kept


def _is_same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two lines have one text in about one place."""
    if row["text"] != other["text"]:
        return False
    (left, top), (right, bottom) = _span(row["box"])
    (left2, top2), (right2, bottom2) = _span(other["box"])
    shared = max(min(right, right2) - max(left, left2), 0.0) * max(min(bottom, bottom2) - max(top, top2), 0.0)
    areas = (right - left) * (bottom - top) + (right2 - left2) * (bottom2 - top2)
    return shared >= _SAME_PLACE * (areas - shared)


def _span(points: Sequence[Sequence[float]]) -> tuple[tuple[float, float], tuple[float, float]]:
    xs, ys = zip(*points, strict=True)
    return (min(xs), min(ys)), (max(xs), max(ys))


class _CompleteDocuments:
    """The record of the documents whose lines are complete."""

    def __init__(self, folder: Path) -> None:
        self._record = Record(folder / ".mediatensor-lines.jsonl", "source")

    def is_known(self, source: str) -> bool:
        """Whether the lines of a version of a document are complete."""
        return "key" in self._record[source]

    def has(self, source: str, key: Mapping[str, Any]) -> bool:
        """Whether the lines of a document are complete.

        Raises:
            InvalidArgumentError: if they were made from another version of it, or with other options.
        """
        entry = self._record[source]
        if "key" not in entry:
            return False
        if entry["key"] != json.loads(json.dumps(key)):
            raise InvalidArgumentError(
                "Its lines are there, of another version of the file or read with other options. --overwrite cuts them "
                "anew; corrections of their texts are then lost."
            )
        return True

    def add(self, source: str, key: Mapping[str, Any]) -> None:
        """Note a document whose lines were written just now."""
        self._record.add({"source": source, "key": key})
