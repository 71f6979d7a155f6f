"""Opening the first file of a process imports no further module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import media
from places import needs_fork

_FIRST_USE = """
import os
import sys
import torch
from mediatensor.decoders import VideoDecoder
known = set(sys.modules)
for path in sys.argv[1:]:
    if os.fork() == 0:
        len(VideoDecoder(path))
        print(*sorted(set(sys.modules) - known), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, path
"""


@pytest.mark.slow
@needs_fork
def test_first_file_of_a_process_loads_no_modules(tmp_path: Path) -> None:
    """A module, or the list of all installed packages, takes longer than opening a small file."""
    paths = [media.make(container, tmp_path) for container in ("mp4", "mkv")]
    run = subprocess.run([sys.executable, "-c", _FIRST_USE, *paths], capture_output=True, text=True, check=True)
    assert {module for module in run.stdout.split() if module.split(".")[0] not in ("av", "torch")} == set()
