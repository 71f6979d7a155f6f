"""Estimate how probable speech is in each window of 32 ms (`SpeechWindows`), with the network of Silero VAD.

The network (https://github.com/snakers4/silero-vad) is a short-time Fourier transform, four convolutions and a
recurrent layer. Only the recurrent layer needs the windows one by one, so everything before it is computed for many at
once. `FILE` contains the weights. ``benchmarks/calibration/speech_network.py`` converted them from an ONNX file of the
package ``silero-vad``.
"""

from __future__ import annotations

import hashlib
import io
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..errors import WeightsError

FILE = Path(__file__).with_name("speech_network.npz")
FILE_SHA256 = "5a215500dd6089a410a880975fa04a54aabb16f551d69ad24fdf379f49ca184d"
SAMPLE_RATE = 16_000
#: Number of samples of a window.
WINDOW_LENGTH = 512

# The network also reads the end of the previous window.
_CONTEXT_LENGTH = 64
_FFT_STEP, _FFT_PADDING = 128, 64
_CONVOLUTION_STRIDES = (1, 2, 2, 1)
_STATE_LENGTH = 128
# Larger samples cannot be audio. Their squares may overflow, and the recurrent layer would never recover from that.
_MAX_SAMPLE = 1e6


class SpeechWindows:
    """Estimates the probability of speech in consecutive windows of audio, which is added block by block.

    Raises:
        WeightsError: if the file of weights is damaged.
    """

    def __init__(self) -> None:
        self._weights = _load_weights()
        self._context = torch.zeros(_CONTEXT_LENGTH, dtype=torch.float32, device="cpu")
        nothing = torch.zeros(1, 1, _STATE_LENGTH, dtype=torch.float32, device="cpu")
        self._state = nothing, nothing
        self._blocks: list[Tensor] = []
        #: Number of samples that were added.
        self.num_samples = 0

    @torch.inference_mode()
    def add(self, samples: Tensor) -> None:
        """Add the next samples, float32 (samples,) at 16 kHz, on the CPU.

        Only the last block may end within a window. The rest of this window is silent. Samples that are not numbers, or
        too large for audio, count as silence.
        """
        self.num_samples += len(samples)
        samples = torch.where(samples.abs() < _MAX_SAMPLE, samples, 0.0)
        samples = torch.cat([self._context, functional.pad(samples, (0, -len(samples) % WINDOW_LENGTH))])
        self._context = samples[-_CONTEXT_LENGTH:]
        windows = samples.unfold(0, _CONTEXT_LENGTH + WINDOW_LENGTH, WINDOW_LENGTH)
        with torch.autocast("cpu", enabled=False):
            features = self._features(windows)[:, None]
            weights = [self._weights[f"recurrent.{name}"] for name in ("input", "state", "input_bias", "state_bias")]
            outputs, *state = torch.lstm(features, self._state, weights, True, 1, 0.0, False, False, False)
            self._state = state[0], state[1]
            scores = outputs[:, 0].relu() @ self._weights["output.weight"] + self._weights["output.bias"]
        self._blocks.append(scores.sigmoid())

    def probabilities(self) -> list[float]:
        """Return the probability of each window so far."""
        return [probability for block in self._blocks for probability in block.tolist()]

    def _features(self, windows: Tensor) -> Tensor:
        """Return the input of the recurrent layer (windows, 128) for ``windows`` (windows, samples)."""
        windows = functional.pad(windows[:, None], (0, _FFT_PADDING), "reflect")
        parts = functional.conv1d(windows, self._weights["fft.weight"], stride=_FFT_STEP)
        real, imaginary = parts.chunk(2, dim=1)
        features = (real.square() + imaginary.square()).sqrt()
        for number, stride in enumerate(_CONVOLUTION_STRIDES):
            weight, bias = (self._weights[f"convolution{number}.{name}"] for name in ("weight", "bias"))
            features = functional.conv1d(features, weight, bias, stride=stride, padding=1).relu()
        return features[:, :, 0]


@cache
def _load_weights() -> dict[str, Tensor]:
    data = FILE.read_bytes()
    if hashlib.sha256(data).hexdigest() != FILE_SHA256:
        raise WeightsError(f"{FILE} is damaged: install mediatensor again.")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
