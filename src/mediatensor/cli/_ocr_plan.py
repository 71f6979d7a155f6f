"""What to read and where it goes: files, names of outputs, numbers of pages. Nothing is read here but folders."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidArgumentError, OutOfRangeError
from ._extract_files import output_stem

__all__ = ["FORMATS", "Task", "choose_pages", "find_files", "page_ranges", "plan_tasks"]

#: Extension of the output by the name of the format.
FORMATS = {
    "txt": ".txt",
    "json": ".json",
    "md": ".md",
    "html": ".html",
    "hocr": ".hocr",
    "alto": ".alto.xml",
    "tsv": ".tsv",
    "pdf": ".ocr.pdf",
}

_SUFFIXES = {
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff", ".webp",
}  # fmt: skip

_MAX_PAGE_NUMBER = 10_000_000

#: Page numbers from 1, first and last; ``None`` is the end of the document.
Ranges = tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Task:
    """A document to read.

    Attributes:
        source: A path or a URL.
        output: The file that gets what was read.
    """

    source: str
    output: Path

    @property
    def work_folder(self) -> Path:
        """Where pages are kept until all are read."""
        return self.output.with_name(f".{self.output.name}.pages")

    def overlay(self, number: int) -> Path:
        """The picture of page ``number``, from 0, with what was found on it."""
        stem = self.output.name
        for suffix in FORMATS.values():
            stem = stem.removesuffix(suffix)
        return self.output.with_name(f"{stem}.page{number + 1:04d}.png")


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


def plan_tasks(files: Sequence[str], folder: Path, kind: str) -> list[Task]:
    """A task for each file; its output has the name of the file, with a number where several have the same.

    >>> from pathlib import Path
    >>> [str(task.output) for task in plan_tasks(["a/scan.pdf", "scan.png", "x.png"], Path("out"), "txt")]
    ['out/scan.txt', 'out/scan.2.txt', 'out/x.txt']

    Raises:
        InvalidArgumentError: if an output would replace one of the files.
    """
    seen: Counter[str] = Counter()
    tasks = []
    for file in files:
        stem = output_stem(file)
        seen[stem] += 1
        name = stem if seen[stem] == 1 else f"{stem}.{seen[stem]}"
        task = Task(file, folder / f"{name}{FORMATS[kind]}")
        if any(_is_same(other, task.output) for other in files):
            raise InvalidArgumentError(f"{str(task.output)!r} is a file that is read; choose another folder with -o.")
        tasks.append(task)
    return tasks


def _is_same(file: str, output: Path) -> bool:
    return output.exists() and os.path.exists(file) and output.samefile(file)


def page_ranges(text: str) -> Ranges:
    """Argument type: page numbers and ranges of them, from 1.

    >>> page_ranges("1-3,7,10-")
    ((1, 3), (7, 7), (10, None))
    """
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,8})(?:(-)(\d{1,8})?)?", part.strip())
        first = int(match[1]) if match else 0
        last = None if match and match[2] and not match[3] else int(match[3] or first) if match else 0
        if first < 1 or (last is not None and not first <= last <= _MAX_PAGE_NUMBER):
            raise argparse.ArgumentTypeError(f"expected page numbers from 1, such as 1-3,7,10- (got {text!r})")
        ranges.append((first, last))
    return tuple(ranges)


def choose_pages(ranges: Ranges | None, num_pages: int) -> list[int]:
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
