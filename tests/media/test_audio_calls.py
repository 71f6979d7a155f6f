"""The number of Python calls for audio, including built-ins: a few for each packet."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mediatensor.decoders import AudioDecoder, WavDecoder
from mediatensor.encoders import AudioEncoder

_RATE, _SECONDS = 48_000, 20
# Samples in a packet.
_AAC_FRAME = 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio_calls")
    noise = 0.5 * torch.rand(2, _SECONDS * _RATE, generator=torch.Generator().manual_seed(0)) - 0.25
    for name in ("sound.m4a", "sound.wav"):
        AudioEncoder(noise, sample_rate=_RATE).to_file(folder / name)
        # One-time imports and lookups are not counted.
        AudioDecoder(folder / name, num_ffmpeg_threads=1).get_samples_played_in_range(5.0, 5.5)
    return folder


def num_calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined,no-any-return]


def test_opening_takes_few_calls(folder: Path) -> None:
    assert num_calls(lambda: AudioDecoder(folder / "sound.m4a", num_ffmpeg_threads=1)) <= 700


def test_a_range_in_the_middle_takes_few_calls_for_each_packet(folder: Path) -> None:
    with AudioDecoder(folder / "sound.m4a", num_ffmpeg_threads=1) as decoder:
        # Half a second, and the pre-roll of 0.2 seconds.
        num_packets = 0.7 * _RATE / _AAC_FRAME
        assert num_calls(lambda: decoder.get_samples_played_in_range(10.0, 10.5)) <= 250 + 13 * num_packets
        assert num_calls(lambda: decoder.get_samples_played_in_range(10.5, 11.0)) <= 250 + 13 * num_packets


def test_a_whole_stream_takes_few_calls_for_each_packet(folder: Path) -> None:
    with AudioDecoder(folder / "sound.m4a", num_ffmpeg_threads=1) as decoder:
        assert num_calls(decoder.get_all_samples) <= 500 + 11 * _SECONDS * _RATE / _AAC_FRAME


def test_wav_takes_calls_by_the_block(folder: Path) -> None:
    with WavDecoder(folder / "sound.wav") as decoder:
        assert num_calls(lambda: decoder.get_samples_played_in_range(10.0, 10.5)) <= 200
        num_blocks = 4 * _SECONDS * _RATE / (1 << 17)
        assert num_calls(decoder.get_all_samples) <= 200 + 30 * num_blocks
