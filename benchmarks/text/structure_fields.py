"""Accuracy of fields: ``python -m benchmarks.text.structure fields --pages FOLDER... -o results``.

A folder has ``images/`` and ``annotations/`` in the layout of FUNSD (entities with links) or of SROIE (four fields of a
receipt), or is a folder of such folders. Some generated forms are always among the pages.

For forms, the links from questions to answers are counted. A pair is found if the boxes around the words of its key and
of its value each match the true boxes with an IoU of at least 0.5, each true pair once. Three inputs are scored: the
true entities, the true words, and the OCR result. For receipts, a value counts if it is equal character by character,
ignoring case, as in the third task of the competition; a second column only compares letters and digits.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mediatensor.ocr.drawing import DrawnPage, draw_random_page
from mediatensor.ocr.models import ocr_predictor
from mediatensor.ocr.structure import PageContent, content_of_picture, extract_fields, find_fields

from ..shared.machine import machine_stamp
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, write_report
from .ocr_scores import Count, box_iou

__all__ = [
    "add_command",
    "box_of_words",
    "drawn_links",
    "form_contents",
    "form_links",
    "score_links",
    "score_values",
    "words_in_lines",
]

Box = tuple[float, float, float, float]
Link = tuple[Box, Box]
# Text, box, number of the line, confidence.
ReadWord = tuple[str, Box, int, float]

_LEAST_IOU = 0.5
_NUM_DRAWN = 40


def score_links(wanted: Sequence[Link], found: Sequence[Link]) -> Count:
    """Count pairs whose two boxes both match; the best matches are taken first, each once."""
    ones, others = (np.array(links, float).reshape(-1, 2, 4) for links in (wanted, found))
    overlaps = np.minimum(*(box_iou(ones[:, part], others[:, part]) for part in (0, 1)))
    places = zip(*np.nonzero(overlaps >= _LEAST_IOU), strict=True)
    firsts: set[int] = set()
    seconds: set[int] = set()
    for first, second in sorted(places, key=lambda place: -overlaps[place]):
        if first not in firsts and second not in seconds:
            firsts.add(first)
            seconds.add(second)
    return Count(len(firsts), len(wanted), len(found))


def score_values(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, tuple[bool, bool]]:
    """Return whether each value is equal ignoring case, and whether its letters and digits are."""

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text.casefold()))

    return {
        name: (
            name in found and value.strip().casefold() == found[name].strip().casefold(),
            name in found and letters(value) == letters(found[name]),
        )
        for name, value in wanted.items()
    }


def add_command(commands: Any) -> None:
    """Add ``fields`` to the commands of `benchmarks.text.structure`."""
    parser = commands.add_parser("fields", help="links of forms, fields of receipts", description=__doc__)
    parser.add_argument("--pages", type=Path, nargs="*", default=[], help="folders of forms and receipts")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports")
    parser.add_argument("--words", type=Path, help="folder that stores the OCR results for later runs")
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="list of images on which rules were developed, for separate scores"
    )
    parser.add_argument("--quick", action="store_true", help="two drawn forms, and two pages of each folder")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    limit = 2 if options.quick else None
    rows = [_drawn_row(limit or _NUM_DRAWN)]
    reader = _Reader(options.words)
    listed = options.known.read_text(encoding="utf-8").split() if options.known else []
    for folder in options.pages:
        for inner in [folder] if (folder / "annotations").is_dir() else sorted(folder.glob("*/")):
            sets: dict[str, list[tuple[Path, Any]]] = {}
            for path in sorted((inner / "annotations").glob("*.json")):
                image = _image_of(inner, path)
                is_known = f"{inner.name}/images/{image.name}" in listed
                pages = sets.setdefault("" if not listed else ", known" if is_known else ", unseen", [])
                pages.append((image, json.loads(path.read_text(encoding="utf-8"))))
            for which, pages in sorted(sets.items()):
                score = _form_rows if "form" in pages[0][1] else _receipt_rows
                rows += [{**row, "pages": row["pages"] + which} for row in score(pages[:limit], reader)]
    document = {"schema": 1, "machine": machine_stamp(), "rows": rows}
    text = _markdown(document)

    def draw(path: Path) -> None:
        bars = [Bar(f"{row['pages']}: {row['from']}", row["score"]) for row in rows[::-1]]
        draw_panels("Fields: F1 of links, share of values", [[Panel("", "", bars)]], path)

    write_report(options.output, "structure_fields", document, text, draw)
    return 0


def _image_of(folder: Path, annotation: Path) -> Path:
    return next(iter(sorted((folder / "images").glob(f"{annotation.stem}.*"))))


class _Reader:
    """Read words of images, or load them from a folder of stored words."""

    def __init__(self, kept: Path | None) -> None:
        self._kept = kept
        self._predictor: Any = None

    def content(self, path: Path) -> PageContent:
        image = np.array(Image.open(path).convert("RGB"))
        file = self._kept / f"{path.stem}.json" if self._kept else None
        if file and file.exists():
            words = [(text, tuple(box), *rest) for text, box, *rest in json.loads(file.read_text(encoding="utf-8"))]
        else:
            words = self._read(image)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(words), encoding="utf-8")
        return make_content(image, words)

    def _read(self, image: NDArray[np.uint8]) -> list[ReadWord]:
        self._predictor = self._predictor or ocr_predictor(pretrained=True)
        height, width = image.shape[:2]
        words = []
        page = self._predictor([image]).pages[0]
        for number, line in enumerate(line for block in page.blocks for line in block.lines):
            for word in line.words:
                corners = np.asarray(word.geometry, np.float64).reshape(-1, 2) * (width, height)
                box = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
                words.append((word.value, box, number, word.confidence))
        return words


def make_content(image: NDArray[np.uint8], words: Iterable[Any]) -> PageContent:
    texts, boxes, lines, confidences = zip(*words, strict=True) if (words := list(words)) else ((), (), (), ())
    return content_of_picture(image, boxes, texts, lines, confidences)


def _drawn_row(count: int) -> dict[str, Any]:
    score, seconds = Count(), 0.0
    for seed in range(count):
        page = draw_random_page(random.Random(seed), kind="form", languages=("en", "de", "fr", "es"), style="scan")
        words = [
            (word.text, _around(word.polygon), number, 1.0)
            for number, line in enumerate(page.lines)
            for word in line.words
        ]
        found, taken = _links(make_content(page.image, words))
        score, seconds = score + score_links(drawn_links(page), found), seconds + taken
    return _link_row("drawn forms", "true words", count, score, seconds)


def drawn_links(page: DrawnPage) -> list[Link]:
    """Return the true links of a drawn form, as boxes."""
    return [(_around(field.key.polygon), _around(field.value.polygon)) for field in page.fields]


def _around(polygon: NDArray[np.float64]) -> Box:
    (left, top), (right, bottom) = polygon.min(axis=0).tolist(), polygon.max(axis=0).tolist()
    return left, top, right, bottom


def _links(content: PageContent) -> tuple[list[Link], float]:
    start = time.perf_counter()
    fields = find_fields(content)
    seconds = time.perf_counter() - start
    return [
        (box_of_words(content, field.key_words), box_of_words(content, field.value_words)) for field in fields
    ], seconds


def box_of_words(content: PageContent, words: Sequence[int]) -> Box:
    """Return the box around words of a page."""
    boxes = content.boxes[list(words)]
    left, top = boxes[:, :2].min(axis=0).tolist()
    right, bottom = boxes[:, 2:].max(axis=0).tolist()
    return left, top, right, bottom


def form_links(annotation: Any) -> list[Link]:
    """Return the true links from questions to answers, as boxes."""
    entities = {entity["id"]: entity for entity in annotation["form"]}
    wanted = []
    for pair in sorted({tuple(sorted(link)) for entity in entities.values() for link in entity["linking"]}):
        kinds = {entities[number]["label"]: tuple(entities[number]["box"]) for number in pair if number in entities}
        if kinds.keys() == {"question", "answer"}:
            wanted.append((kinds["question"], kinds["answer"]))
    return wanted


def form_contents(image: NDArray[np.uint8], annotation: Any) -> dict[str, PageContent]:
    """Return the page with its true entities as words, and with its true words."""
    entities = [
        (entity["text"], tuple(entity["box"]), number, 1.0)
        for number, entity in {entity["id"]: entity for entity in annotation["form"]}.items()
        if entity["text"].strip()
    ]
    return {
        "true entities": make_content(image, entities),
        "true words": make_content(image, words_in_lines(annotation["form"])),
    }


def _form_rows(pages: Sequence[tuple[Path, Any]], reader: _Reader) -> list[dict[str, Any]]:
    scores = {source: Count() for source in ("true entities", "true words", "words as read")}
    seconds = dict.fromkeys(scores, 0.0)
    for path, annotation in pages:
        image = np.array(Image.open(path).convert("RGB"))
        wanted = form_links(annotation)
        contents = {**form_contents(image, annotation), "words as read": reader.content(path)}
        for source, content in contents.items():
            found, taken = _links(content)
            scores[source] += score_links(wanted, found)
            seconds[source] += taken
    return [_link_row("forms", source, len(pages), scores[source], seconds[source]) for source in scores]


def words_in_lines(entities: Iterable[Any]) -> list[ReadWord]:
    """Group true words into lines without using entities: neighbours with a gap of up to two heights."""
    words = [
        (word["text"].strip(), tuple(word["box"]))
        for entity in entities
        for word in entity["words"]
        if word["text"].strip()
    ]
    lines: list[list[tuple[str, Any]]] = []
    for text, box in sorted(words, key=lambda word: word[1][0]):
        best, nearest = None, float("inf")
        for line in lines:
            last = line[-1][1]
            height = min(box[3] - box[1], last[3] - last[1])
            gap, shared = box[0] - last[2], min(box[3], last[3]) - max(box[1], last[1])
            if shared > 0.5 * height and -height < gap < min(nearest, 2 * height):
                best, nearest = line, gap
        if best is None:
            best = []
            lines.append(best)
        best.append((text, box))
    return [(text, box, number, 1.0) for number, line in enumerate(lines) for text, box in line]


def _receipt_rows(pages: Sequence[tuple[Path, Any]], reader: _Reader) -> list[dict[str, Any]]:
    right: dict[str, list[tuple[bool, bool]]] = {}
    seconds = 0.0
    for path, annotation in pages:
        content = reader.content(path)
        start = time.perf_counter()
        found = {field.name: field.value for field in extract_fields(content, "receipt")}
        seconds += time.perf_counter() - start
        for name, marks in score_values(annotation["fields"], found).items():
            right.setdefault(name, []).append(marks)
    marks = [mark for name in right for mark in right[name]]
    exact, letters = (round(float(np.mean([mark[kind] for mark in marks])), 4) for kind in (0, 1))
    by_field = {name: round(float(np.mean([mark[0] for mark in right[name]])), 4) for name in right}
    row = {"pages": "receipts", "count": len(pages), "seconds_a_page": round(seconds / len(pages), 4)}
    detail = ", ".join(f"{name} {share:.2f}" for name, share in by_field.items())
    return [
        {**row, "from": "words as read, exact", "score": exact, "detail": detail},
        {**row, "from": "words as read, letters and digits", "score": letters, "detail": ""},
    ]


def _link_row(pages: str, source: str, count: int, score: Count, seconds: float) -> dict[str, Any]:
    return {
        "pages": pages,
        "count": count,
        "seconds_a_page": round(seconds / count, 4),
        "from": source,
        "score": round(score.f1, 4),
        "detail": f"precision {score.precision:.3f}, recall {score.recall:.3f}, {score.truth} links",
    }


def _markdown(document: Mapping[str, Any]) -> str:
    note = (
        "F1 of links between keys and values of forms; share of the values of receipts that are right. Seconds do "
        "not include OCR."
    )
    head = "| pages | number | from | score | in detail | seconds a page |"
    lines = ["# Fields", "", note, "", head, "| --- | ---: | --- | ---: | --- | ---: |"]
    for row in document["rows"]:
        lines.append(
            f"| {row['pages']} | {row['count']} | {row['from']} | {row['score']:.3f} | {row['detail']} | "
            f"{row['seconds_a_page']:.3f} |"
        )
    lines += ["", fact_list(document["machine"]), ""]
    return "\n".join(lines)
