"""Results of an evaluation (scores, latency, confusions and failed rows), as text and as plain data."""

from __future__ import annotations

import math
import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..._engine.common.messages import counted, duration, json_bytes
from ..._engine.sources.output_files import write_file
from ...datasets import Failure
from ..io._exports.text import text_width
from ..utils import hmean
from ._worst_cases import WorstLine, WorstPage, draw_worst_lines, draw_worst_pages, picture_format

# The largest number of characters in each group of lines. The last group is unlimited.
_LENGTHS = (5, 10, 20, 40, 80, None)
_MOST_SHOWN_CHARACTERS = 15
_MOST_SHOWN_REPLACEMENTS = 4
_MOST_SHOWN_FAILURES = 5


@dataclass(frozen=True)
class Latency:
    """Time that a model takes for a single line or page, in seconds. Decoding the image is not included.

    Attributes:
        median_seconds: Median time of a call over all timed calls.
        low_seconds: 5th percentile of these times.
        high_seconds: 95th percentile of these times.
        num_warm_up: Number of calls before the first timed call.
    """

    median_seconds: float
    low_seconds: float
    high_seconds: float
    num_warm_up: int


@dataclass(frozen=True)
class LineScore:
    """The text that a model read in one line, compared with the true text.

    Attributes:
        source: Name of the image file.
        row: Index of the line in the dataset.
        text: True text.
        read: Text that the model read.
        confidence: Confidence of the recogniser, in [0, 1].
        num_edits: Minimum number of insertions, deletions and replacements of characters that turn ``read`` into
            ``text``.
    """

    source: str
    row: int
    text: str
    read: str
    confidence: float
    num_edits: int


@dataclass(frozen=True)
class LengthScore:
    """Score of a group of lines whose true texts have a similar length.

    Attributes:
        min_characters: Smallest number of characters of a true text in this group.
        max_characters: Largest number of characters of a true text in this group, or None if there is no limit.
        num_lines: Number of lines in this group.
        num_exact: Number of lines without errors.
        num_edits: Number of insertions, deletions and replacements of characters in all lines of this group.
        num_characters: Number of characters of all true texts in this group.
    """

    min_characters: int
    max_characters: int | None
    num_lines: int
    num_exact: int
    num_edits: int
    num_characters: int


