"""Audio that a network takes for speech, as a formula: vowels between pauses of known length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["RATE", "vowels"]

RATE = 16_000
# Two formants of each vowel in hertz: a, e.
_FORMANTS = ((750, 1200), (500, 1900))


def vowels(spans: list[tuple[float, float]], seconds: float, *, rate: int = RATE) -> NDArray[np.float32]:
    """Return (samples,) with four vowels a second within ``spans`` (start, stop) in seconds, and silence elsewhere.

    The pitch falls slowly, as in a sentence. Harmonics are as loud as two formants make them.
    """
    sound = np.zeros(round(seconds * rate))
    for start, stop in spans:
        first, last = round(start * rate), round(stop * rate)
        t = np.arange(last - first) / rate
        phase = 2 * np.pi * np.cumsum(140 - 12 * t / max(1.0, stop - start) + 3 * np.sin(2 * np.pi * 5 * t)) / rate
        syllable = 4 * t
        low, high = np.array(_FORMANTS)[syllable.astype(int) % len(_FORMANTS)].T
        voice = np.zeros_like(t)
        for harmonic in range(1, 26):
            frequency = 140 * harmonic
            gain = 1 / (1 + ((frequency - low) / 90) ** 2) + 0.5 / (1 + ((frequency - high) / 120) ** 2)
            voice += gain * np.sin(harmonic * phase)
        fade = np.clip(np.minimum(t, t[::-1]) / 0.01, 0, 1)
        sound[first:last] = 0.1 * voice * fade * (0.35 + 0.65 * np.sin(np.pi * (syllable % 1)) ** 2)
    return sound.astype(np.float32)
