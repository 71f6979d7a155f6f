"""`sample_frames`: frames of real files, compared with rules in whole numbers; errors."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import media
from media_writing import ClipSpec, write_clip
from mediatensor.datasets import Item, VideoClips
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, SourceTypeError
from mediatensor.samplers import sample_frames
from mediatensor.transforms import Resize
from samplers_recording_decoder import RecordingDecoder

NUM_FRAMES, RATE = 45, 30


@pytest.fixture(scope="module", params=["mp4", "mkv"])
def steady(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.5 seconds at 30 frames a second. Matroska rounds the times to milliseconds."""
    path = tmp_path_factory.mktemp("steady") / f"steady.{request.param}"
    container = {"mp4": "mp4", "mkv": "matroska"}[request.param]
    write_clip(ClipSpec("steady", container=container, num_frames=NUM_FRAMES, rate=RATE), path)
    return path


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten frames in the first second, then one each at 2, 5 and 10 seconds."""
    path = tmp_path_factory.mktemp("uneven") / "uneven.mp4"
    times = [*range(0, 1000, 100), 2000, 5000, 10_000]
    write_clip(ClipSpec("uneven", num_frames=len(times), time_base=Fraction(1, 1000), pts=times), path)
    return path


def indices_of(decoder: Any, **arguments: Any) -> list[int]:
    """Return the indices of the sampled frames, found by their times."""
    all_times = decoder.get_all_frames().pts_seconds.tolist()
    return [all_times.index(seconds) for seconds in sample_frames(decoder, **arguments).pts_seconds.tolist()]


def spread(num_frames: int, count: int) -> list[int]:
    return [0] if count == 1 else [k * (num_frames - 1) // (count - 1) for k in range(count)]


@pytest.mark.parametrize("mode", ["exact", "approximate"])
def test_frames_are_spread_evenly_from_first_to_last(steady: Path, mode: Any) -> None:
    decoder = VideoDecoder(steady, seek_mode=mode)
    for count in range(1, NUM_FRAMES + 3):
        assert indices_of(decoder, max_frames=count) == spread(NUM_FRAMES, min(count, NUM_FRAMES)), count


def test_frames_and_times_match_the_decoder(steady: Path) -> None:
    decoder = VideoDecoder(steady, dimension_order="NHWC")
    frames = sample_frames(decoder, max_frames=4)
    expected = decoder.get_frames_at(spread(NUM_FRAMES, 4))
    assert torch.equal(frames.data, expected.data)
    assert torch.equal(frames.pts_seconds, expected.pts_seconds)
    assert frames.pts_seconds.dtype == torch.float64


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"fps": 2}, 3),  # 1.5 seconds
        ({"fps": 3}, 4),  # 4.5, rounded down
        ({"fps": RATE}, NUM_FRAMES),
        ({"fps": 29}, 43),  # 43.5, rounded down
        ({"fps": 1e300}, NUM_FRAMES),  # not more than the video has
        ({"fps": 0.01}, 1),
        ({"fps": 10, "max_frames": 8}, 8),
        ({"fps": 10, "max_frames": 80}, 15),
        ({"fps": 10, "multiple_of": 4}, 12),
        ({"fps": 0.01, "multiple_of": 4}, 4),
        ({"max_frames": 1000}, NUM_FRAMES),
        ({"max_frames": 1000, "multiple_of": 2}, 44),
        ({"max_tokens": 1000, "tokens_per_frame": 99.9}, 10),
        ({"max_tokens": 1000, "tokens_per_frame": 100}, 10),
        ({"max_tokens": 1000, "tokens_per_frame": 100.1}, 9),
        ({"max_tokens": 1000, "tokens_per_frame": 100, "fps": 4, "max_frames": 9}, 6),
        ({"max_tokens": 10**12, "tokens_per_frame": 1e-300}, NUM_FRAMES),
    ],
    ids=str,
)
def test_the_lowest_limit_applies(steady: Path, arguments: dict[str, Any], count: int) -> None:
    assert indices_of(VideoDecoder(steady), **arguments) == spread(NUM_FRAMES, count)


def test_tokens_are_computed_from_the_size_after_transforms(steady: Path) -> None:
    sizes = []

    def tokens(height: int, width: int) -> float:
        sizes.append((height, width))
        return height * width / (14 * 14) / 2

    decoder = VideoDecoder(steady, transforms=[Resize(max_pixels=20 * 14 * 14, multiple_of=14)])
    frames = sample_frames(decoder, max_tokens=75, tokens_per_frame=tokens, multiple_of=2)
    assert sizes == [tuple(frames.data.shape[-2:])]
    patches = sizes[0][0] * sizes[0][1] // 196
    assert len(frames) == 75 * 2 // patches // 2 * 2


def test_a_variable_rate_is_sampled_by_time(uneven: Path) -> None:
    decoder = VideoDecoder(uneven)
    assert len(decoder) == 13
    starts = decoder.get_all_frames().pts_seconds.tolist()
    for count in range(2, 13):
        times = [starts[-1] * k / (count - 1) for k in range(count)]
        shown = [max(i for i, start in enumerate(starts) if start <= seconds + 1e-6) for seconds in times]
        assert indices_of(decoder, max_frames=count) == shown, count
    assert indices_of(decoder, max_frames=13) == list(range(13))  # all frames, each once
    assert indices_of(decoder, fps=100) == list(range(13))


@pytest.mark.parametrize("name", ["vfr_mkv", "vfr_ts", "vfr_gif"])
def test_files_of_variable_rate_reach_the_last_frame(name: str, folder: Path) -> None:
    decoder = VideoDecoder(media.make(name, folder))
    times = sample_frames(decoder, max_frames=9).pts_seconds
    everything = decoder.get_all_frames()
    assert len(times) == 9
    assert times[0] == everything.pts_seconds[0]
    assert times[-1] == everything.pts_seconds[-1]
    even = torch.linspace(float(times[0]), float(times[-1]), 9, dtype=torch.float64)
    assert ((even - times) >= -1e-3).all()
    assert ((even - times) <= everything.pts_seconds.diff().max() + 1e-3).all()


def test_a_video_of_one_frame(tmp_path: Path) -> None:
    path = write_clip(ClipSpec("one", num_frames=1), tmp_path / "one.mp4")
    decoder = VideoDecoder(path)
    for arguments in ({"max_frames": 5}, {"fps": 2}, {"fps": 1000}, {"max_tokens": 9, "tokens_per_frame": 9}):
        assert len(sample_frames(decoder, **arguments)) == 1  # type: ignore[arg-type]
    pair = sample_frames(decoder, fps=2, multiple_of=2)
    assert torch.equal(pair.data, decoder.get_frames_at([0, 0]).data)


def test_a_decoder_of_another_library_is_sampled_by_index() -> None:
    decoder = RecordingDecoder(20)
    frames = sample_frames(decoder, fps=3)  # type: ignore[arg-type]  # 2 seconds
    assert decoder.calls == [("get_frames_at", spread(20, 6))]
    assert frames.data.shape == (6, 3, 4, 5)
    with pytest.raises(SourceTypeError, match="Pass the number of tokens instead"):
        sample_frames(decoder, max_tokens=9, tokens_per_frame=lambda h, w: 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="fps needs the duration"):
        sample_frames(RecordingDecoder(20, end=None), fps=3)  # type: ignore[arg-type]


def test_a_video_without_frames_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one frame"):
        sample_frames(RecordingDecoder(0), max_frames=3)  # type: ignore[arg-type]


def test_datasets_sample_segments(steady: Path) -> None:
    rows = [Item(str(steady)), Item(str(steady), start_seconds=0.5, end_seconds=1.0)]
    dataset = VideoClips(rows, sampler=partial(sample_frames, fps=10, max_frames=4))
    starts = VideoDecoder(steady).get_all_frames().pts_seconds
    assert dataset[0].frames.pts_seconds.tolist() == starts[spread(NUM_FRAMES, 4)].tolist()
    assert dataset[1].frames.pts_seconds.tolist() == starts[15:30][spread(15, 4)].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least one limit: max_frames, fps or max_tokens"),
        ({"multiple_of": 2}, "at least one limit"),
        ({"max_frames": 0}, r"max_frames must be .* \(got 0\)"),
        ({"max_frames": 2.5}, r"max_frames must be .* \(got 2.5\)"),
        ({"max_frames": 1, "multiple_of": 2}, r"max_frames \(1\) must be at least multiple_of \(2\)"),
        ({"fps": 0}, r"fps must be positive \(got 0\)"),
        ({"fps": float("nan")}, "fps must be a finite number"),
        ({"fps": 1, "multiple_of": 0}, r"multiple_of must be .* \(got 0\)"),
        ({"fps": 1, "multiple_of": 2**60}, r"multiple_of .* asks for"),
        ({"max_tokens": 5}, "max_tokens and tokens_per_frame must be given together"),
        ({"fps": 5, "tokens_per_frame": 5}, "max_tokens and tokens_per_frame must be given together"),
        ({"max_tokens": 5, "tokens_per_frame": 0}, r"tokens_per_frame must be positive \(got 0\)"),
        ({"max_tokens": 5, "tokens_per_frame": lambda h, w: "x"}, "tokens_per_frame must be a number"),
        ({"max_tokens": 5, "tokens_per_frame": 6}, r"max_tokens \(5\) must be at least 6, the tokens of 1 frame\."),
        ({"max_tokens": 11, "tokens_per_frame": 6, "multiple_of": 2}, "at least 12, the tokens of 2 frames"),
    ],
)
def test_wrong_arguments_are_errors(steady: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        sample_frames(VideoDecoder(steady), **arguments)


def test_a_path_is_an_error() -> None:
    with pytest.raises(SourceTypeError, match=r"mediatensor\.decoders\.VideoDecoder"):
        sample_frames("clip.mp4", max_frames=2)  # type: ignore[arg-type]
