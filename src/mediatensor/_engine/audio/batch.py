"""Join the frames that were decoded for a range of audio into runs, in the requested sample rate and channels.

Decoding a range has three steps, one in each module: `plan` computes which samples to read, `stream` decodes the frames
that have them, and this module joins these frames. An `AudioHandle` runs all three, for one range at a time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..common import stages
from ..common.buffers import empty
from ..common.handle_pool import reclaim_threads
from ..common.threads import ThreadLease, lease_threads
from ..pyav.audio import AudioReader, Resampler, SampleForm, SampleQueue, has_frame_threads
from ..sources.source import Source
from .plan import SamplePlan, rescale_up
from .reader import SeekMissedError, SoundReader, UnknownPositionError
from .stream import AudioStream, FrameSlice

# Size of the first block of memory. Longer streams get more blocks.
_MIN_CAPACITY_BYTES = 1 << 16
_MAX_CAPACITY_BYTES = 1 << 31

# Number of samples that are converted at once. Large blocks need few calls; small blocks fit in the processor's cache.
_QUEUE_LENGTH = 1 << 15

# Largest number of leaps in time in one call. In damaged streams, time may leap at every frame.
_MAX_LEAPS = 1000


#: Samples without a gap: the number of the first one in the output, and a float32 tensor (channels, samples).
SampleRun = tuple[int, Tensor]


def runs_of(slices: Iterable[FrameSlice], plan: SamplePlan, expected_length: int) -> list[SampleRun]:
    """Convert decoded frames to the rate and the channels of the output, and join them to runs without gaps.

    ``slices`` are the decoded frames, in order. Together they have the samples [plan.start, plan.stop) of the stream.
    The runs have the samples [plan.first, plan.last) of the output. ``expected_length`` is an estimate of the number of
    decoded samples, for allocating memory.
    """
    found: list[SampleRun] = []
    for run in _runs(slices, plan, expected_length):
        samples = run.part(plan.first, plan.last)
        for (number, begin), (_, end) in pairwise([*run.places, (0, samples.shape[1])]):
            if (part := samples[:, begin:end]).shape[1]:
                found.append((max(plan.first, number), torch.from_numpy(part)))
    return found


def _runs(slices: Iterable[FrameSlice], plan: SamplePlan, expected_length: int) -> Iterator[_CopiedRun | _ResampledRun]:
    """Group slices into runs of consecutive samples with the same `SampleForm`. A gap also ends a resampled run."""
    output = plan.output
    run: _CopiedRun | _ResampledRun | None = None
    num_leaps = 0
    for found in slices:
        if run is not None:
            is_leap = run.is_resampled and num_leaps < _MAX_LEAPS and found[1] > run.end
            if not is_leap and run.append(found):
                continue
            if not run.takes(found[0]):
                # The frame has another form, so the new run does not count as a leap in time.
                is_leap = False
                run.limit = run.limit_before(found[4], plan)
            yield run
            # The length of the next run is unknown.
            expected_length = 0
            num_leaps += is_leap
        form = SampleForm.of_frame(found[0])
        if output.matches(form):
            run = _CopiedRun(found, form, plan, expected_length)
        else:
            run = _ResampledRun(found, form, plan)
        run.append(found)
    if run is not None:
        yield run


class _Run(ABC):
    """Consecutive samples of the stream with the same `SampleForm`, which are copied or resampled into the result.

    ``position`` is the number of the run's first sample, counted as in a `FrameSlice`.
    """

    is_resampled: bool

    # Frames at least this long are converted one by one.
    _max_queued_frame: int

    def __init__(self, first: FrameSlice, form: SampleForm, plan: SamplePlan) -> None:
        frame, self.position, _, _, section_start = first
        self.form = form
        self.length = 0
        #: Number after the last sample, counted like ``position``. It exceeds ``position + length`` by the gaps of a
        #: copied run.
        self.end = self.position
        #: The sample of the output at which a run of another form follows if there is no gap; ``None`` if none follows.
        self.limit: int | None = None
        rate = plan.output.sample_rate
        self._section_start = section_start
        self._section_begin = rescale_up(section_start, plan.stream_rate, rate)
        self.output_begin = self._section_begin + rescale_up(self.position, form.sample_rate, rate)
        #: (number in the output, place in the run) of the first sample and, in a copied run, of each one after a gap.
        self.places = [(self.output_begin, 0)]
        self._queue = SampleQueue(frame)
        self.takes = self._queue.takes

    def append(self, found: FrameSlice) -> bool:
        """Append the samples of a slice. Return False, and append nothing, if the slice has another `SampleForm`."""
        frame, position, first, last, _ = found
        length = last - first
        queue = self._queue
        if length < self._max_queued_frame and length == frame.samples:
            if not queue.append(frame):
                return False
            if queue.length >= _QUEUE_LENGTH:
                self._empty_queue()
        else:
            if not queue.takes(frame):
                return False
            self._empty_queue()
            memory = self._memory(length)
            queue.copy_frame(frame, first, last, memory)
            self._take(memory)
        if position > self.end and not self.is_resampled:
            self.places.append((self._section_begin + position, self.length))
            self.end = position
        self.end += length
        self.length += length
        return True

    def limit_before(self, section_start: int, plan: SamplePlan) -> int:
        """Return the sample of the output at which a run follows without a gap, in the section at ``section_start``."""
        end, rate = self.end, plan.output.sample_rate
        if section_start == self._section_start:
            return self._section_begin + rescale_up(end, self.form.sample_rate, rate)
        end = self._section_start + rescale_up(end, self.form.sample_rate, plan.stream_rate)
        return rescale_up(end, plan.stream_rate, rate)

    def _empty_queue(self) -> None:
        if self._queue.length:
            memory = self._memory(self._queue.length)
            self._queue.copy(memory)
            self._take(memory)

    def part(self, first: int, last: int | None) -> NDArray[np.float32]:
        """Return this run's samples within the output's range [first, last).

        If `limit` is set, cut or pad the result so that it ends at `limit`. Call this method only once, because it uses
        up the samples.
        """
        self._empty_queue()
        samples = self._finish(first, last)
        if self.limit is None:
            return samples
        end = self.limit if last is None else min(self.limit, last)
        number, place = self.places[-1]
        missing = max(0, end - max(first, number)) - (samples.shape[1] - place)
        # If the rates differ, the number of samples was rounded. Cut or pad it, so that the next run starts in its
        # place.
        return samples[:, :missing] if missing < 0 else np.pad(samples, ((0, 0), (0, missing)))

    @abstractmethod
    def _memory(self, length: int) -> NDArray[np.float32]:
        """Return an array (channels, length). The caller writes the next samples to it, and then calls `_take`."""

    @abstractmethod
    def _take(self, samples: NDArray[np.float32]) -> None:
        """Add ``samples``, an array from `_memory` that the caller has filled, to this run."""

    @abstractmethod
    def _finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        """Convert the remaining samples. Return this run's samples within the output's range [first, last)."""


class _CopiedRun(_Run):
    """Samples that already have the sample rate and channels of the output, in slices that are cut to its range."""

    is_resampled = False
    _max_queued_frame = 2048

    def __init__(self, first: FrameSlice, form: SampleForm, plan: SamplePlan, expected_length: int) -> None:
        super().__init__(first, form, plan)
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

    def _finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        samples = _compact(self._open, self._used)
        return np.concatenate([*self._full, samples], axis=1) if self._full else samples


class _ResampledRun(_Run):
    """Samples that FFmpeg's resampler converts to the sample rate and channels of the output.

    Output samples must have the same times as in a resampling of the whole stream. Therefore a few silent samples are
    added before the run. The first of them is at a time at which input and output both have a sample.
    """

    is_resampled = True
    # A call of the resampler takes longer than a copy into the queue.
    _max_queued_frame = _QUEUE_LENGTH

    def __init__(self, first: FrameSlice, form: SampleForm, plan: SamplePlan) -> None:
        super().__init__(first, form, plan)
        output = plan.output
        self._output_rate = output.sample_rate
        self._resampler = Resampler(form, output.sample_rate, output.num_channels, output.downmix)
        rate = form.sample_rate
        # Start where an input sample and an output sample have the same time.
        self._lead = 0 if rate == output.sample_rate else self.position % (rate // math.gcd(rate, output.sample_rate))
        self._resampler.push(np.zeros((form.num_channels, self._lead), np.float32))

    def _memory(self, length: int) -> NDArray[np.float32]:
        return np.empty((self.form.num_channels, length), np.float32)

    def _take(self, samples: NDArray[np.float32]) -> None:
        with stages.CONVERT:
            self._resampler.push(samples)

    def _finish(self, first: int, last: int | None) -> NDArray[np.float32]:
        with stages.CONVERT:
            samples = self._resampler.finish()
        begin = self._section_begin + (self.position - self._lead) * self._output_rate // self.form.sample_rate
        first_of_run = max(first, self.output_begin)
        end = begin + samples.shape[1]
        last_of_run = end if last is None else max(first_of_run, min(end, last))
        return np.ascontiguousarray(samples[:, first_of_run - begin : last_of_run - begin])


def _compact(block: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Move the first ``length`` samples of each channel together within ``block``, and return them as an array."""
    num_channels, capacity = block.shape
    if length == capacity:
        return block
    flat = block.reshape(-1)
    for channel in range(1, num_channels):
        flat[channel * length : (channel + 1) * length] = flat[channel * capacity : channel * capacity + length]
    return flat[: num_channels * length].reshape(num_channels, length)


