"""Inputs and outputs of ``mediatensor ocr``: select files and pages, and write documents in each format."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from .._engine.common.devices import checked_device
from .._engine.common.locks import cached_property
from .._engine.common.messages import clock, counted, json_bytes
from .._engine.images.formats import NUM_SNIFFED_BYTES, sniff
from .._engine.sources.source import remote_version
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, MediaTensorError, OpenError, OutOfRangeError
from ._arguments import FORMATS, VIDEO_FORMATS, PageRanges, grid_frames
from ._console import STANDARD, StopError, emit, emit_error, error_text, output_stems, shown_name, unexpected_error

if TYPE_CHECKING:
    from ..ocr.io import Document

_SUFFIXES = {
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff", ".webp",
}  # fmt: skip

# Files of these formats may be animations. They are read as pages, or as videos if a video format is requested.
_ANIMATED_SUFFIXES = {".avif", ".gif", ".webp"}

_VIDEO_SUFFIXES = {
    ".3gp", ".asf", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ogv", ".ts",
    ".webm", ".wmv",
}  # fmt: skip

# File extensions of outputs, for formats whose extension is not their name.
_EXTENSIONS = {"alto": "alto.xml", "chunks": "chunks.jsonl", "pdf": "ocr.pdf"}

_MAX_PAGES_SHOWN = 10

_XHTML = "http://www.w3.org/1999/xhtml"
_BODY = f"{{{_XHTML}}}body"


def load_predictor(make: Callable[[], Any], device: str) -> Any:
    """Make a predictor, and move it to a device. Raise `StopError` if this is not possible."""

    def unusable_device(error: Exception) -> StopError:
        return StopError(f"--device {device} cannot be used: {str(error).partition(chr(10))[0]}")

    try:
        torch_device = checked_device(device)
    except MediaTensorError as error:
        raise unusable_device(error) from error
    try:
        predictor = make()
    except MediaTensorError as error:
        raise StopError(str(error)) from error
    try:
        return predictor.to(torch_device)
    except RuntimeError as error:  # out of memory on the device
        raise unusable_device(error) from error


class PageImages(Protocol):
    """A sequence of page images. An image is loaded when it is accessed."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        """Return the page as RGB (H, W, 3)."""


@dataclass(frozen=True)
class OpenPages:
    """An open document. If its pages are frames of a video, ``times`` is a dict from page index to time in seconds."""

    images: PageImages
    times: Mapping[int, float] = field(default_factory=dict)
    dpi: float = 144.0


class _Frames:
    def __init__(self, decoder: VideoDecoder, indices: Sequence[int]) -> None:
        self._decoder = decoder
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self._decoder.get_frame_at(self._indices[index]).data.numpy()
        return pixels


@contextmanager
def open_pages(file: str, args: argparse.Namespace) -> Iterator[OpenPages]:
    """Open a PDF file or an image or, with ``--every``, a video whose frames at this interval are the pages."""
    if args.every is not None:
        with VideoDecoder(file, dimension_order="NHWC") as decoder:
            index = decoder.frame_index
            indices = grid_frames(index, index.begin_seconds, index.end_seconds, args.every, None)
            seconds = index.pts_seconds[indices].tolist()
            yield OpenPages(_Frames(decoder, indices), dict(enumerate(seconds)))
        return
    from ..ocr.io import DocumentFile

    options: dict[str, Any] = {} if args.password is None else {"password": args.password}
    if _is_pdf(file):
        from ..ocr.io._documents.pdf import DEFAULT_TIMEOUT_SECONDS

        options["timeout_seconds"] = args.page_timeout or DEFAULT_TIMEOUT_SECONDS
        yield OpenPages(DocumentFile.from_pdf(file, dpi=args.dpi, **options), dpi=args.dpi)
        return
    try:
        images = DocumentFile.from_images(file)
    except OpenError as error:
        if not error._is_not_image:  # the file is missing, empty or out of reach
            raise
        raise OpenError(
            f"{error} PDF files can be read as well, and frames of a video with --every SECONDS."
        ) from error
    yield OpenPages(images)


def _is_pdf(file: str) -> bool:
    if "://" in file:
        return urlsplit(file).path.lower().endswith(".pdf")
    if not os.path.isfile(file):
        return False  # opening the file later raises the error
    from ..ocr.io._documents.pdfium import is_pdf

    return is_pdf(file)


@dataclass(frozen=True)
class Task:
    """A document or a video to read, and the files to write from it.

    Attributes:
        source: A path or a URL; ``-`` means standard input.
        folder: The folder of the outputs.
        stem: The name of each output without its suffix.
        formats: The formats to write; see `FORMATS` and `VIDEO_FORMATS`.
        is_video: Whether to read ``source`` as a video, in which text is tracked over time. Otherwise pages are read.
    """

    source: str
    folder: Path
    stem: str
    formats: tuple[str, ...] = ("txt",)
    is_video: bool = False

    @cached_property
    def remote_version(self) -> str | None:
        """The version of a file behind a URL; ``None`` if its server states none, and for all other sources."""
        return remote_version(self.source) if "://" in self.source else None

    def output(self, kind: str) -> Path:
        return self.folder / f"{self.stem}.{_EXTENSIONS.get(kind, kind)}"

    @property
    def work_folder(self) -> Path:
        """The hidden folder that stores pages, or the progress in a video, until everything has been read."""
        return self.folder / f".{self.stem}.pages"

    def overlay(self, number: int) -> Path:
        return self.folder / f"{self.stem}.page{number + 1:04d}.png"


def find_files(arguments: Sequence[str], outputs_in: Callable[[Path], Container[Path]]) -> list[str]:
    """Return the files to read. A folder in ``arguments`` stands for all images and PDF files in it, sorted by name.

    Files that ``ocr`` itself has written are left out, and counted in a message; ``outputs_in`` returns these files for
    a folder.

    Raises:
        InvalidArgumentError: if a folder has no images or PDF files.
    """
    files: list[str] = []
    for argument in arguments:
        if "://" in argument or not os.path.isdir(argument):
            files.append(argument)
            continue
        outputs = outputs_in(Path(argument))
        readable = sorted(
            path for path in Path(argument).iterdir() if path.suffix.lower() in _SUFFIXES and not path.is_dir()
        )
        inside = [path for path in readable if path not in outputs]
        if len(inside) < len(readable):
            left_out = counted(len(readable) - len(inside), "earlier output")
            emit(f"{shown_name(argument)}: left out {left_out} of ocr; to read such a file, name it", "stderr")
        if not inside:
            raise InvalidArgumentError(f"There are no images and no PDF files in the folder {argument!r}.")
        files += map(str, inside)
    return list(dict.fromkeys(files))


def plan_tasks(files: Sequence[str], folder: Path, formats: Sequence[str], every: float | None) -> list[Task]:
    """Make a task for each file. Outputs are named after their file; if names are equal, numbers are added.

    >>> from pathlib import Path
    >>> tasks = plan_tasks(["a/scan.pdf", "scan.png", "x.mp4"], Path("out"), [], None)
    >>> [task.output(task.formats[0]).as_posix() for task in tasks]
    ['out/scan.txt', 'out/scan.2.txt', 'out/x.srt']

    By default, documents are written as text and videos as SubRip. With ``every``, videos are read as documents.

    Raises:
        InvalidArgumentError: if a document or a video cannot be written in one of ``formats``.
    """
    tasks = []
    for file, stem in zip(files, output_stems(files), strict=True):
        is_video = every is None and (
            _suffix(file) in _VIDEO_SUFFIXES or not (set(formats) <= set(FORMATS) or _is_document(file))
        )
        accepted_formats = VIDEO_FORMATS if is_video else FORMATS
        for name in formats:
            if name not in accepted_formats:
                hint = "; frames of it are read as pages with --every SECONDS" if is_video else ""
                what = "the text of a video" if is_video else "a document"
                raise InvalidArgumentError(
                    f"{shown_name(file)}: {what} is written as {', '.join(accepted_formats)}, not as {name}{hint}."
                )
        tasks.append(Task(file, folder, stem, tuple(formats) or ("srt" if is_video else "txt",), is_video))
    return tasks


# Options of `ocr` that have an effect only on some kinds of files.
_VIDEO_OPTIONS = ("kinds", "region", "languages")
# Options that affect only outputs of documents, not the lines of --export-lines.
_DOCUMENT_OPTIONS = (
    "layout", "tables", "join_tables", "values", "fields", "keep_look", "overlay", "redact", "redact_pattern",
    "redact_region",
)  # fmt: skip
_PAGE_OPTIONS = ("pages", "rotated", "straighten", *_DOCUMENT_OPTIONS)
# Formats in which --join-tables joins tables. In other formats, each cell has a position on its own page.
JOINED_FORMATS = ("csv", "xlsx", "md", "adoc", "html")
_PDF_OPTIONS = ("dpi", "password", "page_timeout", "text_layer")


def check_options(args: argparse.Namespace, tasks: Sequence[Task]) -> None:
    """Raise an error if an option is given that has no effect on any of the files."""
    pages = "read as pages" if args.every is None else "read as pages because of --every"
    video = "a video (--every SECONDS reads its frames as pages)"
    first = tasks[0].source
    has_pdf = args.every is None and any(_may_be_pdf(task.source) for task in tasks)
    document = next((task.source for task in tasks if _is_document(task.source)), None)
    # For each group of options: a file for which they have no effect; None if they have an effect on some file.
    for names, purpose, file, kind in (
        (_VIDEO_OPTIONS, "videos", None if any(task.is_video for task in tasks) else first, pages),
        (_PAGE_OPTIONS, "images and PDF files", first if all(task.is_video for task in tasks) else None, video),
        (_PDF_OPTIONS, "PDF files", None if has_pdf else first, "not one"),
        (("every",), "videos", document, "an image or a PDF file"),
    ):
        given = _given_options(args, names)
        if given and file is not None:
            raise InvalidArgumentError(f"{given[0]} is for {purpose}, and {shown_name(file)} is {kind}: leave it out.")
    documents = [task.formats for task in tasks if not task.is_video]
    for option, is_given, kind, purpose in (
        ("--keep-look", args.keep_look, "txt", "text"),
        ("--values", args.values, "csv", "csv"),
    ):
        lacking = next((formats for formats in documents if kind not in formats), None)
        if is_given and lacking is not None:
            raise InvalidArgumentError(
                f"{option} is for {purpose}, and the output is {','.join(lacking)}; add --format {kind}."
            )
    if args.join_tables:
        _check_tables_are_joined(args, {name for formats in documents for name in formats})


def refuse_document_options(args: argparse.Namespace) -> None:
    refused = _given_options(args, ("format", *_DOCUMENT_OPTIONS, "text_layer", "output"))
    if refused:
        raise InvalidArgumentError(
            f"--export-lines writes lines instead of documents: leave out {', '.join(refused)}, or run ocr twice."
        )


def _given_options(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the options among ``names``, in the words of the command, that do not have their default value."""
    given = [name for name in names if getattr(args, name) != args.parser.get_default(name)]
    return ["-o" if name == "output" else f"--{name.replace('_', '-')}" for name in given]


