"""The text of many documents, or of frames of videos, read by a pool of Ray actors.

    python examples/ray_ocr.py                          generates pages, and a file that is broken
    python examples/ray_ocr.py scans/*.pdf --actors 4 --cpus-per-actor 2
    python examples/ray_ocr.py talk.mp4 --every 10      a frame each 10 seconds

Needs Ray and OCR (``pip install "mediatensor[ocr,ray]"``). Without a cluster in ``RAY_ADDRESS``, Ray starts
one on this machine.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any

import ray
from PIL import Image, ImageDraw

from mediatensor.distributed import TextReader, clip_rows

LINES = ("Invoice 2041", "Total 118.50 EUR", "Paid in March", "Thank you")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", help="images, PDF files or videos, as every machine of the cluster finds them"
    )
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help="the files are videos; read a frame every so often"
    )
    parser.add_argument("--actors", type=int, default=1, metavar="N")
    parser.add_argument("--cpus-per-actor", type=float, default=1, metavar="N")
    args = parser.parse_args()
    ray.init(include_dashboard=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = args.files or generated_files(Path(folder))
            print_table(read(files, args.every, args.actors, args.cpus_per_actor).take_all())
    finally:
        ray.shutdown()


def read(files: list[str], every_seconds: float | None, num_actors: int, cpus_per_actor: float) -> ray.data.Dataset:
    """One row a file, with its text."""
    return ray.data.from_items(clip_rows(files)).map_batches(
        TextReader,
        fn_constructor_kwargs={"every_seconds": every_seconds},
        batch_size=4,
        num_cpus=cpus_per_actor,
        compute=ray.data.ActorPoolStrategy(size=num_actors),
    )


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'file':24} {'words':>5}  text or error")
    for row in sorted(rows, key=itemgetter("row")):  # they come in any order
        text = f"({row['error'].partition(':')[0]})" if row["error"] else " ".join(row["text"].split())
        print(f"{Path(row['source']).name:24.24} {len(row['words']):5}  {text:.80}")
    num_errors = sum(bool(row["error"]) for row in rows)
    print(f"{len(rows) - num_errors} files read, {num_errors} with an error")


def generated_files(folder: Path) -> list[str]:
    """Two images, a PDF file of two pages, and a file that is not a document."""
    pages = []
    for number in range(4):
        page = Image.new("RGB", (480, 160), "white")
        draw = ImageDraw.Draw(page)
        draw.text((30, 25), LINES[number], fill="black", font_size=36)
        draw.text((30, 90), f"Page {number + 1}", fill="black", font_size=36)
        pages.append(page)
    paths = [folder / name for name in ("first.png", "second.png", "both.pdf", "broken.png")]
    pages[0].save(paths[0])
    pages[1].save(paths[1])
    pages[2].save(paths[2], save_all=True, append_images=pages[3:])
    paths[3].write_bytes(b"no picture")
    return [str(path) for path in paths]


if __name__ == "__main__":
    main()