# Handles


# Decoding of shorter audio ends before threads would have started.
_MIN_SECONDS_FOR_THREADS = 10.0

# Largest length according to a header for which memory is allocated: ten hours at 48 kHz.
_MAX_EXPECTED_SAMPLES = 36_000 * 48_000


class AudioHandle:
    """An open audio stream with its decoder and the decoder's threads. A handle reads one range at a time.

    With ``num_threads=None``, the handle decodes with one thread at first. It takes more threads from the process's
    budget when it reads a long range.
    """

    # Most calls read to the end of the stream. PyAV may drop a signal's exception while it raises its end-of-file
    # error.
    keeps_interrupts = True

    def __init__(self, open_reader: Callable[[int], AudioReader], num_threads: int | None) -> None:
        self._open_reader = open_reader
        self._num_threads = 1 if num_threads is None else num_threads
        #: The usual stream, which seeks if its format and codec allow it.
        self.stream = AudioStream(open_reader(self._num_threads))
        self._sequential_stream: AudioStream | None = None
        #: Whether the last range ended at the end of the stream.
        self.is_at_end = False
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        self._may_have_threads = num_threads is None and has_frame_threads(self.stream.codec)

    def read(self, plan: SamplePlan, duration_seconds: float | None) -> list[SampleRun]:
        """Decode the samples that a plan selects. Samples are missing where the stream has ended or has a gap.

        ``duration_seconds`` is the stream's duration according to the file's header. Raises `DecodeError` if a packet
        that contains samples of the range cannot be decoded.
        """
        start = plan.start or 0
        if plan.stop is None:
            length = min(math.ceil((duration_seconds or 0.0) * plan.stream_rate), _MAX_EXPECTED_SAMPLES) - start
        else:
            length = plan.stop - start
        if self._may_have_threads and self.lease.num_threads == 1:
            seconds = math.inf if plan.start is None else length / plan.stream_rate
            if seconds >= _MIN_SECONDS_FOR_THREADS:
                self._take_threads()
        stream = self.stream
        while True:
            try:
                found = runs_of(stream.slices(plan), plan, length)
            except UnknownPositionError:
                # A second stream with its own reader decodes this range. The first stream can still seek for later
                # ranges, so that their samples do not depend on this call.
                if self._sequential_stream is None:
                    self._sequential_stream = AudioStream(self._open_reader(self._num_threads), is_sequential=True)
                stream = self._sequential_stream
            except SeekMissedError:
                continue
            else:
                self.is_at_end = stream.is_at_end
                return found

    def _take_threads(self) -> None:
        self.lease = lease_threads(reclaim_threads)
        if self.lease.num_threads > 1:
            self._num_threads = self.lease.num_threads
            self.stream.use_threads(self._num_threads)

    def close(self) -> None:
        self.stream.reader.close()
        if self._sequential_stream is not None:
            self._sequential_stream.reader.close()
        self.lease.release()


@dataclass(frozen=True)
class AudioHandleSpec:
    """The arguments from which `open` opens an `AudioHandle`. They can be pickled, unlike the handle."""

    source: Source
    stream_index: int | None
    num_ffmpeg_threads: int | None

    def open(self) -> AudioHandle:
        return AudioHandle(partial(SoundReader, self.source, self.stream_index), self.num_ffmpeg_threads)
