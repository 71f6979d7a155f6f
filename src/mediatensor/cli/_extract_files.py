"""What all parts of `extract` share: ranges of time, names of files, and care for files that are there."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ..errors import InvalidArgumentError
from ._console import STANDARD

__all__ = ["Job", "TimeRange", "output_stem", "output_stems", "prepare_folder"]

_MAX_STEM_LENGTH = 100


class TimeRange(NamedTuple):
    """Seconds [start, stop); ``None`` is the begin or the end of the stream."""

    start: float | None
    stop: float | None


class Job(ABC):
    """One kind of thing to extract; it has opened its stream."""

    @abstractmethod
    def outputs(self) -> Sequence[Path]:
        """The files that will be written."""

    @abstractmethod
    def write(self) -> str:
        """Write them.

        Returns:
            A sentence about what was written.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the stream."""


def output_stem(file: str) -> str:
    """What the names of extracted files begin with: the name of the file or URL, without its extension.

    >>> output_stem("videos/my talk.mp4"), output_stem("https://example.org/a/clip.webm?token=1"), output_stem("-")
    ('my talk', 'clip', 'stdin')
    """
    if file == STANDARD:
        return "stdin"
    path = urlsplit(file).path if "://" in file else file
    stem = os.path.splitext(os.path.basename(path))[0]
    kept = re.sub(r"[^\w .,()+=@~\[\]-]", "_", stem).strip(" .")[:_MAX_STEM_LENGTH]
    return kept or "media"


def output_stems(files: Sequence[str]) -> list[str]:
    """`output_stem` of each file, with a number where several have the same.

    >>> output_stems(["a/talk.mp4", "talk.mkv", "x.mp4"])
    ['talk', 'talk.2', 'x']
    """
    seen: Counter[str] = Counter()
    stems = []
    for file in files:
        stem = output_stem(file)
        seen[stem] += 1
        stems.append(stem if seen[stem] == 1 else f"{stem}.{seen[stem]}")
    return stems


def prepare_folder(folder: Path, outputs: Sequence[Path], source: str, *, force: bool) -> None:
    """Make the folder, after looking that nothing would be lost in it.

    Raises:
        InvalidArgumentError: if one of the files is there and ``force`` is not set, or is the source itself.
        OSError: if the folder cannot be made.
    """
    taken = [path for path in outputs if os.path.lexists(path)]
    for path in taken:
        if os.path.exists(source) and path.exists() and path.samefile(source):
            raise InvalidArgumentError(f"{str(path)!r} is the file that is read; choose another folder with -o.")
    if taken and not force:
        others = f" (and {len(taken) - 1} more)" if len(taken) > 1 else ""
        raise InvalidArgumentError(f"{str(taken[0])!r} exists already{others}; --force replaces what is there.")
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"The output must be a folder, and {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
