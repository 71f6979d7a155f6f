"""A replacement of audio decoders with only the interface for samplers; samples contain their number."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import torch
from torch import Tensor

from mediatensor import AudioSamples
from mediatensor.errors import OutOfRangeError


def values(numbers: list[int], num_channels: int) -> Tensor:
    """Return the samples with these numbers: number + 1 in the first channel, its negative in the second, and so on.

    No sample is 0, so that silence shows. Whole numbers below 2**24 are exact in float32.
    """
    signs = torch.tensor([[(-1.0) ** channel * (1 + channel // 2)] for channel in range(num_channels)], device="cpu")
    return torch.tensor([number + 1.0 for number in numbers], device="cpu") * signs


def exact_offset(seconds: float | Fraction, begin: float | Fraction, rate: int) -> int:
    """The sample nearest to a time, halves up, without rounding on the way."""
    return math.floor((Fraction(seconds) - Fraction(begin)) * rate + Fraction(1, 2))


class FormulaSound:
    """A stream of ``num_samples`` samples from ``begin`` on. Every batched call is noted in ``calls``.

    Args:
        header_end: End of the stream by its header; by default the true one, ``None`` if the header does not state it.
        source_rate: In the metadata; by default the rate of the samples, as without resampling.
        gaps: Numbers of missing samples; those around them come in one piece.
    """

    def __init__(
        self,
        num_samples: int = 40,
        rate: int = 8,
        *,
        num_channels: int = 2,
        begin: float = 0.0,
        header_end: float | None = -1.0,
        source_rate: int | None = None,
        gaps: Collection[int] = (),
    ) -> None:
        self.gaps = gaps
        self.num_samples, self.rate, self.num_channels, self.begin = num_samples, rate, num_channels, begin
        self.metadata = SimpleNamespace(
            sample_rate=source_rate or rate,
            num_channels=num_channels,
            begin_stream_seconds=begin,
            end_stream_seconds=begin + num_samples / rate if header_end == -1.0 else header_end,
        )
        self.calls: list[list[tuple[float, float]]] = []

    def get_samples_played_in_ranges(self, ranges: list[tuple[float, float]]) -> list[AudioSamples]:
        self.calls.append(list(ranges))
        return [self._samples(start, stop) for start, stop in ranges]

    def _samples(self, start: float, stop: float) -> AudioSamples:
        assert start <= stop
        first = max(0, exact_offset(start, self.begin, self.rate))
        last = min(max(0, exact_offset(stop, self.begin, self.rate)), self.num_samples)
        if first >= self.num_samples and start != stop:
            raise OutOfRangeError("There is no sound.")
        numbers = [number for number in range(first, max(first, last)) if number not in self.gaps]
        data = values(numbers, self.num_channels)
        return AudioSamples(data, max(start, self.begin), len(numbers) / self.rate, self.rate)

    def _existing_runs(self, ranges: list[tuple[float, float]]) -> list[tuple[list[tuple[int, Tensor]], bool]]:
        """As in `AudioDecoder`: runs without gaps, and whether the range starts after the end."""
        found = []
        for start, stop in ranges:
            first, last = (max(0, exact_offset(seconds, self.begin, self.rate)) for seconds in (start, stop))
            numbers = [number for number in range(first, min(last, self.num_samples)) if number not in self.gaps]
            starts = [i for i, number in enumerate(numbers) if i == 0 or numbers[i - 1] != number - 1]
            pieces = [numbers[i:j] for i, j in pairwise([*starts, len(numbers)])]
            runs = [(piece[0], values(piece, self.num_channels)) for piece in pieces]
            found.append((runs, first < last and first >= self.num_samples))
        return found

    def close(self) -> None:
        self.calls.append([])


def numbers_of(clip: Tensor) -> list[int | None]:
    """The number of each sample of a clip (channels, samples), from the first channel; ``None`` for silence."""
    assert torch.equal(clip, values([int(value) - 1 for value in clip[0]], len(clip)))
    return [None if value == 0 else int(value) - 1 for value in clip[0]]
