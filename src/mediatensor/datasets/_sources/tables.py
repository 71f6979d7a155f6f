"""Items from the rows of tables, tables that contain media, and subtitle files next to media files.

In this module, a row is a row of a table, which describes a file, and not a sample of a dataset.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..._engine.common.checks import real_number, shown
from ..._engine.common.messages import seconds_from_text
from ..._engine.sources.readers import MemoryReader, Reader
from ..._engine.sources.source import Source, url_scheme
from ...errors import InvalidArgumentError, MediaTensorError
from .items import (
    LABEL_COLUMNS,
    MEDIA_COLUMNS,
    SEGMENT_COLUMNS,
    Item,
    LabelCoding,
    LazyItems,
    MediaKind,
    UnreadableSource,
    with_coded_labels,
)

#: The column with the captions of a row, or with the path where they are.
CAPTIONS_COLUMN = "captions"

#: The extensions of subtitle files, in lower case, in order of preference.
SUBTITLE_EXTENSIONS = (".srt", ".vtt", ".ass", ".ssa")

# A language such as "en", "eng", "en-US" or "zh_Hans", optionally followed by words such as "forced".
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*(\.[A-Za-z]+)*|forced")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Columns:
    """The names of the columns that have the file, the label and the segment of a row.

    If ``media`` is ``None``, the file is in the first column of `MEDIA_COLUMNS` that is not empty. If ``label`` is
    ``None``, the label is in the first column of `LABEL_COLUMNS` that exists. If ``classes`` is ``None``, the classes
    are all different labels, sorted by name. If ``has_segments`` is false, `SEGMENT_COLUMNS` count as ordinary columns.
    """

    kind: MediaKind
    media: str | None = None
    label: str | None = None
    classes: tuple[str, ...] | None = None
    has_segments: bool = True

    @property
    def media_names(self) -> tuple[str, ...]:
        return MEDIA_COLUMNS[self.kind] if self.media is None else (self.media,)

    @property
    def label_names(self) -> tuple[str, ...]:
        return LABEL_COLUMNS if self.label is None else (self.label,)

    def choose(self, holding_media: Sequence[str], names: Sequence[str], place: str, *, has_bytes: bool) -> str | None:
        """Return the name of the column that has the files of a table.

        Return ``None`` if the column can differ between rows, so that it must be found by name in each row. ``names``
        are all columns of the table. ``holding_media`` are the columns with a media type. ``has_bytes`` means that the
        table has a column ``bytes`` with media. ``place`` names the table in messages.
        """
        for given in (self.media, self.label):
            if given is not None and given not in names:
                raise InvalidArgumentError(f"{place} has no column {given!r}; it has {', '.join(names)}.")
        if self.media is not None:
            return self.media
        by_name = [name for name in self.media_names if name in holding_media]
        if by_name or len(holding_media) == 1:
            return [*by_name, *holding_media][0]
        if holding_media:
            raise InvalidArgumentError(
                f"{place} has several columns with media: {', '.join(holding_media)}. Choose one: "
                f"as_items(source, kind={self.kind!r}, media_column={holding_media[0]!r})."
            )
        if not has_bytes and not any(name in names for name in self.media_names):
            raise self.none_of_them(place, names)
        return None

    def none_of_them(self, place: str, names: Sequence[Any]) -> InvalidArgumentError:
        columns = ", ".join(map(str, names)) or "none"
        return InvalidArgumentError(
            f"{place} names no file: it has no value in a column {' or '.join(self.media_names)} (its columns: "
            f"{columns}). Give the name of the right column as media_column of as_items."
        )


def item_of_table_row(
    row: Mapping[Any, Any], columns: Columns, *, place: str, folder: str | None = None, may_be_empty: bool = False
) -> Item:
    """Make an item from a row of a table. A label that is text stays text.

    The value in the file column can be a path, a URL, bytes, or a mapping with ``path`` and ``bytes``. The bytes can
    also be in a column ``bytes``. ``place`` names the row in messages, and is the file's name if the file has no path.
    Paths of files and captions are relative to ``folder``. A row without a file raises an error; with ``may_be_empty``,
    the error is raised only when the item is read.
    """
    media = next((name for name in columns.media_names if not _is_empty(row.get(name))), None)
    contents = row.get("bytes")
    data: bytes | Source | None = contents if isinstance(contents, Source) else None
    if isinstance(contents, bytes | bytearray | memoryview):
        data = bytes(contents)
    label = next((name for name in columns.label_names if name in row), None)
    if label is None and columns.label is not None:
        raise InvalidArgumentError(f"{place} has no column {columns.label!r}; it has {', '.join(map(str, row))}.")
    source: str | os.PathLike[str] | bytes | Source | None
    source, name = media_source(None if media is None else row[media], place=place, folder=folder)
    if data is not None and not isinstance(source, bytes | Source):
        source = data  # the path is only its name
    if source is None:
        error = columns.none_of_them(place, list(row))
        if not may_be_empty:
            raise error
        source = UnreadableSource(str(error))
    segment: dict[str, Any] = segment_of_table_row(row, columns, place)
    used = {media, label, *(name for name in columns.media_names if _is_empty(row.get(name)))}
    if data is not None or contents is None:  # otherwise the column is not media, but perhaps the size of the file
        used.add("bytes")
    extra = {str(column): value for column, value in row.items() if column not in used}
    captions = extra.get(CAPTIONS_COLUMN)
    if folder is not None and isinstance(captions, str) and is_captions_path(captions):
        extra[CAPTIONS_COLUMN] = _within(folder, captions)
    return Item(source, None if label is None or _is_empty(row[label]) else row[label], name, extra, **segment)


def items_of_table_rows(rows: Sequence[Mapping[str, Any]], columns: Columns, path: str) -> list[Item]:
    """Make the items of a table that has only paths of media. The paths are relative to the folder of the table."""
    folder = os.path.dirname(path.rstrip("/"))
    items = [item_of_table_row(row, columns, place=f"row {i} of {path}", folder=folder) for i, row in enumerate(rows)]
    return with_coded_labels(items, columns.classes)


def segment_of_table_row(row: Mapping[Any, Any], columns: Columns, place: str) -> dict[str, float]:
    """Return the bounds of a row's segment, as keyword arguments for `Item`."""
    if not columns.has_segments or columns.kind not in ("video", "audio"):
        return {}
    segment: dict[str, float] = {}
    columns_of_bounds = {name: _first_filled(row, names) for name, names in SEGMENT_COLUMNS.items()}
    for name, column in columns_of_bounds.items():
        if column is None:
            continue
        value = row[column]
        try:
            seconds = seconds_from_text(value) if isinstance(value, str) else real_number(column, value)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        if math.isnan(seconds) and not isinstance(value, str) and value != value:
            continue  # a missing value in a column of numbers
        if not math.isfinite(seconds):
            raise InvalidArgumentError(
                f"{place} has {shown(value)} in the column {column!r}, a bound of the segment. It must be a time such "
                f"as 83.5, 1:23.5 or 0:01:23.5. {advice_on_segments([column])}"
            )
        segment[name] = seconds
    if len(segment) == 2 and not segment["start_seconds"] < segment["end_seconds"]:
        names = [column for column in columns_of_bounds.values() if column is not None]
        raise InvalidArgumentError(
            f"{place} has a segment from {segment['start_seconds']} s to {segment['end_seconds']} s, from the columns "
            f"{' and '.join(map(repr, names))}: the end must be after the start. {advice_on_segments(names)}"
        )
    return segment


