"""Files of `mediatensor ocr`: what is read, what is written, and what an interrupted run keeps."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO
from urllib.parse import urlsplit
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.plain_values import json_bytes
from ..._engine.images.formats import NUM_SNIFFED_BYTES, sniff
from ..._engine.sources.atomic_files import write_file
from ..._engine.sources.output_files import check_outputs
from ...decoders import VideoDecoder
from ...errors import (
    InvalidArgumentError,
    MediaTensorError,
    OpenError,
    OutOfRangeError,
    ReadError,
    SourceNotFoundError,
    WriteError,
)
from .._console import text as _text
from .._console.arguments import FORMATS, VIDEO_FORMATS, PageRanges, grid_frames
from .._console.output import (
    STANDARD,
    StopError,
    emit,
    emit_error,
    error_text,
    output_stems,
    progress,
    shown_name,
    unexpected_error,
)

if TYPE_CHECKING:
    from ...ocr.io import Document

__all__ = [
    "OpenPages",
    "PageImages",
    "PageStore",
    "Record",
    "Task",
    "WrittenOutputs",
    "choose_pages",
    "existing_overlays",
    "find_files",
    "merge_hocr",
    "open_pages",
    "plan_tasks",
    "read_missing",
    "source_key",
    "write_document",
    "write_each",
]


class PageImages(Protocol):
    """Pages that are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        """(H, W, 3) RGB."""


@dataclass(frozen=True)
class OpenPages:
    """A document that is open.

    Attributes:
        images: Its pages.
        times: Seconds by page index, where the pages are frames of a video.
        dpi: Pixels to an inch of paper.
    """

    images: PageImages
    times: Mapping[int, float] = field(default_factory=dict)
    dpi: float = 144.0


class _Frames:
    """Frames of a video as pages."""

    def __init__(self, decoder: VideoDecoder, indices: Sequence[int]) -> None:
        self._decoder = decoder
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self._decoder.get_frame_at(self._indices[index]).data.numpy()
        return pixels


@contextmanager
def open_pages(
    file: str,
    dpi: float,
    password: str | None = None,
    every_seconds: float | None = None,
    timeout_seconds: float | None = None,
) -> Iterator[OpenPages]:
    """Open a document.

    Args:
        file: A path or a URL.
        dpi: Pixels per inch of the pages of a PDF file.
        password: The password of a PDF file.
        every_seconds: ``file`` is a video, and its pages are frames at this distance, from the begin on.
        timeout_seconds: Most seconds for a page of a PDF file; by default that of datasets.

    Raises:
        MediaTensorError: if it cannot be opened.
    """
    if every_seconds is not None:
        with VideoDecoder(file, dimension_order="NHWC") as decoder:
            index = decoder.frame_index
            indices = grid_frames(index, index.begin_seconds, index.end_seconds, every_seconds, None)
            seconds = index.pts_seconds[indices].tolist()
            yield OpenPages(_Frames(decoder, indices), dict(enumerate(seconds)))
        return
    from ...ocr.io import DocumentFile

    options: dict[str, Any] = {} if password is None else {"password": password}
    if _is_pdf(file):
        from ...ocr.io._documents.pdf_process import DEFAULT_TIMEOUT_SECONDS

        options["timeout_seconds"] = timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        yield OpenPages(DocumentFile.from_pdf(file, dpi=dpi, **options), dpi=dpi)
        return
    try:
        images = DocumentFile.from_images(file)
    except SourceNotFoundError:
        raise
    except OpenError as error:
        raise OpenError(f"{error} PDF files are read, too, and frames of a video with --every SECONDS.") from error
    yield OpenPages(images)


def _is_pdf(file: str) -> bool:
    if "://" in file:
        return urlsplit(file).path.lower().endswith(".pdf")
    if not os.path.isfile(file):
        return False  # opening it will say why
    from ...ocr.io._documents.pdfium import is_pdf

    return is_pdf(file)


_SUFFIXES = {
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff", ".webp",
}  # fmt: skip


# Animations are read as documents of pages, or as videos if a format for these is asked for.
_ANIMATED_SUFFIXES = {".avif", ".gif", ".webp"}


