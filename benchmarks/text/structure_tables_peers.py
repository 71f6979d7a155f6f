"""A worker process that finds tables with other libraries and answers requests (`shared.workers`).

It does not import mediatensor.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..shared.workers import serve

# A table: the cells as first and last row, first and last column, and text.
Cells = list[tuple[int, int, int, int, str]]


def _cells_of_rows(rows: list[list[str | None]]) -> Cells:
    return [(at, at, column, column, text or "") for at, row in enumerate(rows) for column, text in enumerate(row)]


def pdfplumber(path: str) -> list[Cells]:
    with importlib.import_module("pdfplumber").open(path) as pdf:
        return [_cells_of_rows(table) for page in pdf.pages for table in page.extract_tables()]


def _camelot(flavor: str) -> Callable[[str], list[Cells]]:
    def read(path: str) -> list[Cells]:
        tables = importlib.import_module("camelot").read_pdf(path, pages="all", flavor=flavor)
        return [_cells_of_rows(table.df.to_numpy().tolist()) for table in tables]

    return read


def img2table(path: str) -> list[Cells]:
    found: list[Cells] = []
    pages = importlib.import_module("img2table.document").PDF(path).extract_tables(borderless_tables=True)
    for tables in pages.values():
        for table in tables:
            # A cell that spans several places is repeated in each, with the same box.
            spans: dict[tuple[int, ...], list[Any]] = {}
            for row, cells in table.content.items():
                for column, cell in enumerate(cells):
                    box = (cell.bbox.x1, cell.bbox.y1, cell.bbox.x2, cell.bbox.y2)
                    span = spans.setdefault(box, [row, row, column, column, cell.value or ""])
                    span[1], span[3] = max(span[1], row), max(span[3], column)
            found.append([tuple(span) for span in spans.values()])
    return found


READERS: dict[str, Callable[[str], list[Cells]]] = {
    "pdfplumber": pdfplumber,
    "camelot-lattice": _camelot("lattice"),
    "camelot-stream": _camelot("stream"),
    "camelot-hybrid": _camelot("hybrid"),
    "img2table": img2table,
}


def find_tables(reader: str, paths: list[str]) -> dict[str, Any]:
    """Read all files with a reader."""
    find = READERS[reader]
    find(paths[0])  # imports, models
    start = time.perf_counter()
    found: dict[str, list[Cells]] = {}
    errors: dict[str, str] = {}
    for path in paths:
        try:
            found[path] = find(path)
        except Exception as error:
            errors[path] = f"{type(error).__name__}: {error}"
    return {"seconds": time.perf_counter() - start, "tables": found, "errors": errors}


if __name__ == "__main__":
    serve(SimpleNamespace(find_tables=find_tables))
