"""Read and write the rows of text manifests (CSV, TSV, JSON lines, JSON), and find the files of folders."""

from __future__ import annotations

import csv
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

from ..._engine.common.checks import path_text
from ..._engine.sources.output_files import write_file
from ...errors import InvalidArgumentError, ReadError
from .items import MEDIA_EXTENSIONS, Item, MediaKind, check_are_classes, with_coded_labels
from .tables import Columns, item_of_table_row

#: Maximum number of files in a source. It stops endless iterables, and manifests made to fill the memory.
MAX_ITEMS = 10_000_000

#: Maximum nesting of folders.
MAX_FOLDER_DEPTH = 64

#: Maximum number of folders to search. Links between folders could make any number of paths.
MAX_FOLDERS = 1_000_000

#: Bytes of a manifest that is read line by line.
MAX_TEXT_BYTES = 4 << 30

#: Bytes of a JSON manifest, which is read as a whole.
MAX_JSON_BYTES = 256 << 20

#: Bytes of a line of a manifest that is read line by line. (The `csv` module limits fields, by default to 128 KiB.)
MAX_LINE_BYTES = 16 << 20

MANIFEST_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")

_DELIMITERS = {".csv": ",", ".tsv": "\t"}

#: The name of a row in messages, and the row.
_Row = tuple[str, dict[str, Any]]


def items_of_text_manifest(path: str, columns: Columns) -> list[Item]:
    """Read the items in a text manifest (CSV, TSV, JSON lines, JSON). Its paths are relative to its folder."""
    folder = os.path.dirname(path)
    items: list[Item] = []
    for place, row in _rows(path):
        if len(items) == MAX_ITEMS:
            raise InvalidArgumentError(f"{place} exceeds the limit of {MAX_ITEMS} rows.")
        items.append(item_of_table_row(row, columns, place=place, folder=folder))
    if not items:
        raise InvalidArgumentError(f"There are no files in {path}: it has no rows.")
    return with_coded_labels(items, columns.classes)


