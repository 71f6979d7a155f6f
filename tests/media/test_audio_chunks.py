"""`AudioDecoder.chunks`: a stream in pieces, for speech models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import media_audio
from file_sources import BareFile
from media_audio_writing import SoundSpec, write_sound
from mediatensor.decoders import AudioDecoder
from wav_files import wav

RATE = 8000


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    path.write_bytes(wav("pcm_s16le", samples[:, None] / 32768, rate))
    return path


def ramp(num_samples: int) -> np.ndarray:
    """A file whose sample k has the value k, within the range of 16 bits."""
    return np.arange(num_samples) % 32768


@pytest.fixture
def long(tmp_path: Path) -> Path:
    return write_wav(tmp_path / "ramp.wav", ramp(20_500))


@pytest.mark.parametrize(
    ("seconds", "overlap_seconds", "starts", "last_length"),
    [
        (1.0, 0.0, [0, 8000, 16000], 4500),
        (1.0, 0.25, [0, 6000, 12000, 18000], 2500),
        (1.0, 0.5, [0, 4000, 8000, 12000, 16000], 4500),  # a chunk at 20000 would only repeat samples
        (20_500 / RATE, 0.0, [0], 20_500),
        (20_500 / RATE, 1.0, [0], 20_500),
        (60.0, 0.0, [0], 20_500),
        (0.33333, 0.0, [round(k * 2666.64) for k in range(8)], 20_500 - 18_666),
    ],
)
def test_chunks_are_the_samples(
    long: Path, seconds: float, overlap_seconds: float, starts: list[int], last_length: int
) -> None:
    with AudioDecoder(long) as decoder:
        chunks = list(decoder.chunks(seconds, overlap_seconds, sample_rate=None, num_channels=None))
    assert [round(chunk.data[0, 0].item() * 32768) for chunk in chunks] == starts
    assert chunks[-1].data.shape == (1, last_length)
    step = seconds - overlap_seconds
    for number, (chunk, start) in enumerate(zip(chunks, starts, strict=True)):
        expected = ramp(20_500)[start : start + chunk.data.shape[1]] / 32768
        assert np.array_equal(chunk.data[0].numpy(), expected.astype(np.float32))
        assert chunk.pts_seconds == pytest.approx(number * step)
        assert chunk.duration_seconds == pytest.approx(chunk.data.shape[1] / RATE)


def test_the_last_one_can_be_filled_up(long: Path) -> None:
    with AudioDecoder(long) as decoder:
        chunks = list(decoder.chunks(1.0, sample_rate=None, num_channels=None, pad_last=True))
    assert [chunk.data.shape[1] for chunk in chunks] == [8000, 8000, 8000]
    assert chunks[-1].data[0, 4500:].abs().max() == 0
    assert chunks[-1].duration_seconds == 4500 / RATE


@pytest.mark.parametrize("seconds", [0.3, 0.7001, 1.0])
def test_resampled_chunks_make_up_the_whole(tmp_path: Path, seconds: float) -> None:
    noise = np.random.default_rng(0).integers(-9000, 9000, 44_100 * 2)
    path = write_wav(tmp_path / "noise.wav", noise, 44_100)
    whole = AudioDecoder(path, sample_rate=16_000, num_channels=1).get_all_samples().data.numpy()
    # The defaults are for speech models, whatever the options of the decoder are.
    chunks = list(AudioDecoder(path, sample_rate=48_000).chunks(seconds))
    assert {chunk.sample_rate for chunk in chunks} == {16_000}
    assert np.array_equal(np.concatenate([chunk.data.numpy() for chunk in chunks], axis=1), whole)


def test_a_gap_is_not_the_end(tmp_path: Path) -> None:
    # The samples stop after about one second, and continue half a second later.
    with AudioDecoder(media_audio.make("gap_pcm_mkv", tmp_path)) as decoder:
        chunks = list(decoder.chunks(0.3, sample_rate=None, num_channels=None))
        assert decoder.get_samples_played_in_range(1.05, 1.5).data.shape == (2, 0)
        assert torch.equal(torch.cat([chunk.data for chunk in chunks], 1), decoder.get_all_samples().data)
    assert [chunk.pts_seconds for chunk in chunks] == pytest.approx([0.0, 0.3, 0.6, 0.9, 1.5, 1.8, 2.1, 2.4])


def test_decoding_from_the_beginning_continues_where_it_stopped(tmp_path: Path) -> None:
    """Formats without seeking are not decoded from the beginning for every chunk: the bytes are read once."""
    path = tmp_path / "sound.mpg"
    write_sound(SoundSpec("", "mp2", "mpeg", rate=48_000, num_channels=1, num_samples=1152 * 1000), path)
    with path.open("rb") as file, AudioDecoder(source := BareFile(file)) as decoder:
        decoder.metadata  # noqa: B018
        opening = source.num_bytes
        assert len(list(decoder.chunks(2.0, 0.5))) == 16
    # One read opens the copy of the decoder for the chunks, and one reads the data.
    assert source.num_bytes - opening < 2 * path.stat().st_size + opening
