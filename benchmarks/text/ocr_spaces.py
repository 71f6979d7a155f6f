"""Spaces missed and invented by language, size and kind of font: ``python -m benchmarks.text.ocr_spaces [-o FILE]``.

The sentences of `ocr_languages` are rendered in every size and kind of font, one page for each size. The recognised
text is aligned with the truth letter by letter. If two letters are adjacent in both, and only one of the texts has a
space between them, a space is missed or invented. Words that the detector lost are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from ..shared.machine import machine_stamp
from ..shared.options import make_parser
from ..shared.reports import fact_list, markdown_table
from .ocr_drawn import Look, RenderedPage, draw_text, faces_for
from .ocr_languages import LANGUAGES, TEXTS

CODES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv", "fi", "tr", "hu", "ro")
SIZES = (14, 18, 22, 28, 34, 40)
KINDS = ("sans", "serif", "mono", "bold", "italic", "narrow")
TRACKINGS = (0.0, -0.03, 0.0, 0.05)
_GROUPS = ("all", "text", "size", "face")
#: Text other than prose: code, numbers, abbreviations, addresses.
OTHERS = (
    "for (i = 0; i < n; i++) { x[i] += y[i] * z; }",
    "usage: copy [-f full name] [-o office] [-p phone] [-u] [-v] name",
    "Total 12 345,67 EUR on 31.01.2024 at 10:30, IBAN DE89 3704 0044 0532 0130 00",
    "Ask anna.weber@example.org or see https://www.example.org/a/b.c?d=e&f=1 first.",
    "Call a.b.c(d.e, f[g]); e.g. this, i.e. that ... and so on, cf. p. 12.",
    "Es falso. El valor. A la vez. Al final. Un dato. Y. Ya. I. T. S. Eliot.",
    "VAT, AVE, To Te Ta, LT, Yo: W. A. V. Tal, A. Y. Was, T. Aw.",
)


@dataclass
class SpaceErrors:
    """True, missed and invented spaces."""

    spaces: int = 0
    missed: int = 0
    invented: int = 0

    def add(self, other: SpaceErrors) -> None:
        self.spaces += other.spaces
        self.missed += other.missed
        self.invented += other.invented

    @property
    def percent(self) -> float:
        return 100 * (self.missed + self.invented) / max(self.spaces, 1)


def space_errors(truth: str, read: str) -> SpaceErrors:
    """Compare the spaces of two texts, between the letters that they share.

    >>> space_errors("to be or not", "tobe o r nut")
    SpaceErrors(spaces=3, missed=1, invented=1)
    """
    (true_letters, true_spaces), (letters, spaces) = _parted(truth), _parted(read)
    errors = SpaceErrors(sum(true_spaces[:-1]))
    for first, second, length in SequenceMatcher(None, true_letters, letters, autojunk=False).get_matching_blocks():
        for place in range(length - 1):
            wanted, found = true_spaces[first + place], spaces[second + place]
            errors.missed += wanted and not found
            errors.invented += found and not wanted
    return errors


def _parted(text: str) -> tuple[str, list[bool]]:
    """Return the letters of a text, and whether a space follows each."""
    words = text.split()
    after = [place == len(word) - 1 for word in words for place in range(len(word))]
    return "".join(words), after


def _looks(number: int, text: str) -> Iterator[tuple[str, Look]]:
    """Yield (kind, look) for a language's pages: each size once, in changing kinds of fonts."""
    for place, size in enumerate(SIZES):
        kind = KINDS[(place + number) % len(KINDS)]
        faces = faces_for(text, [kind])
        if faces:
            yield kind, Look(faces[(number + place) % len(faces)], size, tracking=TRACKINGS[(number + place) % 4])


def measure(codes: Sequence[str]) -> dict[tuple[str, str], SpaceErrors]:
    """Return errors by group and value, such as ``("size", "18 px")``."""
    from mediatensor.ocr.models import ocr_predictor

    predictor = ocr_predictor(pretrained=True)
    sums: dict[tuple[str, str], SpaceErrors] = defaultdict(SpaceErrors)
    texts = {LANGUAGES[code]: TEXTS[code] for code in codes} | {"codes and numbers": OTHERS}
    for number, (name, sentences) in enumerate(texts.items()):
        for kind, look in _looks(number, "".join(sentences)):
            page = draw_text(sentences, look, width_px=42 * look.em_px)
            own = SpaceErrors()
            for truth, read in zip((line.text for line in page.lines), _lines_read(predictor, page), strict=True):
                own.add(space_errors(truth, read))
            groups = [("text", name)]
            if sentences is not OTHERS:
                groups += [("size", f"{look.em_px} px"), ("face", kind), ("all", "prose")]
            for group in groups:
                sums[group].add(own)
    return sums


def _lines_read(predictor: Any, page: RenderedPage) -> list[str]:
    """Return the text read for each rendered line; words belong to the line with the nearest middle."""
    image, lines = page.image, page.lines
    middles = np.array([line.quad[:, 1].mean() for line in lines])
    found: list[list[tuple[float, str]]] = [[] for _ in lines]
    document = predictor([image])
    for block in document.pages[0].blocks:
        for line in block.lines:
            for word in line.words:
                (left, top), (_, bottom) = word.geometry
                nearest = int(np.argmin(np.abs(middles - (top + bottom) / 2 * image.shape[0])))
                found[nearest].append((left, word.value))
    return [" ".join(value for _, value in sorted(words)) for words in found]


def table(sums: dict[tuple[str, str], SpaceErrors]) -> str:
    """Format the errors as a Markdown table."""
    rows = []
    for (group, value), errors in sorted(
        sums.items(), key=lambda item: ("all", "text", "size", "face").index(item[0][0])
    ):
        label = value if group == "text" else f"{group}: {value}"
        counts = map(str, (errors.spaces, errors.missed, errors.invented))
        rows.append([label, *counts, f"{errors.percent:.2f}"])
    return markdown_table(["drawn", "spaces", "missed", "invented", "errors, %"], rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it to a file if asked to."""
    parser = make_parser("benchmarks.text.ocr_spaces", __doc__)
    parser.add_argument("--languages", nargs="+", choices=sorted(TEXTS), default=CODES, help="codes of ISO 639")
    parser.add_argument("-o", "--output", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    stamp = machine_stamp()
    text = table(measure(options.languages))
    print(text)
    if options.output:
        options.output.write_text(f"{fact_list(stamp)}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
