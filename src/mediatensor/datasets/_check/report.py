"""`DatasetReport`: the findings of `check_dataset` as text, JSON or HTML, and a manifest of the good rows."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, NamedTuple

from ..._engine.sources.output_files import check_outputs
from ..._engine.sources.source import read_whole
from ...errors import InvalidArgumentError
from .._sources import tar_shards
from .._sources.dispatch import REFERENCE_COLUMNS, files_of, item_alone, place_of
from .._sources.items import LABEL_COLUMNS, Item
from .._sources.manifests import check_manifest_name, write_rows
from .._sources.tables import CAPTIONS_COLUMN, is_captions_path, sidecars_of
from .findings import (
    BAD_KINDS,
    FINDING_KINDS,
    SEVERITIES,
    SEVERITY_TITLES,
    CheckedFile,
    Finding,
    Severity,
    describe_finding,
)

# Times in a table and in a video count as equal up to this difference, as in LeRobot's own reader.
_SAME_SECONDS = 1e-4
# Columns of a manifest that this module itself fills, with the file and the label of a row.
_OWN_COLUMNS = frozenset(("path", "label", *REFERENCE_COLUMNS))
# Findings that mean missing frames. If they have no time, comparing with the tables shows which episodes lack frames.
_SEEN_IN_TABLES = ("corrupt", "cut-off", "frame-count")


@dataclass(frozen=True)
class DatasetReport:
    """The result of `check_dataset`.

    Attributes:
        files: A tuple with a `CheckedFile` for each row of the dataset, in the order of the rows. A row is a file or a
            segment of a file.
        bad_kinds: The kinds of findings that make a file bad, a tuple of keys of `FINDING_KINDS`.
        items: A sequence with the `Item` of each row.
        findings: A tuple of `Finding` about the dataset as a whole: class numbers that no row has, and damaged tables
            of a LeRobot dataset.
        label_counts: Dict from each class name, or class number as text, to the number of its rows. Empty if a label is
            a fraction, or if no label is a number.

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
        """Number of rows that were checked. A file counts once for each of its segments."""
        return len(self.files)

    @property
    def bad_files(self) -> tuple[CheckedFile, ...]:
        """A tuple with the `CheckedFile` of each row that has a finding of one of ``bad_kinds``."""
        return tuple(file for file in self.files if self.is_bad(file))

    @property
    def num_bad(self) -> int:
        """Number of rows in `bad_files`."""
        return len(self.bad_files)

    def is_bad(self, file: CheckedFile) -> bool:
        """Return whether a `CheckedFile` has a finding of one of ``bad_kinds``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> report = check_dataset(["video.mp4"], num_workers=0)
            >>> report.is_bad(report.files[0])
            False
        """
        return self.severity_of(file) == "bad"

    def severity_of(self, found: CheckedFile | Finding) -> Severity | None:
        """Return the severity of a `Finding`, or the worst severity of the findings in a `CheckedFile`.

        The result is ``None`` for a file without findings. A finding is ``"bad"`` if its kind is in ``bad_kinds``. Any
        other finding has the severity of its kind in `FINDING_KINDS`, or ``"look"`` if that severity is ``"bad"``.

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
        """Whether there are no bad files, and no bad findings about the dataset as a whole.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4"], num_workers=0).is_in_order
            True
        """
        return not self.num_bad and all(self.severity_of(finding) != "bad" for finding in self.findings)

    @property
    def good_episodes(self) -> list[int]:
        """Numbers of the LeRobot episodes that have no bad finding, as a sorted list.

        Pass the list to ``LeRobotClips(folder, episodes=...)``. If several episodes share a video, damaged or missing
        frames affect only the episodes that contain them. The list is empty if the dataset is not a LeRobot dataset.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset("robot", num_workers=0).good_episodes
            [0, 1, 2]
        """
        known: set[int] = set()
        bad = {finding.episode for finding in self.findings if self.severity_of(finding) == "bad"}
        for item, file in zip(self.items, self.files, strict=False):  # a report may be made without items
            spans = _episode_spans(item)
            known.update(spans)
            for finding in file.findings:
                if self.severity_of(finding) == "bad":
                    bad.update([finding.episode] if finding.episode is not None else _episodes_at(spans, finding))
        return sorted(known - bad)

    def counts(self) -> dict[str, int]:
        """Return a dict from each kind of finding to its number of files, the most frequent kind first.

        Findings about the dataset as a whole are not counted.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4", "damaged.mp4"], num_workers=0).counts()["corrupt"]
            1
        """
        kinds = Counter(kind for file in self.files for kind in {finding.kind for finding in file.findings})
        return dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))

    def with_severity(self, severity: Severity | None) -> list[tuple[int, CheckedFile]]:
        """Return a list of pairs (row number, `CheckedFile`) of the files whose worst finding has the given severity.

        Args:
            severity: ``"bad"``, ``"look"`` (a person should look at the file) or ``"note"``, from worst to mildest.
                ``None`` selects the files without findings.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> report = check_dataset(["video.mp4", "damaged.mp4"], num_workers=0)
            >>> [(row, file.name) for row, file in report.with_severity("bad")]
            [(1, 'damaged.mp4')]
        """
        return [(number, file) for number, file in enumerate(self.files) if self.severity_of(file) == severity]

    def to_text(self) -> str:
        """Return the report as text. It lists first the bad files, and then the files that a person should look at.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> print(check_dataset(["video.mp4"], num_workers=0).to_text())
            1 checked: 1 in order
        """
        numbers = {title: len(self.with_severity(severity)) for severity, title in SEVERITY_TITLES.items()}
        named = [f"{number} {title}" for title, number in numbers.items() if number]
        lines = [f"{self.num_files} checked: {', '.join(named)}"]
        if self.findings:
            lines += ["", "the whole dataset:"]
            lines += [f"  {finding.kind}: {_make_printable(describe_finding(finding))}" for finding in self.findings]
        for severity in SEVERITIES[:2]:  # the text only counts notes; JSON and HTML list them
            files = self.with_severity(severity)
            lines += ["", f"{SEVERITY_TITLES[severity]}:"] if files else []
            for number, file in files:
                lines.append(f"  row {number}: {_make_printable(file.name)}")
                lines += [
                    f"    {finding.kind}: {_make_printable(describe_finding(finding))}" for finding in file.findings
                ]
        counts = Counter({finding.kind: 1 for finding in self.findings}) | self.counts()
        lines += ["", "number of files by finding, and advice:"] if counts else []
        for kind, count in counts.items():
            lines += [f"  {count:6} {kind}: {FINDING_KINDS[kind].meaning}", f"         {FINDING_KINDS[kind].advice}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dict of dicts, lists, text and numbers, which ``json.dump`` can write.

        The keys are ``num_files``, ``num_bad``, ``is_in_order``, ``bad_kinds``, ``counts``, ``label_counts``,
        ``good_episodes``, ``findings`` and ``files``. ``files`` has a dict for each row, with its findings and facts,
        but without the thumbnail and ``picture_signature``.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> check_dataset(["video.mp4"], num_workers=0).to_json()["files"][0]["facts"]["video_codec"]
            'h264'
        """
        files = []
        for number, file in enumerate(self.files):
            plain = asdict(file)
            del plain["thumbnail"], plain["facts"]["picture_signature"]
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
        """Return the report as the text of one HTML page, with small images of the files that have findings.

        The page shows at most 1,000 files.

        Example:
            >>> from mediatensor.datasets import check_dataset
            >>> "<html" in check_dataset(["video.mp4"], num_workers=0).to_html()
            True
        """
        return _Page(self).to_html()

    def save_manifest(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Write a manifest of the rows that are not bad. The files of the dataset are not changed.

        The manifest has the column ``path``, the columns of the source, and, if rows have them, ``label``,
        ``start_seconds`` and ``end_seconds``. If you gave `check_dataset` a ``media_column`` or ``label_column``, and
        the source also has a column ``path`` or ``label``, that column is renamed to ``other_path`` or ``other_label``.
        Paths of files and of captions are absolute.

        For a file in a tar shard or a Parquet column, ``path`` is the shard or the Parquet file. Further columns locate
        the media file in the shard or Parquet file, so that `as_items` can find it. Class labels are written as
        numbers. If a sample of a tar shard has subtitle files, the column ``captions`` has the text of one of them. A
        subtitle file without a language in its name is preferred.

        Args:
            path: Output file, ``.csv`` or ``.jsonl``.
            overwrite: Whether to replace an existing file. Files of the dataset are never replaced.

        Returns:
            Number of rows in the manifest.

        Raises:
            InvalidArgumentError: if the path has another extension, is one of the checked files, or exists already; if
                all rows are bad; if a row is bytes in memory, so that it has no path; or if a subtitle file in a shard
                is too large or not UTF-8 text.
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
        check_outputs([text], files_of(self.items), overwrite=overwrite, how="overwrite=True")
        rows = list(self._good_rows())
        if not rows:
            raise InvalidArgumentError("Every row is bad, so there is nothing to write.")
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
                    f"{item.name} is bytes in memory, which a manifest cannot refer to. to_json lists the bad rows."
                )
            if isinstance(item.source, (str, os.PathLike)):
                row = {"path": row["path"]}
            row["path"] = _make_absolute(row["path"])
            row |= {"label": item.label, "start_seconds": item.start_seconds, "end_seconds": item.end_seconds}
            row = {key: value for key, value in row.items() if value is not None}
            more = dict(item.extra)
            if item.label is None and any(name in more for name in LABEL_COLUMNS):
                row["label"] = None  # otherwise another column would be taken for the label
            for name in _OWN_COLUMNS & more.keys():
                if name in row or name in REFERENCE_COLUMNS:
                    free = f"other_{name}"
                    while free in more:
                        free = f"other_{free}"
                    more[free] = more.pop(name)
            captions = more.get(CAPTIONS_COLUMN)
            if isinstance(captions, str) and is_captions_path(captions):
                more[CAPTIONS_COLUMN] = _make_absolute(captions)
            row |= more | row
            if item.sidecars and not row.get(CAPTIONS_COLUMN):
                row[CAPTIONS_COLUMN] = _captions_of(item)
            yield row


