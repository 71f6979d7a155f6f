"""Measures of the structure of pages that are repeated after each change of a rule.

Pages are loaded, read and rendered once. Tables are found again only for rules of tables: other rules do not change
them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mediatensor.ocr._reading_order import boxes as page_boxes
from mediatensor.ocr._reading_order import ordering
from mediatensor.ocr.drawing import DrawnPage, draw_random_page
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.structure import (
    FoundTable,
    PageContent,
    _regions,
    content_of_picture,
    extract_fields,
    find_fields,
    find_regions,
    find_structure,
    find_tables,
)

from .ocr_scores import Count
from .structure_adjacency import TextCell, relations_of, score_relations
from .structure_fields import (
    box_of_words,
    drawn_links,
    form_contents,
    form_links,
    score_links,
    score_values,
    words_in_lines,
)
from .structure_regions import (
    count_right,
    docbank_page,
    drawn_region_page,
    five_kinds,
    in_columns_or_rows,
    kendall_tau,
    label_share,
    publaynet_truth,
)
from .structure_tables import read_truth, tables_of

__all__ = ["Measure", "Scores", "make_measures"]

Scores = dict[str, float]

# Seeds of generated pages: the first were used while the rules were made.
_KNOWN_SEEDS, _UNSEEN_SEEDS = range(20), range(1000, 1060)
_MANY_FORMS = 60
# The resolution of images of files, in dots per inch.
_RESOLUTION = 144


@dataclass(frozen=True)
class Measure:
    """A measure of the rules of some areas.

    Attributes:
        areas: Beginnings of the names of the modules that it applies to.
        results: A function that returns plain results, one for each page.
        scores: A function from all results to scores.
    """

    areas: tuple[str, ...]
    results: Callable[[], list[Any]]
    scores: Callable[[list[Any]], Scores]


def make_measures(options: argparse.Namespace, modules: Sequence[str]) -> list[Measure]:
    """Return the measures for modules of these names for which the options name pages."""
    listed = options.known.read_text(encoding="utf-8").split() if options.known else []
    known = {Path(name).stem for name in listed}
    forms, receipts, words = options.forms, options.receipts, options.words
    makers: list[tuple[tuple[str, ...], Any, Callable[[], Iterator[Measure]]]] = [
        (("fields_pairs", "text_lines", "table", "finding"), forms, lambda: _read_form_measures(forms, words, known)),
        (("finding", "fields_pairs", "text_lines"), forms, lambda: _form_measures(forms, known)),
        (("fields_pairs", "text_lines", "finding"), True, _drawn_form_measures),
        (("picture", "content"), forms, lambda: _form_picture_measures(forms, known)),
        (("boxes", "ordering"), forms, lambda: _form_order_measures(forms, known)),
        (("fields_asked", "field_rules", "text_lines"), receipts, lambda: _receipt_measures(receipts, words, known)),
        (("boxes", "ordering"), receipts, lambda: _receipt_order_measures(receipts, known)),
        (("table", "finding", "content"), options.tables, lambda: _table_measures(options.tables)),
        (("picture", "content"), options.tables, lambda: _table_picture_measures(options.tables)),
        (("table", "finding", "picture", "content"), True, _drawn_table_measures),
        (("table", "finding", "picture", "content", "region", "text_lines", "boxes", "ordering"), options.publaynet,
         lambda: _publaynet_measures(options.publaynet, words)),
        (("region", "text_lines"), options.docbank, lambda: _docbank_measures(options.docbank)),
        (("region", "text_lines", "picture", "content", "boxes", "ordering", "labels"), True, _drawn_measures),
    ]  # fmt: skip
    made = [
        measure
        for areas, given, make in makers
        if given and any(name.startswith(areas) for name in modules)
        for measure in make()
    ]
    return [measure for measure in made if any(name.startswith(measure.areas) for name in modules)]


@contextmanager
def _same_blocks(memory: dict[Any, Any]) -> Iterator[None]:
    """Reuse the lines and blocks of a page while only rules for kinds of blocks change."""
    find_lines, find_blocks = _regions.lines_of, _regions.blocks_of

    def lines_of(page: Any, chosen: Any, walls: Any) -> Any:
        if len(chosen) == 0:
            return []
        key = (id(page), chosen.tobytes(), walls.tobytes())
        if key not in memory:
            memory[key] = (page, find_lines(page, chosen, walls))
        return memory[key][1]

    def blocks_of(lines: Any, rules: Any) -> Any:
        key = (id(lines), rules.tobytes())
        if key not in memory:
            memory[key] = (lines, find_blocks(lines, rules))
        return memory[key][1] if lines else []

    _regions.lines_of, _regions.blocks_of = lines_of, blocks_of
    try:
        yield
    finally:
        _regions.lines_of, _regions.blocks_of = find_lines, find_blocks


def _regions_measures(
    contents: Sequence[PageContent], tables: Sequence[Sequence[FoundTable]], scores: Callable[[list[Any]], Scores]
) -> Iterator[Measure]:
    def results() -> list[Any]:
        return list(map(find_regions, contents, tables))

    def faster() -> list[Any]:
        with _same_blocks(memory):
            return results()

    memory: dict[Any, Any] = {}
    yield Measure(("text_lines", "region_blocks"), results, scores)
    yield Measure(("region_kinds", "region_pictures", "regions"), faster, scores)


def _split(pages: Sequence[Path], known: set[str]) -> Iterator[tuple[str, list[Path]]]:
    for split, is_known in (("known", True), ("unseen", False)):
        chosen = [page for page in pages if (page.stem in known) == is_known]
        if chosen:
            yield f"{len(chosen)} {split}", chosen


def _image(annotation: Path) -> NDArray[np.uint8]:
    folder = annotation.parents[1] / "images"
    return np.array(Image.open(next(iter(sorted(folder.glob(f"{annotation.stem}.*"))))).convert("RGB"))


def _columns(words: Any) -> tuple[Any, Any, Any, Any]:
    texts, boxes, lines, confidences = zip(*words, strict=True) if words else ((), (), (), ())
    return boxes, texts, lines, confidences


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_form_measures(folder: Path, words: Path, known: set[str]) -> Iterator[Measure]:
    annotations = sorted((folder / "annotations").glob("*.json"))
    for split, pages in _split([page for page in annotations if (words / page.name).exists()], known):
        truths = [_load(page) for page in pages]
        images = [_image(page) for page in pages]
        of_words = [
            content_of_picture(image, *_columns(_load(words / page.name)))
            for page, image in zip(pages, images, strict=True)
        ]
        sources = [
            {**form_contents(image, truth), "as read": content}
            for image, truth, content in zip(images, truths, of_words, strict=True)
        ]
        links = [form_links(truth) for truth in truths]
        yield _links_measure(("fields_pairs", "text_lines"), f"forms, {split}", links, sources, find_fields)
        alone = [{"as read": content} for content in of_words]
        yield _links_measure(("table",), f"forms by find_structure, {split}", links, alone, _fields_of_structure)


def _form_measures(folder: Path, known: set[str]) -> Iterator[Measure]:
    """Measure the fields of forms from their true words, which need no OCR."""
    annotations = sorted((folder / "annotations").glob("*.json"))
    for split, pages in _split(annotations, known):
        truths = [_load(page) for page in pages]
        given = [
            {"true words": form_contents(_image(page), truth)["true words"]}
            for page, truth in zip(pages, truths, strict=True)
        ]
        links = [form_links(truth) for truth in truths]
        yield _links_measure(("fields_pairs", "text_lines"), f"forms, {split}", links, given, find_fields)
        # A third of the forms is enough.
        step = 1 if len(pages) < _MANY_FORMS else 3
        name = f"forms by find_structure, {len(pages[::step])} {split.split()[1]}"
        yield _links_measure(("finding",), name, links[::step], given[::step], _fields_of_structure)


def _drawn_form_measures() -> Iterator[Measure]:
    """Measure the fields of drawn forms, and false fields on drawn pages of other kinds."""
    drawn = [
        draw_random_page(random.Random(seed), kind="form", languages=("en", "de", "fr", "es"), style="scan")
        for seed in _UNSEEN_SEEDS
    ]
    given = [{"true words": content_of_picture(page.image, *_columns(_words_of_lines(page)))} for page in drawn]
    links = [drawn_links(page) for page in drawn]
    name = f"{len(drawn)} unseen drawn pages"
    yield _links_measure(("fields_pairs", "text_lines"), f"forms, {name}", links, given, find_fields)
    yield _links_measure(("finding",), f"forms by find_structure, {name}", links, given, _fields_of_structure)
    others = [drawn_region_page(seed)[2] for seed in _UNSEEN_SEEDS]

    def scores(found: list[Any]) -> Scores:
        return {f"fields on {len(others)} unseen drawn pages without a form": -float(sum(found))}

    yield Measure(("finding",), lambda: [len(_fields_of_structure(content)) for content in others], scores)


def _form_picture_measures(folder: Path, known: set[str]) -> Iterator[Measure]:
    """Measure the fields of forms from their images and true words, so that rules of pictures have an effect."""
    for split, pages in _split(sorted((folder / "annotations").glob("*.json")), known):
        # A fifth of the forms is enough.
        pages = pages if len(pages) < _MANY_FORMS else pages[::5]
        truths = [_load(page) for page in pages]
        images = [_image(page) for page in pages]
        words = [_columns(words_in_lines(truth["form"])) for truth in truths]

        def again(images: Any = images, words: Any = words) -> list[Any]:
            contents = [content_of_picture(image, *of_page) for image, of_page in zip(images, words, strict=True)]
            return [
                {
                    "true words": [
                        (box_of_words(content, field.key_words), box_of_words(content, field.value_words))
                        for field in find_fields(content)
                    ]
                }
                for content in contents
            ]

        links = [form_links(truth) for truth in truths]
        name = f"forms, {len(pages)} {split.split()[1]}"
        scores = _links_measure((), name, links, [], find_fields).scores
        yield Measure(("picture", "content"), again, scores)


def _form_order_measures(folder: Path, known: set[str]) -> Iterator[Measure]:
    for split, pages in _split(sorted((folder / "annotations").glob("*.json")), known):
        yield _form_order_measure(f"order of forms, {split}", [_load(page)["form"] for page in pages])


def _fields_of_structure(content: Any) -> Any:
    return find_structure(content, fields=True).fields


def _links_measure(
    areas: tuple[str, ...], name: str, links: Sequence[Any], sources: Sequence[Mapping[str, Any]], find: Any
) -> Measure:
    def results() -> list[Any]:
        return [
            {
                source: [
                    (box_of_words(content, field.key_words), box_of_words(content, field.value_words))
                    for field in find(content)
                ]
                for source, content in contents.items()
            }
            for contents in sources
        ]

    def scores(found: list[Any]) -> Scores:
        totals: dict[str, Count] = {}
        for wanted, boxes in zip(links, found, strict=True):
            for source in boxes:
                totals[source] = totals.get(source, Count()) + score_links(wanted, boxes[source])
        return {f"{name}, {source}": score.f1 for source, score in totals.items()}

    return Measure(areas, results, scores)


def _form_order_measure(name: str, forms: Sequence[Any]) -> Measure:
    """Measure the share of consecutive words of true entities that are consecutive in the order of lines."""
    pages = []
    for form in forms:
        words = words_in_lines(form)
        places = {(text, box): index for index, (text, box, _, _) in enumerate(words)}
        pairs = [
            (places[one["text"].strip(), tuple(one["box"])], places[two["text"].strip(), tuple(two["box"])])
            for entity in form
            for one, two in pairwise(_filled(entity))
        ]
        numbers = np.array([line for _, _, line, _ in words])
        boxes = np.array([box for _, box, _, _ in words], np.float64).reshape(-1, 4)
        pages.append((boxes, numbers, np.array(pairs).reshape(-1, 2)))
    lines = [_boxes_of_groups(boxes, numbers) for boxes, numbers, _ in pages]

    def scores(found: list[Any]) -> Scores:
        kept = total = 0
        for (boxes, numbers, pairs), segments in zip(pages, found, strict=True):
            ranks = np.empty(numbers.max() + 1)
            ranks[[line for segment in segments for line in segment]] = np.arange(len(ranks))
            places = np.argsort(np.lexsort((boxes[:, 0], ranks[numbers])))
            kept += int((places[pairs[:, 1]] - places[pairs[:, 0]] == 1).sum())
            total += len(pairs)
        return {name: kept / total}

    return Measure(("boxes", "ordering"), lambda: [_segments(page) for page in lines], scores)


def _filled(entity: Any) -> list[Any]:
    return [word for word in entity["words"] if word["text"].strip()]


def _boxes_of_groups(boxes: NDArray[np.float64], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array(
        [
            [*boxes[numbers == group, :2].min(axis=0), *boxes[numbers == group, 2:].max(axis=0)]
            for group in range(int(numbers.max(initial=-1)) + 1)
        ]
    ).reshape(-1, 4)


def _segments(boxes: NDArray[np.float64]) -> list[list[int]]:
    """Order lines and split the order into paragraphs, as exports do."""
    numbers = page_boxes.row_numbers(boxes)
    rows: dict[int, list[int]] = {}
    for line in np.lexsort((boxes[:, 0], numbers)).tolist():
        rows.setdefault(int(numbers[line]), []).append(line)
    return ordering.resolve_reading_segments(boxes, rows=sorted(rows.values(), key=min)) if len(boxes) else []


def _receipt_measures(folder: Path, words: Path, known: set[str]) -> Iterator[Measure]:
    annotations = sorted((folder / "annotations").glob("*.json"))
    for split, pages in _split([page for page in annotations if (words / page.name).exists()], known):
        truths = [_load(page)["fields"] for page in pages]
        contents = [content_of_picture(_image(page), *_columns(_load(words / page.name))) for page in pages]
        yield _receipts_measure(f"receipts, {split}", truths, contents)


def _receipt_order_measures(folder: Path, known: set[str]) -> Iterator[Measure]:
    for split, pages in _split(sorted((folder / "annotations").glob("*.json")), known):
        lines = [np.array([line["box"] for line in _load(page)["lines"]], np.float64).reshape(-1, 4) for page in pages]
        yield _line_order_measure(f"order of receipts, {split}", lines)


def _receipts_measure(name: str, truths: Sequence[Any], contents: Sequence[Any]) -> Measure:
    def results() -> list[Any]:
        return [{field.name: field.value for field in extract_fields(content, "receipt")} for content in contents]

    def scores(found: list[Any]) -> Scores:
        marks = [
            mark for truth, values in zip(truths, found, strict=True) for mark in score_values(truth, values).values()
        ]
        exact, letters = np.mean(marks, axis=0).tolist()
        return {f"{name}, exact": exact, f"{name}, letters": letters}

    return Measure(("fields_asked", "field_rules", "text_lines"), results, scores)


def _line_order_measure(
    name: str, lines: Sequence[NDArray[np.float64]], parts: Sequence[NDArray[np.int64]] | None = None
) -> Measure:
    """Compare orders with the given order; ``parts`` are the regions of the lines, for the cuts into paragraphs."""

    def scores(found: list[Any]) -> Scores:
        taus = [kendall_tau([line for segment in segments for line in segment]) for segments in found]
        values = {name: float(np.mean(taus))}
        if parts is not None:
            right = []
            for numbers, segments in zip(parts, found, strict=True):
                home = {line: number for number, segment in enumerate(segments) for line in segment}
                right += [
                    (numbers[line] == numbers[line + 1]) == (home[line] == home[line + 1])
                    for line in range(len(numbers) - 1)
                ]
            values[f"paragraphs, {name}"] = float(np.mean(right))
        return values

    return Measure(("boxes", "ordering"), lambda: [_segments(page) for page in lines], scores)


def _table_files(folder: Path) -> list[tuple[Path, Path]]:
    """Return each PDF file that has a truth, with the file of the truth."""
    truths = sorted(folder.glob("*-str.xml"))
    pairs = [(folder / f"{truth.name.removesuffix('-str.xml')}.pdf", truth) for truth in truths]
    return [(pdf, truth) for pdf, truth in pairs if pdf.exists()]


def _table_measures(folder: Path) -> Iterator[Measure]:
    """Measure tables of files, and how their content is read from what the files draw."""
    files = _table_files(folder)

    def read() -> list[list[PageContent]]:
        documents = [DocumentFile.from_pdf(pdf) for pdf, _ in files]
        return [
            [content for number in range(len(pages)) if (content := pages.page_content(number))] for pages in documents
        ]

    def found(contents: Sequence[Sequence[PageContent]]) -> list[Any]:
        return [
            [relation for content in pages for relation in tables_of(content, find_tables(content))]
            for pages in contents
        ]

    contents = read()
    scores = _relation_scores(f"tables, {len(files)} known files", [read_truth(truth) for _, truth in files])
    yield Measure(("table", "finding"), lambda: found(contents), scores)
    yield Measure(("content",), lambda: found(read()), scores)


def _table_picture_measures(folder: Path) -> Iterator[Measure]:
    """Measure tables in images of the pages that have tables, with the words of the files."""
    truths, pages = [], []
    for pdf, truth in _table_files(folder):
        document = DocumentFile.from_pdf(pdf, dpi=_RESOLUTION)
        truths.append(read_truth(truth))
        of_file = []
        for number in sorted({int(region.attrib["page"]) - 1 for region in ET.parse(truth).getroot().iter("region")}):
            content, image = document.page_content(number), document[number]
            if content is not None:
                boxes = content.boxes * _RESOLUTION / 72
                of_file.append((image, boxes, content.texts, content.line_ids, content.confidences))
        pages.append(of_file)

    def results() -> list[Any]:
        found = []
        for of_file in pages:
            contents = [content_of_picture(*page) for page in of_file]
            found.append([relation for content in contents for relation in tables_of(content, find_tables(content))])
        return found

    yield Measure(
        ("picture", "content"), results, _relation_scores(f"tables in pictures, {len(truths)} known files", truths)
    )


def _drawn_table_measures() -> Iterator[Measure]:
    """Measure tables in drawn pages, which were not used while the rules were made."""
    drawn = [
        draw_random_page(random.Random(seed), kind="table", style=("clean", "scan")[seed % 2]) for seed in _UNSEEN_SEEDS
    ]
    truths = [
        [
            relation
            for table in page.tables
            for relation in relations_of(
                TextCell(
                    cell.row, cell.row + cell.row_span - 1, cell.column, cell.column + cell.column_span - 1, cell.text
                )
                for cell in table.cells
            )
        ]
        for page in drawn
    ]

    def read() -> list[PageContent]:
        return [content_of_picture(page.image, *_columns(_words_of_lines(page))) for page in drawn]

    def found(contents: Sequence[PageContent]) -> list[Any]:
        return [tables_of(content, find_tables(content)) for content in contents]

    contents, scores = read(), _relation_scores(f"tables, {len(drawn)} unseen drawn pages", truths)
    yield Measure(("table", "finding"), lambda: found(contents), scores)
    yield Measure(("picture", "content"), lambda: found(read()), scores)


def _words_of_lines(page: DrawnPage) -> list[Any]:
    return [
        (word.text, (*word.polygon.min(axis=0), *word.polygon.max(axis=0)), number, 1.0)
        for number, line in enumerate(page.lines)
        for word in line.words
    ]


def _relation_scores(name: str, truths: Sequence[Any]) -> Callable[[list[Any]], Scores]:
    def scores(found: list[Any]) -> Scores:
        total = Count()
        for truth, relations in zip(truths, found, strict=True):
            total += score_relations(truth, relations)
        return {name: total.f1}

    return scores


def _publaynet_measures(folder: Path, words: Path) -> Iterator[Measure]:
    pages = []
    for name, wanted in publaynet_truth(folder):
        file = words / "publaynet" / f"{name}.json"
        if file.exists():
            image = np.array(Image.open(folder / name).convert("RGB"))
            pages.append((wanted, image, _columns(_load(file)["words"])))
    contents = [content_of_picture(image, *words) for _, image, words in pages]
    tables = [find_tables(content) for content in contents]

    def scores(found: list[Any]) -> Scores:
        return {f"regions, {len(pages)} known pages": _region_f1([page[0] for page in pages], map(five_kinds, found))}

    def with_tables() -> list[Any]:
        return [find_regions(content, find_tables(content)) for content in contents]

    def read_again() -> list[Any]:
        again = [content_of_picture(image, *words) for _, image, words in pages]
        return [find_regions(content, find_tables(content)) for content in again]

    yield Measure(("table", "finding"), with_tables, scores)
    yield Measure(("picture", "content"), read_again, scores)
    yield from _regions_measures(contents, tables, scores)
    lines = [_boxes_of_groups(content.boxes, content.line_ids) for content in contents]

    def order_scores(found: list[Any]) -> Scores:
        parts = runs = 0
        for (wanted, _, _), boxes, segments in zip(pages, lines, found, strict=True):
            homes = [_region_of(boxes[line], wanted) for segment in segments for line in segment]
            homes = [home for home in homes if home >= 0]
            parts += len(set(homes))
            runs += 1 + sum(one != two for one, two in pairwise(homes))
        return {f"order of regions, {len(pages)} known pages": parts / max(1, runs)}

    yield Measure(("boxes", "ordering"), lambda: [_segments(page) for page in lines], order_scores)


def _region_of(box: NDArray[np.float64], regions: Sequence[tuple[str, Any]]) -> int:
    x, y = box.reshape(2, 2).mean(axis=0)
    inside = [place for place, (_, (x0, y0, x1, y1)) in enumerate(regions) if x0 <= x <= x1 and y0 <= y <= y1]
    return inside[0] if inside else -1


def _region_f1(wanted: Sequence[Any], found: Iterator[Any]) -> float:
    counts = np.zeros(3)
    for truth, parts in zip(wanted, found, strict=True):
        counts += (sum(count_right(truth, parts).values()), len(parts), len(truth))
    return float(2 * counts[0] / max(1, counts[1] + counts[2]))


def _docbank_measures(folder: Path) -> Iterator[Measure]:
    pages = [(path, *docbank_page(path)) for path in sorted(folder.glob("*.txt"))]
    tables = [find_tables(page[3]) for page in pages]
    orders = [in_columns_or_rows(path, boxes, labels) for path, boxes, labels, _ in pages]

    def scores(found: list[Any]) -> Scores:
        taus, right = [], []
        for (_, _, labels, _), order, regions in zip(pages, orders, found, strict=True):
            words = np.array([word for region in regions for word in region.words], np.int64)
            taus.append(kendall_tau(np.argsort(order)[words].tolist()))
            right.append(label_share(labels, regions))
        number = f"{len(pages)} known papers"
        return {f"order, {number}": float(np.mean(taus)), f"labels, {number}": float(np.mean(right))}

    yield from _regions_measures([page[3] for page in pages], tables, scores)


def _drawn_measures() -> Iterator[Measure]:
    for split, seeds in (("known", _KNOWN_SEEDS), ("unseen", _UNSEEN_SEEDS)):
        drawn = [drawn_region_page(seed) for seed in seeds]
        name = f"{len(drawn)} {split} drawn pages"
        yield from _drawn_region_measures(name, drawn)
        pages = [page for page, _, _, _ in drawn]
        lines = [_boxes_of_lines(page) for page in pages]
        parts = [np.array([place for place, region in enumerate(page.regions) for _ in region.lines]) for page in pages]
        yield _line_order_measure(f"order of lines, {name}", lines, parts)
        yield _labelled_order_measure(f"order with labels, {name}", pages)
    mixed = [
        draw_random_page(random.Random(seed), kind="form", languages=("en", "de", "fr", "es"), style="clean")
        for seed in _UNSEEN_SEEDS
    ]
    yield _line_order_measure(f"order of lines, {len(mixed)} unseen drawn forms", list(map(_boxes_of_lines, mixed)))


def _boxes_of_lines(page: DrawnPage) -> NDArray[np.float64]:
    return np.array([[*line.polygon.min(axis=0), *line.polygon.max(axis=0)] for line in page.lines]).reshape(-1, 4)


def _labelled_order_measure(name: str, pages: Sequence[DrawnPage]) -> Measure:
    regions = [
        ([[*part.polygon.min(axis=0), *part.polygon.max(axis=0)] for part in page.regions], page) for page in pages
    ]

    def results() -> list[Any]:
        return [
            ordering.sort_reading_order(
                np.array(boxes) / np.tile(page.image.shape[1::-1], 2),
                labels=[part.kind for part in page.regions],
            )
            for boxes, page in regions
        ]

    return Measure(
        ("boxes", "ordering", "labels"), results, lambda found: {name: float(np.mean(list(map(kendall_tau, found))))}
    )


def _drawn_region_measures(name: str, drawn: Sequence[Any]) -> Iterator[Measure]:
    wanted = [truth for _, truth, _, _ in drawn]

    def scores(found: list[Any]) -> Scores:
        parts = ([(region.kind, region.box, region.confidence) for region in regions] for regions in found)
        taus = []
        for regions in found:
            taus.append(kendall_tau([word for region in regions for word in region.words]))
        return {f"regions, {name}": _region_f1(wanted, iter(parts)), f"order, {name}": float(np.mean(taus))}

    def read_again() -> list[Any]:
        return [
            find_regions(content_of_picture(page.image, *_columns(words)), tables)
            for (page, _, _, tables), words in zip(drawn, of_pages, strict=True)
        ]

    of_pages = [
        [
            (text, tuple(box), int(line), 1.0)
            for text, box, line in zip(content.texts, content.boxes, content.line_ids, strict=True)
        ]
        for _, _, content, _ in drawn
    ]
    yield from _regions_measures([page[2] for page in drawn], [page[3] for page in drawn], scores)
    yield Measure(("picture", "content"), read_again, scores)
