"""A folder of frame indexes that many processes share, so that each file is scanned only once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

from ...errors import FrameIndexError, InvalidArgumentError
from ..common.checks import path_text
from .frame_index import FrameIndex, note_source
from .index_file import FORMAT_VERSION, SourceIdentity

ENVIRONMENT_VARIABLE = "MEDIATENSOR_INDEX_CACHE"

# Increase this number when the index of a file changes, so that indexes by earlier releases are not used.
_RULES_VERSION = 2

_folders_warned_of: set[str] = set()


def set_index_cache(folder: str | os.PathLike[str] | None) -> None:
    """Keep frame indexes in a folder that every decoder of every process uses; ``None`` turns the cache off.

    A decoder that needs an index looks for it in the folder first, and stores it there if it is missing. Media files
    are recognised by size and by their first and last 64 KiB, wherever they are, so a changed file gets a new index.
    URLs that FFmpeg opens get no cached index, nor do files that cannot be read to their end. An unusable
    folder, a full disk and damaged cache files cause at most a warning.

    The setting is stored in the environment variable ``MEDIATENSOR_INDEX_CACHE``, so that processes started later
    (DataLoader workers) use it as well. You can also set the variable outside Python. An index takes a few bytes per
    frame. The library never deletes indexes. You can delete the folder or its files at any time. Anyone with write
    access to the folder can change which frames decoders return, so share it only with people you trust.

    Args:
        folder: Created on the first write.

    Raises:
        SourceTypeError: if ``folder`` is not a path.
        InvalidArgumentError: if the system does not allow such a folder name.

    Example:
        >>> from mediatensor import get_index_cache, set_index_cache
        >>> set_index_cache("/tmp/indexes")
        >>> get_index_cache()
        '/tmp/indexes'
        >>> set_index_cache(None)
    """
    if folder is None:
        os.environ.pop(ENVIRONMENT_VARIABLE, None)
    else:
        path = os.path.abspath(path_text("folder", folder))
        try:
            os.environ[ENVIRONMENT_VARIABLE] = path
        except ValueError as error:
            raise InvalidArgumentError(f"folder must be a path of this system (got {path!r}: {error}).") from None


def get_index_cache() -> str | None:
    """Return the folder that stores frame indexes (see `set_index_cache`), or ``None``.

    Example:
        >>> from mediatensor import get_index_cache
        >>> get_index_cache() is None
        True
    """
    return os.environ.get(ENVIRONMENT_VARIABLE) or None


def cached_index(identify: Callable[[], SourceIdentity], make: Callable[[], FrameIndex]) -> FrameIndex:
    """Return the index of a source from the cache, or make and store it."""
    if get_index_cache() is None:
        return make()
    identity = identify()
    path = _path_of(identity)
    index = None if path is None else _load(path, identity)
    if index is None:
        index = make()
        store_index(index, lambda: identity)
    return index


def store_index(index: FrameIndex, identify: Callable[[], SourceIdentity]) -> None:
    """Store an index in the cache folder, if one is set. An index made by decoding replaces one made from packets.

    ``identify`` returns the source's identity. It is called only if the index does not record its source yet.
    """
    if get_index_cache() is None:
        return
    if index.made_from is None:
        note_source(index, identify())
    assert index.made_from is not None
    path = _path_of(index.made_from)
    # A read error may be temporary, so its result is not cached. A user's table is not valid for other users.
    if path is None or index.is_cut_short or index.is_authoritative:
        return
    # Another process may have stored an index made by decoding, which must not be replaced by one from packets.
    if not index.settled and _load(path, index.made_from) is not None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening a pipe for writing would block.
        if path.exists() and not path.is_file():
            raise FrameIndexError(f"{str(path)!r} is not a regular file")
        index.save(path)
    except (OSError, FrameIndexError) as error:
        _warn_once(path.parent, error)


def _path_of(identity: SourceIdentity) -> Path | None:
    folder = get_index_cache()
    key = identity.key(f"index {FORMAT_VERSION}.{_RULES_VERSION}")
    return None if folder is None or key is None else Path(folder, f"{key}.index")


def _load(path: Path, identity: SourceIdentity) -> FrameIndex | None:
    """Return the cached index of the source, or ``None`` if it is missing, invalid or of another source."""
    try:
        index = FrameIndex.load(path)
    except FrameIndexError:
        return None
    if index.made_from is None or index.made_from.differences(identity, is_decoded=True):
        return None
    return index


def _warn_once(folder: Path, error: Exception) -> None:
    if str(folder) not in _folders_warned_of:
        _folders_warned_of.add(str(folder))
        warnings.warn(
            f"Frame indexes cannot be kept in {str(folder)!r}, so files are read for their index again and again "
            f"({error}). Choose another folder with mediatensor.set_index_cache, or None.",
            stacklevel=2,
        )
