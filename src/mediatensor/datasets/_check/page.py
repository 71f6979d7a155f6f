"""The report as one HTML page without external resources. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from .findings import FINDING_KINDS, SEVERITIES, SEVERITY_TITLES, CheckedFile, Finding, Severity, describe_finding

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


class Page(NamedTuple):
    """A page of a report.

    Attributes:
        files: The files of each severity, with their row numbers; of files without findings, only the number is used.
        findings: The findings about the dataset as a whole.
        counts: Number of files with findings of each kind.
        label_counts: Number of rows of each label.
        severity_of: Returns the severity of a finding.
    """

    files: Mapping[Severity | None, Sequence[tuple[int, CheckedFile]]]
    findings: Sequence[Finding]
    counts: Mapping[str, int]
    label_counts: Mapping[str, int]
    severity_of: Callable[[Finding], Severity | None]

    def to_html(self) -> str:
        named = [pair for severity in SEVERITIES for pair in self.files[severity]]
        cards = [self._file(number, file) for number, file in named[:MOST_FILES_ON_PAGE]]
        left_out = len(named) - len(cards)
        more = f"<p class=quiet>{left_out} more files are not shown; JSON has them.</p>" if left_out > 0 else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>Check of a data set</title><style>{_STYLE}</style></head><body><main>"
            f"<h1>Check of a data set</h1>{self._tiles()}{self._together()}{self._kinds()}{self._labels()}"
            f"{'<h2>Files</h2>' if cards else ''}\n{''.join(cards)}{more}"
            f"</main><script>{_SCRIPT}</script></body></html>\n"
        )

    def _tiles(self) -> str:
        counts = {severity: len(files) for severity, files in self.files.items()}
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
        if not self.findings:
            return ""
        return f"<h2>Of all together</h2><ul>{''.join(map(self._finding, self.findings))}</ul>"

    def _kinds(self) -> str:
        severities = {kind: self.severity_of(Finding(kind, "")) or "note" for kind in self.counts}
        rows = [
            f'<button class="kind {severities[kind]}" data-kind="{kind}" aria-pressed="false">'
            f"<div><code>{kind}</code><b>{self.counts[kind]}</b></div><span>{escape(FINDING_KINDS[kind].meaning)}</span>"
            f"<small>{escape(FINDING_KINDS[kind].advice)}</small></button>"
            for kind in sorted(self.counts, key=lambda kind: SEVERITIES.index(severities[kind]))
        ]
        hint = "<p class=quiet>Press one to see its files.</p>"
        return f"<h2>What was found</h2>{hint}<div class=kinds>{''.join(rows)}</div>" if rows else ""

    def _labels(self) -> str:
        if len(self.label_counts) < 2:
            return ""
        most = max(self.label_counts.values())
        rows = [
            f'<span>{escape(name)}</span><span><i style="width:{max(70 * count / most, 0.5):.1f}%"></i>{count}</span>'
            for name, count in list(self.label_counts.items())[:_MOST_LABELS]
        ]
        left_out = len(self.label_counts) - len(rows)
        more = f"<span></span><span class=quiet>and {left_out} more</span>" if left_out > 0 else ""
        return f"<h2>Rows by label</h2><div class=labels>{''.join(rows)}{more}</div>"

    def _file(self, number: int, file: CheckedFile) -> str:
        picture = "no picture"
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
        severity = self.severity_of(finding) or "note"
        return f'<li class="{severity}"><code>{finding.kind}</code> {escape(describe_finding(finding))}</li>'

    def _time_line(self, file: CheckedFile) -> str:
        length, begin = file.facts.duration_seconds, file.facts.begin_seconds or 0.0
        placed = [finding for finding in file.findings if finding.start_seconds is not None]
        if not length or not placed:
            return ""
        marks = []
        for finding in sorted(placed, key=lambda one: SEVERITIES.index(self.severity_of(one) or "note"), reverse=True):
            start = finding.start_seconds or 0.0
            end = start if finding.end_seconds is None else finding.end_seconds
            left, right = (min(max((at - begin) / length, 0.0), 1.0) for at in (start, end))
            marks.append(
                f'<i class="{self.severity_of(finding)}" title="{escape(finding.kind)}" '
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
        facts.random_access_frames and f"{facts.random_access_frames} decoded for one at random",
        facts.audio_codec,
        facts.sample_rate and f"{facts.sample_rate} Hz",
    ]
    return "".join(f" · {part}" for part in parts if part)
