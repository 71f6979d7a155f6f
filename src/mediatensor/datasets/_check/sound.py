"""What the samples of a file say of its sound. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .findings import Finding

__all__ = ["SoundStatistics", "heard", "lengths"]

# -80 dB of full scale; what 16 bits can hold at all is -90.
_SILENT_PEAK = 1e-4
_FULL_SCALE, _CLIPPED_RUN, _CLIPPED_SHARE = 0.999, 3, 1e-3
_MOST_SECONDS_APART = 0.5


@dataclass
class SoundStatistics:
    """Numbers of the sound of a file, gathered piece by piece.

    Attributes:
        num_samples: Samples of a channel.
        peak: The largest absolute sample.
        num_clipped: Samples of all channels in runs of three or more at full scale.
        num_values: Samples of all channels.
    """

    num_samples: int = 0
    peak: float = 0.0
    num_clipped: int = 0
    num_values: int = 0

    def add(self, samples: NDArray[np.float32]) -> None:
        """Count a piece (channels, N)."""
        size = np.abs(samples)
        self.num_samples += samples.shape[1]
        self.num_values += samples.size
        self.peak = max(self.peak, float(size.max(initial=0.0)))
        for is_full in size >= _FULL_SCALE:
            edges = np.flatnonzero(np.diff(np.concatenate([[False], is_full, [False]]).astype(np.int8))).reshape(-1, 2)
            runs = edges[:, 1] - edges[:, 0]
            self.num_clipped += int(runs[runs >= _CLIPPED_RUN].sum())


def heard(statistics: SoundStatistics) -> list[Finding]:
    """Sound that is silent as a whole, or clipped."""
    if statistics.num_samples and statistics.peak < _SILENT_PEAK:
        return [Finding("silent", f"the largest sample is {statistics.peak:.1e} of full scale")]
    share = statistics.num_clipped / max(statistics.num_values, 1)
    if share > _CLIPPED_SHARE:
        return [Finding("clipped", f"{100 * share:.1f} % of the samples lie in runs at full scale")]
    return []


def lengths(video: tuple[float, float], audio: tuple[float, float]) -> list[Finding]:
    """Whether pictures and sound begin and end together; each is (begin, end) in seconds."""
    found = []
    for word, seen, listened in (("begins", video[0], audio[0]), ("ends", video[1], audio[1])):
        apart = listened - seen
        if abs(apart) > _MOST_SECONDS_APART:
            text = f"sound {word} {abs(apart):.2f} s {'after' if apart > 0 else 'before'} the pictures"
            found.append(Finding("sound-length", text, *sorted((seen, listened))))
    return found
