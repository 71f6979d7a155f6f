"""The running service: it receives uploads, and has the jobs, the worker processes and the folder for files."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..errors import MediaTensorError, WriteError
from ._errors import ServeError, answer_to
from ._jobs import Client, Job, Jobs, Task
from ._reading import Worker, serve_jobs
from ._settings import LOOPBACK, Settings
from ._upload import receive
from ._work import pages

logger = logging.getLogger("mediatensor.serve")

# Time limit for rendering an image, which usually takes a fraction of a second.
_PICTURE_SECONDS = 30.0
_MAX_PICTURES_WAITING = 64
_LOOK_SECONDS = 5.0
# Time limit for loading the models.
_START_SECONDS = 300.0
# Options for reading that `/ocr` and the web page use. Their models are loaded before the first upload.
_WARM: tuple[dict[str, Any], ...] = ({}, {"layout": True, "tables": True, "fields": "all"})

_MAX_CLIENT_CHARACTERS = 64
# Limits of one client: images that are waiting or being rendered, and bytes of images that it has not read yet.
_MAX_PICTURES_OF_ONE = 16
_MAX_PICTURE_BYTES_OF_ONE = 64 << 20
_CHUNK_BYTES = 1 << 16

_LOCK = "lock"


class Service:
    """Everything that the application needs while it runs: jobs, worker processes and limits."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._num_pictures: Counter[str] = Counter()
        self._num_unread_bytes: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        settings = self.settings
        with _run_folder(settings.folder) as folder:
            self.jobs = Jobs(settings, folder)
            workers = [
                Worker(max(settings.timeout_seconds, _START_SECONDS), settings.max_memory_bytes)
                for _ in range(settings.num_workers)
            ]
            self._artist = Worker(_PICTURE_SECONDS, settings.max_memory_bytes)
            self._drawing = asyncio.Lock()
            tasks = [asyncio.create_task(serve_jobs(self.jobs, worker, self._warm_up)) for worker in workers]
            tasks.append(asyncio.create_task(self._forget_old()))
            self._tasks = tasks
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for worker in (*workers, self._artist):
                    worker.close()

    async def _warm_up(self, worker: Worker) -> None:
        num_threads = max(1, (os.cpu_count() or 1) // self.settings.num_workers)
        try:
            await worker.call(pages.warm_up, _START_SECONDS, num_threads, _WARM)
        except MediaTensorError as error:
            logger.error("the models cannot be loaded: %s", error)

    async def _forget_old(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.jobs.forget_old()

    def stop(self) -> None:
        """End all jobs, so that clients that wait for them get an error response, and refuse new jobs."""
        self.jobs.stop()
        for task in self._tasks:
            task.cancel()

    async def accept(self, request: Request, check: Callable[[Mapping[str, str]], tuple[Task, dict[str, Any]]]) -> Job:
        """Receive an upload, and add a job for it to the queue. ``check`` converts form fields to task and options."""
        client = client_of(request)
        with self.jobs.arrival(client) as arrival:
            upload = await receive(request, arrival, self.settings.max_upload_bytes)
            task, options = check(upload.options)
            job = Job(
                task=task,
                options=options,
                name=upload.name,
                client=client,
                folder=arrival.folder,
                size_bytes=upload.size_bytes,
                seconds_left=self.settings.timeout_seconds,
            )
            self.jobs.add(job)
        return job

    async def wait_for(self, job: Job, request: Request) -> None:
        """Wait until a job is done. If it fails or the client disconnects, remove the job and raise `ServeError`."""
        gone = asyncio.create_task(_is_gone(request))
        try:
            while not job.is_ended:
                changed = asyncio.create_task(job.changed.wait())
                try:
                    await asyncio.wait({changed, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if gone.done():
                    raise ServeError(400, "Disconnected", "The client went away.")
        except BaseException:
            self.jobs.forget(job)
            raise
        finally:
            gone.cancel()
        if job.state != "done":
            self.jobs.forget(job)
            raise job.error or ServeError(410, "Cancelled", "The job was cancelled.")

    async def draw(
        self, request: Request, job: Job, media_type: str, function: Callable[..., bytes], *args: Any
    ) -> Response:
        """Return a response with an image of a page or a frame, which ``function`` renders in another process.

        Raise `ServeError` 503 if too many images are being rendered or sent, 404 if the job is removed meanwhile.
        """
        owner = client_of(request).owner
        if (
            self._num_pictures.total() >= _MAX_PICTURES_WAITING
            or self._num_pictures[owner] >= _MAX_PICTURES_OF_ONE
            or self._num_unread_bytes[owner] >= _MAX_PICTURE_BYTES_OF_ONE
        ):
            raise ServeError(
                503, "Busy", "Too many images are rendered or sent; try again later.", {"Retry-After": "1"}
            )
        self._num_pictures[owner] += 1
        try:
            async with self._drawing:
                data = await self._artist.call(function, _PICTURE_SECONDS, str(job.upload), *args)
        except MediaTensorError as error:
            _ = self.jobs[job.id]  # raises 404 if the job was removed, and its upload with it
            raise answer_to(error, str(job.upload), job.name) from error
        finally:
            self._num_pictures[owner] -= 1
        headers = {"Cache-Control": "private, max-age=600", "Content-Length": str(len(data))}
        return StreamingResponse(self._sent(owner, data), media_type=media_type, headers=headers)

    async def _sent(self, owner: str, data: bytes) -> AsyncIterator[bytes]:
        """Yield ``data`` in parts. Until the last one, all of it counts towards the owner's limit of unsent bytes."""
        self._num_unread_bytes[owner] += len(data)
        try:
            for start in range(0, len(data), _CHUNK_BYTES):
                yield data[start : start + _CHUNK_BYTES]
        finally:
            self._num_unread_bytes[owner] -= len(data)


async def _is_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def client_of(request: Request) -> Client:
    """Identify the client that sent a request, by its address and the name in its header ``X-Client``."""
    address = request.client.host if request.client else ""
    name = request.headers.get("x-client", "")[:_MAX_CLIENT_CHARACTERS]
    return Client(f"{address} {name}" if address in LOOPBACK else address, name)


def media_path(job: Job, name: str) -> Path:
    """Return the path of the result file ``name``. Raise `ServeError` 404 if the job has no such file."""
    if name not in job.downloads:
        raise ServeError(404, "UnknownFile", f"The job has no file {name[:100]!r}; it has {', '.join(job.downloads)}.")
    return job.folder / name


@contextmanager
def _run_folder(parent: Path | None) -> Iterator[Path]:
    """Make a private folder for uploads and results, in ``parent`` or the temporary folder, and delete it at the end.

    If a server is killed, its folder remains, but the lock in the folder is released. The next server deletes
    folders with a free lock. Raise `WriteError` if the folder cannot be made, or other users could access it.
    """
    top = (Path(tempfile.gettempdir()) if parent is None else parent) / f"mediatensor-serve-{os.getuid()}"
    try:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = top.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
            raise WriteError(
                f"{top} must be a folder that you own and no other user can access; delete it, or name another folder."
            )
        with _open_lock(top / _LOCK) as top_lock:
            fcntl.flock(top_lock, fcntl.LOCK_EX)
            for stale in top.glob("run-*"):
                with suppress(OSError), _open_lock(stale / _LOCK) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if its server is running
                    shutil.rmtree(stale, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix="run-", dir=top))
            run_lock = _open_lock(folder / _LOCK)
            fcntl.flock(run_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(f"Uploads cannot be kept in {top}: {error.strerror}.") from error
    with run_lock:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _open_lock(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b")
