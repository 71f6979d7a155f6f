"""Read the label files of datasets, and find and unpack the archives that datasets are published in.

Nothing is downloaded. Label files above a size limit are rejected. Error messages name the file and the entry that
caused the problem.

Archives are untrusted, so the number and the size of their files are limited. An archive with a link, a device, or a
path that leads outside the folder is rejected. An archive is unpacked into a hidden folder, which gets its final name
when everything has been unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import path_text, shown
from ..._engine.common.messages import progress
from ...errors import (
    InvalidArgumentError,
    MediaTensorError,
    MissingDependencyError,
    OpenError,
    ReadError,
    SourceNotFoundError,
    WriteError,
)
from ...isolate import IsolatedWorker
from ..utils.geometry import boxes_around, boxes_to_polygons

Array = NDArray[Any]

# Limits on the process that reads a MATLAB file. The compressed file of SynthText has about 400 MB.
_MAX_MAT_SECONDS, _MAX_MAT_MEMORY = 600.0, 16 << 30

#: Maximum size of a label file in bytes. The largest published file, the list of MJSynth, has 0.5 GB.
MAX_LABEL_BYTES = 4 << 30


def missing(path: str | os.PathLike[str], what: str) -> SourceNotFoundError:
    return SourceNotFoundError(f"There is no {what} {os.fspath(path)!r}.")


def existing_folder(path: str | os.PathLike[str], what: str = "folder") -> Path:
    """Return ``path`` as a `Path`, or raise an error about ``what`` if it is not a folder."""
    if not os.path.isdir(path_text(f"The {what}", path)):
        raise missing(path, what)
    return Path(path)


def check_file(path: str | os.PathLike[str], what: str = "file") -> None:
    """Raise an error about ``what`` if ``path`` is not a file."""
    if not os.path.isfile(path_text(f"The {what}", path)):
        raise missing(path, what)


def picture_in(root: str | os.PathLike[str], name: Any, place: object) -> str:
    """Return ``name`` after checking that ``root`` has this image. Errors name ``place``, where the name comes from."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"{place} must name a picture (got {shown(name)}).")
    path = os.path.join(root, name)
    if not os.path.exists(path):
        raise SourceNotFoundError(f"There is no picture {path!r}, which {place} names.")
    return name


def files_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of all visible files in a folder, sorted so that every machine gets the same order."""
    existing_folder(folder)
    with os.scandir(folder) as entries:
        return sorted(found.name for found in entries if not found.name.startswith(".") and not found.is_dir())


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a label file of at most `MAX_LABEL_BYTES`."""
    check_file(path, "label file")
    try:
        size = os.path.getsize(path)
        if size > MAX_LABEL_BYTES:
            raise OpenError(f"{path} has {size} bytes, more than the limit of {MAX_LABEL_BYTES}.")
        return Path(path).read_bytes()
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error}).") from error


def read_text(path: str | os.PathLike[str], or_latin: bool = False) -> str:
    """Read a text file in UTF-8, with or without a byte order mark, or if ``or_latin`` also in Latin-1."""
    data = _read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if or_latin:
            return data.decode("latin-1")
        raise OpenError(f"{path} is not text in UTF-8 ({error}).") from None


