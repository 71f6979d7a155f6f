"""``mediatensor speech``: find the segments of files that contain speech; print them, or write manifest rows."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields

from ..decoders import AudioDecoder
from ..samplers import SpeechSegment, speech_segments
from . import _text
from ._console import emit, emit_json, for_each_file, shown_name
from ._rows import check_rows_output, is_standard_output, path_in_rows, report_unread_files, write_found_rows


def run(args: argparse.Namespace) -> int:
    files = list(dict.fromkeys(args.files))
    check_rows_output(args.output, files, overwrite=args.overwrite, as_json=args.json)
    rows: list[dict[str, object]] = []
    files_read: list[str] = []

    def find(path: str, file: str) -> int:
        with AudioDecoder(path) as decoder:
            segments = speech_segments(
                decoder,
                threshold=args.threshold,
                min_speech_seconds=args.min_speech_seconds,
                min_pause_seconds=args.min_pause_seconds,
                pad_seconds=args.pad_seconds,
            )
        if not is_standard_output(args.output):
            _print(segments, shown_name(file), as_json=args.json)
        files_read.append(file)
        if args.output is not None:
            rows.extend({"path": path_in_rows(file, args.output), **_rounded(segment)} for segment in segments)
        return 0

    code = for_each_file(files, find)
    if files_read:
        columns = ["path", *(field.name for field in fields(SpeechSegment))]
        write_found_rows(args.output, rows, columns, is_quiet=args.json)
    report_unread_files(len(files_read), files)
    return code


def _print(segments: list[SpeechSegment], name: str, *, as_json: bool) -> None:
    for segment in segments:
        if as_json:
            emit_json({"file": name, **_rounded(segment)})
        else:
            start, end = _text.clock(segment.start_seconds), _text.clock(segment.end_seconds)
            emit(f"{name}: {start} to {end}, probability {segment.probability:.2f}")
    if not segments and not as_json:
        emit(f"{name}: no speech")


def _rounded(segment: SpeechSegment) -> dict[str, float]:
    return {name: round(value, 6) for name, value in asdict(segment).items()}
