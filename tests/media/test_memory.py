"""Double frees and uses after a free: all clips and images are opened in a process where these crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from real_files import TEST_DATA

SECONDS = 300


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 8))])
def test_no_media_file_corrupts_memory(part: int, tmp_path: Path) -> None:
    real_files = [str(path) for folder in ("media", "odd") for path in sorted((TEST_DATA / folder).glob("*.*"))]
    # Python and glibc fill freed memory with a pattern, and Python checks the bytes around each block.
    checks = {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3"}
    child = [sys.executable, str(Path(__file__).parents[1] / "shared" / "memory_child.py"), str(tmp_path)]
    child += [str(part), *real_files]
    ran = subprocess.run(child, env=os.environ | checks, capture_output=True, text=True, timeout=SECONDS, check=False)
    names = ran.stdout.splitlines()
    assert ran.returncode == 0, f"at {names[-1:]}: {ran.stderr[:4000]}"
    assert names[-1] == "done"
    assert len(names) > 35
