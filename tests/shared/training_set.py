"""Small videos whose pixels identify the video and the frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder

NUM_FRAMES = 24
SIZE = (32, 48)
FPS = 10


def make_videos(folder: Path, num_videos: int) -> list[Path]:
    """Videos of 24 frames; a GOP has 8."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(num_videos):
        frames = torch.zeros(NUM_FRAMES, 3, *SIZE, dtype=torch.uint8)
        frames[:, 0] = 255 * number // max(1, num_videos - 1)
        frames[:, 1] = 10 * torch.arange(NUM_FRAMES, dtype=torch.uint8)[:, None, None]
        frames[:, 2, : SIZE[0] // 2] = 200
        path = folder / f"{number:03}.mp4"
        VideoEncoder(frames, frame_rate=FPS).to_file(path, crf=10, preset="ultrafast", extra_options={"g": 8})
        paths.append(path)
    return paths


def linear_decode(path: Path) -> torch.Tensor:
    """All frames, uint8 (N, 3, H, W), by iterating."""
    return torch.stack(list(VideoDecoder(path)))


def count_openings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets the source of each video decoder that is made."""
    opened: list[Any] = []
    original = VideoDecoder.__init__

    def counting(self: VideoDecoder, source: Any, **options: Any) -> None:
        opened.append(source)
        original(self, source, **options)

    monkeypatch.setattr(VideoDecoder, "__init__", counting)
    return opened
