"""Which files a dataset has, and in which order, as a few values that are the same on every machine."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from .items import Item, LazyItems

__all__ = ["FileOrder", "file_order_of"]


class FileOrder(NamedTuple):
    """The files of a dataset by name, in their order.

    Attributes:
        files: A digest of the names in their order.
        files_in_any_order: A checksum of the names that does not depend on their order.
        first_file: The first name.
    """

    files: str
    files_in_any_order: int
    first_file: str


def file_order_of(items: Sequence[Item]) -> FileOrder | None:
    """The order of the files; ``None`` for items that are made on request and whose names take reading.

    The folder that all names begin with does not count: it may be another one on another machine. The bounds of
    segments do.

    >>> one = file_order_of([Item("/data/run/a.mp4"), Item("/data/jump/a.mp4")])
    >>> one == file_order_of([Item("/mnt/x/run/a.mp4"), Item("/mnt/x/jump/a.mp4")])
    True
    >>> other = file_order_of([Item("/data/jump/a.mp4"), Item("/data/run/a.mp4")])
    >>> one.files == other.files, one.files_in_any_order == other.files_in_any_order
    (False, True)
    """
    if isinstance(items, list):
        names = _without_common_folder([item.name.replace(os.sep, "/") for item in items])
        for number, item in enumerate(items):
            if item.start_seconds is not None or item.end_seconds is not None:
                names[number] += f" from {item.start_seconds} s to {item.end_seconds} s"
    else:
        found = items._portable_names() if isinstance(items, LazyItems) else None
        if found is None:
            return None
        names = found
    encoded = [name.encode("utf-8", "backslashreplace") for name in names]
    digest = hashlib.blake2b(b"\n".join(encoded), digest_size=16).hexdigest()
    return FileOrder(digest, sum(map(zlib.crc32, encoded)), encoded[0].decode() if encoded else "")


def _without_common_folder(names: list[str]) -> list[str]:
    # All names begin with whatever the smallest and the greatest begin with.
    common = os.path.commonprefix([min(names), max(names)]) if names else ""  # noqa: RUF071
    length = common.rfind("/") + 1
    return [name[length:] for name in names]
