"""What encoded files hold, by the ``ffprobe`` program, and pictures that survive encoding."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from processes import find_program

__all__ = ["moving_pictures", "probe", "psnr"]


def moving_pictures(num_frames: int, height: int, width: int) -> torch.Tensor:
    """Smooth colours that move, (N, 3, H, W) uint8, contiguous."""
    y, x = np.mgrid[:height, :width]
    frames = [
        np.stack(
            [
                127 + 120 * np.sin((x + 3 * number) / 19),
                127 + 120 * np.sin((y - 2 * number) / 23),
                127 + 120 * np.sin((x + y + 5 * number) / 31),
            ]
        )
        for number in range(num_frames)
    ]
    return torch.from_numpy(np.stack(frames).astype(np.uint8))


def probe(
    path: Path, stream: str = "v:0", packets: Sequence[str] = (), options: Sequence[str] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what ``ffprobe`` says of a stream, its packets by pts with the fields asked for)."""
    command = [find_program("ffprobe", "ffmpeg"), "-v", "error", "-of", "json", "-select_streams", stream]
    command += ["-show_streams", *options]
    if packets:
        command += ["-show_entries", f"packet=pts_time,{','.join(packets)}:stream"]
    found = json.loads(
        subprocess.run([*command, str(path)], capture_output=True, check=True, text=True, timeout=60).stdout
    )
    listed = sorted(found.get("packets", ()), key=lambda packet: float(packet["pts_time"]))
    return found["streams"][0], listed


def psnr(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(10 * np.log10(255**2 / np.mean((one.astype(float) - other) ** 2)))
