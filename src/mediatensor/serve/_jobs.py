"""Jobs, each with its options, progress and results; and the queue in which they wait, where clients take turns."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .._engine.common.messages import counted
from ._errors import ServeError, describe_error, stopping_error
from ._settings import (
    MAX_KEPT_JOBS,
    MAX_KEPT_JOBS_OF_ONE,
    MAX_QUEUED_JOBS,
    MAX_QUEUED_JOBS_OF_ONE,
    Settings,
)

Task = Literal["auto", "page", "video", "frames", "probe"]
State = Literal["queued", "running", "done", "failed", "cancelled"]

_RETRY_SECONDS = 5
# A finished job is kept for at least this time, so that its result can be fetched, before it is evicted to free space.
_MIN_KEEP_SECONDS = 60.0

_MEDIA_TYPES = {
    "captions.srt": "application/x-subrip",
    "captions.vtt": "text/vtt",
    "frames.zip": "application/zip",
    "reading.json": "application/json",
    "result.json": "application/json",
    "searchable.pdf": "application/pdf",
    "slides.pdf": "application/pdf",
    "tables.csv": "text/csv",
    "tables.xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "text.md": "text/markdown",
    "text.txt": "text/plain",
}


def media_type_of(name: str) -> str:
    return _MEDIA_TYPES.get(name, "application/octet-stream")


class Client(NamedTuple):
    """The client that sent a request.

    Attributes:
        owner: The client's IP address, which it cannot choose. Limits of storage and jobs apply to each owner. Clients
            on this machine all have the same address, so for them ``name`` is appended.
        name: The name that the client, or a proxy for it, sent in the request. Clients with the same owner but
            different names take turns.
    """

    owner: str
    name: str


@dataclass(eq=False)
class Job:
    """One upload and the state of its processing.

    Attributes:
        name: The name of the upload, as it is displayed.
        folder: The folder in which the upload and the results are stored.
        seconds_left: How much processing time remains until the time limit.
        progress: The finished fraction of the work, from 0 to 1, or None if unknown.
        message: A text for the client about the current step.
        facts: The kind of the upload ("pages" or "video") and its properties; empty until it has been inspected.
        downloads: The names of the result files that clients can download.
        pages_left: The indices of the pages that have not been read yet.
        failures: The errors of pages that could not be read.
        num_lost: The number of worker processes that had to be ended, or crashed, while they read a page of this job.
        ended_at: The value of ``time.monotonic()`` when the job ended, or None.
        changed: An event that `show` sets when the job changes. `show` then replaces it with a new event.
        jobs: The `Jobs` object that contains the job; None before the job is added to it.
    """

    task: Task
    options: dict[str, Any]
    name: str
    client: Client
    folder: Path
    size_bytes: int
    seconds_left: float
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "queued"
    progress: float | None = None
    message: str = ""
    error: ServeError | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    downloads: tuple[str, ...] = ()
    result_bytes: int = 0
    pages_left: deque[int] = field(default_factory=deque)
    failures: list[ServeError] = field(default_factory=list)
    num_lost: int = 0
    ended_at: float | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    jobs: Jobs | None = None

    def reserve(self, num_bytes: int) -> None:
        """Reserve storage for another ``num_bytes`` of results. Raise `ServeError` 413 if the owner has no space."""
        assert self.jobs is not None
        try:
            self.jobs.make_room(self.client.owner, num_bytes)
        except ServeError as error:
            raise ServeError(413, "ResultTooLarge", f"The result cannot be stored. {error}") from error
        self.result_bytes += num_bytes

    @property
    def upload(self) -> Path:
        return self.folder / "upload"

    @property
    def is_ended(self) -> bool:
        return self.ended_at is not None

    def show(self, **changes: Any) -> None:
        """Change attributes of the job, and wake all tasks that wait for ``changed``."""
        for name, value in changes.items():
            setattr(self, name, value)
        event, self.changed = self.changed, asyncio.Event()
        event.set()

    def describe(self) -> dict[str, Any]:
        facts = {key: value for key, value in self.facts.items() if key not in ("pages", "media_type")}
        return {
            "id": self.id,
            "task": self.task,
            "state": self.state,
            "progress": None if self.progress is None else round(self.progress, 4),
            "message": self.message,
            "error": None if self.error is None else describe_error(self.error),
            "name": self.name,
            "size_bytes": self.size_bytes,
            **facts,
            "downloads": [{"name": name, "media_type": media_type_of(name)} for name in self.downloads],
        }


class Arrival:
    """An upload that is still being received, for which ``num_bytes`` of storage are reserved."""

    def __init__(self, jobs: Jobs, owner: str, folder: Path) -> None:
        self._jobs = jobs
        self.owner = owner
        self.folder = folder
        self.num_bytes = 0

    def reserve(self, num_bytes: int) -> None:
        """Increase the reserved storage to ``num_bytes``. Raise `ServeError` 429 or 503 if space is lacking."""
        if num_bytes > self.num_bytes:
            self._jobs.make_room(self.owner, num_bytes - self.num_bytes)
            self.num_bytes = num_bytes


class Jobs:
    """All jobs of a server, from their upload until they are deleted.

    Methods are not thread-safe: they must be called in the thread of the event loop.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._jobs: dict[str, Job] = {}
        # Waiting jobs by owner, then by name of the client. The order of both dictionaries is the order of turns.
        self._waiting: OrderedDict[str, OrderedDict[str, deque[Job]]] = OrderedDict()
        self._working: dict[Job, asyncio.Task[Any]] = {}
        self._arrivals: set[Arrival] = set()
        self._has_waiting = asyncio.Event()
        self._is_stopped = False

    def __getitem__(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise ServeError(
                404, "UnknownJob", "There is no such job: it was cancelled, or its results are no longer kept."
            )
        return job

    @contextmanager
    def arrival(self, client: Client) -> Iterator[Arrival]:
        """Make a folder for an upload, and delete it if the ``with`` block raises an exception.

        Raise `ServeError` 429 if too many jobs of this client are waiting, 503 if too many of all clients are waiting.
        """
        num_own = sum(map(len, self._waiting.get(client.owner, {}).values()))
        num_own += sum(other.owner == client.owner for other in self._arrivals)
        if num_own >= MAX_QUEUED_JOBS_OF_ONE:
            raise _busy_error(429, "TooManyJobs", f"{num_own} of your jobs wait already")
        if self._num_waiting + len(self._arrivals) >= MAX_QUEUED_JOBS:
            raise _busy_error(503, "QueueFull", f"{MAX_QUEUED_JOBS} jobs wait already")
        arrival = Arrival(self, client.owner, Path(tempfile.mkdtemp(prefix="job-", dir=self._folder)))
        self._arrivals.add(arrival)
        try:
            yield arrival
        except BaseException:
            _delete(arrival.folder)
            raise
        finally:
            self._arrivals.remove(arrival)

    def make_room(self, owner: str, num_bytes: int) -> None:
        """Make sure that ``owner`` can store ``num_bytes`` more. If space is needed, evict finished jobs, oldest first.

        Jobs of another owner are evicted only if that owner stores more bytes than ``owner`` would store after adding
        ``num_bytes``.

        Raises:
            ServeError: 429 if ``owner`` would exceed the storage limit of one owner, 503 if the whole storage is full.
        """
        if num_bytes > self.max_bytes_of_one:
            raise _busy_error(429, "StorageFull", f"one client may store {self.max_bytes_of_one} bytes")
        while self._stored_bytes().get(owner, 0) + num_bytes > self.max_bytes_of_one:
            if not self._forget_oldest(owner):
                raise _busy_error(
                    429, "StorageFull", f"your uploads and results fill the {self.max_bytes_of_one} bytes"
                )
        while sum((stored := self._stored_bytes()).values()) + num_bytes > self._settings.max_stored_bytes:
            wanted = stored.get(owner, 0) + num_bytes
            larger = [other for other in sorted(stored, key=stored.__getitem__, reverse=True) if stored[other] > wanted]
            if not any(self._forget_oldest(other) for other in (*larger, owner)):
                raise _busy_error(503, "StorageFull", "the storage for uploads is full")

    @property
    def max_bytes_of_one(self) -> int:
        """Half of the storage, but at least the maximum size of an upload."""
        return max(self._settings.max_stored_bytes // 2, self._settings.max_upload_bytes)

    def _forget_oldest(self, owner: str) -> bool:
        """Evict the oldest job of ``owner`` that ended more than a minute ago. Return whether there was one."""
        before = time.monotonic() - _MIN_KEEP_SECONDS
        for job in self._finished_jobs():
            if job.client.owner == owner and job.ended_at is not None and job.ended_at < before:
                self.forget(job)
                return True
        return False

    def _stored_bytes(self) -> Counter[str]:
        """Return how many bytes each owner stores. Uploads that are still being received also count."""
        stored: Counter[str] = Counter()
        for job in self._jobs.values():
            stored[job.client.owner] += job.size_bytes + job.result_bytes
        for arrival in self._arrivals:
            stored[arrival.owner] += arrival.num_bytes
        return stored

    @property
    def _num_waiting(self) -> int:
        return sum(len(queue) for queues in self._waiting.values() for queue in queues.values())

    def add(self, job: Job) -> None:
        if self._is_stopped:
            raise stopping_error()
        job.jobs = self
        self._jobs[job.id] = job
        self._enqueue(job)

    def give_way(self, job: Job) -> None:
        """Put a running job back to the front of its client's queue, so that jobs of other clients run first."""
        job.show(state="queued")
        self._enqueue(job, is_first=True)

    def _enqueue(self, job: Job, *, is_first: bool = False) -> None:
        queues = self._waiting.setdefault(job.client.owner, OrderedDict())
        queue = queues.setdefault(job.client.name, deque())
        queue.insert(0 if is_first else len(queue), job)
        self._has_waiting.set()
        self._update_messages()

    def _jobs_in_turn(self) -> Iterator[Job]:
        """Return all waiting jobs in the order in which they will run if no job is added."""
        return _interleave(_interleave(queues.values()) for queues in self._waiting.values())

    def _update_messages(self) -> None:
        """Tell each waiting job, in its message, how many jobs are before it."""
        for place, job in enumerate(self._jobs_in_turn()):
            message = "waiting" if not place else f"waiting: {counted(place, 'job')} before this one"
            if not job.facts and job.message != message:
                job.show(message=message)

    async def take(self) -> Job:
        while True:
            job = next((job for job in self._jobs_in_turn() if not self.has_to_wait(job)), None)
            if job is not None:
                self._leave_queue(job)
                owner, name = job.client
                if owner in self._waiting:
                    self._waiting.move_to_end(owner)
                    if name in self._waiting[owner]:
                        self._waiting[owner].move_to_end(name)
                self._update_messages()
                return job
            self._has_waiting.clear()
            await self._has_waiting.wait()

    def has_to_wait(self, job: Job) -> bool:
        """Return whether a job is a video that must wait because another video of the same owner is running.

        Documents are interrupted after each page if other clients wait. Videos are not, so several videos of one owner
        could occupy all workers for a long time.
        """
        if self._settings.num_workers == 1 or not _takes_long(job):
            return False
        own = (other for other in self._working if other is not job and other.client.owner == job.client.owner)
        return any(map(_takes_long, own))

    def _leave_queue(self, job: Job) -> None:
        owner, name = job.client
        queues = self._waiting.get(owner, OrderedDict())
        queue = queues.get(name, deque())
        if job in queue:
            queue.remove(job)
        if not queue:
            queues.pop(name, None)
        if not queues:
            self._waiting.pop(owner, None)

    def others_wait(self, job: Job) -> bool:
        return any(other.client != job.client for other in self._jobs_in_turn())

    @contextmanager
    def working(self, job: Job, task: asyncio.Task[Any]) -> Iterator[None]:
        """During a ``with`` block, remember ``task``, which processes ``job``, so that `forget` can cancel it."""
        self._working[job] = task
        try:
            yield
        finally:
            del self._working[job]
            self._has_waiting.set()  # another video of this owner may start now

    def end(self, job: Job, state: State, *, error: ServeError | None = None) -> None:
        """Set the final ``state`` of a job: done, failed or cancelled. A job that has already ended does not change."""
        if not job.is_ended:
            progress = 1.0 if state == "done" else job.progress
            job.ended_at = time.monotonic()
            job.show(state=state, error=error, progress=progress, message="" if error is None else str(error))

    def stop(self) -> None:
        """End all jobs with an error, because the server stops, and refuse new jobs."""
        self._is_stopped = True
        for job in self._jobs.values():
            self.end(job, "failed", error=stopping_error())

    def forget(self, job: Job) -> None:
        """Remove a job: cancel its task if it is running, and delete its upload and results."""
        self._jobs.pop(job.id, None)
        self._leave_queue(job)
        self._update_messages()
        task = self._working.get(job)
        if task is not None:
            task.cancel()
            # The cancelled task may still be writing into the folder.
            task.add_done_callback(lambda _: _delete(job.folder))
        else:
            _delete(job.folder)
        self.end(job, "cancelled")

    def forget_old(self) -> None:
        """Evict jobs that ended too long ago, and the oldest finished jobs beyond the limits on their number."""
        before = time.monotonic() - self._settings.keep_seconds
        for job in self._finished_jobs():
            if job.ended_at is not None and job.ended_at < before:
                self.forget(job)
        ended = self._finished_jobs()
        counts = Counter(job.client.owner for job in ended)
        while counts and (max(counts.values()) > MAX_KEPT_JOBS_OF_ONE or counts.total() > MAX_KEPT_JOBS):
            owner = max(counts, key=counts.__getitem__)
            counts[owner] -= 1
            oldest = next(job for job in ended if job.client.owner == owner)
            ended.remove(oldest)
            self.forget(oldest)
        # Delete files that a thread has written after its job was removed.
        known = {job.folder for job in (*self._jobs.values(), *self._working)}
        known |= {arrival.folder for arrival in self._arrivals}
        for folder in self._folder.glob("job-*"):
            if folder not in known:
                _delete(folder)

    def _finished_jobs(self) -> list[Job]:
        return sorted((job for job in self._jobs.values() if job.is_ended), key=lambda job: job.ended_at or 0.0)


def _takes_long(job: Job) -> bool:
    """Return whether a job occupies its worker until it ends. Documents are interrupted if other clients wait."""
    return job.task in ("video", "frames", "probe") or job.facts.get("kind") == "video"


def _interleave(queues: Iterable[Iterable[Job]]) -> Iterator[Job]:
    """Yield the first job of each queue, then the second job of each queue, and so on."""
    return (job for row in zip_longest(*queues) for job in row if job is not None)


def _delete(folder: Path) -> None:
    """Delete the folder of a job.

    The upload is truncated first. This frees its space even if another process still has it open.
    """
    with suppress(OSError):
        os.truncate(folder / "upload", 0)
    shutil.rmtree(folder, ignore_errors=True)


def _busy_error(status: int, kind: str, reason: str) -> ServeError:
    return ServeError(
        status, kind, f"{reason[0].upper()}{reason[1:]}; try again later.", {"Retry-After": str(_RETRY_SECONDS)}
    )
