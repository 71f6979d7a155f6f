"""Find and unpack dataset archives on this machine. Nothing is downloaded.

Archives are untrusted. They are unpacked within limits into a hidden folder, which is renamed when it is complete.
Members with paths outside the folder, links and devices are rejected.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from ..._engine.common.messages import progress
from ...errors import MediaTensorError, OpenError, ReadError, SourceNotFoundError, WriteError

#: Largest number of files in an archive. SynthText, the largest, has 858,751.
MAX_MEMBERS = 4_000_000
#: Largest unpacked size of an archive in bytes.
MAX_UNPACKED_BYTES = 256 << 30
#: Largest ratio of unpacked to packed bytes, beyond the first GiB. A file of zeros has 1000.
MAX_EXPANSION = 100

_CHUNK_BYTES = 1 << 20
_HASH_IN_NAME = re.compile(r"-([a-f0-9]{6,64})\.")


class Archive(NamedTuple):
    """A published dataset file: file name, URL, and start of its SHA-256 (``None`` if unknown)."""

    name: str
    url: str
    sha256: str | None


def inner_folder(folder: Path, name: str) -> Path:
    """Return the subfolder ``name``, or ``folder`` if the archive was unpacked without the subfolder."""
    return folder / name if (folder / name).is_dir() else folder


def default_cache() -> Path:
    """Return the folder that docTR downloads into."""
    return Path(os.environ.get("DOCTR_CACHE_DIR") or Path.home() / ".cache" / "doctr")


def dataset_folder(dataset: str, folder: Path, archive: Archive, unpack: bool, overwrite: bool) -> Path:
    """Return the folder of a dataset, unpacked if necessary. Without ``unpack``, return the path of the archive.

    Raises:
        SourceNotFoundError: Neither folder nor archive exists. The message explains where to get and put the archive.
        OpenError: The archive is not the published one, is damaged, or has rejected members.
        WriteError: The archive cannot be unpacked.
    """
    file = folder / archive.name
    unpacked = folder / file.stem
    if unpack and unpacked.is_dir() and not (overwrite and file.is_file()):
        return unpacked
    if not file.is_file():
        other = f", or its contents into {unpacked}" if unpack else ""
        checksum = f" Its SHA-256 begins with {archive.sha256}." if archive.sha256 else ""
        raise SourceNotFoundError(
            f"The files of {dataset} are not on this machine, and nothing is downloaded: get {archive.url} and put it "
            f"there as {file}{other}.{checksum} cache_dir or the environment variable DOCTR_CACHE_DIR name another "
            "folder."
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
    try:
        hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name[:50]}.", dir=folder.parent))
    except OSError as error:
        raise WriteError(f"{file} cannot be unpacked next to itself ({error}).") from error
    try:
        left = limit
        for number, member in enumerate(progress(_open_members(file), f"Unpacking {file.name}", unit="file")):
            if number >= MAX_MEMBERS:
                raise OpenError(f"{file} is not unpacked: more than {MAX_MEMBERS} files are in it.")
            left -= member.num_bytes
            if left < 0:
                raise OpenError(f"{file} is not unpacked: more than {limit} bytes are in it, the limit for its size.")
            _copy(member, hidden / _inner_path(member.name, file), file)
        hidden.chmod(0o755)
        _rename_folder(hidden, folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


class _Member(NamedTuple):
    """A file in an archive. It cannot be read beyond its stated size."""

    name: str
    num_bytes: int
    opened: BinaryIO


def _open_members(file: Path) -> Iterator[_Member]:
    """Yield the files in an archive. Each file is open until the next file is yielded."""
    try:
        if zipfile.is_zipfile(file):
            yield from _zip_members(file)
        else:
            yield from _tar_members(file)
    except MediaTensorError:
        raise
    except Exception as error:  # each compression has its own errors, and so have names and passwords
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
            archive.members = []  # type: ignore[attr-defined]  # otherwise it would keep every member


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
    except OSError as error:
        if isinstance(error, MediaTensorError):
            raise
        raise WriteError(f"{file} cannot be unpacked: {path} cannot be written ({error}).") from error


def _read_chunk(opened: BinaryIO, file: Path) -> bytes:
    try:
        return opened.read(_CHUNK_BYTES)
    except Exception as error:  # zlib, lzma and bz2 have their own errors
        raise OpenError(f"{file} is damaged ({error}).") from error


def _rename_folder(hidden: Path, folder: Path) -> None:
    """Rename the unpacked folder to its final name, unless another process has unpacked it meanwhile."""
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
