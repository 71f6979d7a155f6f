"""Check an `AudioDecoder` on a clip against a plain decode. Arrays are float32 (channels, samples)."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import media_audio
import sound
from audio_oracles import LinearSound, linear_decode_samples
from media_audio import SoundSpec
from mediatensor import AudioSamples
from mediatensor.decoders import AudioDecoder

Sound = NDArray[np.float32]


@dataclass(frozen=True)
class Truth:
    """An audio file and its plain decode; for ``range_snr_db`` see `SoundSpec`."""

    path: Path
    linear: LinearSound
    range_snr_db: float | None = None
    stream_index: int | None = None

    def open(self, **arguments: Any) -> AudioDecoder:
        return AudioDecoder(self.path, stream_index=self.stream_index, **arguments)

    @cached_property
    def whole(self) -> AudioSamples:
        """All samples, from a decoder that is asked for nothing else."""
        with self.open() as decoder:
            return decoder.get_all_samples()

    @cached_property
    def data(self) -> Sound:
        return self.whole.data.numpy()

    @property
    def num_samples(self) -> int:
        return int(self.data.shape[1])

    @cached_property
    def loudness(self) -> float:
        """Root of the mean square of all samples."""
        return max(1e-6, float(np.sqrt(np.mean(self.data.astype(np.float64) ** 2))))

    def random(self, salt: str = "") -> random.Random:
        return random.Random(self.path.name + salt)

    def seconds(self, sample: float) -> float:
        """The time at which a sample is played."""
        return self.whole.pts_seconds + sample / self.linear.rate


@lru_cache(maxsize=256)
def find_truth(name: str, folder: Path) -> Truth:
    """The truth about a clip of `media_audio`; found once in a process."""
    path = media_audio.make(name, folder)
    return Truth(path, linear_decode_samples(path), media_audio.ALL_CLIPS[name].range_snr_db)


def spec_of(truth: Truth) -> SoundSpec:
    return media_audio.ALL_CLIPS[truth.path.name.split(".")[0]]


def samples_of_range(start: float, stop: float | None, begin: float, rate: int, num_samples: int) -> tuple[int, int]:
    """Which samples [first, last) a range of time is: nearest samples, halves up, cut to what there is."""
    first = min(num_samples, max(0, math.floor((start - begin) * rate + 0.5)))
    last = num_samples if stop is None else min(num_samples, math.floor((stop - begin) * rate + 0.5))
    return first, max(first, last)


def assert_range(truth: Truth, got: AudioSamples, start: float, stop: float | None) -> None:
    """Fail unless ``got`` is the range: which samples, when, how long, and their values."""
    begin, rate = truth.whole.pts_seconds, truth.linear.rate
    first, last = samples_of_range(start, stop, begin, rate, truth.num_samples)
    where = f"[{start}, {stop}), samples {first} to {last} of {truth.num_samples}"
    assert got.data.dtype == torch.float32
    assert got.data.shape == (truth.data.shape[0], last - first), where
    assert got.sample_rate == rate
    assert got.pts_seconds == pytest.approx(max(start, begin), abs=1e-9), where
    assert got.duration_seconds == pytest.approx((last - first) / rate, abs=1e-9), where
    assert_same(truth, got.data.numpy(), first, where)


def assert_same(truth: Truth, data: Sound, first: int, where: str) -> None:
    """Fail unless ``data`` is the samples from ``first`` on: bit for bit, or as near as the codec allows."""
    expected = truth.data[:, first : first + data.shape[1]]
    if np.array_equal(data, expected):
        return
    difference = np.abs(data - expected)
    wrong = np.flatnonzero(difference.max(axis=0))
    noise = float(np.sqrt(np.mean(difference.astype(np.float64) ** 2)))
    distance = 20 * math.log10(truth.loudness / noise)
    shift = sound.delay_of(data[0], expected[0], 4096) if data.shape[1] > 64 else 0
    message = (
        f"{truth.path.name} {where}: {len(wrong)} of {data.shape[1]} samples differ, the first at {first + wrong[0]}, "
        f"the last at {first + wrong[-1]}, by {difference.max():.2g} at most; {distance:.1f} dB below the sound; "
        f"the sound itself is shifted by {shift}"
    )
    assert truth.range_snr_db is not None, message
    assert distance >= truth.range_snr_db, message
