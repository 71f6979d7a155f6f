"""From pieces of decoded frames to one tensor of the rate and the channels that were asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._common import stages
from .._common.buffers import empty
from .._pyav import Resampler, SampleForm, SampleQueue
from .stream import Piece

__all__ = ["OutputForm", "input_range", "joined", "section_begin"]

# Memory that is set aside at once; a stream that turns out longer gets more.
_MIN_CAPACITY_BYTES = 1 << 16
_MAX_CAPACITY_BYTES = 1 << 31

# Samples that are converted at once: enough to do it in few calls, and few enough to be in the processor's cache.
_QUEUE_LENGTH = 1 << 15

# Frames from this length on are converted one by one.
_LONG_FRAME = 2048

# Leaps in time that are followed in one call: damage can make one of every frame.
_MAX_LEAPS = 1000

# Taps of FFmpeg's resampling filter, and where it cuts off, as a part of the lower of the two rates' band.
_NUM_TAPS = 32
_CUTOFF = 0.97


@dataclass(frozen=True)
class OutputForm:
    """What samples are to become."""

    sample_rate: int
    num_channels: int

    def is_that_of(self, form: SampleForm) -> bool:
        return (self.sample_rate, self.num_channels) == (form.sample_rate, form.num_channels)


def input_range(first: int, last: int | None, input_rate: int, output_rate: int) -> tuple[int, int | None]:
    """The samples of the stream from which samples [first, last) of the output are made.

    The filter sees its taps on both sides. The range begins where a sample of the input and one of the output are
    played at the same time, so that the resampler is in the same phase as when it starts at 0.

    >>> input_range(16_000, 32_000, 48_000, 48_000), input_range(16_000, 32_000, 44_100, 16_000)
    ((16000, 32000), (43659, 88382))
    """
    if input_rate == output_rate:
        return first, last
    period = input_rate // math.gcd(input_rate, output_rate)
    margin = 2 * math.ceil(_NUM_TAPS / min(1.0, _CUTOFF * output_rate / input_rate))
    start = max(0, first * input_rate // output_rate - margin) // period * period
    return start, None if last is None else -(-last * input_rate // output_rate) + margin


def section_begin(origin: int, stream_rate: int, output_rate: int) -> int:
    """The sample of the output with which a section begins, see `Piece`."""
    return -(-origin * output_rate // stream_rate)


def joined(
    pieces: Iterable[Piece], output: OutputForm, stream_rate: int, first: int, last: int | None, expected_length: int
) -> Tensor:
    """Samples [first, last) of the output as float32 (channels, samples).

    Args:
        pieces: From the stream's `input_range`, in order.
        output: Rate and channels of the result.
        stream_rate: Rate in which the pieces' positions count.
        first: First sample of the output.
        last: One past the last; ``None`` for all.
        expected_length: How many samples the pieces probably have.
    """
    parts = [run.part(first, last) for run in _runs(pieces, output, stream_rate, expected_length)]
    if len(parts) == 1:
        return torch.from_numpy(parts[0])
    return torch.from_numpy(np.concatenate([np.empty((output.num_channels, 0), np.float32), *parts], axis=1))


def _runs(
    pieces: Iterable[Piece], output: OutputForm, stream_rate: int, expected_length: int
) -> Iterator[_StoredRun | _ConvertedRun]:
    """Samples in a row. After a leap in time, what is resampled is resampled by itself."""
    run: _StoredRun | _ConvertedRun | None = None
    num_leaps = 0
    for piece in pieces:
        frame, position, _, _, origin = piece
        if run is not None:
            is_other = not run.takes(frame)
            is_leap = not is_other and run.is_converted and num_leaps < _MAX_LEAPS and position > run.end
            if is_leap or is_other:
                if is_other:
                    run.limit = section_begin(origin or position, stream_rate, output.sample_rate)
                yield run
                # Of a stream in pieces nobody knows how long each is.
                run, expected_length, num_leaps = None, 0, num_leaps + is_leap
        if run is None:
            form = SampleForm.of_frame(frame)
            if output.is_that_of(form):
                run = _StoredRun(piece, form, output, stream_rate, expected_length)
            else:
                run = _ConvertedRun(piece, form, output, stream_rate)
        run.append(piece)
    if run is not None:
        yield run


class _Run(ABC):
    def __init__(self, first: Piece, form: SampleForm, output: OutputForm, stream_rate: int) -> None:
        self.form = form
        _, self.position, _, _, origin = first
        self.length = 0
        #: The sample of the output with which another run takes over, if one does.
        self.limit: int | None = None
        self._section_begin = section_begin(origin, stream_rate, output.sample_rate)
        #: The first sample of the output that the run has.
        self.output_begin = self._section_begin + section_begin(self.position, form.sample_rate, output.sample_rate)
        self._queue = SampleQueue(first[0])
        self.takes = self._queue.takes

    @property
    def end(self) -> int:
        """The position behind the run, counted as its beginning is."""
        return self.position + self.length

    def part(self, first: int, last: int | None) -> NDArray[np.float32]:
        """What the run has of the output's samples [first, last), up to where another takes over; asked for last."""
        samples = self.finish(first, last)
        if self.limit is None:
            return samples
        end = self.limit if last is None else min(self.limit, last)
        missing = max(0, end - max(first, self.output_begin)) - samples.shape[1]
        # Where rates differ, numbers of samples are rounded; the next ones are in their place all the same.
        return samples[:, :missing] if missing < 0 else np.pad(samples, ((0, 0), (0, missing)))

    def append(self, piece: Piece) -> None:
        frame, _, first, last, _ = piece
        length = last - first
        self.length += length
        queue = self._queue
        if length < _LONG_FRAME and length == frame.samples:
            queue.append(frame)
            if queue.length >= _QUEUE_LENGTH:
                self._empty_queue()
        else:
            self._empty_queue()
            memory = self._memory(length)
            queue.copy_frame(frame, first, last, memory)
            self._take(memory)

    def _empty_queue(self) -> None:
        if self._queue.length:
            memory = self._memory(self._queue.length)
            self._queue.copy(memory)
            self._take(memory)

    @abstractmethod
    def _memory(self, length: int) -> NDArray[np.float32]:
        """Where the next ``length`` samples go, (channels, length)."""

    @abstractmethod
    def _take(self, samples: NDArray[np.float32]) -> None:
        """Samples were written to the `_memory`."""

    @abstractmethod
    def finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        """What the run has of the output's samples [first, last)."""


