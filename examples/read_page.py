"""Read a page: its text, and a picture of it with a box around each word.

    python examples/read_page.py                          a page that it makes
    python examples/read_page.py scan.jpg --output read.png

Needs OCR (``pip install "mediatensor[ocr]"``). (`mediatensor ocr scan.jpg --overlay` does this as well.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import sample_media
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import DocumentFile, ocr_predictor
from mediatensor.ocr.utils import overlay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", type=Path, help="an image, or a PDF file: its first page")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/read_page.png"), metavar="PNG")
    args = parser.parse_args()
    path = args.page or sample_media.page(args.output.parent)
    pages = DocumentFile.from_pdf(path) if path.suffix == ".pdf" else DocumentFile.from_images(path)

    page = ocr_predictor(pretrained=True)(pages[:1]).pages[0]
    for word in (word for block in page.blocks for line in block.lines for word in line.words):
        (left, top), (right, bottom) = word.geometry  # relative to the page
        print(f"{word.value:20} {word.confidence:.2f}   {left:.3f}-{right:.3f} x {top:.3f}-{bottom:.3f}")
    PngEncoder(torch.from_numpy(overlay(page)).permute(2, 0, 1)).to_file(args.output)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
