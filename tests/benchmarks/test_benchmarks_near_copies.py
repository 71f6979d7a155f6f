"""The benchmark of near copies runs, finds simple variants, and joins no different films."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.data.near_copies import main


@pytest.mark.slow
def test_quick_run_finds_variants_and_joins_no_films(tmp_path: Path) -> None:
    main(["--quick", "-o", str(tmp_path)])
    document = json.loads((tmp_path / "near_copies.json").read_text(encoding="utf-8"))
    assert document["joined"] == []
    assert [(row["num_films"], row["num_found"], row["num_wrong"]) for row in document["variants"]] == [(2, 2, 0)] * 3
    assert "Near copies" in (tmp_path / "near_copies.md").read_text(encoding="utf-8")
