"""Helpers for all commands: terminal output, standard input and output, loops over files, and names of outputs."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO
from urllib.parse import urlsplit

from .._engine.common.messages import counted, progress, to_json, without_bars
from .._engine.images.formats import MAX_PIXELS_ADVICE
from ..errors import InvalidArgumentError, MediaTensorError
from ._text import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

EXIT_ERROR = 2

#: The file name that means standard input (as an input) or standard output (as an output).
STANDARD = "-"

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029]")

# Outputs add up to 50 bytes to the stem, and file systems accept names of 255 bytes.
_MAX_STEM_LENGTH = 100
_MAX_STEM_BYTES = 200
# Number of source lines that the message of an unexpected error shows.
_NUM_CALLS_SHOWN = 4


class StopError(MediaTensorError):
    """An error after which the command stops, without processing the remaining files."""


#: The name of an output stream in `sys`. The stream itself is ``None`` if the shell has closed it.
StreamName = Literal["stdout", "stderr"]


def emit(line: str, stream: StreamName = "stdout") -> None:
    """Print one line, like `emit_lines`."""
    emit_lines([line], stream)


def emit_lines(lines: Iterable[str], stream: StreamName = "stdout") -> None:
    """Print lines. Escape control characters, line breaks, and characters that the terminal cannot encode.

    Raise `StopError` if standard output cannot be written, for example on a full disk. If this happens to standard
    error, the line is lost.
    """
    file: TextIO | None = getattr(sys, stream)
    if file is None:
        return
    encoding = file.encoding or "utf-8"
    # File names may contain line breaks, and codes that change the terminal.
    text = "\n".join(
        _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), line) for line in lines
    )
    with _reporting_errors(stream), without_bars():
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=file, flush=True)


def emit_bytes(data: bytes) -> None:
    """Write bytes to standard output. Raise `InvalidArgumentError` if it is closed, `StopError` if it is full."""
    if sys.stdout is None:
        raise InvalidArgumentError("Standard output is closed; name a file with -o.")
    with _reporting_errors("stdout"):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _reporting_errors(stream: StreamName) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if stream == "stdout":
            raise StopError(f"Could not write to standard output: {error.strerror}.") from error


# For each library argument that messages mention: the option of the running command.
_option_names: ContextVar[Mapping[str, str]] = ContextVar("option_names")


@contextmanager
def naming_options(names: Mapping[str, str]) -> Iterator[None]:
    """During a ``with`` block, let messages name the command's option for each library argument in ``names``."""
    token = _option_names.set(names)
    try:
        yield
    finally:
        _option_names.reset(token)


# Regular expressions for advice that is only useful in Python programs, with replacements for the command line.
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"The best \w+ stream is unknown and there is no specified stream\. (?=The source has)", ""),
    (r"\bmax_pixels = (?=\d)", "the limit of "),
    (r" \((VideoDecoder [^;]*); metadata\.\w+ identifies such files; the (ffmpeg .*)\)", r" In Python, \1. The \2"),
    (f"; {re.escape(MAX_PIXELS_ADVICE)}", ""),
    (r",? or None(?: for [\w' -]*[\w'])?", ""),
    (r"\bnow None\b", "now the default"),
    (r"(--[\w-]+) None, now", r"\1 not given, now"),
    (r"Give the name of the right column as [a-z]\w* of \w+", "Rename the column of the files to one of these"),
    (r" as (--[\w-]+) of \w+", r" with \1"),
    (r"\b\w+=(?:True|False) \((--[\w-]+)\)", r"\1"),
    (r"(--[\w-]+) \(\1\)", r"\1"),
    (r" A single media file or URL goes into a list: \[source\]\.", ""),
    (r"There are files of kind '(\w+)'", r"There are files for --kind \1"),
    (r"Give files with other extensions as a list of paths", "Name files with other extensions one by one"),
    (r"pass a larger one", "give it more seconds"),
    (r"pass (?=--)", "give "),
    (r"give the path to from_pretrained\(\)", "give the path of the file instead of a name"),
    (r"a FieldRule, or the name of a set: ", "all, "),
    (r" \(('[\w', ]+'),?\): give one or more names of [\w.]+,", r" must name languages (got \1),"),
    (r", and no vocab beside them", ""),
    (r" (\[.+\]): choose (?:of|from) ", r" must name languages (got \1): choose from "),
    (r"\b(?:Line|Page)Dataset\((.*?)\)", r"the dataset (\1)"),
)


