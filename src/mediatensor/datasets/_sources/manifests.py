"""The rows of manifests that are text: CSV, TSV, JSON lines, JSON."""

from __future__ import annotations

import csv
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from ...errors import InvalidArgumentError, ReadError
from . import limits
from .items import Item, with_coded_labels
from .rows import Columns, item_of_row

__all__ = ["MANIFEST_EXTENSIONS", "check_manifest_file", "items_of_text_manifest"]

MANIFEST_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")

_DELIMITERS = {".csv": ",", ".tsv": "\t"}

#: A row, and where it stands.
_Row = tuple[str, dict[str, Any]]


def items_of_text_manifest(path: str, columns: Columns) -> list[Item]:
    """The items of a manifest; its paths are relative to the folder it is in.

    Args:
        path: An existing file with one of `MANIFEST_EXTENSIONS` other than ``.parquet``.
        columns: Which columns hold what.

    Raises:
        InvalidArgumentError: if it is damaged or beyond a limit, or a row has no file; the message names the line.
        ReadError: if it cannot be read.
    """
    folder = os.path.dirname(path)
    items: list[Item] = []
    for place, row in _rows(path):
        if len(items) == limits.MAX_ITEMS:
            raise InvalidArgumentError(f"{place} is beyond the limit of {limits.MAX_ITEMS} rows.")
        items.append(item_of_row(row, columns, place=place, folder=folder))
    if not items:
        raise InvalidArgumentError(f"There are no files in {path}: it has no rows.")
    return with_coded_labels(items)


def check_manifest_file(path: str, max_bytes: int) -> None:
    """See that a manifest is an ordinary file that is not too large.

    Raises:
        InvalidArgumentError: if it is not.
        ReadError: if that cannot be told.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise ReadError(f"The manifest {path} cannot be read ({error}).") from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgumentError(f"The manifest {path} is not an ordinary file.")
    if status.st_size > max_bytes:
        raise InvalidArgumentError(
            f"The manifest {path} has {status.st_size} bytes, more than the limit of {max_bytes}: divide it, or give "
            "its rows as mappings."
        )


def _rows(path: str) -> Iterator[_Row]:
    extension = os.path.splitext(path)[1].lower()
    check_manifest_file(path, limits.MAX_JSON_BYTES if extension == ".json" else limits.MAX_TEXT_BYTES)
    if extension in _DELIMITERS:
        return _delimited_rows(path, _DELIMITERS[extension])
    return _json_lines(path) if extension == ".jsonl" else _json_list(path)


def _lines(path: str) -> Iterator[str]:
    """The lines of a file in UTF-8, with their ends."""
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(limits.MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > limits.MAX_LINE_BYTES:
                    raise InvalidArgumentError(f"line {number} of {path} is longer than {limits.MAX_LINE_BYTES} bytes.")
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InvalidArgumentError(f"line {number} of {path} is not text in UTF-8 ({error}).") from None
    except OSError as error:
        raise ReadError(f"The manifest {path} cannot be read ({error}).") from error


def _delimited_rows(path: str, delimiter: str) -> Iterator[_Row]:
    # Strict, so that a quotation mark that is never closed does not swallow the rows behind it.
    reader = csv.reader(_lines(path), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InvalidArgumentError(
                f"line {reader.line_num} of {path} cannot be parsed ({error}). A file with other delimiters or quotes "
                "can be given as the rows of a csv.DictReader."
            ) from None
        if fields is None:
            return
        place = f"line {reader.line_num} of {path}"
        if not fields:  # an empty line
            continue
        if header is None:
            header = [name.strip() for name in fields]  # "path, label": else no column would be called label
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise InvalidArgumentError(f"{place} names the column {twice[0]!r} more than once.")
        elif len(fields) != len(header):
            raise InvalidArgumentError(
                f"{place} has {len(fields)} fields, but there are {len(header)} columns: {', '.join(header)}."
            )
        else:
            yield place, dict(zip(header, fields, strict=True))


def _json_lines(path: str) -> Iterator[_Row]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            place = f"line {number} of {path}"
            yield place, _checked_object(_parsed(line, place), place)


def _json_list(path: str) -> Iterator[_Row]:
    rows = _parsed("".join(_lines(path)), path)
    if not isinstance(rows, list):
        raise InvalidArgumentError(f"{path} must hold a list of objects (got {type(rows).__name__}).")
    for number, row in enumerate(rows):
        place = f"entry {number} of {path}"
        yield place, _checked_object(row, place)


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{place} is not JSON ({error}).") from None


def _checked_object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InvalidArgumentError(f'{place} must be an object such as {{"path": ...}} (got {type(row).__name__}).')
    return row
