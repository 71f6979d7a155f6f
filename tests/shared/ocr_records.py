"""What docTR gave for the inputs of tests: `record_ocr_*.py` wrote it into ``tests/records/ocr``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["read_record"]


def read_record(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "records" / "ocr" / f"{name}.json").read_text(encoding="utf-8"))