def in_command_words(message: str) -> str:
    """Replace the names of library arguments in a message by the command's options.

    >>> with naming_options({"overwrite": "--overwrite", "out": "-o", "page_size": "--page-size"}):
    ...     in_command_words("out must end in .pt; page_size is too large; overwrite=True replaces it")
    '-o must end in .pt; --page-size is too large; --overwrite replaces it'
    """
    for name, option in _option_names.get({}).items():
        # "out" may be plain English, so names of one word are replaced only before "must", "has", a quoted value or
        # "=".
        word = name if "_" in name else rf"(?:(?:(?<=: )|^){name}(?= must | has | \(')|{name}(?==| = ))"
        pattern = rf"(?<![\w./'\"\\-]){word}(?![\w./'\"-])(?: ?= ?True\b| ?= ?(?=[\w'\"])|=)?"
        message = re.sub(pattern, f"{option} ", message)
    message = re.sub(r"(-[\w-]+)  ?(?=[ .,;:)]|$)", r"\1", message)
    for pattern, replacement in _PHRASES:
        message = re.sub(pattern, replacement, message)
    return re.sub(r"Page (\d+) \(counted from 0\)", lambda match: f"Page {int(match[1]) + 1}", message)


def emit_error(message: str) -> None:
    """Print an error to stderr as one line. Names of library arguments are replaced by the command's options."""
    emit(f"mediatensor: error: {one_line(in_command_words(message))}", "stderr")


@contextmanager
def showing_warnings() -> Iterator[None]:
    """During a ``with`` block, print each warning about a file to stderr as one line in the command's words."""
    default_show = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *arguments: Any, **options: Any) -> None:
        if not issubclass(category, UserWarning):  # such as a DeprecationWarning
            default_show(message, category, *arguments, **options)
        else:
            text = in_command_words(str(message).partition(". Frames are given")[0])
            emit(f"mediatensor: warning: {one_line(text)}", "stderr")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = default_show


def shown_name(file: str) -> str:
    return "standard input" if file == STANDARD else file


