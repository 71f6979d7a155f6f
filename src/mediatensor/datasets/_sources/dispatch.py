"""`as_items`, which lists the files of a source as items, and functions that convert items to columns and back.

Items are sent to another machine as columns, without the bytes of their media. The column ``path`` names the file,
which the other machine opens. For a member of a tar shard or a value in a Parquet table, further columns locate it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..._engine.common.checks import function, optional_text, shown
from ..._engine.sources.source import PathSource, Source, SpanSource
from ...errors import InvalidArgumentError, SourceNotFoundError, SourceTypeError
from . import manifests
from .items import (
    SEGMENT_COLUMNS,
    Item,
    LabelledItems,
    ListedItems,
    MediaKind,
    UnreadableSource,
    check_kind,
    checked_classes,
    class_number,
    with_coded_labels,
    with_label,
)
from .lance import is_lance, items_of_lance, lance_place
from .lerobot import EpisodeFiles
from .manifests import MANIFEST_EXTENSIONS, items_of_folder, items_of_text_manifest
from .parquet import (
    HuggingFaceItems,
    ParquetItems,
    ParquetShards,
    ParquetValue,
    hugging_face_type,
    items_of_parquet,
    items_of_parquet_shards,
)
from .tables import Columns, TableItems, is_empty_cell, item_of_table_row, media_source
from .tar_format import TarMember
from .tar_shards import TarItems, shard_names

# Characters of patterns that stand for several files; see `shard_names`.
_PATTERN_CHARACTERS = frozenset("{*?[")


def as_items(
    source: Any,
    *,
    kind: MediaKind,
    label: Callable[[Item], Any] | None = None,
    media_column: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | None = None,
    segments: bool = True,
) -> Sequence[Item]:
    """Return the files of a source as a sequence of `Item`, without opening them or checking that they exist.

    A missing file does not raise an error here. The error is raised when a dataset reads the file, so that ``on_error``
    of the dataset applies.

    Args:
        source: One of

            * a folder: the files in it and its sub-folders whose extension is one of `MEDIA_EXTENSIONS` for the kind,
              sorted by path. Sub-folders are classes. Hidden files are ignored;
            * a manifest: ``.csv``, ``.tsv``, ``.jsonl``, ``.json`` (a list of objects) or ``.parquet``. Its paths are
              relative to its folder. A ``.parquet`` file may be a URL. It may also contain the media themselves, in a
              column of bytes, or in a column of structs with ``bytes`` and ``path`` as Hugging Face writes them;
            * several Parquet files on this machine, such as ``train-*.parquet`` or ``train-{000..009}.parquet``;
            * tar shards on this machine, such as ``train-{000..009}.tar``; see `TarItems`;
            * a Lance dataset: its path (``.lance``) or URL, or a ``lance.LanceDataset``. The media may be in a blob
              column, or stored as in Parquet;
            * a ``datasets.Dataset`` of Hugging Face, whose rows are read on request and not decoded by ``datasets``;
            * an iterable of paths, URLs, bytes, `Item` objects, pairs (file, label), or mappings like the rows of a
              manifest. In a mapping, a file may also be bytes, or ``{"path": ..., "bytes": ...}``, where ``path`` or
              ``bytes`` may be ``None``. If ``bytes`` is given, it is the content of the file, and ``path`` is only its
              name;
            * your own sequence type, whose elements are `Item` objects. It may create them on request.
        kind: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``.
        label: Function that returns the label of an `Item`, to use instead of ``Item.label``.
        media_column: Name of the column with the file. By default, the first of these columns that is not empty:
            ``path``, ``file_name``, the name of the kind (for audio also ``video``, for documents also ``pdf`` and
            ``image``), ``url``, ``file``. If the columns of a table have types, columns with a media type are
            preferred.
        label_column: Name of the column with the label; by default ``label`` or ``labels``.
        classes: Class names in the order of their numbers, for labels that are text and for sub-folders. By default,
            the classes in the source are numbered in order of name. Pass the same ``classes`` for training, validation
            and test data, for example ``classes=train.class_names``. Otherwise the numbers shift if one of these
            datasets lacks a class.
        segments: Whether the columns ``start_seconds``, ``end_seconds``, ``start`` and ``end`` are the bounds of
            segments, as described below. If ``False``, they are ordinary columns.

    A row of a text manifest may refer to a part of its file. The columns ``start_byte`` and ``end_byte`` locate it in
    an uncompressed tar shard, ``table_column`` and ``table_row`` in a Parquet file. `DatasetReport.save_manifest`
    writes such rows. The column ``source_name`` has the name of this part.

    Rows of video and audio may be segments of their files. All clips of such a row lie between the times in the columns
    ``start_seconds`` and ``end_seconds``, or ``start`` and ``end``. A time is written as 83.5, 1:23.5 or 0:01:23.5.
    Several rows may be segments of one file.

    Returns:
        A sequence of `Item`, in the order of the source. Labels that are text become numbers. If every label is a
        number written as text, such as ``"3"``, the labels are parsed. Otherwise labels are class names, which are
        numbered in order of name, and the name is kept in ``extra["class_name"]``. A blank label counts as missing. A
        whole number that does not fit into int64 is an error; in a ``.cls`` file of a tar shard, it stays text. Other
        columns are in ``extra``, unchanged; values of a CSV file stay text. Paths in other columns are not changed. The
        exception is the column ``captions``, whose paths are relative to the folder of the manifest.

    Raises:
        InvalidArgumentError: if the source has no files, is damaged (the message names the line), exceeds a limit, or
            has an unknown form. (Put a single file or URL into a list.) It is also raised if a class of the source is
            not in ``classes``; the message names the class. For tar shards, the error about a class is raised when the
            item is requested.
        SourceTypeError: if the source has a type that cannot hold files.
        SourceNotFoundError: if the folder or manifest does not exist.
        ReadError: if a folder or a manifest cannot be read.
        MissingDependencyError: if pyarrow or Lance is needed but not installed.

    Example:
        >>> from mediatensor.datasets import as_items
        >>> rows = [{"path": "a.mp4", "label": "run", "place": "Oslo"}, {"path": "b.mp4", "label": "jump"}]
        >>> [(item.source, item.label, item.extra) for item in as_items(rows, kind="video")]
        [('a.mp4', 1, {'place': 'Oslo', 'class_name': 'run'}), ('b.mp4', 0, {'class_name': 'jump'})]
        >>> as_items([("a.mp4", 3), b"RIFF..."], kind="video")[0].label
        3
    """
    check_kind(kind)
    function("label", label)
    optional_text("media_column", media_column)
    optional_text("label_column", label_column)
    names = checked_classes(classes)
    if names is not None and label is not None:
        raise InvalidArgumentError(
            "Pass only one of label and classes: the labels that label returns are not numbered."
        )
    items = _items_of_source(source, Columns(kind, media_column, label_column, names, segments))
    if not len(items):
        raise InvalidArgumentError("There are no files: the source is empty.")
    if label is None:
        return items
    if isinstance(items, list):
        labelled = [with_label(item, label) for item in items]
        return ListedItems(labelled, items.read_from if isinstance(items, ListedItems) else ())
    return LabelledItems(items, label)


def _items_of_source(source: Any, columns: Columns) -> Sequence[Item]:
    if isinstance(source, str | os.PathLike):
        return _items_of_path(os.fspath(source), columns)
    if (hugging_face := hugging_face_type(source)) is not None:
        return _items_of_hugging_face(source, hugging_face, columns)
    if (place := lance_place(source)) is not None:
        return items_of_lance(place[0], columns, version=place[1])
    _check_is_collection(source)
    # A list may change, and may have elements that are not items.
    is_lazy = isinstance(source, Sequence) and not isinstance(source, list | tuple)
    if is_lazy and len(source) and isinstance(source[0], Item):
        return _with_classes(source, columns.classes)
    return _items_of_iterable(source, columns)


def _items_of_path(path: Any, columns: Columns) -> Sequence[Item]:
    if not isinstance(path, str):
        raise InvalidArgumentError(f"A path must be text (got {path!r}): use os.fsdecode.")
    if is_lance(path):
        return items_of_lance(path, columns)
    if os.path.isdir(path):
        return items_of_folder(path, columns.kind, columns.classes)
    stem, extension = os.path.splitext(path.lower())
    if ".tar" in (extension, os.path.splitext(stem)[1]):
        return _with_classes(TarItems(path, kind=columns.kind), columns.classes)
    is_url = "://" in path
    if is_url and extension == ".parquet":
        return items_of_parquet(path, columns)
    if extension not in MANIFEST_EXTENSIONS or is_url:
        if not is_url and not os.path.exists(path):
            raise SourceNotFoundError(f"There is no folder or manifest {path!r}.")
        raise InvalidArgumentError(
            f"{path!r} is neither a folder nor a manifest on this machine ({', '.join(MANIFEST_EXTENSIONS)}), nor "
            "the URL of a .parquet file. A single media file or URL goes into a list: [source]."
        )
    if not os.path.exists(path):
        if extension == ".parquet" and not _PATTERN_CHARACTERS.isdisjoint(path):
            return items_of_parquet_shards(shard_names(path), columns)
        raise SourceNotFoundError(f"There is no manifest {path!r}.")
    if extension == ".parquet":
        items = items_of_parquet(path, columns)
        return ListedItems(items, [path]) if isinstance(items, list) else items
    return ListedItems(map(_part_of_file, items_of_text_manifest(path, columns)), [path])


def _with_classes(items: Sequence[Item], classes: tuple[str, ...] | None) -> Sequence[Item]:
    return items if classes is None else LabelledItems(items, partial(_class_number_of, classes=classes))


def _class_number_of(item: Item, classes: tuple[str, ...]) -> Any:
    return class_number(item.label, classes)


def _items_of_hugging_face(source: Any, name: str, columns: Columns) -> Sequence[Item]:
    if name == "Dataset":
        return HuggingFaceItems(source, columns)
    if name in ("DatasetDict", "IterableDatasetDict"):
        raise InvalidArgumentError(
            f"The source is a {name} with several splits. Choose one of {', '.join(map(repr, source))}, as in "
            f"source[{next(iter(source), 'train')!r}]."
        )
    if name == "IterableDataset":
        raise InvalidArgumentError(
            "The source is a Hugging Face IterableDataset, a stream whose rows have no index. Load it without "
            "streaming=True (its rows then stay on disk until they are needed), or keep some rows: "
            "datasets.Dataset.from_list(list(stream.decode(False).take(1000)), features=stream.features)."
        )
    raise InvalidArgumentError(f"The source is a {name} of Hugging Face; pass the datasets.Dataset itself.")


def _check_is_collection(source: Any) -> None:
    kind = type(source).__name__
    if isinstance(source, Item | bytes | bytearray | memoryview | Mapping):
        raise InvalidArgumentError(f"The source is a single {kind}: put it into a list, [source].")
    if isinstance(source, set | frozenset):
        raise InvalidArgumentError("The source is a set, whose order differs between runs: pass sorted(source).")
    if not isinstance(source, Sequence) and (hasattr(source, "columns") or hasattr(source, "column_names")):
        raise table_error(source)
    if not isinstance(source, Iterable):
        raise SourceTypeError(
            f"The source is of type {kind}; it must be a folder, a manifest, a Hugging Face dataset, or an iterable of "
            f"paths, URLs, bytes, mappings or items (got {shown(source)})."
        )


def table_error(source: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The source is a table of type {type(source).__name__}. Pass its rows as mappings, such as "
        "source.to_dict('records') for a pandas.DataFrame or source.to_pylist() for a pyarrow.Table."
    )


def _items_of_iterable(source: Iterable[Any], columns: Columns) -> list[Item]:
    items: list[Item] = []
    from_rows: list[int] = []
    for number, element in enumerate(islice(source, manifests.MAX_ITEMS + 1)):
        if number == manifests.MAX_ITEMS:
            raise InvalidArgumentError(f"The source has more than {manifests.MAX_ITEMS} files, the limit.")
        if not isinstance(element, Item):
            from_rows.append(number)
        items.append(_item_of_element(element, columns, f"source[{number}]"))
    # A user's item keeps its label, unless the label is text and ``classes`` are given.
    if columns.classes is not None:
        made_here = set(from_rows)
        from_rows = [i for i, item in enumerate(items) if i in made_here or isinstance(item.label, str)]
    coded = with_coded_labels([items[i] for i in from_rows], columns.classes)
    for number, item in zip(from_rows, coded, strict=True):
        items[number] = item
    return ListedItems(items, source.read_from if isinstance(source, ListedItems) else ())


def _item_of_element(element: Any, columns: Columns, place: str) -> Item:
    if isinstance(element, Item):
        return element
    if isinstance(element, Mapping):
        return item_of_table_row(element, columns, place=place)
    label = None
    if isinstance(element, tuple | list) and len(element) == 2:
        element, label = element
        if isinstance(element, Item):
            return dataclasses.replace(element, label=label)
        if isinstance(element, Mapping):
            return dataclasses.replace(item_of_table_row(element, columns, place=place), label=label)
    source, name = media_source(element, place=place)
    if source is None:
        raise InvalidArgumentError(f"{place} is {element!r}, which is not a file.")
    return Item(source, label, name)


# Items as columns, and the files that the columns name

#: Columns that describe a part of the file at ``path``: its name and its range, or the reason why it cannot be read.
REFERENCE_COLUMNS = ("source_name", "start_byte", "end_byte", "table_column", "table_row", "unreadable")

# Columns that only parts of files have. Whole files have none of them.
_PART_COLUMNS = frozenset(("start_byte", "table_row"))
_RESERVED_COLUMNS = frozenset(("path", "row", *REFERENCE_COLUMNS))


def references_of(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Yield a dict of columns for each item, from which another machine can make the item.

    The columns are ``path``, the segment, the label, ``extra``, and any `REFERENCE_COLUMNS` that are needed. Only bytes
    in memory are included, in the column ``bytes``.
    """
    if isinstance(items.unlabelled if isinstance(items, LabelledItems) else items, HuggingFaceItems):
        raise InvalidArgumentError(
            "The source is a Hugging Face dataset, whose rows are in memory or in a cache of this machine. Write it "
            "with to_parquet and pass that file, or pass its bytes to Ray with ray.data.from_huggingface."
        )
    for number in range(len(items)):
        yield _columns_of(item_alone(items, number))


