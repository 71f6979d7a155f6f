"""Log-mel spectrograms: against the formula written slowly, and against librosa's and transformers' numbers."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mediatensor import AudioSamples
from mediatensor.errors import InvalidArgumentError
from mediatensor.transforms import LogMelSpectrogram

RATE = 16_000
# float32 compared with float64, on a scale where 0.25 is a factor of ten in power.
TOLERANCE = 2e-4


def chirp(num_samples: int = RATE) -> NDArray[np.float32]:
    """Return a rising tone, a second tone that starts midway, and a weak third tone, without random numbers."""
    t = np.arange(num_samples) / RATE
    sound = 0.4 * np.sin(2 * np.pi * (100 + 1500 * t) * t) + 0.05 * np.sin(2 * np.pi * 5000 * t) * (t > 0.5)
    return (sound + 0.001 * np.cos(12345 * t * t)).astype(np.float32)


def slow_filters(rate: int, n_fft: int, num_mels: int) -> NDArray[np.float64]:
    """Return Slaney's bands, computed one weight at a time."""

    def to_hz(mels: float) -> float:
        return 200 * mels / 3 if mels <= 15 else 1000 * 6.4 ** ((mels - 15) / 27)

    top = rate / 2
    top_mels = 3 * top / 200 if top <= 1000 else 15 + 27 * math.log(top / 1000, 6.4)
    corners = [to_hz(top_mels * k / (num_mels + 1)) for k in range(num_mels + 2)]
    filters = np.zeros((num_mels, n_fft // 2 + 1))
    for band, (low, peak, high) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        for k in range(n_fft // 2 + 1):
            hz = k * rate / n_fft
            if low < hz < high:
                height = (hz - low) / (peak - low) if hz <= peak else (high - hz) / (high - peak)
                filters[band, k] = height * 2 / (high - low)
    return filters


def slow_log_mels(
    sound: NDArray[np.float32], rate: int = RATE, n_fft: int = 400, hop: int = 160, num_mels: int = 80
) -> NDArray[np.float64]:
    """Compute the definition in float64, with the sum of the DFT."""
    half = n_fft // 2
    samples = sound.astype(np.float64)
    mirrored = np.concatenate([samples[half:0:-1], samples, samples[-2 : -half - 2 : -1]])
    n = np.arange(n_fft)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / n_fft)
    dft = np.exp(-2j * np.pi * np.outer(np.arange(half + 1), n) / n_fft)
    frames = [mirrored[k * hop : k * hop + n_fft] * window for k in range(len(sound) // hop)]
    power = np.abs(dft @ np.array(frames).T) ** 2
    levels = np.log10(np.maximum(slow_filters(rate, n_fft, num_mels) @ power, 1e-10))
    log_mels: NDArray[np.float64] = (np.maximum(levels, levels.max() - 8) + 4) / 4
    return log_mels


@pytest.mark.parametrize(
    ("rate", "n_fft", "hop", "num_mels"),
    [(16_000, 400, 160, 80), (16_000, 400, 160, 128), (22_050, 512, 200, 40), (8_000, 202, 50, 23)],
)
@pytest.mark.parametrize("num_samples", [16_000, 1_234])
def test_equals_the_definition(rate: int, n_fft: int, hop: int, num_mels: int, num_samples: int) -> None:
    sound = chirp(num_samples)
    mels = LogMelSpectrogram(rate, n_fft, hop, num_mels)(torch.from_numpy(sound))
    assert mels.dtype == torch.float32
    assert mels.shape == (num_mels, num_samples // hop)
    np.testing.assert_allclose(mels, slow_log_mels(sound, rate, n_fft, hop, num_mels), atol=TOLERANCE)


# From transformers 5.23, WhisperFeatureExtractor(feature_size=...): bands in steps of num_mels / 8, frames FRAMES of
# the chirp, unpadded.
FRAMES = [0, 1, 30, 49, 50, 51, 80, 98, 99]
# fmt: off
WHISPER = {
    80: [
        [1.3189, 0.8203, -0.6015, -0.6015, -0.2896, -0.6015, -0.6015, -0.6015, -0.2657],
        [0.6573, 0.2129, -0.6015, -0.6015, -0.2877, -0.6015, -0.6015, -0.6015, -0.2611],
        [0.3669, -0.1323, -0.0288, -0.6015, -0.2822, -0.6015, -0.6015, -0.6015, -0.2487],
        [0.1896, -0.3177, 0.2434, -0.3814, -0.2695, -0.5448, -0.6015, -0.6015, -0.2262],
        [0.0345, -0.4716, -0.6015, 0.4709, 0.7237, 1.0193, -0.6015, -0.6015, -0.1676],
        [-0.1298, -0.6015, -0.6015, -0.6015, -0.202, -0.6015, 1.3071, -0.6015, -0.0117],
        [-0.2758, -0.6015, -0.6015, -0.5759, -0.0648, -0.5763, -0.6015, -0.2433, -0.0149],
        [-0.396, -0.6015, -0.6015, -0.3083, 0.196, -0.3082, -0.6015, -0.6015, -0.5579],
    ],
    128: [
        [1.2432, 0.7445, -0.5494, -0.5494, -0.3654, -0.5494, -0.5494, -0.5494, -0.3414],
        [0.7098, 0.2695, -0.5494, -0.5494, -0.2412, -0.5494, -0.5494, -0.5494, -0.2146],
        [0.3644, -0.1388, -0.1683, -0.5494, -0.2982, -0.5494, -0.5494, -0.5494, -0.2656],
        [0.2255, -0.2837, 0.3176, -0.3915, -0.237, -0.5494, -0.5494, -0.5494, -0.1969],
        [0.0298, -0.4757, -0.5494, 0.4931, 0.7472, 1.0429, -0.5494, -0.5494, -0.1765],
        [-0.1232, -0.5494, -0.5494, -0.5494, -0.1985, -0.5494, 1.349, -0.5494, -0.0102],
        [-0.2761, -0.5494, -0.5494, -0.5494, -0.0692, -0.5494, -0.5494, -0.5494, -0.0199],
        [-0.3937, -0.5494, -0.5494, -0.3076, 0.1961, -0.3075, -0.5494, -0.5494, -0.5494],
    ],
}
# The same, padded to 30 s by transformers: bands in steps of num_mels / 4, frames PADDED_FRAMES.
PADDED_FRAMES = [0, 50, 99, 100, 101, 2999]
PADDED = {
    80: [
        [1.3189, -0.2896, -0.1695, 0.3406, -0.1697, -0.6015],
        [0.3669, -0.2822, -0.1538, 0.3562, -0.154, -0.6015],
        [0.0345, 0.7237, -0.0757, 0.4347, -0.0762, -0.6015],
        [-0.2758, -0.0648, 0.0346, 0.5413, 0.0295, -0.6015],
    ],
    128: [
        [1.2431, -0.3654, -0.2451, 0.2648, -0.2454, -0.5494],
        [0.3644, -0.2982, -0.1705, 0.3395, -0.1707, -0.5494],
        [0.0298, 0.7472, -0.0848, 0.4255, -0.0855, -0.5494],
        [-0.2761, -0.0692, 0.0345, 0.5437, 0.0305, -0.5494],
    ],
}
# From librosa 0.11, filters.mel(sr=16000, n_fft=400): (number of bands, band) to (first bin, weights).
BANDS = {
    (80, 0): (1, [0.02486259]),
    (80, 40): (42, [0.0054111, 0.01473557, 0.00651819]),
    (80, 79): (186, [0.00036674, 0.00083307, 0.0012994, 0.00176573, 0.00223205, 0.00269838, 0.00316471, 0.00314131,
                     0.00269255, 0.0022438, 0.00179504, 0.00134628, 0.00089752, 0.00044876]),
    (128, 0): (1, [0.01237399]),
    (128, 64): (42, [0.00674968, 0.01809152]),
    (128, 127): (191, [0.0004757, 0.00161717, 0.00275865, 0.00390013, 0.0050416, 0.00445712, 0.00334284, 0.00222856,
                       0.00111428]),
}
# fmt: on


@pytest.mark.parametrize("num_mels", [80, 128])
def test_equals_transformers(num_mels: int) -> None:
    sound = torch.from_numpy(chirp())
    mels = LogMelSpectrogram(num_mels=num_mels)(sound)
    np.testing.assert_allclose(mels[:: num_mels // 8, FRAMES], WHISPER[num_mels], atol=TOLERANCE)
    padded = LogMelSpectrogram(num_mels=num_mels, pad_to_seconds=30)(sound)
    assert padded.shape == (num_mels, 3000)
    np.testing.assert_allclose(padded[:: num_mels // 4, PADDED_FRAMES], PADDED[num_mels], atol=TOLERANCE)


@pytest.mark.parametrize(("num_mels", "band"), BANDS)
def test_filters_match_librosa(num_mels: int, band: int) -> None:
    first, weights = BANDS[num_mels, band]
    expected = np.zeros(201)
    expected[first : first + len(weights)] = weights
    np.testing.assert_allclose(LogMelSpectrogram(num_mels=num_mels).filters[band], expected, atol=1e-8)


def test_sums_of_filters_match_librosa() -> None:
    assert float(LogMelSpectrogram().filters.double().sum()) == pytest.approx(1.999024092, abs=1e-6)
    assert float(LogMelSpectrogram(num_mels=128).filters.double().sum()) == pytest.approx(3.190985541, abs=1e-6)


def test_real_speech(media_data: Callable[[str], Path], ffmpeg_program: str) -> None:
    command = [ffmpeg_program, "-v", "error", "-i", str(media_data("whisper__jfk.flac")), "-ac", "1", "-ar", "16000"]
    decoded = subprocess.run([*command, "-f", "f32le", "-"], check=True, capture_output=True).stdout
    sound = np.frombuffer(decoded, np.float32)[: 4 * RATE].copy()
    mels = LogMelSpectrogram()(torch.from_numpy(sound))
    np.testing.assert_allclose(mels, slow_log_mels(sound), atol=TOLERANCE)


def test_audio_samples_have_a_spectrogram_for_each_channel() -> None:
    sound = torch.stack([torch.from_numpy(chirp()), torch.from_numpy(chirp()).flip(0)])
    to_mels = LogMelSpectrogram()
    mels = to_mels(AudioSamples(sound, 0.0, 1.0, RATE))
    assert mels.shape == (2, 80, 100)
    torch.testing.assert_close(mels[1], to_mels(sound[1]), atol=1e-5, rtol=0)


def test_a_clip_does_not_depend_on_its_batch() -> None:
    loud = torch.from_numpy(chirp())
    clips = torch.stack([loud, 1e-3 * loud, torch.zeros_like(loud)]).reshape(3, 1, -1)
    to_mels = LogMelSpectrogram()
    mels = to_mels(clips)
    assert mels.shape == (3, 1, 80, 100)
    for clip, alone in zip(clips, mels, strict=True):
        torch.testing.assert_close(to_mels(clip[0]), alone[0], atol=1e-5, rtol=0)
    assert (mels[2] == -1.5).all(), "silence is at the bottom of the scale"


def test_an_empty_batch() -> None:
    assert LogMelSpectrogram()(torch.zeros(2, 0, 1600)).shape == (2, 0, 80, 10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_computes_in_float32_for_every_input_dtype(dtype: torch.dtype) -> None:
    sound = torch.from_numpy(chirp())
    expected = LogMelSpectrogram()(sound.to(dtype).float())
    mels = LogMelSpectrogram().to(dtype)(sound.to(dtype))
    assert mels.dtype == torch.float32
    torch.testing.assert_close(mels, expected)


def test_autocast_changes_nothing() -> None:
    sound = torch.from_numpy(chirp())
    expected = LogMelSpectrogram()(sound)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LogMelSpectrogram()(sound), expected)


def test_gradients_are_finite_at_silence() -> None:
    to_mels = LogMelSpectrogram(8000, 64, 32, 10)
    sound = torch.rand(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    to_mels(sound).sum().backward()
    gradient = sound.grad
    step = torch.zeros_like(sound)
    step[150] = 1e-3
    with torch.no_grad():
        slope = (to_mels(sound + step).double().sum() - to_mels(sound - step).double().sum()) / 2e-3
    assert float(gradient[150]) == pytest.approx(float(slope), rel=0.05)
    silence = torch.zeros(400, requires_grad=True)
    to_mels(silence).sum().backward()
    assert silence.grad.isfinite().all()


def test_compiles_without_graph_breaks() -> None:
    to_mels = LogMelSpectrogram(pad_to_seconds=0.5)
    compiled = torch.compile(to_mels, fullgraph=True, backend="aot_eager")
    sound = torch.from_numpy(chirp(4000)).reshape(2, -1)
    torch.testing.assert_close(compiled(sound), to_mels(sound))


def test_copies_and_state() -> None:
    to_mels = LogMelSpectrogram(num_mels=128, pad_to_seconds=2)
    sound = torch.from_numpy(chirp(3000))
    for other in (copy.deepcopy(to_mels), pickle.loads(pickle.dumps(to_mels))):
        assert torch.equal(other(sound), to_mels(sound))
    assert to_mels.state_dict() == {}
    assert "num_mels=128" in repr(to_mels)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    sound = torch.from_numpy(chirp()).reshape(2, -1)
    mels = LogMelSpectrogram().to("cuda")(sound.to("cuda"))
    assert mels.device.type == "cuda"
    torch.testing.assert_close(mels.cpu(), LogMelSpectrogram()(sound), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (AudioSamples(torch.zeros(1, 8000), 0.0, 1.0, 8000), "sample_rate=16000"),
        (torch.zeros(200), "at least 201"),
        (torch.zeros(0), "at least 201"),
        (torch.zeros(()), "float tensor"),
        (torch.zeros(16_000, dtype=torch.int16), "int16"),
        (chirp(), "ndarray"),
    ],
)
def test_samples_that_are_refused(samples: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LogMelSpectrogram()(samples)


def test_a_clip_that_is_longer_than_the_padding_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Split the audio first"):
        LogMelSpectrogram(pad_to_seconds=0.5)(torch.zeros(8001))
    assert LogMelSpectrogram(pad_to_seconds=0.5)(torch.zeros(8000)).shape == (80, 50)
