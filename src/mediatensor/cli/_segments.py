"""``mediatensor scenes`` and ``mediatensor speech``: find segments of files; print them, or write manifest rows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .._engine.common.messages import clock, counted
from .._engine.sources.output_files import check_outputs
from ..datasets._sources.manifests import csv_of_rows, write_rows
from ..decoders import AudioDecoder, VideoDecoder
from ..decoders._access import access_to
from ..errors import InvalidArgumentError
from ..samplers import find_scenes, speech_segments
from ._console import STANDARD, check_manifest, emit, emit_bytes, emit_error, emit_json, for_each_file, shown_name
from ._sheet import Mark, sheet_outputs, write_marked_sheet

# For more scenes than this, a sheet shows only a selection.
_MAX_TILES = 60
# Columns of the rows. A CSV file without rows has them as well.
_COLUMNS = {
    "scenes": ("path", "start_seconds", "end_seconds", "first_frame", "last_frame", "score"),
    "speech": ("path", "start_seconds", "end_seconds", "probability"),
}


@dataclass(frozen=True)
class _Segment:
    """A scene or a segment of speech: as a line of text, as JSON, and as the values of a row after its path."""

    text: str
    json: dict[str, object]
    row: tuple[object, ...]
    middle_frame: int = 0


def run(args: argparse.Namespace) -> int:
    output, files = args.output, list(dict.fromkeys(args.files))
    _check_rows_output(output, files, overwrite=args.overwrite, as_json=args.json)
    has_rows_only = str(output) == STANDARD
    rows_files = [] if output is None or has_rows_only else [output]
    columns = _COLUMNS[args.command]
    sheets: dict[str, Path] = {}
    if args.command == "scenes" and args.sheet:
        sheets = sheet_outputs(args.files, args.sheet, overwrite=args.overwrite, more_outputs=rows_files)
    find = _find_scenes if args.command == "scenes" else _find_speech
    rows: list[dict[str, object]] = []
    files_read: list[str] = []

    def work(path: str, file: str) -> int:
        segments, name = find(path, args), shown_name(file)
        for segment in [] if has_rows_only else segments:
            if args.json:
                emit_json({"file": name, **segment.json})
            else:
                emit(f"{name}: {segment.text}")
        if not segments and not args.json and not has_rows_only:
            emit(f"{name}: no {args.command}")
        files_read.append(file)
        if output is not None:
            path_in_rows = _path_in_rows(file, output)
            rows.extend(dict(zip(columns, (path_in_rows, *segment.row), strict=True)) for segment in segments)
        if sheets:
            if len(segments) > _MAX_TILES:
                segments = [segments[number * len(segments) // _MAX_TILES] for number in range(_MAX_TILES)]
            marks = [Mark(segment.middle_frame) for segment in segments]
            summary = write_marked_sheet(path, sheets[file], marks, Path(name).name)
            if not args.json and not has_rows_only:
                emit(summary)
        return 0

    code = for_each_file(files, work)
    if files_read and has_rows_only:
        emit_bytes(csv_of_rows(rows, columns))
    elif files_read and output is not None:
        write_rows(str(output), rows, columns)
        if not args.json:
            emit(f"wrote {output}: {counted(len(rows), 'row')}")
    if len(files_read) < len(files) > 1:
        emit_error(f"{len(files) - len(files_read)} of {counted(len(files), 'file')} could not be read")
    return code


def _find_scenes(path: str, args: argparse.Namespace) -> list[_Segment]:
    with VideoDecoder(path, on_error="skip") as decoder:
        access_to(decoder).omit_hdr_warning()
        scenes = find_scenes(
            decoder, threshold=args.threshold, min_seconds=args.min_seconds, key_frames_only=args.key_frames_only
        )
    segments = []
    for number, scene in enumerate(scenes):
        score = scene.score if number else None  # the first scene does not start at a cut
        frames = scene.first_frame, scene.last_frame
        text = f"{clock(scene.begin_seconds)} to {clock(scene.end_seconds)}, frames {frames[0]} to {frames[1]}"
        segments.append(
            _Segment(
                text if score is None else f"{text}, score {score:.0f}",
                {"scene": number, **asdict(scene), "score": score},
                (scene.begin_seconds, scene.end_seconds, *frames, None if score is None else round(score, 3)),
                sum(frames) // 2,
            )
        )
    return segments


def _find_speech(path: str, args: argparse.Namespace) -> list[_Segment]:
    with AudioDecoder(path) as decoder:
        found = speech_segments(
            decoder,
            threshold=args.threshold,
            min_speech_seconds=args.min_speech_seconds,
            min_pause_seconds=args.min_pause_seconds,
            pad_seconds=args.pad_seconds,
        )
    segments = []
    for segment in found:
        text = f"{clock(segment.start_seconds)} to {clock(segment.end_seconds)}, probability {segment.probability:.2f}"
        values: dict[str, object] = {name: round(value, 6) for name, value in asdict(segment).items()}
        segments.append(_Segment(text, values, tuple(values.values())))
    return segments


def _check_rows_output(output: Path | None, files: Sequence[str], *, overwrite: bool, as_json: bool) -> None:
    if output is not None and STANDARD in files:
        raise InvalidArgumentError(
            "-o writes the names of files, and standard input has none; give files instead of -."
        )
    if str(output) == STANDARD:
        if as_json:
            raise InvalidArgumentError("--json and -o - both write to standard output; leave out one of them.")
        return
    if output is not None:
        check_manifest(output, files)
    check_outputs([] if output is None else [output], files, overwrite=overwrite)


def _path_in_rows(file: str, output: Path) -> str:
    """Return a path relative to the folder of the manifest, or for standard output to the current folder."""
    if "://" in file:
        return file
    path = os.path.relpath(file, output.parent)
    if output.is_symlink():  # the rows can be read under both names, in different folders
        path = os.path.abspath(file)
    elif os.path.realpath(output.parent / path) != os.path.realpath(file):
        # "link/.." is not the folder of the link, but the folder above its target.
        folder, name = os.path.split(file)
        path = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(output.parent))
    return path.replace(os.sep, "/")
