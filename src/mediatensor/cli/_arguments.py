"""The command's argument parser class, functions that parse the values of options, and options that commands share."""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from .._engine.common.messages import seconds_from_text, suggestion
from ..errors import InvalidArgumentError
from ._console import EXIT_ERROR, emit_error

if TYPE_CHECKING:  # --help must load neither numpy nor FFmpeg
    from .._engine.index.frame_index import FrameIndex

T = TypeVar("T")

_MAX_GRID_TIMES = 10_000_000

#: Formats that `ocr` writes for documents, and for videos.
FORMATS = ("txt", "json", "md", "adoc", "html", "hocr", "alto", "tsv", "csv", "xlsx", "chunks", "pdf")
VIDEO_FORMATS = ("srt", "vtt", "ass", "json", "csv", "md", "pdf")

#: Kinds of text in video.
KINDS = ("caption", "overlay", "scene", "slide")

#: Ranges (first, last) of page numbers from 1. A last page of ``None`` means the end of the document.
PageRanges = tuple[tuple[int, int | None], ...]

#: Left, top, right and bottom, as fractions of the frame's size.
Region = tuple[float, float, float, float]

_MAX_PAGE_NUMBER = 10_000_000

_WIDTH = 80
_OPTION_COLUMN = 28

# For each library argument that messages mention: the option of the command. Other options are spelled like their
# argument.
_LIBRARY_NAMES: dict[str, dict[str, str]] = {
    "check": {
        "num_classes": "--classes", "bad_kinds": "--bad", "num_workers": "--workers", "state_file": "--state",
        "timeout_seconds": "--timeout",
    },
    "evaluate": {"iou_threshold": "--iou", "num_worst": "--worst"},
    "ocr": {"timeout_seconds": "--page-timeout", "detect_layout": "--layout", "detect_tables": "--tables"},
    "serve": {
        "timeout_seconds": "--timeout", "num_workers": "--jobs", "keep_seconds": "--keep",
        "allowed_hosts": "--allow-host",
    },
    "train": {"arch": "--start", "out": "-o", "num_workers": "--workers", "languages": "--train-languages"},
}  # fmt: skip


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose help is 80 columns wide.

    An error message is one line. If an unknown name is similar to a valid one, the message suggests the valid one.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "formatter_class": _HelpFormatter})

    def error(self, message: str) -> NoReturn:
        emit_error(f"{message} (see `{self.prog} --help`)")
        self.exit(EXIT_ERROR)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like argparse.

        For an unknown option, the error message refers to the help of the command that was used.
        """
        words = sys.argv[1:] if args is None else list(args)
        commands = next((action.choices for action in self._actions if action.dest == "command"), None)
        if commands and words and not words[0].startswith("-") and words[0] not in commands:
            self.error(f"there is no command {words[0]!r}{suggestion(words[0], commands)}")
        parsed, unknown = self.parse_known_args(words, namespace)
        if unknown:
            command: CommandParser = getattr(parsed, "parser", self)
            option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
            if option is None:
                command.error(f"too many arguments: {' '.join(unknown)}")
            command.error(f"there is no option {option}{suggestion(option, command._option_string_actions)}")
        return parsed


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=_OPTION_COLUMN, width=_WIDTH)


def names_of_options(parser: argparse.ArgumentParser, command: str) -> dict[str, str]:
    """Return a dict from argument names of the library to the command's options for these arguments.

    >>> parser = argparse.ArgumentParser()
    >>> option = parser.add_argument("--batch-size")
    >>> names_of_options(parser, "train")["batch_size"], names_of_options(parser, "train")["out"]
    ('--batch-size', '-o')
    """
    options = {action.dest: action.option_strings[-1] for action in parser._actions if action.option_strings}
    del options["help"]
    return options | {"stream_index": "--stream"} | _LIBRARY_NAMES.get(command, {})


def fill(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def add_command(
    commands: Any,
    name: str,
    *,
    summary: str,
    description: str,
    examples: Sequence[tuple[str, str]],
    notes: str = "",
    add_help: bool = True,
) -> argparse.ArgumentParser:
    """Add a command and its help.

    Args:
        commands: The return value of ``add_subparsers``.
        name: The name of the command.
        summary: The text about this command in the list of all commands.
        description: The first paragraph of the help.
        examples: (shell line, comment) pairs. A comment can be empty. A long comment is printed above its shell line.
        notes: Paragraphs after the examples, separated by empty lines. A paragraph that contains line breaks is not
            rewrapped.
    """
    lines = ["examples:"]
    for example, comment in examples:
        line = f"  {example}"
        if comment and len(line) + len(comment) + 4 > _WIDTH:
            lines.append(f"  # {comment}")
        elif comment:
            line += f"  # {comment}"
        lines.append(line)
    paragraphs = [part if "\n" in part else fill(part) for part in notes.split("\n\n")]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=fill(description),
        epilog="\n\n".join(["\n".join(lines), *paragraphs]),
        add_help=add_help,
    )
    parser.set_defaults(parser=parser)
    return parser


def add_option(
    group: Any, names: str, kind: Callable[[str], Any], help: str, default: Any = None, **settings: Any
) -> None:
    """Add an option that takes a value.

    Args:
        group: The parser, or one of its argument groups.
        names: The option followed by its value, as shown in the help, such as ``"-o, --output PATH"``. The value can be
            given as a list of choices.
        kind: Function that parses the value.
        help: The help text, to which the default value is added.
        default: The default value. Leave it out if ``help`` already describes it.
        settings: Further arguments of ``add_argument``.
    """
    *options, metavar = names.split(" ")
    if metavar.startswith("{") or "|" in metavar:
        settings["choices"] = tuple(re.split(r"[,|]", metavar.strip("{}")))
    if default not in (None, []):
        help += f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"
    if not metavar.startswith("{"):  # argparse itself shows choices in braces
        settings["metavar"] = metavar
    group.add_argument(*(option.rstrip(",") for option in options), type=kind, help=help, default=default, **settings)


def add_flag(group: Any, option: str, help: str) -> None:
    group.add_argument(option, action="store_true", help=help)


def add_files(parser: argparse.ArgumentParser, kind: str) -> None:
    """Add the positional argument ``FILE ...``. ``kind``, such as "media", describes the files in the help."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"a {kind} file, a URL, or - for standard input")


