"""`AudioEncoder`: its files, read by other programs."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audio_oracles import ffmpeg_samples
from encoder_oracles import probe
from mediatensor import AudioSamples
from mediatensor.encoders import AudioEncoder, Encoder
from mediatensor.errors import EncodeError, InvalidArgumentError

RATE = 16_000


def sound(num_samples: int = RATE, num_channels: int = 2, rate: int = RATE) -> torch.Tensor:
    """Return a sine with a different pitch in each channel, (C, N)."""
    times = torch.arange(num_samples, dtype=torch.float64) / rate
    pitches = 220 * (1 + torch.arange(num_channels))[:, None]
    return (0.5 * torch.sin(2 * torch.pi * pitches * times)).float()


def sixteen_bits(samples: torch.Tensor) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Return 32768 x, rounded and clipped to 16 bits."""
    return np.clip(np.rint(samples.double().numpy() * 32768), -32768, 32767).astype(np.int16)


@pytest.mark.parametrize("num_channels", [1, 2, 3, 6, 8])
def test_wav_contains_the_nearest_16_bit_numbers(num_channels: int, tmp_path: Path, ffmpeg_program: str) -> None:
    num_samples = 140_001
    samples = torch.rand(num_channels, num_samples, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2
    path = tmp_path / "sound.wav"
    AudioEncoder(samples, sample_rate=RATE).to_file(path)
    if num_channels <= 2:
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (RATE, 2, num_channels)
            assert file.getnframes() == num_samples
            found = np.frombuffer(file.readframes(num_samples), "<i2").reshape(-1, num_channels).T
    else:  # Python's reader does not know the extended header
        found = np.rint(ffmpeg_samples(ffmpeg_program, path)[0] * 32768).astype(np.int16)
    assert np.array_equal(found, sixteen_bits(samples))


@pytest.mark.parametrize("num_channels", [1, 2, 8])
def test_wav_equals_the_output_of_ffmpegs_encoder(num_channels: int) -> None:
    """FFmpeg converts and encodes raw samples; for WAV files, this library does."""
    halves = torch.arange(-70_000, 70_000) / 2 / 32768  # beyond both limits, in half steps
    tiny = torch.rand(100, generator=torch.Generator().manual_seed(0)) * 1e-4
    samples = torch.cat([halves, tiny, -tiny, torch.tensor([3.0, -3.0, 1e4, -1e4, -0.0])])
    encoder = AudioEncoder(samples.repeat(num_channels, 1), sample_rate=RATE)
    wav, raw = encoder.to_tensor("wav"), encoder.to_tensor("s16le")
    assert len(raw) == 2 * num_channels * len(samples)
    assert torch.equal(wav[-len(raw) :], raw)


@pytest.mark.parametrize(("extension", "num_bits"), [("flac", 24), ("ogg", 24), ("aiff", 16), ("caf", 16)])
def test_lossless_codecs_give_back_every_bit_and_sample(
    extension: str, num_bits: int, tmp_path: Path, ffmpeg_program: str
) -> None:
    samples, path = sound(10_007), tmp_path / f"sound.{extension}"
    AudioEncoder(samples, sample_rate=RATE).to_file(path)
    found = ffmpeg_samples(ffmpeg_program, path)[0]
    if num_bits == 16:
        assert np.array_equal(found * 32768, sixteen_bits(samples))
    else:
        assert np.array_equal(found * 2.0**23, np.floor(samples.double().numpy() * 2.0**23))


def lag(found: np.ndarray[Any, Any], expected: torch.Tensor) -> int:
    """Return the delay in samples, by the largest correlation."""
    wanted = expected.numpy()[:, 2000:-2000]
    lags = range(-30, 31)
    return max(lags, key=lambda late: float((found[:, 2000 + late :][:, : wanted.shape[1]] * wanted).sum()))


@pytest.mark.parametrize(("extension", "rate"), [("mp3", RATE), ("m4a", RATE), ("mp4", 44_100)])
@pytest.mark.parametrize("num_samples", [12_345, 24_000])
def test_lossy_codecs_keep_times_and_length(
    extension: str, rate: int, num_samples: int, tmp_path: Path, ffmpeg_program: str
) -> None:
    samples, path = sound(num_samples, rate=rate), tmp_path / f"sound.{extension}"
    AudioEncoder(samples, sample_rate=rate).to_file(path, bit_rate=128_000)
    found = ffmpeg_samples(ffmpeg_program, path)[0]
    assert lag(found, samples) == 0
    assert np.abs(found[:, 2000 : num_samples - 2000] - samples.numpy()[:, 2000:-2000]).max() < 0.06
    if extension == "mp3":  # the LAME header states where the audio ends
        assert found.shape[1] == num_samples
    else:  # in mp4, the edit list does, but the ffmpeg program ignores its end
        stream, packets = probe(path, "a:0", ["duration_time"])
        assert stream["duration_ts"] == num_samples
        end = float(packets[-1]["pts_time"]) + float(packets[-1]["duration_time"])
        assert end == pytest.approx(num_samples / rate, abs=1e-4)


@pytest.mark.parametrize("extension", ["opus", "webm"])
def test_opus_keeps_times_and_length(extension: str, tmp_path: Path, ffmpeg_program: str) -> None:
    samples, path = sound(48_123, rate=48_000), tmp_path / f"sound.{extension}"
    AudioEncoder(samples, sample_rate=48_000).to_file(path, bit_rate=128_000)
    found = ffmpeg_samples(ffmpeg_program, path)[0]
    assert found.shape[1] == 48_123
    assert lag(found, samples) == 0


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "m4a"])
def test_chunks_do_not_change_the_audio(format: str) -> None:
    samples = sound(70_001)
    files = []
    for sizes in ([70_001], [1, 65_535, 4096, 0, 369], [3000] * 23 + [1001], [7, 69_994]):
        encoder, file = Encoder(), io.BytesIO()
        stream = encoder.add_audio(sample_rate=RATE, num_channels=2, out_sample_rate=24_000)
        with encoder.open_file_like(file, format=format):
            for piece in samples.split(sizes, 1):
                stream.add_samples(piece)
        files.append(file.getvalue())
    assert all(other == files[0] for other in files[1:])


