"""Effect of each rule of `video_text_predictor`: ``python -m benchmarks.text.video_text_rules``.

Every named number of its modules is set to 0, to 0.7 and 1.4 times its value and to a million times its value, every
predicate is fixed to true and to false, and every step that only corrects a result is left out. With ``--conditions``,
every condition inside a function is left out as well. After each change, all clips are read and scored again. Clips
that the rules were made on (``--known``) are scored apart from generated clips, whose seeds
`benchmarks.text.video_text` does not use. A rule that can be switched off without a lower score on any set is
unnecessary, if the clips test it: the number of decisions says how often a predicate was false and true without any
change.

Frames are decoded once and kept. The networks' results are kept by their input pixels, so a change costs only the rules
and new inputs of the networks.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mediatensor.decoders import VideoDecoder
from mediatensor.decoders._access import access_to
from mediatensor.ocr import video_text_predictor
from mediatensor.ocr.models import video_predictor
from mediatensor.ocr.video import VideoReading

from ..shared.machine import machine_stamp
from ..shared.options import make_parser
from ..shared.reports import say, write_report
from .rules import (
    Change,
    Figures,
    add_rules,
    changes_of,
    count_decisions,
    effect_on,
    is_chosen,
    measure_changes,
    remember,
    rules_report,
)
from .video_text_clips import ClipPlan, draw_clip, drawn_plans
from .video_text_readers import to_reading
from .video_text_scores import score_clip

_MODULES = ("_kinds", "_slides", "_tracking", "_watching", "predictor")
_AREAS = tuple(name.strip("_") for name in _MODULES)
# Steps that only correct a result: the argument that they return when they are left out, or None for no result.
_STEPS: Mapping[str, int | None] = {
    "join_interrupted": None,
    "tie_growing_texts": None,
    "tie_rolling_lines": None,
    "write_ellipses": 0,
    "_with_signs": 0,
    "_read_mean": None,
    "_without_specks": 0,
    "LineTracker._note_cut": None,
    "LineTracker._complete_letterspaced": None,
    "LineTrack.note_brightness": None,
    "ChangeWatch.forget": None,
    "SlideWatch._note_activity": None,
}
# Names of rules that apply to detection and reading in a frame, whose results are remembered otherwise.
_IN_FRAME = (
    "FrameReader",
    "MOST_PIXELS",
    "SPECK_CONFIDENCE",
    "USUAL_PITCH",
    "_watching.WIDE_PITCH",
    "_with_signs",
    "_without_specks",
)
# Further clips, which `benchmarks.text.video_text` does not use.
_PLANS = (
    ClipPlan("spaced_en", "spaced", faces=("DejaVuSans-Bold",), size=(640, 360), ground="pan", seconds=8, seed=51),
    ClipPlan("spaced_large_en", "spaced", faces=("LiberationSans-Bold", "DejaVuSans-Bold"), size=(854, 480),
             ground="shapes", seconds=8, seed=52),
    ClipPlan("notes_en", "notes", faces=("DejaVuSans-Bold",), size=(640, 360), ground="pan", seconds=8,
             decoys=("window",), seed=53),
)  # fmt: skip
# Generated clips have other seeds than those of the benchmark, and are shorter.
_SEED, _SECONDS, _SECONDS_OF_SLIDES, _SECONDS_OF_OVERLAYS = 100, 4.0, 12.0, 5.0
_PATIENCE = 6
# Figures of which more is better, and less is better.
_MORE = ("exact", "starts near", "ends near", "slides found", "slides read", "steps right")
_LESS = ("characters wrong", "missed", "invented", "kinds wrong", "slides false")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sets = {"unseen": [_Clip(path) for path in _draw(folder, options)]}
        if options.known:
            sets["known"] = [_Clip(path) for path in sorted(options.known.glob("*.mp4"))]
        predictor = _with_memory(video_text_predictor(pretrained=True))
        document = _sweep(predictor, sets, options)
    text = _to_markdown(document)
    write_report(options.output, options.name, document, text)


def _draw(folder: Path, options: argparse.Namespace) -> Iterator[Path]:
    for plan in (*drawn_plans(has_footage=bool(options.footage)), *_PLANS):
        if options.only and plan.name not in options.only:
            continue
        most = _SECONDS_OF_OVERLAYS if plan.decoys else _SECONDS
        if plan.name == "no_caption" or plan in _PLANS:
            most = plan.seconds  # long enough for texts that are always there, and for several captions
        if plan.style in ("slides", "talk"):
            plan, most = replace(plan, fps=12), _SECONDS_OF_SLIDES
        path = folder / f"{plan.name}.mp4"
        if not path.with_suffix(".json").exists():
            say(f"drawing {plan.name}")
            plan = replace(plan, seed=plan.seed + _SEED, seconds=min(plan.seconds, most))
            draw_clip(plan, folder, options.footage)
        yield path


# Reading


class _Memory(nn.Module):
    """A predictor that remembers its results by the pixels of its input."""

    def __init__(self, predictor: Any) -> None:
        super().__init__()
        self.predictor, self._results = predictor, dict[bytes, Any]()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("predictor"), name)

    def forward(self, images: Sequence[Any], **options: Any) -> Any:
        """Return the result for these images."""
        return remember(self._results, images, lambda: self.predictor(images, **options))


def _recall(results: dict[Any, Any], where: Any, compute: Callable[[], Any]) -> Any:
    """Return a result for a part of the current frame, which saves the conversion of its colours."""
    if _Clip.reads_otherwise:
        return compute()
    key = (_Clip.shown, _Clip.shown.frames.position, where)
    if key not in results:
        results[key] = compute()
    return list(results[key])


def _with_memory(predictor: Any) -> Any:
    """Make the networks of a predictor remember their results, and let it read the frames in memory."""
    watching = importlib.import_module(f"{video_predictor.__name__}._watching")
    module = importlib.import_module(f"{video_predictor.__name__}.predictor")
    lines, pages = dict[bytes, Any](), dict[bytes, Any]()
    read_lines, read_page = watching.read_lines, module.OCRPredictor
    watching.read_lines = lambda model, image, quads: remember(
        lines, [image, quads, model.head.bias.detach()], lambda: read_lines(model, image, quads)
    )
    module.OCRPredictor = lambda *parts, **readers: (
        lambda images: copy.deepcopy(
            remember(pages, images, lambda: read_page(*parts, **readers)(images))  # the reader changes pages
        )
    )
    module.access_to = lambda _: _Clip.shown.frames
    reader, found = watching.FrameReader, dict[Any, Any]()
    find, read = reader.find, reader.read
    reader.find = lambda self, bands: _recall(found, (tuple(bands), self._tallest), lambda: find(self, bands))
    reader.read = lambda self, boxes, stretch: _recall(
        found, (tuple(boxes), stretch), lambda: read(self, boxes, stretch)
    )
    predictor.det_predictor = _Memory(predictor.det_predictor)
    return predictor


class _Frame:
    """A frame in memory, which converts its colours once."""

    def __init__(self, decoded: Any) -> None:
        self.frame, self.pts_seconds, self.duration_seconds = (
            decoded.frame,
            decoded.pts_seconds,
            decoded.duration_seconds,
        )
        self.luma, self._decoded, self._colours = decoded.luma, decoded, None

    def rgb(self, size: tuple[int, int]) -> Any:
        """Return the colours."""
        if self._colours is None:
            self._colours = self._decoded.rgb(size)
        return self._colours


class _Frames:
    """The frames of a clip in memory, with the interface that the reader uses."""

    def __init__(self, access: Any) -> None:
        self._frames, self._breaks_off = [_Frame(one) for one in access.pictures()], access.breaks_off()
        self.video = access.video
        self.position = 0  # index of the frame that is read now

    def pictures(self, begin: int = 0) -> Iterator[Any]:
        """Yield the frames from an index on."""
        for frame in self._frames[begin:]:
            self.position = frame.frame
            yield frame

    def breaks_off(self) -> bool:
        """Return whether the end of the file is missing."""
        return bool(self._breaks_off)


class _Clip:
    """A clip in memory, its truth, and how it is read without any change."""

    shown: _Clip  # the clip that is read now
    reads_otherwise = False  # whether the change applies to detection and reading in a frame

    set: str
    reading: VideoReading
    seconds: float
    figures: Figures

    def __init__(self, path: Path) -> None:
        self.truth = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        self.name, self.decoder = path.stem, VideoDecoder(path)
        self.frames = _Frames(access_to(self.decoder))


def _read(predictor: Any, clip: _Clip) -> VideoReading:
    _Clip.shown = clip
    reading: VideoReading = predictor(clip.decoder)
    return reading


def _modules() -> list[Any]:
    return [importlib.import_module(f"{video_predictor.__name__}.{name}") for name in _MODULES]


# Scores


def _figures(clip: _Clip, reading: VideoReading) -> Figures:
    """Return the counts of a clip."""
    answer = to_reading(reading)
    score = score_clip(clip.truth, answer.captions, answer.tracks, answer.slides)
    truth, in_steps = clip.truth, clip.truth.get("style") in ("words", "sung")
    read = [_letters(slide.page.render()) for slide in reading.slides]
    return {
        "captions": score.captions,
        "exact": score.exact,
        "characters wrong": score.edits,
        "missed": score.missed,
        "invented": score.phantoms,
        "starts near": score.onsets_near,
        "ends near": score.offsets_near,
        "kinds wrong": score.kinds - score.kinds_right,
        "slides found": score.slides_right,
        "slides false": score.false_slides,
        "slides read": sum(_letters(slide["text"]) in read for slide in truth.get("slides", [])),
        "steps right": sum((track.appears == "word by word") == in_steps for track in reading.captions),
        "other texts": sum(track.kind != "caption" for track in reading.tracks),
        "problems": len(reading.problems),
    }


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def _total(counted: Sequence[Figures]) -> Figures:
    total: Counter[str] = Counter()
    for figures in counted:
        total.update(figures)
    return dict(total)


# The sweep


def _sweep(predictor: Any, sets: Mapping[str, Sequence[_Clip]], options: argparse.Namespace) -> dict[str, Any]:
    for name, clips in sets.items():
        for clip in clips:
            _read(predictor, clip)
            start = time.monotonic()
            clip.set, clip.reading = name, _read(predictor, clip)
            clip.seconds, clip.figures = time.monotonic() - start, _figures(clip, clip.reading)
    # Short clips are first, because reading stops once enough is lost.
    order = sorted((clip for clips in sets.values() for clip in clips), key=lambda clip: clip.seconds)
    seconds = sum(clip.seconds for clip in order)
    base = {name: _total([clip.figures for clip in clips]) for name, clips in sets.items()}
    say(f"{base}, {seconds:.1f} s for each change")
    changes: list[tuple[str, Change, int]] = []
    for module in _modules():
        short = module.__name__.rpartition(".")[2]
        if short.strip("_") in options.areas:
            measures = [partial(_read, predictor, clip) for clip in order]
            decisions = count_decisions(module, measures, conditions=options.conditions)
            for rule, change in changes_of(module, conditions=options.conditions, steps=_STEPS):
                if is_chosen(rule, options.rules):
                    changes.append((rule, change, decisions[rule.partition(".")[2], change[0]]))

    def read_again(clip: _Clip) -> Figures | None:
        reading = _read(predictor, clip)
        return None if _content(reading) == _content(clip.reading) else _figures(clip, reading)

    def measure(rule: str) -> dict[str, Figures]:
        _Clip.reads_otherwise = any(name in rule for name in _IN_FRAME)
        return effect_on(order, read_again, more=_MORE, less=_LESS, enough=options.enough)

    rows = measure_changes(changes, measure, "clips", seconds=60 + _PATIENCE * seconds, only=options.changes)
    return {"schema": 1, "machine": machine_stamp(), "base": base, "rows": rows,
            "clips": {name: [clip.name for clip in clips] for name, clips in sets.items()}}  # fmt: skip


def _content(reading: VideoReading) -> tuple[Any, ...]:
    slides = [(slide.first_frame, slide.last_frame, slide.page.render()) for slide in reading.slides]
    return repr(reading.tracks), slides, reading.problems


# The report


def _to_markdown(document: Mapping[str, Any]) -> str:
    base = {name: {"clips": len(document["clips"][name]), **figures} for name, figures in document["base"].items()}
    return rules_report("Rules of text in video", __doc__, base, document, "clips")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.text.video_text_rules", __doc__)
    parser.add_argument("areas", nargs="*", default=_AREAS, metavar="AREA", help=f"{', '.join(_AREAS)} (default: all)")
    parser.add_argument("--known", type=Path, metavar="FOLDER", help="clips that the rules were made on")
    parser.add_argument("--footage", nargs="+", type=Path, default=[], metavar="PATH", help="videos as backgrounds")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the generated clips there for the next run")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these generated clips")
    add_rules(parser, "clips", "video_text_rules")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
