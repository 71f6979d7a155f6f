"""The first file of a process: opening it imports nothing that is not there yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import pytest

_FIRST_USE = """
import sys
import torch
from mediatensor.decoders import VideoDecoder
known = set(sys.modules)
len(VideoDecoder(sys.argv[1]))
print(*sorted(set(sys.modules) - known))
"""


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_first_file_of_a_process_loads_no_modules(container: str, clip: Path, tmp_path: Path) -> None:
    """A module, or the list of all installed packages, takes longer than opening a small file."""
    path = tmp_path / f"copy.{container}"
    with av.open(str(clip)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    run = subprocess.run([sys.executable, "-c", _FIRST_USE, path], capture_output=True, text=True, check=True)
    assert {module for module in run.stdout.split() if module.split(".")[0] not in ("av", "torch")} == set()
