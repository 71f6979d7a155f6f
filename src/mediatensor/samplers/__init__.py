"""Samplers: clips of frames or of sound, at random or at regular positions, and scene by scene.

A clip of frames is a number of evenly spaced frames, chosen by frame index or by time. A clip of sound is a length of
time. Each sampler decodes all its clips with one request, and returns them as one `FrameBatch` of shape (clips, frames,
C, H, W), or one `AudioSamplesBatch` of shape (clips, channels, samples); of pictures and sound, as `AudioVideoClip`s.
"""

from __future__ import annotations

from ._audio_clips import audio_clips_at_random_timestamps, audio_clips_at_regular_timestamps

# Names imported "as" themselves are for the datasets, and not public.
from ._audio_video_clips import ClipPolicy as ClipPolicy
from ._audio_video_clips import audio_video_clips_at_random_timestamps
from ._audio_video_clips import check_audio_video_clips as check_audio_video_clips
from ._common import as_clips as as_clips
from ._common import check_clip_length as check_clip_length
from ._common import check_num_clips as check_num_clips
from ._common import check_positive_integer as check_positive_integer
from ._common import check_positive_seconds as check_positive_seconds
from ._index_based import clips_at_random_indices, clips_at_regular_indices
from ._scenes import Scene, clips_at_scenes, find_scenes
from ._time_based import clips_at_random_timestamps, clips_at_regular_timestamps

__all__ = [
    "Scene",
    "audio_clips_at_random_timestamps",
    "audio_clips_at_regular_timestamps",
    "audio_video_clips_at_random_timestamps",
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
    "clips_at_scenes",
    "find_scenes",
]