class _StoredRun(_Run):
    """Samples that are the output as they are: the range they came from is the range of the output."""

    is_converted = False

    def __init__(
        self, first: Piece, form: SampleForm, output: OutputForm, stream_rate: int, expected_length: int
    ) -> None:
        super().__init__(first, form, output, stream_rate)
        self._full: list[NDArray[np.float32]] = []
        self._open = self._block(expected_length)
        self._used = 0

    def _block(self, expected_length: int) -> NDArray[np.float32]:
        sample_bytes = 4 * self.form.num_channels
        length = min(max(expected_length, _MIN_CAPACITY_BYTES // sample_bytes), _MAX_CAPACITY_BYTES // sample_bytes)
        return empty((self.form.num_channels, length), np.float32)

    def _memory(self, length: int) -> NDArray[np.float32]:
        begin = self._used
        self._used += length
        if self._used > self._open.shape[1]:
            self._full.append(_compact(self._open, begin))
            self._open, begin, self._used = self._block(max(length, self.length)), 0, length
        return self._open[:, begin : self._used]

    def _take(self, samples: NDArray[np.float32]) -> None:
        pass

    def finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        self._empty_queue()
        samples = _compact(self._open, self._used)
        return np.concatenate([*self._full, samples], axis=1) if self._full else samples


class _ConvertedRun(_Run):
    """Samples that go through the resampler on the way, put in phase by silence in front of them."""

    is_converted = True

    def __init__(self, first: Piece, form: SampleForm, output: OutputForm, stream_rate: int) -> None:
        super().__init__(first, form, output, stream_rate)
        self._output_rate = output.sample_rate
        self._resampler = Resampler(form, output.sample_rate, output.num_channels)
        rate = form.sample_rate
        # Up to where a sample of the input and one of the output are played at the same time.
        self._lead = 0 if rate == output.sample_rate else self.position % (rate // math.gcd(rate, output.sample_rate))
        self._resampler.push(np.zeros((form.num_channels, self._lead), np.float32))

    def _memory(self, length: int) -> NDArray[np.float32]:
        return np.empty((self.form.num_channels, length), np.float32)

    def _take(self, samples: NDArray[np.float32]) -> None:
        with stages.CONVERT:
            self._resampler.push(samples)

    def finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        self._empty_queue()
        with stages.CONVERT:
            samples = self._resampler.finish()
        rate = self.form.sample_rate
        begin = self._section_begin + (self.position - self._lead) * self._output_rate // rate
        first_of_run = max(first, self.output_begin)
        end = begin + samples.shape[1]
        last_of_run = end if last is None else max(first_of_run, min(end, last))
        return np.ascontiguousarray(samples[:, first_of_run - begin : last_of_run - begin])


def _compact(block: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """The first samples of each channel, moved together in place."""
    num_channels, capacity = block.shape
    if length == capacity:
        return block
    flat = block.reshape(-1)
    for channel in range(1, num_channels):
        flat[channel * length : (channel + 1) * length] = flat[channel * capacity : channel * capacity + length]
    return flat[: num_channels * length].reshape(num_channels, length)
