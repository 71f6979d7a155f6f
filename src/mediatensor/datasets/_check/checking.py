"""`check_dataset`: check every file of a dataset in worker processes, and store the results in a state file."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any, BinaryIO, NamedTuple, TypeVar

from ..._engine.common.checks import check_choice, items_of, path_text, whole_number
from ..._engine.common.messages import progress
from ..._engine.sources.output_files import write_error
from ..._engine.sources.source import make_source, remote_version, stamp_of
from ...errors import InvalidArgumentError, MediaTensorError, ReadError
from .._sources.dispatch import as_items, item_alone, place_of
from .._sources.items import Item, MediaKind
from .comparing import EpisodeTimes, Row, compare_files, is_lerobot, label_counts, select_segment, videos_of
from .findings import BAD_KINDS, FINDING_KINDS, CheckedFile, Finding, from_plain
from .report import MOST_FILES_ON_PAGE, DatasetReport

_Result = TypeVar("_Result")

_HEADER = b'{"mediatensor check": 5}\n'
# States of older versions have results of other rules. They are discarded, and every file is checked again.
_OLD_HEADERS = tuple(b'{"mediatensor check": %d}\n' % version for version in (1, 2, 3, 4))
# Number of servers' answers to wait for at a time.
_REQUESTS_AT_ONCE = 8


def check_dataset(
    source: Any,
    *,
    kind: MediaKind = "video",
    media_column: str | None = None,
    label_column: str | None = None,
    num_classes: int | None = None,
    decode: bool = True,
    bad_kinds: Iterable[str] = BAD_KINDS,
    num_workers: int | None = None,
    timeout_seconds: float | None = 600.0,
    state_file: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
) -> DatasetReport:
    """Check all files of a dataset before training.

    Each file is opened, and its video and audio are decoded completely on one core. Every problem becomes a `Finding`;
    the dict `FINDING_KINDS` describes all kinds of findings. Files are never changed. A row of the dataset is a file or
    a segment of a file. A row that is a segment gets only the findings within the segment, and findings that have no
    time, such as a missing end of the file.

    Args:
        source: A source for `as_items`: a folder, a manifest, Parquet, tar shards, Hugging Face rows or a list. It can
            also be the folder of a LeRobot dataset, whose tables are then checked as well. In the report on a LeRobot
            dataset, each row is a video. Its ``Item.extra`` has ``camera``, and the lists ``episodes``,
            ``begin_seconds`` and ``end_seconds`` with one value for each episode.
        kind: ``"video"`` or ``"audio"``. In a folder, only files of this kind are checked. A file without a stream of
            this kind is bad.
        media_column, label_column: Names of the columns with the file and with the label; see `as_items`.
        num_classes: Number of classes. Labels that are not whole numbers from 0 to ``num_classes - 1`` become findings.
        decode: Whether to decode the files. If ``False``, only headers, packets and bytes are read. This is faster, but
            does not find damaged, frozen or black frames, or faults in the audio.
        bad_kinds: Kinds of findings that make a file bad; by default all kinds whose severity in `FINDING_KINDS` is
            ``"bad"``.
        num_workers: Number of worker processes; by default one for each core. Each process checks one file at a time.
            If it crashes or hangs, the file gets the finding ``"unreadable"``, and the check continues. With 0, all
            files are checked in this process, without a time limit.
        timeout_seconds: Time limit in seconds for checking one file; ``None`` means no limit. A file that takes longer
            gets the finding ``"unreadable"``.
        state_file: File in which the result for each file is stored. A later call with the same ``state_file`` checks
            only new and changed files, and files that could not be read, for example within the time limit. A file
            behind a URL counts as changed if its server states another size, ETag or time of the last change. If only
            FFmpeg can open the URL, a change is not noticed.
        show_progress: Whether to show a progress bar on a terminal.

    Returns:
        A `DatasetReport`. It has a `CheckedFile` with the findings of each row, in the order of the source, and
        findings about the dataset as a whole.

    Raises:
        InvalidArgumentError: if an argument is invalid, the source has no files, or ``state_file`` exists and is not a
            state file.
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be listed; see `as_items`. A media file
            that cannot be read does not raise an error, but is a finding.
        WriteError: if ``state_file`` cannot be written.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset(["video.mp4", "damaged.mp4"], num_workers=0)
        >>> [file.name for file in report.bad_files]
        ['damaged.mp4']
        >>> report.bad_files[0].findings[0].kind
        'corrupt'
    """
    from ...isolate._worker import check_timeout
    from .media import check_file, thumbnail_of  # this import loads the decoders

    bad = tuple(items_of("bad_kinds", bad_kinds, of="names of findings"))
    for name in bad:
        if name not in FINDING_KINDS:
            raise InvalidArgumentError(
                f"bad_kinds has {name!r}, which is not a kind of finding; give names of {', '.join(FINDING_KINDS)}."
            )
    if num_workers is not None:
        num_workers = whole_number("num_workers", num_workers, at_least=0)
    timeout_seconds = check_timeout(timeout_seconds)
    if num_classes is not None:
        num_classes = whole_number("num_classes", num_classes, at_least=1)
    if not isinstance(source, ListedDataset):
        source = list_dataset(source, kind, media_column=media_column, label_column=label_column)
    items, kind, episodes, together = source
    rows, names = [], []
    url_of: dict[str, str] = {}
    for number in range(len(items)):
        item = item_alone(items, number)
        key, url = _key(item, kind, decode, episodes[number] if episodes else ())
        if url is not None:
            url_of[key] = url
        rows.append(Row(item.label, (item.start_seconds, item.end_seconds), item.extra, key))
        names.append(item.name)
    versions = {} if state_file is None else _versions_of(url_of)
    rows = [row._replace(key=f"{row.key}{versions.get(row.key, '')}") for row in rows]
    keys = [row.key for row in rows]
    # Rows that are parts of one file share one check of the file.
    first_of = {key: number for number, key in reversed(list(enumerate(keys)))}
    count = os.cpu_count() or 1 if num_workers is None else num_workers
    count = min(count, len(first_of))
    with _open_state(state_file) as (known, keep), _start_runner(count, timeout_seconds, bool(url_of)) as run:

        def check(number: int) -> CheckedFile:
            item, times = item_alone(items, number), episodes[number] if episodes else ()
            try:
                return from_plain(run(check_file, item.source, item.name, kind, decode, times))
            except MediaTensorError as error:
                return CheckedFile(names[number], (Finding("unreadable", str(error)),))

        todo = {key: number for key, number in sorted(first_of.items(), key=lambda pair: pair[1]) if key not in known}
        with closing(_call_each(todo, check, count)) as checked:
            for key, file in progress(checked, "check", total=len(todo), unit="file") if show_progress else checked:
                known[key] = file
                keep(key, file)
        files = [replace(known[key], name=name) for key, name in zip(keys, names, strict=True)]
        files = [select_segment(file, row) for file, row in zip(files, rows, strict=True)]
        files, findings = compare_files(files, rows, num_classes)

        def picture(number: int) -> str | None:
            try:
                return run(thumbnail_of, item_alone(items, number).source, files[number])  # type: ignore[no-any-return]
            except MediaTensorError:
                return None

        # Files whose only findings are from the comparison do not have a thumbnail yet.
        bare = [number for number, file in enumerate(files) if decode and file.findings and not file.thumbnail]
        todo = {keys[number]: number for number in bare[:MOST_FILES_ON_PAGE] if files[number].facts.num_frames}
        with closing(_call_each(todo, picture, count)) as drawn:
            for key, thumbnail in progress(drawn, "thumbnails", total=len(todo)) if show_progress else drawn:
                if thumbnail is not None:
                    known[key] = replace(known[key], thumbnail=thumbnail)
                    keep(key, known[key])
        files = [
            replace(file, thumbnail=known[key].thumbnail if file.findings else None)
            for key, file in zip(keys, files, strict=True)
        ]
    return DatasetReport(tuple(files), bad, items, (*together, *findings), label_counts(rows))


class ListedDataset(NamedTuple):
    """The rows of a dataset, listed but not yet checked.

    The rows of a LeRobot dataset are videos. ``episodes`` lists the episodes in each video, and ``findings`` has faults
    in the tables.
    """

    items: Sequence[Item]
    kind: MediaKind
    episodes: Sequence[tuple[EpisodeTimes, ...]] = ()
    findings: Sequence[Finding] = ()


def list_dataset(source: Any, kind: MediaKind, *, media_column: str | None, label_column: str | None) -> ListedDataset:
    """List the rows of a dataset without checking them, for `check_dataset`, whose errors it also raises."""
    check_choice("kind", kind, ("video", "audio"))
    if not is_lerobot(source):
        return ListedDataset(as_items(source, kind=kind, media_column=media_column, label_column=label_column), kind)
    items, episodes, findings = videos_of(source)
    if not items:
        raise InvalidArgumentError(f"The dataset {source} has no videos.")
    return ListedDataset(items, "video", episodes, findings)


def _key(item: Item, kind: str, decode: bool, episodes: Sequence[EpisodeTimes]) -> tuple[str, str | None]:
    """Return a key for a file and the requested checks, and the URL if the file is remote.

    If a local file is written again, its key changes.
    """
    asked = f"{kind} {decode}"
    if episodes:
        state = hashlib.blake2b(digest_size=16)
        for one in episodes:
            state.update(f"{one.episode} {one.first_row} {one.fps}".encode() + one.seconds.tobytes())
        asked += f" {state.hexdigest()}"
    try:
        place = place_of(item)
    except InvalidArgumentError:  # without a path, only the contents identify a file: several can have the same name
        return f"{_digest_of(item)} {asked}", None
    if "bytes" in place:
        return f"{hashlib.blake2b(place['bytes'], digest_size=16).hexdigest()} {asked}", None
    path = place.pop("path") or ""
    path = path if "://" in path else os.path.abspath(path)
    is_file = isinstance(item.source, (str, os.PathLike))
    text = path if is_file else f"{path} {sorted(place.items())}"
    stamp = stamp_of(path[5:] if path[:5].lower() == "file:" else path)  # FFmpeg takes the rest as it is
    if stamp is None:
        return f"{text} {asked}", path if "://" in path else None
    return f"{text} {stamp[1]} {stamp[0]} {asked}", None


def _versions_of(url_of: Mapping[str, str]) -> dict[str, str]:
    """Return a text for the version of each remote file, by key; without an entry for a file of unknown version."""
    urls = list(dict.fromkeys(url_of.values()))
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="version") as pool:
        versions = dict(zip(urls, pool.map(remote_version, urls), strict=True))
    return {key: f" {versions[url]}" for key, url in url_of.items() if versions[url] is not None}


def _digest_of(item: Item) -> str:
    """Return a digest of the item's bytes, or its name if they cannot be read."""
    from .media import hash_bytes

    try:
        reader = make_source(item.source).open_bytes()
        if reader is None:
            return item.name
        with closing(reader):
            return hash_bytes(reader)[1]
    except MediaTensorError:
        return item.name


