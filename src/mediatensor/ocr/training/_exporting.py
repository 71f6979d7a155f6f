"""Implements `export_lines`, which cuts lines out of documents and reads their texts, for correction and training."""

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
from ..._engine.common.messages import json_bytes, progress, warn_user
from ..._engine.sources.output_files import check_outputs, write_file
from ...errors import InvalidArgumentError, PageError
from ..models import ocr_predictor
from ..models._networks.preprocessing import page_sources
from ..models.predictor import CutLine
from ..models.predictor.base import TextPredictor

_MOST_NAME_CHARACTERS = 100

# The page to correct texts on, which works without a server.
_PAGE = Path(__file__).with_name("correct.html").read_text(encoding="utf-8")
# Identifies the pages that this module wrote.
_PAGE_START = _PAGE.partition("<style>")[0]


def export_lines(
    pages: Any,
    folder: str | os.PathLike[str],
    reader: TextPredictor | None = None,
    *,
    name: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Store the image and text of every line that a predictor finds on pages, for correction and training.

    Three things are written to the folder:

    * an image of each line, numbered in reading order: ``images/NAME-0001.png``, or ``images/NAME-p0002-0001.png`` for
      documents with several pages;
    * ``lines.jsonl``, with a JSON object for each line, the least certain lines first: ``file``, ``text``,
      ``confidence``, ``source``, ``page`` (counted from 1) and ``box`` (two or four corners, relative to the page). If
      the predictor left a line out of the text of the page, ``unread`` has the reason;
    * ``correct.html``, which shows each image with a field to correct its text. Open it in any browser.

    If ``lines.jsonl`` exists, its lines and their images stay unchanged, and new lines are added after them. Therefore
    your corrections are kept when you add documents, even if you add the same document again.

    Args:
        pages: A document, a path, or a list of page images, as predictors accept them.
        folder: Folder to write to; created if necessary.
        reader: Predictor that detects and recognises the lines; by default ``ocr_predictor(pretrained=True)``.
        name: Start of the image names; by default the name of the file, or ``"page"``.
        overwrite: Whether to replace files that this function has not written: ``correct.html``, and images in a folder
            without ``lines.jsonl``. Lines in ``lines.jsonl`` are always kept.

    Returns:
        The path of ``lines.jsonl``, which `LineDataset` reads.

    Raises:
        InvalidArgumentError: A page has an invalid type, a line of an existing ``lines.jsonl`` is not an object with
            ``file``, or a file would replace one that this function has not written.
        WriteError: A file cannot be written.
        PageError: A page cannot be read, and the predictor has ``on_error="raise"``. Otherwise the page is left out
            with a warning.

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
    if not stem or len(stem) > _MOST_NAME_CHARACTERS or Path(stem).name != stem:
        raise InvalidArgumentError(
            f"name must be the start of a file name, of at most {_MOST_NAME_CHARACTERS} characters (got {name!r})."
        )
    sources = page_sources(pages)
    lines = LineFolder(folder)
    source = os.fspath(pages) if is_path else stem
    is_in_use = lines.file.exists()
    check_outputs(
        [lines.file, lines.page, *lines.pictures_of({source: stem})],
        pages if isinstance(pages, Sequence) and not is_path else [pages],
        overwrite=overwrite,
        is_own=lambda _, existing: lines.is_own(existing) or (is_in_use and Path(existing) != lines.page),
        how="overwrite=True",
        makes_folders=True,
    )
    reader = ocr_predictor(pretrained=True) if reader is None else reader
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
    """The folder that `export_lines` writes: images of lines, and files with their texts. Created when needed."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(path_text("folder", folder))
        self._added: set[str] = set()
        self._stems: dict[tuple[str, str], str] = {}
        self._known: tuple[list[int] | None, list[dict[str, Any]]] = (None, [])
        self._rows()

    @property
    def file(self) -> Path:
        return self._folder / "lines.jsonl"

    @property
    def page(self) -> Path:
        return self._folder / "correct.html"

    def pictures_of(self, documents: Mapping[str, str]) -> dict[Path, str]:
        """Return the existing images of ``documents``, each mapped to its document.

        ``documents`` maps each document to the text with which the names of its images start.
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
        """Return whether the existing file ``path`` was written by this class."""
        if Path(path) == self.page:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(len(_PAGE_START)) == _PAGE_START
        return Path(path) == self.file or f"images/{Path(path).name}" in {row["file"] for row in self._rows()}

    def write_pictures(
        self, lines: Sequence[CutLine], stem: str, source: str, page_index: int, *, has_pages: bool
    ) -> list[dict[str, Any]]:
        """Write an image for each line of a page, and return rows that describe the lines, for `add`.

        The image names start with ``stem`` and, if another document already uses it, a number. Images of lines that are
        already in ``lines.jsonl`` are not replaced.
        """
        begin = self._free_stem(stem, source) + (f"-p{page_index + 1:04d}" if has_pages else "")
        rows = []
        known = {row["file"] for row in self._rows()}
        if lines:
            (self._folder / "images").mkdir(parents=True, exist_ok=True)
        for number, line in enumerate(lines, 1):
            file = f"images/{begin}-{number:04d}.png"
            # The line may have changed, and then the text in `lines.jsonl` fits only the image that was stored with it.
            if file not in known or not (self._folder / file).exists():
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
        """Return ``stem``, or ``stem`` with a number, so that no other document has image names with the same start."""
        if (stem, source) not in self._stems:
            others = [row["file"] for row in self._rows() if row.get("source") != source]
            free = (f"{stem}.{number}" if number > 1 else stem for number in count(1))
            self._stems[stem, source] = next(one for one in free if not any(_has_stem(file, one) for file in others))
        return self._stems[stem, source]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add lines to ``lines.jsonl``. Lines that were in it before stay unchanged.

        All lines that were added through this object come last, sorted from the least to the most certain.
        """
        known = self._rows()
        files = {row["file"] for row in known}
        new = [row for row in rows if row["file"] not in files]
        self._added |= {row["file"] for row in new}
        ours = [*(row for row in known if row["file"] in self._added), *new]
        ours.sort(key=_certainty)
        self._write([*(row for row in known if row["file"] not in self._added), *ours])

    def remove(self, source: str) -> None:
        """Remove the lines of the document ``source`` from ``lines.jsonl``, and delete their images."""
        known = self._rows()
        own = [row for row in known if row.get("source") == source]
        if own:
            self._write([row for row in known if row.get("source") != source])
        for row in own:
            self.delete_picture(row)

    def delete_picture(self, row: dict[str, Any]) -> None:
        """Delete the image that a row of ``lines.jsonl`` refers to, if it is in this folder."""
        picture = self._folder / row["file"]
        if picture.parent == self._folder / "images":
            with suppress(OSError, ValueError):  # it is gone, or its name is invalid
                picture.unlink()

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of ``lines.jsonl``. The file is read again only if it has changed."""
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
            raise InvalidArgumentError(f"{self.file} is not text in UTF-8 ({error}): save it as UTF-8.") from error
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
                    f"{self.file}, line {number}, is not a JSON object with a file: correct it, or choose another "
                    "folder."
                )
            rows.append(row)
        return rows

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = [json_bytes(row).decode() for row in rows]
        write_file(self.file, "".join(f"{line}\n" for line in lines).encode())
        self._known = _state(self.file), list(rows)
        # "<" is escaped because a text may contain the end tag of a script. Outside of strings, JSON has no "<".
        page = _PAGE.replace("@ROWS@", f"[{','.join(lines)}]".replace("<", "\\u003c"))
        write_file(self.page, page.encode())


def _has_stem(file: str, stem: str) -> bool:
    return re.fullmatch(rf"images/{re.escape(stem)}(-p\d+)?-\d+\.png", file, re.IGNORECASE) is not None


def _state(file: Path) -> list[int] | None:
    """Return values that change when the content of ``file`` changes, or None if the file does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _certainty(row: dict[str, Any]) -> float:
    confidence = row.get("confidence")
    return confidence if isinstance(confidence, int | float) else 0.0