def error_text(error: Exception) -> str:
    """Return the message of an error. For an `OSError`, this is the file name and the reason, without a number."""
    if isinstance(error, OSError) and not isinstance(error, MediaTensorError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return f"{name}{error.strerror}"
    return str(error)


def file_error(file: str, path: str, error: Exception) -> str:
    """Return a message that names the file as the user gave it, even if a temporary copy was read."""
    name = shown_name(file)
    message = error_text(error)
    if file == STANDARD:  # the temporary file's name means nothing to the user
        message = message.replace(repr(path), name).replace(path, name)
    return message if name in message else f"{name}: {message}"


def unexpected_error(error: Exception) -> MediaTensorError:
    """Convert an unexpected exception to an error whose message names the source lines that raised it."""
    if isinstance(error, MemoryError):
        size = str(error).partition(" for an array")[0] or "out of memory"
        return MediaTensorError(f"There is not enough memory ({size}); ask for less at a time.")
    package = Path(__file__).parents[1]
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
    """Yield the path from which to read ``file``. For ``-``, this is a temporary copy of standard input."""
    if file != STANDARD:
        yield file
        return
    if sys.stdin is None:
        raise InvalidArgumentError("Standard input is closed; give a file instead of -.")
    if sys.stdin.isatty():
        raise InvalidArgumentError("Standard input is a terminal; redirect a file to it, or give a file instead of -.")
    with tempfile.NamedTemporaryFile(prefix="mediatensor-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, 1 << 20)
        copy.flush()
        yield copy.name


def for_each_file(files: Sequence[str], work: Callable[[str, str], int], *, noun: str = "file") -> int:
    """Call ``work`` for every file; return the highest exit code. After an error, continue with the next file.

    ``work`` is called with the path to read, and with the file as the user gave it (``-`` for standard input). It must
    return an exit code. If it raises `StopError`, the remaining files are not processed. ``noun`` is the word for a
    file in messages, such as "document".
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
            except Exception as error:  # a bug stops this file, not the remaining files
                is_known = isinstance(error, (MediaTensorError, OSError))
                emit_error(file_error(file, path, error if is_known else unexpected_error(error)))
                code = max(code, EXIT_ERROR)
            num_done += 1
    except KeyboardInterrupt as stop:
        if len(files) > 1:
            following = f"{Path(files[num_done]).name} is the next" if num_done < len(files) else "that was all"
            stop.add_note(f"{num_done} of {counted(len(files), noun)} done, {following}")
        raise
    return code


def output_stem(file: str) -> str:
    """Return the name of a file or URL without its extension. The names of all its outputs begin with it."""
    if file == STANDARD:
        return "stdin"
    path = urlsplit(file).path if "://" in file else file
    stem = os.path.splitext(os.path.basename(path))[0]
    safe_stem = re.sub(r"[^\w .,()+=@~\[\]-]", "_", stem).strip(" .")[:_MAX_STEM_LENGTH]
    return safe_stem.encode()[:_MAX_STEM_BYTES].decode(errors="ignore") or "media"


def output_stems(files: Sequence[str]) -> list[str]:
    """Return the `output_stem` of each file. If stems are equal except for case, numbers are added to them.

    >>> output_stems(["a/talk.mp4", "talk.mkv", "x.mp4"])
    ['talk', 'talk.2', 'x']
    >>> output_stems(["a.pdf", "a.2.pdf", "x/a.pdf", "A.pdf"])
    ['a', 'a.2', 'a.3', 'A.4']
    """
    plain_stems = [output_stem(file) for file in files]
    # A numbered stem must differ from the stems of all other files.
    taken = {stem.casefold() for stem in plain_stems}
    seen: Counter[str] = Counter()
    stems = []
    for stem in plain_stems:
        name = stem.casefold()
        seen[name] += 1
        numbered = stem
        if seen[name] > 1:
            while (numbered := f"{stem}.{seen[name]}").casefold() in taken:
                seen[name] += 1
            taken.add(numbered.casefold())
        stems.append(numbered)
    return stems


def check_folder(output: Path, options_of_suffixes: Mapping[str, str]) -> None:
    """Raise an error if ``output``, a folder for outputs, is a new path that looks like the name of a file.

    ``options_of_suffixes`` has the option of the command that writes files with a suffix, such as ".png".
    """
    option = options_of_suffixes.get(output.suffix.lower())
    if option is not None and not output.exists():
        raise InvalidArgumentError(
            f"-o must be a folder (got {str(output)!r}): use -o FOLDER {option}, or -o - for standard output."
        )


def write_picture(output: Path, picture: Image) -> None:
    """Write a picture to a file. The suffix of the file name determines the format."""
    from PIL.Image import registered_extensions

    from .._engine.sources.output_files import writing

    with writing(output) as file:
        picture.save(file, registered_extensions()[output.suffix.lower()])


def check_manifest(output: Path, names: Iterable[str] = ()) -> None:
    """Check that ``output`` is the path of a .csv or .jsonl file that can store the file names ``names``."""
    suffix = output.suffix.lower()
    if suffix not in (".csv", ".jsonl"):
        raise InvalidArgumentError(f"A manifest must end in .csv or .jsonl (got {str(output)!r}).")
    for name in names if suffix == ".csv" else ():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"A .csv is text in UTF-8, which cannot hold the name {name!r}; write a .jsonl."
            ) from None


def emit_json(value: Any) -> None:
    """Print a JSON object. Objects of several files follow one another, which `jq` accepts."""
    emit_lines(json.dumps(to_json(value), indent=2, allow_nan=False).split("\n"))
