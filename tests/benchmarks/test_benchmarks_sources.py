"""`benchmarks.data.sources`: every source is written, read and reported, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.data import sources
from benchmarks.data.sources_worker import measure as read_rows


@pytest.mark.slow
def test_every_source_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("datasets", reason="needs the package datasets of Hugging Face")
    pytest.importorskip("lance", reason="needs pylance")
    monkeypatch.setattr(sources, "_run", lambda request, python: read_rows(request))
    monkeypatch.setattr(sources, "_WIDTH", 96)
    monkeypatch.setattr(sources, "_HEIGHT", 64)
    sources.main(["--quick", "--rows", "4", "--clips", str(tmp_path), "-o", str(tmp_path / "results")])
    rows = json.loads((tmp_path / "results" / "sources.json").read_text("utf-8"))["rows"]
    tables = ["Parquet, plain", "Parquet, snappy", "Lance, blobs", "Lance, bytes", "Hugging Face"]
    assert [row["source"] for row in rows] == ["folder", "tar", *tables, "LeRobot"]
    by_name: dict[str, Any] = {row["source"]: row for row in rows}
    # The same frames need the same groups of pictures, wherever they lie.
    needed = {by_name[name]["needed_bytes_per_row"] for name in by_name if name != "LeRobot"}
    assert len(needed) == 1
    assert by_name["LeRobot"]["needed_bytes_per_row"] == pytest.approx(needed.pop(), rel=0.5)
    assert "| LeRobot |" in capsys.readouterr().out
    assert "lerobot was not measured" in (tmp_path / "results" / "sources.md").read_text("utf-8")
