"""Jobs: what is to be read, how far it is, what came of it; and a queue in which clients take turns."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ._errors import ServeError, described, stopping
from ._settings import MAX_KEPT_JOBS, MAX_QUEUED_JOBS, MAX_QUEUED_JOBS_OF_ONE, Settings

__all__ = ["Arrival", "Job", "Jobs", "State", "Task", "media_type_of"]

Task = Literal["auto", "page", "video", "frames", "probe"]
State = Literal["queued", "running", "done", "failed", "cancelled"]

_RETRY_SECONDS = 5
# An ended job makes room for others only after so long: its result has to be fetched.
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
    """The media type of a file that a job made.

    >>> media_type_of("text.md")
    'text/markdown'
    """
    return _MEDIA_TYPES.get(name, "application/octet-stream")


@dataclass(eq=False)
class Job:
    """One upload, and what is to be done with it.

    Attributes:
        task: What is to be done.
        options: How.
        name: The name of the upload, to show.
        client: Who sent it, for the queue.
        folder: Where the upload and the results are.
        size_bytes: The size of the upload.
        seconds_left: How long it may still be worked on.
        id: Its name, which nobody can guess.
        state: How it stands.
        progress: The share that is done; ``None`` where nobody knows.
        message: What happens, in words.
        error: Why it failed.
        facts: What the upload is, once that is known.
        downloads: The names of the files that were made.
        result_bytes: Their size.
        pages_left: The indices of the pages that were not read yet.
        failures: Why pages could not be read.
        num_lost: How many processes it has cost.
        ended_at: When it ended, on the clock of ``time.monotonic``.
    """

    task: Task
    options: dict[str, Any]
    name: str
    client: str
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

    @property
    def upload(self) -> Path:
        """The file that was uploaded."""
        return self.folder / "upload"

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.ended_at is not None

    def show(self, **changes: Any) -> None:
        """Change what is to be seen of it, and wake those who wait for ``changed``."""
        for name, value in changes.items():
            setattr(self, name, value)
        event, self.changed = self.changed, asyncio.Event()
        event.set()

    def describe(self) -> dict[str, Any]:
        """The job as the interface has it."""
        facts = {key: value for key, value in self.facts.items() if key not in ("pages", "media_type")}
        return {
            "id": self.id,
            "task": self.task,
            "state": self.state,
            "progress": None if self.progress is None else round(self.progress, 4),
            "message": self.message,
            "error": None if self.error is None else described(self.error),
            "name": self.name,
            "size_bytes": self.size_bytes,
            **facts,
            "downloads": [{"name": name, "media_type": media_type_of(name)} for name in self.downloads],
        }


class Arrival:
    """An upload that arrives.

    Attributes:
        folder: Where it is written.
        num_bytes: The storage that is set aside for it.
    """

    def __init__(self, jobs: Jobs, folder: Path) -> None:
        self._jobs = jobs
        self.folder = folder
        self.num_bytes = 0

    def set_aside(self, num_bytes: int) -> None:
        """Have storage for so many bytes in all.

        Raises:
            ServeError: 503, if there is not so much.
        """
        if num_bytes > self.num_bytes:
            self._jobs.make_room(num_bytes - self.num_bytes)
            self.num_bytes = num_bytes


class Jobs:
    """All jobs of a server. Everything happens in the thread of the event loop.

    Args:
        settings: The limits.
        folder: Where the folders of the jobs are.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._jobs: dict[str, Job] = {}
        # The clients that wait, and their jobs; the client whose turn it is comes first.
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self._working: dict[Job, asyncio.Task[Any]] = {}
        self._arrivals: dict[Arrival, str] = {}
        self._has_waiting = asyncio.Event()
        self._is_stopped = False

    def __getitem__(self, job_id: str) -> Job:
        """A job by its id.

        Raises:
            ServeError: 404, if there is none.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise ServeError(404, "UnknownJob", "There is no such job: it was deleted, or was kept long enough.")
        return job

    # In

    @contextmanager
    def arrival(self, client: str) -> Iterator[Arrival]:
        """Within the block an upload of a client arrives; after it, it is a job, or nothing of it is left.

        Raises:
            ServeError: 429 or 503, if there is no place for it.
        """
        num_own = len(self._waiting.get(client, ())) + list(self._arrivals.values()).count(client)
        if num_own >= MAX_QUEUED_JOBS_OF_ONE:
            raise _busy(429, "TooManyJobs", f"{num_own} jobs of yours wait already")
        if self._num_waiting + len(self._arrivals) >= MAX_QUEUED_JOBS:
            raise _busy(503, "QueueFull", f"{MAX_QUEUED_JOBS} jobs wait already")
        arrival = Arrival(self, Path(tempfile.mkdtemp(prefix="job-", dir=self._folder)))
        self._arrivals[arrival] = client
        try:
            yield arrival
        except BaseException:
            shutil.rmtree(arrival.folder, ignore_errors=True)
            raise
        finally:
            del self._arrivals[arrival]

    def make_room(self, num_bytes: int) -> None:
        """See to it that so many bytes can be stored; the oldest jobs that ended are forgotten for it.

        Raises:
            ServeError: 503, if that is not enough.
        """
        before = time.monotonic() - _MIN_KEEP_SECONDS
        ended = deque(job for job in self._ended() if job.ended_at is not None and job.ended_at < before)
        while self._num_stored_bytes + num_bytes > self._settings.max_stored_bytes:
            if not ended:
                raise _busy(503, "StorageFull", "the storage for uploads is full")
            self.forget(ended.popleft())

    @property
    def _num_stored_bytes(self) -> int:
        stored = sum(job.size_bytes + job.result_bytes for job in self._jobs.values())
        return stored + sum(arrival.num_bytes for arrival in self._arrivals)

    @property
    def _num_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, job: Job) -> None:
        """Put a job at the end of its client's queue.

        Raises:
            ServeError: 503, if the server stops.
        """
        if self._is_stopped:
            raise stopping()
        self._jobs[job.id] = job
        self._wait(job)

    def give_way(self, job: Job) -> None:
        """Put a job that was worked on back: it goes on when the others had their turns."""
        job.show(state="queued")
        self._wait(job, is_first=True)

    def _wait(self, job: Job, *, is_first: bool = False) -> None:
        queue = self._waiting.setdefault(job.client, deque())
        queue.insert(0 if is_first else len(queue), job)
        self._has_waiting.set()
        self._tell_places()

    def _tell_places(self) -> None:
        """Say to each waiting job how many come first, if nobody else arrives."""
        place, round_number = 0, 0
        while any(len(queue) > round_number for queue in self._waiting.values()):
            for queue in self._waiting.values():
                if len(queue) > round_number:
                    job = queue[round_number]
                    message = "waiting" if not place else f"waiting: {_count(place, 'job')} before this one"
                    if not job.facts and job.message != message:
                        job.show(message=message)
                    place += 1
            round_number += 1

    # Working

    async def take(self) -> Job:
        """Wait for the job whose turn it is, and take it out of the queue."""
        while True:
            for client in list(self._waiting):
                job = next((job for job in self._waiting[client] if not self.has_to_wait(job)), None)
                if job is None:
                    continue
                self._leave_queue(job)
                if client in self._waiting:
                    self._waiting.move_to_end(client)
                self._tell_places()
                return job
            self._has_waiting.clear()
            await self._has_waiting.wait()

    def has_to_wait(self, job: Job) -> bool:
        """Whether it is a video of a client of whom one is read already.

        Videos take long, and with two of them a client could keep everybody else waiting.
        """
        if self._settings.num_workers == 1 or not _is_video(job):
            return False
        return any(_is_video(other) and other.client == job.client for other in self._working if other is not job)

    def _leave_queue(self, job: Job) -> None:
        queue = self._waiting.get(job.client, deque())
        if job in queue:
            queue.remove(job)
        if not queue:
            self._waiting.pop(job.client, None)

    def others_wait(self, job: Job) -> bool:
        """Whether another client waits."""
        return any(client != job.client for client in self._waiting)

    @contextmanager
    def working(self, job: Job, task: asyncio.Task[Any]) -> Iterator[None]:
        """Within the block a task works on a job; it is cancelled when nobody wants the job any more."""
        self._working[job] = task
        try:
            yield
        finally:
            del self._working[job]
            self._has_waiting.set()  # a client's next video may begin

    # Out

    def end(self, job: Job, state: State, *, error: ServeError | None = None) -> None:
        """Say that a job is done, failed or cancelled."""
        if not job.is_ended:
            progress = 1.0 if state == "done" else job.progress
            job.ended_at = time.monotonic()
            job.show(state=state, error=error, progress=progress, message="" if error is None else str(error))

    def stop(self) -> None:
        """End all jobs, and take no others."""
        self._is_stopped = True
        for job in self._jobs.values():
            self.end(job, "failed", error=stopping())

    def forget(self, job: Job) -> None:
        """Delete the upload and the results of a job, and end the work on it."""
        self._jobs.pop(job.id, None)
        self._leave_queue(job)
        self._tell_places()
        task = self._working.get(job)
        if task is not None:
            task.cancel()
            # It may still write there.
            task.add_done_callback(lambda _: shutil.rmtree(job.folder, ignore_errors=True))
        else:
            shutil.rmtree(job.folder, ignore_errors=True)
        self.end(job, "cancelled")

    def forget_old(self) -> None:
        """Forget the jobs that ended long ago, and the oldest of too many."""
        ended = self._ended()
        before = time.monotonic() - self._settings.keep_seconds
        for place, job in enumerate(ended):
            if len(ended) - place > MAX_KEPT_JOBS or (job.ended_at is not None and job.ended_at < before):
                self.forget(job)
        # A thread that was still writing when its job was forgotten may have left something.
        known = {job.folder for job in (*self._jobs.values(), *self._working)}
        known |= {arrival.folder for arrival in self._arrivals}
        for folder in self._folder.glob("job-*"):
            if folder not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def _ended(self) -> list[Job]:
        """The jobs that ended, from the oldest on."""
        return sorted((job for job in self._jobs.values() if job.is_ended), key=lambda job: job.ended_at or 0.0)


def _is_video(job: Job) -> bool:
    return job.task == "video" or job.facts.get("kind") == "video"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _busy(status: int, kind: str, what: str) -> ServeError:
    return ServeError(
        status, kind, f"{what[0].upper()}{what[1:]}; try again later.", {"Retry-After": str(_RETRY_SECONDS)}
    )
