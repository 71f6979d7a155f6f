"""Accuracy of regions and their order.

``python -m benchmarks.text.structure regions --publaynet FOLDER``, ``order``.

``regions`` takes pages in the layout of PubLayNet (``annotations.json``: boxes of five kinds), reads their words, and
finds tables and regions. Captions and footnotes count as text, headings as titles, items of a list that follow each
other as one list, as on its pages; headers, footers and formulas have no kind there. A region is right that meets one
of its kind with an IoU of at least 0.5, each once; the mean average precision is COCO's, over IoUs of 0.5 to 0.95.
Drawn pages with their true words are the second set.

``order`` takes pages of DocBank (words with boxes and labels) and compares orders by Kendall's tau. The words of a file
are stored row by row, across columns. On pages known to have two columns, words are sorted by column, notes last.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mediatensor.ocr.drawing import DrawnPage, draw_random_page
from mediatensor.ocr.models import ocr_predictor
from mediatensor.ocr.structure import (
    FoundRegion,
    FoundTable,
    PageContent,
    content_of_picture,
    find_regions,
    find_tables,
)

from ..shared.machine import machine_stamp
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, write_report
from .ocr_scores import box_iou

__all__ = [
    "Part",
    "add_commands",
    "average_precision",
    "count_right",
    "docbank_page",
    "drawn_region_page",
    "five_kinds",
    "in_columns",
    "in_columns_or_rows",
    "kendall_tau",
    "label_share",
    "publaynet_truth",
]

Box = tuple[float, float, float, float]
# Kind, box, confidence.
Part = tuple[str, Box, float]

_KINDS = {
    "Text": "text",
    "Caption": "text",
    "Footnote": "text",
    "Section-header": "title",
    "Title": "title",
    "List-item": "list",
    "Table": "table",
    "Picture": "figure",
}
_LABELS = {
    "Text": "paragraph",
    "Caption": "caption",
    "Footnote": "footer",
    "Page-footer": "footer",
    "Page-header": "paragraph",
    "Formula": "equation",
    "List-item": "list",
    "Picture": "figure",
    "Section-header": "section",
    "Table": "table",
    "Title": "title",
}
# Labels that DocBank distinguishes only by content.
_ONE_LABEL = {"abstract": "paragraph", "author": "paragraph", "date": "paragraph", "reference": "list"}
_DRAWN_KINDS = ("letter", "columns", "report", "slide", "table")
_IOUS = np.linspace(0.5, 0.95, 10)
# Tops of the columns, in thousandths, of DocBank pages with two columns, by the number at the start of their name.
_COLUMNS_BEGIN = {"10": 125, "45": 100, "63": 225, "113": 50, "121": 50, "175": 60}


def count_right(wanted: Sequence[tuple[str, Box]], found: Sequence[Part], least_iou: float = 0.5) -> dict[str, int]:
    """Count the right parts of each kind; the most confident come first, and each true part counts once."""
    right: dict[str, int] = defaultdict(int)
    used: set[int] = set()
    for kind, box, _ in sorted(found, key=lambda part: -part[2]):
        best = _best(kind, box, wanted, used, least_iou)
        if best is not None:
            used.add(best)
            right[kind] += 1
    return dict(right)


def _best(kind: str, box: Box, wanted: Sequence[tuple[str, Box]], used: set[int], least_iou: float) -> int | None:
    free = [index for index, (other, _) in enumerate(wanted) if other == kind and index not in used]
    if not free:
        return None
    overlaps = box_iou(np.array([box]), np.array([wanted[index][1] for index in free]))[0]
    return free[int(overlaps.argmax())] if overlaps.max() >= least_iou else None


def average_precision(
    pages: Sequence[tuple[Sequence[tuple[str, Box]], Sequence[Part]]], kind: str, least_iou: float
) -> float:
    """Return COCO's average precision of a kind on all pages: precision at 101 recalls."""
    total = sum(other == kind for wanted, _ in pages for other, _ in wanted)
    ranked = sorted(
        ((sure, number, box) for number, (_, found) in enumerate(pages) for other, box, sure in found if other == kind),
        key=lambda entry: -entry[0],
    )
    used: list[set[int]] = [set() for _ in pages]
    hits = np.zeros(len(ranked))
    for place, (_, number, box) in enumerate(ranked):
        best = _best(kind, box, pages[number][0], used[number], least_iou)
        if best is not None:
            used[number].add(best)
            hits[place] = 1
    if not total or not len(ranked):
        return 0.0
    recall = np.cumsum(hits) / total
    precision = np.maximum.accumulate((np.cumsum(hits) / np.arange(1, len(hits) + 1))[::-1])[::-1]
    places = np.searchsorted(recall, np.linspace(0, 1, 101) - 1e-9)
    return float(np.mean([precision[place] if place < len(precision) else 0.0 for place in places]))


