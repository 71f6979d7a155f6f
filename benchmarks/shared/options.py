"""Options that several commands have."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

__all__ = ["add_folders", "add_python", "check_counts"]


def add_folders(parser: argparse.ArgumentParser) -> None:
    """``--clips``, where generated files are kept, and ``--output``."""
    parser.add_argument(
        "--clips",
        type=Path,
        default=Path(tempfile.gettempdir()) / "mediatensor-benchmark-clips",
        metavar="FOLDER",
        help="where generated files are kept for the next time (default: in the folder for temporary files)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and charts there")


def add_python(parser: argparse.ArgumentParser) -> None:
    """``--python``, whose environment has the other libraries."""
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PROGRAM",
        help="the Python whose environment has the libraries, which all run there (default: this one)",
    )


def check_counts(parser: argparse.ArgumentParser, options: argparse.Namespace, *names: str) -> None:
    """End the program with a message if one of the numbers that were given is not positive."""
    for name in names:
        number = getattr(options, name)
        if number is not None and number < 1:
            parser.error(f"--{name} must be positive")
