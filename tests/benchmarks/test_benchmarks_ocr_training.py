"""The benchmark of training writes its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.text.ocr_training import main


@pytest.mark.slow
def test_plates(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="brings fonts")
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    options = ["--lines", "8", "--epochs", "1", "--scored", "20", "--font", str(fonts)]
    assert main(["-o", str(tmp_path), *options]) == 0
    (row,) = json.loads((tmp_path / "ocr_training_plates.json").read_text("utf-8"))["rows"]
    assert (row["lines"], row["scored"]) == ("digits and capitals", 20)
    assert "| digits and capitals | trained |" in (tmp_path / "ocr_training_plates.md").read_text("utf-8")