@contextmanager
def _start_runner(num_workers: int, timeout_seconds: float | None, has_urls: bool) -> Iterator[Callable[..., Any]]:
    """Yield ``run(function, *arguments)``, which calls a function in a worker process, or here if there are none."""
    if not num_workers:
        yield lambda function, *arguments: function(*arguments)
        return
    from ...isolate import IsolatedWorker
    from .media import call_alone

    worker = IsolatedWorker(timeout_seconds=timeout_seconds, num_processes=num_workers, allow_network=has_urls)
    with closing(worker):
        yield lambda *call: worker.run(call_alone, *call)


def _call_each(
    todo: Mapping[str, int], call: Callable[[int], _Result], num_threads: int
) -> Generator[tuple[str, _Result], None, None]:
    if not num_threads:
        for key, number in todo.items():
            yield key, call(number)
        return
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="check")
    try:
        waiting = {pool.submit(call, number): key for key, number in todo.items()}
        for done in as_completed(waiting):
            yield waiting.pop(done), done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _open_state(path: str | os.PathLike[str] | None) -> Iterator[tuple[dict[str, CheckedFile], Any]]:
    """Open a state file. Yield a dict of its results by key, and a function that appends a result to the file."""
    if path is None:
        yield {}, lambda key, file: None
        return
    text = path_text("state_file", path)
    try:
        file = open(text, "a+b")  # noqa: SIM115 - an OSError within the block below has another cause
    except (OSError, ValueError) as error:  # ValueError: a zero within the path, which no file has
        raise write_error(text, error) from error

    def keep(key: str, checked: CheckedFile) -> None:
        _append(file, text, _line(json.dumps({"key": key, "file": asdict(checked)}).encode()) + b"\n")

    try:
        yield _read_state(file, text), keep
    finally:
        with suppress(OSError):  # it repeats an error of `_append`
            file.close()


