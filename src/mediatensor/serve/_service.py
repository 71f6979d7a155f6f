"""The running service: it receives uploads, and has the jobs, the worker processes and the folder for files."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from ..errors import MediaTensorError, WriteError
from . import _work
from ._errors import ServeError, answer_to
from ._jobs import Arrival, Client, Job, Jobs, Task
from ._reading import Worker, serve_jobs
from ._settings import LOOPBACK, Settings

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

#: Size limit of a form without its file: boundaries, headers and options.
MAX_FORM_BYTES = 1 << 18

_MAX_OPTIONS = 64
_MAX_OPTION_BYTES = 1 << 14
_MAX_HEADER_BYTES = 4096
_MAX_NAME_CHARACTERS = 200
_UNNAMED = "upload"

# A client occupies a connection and a place in the queue. It is disconnected if it sends nothing for _SILENT_SECONDS,
# is slower than _MIN_BYTES_PER_SECOND after _PATIENT_SECONDS, or takes longer than _MAX_UPLOAD_SECONDS in total.
_SILENT_SECONDS = 20.0
_PATIENT_SECONDS = 30.0
_MIN_BYTES_PER_SECOND = 4096
_MAX_UPLOAD_SECONDS = 3600.0

# Characters that are removed from displayed names: control characters, surrogates, and bidirectional controls.
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass
class Upload:
    """A form that a client has sent: the displayed name of its file, the size of the file, and all other fields."""

    name: str = _UNNAMED
    size_bytes: int = 0
    options: dict[str, str] = field(default_factory=dict)


async def receive(request: Request, arrival: Arrival, max_upload_bytes: int) -> Upload:
    """Receive a form, and write its file to ``arrival.folder / "upload"``.

    Raise `ServeError` 400 if the form is invalid, 408 if it is slow, 413 if it is too large, 429 or 503 without space.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_upload_bytes + MAX_FORM_BYTES:
        raise _too_large(max_upload_bytes)
    for name in request.query_params:
        raise ServeError(
            400, "BadOption", f"The option {name[:40]!r} is in the address; send options as fields of the form."
        )
    kind, parameters = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not parameters.get(b"boundary"):
        raise ServeError(
            400, "BadRequest", 'Send a form, multipart/form-data, with the file as "file" and options as other fields.'
        )
    # Reserve storage as bytes arrive. Otherwise, a client could block storage with a large Content-Length.
    with open(arrival.folder / "upload", "xb", buffering=0) as file:
        form = _Form(file, max_upload_bytes)
        try:
            parser = MultipartParser(parameters[b"boundary"], form.callbacks(), max_header_size=_MAX_HEADER_BYTES)
            received = 0
            async for chunk in _chunks(request):
                received += len(chunk)
                parser.write(chunk)
                if received - form.upload.size_bytes > MAX_FORM_BYTES:
                    raise ServeError(
                        413, "TooLarge", f"The form has more than {MAX_FORM_BYTES} bytes in addition to its file."
                    )
                if form.pieces:
                    arrival.reserve(form.upload.size_bytes)
                    pieces, form.pieces = form.pieces, []
                    await asyncio.to_thread(_write, file, pieces)
            if not form.is_whole:
                raise ServeError(
                    400, "BadRequest", "The form was cut short: it ends before its last boundary; send it again."
                )
        except FormParserError as error:
            raise ServeError(400, "BadRequest", f"The form cannot be read: {error}") from error
    if not form.has_file:
        raise ServeError(400, "BadRequest", 'The form has no file: send it as the field "file".')
    return form.upload


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request in parts. Raise `ServeError` if the client sends it too slowly, or disconnects."""
    begin, received = time.monotonic(), 0
    stream = request.stream()
    while True:
        try:
            chunk = await asyncio.wait_for(anext(stream), _SILENT_SECONDS)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _too_slow() from None
        except ClientDisconnect as error:
            raise ServeError(400, "Disconnected", "The client went away.") from error
        received += len(chunk)
        seconds = time.monotonic() - begin
        is_slow = seconds > _PATIENT_SECONDS and received < seconds * _MIN_BYTES_PER_SECOND
        if is_slow or seconds > _MAX_UPLOAD_SECONDS:
            raise _too_slow()
        yield chunk


def _write(file: IO[bytes], pieces: list[bytes]) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[file.write(rest) :]


class _Form:
    """Collects the parts of a form while a parser reads it: `callbacks` returns the functions that the parser calls."""

    def __init__(self, file: IO[bytes], max_upload_bytes: int) -> None:
        self.upload = Upload()
        self.pieces: list[bytes] = []
        self.has_file = False
        self.is_whole = False
        self._max_upload_bytes = max_upload_bytes
        self._header = b""
        self._value = b""
        self._disposition = b""
        self._field = ""
        self._is_file = False
        self._num_options = 0
        self._text = bytearray()

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._disposition = b""
        self._text = bytearray()

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _end_headers(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        self._field = parameters.get(b"name", b"").decode(errors="replace")
        self._is_file = b"filename" in parameters or self._field == "file"
        if self._is_file:
            if self.has_file:
                raise ServeError(400, "BadRequest", "The form has two files; send each file in its own request.")
            self.has_file = True
            self.upload.name = shown_name(parameters.get(b"filename", b"").decode(errors="replace"))
            return
        self._num_options += 1
        if self._num_options > _MAX_OPTIONS:
            raise ServeError(400, "BadRequest", f"The form has more than {_MAX_OPTIONS} options.")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.upload.size_bytes += end - start
            if self.upload.size_bytes > self._max_upload_bytes:
                raise _too_large(self._max_upload_bytes)
            self.pieces.append(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > _MAX_OPTION_BYTES:
            raise ServeError(400, "BadRequest", f"The option {self._field[:40]!r} is too long.")

    def _end_part(self) -> None:
        if self._is_file:
            return
        text = self._text.decode(errors="replace")
        given = self.upload.options
        # If a field is repeated, which is how forms send lists, join its values.
        given[self._field] = f"{given[self._field]},{text}" if self._field in given else text

    def _end(self) -> None:
        self.is_whole = True


def shown_name(name: str) -> str:
    r"""Return the name of a file for display: without its folders, and without invisible characters.

    The result is never a path, even if a client sends one.

    >>> shown_name("../../etc/passwd"), shown_name("C:\\scans\\page 1.png"), shown_name("..")
    ('passwd', 'page 1.png', 'upload')
    """
    name = _UNSHOWN.sub("", re.split(r"[/\\]", name)[-1]).strip()
    return name[:_MAX_NAME_CHARACTERS] if name.strip(".") else _UNNAMED


def _too_large(most: int) -> ServeError:
    return ServeError(413, "TooLarge", f"The upload is larger than {most} bytes, which is the limit.")


def _too_slow() -> ServeError:
    return ServeError(408, "TooSlow", "The upload was sent too slowly.", {"Connection": "close"})


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
            await worker.call(_work.warm_up, _START_SECONDS, num_threads, _WARM)
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
            self._num_pictures -= Counter({owner: 1})  # removes clients that have none left
        headers = {"Cache-Control": "private, max-age=600", "Content-Length": str(len(data))}
        return StreamingResponse(self._sent(owner, data), media_type=media_type, headers=headers)

    async def _sent(self, owner: str, data: bytes) -> AsyncIterator[bytes]:
        """Yield ``data`` in parts. Until the last one, all of it counts towards the owner's limit of unsent bytes."""
        self._num_unread_bytes[owner] += len(data)
        try:
            for start in range(0, len(data), _CHUNK_BYTES):
                yield data[start : start + _CHUNK_BYTES]
        finally:
            self._num_unread_bytes -= Counter({owner: len(data)})


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

    The folder is locked. If a server is killed, its folder remains, but the lock is released, and the next server
    deletes it. The lock also keeps systemd-tmpfiles from deleting the folder of a server that nobody used for days.
    Raise `WriteError` if the folder cannot be made, or other users could access it.
    """
    top = (Path(tempfile.gettempdir()) if parent is None else parent) / f"mediatensor-serve-{os.getuid()}"
    with ExitStack() as locks:
        try:
            top.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = top.lstat()
            if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
                raise WriteError(
                    f"{top} must be a folder that you own and no other user can access; delete it, or name another "
                    "folder."
                )
            with _locked(top, fcntl.LOCK_EX):
                for stale in top.glob("run-*"):
                    with suppress(OSError), _locked(stale):  # raises if its server is running
                        shutil.rmtree(stale, ignore_errors=True)
                folder = Path(tempfile.mkdtemp(prefix="run-", dir=top))
                locks.enter_context(_locked(folder))
        except WriteError:
            raise
        except OSError as error:
            raise WriteError(f"Uploads cannot be kept in {top}: {error.strerror}.") from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, operation: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
