"""`export_lines`: cut out the lines of documents, with proposed texts to correct and to train on."""

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
from ..._engine.sources.output_files import write_file
from ...errors import InvalidArgumentError, PageError
from ..models import ocr_predictor
from ..models._pages.preprocessing import page_sources
from ..models.predictor import CutLine
from ..models.predictor.base import TextPredictor

__all__ = ["LineFolder", "export_lines"]

_MOST_CHARACTERS_OF_A_NAME = 100

# The page to correct texts on, which works without a server.
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Correct the texts of lines</title>
<style>
body { font: 16px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 0 1rem 4rem }
header { position: sticky; top: 0; background: #fff; padding: .7rem 0; border-bottom: 1px solid #ccd }
button { font: inherit; padding: .3rem 1rem }
li { list-style: none; margin: 1.2rem 0 }
ol { padding: 0 }
img { display: block; max-width: 100%; min-height: 2.5rem; max-height: 6rem; background: #eee }
input[type=text] { font: 1.3rem/1.5 serif; width: 100%; box-sizing: border-box; padding: .1rem .3rem }
.changed input[type=text] { background: #eef7e8 }
.out img, .out input[type=text] { opacity: .3 }
small { color: #667 }
</style>
</head>
<body>
<header>
<button id="save">Save lines.jsonl</button>
<span id="state"></span>
</header>
<p>Type the text of each picture exactly as printed. Enter moves to the next field. Untick pictures that are not a line
of text. The lines that are most likely wrong come first. This page remembers your corrections; at the end, save
lines.jsonl and replace the file next to this page with it.</p>
<ol id="lines"></ol>
<script type="application/json" id="rows">@ROWS@</script>
<script>
"use strict";
const rows = JSON.parse(document.getElementById("rows").textContent);
const list = document.getElementById("lines");
const key = "mediatensor lines " + location.pathname;
let kept = {};
try { kept = JSON.parse(localStorage.getItem(key)) || {}; } catch (error) { /* no storage for files */ }

function text_of(row) {
  // A stored edit is valid only for the text that it replaced.
  const edit = kept[row.file];
  return edit && edit.over === row.text ? edit : { over: row.text, text: row.text || "", is_line: true };
}

function show_state() {
  const edits = rows.map(text_of);
  const changed = edits.filter(edit => edit.text !== (edit.over || "")).length;
  const out = edits.filter(edit => !edit.is_line).length;
  document.getElementById("state").textContent =
    `${rows.length} lines, ${changed} corrected, ${out} left out`;
}

for (const row of rows) {
  const item = document.createElement("li");
  const picture = document.createElement("img");
  const field = document.createElement("input");
  const box = document.createElement("input");
  const label = document.createElement("label");
  const note = document.createElement("small");
  picture.src = row.file.split("/").map(encodeURIComponent).join("/");
  picture.loading = "lazy";
  picture.alt = "";
  field.type = "text";
  field.dir = "auto";
  field.spellcheck = false;
  field.autocomplete = "off";
  box.type = "checkbox";
  label.append(box, " text");
  const parts = [row.source, row.page ? `page ${row.page}` : "", row.unread || ""];
  if (typeof row.confidence === "number") parts.push(`${Math.round(100 * row.confidence)} % sure`);
  note.textContent = " " + parts.filter(Boolean).join(", ");
  const edit = text_of(row);
  field.value = edit.text;
  box.checked = edit.is_line;
  const update = () => {
    kept[row.file] = { over: row.text, text: field.value, is_line: box.checked };
    try { localStorage.setItem(key, JSON.stringify(kept)); } catch (error) { /* saving works without storage */ }
    item.className = box.checked ? (field.value !== (row.text || "") ? "changed" : "") : "out";
    show_state();
  };
  item.className = edit.is_line ? (edit.text !== (row.text || "") ? "changed" : "") : "out";
  field.addEventListener("input", update);
  box.addEventListener("change", update);
  field.addEventListener("keydown", event => {
    const next = item.nextElementSibling;
    if (event.key === "Enter" && next) next.querySelector("input[type=text]").focus();
  });
  item.append(picture, field, label, note);
  list.append(item);
}
show_state();

document.getElementById("save").addEventListener("click", () => {
  const lines = rows.filter(row => text_of(row).is_line)
    .map(row => JSON.stringify({ ...row, text: text_of(row).text }) + "\\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = "lines.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
});
</script>
</body>
</html>
"""


# Identifies the pages that this module wrote.
_PAGE_START = _PAGE.partition("<style>")[0]


def export_lines(
    pages: Any, folder: str | os.PathLike[str], reader: TextPredictor | None = None, *, name: str | None = None
) -> Path:
    """Cut out every line that a predictor finds, and store it with the text read, for correction and training.

    The folder gets an image for each line in reading order: ``images/NAME-0001.png``, or ``images/NAME-p0002-0001.png``
    for documents with several pages. ``lines.jsonl`` gets an object for each line: ``file``, ``text``, ``confidence``,
    ``source``, ``page`` (from 1) and ``box`` (relative to the page). Lines that the predictor left out of the page text
    also have ``unread``, the cause. The least certain lines come first. ``correct.html`` shows each image with a field
    for its text, in any browser. Existing lines in ``lines.jsonl`` stay unchanged, so corrections are kept when
    documents are added, even if the same document is added again.

    Args:
        pages: A document, a path, or a list of pages, as for predictors.
        folder: Folder for the lines; created if necessary.
        reader: Predictor; by default ``ocr_predictor(pretrained=True)``.
        name: Start of the image names; by default the name of the file, or ``"page"``.

    Returns:
        The path of ``lines.jsonl``, for `LineDataset`.

    Raises:
        InvalidArgumentError: A page has no valid type, or a line of ``lines.jsonl`` is not an object with a file.
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
    """A folder with images of lines and a file of their texts. It is created when lines are written."""

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
        """Return the existing images whose file names lines of ``documents`` would get, and the document of each image.

        ``documents`` maps each document to the start of the names of its images.
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
        """Return whether the file ``path`` was written by `LineFolder`."""
        if Path(path) == self.page:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(len(_PAGE_START)) == _PAGE_START
        return Path(path) == self.file or f"images/{Path(path).name}" in {row["file"] for row in self._rows()}

    def write_pictures(
        self, lines: Sequence[CutLine], stem: str, source: str, page_index: int, *, has_pages: bool
    ) -> list[dict[str, Any]]:
        """Write the images of the lines of a page, and return the rows for `add`.

        ``stem`` is the start of the image names. A number is appended if another document has the same stem.
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
        """Return a start of file names that no other document uses."""
        if (stem, source) not in self._stems:
            others = [row["file"] for row in self._rows() if row.get("source") != source]
            free = (f"{stem}.{number}" if number > 1 else stem for number in count(1))
            self._stems[stem, source] = next(one for one in free if not any(_has_stem(file, one) for file in others))
        return self._stems[stem, source]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add lines to the file of texts, which is rewritten as a whole. Existing lines stay unchanged.

        The lines that this object added come last, sorted from the least to the most certain.
        """
        known = self._rows()
        files = {row["file"] for row in known}
        new = [row for row in rows if row["file"] not in files]
        self._added |= {row["file"] for row in new}
        ours = [*(row for row in known if row["file"] in self._added), *new]
        ours.sort(key=_certainty)
        self._write([*(row for row in known if row["file"] not in self._added), *ours])

    def remove(self, source: str) -> None:
        """Remove the lines of a document, and their images."""
        known = self._rows()
        own = [row for row in known if row.get("source") == source]
        if own:
            self._write([row for row in known if row.get("source") != source])
        for row in own:
            self.delete_picture(row)

    def delete_picture(self, row: dict[str, Any]) -> None:
        """Delete the image of a line, if it is in this folder."""
        picture = self._folder / row["file"]
        if picture.parent == self._folder / "images":
            with suppress(OSError, ValueError):  # it is gone, or its name is invalid
                picture.unlink()

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of the file. It is read again if it has changed."""
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
        write_file(self.page, _correcting_page(lines).encode())


def _has_stem(file: str, stem: str) -> bool:
    return re.fullmatch(rf"images/{re.escape(stem)}(-p\d+)?-\d+\.png", file, re.IGNORECASE) is not None


def _state(file: Path) -> list[int] | None:
    """Return values that change when ``file`` changes; ``None`` if the file does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _certainty(row: dict[str, Any]) -> float:
    confidence = row.get("confidence")
    return confidence if isinstance(confidence, int | float) else 0.0


def _correcting_page(rows: Sequence[str]) -> str:
    """Return the HTML page for rows of ``lines.jsonl``, given as JSON. File names in rows are relative to the page."""
    # "<" is escaped because a text may contain the end tag of a script. Outside of strings, JSON has no "<".
    return _PAGE.replace("@ROWS@", f"[{','.join(rows)}]".replace("<", "\\u003c"))