def kendall_tau(order: Sequence[int]) -> float:
    """Return Kendall's tau of an order against 0, 1, 2...: 1 for the same order, -1 for the reverse."""
    ranks = np.argsort(np.asarray(order, np.int64), kind="stable")
    number = len(ranks)
    if number < 2:
        return 1.0
    inverted = sum(int((ranks[index + 1 :] < ranks[index]).sum()) for index in range(number - 1))
    return 1 - 4 * inverted / (number * (number - 1))


def in_columns(boxes: NDArray[np.float64], labels: Sequence[str], top: float) -> NDArray[np.int64]:
    """Return the true order of words in two columns: above, left, right, notes; boxes are in thousandths."""
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    keys = np.where(middles[:, 1] < top, 0, np.where(middles[:, 0] < 500, 1, 2))
    keys[[index for index, label in enumerate(labels) if label == "footer"]] = 3
    return np.argsort(keys, kind="stable")


def in_columns_or_rows(path: Path, boxes: NDArray[np.float64], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the true order of words of a DocBank page: the file's order, unless the page is known to have columns."""
    top = _COLUMNS_BEGIN.get(path.name.partition(".")[0])
    return np.arange(len(labels)) if top is None else in_columns(boxes, labels, top)


def add_commands(commands: Any) -> None:
    """Add ``regions`` and ``order`` to the commands of `benchmarks.text.structure`."""
    for name, run, folder in (("regions", _regions, "--publaynet"), ("order", _order, "--docbank")):
        parser = commands.add_parser(name, help=f"{name} of pages", description=__doc__)
        parser.add_argument(folder, dest="folder", type=Path, required=True, help="the pages and their truth")
        parser.add_argument(
            "-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports"
        )
        parser.add_argument("--words", type=Path, help="folder that stores the OCR results")
        parser.add_argument("--quick", action="store_true", help="two pages of each set")
        parser.set_defaults(run=run)


def _regions(options: argparse.Namespace) -> int:
    limit = 2 if options.quick else None
    rows = []
    for name, pages in (
        ("PubLayNet, words as read", _read_pages(options.folder, options.words, limit)),
        ("drawn pages, true words and tables", _drawn_pages(limit or 20)),
    ):
        rows += _region_rows(name, pages)
    _report(rows, "structure_regions", "Regions", options.output)
    return 0


def _region_rows(name: str, pages: Sequence[Any]) -> list[dict[str, Any]]:
    scored = [(wanted, found) for wanted, found, *_ in pages]
    kinds = sorted({kind for wanted, _ in scored for kind, _ in wanted})
    seconds, reading = (float(np.mean([page[place] for page in pages])) for place in (2, 3))
    cost = f"{seconds:.3f} s a page" + (f", reading {reading:.1f} s" if reading else "")
    rows, scores, means = [], [], []
    for kind in kinds:
        right = sum(count_right(wanted, found).get(kind, 0) for wanted, found in scored)
        total = sum(other == kind for wanted, _ in scored for other, _ in wanted)
        number = sum(part[0] == kind for _, found in scored for part in found)
        scores.append(2 * right / (total + number))
        means.append(float(np.mean([average_precision(scored, kind, iou) for iou in _IOUS])))
        detail = f"{right} right of {number} found and {total} wanted; mAP {means[-1]:.3f}"
        rows.append({"set": f"{name}: {kind}", "count": len(pages), "score": scores[-1], "detail": detail})
    detail = f"mean of the kinds; mAP {np.mean(means):.3f}; {cost}"
    return [{"set": name, "count": len(pages), "score": float(np.mean(scores)), "detail": detail}, *rows]


def _read_pages(folder: Path, words: Path | None, limit: int | None) -> list[Any]:
    predictor: Any = None
    pages = []
    for name, wanted in publaynet_truth(folder)[:limit]:
        image = np.asarray(Image.open(folder / name).convert("RGB"))
        kept = words / f"{name}.json" if words else None
        if kept and kept.is_file():
            read = json.loads(kept.read_text(encoding="utf-8"))
        else:
            predictor = predictor or ocr_predictor(pretrained=True)
            read = _read(predictor, image)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(read), encoding="utf-8")
        start = time.process_time()
        texts, places, lines, sure = zip(*read["words"], strict=True) if read["words"] else ((), (), (), ())
        content = content_of_picture(image, places, texts, lines, sure)
        regions = find_regions(content, find_tables(content))
        pages.append((wanted, five_kinds(regions), time.process_time() - start, read["seconds"]))
    return pages


