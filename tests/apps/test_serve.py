"""The service: results over HTTP, within limits, and no upload is kept."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import hostile_references as hostile
import images
import media
import pdf_files
from lazy_modules import import_on_use
from mediatensor.cli import main
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import DecodeError, InvalidArgumentError, IsolatedWorkerError, WriteError
from mediatensor.ocr import DocumentFile, ocr_predictor
from mediatensor.serve import _work, create_app, make_server
from mediatensor.serve._jobs import Client, Job, Jobs
from mediatensor.serve._reading import work_on
from mediatensor.serve._settings import Settings
from processes import wait_until, wait_until_gone
from range_server import serve
from serving import BOUNDARY, FORM, Server, form, serving

import_on_use("fastapi", reason="needs the extra serve")
pytest.importorskip("pypdfium2", reason="needs the extra ocr")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MOST_BYTES = 300_000
PDF = pdf_files.document([pdf_files.text_page((20, 60, "first page")), pdf_files.text_page((20, 60, "second"))],
                         box="0 0 200 100")  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, "--jobs", "1", "--max-upload-bytes", str(MOST_BYTES)) as running:
        yield running
    assert list(folder.glob("*/run-*")) == []


@pytest.fixture(scope="module")
def pages() -> Any:
    return DocumentFile.from_pdf(PDF, dpi=144)


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        running: Server = request.getfixturevalue("server")
        wait_until(lambda: not running.uploads(), 5, "an upload stays")
        assert running.ask("GET", "/health").json["status"] == "ok"


def wait_for(server: Server, job: str) -> list[tuple[str, Any]]:
    """The events of a job, up to its end."""
    events = server.ask("GET", f"/jobs/{job}/events").body.decode().strip().split("\n\n")
    lines = [event.splitlines() for event in events if event.startswith("event: ")]
    assert lines[-1][0] in ("event: done", "event: failed", "event: cancelled"), lines
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


def received_from(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    return b"".join(iter(lambda: connection.recv(1000), b""))


def test_pages_are_read_as_the_library_reads_them(server: Server, pages: Any) -> None:
    answer = server.post("/ocr", PDF, "report.pdf")
    assert answer.status == 200
    expected = ocr_predictor(pretrained=True)(pages)
    for told, page in zip(answer.json["pages"], expected.pages, strict=True):
        words = [word for block in page.blocks for line in block.lines for word in line.words]
        assert [word["text"] for word in told["words"]] == [word.value for word in words]
        boxes = np.array([word.geometry for word in words]).reshape(-1, 4)
        np.testing.assert_allclose([word["box"] for word in told["words"]], boxes, atol=1e-6)
        assert (told["height"], told["width"]) == page.dimensions
        assert told["text"] == page.render()
    first, second = (page.render() for page in expected.pages)
    assert server.post("/ocr", PDF, answer="text", pages="2").body.decode() == f"{second}\n"
    assert server.post("/ocr", PDF, answer="text", pages="2,1").body.decode().split() == f"{second} {first}".split()


def test_frames_are_those_of_the_decoder(server: Server, clip: Path) -> None:
    import zipfile

    answer = server.post("/video/frames", clip.read_bytes(), indices="3,-1", seconds="0.2", answer="zip")
    with VideoDecoder(clip) as decoder, zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        expected = [decoder[3], decoder[-1], decoder.get_frame_played_at(0.2).data]
        for name, frame in zip(archive.namelist(), expected, strict=True):
            pixels = np.array(Image.open(io.BytesIO(archive.read(name))))
            np.testing.assert_array_equal(pixels, frame.permute(1, 2, 0).numpy())
    for given in ({"indices": "100000"}, {"indices": "0," * 200, "seconds": "0," * 57}):
        assert server.post("/video/frames", clip.read_bytes(), **given).status == 400


def test_frames_are_numbered_as_after_damage_was_found(server: Server, tmp_path: Path) -> None:
    path = media.make("lost_packets_mpeg4_b_frames_avi", tmp_path)
    with VideoDecoder(path) as decoder:
        num_packets = len(decoder)
        decoder.get_all_frames()
        times = decoder.frame_index.pts_seconds.tolist()
    assert num_packets > len(times)
    indices = [*reversed(range(len(times)))]
    answer = server.post("/video/frames", path.read_bytes(), indices=",".join(map(str, indices)), max_width="16")
    assert [frame["pts_seconds"] for frame in answer.json["frames"]] == [times[index] for index in indices]


def test_frames_with_equal_times_have_their_own_indices(server: Server, tmp_path: Path) -> None:
    path = media.make("equal_pts_mkv", tmp_path)
    with VideoDecoder(path) as decoder:
        times = decoder.frame_index.pts_seconds.tolist()
    first = next(index for index, seconds in enumerate(times) if seconds == times[index + 1])
    given = {"indices": f"{first},{first + 1},-1", "seconds": str(times[first])}
    answer = server.post("/video/frames", path.read_bytes(), **given)
    expected = [first, first + 1, len(times) - 1, first + 1]
    assert [frame["index"] for frame in answer.json["frames"]] == expected


@pytest.mark.parametrize("arguments", [{"allowed_hosts": "example.org"}, {"allowed_hosts": None}, {"folder": 5}])
def test_arguments_of_the_wrong_type(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        create_app(**arguments)


def test_probe_is_that_of_the_command(server: Server, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(clip), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    del expected["file"]
    assert server.post("/probe", clip.read_bytes()).json == expected


def test_a_job_from_its_begin_to_its_end(server: Server, pages: Any) -> None:
    answer = server.post("/jobs", PDF, "../../etc/a\u202eb<i>.pdf", task="page")
    assert answer.status == 202
    job = f"/jobs/{answer.json['id']}"
    events = wait_for(server, answer.json["id"])
    assert {name for name, _ in events[:-1]} == {"progress"}
    last, told = events[-1]
    assert (last, told["state"], told["progress"], told["kind"], told["num_pages"]) == ("done", "done", 1.0, "pages", 2)
    assert told["name"] == "ab<i>.pdf"
    progress = [event["progress"] or 0 for _, event in events]
    assert progress == sorted(progress)
    names = [one["name"] for one in told["downloads"]]
    assert names == ["result.json", "text.txt", "text.md", "searchable.pdf"]
    result = server.ask("GET", f"{job}/result").json
    assert [page["text"] for page in result["pages"]] == ["first page", "second"]
    found = server.ask("GET", f"{job}/download/searchable.pdf")
    assert "attachment" in found.headers["content-disposition"]
    layer = DocumentFile.from_pdf(found.body).text_layer(1)
    assert "second" in [word.value for word in layer]
    picture = np.array(Image.open(io.BytesIO(server.ask("GET", f"{job}/pages/1.png").body)))
    np.testing.assert_array_equal(picture, pages[1])
    assert Image.open(io.BytesIO(server.ask("GET", f"{job}/pages/0.png?max_width=40").body)).width == 40
    part = server.ask("GET", f"{job}/media", range="bytes=5-9")
    assert (part.status, part.body, part.headers["content-type"]) == (206, PDF[5:10], "application/octet-stream")
    for asked, status in (("bytes=5-2", 400), ("bytes=-0", 416)):
        refused = server.ask("GET", f"{job}/media", range=asked)
        assert (refused.status, refused.json["error"]["type"]) == (status, "BadRange")
    assert refused.headers["content-range"] == f"bytes */{len(PDF)}"
    assert server.ask("GET", f"{job}/media", range="pages=1-2").body == PDF
    head = server.ask("HEAD", f"{job}/media")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(PDF)))
    assert server.ask("HEAD", "/").status == 200
    for wrong in ("pages/2.png", "pages/-1.png", "frame.jpg", "download/upload", "download/..%2f..%2flock"):
        assert server.ask("GET", f"{job}/{wrong}").status == 404, wrong
    assert server.ask("DELETE", job).status == 204
    for gone in ("", "/result", "/events", "/media", "/pages/0.png"):
        assert server.ask("GET", f"{job}{gone}").status == 404


def test_pictures_of_a_job_that_is_deleted_meanwhile_are_not_found(server: Server) -> None:
    blank = io.BytesIO()
    Image.new("RGB", (5000, 4000)).save(blank, "PNG")  # drawn for long enough that the others wait
    job = server.post("/jobs", blank.getvalue(), "blank.png", task="page").json["id"]
    wait_until(lambda: "num_pages" in server.ask("GET", f"/jobs/{job}").body.decode(), 60, "the upload is not opened")
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(server.ask, "GET", f"/jobs/{job}/pages/0.png") for _ in range(3)]
        time.sleep(0.2)
        assert server.ask("DELETE", f"/jobs/{job}").status == 204
        found = sorted(answer.result().status for answer in answers)
    assert found[-1] == 404, found
    assert set(found) <= {200, 404}, found


@pytest.mark.parametrize("is_straightened", [False, True])
def test_straightened_pages_are_shown_upright(is_straightened: bool, tmp_path: Path) -> None:
    upload = np.arange(24 * 36 * 3, dtype=np.uint8).reshape(24, 36, 3)
    upright = np.rot90(upload)
    Image.fromarray(upload).save(tmp_path / "upload.png")
    Image.fromarray(upright).save(tmp_path / "000000.png")
    options = {"straighten": is_straightened}
    shown = _work.page_picture(str(tmp_path / "upload.png"), str(tmp_path), 0, options, None)
    np.testing.assert_array_equal(np.array(Image.open(io.BytesIO(shown))), upright if is_straightened else upload)


def test_a_document_fails_after_three_crashed_processes(tmp_path: Path) -> None:
    pages_read: list[int] = []

    class CrashingWorker:
        async def call(self, function: Any, _: float, /, *arguments: Any) -> Any:
            if function is _work.inspect:
                return {"kind": "pages", "pages": range(5)}
            pages_read.append(arguments[1])
            raise IsolatedWorkerError("It crashed.", "crash")

    job = Job("page", {}, "a.pdf", Client("", ""), tmp_path, 0, seconds_left=60.0)
    Jobs(Settings(None, 10_000, 10_000, 60.0, 0, 1, 60.0, (), None), tmp_path).add(job)
    with pytest.raises(IsolatedWorkerError):
        asyncio.run(work_on(job, CrashingWorker(), lambda: False))  # type: ignore[arg-type]
    assert pages_read == [0, 1, 2]


def test_rules_of_the_example_page_enclose_the_table(server: Server) -> None:
    page = np.array(Image.open(io.BytesIO(server.ask("GET", "/examples/page.png").body)))
    is_rule = (page == (0x9A, 0xA3, 0xAD)).all(axis=2)
    rows, columns = np.flatnonzero(is_rule.sum(1) > 500), np.flatnonzero(is_rule.sum(0) > 300)
    assert (len(rows), len(columns)) == (2 * 7, 2 * 5)  # two pixels wide, around six rows and four columns
    assert np.ptp(rows) + 1 == is_rule[:, columns[0]].sum()


def test_text_in_a_video(server: Server, clip: Path) -> None:
    answer = server.post("/jobs", clip.read_bytes(), "clip.mp4", region="0,0,1,0.5")
    name, told = wait_for(server, answer.json["id"])[-1]
    assert (name, told["kind"]) == ("done", "video")
    job = f"/jobs/{told['id']}"
    with VideoDecoder(clip) as decoder:
        assert server.ask("GET", f"{job}/result").json["num_frames"] == len(decoder)
        frame = np.array(
            Image.open(io.BytesIO(server.ask("GET", f"{job}/frame.jpg?seconds={told['duration_seconds']}").body)),
            np.int16,
        )
        expected = decoder[-1].permute(1, 2, 0).numpy()
        assert np.abs(frame - expected).mean() < 10  # JPEG
        assert server.ask("GET", f"{job}/frame.jpg").body == server.ask("GET", f"{job}/frame.jpg?seconds=0").body
    for seconds in ("-1", "1e9"):
        refused = server.ask("GET", f"{job}/frame.jpg?seconds={seconds}")
        assert (refused.status, refused.json["error"]["type"]) == (400, "OutOfRangeError")
    assert server.ask("GET", f"{job}/download/captions.vtt").body.startswith(b"WEBVTT")
    assert server.ask("GET", f"{job}/media").headers["content-type"] == "video/mp4"
    server.ask("DELETE", job)


HOSTILE = {
    "empty": (b"", 415),
    "html": (b"<!DOCTYPE html><script>alert(1)</script>" * 9, 415),
    "noise": (bytes(range(256)) * 40, 415),
    "truncated pdf": (PDF[:300], 415),
    "zip": (b"PK\x03\x04" + bytes(400), 415),
    "wide png": (images.png_claiming(2_000_000, 2_000_000), 422),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_uploads(server: Server, name: str) -> None:
    data, status = HOSTILE[name]
    answer = server.post("/ocr", data, f"{name}.pdf")
    assert answer.status in {415, 422}, answer.body
    assert status in (answer.status, 422)
    assert set(answer.json["error"]) == {"type", "message"}
    assert str(server.folder) not in answer.body.decode()
    for for_programmers in ("max_pixels", "counted from 0", "m3u8", "FFmpeg"):
        assert for_programmers not in answer.body.decode()


def test_what_cannot_be_read_is_said_in_plain_words(server: Server, clip: Path) -> None:
    for path in ("/probe", "/video/frames", "/video/text", "/jobs"):
        answer = server.post(path, b"<!DOCTYPE html><p>" * 30, "page.html")
        if path == "/jobs":
            _, told = wait_for(server, answer.json["id"])[-1]
            server.ask("DELETE", f"/jobs/{told['id']}")
        else:
            told = answer.json
            assert answer.status == 415
        assert told["error"]["message"].endswith("videos such as MP4, MOV, MKV and WebM are read here.")
        assert "m3u8" not in told["error"]["message"]
    for path in ("/probe", "/video/frames"):
        assert server.post(path, PDF).json["error"]["message"] == "This is not a video, but a PDF file."
    told = server.post("/video/text", b"x", region="0,0,1").json["error"]["message"]
    assert told == "region='0,0,1': give left, top, right and bottom as numbers from 0 to 1, such as 0,0.7,1,1."
    told = server.post("/ocr", PDF, languages="klingon").json["error"]["message"]
    assert told.startswith("languages=klingon: there are afrikaans, ")
    assert ", german, " in told
    assert server.post("/video/text", clip.read_bytes(), languages="klingon").json["error"]["message"] == told
    for name in ("russian", "vietnamese"):  # which are read without the option
        told = server.post("/ocr", PDF, languages=f"german,{name}").json["error"]["message"]
        assert f"the recogniser lacks letters of {name}. Leave languages out" in told
    assert server.post("/ocr", PDF, languages="german,simplified_chinese", answer="text", pages="2").body == b"second\n"


@pytest.mark.parametrize("name", ["PageOptions", "JobOptions"])
def test_default_requests_use_the_models_loaded_at_the_start(name: str) -> None:
    from mediatensor.serve import _schemas, _service

    _work.warm_up(torch.get_num_threads(), _service._WARM)
    num_loaded = _work._load_reader.cache_info().misses
    _work.page_reader(getattr(_schemas, name)().model_dump())
    assert _work._load_reader.cache_info().misses == num_loaded


def test_events_tell_how_a_job_ended_however_soon_it_ends(server: Server) -> None:
    for _ in range(20):
        job = server.post("/jobs", b"<p>", "page.html").json["id"]
        assert wait_for(server, job)[-1][0] == "failed"
        server.ask("DELETE", f"/jobs/{job}")


def test_nothing_but_the_upload_is_read(server: Server, tmp_path: Path, clip: Path) -> None:
    secret = tmp_path / "elsewhere" / "secret.mp4"
    secret.parent.mkdir()
    secret.write_bytes(clip.read_bytes())
    opened = hostile.OpenedFiles(secret.parent)
    with serve(secret.parent) as elsewhere:
        for target in (str(secret), f"{elsewhere.url}/secret.mp4"):
            for name, data in hostile.playlists(target).items():
                if name in ("list.m3u8", "concat_as.ts", "manifest.mpd", "reference.asx"):
                    assert server.post("/probe", data, name).status in {415, 422}
        alias = hostile.movie_elsewhere(clip.read_bytes(), str(secret))
        server.post("/video/frames", alias, "alias.mov")
        assert opened.names() == []
        assert elsewhere.paths == []
        assert secret.read_bytes()
        assert opened.names() == ["secret.mp4"]  # it would have been seen
    opened.close()


def test_uploads_that_cannot_be_stored(server: Server) -> None:
    (folder,) = server.folder.glob("*/run-*")
    moved = folder.rename(folder.with_name("moved"))
    answer = server.post("/probe", b"x")
    moved.rename(folder)
    assert (answer.status, answer.json["error"]["type"]) == (503, "StorageFull")
    assert str(server.folder) not in answer.body.decode()


def test_the_folder_of_uploads_is_locked(server: Server) -> None:
    (folder,) = server.folder.glob("*/run-*")
    descriptor = os.open(folder, os.O_RDONLY)
    with pytest.raises(BlockingIOError):  # systemd-tmpfiles leaves folders with a lock
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(descriptor)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("/srv/models"), 500, "The server has a fault, which its log describes."),
        (DecodeError("/srv/secret"), 500, "The server has a fault, which its log describes."),
        (OSError(28, "No space left on device", "/srv/a"), 503, "A file cannot be stored: No space left on device."),
        (WriteError("/srv/secret cannot be written"), 503, "A file cannot be stored: WriteError."),
    ],
)
def test_errors_outside_of_jobs_do_not_name_paths(error: Exception, status: int, message: str) -> None:
    app = create_app()

    @app.get("/broken")
    def broken() -> None:
        raise error

    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/broken", "query_string": b"", "headers": headers}
    with suppress(ValueError, DecodeError):  # which a server logs
        asyncio.run(app(scope, receive, send))
    kind = {500: "InternalError", 503: "StorageFull"}[status]
    assert (sent[0]["status"], json.loads(sent[1]["body"])["error"]) == (status, {"type": kind, "message": message})


def test_a_job_is_removed_even_if_its_client_does_not_read_the_answer(tmp_path: Path) -> None:
    from starlette.background import BackgroundTask

    from mediatensor.serve._routes import _FileAnswer

    removed: list[str] = []
    (tmp_path / "result.json").write_bytes(b"{}")
    answer = _FileAnswer(tmp_path / "result.json", background=BackgroundTask(removed.append, "job"))

    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        raise ConnectionAbortedError

    scope = {"type": "http", "method": "POST", "headers": [], "asgi": {"spec_version": "2.4"}}
    with suppress(ConnectionAbortedError):
        asyncio.run(answer(scope, receive, send))
    assert removed == ["job"]


def test_clients_of_a_unix_socket_are_told_apart_by_name() -> None:
    from fastapi import Request

    from mediatensor.serve._service import client_of

    clients = [client_of(Request({"type": "http", "headers": [(b"x-client", name)]})) for name in (b"a", b"b")]
    assert clients[0].owner != clients[1].owner


def test_uploads_that_are_too_large(server: Server) -> None:
    head = f"POST /ocr HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n"
    with server.raw(f"{head}Content-Length: 2147483648\r\n\r\n".encode()) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")  # before any of it came
    with server.raw(f"{head}Expect: 100-continue\r\nContent-Length: 2147483648\r\n\r\n".encode()) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    body = form(bytes(MOST_BYTES + 1), "zeros")
    pieces = (body[start : start + 50_000] for start in range(0, len(body), 50_000))
    assert server.ask("POST", "/ocr", pieces, content_type=FORM).status == 413
    assert server.post("/probe", bytes(MOST_BYTES)).status == 415  # read, and found to be nothing


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no file"),
        (form(b"x", "a", dpi="many"), "dpi='many'"),
        (form(b"x", "a", pages="3-x"), "pages='3-x': give pages, counted from 1, and ranges of them"),
        (form(b"x", "a", url="http://localhost/"), "no option 'url'"),
        (form(b"x", "a").removesuffix(b"--\r\n") + b"\r\n" + form(b"x", "b").partition(b"\r\n")[2], "two files"),
        (b"--nothing", "cannot be read"),
        (form(b"x" * 999, "a")[:-60], "cut short"),
        (form(b"x", "a", dpi="144").removesuffix(b"--\r\n"), "cut short"),
        (form(b"x", "a", **{f"o{number}": 1 for number in range(70)}), "more than 64"),
        (form(b"x", "a", dpi="1" * 20_000), "too long"),
        (
            form(b"x", "a", pages="1").partition(
                b'--%b\r\nContent-Disposition: form-data; name="file"' % BOUNDARY.encode()
            )[0]
            * 70
            + form(b"x", "a"),
            "more than 64",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_forms(server: Server, body: bytes, message: str) -> None:
    body = body or f"--{BOUNDARY}--\r\n".encode()
    answer = server.ask("POST", "/ocr", body, content_type=FORM)
    assert answer.status == 400
    assert message in answer.json["error"]["message"]


def test_options_in_the_address_are_refused_and_not_ignored(server: Server) -> None:
    for path in ("/ocr?answer=text", "/video/frames?indices=5", "/jobs?task=page"):
        answer = server.ask("POST", path, form(PDF, "a"), content_type=FORM)
        assert (answer.status, answer.json["error"]["type"]) == (400, "BadOption"), path
        assert "as fields of the form" in answer.json["error"]["message"]


def test_cancelling_ends_the_process(server: Server) -> None:
    before = server.children()
    endless = server.post("/jobs", pdf_files.endless(), "endless.pdf", client="a").json["id"]
    wait_until(lambda: server.ask("GET", f"/jobs/{endless}").json["message"] == "page 1 of 2")
    # Other clients wait in turn, and not too many.
    waiting = [server.post("/jobs", PDF, client="a", pages="1").json["id"] for _ in range(3)]
    other = server.post("/jobs", PDF, client="b", pages="1").json["id"]
    full = [server.post("/jobs", b"x", client="c") for _ in range(33)]
    assert [answer.status for answer in full] == [202] * 32 + [429]
    assert int(full[-1].headers["retry-after"]) > 0
    rest = [server.post("/jobs", b"x", client="d") for _ in range(64 - 4 - 32 + 1)]
    assert [answer.status for answer in rest] == [202] * 28 + [503]
    assert server.ask("GET", f"/jobs/{other}").json["message"] == "waiting: 1 job before this one"
    for answer in [*full[:-1], *rest[:-1]]:
        assert server.ask("DELETE", f"/jobs/{answer.json['id']}").status == 204
    watched: list[tuple[str, Any]] = []
    watcher = threading.Thread(target=lambda: watched.extend(wait_for(server, endless)))
    watcher.start()
    time.sleep(0.2)
    assert server.ask("DELETE", f"/jobs/{endless}").status == 204
    watcher.join(60)
    assert watched[-1][0] == "cancelled"
    assert wait_for(server, other)[-1][0] == "done"
    states = [server.ask("GET", f"/jobs/{job}").json["state"] for job in waiting]
    assert states[-1] != "done"  # the other one was first
    for job in waiting:
        assert wait_for(server, job)[-1][0] == "done"
    ended = before - server.children()
    assert ended  # the process of the endless page
    for pid in ended:
        wait_until_gone(pid)
    for job in (*waiting, other):
        server.ask("DELETE", f"/jobs/{job}")


def test_a_client_that_goes_away_is_not_worked_for(server: Server, clip: Path) -> None:
    body = form(pdf_files.endless(), "endless.pdf")
    head = f"POST /ocr HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: {len(body)}\r\n\r\n"
    with server.raw(head.encode() + body):
        wait_until(server.uploads, 20)
    assert server.post("/probe", clip.read_bytes()).status == 200  # the only worker is free again


def test_foreign_names_and_pages_are_refused(server: Server) -> None:
    for name in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8000"):
        assert server.ask("GET", "/limits", host=name).status == 403
    for name in ("localhost", "127.0.0.1:1", "[::1]:8000"):
        assert server.ask("GET", "/limits", host=name).status == 200
    own = f"127.0.0.1:{server.port}"
    for origin in ("http://evil.example", "null", "http://localhost:1", f"http://{own}.evil.example"):
        assert server.ask("POST", "/jobs", b"", origin=origin).status == 403
        assert server.ask("GET", "/limits", origin=origin).status == 403
    assert server.ask("GET", "/limits", origin=f"http://{own}").status == 200
    assert server.ask("GET", "/limits", sec_fetch_site="cross-site").status == 403
    headers = server.ask("GET", "/limits").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_it_describes_itself(server: Server) -> None:
    told = server.ask("GET", "/openapi.json").json
    assert {"/ocr", "/layout", "/video/frames", "/video/text", "/probe", "/jobs"} <= set(told["paths"])
    options = told["paths"]["/ocr"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"]
    assert options["dpi"]["default"] == 144
    assert "PagesResult" in told["components"]["schemas"]
    assert server.ask("GET", "/docs").status == 404  # it would load scripts from elsewhere
    assert server.ask("GET", "/page/..%2f__init__.py").status == 404
    assert server.ask("PUT", "/jobs").json["error"]["type"] == "MethodNotAllowed"


def stop_and_check(stopped: Server) -> None:
    """Stop a server, and check that the clients that wait for it are told."""
    job = stopped.post("/jobs", pdf_files.endless(), "endless.pdf").json["id"]
    told: list[Any] = []
    waiting = [
        threading.Thread(target=lambda: told.append(wait_for(stopped, job)[-1])),
        threading.Thread(target=lambda: told.append(stopped.post("/ocr", PDF))),
    ]
    for thread in waiting:
        thread.start()
    wait_until(lambda: len(stopped.uploads()) >= 2)
    head = f"POST /ocr HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\nContent-Type: {FORM}\r\n\r\n--"
    with stopped.raw(head.encode()) as slow:
        wait_until(lambda: len(stopped.uploads()) >= 3)
        stopped.process.terminate()
        for thread in waiting:
            thread.join(60)
        received = received_from(slow)
    stopped.process.wait(60)
    (name, event), answer = sorted(told, key=len)
    assert (name, event["error"]["type"]) == ("failed", "Stopping")
    assert (answer.status, answer.json["error"]["type"]) == (503, "Stopping")
    assert received.startswith(b"HTTP/1.1 503 ")
    assert b'"Stopping"' in received


def test_token_timeout_kill_restart_and_stop(tmp_path: Path) -> None:
    token = "a-token-of-some-length"
    with serving(tmp_path, "--jobs", "1", "--timeout", "1", token=token) as first:
        assert first.ask("GET", "/health").status == 200
        assert first.ask("GET", "/limits").status == 401
        assert first.ask("GET", "/limits", authorization="Bearer wrong").status == 401
        assert first.ask("GET", "/?token=wrong").status == 401
        assert first.ask("GET", "/?token=wrong" + "&a" * 100).status == 401
        assert first.ask("GET", "/limits", authorization=f"Bearer {token}").status == 200
        entered = first.ask("GET", f"/?token={token}")
        cookie, _, attributes = entered.headers["set-cookie"].partition(";")
        assert (entered.status, entered.headers["location"]) == (303, "./")
        assert "httponly" in attributes.lower()
        assert "samesite=strict" in attributes.lower()
        assert token not in cookie
        assert first.ask("GET", "/limits", cookie=cookie).status == 200
        assert first.ask("GET", "/limits", cookie=cookie[:-1] + "x").status == 401
        late = first.ask("POST", "/ocr", form(pdf_files.endless(), "e.pdf"), content_type=FORM, cookie=cookie)
        assert (late.status, late.json["error"]["type"]) == (504, "IsolatedWorkerError")
        first.ask("POST", "/jobs", form(pdf_files.endless(), "e.pdf"), content_type=FORM, cookie=cookie)
        assert first.uploads()
        children = first.children()
        assert children
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        for pid in children:
            wait_until_gone(pid)
        assert first.uploads()
        with serving(tmp_path, "--jobs", "1", errors=tmp_path / "errors", forks=False) as second:
            assert second.ask("GET", "/health").status == 200
            assert second.uploads() == []
            stop_and_check(second)
    assert "Traceback" not in (tmp_path / "errors").read_text()
    assert list(tmp_path.glob("*/run-*")) == []


def test_what_keeps_it_from_starting_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    linked = tmp_path / "linked" / f"mediatensor-serve-{os.getuid()}"
    linked.parent.mkdir()
    linked.symlink_to(tmp_path)
    for options, message in (
        (("--port", "0", "--folder", str(tmp_path / "file")), "Not a directory.\n"),
        (("--port", "0", "--folder", str(linked.parent)), "name another folder.\n"),
        (("--port", "65536"), "from 0 to 65535 (got '65536') (see `mediatensor serve --help`)\n"),
    ):
        assert main(["serve", *options]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.endswith(message)
        assert "Traceback" not in told.err


@contextmanager
def bare_server(**limits: Any) -> Iterator[Callable[[bytes], socket.socket]]:
    """Run a server without a service; yield a function that opens a connection and writes to it."""
    from fastapi import FastAPI

    app = FastAPI()
    app.get("/")(lambda: "hello")
    server = make_server(app, "127.0.0.1", 0, **limits)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()

        def connect(data: bytes) -> socket.socket:
            connection = socket.create_connection(listening.getsockname(), timeout=30)
            connection.sendall(data)
            return connection

        try:
            yield connect
        finally:
            server.should_exit = True
            thread.join(30)


def test_slow_connections_are_closed() -> None:
    with bare_server(head_seconds=0.3) as connect:
        with connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") as slow, connect(b"") as silent:
            assert slow.recv(100) == b""  # closed, without an answer
            assert silent.recv(100) == b""
        with connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n") as next_is_slow:
            assert received_from(next_is_slow).startswith(b"HTTP/1.1 200")


def test_connections_are_not_too_many() -> None:
    with bare_server(max_connections=3) as connect:
        idle = [connect(b"") for _ in range(3)]
        with connect(b"") as one_too_many, suppress(ConnectionResetError):
            assert one_too_many.recv(100) == b""
        for connection in idle:
            connection.close()
