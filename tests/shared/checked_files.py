"""Files of pictures and sound for checks of datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mediatensor.encoders import Encoder

RATE, HEIGHT, WIDTH = 25, 48, 64


def tone(seconds: float, size: float = 0.5, num_channels: int = 1) -> Tensor:
    """A tone of 8000 Hz."""
    return (size * torch.sin(torch.arange(round(seconds * 8000)) / 5)).expand(num_channels, -1).contiguous()


def write(path: Path, frames: Tensor, sound: Tensor | None = None, rate: Any = RATE, **options: Any) -> Path:
    """Write a file with H.264, if nothing else is asked for, and FLAC."""
    encoder = Encoder()
    options = {"codec": "libx264", "preset": "ultrafast"} | options
    video = encoder.add_video(height=frames.shape[2], width=frames.shape[3], frame_rate=rate, **options)
    if sound is not None:
        audio = encoder.add_audio(sample_rate=8000, num_channels=len(sound), codec="flac")
    with encoder.open_file(path):
        video.add_frames(frames)
        if sound is not None:
            audio.add_samples(sound)
    return path
