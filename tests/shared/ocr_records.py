"""What docTR gave for the inputs of tests: `record_ocr_*.py` wrote it into ``tests/records/ocr``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "read_record", "write_record"]

FOLDER = Path(__file__).parents[1] / "records" / "ocr"


def read_record(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write_record(name: str, content: dict[str, Any] | list[Any], folder: Path = FOLDER) -> None:
    """Write a record, a line for each entry, which keeps its changes readable."""
    values = content.values() if isinstance(content, dict) else content
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    if isinstance(content, dict):
        lines = [f"{json.dumps(key)}: {line}" for key, line in zip(content, lines, strict=True)]
    left, right = "{}" if isinstance(content, dict) else "[]"
    (folder / f"{name}.json").write_text(f"{left}\n" + ",\n".join(lines) + f"\n{right}\n", encoding="utf-8")
