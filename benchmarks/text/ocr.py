"""Read pages with known text and compare readers: ``python -m benchmarks.text.ocr [--pages FOLDER...]``.

``--languages`` renders pages in each language that the default reader may claim, ``--numbers`` invoices, and
``--holes`` pages and lines in many fonts and sizes, to count lost characters; only this library reads these. Without
these options and without folders, a few pages are rendered. Each installed reader reads every page in its own process,
with the same number of threads. The results are compared with the truth, and each page is timed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..shared.machine import machine_stamp
from ..shared.options import add_output, make_parser
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import can_draw, fact_list, markdown_table, say, write_report
from ..shared.results import quartiles
from .ocr_readers import OURS, READERS, reader_of
from .ocr_running import Effort, Run, run_readers
from .ocr_scores import Errors, Word, WordScore, page_errors, score_lines, score_words, tightened
from .ocr_truth import TruePage, draw_pages, load_sets

# By reader: the same words are also scored in boxes that are cropped at top and bottom by this share of their height.
# PP-OCR's detector makes boxes 1.5 times as high as the ink, so that an IoU of 0.5 is often missed.
_TIGHTENED = {"rapidocr": 0.15}


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of one reader on one set of pages.

    Attributes:
        pages, reader: Which.
        num_pages: Pages of the set.
        words: Score of all pages; detection and end-to-end counts only include pages with word boxes.
        has_word_boxes: Whether any page has word boxes.
        page: Edits of whole pages.
        line: Edits of true lines, where there are any.
    """

    pages: str
    reader: str
    num_pages: int
    words: WordScore
    has_word_boxes: bool
    page: Errors
    line: Errors


@dataclass(frozen=True)
class SpeedRow:
    """Speed of one reader on one set of pages.

    Attributes:
        pages, reader: Which.
        wall_seconds: Mean seconds per page, by round.
        wall_median, wall_first_quartile, wall_third_quartile, cpu_median: Statistics over the rounds.
        first_result_median: From the start of a process to the words of the first page of the first set.
        peak_rss_mib: Largest resident set of any round.
    """

    pages: str
    reader: str
    wall_seconds: tuple[float, ...]
    wall_median: float
    wall_first_quartile: float
    wall_third_quartile: float
    cpu_median: float
    first_result_median: float
    peak_rss_mib: float


def measure_accuracy(name: str, reader: str, pages: Sequence[TruePage], words: Sequence[Sequence[Word]]) -> Accuracy:
    """Compare the words read on each page with the true words."""
    total, page_total, line_total = WordScore(), Errors(), Errors()
    for page, found in zip(pages, words, strict=True):
        total += score_words(page.words, found)
        page_total += page_errors(page.words if page.has_word_boxes else page.lines, found)
        line_total += score_lines(page.lines, found)
    has_boxes = all(page.has_word_boxes for page in pages)
    return Accuracy(name, reader, len(pages), total, has_boxes, page_total, line_total)


def _accuracies(sets: Mapping[str, Sequence[TruePage]], runs: Mapping[str, Run]) -> list[Accuracy]:
    rows, first = [], 0
    for name, pages in sets.items():
        for reader, run in runs.items():
            words = run.words[first : first + len(pages)]
            rows.append(measure_accuracy(name, reader, pages, words))
            if reader in _TIGHTENED and rows[-1].has_word_boxes:
                cut = [tightened(found, _TIGHTENED[reader]) for found in words]
                rows.append(measure_accuracy(name, f"{reader}, boxes cut to the ink", pages, cut))
        first += len(pages)
    return rows


def _speeds(sets: Mapping[str, Sequence[TruePage]], runs: Mapping[str, Run]) -> list[SpeedRow]:
    rows, first = [], 0
    for name, pages in sets.items():
        stop = first + len(pages)
        for reader, run in runs.items():
            walls = [statistics.mean(seconds[first:stop]) for seconds in run.wall_seconds]
            cpu = statistics.median(statistics.mean(seconds[first:stop]) for seconds in run.cpu_seconds)
            low, middle, high = quartiles(walls)
            first_result, peak = statistics.median(run.first_result_seconds), max(run.peak_rss_mib)
            rows.append(SpeedRow(name, reader, tuple(walls), middle, low, high, cpu, first_result, peak))
        first = stop
    return rows


