"""Signals whose every sample is known, and how two recordings of one are compared. Arrays are (channels, samples).

>>> delay_of(np.roll(noise(1000), 7), noise(1000), 20)
7
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "chirp",
    "delay_of",
    "largest_difference",
    "noise",
    "programme",
    "sine",
    "sine_fit",
    "snr_db",
    "staircase",
    "staircase_tones",
]

Samples = NDArray[np.float64]
_LOW_FREQUENCY_CHANNEL = 3  # of layouts with six channels or more; encoders keep only its lowest part


def sine(frequency: float, rate: int, num_samples: int, *, phase: float = 0.0, amplitude: float = 0.5) -> Samples:
    """``amplitude * sin(2 pi frequency t + phase)``, one-dimensional."""
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(num_samples) / rate + phase)


def chirp(start: float, stop: float, rate: int, num_samples: int, *, amplitude: float = 0.5) -> Samples:
    """A sine whose frequency goes linearly from ``start`` to ``stop`` hertz, one-dimensional."""
    seconds = np.arange(num_samples) / rate
    slope = (stop - start) * rate / max(1, num_samples)
    return amplitude * np.sin(2 * np.pi * (start * seconds + slope * seconds**2 / 2))


def noise(num_samples: int, *, seed: int = 0, amplitude: float = 0.25) -> Samples:
    """White noise, the same for the same seed, one-dimensional."""
    return amplitude * np.random.default_rng(seed).uniform(-1, 1, num_samples)


def programme(rate: int, num_channels: int, num_samples: int) -> Samples:
    """The signal of most clips: a different chirp for every channel, with a little noise.

    No two stretches of it are alike, so that one at the wrong place is seen.
    """
    channels = []
    for channel in range(num_channels):
        if channel == _LOW_FREQUENCY_CHANNEL and num_channels >= 6:
            channels.append(chirp(20, 90, rate, num_samples, amplitude=0.3))
            continue
        top = 0.3 * rate / (1 + 0.3 * channel)
        tone = chirp(120 + 50 * channel, top, rate, num_samples, amplitude=0.4)
        channels.append(tone + noise(num_samples, seed=channel, amplitude=0.02))
    return np.stack(channels)


def staircase_tones(second: int) -> tuple[float, float]:
    """The two frequencies in hertz that sound during a second of `staircase`.

    The pair is another one for each of 576 seconds, and neither neighbours nor seconds 24 apart have one in common.
    """
    low = 300.0 * 2 ** (7 * second % 24 / 12)
    high = 1300.0 * 2 ** ((7 * second + 5 * (second // 24)) % 24 / 24)
    return low, high


def staircase(rate: int, num_samples: int) -> Samples:
    """Two tones that change every second, to `staircase_tones` of it; one-dimensional."""
    seconds = np.arange(num_samples) // rate
    tones = np.array([staircase_tones(second) for second in range(int(seconds[-1]) + 1)])
    phases = 2 * np.pi * np.cumsum(tones[seconds], axis=0) / rate
    return 0.3 * np.sin(phases[:, 0]) + 0.15 * np.sin(phases[:, 1])


def snr_db(reference: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Return the power of the reference over the power of the difference, in decibels; infinite if they are equal.

    >>> round(snr_db(np.ones(4), np.full(4, 0.99)))
    40
    """
    reference = np.asarray(reference, np.float64)
    difference = np.mean((np.asarray(other, np.float64) - reference) ** 2)
    if difference == 0:
        return float("inf")
    return float(10 * np.log10(max(float(np.mean(reference**2)), 1e-20) / difference))


def largest_difference(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The largest absolute difference of two arrays of one shape; 0 of empty ones."""
    assert one.shape == other.shape, f"shapes differ: {one.shape} and {other.shape}"
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()) if one.size else 0.0


def delay_of(late: NDArray[np.floating], reference: NDArray[np.floating], furthest: int) -> int:
    """By how many samples ``late`` has to be moved to the left to lie on ``reference``: where they correlate most."""
    size = 1 << int(len(late) + len(reference)).bit_length()
    spectrum = np.fft.rfft(late, size) * np.conj(np.fft.rfft(reference, size))
    correlation = np.fft.irfft(spectrum, size)
    shifts = np.arange(-min(furthest, size // 2), min(furthest, size // 2 - 1) + 1)
    return int(shifts[np.argmax(correlation[shifts])])


def sine_fit(signal: NDArray[np.floating], frequency: float, rate: int) -> tuple[float, float, float]:
    """The nearest sine of a frequency, by least squares: (amplitude, phase in radians, SNR of the fit in decibels)."""
    angle = 2 * np.pi * frequency * np.arange(len(signal)) / rate
    basis = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    (of_sine, of_cosine), *_ = np.linalg.lstsq(basis, np.asarray(signal, np.float64), rcond=None)
    fit = basis @ np.array([of_sine, of_cosine])
    return float(np.hypot(of_sine, of_cosine)), float(np.arctan2(of_cosine, of_sine)), snr_db(fit, signal)
