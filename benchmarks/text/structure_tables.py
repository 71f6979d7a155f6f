"""Accuracy of tables: ``python -m benchmarks.text.structure tables --data FOLDER -o results``.

The folder has PDF files, NAME.pdf, and their truth, NAME-str.xml, as the data sets of the ICDAR 2013 table competition
have. The measure is cell adjacency, over all relations of all files. This library is scored in two ways: from the words
and the vectors of the file, and only from images of its pages, with OCR. All pages of all files are searched, including
pages without tables.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.models import ocr_predictor
from mediatensor.ocr.structure import FoundTable, PageContent, content_of_picture, find_tables

from ..shared.machine import machine_stamp, package_versions
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, markdown_table, write_report
from ..shared.workers import WorkerError, WorkerProcess
from .ocr_scores import Count
from .structure_adjacency import Relation, TextCell, relations_of, score_relations
from .structure_tables_peers import READERS

__all__ = ["add_command", "read_truth", "tables_of"]

_WORDS, _PICTURES = "mediatensor, PDF words", "mediatensor, pictures"
# The resolution of the images, in dots per inch.
_RESOLUTION = 170


@dataclass
class _Result:
    """A reader's relations by file, the seconds for the tables, and failures."""

    relations: dict[str, list[Relation]] = field(default_factory=dict)
    seconds: float = 0.0
    errors: dict[str, str] = field(default_factory=dict)


def add_command(commands: Any) -> None:
    """Add ``tables`` to the commands of `benchmarks.text.structure`."""
    parser = commands.add_parser("tables", help="tables by cell adjacency", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of NAME.pdf and NAME-str.xml")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports")
    parser.add_argument("--python", default=sys.executable, help="a Python that has the other libraries")
    parser.add_argument("--words", type=Path, help="folder that stores the words of images for later runs")
    parser.add_argument("--no-pictures", action="store_true", help="skip the images, whose OCR takes long")
    parser.set_defaults(run=_run)


def read_truth(path: Path) -> list[Relation]:
    """Return the relations of all tables of a file of truth."""
    relations: list[Relation] = []
    for region in ET.parse(path).getroot().iter("region"):
        cells = []
        for cell in region.iter("cell"):
            top, left = int(cell.attrib["start-row"]), int(cell.attrib["start-col"])
            bottom, right = int(cell.get("end-row", top)), int(cell.get("end-col", left))
            cells.append(TextCell(top, bottom, left, right, "".join(part.text or "" for part in cell.iter("content"))))
        relations += relations_of(cells)
    return relations


def tables_of(content: PageContent, tables: Iterable[FoundTable]) -> list[Relation]:
    """Return the relations of the tables of a page."""
    return [
        relation
        for table in tables
        for relation in relations_of(
            TextCell(
                cell.row_start, cell.row_end, cell.col_start, cell.col_end,
                " ".join(content.texts[word] for word in cell.words),
            )
            for cell in table.cells
        )
    ]  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    names = sorted(path.stem for path in options.data.glob("*.pdf") if (options.data / f"{path.stem}-str.xml").exists())
    if not names:
        print(f"there is no NAME.pdf with NAME-str.xml in {options.data}")
        return 2
    truth = {name: read_truth(options.data / f"{name}-str.xml") for name in names}
    paths = {name: options.data / f"{name}.pdf" for name in names}
    results = {_WORDS: _ours(paths)}
    if not options.no_pictures:
        results[_PICTURES] = _of_pictures(paths, options.words)
    notes = []
    for reader in READERS:
        found = _theirs(options.python, reader, paths)
        if isinstance(found, str):
            notes.append(f"{reader}: {found}")
        else:
            results[reader] = found
    _report(options, truth, results, notes)
    return 0


def _ours(paths: Mapping[str, Path]) -> _Result:
    """Find tables in the words and the vectors of files."""
    result = _Result()
    for name, path in paths.items():
        pages = DocumentFile.from_pdf(path)
        _add(result, name, (pages.page_content(number) for number in range(len(pages))))
    return result


def _of_pictures(paths: Mapping[str, Path], kept: Path | None) -> _Result:
    """Find tables in images of the pages."""
    predictor = ocr_predictor(pretrained=True)
    result = _Result()

    def content(name: str, number: int, image: NDArray[np.uint8]) -> PageContent:
        file = kept / f"{name}-{number + 1}.json" if kept else None
        if file and file.exists():
            words = json.loads(file.read_text(encoding="utf-8"))
        else:
            words = _words_of(image, predictor)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(words), encoding="utf-8")
        boxes, texts, lines, confidences = zip(*words, strict=True) if words else ((), (), (), ())
        return content_of_picture(image, boxes, texts, lines, confidences)

    for name, path in paths.items():
        pages = DocumentFile.from_pdf(path, dpi=_RESOLUTION)
        _add(result, name, (content(name, number, pages[number]) for number in range(len(pages))))
    return result


