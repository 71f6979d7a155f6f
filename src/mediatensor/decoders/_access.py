"""The internal interface of decoders, for other packages of this library that need more than the public methods.

`access_to` returns the interface of a decoder or of a segment: a `VideoAccess` or an `AudioAccess`. `VideoDecoder` and
`AudioVideoDecoder` also use their own interface, so that a segment of a file decodes in the same way. Functions with a
`SampleGrid` read samples of any audio decoder, through its public methods, by sample number instead of time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.audio.batch import SampleRun
from .._engine.audio.plan import sample_offset
from .._engine.common import checks
from .._engine.common.locks import cached_property
from .._engine.common.pictures import PadStep, frame_box
from .._engine.containers.truncated_files import breaks_off
from .._engine.index.frame_clock import FrameClock
from .._engine.index.frame_index import FrameIndex
from .._engine.metadata import AudioStreamMetadata
from .._engine.sources.readers import MIN_REQUEST_BYTES
from .._engine.video.approximate import ApproximateFrames
from .._engine.video.batch import DecodedPicture, ErrorPolicy
from .._engine.video.exact import ExactFrames
from .._engine.video.open_video import OpenVideo, OutputOptions
from ..errors import InvalidArgumentError, OutOfRangeError
from ..frames import AudioSamples, Frame, FrameBatch
from ..transforms._decoder_transforms import check_decoder_transforms, resolve_transforms, size_before_transforms
from ..transforms.functional import check_fill_fits
from ._audio_decoder import AudioDecoder

_Result = TypeVar("_Result")

# Number of frames that are decoded at once, before conversion to RGB.
_PICTURES_AT_A_TIME = 8


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


def existing_samples(decoder: SoundDecoder, grid: SampleGrid, spans: Sequence[tuple[int, int]]) -> list[AudioSamples]:
    """Return the samples [first, last) of each span. Spans must have 0 <= first <= last.

    A result is shorter than its span if the stream has a gap in the span, or ends there (perhaps earlier than its
    header states).
    """
    ranges = [(grid.seconds(first), grid.seconds(last)) for first, last in spans]
    try:
        return decoder.get_samples_played_in_ranges(ranges)
    except OutOfRangeError:
        if len(ranges) > 1:
            return [samples for span in spans for samples in existing_samples(decoder, grid, [span])]
        nothing = torch.empty(grid.num_channels, 0, dtype=torch.float32, device="cpu")
        return [AudioSamples(nothing, ranges[0][0], 0.0, grid.sample_rate)]


def with_silence(
    grid: SampleGrid, first: int, last: int, runs: Sequence[SampleRun]
) -> tuple[Tensor, tuple[tuple[int, int], ...]]:
    """Place the existing samples in [first, last), with silence where the stream has none. ``first`` may be negative.

    Return a tensor (channels, last - first), and the ranges [begin, end) of this tensor that are silent.
    """
    count = last - first
    if len(runs) == 1 and runs[0][1].shape[1] == count:
        return runs[0][1], ()
    checks.check_samples(grid.num_channels * count, f"A range of {count / grid.sample_rate} seconds")
    data = torch.zeros(grid.num_channels, count, dtype=torch.float32, device="cpu")
    silent_spans = []
    end = 0
    for number, samples in runs:
        begin = number - first
        data[:, begin : begin + samples.shape[1]] = samples
        if begin > end:
            silent_spans.append((end, begin))
        end = begin + samples.shape[1]
    if end < count:
        silent_spans.append((end, count))
    return data, tuple(silent_spans)


class _OfVideo(Protocol):
    """A `VideoDecoder` or a segment of a video."""

    _access: VideoAccess


class _OfAudioVideo(Protocol):
    """An `AudioVideoDecoder` or a segment of a file."""

    _access: AudioAccess


@overload
def access_to(decoder: _OfVideo) -> VideoAccess: ...
@overload
def access_to(decoder: _OfAudioVideo) -> AudioAccess: ...
@overload
def access_to(decoder: object) -> VideoAccess | AudioAccess | None: ...
def access_to(decoder: Any) -> Any:
    """Return the internal interface of a decoder or a segment of a file; ``None`` for objects of other libraries.

    It is a `VideoAccess`, or an `AudioAccess` for an `AudioVideoDecoder`.
    """
    return getattr(decoder, "_access", None)


def with_final_index(decoder: Any, work: Callable[[FrameIndex], _Result]) -> tuple[FrameIndex, _Result]:
    """Return the index of a `VideoDecoder` and the result of ``work(index)``, which decodes frames by their numbers.

    If decoding corrects the index, these are the numbers of other frames, so ``work`` is called again.
    """
    while True:
        index = decoder.frame_index
        result = work(index)
        if decoder.frame_index is index:
            return index, result


def mean_decoder(decoder: AudioDecoder, sample_rate: int) -> AudioDecoder:
    """Return a decoder of the same stream with another sample rate and the mean of the channels; close it after use."""
    with decoder._pool.borrow():
        mono = copy.copy(decoder)
    mono._sample_rate, mono._num_channels, mono._downmix = sample_rate, 1, "mean"
    return mono


class VideoAccess:
    """The internal interface of a `VideoDecoder`, or of a range of its frames (see `restrict`).

    Attributes:
        video: The open file, with its source, its metadata and the options of the output.
    """

    def __init__(self, video: OpenVideo, frames: ExactFrames | ApproximateFrames, *, is_float: bool) -> None:
        self.video = video
        self._frames = frames
        self._is_float = is_float
        self._luma_bits: int | None = None
        # First and last frame (inclusive) of the range; ``None`` means all frames.
        self._within: tuple[int, int] | None = None

    def restrict(self, first: int, last: int) -> Self:
        """Return a copy whose methods that find frames by time return only frames ``first`` to ``last``, inclusive."""
        restricted = copy.copy(self)
        restricted._within = first, last
        return restricted

    # Methods that change how a decoder works. Call them only while no other call is running.

    def omit_hdr_warning(self) -> None:
        """Do not warn that HDR frames look gray, because the caller measures frames and does not show them."""
        self.video.hdr_transfer = None

    def set_transforms(self, transforms: Sequence[object] | None) -> None:
        """Replace the transforms of the decoder. Random transforms draw new values at each call of this method."""
        checked = check_decoder_transforms(transforms)
        steps = resolve_transforms(checked, *size_before_transforms(checked, self.video.upright_size))
        num_channels, dtype, highest = 3, torch.float32 if self._is_float else torch.uint8, 1 if self._is_float else 255
        if self._luma_bits is not None:
            num_channels, dtype, highest = 1, torch.uint16, (1 << self._luma_bits) - 1
        for step in steps:
            if isinstance(step, PadStep):
                check_fill_fits(step.fill, num_channels, dtype, highest)
        self.video.convert_with(steps, is_float=self._is_float, luma_bits=self._luma_bits)

    def decode_luma(self, num_bits: int) -> None:
        """Make the decoder return stored luma, uint16 (1, H, W), instead of RGB, from the next `set_transforms` on.

        This works only on the CPU. Decoding fails for frames whose samples do not have ``num_bits`` bits.
        """
        self._luma_bits = num_bits

    def prepare_for_rows(self, *, raises_damage: bool) -> None:
        """Prepare the decoder for reading dataset rows. With ``raises_damage``, reported damage raises an error.

        Call this right after opening a file, because building the index later would open the file again. From now on,
        requests by index use the frame times in this index, even if decoding shows that they are wrong.
        """
        if isinstance(self._frames, ExactFrames):
            _ = self._frames.index
            self._frames.keeps_times = True
        if raises_damage:
            self.video.options = replace(self.video.options, on_error="raise")

    def restore(self) -> None:
        """Undo the corrections that decoding made to the index, and with them the number of frames."""
        if isinstance(self._frames, ExactFrames):
            self._frames.restore_packet_index()

    def frame_size(self) -> tuple[int, int]:
        """Return the (height, width) of frames after the transforms."""
        return self.video.output_size()

    def frame_box(self) -> tuple[int, int, int, int] | None:
        """Return the (left, top, right, bottom) of the decoded frame in the padded frame; ``None`` without padding."""
        steps = self.video.spec.steps
        # The size may be known only after a frame was decoded, which can mean another read of a remote file.
        if not any(isinstance(step, PadStep) for step in steps):
            return None
        return frame_box(steps, *self.video.upright_size())

    # Times and indices

    @property
    def clock(self) -> FrameClock:
        return self._frames.clock

    @property
    def start_times(self) -> NDArray[np.float64]:
        """The start time in seconds of each frame, according to the file. Do not modify the array."""
        return self._frames.start_times

    def frame_indices_of(self, batch: FrameBatch) -> Tensor | None:
        """Return the index of each frame of a batch, in the shape of its times; ``None`` in approximate mode.

        The times must be the start times of frames, or be evenly spaced at intervals of the batch's frame duration.
        """
        if isinstance(self._frames, ApproximateFrames):
            return None
        pts, step = batch.pts_seconds.numpy(), float(batch.duration_seconds.max()) if len(batch) else 0.0
        index, clock = self._frames.index, self.clock.for_steps(step)
        frames = index.played_at(pts)
        if clock.step is not None:
            first = pts[..., :1]
            starts = np.vectorize(clock.exact_start, [np.float64])(first)
            on_grid = clock.played_at(starts + (pts - first) * (clock.exact_step(step) / step))
            is_of_frame = pts - clock.times[frames] <= checks.TIME_TOLERANCE
            frames = np.where(is_of_frame, frames, on_grid)
        return torch.from_numpy(frames if self._within is None else frames.clip(*self._within))

    def frames_nearest_to(self, seconds: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the indices and the times of the frames nearest to ``seconds``; of two equally near, the earlier one.

        Raises:
            InvalidArgumentError: in approximate mode, where frame times are unknown.
            StreamError: if the stream has no frames.
        """
        if isinstance(self._frames, ApproximateFrames):
            raise InvalidArgumentError("The times of frames are unknown with seek_mode='approximate'. Use 'exact'.")
        index = self._frames.index
        before = index.played_at(seconds)
        after = np.minimum(before + 1, len(index) - 1)
        times_before, times_after = (index.times_of(frames)[0].numpy() for frames in (before, after))
        is_after = times_after - seconds < seconds - times_before
        return np.where(is_after, after, before), np.where(is_after, times_after, times_before)

    def check_no_hole_at(self, seconds: float) -> None:
        """Raise `DecodeError` if the frame at a time is missing and the decoder has ``on_error="raise"``."""
        if isinstance(self._frames, ExactFrames):
            self._frames.check_no_hole_at(seconds)

    def breaks_off(self) -> bool:
        """Return whether the file is truncated according to its container. Files on a server are not checked."""
        with self.video.lend_reader(is_moved=False) as reader:
            # On a web server, the check would send one request for each box or chunk of the file.
            is_near = reader.small_read_bytes < MIN_REQUEST_BYTES
            return is_near and bool(reader.look_at_bytes(breaks_off))

    # Frames by time, within the range of `restrict`

    def frame_played_at(self, seconds: NDArray[np.float64]) -> Frame:
        """Return the frame shown at a time. ``seconds`` is an array with this time as its only element."""
        return self._frames.frame_played_at(seconds, within=self._within)

    def frames_played_at(self, seconds: NDArray[np.float64], *, is_grid: bool = False) -> FrameBatch:
        """Return the frames shown at times. ``is_grid`` means that they come from `clock` and are within the video."""
        return self._frames.frames_played_at(seconds, is_grid=is_grid, within=self._within)

    def frames_played_in_range(self, start_seconds: float, stop_seconds: float) -> FrameBatch:
        return self._frames.frames_played_in_range(start_seconds, stop_seconds, within=self._within)

    def resampled_frames(self, start_seconds: float, stop_seconds: float, fps: float) -> FrameBatch:
        """Return the frames of a range; see `VideoDecoder.get_frames_played_in_range`."""
        times = checks.frame_rate_times(start_seconds, stop_seconds, fps)
        clock = self.clock.for_steps(1 / float(fps))
        meant = clock.grid(start_seconds, 1 / float(fps), len(times))
        batch = self.frames_played_at(meant, is_grid=clock.step is not None)
        # If frames are left out, the others keep their times.
        left_out = {report.position for report in batch.replaced if report.used_index is None}
        pts = torch.from_numpy(times)[[k for k in range(len(times)) if k not in left_out]]
        return replace(batch, pts_seconds=pts, duration_seconds=torch.full_like(pts, 1 / float(fps)))

    # Frames decoded on the CPU, before conversion to RGB

    def pictures(self, start: int = 0, *, obeys_policy: bool = False) -> Generator[DecodedPicture]:
        """Yield frames without transforms and before conversion to RGB, from frame ``start`` of the range on.

        Several frames share one block of memory, so keeping one frame keeps the whole block. By default, damaged frames
        are left out. With ``obeys_policy``, the decoder's ``on_error`` decides whether damaged frames are kept, are
        left out, or raise an error.
        """
        first, last = self._within or (0, None)
        position, previous = first + start, None
        with self._lend_frames(obeys_policy=obeys_policy) as frames:
            while (last is None or position <= last) and frames.has_frame(position):
                stop = position + _PICTURES_AT_A_TIME
                for picture in frames.pictures(
                    range(position, stop if last is None else min(stop, last + 1)), previous
                ):
                    yield replace(picture, frame=picture.frame - first) if first else picture
                position, previous = stop, stop - 1

    def pictures_at(self, indices: Sequence[int]) -> Generator[DecodedPicture]:
        """Yield frames like `pictures`, with the policy. ``indices`` must ascend, and count from the video's start."""
        previous = None
        with self._lend_frames(obeys_policy=True) as frames:
            for start in range(0, len(indices), _PICTURES_AT_A_TIME):
                wanted = indices[start : start + _PICTURES_AT_A_TIME]
                yield from frames.pictures(wanted, previous)
                previous = wanted[-1]

    @contextmanager
    def _lend_frames(self, *, obeys_policy: bool) -> Iterator[ExactFrames]:
        """Open the video again, on the CPU and without transforms, and yield access to its frames."""
        with self.video.lend_reader(is_moved=False):  # raises `ClosedError` if the decoder is closed
            pass
        on_error: ErrorPolicy = self.video.options.on_error if obeys_policy else "skip"
        if on_error == "nearest":
            on_error = "skip"  # a frame is returned under its own index, or not at all
        spec = replace(
            self.video.spec, steps=(), is_float=False, backend="cpu", device=torch.device("cpu"), is_approximate=False
        )
        video = OpenVideo(spec, OutputOptions(False, on_error, "scale"))
        video.hdr_transfer = self.video.hdr_transfer  # as `omit_hdr_warning` left it
        own = None if isinstance(self._frames, ApproximateFrames) else self._frames
        frames = ExactFrames(video, None, None if own is None else own.index)
        try:
            yield frames
        finally:
            video.pool.close()
            if own is not None:
                own.correct_like(frames)  # the caller knows the frames by the indices that it got


