"""Label files and the pictures that they name: read within limits, with errors that say where something is wrong."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, ReadError, SourceNotFoundError
from ...isolate import IsolatedWorker
from ..utils.geometry import boxes_around, boxes_to_polygons

__all__ = [
    "Array",
    "boxes_of",
    "check_file",
    "corners_of",
    "entries_of",
    "entry",
    "existing_folder",
    "files_in",
    "labels_by_picture",
    "missing",
    "parsed_json",
    "picture_in",
    "quads_of",
    "read_apart",
    "read_json",
    "read_lines",
    "read_mat",
    "read_text",
    "read_xml",
    "straight_boxes",
    "text_of",
]

Array = NDArray[Any]

#: What the process may take that reads a MATLAB file. The file of SynthText has some 400 MB, compressed.
_MAX_MAT_SECONDS, _MAX_MAT_MEMORY = 600.0, 16 << 30

#: Bytes of a label file. The largest published one, the list of MJSynth, has half a GB.
MAX_LABEL_BYTES = 4 << 30


def missing(path: str | os.PathLike[str], what: str) -> SourceNotFoundError:
    """The error for a file or folder that is not there."""
    return SourceNotFoundError(f"There is no {what} {os.fspath(path)!r}.")


def existing_folder(path: str | os.PathLike[str], what: str = "folder") -> Path:
    """The path of a folder, if there is one.

    Raises:
        SourceNotFoundError: if there is none.
    """
    if not os.path.isdir(path):
        raise missing(path, what)
    return Path(path)


def check_file(path: str | os.PathLike[str], what: str = "file") -> None:
    """See that a file exists.

    Raises:
        SourceNotFoundError: if it does not.
    """
    if not os.path.isfile(path):
        raise missing(path, what)


def picture_in(root: str | os.PathLike[str], name: Any, place: object) -> str:
    """The name of a picture in a folder, if there is such a file.

    Args:
        root: The folder.
        name: The name, as a label file states it.
        place: What states it, for errors.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"{place} must name a picture (got {shown(name)}).")
    path = os.path.join(root, name)
    if not os.path.exists(path):
        raise SourceNotFoundError(f"There is no picture {path!r}, which {place} names.")
    return name


def files_in(folder: str | os.PathLike[str]) -> list[str]:
    """The names of the visible files in a folder, sorted, so that they are in the same order on every machine."""
    existing_folder(folder)
    with os.scandir(folder) as entries:
        return sorted(found.name for found in entries if not found.name.startswith(".") and not found.is_dir())


def read_text(path: str | os.PathLike[str], or_latin: bool = False) -> str:
    """A file in UTF-8, with or without a byte order mark.

    Args:
        path: The file.
        or_latin: Whether a file that is not UTF-8 is Latin-1.

    Raises:
        SourceNotFoundError: if there is no such file.
        OpenError: if it is too large or not text.
        ReadError: if it cannot be read.
    """
    check_file(path, "label file")
    try:
        size = os.path.getsize(path)
        if size > MAX_LABEL_BYTES:
            raise OpenError(f"{path} has {size} bytes, more than the limit of {MAX_LABEL_BYTES}.")
        data = Path(path).read_bytes()
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error}).") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if or_latin:
            return data.decode("latin-1")
        raise OpenError(f"{path} is not text in UTF-8 ({error}).") from None


def read_lines(path: str | os.PathLike[str], or_latin: bool = False) -> Iterator[tuple[str, str]]:
    """The lines of a text file that are not blank, each after the words for where it stands."""
    for number, line in enumerate(re.split(r"\r\n|\r|\n", read_text(path, or_latin)), start=1):
        if line.strip():
            yield f"line {number} of {path}", line


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds.

    Raises:
        OpenError: if it is not JSON; otherwise as `read_text`.
    """
    return parsed_json(read_text(path), str(path))


def parsed_json(text: str, place: str) -> Any:
    """What a JSON text says.

    Raises:
        OpenError: if it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OpenError(f"{place} is not JSON ({error}).") from None


def read_xml(path: str | os.PathLike[str]) -> ElementTree.Element:
    """The root of an XML file.

    Raises:
        OpenError: if it is not XML, or declares entities, which could expand to fill the memory.
    """
    check_file(path, "label file")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error}).") from error
    if b"<!ENTITY" in data:
        raise OpenError(f"{path} declares entities; label files need none.")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # also for encodings that are none
        raise OpenError(f"{path} is not XML ({error}).") from None


def read_mat(path: str | os.PathLike[str], *names: str) -> list[Any]:
    """Variables of a MATLAB file of a version before 7.3.

    SciPy's parser crashes on some files that are damaged. Another process reads the file first, and this one reads only
    a file that the other one survived.

    Raises:
        MissingDependencyError: if SciPy is not installed.
        OpenError: if it is no such file, or lacks a variable.
    """
    check_file(path, "label file")
    if find_spec("scipy") is None:
        raise MissingDependencyError(f'Reading {path} needs SciPy: pip install "mediatensor[ocr]".')
    try:
        status = os.stat(path)
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error}).") from error
    _survive_mat(os.fspath(path), names, status.st_size, status.st_mtime_ns)
    try:
        variables = _variables_of_mat(os.fspath(path), names)
    except Exception as error:  # SciPy raises almost anything for a damaged file
        raise OpenError(f"{path} cannot be read as a MATLAB file ({error}).") from error
    for name in names:
        if name not in variables:
            raise OpenError(f"{path} has no variable {name!r}.")
    return [variables[name] for name in names]


