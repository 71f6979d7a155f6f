"""Documents by URL: answers and misbehaviour of servers; web pages, with a replacement of weasyprint."""

from __future__ import annotations

import http.client
import http.server
import io
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import images
import pdf_files
from mediatensor._engine.sources import http as _http
from mediatensor.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    OpenError,
    OutOfRangeError,
    SourceNotFoundError,
)
from mediatensor.ocr.io import DocumentFile, read_html

# Private: limits of minutes and gigabytes, and redirections from servers with certificates.
from mediatensor.ocr.io import reader as _reader
from range_server import RangeServer, serve

PICTURE = images.picture()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    (tmp_path / "page.png").write_bytes(images.encoded(PICTURE, "PNG"))
    (tmp_path / "report.pdf").write_bytes(pdf_files.document([b"", b"0 g 0 0 612 792 re f"], box="0 0 61 79"))
    (tmp_path / "page.html").write_bytes(b"<!DOCTYPE html><title>Page</title>")
    (tmp_path / "empty").touch()
    (tmp_path / "other").write_bytes(b"neither this nor that")
    with serve(tmp_path) as running:
        yield running


def test_image_is_fetched(server: RangeServer) -> None:
    (page,) = DocumentFile.from_url(f"{server.url}/page.png")
    assert np.array_equal(page, PICTURE)
    assert DocumentFile.from_url(f"{server.url}/moved/page.png", output_size=(4, 5))[0].shape == (4, 5, 3)


@pytest.mark.parametrize("fault", [None, "no length", "ignore ranges"])
def test_pdf_is_fetched(server: RangeServer, fault: str | None) -> None:
    pytest.importorskip("pypdfium2", reason="needs pypdfium2")
    server.fault = fault
    pages = DocumentFile.from_url(f"{server.url}/report.pdf?version=1", dpi=72)
    assert [(page.shape, page.max()) for page in pages] == [((79, 61, 3), 255), ((79, 61, 3), 0)]
    with pytest.raises(OutOfRangeError):
        DocumentFile.from_url(f"{server.url}/report.pdf", pages=[2])


def test_missing_file_is_not_found(server: RangeServer) -> None:
    with pytest.raises(SourceNotFoundError, match="404"):
        DocumentFile.from_url(f"{server.url}/nowhere.png")
    with pytest.raises(OpenError, match="is empty"):
        DocumentFile.from_url(f"{server.url}/empty")
    with pytest.raises(OpenError, match="not an image, PDF or HTML"):
        DocumentFile.from_url(f"{server.url}/other")


@pytest.mark.parametrize("fault", [500, 403, "truncate", "hang up", "endless redirect"])
def test_failing_server_is_reported(server: RangeServer, fault: str | int) -> None:
    server.fault = fault
    with pytest.raises(OpenError, match=r"Could not open http://127\.0\.0\.1"):
        DocumentFile.from_url(f"{server.url}/page.png")


@pytest.mark.parametrize("fault", ["stall", "trickle"])
def test_slow_server_times_out(server: RangeServer, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "TIMEOUT_SECONDS", 0.2)
    server.fault = fault
    with pytest.raises(OpenError, match="time"):
        DocumentFile.from_url(f"{server.url}/page.png")


def test_too_large_file_is_refused(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reader, "MAX_FILE_BYTES", 1000)
    with pytest.raises(OpenError, match="more than the 1000 bytes"):
        DocumentFile.from_url(f"{server.url}/page.png")


@pytest.mark.parametrize(
    "url", ["file:///etc/hosts", "ftp://127.0.0.1/page.png", "page.png", "", 17, None, b"http://a"]
)
def test_other_urls_are_refused(url: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="https://"):
        DocumentFile.from_url(url)


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/page.png", "file:///etc/hosts", "ftp://127.0.0.1/"])
def test_no_redirection_leaves_https(target: str) -> None:
    request = urllib.request.Request("https://127.0.0.1/page.png")
    headers = http.client.HTTPMessage()
    handler = _http._NoDowngrade()
    with pytest.raises(ValueError, match="redirected from https to"):
        handler.redirect_request(request, io.BytesIO(), 302, "Found", headers, target)
    stays = handler.redirect_request(request, io.BytesIO(), 302, "Found", headers, "https://127.0.0.1/other")
    assert stays is not None


