"""A call decodes as few frames as the rule for seeking allows, and no frame twice.

The frame cache is off here, except in one test; `test_frame_cache` tests its savings.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import media
import mediatensor
from mediatensor import samplers
from mediatensor.decoders import VideoDecoder

NUM_FRAMES, GOP = 60, 12
Count = Callable[..., int]


@pytest.fixture(autouse=True)
def _no_frame_cache(own_limits: None) -> None:
    mediatensor.set_frame_cache_bytes(0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clip of closed GOPs without B frames: packet i is frame i, and every 12th is a key frame."""
    folder = tmp_path_factory.mktemp("work")
    spec = media.ClipSpec("", options={"g": str(GOP), "bf": "0", "sc_threshold": "0"}, num_frames=NUM_FRAMES)
    media.write_clip(spec, folder / "clip.mp4")
    return folder / "clip.mp4"


@pytest.fixture
def decoder(path: Path) -> VideoDecoder:
    decoder = VideoDecoder(path, num_ffmpeg_threads=1)
    decoder[0]  # opens and scans
    return decoder


def test_counting_and_metadata_decode_little(path: Path, count: Count) -> None:
    decoder = VideoDecoder(path, num_ffmpeg_threads=1)
    assert count(lambda: len(decoder)) == 0
    assert count(lambda: decoder.metadata) == 1
    assert count(lambda: decoder.metadata) == 0


@pytest.mark.parametrize("index", [1, 11, 12, 17, 59])
def test_one_frame_costs_its_distance_to_the_key_frame(index: int, decoder: VideoDecoder, count: Count) -> None:
    decoder[30]
    assert count(lambda: decoder[index]) == index % GOP + 1


def test_going_forward_decodes_each_frame_once(decoder: VideoDecoder, count: Count) -> None:
    decoder[20]
    assert count(lambda: [decoder[i] for i in range(21, NUM_FRAMES)]) == NUM_FRAMES - 21


def test_little_is_decoded_in_vain_before_a_jump(path: Path, decoder: VideoDecoder, count: Count) -> None:
    for last, num_in_vain in ((3, 0), (9, 2), (30, 7)):
        decoder[0]
        assert count(lambda last=last: [decoder[i] for i in range(1, last + 1)]) <= last + num_in_vain
    linear = VideoDecoder(path)[:]
    for i in (40, *range(45, 60), 50, 51, 2):
        assert torch.equal(decoder[i], linear[i])


def test_duplicates_and_negatives_are_decoded_once(decoder: VideoDecoder, count: Count) -> None:
    assert count(lambda: decoder.get_frames_at([-1, NUM_FRAMES - 1, 48, -1, 48])) == GOP
    assert count(lambda: decoder.get_frames_at([30, 24, 27, 30])) == 7


def test_all_frames_cost_one_pass(decoder: VideoDecoder, count: Count) -> None:
    assert count(lambda: decoder.get_all_frames()) == NUM_FRAMES


def test_going_backwards_decodes_each_gop_once_if_it_may_be_kept(decoder: VideoDecoder, count: Count) -> None:
    assert count(lambda: list(reversed(decoder))) == NUM_FRAMES // GOP * sum(range(1, GOP + 1))
    mediatensor.set_frame_cache_bytes(None)
    # Backward access shows at the second step, so the first one is decoded separately.
    assert count(lambda: list(reversed(decoder))) <= NUM_FRAMES + GOP


def test_resampling_up_decodes_no_frame_twice(decoder: VideoDecoder, count: Count) -> None:
    assert count(lambda: decoder.get_all_frames(fps=100)) == NUM_FRAMES


def gop_costs(indices: set[int]) -> int:
    """Return the number of frames from the key frame of each GOP up to the last wanted frame in it."""
    last: dict[int, int] = {}
    for i in indices:
        last[i // GOP] = max(last.get(i // GOP, 0), i % GOP + 1)
    return sum(last.values())


@pytest.mark.parametrize("seed", range(5))
def test_sampler_call_decodes_no_frame_twice(seed: int, decoder: VideoDecoder, count: Count) -> None:
    decoder[59]
    torch.manual_seed(seed)
    clips = []
    cost = count(
        lambda: clips.append(
            samplers.clips_at_random_indices(decoder, num_clips=6, num_frames_per_clip=4, num_indices_between_frames=3)
        )
    )
    indices = {round(t * 25) for t in clips[0].pts_seconds.flatten().tolist()}
    assert cost == gop_costs(indices)
    assert cost < 6 * 4 * GOP