def _make_absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _captions_of(item: Item) -> str:
    suffix, sidecar = next(iter(sidecars_of(item).items()))
    if isinstance(sidecar, str):
        return _make_absolute(sidecar)
    if not isinstance(sidecar, bytes):
        sidecar = read_whole(sidecar, tar_shards.MAX_COLUMN_BYTES)
    if len(sidecar) > tar_shards.MAX_COLUMN_BYTES:
        raise InvalidArgumentError(
            f"The subtitle file {suffix} of {item.name} has more than {tar_shards.MAX_COLUMN_BYTES} bytes, the limit."
        )
    try:
        text = sidecar.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"The subtitle file {suffix} of {item.name} is not UTF-8 text ({error}). Convert it to UTF-8."
        ) from None
    # The line end distinguishes the text from a path. "[]" means an empty file; empty text would mean no captions.
    return text.rstrip() + "\n" if text.strip() else "[]"


def _episode_spans(item: Item) -> dict[int, tuple[float, float]]:
    episodes, begins, ends = (item.extra.get(name) for name in ("episodes", "begin_seconds", "end_seconds"))
    if not (isinstance(episodes, list) and isinstance(begins, list) and isinstance(ends, list)):
        return {}  # in a manifest, the values would be text
    return dict(zip(episodes, zip(begins, ends, strict=True), strict=True))


