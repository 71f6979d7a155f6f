"""Record what docTR's transforms answer, for the tests of our own.

Run it by hand where ``doctr`` imports, from its folder:

    python record_ocr_transforms.py

It writes ``tests/records/ocr/transforms.json``.
"""

from __future__ import annotations

import json

from doctr import transforms
from doctr.transforms import functional
from doctr.transforms.functional import pytorch as steps
from doctr.transforms.functional.base import create_shadow_mask, crop_boxes
from doctr.utils import Sample

from ocr_records import FOLDER
from ocr_transform_cases import cases, printed, shadows, summary

FILE = FOLDER / "transforms.json"

if __name__ == "__main__":
    # docTR's RandomCrop changes the boxes that it is given, also when it then keeps the whole picture.
    steps.crop_boxes = lambda boxes, crop_box: crop_boxes(boxes.copy(), crop_box)
    recorded = {
        "source": "docTR 1.1.0 with torchvision and OpenCV",
        "cases": {name: summary(call()) for name, call in cases(transforms, functional, Sample).items()},
        "printed": printed(transforms),
        # Means of squares of ten pixels.
        "shadows": {
            name: mask.reshape(mask.shape[0] // 10, 10, -1, 10).mean((1, 3)).round(4).tolist()
            for name, mask in shadows(create_shadow_mask).items()
        },
    }
    FILE.write_text(json.dumps(recorded, separators=(",", ":")) + "\n", "utf-8")