def _first_filled(row: Mapping[Any, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if not _is_empty(row.get(name))), None)


def segment_columns(columns: Mapping[Any, Any]) -> list[str]:
    """Return the names of the columns from which the bounds of a row's segment are taken.

    >>> segment_columns({"path": "a.mp4", "start": 2.5, "end": None})
    ['start']
    """
    found = (_first_filled(columns, names) for names in SEGMENT_COLUMNS.values())
    return [name for name in found if name is not None]


def advice_on_segments(names: Sequence[str]) -> str:
    subject = f"If {' and '.join(map(repr, names))} {'means' if len(names) == 1 else 'mean'} something else"
    return f"{subject}, rename the column, or ignore it with as_items(source, kind=..., segments=False)."


def media_source(
    value: Any, *, place: str, folder: str | None = None
) -> tuple[str | os.PathLike[str] | bytes | Source | None, str]:
    """Return the source and the name of the file that a value in a row describes; the source of an empty value is None.

    ``place`` names the row in messages, and is the file's name if the file has no path.
    """
    # A decoder object of Hugging Face keeps the encoded bytes.
    encoded = getattr(value, "_hf_encoded", None)
    data = value = encoded if isinstance(encoded, Mapping) else value
    if isinstance(value, Mapping) and ("path" in value or "bytes" in value):
        data, value = value.get("bytes"), value.get("path")
    name = value if isinstance(value, str) and value else place
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), name
    if isinstance(data, Source):
        return data, name
    if _is_empty(value):
        return None, place
    if isinstance(value, str):
        path_or_url = value if folder is None else _within(folder, value)
        return path_or_url, path_or_url
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return Path(path), path
    raise InvalidArgumentError(
        f"{place} is of type {type(value).__name__} ({shown(value)}); it must be a path, a URL, bytes, or a mapping "
        "with 'path' and 'bytes'. (For a Hugging Face dataset, pass the dataset itself, not decoded rows.)"
    )


