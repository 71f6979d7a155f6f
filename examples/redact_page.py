"""Black out the prices of a bill, in its image and in its text, and check the result.

    python examples/redact_page.py                        a bill that it makes
    python examples/redact_page.py scan.pdf "Anna Meyer" --output redacted.png

Needs OCR (``pip install "mediatensor[ocr]"``). The redacted PDF is written next to the picture.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import torch

import sample_media
from mediatensor.encoders import PngEncoder
from mediatensor.ocr import ocr_predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", type=Path, help="an image or a PDF file")
    parser.add_argument("texts", nargs="*", help="words or phrases; by default, all prices")
    parser.add_argument("--output", type=Path, default=Path("example-pictures/redact_page.png"), metavar="PNG")
    args = parser.parse_args()
    texts = args.texts or [re.compile(r"\d+\.\d\d")]

    predictor = ocr_predictor(pretrained=True)
    document = predictor(args.page or sample_media.page(args.output.parent))
    print("found:", ", ".join(match.text for match in document.find(*texts)))
    # The predictor reads the result again. If a text can still be read, this is an error.
    redacted = document.redact(*texts, predictor=predictor)
    print(redacted.render())

    pdf = args.output.with_suffix(".pdf")
    redacted.save_pdf(pdf)
    print(f"found in {pdf.name}: {len(predictor(pdf).find(*texts))}")
    before_and_after = np.concatenate([document.pages[0].page, redacted.pages[0].page], axis=1)
    PngEncoder(torch.from_numpy(before_and_after).permute(2, 0, 1)).to_file(args.output)
    print(f"picture: {args.output}")


if __name__ == "__main__":
    main()
