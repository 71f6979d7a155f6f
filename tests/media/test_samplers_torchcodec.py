"""Compare the samplers with torchcodec's, if it is installed: same seed, same clips, same errors."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from media_writing import ClipSpec, write_clip
from mediatensor import samplers
from mediatensor.decoders import VideoDecoder
from samplers_recording_decoder import RecordingDecoder

torchcodec = pytest.importorskip("torchcodec", exc_type=ImportError)
theirs = pytest.importorskip("torchcodec.samplers", exc_type=ImportError)

SAMPLERS = sorted(name for name in samplers.__all__ if hasattr(theirs, name))
POLICIES = ["repeat_last", "wrap", "error"]


def calls_of(sampler: Callable[..., Any], seed: int, stream: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Return the calls of the decoder and the state of the generator, or "ValueError" if it is raised."""
    decoder = RecordingDecoder(**stream)
    torch.manual_seed(seed)
    try:
        clips = sampler(decoder, **arguments)
    except ValueError:
        assert decoder.calls == []
        return "ValueError"
    return decoder.calls, clips.data.shape, clips.pts_seconds.tolist(), torch.get_rng_state().tolist()


def index_case(choose: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    num_frames = choose.choice([0, 1, 2, 9, 30, 250])
    return {"num_frames": num_frames}, {
        "num_clips": choose.randint(0, 9),
        "num_frames_per_clip": choose.choice([0, 1, 2, 3, 8]),
        "num_indices_between_frames": choose.choice([0, 1, 1, 2, 5]),
        # torchcodec accepts a start before the first frame.
        "sampling_range_start": choose.choice([0, 0, choose.randint(-num_frames, num_frames + 1)]),
        "sampling_range_end": choose.choice([None, None, choose.randint(-num_frames - 3, num_frames + 3)]),
        "policy": choose.choice([*POLICIES, *POLICIES, "repeat"]),
    }


def time_case(choose: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    begin = choose.choice([0.0, 0.0, 8.333, -0.5, 1e6 + 1 / 3])
    num_frames = choose.choice([0, 1, 9, 30, 30, 250, 250])
    fps = choose.choice([10.0, 24000 / 1001, 25.0, 30.0, 59.94])
    end = begin + num_frames / fps
    return {"num_frames": num_frames, "average_fps": fps, "begin": begin, "end": end}, {
        "num_frames_per_clip": choose.choice([0, 1, 2, 3, 8]),
        "seconds_between_frames": choose.choice([None, None, None, 0.04, 0.1, 1.0, 0, -1.0]),
        "sampling_range_start": choose.choice([None, None, begin, choose.uniform(begin - 0.1, end + 0.1)]),
        "sampling_range_end": choose.choice([None, None, begin, end, choose.uniform(begin - 0.1, end + 3)]),
        "policy": choose.choice([*POLICIES, *POLICIES, "repeat"]),
    }


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_seed_gives_the_same_clips_and_errors(name: str) -> None:
    choose = random.Random(name)
    outcomes = Counter()
    for seed in range(2500):
        stream, arguments = index_case(choose) if "indices" in name else time_case(choose)
        if name == "clips_at_random_timestamps":
            arguments["num_clips"] = choose.randint(0, 9)
        if name == "clips_at_regular_timestamps":
            arguments["seconds_between_clip_starts"] = choose.choice([0.1, 1 / 3, 2.0, 100.0, 0, -1.0])
        expected = calls_of(getattr(theirs, name), seed, stream, arguments)
        actual = calls_of(getattr(samplers, name), seed, stream, arguments)
        if actual != expected and "timestamps" in name:  # torchcodec refuses a stream that is shorter than a clip
            step = arguments["seconds_between_frames"] or 1 / stream["average_fps"]
            assert expected == "ValueError"
            assert arguments["sampling_range_end"] is None
            assert stream["begin"] + (arguments["num_frames_per_clip"] - 1) * step >= stream["end"]
            continue
        assert actual == expected, (stream, arguments)
        outcomes["error" if actual == "ValueError" else arguments["policy"]] += 1
    assert min(outcomes[kind] for kind in ["error", *POLICIES]) > 50, outcomes


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_defaults_are_the_same(name: str) -> None:
    arguments = {"seconds_between_clip_starts": 0.5} if name == "clips_at_regular_timestamps" else {}
    expected = calls_of(getattr(theirs, name), 0, {}, arguments)
    assert expected != "ValueError"
    assert calls_of(getattr(samplers, name), 0, {}, arguments) == expected


# (kind of samplers, arguments, stream) that torchcodec rejects with different messages.
REFUSED = [
    ("", {}, {"num_frames": 0}),
    ("", {"num_frames_per_clip": 0}, {}),
    ("random", {"num_clips": 0}, {}),
    ("indices", {"num_clips": -2}, {}),
    ("indices", {"num_indices_between_frames": 0}, {}),
    ("indices", {"sampling_range_start": 20}, {}),
    ("indices", {"sampling_range_start": 18, "num_frames_per_clip": 5}, {}),
    ("indices", {"sampling_range_start": 5, "sampling_range_end": 3}, {}),
    ("", {"num_frames_per_clip": 50, "sampling_range_end": 2, "policy": "error"}, {"num_frames": 4}),
    ("timestamps", {"sampling_range_start": -1.0}, {}),
    ("timestamps", {"sampling_range_start": 2.0}, {}),
    ("timestamps", {"sampling_range_start": 1.5, "sampling_range_end": 1.0}, {}),
    ("timestamps", {"sampling_range_end": -1.0}, {}),
    ("timestamps", {}, {"average_fps": None}),
    ("timestamps", {}, {"end": None}),
    ("regular_timestamps", {"seconds_between_clip_starts": 0}, {}),
]


def refusal(sampler: Callable[..., Any], stream: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return the message of the ValueError of ``sampler``."""
    with pytest.raises(ValueError, match=r"\w") as error:
        sampler(RecordingDecoder(**stream), **arguments)
    return str(error.value)


@pytest.mark.parametrize(("kind", "arguments", "stream"), REFUSED)
def test_error_messages_start_like_torchcodecs(kind: str, arguments: dict[str, Any], stream: dict[str, Any]) -> None:
    names = [name for name in SAMPLERS if kind in name]
    assert names
    for name in names:
        required = {"seconds_between_clip_starts": 0.5} if name == "clips_at_regular_timestamps" else {}
        expected = refusal(getattr(theirs, name), stream, required | arguments)
        # Ours also names the remedy.
        assert refusal(getattr(samplers, name), stream, required | arguments).startswith(expected.rstrip("."))


@pytest.mark.parametrize("name", SAMPLERS)
def test_clips_of_a_real_file_are_identical(name: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_clip(ClipSpec("25 frames a second", options={"g": "12", "bf": "3"}, num_frames=40), path)
    arguments: dict[str, Any] = {"num_frames_per_clip": 3, "policy": "wrap"}
    arguments |= {"seconds_between_clip_starts": 0.11} if name == "clips_at_regular_timestamps" else {"num_clips": 5}
    if "timestamps" in name:
        arguments |= {"seconds_between_frames": 0.05, "sampling_range_end": 10.0}
    else:
        arguments |= {"num_indices_between_frames": 4, "sampling_range_end": 40}
    for seed in range(5):
        torch.manual_seed(seed)
        expected = getattr(theirs, name)(torchcodec.decoders.VideoDecoder(path), **arguments)
        torch.manual_seed(seed)
        actual = getattr(samplers, name)(VideoDecoder(path), **arguments)
        assert torch.equal(actual.data, expected.data)
        assert torch.equal(actual.pts_seconds, expected.pts_seconds)
        assert torch.allclose(actual.duration_seconds, expected.duration_seconds, rtol=0, atol=1e-9)
