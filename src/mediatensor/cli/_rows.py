"""Helpers for commands that write a manifest row for each segment of a file: ``scenes`` and ``speech``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .._engine.common.messages import counted
from .._engine.sources.output_files import check_outputs
from ..datasets._sources.manifests import write_rows
from ..errors import InvalidArgumentError
from ._console import STANDARD, check_manifest, emit, emit_error


def check_rows_output(output: Path | None, files: Sequence[str], *, overwrite: bool) -> None:
    """Check that rows of ``files`` can be written to ``output``. ``None`` means that none are written.

    Raises:
        InvalidArgumentError: if ``output`` is not a manifest or must not be written, or a file has no name.
    """
    if output is not None:
        check_manifest(output, files)
        if STANDARD in files:
            raise InvalidArgumentError("-o writes the names of files, and standard input has none; give files.")
    check_outputs([] if output is None else [output], files, overwrite=overwrite)


def path_in_rows(file: str, output: Path) -> str:
    """Return the path of a file, relative to the folder of the manifest ``output``. A URL stays as it is."""
    return file if "://" in file else os.path.relpath(file, output.parent).replace(os.sep, "/")


def write_found_rows(output: Path | None, rows: Sequence[Mapping[str, object]], *, is_quiet: bool) -> None:
    """Write the rows, if there are any, and print their number unless ``is_quiet``."""
    if output is not None and rows:
        write_rows(str(output), rows)
        if not is_quiet:
            emit(f"wrote {output}: {counted(len(rows), 'row')}")


def report_unread_files(num_read: int, files: Sequence[str]) -> None:
    """Print to stderr how many of several files could not be read."""
    if num_read < len(files) > 1:
        emit_error(f"{len(files) - num_read} of {counted(len(files), 'file')} could not be read")
