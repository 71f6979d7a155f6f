"""``mediatensor scenes``: detect the scenes of videos; print them, or write manifest rows and contact sheets."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..decoders import VideoDecoder
from ..samplers import Scene, find_scenes
from . import _text
from ._console import emit, emit_json, for_each_file, shown_name
from ._rows import check_rows_output, is_standard_output, path_in_rows, report_unread_files, write_found_rows
from ._sheet import Mark, sheet_outputs, write_marked_sheet

# For more scenes than this, a sheet shows only a selection.
_MAX_TILES = 60
_COLUMNS = ("path", "start_seconds", "end_seconds", "first_frame", "last_frame", "score")


def run(args: argparse.Namespace) -> int:
    files = list(dict.fromkeys(args.files))
    check_rows_output(args.output, files, overwrite=args.overwrite, as_json=args.json)
    has_rows_only = is_standard_output(args.output)
    rows_files = [] if args.output is None or has_rows_only else [args.output]
    sheets = (
        sheet_outputs(args.files, args.sheet, overwrite=args.overwrite, more_outputs=rows_files) if args.sheet else {}
    )
    rows: list[dict[str, object]] = []
    files_read: list[str] = []

    def find(path: str, file: str) -> int:
        with VideoDecoder(path, on_error="skip") as decoder:
            scenes = find_scenes(
                decoder, threshold=args.threshold, min_seconds=args.min_seconds, key_frames_only=args.key_frames_only
            )
        if not has_rows_only:
            _print(scenes, shown_name(file), as_json=args.json)
        files_read.append(file)
        if args.output is not None:
            rows.extend(_row(file, scene, args.output, is_first=not number) for number, scene in enumerate(scenes))
        if args.sheet:
            shown = scenes
            if len(scenes) > _MAX_TILES:
                shown = [scenes[number * len(scenes) // _MAX_TILES] for number in range(_MAX_TILES)]
            marks = [Mark((scene.first_frame + scene.last_frame) // 2) for scene in shown]
            summary = write_marked_sheet(path, sheets[file], marks, Path(shown_name(file)).name)
            if not args.json and not has_rows_only:
                emit(summary)
        return 0

    code = for_each_file(files, find)
    if files_read:
        write_found_rows(args.output, rows, _COLUMNS, is_quiet=args.json)
    report_unread_files(len(files_read), files)
    return code


def _print(scenes: list[Scene], name: str, *, as_json: bool) -> None:
    for number, scene in enumerate(scenes):
        if as_json:
            emit_json({"file": name, "scene": number, **asdict(scene), "score": scene.score if number else None})
        else:
            begin, end = _text.clock(scene.begin_seconds), _text.clock(scene.end_seconds)
            score = f", score {scene.score:.0f}" if number else ""  # the first scene does not start at a cut
            emit(f"{name}: {begin} to {end}, frames {scene.first_frame} to {scene.last_frame}{score}")


def _row(file: str, scene: Scene, output: Path, *, is_first: bool) -> dict[str, object]:
    score = None if is_first else round(scene.score, 3)
    frames = scene.first_frame, scene.last_frame
    values = path_in_rows(file, output), scene.begin_seconds, scene.end_seconds, *frames, score
    return dict(zip(_COLUMNS, values, strict=True))
