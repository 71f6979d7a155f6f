"""Helpers for commands that write a manifest row for each segment of a file: ``scenes`` and ``speech``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .._engine.common.messages import counted
from .._engine.sources.output_files import check_outputs
from ..datasets._sources.manifests import csv_of_rows, write_rows
from ..errors import InvalidArgumentError
from ._console import STANDARD, check_manifest, emit, emit_bytes, emit_error


def check_rows_output(output: Path | None, files: Sequence[str], *, overwrite: bool, as_json: bool) -> None:
    """Check that rows of ``files`` can be written to ``output``. ``None`` means that none are written.

    Raises:
        InvalidArgumentError: if ``output`` is not a manifest or must not be written, a file has no name, or JSON and
            rows would both go to standard output.
    """
    if output is not None and STANDARD in files:
        raise InvalidArgumentError("-o writes the names of files, and standard input has none; give files.")
    if is_standard_output(output):
        if as_json:
            raise InvalidArgumentError("--json and -o - both write to standard output; leave out one of them.")
        return
    if output is not None:
        check_manifest(output, files)
    check_outputs([] if output is None else [output], files, overwrite=overwrite)


def is_standard_output(output: Path | None) -> bool:
    """Return whether rows go to standard output, so that nothing else must be printed there."""
    return str(output) == STANDARD


def path_in_rows(file: str, output: Path) -> str:
    """Return the path of a file, relative to the folder of the manifest ``output``. A URL stays as it is.

    Rows on standard output have paths relative to the current folder.
    """
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


def write_found_rows(
    output: Path | None, rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, is_quiet: bool
) -> None:
    """Write the rows, and print their number unless ``is_quiet``. A CSV has ``columns`` even without rows."""
    if output is None:
        return
    if is_standard_output(output):
        emit_bytes(csv_of_rows(rows, columns))
        return
    write_rows(str(output), rows, columns)
    if not is_quiet:
        emit(f"wrote {output}: {counted(len(rows), 'row')}")


def report_unread_files(num_read: int, files: Sequence[str]) -> None:
    """Print to stderr how many of several files could not be read."""
    if num_read < len(files) > 1:
        emit_error(f"{len(files) - num_read} of {counted(len(files), 'file')} could not be read")
