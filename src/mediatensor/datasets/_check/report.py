"""`DatasetReport`: the findings as text, JSON and HTML, and a manifest of the good rows."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from ..._engine.common.checks import path_text
from ..._engine.sources.atomic_files import write_file
from ..._engine.sources.output_files import check_outputs
from ..._engine.sources.source import make_source
from ...errors import InvalidArgumentError
from .._sources import limits
from .._sources.items import LABEL_COLUMNS, Item
from .._sources.references import REFERENCE_COLUMNS, files_of, item_alone, place_of
from .._sources.rows import CAPTIONS_COLUMN, is_captions_path, sidecars_of
from .findings import (
    BAD_KINDS,
    FINDING_KINDS,
    SEVERITIES,
    SEVERITY_TITLES,
    CheckedFile,
    Finding,
    Severity,
    describe_finding,
    to_plain,
)
from .page import Page

# Times in a table and in a video count as equal below this difference, as in LeRobot's own reader.
_SAME_SECONDS = 1e-4
# Manifest columns that this module fills with the file and label of a row.
_OWN_COLUMNS = frozenset(("path", "label", *REFERENCE_COLUMNS))
# Findings that mean missing frames. Comparing each episode with its table shows which episodes lack frames.
_SEEN_IN_TABLES = ("corrupt", "cut-off", "frame-count")


@dataclass(frozen=True)
class DatasetReport:
    """The result of `check_dataset`.

    Attributes:
        files: Every row of the dataset in order, with its findings.
        bad_kinds: The kinds of findings that make a file bad.
        items: The rows themselves.
        findings: Findings about the dataset as a whole: labels without a row, and damaged LeRobot tables.
        label_counts: Number of rows of each label, by its name or number; empty if labels are not classes.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset("videos", num_workers=0)
        >>> report.num_files, report.num_bad
        (3, 0)
    """

    files: tuple[CheckedFile, ...]
    bad_kinds: tuple[str, ...] = BAD_KINDS
    items: Sequence[Item] = field(default=(), repr=False, compare=False)
    findings: tuple[Finding, ...] = ()
    label_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_files(self) -> int:
        """Number of rows that were checked."""
        return len(self.files)

    @property
    def bad_files(self) -> tuple[CheckedFile, ...]:
        """Files with a finding of ``bad_kinds``."""
        return tuple(file for file in self.files if self.is_bad(file))

    @property
    def num_bad(self) -> int:
        """Number of bad files."""
        return len(self.bad_files)

    def is_bad(self, file: CheckedFile) -> bool:
        """Return whether a file has a finding of ``bad_kinds``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> report = check_dataset(["video.mp4"], num_workers=0)
            >>> report.is_bad(report.files[0])
            False
        """
        return self.severity_of(file) == "bad"

    def severity_of(self, found: CheckedFile | Finding) -> Severity | None:
        """Return the severity of a finding, or the worst severity in a file; ``None`` if the file has no findings.

        Severities are defined in `FINDING_KINDS`, but exactly the kinds in ``bad_kinds`` are ``"bad"``.

        Example:
            >>> from mediatensor.datasets import Finding, check_dataset
            >>> report = check_dataset(["video.mp4"], num_workers=0, bad_kinds=["black"])
            >>> report.severity_of(Finding("black", "black for 3.0 s")), report.severity_of(report.files[0])
            ('bad', None)
        """
        if isinstance(found, CheckedFile):
            severities = [severity for one in found.findings if (severity := self.severity_of(one)) is not None]
            return min(severities, key=SEVERITIES.index, default=None)
        severity = FINDING_KINDS[found.kind].severity
        return "bad" if found.kind in self.bad_kinds else "look" if severity == "bad" else severity

    @property
    def is_in_order(self) -> bool:
        """Whether no file is bad, and no finding about the whole dataset is bad.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4"], num_workers=0).is_in_order
            True
        """
        return not self.num_bad and all(self.severity_of(finding) != "bad" for finding in self.findings)

    @property
    def good_episodes(self) -> list[int]:
        """Episodes of a LeRobot dataset without a bad finding, for `LeRobotClips(folder, episodes=...)`.

        If several episodes share a video, only episodes with damage or missing frames are bad.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset("robot", num_workers=0).good_episodes
            [0, 1, 2]
        """
        known: set[int] = set()
        bad = {finding.episode for finding in self.findings if self.severity_of(finding) == "bad"}
        for item, file in zip(self.items, self.files, strict=False):  # a report may lack its items
            spans = _episode_spans(item)
            known.update(spans)
            for finding in file.findings:
                if self.severity_of(finding) == "bad":
                    bad.update([finding.episode] if finding.episode is not None else _episodes_at(spans, finding))
        return sorted(known - bad)

    def counts(self) -> dict[str, int]:
        """Count the files with findings of each kind, in descending order.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4", "damaged.mp4"], num_workers=0).counts()["corrupt"]
            1
        """
        kinds = Counter(kind for file in self.files for kind in {finding.kind for finding in file.findings})
        return dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))

    def with_severity(self, severity: Severity | None) -> list[tuple[int, CheckedFile]]:
        """Return the files whose worst finding has this severity, each with its row number.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> report = check_dataset(["video.mp4", "damaged.mp4"], num_workers=0)
            >>> [(row, file.name) for row, file in report.with_severity("bad")]
            [(1, 'damaged.mp4')]
        """
        return [(number, file) for number, file in enumerate(self.files) if self.severity_of(file) == severity]

    def to_text(self) -> str:
        """Return the report as text: bad files first, then files that need a look.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> print(check_dataset(["video.mp4"], num_workers=0).to_text())
            1 checked: 1 in order
        """
        lines = [_summary(self)]
        if self.findings:
            lines += ["", "of all together:"]
            lines += [f"  {finding.kind}: {_make_printable(describe_finding(finding))}" for finding in self.findings]
        for severity in SEVERITIES[:2]:  # notes are only counted here; JSON and HTML list them
            files = self.with_severity(severity)
            lines += ["", f"{SEVERITY_TITLES[severity]}:"] if files else []
            for number, file in files:
                lines.append(f"  row {number}: {_make_printable(file.name)}")
                lines += [
                    f"    {finding.kind}: {_make_printable(describe_finding(finding))}" for finding in file.findings
                ]
        counts = Counter({finding.kind: 1 for finding in self.findings}) | self.counts()
        lines += ["", "files by finding, and what to do:"] if counts else []
        for kind, count in counts.items():
            lines += [f"  {count:6} {kind}: {FINDING_KINDS[kind].meaning}", f"         {FINDING_KINDS[kind].advice}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, for ``json.dump``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4"], num_workers=0).to_json()["files"][0]["facts"]["video_codec"]
            'h264'
        """
        files = []
        for number, file in enumerate(self.files):
            plain = to_plain(file)
            del plain["thumbnail"]
            plain["findings"] = [self._plain(finding) for finding in file.findings]
            files.append({"row": number, "name": file.name, "is_bad": self.is_bad(file), **plain})
        return {
            "num_files": self.num_files,
            "num_bad": self.num_bad,
            "is_in_order": self.is_in_order,
            "bad_kinds": list(self.bad_kinds),
            "counts": self.counts(),
            "label_counts": dict(self.label_counts),
            "good_episodes": self.good_episodes,
            "findings": [self._plain(finding) for finding in self.findings],
            "files": files,
        }

    def _plain(self, finding: Finding) -> dict[str, Any]:
        more = {"severity": self.severity_of(finding), "advice": FINDING_KINDS[finding.kind].advice}
        return asdict(finding) | more

    def to_html(self) -> str:
        """Return the report as one HTML page with small images of the files with findings.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> "<html" in check_dataset(["video.mp4"], num_workers=0).to_html()
            True
        """
        files = {severity: self.with_severity(severity) for severity in SEVERITY_TITLES}
        return Page(files, self.findings, self.counts(), self.label_counts, self.severity_of).to_html()

    def save_manifest(self, path: str | os.PathLike[str]) -> int:
        """Write a manifest of the rows that are not bad. No file of the dataset is changed.

        The manifest has the columns ``path``, ``label``, ``start_seconds`` and ``end_seconds``, if rows have them, and
        the columns of the source manifest. A column ``path`` or ``label`` that the source has in addition to
        ``media_column`` or ``label_column`` becomes ``other_path`` or ``other_label``. All paths, also of captions, are
        absolute.

        A file in a tar shard or a Parquet column is named by its place there, in the form that `as_items` reads. Labels
        that are classes stay numbers. For a sample of a tar shard, the column ``captions`` has the text of its first
        subtitle file, preferably one without a language.

        Args:
            path: Output file, a ``.csv`` or ``.jsonl``.

        Returns:
            Number of rows of the manifest.

        Raises:
            InvalidArgumentError: if the path has another extension or is a file that was checked, if no row is left, if
                a row is bytes in memory, or if a subtitle file in a shard is not text that the manifest can hold.
            ReadError: if a subtitle file in a shard cannot be read.
            WriteError: if the manifest cannot be written.

        Example:
            >>> from mediatensor.datasets import as_items, check_dataset
            >>> check_dataset(["video.mp4", "damaged.mp4"], num_workers=0).save_manifest("good.csv")
            1
            >>> len(as_items("good.csv", kind="video"))
            1
        """
        text = check_manifest_name(path)
        check_outputs([text], files_of(self.items))
        rows = list(self._good_rows())
        if not rows:
            raise InvalidArgumentError("Every row is bad, so that there is nothing to write.")
        write_rows(text, rows)
        return len(rows)

    def _good_rows(self) -> Iterator[dict[str, Any]]:
        for number, file in enumerate(self.files):
            if self.is_bad(file):
                continue
            item = item_alone(self.items, number)
            row = place_of(item)
            if row["path"] is None:
                raise InvalidArgumentError(
                    f"{item.name} is bytes in memory, which a manifest cannot name; to_json lists the bad ones."
                )
            if isinstance(item.source, (str, os.PathLike)):
                row = {"path": row["path"]}
            row["path"] = _make_absolute(row["path"])
            row |= {"label": item.label, "start_seconds": item.start_seconds, "end_seconds": item.end_seconds}
            row = {key: value for key, value in row.items() if value is not None}
            more = dict(item.extra)
            if item.label is None and any(name in more for name in LABEL_COLUMNS):
                row["label"] = None  # so that no other column is taken for the label
            for name in _OWN_COLUMNS & more.keys():
                if name in row or name in REFERENCE_COLUMNS:
                    more[_free_name(name, more)] = more.pop(name)
            captions = more.get(CAPTIONS_COLUMN)
            if isinstance(captions, str) and is_captions_path(captions):
                more[CAPTIONS_COLUMN] = _make_absolute(captions)
            row |= more | row
            if item.sidecars and not row.get(CAPTIONS_COLUMN):
                row[CAPTIONS_COLUMN] = _captions_of(item)
            yield row


