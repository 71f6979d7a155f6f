"""``mediatensor ocr``: the text of images, PDF files and videos as files."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from PIL import Image

from ... import __version__
from ..._engine.common.devices import checked_device
from ..._engine.common.messages import counted
from ..._engine.sources.atomic_files import writing
from ..._engine.sources.output_files import check_outputs
from ...errors import InvalidArgumentError, MediaTensorError, PageError
from .._console.output import EXIT_ERROR, STANDARD, StopError, emit, emit_bytes, emit_error, for_each_file, shown_name
from .files import (
    OpenPages,
    PageImages,
    PageStore,
    Task,
    WrittenOutputs,
    choose_pages,
    existing_overlays,
    find_files,
    open_pages,
    plan_tasks,
    read_missing,
    source_key,
    write_document,
    write_each,
)
from .lines import LineExporter, check_arguments
from .video import VideoWriter

if TYPE_CHECKING:
    from ...ocr.io import Document
    from ...ocr.models.predictor import CutLine

__all__ = ["run"]

# Formats that hold one document a file.
_SINGLE_DOCUMENT_FORMATS = ("html", "hocr", "alto", "pdf")


# The most numbers of pages in a message.
_SHOWN_PAGES = 10


class ReaderUnusableError(StopError):
    """The models cannot be used, so that other pages would fail as well."""


@dataclass(frozen=True)
class ReadingOptions:
    """How pages are read and written. After a change of options, pages are read again."""

    makes_pdf: bool
    overlay: bool
    dpi: float
    every_seconds: float | None
    det_arch: str | None
    reco_arch: str | None
    rotated: bool
    straighten: bool
    layout: bool
    tables: bool
    fields: str | None
    text_layer: bool
    keep_look: bool


class TextReader:
    """Reads pages; the models are loaded when they are first needed."""

    def __init__(self, options: ReadingOptions, device: str) -> None:
        self._options = options
        self._device = device
        self._predictor: Any = None

    def load(self) -> None:
        """Load the models, if that was not done yet.

        Raises:
            ReaderUnusableError: if weights or packages are missing, or there is no such device or architecture.
        """
        if self._predictor is not None:
            return
        try:
            device = checked_device(self._device)
        except MediaTensorError as error:
            raise self._unusable_device(error) from error
        try:
            made = self._make()
        except MediaTensorError as error:
            raise ReaderUnusableError(str(error)) from error
        try:
            self._predictor = made.to(device)
        except RuntimeError as error:  # no memory is left on it
            raise self._unusable_device(error) from error

    def _unusable_device(self, error: Exception) -> ReaderUnusableError:
        reason = str(error).partition("\n")[0]
        return ReaderUnusableError(f"--device {self._device} cannot be used: {reason}")

    def _make(self) -> Any:
        from ...ocr.models import ocr_predictor

        names: dict[str, Any] = {"det_arch": self._options.det_arch, "reco_arch": self._options.reco_arch}
        return ocr_predictor(
            pretrained=True,
            assume_straight_pages=not self._options.rotated,
            straighten_pages=self._options.straighten,
            detect_layout=self._options.layout,
            detect_tables=self._options.tables,
            fields=self._options.fields,
            text_layer=self._options.text_layer,
            **{key: name for key, name in names.items() if name is not None},
        )

    def cut_lines(self, images: PageImages, number: int) -> list[CutLine]:
        """The lines of one page.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        image = images[number]
        try:
            lines: list[CutLine] = self._predictor.cut_lines(image)
        except PageError as error:
            raise PageError(f"Page {number} (counted from 0): {error}") from error
        return lines

    def read(self, images: PageImages, number: int) -> Any:
        """The page element of one page.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        from ...ocr.io import Pages
        from ...ocr.io._documents.pages import PageOfFile

        if isinstance(images, Pages) and self._options.text_layer:
            page = self._predictor(images.select([number])).pages[0]
            image = None
        else:
            image = images[number]
            page = self._predictor([image]).pages[0]
        if page.error is not None:
            raise PageError(f"Page {number} (counted from 0): {page.error}")
        page.page_idx = number
        if isinstance(images, Pages) and page.page is image:  # it was not straightened
            page.page = PageOfFile(images, number)
        return page


def run(args: argparse.Namespace) -> int:
    formats, files = list(dict.fromkeys(args.format or [])), find_files(args.files)
    if args.export_lines is not None:
        check_arguments(args, args.parser.get_default("output"))
        tasks = plan_tasks(files, args.export_lines, [], args.every)
        run = _Run(args, args.export_lines, sys.stdout)
        run.check_lines(tasks, files)
        return run.read_all(tasks)
    tasks = plan_tasks(files, args.output, formats, args.every)
    documents = [task for task in tasks if not task.is_video]
    if args.keep_look and any("txt" not in task.formats for task in documents):
        raise InvalidArgumentError(f"--keep-look is for text, and the output is {','.join(formats)}; add --format txt.")
    if str(args.output) != STANDARD:
        _check_folder(args.output)
        run = _Run(args, args.output, sys.stdout)
        run.check_outputs(tasks, files)
        return run.read_all(tasks)
    if len(formats) > 1 or args.overlay:
        raise InvalidArgumentError("Standard output takes one format, and no pictures; name a folder with -o.")
    if len(files) > 1 and {*tasks[0].formats, *tasks[-1].formats} & set(_SINGLE_DOCUMENT_FORMATS):
        raise InvalidArgumentError(
            f"Standard output takes one document as {formats[0]}, and these are {len(files)}; name a folder with -o."
        )
    with tempfile.TemporaryDirectory(prefix="mediatensor-") as folder:
        tasks = [replace(task, folder=Path(folder)) for task in tasks]
        code = _Run(args, Path(folder), sys.stderr).read_all(tasks)
        for output in (task.output(task.formats[0]) for task in tasks):
            if output.exists():  # otherwise an error was printed
                emit_bytes(output.read_bytes())
    return code


def _check_folder(folder: Path) -> None:
    """Refuse a folder that can have no files, before hours are spent on reading."""
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not existing.is_dir():
        raise InvalidArgumentError(f"-o names a folder for the outputs, and {str(existing)!r} is a file; name another.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InvalidArgumentError(f"No files can be written into {str(existing)!r}; name another folder with -o.")


class _Run:
    """One run of the command: its options, its reader, and the record of existing outputs."""

    def __init__(self, args: argparse.Namespace, folder: Path, messages: TextIO) -> None:
        self._args = args
        self._messages = messages
        self._options = ReadingOptions(
            "pdf" in (args.format or []), args.overlay, args.dpi, args.every,
            args.det_arch, args.reco_arch, args.rotated, args.straighten, args.layout,
            args.tables or bool({"csv", "xlsx"} & set(args.format or [])), args.fields, args.text_layer, args.keep_look,
        )  # fmt: skip
        self._reader = TextReader(self._options, args.device)
        self._written = WrittenOutputs(folder)
        self._videos = VideoWriter(args, self._written, messages)
        self._lines: LineExporter | None = None
        if args.export_lines is not None:
            self._lines = LineExporter(args, asdict(self._options), self._reader, _page_failure, messages)

    def check_outputs(self, tasks: Sequence[Task], files: Sequence[str]) -> None:
        """Refuse outputs that would replace a file that is read, or one that this command did not write.

        Raises:
            InvalidArgumentError: if one would.
        """
        task_of = {str(task.output(kind)): task for task in tasks for kind in task.formats}
        documents = [task for task in tasks if not task.is_video]
        overlays = (
            {str(path): task for path, task in existing_overlays(documents).items()} if self._args.overlay else {}
        )

        def is_own(output: str, existing: str) -> bool:
            if output in overlays:
                source = overlays[output].source
                source = source if source == STANDARD else source_key(source, source)["source"]
                return self._is_again(overlays[output]) or self._written.is_of(existing, source)
            task = task_of[output]
            if task.source == STANDARD:  # what is read of it decides
                return True
            return self._written.is_own(existing, self._key(task, task.source), self._is_again(task))

        outputs = [*task_of, *overlays]
        check_outputs(outputs, files, overwrite=self._args.overwrite, is_own=is_own, makes_folders=True)

    def check_lines(self, tasks: Sequence[Task], files: Sequence[str]) -> None:
        """As `check_outputs`, for the lines that are cut out."""
        assert self._lines is not None
        self._lines.check_outputs(tasks, files)

    def _key(self, task: Task, path: str) -> dict[str, Any]:
        """Return the source and the options that the outputs of a task depend on."""
        if task.is_video:
            return self._videos.key(task, path)
        return source_key(task.source, path) | {"options": asdict(self._options), "pages": self._args.pages}

    def _is_again(self, task: Task) -> bool:
        """Return whether a run for a document was interrupted, so that its outputs are made again."""
        source = source_key(task.source, task.source)["source"] if task.source != STANDARD else STANDARD
        return not task.is_video and PageStore.is_of_source(task.work_folder, source)

    def read_all(self, tasks: Sequence[Task]) -> int:
        """Read every document; returns an exit code."""
        task_of = {task.source: task for task in tasks}

        def read(path: str, source: str) -> int:
            task = task_of[source]
            if self._lines is not None:
                return self._lines.write(task, path)
            if task.is_video:
                return self._videos.write(task, path)
            return EXIT_ERROR if self._read_document(task, path) else 0

        try:
            code = for_each_file(list(task_of), read, noun="document", reword=_in_words_of_the_command)
        except KeyboardInterrupt as stop:
            if str(self._args.output) != STANDARD:
                stop.add_note("what was read is kept, and the same command goes on from there")
            raise
        if self._lines is not None:
            self._lines.say_what_is_next()
        return code

    def _read_document(self, task: Task, path: str) -> int:
        """Read the missing pages, write the outputs, and return how many pages and outputs failed."""
        key = self._key(task, path)
        is_again, overwrite = self._is_again(task), self._args.overwrite
        kinds = self._written.missing(task, key, self._messages, is_again=is_again, overwrite=overwrite)
        if not kinds:
            return 0
        with open_pages(path, self._args.dpi, self._args.password, self._args.every, self._args.page_timeout) as opened:
            numbers = choose_pages(self._args.pages, len(opened.images))
            store = PageStore(task.work_folder, {**key, "pages": None, "version": __version__})
            if self._args.overwrite:
                store.clear()

            def read(number: int) -> None:
                self._read_page(task, opened, number, store, key["source"])

            failures = read_missing(task, numbers, store, self._reader.load, read, _page_failure)
        for message in failures.values():
            emit_error(message)
        unwritten: list[Exception] = []
        if len(failures) < len(numbers):

            def write(kind: str) -> None:
                self._write_output(task, kind, opened, numbers, store, failures)
                # An output without some pages is this command's, and is made again.
                self._written.add(task.output(kind), {"source": key["source"]} if failures else key)

            name = shown_name(os.path.basename(task.source))
            unwritten = write_each(kinds, write, name)
            for notice in _notices(_document(store, numbers, failures)):
                emit(f"{name}: {notice}", self._messages)
        if not failures and not unwritten:
            store.clear()
        return len(failures) + len(unwritten)

    def _read_page(self, task: Task, opened: OpenPages, number: int, store: PageStore, source: str) -> None:
        from ...ocr.io._elements.pages import page_origin
        from ...ocr.utils.visualization import overlay

        page = self._reader.read(opened.images, number)
        task.folder.mkdir(parents=True, exist_ok=True)
        if self._options.overlay:
            store.claim()
            picture = overlay(page)
            with writing(task.overlay(number)) as file:
                Image.fromarray(picture).save(file, "PNG")
            self._written.add(task.overlay(number), {"source": source})
        # A frame, or a straightened page, is not a page of a file that could be taken when all are read.
        pdf = page.export_as_pdf(dpi=opened.dpi) if self._options.makes_pdf and page_origin(page) is None else None
        store.put(number, page.export(reading_order=False), pdf)

    def _write_output(
        self,
        task: Task,
        kind: str,
        opened: OpenPages,
        numbers: list[int],
        store: PageStore,
        failures: dict[int, str],
    ) -> None:
        document, output = _document(store, numbers, failures), task.output(kind)
        num_words = sum(len(line.words) for page in document.pages for block in page.blocks for line in block.lines)
        tables = [table for page in document.pages for table in page.tables]
        num_words += sum(len(cell.value.split()) for table in tables for cell in table.cells)
        if kind == "pdf":
            _give_images(document, opened.images, store)
        name = shown_name(os.path.basename(task.source))
        write_document(document, kind, output, name, opened.times, keep_look=self._options.keep_look)
        read = counted(len(numbers) - len(failures), "page")
        place = "standard output" if str(self._args.output) == STANDARD else output
        found = f", {counted(len(tables), 'table')}" if self._options.tables else ""
        emit(f"wrote {place}: {read}, {counted(num_words, 'word')}{found}", self._messages)


def _give_images(document: Document, images: PageImages, store: PageStore) -> None:
    """Give pages their images. Pages that were kept as PDF files have their text there."""
    from ...ocr.io import DocumentFile, Pages
    from ...ocr.io._documents.pages import PageOfFile

    for page in document.pages:
        file = store.pdf(page.page_idx)
        if file.exists() and page.error is None:
            page.page = PageOfFile(DocumentFile.from_pdf(file), 0)
            page.blocks, page.tables = [], []
        elif isinstance(images, Pages):
            page.page = PageOfFile(images, page.page_idx, is_readable=page.error is None)


def _notices(document: Document) -> list[str]:
    """Notices about pages that are turned, and lines that were not read."""
    notices = []
    turns = {page.page_idx + 1: page.orientation.get("value") for page in document.pages}
    shown = [f"{number} ({turn} degrees)" for number, turn in turns.items() if turn]
    if shown:
        more = ", ..." if len(shown) > _SHOWN_PAGES else ""
        notices.append(f"{counted(len(shown), 'page')} turned, and read so: {', '.join(shown[:_SHOWN_PAGES])}{more}")
    for told, lines in _unread_lines(document).items():
        pages = [str(number) for number, count in lines.items() if count]
        if pages:
            more = ", ..." if len(pages) > _SHOWN_PAGES else ""
            notices.append(
                f"warning: {counted(sum(lines.values()), 'line')} {told}, on page"
                f"{'s' * (len(pages) > 1)} {', '.join(pages[:_SHOWN_PAGES])}{more}"
            )
    return notices


def _unread_lines(document: Document) -> dict[str, Counter[int]]:
    """How many lines of each page were not read, or not in full, by what is said of them."""
    lines = [(page.page_idx + 1, line) for page in document.pages for line in page.unread]
    names = sorted({line.script for _, line in lines if line.script is not None})
    told = {
        f"in a script that cannot be read ({', '.join(names)})": {"script"},
        "found but not read": {"no text", "low confidence"},
        "read with gaps": {"gaps"},
    }
    return {text: Counter(number for number, line in lines if line.reason in reasons) for text, reasons in told.items()}


def _page_failure(source: str, number: int, error: Exception) -> str:
    if not isinstance(error, PageError):
        return f"{source}, page {number + 1}: {error}"
    return _in_words_of_the_command(str(error).replace(f"Page {number} (counted from 0)", f"Page {number + 1}"))


def _in_words_of_the_command(text: str) -> str:
    """A message of the library, with options of the command in place of the library's arguments.

    >>> _in_words_of_the_command("it is encrypted; pass password=")
    'it is encrypted; pass --password'
    """
    for argument, option in (
        ("pass password=", "pass --password"),
        ("timeout_seconds = ", "--page-timeout "),
        ("pass a larger one, or None for no limit", "give it more seconds"),
    ):
        text = text.replace(argument, option)
    return text


def _document(store: PageStore, numbers: Iterable[int], failures: dict[int, str]) -> Document:
    """The pages that were read; a page that failed is empty, with the reason."""
    from ...ocr.io import Document, Page

    image = np.zeros((0, 0, 3), np.uint8)
    pages = [
        Page(image, [], number, (0, 0), error=failures[number])
        if number in failures
        else Page.from_dict(store.get(number))
        for number in numbers
    ]
    return Document(pages)
