"""Write the rows of a dataset to tar or Parquet shards (`write_shards`)."""

from __future__ import annotations

import io
import math
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, count, islice
from typing import Any, BinaryIO, Literal

import numpy as np

from .._engine.common.checks import check_choice, path_text, shown, whole_number
from .._engine.common.messages import counted, json_bytes, progress, to_json, warn_user
from .._engine.common.threads import map_ahead
from .._engine.sources.output_files import check_outputs, remove_unfinished, write_error, writing
from ..errors import InvalidArgumentError, MediaTensorError, MissingDependencyError, ReadError
from ._audio_clips import AudioRecipe, VideoAudioRecipe
from ._rows.dataset import ColumnDataset, MediaDataset, rank_and_number
from ._rows.shard_contents import RowContents, contents_of, plain_columns
from ._sources.dispatch import table_error
from ._sources.items import Item, MediaKind, integer_of
from ._sources.parquet import parquet_file
from ._sources.tables import is_media_struct
from ._sources.tar_format import TarReader
from ._sources.tar_shards import group_members
from ._video_clips import VideoRecipe

_KEY_DIGITS = 9
_MAX_REASONS = 3
# Stands for the end of the rows, because a wrong row may be ``None``.
_END = object()


def write_shards(
    source: Any,
    pattern: str | os.PathLike[str],
    *,
    rows_per_shard: int = 1000,
    num_workers: int = 0,
    resume: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    rank: int | None = None,
    num_ranks: int | None = None,
) -> list[str]:
    """Write the rows of a dataset to tar or Parquet shards.

    Each file in the source of a dataset, or each segment (a row with a start and an end time), becomes a row of a
    shard. The sampler and the transforms of the dataset are not used. Files are copied. A segment becomes a new file
    with exactly its frames, and the audio of the same time:

    * If the segment begins at a key frame and its frames refer to no other frames, the packets of the video are copied.
    * Otherwise, its frames are encoded without loss: as H.264, or as FFV1 if their pixel format needs it. In both
      cases, the decoded frames are bit-identical to the source. FFV1 cannot store the luminance of HDR10.
    * Packets of audio are copied. In mp4 and mov, the file also contains the earlier packets that the decoder needs;
      players skip them. The times of samples differ from the source by less than a millisecond. Decoded AAC differs
      from the source only in its synthesized noise. If no container can hold the packets (AMR, WMA Pro), or the decoder
      would shift the samples (Vorbis), decoded samples are stored as 32-bit PCM.
    * Segments of audio files, and of `AudioClips`, are stored without loss as FLAC, or as 32-bit WAV if FLAC cannot
      hold the samples.

    The time 0 of the new file is the first frame of the segment. The columns ``clip_source``, ``clip_pts_seconds`` (the
    time of the first frame in the source), ``clip_duration_seconds`` and ``clip_is_copied`` (whether packets of the
    video were copied) replace the columns of the segment. Captions in a column or in subtitle files are cut to the
    segment, and their times count from its start. Other streams of the file are left out.

    **Tar shards** have WebDataset's layout. A row consists of the media file, a ``.cls`` file with the label if it is
    an integer, subtitle files, and a ``.json`` file with all other columns. **Parquet shards** have a column ``video``,
    ``audio`` or ``image`` with structs of ``bytes`` and ``path``, a column for each other value, and the column
    ``key``. File names and keys are the numbers of the rows. Both formats keep NaN and infinity; ``.json`` files
    contain them as ``NaN`` and ``Infinity``, as Python's ``json`` module writes them. Tensors of bfloat16 become
    float32.

    If ``source`` is a list, or a dataset of a list, folder or manifest, all Parquet shards have the same columns and
    types: those of all rows. Otherwise, each shard takes the types of its columns from its own rows, and so do columns
    of captions and arrays. If such a column is empty in one shard, or has integers in one and floats in another,
    pyarrow needs a schema for all shards together: ``pyarrow.unify_schemas([pyarrow.parquet.read_schema(s) for s in
    shards], promote_options="permissive")``.

    Each shard is written under a temporary name, and renamed when it is complete. If a process is killed, a hidden file
    ``.*.part`` remains, which the next call with the same ``pattern`` removes. Equal rows give shards with equal bytes,
    whatever the number of workers and ranks, and whether or not the run was interrupted.

    Args:
        source: A dataset such as `VideoClips`, the result of `as_items`, or an iterable of rows. A row is an `Item`, or
            a mapping from names to values: bytes, whose name is the ending of a file name (``"jpg"``); text, numbers
            and anything else that JSON can store; tensors and arrays, stored as ``.npy`` or nested lists; images of
            PIL, stored as PNG unless the name is another image format; or a mapping with ``bytes`` and ``path``. If its
            ``bytes`` are ``None``, the file at ``path`` is read. Columns such as ``__key__`` are left out. Plain paths
            are text: pass ``as_items(rows, kind="video")`` to write their files.
        pattern: Path of the shards, with a field for their number, such as ``"out/train-{:06d}.tar"``. The ending is
            ``.tar`` or ``.parquet``. Missing folders are created.
        rows_per_shard: Number of rows in each shard; the last one can have fewer.
        num_workers: Number of threads that read and cut files. With 0, the calling thread does this.
        resume: Whether to keep existing shards and write only the missing ones. The existing shards must come from an
            interrupted call with the same arguments. The numbers of their rows and the contents of their last rows are
            compared, so rows that were inserted, removed or reordered since are an error. Other edited rows are not
            noticed: delete their shards. By default, an existing shard is an error.
        on_error: ``"raise"`` raises the error of a row that cannot be read; ``"skip"`` leaves the row out, with a
            warning. A shard without any readable row is not written, and not returned. ``resume=True`` tries its rows
            again. A row that is not accepted, such as a value that JSON cannot store, always raises an error.
        rank: Rank of this process; by default its rank in torch.distributed, or 0. Each rank writes every
            ``num_ranks``-th shard.
        num_ranks: Number of processes that write together; by default the number in torch.distributed, or 1.

    Returns:
        List of the paths (``str``) of the shards of this rank, in order, including existing shards that ``resume``
        keeps.

    Raises:
        InvalidArgumentError: if there are no rows, an argument or a row is not accepted, or a shard exists already.
        WriteError: if a shard cannot be written.
        EncodeError: if frames cannot be stored without loss, for example because their size changes.
        MissingDependencyError: if pyarrow is needed but not installed.
        MediaTensorError: if a media file cannot be read, unless ``on_error`` is ``"skip"``.
        ReadError: if ``on_error`` is ``"skip"``, ``num_ranks`` is 1, and no row can be read.

    Example:
        >>> from mediatensor.datasets import VideoClips, write_shards
        >>> moments = VideoClips([{"path": "video.mp4", "start": 1.6, "end": 3.2, "label": 7}], num_frames_per_clip=8)
        >>> write_shards(moments, "shards/moments-{:03d}.tar")
        ['shards/moments-000.tar']
        >>> clips = VideoClips("shards/moments-000.tar", num_frames_per_clip=8)
        >>> sample = clips[0]
        >>> sample.frames.data.shape, sample.label, sample.extra["clip_pts_seconds"], sample.extra["clip_is_copied"]
        (torch.Size([8, 3, 360, 640]), 7, 1.6, True)
    """
    name_shard = _checked_pattern(pattern)
    rows_per_shard = whole_number("rows_per_shard", rows_per_shard, at_least=1)
    num_workers = whole_number("num_workers", num_workers, at_least=0)
    check_choice("on_error", on_error, ("raise", "skip"))
    rank, num_ranks = rank_and_number(rank, num_ranks)
    rows = _Rows(source)
    if rows.num_rows is not None:  # find out before hours of work
        num_shards = math.ceil(rows.num_rows / rows_per_shard)
        _check_outputs(map(name_shard, range(rank, num_shards, num_ranks)), name_shard(num_shards), resume)
    columns = plain_columns(rows.in_memory) if _is_table(name_shard(0)) else {}
    types = {name: _arrow_array(name, values).type for name, values in columns.items()}
    shards: list[str] = []
    left_out: list[str] = []
    failures: list[str] = []
    with ThreadPoolExecutor(max(1, num_workers)) as pool:
        number = -1
        for number in progress(count(), "shards", unit="shard"):
            first = number * rows_per_shard
            stop, path = first + rows_per_shard, name_shard(number)
            is_own = number % num_ranks == rank
            is_kept = is_own and resume and os.path.lexists(path)
            if is_kept or not is_own:
                num_rows = rows.skip(first, stop)
                if not num_rows:
                    break
                if is_kept:
                    remove_unfinished(path)
                    last = first + num_rows - 1, rows.last_before(first + num_rows)
                    _check_kept(path, first, last, rows.kind, has_all=on_error == "raise")
                    shards.append(path)
                continue
            taken = rows.take(first, stop)
            if (row := next(taken, _END)) is _END:
                break
            remove_unfinished(path)
            _check_outputs([path], None, resume)
            _make_folder(path)
            make = partial(_make_contents, kind=rows.kind, is_table=_is_table(path), skips=on_error == "skip")
            numbered = enumerate(chain([row], taken), first)
            made = map_ahead(pool, make, numbered, 2 * num_workers) if num_workers else map(make, numbered)
            if _write_shard(path, made, types, failures):
                shards.append(path)
            else:
                left_out.append(path)
    if not number:
        raise InvalidArgumentError("There are no rows: the source is empty.")
    _check_outputs((), name_shard(number), resume)
    if failures:
        if not shards and num_ranks == 1:
            raise ReadError(f"No row could be read: {failures[0]}")
        reasons = "; ".join(failures[:_MAX_REASONS]) + ("; ..." if len(failures) > _MAX_REASONS else "")
        empty = (
            f" {counted(len(left_out), 'shard')} had no row and {'was' if len(left_out) == 1 else 'were'} not written; "
            f"the first is {left_out[0]}."
            if left_out
            else ""
        )
        warn_user(
            f"{counted(len(failures), 'row')} could not be read and {'is' if len(failures) == 1 else 'are'} not in the "
            f"shards: {reasons.rstrip('.')}.{empty}"
        )
    return shards


