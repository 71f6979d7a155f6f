"""The benchmark of images: it runs, and compares the same image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.media import images as image_benchmark


@pytest.mark.slow
def test_a_quick_run_reports_identical_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image_benchmark.main(["--quick", "-o", str(tmp_path)])
    rows = json.loads((tmp_path / "images.json").read_text())["rows"]
    ours = [row for row in rows if row["library"].startswith("mediatensor")]
    assert len(ours) == 5
    assert all(row["identical"] == row["num_images"] and row["is_contiguous"] for row in ours)
    assert {"Pillow, numpy", "Pillow, numpy, contiguous"} < {row["library"] for row in rows}
    assert capsys.readouterr().out == (tmp_path / "images.md").read_text() + "\n"
