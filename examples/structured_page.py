"""Turn a page into Markdown: headings, lists and tables, in the order in which it is read.

    python examples/structured_page.py                          a page that it makes
    python examples/structured_page.py report.pdf --output regions.png

Needs OCR (``pip install "mediatensor[ocr]"``). (`mediatensor ocr report.pdf --layout --tables --format md`
does this as well.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import sample_media
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import ocr_predictor
from mediatensor.ocr.utils import overlay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", type=Path, help="an image or a PDF file")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/structured_page.png"), metavar="PNG")
    args = parser.parse_args()
    path = args.page or sample_media.report(args.output.parent)

    # Words that a PDF file has are taken as they are; all else is read.
    predictor = ocr_predictor(pretrained=True, detect_layout=True, detect_tables=True, text_layer=True)
    document = predictor(path)
    print(document.export_as_markdown(include_furniture=False))
    for page in document.pages:
        for table in page.tables:
            print(f"\npage {page.page_idx + 1}: a table of {table.num_rows} rows and {table.num_cols} columns")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    picture = torch.from_numpy(overlay(document.pages[0], text="none"))
    PngEncoder(picture.permute(2, 0, 1)).to_file(args.output)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
