"""``mediatensor ocr``: the text of images, PDF files and videos as files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from .._atomic_files import writing
from .._devices import checked_device
from ..errors import InvalidArgumentError, MediaTensorError, PageError
from . import _text
from ._console import emit, emit_error, progress
from ._ocr_pages import OpenPages, PageImages, open_pages
from ._ocr_plan import FORMATS, Task, choose_pages, find_files, page_ranges, plan_tasks
from ._ocr_store import PageStore
from ._ocr_write import write_document, write_pdf
from ._options import add_folder, positive_number

if TYPE_CHECKING:
    from ..ocr.io import Document

__all__ = ["add_parser"]

_EXIT_ERROR = 2


class ReaderUnusableError(MediaTensorError):
    """There is nothing to read with, so that going on with other pages is useless."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "ocr",
        help="read the text of images, PDF files and videos",
        description=(
            "Read the text in the pixels of images, PDF files, folders of them, or frames of a video, and write a\n"
            "file for each. Pages are read one by one, so that a long document fits in memory. A page that cannot be\n"
            "read is reported, and the others come through. Needs the extra `ocr`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor ocr scan.pdf -o text                        text/scan.txt\n"
            "  mediatensor ocr receipts/ -o read --format json --overlay\n"
            "  mediatensor ocr scan.pdf -o searchable --format pdf --dpi 200 --pages 1-20\n"
            "  mediatensor ocr talk.mp4 -o slides --every 10           the text of a frame each 10 seconds\n"
            "\n"
            "formats: txt, json (as docTR exports it), md, html, hocr, alto, tsv (as tesseract writes it), pdf (the\n"
            "pages with invisible text, to search and to copy from).\n"
            "\n"
            "Run it again to go on where it was stopped: pages that were read are kept in a hidden folder beside the\n"
            "output until the document is complete, and a document that is complete is not read again, unless\n"
            "--overwrite is given. The exit code is 2 if a file or a page could not be read; running again tries\n"
            "those pages anew.\n"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="an image, a PDF file, a folder of these, or a URL")
    add_folder(parser, "read")
    parser.add_argument("--format", choices=tuple(FORMATS), default="txt", help="of the output (default: txt)")
    parser.add_argument(
        "--overlay",
        action="store_true",
        help="write pictures of pages with what was read in them",
    )
    parser.add_argument("--overwrite", action="store_true", help="read again what has been read")
    pages = parser.add_argument_group("pages")
    pages.add_argument("--pages", type=page_ranges, metavar="1-3,7,10-", help="only these, counted from 1")
    pages.add_argument(
        "--dpi", type=positive_number, default=144.0, metavar="N", help="of rendered PDF pages (default: 144)"
    )
    pages.add_argument("--password", metavar="TEXT", help="of PDF files")
    pages.add_argument(
        "--every", type=positive_number, metavar="SECONDS", help="the files are videos; read a frame every so often"
    )
    models = parser.add_argument_group("models")
    models.add_argument("--device", default="cpu", metavar="NAME", help="such as cuda (default: cpu)")
    models.add_argument("--det-arch", metavar="NAME", help="the detector (default: that of ocr_predictor)")
    models.add_argument("--reco-arch", metavar="NAME", help="the recogniser (default: that of ocr_predictor)")
    models.add_argument("--rotated", action="store_true", help="frame turned text with turned boxes")
    models.add_argument("--straighten", action="store_true", help="turn pages upright before they are read")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class ReadingOptions:
    """What is written, and how pages are read; a change makes pages that were kept useless."""

    kind: str
    overlay: bool
    dpi: float
    every_seconds: float | None
    det_arch: str | None
    reco_arch: str | None
    rotated: bool
    straighten: bool


class TextReader:
    """What reads a page; the models are loaded when they are first needed."""

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
        from ..ocr.models import ocr_predictor

        names: dict[str, Any] = {"det_arch": self._options.det_arch, "reco_arch": self._options.reco_arch}
        return ocr_predictor(
            pretrained=True,
            assume_straight_pages=not self._options.rotated,
            straighten_pages=self._options.straighten,
            **{key: name for key, name in names.items() if name is not None},
        )

    def read(self, images: PageImages, number: int) -> Any:
        """The page element of one page.

        Raises:
            MediaTensorError: if it cannot be read.
        """
        page = self._predictor([images[number]]).pages[0]
        if page.error is not None:
            raise PageError(f"Page {number} (counted from 0): {page.error}")
        page.page_idx = number
        return page