def files_of(items: Sequence[Item]) -> Iterator[str]:
    """Yield the paths and URLs of all files from which items are read, without reading any media.

    Manifests that list the items are included. A path can occur several times. Bytes in memory and a user's own source
    types have no path.
    """
    if isinstance(items, LabelledItems):
        yield from files_of(items.unlabelled)
    elif isinstance(items, TarItems):
        yield from items.shards
    elif isinstance(items, ParquetShards):
        yield from items.paths
        for table in items.tables:
            yield from files_of(table)
    elif isinstance(items, TableItems):
        yield from items.files()
    else:
        yield from getattr(items, "read_from", ())
        for number in range(len(items)):
            item = items[number]
            for source in (item.source, *item.sidecars.values()):
                yield from _files_of_source(source)


def _files_of_source(source: Any) -> Iterator[str]:
    match source:
        case str() | os.PathLike():
            yield os.fsdecode(source)
        case PathSource() | SpanSource():
            yield source.describe()
        case TarMember():
            yield source.archive
        case ParquetValue():
            yield source.table
        case EpisodeFiles():
            yield source.table
            yield from (path for _, path in source.videos)


def item_alone(items: Sequence[Item], number: int) -> Item:
    """Return the item at an index. If it is a value in a Parquet file, another machine can open its source."""
    if isinstance(items, LabelledItems):
        return items.labelled(item_alone(items.unlabelled, number))
    if isinstance(items, ParquetShards):
        items, number = items.place(number)
    return items.reference(number) if isinstance(items, ParquetItems) else items[number]


