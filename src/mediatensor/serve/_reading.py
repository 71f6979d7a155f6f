"""Process jobs in isolated processes.

After each page of a document, jobs of other clients can run. The processing of a video is not interrupted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ..errors import ClosedError, IsolatedWorkerError, MediaTensorError
from ..isolate import IsolatedWorker
from . import _work
from ._errors import ServeError, answer_to, describe_error
from ._jobs import Job, Jobs
from ._settings import MAX_PAGES

logger = logging.getLogger("mediatensor.serve")

# Time limit of a page. When it is exceeded, the page fails and its process is ended.
_PAGE_SECONDS = 120.0
# A document fails when this many processes have crashed at its pages.
_MAX_LOST_PROCESSES = 3
_PROGRESS_SECONDS = 0.3
_PAUSE_SECONDS = 1.0
_MAX_PROGRESS_BYTES = 32

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Worker:
    """Calls functions in an isolated process, which it starts when needed, also after `end`."""

    def __init__(self, max_seconds: float, max_memory_bytes: int) -> None:
        self._max_seconds = max_seconds
        self._max_memory_bytes = max_memory_bytes
        self._thread = ThreadPoolExecutor(1, "mediatensor-serve")
        self._process = self._new_process()

    def _new_process(self) -> IsolatedWorker:
        return IsolatedWorker(timeout_seconds=self._max_seconds, max_memory_bytes=self._max_memory_bytes)

    async def call(
        self,
        function: Callable[_Parameters, _Result],
        seconds: float,
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Call ``function`` in the isolated process, with a limit of ``seconds``.

        Only one call runs at a time. If the task that awaits the call is cancelled, the process is ended. Raise
        `IsolatedWorkerError` if the call exceeds a limit, crashes, or is ended by `end`.
        """
        process, loop = self._process, asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, lambda: process.run(function, *args, **kwargs))
        try:
            done, _ = await asyncio.wait({running}, timeout=seconds)
        finally:
            if not running.done():  # it takes too long, or the task was cancelled
                self.end()
                await asyncio.wait({running})  # because the caller deletes its files next
            running.exception()  # mark it as retrieved
        if not done:
            raise IsolatedWorkerError(f"The isolated process did not finish within {seconds:g} seconds.", "timeout")
        try:
            return running.result()
        except ClosedError as error:
            raise IsolatedWorkerError("The isolated process was ended.", "crash") from error

    def end(self) -> None:
        """End the process immediately. The current call fails, and the next call starts a new process."""
        ended, self._process = self._process, self._new_process()
        ended.close()

    def close(self) -> None:
        self._process.close()
        self._thread.shutdown(wait=False, cancel_futures=True)


async def serve_jobs(jobs: Jobs, worker: Worker, warm_up: Callable[[Worker], Awaitable[None]]) -> None:
    """Process one job after another. Before each, call ``warm_up``, which loads the models if the process is new."""
    while True:
        try:
            await _serve_next(jobs, worker, warm_up)
        except Exception:  # continue with the next job
            logger.exception("a worker failed")
            await asyncio.sleep(_PAUSE_SECONDS)


async def _serve_next(jobs: Jobs, worker: Worker, warm_up: Callable[[Worker], Awaitable[None]]) -> None:
    await warm_up(worker)
    job = await jobs.take()

    def should_wait() -> bool:
        return jobs.others_wait(job) if job.facts["kind"] == "pages" else jobs.has_to_wait(job)

    task = asyncio.create_task(work_on(job, worker, should_wait))
    begin = time.monotonic()
    try:
        with jobs.working(job, task):
            await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if task.cancelled():
        logger.info("job %s was cancelled", job.id[:8])
    elif task.exception() is not None:
        _fail(jobs, job, task.exception())
    elif task.result():
        jobs.end(job, "done")
        logger.info("job %s (%s) done in %.2f s", job.id[:8], job.task, time.monotonic() - begin)
    elif not job.is_ended:
        jobs.give_way(job)


def _fail(jobs: Jobs, job: Job, error: BaseException | None) -> None:
    if not isinstance(error, Exception):
        return
    answer = error if isinstance(error, ServeError) else answer_to(error, str(job.upload), job.name)
    if not isinstance(error, ServeError | MediaTensorError):
        logger.error("job %s failed", job.id[:8], exc_info=error)
    else:
        logger.info("job %s (%s) failed: %s", job.id[:8], job.task, answer)
    jobs.end(job, "failed", error=answer)


async def work_on(job: Job, worker: Worker, should_wait: Callable[[], bool]) -> bool:
    """Process a job until it is done, and return True. Return False where it can be interrupted and has to wait."""
    job.show(state="running", message="" if job.facts else "opening")
    if job.task in ("probe", "frames"):
        function = _work.probe if job.task == "probe" else _work.decode_frames
        await _store(job, await _call(job, worker, math.inf, function, str(job.upload), job.options))
        return True
    if not job.facts:
        kinds = {"page": "pages", "video": "video"}
        inspect_options = {**job.options, "kind": kinds.get(job.task), "max_pages": MAX_PAGES}
        facts = await _call(job, worker, _PAGE_SECONDS, _work.inspect, str(job.upload), inspect_options)
        job.pages_left = deque(facts.get("pages", ()))
        job.show(facts=facts, progress=0.0)
    if job.facts["kind"] == "pages":
        return await _read_pages(job, worker, should_wait)
    if should_wait():
        return False
    await _read_video(job, worker)
    return True


