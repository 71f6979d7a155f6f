"""Turn a row into the files and columns that a shard stores."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._engine.common.checks import shown
from ..._engine.common.messages import json_bytes, subrip, text_lines, to_json
from ..._engine.pyav.opening import read_container_info
from ..._engine.sources.source import make_source, read_whole
from ...errors import InvalidArgumentError, MediaTensorError, OpenError, ReadError, StreamError
from .._sources.items import MEDIA_COLUMNS, MEDIA_EXTENSIONS, Item, MediaKind
from .._sources.tables import CAPTIONS_COLUMN, is_empty_cell, segment_columns, sidecars_of
from .._sources.tar_shards import is_subtitles
from .captions import FileCaption, read_captions
from .clip_cutting import CutClip, cut_audio, cut_video

# The first bytes of files whose names have no extension.
_SIGNATURES = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"GIF8": "gif", b"%PDF": "pdf"}
# FFmpeg's names of formats that differ from the usual extension.
_EXTENSION_OF_FORMAT = {"mov": "mp4", "matroska": "mkv", "mpegts": "ts", "mpeg": "mpg"}
_SUFFIX = re.compile(r"[^/.\x00-\x1f][^/\x00-\x1f]*")
_MEDIA_NAMES = frozenset(name for names in MEDIA_COLUMNS.values() for name in names)


@dataclass
class RowContents:
    """The contents of a row.

    ``files`` maps suffixes (``mp4``, ``depth.png``, ``en.srt``) to bytes. ``media`` maps the suffix of each media file
    to the name of its column in a table. ``arrays`` and ``columns`` map names to all other values; values in
    ``columns`` can be stored as JSON. ``given`` maps names in ``columns`` to the names that the row has for them.
    ``encoded`` has the suffixes of media that are not copied but encoded, to other bytes by other versions of encoders.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    media: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    encoded: set[str] = field(default_factory=set)


def contents_of(row: Any, place: str, kind: MediaKind | None, *, is_table: bool) -> RowContents:
    """Return the contents of a row: of an `Item`, or of a mapping from names to values.

    ``place`` names the row in messages. ``kind`` is the kind of media of an item, if it is known. In a table, captions
    from a subtitle file of an item become the column ``captions``. Raises `InvalidArgumentError` only if the row itself
    is wrong; media that cannot be read raise other errors.
    """
    contents = RowContents()
    if isinstance(row, Item):
        _add_item(contents, row, place, kind, is_table=is_table)
    elif isinstance(row, Mapping):
        for name, value in row.items():
            if not isinstance(name, str):
                raise InvalidArgumentError(f"{place} has a column {name!r}; the names of columns must be text.")
            if _is_stored(name):
                _add_value(contents, name, value, place, is_table=is_table)
        if not contents.files:
            _check_names_no_file(row, place)
    else:
        raise InvalidArgumentError(
            f"{place} is of type {type(row).__name__}; a row must be an Item, or a mapping from names to values, such "
            "as "
            '{"jpg": data, "label": 3}.'
        )
    return contents


# Rows that are mappings


def _add_value(contents: RowContents, name: str, value: Any, place: str, *, is_table: bool) -> None:
    if _is_file(value):
        data = read_whole(value["path"]) if value["bytes"] is None else bytes(value["bytes"])
        suffix = _extension(str(value.get("path") or ""), data, place)
        _add_file(contents, f"{name}.{suffix}", data, place)
        contents.media[f"{name}.{suffix}"] = name
    elif isinstance(value, bytes | bytearray | memoryview):
        _add_file(contents, name, bytes(value), place)
    elif _is_image(value):
        _add_image(contents, name, value, place)
    elif isinstance(value, Tensor | np.ndarray) and value.ndim:
        if not is_table:
            _check_suffix(name, "an array", place)
        contents.arrays[name] = _array_of(value, name, place) if isinstance(value, Tensor) else value
        if contents.arrays[name].dtype.hasobject:
            raise InvalidArgumentError(f"{place} has an array of Python objects in the column {name!r}.")
    elif isinstance(value, str) and not is_table and (name == "txt" or is_subtitles(name)):
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"{place} has a text in the column {name!r} that is not valid Unicode (got {shown(value)}), so the "
                "file cannot be written in UTF-8. Replace the surrogates, or pass bytes."
            ) from None
        _add_file(contents, name, data, place)
    else:
        for column, one, given in _columns_of(name, value):
            _add_column(contents, column, one, given, place)


