"""What to read and where it goes: files, names of outputs, numbers of pages. Nothing is read here but folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidArgumentError, OutOfRangeError
from ._extract_files import output_stems
from ._parser import FORMATS, PageRanges

__all__ = ["Task", "choose_pages", "find_files", "plan_tasks"]

_SUFFIXES = {
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff", ".webp",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A document to read.

    Attributes:
        source: A path or a URL; ``-`` is standard input.
        folder: Where what was read goes.
        stem: What the names of its files begin with.
    """

    source: str
    folder: Path
    stem: str

    def output(self, kind: str) -> Path:
        """The file that gets what was read, in the format of that name."""
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
