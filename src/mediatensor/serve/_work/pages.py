"""Read and render pages, and convert documents to other formats."""

from __future__ import annotations

import functools
import io
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ...errors import InvalidArgumentError, PageError

if TYPE_CHECKING:
    from ...ocr.io import Page, Pages, Table, Word
    from ...ocr.models.predictor import OCRPredictor

#: Options of the HTTP interface, by name.
Options = Mapping[str, Any]

_JPEG_QUALITY = 90
# Encode fast rather than small, because browsers usually are on the same machine or network.
_PNG_COMPRESSION = 1
_DIGITS = 6

# Files that `write_document` can write, and their formats in `Document.export_as`.
_FORMATS = {
    "text.txt": "text",
    "text.md": "markdown",
    "tables.csv": "csv",
    "tables.xlsx": "xlsx",
    "searchable.pdf": "pdf",
}

# Number of readers that stay loaded: two for the default options of the service, one for other options.
_MAX_READERS = 3

_READER_OPTIONS = (
    "layout", "tables", "fields", "languages", "detect_language", "straighten", "rotated", "text_layer",
)  # fmt: skip


def read_page(path: str, number: int, options: Options) -> dict[str, bytes]:
    """Read page ``number``, counted from 0, of an upload.

    Returns:
        The contents of files by name. ``page`` is the JSON that clients get, and ``export`` the JSON of `Page.export`.
        With the option ``straighten``, there is also ``picture``, a PNG of the straightened page, because the upload
        does not have this image.
    """
    pages, reader = open_pages(path, options), page_reader(options)
    source = pages.select([number]) if options.get("text_layer") else [pages[number]]
    read = reader(source).pages[0]
    if read.error is not None:
        raise PageError(read.error)
    read.page_idx = number
    answer = {
        "page": as_json(describe_page(read)),
        "export": as_json(read.export(reading_order=False)),
    }
    if options.get("straighten"):
        answer["picture"] = png_of(np.asarray(read.page))
    return answer


def describe_page(page: Page) -> dict[str, Any]:
    height, width = page.dimensions
    return {
        "page_idx": page.page_idx,
        "width": width,
        "height": height,
        "orientation": page.orientation.get("value"),
        "language": page.language.get("value"),
        "text": page.render(),
        "words": _words(page),
        "regions": [
            {
                "type": region.type,
                "level": region.level,
                "box": box_of(region.geometry),
                "order": order,
                "confidence": float(region.confidence),
            }
            for order, region in enumerate(page.layout)
        ],
        "tables": [
            {
                "box": box_of(table.geometry),
                "num_rows": table.num_rows,
                "num_columns": table.num_cols,
                "cells": [
                    {
                        "text": cell.value,
                        "row": cell.row_start,
                        "column": cell.col_start,
                        "row_span": cell.row_span,
                        "column_span": cell.col_span,
                        "is_header": cell.is_header,
                        "box": box_of(cell.geometry),
                        "confidence": float(cell.confidence),
                    }
                    for cell in table.cells
                ],
            }
            for table in page.tables
        ],
        "fields": [
            {
                "name": field.name,
                "key": field.key,
                "value": field.value,
                "confidence": float(field.confidence),
                "key_box": None if field.key_geometry is None else box_of(field.key_geometry),
                "value_box": box_of(field.geometry),
            }
            for field in page.fields
        ],
        "unread": [{"box": box_of(line.geometry)} for line in page.unread],
    }


def _words(page: Page) -> list[dict[str, Any]]:
    """Return all words in reading order, with the words of tables inserted.

    The words of a table come before the first block whose top is below the top of the table.
    """
    waiting = [table for table in page.tables if any(cell.words for cell in table.cells)]
    ordered: list[list[list[Word]]] = []
    for block in page.blocks:
        while waiting and box_of(waiting[0].geometry)[1] < box_of(block.geometry)[1]:
            ordered.append(_table_lines(waiting.pop(0)))
        ordered.append([line.words for line in block.lines])
    ordered += [_table_lines(table) for table in waiting]
    found, number = [], 0
    for block_number, lines in enumerate(ordered):
        for words in lines:
            found += [
                {
                    "text": word.value,
                    "confidence": float(word.confidence),
                    "box": box_of(word.geometry),
                    "polygon": polygon_of(word.geometry),
                    "line": number,
                    "block": block_number,
                }
                for word in words
            ]
            number += 1
    return found


def _table_lines(table: Table) -> list[list[Word]]:
    from ...ocr.io._exports.reading import cell_lines

    return [words for cell in table.cells for words in cell_lines(cell.words)]


def open_pages(path: str, options: Options) -> Pages:
    """Open the pages of an upload. They stay open until another upload is opened."""
    return _open_path(path, float(options.get("dpi") or 144.0), options.get("password") or None)


@functools.lru_cache(maxsize=1)
def _open_path(path: str, dpi: float, password: str | None) -> Pages:
    from ...ocr.io.reader import open_document

    return open_document(Path(path), dpi=dpi, password=password)


def page_reader(options: Options) -> OCRPredictor:
    """Return an OCR predictor for these options. The most recently used predictors stay loaded."""
    given = {name: options.get(name) for name in _READER_OPTIONS}
    given["languages"] = tuple(given["languages"] or ())
    return _load_reader(tuple(given.items()))