def check_manifest_name(path: str | os.PathLike[str]) -> str:
    """Return the path of a manifest as text; raise unless it ends in ``.csv`` or ``.jsonl``."""
    text = path_text("path", path)
    if os.path.splitext(text)[1].lower() not in (".csv", ".jsonl"):
        raise InvalidArgumentError(f"A manifest is written as .csv or .jsonl (got {text!r}).")
    return text


def write_rows(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a ``.csv`` or ``.jsonl`` manifest."""
    write_file(path, _as_csv(rows) if path.lower().endswith(".csv") else _as_json_lines(rows))


def _make_absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _free_name(name: str, columns: Mapping[str, Any]) -> str:
    free = f"other_{name}"
    while free in columns:
        free = f"other_{free}"
    return free


def _captions_of(item: Item) -> str:
    suffix, sidecar = next(iter(sidecars_of(item).items()))
    if isinstance(sidecar, str):
        return _make_absolute(sidecar)
    if not isinstance(sidecar, bytes):
        reader = make_source(sidecar).open_bytes()
        if reader is None:
            raise InvalidArgumentError(f"The subtitle file {suffix} of {item.name} has no bytes to be read.")
        with closing(reader):
            sidecar = reader.read(limits.MAX_COLUMN_BYTES + 1)
    if len(sidecar) > limits.MAX_COLUMN_BYTES:
        raise InvalidArgumentError(
            f"The subtitle file {suffix} of {item.name} is larger than {limits.MAX_COLUMN_BYTES} bytes: shorten it."
        )
    try:
        text = sidecar.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"The subtitle file {suffix} of {item.name} is not text in UTF-8 ({error}): encode it anew."
        ) from None
    # The line end distinguishes the text from a path. Empty text would mean no captions, not an empty file.
    return text.rstrip() + "\n" if text.strip() else "[]"


def _episode_spans(item: Item) -> dict[int, tuple[float, float]]:
    """Return the time ranges of the episodes in a LeRobot video; empty for other files."""
    episodes, begins, ends = (item.extra.get(name) for name in ("episodes", "begin_seconds", "end_seconds"))
    if not (isinstance(episodes, list) and isinstance(begins, list) and isinstance(ends, list)):
        return {}  # in a manifest, the values would be text
    return dict(zip(episodes, zip(begins, ends, strict=True), strict=True))


def _episodes_at(spans: Mapping[int, tuple[float, float]], finding: Finding) -> list[int]:
    """Return the episodes of a video that contain a finding; all episodes of the video if the finding has no time."""
    start, stop = finding.start_seconds, finding.end_seconds
    if start is None:
        return [] if finding.kind in _SEEN_IN_TABLES else list(spans)
    # A finding that ends where an episode begins does not belong to that episode, despite rounding of the times.
    start += _SAME_SECONDS
    stop = math.inf if stop is None else max(stop - _SAME_SECONDS, start)
    return [episode for episode, (begin, end) in spans.items() if begin <= stop and start < end]


def _summary(report: DatasetReport) -> str:
    counts = {title: len(report.with_severity(severity)) for severity, title in SEVERITY_TITLES.items()}
    named = [f"{count} {title}" for title, count in counts.items() if count]
    return f"{report.num_files} checked: {', '.join(named)}"


def _make_printable(text: str) -> str:
    """Return text in one line without control characters, so that a file name cannot send commands to a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    longest = max((len(str(row.get(CAPTIONS_COLUMN, ""))) for row in rows), default=0)
    if longest > csv.field_size_limit():
        raise InvalidArgumentError(
            f"Captions have {longest} characters, more than the {csv.field_size_limit()} that a field of a .csv may "
            "have: write a .jsonl."
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    try:
        return text.getvalue().encode()
    except UnicodeEncodeError as error:
        character = text.getvalue()[error.start]
        name = next(value for row in rows for value in map(str, row.values()) if character in value)
        raise InvalidArgumentError(f"A .csv is in UTF-8, which cannot hold {name!r}: write a .jsonl.") from None


def _as_json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"A column has values that JSON has not ({error}); write a .csv.") from None
