"""Tar shards: expand patterns in their names, open a shard to read it in order, and group its members into samples."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import itertools
import json
import marshal
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ..._engine.common.checks import optional_text, shown
from ..._engine.sources.readers import RawFile
from ..._engine.sources.source import PathSource, make_source, read_whole, stamp_of
from ...errors import InvalidArgumentError, MediaTensorError, OpenError, ReadError, SourceNotFoundError, SourceTypeError
from .items import MEDIA_EXTENSIONS, Item, LazyItems, MediaKind, UnreadableSource, check_kind, integer_of
from .tables import SUBTITLE_EXTENSIONS, is_url
from .tar_format import Member, TarMember, TarReader

#: Number of tar shards that one name with braces may mean.
MAX_SHARDS = 1_000_000

#: Bytes of a .cls, .json or .txt member, or of a subtitle file in a stream of shards.
MAX_COLUMN_BYTES = 1 << 24

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")
_BUFFER_BYTES = 1 << 16
_GZIP, _BZIP2 = b"\x1f\x8b", b"BZh"
_UNSUPPORTED = {b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}


def shard_names(shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the names of all shards that match the given names or patterns, in order.

    Braces expand to several names: ``{000..009}`` or ``{train,val}``. In a path, ``*``, ``?`` and ``[...]`` match
    existing files, in sorted order.
    """
    if not isinstance(shards, str | os.PathLike | Iterable):
        raise SourceTypeError(f"shards must be a path or a URL, or several (got {shown(shards)}).")
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    names: list[str] = []
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise SourceTypeError(f"A shard must be a path or a URL (got {shown(one)}).")
        names += _expand(str(os.fspath(one)), MAX_SHARDS - len(names))
    if not names:
        raise InvalidArgumentError("There are no shards: the list of shards is empty.")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"The shard {name} is listed twice, so every sample in it would be read twice.")
        seen.add(name)
    return names


def _expand(pattern: str, limit: int) -> list[str]:
    if os.path.exists(pattern):
        return [pattern]
    names: list[str] = []
    for name in itertools.islice(_expand_braces(pattern), limit + 1):
        found = [name] if is_url(name) or os.path.exists(name) else sorted(glob.glob(name))
        if not found:
            raise SourceNotFoundError(f"Could not open shard: {name} does not exist.")
        names += found
        if len(names) > limit:
            raise InvalidArgumentError(f"{pattern!r} matches more than {MAX_SHARDS} shards, the limit.")
    return names


def _expand_braces(pattern: str) -> Iterator[str]:
    """Yield all names that a pattern with braces stands for.

    >>> list(_expand_braces("{a,b}-{8..10}"))
    ['a-8', 'a-9', 'a-10', 'b-8', 'b-9', 'b-10']
    """
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    head, tail = pattern[: match.start()], pattern[match.end() :]
    numbers = _RANGE.fullmatch(match[1])
    choices: Iterable[str] = match[1].split(",")
    if numbers is not None:
        first, last = int(numbers[1]), int(numbers[2])
        # A leading zero in either number sets the width, as in a shell.
        is_padded = any(len(text) > 1 and text.startswith("0") for text in numbers.groups())
        width = max(map(len, numbers.groups())) if is_padded else 0
        step = 1 if first <= last else -1
        choices = (f"{number:0{width}d}" for number in range(first, last + step, step))
    elif "," not in match[1]:
        raise InvalidArgumentError(
            f"{pattern!r} has {match[0]!r}, which is neither a range of numbers ({{000..009}}) nor a list ({{a,b}})."
        )
    for choice in choices:
        for rest in _expand_braces(tail):
            yield f"{head}{choice}{rest}"


@contextmanager
def open_shard(name: str) -> Iterator[io.BufferedIOBase]:
    """Open a tar archive (a file, pipe or URL) to read it from start to end, decompressed if it is gzip or bzip2."""
    with ExitStack() as stack:
        source = make_source(name)
        if isinstance(source, PathSource):
            file = stack.enter_context(open(source.path, "rb"))
        else:
            reader = source.open()
            if isinstance(reader, str):
                raise OpenError(
                    f"Could not open shard {name}: it must be a path, or a URL of http(s) or fsspec for a file of "
                    "known size."
                )
            file = stack.enter_context(io.BufferedReader(RawFile(reader), _BUFFER_BYTES))
        beginning = file.peek(8)
        unsupported = _unsupported_compression(beginning)
        if unsupported is not None:
            raise OpenError(
                f"Could not open shard {name}: it is compressed with {unsupported}. Only gzip and bzip2 are supported."
            )
        opened: io.BufferedIOBase = file
        if beginning.startswith(_GZIP):
            opened = gzip.GzipFile(fileobj=file)
        elif beginning.startswith(_BZIP2):
            opened = bz2.BZ2File(file)
        yield stack.enter_context(opened)