def publaynet_truth(folder: Path) -> list[tuple[str, list[tuple[str, Box]]]]:
    """Return sorted image names with their true parts."""
    annotations = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    names = {category["id"]: category["name"] for category in annotations["categories"]}
    boxes = defaultdict(list)
    for entry in annotations["annotations"]:
        left, top, width, height = entry["bbox"]
        boxes[entry["image_id"]].append((names[entry["category_id"]], (left, top, left + width, top + height)))
    return sorted((str(entry["file_name"]), boxes[entry["id"]]) for entry in annotations["images"])


def _read(predictor: Any, image: NDArray[np.uint8]) -> dict[str, Any]:
    start = time.process_time()
    page = predictor([image]).pages[0]
    seconds = time.process_time() - start
    height, width = image.shape[:2]
    words = []
    for number, line in enumerate(line for block in page.blocks for line in block.lines):
        for word in line.words:
            corners = np.asarray(word.geometry, np.float64).reshape(-1, 2) * (width, height)
            box = [*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()]
            words.append((word.value, box, number, word.confidence))
    return {"words": words, "seconds": seconds}


def five_kinds(regions: Sequence[FoundRegion]) -> list[Part]:
    """Return regions by PubLayNet's kinds, with consecutive list items of a column as one region."""
    parts: list[Part] = []
    follows = False
    for region in regions:
        kind = _KINDS.get(region.kind)
        if kind is None:
            follows = False
            continue
        box = region.box
        if kind == "list" and follows:
            _, last, sure = parts[-1]
            if min(last[2], box[2]) > max(last[0], box[0]) and box[1] > last[1]:
                union = (min(last[0], box[0]), last[1], max(last[2], box[2]), max(last[3], box[3]))
                parts[-1] = (kind, union, sure)
                continue
        parts.append((kind, box, region.confidence))
        follows = kind == "list"
    return parts


def _drawn_pages(count: int) -> list[Any]:
    pages = []
    for seed in range(count):
        _, wanted, content, tables = drawn_region_page(seed)
        start = time.process_time()
        regions = find_regions(content, tables)
        seconds = time.process_time() - start
        found = [(region.kind, region.box, region.confidence) for region in regions]
        pages.append((wanted, found, seconds, 0.0))
    return pages


def drawn_region_page(seed: int) -> tuple[DrawnPage, list[tuple[str, Box]], PageContent, list[FoundTable]]:
    """Return a drawn page, its true regions, its true words in reading order, and the boxes of its tables."""
    page = draw_random_page(random.Random(seed), kind=_DRAWN_KINDS[seed % len(_DRAWN_KINDS)], style="clean")
    words = [(word, number) for number, line in enumerate(page.lines) for word in line.words]
    places = [_around(word.polygon) for word, _ in words]
    content = content_of_picture(
        page.image, places, [word.text for word, _ in words], [number for _, number in words], np.ones(len(words))
    )
    tables = [FoundTable(_around(part.polygon), 1, 1, ()) for part in page.regions if part.kind == "Table"]
    return page, [(part.kind, _around(part.polygon)) for part in page.regions], content, tables