@dataclass(frozen=True)
class CharacterScore:
    """Score of one character over all lines: how often it was misread, and as what.

    Attributes:
        character: A Unicode code point. ``""`` stands for characters that the model inserted.
        num_true: Number of occurrences in the true texts.
        num_wrong: Number of occurrences that were misread or missed.
        read_as: Pairs (character read instead, number of times), most frequent first. ``""`` as the first item means
            that the model missed the character.
    """

    character: str
    num_true: int
    num_wrong: int
    read_as: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Evaluation:
    """Base class of the results of `evaluate`: scores of a model on a dataset.

    Attributes:
        model: Name of the model.
        latency: Time that the model takes for one line or page. None if the dataset is empty, or if `evaluate` was
            called with a ``batch_size`` above 1.
        failures: A `Failure` for each file that could not be read, with its ``source``, ``row`` (index in the dataset)
            and ``message``.

    Example:
        >>> from mediatensor.ocr.training import Evaluation, RecognitionEvaluation, evaluate
        >>> issubclass(RecognitionEvaluation, Evaluation)
        True
    """

    model: str
    latency: Latency | None
    failures: tuple[Failure, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all scores as a dict of plain data, which can be stored as JSON."""
        raise NotImplementedError

    def render(self) -> str:
        """Return the scores as a text table of several lines."""
        raise NotImplementedError

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the result of `to_dict` to a JSON file. An existing file is replaced when the new one is complete.

        Args:
            path: Path of the file.

        Raises:
            WriteError: The file cannot be written.
        """
        write_file(path, json_bytes(self.to_dict(), indent=1) + b"\n")

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Write an image file that shows the lines or pages with the most errors (the attribute ``worst``).

        Lines are shown with the differences between the true text and the text that the model read. Pages are shown
        with three kinds of boxes: true boxes that were found, true boxes that were missed, and found boxes that do not
        match a true box.

        Args:
            path: Path of the image: .png, .jpg or .webp.

        Raises:
            InvalidArgumentError: The path has another suffix.
            WriteError: The file cannot be written.
        """
        picture_format(path)
        write_file(path, self._draw_worst(self.render().partition("\n")[0], Path(path)))

    def _draw_worst(self, title: str, path: Path) -> bytes:
        raise NotImplementedError

    def _shared_dict(self) -> dict[str, Any]:
        latency = None if self.latency is None else asdict(self.latency)
        failures = [{"source": one.source, "row": one.row, "message": one.message} for one in self.failures]
        return {"model": self.model, "latency": latency, "num_failed": len(failures), "failures": failures}

    def _named(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def _shared_rows(self, noun: str) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        if self.latency is not None:
            low, high = duration(self.latency.low_seconds), duration(self.latency.high_seconds)
            typical = duration(self.latency.median_seconds)
            rows.append((f"time a {noun}", typical, f"median; nine in ten from {low} to {high}"))
        rows.append(("rows that failed", str(len(self.failures)), ""))
        return rows

    def _failure_lines(self) -> list[str]:
        if not self.failures:
            return []
        more = len(self.failures) - _MOST_SHOWN_FAILURES
        shown = [f"  {one.source}: {one.message}" for one in self.failures[:_MOST_SHOWN_FAILURES]]
        return ["", "rows that failed", *shown, *([f"  and {more} more"] if more > 0 else [])]


@dataclass(frozen=True)
class RecognitionEvaluation(Evaluation):
    """Scores of a text recogniser.

    Texts are compared in Unicode form NFC. Apart from this, they must be equal in every character, including spaces,
    case and punctuation.

    Attributes:
        lines: A `LineScore` for each line, in the order of the dataset.
        characters: A `CharacterScore` for each distinct character, most errors first.
        wer: Word error rate: word edits per word of the true texts. Words are separated by white space. ``None`` if
            there are no words.
        worst: A `WorstLine` for each of the lines with the most errors, worst first.

    Example:
        >>> from mediatensor.datasets import Sample
        >>> from mediatensor.ocr.io import DocumentFile
        >>> from mediatensor.ocr.training import evaluate
        >>> import torch
        >>> crop = torch.from_numpy(DocumentFile.from_images("page.png")[0])[40:90, 50:480].permute(2, 0, 1)
        >>> found = evaluate("ppocr_v6_small_reco", [Sample(image=crop, extra={"text": "Delivery note 2049"})])
        >>> found.num_edits, found.num_characters, found.worst[0].read
        (1, 18, 'Delivery note 2048')
        >>> found.to_dict()["characters"][0]
        {'character': '9', 'num_true': 1, 'num_wrong': 1, 'read_as': {'8': 1}}
        >>> print(found.render())
        ppocr_v6_small_reco: 1 line, compared as NFC
        ...
        >>> found.save_json("scores.json")
        >>> found.save_picture("worst.png")
    """

    lines: tuple[LineScore, ...] = ()
    characters: tuple[CharacterScore, ...] = ()
    wer: float | None = None
    worst: tuple[WorstLine, ...] = field(default=(), repr=False)

    normalization: ClassVar[str] = "NFC"
    """The Unicode normalisation form in which texts are compared."""

    @property
    def num_exact(self) -> int:
        """Number of lines without errors."""
        return sum(not line.num_edits for line in self.lines)

    @property
    def exact(self) -> float | None:
        """Share of lines without errors; ``None`` if there are no lines."""
        return self.num_exact / len(self.lines) if self.lines else None

    @property
    def num_edits(self) -> int:
        """Number of insertions, deletions and replacements of characters in all lines."""
        return sum(line.num_edits for line in self.lines)

    @property
    def num_characters(self) -> int:
        """Number of code points of all true texts."""
        return sum(len(line.text) for line in self.lines)

    @property
    def cer(self) -> float | None:
        """Character error rate: edits per character of all true texts; ``None`` if there are no characters.

        Edits are counted as in Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals"
        (1966). One minus this rate is the character accuracy of Rice, Jenkins and Nartker, "The fifth annual test of
        OCR accuracy" (1996). Long lines have more weight than short lines.
        """
        return self.num_edits / self.num_characters if self.num_characters else None

    @property
    def by_length(self) -> tuple[LengthScore, ...]:
        """Scores for groups of lines with a similar text length, shortest first.

        The true texts of the groups have 0 to 5, 6 to 10, 11 to 20, 21 to 40, 41 to 80, or more characters. Groups
        without lines are left out.
        """
        scores, least = [], 0
        for most in _LENGTHS:
            stop = math.inf if most is None else most
            lines = [line for line in self.lines if least <= len(line.text) <= stop]
            if lines:
                exact, edits = sum(not line.num_edits for line in lines), sum(line.num_edits for line in lines)
                scores.append(LengthScore(least, most, len(lines), exact, edits, sum(len(line.text) for line in lines)))
            least = 0 if most is None else most + 1
        return tuple(scores)

    def to_dict(self) -> dict[str, Any]:
        """Return all scores as a dict of plain data, which can be stored as JSON.

        The scores of single lines are left out if the line has no errors.
        """
        return {
            "task": "recognition",
            **self._shared_dict(),
            "normalization": self.normalization,
            "num_lines": len(self.lines),
            **self._named("num_exact", "exact", "cer", "wer", "num_edits", "num_characters"),
            "by_length": [asdict(score) for score in self.by_length],
            "characters": [{**asdict(score), "read_as": dict(score.read_as)} for score in self.characters],
            "misread": [asdict(line) for line in self.lines if line.num_edits],
        }

    def render(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("lines read exactly", _percent(self.exact), f"{self.num_exact:,} of {len(self.lines):,}"),
            ("characters wrong", _percent(self.cer), f"CER: {self.num_edits:,} edits in {self.num_characters:,}"),
            ("words wrong", _percent(self.wer), "WER"),
            *self._shared_rows("line"),
        ]
        text = [
            f"{self.model}: {counted(len(self.lines), 'line')}, compared as {self.normalization}",
            "",
            *_table(rows, "lrl"),
        ]
        if self.lines:
            head = ("characters", "lines", "exact", "characters wrong")
            text += ["", *_table([head, *map(_length_row, self.by_length)], "lrrr")]
        wrong = [score for score in self.characters if score.num_wrong]
        if wrong:
            shown = [_character_row(score) for score in wrong[:_MOST_SHOWN_CHARACTERS]]
            text += ["", *_table([("character", "wrong", "of", "read as"), *shown], "lrrl")]
            if len(wrong) > len(shown):
                rest = sum(score.num_wrong for score in wrong[len(shown) :])
                text.append(f"  and {len(wrong) - len(shown)} more characters, {rest} times wrong")
        return "\n".join([*text, *self._failure_lines()])

    def _draw_worst(self, title: str, path: Path) -> bytes:
        return draw_worst_lines(self.worst, title, path)


@dataclass(frozen=True)
class PageScore:
    """Score of one page: how many of its boxes a detector found.

    Attributes:
        source: Name of the image file.
        row: Index of the page in the dataset.
        num_true: Number of true boxes.
        num_found: Number of boxes that the detector found.
        num_matched: Number of true boxes that were found, which is also the number of found boxes that are right.
        num_within: Number of true boxes that were missed but are mostly inside a found box, such as words inside a
            found line.
    """

    source: str
    row: int
    num_true: int
    num_found: int
    num_matched: int
    num_within: int


@dataclass(frozen=True)
class DetectionEvaluation(Evaluation):
    """Scores of a text detector.

    Attributes:
        pages: A `PageScore` for each page, in the order of the dataset.
        iou_threshold: A true box and a found box match if their intersection over union is at least this value. Each
            box has at most one match.
        mean_iou: Mean over all found boxes of the largest intersection over union with any true box. None if no boxes
            were found.
        worst: A `WorstPage`, with image and boxes, for each of the pages with the most errors, worst first.

    Example:
        >>> from mediatensor.ocr.io import DocumentFile
        >>> from mediatensor.ocr.training import evaluate
        >>> import numpy as np
        >>> page = DocumentFile.from_images("page.png")[0]
        >>> nowhere = np.array([[0.9, 0.9, 0.95, 0.95]])
        >>> found = evaluate("ppocr_v6_small_det", [(page, nowhere)])
        >>> found.recall, found.precision, found.f1
        (0.0, 0.0, 0.0)
        >>> found.save_picture("worst.png")
    """

    pages: tuple[PageScore, ...] = ()
    iou_threshold: float = 0.5
    mean_iou: float | None = None
    worst: tuple[WorstPage, ...] = field(default=(), repr=False)

    @property
    def num_true(self) -> int:
        """Number of true boxes on all pages."""
        return sum(page.num_true for page in self.pages)

    @property
    def num_found(self) -> int:
        """Number of boxes that the detector found on all pages."""
        return sum(page.num_found for page in self.pages)

    @property
    def num_matched(self) -> int:
        """Number of true boxes on all pages that match a found box."""
        return sum(page.num_matched for page in self.pages)

    @property
    def recall(self) -> float | None:
        """Share of true boxes that match a found box; None if there are no true boxes."""
        return self.num_matched / self.num_true if self.num_true else None

    @property
    def precision(self) -> float | None:
        """Share of found boxes that match a true box; None if no boxes were found."""
        return self.num_matched / self.num_found if self.num_found else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of recall and precision; ``None`` if either is ``None``."""
        return hmean(self.recall, self.precision)

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": "detection",
            **self._shared_dict(),
            "num_pages": len(self.pages),
            **self._named("iou_threshold", "recall", "precision", "f1", "mean_iou"),
            **self._named("num_true", "num_found", "num_matched"),
            "pages": [asdict(page) for page in self.pages],
        }

    def render(self) -> str:
        least = f"at an overlap of at least {self.iou_threshold:g}"
        rows: list[tuple[str, ...]] = [
            ("true boxes found", _percent(self.recall), f"recall: {self.num_matched:,} of {self.num_true:,}, {least}"),
            ("found boxes true", _percent(self.precision), f"precision: {self.num_matched:,} of {self.num_found:,}"),
            ("F1", _percent(self.f1), "the harmonic mean of both"),
            ("mean overlap", _percent(self.mean_iou), "IoU of a found box with the true box that it overlaps most"),
            *self._shared_rows("page"),
        ]
        text = [f"{self.model}: {counted(len(self.pages), 'page')}", "", *_table(rows, "lrl")]
        num_within = sum(page.num_within for page in self.pages)
        if num_within > self.num_true / 2:
            question = "are they around words, and the model's around lines?"
            text += ["", f"{num_within:,} of the true boxes lie within a found one: {question}"]
        return "\n".join([*text, *self._failure_lines()])

    def _draw_worst(self, title: str, path: Path) -> bytes:
        return draw_worst_pages(self.worst, title, path)