_VIDEO_SUFFIXES = {
    ".3gp", ".asf", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ogv", ".ts",
    ".webm", ".wmv",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A document or a video to read.

    Attributes:
        source: A path or a URL; ``-`` is standard input.
        folder: The folder of its outputs.
        stem: The begin of the names of its outputs.
        formats: The formats of its outputs.
        is_video: Whether its text is read with its times, and not as pages.
    """

    source: str
    folder: Path
    stem: str
    formats: tuple[str, ...] = ("txt",)
    is_video: bool = False

    def output(self, kind: str) -> Path:
        """The output in a format, by the name of the format."""
        return self.folder / f"{self.stem}{(FORMATS | VIDEO_FORMATS)[kind]}"

    @property
    def work_folder(self) -> Path:
        """Where pages are kept until all are read."""
        return self.folder / f".{self.stem}.pages"

    def overlay(self, number: int) -> Path:
        """The picture of page ``number``, from 0, with what was found on it."""
        return self.folder / f"{self.stem}.page{number + 1:04d}.png"


def find_files(arguments: Sequence[str]) -> list[str]:
    """Files and URLs as they are, and in place of each folder the images and PDF files in it, by name.

    Raises:
        InvalidArgumentError: if there is none in a folder.
    """
    found: list[str] = []
    for argument in arguments:
        if "://" in argument or not os.path.isdir(argument):
            found.append(argument)
            continue
        inside = sorted(path for path in Path(argument).iterdir() if path.suffix.lower() in _SUFFIXES)
        if not inside:
            raise InvalidArgumentError(f"There are no images and no PDF files in the folder {argument!r}.")
        found += map(str, inside)
    return list(dict.fromkeys(found))


def plan_tasks(files: Sequence[str], folder: Path, formats: Sequence[str], every: float | None) -> list[Task]:
    """A task for each file; its outputs have the name of the file, with a number where several have the same.

    >>> from pathlib import Path
    >>> tasks = plan_tasks(["a/scan.pdf", "scan.png", "x.mp4"], Path("out"), [], None)
    >>> [task.output(task.formats[0]).as_posix() for task in tasks]
    ['out/scan.txt', 'out/scan.2.txt', 'out/x.srt']

    Args:
        files: What is read.
        folder: The folder of the outputs.
        formats: Those that are asked for; text of documents and SubRip of videos by default.
        every: Videos are read as pages, at this distance.

    Raises:
        InvalidArgumentError: if a format is not for what is read.
    """
    tasks = []
    for file, stem in zip(files, output_stems(files), strict=True):
        is_video = every is None and (
            _has_video_suffix(file) or not (set(formats) <= set(FORMATS) or _is_document(file))
        )
        known = VIDEO_FORMATS if is_video else FORMATS
        for name in formats:
            if name not in known:
                hint = "; frames of it are read as pages with --every SECONDS" if is_video else ""
                what = "the text of a video" if is_video else "a document"
                raise InvalidArgumentError(
                    f"{shown_name(file)}: {what} is written as {', '.join(known)}, not as {name}{hint}."
                )
        tasks.append(Task(file, folder, stem, tuple(formats) or ("srt" if is_video else "txt",), is_video))
    return tasks


def existing_overlays(tasks: Sequence[Task]) -> dict[Path, Task]:
    """Return the pictures of pages that exist under the names of the tasks' pictures, in any case."""
    task_of = {task.stem.casefold(): task for task in tasks}
    found = {}
    for folder in {task.folder for task in tasks}:
        try:
            names = sorted(os.listdir(folder))
        except OSError:  # there is no such folder yet
            continue
        for name in names:
            match = re.fullmatch(r"(.*)\.page\d{4,}\.png", name, re.IGNORECASE | re.DOTALL)
            if match is not None and (task := task_of.get(match[1].casefold())) is not None:
                found[folder / name] = task
    return found


def _has_video_suffix(file: str) -> bool:
    path = urlsplit(file).path if "://" in file else file
    return os.path.splitext(path)[1].lower() in _VIDEO_SUFFIXES


def _is_document(file: str) -> bool:
    """Whether a file is a PDF file or a still image: by its content, or by its name if it cannot be looked into."""
    if "://" in file or not os.path.isfile(file):
        path = urlsplit(file).path if "://" in file else file
        return os.path.splitext(path)[1].lower() in _SUFFIXES - _ANIMATED_SUFFIXES
    with suppress(OSError), open(file, "rb") as opened:
        beginning = opened.read(NUM_SNIFFED_BYTES)
        kind = sniff(beginning)
        if kind is not None:
            return f".{kind}" not in _ANIMATED_SUFFIXES
        return beginning[:4] in (b"II*\0", b"MM\0*") or _is_pdf(file)
    return False


def choose_pages(ranges: PageRanges | None, num_pages: int) -> list[int]:
    """Indices from 0, each once, in the order in which they are asked for.

    >>> choose_pages(((2, 3), (5, None), (3, 3)), 6), choose_pages(None, 2)
    ([1, 2, 4, 5], [0, 1])

    Raises:
        OutOfRangeError: if a range begins or ends after the last page.
    """
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
    """Write every format. One that fails is reported, and the others are still written.

    Args:
        kinds: Names of formats.
        write: Writes one.
        name: The name of the document, for messages.

    Returns:
        The errors of the formats that could not be written.

    Raises:
        StopError, BrokenPipeError: if nothing more can be written.
    """
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


_XHTML = "http://www.w3.org/1999/xhtml"


def write_document(
    document: Document, kind: str, output: Path, name: str, times: Mapping[int, float], *, keep_look: bool = False
) -> None:
    """Write a document. The file appears whole or not at all.

    Args:
        document: Its pages know their index.
        kind: A key of `FORMATS`; for ``"pdf"`` the pages have their images.
        output: The file.
        name: The name of the document, for titles.
        times: Seconds by page index, where the pages are frames of a video.
        keep_look: Whether plain text keeps the look of the pages.
    """
    data = _plain_text(document, times, keep_look) if kind == "txt" else _exported(document, kind, name, times)
    # A title can be the name of a file in another encoding.
    write_file(output, data if isinstance(data, bytes) else data.encode(errors="replace"))


def _exported(document: Document, kind: str, name: str, times: Mapping[int, float]) -> str | bytes:
    match kind:
        case "json":
            return _json(document, times)
        case "md":
            return f"{document.export_as_markdown()}\n"
        case "adoc":
            return f"{document.export_as_asciidoc()}\n"
        case "csv":
            return document.export_as_csv()
        case "xlsx":
            return document.export_as_xlsx()
        case "html":
            title = escape(name)
            head = f'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n</head>\n'
            return f"{head}<body>\n{document.export_as_html()}\n</body>\n</html>\n"
        case "hocr":
            return merge_hocr([content for content, _ in document.export_as_xml(file_title=name)])
        case "alto":
            content, _ = document.export_as_alto(file_name=name)
            return content
        case "pdf":
            return document.export_as_pdf()
        case _:
            return document.export_as_tsv()


def _json(document: Document, times: Mapping[int, float]) -> bytes:
    exported: dict[str, Any] = document.export()
    for page in exported["pages"]:
        if page["page_idx"] in times:
            page["pts_seconds"] = times[page["page_idx"]]
    return json_bytes(exported, indent=1) + b"\n"


def _plain_text(document: Document, times: Mapping[int, float], keep_look: bool) -> str:
    if not times:
        return f"{document.render(layout=keep_look)}\n"
    shown = [(times[page.page_idx], page.render(layout=keep_look)) for page in document.pages]
    texts = [f"[{_text.clock(seconds)}]\n{text}".rstrip() for seconds, text in shown]
    return "\n\n".join(texts) + "\n"


def merge_hocr(pages: Sequence[bytes]) -> bytes:
    """One hOCR file with all pages; what is inside a page gets names that begin with that of the page.

    Args:
        pages: A file each, at least one.
    """
    ElementTree.register_namespace("", _XHTML)
    root = ElementTree.fromstring(pages[0])
    body = _body(root)
    for content in pages[1:]:
        for page in _body(ElementTree.fromstring(content)):
            for element in page.iter():
                if element is not page and "id" in element.attrib:
                    element.set("id", f"{page.get('id')}_{element.get('id')}")
            body.append(page)
    merged: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return merged + b"\n"


def _body(root: ElementTree.Element) -> ElementTree.Element:
    body = root.find(f"{{{_XHTML}}}body")
    if body is None:
        raise ValueError("an hOCR file has a body")
    return body


_KEY_FILE = "key.json"


class PageStore:
    """Pages by index, each in one or two files. A page is stored whole or not at all.

    Nothing is written before the first page is put, or the folder is claimed.

    Args:
        folder: Where they are kept.
        key: The source and the options that the pages depend on. Pages that were kept for another key are deleted.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._folder = folder
        # Another run of the same document may complete it first and clear the folder: the pages of this run.
        self._own: dict[int, dict[str, Any]] = {}
        self._key = json.dumps(key, sort_keys=True)
        try:
            is_ours = (folder / _KEY_FILE).read_text(encoding="utf-8") == self._key
        except (OSError, UnicodeDecodeError):
            is_ours = False
        if not is_ours:
            self.clear()

    def __contains__(self, number: int) -> bool:
        return self._page(number).exists()

    def claim(self) -> None:
        """Note the source, so that files that are written of a page before it is put count as its own."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
        if not (self._folder / _KEY_FILE).exists():
            write_file(self._folder / _KEY_FILE, self._key.encode())

    def put(self, number: int, page: dict[str, Any], pdf: bytes | None = None) -> None:
        """Keep a page, and with it the PDF file of that page."""
        self.claim()
        if pdf is not None:
            write_file(self.pdf(number), pdf)
        self._own[number] = page
        write_file(self._page(number), json.dumps(page).encode())

    def get(self, number: int) -> dict[str, Any]:
        """A page that was put.

        Raises:
            ReadError: if another run removed it.
        """
        if number in self._own:
            return self._own[number]
        try:
            page: dict[str, Any] = json.loads(self._page(number).read_bytes())
        except FileNotFoundError as error:
            raise ReadError(
                f"Page {number + 1}, which an earlier run had read, is gone: another run works on this document in the "
                "same folder. Run it again."
            ) from error
        return page

    def pdf(self, number: int) -> Path:
        """The PDF file that was put with a page."""
        return self._folder / f"{number:08d}.pdf"

    @staticmethod
    def is_of_source(folder: Path, source: str) -> bool:
        """Return whether a folder has pages of a source."""
        try:
            return bool(json.loads((folder / _KEY_FILE).read_bytes())["source"] == source)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def clear(self) -> None:
        """Delete everything."""
        if self._folder.is_dir():
            for path in [self._folder / _KEY_FILE, *self._folder.glob("*.json"), *self._folder.glob("*.pdf")]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it has other files in it: keep it
                self._folder.rmdir()

    def _page(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"


def read_missing(
    task: Task,
    numbers: Sequence[int],
    store: PageStore,
    load: Callable[[], None],
    read: Callable[[int], None],
    describe: Callable[[str, int, Exception], str],
) -> dict[int, str]:
    """Read the pages of a document that are not kept yet, under a bar.

    Args:
        task: The document.
        numbers: The pages, from 0.
        store: Those that are kept.
        load: Loads the models, if there is a page to read.
        read: Reads a page and keeps it.
        describe: Gives the message for a page that failed: of the document, the page and the error.

    Returns:
        The messages of the pages that failed.

    Raises:
        StopError: if a page cannot be kept, as on a full disk: all further pages would be read for nothing.
    """
    missing = [number for number in numbers if number not in store]
    if missing:
        load()
    failures = {}
    for number in progress(missing, _text.shorten(os.path.basename(task.source), 30), unit="page"):
        try:
            read(number)
        except WriteError as error:
            name = shown_name(os.path.basename(task.source))
            raise StopError(
                f"stopped at {name}, page {number + 1}, which was read and cannot be kept: {error}"
            ) from error
        except (MediaTensorError, OSError) as error:
            failures[number] = describe(shown_name(task.source), number, error)
    return failures


class Record:
    """A hidden file with a line of JSON for each thing in a folder that is complete.

    Lines are only ever added, and the last one of a thing counts, so that several programs may write into one folder.

    Args:
        path: The file.
        name: The key of an entry under which its name stands.
        fold: Makes names equal that mean one thing.
    """

    def __init__(self, path: Path, name: str, fold: Callable[[str], str] = str) -> None:
        self._path, self._name, self._fold = path, name, fold
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # a line that was cut off does not count
                entry = json.loads(line)
                self._entries[fold(entry[name])] = entry

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The entry of a thing; empty if there is none."""
        return self._entries.get(self._fold(name), {})

    def add(self, entry: Mapping[str, Any]) -> None:
        """Note a thing that is complete as of now."""
        line = json.dumps(entry)
        with self._path.open("a+b") as file:
            # A line that was cut off, by a kill or a full disk, must not take this one with it.
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = f"\n{line}"
            file.write(f"{line}\n".encode())
        self._entries[self._fold(entry[self._name])] = json.loads(line)


class WrittenOutputs:
    """The record of the complete outputs in a folder: the source and options of each, and its state when written.

    Names that differ only in case count as one.
    """

    def __init__(self, folder: Path) -> None:
        self._record = Record(folder / ".mediatensor-ocr.jsonl", "output", str.casefold)

    def is_of(self, output: str, source: str) -> bool:
        """Return whether an output was made from a source, and is as it was written."""
        entry = self._entry(output)
        return entry.get("state") == _file_state(Path(output)) and entry.get("key", {}).get("source") == source

    def is_own(self, output: str, key: Mapping[str, Any], is_again: bool) -> bool:
        """Return whether an existing output stays, or was made from the same source and may be replaced.

        Args:
            output: The file.
            key: The source and the options.
            is_again: Whether the output is made again, because a run for it was interrupted.

        Raises:
            InvalidArgumentError: if it was made from another source, or changed since.
        """
        entry = self._entry(output)
        source = entry.get("key", {}).get("source")
        if source is not None and source != key["source"]:
            raise InvalidArgumentError(
                f"{output!r} exists already, and was made from {shown_name(str(source))}; choose another folder with "
                "-o, or replace it with --overwrite."
            )
        return is_again or self._is_complete(output, key) or entry.get("state") == _file_state(Path(output))

    def missing(
        self, task: Task, key: Mapping[str, Any], messages: TextIO | None, *, is_again: bool = False, overwrite: bool
    ) -> list[str]:
        """Return the formats of a task that must be written, and say which outputs stay because they are complete.

        Args:
            task: The document or video.
            key: Its source and options.
            messages: Where outputs that stay are told.
            is_again: As of `is_own`.
            overwrite: Whether all are written.

        Raises:
            InvalidArgumentError: if a file exists that is not this command's to replace.
        """
        outputs = {kind: task.output(kind) for kind in task.formats}
        check_outputs(
            outputs.values(),
            overwrite=overwrite,
            is_own=lambda _, existing: self.is_own(existing, key, is_again),
            makes_folders=True,
        )
        found = []
        for kind, output in outputs.items():
            if overwrite or is_again or not output.exists() or not self._is_complete(str(output), key):
                found.append(kind)
                continue
            is_as_written = self._entry(str(output)).get("state") == _file_state(output)
            changed = "" if is_as_written else ", and was changed since"
            emit(f"kept {output}: it is complete{changed} (--overwrite reads it again)", messages)
        return found

    def add(self, output: Path, key: Mapping[str, Any]) -> None:
        """Note an output that was written just now."""
        self._record.add({"output": output.name, "key": key, "state": _file_state(output)})

    def _is_complete(self, output: str, key: Mapping[str, Any]) -> bool:
        return bool(self._entry(output).get("key") == json.loads(json.dumps(key)))

    def _entry(self, output: str) -> dict[str, Any]:
        return self._record[os.path.basename(output)]


def source_key(source: str, path: str) -> dict[str, Any]:
    """The part of an output's key that is the source, in the state that it is in now."""
    state: list[Any] | None = None
    if source == STANDARD:
        with open(path, "rb") as file:
            state = [hashlib.file_digest(file, "sha256").hexdigest()]
    elif os.path.exists(source):
        status = os.stat(source)
        source, state = os.path.abspath(source), [status.st_size, status.st_mtime_ns]
    return {"source": source, "state": state}


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