@pytest.mark.parametrize(("out_rate", "out_channels"), [(8_000, None), (48_000, 1), (None, 1), (22_050, 2)])
def test_resampling_and_mixing(
    out_rate: int | None, out_channels: int | None, tmp_path: Path, ffmpeg_program: str
) -> None:
    path, rate = tmp_path / "sound.wav", out_rate or RATE
    AudioEncoder(sound(), sample_rate=RATE).to_file(path, sample_rate=out_rate, num_channels=out_channels)
    found = ffmpeg_samples(ffmpeg_program, path)[0]
    expected = sound(found.shape[1], rate=rate).numpy()
    expected = expected if out_channels != 1 else expected.mean(0, keepdims=True)
    assert probe(path, "a:0")[0]["sample_rate"] == str(rate)
    # The file includes the end of the resampler's filter.
    assert abs(found.shape[1] - rate) <= 2
    assert np.abs(found - expected)[:, 200:-200].max() < 2e-3


def test_one_dimension_is_one_channel() -> None:
    one = AudioEncoder(sound(5000, 1)[0], sample_rate=RATE).to_tensor("wav")
    assert torch.equal(one, AudioEncoder(sound(5000, 1), sample_rate=RATE).to_tensor("wav"))


@pytest.mark.parametrize("number", [np.int64, np.float32, torch.tensor, lambda x: torch.tensor(float(x))])
def test_rates_of_numpy_and_torch_are_accepted(number: Callable[[int], Any]) -> None:
    expected = AudioEncoder(sound(5000), sample_rate=RATE).to_tensor("wav")
    assert torch.equal(AudioEncoder(sound(5000), sample_rate=number(RATE)).to_tensor("wav"), expected)


def test_audio_samples_need_no_sample_rate() -> None:
    samples = AudioSamples(sound(), 7.5, 1.0, RATE)
    known = AudioEncoder(samples).to_tensor("wav")
    assert torch.equal(known, AudioEncoder(samples.data, sample_rate=RATE).to_tensor("wav"))
    with pytest.raises(InvalidArgumentError, match="differs from the rate of the AudioSamples"):
        AudioEncoder(samples, sample_rate=8000)


@pytest.mark.parametrize("format", ["wav", "flac", "m4a", "mp3"])
def test_no_samples_and_few_samples(format: str, tmp_path: Path, ffmpeg_program: str) -> None:
    for num_samples in (0, 1, 100):
        path = tmp_path / f"{num_samples}.{format}"
        AudioEncoder(sound(num_samples), sample_rate=RATE).to_file(path)
        if format in ("wav", "flac") and num_samples:
            assert ffmpeg_samples(ffmpeg_program, path)[0].shape == (2, num_samples)


@pytest.mark.parametrize("format", ["s16le", "adts"])
def test_a_format_without_header_gives_an_empty_tensor_for_no_samples(format: str) -> None:
    file = AudioEncoder(sound(0), sample_rate=RATE).to_tensor(format)
    assert torch.equal(file, torch.empty(0, dtype=torch.uint8))


def test_bit_rate_is_obeyed() -> None:
    noise = torch.rand(1, 64_000, generator=torch.Generator().manual_seed(0)) - 0.5
    encoder = AudioEncoder(noise, sample_rate=RATE)
    small, large = (len(encoder.to_tensor("mp3", bit_rate=rate)) for rate in (32_000, 128_000))
    assert small == pytest.approx(4 * 32_000 / 8, rel=0.1)
    assert large == pytest.approx(4 * 128_000 / 8, rel=0.1)


SAMPLES = torch.zeros(2, 100)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AudioEncoder([1.0], sample_rate=RATE), "Expected samples to be a Tensor"),
        (lambda: AudioEncoder(SAMPLES[None], sample_rate=RATE), "Expected 1D or 2D samples"),
        (lambda: AudioEncoder(SAMPLES.double(), sample_rate=RATE), "Expected float32 samples"),
        (lambda: AudioEncoder(SAMPLES.T.repeat(10, 1), sample_rate=RATE).to_tensor("wav"), "channels first"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=0), "sample_rate = 0 must be > 0"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=0.5), "sample_rate = 0.5 must be > 0"),
        (lambda: AudioEncoder(SAMPLES), "sample_rate is required"),
        (lambda: AudioEncoder(SAMPLES.to("meta"), sample_rate=RATE), "no values"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("nosuch"), "Got format='nosuch'"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=9999).to_tensor("mp3"), "invalid sample rate=9999.*44100"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=44_100).to_tensor("opus"), "invalid sample rate=44100"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("wav", bit_rate=-1), "bit_rate=-1 must be >= 0"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("wav", num_channels=0), "^num_channels = 0"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("wav", sample_rate=0), "^sample_rate = 0"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("mp3", num_channels=5), r"channels \(5\)"),
        (lambda: AudioEncoder(SAMPLES, sample_rate=RATE).to_tensor("gif"), "no default audio codec"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()


def test_a_bit_rate_that_the_encoder_rejects() -> None:
    with pytest.raises((EncodeError, InvalidArgumentError), match=r"bit_rate|channels"):
        AudioEncoder(SAMPLES, sample_rate=48_000).to_tensor("opus", bit_rate=10**9)
