"""`export_lines`: pictures of the lines of documents with the texts that a reader proposes, to correct and train on."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from PIL import Image

from ..._engine.common.checks import path_text
from ..._engine.common.messages import progress, warn_user
from ..._engine.common.plain_values import json_bytes
from ..._engine.sources.atomic_files import write_file
from ...errors import InvalidArgumentError, PageError
from ..models import ocr_predictor
from ..models._pages.inputs import page_sources
from ..models.predictor import CutLine
from ..models.predictor.base import TextPredictor
from ._correcting import PAGE_BEGIN, correcting_page

__all__ = ["LineFolder", "export_lines"]

_MOST_CHARACTERS_OF_A_NAME = 100


def export_lines(
    pages: Any, folder: str | os.PathLike[str], reader: TextPredictor | None = None, *, name: str | None = None
) -> Path:
    """Cut out every line that a reader finds, with the text that it proposes, to correct the texts and train on them.

    The folder gets ``images/NAME-0001.png`` and so on, in reading order (``images/NAME-p0002-0001.png`` of documents
    with several pages), and ``lines.jsonl`` with an object for each line: ``file``, ``text``, ``confidence``,
    ``source``, ``page`` (from 1), ``box`` (relative to the page) and, where the reader left the line out of the page's
    text, ``unread`` with the reason. The least certain lines come first. ``correct.html`` shows each picture with a
    field for its text, in any browser. Lines that are in the file already stay as they are: corrections are kept when
    more documents are added, or the same once more.

    Args:
        pages: What a predictor takes: a document, a path, or a list of pages.
        folder: Where the lines go; made if it is not there.
        reader: Reads the pages; by default ``ocr_predictor(pretrained=True)``.
        name: What the pictures are called; by default like the file, or ``"page"``.

    Returns:
        The path of ``lines.jsonl``, as `LineDataset` takes it.

    Raises:
        InvalidArgumentError: if something is no page, or ``lines.jsonl`` has a line that is no object with a file.
        WriteError: if a file cannot be written.
        PageError: if a page cannot be read, and the reader has ``on_error="raise"``; otherwise it is left out, with a
            warning.

    Example:
        >>> import json
        >>> from mediatensor.ocr.training import export_lines
        >>> file = export_lines("page.png", "lines")
        >>> first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
        >>> sorted(first)
        ['box', 'confidence', 'file', 'page', 'source', 'text']
    """
    is_path = isinstance(pages, str | os.PathLike)
    stem = name or (Path(pages).stem if is_path else "page")
    if not stem or len(stem) > _MOST_CHARACTERS_OF_A_NAME or Path(stem).name != stem:
        raise InvalidArgumentError(
            f"name must begin the name of a file, with at most {_MOST_CHARACTERS_OF_A_NAME} characters (got {name!r})."
        )
    sources = page_sources(pages)
    lines = LineFolder(folder)
    reader = ocr_predictor(pretrained=True) if reader is None else reader
    source = os.fspath(pages) if is_path else stem
    for number in progress(range(len(sources)), "pages", unit="page"):
        try:
            found = reader.cut_lines(sources[number])
        except PageError as error:
            if reader.on_error == "raise":
                raise
            warn_user(f"page {number} is left out: {error}")
            continue
        lines.add(lines.write_pictures(found, stem, source, number, has_pages=len(sources) > 1))
    lines.add([])
    return lines.file


class LineFolder:
    """A folder with pictures of lines, and the file of their texts.

    Args:
        folder: The folder, which need not exist.

    Raises:
        InvalidArgumentError: if the file of texts cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(path_text("folder", folder))
        self._added: set[str] = set()
        self._stems: dict[tuple[str, str], str] = {}
        self._known: tuple[list[int] | None, list[dict[str, Any]]] = (None, [])
        self._rows()

    @property
    def file(self) -> Path:
        """The file of texts."""
        return self._folder / "lines.jsonl"

    @property
    def page(self) -> Path:
        """The page on which the texts are corrected."""
        return self._folder / "correct.html"

    def pictures_of(self, documents: Mapping[str, str]) -> dict[Path, str]:
        """Return the pictures that exist under the names that the lines of documents would get, with their documents.

        Args:
            documents: The begin of the names of the files, by document.
        """
        source_of = {self._free_stem(stem, source).casefold(): source for source, stem in documents.items()}
        try:
            names = sorted(os.listdir(self._folder / "images"))
        except OSError:
            return {}
        found = {}
        for name in names:
            match = re.fullmatch(r"((.*?)(-p\d+)?)-\d+\.png", name.casefold(), re.DOTALL)
            source = None if match is None else source_of.get(match[1], source_of.get(match[2]))
            if source is not None:
                found[self._folder / "images" / name] = source
        return found

    def is_own(self, path: str) -> bool:
        """Return whether a file of the folder was written for its lines."""
        if Path(path) == self.page:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(len(PAGE_BEGIN)) == PAGE_BEGIN
        return Path(path) == self.file or f"images/{Path(path).name}" in {row["file"] for row in self._rows()}

    def write_pictures(
        self, lines: Sequence[CutLine], stem: str, source: str, page_index: int, *, has_pages: bool
    ) -> list[dict[str, Any]]:
        """Write the pictures of the lines of a page.

        Args:
            lines: The lines, in reading order.
            stem: The begin of the names of the files; with a number where those of another document have it.
            source: The document.
            page_index: Which of its pages, from 0.
            has_pages: Whether it may have several.

        Returns:
            The rows for `add`.

        Raises:
            WriteError: if a file cannot be written.
        """
        begin = self._free_stem(stem, source) + (f"-p{page_index + 1:04d}" if has_pages else "")
        rows = []
        if lines:
            (self._folder / "images").mkdir(parents=True, exist_ok=True)
        for number, line in enumerate(lines, 1):
            file = f"images/{begin}-{number:04d}.png"
            data = io.BytesIO()
            Image.fromarray(line.image).save(data, "PNG")
            write_file(self._folder / file, data.getvalue())
            row: dict[str, Any] = {
                "file": file,
                "text": line.value,
                "confidence": round(line.confidence, 4),
                "source": source,
                "page": page_index + 1,
                "box": [[round(x, 5), round(y, 5)] for x, y in line.geometry],
            }
            rows.append(row if line.unread is None else {**row, "unread": line.unread})
        return rows

    def _free_stem(self, stem: str, source: str) -> str:
        """The begin of the names of the pictures of a document, which those of no other document have."""
        if (stem, source) not in self._stems:
            others = [row["file"] for row in self._rows() if row.get("source") != source]
            free = (f"{stem}.{number}" if number > 1 else stem for number in count(1))
            self._stems[stem, source] = next(one for one in free if not any(_has_stem(file, one) for file in others))
        return self._stems[stem, source]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add lines to the file of texts, which is replaced as a whole. Those that are there stay as they are.

        The lines that this object added follow the others, the least certain first.

        Raises:
            InvalidArgumentError: if the file was changed so that it cannot be read.
            WriteError: if it cannot be written.
        """
        known = self._rows()
        files = {row["file"] for row in known}
        new = [row for row in rows if row["file"] not in files]
        self._added |= {row["file"] for row in new}
        ours = [*(row for row in known if row["file"] in self._added), *new]
        ours.sort(key=_certainty)
        self._write([*(row for row in known if row["file"] not in self._added), *ours])

    def remove(self, source: str) -> None:
        """Remove the lines of a document, and their pictures."""
        known = self._rows()
        own = [row for row in known if row.get("source") == source]
        if own:
            self._write([row for row in known if row.get("source") != source])
        for row in own:
            self.delete_picture(row)

    def delete_picture(self, row: dict[str, Any]) -> None:
        """Delete the picture of a line, if it is one of this folder."""
        picture = self._folder / row["file"]
        if picture.parent == self._folder / "images":
            with suppress(OSError, ValueError):  # it is gone, or its name is none
                picture.unlink()

    def _rows(self) -> list[dict[str, Any]]:
        """The rows of the file as it is now; somebody may be editing it."""
        state = _state(self.file)
        if state is None or state != self._known[0]:
            self._known = state, self._read_rows()
        return self._known[1]

    def _read_rows(self) -> list[dict[str, Any]]:
        try:
            text = self.file.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"{self.file} is not text in UTF-8 ({error}): save it so.") from error
        rows = []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict) or not isinstance(row.get("file"), str):
                raise InvalidArgumentError(
                    f"{self.file}, line {number}, is no JSON object with a file: correct it, or choose another folder."
                )
            rows.append(row)
        return rows

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = [json_bytes(row).decode() for row in rows]
        write_file(self.file, "".join(f"{line}\n" for line in lines).encode())
        self._known = _state(self.file), list(rows)
        write_file(self.page, correcting_page(lines).encode())


def _has_stem(file: str, stem: str) -> bool:
    return re.fullmatch(rf"images/{re.escape(stem)}(-p\d+)?-\d+\.png", file, re.IGNORECASE) is not None


def _state(file: Path) -> list[int] | None:
    """What changes with the file; ``None`` if there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _certainty(row: dict[str, Any]) -> float:
    confidence = row.get("confidence")
    return confidence if isinstance(confidence, int | float) else 0.0
