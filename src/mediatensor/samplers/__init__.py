"""Samplers: clips of frames from a video, at random or at regular places, by frame index or by time.

A clip is a number of frames at even distances. Each sampler asks the decoder once for the frames of all its clips,
and returns them as one `FrameBatch` of shape (clips, frames, C, H, W).
"""

from __future__ import annotations

from ._index_based import clips_at_random_indices, clips_at_regular_indices
from ._time_based import clips_at_random_timestamps, clips_at_regular_timestamps

__all__ = [
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
]
