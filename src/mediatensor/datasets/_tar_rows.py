"""From the members of a tar shard to samples, in WebDataset's layout: pure, but for the bytes of small members.

The members of a sample stand side by side; what their names have in common up to the first dot of the base name is the
sample's key, and what follows tells what they are: ``jump/1.mp4``, ``jump/1.cls``, ``jump/1.json``, ``jump/1.txt``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import MediaTensorError, ReadError
from ._items import Item
from ._media_kinds import MEDIA_EXTENSIONS, MediaKind
from ._tar_format import Member
from ._tar_member import TarMember, UnreadableSource

__all__ = ["COLUMN_SUFFIXES", "MAX_COLUMN_BYTES", "grouped", "is_media", "item_of_sample"]

#: Of a .cls, .json or .txt member.
MAX_COLUMN_BYTES = 1 << 24

#: Members that are read for the label and for ``extra``.
COLUMN_SUFFIXES = ("cls", "json", "txt")
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)

_Part = Any


def grouped(
    members: Iterable[Member], take: Callable[[int, str, Member], _Part]
) -> Iterator[tuple[str, dict[str, _Part]]]:
    """The samples of an archive: (key, its members by suffix).

    Args:
        members: In the order of the archive. Those whose names have no suffix, or begin with a dot, are passed over.
        take: Gives what to keep of a member, from the number of its sample, its suffix and itself.

    Example:
        >>> members = [Member(name, 0, 0) for name in ("1.mp4", "1.cls", "README", "2.mp4", "2.cls")]
        >>> list(grouped(members, lambda position, suffix, member: position))
        [('1', {'mp4': 0, 'cls': 0}), ('2', {'mp4': 1, 'cls': 1})]
    """
    position, key = 0, None
    parts: dict[str, _Part] = {}
    for member in members:
        match = _NAME.fullmatch(member.name)
        if match is None:
            continue
        suffix = match[2].lower()
        if key is not None and (match[1] != key or suffix in parts):
            yield key, parts
            position, parts = position + 1, {}
        key = match[1]
        parts[suffix] = take(position, suffix, member)
    if key is not None:
        yield key, parts


def is_media(suffix: str, kind: MediaKind, media: str | None) -> bool:
    """Whether a member with this suffix may be the media of a sample."""
    return _rank_as_media(suffix, kind, media) is not None


def _rank_as_media(suffix: str, kind: MediaKind, media: str | None) -> int | None:
    """0 for the first choice, then 1; ``None`` if it is something else."""
    if media is not None:
        return 0 if suffix == media else None
    extension = f".{suffix.rpartition('.')[2]}"
    if extension in MEDIA_EXTENSIONS[kind]:
        return 0
    # Sound may be that of a video.
    return 1 if kind == "audio" and extension in MEDIA_EXTENSIONS["video"] else None


def item_of_sample(
    archive: str, key: str, parts: Mapping[str, Any], *, kind: MediaKind, media: str | None = None
) -> Item:
    """The file of a sample, with the label and the columns that stand beside it.

    What is wrong with the sample shows when the file is opened, where a dataset's error policy sees it.

    Args:
        archive: Name of the archive.
        key: Of the sample.
        parts: Its members by suffix: bytes, `TarMember` objects, an `UnreadableSource`, or of columns what they hold.
        kind: Which member is the media.
        media: The suffix of that member, if the kind is not enough.
    """
    name = f"{archive}/{key}" if archive else key
    try:
        columns = {suffix: _column(name, suffix, parts[suffix]) for suffix in COLUMN_SUFFIXES if suffix in parts}
    except (MediaTensorError, OSError) as error:
        return Item(UnreadableSource(str(error)), name=name)
    about = columns.pop("json", {})
    extra = dict(about) if isinstance(about, dict) else {"json": about}
    label = extra.pop("label", None)
    label = columns.pop("cls", label)
    extra.update(columns)
    choices = {suffix: rank for suffix in parts if (rank := _rank_as_media(suffix, kind, media)) is not None}
    if choices:
        chosen = min(choices, key=choices.__getitem__)
        part = parts[chosen]
        source = bytes(part) if isinstance(part, bytearray | memoryview) else part
        return Item(source, label, f"{name}.{chosen}", extra)
    reason = f"{name} has no {media or kind}: there is {', '.join(sorted(parts))}. Tell its suffix with media=."
    return Item(UnreadableSource(reason), label, name, extra)


def _column(name: str, suffix: str, part: Any) -> Any:
    if isinstance(part, UnreadableSource):
        part.open()
    if isinstance(part, TarMember):
        part = _bytes_of(part)
    if not isinstance(part, bytes):
        return part
    try:
        text = part.decode("utf-8-sig")
        value = json.loads(text) if suffix == "json" else text
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{name}.{suffix} is not {'JSON' if suffix == 'json' else 'text in UTF-8'}: {error}.") from None
    return _class_number(text) if suffix == "cls" else value


def _class_number(text: str) -> int | str:
    digits = text.strip()
    return int(digits) if re.fullmatch(r"[+-]?[0-9]{1,18}", digits) else digits


def _bytes_of(member: TarMember) -> bytes:
    if member.size > MAX_COLUMN_BYTES:
        raise ReadError(f"{member.describe()} has {member.size} bytes; up to {MAX_COLUMN_BYTES} are read.")
    if not member.size:
        return b""
    reader = member.open()
    try:
        return reader.read_at(0, member.size)
    finally:
        reader.close()
