"""``mediatensor ocr``: write the text of images, PDF files and videos, or cut out text lines as training data."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from .._engine.common.messages import counted
from .._engine.sources.output_files import check_outputs, write_file
from ..errors import InvalidArgumentError, PageError, RedactionError
from ._arguments import FORMATS, VIDEO_FORMATS, Region
from ._console import (
    EXIT_ERROR,
    STANDARD,
    StreamName,
    check_folder,
    emit,
    emit_bytes,
    for_each_file,
    shown_name,
    write_picture,
)
from ._ocr_files import (
    JOINED_FORMATS,
    OpenPages,
    PageImages,
    Task,
    check_options,
    choose_pages,
    existing_overlays,
    export_document,
    find_files,
    load_predictor,
    open_pages,
    page_notices,
    plan_tasks,
    refuse_document_options,
    write_each,
)
from ._ocr_state import PageStore, ProgressStore, Record, WrittenOutputs, read_missing, source_key, source_of
from ._video_text import VideoWriter, compile_regex

if TYPE_CHECKING:
    from ..ocr.io import Document
    from ..ocr.models.predictor import CutLine

# Formats whose files can hold only one document.
_SINGLE_DOCUMENT_FORMATS = ("html", "hocr", "alto", "pdf")

# Lines with equal text in consecutive frames count as one line if their boxes have at least this intersection over
# union.
_SAME_PLACE_IOU = 0.5

_PAGE_OPTIONS = (
    "overlay", "dpi", "every", "det_arch", "reco_arch", "rotated", "straighten", "layout", "join_tables", "fields",
    "text_layer", "keep_look", "values",
)  # fmt: skip


def _page_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that affect how pages are read and written.

    If one of them has changed, a later run reads the pages again. Texts to redact must not be stored. The value of
    ``redaction`` therefore differs in every run that redacts texts.
    """
    formats = set(args.format or ())
    return {name: getattr(args, name) for name in _PAGE_OPTIONS} | {
        "makes_pdf": "pdf" in formats,
        "tables": args.tables or bool({"csv", "xlsx"} & formats),
        "redaction": uuid.uuid4().hex if args.redact or args.redact_pattern else args.redact_region,
    }


class TextReader:
    """Reads pages with OCR models. The models are loaded on first use.

    Attributes:
        redacted_texts: Texts to redact on each page.
        redacts: Whether texts or regions are redacted on each page.
        num_redacted: Number of matches of each of ``redacted_texts``, by its index.
    """

    def __init__(self, options: Mapping[str, Any], args: argparse.Namespace) -> None:
        self._options = options
        self._device = args.device
        self._redacted_regions: Sequence[Region] = args.redact_region or ()
        self.redacted_texts = _redacted_texts(args)
        self.redacts = bool(self.redacted_texts or self._redacted_regions)
        self.num_redacted: Counter[int] = Counter()
        self._predictor: Any = None

    def load(self) -> None:
        if self._predictor is None:
            self._predictor = load_predictor(self._make, self._device)

    def _make(self) -> Any:
        from ..ocr.models import ocr_predictor

        options = self._options
        return ocr_predictor(
            pretrained=True,
            assume_straight_pages=not options["rotated"],
            straighten_pages=options["straighten"],
            detect_layout=options["layout"],
            detect_tables=options["tables"],
            fields=options["fields"],
            text_layer=options["text_layer"],
            **{name: options[name] for name in ("det_arch", "reco_arch") if options[name] is not None},
        )

    def cut_lines(self, images: PageImages, number: int) -> list[CutLine]:
        image = images[number]
        try:
            lines: list[CutLine] = self._predictor.cut_lines(image)
        except PageError as error:
            raise PageError(f"Page {number} (counted from 0): {error}") from error
        return lines

    def read(self, images: PageImages, number: int) -> Any:
        from ..ocr.io import Pages
        from ..ocr.io._documents.pages import PageOfFile

        if isinstance(images, Pages) and self._options["text_layer"]:
            page = self._predictor(images.select([number])).pages[0]
            image = None
        else:
            image = images[number]
            page = self._predictor([image]).pages[0]
        if page.error is not None:
            raise PageError(f"Page {number} (counted from 0): {page.error}")
        if self.redacts:
            page = self._redact(page, number)
        page.page_idx = number
        if isinstance(images, Pages) and page.page is image:  # the page was not straightened
            page.page = PageOfFile(images, number)
        return page

    def _redact(self, page: Any, number: int) -> Any:
        from ..ocr.io import Document

        document, texts = Document([page]), self.redacted_texts
        predictor = None
        if texts:
            predictor = self._predictor
            self.num_redacted.update(match.query for match in document.find(*texts))
        try:
            with warnings.catch_warnings(action="ignore"):  # about texts that are not on this page
                return document.redact(*texts, regions=self._redacted_regions, predictor=predictor).pages[0]
        except RedactionError as error:
            raise PageError(
                f"Page {number} (counted from 0): text to redact can still be read after redaction, so the page is "
                "left out."
            ) from error


