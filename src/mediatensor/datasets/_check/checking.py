"""`check_dataset`: every file of a dataset, in processes, with what is done kept in a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from ..._common.checks import check_choice, items_of, path_text, real_number, whole_number
from ..._common.messages import progress
from ..._sources import Source, write_error
from ...errors import InvalidArgumentError, MediaTensorError, ReadError
from ...isolate import IsolatedWorker
from .._sources import Item, MediaKind, as_items
from .comparing import compared
from .findings import BAD_KINDS, FINDING_KINDS, CheckedFile, Finding, from_plain, to_plain
from .lerobot import compared_with_table, is_lerobot, videos_of
from .media import check_file, check_file_alone
from .report import DatasetReport

__all__ = ["check_dataset"]

_HEADER = b'{"mediatensor check": 1}\n'


def check_dataset(
    source: Any,
    *,
    kind: MediaKind = "video",
    media_column: str | None = None,
    label_column: str | None = None,
    decode: bool = True,
    bad_kinds: Iterable[str] = BAD_KINDS,
    num_workers: int | None = None,
    timeout_seconds: float = 600.0,
    state_file: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
) -> DatasetReport:
    """Look for what is wrong with the files of a dataset, before a training meets it.

    Every file is opened, and decoded from its first frame to its last and from its first sample to its last, on one
    core. `FINDING_KINDS` says what is looked for. Files are only read.

    Args:
        source: The files, as `as_items` takes them: a folder, a manifest, Parquet, tar shards, rows of Hugging Face, or
            a list; or the folder of a LeRobot dataset, whose rows are its videos, with ``camera`` and ``episodes`` in
            ``extra``.
        kind: ``"video"`` or ``"audio"``; a folder is searched for files of that kind.
        media_column, label_column: As of `as_items`.
        decode: Whether to decode. Without, only headers, packets and bytes are read, which is quicker, and neither
            damaged, frozen nor black frames are found, nor anything about sound.
        bad_kinds: The kinds of findings that make a file bad.
        num_workers: How many files are checked at a time, each in a process that may crash or hang; by default one for
            each core. With 0 they are checked here, one after the other, without a limit of time.
        timeout_seconds: Most seconds for a file; one that takes longer is ``"unreadable"``.
        state_file: Where to keep what is done. Called again with the same file, only files are checked that are new or
            have changed since.
        show_progress: Show a bar on a terminal.

    Returns:
        `DatasetReport`: what was found in each row, in the order of the source.

    Raises:
        InvalidArgumentError: if an argument is not accepted, the source has no files, or ``state_file`` is another
            file.
        SourceTypeError, SourceNotFoundError, ReadError: as `as_items`. A file that cannot be read is a finding.
        WriteError: if ``state_file`` cannot be written.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset(["video.mp4", "damaged.mp4"], num_workers=0)
        >>> [file.name for file in report.bad_files]
        ['damaged.mp4']
        >>> report.bad_files[0].findings[0].kind
        'corrupt'
    """
    check_choice("kind", kind, ("video", "audio"))
    bad = tuple(items_of("bad_kinds", bad_kinds, of="names of findings"))
    for name in bad:
        check_choice("kind of finding", name, tuple(FINDING_KINDS))
    if num_workers is not None:
        num_workers = whole_number("num_workers", num_workers, at_least=0)
    if not real_number("timeout_seconds", timeout_seconds) > 0:
        raise InvalidArgumentError(f"timeout_seconds must be positive (got {timeout_seconds}).")
    num_frames: list[int] | None = None
    items: Sequence[Item]
    if is_lerobot(source):
        items, num_frames = videos_of(source)
        if not items:
            raise InvalidArgumentError(f"The dataset {source} has no videos.")
    else:
        items = as_items(source, kind=kind, media_column=media_column, label_column=label_column)
    # Rows that are parts of one file share its check.
    keys = [_key(item, decode) for item in items]
    first_of = {key: number for number, key in reversed(list(enumerate(keys)))}
    with _state(state_file) as (known, keep):
        todo = [(key, items[number]) for key, number in sorted(first_of.items(), key=lambda pair: pair[1])]
        todo = [(key, item) for key, item in todo if key not in known]
        checked = _checked(todo, decode, num_workers, timeout_seconds)
        with closing(checked):
            for key, file in progress(checked, "check", total=len(todo), unit="file") if show_progress else checked:
                known[key] = file
                keep(key, file)
    files = [_named(known[key], item.name) for key, item in zip(keys, items, strict=True)]
    if num_frames is not None:
        files = compared_with_table(files, num_frames)
    return DatasetReport(tuple(compared(files)), bad, items)


def _named(file: CheckedFile, name: str) -> CheckedFile:
    return file if file.name == name else CheckedFile(name, file.findings, file.facts, file.thumbnail)


def _key(item: Item, decode: bool) -> str:
    """What tells a file, as it is now, from all others: of a path its size and its time."""
    source = item.source
    if isinstance(source, bytes):
        return f"{hashlib.blake2b(source, digest_size=16).hexdigest()} {decode}"
    if isinstance(source, Source):
        text, path = item.name, source.describe()
    else:
        text = os.fsdecode(source)
        text = path = text if "://" in text else os.path.abspath(text)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return f"{text} {decode}"
    return f"{text} {status.st_size} {status.st_mtime_ns} {decode}"


def _checked(
    todo: Sequence[tuple[str, Item]], decode: bool, num_workers: int | None, timeout_seconds: float
) -> Generator[tuple[str, CheckedFile], None, None]:
    """The files as they are done, in any order."""
    if num_workers == 0:
        for key, item in todo:
            yield key, from_plain(check_file(item.source, item.name, decode))
        return
    count = min(num_workers or os.cpu_count() or 1, max(len(todo), 1))
    has_urls = any(isinstance(item.source, str) and "://" in item.source for _, item in todo)
    worker = IsolatedWorker(timeout_seconds=timeout_seconds, num_processes=count, allow_network=has_urls)
    pool = ThreadPoolExecutor(count, thread_name_prefix="check")
    waiting: dict[Future[CheckedFile], str] = {}
    try:
        for key, item in todo:
            waiting[pool.submit(_isolated, worker, item, decode)] = key
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        worker.close()
        pool.shutdown(wait=True)


def _isolated(worker: IsolatedWorker, item: Item, decode: bool) -> CheckedFile:
    try:
        return from_plain(worker.run(check_file_alone, item.source, item.name, decode))
    except MediaTensorError as error:
        return CheckedFile(item.name, (Finding("unreadable", str(error)),))


@contextmanager
def _state(path: str | os.PathLike[str] | None) -> Iterator[tuple[dict[str, CheckedFile], Any]]:
    """What a state file holds, and a function that adds to it."""
    if path is None:
        yield {}, lambda key, file: None
        return
    text = path_text("state_file", path)
    try:
        file = open(text, "a+b")  # noqa: SIM115 - an OSError within the block below would be another's
    except OSError as error:
        raise write_error(text, error) from error
    with file:
        known = _known(file, text)

        def keep(key: str, checked: CheckedFile) -> None:
            try:
                file.write(json.dumps({"key": key, "file": to_plain(checked)}).encode() + b"\n")
                file.flush()
            except OSError as error:
                raise write_error(text, error) from error

        yield known, keep


def _known(file: BinaryIO, path: str) -> dict[str, CheckedFile]:
    """What was kept. The last line of a program that was killed may be half a line; it is checked again."""
    try:
        file.seek(0)
        lines = file.read().split(b"\n")
    except OSError as error:
        raise ReadError(f"The state file {path} cannot be read ({error}).") from error
    if lines == [b""]:
        file.write(_HEADER)
        return {}
    if lines[0] + b"\n" != _HEADER:
        raise InvalidArgumentError(
            f"{path} is no state file of a check: name one that is not there yet, or such a one."
        )
    known = {}
    for line in lines[1:]:
        try:
            row = json.loads(line)
            known[str(row["key"])] = from_plain(row["file"])
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    if lines[-1]:
        file.write(b"\n")
    return known