def _unsupported_compression(beginning: bytes) -> str | None:
    return next((method for magic, method in _UNSUPPORTED.items() if beginning.startswith(magic)), None)


def is_compressed(beginning: bytes) -> bool:
    return beginning.startswith((_GZIP, _BZIP2)) or _unsupported_compression(beginning) is not None


#: Suffixes of the members with the label and the columns of ``extra``.
COLUMN_SUFFIXES = ("cls", "json", "txt")
_SUBTITLE_SUFFIXES = frozenset(extension[1:] for extension in SUBTITLE_EXTENSIONS)
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)

_Part = Any


def group_members(
    members: Iterable[Member], take: Callable[[int, str, Member], _Part]
) -> Iterator[tuple[str, dict[str, _Part]]]:
    """Group consecutive members of an archive into samples, and yield (key, members by suffix) for each sample.

    Members whose names have no suffix, or start with a dot, are ignored. For each member, ``take`` is called with the
    number of the sample, the suffix, and the member. Its result is the value for this suffix in the dict.

    >>> members = [Member(name, 0, 0) for name in ("1.mp4", "1.cls", "README", "2.mp4", "2.cls")]
    >>> list(group_members(members, lambda position, suffix, member: position))
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


def broken_link(archive: str, member: Member) -> UnreadableSource:
    return UnreadableSource(
        f"{archive}/{member.name} is a link to a file that cannot be read: the file is outside the archive, or the "
        "archive is compressed or comes through a pipe. Pack the archive with tar --dereference --hard-dereference."
    )


def is_media(suffix: str, kind: MediaKind, media: str | None) -> bool:
    return _rank_as_media(suffix, kind, media) is not None


def _rank_as_media(suffix: str, kind: MediaKind, media: str | None) -> int | None:
    """Return 0 if a suffix is the wanted media, 1 if it may contain it (a video for audio), and otherwise ``None``."""
    if media is not None:
        return 0 if suffix == media else None
    extension = f".{suffix.rpartition('.')[2]}"
    if extension in MEDIA_EXTENSIONS[kind]:
        return 0
    return 1 if kind == "audio" and extension in MEDIA_EXTENSIONS["video"] else None


def item_of_sample(archive: str, key: str, parts: Mapping[str, Any], *, kind: MediaKind, media: str | None) -> Item:
    """Make an item from a sample of a shard: its media file, with the label and columns from its other members.

    ``parts`` has the members by suffix. Each is bytes, a `TarMember`, an `UnreadableSource`, or a value that is already
    decoded. If a member cannot be read, opening the item raises the error, so that ``on_error`` of a dataset applies.
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
        return Item(source, label, f"{name}.{chosen}", extra, sidecars=_sidecars(parts, chosen))
    reason = f"{name} has no {media or kind}, only {', '.join(sorted(parts))}. Pass the suffix of the file as media=."
    return Item(UnreadableSource(reason), label, name, extra)


def is_subtitles(suffix: str) -> bool:
    return suffix.rpartition(".")[2] in _SUBTITLE_SUFFIXES


def _sidecars(parts: Mapping[str, Any], media: str) -> dict[str, Any]:
    # If ``media`` is ``left.mp4``, the file ``left.en.srt`` gets the suffix ``en.srt``.
    own = f"{media.rpartition('.')[0]}."
    found = {}
    for suffix, part in parts.items():
        if is_subtitles(suffix):
            is_empty = isinstance(part, TarMember) and not part.size
            found[suffix.removeprefix(own)] = b"" if is_empty else part.encode() if isinstance(part, str) else part
    return found


def _column(name: str, suffix: str, part: Any) -> Any:
    if isinstance(part, UnreadableSource):
        part.open()
    if isinstance(part, TarMember):
        if part.size > MAX_COLUMN_BYTES:
            raise ReadError(f"{part.describe()} has {part.size} bytes, more than the limit of {MAX_COLUMN_BYTES}.")
        part = read_whole(part) if part.size else b""
    if not isinstance(part, bytes):
        return part
    try:
        text = part.decode("utf-8-sig")
        value = json.loads(text) if suffix == "json" else text
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{name}.{suffix} is not {'JSON' if suffix == 'json' else 'text in UTF-8'}: {error}.") from None
    if suffix == "cls":
        label = text.strip()
        number = integer_of(label)
        return (label or None) if number is None else number
    return value


