"""``mediatensor check``: what is wrong with the files of a data set."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from .._sources import check_outputs, write_file
from ..datasets import MEDIA_EXTENSIONS, DatasetReport, check_dataset
from ._console import emit, emit_json

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    check_outputs([path for path in (args.html, args.fix, args.state) if path is not None], args.files)
    try:
        report = check_dataset(
            _source(args.files, args.kind),
            kind=args.kind,
            media_column=args.media_column,
            label_column=args.label_column,
            num_classes=args.classes,
            decode=not args.no_decode,
            bad_kinds=[*DatasetReport.bad_kinds, *args.bad],
            num_workers=args.workers,
            timeout_seconds=args.timeout,
            state_file=args.state,
            show_progress=True,
        )
    except KeyboardInterrupt as stop:
        kept = f"what is done is kept in {args.state}, and the same command goes on from there"
        stop.add_note(kept if args.state else "nothing is kept; with --state FILE, the same command goes on")
        raise
    # Files first: whoever reads the output may stop early, as `head` does. One that cannot be written costs no report.
    try:
        if args.html is not None:
            check_outputs([args.html], [item.source for item in report.items])
            write_file(args.html, report.to_html().encode(errors="replace"))
        if args.fix is not None:
            report.save_manifest(args.fix)
    finally:
        if args.json:
            emit_json(report.to_json())
        else:
            emit(report.to_text())
    return 0 if report.is_in_order else 1


def _source(files: Sequence[str], kind: Any) -> Any:
    """One data set, or a list of media files."""
    is_media = len(files) > 1 or os.path.splitext(files[0])[1].lower() in MEDIA_EXTENSIONS[kind] or "://" in files[0]
    return list(files) if is_media and not os.path.isdir(files[0]) else files[0]