def run(args: argparse.Namespace) -> int:
    formats, files = list(dict.fromkeys(args.format or [])), find_files(args.files, WrittenOutputs)
    if args.export_lines is not None:
        refuse_document_options(args)
        tasks = plan_tasks(files, args.export_lines, [], args.every)
        check_options(args, tasks)
        run = _Run(args, args.export_lines, "stdout")
        run.check_outputs(tasks, files)
        return run.read_all(tasks)
    check_folder(args.output, {f".{name}": f"--format {name}" for name in FORMATS + VIDEO_FORMATS})
    tasks = plan_tasks(files, args.output, formats, args.every)
    check_options(args, tasks)
    if str(args.output) != STANDARD:
        run = _Run(args, args.output, "stdout")
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
        code = _Run(args, Path(folder), "stderr").read_all(tasks)
        for output in (task.output(task.formats[0]) for task in tasks):
            if output.exists():  # otherwise an error was printed earlier
                emit_bytes(output.read_bytes())
    return code


def _redacted_texts(args: argparse.Namespace) -> list[str | re.Pattern[str]]:
    from ..ocr.utils._text_search import search_patterns

    texts = [*(args.redact or ()), *(compile_regex(text) for text in args.redact_pattern or ())]
    search_patterns(texts)  # raises an error before pages are read
    return texts


