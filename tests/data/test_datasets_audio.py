"""`AudioClips`: clips of audio, compared with the samples that were written into the files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dataset_samples import check_rows_anywhere, sample_of
from mediatensor import AudioSamples, AudioSamplesBatch
from mediatensor.datasets import AudioClips, Item, Sample, Skipped
from mediatensor.datasets._rows.recipe import OpenFiles
from mediatensor.decoders import AudioDecoder
from mediatensor.encoders import AudioEncoder
from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import audio_clips_at_random_timestamps, audio_clips_at_regular_timestamps
from mediatensor.transforms import LogMelSpectrogram
from wav_files import wav

RATE = 8000
NUM_SAMPLES = 12_000


def ramp(num_samples: int, first: int = 0) -> NDArray[np.int16]:
    """Two channels that contain the number of the sample: int16 (2, samples)."""
    numbers = (np.arange(num_samples) + first).astype(np.int16)
    return np.stack([numbers, -numbers])


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A WAV and a FLAC file with the same samples, and a WAV with later ones."""
    folder = tmp_path_factory.mktemp("sounds")
    floats = torch.from_numpy(ramp(NUM_SAMPLES)).float() / 32768
    AudioEncoder(floats, sample_rate=RATE).to_file(folder / "b.flac")
    for name, first in (("a", 0), ("c", NUM_SAMPLES)):
        (folder / f"{name}.wav").write_bytes(wav("pcm_s16le", ramp(NUM_SAMPLES, first).T / 32768, RATE))
    return [folder / "a.wav", folder / "b.flac", folder / "c.wav"]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "text.wav").write_text("not sound")
    (folder / "empty.mp3").touch()
    return [folder / "text.wav", folder / "empty.mp3", folder / "missing.flac"]


def expected(first: int, length: int, offset: int = 0) -> Tensor:
    return torch.from_numpy(ramp(length, first + offset)).float() / 32768


def sound_of(sample: Sample) -> AudioSamples:
    assert isinstance(sample.audio, AudioSamples)
    return sample.audio


