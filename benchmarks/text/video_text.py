"""Read text in video and compare with a common baseline and other readers: ``python -m benchmarks.text.video_text``.

Without ``--clips``, clips are generated: captions in many styles and languages, on moving backgrounds, or on your
videos (``--footage``). Each reader reads each clip in its own process, with the same number of threads; readers take
turns, clip by clip. Their results are compared with the truth.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..shared.machine import machine_stamp
from ..shared.options import add_output, add_python, check_counts, make_parser
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, markdown_table, say, write_report
from ..shared.workers import WorkerError, WorkerProcess, single_threaded
from .video_text_clips import draw_clip, drawn_plans
from .video_text_readers import BASELINE, OURS, READERS
from .video_text_scores import Event, Score, TextInTime, parse_srt, score_clip

# A reader that needs this long for a clip is stopped.
_PATIENCE_SECONDS = 3600
# Readers that run in this environment.
_HERE = (OURS, BASELINE)


@dataclass
class _Clip:
    """A clip, its truth, and the readers' results."""

    path: Path
    truth: dict[str, Any]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        clips = _load(options.clips) if options.clips else _draw(options, Path(folder))
        clips = [clip for clip in clips if not options.only or any(text in clip.path.stem for text in options.only)]
        if not clips:
            sys.exit(f"There is no clip with its truth: {options.clips or 'none was drawn'}, only {options.only}.")
        notes = _read(clips, options)
    readers = [reader for reader in options.readers if any(reader in clip.scores for clip in clips)]
    stamp = machine_stamp()
    for clip in clips:
        for answer in clip.answers.values():
            stamp |= answer["versions"]
    stamp |= {"threads": str(options.threads), "clips": _clips_note(clips, options)}
    text = _to_markdown(clips, readers, stamp, notes)
    if options.mistakes:
        _say_mistakes(clips, readers)
    document = {"machine": stamp, "notes": notes, "clips": [_document(clip) for clip in clips]}
    draw = partial(draw_panels, "Text in video", _panels(clips, readers)) if readers else None
    write_report(options.output, "video_text", document, text, draw)


# Clips


def _load(folder: Path) -> list[_Clip]:
    """Load existing clips: each NAME.json that has a video next to it."""
    clips = []
    for path in sorted(folder.glob("*.json")):
        videos = sorted(video for video in folder.glob(f"{path.stem}.*") if video.suffix not in (".json", ".srt"))
        if videos:
            clips.append(_Clip(videos[0], json.loads(path.read_text(encoding="utf-8"))))
    return clips


def _draw(options: argparse.Namespace, folder: Path) -> list[_Clip]:
    plans = drawn_plans(has_footage=bool(options.footage))
    if options.quick:
        plans = [replace(plan, size=(426, 240), seconds=3) for plan in plans[:1]]
    if options.only:
        plans = [plan for plan in plans if any(text in plan.name for text in options.only)]
    if options.keep:
        folder = options.keep
        folder.mkdir(parents=True, exist_ok=True)
    for plan in plans[: options.limit]:
        if not (folder / f"{plan.name}.json").exists():
            say(f"drawing {plan.name}")
            draw_clip(plan, folder, options.footage)
    names = {plan.name for plan in plans[: options.limit]}
    return [clip for clip in _load(folder) if clip.path.stem in names]


def _clips_note(clips: Sequence[_Clip], options: argparse.Namespace) -> str:
    seconds = sum(clip.truth["seconds"] for clip in clips)
    captions = sum(len(clip.truth["events"]) for clip in clips)
    source = "given" if options.clips else "drawn"
    if options.footage and not options.clips:
        source += f" onto {len(options.footage)} videos"
    return f"{len(clips)}, {source}: {seconds:.0f} s with {captions} captions"


# Reading


