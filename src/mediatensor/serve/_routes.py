"""The routes of the HTTP interface."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError
from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from .. import __version__
from . import _schemas as schemas
from . import _work
from ._errors import ServeError, answer_to_fault
from ._examples import EXAMPLES, example_file
from ._guard import Guard, error_answer
from ._jobs import Job, Task, media_type_of
from ._service import Service, media_path
from ._settings import MAX_FRAMES, MAX_PAGES, Settings

logger = logging.getLogger("mediatensor.serve")

_PAGE = Path(__file__).parent / "_page"
_PAGE_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILE_OF_ANSWER = {kind: name for name, kind in _work.FORMATS.items()}
_FILE_OF_ANSWER |= {"srt": "captions.srt", "vtt": "captions.vtt", "zip": "frames.zip", "json": "result.json"}
# Media types that browsers may display. They cannot contain scripts.
_SHOWN_TYPES = {
    *(f"image/{name}" for name in _work.TYPES_OF_BROWSERS),
    *(f"video/{name}" for name in ("mp4", "quicktime", "webm", "x-matroska", "ogg")),
}
# Messages that replace pydantic's.
_ADVICE = {
    "pages": "give pages, counted from 1, and ranges of them, such as 1-3,7,10-",
    "region": "give left, top, right and bottom as numbers from 0 to 1, such as 0,0.7,1,1",
}
_STILL_HERE_SECONDS = 15.0
# Changes within this time are sent as a single event.
_EVENT_SECONDS = 0.1
_Responses: TypeAlias = dict[int | str, dict[str, Any]]

_ERRORS: _Responses = {
    status: {"model": schemas.ErrorAnswer, "description": description}
    for status, description in (
        (400, "An option has a value that is not accepted, or the form cannot be read."),
        (401, "The token is missing or wrong."),
        (403, "The request was sent to a foreign host name, or from a page of another server."),
        (408, "The upload was sent too slowly."),
        (413, "The upload is too large."),
        (415, "The upload is not a file that can be read."),
        (422, "The upload is damaged, or needs too much memory."),
        (429, "Too many jobs of this client wait; see Retry-After."),
        (503, "Too many jobs wait; see Retry-After."),
        (504, "The work took too long."),
    )
}


def application(settings: Settings) -> FastAPI:
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="mediatensor",
        version=__version__,
        summary="The contents of images, PDF files and videos, and the text in their pixels.",
        lifespan=lifespan,
        # FastAPI's documentation pages would load scripts from other servers.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.add_middleware(Guard, settings=settings)
    for kind in (ServeError, HTTPException, RequestValidationError, OSError, Exception):
        app.add_exception_handler(kind, _answer_error)
    _add_page(app)
    _add_calls(app, service)
    _add_jobs(app, service)
    _add_server(app, settings)
    return app


async def _answer_error(_: Request, error: Exception) -> Response:
    """Return the HTTP response for an exception that a route, Starlette or FastAPI has raised."""
    if isinstance(error, HTTPException):
        names = {404: "NotFound", 405: "MethodNotAllowed"}
        kind = names.get(error.status_code, "HTTPError")
        error = ServeError(error.status_code, kind, f"{error.detail}.", error.headers)
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        error = ServeError(400, "BadOption", f"{first['loc'][-1]}: {first['msg']}.")
    elif not isinstance(error, ServeError):
        logger.error("a request failed", exc_info=error)
        error = answer_to_fault(error)
    return error_answer(error)


class _FileAnswer(FileResponse):
    """A response with a file. If the client requests an invalid byte range, the error is JSON, as in other routes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("range", "")
        if not given.strip().lower().startswith("bytes"):  # unknown units are ignored (RFC 9110)
            scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"range"]}
        refused: Message | None = None

        async def send_unless_refused(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in (400, 416):
                refused = message
            if refused is None:
                await send(message)

        background, self.background = self.background, None
        try:
            await super().__call__(scope, receive, send_unless_refused)
        finally:  # even if the client does not read the file to its end
            if background is not None:
                await background()
        if refused is not None:
            sent = Headers(raw=refused["headers"])
            headers = {"Content-Range": sent["content-range"]} if "content-range" in sent else None
            problem = f"Range: {given[:60]} is not a range of this file; ask for bytes=FIRST-LAST, counted from 0."
            await error_answer(ServeError(refused["status"], "BadRange", problem, headers))(scope, receive, send)


def _add_page(app: FastAPI) -> None:
    files = {path.name: path for path in _PAGE.iterdir() if path.suffix in _PAGE_TYPES} if _PAGE.is_dir() else {}

    def send(name: str) -> Response:
        if name not in files:
            raise ServeError(404, "NotFound", "There is no such page.")
        media_type = _PAGE_TYPES[files[name].suffix]
        return _FileAnswer(files[name], media_type=media_type, headers={"Cache-Control": "no-cache"})

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return send("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        return send(name)

    # Not async, because drawing an example takes a second and would block the event loop.
    @app.get("/examples/{name}", include_in_schema=False)
    def example(name: str) -> Response:
        if name not in EXAMPLES:
            raise ServeError(404, "NotFound", "There is no such example.")
        return Response(example_file(name), media_type=EXAMPLES[name])


def _add_calls(app: FastAPI, service: Service) -> None:
    contents = {"description": "The contents.", "content": {"application/json": {"schema": {"type": "object"}}}}

    def add(
        path: str, task: Task, options: type[BaseModel], result: type[BaseModel] | None, summary: str, example: str
    ) -> None:
        success = {"model": result, "description": "The result; with another `answer`, a file."} if result else contents

        async def call(request: Request) -> Response:
            def check(given: Mapping[str, str]) -> tuple[Task, dict[str, Any]]:
                return task, _add_files(_check_options(options, given))

            job = await service.accept(request, check)
            await service.wait_for(job, request)
            return _answer(service, job, _FILE_OF_ANSWER[job.options.get("answer", "json")])

        call.__name__ = path.strip("/").replace("/", "_")
        app.post(
            path,
            summary=summary,
            description=f"{options.__doc__ or ''}\n\n{example}",
            responses={**_ERRORS, 200: success},
            response_class=Response,
            openapi_extra={"requestBody": _describe_form(options)},
        )(call)

    add("/ocr", "page", schemas.PageOptions, schemas.PagesResult, "The text of an image or a PDF file",
        "`curl -F file=@scan.pdf http://127.0.0.1:8000/ocr`")  # fmt: skip
    add("/layout", "page", schemas.LayoutOptions, schemas.PagesResult, "The text, regions and tables of a document",
        "`curl -F file=@report.pdf http://127.0.0.1:8000/layout`")  # fmt: skip
    add("/probe", "probe", schemas.ProbeOptions, None, "The contents of a media file, as by `mediatensor probe --json`",
        "`curl -F file=@talk.mp4 http://127.0.0.1:8000/probe`")  # fmt: skip
    add("/video/frames", "frames", schemas.FramesOptions, schemas.FramesResult, "Exact frames of a video as images",
        "`curl -F file=@talk.mp4 -F seconds=0,12.5 http://127.0.0.1:8000/video/frames`")  # fmt: skip
    add("/video/text", "video", schemas.VideoOptions, schemas.VideoResult, "The text in a video, with times",
        "`curl -F file=@talk.mp4 -F answer=srt http://127.0.0.1:8000/video/text`")  # fmt: skip


def _check_options(options: type[BaseModel], given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return options.model_validate({name: text for name, text in given.items() if text}).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(map(str, first["loc"][:1]))
        if first["type"] == "extra_forbidden":
            accepted = ", ".join(sorted(options.model_fields))
            raise ServeError(400, "BadOption", f"There is no option {name[:40]!r}; there are {accepted}.") from None
        message = _ADVICE.get(name, first["msg"])
        raise ServeError(400, "BadOption", f"{name}={given.get(name, '')[:60]!r}: {message}.") from None


def _add_files(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with an additional option ``files``, which lists the result files that must be made."""
    answer = _FILE_OF_ANSWER[options.get("answer", "json")]
    if answer == "tables.csv":
        options["tables"] = True
    return {**options, "files": () if answer == "result.json" else (answer,)}


def _answer(service: Service, job: Job, name: str) -> Response:
    """Return a response with a result file, after which the job is removed."""
    forget = BackgroundTask(service.jobs.forget, job)
    if name == "tables.csv" and name not in job.downloads:
        return Response(b"", media_type="text/csv", background=forget)  # the document has no tables
    return _FileAnswer(media_path(job, name), media_type=media_type_of(name), background=forget)


def _describe_form(options: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a form with a file and ``options``."""
    schema = options.model_json_schema()
    file = {"type": "string", "format": "binary", "description": "An image, a PDF file, or a video."}
    properties = {"file": file, **{name: _without_null(one) for name, one in schema.get("properties", {}).items()}}
    form = {"type": "object", "required": ["file"], "properties": properties, "additionalProperties": False}
    return {"required": True, "content": {"multipart/form-data": {"schema": form}}}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the types in an option's ``schema``, because forms omit a field instead of sending null."""
    if "anyOf" in schema:
        (non_null,) = (choice for choice in schema["anyOf"] if choice.get("type") != "null")
        schema = {**{key: value for key, value in schema.items() if key != "anyOf"}, **non_null}
    if schema.get("default", ...) in (None, ()):
        schema = {key: value for key, value in schema.items() if key != "default"}
    return schema


def _add_jobs(app: FastAPI, service: Service) -> None:
    def check(given: Mapping[str, str]) -> tuple[Task, dict[str, Any]]:
        options = _check_options(schemas.JobOptions, given)
        return options.pop("task"), {**options, "files": tuple(_work.FORMATS)}

    @app.post(
        "/jobs",
        status_code=202,
        summary="Read an upload; ask for the result later",
        responses={202: {"model": schemas.JobStatus, "description": "The job, which waits or runs."}, **_ERRORS},
        response_class=JSONResponse,
        openapi_extra={"requestBody": _describe_form(schemas.JobOptions)},
    )
    async def create_job(request: Request) -> Response:
        job = await service.accept(request, check)
        return JSONResponse(job.describe(), 202, {"Location": f"jobs/{job.id}"})

    not_found: _Responses = {404: {"model": schemas.ErrorAnswer, "description": "There is no such job."}}

    @app.get(
        "/jobs/{job_id}",
        summary="The state of a job",
        responses={200: {"model": schemas.JobStatus}, **not_found},
        response_class=JSONResponse,
    )
    async def get_job(job_id: str) -> Response:
        return JSONResponse(service.jobs[job_id].describe())

    @app.get(
        "/jobs/{job_id}/events",
        summary="The state of a job at every change: server-sent events, `progress` until it ends",
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **not_found},
        response_class=Response,
    )
    async def get_events(job_id: str) -> Response:
        return StreamingResponse(
            _events(service.jobs[job_id]), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    @app.delete(
        "/jobs/{job_id}",
        status_code=204,
        summary="Cancel a job, and delete its upload and results",
        responses=not_found,
    )
    async def delete_job(job_id: str) -> Response:
        service.jobs.forget(service.jobs[job_id])
        return Response(status_code=204)

    def done_job(job_id: str) -> Job:
        job = service.jobs[job_id]
        if job.state == "failed" and job.error is not None:
            raise job.error
        if job.state != "done":
            raise ServeError(409, "NotDone", f"The job is {job.state}; wait for its events.")
        return job

    not_done: _Responses = {409: {"model": schemas.ErrorAnswer, "description": "The job is not done."}}
    results = [{"$ref": f"#/components/schemas/{name}"} for name in ("PagesResult", "VideoResult")]

    @app.get(
        "/jobs/{job_id}/result",
        summary="The result: pages, or a video",
        responses={
            200: {"description": "The result.", "content": {"application/json": {"schema": {"anyOf": results}}}},
            **not_found,
            **not_done,
        },
        response_class=Response,
    )
    async def get_result(job_id: str) -> Response:
        return _FileAnswer(media_path(done_job(job_id), "result.json"), media_type="application/json")

    @app.get(
        "/jobs/{job_id}/download/{name}",
        summary="A result file: one of the `downloads` of the job",
        responses={200: {"content": {"application/octet-stream": {}}}, **not_found, **not_done},
        response_class=Response,
    )
    async def get_download(job_id: str, name: str) -> Response:
        job = done_job(job_id)
        stem = re.sub(r"\.[^.]*$", "", job.name) or job.name
        return _FileAnswer(media_path(job, name), media_type=media_type_of(name), filename=f"{stem}.{name}")

    _add_pictures(app, service, not_found)


def _add_pictures(app: FastAPI, service: Service, not_found: _Responses) -> None:
    @app.get(
        "/jobs/{job_id}/pages/{index}.png",
        summary="The image of a page",
        responses={200: {"content": {"image/png": {}}}, **not_found},
        response_class=Response,
    )
    async def get_page(
        request: Request, job_id: str, index: int, max_width: int | None = Query(None, ge=16, le=4096)
    ) -> Response:
        job = _check_kind(service.jobs[job_id], "pages")
        if not 0 <= index < job.facts["num_pages"]:
            raise ServeError(404, "UnknownPage", f"The document has pages 0 to {job.facts['num_pages'] - 1}.")
        straightened = job.folder / f"{index:06d}.png"
        if job.options.get("straighten") and max_width is None and straightened.is_file():
            return _FileAnswer(straightened, media_type="image/png")
        return await service.draw(
            request, job, "image/png", _work.page_picture, str(job.folder), index, job.options, max_width
        )

    @app.get(
        "/jobs/{job_id}/frame.jpg",
        summary="The frame of a video at a time, or the first one",
        responses={200: {"content": {"image/jpeg": {}}}, 400: _ERRORS[400], **not_found},
        response_class=Response,
    )
    async def get_frame(
        request: Request,
        job_id: str,
        seconds: float | None = Query(None, allow_inf_nan=False),
        max_width: int | None = Query(None, ge=16, le=4096),
    ) -> Response:
        job = _check_kind(service.jobs[job_id], "video")
        return await service.draw(request, job, "image/jpeg", _work.frame_picture, seconds, max_width)

    @app.head("/jobs/{job_id}/media", include_in_schema=False)
    @app.get(
        "/jobs/{job_id}/media",
        summary="The upload, or a range of it",
        responses={200: {"content": {"application/octet-stream": {}}}, **not_found},
        response_class=Response,
    )
    async def get_media(job_id: str) -> Response:
        job = service.jobs[job_id]
        media_type = job.facts.get("media_type")
        if media_type not in _SHOWN_TYPES:
            media_type = "application/octet-stream"
        return _FileAnswer(job.upload, media_type=media_type, headers={"Content-Security-Policy": "sandbox"})


def _check_kind(job: Job, kind: str) -> Job:
    if not job.facts:
        raise ServeError(409, "NotDone", "The upload was not opened yet.")
    if job.facts["kind"] != kind:
        raise ServeError(404, "NotFound", f"The upload is of the kind {job.facts['kind']!r}, not {kind!r}.")
    return job


async def _events(job: Job) -> AsyncIterator[str]:
    while True:
        # Read the state before sending, because the job may change during the send.
        changed, is_ended = job.changed, job.is_ended
        name = job.state if is_ended else "progress"
        yield f"event: {name}\ndata: {json.dumps(job.describe())}\n\n"
        if is_ended:
            return
        await asyncio.sleep(_EVENT_SECONDS)
        while not changed.is_set():
            try:
                await asyncio.wait_for(changed.wait(), _STILL_HERE_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"


def _add_server(app: FastAPI, settings: Settings) -> None:
    @app.get("/health", summary="The status of the server")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/limits", summary="The limits of the server", response_model=schemas.Limits)
    async def limits() -> dict[str, Any]:
        shown = {name: value for name, value in vars(settings).items() if name in schemas.Limits.model_fields}
        constants = {"version": __version__, "max_pages": MAX_PAGES, "max_frames": MAX_FRAMES}
        return {**shown, **constants, "examples": list(EXAMPLES)}