def is_url(name: str) -> bool:
    return _URL.match(name) is not None


def _within(folder: str, path: str) -> str:
    if is_url(path):
        return path
    joined = os.path.join(folder, path)
    # If the folder is "", FFmpeg must not take a file name with a colon for a URL ("concat:", "pipe:").
    return os.path.join(os.curdir, joined) if _SCHEME.match(joined) else joined


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)


def is_empty_cell(value: Any) -> bool:
    """Return whether a cell of an optional column has no value: ``None``, blank text of a CSV file, or NaN."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


# Subtitle files next to media: files of the same name, with or without a language (``talk.srt``, ``talk.en.vtt``)


def is_captions_path(text: str) -> bool:
    return "\n" not in text and os.path.splitext(text)[1].lower() in (*SUBTITLE_EXTENSIONS, ".json")


def sidecars_of(item: Item) -> Mapping[str, str | bytes | Source]:
    """Return an item's subtitle files by suffix (``"srt"``, ``"en.vtt"``). Suffixes without a language come first.

    These are ``Item.sidecars`` or, if the item has no sidecars, the subtitle files next to its local file.
    """
    sidecars = dict(item.sidecars)
    if not sidecars and isinstance(item.source, str | os.PathLike):
        path = os.fspath(item.source)
        if isinstance(path, str) and (url_scheme(path) is None or os.path.exists(path)):
            sidecars = dict(_find_next_to(path))
    return {suffix: sidecars[suffix] for suffix in sorted(sidecars, key=_rank)}


def _rank(suffix: str) -> tuple[int, int, str]:
    extension = f".{suffix.rpartition('.')[2].lower()}"
    known = SUBTITLE_EXTENSIONS.index(extension) if extension in SUBTITLE_EXTENSIONS else len(SUBTITLE_EXTENSIONS)
    return suffix.count("."), known, suffix


class _Listing(NamedTuple):
    """The files in a folder: the sorted names of its subtitle files, and the stems of the names of its other files."""

    subtitles: list[str]
    stems: frozenset[str]


def _find_next_to(path: str) -> dict[str, str]:
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    try:
        listing = _listing(folder or os.curdir, os.stat(folder or os.curdir).st_mtime_ns)
    except OSError:  # opening the media file will raise the error
        return {}
    sidecars = {}
    for number in range(bisect_left(listing.subtitles, f"{stem}."), len(listing.subtitles)):
        other = listing.subtitles[number]
        if not other.startswith(f"{stem}."):
            break
        other_stem = os.path.splitext(other)[0]
        language = other_stem[len(stem) + 1 :]
        # "a.b.srt" belongs to "a.b.mp4" if that file exists.
        if not language or (_LANGUAGE.fullmatch(language) and other_stem not in listing.stems):
            sidecars[other[len(stem) + 1 :]] = os.path.join(folder, other)
    return sidecars


@lru_cache(maxsize=16)
def _listing(folder: str, modified_ns: int) -> _Listing:
    # The result is needed for every row whose file is in the folder, so it is cached until the folder changes.
    subtitles, stems = [], set()
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, extension = os.path.splitext(entry.name)
            if extension.lower() not in SUBTITLE_EXTENSIONS:
                stems.add(stem)
            elif entry.is_file():  # reading a pipe would block
                subtitles.append(entry.name)
    return _Listing(sorted(subtitles), frozenset(stems))


# Tables with a media column


class Media(Protocol):
    leaf: str
    #: Whether the media can be read in a forked process.
    is_fork_safe: bool

    def __getitem__(self, row: int) -> bytes | Source | None: ...


class TableItems(LazyItems):
    """The items of a table that contains media.

    ``media`` reads the media of a row from its column ``leaf`` (``column.bytes`` if the column is a struct). ``rows``
    has the values of the other columns.
    """

    def __init__(self, path: str, columns: Columns, rows: list[dict[str, Any]], media: Media) -> None:
        super().__init__()
        self._path = path
        self._columns = columns
        self._rows = rows
        # A name with a dot may also be the name of a plain column.
        self._media_struct = columns.media if media.leaf == f"{columns.media}.bytes" else None
        self._media = media
        # Check the segments now, because an error during training would come late.
        for number, row in enumerate(rows):
            segment_of_table_row(row, columns, f"row {number} of {path}")
        self._label_column = next((name for name in columns.label_names if name in rows[0]), None)
        self._coding = LabelCoding.of(map(self._label, range(len(rows))), columns.classes)

    @property
    def is_fork_safe(self) -> bool:
        return self._media.is_fork_safe

    def _portable_names(self) -> list[str]:
        table = os.path.basename(self._path)
        return [self._path_beside_media(row) or f"row {number} of {table}" for number, row in enumerate(self._rows)]

    def _path_beside_media(self, row: dict[str, Any]) -> str | None:
        media = row.get(self._media_struct) if self._media_struct is not None else None
        path = media.get("path") if isinstance(media, dict) else None
        return path if isinstance(path, str) else None

    def __len__(self) -> int:
        return len(self._rows)

    def files(self) -> Iterator[str]:
        yield self._path
        for folder, _, names in os.walk(self._path):  # a Lance dataset has many files
            yield from (os.path.join(folder, name) for name in names)
        for row in self._rows:
            if (path := self._path_beside_media(row)) is not None:
                yield path if "://" in path else os.path.join(os.path.dirname(self._path), path)

    def _make(self, index: int) -> Item:
        place = f"row {index} of {self._path}"
        try:
            data = self._media[index]
        except MediaTensorError as error:  # so that the dataset's error policy applies
            return self._coding.apply(Item(UnreadableSource(f"{place}: {error}"), self._label(index), place))
        return self.with_media(index, data)

    def with_media(self, index: int, data: bytes | Source | None) -> Item:
        place = f"row {index} of {self._path}"
        row, column = self._rows[index], self._media_struct
        if column is not None:
            row = {**row, column: {**(row.get(column) or {}), "bytes": data}}
        else:
            row = {**row, self._media.leaf: data}
        folder = os.path.dirname(self._path)
        return self._coding.apply(item_of_table_row(row, self._columns, place=place, folder=folder, may_be_empty=True))

    def _label(self, index: int) -> Any:
        return None if self._label_column is None else self._rows[index][self._label_column]


# Arrow: large values stay in memory or in a memory-mapped file, and are not copied

#: Values up to this size are read as a whole, because a decoder would request most of the bytes anyway.
MAX_WHOLE_BYTES = 1 << 16
_VIEW_BYTES, _INLINE_BYTES = 16, 12


class BufferSource(Source):
    """A value in a ``pyarrow.Buffer``, as a source to open. Only the requested bytes are copied."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def open(self) -> Reader:
        return MemoryReader(memoryview(self._buffer))

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"value of {self._buffer.size} bytes"


