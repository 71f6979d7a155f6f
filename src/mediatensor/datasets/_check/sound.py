"""Checks of the audio of a file, from statistics of its samples. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .findings import Finding

# -80 dB of full scale; the quietest 16-bit sample is -90 dB.
_SILENT_PEAK = 1e-4
_FULL_SCALE, _CLIPPED_RUN, _CLIPPED_SHARE = 0.999, 3, 1e-3
_MOST_SECONDS_APART = 0.5
# An offset of a tenth of a second between lips and voice is visible.
_MOST_DRIFT = _MOST_BEGINS_APART = 0.1
_LEAST_STRETCH = 0.002
_MIN_PACKETS, _LEAPS_NAMED = 8, 5
# Ratios of commonly confused rates, and the tolerance for `check_alignment`.
_MIX_UPS = {
    1.001: "30 and 29.97 frames/s",
    25 / 24: "25 and 24 frames/s",
    25.025 / 24: "25 and 23.98 frames/s",
    30 / 25: "30 and 25 frames/s",
    48000 / 44100: "48 and 44.1 kHz",
}
_MIX_UP_SECONDS, _MIX_UP_SHARE = 0.06, 5e-4


@dataclass
class SoundStatistics:
    """Statistics of the audio of a file, to which `add` adds one range of samples after another.

    Attributes:
        num_samples: Number of samples in a channel.
        peak: The largest absolute sample.
        num_clipped: Number of samples, in all channels, in runs of three or more at full scale.
        num_values: Number of samples in all channels.
    """

    num_samples: int = 0
    peak: float = 0.0
    num_clipped: int = 0
    num_values: int = 0

    def add(self, samples: NDArray[np.float32]) -> None:
        """Add the next N samples of the audio, (channels, N)."""
        size = np.abs(samples)
        self.num_samples += samples.shape[1]
        self.num_values += samples.size
        self.peak = max(self.peak, float(size.max(initial=0.0)))
        for is_full in size >= _FULL_SCALE:
            edges = np.flatnonzero(np.diff(np.concatenate([[False], is_full, [False]]).astype(np.int8))).reshape(-1, 2)
            runs = edges[:, 1] - edges[:, 0]
            self.num_clipped += int(runs[runs >= _CLIPPED_RUN].sum())


def check_loudness(statistics: SoundStatistics) -> list[Finding]:
    """Return a finding for audio that is completely silent, or clipped."""
    if statistics.num_samples and statistics.peak < _SILENT_PEAK:
        return [Finding("silent", f"the largest sample is {statistics.peak:.1e} of full scale")]
    share = statistics.num_clipped / max(statistics.num_values, 1)
    if share > _CLIPPED_SHARE:
        return [Finding("clipped", f"{100 * share:.1f} % of the samples lie in runs at full scale")]
    return []


def check_alignment(video: tuple[float, float], audio: tuple[float, float], stretch: float = 1.0) -> list[Finding]:
    """Return findings if video and audio begin or end at different times, or drift apart.

    Args:
        video, audio: (begin, end) in seconds.
        stretch: The frame rate in the header, divided by the actual rate.
    """
    begins, ends = audio[0] - video[0], audio[1] - video[1]
    seen, listened = video[1] - video[0], audio[1] - audio[0]
    if abs(begins) <= _MOST_BEGINS_APART and min(seen, listened) > 0:
        ratio = seen / listened
        reason = None
        if abs(stretch - 1) > _LEAST_STRETCH and abs(ratio / stretch - 1) < 0.25 * abs(stretch - 1):
            reason = f"and the times of the frames run at {1 / stretch:.4f} of the rate that the header states"
        if abs(ends) > _MOST_SECONDS_APART:
            tolerance = min(_MIX_UP_SECONDS / seen, _MIX_UP_SHARE)
            for known, names in _MIX_UPS.items():
                if min(abs(ratio - known), abs(1 / ratio - known)) < tolerance:
                    reason = f"as if {names} were mixed up"
        if reason is not None and abs(ends) > _MOST_DRIFT:
            share = 100 * abs(listened / seen - 1)
            word = "longer" if ends > 0 else "shorter"
            text = f"sound is {share:.2f} % {word} than the pictures, {abs(ends):.2f} s at the end, {reason}"
            return [Finding("sound-drift", text, min(video[1], audio[1]), max(video[1], audio[1]))]
    found = []
    for text, apart, at in (("begins", begins, (video[0], audio[0])), ("ends", ends, (video[1], audio[1]))):
        if abs(apart) > _MOST_SECONDS_APART:
            text = f"sound {text} {abs(apart):.2f} s {'after' if apart > 0 else 'before'} the pictures"
            found.append(Finding("sound-length", text, min(at), max(at)))
    return found


def check_packet_times(packet_seconds: NDArray[np.float64], begin: float, counted_seconds: float) -> list[Finding]:
    """Return findings if the times of audio packets do not match the number of samples.

    Args:
        packet_seconds: Start times of the packets, and the end of the last packet.
        begin: Time of the first sample.
        counted_seconds: Number of all samples, divided by the sample rate.
    """
    pts = packet_seconds[packet_seconds >= begin - _MOST_DRIFT]
    if len(pts) < _MIN_PACKETS:
        return []
    apart = float(pts[-1]) - begin - counted_seconds
    if abs(apart) <= _MOST_DRIFT:
        return []
    steps = np.diff(pts)
    usual = float(np.median(steps))
    leaps = np.flatnonzero(steps > usual + _MOST_DRIFT)
    if len(leaps):
        spans = [(float(pts[number]) + usual, float(pts[number + 1])) for number in leaps]
        found = [Finding("sound-gap", f"no sound for {b - a:.2f} s", a, b) for a, b in spans[:_LEAPS_NAMED]]
        if len(spans) > _LEAPS_NAMED:
            text = f"{len(spans)} gaps in all, the rest of them here"
            found.append(Finding("sound-gap", text, spans[_LEAPS_NAMED][0], spans[-1][1]))
        return found
    word = "slower" if apart > 0 else "faster"
    share = 100 * abs(apart) / counted_seconds
    text = f"samples come {share:.2f} % {word} than the sample rate says, {abs(apart):.2f} s at the end"
    return [Finding("sound-drift", text, begin, float(pts[-1]))]
