"""Are the confidences of words and lines probabilities? ``python -m benchmarks.ocr_calibration [--pages FOLDER...]``.

Pages whose text is known are drawn in many faces, sizes and states, and read. A word counts as right if its text is
that of the true word in its place (an IoU of at least 0.5); where only lines are known, if it stands in the line that
it lies in, in any case and whatever its spaces. Words in the place of no true word are left out: what annotators cut
otherwise says nothing of the reading. A line is right if all of its words are. The expected calibration error is the
mean distance between confidence and share of right words over 15 bins, weighted by the words in each (Guo et al.,
2017), once with bins of equal width and once with bins of equally many words.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mediatensor.ocr.models._lines.confidence import GREATEST, LEAST

from .chart import can_draw
from .machine import machine_stamp
from .ocr_drawn import Look, draw_text, faces_for
from .ocr_languages import TEXTS
from .ocr_scores import box_iou
from .ocr_truth import load_sets

Array = npt.NDArray[np.float64]

BINS = 15
SPACED_LANGUAGES = ("en", "de", "fr", "es", "it", "pl", "cs", "sv", "fi", "tr", "hu", "pt")


@dataclass(frozen=True)
class ReadWord:
    """A word that was read, and whether it is right.

    Attributes:
        pages: The set of its page.
        page, line: Numbers of its page and of its line.
        characters: The confidence of each character, as the recogniser gave it.
        confidence: That of the word, in [0, 1].
        line_confidence: That of its line.
        right: Whether its text is right.
    """

    pages: str
    page: int
    line: int
    characters: tuple[float, ...]
    confidence: float
    line_confidence: float
    right: bool


@dataclass(frozen=True)
class Judged:
    """Confidences of words or lines, and whether they are right, in two arrays of one length."""

    confidences: Array
    right: Array

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


def drawn_pages(num_pages: int) -> Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]:
    """Pages in turn of clean, blurred, noisy, compressed, small and faint print, in all faces of this machine."""
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


def pages_of(folders: Sequence[Path]) -> Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]:
    """Annotated pages, see ``ocr_truth.load_sets``."""
    from PIL import Image

    for name, pages in load_sets(folders).items() if folders else ():
        for page in pages:
            image = np.asarray(Image.open(page.image).convert("RGB"))
            words = [(word.text, word.box) for word in page.words] if page.has_word_boxes else []
            yield name, image, words, [(line.text, line.box) for line in page.lines]


def _box(quad: Array) -> tuple[float, float, float, float]:
    (left, top), (right, bottom) = quad.min(axis=0).tolist(), quad.max(axis=0).tolist()
    return left, top, right, bottom


def read_words(pages: Iterable[tuple[str, npt.NDArray[np.uint8], list[Any], list[Any]]]) -> list[ReadWord]:
    """Read pages, and judge their words."""
    from mediatensor.ocr import ocr_predictor

    predictor = ocr_predictor(pretrained=True, min_confidence=0.0)
    read: list[ReadWord] = []
    num_lines = 0
    for number, (name, image, words, lines) in enumerate(pages):
        height, width = image.shape[:2]
        for line in (line for block in predictor([image]).pages[0].blocks for line in block.lines):
            num_lines += 1
            for word in line.words:
                (left, top), (right, bottom) = word.geometry
                box = (left * width, top * height, right * width, bottom * height)
                judged = _is_word(word.value, box, words) if words else _is_in_line(word.value, box, lines)
                if judged is not None:
                    own = tuple(character.confidence for character in word.characters)
                    read.append(ReadWord(name, number, num_lines, own, word.confidence, line.confidence, judged))
    return read


def _is_word(text: str, box: Sequence[float], words: Sequence[Any]) -> bool | None:
    overlaps = box_iou(np.array([box]), np.array([own for _, own in words], dtype=np.float64))[0]
    best = int(overlaps.argmax())
    return text == words[best][0] if overlaps[best] >= 0.5 else None


def _is_in_line(text: str, box: Sequence[float], lines: Sequence[Any]) -> bool | None:
    area = max(_area(box), 1e-9)
    share, line = max(((_area(_common(box, own)) / area, line) for line, own in lines), default=(0.0, ""))
    return text.upper() in "".join(line.upper().split()) if share >= 0.5 else None


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def _common(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float, float]:
    return max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])


def _arrays(pairs: Iterable[tuple[float, bool]]) -> Judged:
    values = np.array(list(pairs), dtype=np.float64).reshape(-1, 2)
    return Judged(values[:, 0], values[:, 1])


def judged_words(read: Sequence[ReadWord], raw: bool) -> Judged:
    """Of words; ``raw``: by their least sure character."""
    return _arrays((min(word.characters) if raw else word.confidence, word.right) for word in read)


def judged_lines(read: Sequence[ReadWord], raw: bool) -> Judged:
    """Of lines; ``raw``: by the mean of their characters."""

    def pair(words: list[ReadWord]) -> tuple[float, bool]:
        own = [confidence for word in words for confidence in word.characters]
        return (sum(own) / len(own) if raw else words[0].line_confidence), all(word.right for word in words)

    return _arrays(pair(list(words)) for _, words in groupby(read, lambda word: word.line))


def fit(read: Sequence[ReadWord]) -> dict[str, float]:
    """The constants of ``ocr/models/_lines/confidence.py`` and of ``Line.confidence``.

    Each set of pages weighs the same. The numbers are those of the greatest likelihood.
    """
    import torch

    sets = [word.pages for word in read]
    weights = torch.tensor([1 / sets.count(name) for name in sets], dtype=torch.float64)
    least = torch.tensor([_log_odds(min(word.characters)) for word in read], dtype=torch.float64)
    product = torch.tensor(
        [sum(math.log(_within(own)) for own in word.characters) for word in read], dtype=torch.float64
    )
    right = torch.tensor([word.right for word in read], dtype=torch.float64)
    free = torch.tensor([0.0, 0.0, 0.0, 4.0], dtype=torch.float64, requires_grad=True)

    def probabilities() -> torch.Tensor:
        # Exponentials keep the weights positive: a surer character makes no word less sure.
        odds = free[0] + free[1].exp() * least + free[2].exp() * product
        return (free[3].sigmoid() * odds.sigmoid()).clamp(1e-6, 1 - 1e-6)

    optimizer = torch.optim.LBFGS([free], max_iter=500, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        p = probabilities()
        loss = -(weights * (right * p.log() + (1 - right) * (1 - p).log())).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        of_words = probabilities().tolist()
    offset, of_least, of_all, ceiling = free.tolist()
    found = {
        "OFFSET": offset, "OF_LEAST": math.exp(of_least), "OF_ALL": math.exp(of_all),
        "CEILING": 1 / (1 + math.exp(-ceiling)),
    }  # fmt: skip
    lines = [
        (name, [p for _, p in own], all(word.right for word, _ in own))
        for name, own in (
            (key[0], list(group))
            for key, group in groupby(zip(read, of_words, strict=True), lambda pair: (pair[0].pages, pair[0].line))
        )
    ]

    def loss_of(exponent: float) -> float:
        total = 0.0
        for name in dict.fromkeys(sets):
            own = [(math.prod(words) ** exponent, right) for set_name, words, right in lines if set_name == name]
            total -= sum(math.log(max(p if right else 1 - p, 1e-9)) for p, right in own) / len(own)
        return total

    found["TOGETHER"] = min((step / 100 for step in range(20, 121)), key=loss_of)
    return found


def _within(confidence: float) -> float:
    return min(max(confidence, LEAST), GREATEST)


def _log_odds(confidence: float) -> float:
    own = _within(confidence)
    return math.log(own / (1 - own))


def report(read: Sequence[ReadWord]) -> tuple[str, list[dict[str, Any]]]:
    """A table of the errors of calibration, and the same as rows."""
    rows = []
    for name in dict.fromkeys(word.pages for word in read):
        own = [word for word in read if word.pages == name]
        for unit, judge in (("words", judged_words), ("lines", judged_lines)):
            raw, fitted = judge(own, True), judge(own, False)
            rows.append(
                {
                    "pages": name,
                    "of": unit,
                    "number": len(fitted.right),
                    "right": float(fitted.right.mean()),
                    "before": raw.error(),
                    "after": fitted.error(),
                    "before, equal bins": raw.error(equal_mass=True),
                    "after, equal bins": fitted.error(equal_mass=True),
                }
            )
    head = list(rows[0]) if rows else []
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2)]
    lines += [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines), rows


def draw(read: Sequence[ReadWord], path: Path) -> None:
    """A diagram of reliability: the share of right words over their confidence, before and after, for each set."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(word.pages for word in read))
    figure = Figure(figsize=(4 * len(sets), 4.4), layout="constrained")
    for place, name in enumerate(sets):
        axes = figure.add_subplot(1, len(sets), place + 1)
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        own = [word for word in read if word.pages == name]
        for label, raw, colour in (("least character", True, "tab:gray"), ("fitted", False, "tab:blue")):
            judged = judged_words(own, raw)
            bins = np.array_split(np.argsort(judged.confidences, kind="stable"), BINS)
            points = [(judged.confidences[b].mean(), judged.right[b].mean()) for b in bins if len(b)]
            axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=label)
        axes.set(title=f"{name}, {len(own)} words", xlabel="confidence", xlim=(0, 1.02), ylim=(0, 1.02))
        if not place:
            axes.set_ylabel("share of words that are right")
            axes.legend()
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, read, report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ocr_calibration", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pages", nargs="+", type=Path, default=[], metavar="FOLDER", help="as of benchmarks.ocr")
    parser.add_argument("--drawn", type=int, default=60, metavar="N", help="pages to draw (default: 60)")
    parser.add_argument("--fit", action="store_true", help="print constants fitted to these pages")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and a diagram there")
    options = parser.parse_args(arguments)
    read = read_words([*drawn_pages(options.drawn), *pages_of(options.pages)])
    table, rows = report(read)
    print(table)
    if options.fit:
        for half in (0, 1):
            print(f"fitted to pages of one half ({half}):", fit([word for word in read if word.page % 2 == half]))
        print("fitted to all:", fit(read))
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        stamp = machine_stamp()
        (options.output / "ocr_calibration.json").write_text(
            json.dumps({"machine": stamp, "errors": rows}, indent=2) + "\n"
        )
        facts = "\n".join(f"- {key}: {value}" for key, value in stamp.items())
        (options.output / "ocr_calibration.md").write_text(f"{facts}\n\n{table}\n")
        if can_draw():
            draw(read, options.output / "ocr_calibration.png")


if __name__ == "__main__":
    main()