def is_binary(arrow_type: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        return is_binary(arrow_type.value_type)
    return bool(
        types.is_binary(arrow_type)
        or types.is_large_binary(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
        or _is_view(arrow_type)
    )


def _is_view(arrow_type: Any) -> bool:
    return str(arrow_type) == "binary_view"  # pyarrow before version 16 does not have this type


def is_media_struct(arrow_type: Any) -> bool:
    """Return whether a column type is a struct with a field of media bytes, like media in Hugging Face datasets."""
    import pyarrow.types

    if not pyarrow.types.is_struct(arrow_type):
        return False
    fields = {arrow_type.field(i).name: arrow_type.field(i).type for i in range(arrow_type.num_fields)}
    return "bytes" in fields and is_binary(fields["bytes"])


def row_of_table(table: Any, media: Container[str]) -> dict[str, Any]:
    """Return the only row of a ``pyarrow.Table`` as Python objects. `media_of` converts the columns in ``media``."""
    row = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        (chunk,) = (chunk for chunk in column.chunks if len(chunk))
        row[name] = media_of(chunk) if name in media else chunk[0].as_py()
    return row


def media_of(array: Any) -> Any:
    """Return the first value of an Arrow array: bytes, or a `BufferSource` if there are many bytes.

    For a struct, return a dict whose value for ``bytes`` is converted in this way.
    """
    if array.slice(0, 1).null_count:  # `array[0]` would make a copy
        return None
    if is_media_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        return {
            name: media_of(array.field(name)) if name == "bytes" else array.field(name)[0].as_py() for name in names
        }
    if not is_binary(array.type):
        return array[0].as_py()
    if hasattr(array, "dictionary"):
        return media_of(array.dictionary.slice(array.indices[0].as_py(), 1))
    data, begin, end = _span_of_first(array)
    if end - begin <= MAX_WHOLE_BYTES:
        return b"" if end == begin else data.slice(begin, end - begin).to_pybytes()
    return BufferSource(data.slice(begin, end - begin))


def _span_of_first(array: Any) -> tuple[Any, int, int]:
    """Locate the first value of an Arrow array of bytes. Return its buffer, and its start and end in the buffer."""
    buffers = array.buffers()
    if _is_view(array.type):  # "Variable-size Binary View Layout" of Arrow's columnar format
        at = array.offset * _VIEW_BYTES
        size, _, number, begin = np.frombuffer(buffers[1], np.int32, count=4, offset=at).tolist()
        return (
            (buffers[1], at + 4, at + 4 + size) if size <= _INLINE_BYTES else (buffers[2 + number], begin, begin + size)
        )
    if str(array.type).startswith("fixed"):
        width = array.type.byte_width
        return buffers[1], array.offset * width, (array.offset + 1) * width
    offset = np.dtype(np.int64 if str(array.type).startswith("large") else np.int32)
    begin, end = np.frombuffer(buffers[1], offset, count=2, offset=array.offset * offset.itemsize).tolist()
    return buffers[2], begin, end