def read_lines(path: str | os.PathLike[str], or_latin: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (place, line) for each line that is not blank. ``place`` is "line 3 of FILE", for error messages."""
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
    """Return the root of an XML file. Files with entities are rejected, because these could use up the memory."""
    data = _read_bytes(path)
    if b"<!ENTITY" in data:
        raise OpenError(f"{path} declares entities; label files need none.")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # also for unknown encodings
        raise OpenError(f"{path} is not XML ({error}).") from None


def read_mat(path: str | os.PathLike[str], *names: str) -> list[Any]:
    """Return variables of a MATLAB file in a format older than version 7.3.

    SciPy's parser crashes on some damaged files. Therefore the file is first read in another process, as a test.
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
    except Exception as error:  # for a damaged file, SciPy raises almost any exception
        raise OpenError(f"{path} cannot be read as a MATLAB file ({error}).") from error
    for name in names:
        if name not in variables:
            raise OpenError(f"{path} has no variable {name!r}.")
    return [variables[name] for name in names]


def read_apart(path: str | os.PathLike[str], what: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``read(path, *arguments)`` from another process, because a damaged file may crash it."""
    try:
        with IsolatedWorker(timeout_seconds=_MAX_MAT_SECONDS, max_memory_bytes=_MAX_MAT_MEMORY) as worker:
            return worker.run(read, os.fspath(path), *arguments)
    except Exception as error:  # for a damaged file, parsers raise almost any exception
        raise OpenError(f"{path} cannot be read as {what} ({error}).") from error


@lru_cache
def _survive_mat(path: str, names: Sequence[str], size: int, modified_ns: int) -> None:
    """Test in another process whether SciPy's parser survives a file. A changed file is tested again."""
    read_apart(path, "a MATLAB file", _names_in_mat, names)


def _variables_of_mat(path: str, names: Sequence[str]) -> dict[str, Any]:
    from scipy.io import loadmat

    variables: dict[str, Any] = loadmat(path, variable_names=names)
    return variables


def _names_in_mat(path: str, names: Sequence[str]) -> list[str]:
    return list(_variables_of_mat(path, names))


def labels_by_picture(root: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield (image name, label, place) for each entry of a JSON file. ``place`` describes it in error messages."""
    labels = read_json(path)
    if not isinstance(labels, dict):
        raise InvalidArgumentError(
            f"{path} must hold one JSON object with a label for each name of a picture (got {shown(labels)})."
        )
    for name, label in labels.items():
        place = f"{name!r} in {path}"
        yield picture_in(root, name, place), label, place


def entry(label: Any, key: str, place: str) -> Any:
    """Return ``label[key]``, or raise an error if ``label`` is not a dict with this key."""
    if not isinstance(label, dict) or key not in label:
        raise InvalidArgumentError(f"{place} must be an object with {key!r} (got {shown(label)}).")
    return label[key]


def entries_of(label: Any, key: str, place: str) -> list[Any]:
    """Return ``label[key]``, or raise an error if it is not a list."""
    value = entry(label, key, place)
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{key!r} of {place} must be a list (got {shown(value)}).")
    return value


def text_of(word: Any, key: str, place: str) -> str:
    """Return ``word``, or its value of ``key`` if it is a dict. The result is empty if there is no text."""
    text = word.get(key) if isinstance(word, dict) else word
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{key!r} of a word of {place} must be a text (got {shown(text)}).")
    return text


def quads_of(points: Any, place: str, dtype: Any = np.float32) -> Array:
    """Convert N lists of four points to an array (N, 4, 2). N may be 0."""
    return _boxes(points, (4, 2), dtype, f"Boxes of {place} must be polygons of four points [x, y]")


def straight_boxes(boxes: Any, place: str) -> Array:
    """Convert N lists of four numbers to a float32 array (N, 4). N may be 0."""
    return _boxes(boxes, (4,), np.float32, f"Boxes of {place} must be four numbers each")


def _boxes(values: Any, shape: tuple[int, ...], dtype: Any, rule: str) -> Array:
    try:
        boxes = np.asarray(values, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        boxes = np.empty((1, 0))
    if len(values) == 0:
        boxes = np.zeros((0, *shape), dtype=dtype)
    if boxes.shape[1:] != shape or not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"{rule} (got {shown(values)}).")
    return boxes


def corners_of(boxes: Any, place: str) -> Array:
    """Return the corners, (N, 4, 2), of N upright boxes (xmin, ymin, xmax, ymax)."""
    return boxes_to_polygons(straight_boxes(boxes, place))


def boxes_of(quads: Array, use_polygons: bool) -> Array:
    """Return ``quads`` (N, 4, 2) unchanged if ``use_polygons``, or else the upright boxes (N, 4) around them."""
    return quads if use_polygons else boxes_around(quads)


#: Maximum number of files in an archive. SynthText, the largest, has 858,751.
MAX_MEMBERS = 4_000_000
#: Maximum unpacked size of an archive in bytes.
MAX_UNPACKED_BYTES = 256 << 30
#: Maximum ratio of unpacked to packed bytes, after the first GiB. For a file of zeros, it is 1000.
MAX_EXPANSION = 100

_CHUNK_BYTES = 1 << 20
_HASH_IN_NAME = re.compile(r"-([a-f0-9]{6,64})\.")


class Archive(NamedTuple):
    """A published file: its name, its URL, and the first digits of its checksum, or ``None`` if this is unknown."""

    name: str
    url: str
    sha256: str | None


def inner_folder(folder: Path, name: str) -> Path:
    """Return the subfolder ``name`` of ``folder`` if it exists, or else ``folder`` itself."""
    return folder / name if (folder / name).is_dir() else folder


def default_cache() -> Path:
    # Path.home() raises for a user without a home folder.
    return Path(os.environ.get("DOCTR_CACHE_DIR") or os.path.expanduser("~/.cache/doctr"))


def dataset_folder(dataset: str, folder: Path, archive: Archive, unpack: bool, overwrite: bool) -> Path:
    """Return the folder of a dataset, or the path of its archive if ``unpack`` is false.

    The archive is unpacked into ``folder`` if necessary. `VisionDataset` lists the errors.
    """
    file = folder / archive.name
    unpacked = folder / file.stem
    if unpack and unpacked.is_dir() and not (overwrite and file.is_file()):
        return unpacked
    if not file.is_file():
        other = f", or its contents into {unpacked}" if unpack else ""
        checksum = f" Its SHA-256 begins with {archive.sha256}." if archive.sha256 else ""
        raise SourceNotFoundError(
            f"The files of {dataset} are not on this machine, and nothing is downloaded: get {archive.url} and store "
            f"it as {file}{other}.{checksum} For another folder, set cache_dir or the environment variable "
            "DOCTR_CACHE_DIR."
        )
    _check_hash(file, archive)
    if unpack:
        _unpack(file, unpacked)
    return unpacked if unpack else file


def _check_hash(file: Path, archive: Archive) -> None:
    expected = archive.sha256
    if expected is None:
        in_name = _HASH_IN_NAME.search(archive.name)
        expected = in_name.group(1) if in_name else ""
    if not expected:
        return
    try:
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(f"{file} cannot be read ({error}).") from error
    if not found.startswith(expected):
        raise OpenError(
            f"{file} is not the file that was published, or is incomplete: its SHA-256 is {found}, and should begin "
            f"with {expected}. Get it again from {archive.url}."
        )


def _unpack(file: Path, folder: Path) -> None:
    limit = min(MAX_UNPACKED_BYTES, (1 << 30) + MAX_EXPANSION * file.stat().st_size)
    with hidden_folder(folder, f"{file} cannot be unpacked next to itself") as hidden:
        left = limit
        for number, member in enumerate(progress(_open_members(file), f"Unpacking {file.name}", unit="file")):
            if number >= MAX_MEMBERS:
                raise OpenError(f"{file} is not unpacked: it has more than {MAX_MEMBERS} files.")
            left -= member.num_bytes
            if left < 0:
                raise OpenError(f"{file} is not unpacked: it has more than {limit} bytes, the limit for its size.")
            _copy(member, hidden / _inner_path(member.name, file), file)
        hidden.chmod(0o755)
        _rename_folder(hidden, folder)


@contextmanager
def hidden_folder(folder: Path, problem: str) -> Iterator[Path]:
    """Yield a hidden folder next to ``folder``, for the ``with`` block to fill and rename; otherwise it is removed.

    If it cannot be created, raise `WriteError` with the text ``problem``.
    """
    try:
        hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name[:50]}.", dir=folder.parent))
    except OSError as error:
        raise WriteError(f"{problem} ({error}).") from error
    try:
        yield hidden
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


class _Member(NamedTuple):
    """A file in an archive, opened for reading. At most ``num_bytes``, the size stated in the archive, can be read."""

    name: str
    num_bytes: int
    opened: BinaryIO


def _open_members(file: Path) -> Iterator[_Member]:
    """Yield the files in an archive, opened for reading. Requesting the next file closes the previous one."""
    try:
        if zipfile.is_zipfile(file):
            yield from _zip_members(file)
        else:
            yield from _tar_members(file)
    except MediaTensorError:
        raise
    except Exception as error:  # every compression raises its own errors, and so do names and passwords
        raise OpenError(f"{file} is damaged, or neither a zip nor a tar archive ({error}).") from error


def _zip_members(file: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            kind = member.external_attr >> 28  # the Unix type of the file, if stored: 0o10 regular, 0o4 folder
            if kind not in (0, 0o4, 0o10):
                raise _rejection(file, member.filename, "a link or a device")
            if not member.is_dir():
                with archive.open(member) as opened:
                    yield _Member(member.filename, member.file_size, opened)  # type: ignore[arg-type]


def _tar_members(file: Path) -> Iterator[_Member]:
    with tarfile.open(file) as archive:
        for member in archive:
            if member.isdir():
                continue
            opened = archive.extractfile(member) if member.isreg() else None
            if opened is None:
                raise _rejection(file, member.name, "a link or a device")
            with opened:
                yield _Member(member.name, member.size, opened)  # type: ignore[arg-type]
            archive.members = []  # type: ignore[attr-defined]  # it would otherwise keep every member


def _inner_path(name: str, file: Path) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name.partition("/")[0] or not path.parts or "\0" in name:
        raise _rejection(file, name, "a path out of its folder")
    return Path(*path.parts)


def _rejection(file: Path, name: str, what: str) -> OpenError:
    return OpenError(f"{file} is not unpacked: its member {name!r} is {what}.")


def _copy(member: _Member, path: Path, file: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as written:
            while chunk := _read_chunk(member.opened, file):
                written.write(chunk)
    except MediaTensorError:
        raise
    except OSError as error:
        raise WriteError(f"{file} cannot be unpacked: {path} cannot be written ({error}).") from error


def _read_chunk(opened: BinaryIO, file: Path) -> bytes:
    try:
        return opened.read(_CHUNK_BYTES)
    except Exception as error:  # zlib, lzma and bz2 have their own errors
        raise OpenError(f"{file} is damaged ({error}).") from error


def _rename_folder(hidden: Path, folder: Path) -> None:
    """Rename ``hidden`` to ``folder``, replacing an old folder. If another process was faster, keep its folder."""
    old = Path(f"{hidden}.old")
    try:
        if folder.is_dir():
            folder.rename(old)
        hidden.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise WriteError(f"{folder} cannot be written ({error}).") from error
    finally:
        shutil.rmtree(old, ignore_errors=True)