@functools.lru_cache(maxsize=_MAX_READERS)
def _load_reader(key: tuple[tuple[str, Any], ...]) -> OCRPredictor:
    from ...ocr import ocr_predictor
    from ...ocr.datasets import VOCABS

    options = dict(key)
    more: dict[str, Any] = {}
    if options["languages"]:
        if unknown := sorted(set(options["languages"]) - set(VOCABS)):
            raise InvalidArgumentError(f"languages={','.join(unknown)}: there are {', '.join(sorted(VOCABS))}.")
        # The vocabulary needs a space, which separates words.
        more["vocab"] = "".join(dict.fromkeys("".join(VOCABS[name] for name in options["languages"]))) + " "
    return ocr_predictor(
        pretrained=True,
        assume_straight_pages=not options["rotated"],
        straighten_pages=bool(options["straighten"]),
        detect_language=bool(options["detect_language"]),
        detect_layout=bool(options["layout"]),
        detect_tables=bool(options["tables"]),
        fields=options["fields"],
        text_layer=bool(options["text_layer"]),
        **more,
    )


def write_document(path: str, folder: str, wanted: Sequence[str], options: Options) -> dict[str, bytes]:
    """Convert a document, whose pages have been read, to other formats. Return the contents of files by name.

    ``folder`` contains the results of `read_page`: for each page, NUMBER.export.json and, if it was straightened,
    NUMBER.png. ``wanted`` lists the names of the files to make. Files with tables are left out if the document has no
    tables.
    """
    from ...ocr.io import Document
    from ...ocr.io import Page as PageElement
    from ...ocr.io._documents.pages import PageOfFile

    pages = open_pages(path, options)
    elements = []
    for file in sorted(Path(folder).glob("*.export.json")):
        page = PageElement.from_dict(json.loads(file.read_bytes()))
        picture = file.with_name(f"{file.name.partition('.')[0]}.png")
        if picture.exists():
            page.page = functools.partial(_picture, picture)
        else:
            page.page = PageOfFile(pages, page.page_idx, is_readable=page.error is None)
        elements.append(page)
    document = Document(elements)
    has_tables = any(page.tables for page in elements)
    written: dict[str, bytes] = {}
    for name in wanted:
        if name not in _FORMATS or (name.startswith("tables.") and not has_tables):
            continue
        with suppress(ImportError):  # openpyxl is optional
            data = document.export_as(_FORMATS[name])
            if name.startswith("text."):
                data += "\n"
            written[name] = data.encode(errors="replace") if isinstance(data, str) else data
    return written


def _picture(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def page_picture(path: str, folder: str, number: int, options: Options, max_width: int | None) -> bytes:
    """Return a PNG of a page as OCR has seen it: a straightened page from ``folder``, or a page of the upload."""
    straightened = Path(folder) / f"{number:06d}.png"
    if options.get("straighten") and straightened.is_file():
        return png_of(_picture(straightened), max_width)
    return png_of(open_pages(path, options)[number], max_width)


def warm_up(num_threads: int, options: Sequence[Options]) -> bool:
    """Load the models for each of ``options`` before the first upload, and set torch's number of threads."""
    torch.set_num_threads(num_threads)
    for one in options:
        page_reader(one)
    return True


def as_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8. Lone surrogates, which files can contain, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def finite(value: float | None) -> float | None:
    """Return a number as a float, or None if it is infinite or NaN, which JSON cannot represent."""
    return float(value) if value is not None and math.isfinite(value) else None


def box_of(geometry: Any) -> list[float]:
    """Return the smallest straight box around a relative geometry: [left, top, right, bottom], rounded to six digits.

    >>> box_of(((0.1, 0.2), (0.5, 0.25)))
    [0.1, 0.2, 0.5, 0.25]
    """
    points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
    return [round(value, _DIGITS) for value in (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())]


def polygon_of(geometry: Any) -> list[list[float]]:
    """Return the four corners of a relative geometry, clockwise from the corner at the start of the text.

    Coordinates are rounded to six digits.

    >>> polygon_of(((0.1, 0.2), (0.5, 0.25)))
    [[0.1, 0.2], [0.5, 0.2], [0.5, 0.25], [0.1, 0.25]]
    """
    from ...ocr.utils.geometry import to_quad

    return [[round(x, _DIGITS), round(y, _DIGITS)] for x, y in to_quad(geometry).tolist()]


def png_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    """Encode an image, uint8 (H, W, 3), as PNG. An image wider than ``max_width`` pixels is shrunk."""
    return _encode(pixels, max_width, "PNG", compress_level=_PNG_COMPRESSION)


def jpeg_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    return _encode(pixels, max_width, "JPEG", quality=_JPEG_QUALITY)


def _encode(pixels: NDArray[np.uint8], max_width: int | None, name: str, **options: Any) -> bytes:
    picture = Image.fromarray(pixels)
    if max_width is not None and picture.width > max_width:
        height = max(1, round(picture.height * max_width / picture.width))
        picture = picture.resize((max_width, height), reducing_gap=2.0)
    file = io.BytesIO()
    picture.save(file, name, **options)
    return file.getvalue()
