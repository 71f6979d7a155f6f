"""`LogMelSpectrogram`, which computes the input of Whisper and similar models."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .._engine.common.checks import check_samples, finite_number, whole_number
from ..errors import InvalidArgumentError
from ..frames import AudioSamples

# Below 1000 Hz, a mel is 200/3 Hz. Above, 27 mels correspond to a factor of 6.4 in frequency.
_HZ_PER_MEL = 200 / 3
_KNEE_HZ = 1000.0
_KNEE_MELS = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27


def _hz_to_mels(hz: float) -> float:
    """Convert a frequency in Hz to mels, a scale of perceived pitch, in Slaney's version."""
    return hz / _HZ_PER_MEL if hz < _KNEE_HZ else _KNEE_MELS + math.log(hz / _KNEE_HZ) / _LOG_STEP


def _mels_to_hz(mels: float) -> float:
    return mels * _HZ_PER_MEL if mels < _KNEE_MELS else _KNEE_HZ * math.exp((mels - _KNEE_MELS) * _LOG_STEP)


def _slaney_mel_filters(sample_rate: int, n_fft: int, num_mels: int) -> Tensor:
    """Return the weight of each frequency bin in each band, float32 (num_mels, n_fft // 2 + 1).

    The bands are evenly spaced in mels up to half the sample rate. The weights of a band form a triangle of area 1,
    which starts at the peak of the previous band and ends at the peak of the next one.
    """
    highest = _hz_to_mels(sample_rate / 2)
    corners = torch.tensor(
        [_mels_to_hz(highest * k / (num_mels + 1)) for k in range(num_mels + 2)], dtype=torch.float64, device="cpu"
    )
    bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64, device="cpu") * (sample_rate / n_fft)
    lower, peak, upper = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (bins - lower) / (peak - lower), (upper - bins) / (upper - peak)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * (2 / (upper - lower))).float()


# Bands with less power are treated as silent.
_MIN_POWER = 1e-10
# Dynamic range of a clip below its loudest band, in powers of ten.
_RANGE_DECADES = 8.0


