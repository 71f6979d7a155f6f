"""What encoded files hold, by the ``ffmpeg`` and ``ffprobe`` programs, and pictures that survive encoding."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

__all__ = ["decoded_samples", "moving_pictures", "probe", "psnr", "raw_rgb"]


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


def raw_rgb(program: str, path: Path, height: int, width: int) -> NDArray[np.uint8]:
    """All frames (N, 3, H, W) of a video as the ``ffmpeg`` program writes them raw, in the order in which they come."""
    command = [program, "-v", "error", "-nostdin", "-i", str(path), "-map", "0:v:0", "-vsync", "0"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]
    output = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
    return np.frombuffer(output, np.uint8).reshape(-1, height, width, 3).transpose(0, 3, 1, 2)


def decoded_samples(program: str, path: Path, num_channels: int) -> NDArray[np.float32]:
    """All samples (C, N) of the first audio stream, by the ``ffmpeg`` program."""
    command = [program, "-v", "error", "-nostdin", "-i", str(path), "-map", "0:a:0", "-f", "f32le", "pipe:1"]
    output = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
    return np.frombuffer(output, np.float32).reshape(-1, num_channels).T


def probe(path: Path, stream: str = "v:0", packets: Sequence[str] = ()) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what ``ffprobe`` says of a stream, its packets by pts with the fields asked for)."""
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("needs the ffprobe program (on Debian: apt-get install ffmpeg)")
    command = [program, "-v", "error", "-select_streams", stream, "-show_streams", "-of", "json"]
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
