"""``mediatensor check``: find damaged and unusual files in a dataset."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from .._engine.sources.output_files import check_outputs, write_file
from ..datasets import MEDIA_EXTENSIONS, DatasetReport, check_dataset
from ..datasets._check.checking import ListedDataset, is_check_state, list_dataset
from ..datasets._sources.dispatch import files_of
from ..datasets._sources.lance import is_lance
from ..datasets._sources.manifests import MANIFEST_EXTENSIONS
from ..errors import InvalidArgumentError
from ._console import check_manifest, emit_json, emit_lines


def run(args: argparse.Namespace) -> int:
    if args.fix is not None:
        check_manifest(Path(args.fix))
    first = args.files[0]
    suffix = os.path.splitext(first)[1].lower()
    is_media = len(args.files) > 1 or suffix in MEDIA_EXTENSIONS["video"] | MEDIA_EXTENSIONS["audio"] or "://" in first
    # Otherwise, the only path is the name of a dataset.
    source = args.files if is_media and not os.path.isdir(first) else first
    _check_has_columns(args, source)
    dataset = list_dataset(source, args.kind, media_column=args.media_column, label_column=args.label_column)
    if args.classes is not None and all(item.label is None for item in dataset.items):
        raise InvalidArgumentError(
            f"--classes is for data sets with labels, and {_describe_files(args.files)} has none: leave it out, or "
            "check a manifest with a column of labels, or a folder with a sub-folder for each class."
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
        kept = f"the results are kept in {args.state}; run the same command again to resume"
        stop.add_note(kept if args.state else "nothing is kept; give --state FILE to be able to resume")
        raise
    # Write files before printing, because a pipe may close early (`head`). Print the report even if writing fails.
    try:
        if args.html is not None:
            write_file(args.html, report.to_html().encode(errors="replace"))  # names of files may not be UTF-8
        if args.fix is not None:
            report.save_manifest(args.fix, overwrite=True)  # `_check_outputs` has accepted it
    finally:
        if args.json:
            emit_json(report.to_json())
        else:
            emit_lines(report.to_text().split("\n"))
    return 0 if report.is_in_order else 1


def _describe_files(files: Sequence[str]) -> str:
    return repr(files[0]) if len(files) == 1 else "a list of files"


def _check_has_columns(args: argparse.Namespace, source: str | list[str]) -> None:
    """Raise an error if an option names a column, and the data set does not have columns."""
    options = {"--media-column": args.media_column, "--label-column": args.label_column}
    given = next((option for option, column in options.items() if column is not None), None)
    has_columns = isinstance(source, str) and (
        is_lance(source) or (source.lower().endswith(MANIFEST_EXTENSIONS) and not os.path.isdir(source))
    )
    if given is not None and not has_columns:
        raise InvalidArgumentError(
            f"{given} is for manifests ({', '.join(MANIFEST_EXTENSIONS)}), and {_describe_files(args.files)} is not "
            "one: leave it out."
        )


def _check_outputs(args: argparse.Namespace, dataset: ListedDataset) -> None:
    """Raise an error if the command must not overwrite one of its outputs.

    Otherwise, if the ``--state`` file exists but was not written by `check`, delete it.
    """
    outputs = [path for path in (args.html, args.fix, args.state) if path is not None]

    def is_own(output: str, existing: str) -> bool:
        return output == args.state and is_check_state(existing)

    files = list(files_of(dataset.items))
    check_outputs(outputs, [*args.files, *files], overwrite=args.overwrite, is_own=is_own)
    if args.fix is not None:
        check_manifest(Path(args.fix), files)
    if args.state is not None and os.path.isfile(args.state) and not is_check_state(args.state):
        os.unlink(os.path.realpath(args.state))  # keep a symbolic link
