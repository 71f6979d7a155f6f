"""Faults that only a comparison of files shows, and rows that contradict their files. Pure functions.

Files are compared for copies, drift between the cameras of an episode, and properties that differ from nearly all other
files. Rows are checked for labels, segments, and columns with facts about the file.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..._engine.common.messages import counted
from .findings import CheckedFile, Finding, MediaFacts

# With fewer files, no file is "odd". With more files, at least this share must agree.
_MIN_FILES, _MIN_SHARE = 10, 0.9
# Hashes have 512 bits. Encoding again changes a few bits; different videos differ in about half.
_MAX_BITS_APART = 40
_MAX_SHARE_APART = 0.02
_ROWS_AT_A_TIME = 256
# Cameras of an episode start and stop a frame or two apart.
_EPISODE_COLUMNS = ("episode", "episode_index", "episode_id")
_MIN_APART_SECONDS, _MAX_STEPS_APART = 0.1, 2.0
# Labels count as classes if each has at least this many rows on average.
_MIN_ROWS_OF_A_CLASS = 3.0
# A smaller share of unlabelled rows counts as mistakes; with a larger share, the rows are unlabelled on purpose.
_MAX_UNLABELLED = 0.5
# A smaller share of fractional labels counts as mistakes; with a larger share, labels are not classes.
_MAX_FRACTIONAL = 0.1
_LABELS_NAMED = 5
_MAX_SECONDS_APART = 0.5
_MAX_FRAMES_APART = 2


class Row(NamedTuple):
    """A row, without its file.

    Attributes:
        label: The label of the row.
        segment: Start and end of the row's segment in seconds; ``None`` for the beginning and the end of the file.
        extra: The other columns of the row.
        key: Key of the row's file.
    """

    label: Any = None
    segment: tuple[float | None, float | None] = (None, None)
    extra: Mapping[str, Any] = {}
    key: str = ""

    @property
    def number(self) -> float | None:
        """The label as a number; ``None`` if it is not a number."""
        if not isinstance(self.label, Real):
            return None
        try:
            return float(self.label)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf

    @property
    def label_text(self) -> str:
        """The label as text."""
        name = self.extra.get("class_name")
        return f"{self.label}" if name is None else f"{self.label} ({name!r})"


def compare_files(
    files: Sequence[CheckedFile], rows: Sequence[Row], num_classes: int | None = None
) -> tuple[list[CheckedFile], list[Finding]]:
    """Return the files with added findings from comparing files and rows, and findings about the whole dataset."""
    added: dict[int, list[Finding]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        if contradictions := _compare_row_with_file(row, file.facts):
            added[number] += contradictions
    together = _check_labels(rows, files, num_classes, added)
    copies = _find_duplicates(files, rows, added)
    _find_near_duplicates(files, rows, copies, added)
    _find_camera_drift(files, rows, added)
    _find_odd_files(files, added)
    finished = [
        replace(file, findings=(*file.findings, *added[number])) if number in added else file
        for number, file in enumerate(files)
    ]
    return finished, together


def _find_duplicates(files: Sequence[CheckedFile], rows: Sequence[Row], added: dict[int, list[Finding]]) -> set[int]:
    """Add a finding for every file whose bytes equal an earlier file's, and return the numbers of these files."""
    first: dict[str, int] = {}
    copies = set()
    for number, file in enumerate(files):
        digest = file.facts.digest
        if digest is None:
            continue
        original = first.setdefault(digest, number)
        # Rows that are parts of one file are not copies.
        if original != number and rows[original].key != rows[number].key:
            copies.add(number)
            added[number].append(Finding("duplicate", f"the same bytes as {files[original].name}"))
    return copies


def _find_near_duplicates(
    files: Sequence[CheckedFile], rows: Sequence[Row], copies: set[int], added: dict[int, list[Finding]]
) -> None:
    numbers = [number for number, file in enumerate(files) if file.facts.picture_hash and number not in copies]
    if len(numbers) < 2:
        return
    hashes = [bytes.fromhex(files[number].facts.picture_hash or "") for number in numbers]
    bits = np.unpackbits(np.frombuffer(b"".join(hashes), np.uint8).reshape(len(numbers), -1), axis=1)
    signs = bits.astype(np.float32) * 2 - 1
    seconds = np.array([files[number].facts.duration_seconds or 0.0 for number in numbers])
    for top in range(0, len(numbers), _ROWS_AT_A_TIME):
        part = slice(top, top + _ROWS_AT_A_TIME)
        apart = (signs.shape[1] - signs[part] @ signs.T) / 2
        longer = np.maximum(seconds[part, None], seconds[None])
        is_as_long = np.abs(seconds[part, None] - seconds[None]) <= _MAX_SHARE_APART * longer
        is_near = (apart <= _MAX_BITS_APART) & is_as_long
        for row, column in zip(*np.nonzero(np.tril(is_near, top - 1)), strict=True):
            number, earlier = numbers[top + row], numbers[column]
            is_first = all(finding.kind != "near-duplicate" for finding in added.get(number, ()))
            if is_first and rows[number].key != rows[earlier].key:
                text = f"the same pictures as {files[earlier].name} ({int(apart[row, column])} of 512 bits differ)"
                added[number].append(Finding("near-duplicate", text))


