"""Record what docTR makes of pages of words: lines, order, turn; for the tests of our builder and reading order.

Run it by hand where ``doctr`` imports, from its folder:

    python record_ocr_layout.py

It writes ``tests/records/ocr/layout.json``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from doctr.models._utils import estimate_orientation
from doctr.models.builder import DocumentBuilder, KIEDocumentBuilder
from doctr.models.reading_order import assign_layout_labels, resolve_reading_segments, sort_reading_order

from ocr_layout_cases import LABELS, MAP_CASES, REGIONS, builder_cases, kie_arguments, order_cases, turned_map
from ocr_records import FOLDER

VERSION = "1.1.0"


def lines_of(document: Any) -> list[list[list[str]]]:
    return [[[word.value for word in line.words] for line in block.lines] for block in document.pages[0].blocks]


def main() -> None:
    recorded: dict[str, Any] = {
        "doctr": VERSION,
        "lines": {},
        "predictions": {},
        "order": {},
        "labels": {},
        "angles": {},
    }
    for name, settings, arguments in builder_cases():
        recorded["lines"][name] = lines_of(DocumentBuilder(**settings)(**arguments))
        page = KIEDocumentBuilder()(**kie_arguments(arguments)).pages[0]
        recorded["predictions"][name] = [prediction.value for prediction in page.predictions["words"]]
    for name, geometries, options in order_cases():
        options = {key: value for key, value in options.items() if value is not None}
        recorded["order"][name] = [
            [int(index) for index in sort_reading_order(geometries, **options)],
            [[int(index) for index in segment] for segment in resolve_reading_segments(geometries, **options)],
        ]
        recorded["labels"][name] = assign_layout_labels(geometries, REGIONS, LABELS, min_coverage=0.4)
    for name, (angle, turn) in MAP_CASES.items():
        recorded["angles"][name] = int(estimate_orientation(turned_map(angle), turn))
    (FOLDER / "layout.json").write_text(json.dumps(recorded, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