def character_scores(pairs: Counter[tuple[str, str]]) -> tuple[CharacterScore, ...]:
    """Return the score of each character, most errors first. ``pairs`` counts pairs (true, read) of characters."""
    counts: dict[str, Counter[str]] = {}
    for (true, read), number in pairs.items():
        counts.setdefault(true, Counter())[read] = number
    scores = []
    for true, read_as in counts.items():
        total = read_as.total()
        right = read_as.pop(true, 0) if true else 0
        ranked = tuple(sorted(read_as.items(), key=lambda pair: (-pair[1], pair[0])))
        scores.append(CharacterScore(true, total if true else 0, total - right, ranked))
    return tuple(sorted(scores, key=lambda score: (-score.num_wrong, score.character)))


def _length_row(score: LengthScore) -> tuple[str, ...]:
    range_end = "and more" if score.max_characters is None else f"to {score.max_characters}"
    wrong = score.num_edits / score.num_characters if score.num_characters else None
    exact = _percent(score.num_exact / score.num_lines)
    return f"{score.min_characters} {range_end}", f"{score.num_lines:,}", exact, _percent(wrong)


def _character_row(score: CharacterScore) -> tuple[str, ...]:
    read_as = [f"{_visible_form(read)} {number}" for read, number in score.read_as[:_MOST_SHOWN_REPLACEMENTS]]
    more = len(score.read_as) - len(read_as)
    name = "inserted" if not score.character else _visible_form(score.character)
    if score.character and not score.character.isascii():
        name += f" (U+{ord(score.character):04X} {unicodedata.name(score.character, 'unnamed').lower()})"
    total = f"{score.num_true:,}" if score.character else ""
    return name, f"{score.num_wrong:,}", total, ", ".join(read_as) + (f" and {more} more" if more else "")


def _visible_form(character: str) -> str:
    """Return a text that makes a character visible in a table, even if it is empty, white space or a combining mark."""
    if not character:
        return "nothing"
    if character == " ":
        return "space"
    if unicodedata.combining(character):
        return f"\u25cc{character}"
    return character if character.isprintable() else f"U+{ord(character):04X}"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"


def _table(rows: Sequence[tuple[str, ...]], sides: str) -> list[str]:
    """Format a table as text lines. ``sides`` has a letter for each column, "l" or "r", for its alignment."""
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        spaces = [" " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True)]
        parts = zip(row, spaces, sides, strict=True)
        cells = [cell + space if side == "l" else space + cell for cell, space, side in parts]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines
