"""`DatasetReport`: what was found, as text, JSON, a page of HTML, and a manifest of what is left."""

from __future__ import annotations

import csv
import html
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._common.checks import path_text
from ..._sources import write_file
from ...errors import InvalidArgumentError
from .._sources import Item
from .findings import BAD_KINDS, FINDING_KINDS, CheckedFile, Finding, to_plain

__all__ = ["DatasetReport"]

# A page of more pictures loads slowly, and nobody looks at them all.
_MOST_FILES_ON_PAGE = 1000
_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse}"
    "td{border-top:1px solid #ccc;padding:.5em;vertical-align:top}img{max-width:160px}"
    ".bad{color:#b00020;font-weight:bold}.kind{font-family:monospace}small{color:#555}"
)


@dataclass(frozen=True)
class DatasetReport:
    """The result of `check_dataset`.

    Attributes:
        files: Every row of the dataset, in its order, with what was found.
        bad_kinds: The kinds of findings that make a file bad.
        items: The rows themselves.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset("videos", num_workers=0)
        >>> report.num_files, report.num_bad
        (3, 0)
    """

    files: tuple[CheckedFile, ...]
    bad_kinds: tuple[str, ...] = BAD_KINDS
    items: Sequence[Item] = field(default=(), repr=False, compare=False)

    @property
    def num_files(self) -> int:
        """How many rows were checked."""
        return len(self.files)

    @property
    def bad_files(self) -> tuple[CheckedFile, ...]:
        """Those with a finding of ``bad_kinds``."""
        return tuple(file for file in self.files if self.is_bad(file))

    @property
    def num_bad(self) -> int:
        """How many files are bad."""
        return len(self.bad_files)

    def is_bad(self, file: CheckedFile) -> bool:
        """Whether a file has a finding of ``bad_kinds``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> report = check_dataset(["video.mp4"], num_workers=0)
            >>> report.is_bad(report.files[0])
            False
        """
        return any(finding.kind in self.bad_kinds for finding in file.findings)

    def counts(self) -> dict[str, int]:
        """How many files have findings of each kind, the most frequent first.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4", "damaged.mp4"], num_workers=0).counts()["corrupt"]
            1
        """
        kinds = Counter(kind for file in self.files for kind in {finding.kind for finding in file.findings})
        return dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))

    def to_text(self) -> str:
        """The report for people: bad files first, then those that are worth a look.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> print(check_dataset(["video.mp4"], num_workers=0).to_text())
            1 checked, 0 bad, 0 worth a look
        """
        others = [file for file in self.files if file.findings and not self.is_bad(file)]
        lines = [f"{self.num_files} checked, {self.num_bad} bad, {len(others)} worth a look"]
        for title, files in (("bad", self.bad_files), ("worth a look", others)):
            if files:
                lines += ["", f"{title}:"]
            for file in files:
                lines.append(f"  {_printable(file.name)}")
                lines += [f"    {finding.kind}: {_printable(_described(finding))}" for finding in file.findings]
        if self.counts():
            lines += ["", "files by finding:"]
            lines += [f"  {count:6} {kind}: {FINDING_KINDS[kind]}" for kind, count in self.counts().items()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, for ``json.dump``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4"], num_workers=0).to_json()["files"][0]["facts"]["video_codec"]
            'h264'
        """
        files = []
        for file in self.files:
            plain = to_plain(file)
            del plain["thumbnail"]
            files.append({"name": file.name, "is_bad": self.is_bad(file), **plain})
        return {
            "num_files": self.num_files,
            "num_bad": self.num_bad,
            "bad_kinds": list(self.bad_kinds),
            "counts": self.counts(),
            "files": files,
        }

    def to_html(self) -> str:
        """The report as one page with small pictures of the files in which something was found.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> "<html" in check_dataset(["video.mp4"], num_workers=0).to_html()
            True
        """
        found = sorted((file for file in self.files if file.findings), key=lambda file: not self.is_bad(file))
        rows = [self._row(file) for file in found[:_MOST_FILES_ON_PAGE]]
        named = [(kind, f"{count}, {FINDING_KINDS[kind]}") for kind, count in self.counts().items()]
        counts = [f"<li><span class=kind>{kind}</span>: {text}</li>" for kind, text in named]
        left_out = len(found) - len(rows)
        more = f"<p>{left_out} more files are not shown; JSON has them.</p>" if left_out > 0 else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Check of a dataset</title>'
            f"<style>{_STYLE}</style></head><body><h1>Check of a dataset</h1>"
            f"<p>{self.num_files} files checked, {self.num_bad} bad, {len(found) - self.num_bad} worth a look.</p>"
            f"<ul>{''.join(counts)}</ul>\n<table>\n{''.join(rows)}</table>{more}</body></html>\n"
        )

    def save_manifest(self, path: str | os.PathLike[str]) -> int:
        """Write a manifest of the rows that are not bad. No file of the dataset is touched.

        Its columns are ``path``, ``label``, ``start_seconds`` and ``end_seconds``, as far as rows have them, and those
        of the manifest that was read. Labels that are classes stay the numbers that they are.

        Args:
            path: Where to write, a ``.csv`` or ``.jsonl``.

        Returns:
            How many rows it has.

        Raises:
            InvalidArgumentError: if the path ends in something else, no row is left, or a row is no file of its own,
                but a part of a tar shard, or bytes.
            WriteError: if it cannot be written.

        Example:
            >>> from mediatensor.datasets import as_items, check_dataset
            >>> check_dataset(["video.mp4", "damaged.mp4"], num_workers=0).save_manifest("good.csv")
            1
            >>> len(as_items("good.csv", kind="video"))
            1
        """
        text = path_text("path", path)
        extension = os.path.splitext(text)[1].lower()
        if extension not in (".csv", ".jsonl"):
            raise InvalidArgumentError(f"A manifest is written as .csv or .jsonl (got {text!r}).")
        rows = list(self._rows_left())
        if not rows:
            raise InvalidArgumentError("Every row is bad, so that there is nothing to write.")
        write_file(text, (_as_csv(rows) if extension == ".csv" else _as_json_lines(rows)).encode())
        return len(rows)

    def _rows_left(self) -> Iterator[dict[str, Any]]:
        for item, file in zip(self.items, self.files, strict=True):
            if self.is_bad(file):
                continue
            if not isinstance(item.source, (str, os.PathLike)):
                raise InvalidArgumentError(
                    f"{item.name} is a part of another file, or bytes, which a manifest cannot name; to_json lists the "
                    "files that are bad."
                )
            source = os.fsdecode(item.source)
            row = {"path": source if "://" in source else os.path.abspath(source), "label": item.label}
            row |= {"start_seconds": item.start_seconds, "end_seconds": item.end_seconds}
            yield {key: value for key, value in row.items() if value is not None} | dict(item.extra)

    def _row(self, file: CheckedFile) -> str:
        picture = f'<img alt="" src="data:image/jpeg;base64,{html.escape(file.thumbnail)}">' if file.thumbnail else ""
        items = "".join(
            f"<li><span class='kind{' bad' if finding.kind in self.bad_kinds else ''}'>{finding.kind}</span>: "
            f"{html.escape(_described(finding))}</li>"
            for finding in file.findings
        )
        facts = html.escape(_facts(file))
        return (
            f"<tr><td>{picture}</td><td>{html.escape(file.name)}<br><small>{facts}</small><ul>{items}</ul></td></tr>\n"
        )


def _printable(text: str) -> str:
    """The text in one line: the name of a file must not write to a terminal what it likes."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _described(finding: Finding) -> str:
    if finding.start_seconds is None:
        return finding.message
    if finding.end_seconds is None or finding.end_seconds == finding.start_seconds:
        return f"{finding.message} (at {finding.start_seconds:.2f} s)"
    return f"{finding.message} (from {finding.start_seconds:.2f} s to {finding.end_seconds:.2f} s)"


def _facts(file: CheckedFile) -> str:
    facts = file.facts
    parts = [
        facts.video_codec,
        facts.width and f"{facts.width}x{facts.height}",
        facts.num_frames and f"{facts.num_frames} frames",
        facts.average_fps and f"{facts.average_fps:.2f} frames/s",
        facts.random_access_frames and f"{facts.random_access_frames} frames for one at random",
        facts.audio_codec,
        facts.sample_rate and f"{facts.sample_rate} Hz",
    ]
    return ", ".join(str(part) for part in parts if part)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    try:
        return "".join(json.dumps(row) + "\n" for row in rows)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"A column has values that JSON has not ({error}); write a .csv.") from None
