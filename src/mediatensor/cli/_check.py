"""``mediatensor check``: what is wrong with the files of a data set."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from .._engine.sources.atomic_files import write_file
from .._engine.sources.output_files import check_outputs
from ..datasets import MEDIA_EXTENSIONS, DatasetReport, check_dataset
from ..datasets._check.checking import ListedDataset, is_check_state, list_dataset
from ..datasets._check.report import check_manifest_name
from ..datasets._sources.references import files_of
from ._console.output import emit, emit_json

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    if args.fix is not None:
        check_manifest_name(args.fix)
    dataset = list_dataset(
        _source(args.files, args.kind),
        args.kind,
        media_column=args.media_column,
        label_column=args.label_column,
    )
    _check_outputs(args, dataset)
    try:
        report = check_dataset(
            dataset,
            kind=args.kind,
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
            write_file(args.html, report.to_html().encode(errors="replace"))
        if args.fix is not None:
            report.save_manifest(args.fix)
    finally:
        if args.json:
            emit_json(report.to_json())
        else:
            emit(report.to_text())
    return 0 if report.is_in_order else 1


def _check_outputs(args: argparse.Namespace, dataset: ListedDataset) -> None:
    """Refuse outputs that must not be written, and make place for a state that replaces a file of others."""
    outputs = [path for path in (args.html, args.fix, args.state) if path is not None]

    def is_own(output: str, existing: str) -> bool:
        return output == args.state and is_check_state(existing)

    check_outputs(outputs, [*args.files, *files_of(dataset.items)], overwrite=args.overwrite, is_own=is_own)
    if args.state is not None and os.path.isfile(args.state) and not is_check_state(args.state):
        os.unlink(args.state)


def _source(files: Sequence[str], kind: Any) -> Any:
    """One data set, or a list of media files."""
    is_media = len(files) > 1 or os.path.splitext(files[0])[1].lower() in MEDIA_EXTENSIONS[kind] or "://" in files[0]
    return list(files) if is_media and not os.path.isdir(files[0]) else files[0]
