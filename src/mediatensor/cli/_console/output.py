"""Terminal, standard input and output, loops over files, and names of outputs, for all commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from ..._engine.common.messages import counted, progress, without_bars
from ..._engine.common.plain_values import to_json
from ...errors import DamageWarning, InvalidArgumentError, MediaTensorError
from .text import one_line

__all__ = [
    "EXIT_ERROR",
    "STANDARD",
    "StopError",
    "emit",
    "emit_bytes",
    "emit_error",
    "emit_json",
    "error_text",
    "file_error",
    "for_each_file",
    "output_stem",
    "output_stems",
    "progress",
    "reading",
    "showing_damage",
    "shown_name",
    "to_json",
    "unexpected_error",
]

EXIT_ERROR = 2

#: As an input it stands for standard input, as an output for standard output.
STANDARD = "-"

_MAX_STEM_LENGTH = 100
# How many calls the message of an unexpected error names.
_NUM_CALLS_SHOWN = 4


def emit(text: str, stream: TextIO | None = None) -> None:
    """Print a line; characters that the terminal cannot show are escaped instead of failing."""
    stream = stream or sys.stdout
    if stream is None:  # the shell closed it
        return
    encoding = stream.encoding or "utf-8"
    with without_bars():
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def emit_bytes(data: bytes) -> None:
    """Write to standard output as it is.

    Raises:
        InvalidArgumentError: if it is closed.
    """
    if sys.stdout is None:
        raise InvalidArgumentError("Standard output is closed; name a file with -o.")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def emit_error(message: str) -> None:
    """Print an error as one line to stderr."""
    if sys.stderr is not None:
        emit(f"mediatensor: error: {one_line(message)}", sys.stderr)


@contextmanager
def showing_damage() -> Iterator[None]:
    """Print warnings of damaged files as lines of the command in a ``with`` block, without the names of Python."""
    show_others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *others: Any, **options: Any) -> None:
        if not issubclass(category, DamageWarning):
            show_others(message, category, *others, **options)
        elif sys.stderr is not None:
            emit(f"mediatensor: warning: {one_line(str(message).partition('. Frames are given')[0])}", sys.stderr)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = show_others


def shown_name(file: str) -> str:
    """The name of a file in messages."""
    return "standard input" if file == STANDARD else file


def error_text(error: Exception) -> str:
    """Return the message of an error; for one of the system, the name of the file and the reason, without numbers.

    >>> error_text(FileExistsError(17, "File exists", "out/images"))
    'out/images: File exists'
    """
    if (
        isinstance(error, OSError)
        and not isinstance(error, MediaTensorError)
        and isinstance(error.filename, (str, bytes))
    ):
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def file_error(file: str, path: str, error: Exception) -> str:
    """The message of an error, with the name that the user gave the file.

    >>> file_error("a.mp4", "a.mp4", ValueError("There is no frame 9.")), file_error("-", "/tmp/x", ValueError("x"))
    ('a.mp4: There is no frame 9.', 'standard input: x')
    """
    name = shown_name(file)
    message = error_text(error)
    if file == STANDARD:  # users do not know the temporary file
        message = message.replace(repr(path), name).replace(path, name)
    return message if name in message else f"{name}: {message}"


def unexpected_error(error: Exception) -> MediaTensorError:
    """An error to print in place of one that the library should not raise. It names the lines where that was raised."""
    package = Path(__file__).parents[2]
    lines = [
        f"{Path(call.filename).relative_to(package)}:{call.lineno}"
        for call in traceback.extract_tb(error.__traceback__)
        if Path(call.filename).is_relative_to(package)
    ]
    return MediaTensorError(
        f"Unexpected {type(error).__name__}: {error}. This is a fault in mediatensor; please report it with the file "
        f"and this line (raised at {' < '.join(lines[: -_NUM_CALLS_SHOWN - 1 : -1])})."
    )


@contextmanager
def reading(file: str) -> Iterator[str]:
    """The path to read: that of the file, or for ``-`` that of a temporary file with all of standard input.

    Raises:
        InvalidArgumentError: if standard input is a terminal, or closed.
    """
    if file != STANDARD:
        yield file
        return
    if sys.stdin is None:
        raise InvalidArgumentError("- reads standard input, and that is closed.")
    if sys.stdin.isatty():
        raise InvalidArgumentError("- reads standard input, and that is a terminal; redirect a file to it.")
    with tempfile.NamedTemporaryFile(prefix="mediatensor-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, 1 << 20)
        copy.flush()
        yield copy.name


class StopError(MediaTensorError):
    """An error after which the other files need not be tried."""


def for_each_file(
    files: Sequence[str], work: Callable[[str, str], int], *, noun: str = "file", reword: Callable[[str], str] = str
) -> int:
    """Call a function for every file. A file that cannot be read is reported, and the others are still processed.

    Args:
        files: As they were given; ``-`` is standard input.
        work: Called with the path to read and the file as it was given; returns an exit code.
        noun: The noun for one of the files.
        reword: Called with the message of each error; returns the message to print.

    Returns:
        The highest exit code.

    Raises:
        StopError: if ``work`` raises it.
    """
    code = num_done = 0
    bar = progress(files, f"{noun}s", unit=noun) if len(files) > 1 else files
    try:
        for file in bar:
            path = file
            try:
                with reading(file) as path:
                    code = max(code, work(path, file))
            except (BrokenPipeError, StopError):
                raise
            except (MediaTensorError, OSError) as error:
                emit_error(reword(file_error(file, path, error)))
                code = max(code, EXIT_ERROR)
            except Exception as error:  # a fault of ours ends this file, not the others
                emit_error(file_error(file, path, unexpected_error(error)))
                code = max(code, EXIT_ERROR)
            num_done += 1
    except KeyboardInterrupt as stop:
        if len(files) > 1:
            following = f"{Path(files[num_done]).name} is the next" if num_done < len(files) else "that was all"
            stop.add_note(f"{num_done} of {counted(len(files), noun)} done, {following}")
        raise
    return code


def output_stem(file: str) -> str:
    """The begin of the names of outputs: the name of the file or URL, without its extension.

    >>> output_stem("videos/my talk.mp4"), output_stem("https://example.org/a/clip.webm?token=1"), output_stem("-")
    ('my talk', 'clip', 'stdin')
    """
    if file == STANDARD:
        return "stdin"
    path = urlsplit(file).path if "://" in file else file
    stem = os.path.splitext(os.path.basename(path))[0]
    kept = re.sub(r"[^\w .,()+=@~\[\]-]", "_", stem).strip(" .")[:_MAX_STEM_LENGTH]
    return kept or "media"


def output_stems(files: Sequence[str]) -> list[str]:
    """`output_stem` of each file, with a number where several have the same, but for their case.

    >>> output_stems(["a/talk.mp4", "talk.mkv", "x.mp4"])
    ['talk', 'talk.2', 'x']
    >>> output_stems(["a.pdf", "a.2.pdf", "x/a.pdf", "A.pdf"])
    ['a', 'a.2', 'a.3', 'A.4']
    """
    own = [output_stem(file) for file in files]
    # A number must not make a name that another file has.
    taken = {stem.casefold() for stem in own}
    seen: Counter[str] = Counter()
    stems = []
    for stem in own:
        name = stem.casefold()
        seen[name] += 1
        numbered = stem
        if seen[name] > 1:
            while (numbered := f"{stem}.{seen[name]}").casefold() in taken:
                seen[name] += 1
            taken.add(numbered.casefold())
        stems.append(numbered)
    return stems


def emit_json(value: Any) -> None:
    """Print an object. Those of several files follow each other, as `jq` reads them."""
    emit(json.dumps(to_json(value), indent=2, allow_nan=False))
