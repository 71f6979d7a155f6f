"""The benchmark of images: it runs, and compares the same image."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark_runs import run_quickly


@pytest.mark.slow
def test_a_quick_run_reports_identical_pictures(tmp_path: Path) -> None:
    printed, document = run_quickly("media.images", tmp_path)
    rows = document["rows"]
    ours = [row for row in rows if row["library"].startswith("mediatensor")]
    assert len(ours) == 5
    assert all(row["identical"] == row["num_images"] and row["is_contiguous"] for row in ours)
    assert {"Pillow, numpy", "Pillow, numpy, contiguous"} < {row["library"] for row in rows}
    assert printed == (tmp_path / "images.md").read_text() + "\n"