def _columns_of(item: Item) -> dict[str, Any]:
    reserved = set(_RESERVED_COLUMNS)
    if item.label is not None:
        reserved.add("label")
    bounds = {name: getattr(item, name) for name in SEGMENT_COLUMNS}
    # With ``segments=False``, such a column has no bound, but the other machine would take it for one.
    reserved.update(name for name, bound in bounds.items() if bound is None and not is_empty_cell(item.extra.get(name)))
    conflicts = sorted(reserved & item.extra.keys())
    if conflicts:
        raise InvalidArgumentError(
            f"{item.name} has a column {conflicts[0]!r}, a name that is reserved for the place, the segment or the "
            "label of the file. Rename the column in the source."
        )
    columns = {**place_of(item), **({} if item.label is None else {"label": item.label}), **item.extra}
    for name, bound in bounds.items():
        if bound is not None or name in columns:
            columns[name] = bound  # the parsed value, or None for an empty field in a column of numbers
    return columns


def place_of(item: Item) -> dict[str, Any]:
    """Return the columns that locate the file of an item: ``path``, and the `REFERENCE_COLUMNS` that are needed."""
    source = item.source
    if isinstance(source, str | os.PathLike):
        path = str(os.fspath(source))
        return {"path": path} if item.name == path else {"path": path, "source_name": item.name}
    name = {"source_name": item.name}
    if isinstance(source, bytes):
        return {"path": None, **name, "bytes": source}
    if isinstance(source, TarMember):
        span = {"start_byte": source.offset, "end_byte": source.offset + source.size}
        return {"path": source.archive, **name, **span}
    if isinstance(source, ParquetValue):
        return {"path": source.table, **name, "table_column": source.column, "table_row": source.row}
    if isinstance(source, UnreadableSource):
        return {"path": None, **name, "unreadable": source.reason}
    raise InvalidArgumentError(
        f"{item.name} is a {type(source).__name__}, which other machines cannot open. Use paths, URLs, bytes, tar "
        "shards or Parquet files."
    )