class _Run:
    """One run of the command: its options, its OCR models, and the record of outputs that the command has written."""

    def __init__(self, args: argparse.Namespace, folder: Path, messages: StreamName) -> None:
        self._args = args
        self._messages = messages
        self._options = _page_options(args)
        self._reader = TextReader(self._options, args)
        self._written = WrittenOutputs(folder)
        self._videos = VideoWriter(args, self._written, messages)
        self._lines: LineExporter | None = None
        if args.export_lines is not None:
            self._lines = LineExporter(args, self._options, self._reader, messages)

    def check_outputs(self, tasks: Sequence[Task], files: Sequence[str]) -> None:
        """Check that the command would not replace an input, or a file that it has not written itself."""
        if self._lines is not None:
            self._lines.check_outputs(tasks, files)
            return
        task_of = {str(task.output(kind)): task for task in tasks for kind in task.formats}
        documents = [task for task in tasks if not task.is_video] if self._args.overlay else []
        overlays = {str(path): task for path, task in existing_overlays(documents).items()}
        records = {str(self._written.path), *(str(_state_file(task)) for task in tasks)}

        def is_own(output: str, existing: str) -> bool:
            if output in records:
                return True
            if output in overlays:
                task = overlays[output]
                return self._written.is_of(existing, source_of(task), self._is_again(task))
            task = task_of[output]
            if task.source == STANDARD:  # checked later, when the content of standard input is known
                return True
            return self._written.is_own(existing, self._key(task, task.source), self._is_again(task))

        outputs = [*task_of, *overlays, *records]
        check_outputs(outputs, files, overwrite=self._args.overwrite, is_own=is_own, makes_folders=True)

    def _key(self, task: Task, path: str) -> dict[str, Any]:
        """Return the source of a task, and all options that affect its outputs. If it changes, they are outdated."""
        if task.is_video:
            return self._videos.key(task, path)
        return source_key(task, path) | {"options": self._options, "pages": self._args.pages}

    def _is_again(self, task: Task) -> bool:
        """Return whether an interrupted run has read pages of this document. All outputs are then written again."""
        return not task.is_video and PageStore.has_pages_of(task)

    def read_all(self, tasks: Sequence[Task]) -> int:
        task_of = {task.source: task for task in tasks}

        def read(path: str, source: str) -> int:
            task = task_of[source]
            if self._lines is not None:
                return self._lines.write(task, path)
            if task.is_video:
                return self._videos.write(task, path)
            return EXIT_ERROR if self._read_document(task, path) else 0

        try:
            code = for_each_file(list(task_of), read, noun="document")
        except KeyboardInterrupt as stop:
            if str(self._args.output) != STANDARD:
                stop.add_note("pages that were read are kept; run the same command again to resume")
            raise
        if self._lines is not None:
            self._lines.print_next_step()
        return code

    def _read_document(self, task: Task, path: str) -> int:
        """Read the missing pages of a document, and write its outputs. Return how many pages and outputs failed."""
        key = self._key(task, path)
        is_again, overwrite = self._is_again(task), self._args.overwrite
        kinds = self._written.missing(task, key, self._messages, is_again=is_again, overwrite=overwrite)
        if not kinds:
            return 0
        with open_pages(path, self._args) as opened:
            numbers = choose_pages(self._args.pages, len(opened.images))
            store = PageStore(task, key)
            if overwrite:
                store.clear()
            self._reader.num_redacted.clear()

            def read(number: int) -> None:
                self._read_page(task, opened, number, store, key["source"])

            failures = read_missing(task, numbers, store, self._reader.load, read)
        unwritten: list[Exception] = []
        if len(failures) < len(numbers):

            def write(kind: str) -> None:
                message = self._write_output(task, kind, opened, numbers, store, failures)
                # An output without all pages is recorded as the command's own, but the next run writes it again.
                self._written.add(task.output(kind), {"source": key["source"]} if failures else key)
                emit(message, self._messages)  # may fail, so the output must be recorded first

            name = shown_name(os.path.basename(task.source))
            unwritten = write_each(kinds, write, name)
            for notice in [*page_notices(_document(store, numbers, failures)), *self._redaction_notices()]:
                emit(f"{name}: {notice}", self._messages)
        if not failures and not unwritten:
            store.clear()
        return len(failures) + len(unwritten)

    def _redaction_notices(self) -> list[str]:
        notices = []
        for query, text in enumerate(self._reader.redacted_texts):
            shown = repr(text if isinstance(text, str) else text.pattern)
            count = self._reader.num_redacted[query]
            notices.append(
                f"redacted {shown} at {counted(count, 'place')}"
                if count
                else f"warning: nothing matches {shown}, so that nothing was redacted for it"
            )
        return notices

    def _read_page(self, task: Task, opened: OpenPages, number: int, store: PageStore, source: str) -> None:
        from ..ocr.io._documents.pages import PageOfFile
        from ..ocr.io._elements.pages import page_origin
        from ..ocr.utils.visualization import overlay

        page = self._reader.read(opened.images, number)
        task.folder.mkdir(parents=True, exist_ok=True)
        if self._args.overlay:
            store.claim()
            write_picture(task.overlay(number), Image.fromarray(overlay(page)))
            self._written.add(task.overlay(number), {"source": source})
        # Store frames, straightened and redacted pages now, because they cannot be read from the file later.
        is_in_file = isinstance(page_origin(page), PageOfFile)
        pdf = page.export_as_pdf(dpi=opened.dpi) if self._options["makes_pdf"] and not is_in_file else None
        store.put(number, page.export(reading_order=False), pdf)

    def _write_output(
        self,
        task: Task,
        kind: str,
        opened: OpenPages,
        numbers: list[int],
        store: PageStore,
        failures: dict[int, str],
    ) -> str:
        """Write an output of a document. Return the message about it."""
        from ..ocr.io._exports.tables import with_joined_tables

        document, output = _document(store, numbers, failures), task.output(kind)
        if self._args.join_tables and kind in JOINED_FORMATS:
            document = with_joined_tables(document)
        num_words = sum(len(line.words) for page in document.pages for block in page.blocks for line in block.lines)
        tables = [table for page in document.pages for table in page.tables]
        num_words += sum(len(cell.value.split()) for table in tables for cell in table.cells)
        redacted_texts, name = self._reader.redacted_texts, shown_name(os.path.basename(task.source))
        if self._reader.redacts:
            # The file may be passed on without the name of the source, which is in the title and in errors.
            name = "Redacted document"
            for page in document.pages:
                page.error = page.error and "The page could not be read."
            if redacted_texts and (matches := document.find(*redacted_texts)):
                number = document.pages[matches[0].places[0][0]].page_idx + 1
                raise PageError(
                    f"Text to redact begins on page {number}, and ends on another one. Redact its words one by one."
                )
        if kind == "pdf":
            _give_images(document, None if self._reader.redacts else opened.images, store)
        data = export_document(
            document, kind, name, opened.times, keep_look=self._args.keep_look, values=self._args.values
        )
        # The title may be a file name that is not valid UTF-8.
        write_file(output, data if isinstance(data, bytes) else data.encode(errors="replace"))
        read = counted(len(numbers) - len(failures), "page")
        place = "standard output" if str(self._args.output) == STANDARD else output
        table_count = f", {counted(len(tables), 'table')}" if self._options["tables"] else ""
        return f"wrote {place}: {read}, {counted(num_words, 'word')}{table_count}"


