"""Opening the first file of a process imports no further module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import media

_FIRST_USE = """
import sys
import torch
from mediatensor.decoders import VideoDecoder
known = set(sys.modules)
len(VideoDecoder(sys.argv[1]))
print(*sorted(set(sys.modules) - known))
"""


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_first_file_of_a_process_loads_no_modules(container: str, tmp_path: Path) -> None:
    """A module, or the list of all installed packages, takes longer than opening a small file."""
    path = media.make(container, tmp_path)
    run = subprocess.run([sys.executable, "-c", _FIRST_USE, path], capture_output=True, text=True, check=True)
    assert {module for module in run.stdout.split() if module.split(".")[0] not in ("av", "torch")} == set()