def source_of_reference(path: str | None, columns: Mapping[str, Any]) -> str | Source | None:
    """Return the source that the columns of a row describe: a file or a part of it, or ``None`` without ``path``."""
    if columns.get("unreadable"):
        return UnreadableSource(str(columns["unreadable"]))
    if path is None:
        return None
    start, end = columns.get("start_byte"), columns.get("end_byte")
    column, row = columns.get("table_column"), columns.get("table_row")
    if start is not None or end is not None:
        if not (type(start) is type(end) is int and 0 <= start <= end) or row is not None:
            raise InvalidArgumentError(
                f"A part of {path} must have a start_byte of at least 0 and an end_byte after it, and no table_row "
                f"(got {shown(start)} and {shown(end)})."
            )
        name = str(columns.get("source_name") or f"bytes {start} to {end}")
        return TarMember(path, name.removeprefix(f"{path}/"), start, end - start)
    if row is not None or column:
        if not (type(row) is int and row >= 0 and isinstance(column, str) and column):
            raise InvalidArgumentError(
                f"A value of {path} must have a table_column and a table_row of at least 0 (got {shown(column)} and "
                f"{shown(row)})."
            )
        return ParquetValue(path, column, row)
    return path


def _part_of_file(item: Item) -> Item:
    """If the columns of a manifest's item describe a part of its file, make this part the source of the item."""
    if not _PART_COLUMNS & item.extra.keys():
        return item
    columns = {name: value for name in REFERENCE_COLUMNS if (value := item.extra.get(name)) not in (None, "")}
    is_part = {"start_byte", "end_byte"} <= columns.keys() or {"table_column", "table_row"} <= columns.keys()
    if not is_part or not isinstance(item.source, str):
        return item
    for name in ("start_byte", "end_byte", "table_row"):
        if name in columns:
            try:
                columns[name] = int(columns[name])
            except (TypeError, ValueError):
                raise InvalidArgumentError(
                    f"{name} of {item.name} must be a whole number (got {shown(columns[name])})."
                ) from None
    source = source_of_reference(item.source, columns)
    assert source is not None
    extra = {name: value for name, value in item.extra.items() if name not in REFERENCE_COLUMNS}
    return dataclasses.replace(item, source=source, name=str(columns.get("source_name", item.name)), extra=extra)