def _checked_pattern(pattern: str | os.PathLike[str]) -> Callable[[int], str]:
    text = path_text("pattern", pattern)
    try:
        names = {text.format(number) for number in (0, 1, 10**6)}
    except (IndexError, KeyError, ValueError, AttributeError):
        names = set()
    if len(names) != 3 or os.path.splitext(text)[1].lower() not in (".tar", ".parquet"):
        raise InvalidArgumentError(
            f"pattern must be a path with one field for the number of the shard, and the ending .tar or .parquet, such "
            f"as 'out/{{:06d}}.tar' (got {text!r})."
        )
    return text.format


def _is_table(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _key(row: int) -> str:
    return f"{row:0{_KEY_DIGITS}d}"


class _Rows:
    """The rows of a source, in order. ``num_rows`` is ``None`` if it is known only at the end."""

    def __init__(self, source: Any) -> None:
        self.kind: MediaKind | None = None
        if isinstance(source, ColumnDataset):
            raise InvalidArgumentError(
                f"source is a {type(source).__name__}, whose rows are values and not files. Pass its rows, as in "
                "(dataset[row] for row in range(len(dataset)))."
            )
        if isinstance(source, MediaDataset):
            # The recipe of text clips is one of video clips.
            kinds: dict[type, MediaKind] = {AudioRecipe: "audio", VideoAudioRecipe: "video", VideoRecipe: "video"}
            self.kind = next((kind for recipe, kind in kinds.items() if isinstance(source.recipe, recipe)), None)
            source = source.items
        is_other = isinstance(source, str | bytes | os.PathLike | Mapping | Item | set | frozenset)
        if is_other or not (isinstance(source, Iterable) or hasattr(source, "__getitem__")):
            raise InvalidArgumentError(
                f"source must be a dataset or an ordered iterable of rows (got {shown(source)}). For a folder, a "
                "manifest or shards, pass as_items(source, kind='video')."
            )
        if hasattr(source, "columns"):  # an index of a table is a column
            raise table_error(source)
        is_indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        self.num_rows: int | None = len(source) if is_indexed else None
        self._source = source if is_indexed else iter(source)
        self._last: Any = None
        #: The rows, if looking at them reads no files; otherwise empty.
        self.in_memory: Sequence[Any] = source if isinstance(source, list | tuple) else ()

    def take(self, start: int, stop: int) -> Iterator[Any]:
        """Return the rows from ``start`` to ``stop``, which are the next rows of an iterable."""
        if self.num_rows is None:
            return islice(self._source, stop - start)
        return (self._source[row] for row in range(start, min(stop, self.num_rows)))

    def skip(self, start: int, stop: int) -> int:
        """Pass over the rows that `take` would return, and return their number. Indexed rows are not read."""
        if self.num_rows is not None:
            return max(0, min(stop, self.num_rows) - start)
        num_rows = 0
        for row in self.take(start, stop):
            num_rows, self._last = num_rows + 1, row
        return num_rows

    def last_before(self, stop: int) -> Any:
        """Return the last row that `skip` passed over. ``stop`` is the number of the next row."""
        return self._last if self.num_rows is None else self._source[stop - 1]


def _check_outputs(paths: Iterable[str], next_path: str | None, resume: bool) -> None:
    """Raise `InvalidArgumentError` if a shard exists that would be replaced, or read together with the new shards."""
    if not resume:
        check_outputs(paths, overwrite=False, how="resume=True keeps existing shards; nothing", makes_folders=True)
    if next_path is not None and os.path.lexists(next_path):
        raise InvalidArgumentError(f"{next_path!r} is a shard of other rows. Delete it, or choose another pattern.")


def _make_folder(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
    except OSError as error:
        raise write_error(repr(path), error, "Its folder cannot be made.") from error


def _check_kept(path: str, first: int, last: tuple[int, Any], kind: MediaKind | None, *, has_all: bool) -> None:
    """Raise `InvalidArgumentError` if a shard has other rows than ``first`` to ``last``, a row with its number.

    A row whose media cannot be read any longer is not compared, and neither are media that were encoded.
    """
    keys, stored, types = _read_shard(path)
    expected = [_key(number) for number in range(first, last[0] + 1)]
    if keys != expected if has_all else not set(keys) <= set(expected):
        raise InvalidArgumentError(
            f"{path!r} does not have the rows {expected[0]} to {expected[-1]}, so another call wrote it. Delete it, or "
            "choose another pattern."
        )
    key, contents = _make_contents(last, kind, is_table=_is_table(path), skips=True)
    if isinstance(contents, str) or keys[-1:] != [key]:
        return
    written: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, suppress(InvalidArgumentError):  # a value of another type
        again = os.path.join(folder, f"again{os.path.splitext(path)[1]}")
        _write_shard(again, [(key, contents)], types, [])
        written = _read_shard(again)[1]
    encoded = {name for suffix in contents.encoded for name in (suffix.lower(), contents.media[suffix])}
    if any(stored.get(name) != written.get(name) for name in (stored.keys() | written.keys()) - encoded):
        raise InvalidArgumentError(
            f"The last row of {path!r}, {key}, differs from the row that would be written now, so the rows have "
            "changed. Delete the shards, or choose another pattern."
        )


def _make_contents(
    numbered: tuple[int, Any], kind: MediaKind | None, *, is_table: bool, skips: bool
) -> tuple[str, RowContents | str]:
    """Return the key of a row, and its contents; with ``skips``, the reason if it cannot be read."""
    number, row = numbered
    place = f"row {number}"
    try:
        return _key(number), contents_of(row, place, kind, is_table=is_table)
    except (MediaTensorError, OSError) as error:
        if not skips or isinstance(error, InvalidArgumentError):  # the row is wrong, not its file
            raise
        name = getattr(row, "name", "")
        return _key(number), f"{place}{f' ({name})' if name else ''}: {error}"


def _write_shard(
    path: str, rows: Iterable[tuple[str, RowContents | str]], types: Mapping[str, Any], failures: list[str]
) -> bool:
    """Write a shard unless it has no readable row, and return whether it was written. Add reasons to ``failures``."""

    def readable() -> Iterator[tuple[str, RowContents]]:
        for key, contents in rows:
            if isinstance(contents, str):
                failures.append(contents)
            else:
                yield key, contents

    kept = readable()
    first = next(kept, None)
    if first is None:
        return False
    with ExitStack() as stack:
        # The file appears under its name when the block ends without an error.
        file = stack.enter_context(writing(path))
        if _is_table(path):
            spool = stack.enter_context(tempfile.TemporaryFile(dir=os.path.dirname(path) or os.curdir))
            shard: _TarFile | _ParquetFile = _ParquetFile(file, spool, path, types)
        else:
            shard = _TarFile(file)
        for key, contents in chain([first], kept):
            shard.add(key, contents)
        shard.finish()
    return True


# Tar and Parquet files

#: The column of a Parquet shard with the number of the row in the whole dataset.
_KEY_COLUMN = "key"
# Bytes of media in a row group. A row group is held in memory.
_GROUP_BYTES = 1 << 26


def _read_shard(path: str) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return the keys of the rows in a shard, the values of its last row, and the types of a table's columns.

    Raise `InvalidArgumentError` if the shard is incomplete.
    """
    try:
        if _is_table(path):
            with parquet_file(path) as table:
                types = {field.name: field.type for field in table.schema_arrow if not is_media_struct(field.type)}
                if types.pop(_KEY_COLUMN, None) is None or not table.metadata.num_rows:
                    return [], {}, {}
                keys = table.read([_KEY_COLUMN]).column(0).to_pylist()
                rows = table.read_row_group(table.num_row_groups - 1)
                (row,) = rows.slice(rows.num_rows - 1).to_pylist()
            # Texts, because NaN is not equal to itself. Media are too large for it.
            return keys, {name: str(value) if name in types else value for name, value in row.items()}, types
        with open(path, "rb") as file:
            members = TarReader(file, path, can_seek=True)
            samples = list(group_members(members, lambda position, suffix, member: member))
            last: dict[str, Any] = {}
            for suffix, member in samples[-1][1].items() if samples else ():
                file.seek(member.offset)
                last[suffix] = file.read(member.size)
            return [key for key, _ in samples], last, {}
    except (MediaTensorError, OSError) as error:
        raise InvalidArgumentError(f"{path} is not a complete shard ({error}). Delete it to write it again.") from error


class _TarFile:
    """A tar shard in WebDataset's layout. Its headers have no times and no owners, so equal rows give equal bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, key: str, contents: RowContents) -> None:
        columns = dict(contents.columns)
        # Suffix, bytes, and the names of the columns that are stored in this file.
        files = [(suffix, data, [contents.media.get(suffix, suffix)]) for suffix, data in contents.files.items()]
        # Readers keep a number in a .cls file as text if it does not fit into int64.
        if type(columns.get("label")) is int and integer_of(str(columns["label"])) is not None:
            files.append(("cls", str(columns.pop("label")).encode(), [contents.given["label"]]))
        for name, array in contents.arrays.items():
            files.append((name if name.endswith("npy") else f"{name}.npy", _npy(array), [name]))
        if columns or not files:
            files.append(("json", json_bytes(columns, has_nan=True), [contents.given.get(one, one) for one in columns]))
        # Readers ignore the case of suffixes. A label in the .json file is the same value as a .cls file.
        stored = {"cls": [contents.given["label"]]} if "label" in columns else {}
        for suffix, _, names in files:
            others = stored.setdefault(suffix.lower(), names)
            if others is not names:
                raise InvalidArgumentError(
                    f"Row {key} has two files with the ending {suffix.lower()!r}, from the columns "
                    f"{', '.join(map(repr, (*others, *names)))}. Rename one of them."
                )
        for suffix, data, _ in files:
            member = tarfile.TarInfo(f"{key}.{suffix}")
            member.size = len(data)
            self._tar.addfile(member, io.BytesIO(data))

    def finish(self) -> None:
        self._tar.close()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError('Writing Parquet needs pyarrow: pip install "mediatensor[parquet]".') from None
    return pyarrow


def _arrow_array(name: str, values: list[Any], arrow_type: Any = None) -> Any:
    pyarrow = _import_pyarrow()
    try:
        name.encode()
        return pyarrow.array(values, arrow_type)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"The column {name!r} has the text {error.object!r}, which is not valid Unicode, like the name of a file "
            "whose bytes are not UTF-8. Parquet cannot store it: rename the file or the column, or write tar shards."
        ) from error
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"The values in the column {name!r} do not have one type ({error}).") from error


