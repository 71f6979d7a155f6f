"""What the rows of a dataset say of their files: labels, segments, and columns with facts. Pure."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .findings import CheckedFile, Finding, MediaFacts

__all__ = ["Row", "label_counts", "labelled", "told", "within_segment"]

# Labels are those of classes if there are so many rows for each, on average.
_MIN_ROWS_OF_A_CLASS = 3.0
# Fewer rows without a label are mistakes; more are rows that have none.
_MOST_UNLABELLED = 0.5
# Fewer labels that are no whole numbers are mistakes; more are no classes.
_MOST_FRACTIONAL = 0.1
_LABELS_NAMED = 5
_MOST_SECONDS_APART, _MOST_SHARE_APART = 0.5, 0.02
_MOST_FRAMES_APART = 2


class Row(NamedTuple):
    """A row, without its file.

    Attributes:
        label: Its label.
        segment: Where its part of the file begins and ends, in seconds; ``None`` for the begin and the end of the file.
        extra: Its other columns.
        key: What tells its file from all others.
    """

    label: Any = None
    segment: tuple[float | None, float | None] = (None, None)
    extra: Mapping[str, Any] = {}
    key: str = ""

    @property
    def number(self) -> float | None:
        """The label as a number; ``None`` if it is none."""
        if not isinstance(self.label, numbers.Real):
            return None
        try:
            return float(self.label)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf

    @property
    def described(self) -> str:
        """The label in words."""
        name = self.extra.get("class_name")
        return f"{self.label}" if name is None else f"{self.label} ({name!r})"


def labelled(
    rows: Sequence[Row], files: Sequence[CheckedFile], num_classes: int | None, added: dict[int, list[Finding]]
) -> list[Finding]:
    """Note labels that are wrong, missing, rare or contradict each other, and return what holds of all labels."""
    _two_labels(rows, files, added)
    values = {number: value for number, row in enumerate(rows) if (value := row.number) is not None}
    unlabelled = [number for number, row in enumerate(rows) if row.label is None]
    if unlabelled and len(unlabelled) < _MOST_UNLABELLED * len(rows):
        for number in unlabelled:
            text = f"{len(rows) - len(unlabelled)} of {len(rows)} rows have one"
            added[number].append(Finding("missing-label", text))
    endless = [number for number, value in values.items() if not math.isfinite(value)]
    for number in endless:
        added[number].append(Finding("wrong-label", f"the label is {values.pop(number)}"))
    fractional = [number for number, value in values.items() if value != math.floor(value)]
    if not values or len(fractional) > _MOST_FRACTIONAL * len(values):
        return []
    for number in fractional:
        text = f"the label is {values.pop(number):g}, where others are whole numbers"
        added[number].append(Finding("wrong-label", text))
    for number, value in list(values.items()):
        if value < 0 or (num_classes is not None and value >= num_classes):
            del values[number]
            limit = "0 on" if num_classes is None else f"0 to {num_classes - 1}"
            text = f"the label is {rows[number].described}, and labels are whole numbers from {limit}"
            added[number].append(Finding("wrong-label", text))
    counts = Counter(int(value) for value in values.values())
    if len(values) < _MIN_ROWS_OF_A_CLASS * len(counts):
        return []
    for number, value in values.items():
        if counts[int(value)] == 1:
            text = f"the only row of class {rows[number].described}, of {len(counts)} classes"
            added[number].append(Finding("rare-label", text))
    return _gaps(counts, num_classes)


def _gaps(counts: Counter[int], num_classes: int | None) -> list[Finding]:
    """The classes below the highest, or below their number, that no row has."""
    present = sorted(counts)
    stop = num_classes if num_classes is not None else (present[-1] + 1 if present else 0)
    spans = []
    for before, after in zip([-1, *present], [*present, stop], strict=True):
        if after - before > 1:
            spans.append(f"{before + 1}" if after - before == 2 else f"{before + 1} to {after - 1}")
    if not spans:
        return []
    named = ", ".join(spans[:_LABELS_NAMED]) + (" ..." if len(spans) > _LABELS_NAMED else "")
    last = f"{present[0]} to {present[-1]}" if present else "none"
    return [Finding("label-gap", f"no row has the label {named}; labels are {last}, {len(counts)} different ones")]


def _two_labels(rows: Sequence[Row], files: Sequence[CheckedFile], added: dict[int, list[Finding]]) -> None:
    first: dict[Any, int] = {}
    for number, (row, file) in enumerate(zip(rows, files, strict=True)):
        if row.label is None:
            continue
        other = first.setdefault((file.facts.digest or file.name, row.segment), number)
        if repr(rows[other].label) != repr(row.label):
            text = f"the label is {row.described}, and {rows[other].described} in row {other}, {files[other].name}"
            added[number].append(Finding("two-labels", text))


def label_counts(rows: Sequence[Row]) -> dict[str, int]:
    """How many rows have each label, by its name or number; empty where labels are no classes."""
    counts: Counter[str] = Counter()
    order: dict[str, float] = {}
    for row in rows:
        value = row.number
        if value is None or not math.isfinite(value):
            continue
        if value != math.floor(value):
            return {}
        name = str(row.extra.get("class_name", int(value)))
        counts[name] += 1
        order[name] = value
    return {name: counts[name] for name in sorted(counts, key=lambda name: order[name])}


def within_segment(file: CheckedFile, row: Row) -> CheckedFile:
    """The file with what concerns a row of it: what was found at times outside of its segment is not its own."""
    start = -math.inf if row.segment[0] is None else row.segment[0]
    end = math.inf if row.segment[1] is None else row.segment[1]

    def concerns(finding: Finding) -> bool:
        begins, ends = finding.start_seconds, finding.end_seconds
        if begins is None:
            return True
        return begins < end and (ends is None or ends > start or begins >= start)

    found = tuple(filter(concerns, file.findings))
    return file if len(found) == len(file.findings) else replace(file, findings=found)


def told(row: Row, facts: MediaFacts) -> list[Finding]:
    """What a row says of its file, and the file does not."""
    found = []
    start, end = row.segment
    if facts.duration_seconds is not None:
        file_end = (facts.begin_seconds or 0.0) + facts.duration_seconds
        if start is not None and start >= file_end:
            text = f"the segment begins at {start:.2f} s, and the file ends at {file_end:.2f} s"
            found.append(Finding("segment-outside", text, start, end))
        elif end is not None and end > file_end + _MOST_SECONDS_APART:
            text = f"the segment ends at {end:.2f} s, and the file at {file_end:.2f} s"
            found.append(Finding("segment-cut", text, file_end, end))
    for column, (fact, tolerance) in _COLUMNS.items():
        value, is_so = _number(row.extra.get(column)), getattr(facts, fact)
        if value is None or is_so is None or start is not None or end is not None:
            continue
        if abs(value - is_so) > tolerance(float(is_so)):
            found.append(Finding("table-facts", f"{column} is {value:g}, and that of the file is {is_so:g}"))
    return found


def _number(value: Any) -> float | None:
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _exactly(value: float) -> float:
    return 0.0


def _in_frames(value: float) -> float:
    return max(_MOST_FRAMES_APART, 0.01 * value)


def _in_seconds(value: float) -> float:
    return max(_MOST_SECONDS_APART, _MOST_SHARE_APART * value)


def _in_rate(value: float) -> float:
    return _MOST_SHARE_APART * value


#: Columns that say something of the file, what that is, and how far from it they may be.
_COLUMNS: dict[str, tuple[str, Callable[[float], float]]] = {
    "num_frames": ("num_frames", _in_frames),
    "duration": ("duration_seconds", _in_seconds),
    "duration_seconds": ("duration_seconds", _in_seconds),
    "fps": ("average_fps", _in_rate),
    "width": ("width", _exactly),
    "height": ("height", _exactly),
    "sample_rate": ("sample_rate", _exactly),
    "num_channels": ("num_channels", _exactly),
}