def _panels(accuracies: Sequence[Accuracy], speeds: Sequence[SpeedRow]) -> list[list[Panel]]:
    """Return a line of panels for each set of pages: right words, and seconds per page."""
    lines = []
    for name in dict.fromkeys(row.pages for row in speeds):
        rows = [row for row in accuracies if row.pages == name]
        if rows[0].has_word_boxes:
            measure, counts = "words in their places, F1", [row.words.end_to_end["raw"] for row in rows]
        else:
            measure, counts = "words anywhere on the page, caseless, F1", [row.words.bag["caseless"] for row in rows]
        right = [Bar(row.reader, 100 * count.f1) for row, count in zip(rows, counts, strict=True)]
        seconds = [
            Bar(
                row.reader,
                row.wall_median,
                row.wall_median - row.wall_first_quartile,
                row.wall_third_quartile - row.wall_median,
            )
            for row in speeds
            if row.pages == name
        ]
        lines.append(
            [
                Panel(f"{name}: {measure}", "% (more is better)", right),
                Panel(f"{name}: a page", "seconds (less is better)", seconds),
            ]
        )
    return lines


def accuracy_table(rows: Sequence[Accuracy]) -> str:
    head = ["pages", "reader", "detection R / P / F1", "end to end, raw R / P / F1", "caseless F1", "alnum F1"]
    head += ["bag, raw F1", "caseless F1", "alnum F1", "page CER", "line CER", "lines exact"]
    lines = []
    for row in rows:
        detection, raw = row.words.detection, row.words.end_to_end["raw"]
        boxed = [f"{_percent(c.recall)} / {_percent(c.precision)} / {_percent(c.f1)}" for c in (detection, raw)]
        boxed += [_percent(row.words.end_to_end[form].f1) for form in ("caseless", "alnum")]
        bags = [_percent(row.words.bag[form].f1) for form in ("raw", "caseless", "alnum")]
        of_lines = [_percent(row.line.rate), _percent(row.line.exact_rate)] if row.line.texts else ["", ""]
        name = f"{row.pages}, {row.num_pages}"
        boxed = boxed if row.has_word_boxes else [""] * 4
        lines.append([name, row.reader, *boxed, *bags, _percent(row.page.rate), *of_lines])
    return markdown_table(head, lines, 2)


