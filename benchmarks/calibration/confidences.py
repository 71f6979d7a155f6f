"""Measure whether the confidences of words and lines are probabilities, and fit the numbers that calibrate them.

``python -m benchmarks.calibration.confidences [--pages FOLDER...]``.

Pages with known text are rendered in many fonts, sizes and conditions, and read. A word counts as right if its text
equals the true word in its place (an IoU of at least 0.5). If only lines are known, it must occur in its line, ignoring
case and spaces. Words without a true word in their place are left out, because annotators may split words differently.

A line counts as right if its letters equal the true words in its place, ignoring spaces: annotators split ``4162/158``
and ``Name:`` in different ways. If only lines are known, its letters must be consecutive in the true line at their
place, ignoring case; a line that was read in two parts may have two right parts. Lines where nothing is
known are left out. A third kind of rows is about the share of a line's words that are right, which `min_confidence`
is compared with.

The expected calibration error is the mean distance between confidence and share of right words over 15 bins, weighted
by the words in each (Guo et al., 2017), once with bins of equal width and once with bins of equally many words. It is
never 0: a few hundred lines that are right exactly as often as their confidences say show the error in the column
"chance", the mean over many draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mediatensor.ocr.models._lines.words import (
    GREATEST,
    GREATEST_HEIGHT,
    LEAST,
    LEAST_HEIGHT,
    OF_ALL,
    OF_LEAST,
    OFFSET,
)

from ..shared.machine import machine_stamp
from ..shared.options import make_parser
from ..shared.reports import fact_list, markdown_table, write_report
from ..text.ocr_drawn import Look, draw_text, faces_for
from ..text.ocr_languages import TEXTS
from ..text.ocr_scores import Word, box_iou
from ..text.ocr_truth import load_sets

Array = npt.NDArray[np.float64]

BINS = 15
CHANCES = 200
SPACED_LANGUAGES = ("en", "de", "fr", "es", "it", "pl", "cs", "sv", "fi", "tr", "hu", "pt")


@dataclass(frozen=True)
class ReadWord:
    """A recognised word, and whether it is right.

    Attributes:
        characters: The confidence of each character, as the recogniser gave it.
        confidence: That of the word, in [0, 1].
        height: The median height of the words of its line, in pixels.
        right: Whether its text is right; None if there is no true word in its place.
    """

    characters: tuple[float, ...]
    confidence: float
    height: float
    right: bool | None


@dataclass(frozen=True)
class ReadLine:
    """A recognised line, and whether it is right.

    Attributes:
        pages: The set of its page.
        page: The number of its page.
        words: Its words.
        confidence: That of the line, in [0, 1].
        right: Whether all of its letters are right; None if there is nothing true in its place.
    """

    pages: str
    page: int
    words: tuple[ReadWord, ...]
    confidence: float
    right: bool | None

    @property
    def known_words(self) -> list[ReadWord]:
        """Words in the place of a true word."""
        return [word for word in self.words if word.right is not None]


@dataclass(frozen=True)
class Judged:
    """Confidences, and whether they are right or the share that is, in two arrays of one length.

    Attributes:
        confidences: In [0, 1].
        right: In [0, 1].
        sizes: The number of words of each share; ones for single words and lines.
    """

    confidences: Array
    right: Array
    sizes: npt.NDArray[np.int64]

    def error(self, equal_mass: bool = False) -> float:
        """The expected calibration error."""
        if equal_mass:
            order = np.argsort(self.confidences, kind="stable")
            bins = np.array_split(order, BINS)
        else:
            places = np.minimum((self.confidences * BINS).astype(int), BINS - 1)
            bins = [np.flatnonzero(places == place) for place in range(BINS)]
        gaps = [len(own) * abs(self.confidences[own].mean() - self.right[own].mean()) for own in bins if len(own)]
        return float(sum(gaps) / max(len(self.right), 1))

    def error_by_chance(self) -> float:
        """The mean error of perfectly calibrated confidences, due to chance."""
        generator = np.random.default_rng(0)
        draws = (generator.binomial(self.sizes, self.confidences) / self.sizes for _ in range(CHANCES))
        return float(np.mean([replace(self, right=draw).error() for draw in draws]))


def drawn_pages(num_pages: int) -> Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]:
    """Render pages of clean, blurred, noisy, compressed, small and faint print in turn, in all installed fonts."""
    for number in range(num_pages):
        code = SPACED_LANGUAGES[number % len(SPACED_LANGUAGES)]
        text = TEXTS[code]
        faces = faces_for("".join(text))
        look = Look(
            faces[number * 7 % len(faces)],
            em_px=(13, 16, 20, 26, 34)[number % 5],
            blur=(0, 0, 0.7, 1.1)[number % 4],
            noise=(0, 12, 25)[number % 3],
            jpeg=(None, 40, 20)[number // 3 % 3],
            ink=(0, 0, 90)[number // 2 % 3],
            rotation=(0, 0, 0.6)[number // 4 % 3],
            seed=number,
        )
        page = draw_text(text, look, width_px=900)
        yield "drawn", page.image, [(word.text, _box(word.quad)) for word in page.words], []


def pages_of(
    folders: Sequence[Path], known: Path | None = None
) -> Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]:
    """Load annotated pages, see ``ocr_truth.load_sets``."""
    from PIL import Image

    for name, pages in load_sets(folders, known=known).items() if folders else ():
        for page in pages:
            image = np.asarray(Image.open(page.image).convert("RGB"))
            words = [(word.text, word.box) for word in page.words] if page.has_word_boxes else []
            yield name, image, words, [(line.text, line.box) for line in page.lines]


def _box(quad: Array) -> tuple[float, float, float, float]:
    (left, top), (right, bottom) = quad.min(axis=0).tolist(), quad.max(axis=0).tolist()
    return left, top, right, bottom


def read_lines(pages: Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]) -> list[ReadLine]:
    """Read pages, and judge their words and lines."""
    from mediatensor.ocr import ocr_predictor

    predictor = ocr_predictor(pretrained=True, min_confidence=0.0)
    read: list[ReadLine] = []
    for number, (name, image, words, lines) in enumerate(pages):
        height, width = image.shape[:2]
        found = [line for block in predictor([image]).pages[0].blocks for line in block.lines]
        placed = [
            [
                Word(word.value, (left * width, top * height, right * width, bottom * height))
                for word in line.words
                for ((left, top), (right, bottom)) in [word.geometry]
            ]
            for line in found
        ]
        read += judged_page(name, number, found, placed, words, lines)
    return read


def judged_page(
    name: str, number: int, found: Sequence[Any], placed: Sequence[Sequence[Word]], words: list[Any], lines: list[Any]
) -> list[ReadLine]:
    """Judge the lines of a page.

    Args:
        name: The set of the page.
        number: The number of the page.
        found: Its lines, as they were read.
        placed: The words of each, with boxes in pixels.
        words: The true words and their boxes.
        lines: Where only lines are known, the true lines and their boxes.
    """
    right = _right_by_words(placed, words) if words else [_right_by_lines(own, lines) for own in placed]
    judge, truth = (_is_word, words) if words else (_is_in_line, lines)
    return [
        ReadLine(
            name,
            number,
            tuple(
                ReadWord(
                    tuple(character.confidence for character in word.characters),
                    word.confidence,
                    float(np.median([own.box[3] - own.box[1] for own in own_words])),
                    judge(own.text, own.box, truth),
                )
                for word, own in zip(line.words, own_words, strict=True)
            ),
            line.confidence,
            is_right,
        )
        for line, own_words, is_right in zip(found, placed, right, strict=True)
    ]


def _right_by_words(lines: Sequence[Sequence[Word]], words: Sequence[Any]) -> list[bool | None]:
    """Return whether the letters of each line equal the true words in its place."""
    own: list[list[Word]] = [[] for _ in lines]
    around = [_around(line) for line in lines]
    for text, box in words:
        # Prefer the line whose words cover most of it; a word that was not read belongs to the line around it.
        shares = [sum(_area(_common(word.box, box)) for word in line) for line in lines]
        if max(shares, default=0.0) < 0.5 * _area(box):
            shares = [_area(_common(other, box)) for other in around]
        if text and max(shares, default=0.0) >= max(0.5 * _area(box), 1e-9):
            own[int(np.argmax(shares))].append(Word(text, box))
    return [_letters(line) == _letters(true) if true else None for line, true in zip(lines, own, strict=True)]


def _right_by_lines(line: Sequence[Word], true_lines: Sequence[Any]) -> bool | None:
    """Return whether the letters of a line occur in the true line at their place, or in all of them if several."""
    parts: dict[int, list[Word]] = {}
    for word in line:
        place, share = _place_of(word.box, true_lines)
        if share >= 0.5:
            parts.setdefault(place, []).append(word)
    if not parts:
        return None
    return all(_letters(part).upper() in "".join(true_lines[place][0].upper().split()) for place, part in parts.items())


def _letters(words: Sequence[Word]) -> str:
    return "".join("".join(word.text.split()) for word in sorted(words, key=lambda word: word.box[0]))


def _around(words: Sequence[Word]) -> tuple[float, float, float, float]:
    boxes = np.array([word.box for word in words])
    (left, top), (right, bottom) = boxes[:, :2].min(axis=0).tolist(), boxes[:, 2:].max(axis=0).tolist()
    return left, top, right, bottom


def _is_word(text: str, box: Sequence[float], words: Sequence[Any]) -> bool | None:
    overlaps = box_iou(np.array([box]), np.array([own for _, own in words], dtype=np.float64))[0]
    best = int(overlaps.argmax())
    return text == words[best][0] if overlaps[best] >= 0.5 else None


def _is_in_line(text: str, box: Sequence[float], lines: Sequence[Any]) -> bool | None:
    place, share = _place_of(box, lines)
    return text.upper() in "".join(lines[place][0].upper().split()) if share >= 0.5 else None


def _place_of(box: Sequence[float], lines: Sequence[Any]) -> tuple[int, float]:
    """Return the true line with the largest share of a box, and the share."""
    area = max(_area(box), 1e-9)
    share, place = max(
        ((_area(_common(box, own)) / area, place) for place, (_, own) in enumerate(lines)), default=(0.0, 0)
    )
    return place, share


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def _common(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float, float]:
    return max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])


def _arrays(triples: Iterable[tuple[float, float, int]]) -> Judged:
    values = np.array(list(triples), dtype=np.float64).reshape(-1, 3)
    return Judged(values[:, 0].clip(0, 1), values[:, 1], values[:, 2].astype(np.int64))


def judged_words(read: Sequence[ReadLine], raw: bool) -> Judged:
    """Return outcomes of words; ``raw``: by their least confident character."""
    words = [word for line in read for word in line.known_words]
    return _arrays((min(word.characters) if raw else word.confidence, float(word.right or 0), 1) for word in words)


def judged_lines(read: Sequence[ReadLine], raw: bool) -> Judged:
    """Return outcomes of lines; ``raw``: by the mean of their characters."""
    return _arrays(
        (_mean_of_characters(line.words) if raw else line.confidence, float(line.right), 1)
        for line in read
        if line.right is not None
    )


def judged_shares(read: Sequence[ReadLine], raw: bool) -> Judged:
    """Return outcomes of the shares of right words in lines; ``raw``: by the mean of their characters."""
    triples = []
    for words in (line.known_words for line in read if line.known_words):
        sure = _mean_of_characters(words) if raw else sum(word.confidence for word in words) / len(words)
        triples.append((sure, sum(bool(word.right) for word in words) / len(words), len(words)))
    return _arrays(triples)


def _mean_of_characters(words: Sequence[ReadWord]) -> float:
    return float(np.mean([confidence for word in words for confidence in word.characters]))


def fit(read: Sequence[ReadLine]) -> dict[str, float]:
    """Fit how the height of print changes the confidence of words: two numbers of ``ocr/models/_lines/words.py``.

    Each set of pages weighs the same. The numbers maximise the likelihood among the points of a grid.
    """
    rows = [
        (_log_odds(min(word.characters)), _log_of_all(word.characters), word.height, float(word.right or 0), line.pages)
        for line in read
        for word in line.known_words
    ]
    numbers = Counter(name for *_, name in rows)
    least, of_all, heights, right = np.array([row[:4] for row in rows]).T
    weights = np.array([1 / numbers[name] for *_, name in rows])
    heights = heights.clip(LEAST_HEIGHT, GREATEST_HEIGHT)

    def loss(usual: float, exponent: float) -> float:
        odds = OFFSET + OF_LEAST * (heights / usual) ** exponent * least + OF_ALL * of_all
        return float(weights @ np.logaddexp(0, np.where(right, -odds, odds)))

    points = ((usual / 2, step / 20) for usual in range(20, 100) for step in range(41))
    usual, exponent = min(points, key=lambda point: loss(*point))
    return {"USUAL_HEIGHT": usual, "HEIGHT_EXPONENT": exponent}


def _log_of_all(confidences: Iterable[float]) -> float:
    return sum(math.log(_within(own)) for own in confidences)


def _within(confidence: float) -> float:
    return min(max(confidence, LEAST), GREATEST)


def _log_odds(confidence: float) -> float:
    own = _within(confidence)
    return math.log(own / (1 - own))


def report(read: Sequence[ReadLine]) -> tuple[str, list[dict[str, Any]]]:
    """Return a table of the calibration errors, and the same as rows."""
    rows = []
    units = (("words", judged_words), ("lines", judged_lines), ("shares of lines", judged_shares))
    for name in dict.fromkeys(line.pages for line in read):
        own = [line for line in read if line.pages == name]
        for unit, judge in units:
            raw, fitted = judge(own, True), judge(own, False)
            rows.append(
                {
                    "pages": name,
                    "of": unit,
                    "number": len(fitted.right),
                    "right": float(fitted.right.mean()),
                    "before": raw.error(),
                    "after": fitted.error(),
                    "chance": fitted.error_by_chance(),
                    "before, equal bins": raw.error(equal_mass=True),
                    "after, equal bins": fitted.error(equal_mass=True),
                }
            )
    head = list(rows[0]) if rows else []
    lines = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    return markdown_table(head, lines, 2), rows


def draw(read: Sequence[ReadLine], path: Path) -> None:
    """Draw a reliability diagram: the share of right words over confidence, before and after, for each set."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(line.pages for line in read))
    kinds = (("words", judged_words, "least character"), ("lines", judged_lines, "mean of characters"))
    figure = Figure(figsize=(4 * len(sets), 8), layout="constrained")
    for row, (unit, judge, before) in enumerate(kinds):
        for place, name in enumerate(sets):
            axes = figure.add_subplot(2, len(sets), row * len(sets) + place + 1)
            axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
            own = [line for line in read if line.pages == name]
            for label, raw, colour in ((before, True, "tab:gray"), ("fitted", False, "tab:blue")):
                judged = judge(own, raw)
                bins = np.array_split(np.argsort(judged.confidences, kind="stable"), BINS)
                points = [(judged.confidences[b].mean(), judged.right[b].mean()) for b in bins if len(b)]
                axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=label)
            title = f"{name}, {len(judged.right)} {unit}"
            axes.set(title=title, xlabel="confidence", xlim=(0, 1.02), ylim=(0, 1.02))
            if not place:
                axes.set_ylabel(f"share of {unit} that are right")
                axes.legend()
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, read, report."""
    parser = make_parser("benchmarks.calibration.confidences", __doc__)
    parser.add_argument("--pages", nargs="+", type=Path, default=[], metavar="FOLDER", help="as in benchmarks.text.ocr")
    parser.add_argument("--known", type=Path, metavar="FILE", help="as in benchmarks.text.ocr")
    parser.add_argument("--drawn", type=int, default=60, metavar="N", help="pages to draw (default: 60)")
    parser.add_argument("--fit", action="store_true", help="print constants fitted to these pages")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and a diagram there")
    options = parser.parse_args(arguments)
    read = read_lines([*drawn_pages(options.drawn), *pages_of(options.pages, options.known)])
    table, rows = report(read)
    print(table)
    if options.fit:
        for half in (0, 1):
            print(f"fitted to pages of one half ({half}):", fit([line for line in read if line.page % 2 == half]))
        print("fitted to all:", fit(read))
    stamp = machine_stamp()
    text = f"{fact_list(stamp)}\n\n{table}\n"
    document = {"machine": stamp, "errors": rows}
    write_report(options.output, "ocr_calibration", document, text, partial(draw, read))


if __name__ == "__main__":
    main()
