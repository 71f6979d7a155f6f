"""Record what docTR exports of pages made by hand, for the tests of our exporters.

Run it by hand where ``doctr`` imports, from its folder:

    python record_ocr_exports.py

It writes ``tests/records/ocr/doctr_exports_<version>.json``: for docTR 1.1 the result of each exporter, for older
versions, without layouts and tables, their stored documents.
"""

from __future__ import annotations

import json
from typing import Any

import doctr
import numpy as np
from doctr.io import elements

from ocr_records import FOLDER

VERSION = doctr.__version__.lstrip("v")
HAS_LAYOUT = hasattr(elements, "LayoutElement")
HEIGHT, WIDTH = 800, 600
IMAGE = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
SPACE = 0.01
STRAIGHT = {"value": 0, "confidence": None}


def word(text: str, x: float, y: float, height: float = 0.02, confidence: float = 0.9, kind: str = "Word") -> Any:
    right = x + 0.011 * len(text)
    box = ((round(x, 4), round(y, 4)), (round(right, 4), round(y + height, 4)))
    return getattr(elements, kind)(text, confidence, box, 0.8, dict(STRAIGHT))


def line(text: str, x: float, y: float, height: float = 0.02) -> Any:
    words = []
    for index, part in enumerate(text.split(" ")):
        words.append(word(part, x, y, height, round(0.99 - 0.03 * index, 2)))
        x = words[-1].geometry[1][0] + SPACE
    return elements.Line(words)


def page(lines: list[Any], artefacts: tuple[Any, ...] = (), **kwargs: Any) -> Any:
    block = elements.Block(lines=lines, artefacts=list(artefacts))
    return elements.Page(IMAGE, [block], kwargs.pop("page_idx", 0), (HEIGHT, WIDTH), **kwargs)


def columns() -> Any:
    heights = (0.3, 0.325, 0.35, 0.42)
    left = [line(f"left column {part}", 0.08, y) for part, y in zip(("one", "two", "end", "new"), heights, strict=True)]
    right = [line(f"right column {part}", 0.55, y + 0.003) for part, y in zip("abcd", heights, strict=True)]
    rows = [item for pair in zip(left, right, strict=True) for item in pair]
    logo = elements.Artefact("logo", 0.5, ((0.8, 0.02), (0.9, 0.06)))
    title = line("A title over both columns", 0.08, 0.1, 0.03)
    return page([title, *rows], (logo,), language={"value": "en", "confidence": 0.99}, orientation=dict(STRAIGHT))


def right_to_left() -> Any:
    def row(text: str, y: float) -> Any:
        x, words = 0.9, []
        for part in text.split(" "):
            words.append(word(part, x - 0.011 * len(part), y))
            x = words[-1].geometry[0][0] - SPACE
        return elements.Line(words[::-1])

    hebrew = [row("שלום עולם גדול", 0.1), row("זו שורה שנייה", 0.13)]
    return page([*hebrew, line("an English line", 0.5, 0.2)], language={"value": "he", "confidence": 0.8})


def rotated() -> Any:
    angle = np.deg2rad(8)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])

    def turned(straight: Any) -> Any:
        for item in straight.words:
            (left, top), (right, bottom) = item.geometry
            corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
            center = np.array([WIDTH, HEIGHT]) / 2
            corners = ((corners * (WIDTH, HEIGHT) - center) @ turn + center) / (WIDTH, HEIGHT)
            item.geometry = tuple(tuple(round(float(value), 5) for value in point) for point in corners)
        return elements.Line(straight.words)

    return page([turned(line("tilted words", 0.2, 0.3)), turned(line("second", 0.2, 0.33))])


def laid_out() -> Any:
    texts = [
        ("Page-footer", "page footer 7", 0.95),
        ("Page-header", "Running header", 0.02),
        ("Title", "The Title", 0.08),
        ("Section-header", "First section", 0.14),
        ("Text", "Some text", 0.18),
        ("Text", "with two lines", 0.205),
        ("List-item", "first item", 0.26),
        ("List-item", "which wraps", 0.285),
        ("List-item", "second item", 0.32),
        ("Caption", "Table caption", 0.4),
        ("Footnote", "a footnote", 0.9),
        ("Section-header", "Second section", 0.66),
    ]
    bounds = [
        *(("Page-footer", 0.94, 0.98), ("Page-header", 0.01, 0.05), ("Title", 0.07, 0.12), ("Table", 0.44, 0.6)),
        *(("Section-header", 0.13, 0.17), ("Text", 0.175, 0.235), ("List-item", 0.25, 0.31)),
        *(("List-item", 0.315, 0.345), ("Caption", 0.39, 0.43), ("Footnote", 0.89, 0.93)),
        ("Section-header", 0.65, 0.69),
    ]
    regions = [elements.LayoutElement(kind, 0.9, ((0.08, top), (0.9, bottom))) for kind, top, bottom in bounds]
    return page([line(text, 0.1, y) for _, text, y in texts], page_idx=1, layout=regions, tables=[table()])


def table() -> Any:
    values = [["item", "count", "price"], ["bread", "2", "3.50"], ["milk", "1", ""]]
    cells = []
    for row, texts in enumerate(values):
        for column, text in enumerate(texts):
            box = ((0.1 + 0.2 * column, 0.45 + 0.05 * row), (0.3 + 0.2 * column, 0.5 + 0.05 * row))
            box = tuple(tuple(round(value, 3) for value in point) for point in box)
            cells += [elements.TableCell(text, 0.9, box, row, row, column, column)] if text else []
    return elements.Table(cells, 3, 3, ((0.1, 0.45), (0.7, 0.6)), 0.87)


def predictions() -> Any:
    groups = {
        "date": [word("2024-01-31", 0.5, 0.1, kind="Prediction")],
        "total": [
            word("second", 0.3, 0.5, kind="Prediction"),
            word("first", 0.1, 0.4, confidence=0.554, kind="Prediction"),
        ],
        "none": [],
    }
    return elements.KIEPage(IMAGE, groups, 0, (HEIGHT, WIDTH), language={"value": "en", "confidence": 0.9})


def plain(exported: Any) -> Any:
    return json.loads(json.dumps(exported))


def record(name: str, document: Any) -> dict[str, Any]:
    if not HAS_LAYOUT:
        return {"stored": plain(document.export())}
    case = {
        "stored": plain(document.export(reading_order=False)),
        "json": plain(document.export()),
        **{format: document.export_as(format) for format in ("text", "markdown", "asciidoc", "html")},
    }
    if name == "layout":
        for format in ("text", "markdown", "asciidoc", "html"):
            case[f"{format} without furniture"] = document.export_as(format, include_furniture=False)
    if name != "rotated":  # docTR refuses these
        case["hocr"] = [data.decode() for data, _ in document.export_as_xml(file_title="title")]
    return case


def main() -> None:
    pages = {"columns": columns(), "right to left": right_to_left(), "predictions": predictions()}
    if HAS_LAYOUT:
        pages |= {"rotated": rotated(), "layout": laid_out()}
    cases = {
        name: record(name, (elements.KIEDocument if name == "predictions" else elements.Document)([item]))
        for name, item in pages.items()
    }
    path = FOLDER / f"doctr_exports_{VERSION}.json"
    content = {"source": f"python-doctr {VERSION}", "cases": cases}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