def add_folder(parser: argparse.ArgumentParser, default: str, *, or_standard: bool = True) -> None:
    """Add ``--output FOLDER``. With ``or_standard``, its help also offers ``-`` for standard output."""
    standard = ", or - for standard output" if or_standard else ""
    add_option(parser, "-o, --output FOLDER", Path, f"folder of the outputs, made if missing{standard}", Path(default))


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--overwrite", "replace files that exist")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``. The help of each command must describe the keys of its JSON output."""
    add_flag(parser, "--json", "print JSON (described below)")


def _convert(text: str, convert: Callable[[str], T], is_accepted: Callable[[T], bool], expected: str) -> T:
    with suppress(ValueError, ZeroDivisionError, OverflowError):
        value = convert(text)
        if is_accepted(value):
            return value
    raise argparse.ArgumentTypeError(f"expected {expected} (got {text!r})")


def positive_number(text: str) -> float:
    """Parse a number above 0, or a fraction such as 30000/1001.

    >>> positive_number("0.5"), positive_number("30/4")
    (0.5, 7.5)
    """
    expected = "a number above 0, such as 2.5 or 30000/1001"
    return _convert(text, lambda given: float(Fraction(given)), lambda value: 0 < value < math.inf, expected)


def share(text: str) -> float:
    return _convert(text, float, lambda value: 0 < value <= 1, "a number above 0 and at most 1")


def share_below_one(text: str) -> float:
    return _convert(text, float, lambda value: 0 < value < 1, "a number above 0 and below 1")


def _int_from(text: str, least: int) -> int:
    return _convert(text, int, lambda value: value >= least, f"a whole number of at least {least}")