async def _call(
    job: Job,
    worker: Worker,
    max_seconds: float,
    function: Callable[_Parameters, _Result],
    /,
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Result:
    """Call a function in the worker within ``max_seconds``, and within the time that the job has left."""
    if job.seconds_left <= 0:
        raise IsolatedWorkerError("The job took too long.", "timeout")
    begin = time.monotonic()
    try:
        return await worker.call(function, min(max_seconds, job.seconds_left), *args, **kwargs)
    finally:
        job.seconds_left -= time.monotonic() - begin


async def _read_pages(job: Job, worker: Worker, should_wait: Callable[[], bool]) -> bool:
    total = len(job.facts["pages"])
    num_read = total - len(job.pages_left)
    while job.pages_left:
        number = job.pages_left[0]
        job.show(message=f"page {num_read + 1} of {total}", progress=num_read / total)
        await _read_page(job, worker, number)
        job.pages_left.popleft()
        num_read += 1
        if job.pages_left and should_wait():
            return False
    if len(job.failures) == total:
        raise job.failures[0]
    job.show(message="writing", progress=1.0)
    job.reserve(sum(_page_file(job.folder, number).stat().st_size + 1 for number in job.facts["pages"]))
    await asyncio.to_thread(_join_pages, job)
    if file_names := job.options["files"]:
        given = (str(job.upload), str(job.folder), job.facts["pages"], file_names, job.options)
        files = await _call(job, worker, math.inf, _work.write_document, *given)
        await _store(job, files)
    return True


async def _read_page(job: Job, worker: Worker, number: int) -> None:
    try:
        read = await _call(job, worker, _PAGE_SECONDS, _work.read_page, str(job.upload), number, job.options)
    except MediaTensorError as error:
        answer = answer_to(error, str(job.upload), job.name)
        if answer.status not in (415, 422, 504):
            raise
        if isinstance(error, IsolatedWorkerError):
            job.num_lost += 1
            if job.num_lost >= _MAX_LOST_PROCESSES or job.seconds_left <= 0:
                raise
        job.failures.append(answer)
        read = _failed_page(number, answer)
    suffixes = {"page": "page.json", "export": "export.json", "picture": "png"}
    await _write(job, {f"{number:06d}.{suffixes[name]}": data for name, data in read.items()})


def _failed_page(number: int, error: ServeError) -> dict[str, bytes]:
    page: dict[str, Any] = {
        "page_idx": number, "width": None, "height": None, "orientation": None, "language": None, "text": "",
        "words": [], "regions": [], "tables": [], "fields": [], "unread": [], "error": describe_error(error),
    }  # fmt: skip
    unknown = {"value": None, "confidence": None}
    export = {
        "page_idx": number, "dimensions": (0, 0), "orientation": unknown, "language": unknown, "blocks": [],
        "layout": [], "tables": [], "error": str(error),
    }  # fmt: skip
    return {"page": json.dumps(page).encode(), "export": json.dumps(export).encode()}


def _page_file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.page.json"


def _join_pages(job: Job) -> None:
    with open(job.folder / "result.json", "wb") as file:
        file.write(b'{"pages":[')
        for place, number in enumerate(job.facts["pages"]):
            file.write(b"," if place else b"")
            file.write(_page_file(job.folder, number).read_bytes())
        file.write(b"]}")
    job.downloads = ("result.json",)


async def _write(job: Job, files: Mapping[str, bytes]) -> None:
    """Reserve storage for files, and write them to the folder of a job."""
    job.reserve(sum(map(len, files.values())))

    def write() -> None:
        for name, data in files.items():
            (job.folder / name).write_bytes(data)

    await asyncio.to_thread(write)


async def _store(job: Job, files: Mapping[str, bytes]) -> None:
    await _write(job, files)
    job.downloads = (*job.downloads, *files)


async def _read_video(job: Job, worker: Worker) -> None:
    job.show(message="reading the video")
    watching = asyncio.create_task(_watch(job))
    try:
        options = {**job.options, "name": job.name}
        paths = (str(job.upload), str(job.folder / "progress"))
        files = await _call(job, worker, math.inf, _work.read_video, *paths, options)
    finally:
        watching.cancel()
    await _store(job, files)


async def _watch(job: Job) -> None:
    """Update ``job.progress`` regularly from a file to which the worker process writes its progress."""
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        with suppress(OSError, ValueError):
            # A compromised process may have replaced the file, for example with a pipe that blocks the reader.
            descriptor = os.open(job.folder / "progress", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                share = float(file.read(_MAX_PROGRESS_BYTES))
            if job.progress is not None and job.progress < share <= 1:
                job.show(progress=share)