def _check_tables_are_joined(args: argparse.Namespace, formats: set[str]) -> None:
    if not formats & set(JOINED_FORMATS):
        raise InvalidArgumentError(
            f"--join-tables is for {', '.join(JOINED_FORMATS)}, and the output is {', '.join(sorted(formats))}: add "
            "--format csv, or leave it out."
        )
    if not args.tables and not formats & {"csv", "xlsx"}:
        raise InvalidArgumentError("--join-tables has no effect, because tables are not looked for: add --tables.")


def _may_be_pdf(file: str) -> bool:
    return file == STANDARD or "://" in file or not os.path.isfile(file) or _is_pdf(file)


def existing_overlays(tasks: Sequence[Task]) -> dict[Path, Task]:
    """Find existing files with the name of an overlay picture, ignoring case. Return a dict from file to task."""
    task_of = {task.stem.casefold(): task for task in tasks}
    overlays = {}
    for folder in {task.folder for task in tasks}:
        try:
            names = sorted(os.listdir(folder))
        except OSError:  # the folder does not exist yet
            continue
        for name in names:
            match = re.fullmatch(r"(.*)\.page\d{4,}\.png", name, re.IGNORECASE | re.DOTALL)
            if match is not None and (task := task_of.get(match[1].casefold())) is not None:
                overlays[folder / name] = task
    return overlays