class AudioAccess:
    """The internal interface to the audio of an `AudioVideoDecoder`. Audio after ``end_seconds`` is silent."""

    def __init__(self, audio: AudioDecoder, end_seconds: float | None = None) -> None:
        self._audio = audio
        self._end_seconds = end_seconds

    def restrict(self, end_seconds: float) -> AudioAccess:
        return AudioAccess(self._audio, end_seconds)

    @cached_property
    def _grid(self) -> SampleGrid:
        return sample_grid(self._audio)

    def samples_in_ranges(
        self, times: Sequence[tuple[float, float]]
    ) -> Iterator[tuple[AudioSamples, tuple[tuple[int, int], ...]]]:
        """Yield the samples and the silent spans of each time range, as in `AudioVideoClip`."""
        grid = self._grid
        spans = [(grid.offset(start), grid.offset(stop)) for start, stop in times]
        for (start, _), (first, last), (runs, _) in zip(times, spans, self._audio._existing_runs(times), strict=True):
            data, silent_spans = with_silence(grid, first, last, runs)
            length = last - first
            if self._end_seconds is not None:
                num_heard = max(0, math.floor((self._end_seconds - start) * grid.sample_rate + 0.5))
                if num_heard < length:
                    data = data.clone()
                    data[:, num_heard:] = 0
                    heard = ((a, min(b, num_heard)) for a, b in silent_spans if a < num_heard)
                    silent_spans = (*heard, (num_heard, length))
            yield AudioSamples(data, start, length / grid.sample_rate, grid.sample_rate), silent_spans