def read_apart(path: str | os.PathLike[str], what: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """What a function reads of a file in another process, which its parser may crash.

    Args:
        path: The file, the first argument of the function.
        what: What it must be, for errors.
        read: Returns plain data; a function of a module.
        *arguments: Its other arguments.

    Raises:
        OpenError: if the process crashes or takes too long, or the function fails.
    """
    try:
        with IsolatedWorker(timeout_seconds=_MAX_MAT_SECONDS, max_memory_bytes=_MAX_MAT_MEMORY) as worker:
            return worker.run(read, os.fspath(path), *arguments)
    except Exception as error:  # parsers raise almost anything for a damaged file
        raise OpenError(f"{path} cannot be read as {what} ({error}).") from error


@lru_cache
def _survive_mat(path: str, names: Sequence[str], size: int, modified_ns: int) -> None:
    """Read a MATLAB file in another process: once, as long as it stays as it is, for all data sets made of it."""
    read_apart(path, "a MATLAB file", _names_in_mat, names)


def _variables_of_mat(path: str, names: Sequence[str]) -> dict[str, Any]:
    from scipy.io import loadmat

    variables: dict[str, Any] = loadmat(path, variable_names=names)
    return variables


def _names_in_mat(path: str, names: Sequence[str]) -> list[str]:
    return list(_variables_of_mat(path, names))


def labels_by_picture(root: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[tuple[str, Any, str]]:
    """What a JSON file says of each picture of a folder.

    Yields:
        The name of the picture, its label, and the words for where that stands.
    """
    labels = read_json(path)
    if not isinstance(labels, dict):
        raise InvalidArgumentError(
            f"{path} must hold one JSON object with a label for each name of a picture (got {shown(labels)})."
        )
    for name, label in labels.items():
        place = f"{name!r} in {path}"
        yield picture_in(root, name, place), label, place


def entry(label: Any, key: str, place: str) -> Any:
    """One entry of a label.

    Raises:
        InvalidArgumentError: if there is none.
    """
    if not isinstance(label, dict) or key not in label:
        raise InvalidArgumentError(f"{place} must be an object with {key!r} (got {shown(label)}).")
    return label[key]


def entries_of(label: Any, key: str, place: str) -> list[Any]:
    """One entry of a label, which must be a list."""
    value = entry(label, key, place)
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{key!r} of {place} must be a list (got {shown(value)}).")
    return value


def text_of(word: Any, key: str, place: str) -> str:
    """The text of a word; "" where it has none.

    Raises:
        InvalidArgumentError: if it is not a text.
    """
    text = word.get(key) if isinstance(word, dict) else word
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{key!r} of a word of {place} must be a text (got {shown(text)}).")
    return text


def quads_of(points: Any, place: str, dtype: Any = np.float32) -> Array:
    """Quadrangles (N, 4, 2) from lists; N may be 0.

    Raises:
        InvalidArgumentError: if they are not finite, or not four points each.
    """
    try:
        quads = np.asarray(points, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        quads = np.empty((1, 0))
    if len(points) == 0:
        quads = np.zeros((0, 4, 2), dtype=dtype)
    if quads.shape[1:] != (4, 2) or not np.isfinite(quads).all():
        raise InvalidArgumentError(f"Boxes of {place} must be polygons of four points [x, y] (got {shown(points)}).")
    return quads


def straight_boxes(boxes: Any, place: str) -> Array:
    """Lists of four numbers as an array (N, 4), float32; N may be 0.

    Raises:
        InvalidArgumentError: if they are not finite, or not four each.
    """
    try:
        straight = np.asarray(boxes, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        straight = np.empty((1, 0), np.float32)
    if len(boxes) == 0:
        straight = np.zeros((0, 4), np.float32)
    if straight.shape[1:] != (4,) or not np.isfinite(straight).all():
        raise InvalidArgumentError(f"Boxes of {place} must be four numbers each (got {shown(boxes)}).")
    return straight


def corners_of(boxes: Any, place: str) -> Array:
    """The corners (N, 4, 2) of straight boxes, lists of (xmin, ymin, xmax, ymax); N may be 0.

    Raises:
        InvalidArgumentError: if they are not finite, or not four numbers each.
    """
    return boxes_to_polygons(straight_boxes(boxes, place))


def boxes_of(quads: Array, use_polygons: bool) -> Array:
    """Quadrangles (N, 4, 2) as they are, or the straight boxes (N, 4) around them."""
    return quads if use_polygons else boxes_around(quads)