def test_a_clip_has_the_written_samples(sounds: list[Path]) -> None:
    rows = AudioClips(sounds, seconds_per_clip=0.25, rows_per_file=4)
    for row in range(len(rows)):
        sample = sample_of(rows, row)
        audio = sound_of(sample)
        first = round(audio.pts_seconds * RATE)
        assert torch.equal(audio.data, expected(first, 2000, NUM_SAMPLES if row >= 8 else 0))
        assert (audio.sample_rate, audio.duration_seconds, sample.num_valid_samples) == (RATE, 0.25, 2000)
        assert (sample.source, sample.row) == (str(sounds[row // 4]), row)
        assert (sample.frames, sample.image, sample.features) == (None, None, None)


def test_a_short_file_is_filled_up_and_says_so(sounds: list[Path]) -> None:
    sample = sample_of(AudioClips(sounds[:1], seconds_per_clip=2.0), 0)
    audio = sound_of(sample)
    assert sample.num_valid_samples == NUM_SAMPLES
    assert torch.equal(audio.data[:, :NUM_SAMPLES], expected(0, NUM_SAMPLES))
    assert audio.data.shape == (2, 16_000)
    assert not audio.data[:, NUM_SAMPLES:].any()


def test_rate_and_channels_are_those_asked_for(sounds: list[Path]) -> None:
    rows = AudioClips(sounds, seconds_per_clip=0.25, sample_rate=16_000, num_channels=1)
    audio = sound_of(sample_of(rows, 0))
    with AudioDecoder(sounds[0], sample_rate=16_000, num_channels=1) as decoder:
        whole = decoder.get_all_samples().data
    first = round(audio.pts_seconds * 16_000)
    assert torch.equal(audio.data, whole[:, first : first + 4000])


def test_a_sample_has_several_clips(sounds: list[Path]) -> None:
    sampler = partial(audio_clips_at_regular_timestamps, seconds_between_clip_starts=0.5, seconds_per_clip=0.5)
    sample = sample_of(AudioClips(sounds[2:], sampler, keep_clip_dimension=True), 0)
    assert isinstance(sample.audio, AudioSamplesBatch)
    assert sample.num_valid_samples is None
    assert sample.audio.num_valid_samples.tolist() == [4000, 4000, 4000]
    for clip, first in zip(sample.audio, (0, 4000, 8000), strict=True):
        assert torch.equal(clip.data, expected(first, 4000, NUM_SAMPLES))
    with pytest.raises(InvalidArgumentError, match="3 clips"):
        AudioClips(sounds, sampler)[0]


def test_a_sampler_may_give_a_whole_file(sounds: list[Path]) -> None:
    sample = sample_of(AudioClips(sounds, AudioDecoder.get_all_samples), 1)
    assert torch.equal(sound_of(sample).data, expected(0, NUM_SAMPLES))
    assert sample.num_valid_samples is None


@pytest.mark.parametrize("given", [torch.zeros(2, 3), None], ids=["tensor", "none"])
def test_other_results_of_a_sampler_are_refused(sounds: list[Path], given: object) -> None:
    def sampler(decoder: object) -> Any:
        return given

    with pytest.raises(InvalidArgumentError, match="must return an AudioSamplesBatch"):
        AudioClips(sounds, sampler)[0]


# Transforms


def louder(sound: AudioSamples) -> Tensor:
    return sound.data * (1 + torch.rand(()))


def test_a_tensor_of_the_same_shape_takes_the_place_of_the_samples(sounds: list[Path]) -> None:
    plain, loud = (AudioClips(sounds[2:], seconds_per_clip=2.0, transform=step) for step in (None, louder))
    before, after = sample_of(plain, 0), sample_of(loud, 0)
    ratio = sound_of(after).data[0, 100] / sound_of(before).data[0, 100]
    assert 1 < ratio < 2
    assert torch.allclose(sound_of(after).data, sound_of(before).data * ratio)
    assert (sound_of(after).pts_seconds, after.num_valid_samples) == (0.0, NUM_SAMPLES)


def at_half_the_rate(sound: AudioSamples) -> AudioSamples:
    return AudioSamples(sound.data[:, ::2], sound.pts_seconds, sound.duration_seconds, sound.sample_rate // 2)


def test_valid_samples_cover_the_same_seconds(sounds: list[Path]) -> None:
    sample = sample_of(AudioClips(sounds[:1], seconds_per_clip=2.0, transform=at_half_the_rate), 0)
    assert (sound_of(sample).data.shape, sample.num_valid_samples) == ((2, 8000), 6000)


def first_second(sound: AudioSamples) -> AudioSamples:
    return AudioSamples(sound.data[:, :RATE], sound.pts_seconds, 1.0, sound.sample_rate)


def test_valid_samples_are_never_more_than_samples(sounds: list[Path]) -> None:
    assert sample_of(AudioClips(sounds[:1], seconds_per_clip=2.0, transform=first_second), 0).num_valid_samples == RATE


def test_a_tensor_of_another_shape_is_features(sounds: list[Path]) -> None:
    mels = LogMelSpectrogram(sample_rate=RATE)
    rows = AudioClips(sounds[2:], seconds_per_clip=2.0, num_channels=1, transform=mels)
    sample = sample_of(rows, 0)
    with AudioDecoder(sounds[2], num_channels=1) as decoder:
        padded = torch.nn.functional.pad(decoder.get_all_samples().data, (0, 4000))
    assert sample.features is not None
    assert torch.equal(sample.features, mels(padded))
    assert sample.audio is None
    assert sample.extra == {"audio_pts_seconds": 0.0, "audio_duration_seconds": 2.0, "num_valid_samples": NUM_SAMPLES}


def test_other_results_of_a_transform_are_refused(sounds: list[Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="must return AudioSamples or a tensor"):
        AudioClips(sounds, transform=lambda sound: sound.data.numpy())[0]


# Rows


def noisy(sound: AudioSamples) -> Tensor:
    return sound.data + torch.rand(sound.data.shape)


def test_rows_do_not_depend_on_their_reader(sounds: list[Path]) -> None:
    items = [Item(path, label=7) for path in sounds]
    check_rows_anywhere(AudioClips(items, seconds_per_clip=0.1, rows_per_file=5, transform=noisy, seed=3), 15)


def test_position_of_a_row_is_where_its_clip_begins(sounds: list[Path]) -> None:
    rows = AudioClips(sounds[1:2], seconds_per_clip=0.1, sample_rate=4000, rows_per_file=5)
    with OpenFiles(1) as files:
        for row in range(5):
            clip = sound_of(sample_of(rows, row))
            assert rows.spec(row).position(files) == pytest.approx(clip.pts_seconds, abs=0.5 / 4000)


def test_files_that_cannot_be_read_are_skipped(sounds: list[Path], broken: list[Path]) -> None:
    rows = AudioClips([*broken, *sounds], seconds_per_clip=0.1, on_error="skip")
    samples = rows.__getitems__(range(6))
    assert [isinstance(sample, Skipped) for sample in samples] == [True] * 3 + [False] * 3
    assert [sample.failures[0].source for sample in samples[:3]] == [str(path) for path in broken]
    with pytest.raises(Exception, match="missing"):
        AudioClips(broken)[2]


def test_a_label_function_sets_labels(sounds: list[Path]) -> None:
    rows = AudioClips(sounds, seconds_per_clip=0.1, label=lambda item: Path(item.source).stem)  # type: ignore[arg-type]
    assert [sample_of(rows, row).label for row in range(3)] == ["a", "b", "c"]


def test_audio_of_a_video_is_read(media_data: Callable[[str], Path]) -> None:
    path = media_data("megatron-energon__sync_test.mp4")
    sampler = partial(audio_clips_at_random_timestamps, seconds_per_clip=1.0)
    audio = sound_of(sample_of(AudioClips([path], sampler, sample_rate=8000, num_channels=1), 0))
    with AudioDecoder(path, sample_rate=8000, num_channels=1) as decoder:
        (again,) = decoder.get_samples_played_in_ranges([(audio.pts_seconds, audio.pts_seconds + 1.0)])
    assert torch.equal(audio.data, again.data)
    assert audio.data.abs().max() <= 1