def _read(clips: Sequence[_Clip], options: argparse.Namespace) -> list[str]:
    """Let every reader read every clip; return notes on readers that failed."""
    notes, readers = list[str](), list(options.readers)
    shuffled = random.Random(0)
    for number, clip in enumerate(clips, 1):
        for reader in shuffled.sample(readers, len(readers)):
            say(f"clip {number} of {len(clips)}, {clip.path.stem}: {reader}")
            try:
                answer = _answer(reader, clip, options)
            except WorkerError as error:
                notes.append(f"{reader}: failed on {clip.path.stem}, and skipped from there on ({error})")
                readers.remove(reader)
                continue
            captions = [Event(*event) for event in answer["captions"]]
            tracks = [TextInTime(*track) for track in answer["tracks"]]
            clip.answers[reader] = answer
            clip.scores[reader] = score_clip(clip.truth, captions, tracks, [tuple(slide) for slide in answer["slides"]])
    if options.predicted:
        _add_predicted(clips, options.predicted)
    return notes


def _add_predicted(clips: Sequence[_Clip], folder: Path) -> None:
    """Score subtitle files from another program: NAME.srt for each clip; without a file, there are no captions."""
    for clip in clips:
        path = folder / f"{clip.path.stem}.srt"
        events = parse_srt(path.read_text(encoding="utf-8")) if path.exists() else []
        clip.scores["given files"] = score_clip(clip.truth, events)


def _answer(reader: str, clip: _Clip, options: argparse.Namespace) -> dict[str, Any]:
    """Return a reader's result for a clip, from a new process or stored by an earlier run."""
    kept = options.answers / f"{clip.path.stem}.{reader.partition(',')[0]}.json" if options.answers else None
    status = clip.path.stat()
    state = [status.st_size, status.st_mtime_ns]
    if kept is not None and kept.exists():
        before: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if before["clip"] == state:
            return before
    python = sys.executable if reader in _HERE else options.python
    with WorkerProcess(
        "benchmarks.text.video_text_readers",
        python=python,
        environment=single_threaded(options.threads),
        patience_seconds=_PATIENCE_SECONDS,
    ) as worker:
        answer = worker.ask("read_clip", reader=reader, file=str(clip.path.resolve()), threads=options.threads)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(answer | {"clip": state}, ensure_ascii=False) + "\n", encoding="utf-8")
    return answer


# Reports


def _total(clips: Sequence[_Clip], reader: str) -> Score:
    return sum((clip.scores[reader] for clip in clips if reader in clip.scores), Score())


def _cost(clips: Sequence[_Clip], reader: str, name: str) -> float | None:
    """Return CPU or wall seconds per second of video."""
    read = [clip for clip in clips if reader in clip.answers]
    seconds = sum(clip.truth["seconds"] for clip in read)
    return sum(clip.answers[reader][name] for clip in read) / seconds if seconds else None


def _to_markdown(clips: Sequence[_Clip], readers: Sequence[str], stamp: dict[str, str], notes: Sequence[str]) -> str:
    names = [*readers, *(["given files"] if "given files" in clips[0].scores else [])]
    pooled = [[name, *_cells(clips, name)] for name in names]
    single = [[clip.path.stem, name, *_cells([clip], name)] for clip in clips for name in names if name in clip.scores]
    head = ["exact", "CER %", "missed", "phantoms", "onset near % (median)", "offset near % (median)", "kinds right",
            "slides", "CPU s a second", "times real time", "RSS MiB"]  # fmt: skip
    return "\n".join(
        [
            fact_list(stamp, notes), "",
            "*Near*: within one frame, in clips that fade within three. *Kinds right*: of the tracks that read a known",
            "text, for readers that classify. *Slides*: slides found with their first frame, and false ones.", "",
            markdown_table(["reader", *head], pooled), "",
            markdown_table(["clip", "reader", *head], single, 2), "",
        ]
    )  # fmt: skip


def _cells(clips: Sequence[_Clip], reader: str) -> list[str]:
    score = _total(clips, reader)
    figures = score.document()
    cpu, wall = _cost(clips, reader, "cpu"), _cost(clips, reader, "wall")
    memory = [clip.answers[reader]["rss_mib"] for clip in clips if reader in clip.answers]
    slides = f"{score.slides_right} / {score.slides}, {score.false_slides} false"
    return [
        f"{score.exact} / {score.captions}",
        f"{100 * score.error_rate:.2f}" if score.captions else "",
        str(score.missed),
        str(score.phantoms),
        _near(score.onsets_near, len(score.onsets), figures["onset_median"]),
        _near(score.offsets_near, len(score.offsets), figures["offset_median"]),
        f"{score.kinds_right} / {score.kinds}" if score.kinds else "",
        slides if score.slides or score.false_slides else "",
        f"{cpu:.2f}" if cpu is not None else "",
        f"{1 / wall:.2f}" if wall else "",
        f"{max(memory):.0f}" if memory else "",
    ]