class TarItems(LazyItems):
    """A sequence with an `Item` for each sample in uncompressed tar shards on this machine.

    Pass it to datasets such as `VideoClips`. The shards must have WebDataset's layout: the files ``key.mp4``,
    ``key.cls``, ``key.json`` and ``key.txt``, with the same key, form one sample. When the object is made, it reads all
    headers once. Afterwards, every sample can be read directly. Shuffling, resuming and ranks therefore work as with
    ordinary files, and decoders read only the parts of a file that a clip needs. For compressed or remote shards, use
    `TarSamples`.

    The label is the content of ``.cls``, converted to an integer if possible. Without ``.cls``, it is ``"label"`` in
    ``.json``. The other values of ``.json``, and the text of ``.txt``, are in ``extra``; subtitle files (``.srt``,
    ``.en.vtt``) are in ``sidecars``. If a shard is damaged, the samples before the damage become items, followed by one
    more item. Reading that item raises an error that describes the damage, so that ``on_error`` of the dataset applies.
    Nothing is written to disk.

    Args:
        shards: A path or several paths. ``{000..009}`` and ``{a,b}`` expand to several names, and ``*`` and ``?`` match
            existing files.
        kind: Kind of media file to read: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``.
        media: Which file to read, if a sample has several media files of this kind: its suffix, such as ``"left.mp4"``.

    Raises:
        InvalidArgumentError: if there are no shards.
        SourceNotFoundError: if a shard does not exist.
        OpenError: if a shard is a URL or compressed.

    Example:
        >>> from mediatensor.datasets import TarItems, VideoClips
        >>> items = TarItems("shards/train-{000..009}.tar")  # doctest: +SKIP
        >>> items[0].name, items[0].label  # doctest: +SKIP
        ('shards/train-000.tar/jump/1.mp4', 0)
        >>> dataset = VideoClips(items, num_frames_per_clip=8, on_error="skip")  # doctest: +SKIP
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        kind: MediaKind = "video",
        media: str | None = None,
    ) -> None:
        super().__init__()
        check_kind(kind)
        optional_text("media", media)
        self.shards = shard_names(shards)
        self._kind = kind
        self._media = media
        self._index = _Index()
        self._stamps: list[tuple[int, int] | None] = []
        for number, shard in enumerate(self.shards):
            self._stamps.append(stamp_of(shard))
            for key, members in _samples(shard):
                self._index.add(number, key, members)

    def _portable_names(self) -> list[str]:
        shards = [os.path.basename(shard) for shard in self.shards]
        # The last item of a damaged shard has no members. Its key is the reason, which may differ between machines.
        samples = map(self._index.__getitem__, range(len(self)))
        return [f"{shards[number]}/{key if members else ''}" for number, key, members in samples]

    def __len__(self) -> int:
        return len(self._index)

    def _make(self, index: int) -> Item:
        number, key, members = self._index[index]
        shard, stamp = self.shards[number], self._stamps[number]
        if not members:
            return Item(UnreadableSource(key), name=shard)
        parts = {
            suffix: broken_link(shard, member) if member.is_broken_link else TarMember(shard, *member, stamp)
            for suffix, member in members.items()
        }
        return item_of_sample(shard, key, parts, kind=self._kind, media=self._media)

    def __repr__(self) -> str:
        return f"TarItems({len(self)} samples in {len(self.shards)} shards)"


class _Index:
    """The (shard number, key, members by suffix) of all samples, packed into one buffer.

    A damaged shard ends with a sample without members, whose key describes the damage. Every forked worker would copy
    the memory of a list of objects, because reading an object changes its reference count.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("q", [0])

    def add(self, shard: int, key: str, members: Mapping[str, Member]) -> None:
        places = [(suffix, member.offset, member.size) for suffix, member in members.items()]
        self._data += marshal.dumps((shard, key, places))
        self._ends.append(len(self._data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> tuple[int, str, dict[str, Member]]:
        shard, key, places = marshal.loads(self._data[self._ends[index] : self._ends[index + 1]])
        return shard, key, {suffix: Member(f"{key}.{suffix}", offset, size) for suffix, offset, size in places}


def _samples(shard: str) -> Iterator[tuple[str, dict[str, Member]]]:
    """Yield (key, members by suffix) for each sample of a shard.

    If the shard is damaged, the last pair is (a description of the damage, an empty dict).
    """
    if is_url(shard):
        raise OpenError(f"Could not open shard {shard}: it is not on this machine. Use TarSamples for URLs.")
    try:
        if not stat.S_ISREG(os.stat(shard).st_mode):
            raise OpenError(f"Could not open shard {shard}: it is not a regular file. Use TarSamples for pipes.")
        with open(shard, "rb") as file:
            if is_compressed(file.peek(8)):
                raise OpenError(
                    f"Could not open shard {shard}: it is compressed, so samples cannot be read in any order. Use "
                    "TarSamples, or decompress the shard; media files are already compressed."
                )
            yield from group_members(TarReader(file, shard, can_seek=True), lambda position, suffix, member: member)
    except ReadError as damage:
        yield str(damage), {}
    except OSError as error:
        yield f"Could not open shard {shard} ({error}).", {}
