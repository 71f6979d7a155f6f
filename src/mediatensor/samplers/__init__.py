"""Samplers: clips of frames or of sound, at random or at regular places.

A clip of frames is a number of frames at even distances, chosen by frame index or by time; a clip of sound is a length
of time. Each sampler asks the decoder once for all its clips, and returns them as one `FrameBatch` of shape
(clips, frames, C, H, W), or one `AudioSamplesBatch` of shape (clips, channels, samples).
"""

from __future__ import annotations

from ._audio_clips import audio_clips_at_random_timestamps, audio_clips_at_regular_timestamps
from ._index_based import clips_at_random_indices, clips_at_regular_indices
from ._time_based import clips_at_random_timestamps, clips_at_regular_timestamps

__all__ = [
    "audio_clips_at_random_timestamps",
    "audio_clips_at_regular_timestamps",
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
]