def check_manifest_file(path: str, max_bytes: int) -> None:
    """Raise InvalidArgumentError if a manifest is not a regular file, or is larger than ``max_bytes``."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ReadError(f"The manifest {path} cannot be read ({error}).") from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgumentError(f"The manifest {path} is not an ordinary file.")
    if status.st_size > max_bytes:
        raise InvalidArgumentError(
            f"The manifest {path} has {status.st_size} bytes, more than the limit of {max_bytes}. Divide it, or pass "
            "its rows as mappings."
        )


def _rows(path: str) -> Iterator[_Row]:
    extension = os.path.splitext(path)[1].lower()
    check_manifest_file(path, MAX_JSON_BYTES if extension == ".json" else MAX_TEXT_BYTES)
    if extension in _DELIMITERS:
        return _delimited_rows(path, _DELIMITERS[extension])
    return _json_lines(path) if extension == ".jsonl" else _json_list(path)


def _lines(path: str, max_line_bytes: int) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(max_line_bytes + 1):
                number += 1
                if len(line) > max_line_bytes:
                    raise InvalidArgumentError(f"line {number} of {path} is longer than {max_line_bytes} bytes.")
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InvalidArgumentError(f"line {number} of {path} is not text in UTF-8 ({error}).") from None
    except OSError as error:
        raise ReadError(f"The manifest {path} cannot be read ({error}).") from error


def _delimited_rows(path: str, delimiter: str) -> Iterator[_Row]:
    # Strict mode, so that an unclosed quotation mark does not swallow the rows after it.
    lines = _lines(path, MAX_LINE_BYTES)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    strippers: list[Callable[[str], str]] = []
    num_lines_before = 0
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InvalidArgumentError(
                f"line {num_lines_before + reader.line_num} of {path} cannot be parsed ({error}). For a file with "
                "other delimiters or quotes, pass the rows of a csv.DictReader."
            ) from None
        if fields is None:
            return
        place = f"line {num_lines_before + reader.line_num} of {path}"
        if not fields:  # a blank line
            continue
        if header is None:
            header = [name.strip() for name in fields]  # "path, label" gives a column "label"
            repeated = sorted({name for name in header if header.count(name) > 1})
            if repeated:
                raise InvalidArgumentError(f"{place} names the column {repeated[0]!r} more than once.")
            strippers = [_stripper_like(name) for name in fields]
            if any(name.startswith(" ") for name in fields):
                # In 'a.mp4, "run, fast"', the quotation mark after the space opens a quoted cell.
                num_lines_before = reader.line_num
                reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
        elif len(fields) != len(header):
            raise InvalidArgumentError(
                f"{place} has {len(fields)} fields, but there are {len(header)} columns: {', '.join(header)}."
            )
        else:
            values = (strip(field) for strip, field in zip(strippers, fields, strict=True))
            yield place, dict(zip(header, values, strict=True))


def _stripper_like(name: str) -> Callable[[str], str]:
    """Return a function that strips cells of a CSV column on the sides where its ``name`` in the header has spaces."""
    is_left, is_right = name != name.lstrip(), name != name.rstrip()
    return str.strip if is_left and is_right else str.lstrip if is_left else str.rstrip if is_right else str


def _json_lines(path: str) -> Iterator[_Row]:
    for number, line in enumerate(_lines(path, MAX_LINE_BYTES), start=1):
        if line.strip():
            place = f"line {number} of {path}"
            yield place, _check_object(parse_json(line, place), place)


def _json_list(path: str) -> Iterator[_Row]:
    rows = parse_json("".join(_lines(path, MAX_JSON_BYTES)), path)  # all rows may be in one line
    if not isinstance(rows, list):
        raise InvalidArgumentError(f"{path} must hold a list of objects (got {type(rows).__name__}).")
    for number, row in enumerate(rows):
        place = f"entry {number} of {path}"
        yield place, _check_object(row, place)


def parse_json(text: str | bytes, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{place} is not JSON ({error}).") from None


def _check_object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InvalidArgumentError(f'{place} must be an object such as {{"path": ...}} (got {type(row).__name__}).')
    return row


def items_of_folder(folder: str, kind: MediaKind, classes: Sequence[str] | None) -> list[Item]:
    """Return the media files of one kind in a folder and its sub-folders, as items sorted by path components.

    A direct sub-folder is a class if it contains such files at any depth. Classes are numbered in order of name. Files
    directly in the folder have no label. Hidden files and folders (``.name``) are ignored, and links are followed.
    """
    files = list(islice(_files(folder, MEDIA_EXTENSIONS[kind]), MAX_ITEMS + 1))
    if len(files) > MAX_ITEMS:
        raise InvalidArgumentError(f"There are more than {MAX_ITEMS} files in {folder}, the limit.")
    if not files:
        extensions = " ".join(sorted(MEDIA_EXTENSIONS[kind]))
        others = [f"{other!r}" for other in ("video", "audio") if any(_files(folder, MEDIA_EXTENSIONS[other]))]
        raise InvalidArgumentError(
            f"There are no files of kind {kind!r} in the folder {folder}: looked for the extensions {extensions}, in "
            f"sub-folders as well. {f'There are files of kind {others[0]}. ' if others else ''}"
            "Give files with other extensions as a list of paths."
        )
    class_names = sorted({class_name for _, class_name in files if class_name is not None})
    if classes is not None:
        check_are_classes(class_names, classes)
        if not class_names:
            raise InvalidArgumentError(
                f"classes= needs a sub-folder for each class, but all files of {folder} are directly in it. Leave out "
                "classes=, or pass the parent folder."
            )
    number_of = {name: number for number, name in enumerate(class_names if classes is None else classes)}
    return [
        Item(path) if class_name is None else Item(path, label=number_of[class_name], extra={"class_name": class_name})
        for path, class_name in files
    ]


def _files(folder: str, extensions: frozenset[str]) -> Iterator[tuple[str, str | None]]:
    """Yield (path, class name) for each file in a folder."""
    num_folders = count(1)

    def files_in(path: str, class_name: str | None, outer: tuple[tuple[int, int], ...]) -> Iterator[Any]:
        identity, entries = _list_folder(path)
        if identity in outer:  # a link to an outer folder
            return
        if len(outer) > MAX_FOLDER_DEPTH or next(num_folders) > MAX_FOLDERS:
            raise InvalidArgumentError(
                f"The folder {folder} is deeper than {MAX_FOLDER_DEPTH}, or has more than {MAX_FOLDERS} "
                f"folders in it (at {path}). Check whether links form a loop."
            )
        for entry in entries:
            if _is_folder(entry):
                yield from files_in(entry.path, class_name if outer else entry.name, (*outer, identity))
            elif os.path.splitext(entry.name)[1].lower() in extensions and _is_file(entry):
                yield entry.path, class_name

    return files_in(folder, None, ())


def _list_folder(folder: str) -> tuple[tuple[int, int], list[os.DirEntry[str]]]:
    """Return the device and inode number of a folder, which identify it, and its entries without hidden ones."""
    try:
        status = os.stat(folder)
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise ReadError(f"The folder {folder} cannot be read ({error}).") from error
    return (status.st_dev, status.st_ino), sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    # Reading pipes and devices would block. A broken link counts as a file: reading its row raises the error.
    try:
        return entry.is_file() or not os.path.exists(entry.path)
    except OSError:
        return True


# Writing


def check_manifest_name(path: str | os.PathLike[str]) -> str:
    """Return the path of an output manifest as text. If it does not end in ``.csv`` or ``.jsonl``, raise an error."""
    text = path_text("path", path)
    if os.path.splitext(text)[1].lower() not in (".csv", ".jsonl"):
        raise InvalidArgumentError(f"A manifest must end in .csv or .jsonl (got {text!r}).")
    return text


def write_rows(path: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Write rows as a manifest. The extension of ``path``, ``.csv`` or ``.jsonl``, determines the format.

    ``columns`` are the first columns of a ``.csv``, which has them even without rows.
    """
    write_file(path, csv_of_rows(rows, columns) if path.lower().endswith(".csv") else _as_json_lines(rows))


def csv_of_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    columns = list(dict.fromkeys([*columns, *(key for row in rows for key in row)]))
    limit = csv.field_size_limit()
    for row in rows:
        for name, value in row.items():
            if (length := len(str(value))) > limit:
                raise InvalidArgumentError(
                    f"The column {name!r} has a value of {length} characters, more than the {limit} that a field of a "
                    ".csv can have. Write a .jsonl."
                )
    lines = _CsvLines()
    # With this line terminator, the writer quotes fields that contain a carriage return, which readers require.
    writer = csv.DictWriter(lines, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    text = "".join(lines.lines)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        character = text[error.start]
        name = next(value for row in rows for value in map(str, row.values()) if character in value)
        raise InvalidArgumentError(
            f"A .csv is written in UTF-8, which cannot encode {name!r}. Write a .jsonl."
        ) from None


class _CsvLines:
    """Collects the lines of a ``csv.writer``. They end with a line feed only, as in other text files."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n") + "\n")


def _as_json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"A column has values that JSON cannot store ({error}). Write a .csv.") from None
