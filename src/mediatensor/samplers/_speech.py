"""Find the segments of audio that contain speech (`speech_segments`), with the network of Silero VAD."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .._engine.common.checks import finite_number, shown
from .._engine.common.messages import progress
from .._engine.pyav.audio import Resampler, SampleForm
from ..decoders import AudioDecoder
from ..decoders._access import mean_decoder, sample_grid, with_silence
from ..errors import InvalidArgumentError, SourceTypeError, WeightsError
from ..frames import AudioSamples

_SAMPLE_RATE = 16_000
# Number of samples of a window, for which the network estimates a probability of speech.
_WINDOW_LENGTH = 512
# Audio is decoded in blocks of this many samples, about half a minute: a whole number of windows.
_BLOCK_LENGTH = 960 * _WINDOW_LENGTH
_BLOCK_SECONDS = _BLOCK_LENGTH / _SAMPLE_RATE
_WINDOW_SECONDS = _WINDOW_LENGTH / _SAMPLE_RATE

# The default options are Silero's. `benchmarks.media.speech_segments` tried others on sentences in eight languages,
# clean and with noise and music. The mean F1 is 0.954. It is 0.942 to 0.956 for thresholds from 0.3 to 0.7, 0.941 to
# 0.955 for minimum durations from 0 to 0.5 s, 0.934 to 0.954 for minimum pauses from 0.03 to 0.5 s, and 0.883 to 0.959
# for padding of 0 to 0.2 s.

# Speech ends only if the probability drops below the threshold by more than this. This is the rule of Silero VAD.
_EXIT_MARGIN, _MIN_EXIT_THRESHOLD = 0.15, 0.01


@dataclass(frozen=True)
class SpeechSegment:
    """A range of time with speech.

    Attributes:
        start_seconds: Start time in seconds, on the time axis of the file.
        end_seconds: End time in seconds, on the time axis of the file.
        probability: Mean probability of speech in the segment without its padding, from 0 to 1.

    Example:
        >>> from mediatensor.samplers import SpeechSegment
        >>> SpeechSegment(start_seconds=0.5, end_seconds=2.0, probability=0.9).duration_seconds
        1.5
    """

    start_seconds: float
    end_seconds: float
    probability: float

    @property
    def duration_seconds(self) -> float:
        """Duration of the segment in seconds, including its padding: ``end_seconds - start_seconds``."""
        return self.end_seconds - self.start_seconds


def speech_segments(
    audio: AudioDecoder | AudioSamples,
    *,
    threshold: float = 0.5,
    min_speech_seconds: float = 0.25,
    min_pause_seconds: float = 0.1,
    pad_seconds: float = 0.03,
) -> list[SpeechSegment]:
    """Find the segments of audio that contain speech, with the network of Silero VAD.

    Silero VAD (https://github.com/snakers4/silero-vad) estimates a probability of speech for each window of 32 ms. A
    segment starts with the first window whose probability reaches ``threshold``, and ends before a pause. In a pause,
    no window reaches ``threshold``, and the first window is more than 0.15 below ``threshold``.

    The audio is resampled to 16 kHz and mixed to the mean of its channels, independently of the settings of the
    decoder. It is decoded block by block, so hours of audio need little memory. Gaps in the time stamps count as
    silence. On a terminal, a progress bar is shown if tqdm is installed.

    Args:
        audio: The decoder of the audio, or `AudioSamples` on any device, which are floats between -1 and 1.
        threshold: Minimum probability of speech, above 0 and below 1.
        min_speech_seconds: Minimum duration of speech. Shorter segments are left out.
        min_pause_seconds: Minimum duration of a pause. Shorter pauses belong to the segment around them.
        pad_seconds: Time in seconds that is added before and after each segment. Between two segments, at most half of
            the pause is added to each.

    Returns:
        A list of segments in order, with times on the time axis of the file. Segments do not overlap. For audio without
        speech, the list is empty.

    Raises:
        InvalidArgumentError: if an argument is invalid, the samples are not floats, or the sample rate of the audio
            cannot be converted to 16 kHz.
        SourceTypeError: if ``audio`` is neither an `AudioDecoder` nor `AudioSamples`, for example a path.
        WeightsError: if the file with the weights of the network is damaged.
        DecodeError, StreamError, ReadError, ClosedError: if the audio cannot be decoded.

    Example:
        >>> from mediatensor.decoders import AudioDecoder
        >>> from mediatensor.samplers import speech_segments
        >>> speech_segments(AudioDecoder("video.mp4"))  # it beeps
        []
    """
    if not 0 < finite_number("threshold", threshold) < 1:
        raise InvalidArgumentError(f"threshold must be above 0 and below 1 (got {threshold}).")
    for name, value in (
        ("min_speech_seconds", min_speech_seconds),
        ("min_pause_seconds", min_pause_seconds),
        ("pad_seconds", pad_seconds),
    ):
        if finite_number(name, value) < 0:
            raise InvalidArgumentError(f"{name} ({value}) must be 0 or more.")
    min_pause = max(1, math.ceil(min_pause_seconds / _WINDOW_SECONDS))
    segments = []
    for begin, windows in _audio_runs(audio):
        probabilities, end = windows.probabilities(), begin + windows.num_samples / _SAMPLE_RATE
        spans = [
            (first, last)
            for first, last in _speech_spans(probabilities, threshold, min_pause)
            if (last - first) * _WINDOW_SECONDS >= min_speech_seconds
        ]
        # Padding extends each segment at most to these windows.
        limits = [0.0, *((last + first) / 2 for (_, last), (first, _) in pairwise(spans)), math.inf]
        for (first, last), (lowest, highest) in zip(spans, pairwise(limits), strict=False):
            start = max(first - pad_seconds / _WINDOW_SECONDS, lowest) * _WINDOW_SECONDS
            stop = min(last + pad_seconds / _WINDOW_SECONDS, highest) * _WINDOW_SECONDS
            mean = math.fsum(probabilities[first:last]) / (last - first)
            segments.append(SpeechSegment(begin + start, min(begin + stop, end), mean))
    return segments


def _speech_spans(probabilities: list[float], threshold: float, min_pause: int) -> Iterator[tuple[int, int]]:
    """Yield the windows [first, last) of each segment. ``min_pause`` is the minimum length of a pause in windows."""
    exit_threshold = max(threshold - _EXIT_MARGIN, _MIN_EXIT_THRESHOLD)
    first = pause = None
    for window, probability in enumerate(probabilities):
        if probability >= threshold:
            first, pause = window if first is None else first, None
        elif first is not None:
            if pause is None and probability < exit_threshold:
                pause = window
            if pause is not None and window + 1 - pause >= min_pause:
                yield first, pause
                first = pause = None
    if first is not None:
        yield first, len(probabilities) if pause is None else pause


def _audio_runs(audio: object) -> Iterator[tuple[float, SpeechWindows]]:
    """Yield the start in seconds and the windows of each run of audio: one, unless time stamps jump by over a block."""
    if isinstance(audio, AudioSamples):
        blocks = _blocks_of_samples(audio)
    elif isinstance(audio, AudioDecoder):
        blocks = _blocks_of_decoder(audio)
    else:
        raise SourceTypeError(
            f"audio must be an AudioDecoder or AudioSamples (got {shown(audio)}). Make a decoder with "
            "mediatensor.decoders.AudioDecoder(source)."
        )
    begin, windows = 0.0, SpeechWindows()
    for seconds, block in blocks:
        if windows.num_samples and seconds > begin + (windows.num_samples + _WINDOW_LENGTH) / _SAMPLE_RATE:
            yield begin, windows
            windows = SpeechWindows()
        if not windows.num_samples:
            begin = seconds
        windows.add(block)
    yield begin, windows


def _blocks_of_decoder(decoder: AudioDecoder) -> Iterator[tuple[float, Tensor]]:
    """Yield blocks of samples with their start in seconds. Gaps in a block are filled with silence."""
    metadata = decoder.metadata
    num_blocks = None if metadata.duration_seconds is None else math.ceil(metadata.duration_seconds / _BLOCK_SECONDS)
    with mean_decoder(decoder, _SAMPLE_RATE) as mono:
        grid = sample_grid(mono)
        chunks = mono.chunks(_BLOCK_SECONDS, sample_rate=_SAMPLE_RATE)
        bar = progress(chunks, "finding speech", total=num_blocks, unit="block")
        for chunk, following in pairwise(chain(bar, [None])):
            assert chunk is not None
            first = grid.offset(chunk.pts_seconds)
            length = _BLOCK_LENGTH
            if following is None:
                # Where the stream ends shows whether samples are missing within the block or after it.
                end = 0 if metadata.end_stream_seconds is None else grid.offset(metadata.end_stream_seconds)
                length = min(length, max(end - first, chunk.data.shape[1]))
            samples = chunk.data
            if samples.shape[1] != length:
                ((runs, _),) = mono._existing_runs([(chunk.pts_seconds, grid.seconds(first + length))])
                samples, _ = with_silence(grid, first, first + length, runs)
            yield chunk.pts_seconds, samples[0]


def _blocks_of_samples(samples: AudioSamples) -> Iterator[tuple[float, Tensor]]:
    if not samples.data.is_floating_point():
        raise InvalidArgumentError(
            f"The samples must be floats between -1 and 1 (got {samples.data.dtype}). Convert 16-bit samples with "
            "samples.data.float() / 32768."
        )
    mono = samples.data.detach().to("cpu", torch.float32).mean(0)
    if samples.sample_rate != _SAMPLE_RATE and len(mono):
        resampler = Resampler(SampleForm(samples.sample_rate, "mono", 1), _SAMPLE_RATE, 1)
        resampler.push(mono[None].numpy())
        mono = torch.from_numpy(resampler.finish()[0])
    for first in range(0, len(mono), _BLOCK_LENGTH):
        yield samples.pts_seconds + first / _SAMPLE_RATE, mono[first : first + _BLOCK_LENGTH]


# The network (https://github.com/snakers4/silero-vad): a short-time Fourier transform, four convolutions and a
# recurrent layer. Only the recurrent layer needs the windows one by one, so the rest is computed for many at once.

# ``benchmarks/calibration/speech_network.py`` converted the weights from an ONNX file of the package ``silero-vad``.
WEIGHTS_FILE = Path(__file__).with_name("speech_network.npz")
_WEIGHTS_SHA256 = "5a215500dd6089a410a880975fa04a54aabb16f551d69ad24fdf379f49ca184d"
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
        samples = torch.cat([self._context, functional.pad(samples, (0, -len(samples) % _WINDOW_LENGTH))])
        self._context = samples[-_CONTEXT_LENGTH:]
        windows = samples.unfold(0, _CONTEXT_LENGTH + _WINDOW_LENGTH, _WINDOW_LENGTH)
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
    data = WEIGHTS_FILE.read_bytes()
    if hashlib.sha256(data).hexdigest() != _WEIGHTS_SHA256:
        raise WeightsError(f"{WEIGHTS_FILE} is damaged: install mediatensor again.")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
