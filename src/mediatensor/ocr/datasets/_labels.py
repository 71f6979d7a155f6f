"""Read label files within size limits. Errors name the place of a problem."""

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

Array = NDArray[Any]

# Limits of the process that reads a MATLAB file. The compressed file of SynthText has about 400 MB.
_MAX_MAT_SECONDS, _MAX_MAT_MEMORY = 600.0, 16 << 30

#: Largest size of a label file in bytes. The largest published file, the list of MJSynth, has 0.5 GB.
MAX_LABEL_BYTES = 4 << 30


def missing(path: str | os.PathLike[str], what: str) -> SourceNotFoundError:
    return SourceNotFoundError(f"There is no {what} {os.fspath(path)!r}.")


def existing_folder(path: str | os.PathLike[str], what: str = "folder") -> Path:
    """Return the path of a folder, or raise `SourceNotFoundError`."""
    if not os.path.isdir(path):
        raise missing(path, what)
    return Path(path)


def check_file(path: str | os.PathLike[str], what: str = "file") -> None:
    """Raise `SourceNotFoundError` if a file does not exist."""
    if not os.path.isfile(path):
        raise missing(path, what)


def picture_in(root: str | os.PathLike[str], name: Any, place: object) -> str:
    """Check that a folder has the image that a label file names at ``place``, and return the name."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"{place} must name a picture (got {shown(name)}).")
    path = os.path.join(root, name)
    if not os.path.exists(path):
        raise SourceNotFoundError(f"There is no picture {path!r}, which {place} names.")
    return name


def files_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of the visible files in a folder, sorted, so that the order is the same on all machines."""
    existing_folder(folder)
    with os.scandir(folder) as entries:
        return sorted(found.name for found in entries if not found.name.startswith(".") and not found.is_dir())


def read_text(path: str | os.PathLike[str], or_latin: bool = False) -> str:
    """Read a UTF-8 file with or without a byte order mark. With ``or_latin``, other files are read as Latin-1.

    Raises:
        SourceNotFoundError: The file does not exist.
        OpenError: The file is too large or is not text.
        ReadError: The file cannot be read.
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
    """Yield each line that is not blank: a description of its place, for error messages, and its text."""
    for number, line in enumerate(re.split(r"\r\n|\r|\n", read_text(path, or_latin)), start=1):
        if line.strip():
            yield f"line {number} of {path}", line


def read_json(path: str | os.PathLike[str]) -> Any:
    return parsed_json(read_text(path), str(path))


def parsed_json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OpenError(f"{place} is not JSON ({error}).") from None


def read_xml(path: str | os.PathLike[str]) -> ElementTree.Element:
    """Return the root of an XML file. Entities are refused, because they could expand and fill the memory."""
    check_file(path, "label file")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error}).") from error
    if b"<!ENTITY" in data:
        raise OpenError(f"{path} declares entities; label files need none.")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # also for unknown encodings
        raise OpenError(f"{path} is not XML ({error}).") from None


def read_mat(path: str | os.PathLike[str], *names: str) -> list[Any]:
    """Return variables of a MATLAB file, whose format must be older than version 7.3.

    SciPy's parser crashes on some damaged files. Therefore the file is first read in another process.
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
    """Call ``read(path, *arguments)`` in another process, because its parser may crash, and return the result.

    ``what`` is the expected file type, for error messages.
    """
    try:
        with IsolatedWorker(timeout_seconds=_MAX_MAT_SECONDS, max_memory_bytes=_MAX_MAT_MEMORY) as worker:
            return worker.run(read, os.fspath(path), *arguments)
    except Exception as error:  # parsers raise almost anything for a damaged file
        raise OpenError(f"{path} cannot be read as {what} ({error}).") from error


@lru_cache
def _survive_mat(path: str, names: Sequence[str], size: int, modified_ns: int) -> None:
    """Read a MATLAB file in another process, again only if its size or modification time has changed."""
    read_apart(path, "a MATLAB file", _names_in_mat, names)


def _variables_of_mat(path: str, names: Sequence[str]) -> dict[str, Any]:
    from scipy.io import loadmat

    variables: dict[str, Any] = loadmat(path, variable_names=names)
    return variables


def _names_in_mat(path: str, names: Sequence[str]) -> list[str]:
    return list(_variables_of_mat(path, names))


def labels_by_picture(root: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield, for each image in a JSON file, its name, its label, and a description of the label's place."""
    labels = read_json(path)
    if not isinstance(labels, dict):
        raise InvalidArgumentError(
            f"{path} must hold one JSON object with a label for each name of a picture (got {shown(labels)})."
        )
    for name, label in labels.items():
        place = f"{name!r} in {path}"
        yield picture_in(root, name, place), label, place


def entry(label: Any, key: str, place: str) -> Any:
    """Return the entry ``key`` of a label, or raise `InvalidArgumentError` if the label has no such entry."""
    if not isinstance(label, dict) or key not in label:
        raise InvalidArgumentError(f"{place} must be an object with {key!r} (got {shown(label)}).")
    return label[key]


def entries_of(label: Any, key: str, place: str) -> list[Any]:
    """Return the entry ``key`` of a label, or raise `InvalidArgumentError` if it is missing or not a list."""
    value = entry(label, key, place)
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{key!r} of {place} must be a list (got {shown(value)}).")
    return value


def text_of(word: Any, key: str, place: str) -> str:
    """Return the text of a word, or "" if it has none."""
    text = word.get(key) if isinstance(word, dict) else word
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{key!r} of a word of {place} must be a text (got {shown(text)}).")
    return text


def quads_of(points: Any, place: str, dtype: Any = np.float32) -> Array:
    """Convert lists of four points to quadrangles, (N, 4, 2). N may be 0."""
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
    """Convert lists of four numbers to an array, float32 (N, 4). N may be 0."""
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
    """Return the corners, (N, 4, 2), of upright boxes given as lists of (xmin, ymin, xmax, ymax). N may be 0."""
    return boxes_to_polygons(straight_boxes(boxes, place))


def boxes_of(quads: Array, use_polygons: bool) -> Array:
    """Return quadrangles, (N, 4, 2), unchanged, or without ``use_polygons`` the upright boxes around them, (N, 4)."""
    return quads if use_polygons else boxes_around(quads)
