"""Tables on scanned forms: ``python -m benchmarks.text.structure forms --pages FOLDER -o results``.

The folder has ``images/`` and ``annotations/`` in the layout of FUNSD; words come from the annotations. The tables that
were found before pairs of a label and a value were left out were labelled by eye, from pictures, in
``structure_forms.json``: "table", "part" (a form with a table in it, or with ruled boxes), or "other" (pairs of a label
and a value, letterheads, lists of names). The report counts how many of each are still found, with an IoU of at least
0.5. The rules were made on the known pages.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mediatensor.ocr.structure import find_tables

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, markdown_table, write_report
from .ocr_scores import box_iou
from .structure_fields import form_contents

__all__ = ["add_command", "count_found"]

Box = tuple[float, float, float, float]

_LABELS = Path(__file__).with_suffix(".json")
_KINDS = ("table", "part", "other")
_LEAST_IOU = 0.5


def add_command(commands: Any) -> None:
    """Add ``forms`` to the commands of `benchmarks.text.structure`."""
    parser = commands.add_parser("forms", help="tables on forms that are none", description=__doc__)
    parser.add_argument("--pages", type=Path, required=True, help="a folder in the layout of FUNSD")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports")
    parser.set_defaults(run=_run)


def count_found(labelled: Sequence[tuple[str, Box]], found: Sequence[Box]) -> Counter[str]:
    """Count labelled boxes that were found, by label, and found boxes without a label as "new"."""
    overlaps = box_iou(np.array([box for _, box in labelled]).reshape(-1, 4), np.array(found).reshape(-1, 4))
    is_same = overlaps >= _LEAST_IOU
    counts = Counter(label for (label, _), is_found in zip(labelled, is_same.any(axis=1), strict=True) if is_found)
    counts["new"] = int((~is_same.any(axis=0)).sum())
    return counts


def _run(options: argparse.Namespace) -> int:
    rows = [
        _row(split, pages, options.pages) for split, pages in json.loads(_LABELS.read_text(encoding="utf-8")).items()
    ]
    document = {"schema": 1, "machine": machine_stamp(), "rows": rows}
    text = _markdown(document)
    write_report(options.output, "structure_forms", document, text)
    return 0


def _row(split: str, pages: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    found: Counter[str] = Counter()
    for name, labelled in pages.items():
        image = np.array(Image.open(folder / "images" / f"{name}.png").convert("RGB"))
        annotation = json.loads((folder / "annotations" / f"{name}.json").read_text(encoding="utf-8"))
        tables = find_tables(form_contents(image, annotation)["true words"])
        found += count_found([(label, tuple(box)) for label, box in labelled], [table.box for table in tables])
    labels = Counter(label for labelled in pages.values() for label, _ in labelled)
    return {"pages": split, "count": len(pages), "labelled": dict(labels), "found": dict(found)}


def _markdown(document: Mapping[str, Any]) -> str:
    rows = []
    for row in document["rows"]:
        parts = [f"{row['found'].get(kind, 0)} of {row['labelled'].get(kind, 0)}" for kind in _KINDS]
        rows.append([row["pages"], row["count"], *parts, row["found"].get("new", 0)])
    note = (__doc__ or "").partition("\n\n")[2].strip()
    table = markdown_table(["pages", "number", *_KINDS, "not labelled"], rows)
    return "\n\n".join(["# Tables on forms", note, table, fact_list(document["machine"])]) + "\n"
