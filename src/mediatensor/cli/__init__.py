"""The ``mediatensor`` command, which describes, extracts, reads, checks and verifies media files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ..errors import MediaTensorError
from ._arguments import names_of_options
from ._console import EXIT_ERROR, emit, emit_error, error_text, naming_options, showing_warnings, unexpected_error
from ._parser import build_parser as build_parser  # for programs that describe the command

__all__ = ["main"]

# Names of modules that differ from the name of the command.
_MODULES = {"evaluate": "train", "find": "video_text", "scenes": "segments", "speech": "segments"}
# The exit codes that a shell reports for a program that SIGINT or SIGPIPE ended.
EXIT_INTERRUPTED = 128 + 2
EXIT_BROKEN_PIPE = 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``mediatensor`` command.

    Args:
        argv: The arguments after the program's name; ``None`` means those in ``sys.argv``.

    Returns:
        The exit code: 0 for success, 1 if a check found a difference or a bad file, 2 for wrong usage or an unreadable
        file, 130 after an interruption, 141 if the output is a pipe and its reader has closed it.

    Example:
        >>> from mediatensor.cli import main
        >>> main(["probe"])  # prints the error to stderr
        2
    """
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_ERROR
    with naming_options(names_of_options(args.parser, args.command)):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        # Imported late, because a command may load torch or OCR models.
        module = import_module(f"._{_MODULES.get(args.command, args.command)}", __name__)
        with showing_warnings():
            code: int = module.run(args)
        return code
    except KeyboardInterrupt as stop:
        emit("; ".join(["mediatensor: interrupted", *getattr(stop, "__notes__", [])]), "stderr")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout again at exit. This must not raise a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except (MediaTensorError, OSError) as error:
        emit_error(error_text(error))
        return EXIT_ERROR
    except Exception as error:
        emit_error(str(unexpected_error(error)))
        return EXIT_ERROR
