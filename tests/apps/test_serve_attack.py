"""The service under attack from one address: another address gets its pages read, and keeps its results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.apps.serve_attack import attack

from lazy_modules import import_on_use
from serving import serving

import_on_use("fastapi", reason="needs the extra serve")
pytest.importorskip("pypdfium2", reason="needs the extra ocr")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs several addresses of this machine, and /proc")

MAX_UPLOAD_BYTES = 1 << 20


@pytest.mark.slow
def test_attacker_of_one_address_takes_nothing_from_another(tmp_path: Path) -> None:
    with serving(tmp_path, "--jobs", "2", "--max-upload-bytes", str(MAX_UPLOAD_BYTES)) as server:
        outcome = attack(server.port, server.process.pid, tmp_path, 25, MAX_UPLOAD_BYTES)
    assert outcome.refused == []
    assert outcome.num_read >= 1
    assert outcome.keeps_result
    assert outcome.num_attacks > 50
    assert outcome.peak_stored_bytes < 4.5 * MAX_UPLOAD_BYTES
    assert outcome.peak_memory_bytes < 1 << 30