def _find_camera_drift(files: Sequence[CheckedFile], rows: Sequence[Row], added: dict[int, list[Finding]]) -> None:
    """Add a finding for files that are longer or shorter than those of other cameras of the same episode."""
    episodes: dict[str, list[int]] = defaultdict(list)
    for number, (file, row) in enumerate(zip(files, rows, strict=True)):
        episode = next((text for name in _EPISODE_COLUMNS if (text := str(row.extra.get(name, "")))), "")
        if episode and row.extra.get("camera") and file.facts.num_frames and row.segment == (None, None):
            episodes[episode].append(number)
    for episode, numbers in episodes.items():
        lengths = {number: files[number].facts.duration_seconds or 0.0 for number in numbers}
        # With two cameras, the first is the reference.
        usual = sorted(lengths.values())[len(lengths) // 2] if len(lengths) > 2 else lengths[numbers[0]]
        other = next(number for number in numbers if lengths[number] == usual)
        for number in numbers:
            apart = lengths[number] - usual
            if abs(apart) <= max(_MIN_APART_SECONDS, _MAX_STEPS_APART / (files[other].facts.average_fps or np.inf)):
                continue
            num_frames, num_usual = (files[one].facts.num_frames for one in (number, other))
            text = (
                f"{abs(apart):.2f} s {'longer' if apart > 0 else 'shorter'} than {files[other].name} of episode "
                f"{episode} ({num_frames} frames, and {num_usual})"
            )
            added[number].append(
                Finding("camera-drift", text, min(usual, lengths[number]), max(usual, lengths[number]))
            )


def _find_odd_files(files: Sequence[CheckedFile], added: dict[int, list[Finding]]) -> None:
    for kind, describe in _COMPARED_FACTS.items():
        texts = {number: text for number, file in enumerate(files) if (text := describe(file.facts)) is not None}
        if len(texts) < _MIN_FILES:
            continue
        usual, count = Counter(texts.values()).most_common(1)[0]
        if count < _MIN_SHARE * len(texts):
            continue
        for number, text in texts.items():
            if text != usual:
                words = f"{text}, where {count} of {len(texts)} files have {usual}"
                added[number].append(Finding(kind, words))


def _describe_size(facts: MediaFacts) -> str | None:
    return None if facts.width is None else f"{facts.width}x{facts.height}"


def _describe_rotation(facts: MediaFacts) -> str | None:
    return None if facts.num_frames is None else f"a rotation of {facts.rotation or 0.0:g} degrees"


def _describe_rate(facts: MediaFacts) -> str | None:
    return None if facts.average_fps is None else f"{facts.average_fps:.1f} frames/s"


def _describe_sound(facts: MediaFacts) -> str | None:
    if facts.sample_rate is None:
        return None if facts.num_frames is None else "no sound"
    return f"{facts.sample_rate} Hz, {counted(facts.num_channels or 0, 'channel')}"


def _describe_codecs(facts: MediaFacts) -> str | None:
    return " and ".join(codec for codec in (facts.video_codec, facts.audio_codec) if codec is not None) or None


_COMPARED_FACTS = {
    "odd-size": _describe_size,
    "odd-rotation": _describe_rotation,
    "odd-rate": _describe_rate,
    "odd-sound": _describe_sound,
    "odd-codec": _describe_codecs,
}


# Rows and their files


def _check_labels(
    rows: Sequence[Row], files: Sequence[CheckedFile], num_classes: int | None, added: dict[int, list[Finding]]
) -> list[Finding]:
    """Add findings for wrong, missing, rare or contradictory labels, and return findings about all labels."""
    _find_contradictory_labels(rows, files, added)
    values = {number: value for number, row in enumerate(rows) if (value := row.number) is not None}
    unlabelled = [number for number, row in enumerate(rows) if row.label is None]
    if unlabelled and len(unlabelled) < _MAX_UNLABELLED * len(rows):
        for number in unlabelled:
            text = f"{len(rows) - len(unlabelled)} of {len(rows)} rows have one"
            added[number].append(Finding("missing-label", text))
    not_finite = [number for number, value in values.items() if not math.isfinite(value)]
    for number in not_finite:
        added[number].append(Finding("wrong-label", f"the label is {values.pop(number)}"))
    fractional = [number for number, value in values.items() if value != math.floor(value)]
    if not values or len(fractional) > _MAX_FRACTIONAL * len(values):
        return []
    for number in fractional:
        text = f"the label is {values.pop(number):g}, where others are whole numbers"
        added[number].append(Finding("wrong-label", text))
    for number, value in list(values.items()):
        if value < 0 or (num_classes is not None and value >= num_classes):
            del values[number]
            limit = "0 on" if num_classes is None else f"0 to {num_classes - 1}"
            text = f"the label is {rows[number].label_text}, and labels are whole numbers from {limit}"
            added[number].append(Finding("wrong-label", text))
    counts = Counter(int(value) for value in values.values())
    if len(values) < _MIN_ROWS_OF_A_CLASS * len(counts):
        return []
    for number, value in values.items():
        if counts[int(value)] == 1:
            text = f"the only row of class {rows[number].label_text}, of {len(counts)} classes"
            added[number].append(Finding("rare-label", text))
    return _find_label_gaps(counts, num_classes)


def _find_label_gaps(counts: Counter[int], num_classes: int | None) -> list[Finding]:
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


def _find_contradictory_labels(
    rows: Sequence[Row], files: Sequence[CheckedFile], added: dict[int, list[Finding]]
) -> None:
    first: dict[Any, int] = {}
    for number, (row, file) in enumerate(zip(rows, files, strict=True)):
        if row.label is None:
            continue
        other = first.setdefault((file.facts.digest or file.name, row.segment), number)
        if repr(rows[other].label) != repr(row.label):
            text = f"the label is {row.label_text}, and {rows[other].label_text} in row {other}, {files[other].name}"
            added[number].append(Finding("two-labels", text))


def label_counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of rows of each label, by its name or number; an empty dict if labels are not classes."""
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


def select_segment(file: CheckedFile, row: Row) -> CheckedFile:
    """Return the file with the findings that lie in the segment of a row or have no time."""
    start = -math.inf if row.segment[0] is None else row.segment[0]
    end = math.inf if row.segment[1] is None else row.segment[1]

    def concerns(finding: Finding) -> bool:
        begins, ends = finding.start_seconds, finding.end_seconds
        if begins is None:
            return True
        return begins < end and (ends is None or ends > start or begins >= start)

    return replace(file, findings=tuple(filter(concerns, file.findings)))


def _compare_row_with_file(row: Row, facts: MediaFacts) -> list[Finding]:
    """Return findings for columns and segments of a row that contradict the row's file."""
    found = []
    start, end = row.segment
    if facts.duration_seconds is not None:
        file_end = (facts.begin_seconds or 0.0) + facts.duration_seconds
        if start is not None and start >= file_end:
            text = f"the segment begins at {start:.2f} s, and the file ends at {file_end:.2f} s"
            found.append(Finding("segment-outside", text, start, end))
        elif end is not None and end > file_end + _MAX_SECONDS_APART:
            text = f"the segment ends at {end:.2f} s, and the file at {file_end:.2f} s"
            found.append(Finding("segment-cut", text, file_end, end))
    for column, (fact, tolerance) in _FACT_COLUMNS.items():
        value, actual = _number(row.extra.get(column)), getattr(facts, fact)
        if value is None or actual is None or start is not None or end is not None:
            continue
        if abs(value - actual) > tolerance(float(actual)):
            found.append(Finding("table-facts", f"{column} is {value:g}, and the file has {actual:g}"))
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
    return max(_MAX_FRAMES_APART, 0.01 * value)


def _in_seconds(value: float) -> float:
    return max(_MAX_SECONDS_APART, _MAX_SHARE_APART * value)


def _in_rate(value: float) -> float:
    return _MAX_SHARE_APART * value


#: Columns with facts about the file: the name of the fact, and the tolerance.
_FACT_COLUMNS: dict[str, tuple[str, Callable[[float], float]]] = {
    "num_frames": ("num_frames", _in_frames),
    "duration": ("duration_seconds", _in_seconds),
    "duration_seconds": ("duration_seconds", _in_seconds),
    "fps": ("average_fps", _in_rate),
    "width": ("width", _exactly),
    "height": ("height", _exactly),
    "sample_rate": ("sample_rate", _exactly),
    "num_channels": ("num_channels", _exactly),
}
