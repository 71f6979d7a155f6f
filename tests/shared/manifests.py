"""Manifests of rows in all formats, as the csv and json modules and pyarrow write them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest


def write_manifest(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    """Write rows in the format of the file's extension; ``options`` are those of pyarrow."""
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            columns = dict.fromkeys(name for row in rows for name in row)
            writer = csv.DictWriter(file, list(columns), dialect="excel" if kind == ".csv" else "excel-tab")
            writer.writeheader()
            writer.writerows(rows)
    elif kind == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    elif kind == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    else:
        path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    return path
