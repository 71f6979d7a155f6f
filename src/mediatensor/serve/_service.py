"""A running service: its folder, its jobs, its processes, and what is done with an upload."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..errors import MediaTensorError
from . import _work
from ._errors import ServeError, answer_to
from ._folders import RunFolder
from ._jobs import Client, Job, Jobs, Task
from ._reading import serve_jobs
from ._settings import LOOPBACK, Settings
from ._upload import receive
from ._worker import Worker

__all__ = ["Service"]

logger = logging.getLogger("mediatensor.serve")

# Drawing a picture takes a fraction of a second, but for the largest pages and videos.
_PICTURE_SECONDS = 30.0
_MAX_PICTURES_WAITING = 64
_LOOK_SECONDS = 5.0
# Most seconds for loading the models.
_START_SECONDS = 300.0
# What the page and `/ocr` ask for: their models are there before the first upload.
_WARM: tuple[dict[str, Any], ...] = ({}, {"layout": True, "tables": True, "fields": "all"})

_MAX_CLIENT_CHARACTERS = 64
# Pictures of one client that are drawn, or wait for it, and their bytes that it has not read yet.
_MAX_PICTURES_OF_ONE = 16
_MAX_PICTURE_BYTES_OF_ONE = 64 << 20
_CHUNK_BYTES = 1 << 16


class Service:
    """What the application needs while it runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._num_pictures: Counter[str] = Counter()
        self._num_unread_bytes: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Within the block the service works."""
        settings = self.settings
        with RunFolder(settings.folder) as folder:
            self.jobs = Jobs(settings, folder.path)
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
            await worker.call(_work.warm_up, _START_SECONDS, num_threads, _WARM)
        except MediaTensorError as error:
            logger.error("the models cannot be loaded: %s", error)

    async def _forget_old(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.jobs.forget_old()

    def stop(self) -> None:
        """End all work, and tell those who wait for it; nothing is accepted any more."""
        self.jobs.stop()
        for task in self._tasks:
            task.cancel()

    # Uploads

    async def accept(self, request: Request, check: Callable[[Mapping[str, str]], tuple[Task, dict[str, Any]]]) -> Job:
        """Receive an upload, and put it in the queue.

        Args:
            request: A request with a form.
            check: Gives the task and its options for the fields of the form.

        Raises:
            ServeError: if it is refused.
        """
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
        """Wait until a job is done; it is forgotten when its client goes away.

        Raises:
            ServeError: if it failed.
        """
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

    # Pictures

    async def draw(
        self, request: Request, job: Job, media_type: str, function: Callable[..., bytes], *args: Any
    ) -> Response:
        """Answer with a picture of an upload, drawn by a function of `_work`.

        Raises:
            ServeError: if it cannot be drawn, or too many are.
        """
        owner = client_of(request).owner
        if (
            self._num_pictures.total() >= _MAX_PICTURES_WAITING
            or self._num_pictures[owner] >= _MAX_PICTURES_OF_ONE
            or self._num_unread_bytes[owner] >= _MAX_PICTURE_BYTES_OF_ONE
        ):
            raise ServeError(503, "Busy", "Too many pictures are drawn or sent; try again later.", {"Retry-After": "1"})
        self._num_pictures[owner] += 1
        try:
            async with self._drawing:
                data = await self._artist.call(function, _PICTURE_SECONDS, str(job.upload), *args)
        except MediaTensorError as error:
            raise answer_to(error, str(job.upload), job.name) from error
        finally:
            self._num_pictures[owner] -= 1
        headers = {"Cache-Control": "private, max-age=600", "Content-Length": str(len(data))}
        return StreamingResponse(self._sent(owner, data), media_type=media_type, headers=headers)

    async def _sent(self, owner: str, data: bytes) -> AsyncIterator[bytes]:
        """The bytes of a picture, in parts: the next one is sent when the client has read those before."""
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
    """Who sends a request; see `Client`."""
    address = request.client.host if request.client else ""
    name = request.headers.get("x-client", "")[:_MAX_CLIENT_CHARACTERS]
    return Client(f"{address} {name}" if address in LOOPBACK else address, name)


def media_path(job: Job, name: str) -> Path:
    """The path of a file that a job made.

    Raises:
        ServeError: 404, if there is no such file.
    """
    if name not in job.downloads:
        raise ServeError(404, "UnknownFile", f"The job has no file {name[:100]!r}; it has {', '.join(job.downloads)}.")
    return job.folder / name