def _suffix(file: str) -> str:
    return os.path.splitext(urlsplit(file).path if "://" in file else file)[1].lower()


def _is_document(file: str) -> bool:
    """Return whether a file is a PDF file or a still image. If its content cannot be read, its suffix decides."""
    if "://" in file or not os.path.isfile(file):
        return _suffix(file) in _SUFFIXES - _ANIMATED_SUFFIXES
    with suppress(OSError), open(file, "rb") as opened:
        beginning = opened.read(NUM_SNIFFED_BYTES)
        kind = sniff(beginning)
        if kind is not None:
            return f".{kind}" not in _ANIMATED_SUFFIXES
        from ..ocr.io._documents.images import is_tiff

        return is_tiff(beginning) or _is_pdf(file)
    return False


def choose_pages(ranges: PageRanges | None, num_pages: int) -> list[int]:
    """Return the page indices, counted from 0, that ``ranges`` (counted from 1) select. Duplicates are left out."""
    if ranges is None:
        return list(range(num_pages))
    chosen: list[int] = []
    for first, last in ranges:
        stop = num_pages if last is None else last
        if max(first, stop) > num_pages:
            raise OutOfRangeError(f"There is no page {max(first, stop)}: the document has {num_pages}.")
        chosen += range(first - 1, stop)
    return list(dict.fromkeys(chosen))


