"""Sample clips of frames or audio at random or regular positions, one clip from each scene, or evenly spaced frames.

A clip of frames has evenly spaced frames, chosen by index or time. A clip of audio covers a time range. Each sampler
decodes all its clips with one request. It returns a `FrameBatch` of shape (clips, frames, C, H, W), an
`AudioSamplesBatch` of shape (clips, channels, samples), or a list of `AudioVideoClip`. `sample_frames` returns the
frames for a video-language model, of shape (frames, C, H, W).

`find_scenes` returns the scenes of a video, and `speech_segments` the segments of audio with speech.
"""

from __future__ import annotations

from ._audio_clips import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    audio_video_clips_at_random_timestamps,
)
from ._index_clips import clips_at_random_indices, clips_at_regular_indices, sample_frames
from ._scenes import Scene, clips_at_scenes, find_scenes
from ._speech import SpeechSegment, speech_segments
from ._time_clips import clips_at_random_timestamps, clips_at_regular_timestamps

__all__ = [
    "Scene",
    "SpeechSegment",
    "audio_clips_at_random_timestamps",
    "audio_clips_at_regular_timestamps",
    "audio_video_clips_at_random_timestamps",
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
    "clips_at_scenes",
    "find_scenes",
    "sample_frames",
    "speech_segments",
]
