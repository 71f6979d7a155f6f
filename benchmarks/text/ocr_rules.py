"""Effect of each rule of reading: ``python -m benchmarks.text.ocr_rules --pages FOLDER --known FILE``.

Every named number of the modules is set to 0, to 0.7 and 1.4 times its value and to a million times its value, every
predicate is fixed to true and to false, and every step that only corrects a result is left out. With ``--conditions``,
every condition inside a function is left out as well. After each change, all pages are read and scored again. The
pages of ``--known``, on which rules were developed, are scored apart from unseen pages and from generated pages, which
include turned pages and invoices, and from letterspaced lines and lists at their true places. A rule that can be
switched off without a lower score on any set is unnecessary, if the pages test it: the number of decisions says how
often a predicate was false and true without any change.

The networks' results are kept by their input pixels, so a change costs only the rules and what the networks had not
seen before.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from mediatensor.ocr import models, ocr_predictor

from ..shared.machine import machine_stamp
from ..shared.options import make_parser
from ..shared.reports import say, write_report
from .ocr_drawn import Look, draw_lines, find_face
from .ocr_numbers import draw_invoices
from .ocr_readers import to_words
from .ocr_scores import Word, page_errors, score_words
from .ocr_truth import TruePage, draw_pages, load_sets
from .rules import (
    Change,
    Figures,
    add_rules,
    changes_of,
    count_decisions,
    effect_on,
    is_chosen,
    is_decided,
    measure_changes,
    numbers_of,
    remember,
    rules_report,
)

# Modules of rules, in the order of their steps on a page. A change in a module leaves the results of all earlier steps
# as they are: boxes of the detector, then images of lines, then scores of the recogniser.
_AREAS = {
    "pages": "_networks.preprocessing",
    "detection": "detection.predictor",
    "leftovers": "detection._leftovers",
    "cutting": "_lines.cutting",
    "ink": "_lines.ink",
    "reading": "_lines.reading",
    "turning": "_lines.turning",
    "characters": "_lines.characters",
    "words": "_lines.words",
    "page_lines": "_lines.page_lines",
}
_DETECTS = ("pages", "detection", "leftovers")
_CUTS = (*_DETECTS, "cutting", "ink")
# Steps that only correct a result: the argument that they return when they are left out, or None for no result.
_STEPS: Mapping[str, int | None] = {
    "remove_screens": 0,
    "add_found_boxes": 0,
    "extend_to_colons": 0,
    "_merge_windows": 0,
    "remove_rules": 0,
    "correct_spelling": 0,
    "_with_known_words": 0,
    "replace_zeros": 0,
    "find_letterspaced_spaces": None,
    "find_missing_spaces": None,
    "_split_at_gaps": 0,
    "_turn_bad_lines": 3,
}
# Numbers that bound memory or describe a format; they are not rules.
_TECHNICAL = {
    "BITS",
    "BLANK",
    "CUT_HEIGHT",
    "FIRST_EAST_ASIAN",
    "LAST_EAST_ASIAN",
    "MAX_FLOAT_PIXELS",
    "NUM_ALTERNATIVES",
    "SEQUENCE_LENGTH",
    "SYMBOL_BITS",
    "TURNS",
    "_SHORT_TEXT",
    "_SHORT_TEXT_CONFIDENCE",
    "_EVEN",
    "_MAX_PIXELS",
    "_QUARTER",
    "_TILE",
}
# Generated pages: turned by each angle, and small, faint and inverted ones.
_PLANS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("letter", 10, {"rotation": 180}),
    ("form", 11, {"rotation": 90}),
    ("receipt", 12, {"rotation": 270}),
    ("columns", 13, {"dpi": 80}),
    ("receipt", 14, {"dpi": 150, "contrast": 0.5, "noise": 10}),
    ("form", 15, {"dpi": 120, "inverted": True}),
)
_NUM_INVOICES = 3
# Pages of letterspaced lines: font, em in pixels, space after each letter in em. The last page has lists instead.
_SPACED = (
    ("DejaVuSans", 32, 0.1),
    ("LiberationSans-Regular", 20, 0.25),
    ("LiberationSerif-Regular", 32, 0.25),
    ("DejaVuSans-Bold", 32, 0.35),
    ("LiberationSans-Regular", 32, 0.5),
    ("DejaVuSansMono", 24, 0.5),
    ("LiberationSerif-Italic", 40, 0.7),
    ("DejaVuSans", 20, 0.7),
    ("LiberationSans-Regular", 40, 1.0),
    ("DejaVuSerif", 32, 1.0),
    ("DejaVuSans", 32, 0.0),
)
_SPACED_LINES = (
    "THE LAST HARBOUR", "Six months later", "NIGHT OVER OSLO", "Directed by Anna Lind", "A FILM IN TWO PARTS",
    "Music and lyrics", "OUR LONG WAY HOME", "Fall in Millwall", "I WILL WAIT", "CHAPTER 12", "Will it rain?",
    "LONDON CALLING", "The winter garden", "Seven summers earlier", "TO BE OR NOT TO BE",
)  # fmt: skip
_LISTS = (
    "A B C D E F G", "1 2 3 4 5 6 7 8", "A B C", "x y z w", "I. II. III. IV.", "a b c d e f g h i", "- - - - -",
    "A-1 B-2", "1 . 2 . 3", "Total .......... 5", "Name: ________", "a = b + c", "5 %", "No 7",
)  # fmt: skip
_PATIENCE = 10
# Figures of which more is better, and less is better.
_MORE, _LESS = ("words right",), ("words invented", "characters wrong")


@dataclass
class _Page:
    """A page in memory, its truth, and how it is read without any change."""

    truth: TruePage
    set: str
    image: Tensor
    lines: NDArray[np.float64] | None = None  # the corners of its lines, (N, 4, 2), if they are not to be detected
    seconds: float = 0.0
    words: list[Word] = field(default_factory=list)
    content: str = ""
    figures: Figures = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pages = list(_pages(options, Path(folder)))
    document = _sweep(_Reader(), pages, options)
    text = _to_markdown(document)
    write_report(options.output, options.name, document, text)


def _pages(options: argparse.Namespace, folder: Path) -> Iterator[_Page]:
    sets = load_sets(options.pages, None, options.known) if options.pages else {}
    sets = {name: pages[:: max(1, len(pages) // options.limit)][: options.limit] for name, pages in sets.items()}
    generated = draw_pages(folder, None, _PLANS)["drawn"]
    for invoice in draw_invoices(folder, _NUM_INVOICES):
        values = tuple(Word(value.text, value.box) for value in invoice.values)
        generated.append(TruePage(invoice.image, (), values, has_word_boxes=False))
    for name, pages in {**sets, "generated": generated}.items():
        for page in pages:
            yield _Page(page, name, torch.from_numpy(np.array(Image.open(page.image).convert("RGB"))).permute(2, 0, 1))
    yield from _spaced_pages(folder)


def _spaced_pages(folder: Path) -> Iterator[_Page]:
    """Yield pages of letterspaced lines, which are read at their true places: detectors divide such lines."""
    for number, (font, em, tracking) in enumerate(_SPACED):
        if (face := find_face(font)) is None:
            continue
        page = draw_lines(_SPACED_LINES if tracking else _LISTS, Look(face, em, tracking=tracking, leading=2.2))
        path = folder / f"spaced-{number}.png"
        Image.fromarray(page.image).save(path)
        margin = em / 4
        boxes = [(*line.quad.min(axis=0) - margin, *line.quad.max(axis=0) + margin) for line in page.lines]
        lines = tuple(Word(line.text, box) for line, box in zip(page.lines, boxes, strict=True))
        words = tuple(Word(text, line.box) for line in lines for text in line.text.split())
        quads = np.array([[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, y0, x1, y1 in boxes])
        pixels = torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1)
        yield _Page(TruePage(path, words, lines, has_word_boxes=False), "letterspaced", pixels, quads)


class _Reader:
    """The predictor with its defaults, whose networks remember their results.

    ``area`` is the module that is changed now. The results of earlier steps are remembered as well.
    """

    def __init__(self) -> None:
        self.area = ""
        self._predictor = ocr_predictor(pretrained=True)
        self._located, self._seen = dict[bytes, Any](), dict[bytes, Any]()
        detector, recogniser = self._predictor.det_predictor, self._predictor.reco_predictor.model
        locate, forward, recognise = detector.locate, detector.model.forward, recogniser.forward
        maps, steps = dict[bytes, Any](), dict[bytes, Any]()
        detector.model.forward = lambda data, **options: remember(maps, [data], lambda: forward(data, **options))
        recogniser.forward = lambda lines, **options: _join(
            [remember(steps, [line], lambda line=line: recognise(line[None], **options)) for line in lines]
        )

        def remembered_locate(images: Sequence[Tensor], **options: Any) -> Any:
            if self.area in _DETECTS:
                return locate(images, **options)
            return iter([remember(self._located, images, lambda: list(locate(images, **options)))[0]])

        detector.locate = remembered_locate
        self._reading = reading = importlib.import_module(f"{models.__name__}._lines.reading")
        self._read_lines = read_lines = reading.read_lines

        def remembered_read(model: Any, page: Tensor, quads: Any, split_after: str = "") -> Any:
            if self.area in _CUTS or model is not recogniser:
                return read_lines(model, page, quads, split_after)
            size = model.cfg["input_shape"][1], reading.MAX_LINE_WIDTH
            seen = remember(
                self._seen,
                [page, quads],
                lambda: [reading.see_batch(model, cut()) for cut in reading.line_cuts(page, quads, *size)],
            )
            return reading.readings_of(model, seen, len(quads), split_after)

        reading.read_lines = remembered_read

    def close(self) -> None:
        """Let other predictors read lines without the memory again."""
        self._reading.read_lines = self._read_lines

    @torch.inference_mode()
    def read(self, page: _Page) -> tuple[list[Word], str]:
        """Return the words of a page, and everything that was read on it."""
        if page.lines is not None:
            lines = self._reading.read_lines(self._predictor.reco_predictor.model, page.image, page.lines)
            places = [line.box for line in page.truth.lines]
            words = [Word(word.value, box) for line, box in zip(lines, places, strict=True) for word in line.words]
            return words, repr(lines)
        read = self._predictor([page.image]).pages[0]
        return to_words(read), repr((read.export(), read.unread))


def _join(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the outputs of the recogniser for single lines as the output for a batch."""
    joined: dict[str, Any] = {}
    for name, first in outputs[0].items():
        parts = [output[name] for output in outputs]
        if isinstance(first, tuple):
            joined[name] = tuple(torch.cat(values) for values in zip(*parts, strict=True))
        else:
            joined[name] = None if first is None else torch.cat(parts)
    return joined


