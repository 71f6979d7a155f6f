"""Approximate mode returns the frames of exact mode if the header is right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import media
from media_writing import remux
from mediatensor._engine.common.stages import collect_stages
from mediatensor._engine.video.approximate import Timeline
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, MediaTensorError, OutOfRangeError

# Constant frame rates; the containers round times to their own ticks, and seek in their own ways.
CONSTANT = ("mp4", "mkv", "ts", "h264_open_gop", "hevc_open_gop", "mpeg2_open_gop", "vp9", "late_start_mp4")


@pytest.mark.parametrize("name", CONSTANT)
def test_approximate_mode_equals_exact_mode_at_constant_rate(name: str, tmp_path: Path) -> None:
    path = media.make(name, tmp_path)
    exact, approximate = VideoDecoder(path), VideoDecoder(path, seek_mode="approximate")
    begin = approximate.metadata.begin_stream_seconds
    assert abs(begin - exact.metadata.begin_stream_seconds) < 1e-3
    order = torch.randperm(min(len(exact), len(approximate)), generator=torch.Generator().manual_seed(1)).tolist()
    expected = exact.get_frames_at(order)
    batch = approximate.get_frames_at(order)
    assert torch.equal(batch.data, expected.data)
    assert torch.equal(batch.pts_seconds, expected.pts_seconds)
    for i in order[:10]:
        assert torch.equal(approximate[i], exact[i])


@pytest.mark.parametrize("name", ["vfr_mp4", "vfr_mkv", "gaps_mkv"])
def test_access_by_time_is_exact_at_any_rate(name: str, tmp_path: Path) -> None:
    path = media.make(name, tmp_path)
    exact, approximate = VideoDecoder(path), VideoDecoder(path, seek_mode="approximate")
    end = min(exact.metadata.end_stream_seconds or 0, approximate.metadata.end_stream_seconds or 0)
    times = torch.linspace(0, end - 1e-3, 50, dtype=torch.float64)[torch.randperm(50)]
    assert torch.equal(approximate.get_frames_played_at(times).data, exact.get_frames_played_at(times).data)


@pytest.mark.parametrize("flags", ["frag_keyframe", "frag_every_frame", "frag_keyframe+empty_moov"])
def test_all_frames_of_fragmented_files_are_counted(flags: str, clip: Path, clip_rgb: torch.Tensor) -> None:
    path = remux(clip, clip.with_name(f"{flags}.mp4"), movflags=flags)
    decoder = VideoDecoder(path, seek_mode="approximate")
    assert len(decoder) == len(clip_rgb)
    assert torch.equal(decoder[-3:], clip_rgb[-3:])


def test_approximate_mode_scans_nothing(clip: Path) -> None:
    with collect_stages() as seconds:
        decoder = VideoDecoder(clip, seek_mode="approximate")
        assert len(decoder) == 40
        assert decoder[13].shape == (3, 64, 96)
        assert decoder.metadata.num_frames_from_content is None
        assert decoder.metadata.end_stream_seconds_from_content is None
        with pytest.raises(InvalidArgumentError, match="exact"):
            _ = decoder.frame_index
    assert seconds.get("index", 0) == 0
    with collect_stages() as seconds:
        assert len(VideoDecoder(clip)) == 40
    assert seconds["index"] > 0


def test_ranges_and_errors(clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(clip, seek_mode="approximate")
    assert torch.equal(decoder[5:20:3], clip_rgb[5:20:3])
    assert torch.equal(decoder.get_frames_played_in_range(0.31, 0.5).data, clip_rgb[7:13])
    assert torch.equal(decoder.get_frames_played_in_range(0.0, 1.0, fps=5).data, clip_rgb[:25:5])
    assert torch.equal(decoder.get_all_frames().data, clip_rgb)
    assert decoder[3:3].shape == (0, 3, 64, 96)
    assert decoder.get_frames_played_in_range(0.5, 0.5).data.shape == (0, 3, 64, 96)
    with pytest.raises(OutOfRangeError):
        decoder[40]
    with pytest.raises(OutOfRangeError):
        decoder.get_frame_played_at(1.6)


@pytest.mark.parametrize("name", ["live_mkv", "raw_h264"])
def test_without_a_duration_in_the_header(name: str, tmp_path: Path) -> None:
    with pytest.raises(MediaTensorError, match="exact"):
        VideoDecoder(media.make(name, tmp_path), seek_mode="approximate")


def test_timeline_indices_by_hand() -> None:
    timeline = Timeline(begin_seconds=2.0, fps=10.0, num_frames=20, end_seconds=4.0)
    assert timeline.indices(2.0, 2.3) == range(3)
    assert timeline.indices(2.05, 2.15) == range(2)
    assert len(timeline.indices(3.0, 3.0)) == 0