def _append(file: BinaryIO, path: str, data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise write_error(path, error) from error


def is_check_state(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a state file written by `check_dataset`, or an empty file."""
    try:
        with open(path, "rb") as file:
            first = file.readline(len(_HEADER))
    except OSError:
        return False
    return first in (b"", _HEADER, *_OLD_HEADERS)


def _line(row: bytes) -> bytes:
    """Return a line of a state file without its line feed: the checksum of ``row``, a space, then ``row``."""
    return f"{zlib.crc32(row):08x} ".encode() + row


def _read_state(file: BinaryIO, path: str) -> dict[str, CheckedFile]:
    """Return the results in an open state file, by key, of the files that need no other check.

    Damaged lines are skipped, so their files are checked again.
    """
    try:
        file.seek(0)
        lines = file.read().split(b"\n")
    except OSError as error:
        raise ReadError(f"The state file {path} cannot be read ({error}).") from error
    if lines == [b""] or lines[0] + b"\n" in _OLD_HEADERS:
        try:
            file.truncate(0)
        except OSError as error:
            raise write_error(path, error) from error
        _append(file, path, _HEADER)
        return {}
    if lines[0] + b"\n" != _HEADER:
        raise InvalidArgumentError(
            f"{path} is not a state file of a check: give a new path, or the state file of an earlier check."
        )
    known = {}
    for line in lines[1:]:
        content = line[9:]
        if _line(content) != line:
            continue
        try:
            row = json.loads(content)
            key, checked = str(row["key"]), from_plain(row["file"])
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        # A time limit, a network or a permission may have prevented reading, so such a file is checked again.
        if checked.facts.digest is not None or all(finding.kind != "unreadable" for finding in checked.findings):
            known[key] = checked
    if lines[-1]:
        _append(file, path, b"\n")
    return known
