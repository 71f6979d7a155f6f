"""Record what docTR's data sets give for small files, for the tests of our own.

Run it by hand where ``doctr`` imports, from its folder:

    python record_ocr_datasets.py

It writes ``tests/records/ocr/datasets.json``.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

from doctr import datasets
from doctr.utils import data

from ocr_dataset_files import ARCHIVED, FOLDERS, OWN, calls, summary, write_files
from ocr_records import FOLDER

FILE = FOLDER / "datasets.json"

if __name__ == "__main__":
    # The archives are not the published ones.
    data._check_integrity = lambda file_path, hash_prefix: True
    # docTR looks for a file whose name ends in "&src=0", which it cannot unpack.
    datasets.DocArtefacts.URL = datasets.DocArtefacts.URL.partition("&")[0]
    recorded: dict[str, object] = {"source": "docTR 1.1.0"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for dataset in (*ARCHIVED, *FOLDERS, *OWN):
            write_files(folder, dataset)
            if dataset in ARCHIVED:
                archive = folder / "datasets" / ARCHIVED[dataset][0]
                kind = {".zip": "zip", ".gz": "gztar", ".tar": "tar"}[archive.suffix]
                made = shutil.make_archive(str(folder / "made"), kind, archive.with_suffix(""))
                shutil.move(made, archive)
            recorded[dataset] = {way: [repr(one), summary(one)] for way, one in calls(datasets, folder, dataset)}
        random.seed(7)
        words = datasets.WordGenerator("abcdé", 2, 8, 20)
        recorded["words"] = [words._generate_string(2, 8) for _ in range(20)]
    FILE.write_text(json.dumps(recorded, separators=(",", ":"), ensure_ascii=False) + "\n", "utf-8")