def test_redirection_to_a_local_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.png").write_bytes(images.encoded(PICTURE, "PNG"))

    class Redirecting(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", (tmp_path / "page.png").as_uri())
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Redirecting) as redirecting:
        thread = threading.Thread(target=redirecting.handle_request)
        thread.start()
        with pytest.raises(OpenError, match="302"):
            DocumentFile.from_url(f"http://127.0.0.1:{redirecting.server_port}/page.png")
        thread.join()


# Web pages


class StandIn:
    """The arguments of the replacement of weasyprint.

    Attributes:
        arguments: Arguments of the last page.
        pdf: The PDF file that it returns.
    """

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}
        self.pdf = pdf_files.document([b""], box="0 0 61 79")

    def html(self, guess: Any = None, **arguments: Any) -> StandIn:
        self.arguments = {"guess": guess, **arguments}
        return self

    def write_pdf(self) -> bytes:
        if isinstance(self.arguments["guess"], str) and not Path(self.arguments["guess"]).exists():
            raise FileNotFoundError(self.arguments["guess"])
        return self.pdf


class Response:
    def __init__(self, url: str, body: bytes, headers: dict[str, str]) -> None:
        self.url, self.body, self.headers = url, body, headers


class URLFetcher:
    def fetch(self, url: str, headers: Any = None) -> Any:
        return f"weasyprint's own for {url}"


@pytest.fixture
def weasyprint(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    module, urls = ModuleType("weasyprint"), ModuleType("weasyprint.urls")
    urls.URLFetcher, urls.URLFetcherResponse = URLFetcher, Response  # type: ignore[attr-defined]
    module.HTML, module.urls = stand_in.html, urls  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "weasyprint", module)
    monkeypatch.setitem(sys.modules, "weasyprint.urls", urls)
    return stand_in


def test_missing_weasyprint_is_named(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[html\]"):
        read_html(f"{server.url}/page.html")
    with pytest.raises(MissingDependencyError, match="weasyprint"):
        DocumentFile.from_url(f"{server.url}/page.html")
    assert DocumentFile.from_url(f"{server.url}/page.png")[0].shape == (23, 37, 3)


def test_a_web_page_is_printed(server: RangeServer, weasyprint: StandIn) -> None:
    pytest.importorskip("pypdfium2", reason="needs pypdfium2")
    assert read_html(f"{server.url}/page.html") == weasyprint.pdf
    pages = DocumentFile.from_url(f"{server.url}/page.html", scale=1)
    assert pages[0].shape == (79, 61, 3)
    assert weasyprint.arguments["file_obj"].getvalue().startswith(b"<!DOCTYPE html>")
    assert weasyprint.arguments["base_url"] == f"{server.url}/page.html"


def test_web_page_fetches_only_web_resources(server: RangeServer, weasyprint: StandIn) -> None:
    read_html(f"{server.url}/page.html")
    fetcher = weasyprint.arguments["url_fetcher"]
    assert fetcher.fetch(f"{server.url}/page.png").body == images.encoded(PICTURE, "PNG")
    assert "own" in fetcher.fetch("data:text/plain,x")
    for url in ("file:///etc/hosts", "ftp://127.0.0.1/x"):
        with pytest.raises(InvalidArgumentError, match="is not fetched"):
            fetcher.fetch(url)


def test_local_pages_are_printed_without_other_files(server: RangeServer, weasyprint: StandIn, tmp_path: Path) -> None:
    assert read_html(str(tmp_path / "page.html"), encoding="utf-8") == weasyprint.pdf
    fetcher = weasyprint.arguments.pop("url_fetcher")
    assert weasyprint.arguments == {"guess": str(tmp_path / "page.html"), "encoding": "utf-8"}
    assert "own" in fetcher.fetch("data:text/plain,x")
    for url in ("file:///etc/hosts", f"{server.url}/page.png", (tmp_path / "other.html").as_uri()):
        with pytest.raises(InvalidArgumentError, match="pass a url_fetcher"):
            fetcher.fetch(url)
    read_html(str(tmp_path / "page.html"), url_fetcher=print)
    assert weasyprint.arguments["url_fetcher"] is print
    with pytest.raises(SourceNotFoundError, match="nowhere"):
        read_html("nowhere.html")
    with pytest.raises(SourceNotFoundError, match="404"):
        read_html(f"{server.url}/nowhere.html")