def positive_int(text: str) -> int:
    return _int_from(text, 1)


def non_negative_int(text: str) -> int:
    return _int_from(text, 0)


def picture_side(text: str) -> int:
    return _convert(text, int, lambda value: value > 0 and value % 32 == 0, "a multiple of 32")


def port_number(text: str) -> int:
    return _convert(text, int, lambda value: 0 <= value <= 65535, "a port from 0 to 65535")


def time_in_seconds(text: str) -> float:
    """Parse a time: seconds, ``m:ss`` or ``h:mm:ss``. Decimals are optional.

    >>> time_in_seconds("83.5") == time_in_seconds("1:23.5") == time_in_seconds("0:01:23.5") == 83.5
    True
    """
    return _convert(text, seconds_from_text, lambda value: True, "a time such as 83.5, 1:23.5 or 0:01:23.5")


def frame_indices(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"-?\d{1,18}(,-?\d{1,18})*", text):
        raise argparse.ArgumentTypeError(f"expected frame indices such as 0,10,20 (got {text!r})")
    return tuple(int(part) for part in text.split(","))


def picture_size(text: str) -> tuple[int, int]:
    """Parse a size in pixels such as 640x360; return (width, height)."""
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if 0 in size:
        raise argparse.ArgumentTypeError(f"expected a width and a height such as 640x360 (got {text!r})")
    return size


def page_ranges(text: str) -> PageRanges:
    """Parse pages and page ranges, counted from 1."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,8})(?:(-)(\d{1,8})?)?", part.strip())
        first = int(match[1]) if match else 0
        last = None if match and match[2] and not match[3] else int(match[3] or first) if match else 0
        if first < 1 or (last is not None and not first <= last <= _MAX_PAGE_NUMBER):
            raise argparse.ArgumentTypeError(f"expected page numbers from 1, such as 1-3,7,10- (got {text!r})")
        ranges.append((first, last))
    return tuple(ranges)


def format_names(text: str) -> list[str]:
    return _names_from(text, list(dict.fromkeys(FORMATS + VIDEO_FORMATS)))


def kind_names(text: str) -> list[str]:
    return _names_from(text, KINDS)


def _names_from(text: str, known: Sequence[str]) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"expected names among {', '.join(known)} (got {name!r})")
    return list(dict.fromkeys(names))


def region(text: str) -> Region:
    """Parse left, top, right and bottom as fractions of the width and height of a frame or page."""
    try:
        left, top, right, bottom = (float(part) for part in text.split(","))
    except ValueError:
        left = top = right = bottom = 0.0
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise argparse.ArgumentTypeError(
            f"expected left, top, right and bottom as shares of the width and height, such as 0,0.7,1,1 (got {text!r})"
        )
    return left, top, right, bottom


def grid_times(start: float, stop: float, step: float) -> list[float]:
    """Return times at intervals of ``step`` seconds, from ``start`` up to but not including ``stop``."""
    from .._engine.common.checks import TIME_TOLERANCE

    if step <= 0 or (stop - start) / step > _MAX_GRID_TIMES:
        raise InvalidArgumentError(
            f"That would be more than {_MAX_GRID_TIMES} times in the video; take frames less often."
        )
    times = [start + k * step for k in range(int((stop - start) / step) + 1)]
    return times[:1] + [time for time in times[1:] if time < stop - TIME_TOLERANCE]


def grid_frames(
    index: FrameIndex, start: float, stop: float, every_seconds: float | None, fps: float | None
) -> list[int]:
    """Return the indices of the frames shown every ``every_seconds``, or ``fps`` times a second, without duplicates."""
    import numpy as np

    from .._engine.index.frame_index import clock_of_index

    step = every_seconds if every_seconds is not None else 1 / (fps or 1.0)
    clock = clock_of_index(index).for_steps(step)
    times = grid_times(clock.exact_start(start), clock.exact_end(stop), clock.exact_step(step))
    return list(dict.fromkeys(clock.played_at(np.array(times)).tolist()))
