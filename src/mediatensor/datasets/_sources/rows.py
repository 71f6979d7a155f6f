"""From rows of named columns to `Item` objects."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._engine.common.checks import shown
from ..._engine.common.messages import seconds_from_text
from ..._engine.sources.source import Source
from ...errors import InvalidArgumentError
from .items import LABEL_COLUMNS, MEDIA_COLUMNS, SEGMENT_COLUMNS, Item, MediaKind, UnreadableSource
from .sidecars import CAPTIONS_COLUMN, is_captions_path

__all__ = ["Columns", "advice_on_segments", "item_of_row", "media_source", "segment_columns", "segment_of_row"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Columns:
    """Which columns of a row hold what.

    Attributes:
        kind: The kind of media.
        media: The column with the file; ``None``: the first of `MEDIA_COLUMNS` that has something in it.
        label: The column with the label; ``None``: the first of `LABEL_COLUMNS` that there is.
        classes: The names of the classes in the order of their numbers; ``None``: those of the labels, by name.
        has_segments: Whether `SEGMENT_COLUMNS` are the bounds of segments, and not columns like others.
    """

    kind: MediaKind
    media: str | None = None
    label: str | None = None
    classes: tuple[str, ...] | None = None
    has_segments: bool = True

    @property
    def media_names(self) -> tuple[str, ...]:
        """The columns that the file is looked for in, first to last."""
        return MEDIA_COLUMNS[self.kind] if self.media is None else (self.media,)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The columns that the label is looked for in, first to last."""
        return LABEL_COLUMNS if self.label is None else (self.label,)

    def choose(self, holding_media: Sequence[str], names: Sequence[str], place: str, *, has_bytes: bool) -> str | None:
        """The column with the file, of a table that knows which of its columns are made to hold media.

        Args:
            holding_media: The names of those.
            names: The names of all columns.
            place: The table in a message.
            has_bytes: Whether its column ``bytes`` holds media.

        Returns:
            ``None`` if it is to be looked for by name, row by row.

        Raises:
            InvalidArgumentError: if there is no such column, or more than one and no way to tell which.
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
                f"{place} has several columns that may be meant: {', '.join(holding_media)}. Name one: "
                f"as_items(source, kind={self.kind!r}, media_column={holding_media[0]!r})."
            )
        if not has_bytes and not any(name in names for name in self.media_names):
            raise self.none_of_them(place, names)
        return None

    def none_of_them(self, place: str, names: Sequence[Any]) -> InvalidArgumentError:
        """The error of a row, or of a table, that has nothing where the file is looked for."""
        has = ", ".join(map(str, names)) or "no column at all"
        return InvalidArgumentError(
            f"{place} names no file: there is nothing in a column {' or '.join(self.media_names)}; it has {has}. "
            "Give the name of the right column as media_column of as_items."
        )


def item_of_row(
    row: Mapping[Any, Any],
    columns: Columns,
    *,
    place: str,
    folder: str | None = None,
    may_be_empty: bool = False,
) -> Item:
    """The item of a row. Its label is as it is written.

    Args:
        row: Values by column. A file is a path, a URL, bytes, or a mapping with ``path`` and ``bytes``; bytes may also
            be in a column ``bytes`` beside it.
        columns: Which columns hold what.
        place: The row in messages; the name of a file that has no path.
        folder: The folder that paths are relative to, that of a file with captions as well; ``None`` leaves them as
            they are.
        may_be_empty: Give for a row without a file an item that fails when it is read, for the error policy.

    Raises:
        InvalidArgumentError: if there is no file in the row.
    """
    media = next((name for name in columns.media_names if not _is_empty(row.get(name))), None)
    beside = row.get("bytes")
    data: bytes | Source | None = beside if isinstance(beside, Source) else None
    if isinstance(beside, bytes | bytearray | memoryview):
        data = bytes(beside)
    label = next((name for name in columns.label_names if name in row), None)
    if label is None and columns.label is not None:
        raise InvalidArgumentError(f"{place} has no column {columns.label!r}; it has {', '.join(map(str, row))}.")
    source: str | os.PathLike[str] | bytes | Source | None
    source, name = media_source(None if media is None else row[media], place=place, folder=folder)
    if data is not None and not isinstance(source, bytes | Source):
        source = data  # the path beside it is what it is called
    if source is None:
        nothing = columns.none_of_them(place, list(row))
        if not may_be_empty:
            raise nothing
        source = UnreadableSource(str(nothing))
    segment: dict[str, Any] = segment_of_row(row, columns, place)
    used = {media, label, *(name for name in columns.media_names if _is_empty(row.get(name)))}
    if data is not None or beside is None:  # otherwise the column may hold the size of the file
        used.add("bytes")
    extra = {str(column): value for column, value in row.items() if column not in used}
    captions = extra.get(CAPTIONS_COLUMN)
    if folder is not None and isinstance(captions, str) and is_captions_path(captions):
        extra[CAPTIONS_COLUMN] = _within(folder, captions)
    return Item(source, None if label is None or _is_empty(row[label]) else row[label], name, extra, **segment)


def segment_of_row(row: Mapping[Any, Any], columns: Columns, place: str) -> dict[str, float]:
    """The segment of a file that a row names, as arguments of `Item`. Its columns stay in ``extra`` as well.

    Raises:
        InvalidArgumentError: if a value is not a time, or the end is not after the start; it names the columns.
    """
    if not columns.has_segments or columns.kind not in ("video", "audio"):
        return {}
    found: dict[str, float] = {}
    chosen = {name: _first_filled(row, names) for name, names in SEGMENT_COLUMNS.items()}
    for name, column in chosen.items():
        if column is None:
            continue
        value = row[column]
        try:
            seconds = seconds_from_text(value) if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        if math.isnan(seconds) and not isinstance(value, str) and value != value:
            continue  # what is missing in a table of numbers
        if not math.isfinite(seconds):
            raise InvalidArgumentError(
                f"{place} has {shown(value)} in the column {column!r}, which says where in the file clips come from: "
                f"it must be a time such as 83.5, 1:23.5 or 0:01:23.5. {advice_on_segments([column])}"
            )
        found[name] = seconds
    if len(found) == 2 and not found["start_seconds"] < found["end_seconds"]:
        names = [column for column in chosen.values() if column is not None]
        raise InvalidArgumentError(
            f"{place} has a segment from {found['start_seconds']} s to {found['end_seconds']} s, from the columns "
            f"{' and '.join(map(repr, names))}: the end must be after the start. {advice_on_segments(names)}"
        )
    return found


def _first_filled(row: Mapping[Any, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if not _is_empty(row.get(name))), None)


def segment_columns(columns: Mapping[Any, Any]) -> list[str]:
    """The columns of a row that say which segment of its file is meant.

    >>> segment_columns({"path": "a.mp4", "start": 2.5, "end": None})
    ['start']
    """
    found = (_first_filled(columns, names) for names in SEGMENT_COLUMNS.values())
    return [name for name in found if name is not None]


def advice_on_segments(names: Sequence[str]) -> str:
    """What to do if columns were taken for bounds of segments, and are not."""
    subject = f"If {' and '.join(map(repr, names))} {'means' if len(names) == 1 else 'mean'} something else"
    return f"{subject}, rename the column, or ignore it with as_items(source, kind=..., segments=False)."


def media_source(
    value: Any, *, place: str, folder: str | None = None
) -> tuple[str | os.PathLike[str] | bytes | Source | None, str]:
    """The source and the name for a value of a row; the source is ``None`` for an empty value.

    Raises:
        InvalidArgumentError: if no file can be read from the value.
    """
    # What a decoder of Hugging Face's rows was made of; it is decoded here.
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
        "with 'path' and 'bytes'. (Of a Hugging Face dataset, give the dataset itself: its rows are decoded here.)"
    )


def _within(folder: str, path: str) -> str:
    """A path of a manifest; a URL stays what it is."""
    if _URL.match(path):
        return path
    joined = os.path.join(folder, path)
    # A file name with a colon, which must not become a URL of FFmpeg ("concat:", "pipe:") where the folder is "".
    return os.path.join(os.curdir, joined) if _SCHEME.match(joined) else joined


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)