def _episodes_at(spans: Mapping[int, tuple[float, float]], finding: Finding) -> list[int]:
    """Return the episodes of a video to which a finding applies: without a time, all of them.

    A finding about damaged or missing frames without a time applies to no episode, because the comparison with the
    tables reports the episodes that lack frames.
    """
    start, stop = finding.start_seconds, finding.end_seconds
    if start is None:
        return [] if finding.kind in _SEEN_IN_TABLES else list(spans)
    # A finding that starts where an episode ends does not belong to that episode, although times are rounded.
    start += _SAME_SECONDS
    stop = math.inf if stop is None else max(stop - _SAME_SECONDS, start)
    return [episode for episode, (begin, end) in spans.items() if begin <= stop and start < end]


def _make_printable(text: str) -> str:
    """Replace line breaks and control characters, because a file name can contain terminal commands."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


# The report as one HTML page that loads nothing else

# A page with more images loads slowly.
MOST_FILES_ON_PAGE = 1000
_MOST_LABELS = 60
_STYLE = """
:root{--page:#f6f7f9;--card:#fff;--text:#1c2024;--quiet:#60646c;--line:#dfe2e6;--bad:#c62a2f;--look:#a35200;
--note:#3a5ccc;--fine:#18794e;--mark:#eceef1;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--page:#111315;--card:#1b1e21;--text:#edeef0;--quiet:#a3a9b1;--line:#2f3338;
--bad:#ff9592;--look:#ffca80;--note:#9eb1ff;--fine:#3dd68c;--mark:#2a2e33}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;background:var(--page);color:var(--text)}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .75rem}
p{margin:.25rem 0}.quiet{color:var(--quiet)}
.bad{--own:var(--bad)}.look{--own:var(--look)}.note{--own:var(--note)}.fine{--own:var(--fine)}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:.75rem;margin:1rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem .9rem}
.tile b{display:block;font-size:1.7rem;line-height:1.2;color:var(--own)}
.share{display:flex;gap:2px;height:.6rem;border-radius:.3rem;overflow:hidden}
.share i{background:var(--own);min-width:3px}
.kinds{display:grid;gap:.6rem;grid-template-columns:repeat(auto-fill,minmax(20rem,1fr))}
.kind{display:flex;flex-direction:column;text-align:left;font:inherit;font-size:14px;color:inherit;gap:.15rem;
background:var(--card);border:1px solid var(--line);border-left:4px solid var(--own);border-radius:.4rem;
padding:.5rem .75rem;cursor:pointer}
.kind:hover{border-color:var(--own)}.kind[aria-pressed=true]{outline:2px solid var(--own)}
.kind div{display:flex;justify-content:space-between;width:100%}.kind b{color:var(--own)}
code{font:13px ui-monospace,monospace;color:var(--own);font-weight:600}
.kind small,.file small{display:block;color:var(--quiet);font-size:13px}
.file{display:grid;grid-template-columns:176px 1fr;gap:1rem;background:var(--card);border:1px solid var(--line);
border-radius:.6rem;padding:.75rem;margin-bottom:.75rem}
.file[hidden]{display:none}.file>*{min-width:0}
.file h3 .quiet{font-weight:400}.file h3{font-size:1rem;margin:0;overflow-wrap:anywhere}
.picture{background:var(--mark);border-radius:.35rem;min-height:84px;display:grid;place-items:center;align-self:start;
color:var(--quiet);font-size:13px;overflow:hidden}
.picture img{width:100%;max-height:176px;object-fit:contain;display:block}
ul{list-style:none;margin:.5rem 0 0;padding:0}li{margin:.3rem 0;overflow-wrap:anywhere}
.times{position:relative;height:.55rem;background:var(--mark);border-radius:.3rem;margin-top:.6rem;overflow:hidden}
.times i{position:absolute;top:0;bottom:0;min-width:3px;background:var(--own)}
.ends{display:flex;justify-content:space-between;font-size:12px;color:var(--quiet)}
.labels{display:grid;grid-template-columns:minmax(3rem,max-content) 1fr;gap:.15rem .6rem;font-size:13px;
align-items:center;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.75rem}
p+.kinds{margin-top:.6rem}
.labels span{overflow-wrap:anywhere}
.labels i{display:inline-block;height:.6rem;background:var(--note);border-radius:.2rem;margin-right:.4rem}
@media(max-width:40rem){.tiles{grid-template-columns:repeat(2,1fr)}.kinds,.file{grid-template-columns:1fr}}
"""
# Clicking a finding shows its files.
_SCRIPT = """
const buttons=[...document.querySelectorAll('.kind')];
for(const button of buttons)button.addEventListener('click',()=>{
const on=button.getAttribute('aria-pressed')!=='true';
for(const other of buttons)other.setAttribute('aria-pressed',on&&other===button);
for(const file of document.querySelectorAll('.file'))
file.hidden=on&&!file.dataset.kinds.split(' ').includes(button.dataset.kind)});
"""


class _Page(NamedTuple):
    report: DatasetReport

    def to_html(self) -> str:
        named = [pair for severity in SEVERITIES for pair in self.report.with_severity(severity)]
        cards = [self._file(number, file) for number, file in named[:MOST_FILES_ON_PAGE]]
        left_out = len(named) - len(cards)
        more = (
            f"<p class=quiet>{left_out} more files are not shown here, but in the JSON report.</p>"
            if left_out > 0
            else ""
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>Check of a dataset</title><style>{_STYLE}</style></head><body><main>"
            f"<h1>Check of a dataset</h1>{self._tiles()}{self._together()}{self._kinds()}{self._labels()}"
            f"{'<h2>Files</h2>' if cards else ''}\n{''.join(cards)}{more}"
            f"</main><script>{_SCRIPT}</script></body></html>\n"
        )

    def _tiles(self) -> str:
        counts = {severity: len(self.report.with_severity(severity)) for severity in SEVERITY_TITLES}
        tiles = "".join(
            f'<div class="tile {severity or "fine"}"><b>{counts[severity]}</b>{title}</div>'
            for severity, title in SEVERITY_TITLES.items()
        )
        shares = "".join(
            f'<i class="{severity or "fine"}" style="flex:{counts[severity]}"></i>'
            for severity in SEVERITY_TITLES
            if counts[severity]
        )
        total = sum(counts.values())
        files = "1 file was" if total == 1 else f"{total} files were"
        return f"<p class=quiet>{files} checked.</p><div class=tiles>{tiles}</div><div class=share>{shares}</div>"

    def _together(self) -> str:
        if not self.report.findings:
            return ""
        return f"<h2>The whole dataset</h2><ul>{''.join(map(self._finding, self.report.findings))}</ul>"

    def _kinds(self) -> str:
        counts = self.report.counts()
        severities = {kind: self.report.severity_of(Finding(kind, "")) or "note" for kind in counts}
        rows = [
            f'<button class="kind {severities[kind]}" data-kind="{kind}" aria-pressed="false">'
            f"<div><code>{kind}</code><b>{counts[kind]}</b></div><span>{escape(FINDING_KINDS[kind].meaning)}</span>"
            f"<small>{escape(FINDING_KINDS[kind].advice)}</small></button>"
            for kind in sorted(counts, key=lambda kind: SEVERITIES.index(severities[kind]))
        ]
        hint = "<p class=quiet>Select a finding to see its files.</p>"
        return f"<h2>Findings</h2>{hint}<div class=kinds>{''.join(rows)}</div>" if rows else ""

    def _labels(self) -> str:
        if len(self.report.label_counts) < 2:
            return ""
        most = max(self.report.label_counts.values())
        rows = [
            f'<span>{escape(name)}</span><span><i style="width:{max(70 * count / most, 0.5):.1f}%"></i>{count}</span>'
            for name, count in list(self.report.label_counts.items())[:_MOST_LABELS]
        ]
        left_out = len(self.report.label_counts) - len(rows)
        more = f"<span></span><span class=quiet>and {left_out} more</span>" if left_out > 0 else ""
        return f"<h2>Rows by label</h2><div class=labels>{''.join(rows)}{more}</div>"

    def _file(self, number: int, file: CheckedFile) -> str:
        picture = "no image"
        if file.thumbnail:
            picture = f'<img alt="" src="data:image/jpeg;base64,{escape(file.thumbnail)}">'
        kinds = " ".join(sorted({finding.kind for finding in file.findings}))
        name = file.name.rsplit("/", 1)[-1]
        folder = file.name.removesuffix(name)
        return (
            f'<article class=file data-kinds="{kinds}"><div class=picture>{picture}</div><div>'
            f"<h3><span class=quiet>{escape(folder)}</span>{escape(name)}</h3>"
            f"<small>row {number}{escape(_facts(file))}</small>"
            f"<ul>{''.join(map(self._finding, file.findings))}</ul>{self._time_line(file)}</div></article>\n"
        )

    def _finding(self, finding: Finding) -> str:
        severity = self.report.severity_of(finding) or "note"
        return f'<li class="{severity}"><code>{finding.kind}</code> {escape(describe_finding(finding))}</li>'

    def _time_line(self, file: CheckedFile) -> str:
        length, begin = file.facts.duration_seconds, file.facts.begin_seconds or 0.0
        placed = [finding for finding in file.findings if finding.start_seconds is not None]
        if not length or not placed:
            return ""
        marks, severity_of = [], self.report.severity_of
        for finding in sorted(placed, key=lambda one: SEVERITIES.index(severity_of(one) or "note"), reverse=True):
            start = finding.start_seconds or 0.0
            end = start if finding.end_seconds is None else finding.end_seconds
            left, right = (min(max((at - begin) / length, 0.0), 1.0) for at in (start, end))
            marks.append(
                f'<i class="{severity_of(finding)}" title="{escape(finding.kind)}" '
                f'style="left:{min(100 * left, 99.5):.2f}%;width:{100 * (right - left):.2f}%"></i>'
            )
        ends = f"<div class=ends><span>{begin:.1f} s</span><span>{begin + length:.1f} s</span></div>"
        return f"<div class=times>{''.join(marks)}</div>{ends}"


def _facts(file: CheckedFile) -> str:
    facts = file.facts
    parts = [
        facts.duration_seconds and f"{facts.duration_seconds:.1f} s",
        facts.video_codec,
        facts.width and f"{facts.width}x{facts.height}",
        facts.num_frames and f"{facts.num_frames} frames",
        facts.average_fps and f"{facts.average_fps:.2f} frames/s",
        facts.random_access_frames and f"{facts.random_access_frames} decoded for a random frame",
        facts.audio_codec,
        facts.sample_rate and f"{facts.sample_rate} Hz",
    ]
    return "".join(f" · {part}" for part in parts if part)