def _around(polygon: NDArray[np.float64]) -> Box:
    (left, top), (right, bottom) = polygon.min(axis=0).tolist(), polygon.max(axis=0).tolist()
    return left, top, right, bottom


def _order(options: argparse.Namespace) -> int:
    rows = []
    taus, right, total = [], 0.0, 0
    for path in sorted(options.folder.glob("*.txt"))[: 2 if options.quick else None]:
        boxes, labels, content = docbank_page(path)
        regions = find_regions(content, find_tables(content))
        order = np.array([word for region in regions for word in region.words], np.int64)
        taus.append(kendall_tau(np.argsort(in_columns_or_rows(path, boxes, labels))[order].tolist()))
        agree = label_share(labels, regions)
        right, total = right + agree * len(labels), total + len(labels)
        detail = f"{len(labels)} words; label right for {agree:.3f}"
        rows.append({"set": path.stem[:32], "count": 1, "score": taus[-1], "detail": detail})
    detail = f"mean of the pages; label right for {right / max(1, total):.3f} of the words"
    rows.insert(0, {"set": "DocBank, words given", "count": len(taus), "score": float(np.mean(taus)), "detail": detail})
    _report(rows, "structure_order", "Order: Kendall's tau", options.output)
    return 0


def label_share(labels: Sequence[str], regions: Sequence[FoundRegion]) -> float:
    """Return the share of the words of a DocBank page whose region has the kind of their label."""
    kinds = {word: _LABELS[region.kind] for region in regions for word in region.words}
    right = sum(kinds[word] == _ONE_LABEL.get(label, label) for word, label in enumerate(labels))
    return right / max(1, len(labels))


def docbank_page(path: Path) -> tuple[NDArray[np.float64], list[str], PageContent]:
    """Return the boxes of the words in thousandths, their labels, and the page."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    places = np.array([line[1:5] for line in lines], np.float64).reshape(-1, 4)
    with Image.open(path.with_suffix(".jpg")) as image:
        width, height = image.size
    pixels = places * (width / 1000, height / 1000, width / 1000, height / 1000)
    is_word = np.array([bool(line[0].strip()) and not line[0].startswith("##LT") for line in lines])
    is_picture = np.array([line[0].startswith("##LTFigure") for line in lines])
    drawn = pixels[[line[0].startswith("##LTLine") for line in lines]]
    across = drawn[:, 2] - drawn[:, 0] >= drawn[:, 3] - drawn[:, 1]
    words = np.flatnonzero(is_word)
    content = PageContent(
        width=float(width),
        height=float(height),
        boxes=pixels[words],
        texts=tuple(lines[word][0] for word in words),
        line_ids=np.arange(len(words)),
        confidences=np.ones(len(words)),
        font_sizes=np.full(len(words), np.nan),
        is_bold=np.array(["BX" in lines[word][8] or "Bold" in lines[word][8] for word in words], bool),
        horizontal_rules=drawn[across],
        vertical_rules=drawn[~across],
        pictures=pixels[is_picture],
    )
    return places[words], [lines[word][9].strip() for word in words], content


def _report(rows: Sequence[Mapping[str, Any]], name: str, title: str, output: Path) -> None:
    stamp = machine_stamp()
    lines = [f"# {title}", "", "| set | pages | score | in detail |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {row['set']} | {row['count']} | {row['score']:.3f} | {row['detail']} |" for row in rows]
    text = "\n".join([*lines, "", fact_list(stamp), ""])

    def draw(path: Path) -> None:
        draw_panels(title, [[Panel("", "", [Bar(row["set"], row["score"]) for row in rows][::-1])]], path)

    write_report(output, name, {"schema": 1, "machine": stamp, "rows": list(rows)}, text, draw)