def run(args: argparse.Namespace) -> int:
    options = ReadingOptions(
        args.format, args.overlay, args.dpi, args.every, args.det_arch, args.reco_arch, args.rotated, args.straighten
    )
    reader = TextReader(options, args.device)
    tasks = plan_tasks(find_files(args.files), args.output, args.format)
    num_failures = 0
    for task in tasks:
        try:
            num_failures += _read_document(task, args, options, reader)
        except ReaderUnusableError:
            raise
        except (MediaTensorError, OSError) as error:
            emit_error(str(error))
            num_failures += 1
    return _EXIT_ERROR if num_failures else 0


def _read_document(task: Task, args: argparse.Namespace, options: ReadingOptions, reader: TextReader) -> int:
    """Read what is not yet read, write the output, and return how many pages failed."""
    if task.output.is_dir():
        raise InvalidArgumentError(f"The output must be a file, and {str(task.output)!r} is a folder.")
    if task.output.exists() and not task.work_folder.exists() and not args.overwrite:
        emit(f"kept {task.output}: it is complete (--overwrite reads it again)")
        return 0
    with open_pages(task.source, args.dpi, args.password, args.every) as opened:
        numbers = choose_pages(args.pages, len(opened.images))
        store = PageStore(task.work_folder, _key(task.source, options))
        if args.overwrite:
            store.clear()
        left = [number for number in numbers if number not in store]
        if left:
            reader.load()
        failures = {}
        for number in progress(left, _text.shorten(os.path.basename(task.source), 30), unit="page"):
            try:
                _read_page(task, options, reader, opened.images, number, store)
            except (MediaTensorError, OSError) as error:
                failures[number] = _page_failure(task.source, number, error)
    for message in failures.values():
        emit_error(message)
    if len(failures) < len(numbers):
        _write_output(task, options, opened, numbers, store, failures)
    if not failures:
        store.clear()
    return len(failures)


def _key(source: str, options: ReadingOptions) -> dict[str, Any]:
    """What pages that were kept depend on."""
    from .. import __version__

    status = os.stat(source) if os.path.exists(source) else None
    state = None if status is None else [status.st_size, status.st_mtime_ns]
    return {"source": source, "state": state, "options": asdict(options), "version": __version__}


def _read_page(
    task: Task, options: ReadingOptions, reader: TextReader, images: PageImages, number: int, store: PageStore
) -> None:
    from ..ocr.utils.visualization import overlay

    page = reader.read(images, number)
    task.output.parent.mkdir(parents=True, exist_ok=True)
    if options.overlay:
        picture = overlay(page)
        with writing(task.overlay(number)) as file:
            Image.fromarray(picture).save(file, "PNG")
    store.put(number, page.export(reading_order=False), page.export_as_pdf() if options.kind == "pdf" else None)


def _page_failure(source: str, number: int, error: Exception) -> str:
    return str(error) if isinstance(error, PageError) else f"{source}, page {number + 1}: {error}"


def _write_output(
    task: Task,
    options: ReadingOptions,
    opened: OpenPages,
    numbers: list[int],
    store: PageStore,
    failures: dict[int, str],
) -> None:
    document = _document(store, numbers, failures)
    if options.kind == "pdf":
        write_pdf([store.pdf(number) for number in numbers if number not in failures], task.output)
    else:
        write_document(document, options.kind, task.output, os.path.basename(task.source), opened.times)
    num_words = sum(len(line.words) for page in document.pages for block in page.blocks for line in block.lines)
    read = _text.count(len(numbers) - len(failures), "page")
    emit(f"wrote {task.output}: {read}, {_text.count(num_words, 'word')}")


def _document(store: PageStore, numbers: Iterable[int], failures: dict[int, str]) -> Document:
    """The pages that were read, and empty ones with the reason in place of the others."""
    from ..ocr.io import Document, Page

    image = np.zeros((0, 0, 3), np.uint8)
    pages = [
        Page(image, [], number, (0, 0), error=failures[number])
        if number in failures
        else Page.from_dict(store.get(number))
        for number in numbers
    ]
    return Document(pages)
