"""What transformers knows of a video that was read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["VideoMetadata", "metadata_type"]


@dataclass
class VideoMetadata(Mapping[str, Any]):
    """What is known of a video, as transformers' class of this name has it: as attributes, and as a mapping.

    Attributes:
        total_num_frames: Number of frames of the whole video.
        fps: Frames per second.
        width: Width in pixels as shown.
        height: Height in pixels as shown.
        duration: Duration in seconds.
        video_backend: What read it.
        frames_indices: Indices of the frames that were read.

    Example:
        >>> from mediatensor.compat.transformers import VideoMetadata
        >>> metadata = VideoMetadata(total_num_frames=300, fps=30.0, frames_indices=[0, 15, 30])
        >>> metadata["fps"], metadata.timestamps, round(metadata.sampled_fps, 2)
        (30.0, [0.0, 0.5, 1.0], 0.3)
    """

    total_num_frames: int
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    video_backend: str | None = None
    frames_indices: Any = None

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except (AttributeError, TypeError):
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    @property
    def timestamps(self) -> list[float]:
        """Times of the frames that were read, in seconds, if all frames are equally long.

        Raises:
            ValueError: if the rate or the indices are not known.
        """
        if self.fps is None or self.frames_indices is None:
            raise ValueError("The times of frames need fps and frames_indices (one of them is None).")
        return [index / self.fps for index in self.frames_indices]

    @property
    def sampled_fps(self) -> float:
        """Frames per second of those that were read; 24 if nothing is known."""
        if self.frames_indices is None or self.fps is None:
            return self.fps or 24
        return len(self.frames_indices) / self.total_num_frames * self.fps

    def update(self, values: Mapping[str, Any]) -> None:
        """Set the attributes that a mapping names.

        Example:
            >>> from mediatensor.compat.transformers import VideoMetadata
            >>> metadata = VideoMetadata(30)
            >>> metadata.update({"fps": 25.0})
            >>> metadata.fps
            25.0
        """
        for name, value in values.items():
            if name in list(self):
                setattr(self, name, value)


def metadata_type() -> type[Any]:
    """transformers' own class in a program that uses transformers, so that it passes its checks; else ours."""
    theirs = sys.modules.get("transformers.video_utils")
    return getattr(theirs, "VideoMetadata", VideoMetadata)