class LogMelSpectrogram(nn.Module):
    """Computes log-mel spectrograms of speech, with Whisper's parameters.

    A spectrogram is computed as follows. Periodic Hann windows are centred on every ``hop_length``-th sample. If a
    window extends beyond the audio, the audio is mirrored there. The power spectrum of each window is summed in
    triangular bands of area 1 on Slaney's mel scale. Let x be the base-10 logarithm of the sum of a band. Values of x
    below -10 are raised to -10. Values below m - 8, where m is the largest x in the clip, are raised to m - 8. The
    result is ``(x + 4) / 4``. As in Whisper, the last window, which is centred on or near the end of the audio, is left
    out.

    **Each clip is normalised separately.** The maximum m is computed over one channel of one clip, never over a
    batch. So a clip has the same spectrogram in any batch, and the spectrogram equals the result of Whisper's own
    function.

    The module works on any device (``.to("cuda")`` moves the window and the filters), supports `torch.compile`,
    autocast and gradients, and always computes in float32. It has no parameters, and adds nothing to a ``state_dict``.

    Args:
        sample_rate: Samples per second of the input.
        n_fft: Number of samples of a window, which must be even.
        hop_length: Number of samples from one window to the next.
        num_mels: Number of bands: 80, or 128 for Whisper's large-v3.
        pad_to_seconds: Length to which clips are extended with silence; Whisper uses 30 s. A longer clip raises an
            error. By default, no silence is added. The silence counts as part of the clip, so the spectrogram depends
            on this length.

    Raises:
        InvalidArgumentError: if an argument is not a positive number, or ``n_fft`` is odd.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import LogMelSpectrogram
        >>> to_mels = LogMelSpectrogram()
        >>> to_mels(torch.zeros(4, 16_000)).shape  # four clips of 1 s
        torch.Size([4, 80, 100])
        >>> LogMelSpectrogram(num_mels=128, pad_to_seconds=30.0)(torch.zeros(16_000)).shape
        torch.Size([128, 3000])
    """

    window: Tensor
    filters: Tensor

    def __init__(
        self,
        sample_rate: int = 16_000,
        n_fft: int = 400,
        hop_length: int = 160,
        num_mels: int = 80,
        *,
        pad_to_seconds: float | None = None,
    ) -> None:
        super().__init__()
        self.sample_rate = whole_number("sample_rate", sample_rate, at_least=1)
        self.n_fft = whole_number("n_fft", n_fft, at_least=1)
        if self.n_fft % 2:
            raise InvalidArgumentError(f"n_fft must be even, so that windows have a middle (got {n_fft}).")
        self.hop_length = whole_number("hop_length", hop_length, at_least=1)
        self.num_mels = whole_number("num_mels", num_mels, at_least=1)
        self.pad_to_seconds = pad_to_seconds
        self._padded_length: int | None = None
        if pad_to_seconds is not None:
            if not finite_number("pad_to_seconds", pad_to_seconds) > 0:
                raise InvalidArgumentError(
                    f"pad_to_seconds must be a positive number of seconds, or None (got {pad_to_seconds!r})."
                )
            check_samples(pad_to_seconds * self.sample_rate, f"pad_to_seconds ({pad_to_seconds})")
            self._padded_length = max(1, round(pad_to_seconds * self.sample_rate))
        window = torch.hann_window(self.n_fft, dtype=torch.float32, device="cpu")
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("filters", _slaney_mel_filters(self.sample_rate, self.n_fft, self.num_mels), False)

    def forward(self, samples: AudioSamples | Tensor) -> Tensor:
        """Compute the spectrograms of clips.

        Args:
            samples: `AudioSamples`, or a float tensor (..., samples) with values in [-1, 1].

        Returns:
            Spectrograms, a float32 tensor (..., num_mels, frames) on the same device, with ``samples // hop_length``
            frames. For `AudioSamples`, the shape is (channels, num_mels, frames): one spectrogram for each channel.

        Raises:
            InvalidArgumentError: if the sample rate of ``samples`` is not ``sample_rate``, the samples are not floats,
                or a clip is longer than ``pad_to_seconds``, shorter than ``hop_length``, or not longer than half a
                window.
        """
        waveform = self._padded(self._waveform(samples))
        clips = waveform.reshape(-1, waveform.shape[-1]).float()
        with torch.autocast(clips.device.type, enabled=False):
            log_mels = self._log_mels(clips)
        return log_mels.reshape(*waveform.shape[:-1], *log_mels.shape[-2:])

    def _log_mels(self, clips: Tensor) -> Tensor:
        if len(clips) == 0:
            return clips.new_zeros(0, self.num_mels, clips.shape[-1] // self.hop_length)
        spectrum = torch.stft(
            clips, self.n_fft, self.hop_length, window=self.window, center=True, pad_mode="reflect", return_complex=True
        )[..., :-1]
        # This avoids the square root of abs(), and its gradient is finite at silence.
        power = spectrum.real.square() + spectrum.imag.square()
        levels = (self.filters @ power).clamp(min=_MIN_POWER).log10()
        loudest = levels.amax(dim=(-2, -1), keepdim=True)
        return (torch.maximum(levels, loudest - _RANGE_DECADES) + 4) / 4

    def _waveform(self, samples: AudioSamples | Tensor) -> Tensor:
        if isinstance(samples, AudioSamples):
            if samples.sample_rate != self.sample_rate:
                raise InvalidArgumentError(
                    f"The samples have a rate of {samples.sample_rate} per second, but this spectrogram is for "
                    f"{self.sample_rate}. Decode with AudioDecoder(source, sample_rate={self.sample_rate})."
                )
            samples = samples.data
        if not isinstance(samples, Tensor) or samples.ndim == 0 or not samples.is_floating_point():
            got = f"{samples.dtype} {tuple(samples.shape)}" if isinstance(samples, Tensor) else type(samples).__name__
            raise InvalidArgumentError(
                f"samples must be AudioSamples or a float tensor (..., samples) with values in [-1, 1] (got {got})."
            )
        return samples

    def _padded(self, waveform: Tensor) -> Tensor:
        num_samples = waveform.shape[-1]
        if self._padded_length is not None:
            if num_samples > self._padded_length:
                raise InvalidArgumentError(
                    f"{num_samples} samples are more than pad_to_seconds={self.pad_to_seconds} "
                    f"({self._padded_length} samples). Split the audio first, for example with AudioDecoder.chunks()."
                )
            waveform = nn.functional.pad(waveform, (0, self._padded_length - num_samples))
        if waveform.shape[-1] < max(self.hop_length, self.n_fft // 2 + 1):
            raise InvalidArgumentError(
                f"{waveform.shape[-1]} samples are too few: a spectrogram needs at least "
                f"{max(self.hop_length, self.n_fft // 2 + 1)}. pad_to_seconds appends silence."
            )
        return waveform

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LogMelSpectrogram:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.window.dtype != torch.float32:  # changed by half() of the surrounding model
            device = self.window.device
            self.window = torch.hann_window(self.n_fft, device=device, dtype=torch.float32)
            self.filters = _slaney_mel_filters(self.sample_rate, self.n_fft, self.num_mels).to(device)
        return self

    def extra_repr(self) -> str:
        return (
            f"sample_rate={self.sample_rate}, n_fft={self.n_fft}, hop_length={self.hop_length}, "
            f"num_mels={self.num_mels}, pad_to_seconds={self.pad_to_seconds}"
        )
