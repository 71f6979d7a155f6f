"""The ``mediatensor`` command: look into media, draw, extract and read them, and prove that decoding is exact."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from .. import __version__
from ..errors import MediaTensorError
from . import _demo, _extract, _ocr, _probe, _sheet, _verify
from ._console import emit_error

__all__ = ["main"]

EXIT_ERROR = 2
# What a shell reports for a program ended by SIGINT and SIGPIPE.
EXIT_INTERRUPTED = 128 + 2
EXIT_BROKEN_PIPE = 128 + 13


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the help to read."""

    def error(self, message: str) -> NoReturn:
        emit_error(f"{message} (see `{self.prog} --help`)")
        self.exit(EXIT_ERROR)


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mediatensor",
        description=(
            "Look into a media file, draw a contact sheet of it, extract frames, sound and subtitles, read the text\n"
            "in its pixels, and prove that frames are decoded exactly."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor demo                       make a video and show what the library does with it\n"
            "  mediatensor probe talk.mp4             what is in the file\n"
            "  mediatensor sheet talk.mp4 -o talk.png sixteen frames of it in one picture\n"
            "  mediatensor extract talk.mp4 --fps 1   frames as images; sound and subtitles as files, too\n"
            "  mediatensor ocr scan.pdf -o text       the text of a document\n"
            "  mediatensor verify talk.mp4            is every frame that of a full linear decode?\n"
            "\n"
            "exit codes:\n"
            "  0  done\n"
            "  1  the answer is no: verify or demo found a difference\n"
            "  2  wrong usage, or a file or a page that cannot be read\n"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    versions = f"mediatensor {__version__} (av {version('av')}, torch {version('torch')})"
    parser.add_argument("--version", action="version", version=versions, help="say which versions these are, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for command in (_probe, _sheet, _extract, _ocr, _verify, _demo):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``mediatensor`` command.

    Args:
        argv: The arguments after the program's name; ``None`` takes those of the process.

    Returns:
        The exit code: 0 done, 1 a check found a difference, 2 wrong usage or an unreadable file,
        130 interrupted, 141 the reader of the output went away.

    Example:
        >>> from mediatensor.cli import main
        >>> main(["probe"])  # prints the error to stderr
        2
    """
    try:
        args = _build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_ERROR
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except (MediaTensorError, OSError) as error:
        emit_error(str(error))
        return EXIT_ERROR
