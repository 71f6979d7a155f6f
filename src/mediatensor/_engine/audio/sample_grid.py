"""Read clips of an exact number of samples, by sample number, through the public methods of an audio decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...errors import OutOfRangeError
from ...frames import AudioSamples
from ..common.limits import check_samples
from ..metadata import AudioStreamMetadata
from .plan import sample_offset

# A span with a gap is halved, at most this many times, until each part lacks at most this much.
_MAX_MISSING_SECONDS = 0.001
_MAX_NUM_SPLITS = 100


class SoundDecoder(Protocol):
    """The part of the interface of `AudioDecoder` and `WavDecoder` that this module uses."""

    @property
    def metadata(self) -> AudioStreamMetadata: ...

    def get_samples_played_in_ranges(self, ranges: Sequence[tuple[float, float | None]]) -> list[AudioSamples]: ...


@dataclass(frozen=True)
class SampleGrid:
    """Converts between sample numbers and times, for the samples that a decoder returns."""

    begin_seconds: float  # time of sample 0
    sample_rate: int  # samples per second of the decoder's output, which may differ from the stream's
    num_channels: int  # of the decoder's output

    def offset(self, seconds: float) -> int:
        """Return the number of the sample nearest to a time. It is negative for times before the stream.

        >>> SampleGrid(1.0, 8, 2).offset(2.0), SampleGrid(1.0, 8, 2).offset(0.5)
        (8, -4)
        """
        return sample_offset(seconds, self.begin_seconds, self.sample_rate)

    def seconds(self, sample: float) -> float:
        return self.begin_seconds + sample / self.sample_rate


def sample_grid(decoder: SoundDecoder) -> SampleGrid:
    begin_seconds = decoder.metadata.begin_stream_seconds
    # If the decoder resamples, its metadata do not describe its output. The result of an empty range does.
    (nothing,) = decoder.get_samples_played_in_ranges([(begin_seconds, begin_seconds)])
    return SampleGrid(begin_seconds, nothing.sample_rate, len(nothing.data))


def existing_samples(decoder: SoundDecoder, grid: SampleGrid, spans: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return the samples [first, last) of each span as (channels, samples). Spans must have 0 <= first <= last.

    A result is shorter than its span if the stream has a gap in the span, or ends there (perhaps earlier than its
    header states).
    """
    ranges = [(grid.seconds(first), grid.seconds(last)) for first, last in spans]
    try:
        return [samples.data for samples in decoder.get_samples_played_in_ranges(ranges)]
    except OutOfRangeError:
        if len(ranges) > 1:
            return [data for span in spans for data in existing_samples(decoder, grid, [span])]
        return [torch.empty(grid.num_channels, 0, device="cpu")]


def with_silence(
    decoder: SoundDecoder, grid: SampleGrid, first: int, last: int, samples: Tensor
) -> tuple[Tensor, tuple[tuple[int, int], ...]]:
    """Extend ``samples`` to all samples [first, last), with silence where the stream has no samples.

    ``first`` may be negative. ``samples`` must be what `existing_samples` returns for the span [max(first, 0), last).
    Return a tensor (channels, last - first), and the ranges [begin, end) of this tensor that are silent.
    """
    count = last - first
    if samples.shape[1] == count:
        return samples, ()
    check_samples(grid.num_channels * count, f"A range of {count / grid.sample_rate} seconds")
    data = torch.zeros(grid.num_channels, count, dtype=samples.dtype, device=samples.device)
    silent_spans = []
    end = 0
    for position, run in _runs(decoder, grid, max(0, first), max(0, last), samples):
        begin = position - first
        data[:, begin : begin + run.shape[1]] = run
        if begin > end:
            silent_spans.append((end, begin))
        end = begin + run.shape[1]
    if end < count:
        silent_spans.append((end, count))
    return data, tuple(silent_spans)


def _runs(decoder: SoundDecoder, grid: SampleGrid, first: int, last: int, samples: Tensor) -> list[tuple[int, Tensor]]:
    """Divide the samples of a span at gaps: return (number of its first sample, samples) for each part, in order.

    ``samples`` are the existing samples of [first, last). A decoder returns the samples before and after a gap as one
    tensor, so the place of the gap is unknown. If samples are missing, the two halves of the span are read separately,
    then the halves of these, until the gap is found.
    """
    max_missing = _MAX_MISSING_SECONDS * grid.sample_rate
    runs: dict[int, Tensor] = {}
    open_spans = deque([(first, last, samples)])
    num_splits = 0
    while open_spans:
        first, last, samples = open_spans.popleft()
        num_missing = last - first - samples.shape[1]
        if samples.shape[1] == 0:
            continue
        if (
            num_missing <= max_missing
            or num_splits == _MAX_NUM_SPLITS
            or not existing_samples(decoder, grid, [(last - num_missing, last)])[0].shape[1]  # the stream ends early
        ):
            runs[first] = samples[:, : last - first]
            continue
        num_splits += 1
        middle = (first + last) // 2
        for half in ((first, middle), (middle, last)):
            (piece,) = existing_samples(decoder, grid, [half])
            open_spans.append((*half, piece))
    return sorted(runs.items())