def _columns_of(name: str, value: Any) -> list[tuple[str, Any, str]]:
    """Return the columns in which a value is stored: for each, its name, its value, and the name that the row has."""
    if name == "json" and isinstance(value, Mapping):
        return [(str(key), one, f"json[{key!r}]") for key, one in value.items()]
    if isinstance(value, Tensor | np.generic | np.ndarray):
        value = value.item()
    return [("label" if name == "cls" else name, value, name)]


def plain_columns(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the values of the columns that `contents_of` will return for rows, without reading files.

    Columns that have files or arrays in some rows are left out, and so are captions and the columns of cut segments.
    """
    columns: dict[str, list[Any]] = {}
    other_names = set()
    for row in rows:
        values = _values_of_item(row) if isinstance(row, Item) else row if isinstance(row, Mapping) else {}
        for name, value in values.items():
            is_array = isinstance(value, Tensor | np.ndarray) and value.ndim
            if _is_file(value) or isinstance(value, bytes | bytearray | memoryview) or _is_image(value) or is_array:
                other_names.add(name)
            elif _is_stored(name):
                for column, one, _ in _columns_of(name, value):
                    one = os.fspath(one) if isinstance(one, os.PathLike) else to_json(one, has_nan=True)
                    columns.setdefault(column, []).append(one)
    return {name: values for name, values in columns.items() if name not in other_names}


def _add_column(contents: RowContents, name: str, value: Any, given: str, place: str) -> None:
    if name in contents.columns:
        raise InvalidArgumentError(
            f"{place} has the columns {contents.given[name]!r} and {given!r}, which would both be stored as {name!r}. "
            "Rename one of them."
        )
    contents.columns[name] = _checked_json(value, given, place)
    contents.given[name] = given


def _is_stored(name: Any) -> bool:
    return isinstance(name, str) and not (name.startswith("__") and name.endswith("__"))


def _is_image(value: Any) -> bool:  # of PIL
    return callable(getattr(value, "save", None)) and hasattr(value, "getbands")


def _is_file(value: Any) -> bool:
    if not isinstance(value, Mapping) or "bytes" not in value:
        return False
    is_path = value["bytes"] is None and isinstance(value.get("path"), str | os.PathLike) and value["path"]
    return is_path or isinstance(value["bytes"], bytes | bytearray | memoryview)


def _check_names_no_file(row: Mapping[str, Any], place: str) -> None:
    """Raise `InvalidArgumentError` if a row without media has the path of a media file, because the user means it."""
    for name, value in row.items():
        if name not in _MEDIA_NAMES or not isinstance(value, str | os.PathLike):
            continue
        path = os.fspath(value)
        kind = _kind_of(os.path.splitext(path)[1].lower())
        if kind is not None and os.path.isfile(path):
            raise InvalidArgumentError(
                f"{place} has the path of a file in the column {name!r} ({shown(value)}), and no media. To write the "
                f"file, or a segment of it, pass as_items(rows, kind={kind!r}) as the source."
            )


def _array_of(tensor: Tensor, name: str, place: str) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # NumPy has no bfloat16; float32 has all its values
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise InvalidArgumentError(
            f"{place} has a {tensor.layout} tensor of {tensor.dtype} in the column {name!r}, which NumPy cannot store "
            f"({error}). Convert it, for example with to_dense() or float()."
        ) from None


def _check_suffix(suffix: str, what: str, place: str) -> None:
    if not _SUFFIX.fullmatch(suffix):
        raise InvalidArgumentError(
            f"{place} has {what} in the column {suffix!r}. This name must be the ending of a file name, such as 'jpg'."
        )


def _add_file(contents: RowContents, suffix: str, data: bytes, place: str) -> None:
    _check_suffix(suffix, "bytes", place)
    if suffix.lower() in map(str.lower, contents.files):
        raise InvalidArgumentError(f"{place} has two files with the ending {suffix!r}. Rename a column.")
    contents.files[suffix] = data


def _add_image(contents: RowContents, name: str, image: Any, place: str) -> None:
    extension = name.rpartition(".")[2].lower()
    file = io.BytesIO()
    suffix = name if f".{extension}" in MEDIA_EXTENSIONS["image"] else f"{name}.png"
    try:
        image.save(file, {"jpg": "jpeg", "tif": "tiff"}.get(extension, extension) if suffix == name else "png")
    except (OSError, KeyError, ValueError) as error:
        raise InvalidArgumentError(
            f"{place} has an image in the column {name!r} that PIL cannot save: {error}"
        ) from None
    _add_file(contents, suffix, file.getvalue(), place)
    contents.media[suffix] = name
    contents.encoded.add(suffix)


def _checked_json(value: Any, name: str, place: str) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    try:
        json_bytes(value)
    except (TypeError, ValueError, RecursionError):
        raise InvalidArgumentError(
            f"{place} has a value of type {type(value).__name__} in the column {name!r} ({shown(value)}); a value must "
            "be bytes, text, a number, a tensor, a PIL image, or another value that JSON can store."
        ) from None
    return value


# Rows that are items


def _add_item(contents: RowContents, item: Item, place: str, kind: MediaKind | None, *, is_table: bool) -> None:
    captions = item.extra.get(CAPTIONS_COLUMN)
    for name, value in _values_of_item(item).items():
        _add_value(contents, name, value, place, is_table=is_table)
    cut = None
    if _is_segment(item):
        cut = _cut(item, kind)
        data, extension = cut.data, cut.extension
        contents.encoded.add(extension)
        contents.columns |= {
            "clip_source": item.name,
            "clip_pts_seconds": cut.pts_seconds,
            "clip_duration_seconds": cut.duration_seconds,
            "clip_is_copied": cut.is_copied,
        }
    else:
        data = read_whole(item.source)
        extension = _extension(item.name, data, item.name)
    _add_file(contents, extension, data, place)
    contents.media[extension] = kind or _kind_of(f".{extension}") or "video"
    sidecars = sidecars_of(item)
    if is_table and is_empty_cell(captions):
        captions = next(iter(sidecars.values()), None)
    if not is_empty_cell(captions):
        contents.columns[CAPTIONS_COLUMN] = [_caption_columns(one) for one in _captions_of(captions, item, cut)]
    for suffix, sidecar in () if is_table else sidecars.items():
        if cut is None:
            contents.files[suffix] = read_whole(sidecar)
            continue
        cues = (
            (round(one.start_seconds * 1000), round(one.end_seconds * 1000), text_lines(one.text))
            for one in _captions_of(sidecar, item, cut)
        )
        language = suffix.rpartition(".")[0]
        contents.files.setdefault(f"{language}.srt" if language else "srt", subrip(cues).encode())


def _is_segment(item: Item) -> bool:
    return item.start_seconds is not None or item.end_seconds is not None


def _values_of_item(item: Item) -> dict[str, Any]:
    left_out = {CAPTIONS_COLUMN, *(segment_columns(item.extra) if _is_segment(item) else ())}
    values = {name: value for name, value in item.extra.items() if name not in left_out}
    if item.label is None:
        return values
    if "label" in values:
        raise InvalidArgumentError(
            f"{item.name} has a column 'label', and a label from another column. Rename the column in the source."
        )
    return {**values, "label": item.label}


def _cut(item: Item, kind: MediaKind | None) -> CutClip:
    if kind == "audio" or os.path.splitext(item.name)[1].lower() in MEDIA_EXTENSIONS["audio"]:
        return cut_audio(item)
    try:
        return cut_video(item)
    except StreamError:
        if kind == "video":
            raise
        return cut_audio(item)


def _kind_of(extension: str) -> str | None:
    return next((kind for kind, extensions in MEDIA_EXTENSIONS.items() if extension in extensions), None)


def _extension(name: str, data: bytes, place: str) -> str:
    """Return the extension of a media file, from its name or otherwise from its contents."""
    extension = os.path.splitext(name)[1].lower()
    if _kind_of(extension) is not None:
        return extension[1:]
    for signature, known in _SIGNATURES.items():
        if data.startswith(signature):
            return known
    try:
        names = read_container_info(make_source(data)).format_name.split(",")
    except MediaTensorError as error:
        raise OpenError(
            f"The format of {place} is unknown ({error}). Give the file a name with an extension, such as 'a.mp4'."
        ) from None
    return _EXTENSION_OF_FORMAT.get(names[0], names[0])


# Captions


def _captions_of(given: Any, item: Item, cut: CutClip | None) -> list[FileCaption]:
    """Return captions with times in the clip. Captions outside of the clip are left out."""
    try:
        captions = read_captions(given, item)
    except InvalidArgumentError as error:  # so that ``on_error`` applies
        raise ReadError(f"The captions of {item.name!r} cannot be read: {error}") from error
    if cut is None:
        return list(captions)
    moved = []
    for one in captions:
        start = max(one.start_seconds - cut.pts_seconds, 0.0)
        end = min(one.end_seconds - cut.pts_seconds, cut.duration_seconds)
        if start < end:
            moved.append(one._replace(start_seconds=start, end_seconds=end))
    return moved


def _caption_columns(caption: FileCaption) -> dict[str, Any]:
    return {name: value for name, value in caption._asdict().items() if value is not None}