def _add(result: _Result, name: str, contents: Iterable[PageContent | None]) -> None:
    result.relations[name] = []
    for content in contents:
        if content is not None:
            start = time.perf_counter()
            tables = find_tables(content)
            result.seconds += time.perf_counter() - start
            result.relations[name] += tables_of(content, tables)


def _words_of(image: NDArray[np.uint8], predictor: Any) -> list[tuple[list[float], str, int, float]]:
    """Return the words of an image: box in pixels, text, line number, confidence."""
    height, width = image.shape[:2]
    words = []
    for number, line in enumerate(line for block in predictor([image]).pages[0].blocks for line in block.lines):
        for word in line.words:
            corners = np.asarray(word.geometry, np.float64).reshape(-1, 2) * (width, height)
            box = [*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()]
            words.append((box, word.value, number, word.confidence))
    return words


def _theirs(python: str, reader: str, paths: Mapping[str, Path]) -> _Result | str:
    """Return the tables of another library, or the reason why it failed."""
    try:
        with WorkerProcess("benchmarks.text.structure_tables_peers", python=python, patience_seconds=3600) as worker:
            found = worker.ask("find_tables", reader=reader, paths=[str(path) for path in paths.values()])
    except WorkerError as error:
        return str(error)
    result = _Result(seconds=found["seconds"])
    for name, path in paths.items():
        tables = found["tables"].get(str(path), [])
        result.relations[name] = [
            relation for cells in tables for relation in relations_of(TextCell(*cell) for cell in cells)
        ]
        if str(path) in found["errors"]:
            result.errors[name] = found["errors"][str(path)]
    return result


def _report(
    options: argparse.Namespace,
    truth: Mapping[str, Sequence[Relation]],
    results: Mapping[str, _Result],
    notes: Sequence[str],
) -> None:
    rows = []
    for reader, result in results.items():
        scores = {
            fuzzy: {name: score_relations(truth[name], result.relations[name], fuzzy=fuzzy) for name in truth}
            for fuzzy in (False, True)
        }
        exact, fuzzy = (sum(scores[kind].values(), Count()) for kind in (False, True))
        rows.append(
            {
                "reader": reader,
                "f1_exact": round(exact.f1, 4),
                "f1": round(fuzzy.f1, 4),
                "precision": round(fuzzy.precision, 4),
                "recall": round(fuzzy.recall, 4),
                "seconds": round(result.seconds, 2),
                "by_file": {name: round(score.f1, 4) for name, score in scores[True].items()},
                "errors": result.errors,
            }
        )
    machine = machine_stamp() | package_versions("pypdfium2")
    document = {
        "schema": 1,
        "machine": machine,
        "files": len(truth),
        "relations": sum(map(len, truth.values())),
        "readers": rows,
        "notes": list(notes),
    }
    text = _markdown(document)

    def draw(path: Path) -> None:
        bars = [Bar(row["reader"], row["f1"]) for row in sorted(rows, key=lambda row: row["f1"])]
        draw_panels("Tables, by cell adjacency", [[Panel("F1", "", bars)]], path)

    write_report(options.output, "structure_tables", document, text, draw)


def _markdown(document: Mapping[str, Any]) -> str:
    note = (
        f"Cell adjacency as in the ICDAR 2013 table competition, {document['files']} files, {document['relations']} "
        "relations. For *F1*, texts may differ by a fifth; for *F1, exact*, they must be equal. Seconds are for all "
        "pages; for mediatensor they only include finding tables, for other libraries also reading the file."
    )
    rows = []
    for row in document["readers"]:
        values = (f"{row[key]:.3f}" for key in ("f1", "f1_exact", "precision", "recall"))
        rows.append([row["reader"], *values, f"{row['seconds']:.1f}"])
    table = markdown_table(["reader", "F1", "F1, exact", "precision", "recall", "seconds"], rows)
    notes = ["\n".join(f"- {note}" for note in document["notes"])] if document["notes"] else []
    return "\n\n".join(["# Tables", note, table, *notes, fact_list(document["machine"])]) + "\n"