def _speed_table(rows: Sequence[SpeedRow], runs: Mapping[str, Run]) -> str:
    head = [
        "pages",
        "reader",
        "s a page",
        "quartiles",
        "CPU s a page",
        "stages, all pages",
        "first result s",
        "RSS MiB",
    ]
    lines = [
        [
            row.pages,
            row.reader,
            f"{row.wall_median:.2f}",
            f"{row.wall_first_quartile:.2f}-{row.wall_third_quartile:.2f}",
            f"{row.cpu_median:.2f}",
            ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in runs[row.reader].stages.items()),
            f"{row.first_result_median:.1f}",
            f"{row.peak_rss_mib:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(head, lines, 2)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    repeats = options.repeats or (1 if options.quick else Effort.repeats)
    effort = Effort(repeats, options.threads, options.side)
    limit = options.limit or (1 if options.quick else None)
    ours = next((reader for reader in options.readers if reader.startswith(OURS)), OURS)
    if options.languages is not None:
        _by_language(options.languages, limit, effort, ours, options.output)
    if options.numbers:
        _numbers(limit, effort, ours, options.output)
    if options.holes:
        _holes(options.limit or (2 if options.quick else None), effort, options.output)
    if options.languages is not None or options.numbers or options.holes:
        return
    with tempfile.TemporaryDirectory() as folder:
        sets = load_sets(options.pages, limit, options.known) if options.pages else draw_pages(Path(folder), limit)
        files = [page.image for pages in sets.values() for page in pages]
        runs, notes = run_readers(options.readers, files, effort, say)
    accuracies, speeds = _accuracies(sets, runs), _speeds(sets, runs)
    stamp = machine_stamp() | {name: value for run in runs.values() for name, value in run.versions.items()}
    stamp |= {"threads": str(effort.num_threads), "rounds": f"{repeats}, each in a new process after a warm-up page"}
    stamp |= {"shorter side for detectors": "as each library has it" if effort.side is None else str(effort.side)}
    notes += [f"{reader}: the text differs between rounds" for reader, run in runs.items() if not run.is_stable]
    tables = [accuracy_table(accuracies), _speed_table(speeds, runs)]
    text = f"{fact_list(stamp, notes)}\n\nIn percent; sums over all pages of a set.\n\n{tables[0]}\n\n{tables[1]}\n"
    document = {"machine": stamp, "accuracy": [asdict(row) for row in accuracies], "notes": notes}
    document |= {"speed": [asdict(row) for row in speeds], "runs": {k: _times(run) for k, run in runs.items()}}
    draw = partial(draw_panels, "Reading pages", _panels(accuracies, speeds)) if speeds else None
    write_report(options.output, "ocr_known" if options.known else "ocr", document, text, draw)


def _by_language(codes: Sequence[str], limit: int | None, effort: Effort, reader: str, output: Path | None) -> None:
    from mediatensor.ocr.models import ocr_predictor

    from .ocr_by_language import LEAST_WORDS, draw_chart, draw_languages, languages_table, measure, rows_document
    from .ocr_languages import TEXTS

    with tempfile.TemporaryDirectory() as folder:
        pages, notes = draw_languages(Path(folder), codes or tuple(TEXTS), limit)
        words, stamp = _read([page.image for page in pages], effort, reader)
    known = ocr_predictor(pretrained=True).reco_predictor.model.vocab
    rows = measure(pages, words, known)
    text = f"Claimed from {LEAST_WORDS:.0%} of words on.\n\n{languages_table(rows)}\n"
    _report("ocr_languages", stamp, notes, text, {"languages": rows_document(rows)}, output)
    if output and can_draw():
        draw_chart(rows, output / "ocr_languages.png")


def _numbers(limit: int | None, effort: Effort, reader: str, output: Path | None) -> None:
    from .ocr_numbers import draw_invoices, numbers_table

    with tempfile.TemporaryDirectory() as folder:
        pages = draw_invoices(Path(folder), limit)
        words, stamp = _read([page.image for page in pages], effort, reader)
    table, document = numbers_table(pages, words)
    _report("ocr_numbers", stamp, [], f"Exact values in percent, by face.\n\n{table}\n", document, output)


def _holes(limit: int | None, effort: Effort, output: Path | None) -> None:
    import torch

    import mediatensor
    from mediatensor.ocr.models import ocr_predictor

    from .ocr_holes import NUM_PAGES, holes_table, measure

    torch.set_num_threads(effort.num_threads)
    predictor = ocr_predictor(pretrained=True, **({} if effort.side is None else {"shorter_side": effort.side}))
    sums, holes = measure(predictor, range(1, 1 + (limit or NUM_PAGES)), say=say)
    stamp = machine_stamp() | {"mediatensor": mediatensor.__version__, "threads": str(effort.num_threads)}
    counts = {group: {value: asdict(loss) for (own, value), loss in sums.items() if own == group} for group, _ in sums}
    text = f"Characters in the box of no word.\n\n{holes_table(sums)}\n"
    _report("ocr_holes", stamp, [], text, {"counts": counts, "holes": holes}, output)


def _read(files: Sequence[Path], effort: Effort, reader: str) -> tuple[list[list[Word]], dict[str, str]]:
    """Read pages with this library; return the words and the facts of the run."""
    runs, notes = run_readers([reader], files, Effort(1, effort.num_threads, effort.side), say)
    if not runs:
        raise RuntimeError("; ".join(notes))
    run = runs[reader]
    return run.words, machine_stamp() | {"reader": reader} | run.versions | {"threads": str(effort.num_threads)}


def _report(
    name: str, stamp: Mapping[str, str], notes: Sequence[str], text: str, document: dict[str, Any], output: Path | None
) -> None:
    text = f"{fact_list(stamp, notes)}\n\n{text}"
    write_report(output, name, {"machine": stamp, "notes": notes, **document}, text)


def _times(run: Run) -> dict[str, object]:
    """Return a run without the words: the pages may not be ours to publish."""
    return {key: value for key, value in asdict(run).items() if key != "words"}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.text.ocr", __doc__)
    parser.add_argument(
        "--pages", nargs="+", type=Path, metavar="FOLDER",
        help="images/ and annotations/ in the layout of FUNSD or SROIE, or a folder of such folders (default: drawn)",
    )  # fmt: skip
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="list of images on which rules were developed, for separate scores"
    )
    parser.add_argument(
        "--languages", nargs="*", metavar="CODE", help="draw pages in these languages (default: all) and print a table"
    )
    parser.add_argument("--numbers", action="store_true", help="render invoices and count exact values")
    parser.add_argument("--holes", action="store_true", help="render pages and lines and count lost characters")
    parser.add_argument(
        "--readers", nargs="+", default=list(READERS), type=_reader, metavar="NAME",
        help=f"{', '.join(READERS)} (default: all); '{OURS}, min_confidence=0.2' gives options of the predictor",
    )  # fmt: skip
    parser.add_argument("--limit", type=_positive, metavar="N", help="only the first pages of each set")
    parser.add_argument("--threads", type=_positive, default=1, help="of every reader alike (default: 1)")
    parser.add_argument(
        "--side", type=_positive, metavar="PX",
        help="enlarge pages for every detector to this shorter side, in pixels (default: as each library does)",
    )  # fmt: skip
    parser.add_argument("--repeats", type=_positive, help=f"rounds of each reader (default: {Effort.repeats})")
    parser.add_argument("--quick", action="store_true", help="smoke test: one page and one round")
    add_output(parser)
    return parser.parse_args(arguments)


def _reader(name: str) -> str:
    try:
        reader_of(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number (got {text!r})")
    return value


if __name__ == "__main__":
    main()
