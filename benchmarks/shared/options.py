"""Options that several commands have."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def make_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a module that is run; the first line of its docstring is the description."""
    return argparse.ArgumentParser(prog=f"python -m {module}", description=(doc or "").partition("\n")[0])


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--output``."""
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and a chart there")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Add ``--clips``, the folder of generated files, and ``--output``."""
    parser.add_argument(
        "--clips",
        type=Path,
        default=Path(tempfile.gettempdir()) / "mediatensor-benchmark-clips",
        metavar="FOLDER",
        help="folder of generated files, kept for the next run (default: in the folder for temporary files)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write JSON, Markdown and charts there")


def add_python(parser: argparse.ArgumentParser) -> None:
    """Add ``--python``, the Python of an environment with the other libraries."""
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PROGRAM",
        help="the Python of an environment with the libraries; all of them run there (default: this one)",
    )


def check_counts(parser: argparse.ArgumentParser, options: argparse.Namespace, *names: str) -> None:
    """End the program with a message if one of the given numbers is not positive."""
    for name in names:
        number = getattr(options, name)
        if number is not None and number < 1:
            parser.error(f"--{name} must be positive")