def write_each(kinds: Iterable[str], write: Callable[[str], None], name: str) -> list[Exception]:
    """Call ``write`` for each format in ``kinds``. Print and return the errors; each message starts with ``name``."""
    failures: list[Exception] = []
    for kind in kinds:
        try:
            write(kind)
        except (StopError, BrokenPipeError):
            raise
        except Exception as error:
            is_known = isinstance(error, (MediaTensorError, OSError))
            emit_error(f"{name}: {kind} was not written: {error_text(error) if is_known else unexpected_error(error)}")
            failures.append(error)
    return failures


def export_document(
    document: Document, kind: str, name: str, times: Mapping[int, float], *, keep_look: bool, values: bool
) -> str | bytes:
    """Export a document in a format. ``kind`` is one of `FORMATS`.

    Pages need ``page_idx`` and, for ``"pdf"``, their images. ``name`` is the title in formats that have one. For a
    video, ``times`` is a dict from page index to seconds. With ``keep_look``, plain text keeps the layout of the pages.
    With ``values``, CSV has numbers and dates as plain values.
    """
    match kind:
        case "txt" if times:
            shown = [(times[page.page_idx], page.render(layout=keep_look)) for page in document.pages]
            return "\n\n".join(f"[{clock(seconds)}]\n{text}".rstrip() for seconds, text in shown) + "\n"
        case "txt":
            return f"{document.render(layout=keep_look)}\n"
        case "json":
            contents = document.export()
            for page in contents["pages"]:
                if page["page_idx"] in times:
                    page["pts_seconds"] = times[page["page_idx"]]
            return json_bytes(contents, indent=1) + b"\n"
        case "md" | "adoc":
            return f"{document.export_as(kind)}\n"
        case "chunks":
            return b"".join(json_bytes(asdict(chunk)) + b"\n" for chunk in document.chunks())
        case "csv":
            return document.export_as_csv(values=values)
        case "html":
            title = escape(name)
            head = f'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n</head>\n'
            return f"{head}<body>\n{document.export_as_html()}\n</body>\n</html>\n"
        case "hocr":
            return merge_hocr([content for content, _ in document.export_as_xml(file_title=name)])
        case "alto":
            content, _ = document.export_as_alto(file_name=name)
            return content
        case _:
            exported: str | bytes = document.export_as(kind)
            return exported


def page_notices(document: Document) -> list[str]:
    notices = []
    turns = {page.page_idx + 1: page.orientation.get("value") for page in document.pages}
    shown = [f"{number} ({turn} degrees)" for number, turn in turns.items() if turn]
    if shown:
        notices.append(f"{counted(len(shown), 'page')} rotated, and read in the right direction: {_join_first(shown)}")
    unread = [(page.page_idx + 1, line) for page in document.pages for line in page.unread]
    names = sorted({line.script for _, line in unread if line.script is not None})
    reasons_of = {
        f"in a script that cannot be read ({', '.join(names)})": {"script"},
        "found but not read": {"no text", "low confidence"},
        "read with gaps": {"gaps"},
    }
    for problem, reasons in reasons_of.items():
        numbers = [number for number, line in unread if line.reason in reasons]
        if numbers:
            pages = [str(number) for number in dict.fromkeys(numbers)]
            num_lines = counted(len(numbers), "line")
            notices.append(f"warning: {num_lines} {problem}, on page{'s' * (len(pages) > 1)} {_join_first(pages)}")
    return notices


def _join_first(names: list[str]) -> str:
    return ", ".join([*names[:_MAX_PAGES_SHOWN], *(["..."] if len(names) > _MAX_PAGES_SHOWN else [])])


def merge_hocr(pages: Sequence[bytes]) -> bytes:
    """Merge hOCR files, which have one page each, to a single file.

    From the second page on, each element's identifier gets the page's identifier as a prefix, to keep it unique.
    """
    ElementTree.register_namespace("", _XHTML)
    root = ElementTree.fromstring(pages[0])
    (body,) = root.iter(_BODY)
    for content in pages[1:]:
        (other_body,) = ElementTree.fromstring(content).iter(_BODY)
        for page in other_body:
            for element in page.iter():
                if element is not page and "id" in element.attrib:
                    element.set("id", f"{page.get('id')}_{element.get('id')}")
            body.append(page)
    merged: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return merged + b"\n"
