"""Rate of generated lines and pages, and a sheet of samples: ``python -m benchmarks.text.drawing [-o samples.png]``.

Rates are for one second of CPU time, after a first round that opens fonts and textures. The installed fonts are used,
so the same seeds give other images on machines with other fonts.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from mediatensor.ocr.drawing import PAGE_KINDS, STYLES, draw_random_line, draw_random_page

LANGUAGES = tuple("de en fr es it pt nl pl cs sv fi tr hu vi ru uk bg sr el".split())  # noqa: SIM905 - shorter


def rate(draw: Callable[[random.Random], Any], count: int) -> float:
    """Return how many items are generated per second of CPU time."""
    for seed in range(count):
        draw(random.Random(seed))
    before = time.process_time()
    for seed in range(count, 2 * count):
        draw(random.Random(seed))
    return count / (time.process_time() - before)


def samples(seed: int = 0) -> Image.Image:
    """Return a sheet with pages of all kinds, and lines next to them."""
    sheet, gap, paper = Image.new("RGB", (1500, 1130), (236, 238, 242)), 10, (455, 300)
    left, tops = gap, [gap, gap, gap]
    for number, kind in enumerate(("letter", "form", "table", "columns", "report", "receipt", "slide", "caption")):
        page = draw_random_page(random.Random(f"{kind} {seed}"), kind=kind, languages=LANGUAGES)
        picture = Image.fromarray(page.image)
        picture.thumbnail((330, paper[0]) if number < 6 else (330, 300), Image.Resampling.LANCZOS)
        column = number % 3 if number < 6 else number - 6
        sheet.paste(picture, (left + column * 340, tops[column]))
        tops[column] += picture.height + gap
    rng, y, x = random.Random(f"lines {seed}"), gap, gap + 3 * 340
    while True:
        picture = Image.fromarray(draw_random_line(rng, languages=LANGUAGES).image)
        if picture.width > 900 or picture.height > 80:
            continue
        picture.thumbnail((460, 36), Image.Resampling.LANCZOS)
        if y + picture.height > sheet.height - gap:
            return sheet
        sheet.paste(picture, (x, y))
        y += picture.height + 7


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, help="write a sheet of samples into this PNG")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--count", type=int, default=400, help="lines to draw; a tenth as many pages of each kind")
    options = parser.parse_args(arguments)
    if options.output:
        sheet = samples(options.seed).quantize(60, dither=Image.Dither.NONE)
        sheet.save(options.output, optimize=True)
        print(f"wrote {options.output}")
        return
    for style in STYLES:
        lines = rate(lambda rng, style=style: draw_random_line(rng, languages=LANGUAGES, style=style), options.count)
        print(f"lines, {style:8} {lines:8.0f} a second")
    for kind in PAGE_KINDS:
        pages = rate(lambda rng, kind=kind: draw_random_page(rng, kind=kind, languages=LANGUAGES), options.count // 10)
        print(f"pages, {kind:8} {pages:8.1f} a second")


if __name__ == "__main__":
    main()