def _near(near: int, count: int, median: float | None) -> str:
    return f"{100 * near / count:.1f} ({median:.1f})" if count else ""


def _document(clip: _Clip) -> dict[str, Any]:
    """Return the figures of a clip without the text: clips may not be ours to publish."""
    facts = {"clip": clip.path.stem, "seconds": clip.truth["seconds"], "style": clip.truth.get("style")}
    measured = ("wall", "cpu", "rss_mib")
    times = {reader: {name: answer[name] for name in measured} for reader, answer in clip.answers.items()}
    return facts | {"readers": {name: score.document() | times.get(name, {}) for name, score in clip.scores.items()}}


def _panels(clips: Sequence[_Clip], readers: Sequence[str]) -> list[list[Panel]]:
    totals = {reader: _total(clips, reader) for reader in readers}
    exact = [Bar(reader, 100 * score.exact_rate) for reader, score in totals.items()]
    errors = [Bar(reader, 100 * score.error_rate) for reader, score in totals.items()]
    near = [
        Bar(reader, 100 * (score.onsets_near + score.offsets_near) / max(1, 2 * len(score.onsets)))
        for reader, score in totals.items()
    ]
    missed = [Bar(reader, score.missed) for reader, score in totals.items()]
    phantoms = [Bar(reader, score.phantoms) for reader, score in totals.items()]
    speed = [Bar(reader, 1 / (_cost(clips, reader, "cpu") or 1)) for reader in readers]
    return [
        [
            Panel("captions that are exact", "% (more is better)", exact),
            Panel("characters wrong", "% (less is better)", errors),
        ],
        [
            Panel("captions missed", "less is better", missed),
            Panel("phantoms: false captions", "less is better", phantoms),
        ],
        [
            Panel("starts and ends within a frame (fades: three)", "% (more is better)", near),
            Panel("video for a second of CPU", "seconds (more is better)", speed),
        ],
    ]


def _say_mistakes(clips: Sequence[_Clip], readers: Sequence[str]) -> None:
    for clip in clips:
        for reader in readers:
            for mistake in clip.scores[reader].mistakes if reader in clip.scores else ():
                what = f"{mistake.truth!r} read as {mistake.read!r}" if mistake.truth else f"phantom {mistake.read!r}"
                say(f"{clip.path.stem}, {reader}, {mistake.start:.2f} s: {what}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.text.video_text", __doc__)
    parser.add_argument(
        "--clips", type=Path, metavar="FOLDER", help="NAME.mp4 with NAME.json, made elsewhere (default: drawn)"
    )
    parser.add_argument(
        "--footage", nargs="+", type=Path, default=[], metavar="PATH", help="videos to draw the captions onto"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the clips there; existing clips are not generated again",
    )
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=list(READERS), metavar="NAME",
                        help=f"{', '.join(map(repr, READERS))} (default: all)")  # fmt: skip
    parser.add_argument("--predicted", type=Path, metavar="FOLDER", help="also score NAME.srt of this folder")
    parser.add_argument(
        "--answers", type=Path, metavar="FOLDER",
        help="store the result of each reader and clip there, and reuse it; needs --clips or --keep",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="clips whose names contain one of these")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first generated clips")
    parser.add_argument("--threads", type=int, default=1, help="of every reader alike (default: 1)")
    parser.add_argument("--mistakes", action="store_true", help="also print each caption that is not exact")
    parser.add_argument("--quick", action="store_true", help="smoke test: one small clip")
    add_output(parser)
    add_python(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "limit", "threads")
    if options.answers and not (options.clips or options.keep):
        parser.error("--answers needs clips that are kept: add --clips or --keep")
    return options


if __name__ == "__main__":
    main()
