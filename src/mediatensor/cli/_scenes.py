"""``mediatensor scenes``: detect the scenes of videos; print them, or write manifest rows and contact sheets."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from .._engine.common.messages import counted
from .._engine.sources.output_files import check_outputs
from ..datasets._sources.manifests import write_rows
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError
from ..samplers import Scene, find_scenes
from . import _text
from ._console import STANDARD, check_manifest, emit, emit_error, emit_json, for_each_file, shown_name
from ._sheet import Mark, sheet_outputs, write_marked_sheet

# For more scenes than this, a sheet shows only a selection.
_MAX_TILES = 60


def run(args: argparse.Namespace) -> int:
    files = list(dict.fromkeys(args.files))
    if args.output is not None:
        check_manifest(args.output, files)
        if STANDARD in files:
            raise InvalidArgumentError("-o writes the names of files, and standard input has none; give files.")
    rows_files = [] if args.output is None else [args.output]
    check_outputs(rows_files, files, overwrite=args.overwrite)
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
            if not args.json:
                emit(summary)
        return 0

    code = for_each_file(files, find)
    if args.output is not None and rows:
        write_rows(str(args.output), rows)
        if not args.json:
            emit(f"wrote {args.output}: {counted(len(rows), 'row')}")
    if len(files_read) < len(files) > 1:
        emit_error(f"{len(files) - len(files_read)} of {counted(len(files), 'file')} could not be read")
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
    """Return the manifest row of a scene. Its path is relative to the folder of the manifest ``output``."""
    path = file if "://" in file else os.path.relpath(file, output.parent).replace(os.sep, "/")
    return {
        "path": path,
        "start_seconds": scene.begin_seconds,
        "end_seconds": scene.end_seconds,
        "first_frame": scene.first_frame,
        "last_frame": scene.last_frame,
        "score": None if is_first else round(scene.score, 3),
    }
