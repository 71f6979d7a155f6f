"""Opening what is read: images, PDF files, and frames of a video."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, OpenError, OutOfRangeError, SourceNotFoundError
from ._console import output_stems
from ._extract_jobs import grid_times
from ._parser import FORMATS, PageRanges

__all__ = ["OpenPages", "PageImages", "Task", "choose_pages", "find_files", "open_pages", "plan_tasks"]


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
            times = grid_times(index.begin_seconds, index.end_seconds, every_seconds, None)
            indices = list(dict.fromkeys(index.frames_played_at(times).tolist()))
            seconds = index.pts_seconds[indices].tolist()
            yield OpenPages(_Frames(decoder, indices), dict(enumerate(seconds)))
        return
    from ..ocr.io import DocumentFile

    options: dict[str, Any] = {} if password is None else {"password": password}
    if _is_pdf(file):
        from ..ocr.io._documents import DEFAULT_TIMEOUT_SECONDS

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
    from ..ocr.io._documents import is_pdf

    return is_pdf(file)


_SUFFIXES = {
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff", ".webp",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A document to read.

    Attributes:
        source: A path or a URL; ``-`` is standard input.
        folder: The folder of its outputs.
        stem: The begin of the names of its outputs.
    """

    source: str
    folder: Path
    stem: str

    def output(self, kind: str) -> Path:
        """The output in a format, by the name of the format."""
        return self.folder / f"{self.stem}{FORMATS[kind]}"

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


def plan_tasks(files: Sequence[str], folder: Path, kinds: Sequence[str]) -> list[Task]:
    """A task for each file; its outputs have the name of the file, with a number where several have the same.

    >>> from pathlib import Path
    >>> tasks = plan_tasks(["a/scan.pdf", "scan.png", "x.png"], Path("out"), ["txt"])
    >>> [task.output("txt").as_posix() for task in tasks]
    ['out/scan.txt', 'out/scan.2.txt', 'out/x.txt']

    Raises:
        InvalidArgumentError: if an output would replace one of the files.
    """
    tasks = [Task(file, folder, stem) for file, stem in zip(files, output_stems(files), strict=True)]
    for output in (task.output(kind) for task in tasks for kind in kinds):
        if any(_is_same(file, output) for file in files):
            raise InvalidArgumentError(f"{str(output)!r} is a file that is read; choose another folder with -o.")
    return tasks


def _is_same(file: str, output: Path) -> bool:
    return output.exists() and os.path.exists(file) and output.samefile(file)


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
