"""A small task to train on: videos in which a shape moves, and a network that says where to.

No single frame shows the direction of a shape, nor do two frames without their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mediatensor.datasets import Batch, VideoClips
from mediatensor.encoders import VideoEncoder
from mediatensor.frames import FrameBatch
from mediatensor.transforms import Resize

# Rows and columns a frame. In the order of their names, as class folders are numbered.
DIRECTIONS = {"down": (1, 0), "left": (0, -1), "right": (0, 1), "up": (-1, 0)}
NUM_FRAMES = 24
SIZE = 64  # pixels, both ways


def write_videos(folder: Path, num_per_class: int, *, seed: int) -> Path:
    """Write ``<folder>/<direction>/<number>.mp4``, unless they are there already, and return the folder."""
    for class_number, direction in enumerate(DIRECTIONS):
        (folder / direction).mkdir(parents=True, exist_ok=True)
        for number in range(num_per_class):
            path = folder / direction / f"{number:04}.mp4"
            if not path.exists():
                random = torch.Generator().manual_seed((seed * len(DIRECTIONS) + class_number) * 10_000 + number)
                frames = draw_video(direction, random)
                VideoEncoder(frames, frame_rate=25).to_file(path, codec="libx264", preset="ultrafast", crf=18)
    return folder


def draw_video(direction: str, random: torch.Generator) -> Tensor:
    """A bright disc or square on a dark ground. Where it leaves the picture, it comes in on the other side.

    Returns:
        uint8 (24, 3, 64, 64).
    """

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=random)

    speed = between(2, 4)  # pixels a frame
    centres = between(0, SIZE, 2) + speed * torch.arange(NUM_FRAMES)[:, None] * torch.tensor(DIRECTIONS[direction])
    # How far each row and each column is from the centre, the shorter way around.
    rows, columns = ((torch.arange(SIZE) - centres.T[:, :, None] + SIZE / 2) % SIZE - SIZE / 2).abs()
    rows, columns = rows[:, :, None], columns[:, None, :]
    is_disc = between(0, 1) < 0.5
    inside = (torch.hypot(rows, columns) if is_disc else torch.maximum(rows, columns)) < between(9, 15)
    colour, ground = between(165, 255, 3, 1, 1), between(0, 90, 3, 1, 1)
    noise = 8 * torch.randn(NUM_FRAMES, 3, SIZE, SIZE, generator=random)
    return (torch.where(inside[:, None], colour, ground) + noise).clamp(0, 255).to(torch.uint8)


def clips(folder: Path, sampler: Callable[[Any], FrameBatch] | None = None, *, clips_per_video: int = 1) -> VideoClips:
    """Clips of 8 frames of 32 x 32 pixels, labelled with the numbers of their class folders.

    By default they begin anywhere, elsewhere in each epoch. (No transform turns them around at random: labels would be
    wrong then.)
    """
    return VideoClips(
        folder,
        sampler,
        num_frames_per_clip=8,
        rows_per_file=clips_per_video,
        decoder_options={"transforms": [Resize((32, 32))]},
    )


class MotionNet(nn.Module):
    """Three convolutions over time and space; it takes clips as they are decoded.

    Args:
        dropout: Which part of the features is dropped in training, from 0 to 1.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(3, 16, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2)),
            nn.BatchNorm3d(16),
            nn.ReLU(),
            nn.Conv3d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm3d(32),
            nn.ReLU(),
            nn.Conv3d(32, 64, 3, stride=2, padding=1),
            nn.BatchNorm3d(64),
            nn.ReLU(),
        )
        self.classify = nn.Sequential(nn.Dropout(dropout), nn.Linear(64, len(DIRECTIONS)))

    def forward(self, clips: Tensor) -> Tensor:
        """Scores of the directions, float32 (B, 4), for clips, uint8 (B, T, 3, H, W)."""
        pixels = clips.transpose(1, 2).float() / 127.5 - 1  # Conv3d wants the channels before the time
        return self.classify(self.features(pixels).mean(dim=(2, 3, 4)))


@torch.inference_mode()
def count_correct(model: nn.Module, batches: Iterable[Batch], *, shuffle_frames: bool = False) -> tuple[int, int]:
    """How many clips a model names correctly, and of how many; with the frames of each in any order, if wanted."""
    model.eval()
    num_correct = num_clips = 0
    for batch in batches:
        frames = batch.frames.data
        if shuffle_frames:
            order = torch.rand(frames.shape[:2], device=frames.device).argsort(dim=1)
            frames = frames[torch.arange(len(frames))[:, None], order]
        num_correct += int((model(frames).argmax(dim=1) == batch.label).sum())
        num_clips += len(batch)
    model.train()
    return num_correct, num_clips