class _ParquetFile:
    """A Parquet shard. Files are structs of ``bytes`` and ``path``, as Hugging Face stores them, and not compressed.

    ``types`` are the known types of columns by name. Those of other columns are known only after the last row. Until
    then, files are in ``spool``, a temporary file.
    """

    def __init__(self, file: BinaryIO, spool: BinaryIO, path: str, types: Mapping[str, Any]) -> None:
        self._file = file
        self._types = types
        self._spool = spool
        self._path = path
        self._keys: list[str] = []
        # For each column, the values by row number. The value of a file is (name, position in the spool, size).
        self._files: dict[str, dict[int, tuple[str, int, int]]] = {}
        self._columns: dict[str, dict[int, Any]] = {name: {} for name in types}

    def add(self, key: str, contents: RowContents) -> None:
        self._keys.append(key)
        for suffix, data in contents.files.items():
            place = f"{key}.{suffix}", self._spool.tell(), len(data)
            self._spool.write(data)
            self._set(self._files, contents.media.get(suffix, suffix), place)
        for name, array in contents.arrays.items():
            self._set(self._columns, name, array.tolist())
        for name, value in contents.columns.items():
            self._set(self._columns, name, to_json(value, has_nan=True))

    def _set(self, columns: dict[str, dict[int, Any]], name: str, value: Any) -> None:
        values, row = columns.setdefault(name, {}), len(self._keys) - 1
        if row in values:
            raise InvalidArgumentError(f"Row {self._keys[-1]} has two values for the column {name!r}. Rename one.")
        values[row] = value

    def finish(self) -> None:
        pyarrow = _import_pyarrow()
        repeated = {_KEY_COLUMN, *self._files} & self._columns.keys() | {_KEY_COLUMN} & self._files.keys()
        if repeated:
            raise InvalidArgumentError(f"Two columns of {self._path} have the name {min(repeated)!r}. Rename yours.")
        num_rows = len(self._keys)
        columns = {_KEY_COLUMN: pyarrow.array(self._keys, pyarrow.string())}
        for name, values in self._columns.items():
            columns[name] = _arrow_array(name, [values.get(row) for row in range(num_rows)], self._types.get(name))
        media = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
        fields = [(name, media) for name in self._files] + [(name, column.type) for name, column in columns.items()]
        schema = pyarrow.schema(fields)
        with pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="none", use_dictionary=list(columns)
        ) as writer:
            for start, stop in self._row_groups():
                files = [pyarrow.array(self._values(name, start, stop), media) for name in self._files]
                others = [column.slice(start, stop - start) for column in columns.values()]
                writer.write_table(pyarrow.Table.from_arrays([*files, *others], schema=schema))

    def _row_groups(self) -> Iterator[tuple[int, int]]:
        start, num_bytes = 0, 0
        for row in range(len(self._keys)):
            size = sum(places[row][2] for places in self._files.values() if row in places)
            if row > start and num_bytes + size > _GROUP_BYTES:
                yield start, row
                start, num_bytes = row, 0
            num_bytes += size
        yield start, len(self._keys)

    def _values(self, name: str, start: int, stop: int) -> list[dict[str, Any] | None]:
        values: list[dict[str, Any] | None] = []
        for row in range(start, stop):
            place = self._files[name].get(row)
            if place is None:
                values.append(None)
                continue
            path, position, size = place
            self._spool.seek(position)
            values.append({"bytes": self._spool.read(size), "path": path})
        return values