def _figures(page: _Page, words: Sequence[Word]) -> Figures:
    score = score_words(page.truth.words, words)
    count = score.end_to_end["raw"] if page.truth.has_word_boxes else score.bag["caseless"]
    errors = page_errors(page.truth.words if page.truth.has_word_boxes else page.truth.lines, words)
    return {
        "words": count.truth,
        "words right": count.right,
        "words invented": count.found - count.right,
        "characters wrong": errors.edits,
    }


def _changes(options: argparse.Namespace, reader: _Reader, pages: Sequence[_Page]) -> Iterator[tuple[str, Change, int]]:
    """Yield each rule, its change and its number of decisions."""
    modules = {area: importlib.import_module(f"{models.__name__}.{name}") for area, name in _AREAS.items()}
    numbers = {area: numbers_of(module) for area, module in modules.items()}
    for area in options.areas:
        module = modules[area]
        reader.area = area
        changes = [
            entry
            for entry in changes_of(module, conditions=options.conditions, steps=_STEPS)
            if is_chosen(entry[0], options.rules)
        ]
        decisions = Counter[tuple[str, str]]()
        if any(is_decided(label) for _, (label, _) in changes):
            measures: list[Callable[[], object]] = [partial(reader.read, page) for page in pages]
            decisions = count_decisions(module, measures, conditions=options.conditions)
        for rule, (label, values) in changes:
            name = rule.partition(".")[2].partition("[")[0]
            if name in _TECHNICAL:
                continue
            if name.isupper():
                if name not in numbers[area]:  # imported from another module
                    continue
                users = [own for other, own in modules.items() if name in vars(own) and name not in numbers[other]]
                values = [(owner, name, values[0][2]) for owner in (module, *users)]
            yield rule, (label, values), decisions[rule.partition(".")[2], label]