class LineExporter:
    """Cuts pictures of text lines out of documents. After an interruption, it resumes at the next page."""

    def __init__(
        self, args: argparse.Namespace, options: Mapping[str, Any], reader: TextReader, messages: StreamName
    ) -> None:
        from ..ocr.training import LineFolder

        check_outputs([args.export_lines / "lines.jsonl"], is_own=lambda _, __: True, makes_folders=True)
        self._args = args
        self._options = options
        self._reader = reader
        self._messages = messages
        self._folder = LineFolder(args.export_lines)
        self._complete = Record(args.export_lines / ".mediatensor-lines.jsonl", "source")

    def check_outputs(self, tasks: Sequence[Task], files: Sequence[str]) -> None:
        """Check that no picture would replace an input, or a file that this command has not written itself.

        ``lines.jsonl``, the file with the texts, is allowed to exist, because new texts are added to it.
        """
        missing = [task for task in tasks if self._args.overwrite or "key" not in self._complete[task.source]]
        task_of = {task.source: task for task in missing if not task.is_video}
        existing = self._folder.pictures_of({source: task.stem for source, task in task_of.items()})
        pictures = {str(path): task_of[source] for path, source in existing.items()}
        records = {str(self._complete.path), *(str(_state_file(task)) for task in tasks)}

        def is_own(output: str, existing: str) -> bool:
            if output in records:
                return True
            return self._folder.is_own(existing) or (output in pictures and PageStore.has_pages_of(pictures[output]))

        outputs = [str(self._folder.file), str(self._folder.page), *pictures, *records]
        check_outputs(outputs, files, overwrite=self._args.overwrite, is_own=is_own, makes_folders=True)

    def write(self, task: Task, path: str) -> int:
        if task.is_video:
            raise InvalidArgumentError(
                "Lines are cut out of pages: read frames of a video as pages with --every SECONDS."
            )
        name = shown_name(task.source)
        key = source_key(task, path) | {"options": self._options, "pages": self._args.pages}
        if not self._args.overwrite and self._is_complete(task.source, key):
            emit(f"kept the lines of {name}: they are complete (--overwrite reads it again)", self._messages)
            return 0
        with open_pages(path, self._args) as opened:
            numbers = choose_pages(self._args.pages, len(opened.images))
            store = PageStore(task, key)
            if self._args.overwrite:
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

            failures = read_missing(task, numbers, store, self._reader.load, read)
            if len(failures) == len(numbers):
                return EXIT_ERROR
            pages = [store.get(number)["rows"] for number in numbers if number not in failures]
            if opened.times:
                pages = self._without_repeats(pages)
        rows = [row for page in pages for row in page]
        self._folder.add(rows)
        if not failures:
            self._complete.add({"source": task.source, "key": key})
            store.clear()
        written = f"{counted(len(pages), 'page')}, {counted(len(rows), 'line')}"
        emit(f"wrote {self._folder.file}: {written} of {name}", self._messages)
        return EXIT_ERROR if failures else 0

    def _is_complete(self, source: str, key: Mapping[str, Any]) -> bool:
        entry = self._complete[source]
        if "key" not in entry:
            return False
        if entry["key"] != json.loads(json.dumps(key)):
            raise InvalidArgumentError(
                "Its lines were cut from another version of the file, or with other options. --overwrite cuts them "
                "again; corrections of their texts are then lost."
            )
        return True

    def print_next_step(self) -> None:
        if self._folder.page.exists():
            emit(f"correct the texts in a browser: {self._folder.page}", self._messages)

    def _without_repeats(self, frames: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        """Return the lines without those that were already in the previous frame, and delete their pictures."""
        new_rows = []
        for previous, rows in pairwise([[], *frames]):
            new_rows.append([row for row in rows if not any(_is_same_line(row, other) for other in previous)])
            for row in rows:
                if row not in new_rows[-1]:
                    self._folder.delete_picture(row)
        return new_rows


def _is_same_line(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    from ..ocr.utils._scores import box_iou
    from ..ocr.utils.geometry import box_around

    if row["text"] != other["text"]:
        return False
    box, other_box = (box_around(line["box"])[None] for line in (row, other))
    return bool(box_iou(box, other_box)[0, 0] >= _SAME_PLACE_IOU)


def _state_file(task: Task) -> Path:
    return ProgressStore.path(task) if task.is_video else PageStore.path(task)


def _give_images(document: Document, images: PageImages | None, store: PageStore) -> None:
    """Attach an image to each page, for the PDF output.

    Some pages are stored as PDF files, which already contain their text. Such a page is replaced by its file, and its
    blocks are removed so that they are not written twice. Without ``images``, pages that are not stored are blank.
    """
    from ..ocr.io import DocumentFile, Pages
    from ..ocr.io._documents.pages import PageOfFile

    for page in document.pages:
        file = None if page.error is not None else store.pdf(page.page_idx)
        if file is not None:
            page.page = PageOfFile(DocumentFile.from_pdf(file), 0)
            page.blocks, page.tables = [], []
        elif isinstance(images, Pages):
            page.page = PageOfFile(images, page.page_idx, is_readable=page.error is None)


def _document(store: PageStore, numbers: Iterable[int], failures: dict[int, str]) -> Document:
    """Build a document from stored pages. A page that failed is empty, and its ``error`` has the reason."""
    from ..ocr.io import Document, Page

    image = np.zeros((0, 0, 3), np.uint8)
    pages = [
        Page(image, [], number, (0, 0), error=failures[number])
        if number in failures
        else Page.from_dict(store.get(number))
        for number in numbers
    ]
    return Document(pages)
