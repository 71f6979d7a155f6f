"""Resampled and remixed audio equals the ``ffmpeg`` program, is the same in pieces, and keeps its tone."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import media_audio
import sound
from audio_exactness import find_truth, samples_of_range
from audio_oracles import ffmpeg_samples
from media_audio import SOUND_CLIPS
from mediatensor.decoders import AudioDecoder

# Higher and lower rates, with simple and other ratios; fewer and more channels.
_TARGETS: list[dict[str, int]] = [
    {"sample_rate": 16000},
    {"sample_rate": 48000},
    {"sample_rate": 8000, "num_channels": 1},
    {"sample_rate": 22050, "num_channels": 2},
    {"sample_rate": 44100, "num_channels": 6},
    {"sample_rate": 11025, "num_channels": 1},
    {"sample_rate": 96000},
    {"num_channels": 1},
    {"num_channels": 2},
    {"num_channels": 6},
]
# Different rates, channels, frame sizes and sample formats.
_CLIPS = ["pcm_s16_wav", "pcm_u8_wav", "pcm_s24_wav", "flac_small_blocks", "mp3_cbr", "opus_ogg", "aac_m4a", "m4a_late"]
# Sums of floats depend on where the filter starts.
_ROUNDING = 1e-5


@pytest.fixture(params=_TARGETS, ids=lambda target: "-".join(map(str, target.values())))
def target(request: pytest.FixtureRequest) -> dict[str, int]:
    return dict(request.param)


@pytest.mark.parametrize("name", _CLIPS[::2])
def test_whole_is_that_of_the_program(
    name: str, target: dict[str, int], sound_folder: Path, ffmpeg_program: str
) -> None:
    truth = find_truth(name, sound_folder)
    theirs, rate = ffmpeg_samples(
        ffmpeg_program, truth.path, rate=target.get("sample_rate"), num_channels=target.get("num_channels")
    )
    with truth.open(**target) as decoder:
        got = decoder.get_all_samples()
    assert got.sample_rate == rate
    ours = got.data.numpy()
    assert ours.shape[0] == theirs.shape[0]
    expected_length = truth.num_samples * rate / truth.linear.rate
    assert abs(ours.shape[1] - expected_length) <= 1
    assert got.pts_seconds == pytest.approx(truth.whole.pts_seconds, abs=1e-9)
    assert got.duration_seconds == pytest.approx(ours.shape[1] / rate, abs=1e-9)
    # The program does not trim the padding of AAC in MP4: filters reach into it.
    margin = 0 if truth.num_samples == truth.linear.num_samples else 64 * max(1, rate // truth.linear.rate)
    length = min(ours.shape[1], theirs.shape[1]) - margin
    assert length >= expected_length - 1 - margin
    assert sound.largest_difference(ours[:, :length], theirs[:, :length]) < _ROUNDING


@pytest.mark.parametrize("name", _CLIPS[1::2] + _CLIPS[:1])
def test_pieces_are_those_of_the_whole(name: str, target: dict[str, int], sound_folder: Path) -> None:
    """Lengths of ranges are exact. Values are equal up to rounding, or up to the tolerance of the codec."""
    truth = find_truth(name, sound_folder)
    with truth.open(**target) as decoder:
        whole = decoder.get_all_samples()
        data, begin, rate = whole.data.numpy(), whole.pts_seconds, whole.sample_rate
        draw = random.Random(f"{name} {target}")
        cuts = sorted(begin + draw.uniform(0, data.shape[1]) / rate for _ in range(4))
        edges = [begin, *cuts, begin + data.shape[1] / rate]
        for start, stop in [*pairwise(edges), (cuts[0], cuts[0] + 0.01), (cuts[2] - 0.003, cuts[2])]:
            first, last = samples_of_range(start, stop, begin, rate, data.shape[1])
            got = decoder.get_samples_played_in_range(start, stop)
            assert got.data.shape == (len(data), last - first)
            assert got.pts_seconds == pytest.approx(max(start, begin), abs=1e-9)
            difference = sound.largest_difference(got.data.numpy(), data[:, first:last])
            limit = _ROUNDING if truth.range_snr_db is None else truth.loudness * 10 ** (-truth.range_snr_db / 20) * 5
            assert difference < limit, f"{name} {target}: [{start}, {stop}), samples {first} to {last}"
        tiles = decoder.get_samples_played_in_ranges(list(pairwise(edges)))
        assert sum(tile.data.shape[1] for tile in tiles) == data.shape[1]


def test_a_range_does_not_depend_on_what_was_asked_before(sound_folder: Path) -> None:
    truth = find_truth("mp3_vbr", sound_folder)
    arguments = {"sample_rate": 16000, "num_channels": 1}
    with truth.open(**arguments) as fresh, truth.open(**arguments) as used:
        used.get_samples_played_in_range(0.2, 0.7)
        used.get_all_samples()
        used.get_samples_played_in_range(1.5, 1.6)
        one, other = (each.get_samples_played_in_range(0.9, 1.3).data for each in (fresh, used))
    assert np.array_equal(one, other)


_FREQUENCY = 997.0


def _draw_sine(rate: int, num_channels: int, num_samples: int) -> Any:
    return np.stack([sound.sine(_FREQUENCY, rate, num_samples, phase=0.5)] * num_channels)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000, 96000])
@pytest.mark.parametrize("original", ["pcm_s16_wav", "flac_mono_16k", "mp3_cbr_320k", "opus_ogg"])
def test_a_sine_stays_that_sine(original: str, rate: int, sound_folder: Path) -> None:
    """The time of sample k is k / rate, so amplitude and phase follow the formula, in the whole and in a range."""
    spec = replace(SOUND_CLIPS[original], draw=_draw_sine)
    with AudioDecoder(media_audio.make_as(spec, f"tone_{original}", sound_folder), sample_rate=rate) as decoder:
        whole = decoder.get_all_samples()
        begin = whole.pts_seconds
        piece = decoder.get_samples_played_in_range(begin + 0.8, begin + 1.2)
    for data, seconds in ((whole.data[0, rate // 2 : rate], 0.5), (piece.data[0], 0.8)):
        amplitude, phase, snr_db = sound.sine_fit(data.numpy(), _FREQUENCY, rate)
        expected = 0.5 + 2 * np.pi * _FREQUENCY * seconds
        assert amplitude == pytest.approx(0.5, rel=0.02)
        assert (phase - expected + np.pi) % (2 * np.pi) - np.pi == pytest.approx(0, abs=0.005)
        assert snr_db > 35


def test_remixing_by_hand(sound_folder: Path) -> None:
    """FFmpeg keeps the power: it divides the sum by the root of two, and also both copies of a mono channel."""
    truth = find_truth("pcm_f32_wav", sound_folder)
    with truth.open(num_channels=1) as decoder:
        mono = decoder.get_all_samples().data.numpy()
    assert sound.largest_difference(mono, truth.data.sum(axis=0, keepdims=True) / 2**0.5) < 1e-6
    truth = find_truth("flac_mono_16k", sound_folder)
    with truth.open(num_channels=2) as decoder:
        stereo = decoder.get_all_samples().data.numpy()
    assert sound.largest_difference(stereo, truth.data.repeat(2, axis=0) / 2**0.5) < 1e-6
