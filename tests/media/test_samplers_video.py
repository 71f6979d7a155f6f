"""Samplers on real files: clips equal frames that are requested one by one."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from media_writing import ClipSpec, write_clip
from mediatensor import Frame, FrameBatch
from mediatensor.decoders import VideoDecoder
from mediatensor.samplers import (
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
)

NUM_FRAMES = 40
GOPS_WITH_B_PICTURES = {"preset": "veryfast", "g": "12", "bf": "3"}
CLIPS = {
    "constant_rate": ClipSpec("25 frames a second", options=GOPS_WITH_B_PICTURES, num_frames=NUM_FRAMES),
    "variable_rate": ClipSpec(
        "from 8.333 s on, frames of 20 ms to 100 ms",
        options=GOPS_WITH_B_PICTURES,
        num_frames=NUM_FRAMES,
        time_base=Fraction(1, 1000),
        pts=[8333 + 60 * i + 40 * (i % 3 == 1) - 20 * (i % 2) for i in range(NUM_FRAMES)],
        container="matroska",
        extension="mkv",
    ),
}


@pytest.fixture(scope="module", params=CLIPS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = CLIPS[request.param]
    return write_clip(spec, tmp_path_factory.mktemp("samplers") / f"clip.{spec.extension or spec.container}")


@pytest.fixture
def decoder(path: Path) -> Iterator[VideoDecoder]:
    with VideoDecoder(path) as decoder:
        assert len(decoder) == NUM_FRAMES
        yield decoder


def assert_frames(clips: FrameBatch, frames: list[Frame]) -> None:
    assert clips.data.dtype == torch.uint8
    assert torch.equal(clips.data.flatten(0, 1), torch.stack([frame.data for frame in frames]))
    assert clips.pts_seconds.flatten().tolist() == [frame.pts_seconds for frame in frames]
    assert clips.duration_seconds.flatten().tolist() == [frame.duration_seconds for frame in frames]


def test_random_indices_match_the_drawn_frames(decoder: VideoDecoder) -> None:
    torch.manual_seed(5)
    clips = clips_at_random_indices(decoder, num_clips=6, num_frames_per_clip=4, num_indices_between_frames=3)
    torch.manual_seed(5)
    starts = torch.randint(0, NUM_FRAMES - 9, (6,)).tolist()
    assert clips.data.shape == (6, 4, 3, 64, 96)
    assert_frames(clips, [decoder.get_frame_at(start + 3 * i) for start in starts for i in range(4)])


def test_regular_indices_reach_the_last_frame(decoder: VideoDecoder) -> None:
    clips = clips_at_regular_indices(
        decoder, num_clips=3, num_frames_per_clip=3, sampling_range_start=1, sampling_range_end=1000, policy="wrap"
    )
    indices = [1, 2, 3, 20, 21, 22, 39, 39, 39]
    assert_frames(clips, [decoder.get_frame_at(index) for index in indices])


def test_random_timestamps_match_the_frames_shown_at_them(decoder: VideoDecoder) -> None:
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    torch.manual_seed(5)
    clips = clips_at_random_timestamps(decoder, num_clips=6, num_frames_per_clip=4, seconds_between_frames=0.07)
    torch.manual_seed(5)
    starts = [begin + fraction * (end - begin - 3 * 0.07) for fraction in torch.rand(6, dtype=torch.float64).tolist()]
    assert clips.data.shape == (6, 4, 3, 64, 96)
    assert_frames(clips, [decoder.get_frame_played_at(start + i * 0.07) for start in starts for i in range(4)])


def test_regular_timestamps_cover_the_stream(decoder: VideoDecoder) -> None:
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    clips = clips_at_regular_timestamps(
        decoder, seconds_between_clip_starts=0.3, num_frames_per_clip=2, sampling_range_end=end
    )
    step = 1 / decoder.metadata.average_fps
    expected = []
    for k in range(len(clips)):
        first = begin + k * 0.3
        expected += [first, first + step if first + step < end else first]
    assert first < end <= first + 0.3
    assert_frames(clips, [decoder.get_frame_played_at(seconds) for seconds in expected])


@pytest.mark.parametrize("sampling_range_end", [None, float("inf")])
def test_the_latest_clip_ends_with_the_last_frame(
    decoder: VideoDecoder, monkeypatch: pytest.MonkeyPatch, sampling_range_end: float | None
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, 1 - 2.0**-53, dtype=torch.float64))
    clips = clips_at_random_timestamps(decoder, num_frames_per_clip=3, sampling_range_end=sampling_range_end)
    assert_frames(clips[:, -1:], [decoder.get_frame_at(-1)])


def test_clips_have_the_dimension_order_of_the_decoder(path: Path) -> None:
    arguments = {"num_clips": 3, "num_frames_per_clip": 2}
    expected = clips_at_regular_indices(VideoDecoder(path), **arguments)
    clips = clips_at_regular_indices(VideoDecoder(path, dimension_order="NHWC"), **arguments)
    assert clips.data.shape == (3, 2, 64, 96, 3)
    assert torch.equal(clips.data, expected.data.movedim(2, -1))
