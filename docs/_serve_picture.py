"""Draw ``docs/serve.png``: the page of ``mediatensor serve`` with a page and a video that were read.

    python docs/_serve_picture.py

Needs Chromium, and playwright to drive it (the extra ``test``). The server and its files are the library's own.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).parent / "serve.png"
WIDTH, HEIGHT, GAP = 1180, 700, 12
READ_MS = 120_000


def show_page(page: Page) -> None:
    """The example page, with a word found in it."""
    page.click("[data-example='page.png']")
    page.wait_for_selector("#result:not([hidden])", timeout=READ_MS)
    page.fill("#search", "page")
    page.locator(".sheet img").evaluate("(picture) => picture.decode()")


def show_video(page: Page) -> None:
    """The example video, at one of its captions."""
    page.click("[data-example='video.mp4']")
    page.wait_for_selector("#result:not([hidden])", timeout=READ_MS)
    page.locator(".text-row").nth(1).click()


def main() -> None:
    command = [sys.executable, "-m", "mediatensor", "serve", "--port", "0", "--jobs", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=options)
            shots = []
            for show in (show_page, show_video):
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
                page.goto(address)
                show(page)
                page.mouse.move(0, 0)
                page.wait_for_timeout(1000)
                shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            browser.close()
    finally:
        server.terminate()
        server.wait()
    picture = Image.new("RGB", (WIDTH, 2 * HEIGHT + GAP), "#8a8f98")
    for number, shot in enumerate(shots):
        picture.paste(shot, (0, number * (HEIGHT + GAP)))
    picture.quantize(256, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