def _sweep(reader: _Reader, pages: Sequence[_Page], options: argparse.Namespace) -> dict[str, Any]:
    for page in pages:
        for _ in range(2):
            start = time.monotonic()
            page.words, page.content = reader.read(page)
            page.seconds = time.monotonic() - start
        page.figures = _figures(page, page.words)
    order = sorted(pages, key=lambda page: page.seconds)
    base: dict[str, Figures] = {}
    for page in pages:
        total = base.setdefault(page.set, dict.fromkeys(("pages", *page.figures), 0))
        for name, count in {"pages": 1, **page.figures}.items():
            total[name] += count
    seconds = sum(page.seconds for page in pages)
    say(f"{base}, {seconds:.1f} s for each change")

    def read_again(page: _Page) -> Figures | None:
        words, content = reader.read(page)
        if content == page.content:
            return None
        return page.figures if words == page.words else _figures(page, words)

    def measure(rule: str) -> dict[str, Figures]:
        reader.area = areas[rule.partition(".")[0]]
        return effect_on(order, read_again, more=_MORE, less=_LESS, enough=options.enough)

    areas = {name.rpartition(".")[2]: area for area, name in _AREAS.items()}
    rows = measure_changes(
        _changes(options, reader, order), measure, "pages", seconds=60 + _PATIENCE * seconds, only=options.changes
    )
    return {"schema": 1, "machine": machine_stamp(), "base": base, "rows": rows}


def _to_markdown(document: Mapping[str, Any]) -> str:
    return rules_report("Rules of reading", __doc__, document["base"], document, "pages")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.text.ocr_rules", __doc__)
    parser.add_argument("areas", nargs="*", default=list(_AREAS), metavar="AREA", help=f"{', '.join(_AREAS)} (all)")
    parser.add_argument("--pages", nargs="+", type=Path, metavar="FOLDER", help="pages as for benchmarks.text.ocr")
    parser.add_argument("--known", type=Path, metavar="FILE", help="list of images on which rules were developed")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="pages of each set (default: 10)")
    add_rules(parser, "pages", "ocr_rules")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
