"""Calls beyond a limit are refused before memory is allocated, whatever the file states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor.decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from mediatensor.encoders import AudioEncoder, Encoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    audio_video_clips_at_random_timestamps,
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
)

HUGE = 10**15


@pytest.fixture(scope="module")
def video(clip: Path) -> VideoDecoder:
    return VideoDecoder(clip)


@pytest.fixture(scope="module")
def sound() -> AudioDecoder:
    encoded = AudioEncoder(torch.zeros(1, 8000), sample_rate=8000).to_tensor(format="wav")
    return AudioDecoder(encoded)


@pytest.mark.parametrize(
    "ask",
    [
        lambda video: video.get_all_frames(fps=HUGE),
        lambda video: video.get_all_frames(fps=1e308),
        lambda video: video.get_frames_played_in_range(0, 1, fps=2e6),
        lambda video: clips_at_random_indices(video, num_clips=HUGE),
        lambda video: clips_at_random_indices(video, num_clips=10**400),
        lambda video: clips_at_regular_indices(video, num_frames_per_clip=HUGE),
        lambda video: clips_at_regular_indices(video, num_clips=10_000, num_frames_per_clip=10_000),
        lambda video: clips_at_random_timestamps(video, num_clips=HUGE),
        lambda video: clips_at_regular_timestamps(video, seconds_between_clip_starts=1e-12),
        lambda video: clips_at_regular_timestamps(
            video, seconds_between_clip_starts=1e-5, num_frames_per_clip=1000, seconds_between_frames=1e-9
        ),
    ],
)
def test_too_many_frames_are_refused(video: VideoDecoder, ask: Callable[[VideoDecoder], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"asks for .* frames, and one call gives 1048576 at most"):
        ask(video)


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"seconds_per_clip": 10, "fps": 1000, "num_clips": 1000}, "frames"),
        ({"seconds_per_clip": 1e300}, "samples"),
        ({"seconds_per_clip": 10_000, "num_clips": 1000}, "samples"),
    ],
)
def test_too_many_frames_or_samples_with_audio_are_refused(tmp_path: Path, options: dict[str, Any], unit: str) -> None:
    encoder = Encoder()
    video = encoder.add_video(height=16, width=16, frame_rate=10, codec="mpeg4")
    audio = encoder.add_audio(sample_rate=8000, num_channels=1)
    with encoder.open_file(tmp_path / "clip.mp4"):
        video.add_frames(torch.zeros(10, 3, 16, 16, dtype=torch.uint8))
        audio.add_samples(torch.zeros(1, 8000))
    decoder = AudioVideoDecoder(tmp_path / "clip.mp4")
    with pytest.raises(InvalidArgumentError, match=rf"asks for .* {unit}, and one call gives"):
        audio_video_clips_at_random_timestamps(decoder, **options)


@pytest.mark.parametrize(
    ("ask", "unit"),
    [
        (lambda sound: audio_clips_at_random_timestamps(sound, num_clips=HUGE, seconds_per_clip=0.1), "frames"),
        (lambda sound: audio_clips_at_random_timestamps(sound, seconds_per_clip=1e308), "samples"),
        (lambda sound: audio_clips_at_random_timestamps(sound, num_clips=1 << 20, seconds_per_clip=1), "samples"),
        (
            lambda sound: audio_clips_at_regular_timestamps(
                sound, seconds_between_clip_starts=1e-12, seconds_per_clip=0.1
            ),
            "frames",
        ),
    ],
)
def test_too_many_samples_are_refused(sound: AudioDecoder, ask: Callable[[AudioDecoder], Any], unit: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"asks for .* {unit}, and one call gives"):
        ask(sound)
