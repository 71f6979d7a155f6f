"""The classes `VideoReader` and `VideoLoader` of decord."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray as NumpyArray
from torch import Tensor

from ..._engine.common.checks import check_choice, index_of, real_number, shown, whole_number
from ..._engine.common.messages import warn_user
from ..._engine.sources.source import read_to_end
from ...decoders import FrameIndex, VideoDecoder
from ...decoders._access import access_to, with_final_index
from ...errors import DecodeError, InvalidArgumentError, OutOfRangeError
from ...frames import FrameBatch
from ...isolate._worker import BoundedCalls
from ...transforms import Resize
from .bridge import DECORDContext, bridge_out, cpu

_CPU = cpu(0)
_IN_ORDER, _FILES_SHUFFLED, _ALL_SHUFFLED = 0, 1, 2
_MAX_OPEN_FILES = 32


class DECORDLimitReachedError(DecodeError):
    """The number of frames that cannot be decoded is higher than ``fault_tol`` of the `VideoReader` allows.

    Example:
        >>> from mediatensor.compat import decord
        >>> issubclass(decord.DECORDLimitReachedError, decord.DECORDError)
        True
    """


class VideoReader:
    """Reads frames of a video by index, as RGB arrays (H, W, 3) of uint8.

    Arrays are `NDArray` objects, unless `bridge.set_bridge` selects another type.

    The reader has a position, which is the index of the frame that `next` returns. Each read moves the position to the
    frame after the last frame that was read. `seek`, `seek_accurate` and `skip_frames` also change the position.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: ``cpu(0)``, or ``gpu(0)`` to decode and return frames on a CUDA device.
        width: Width in pixels to which frames are resized. 0 or a negative number keeps the video's width.
        height: Height in pixels to which frames are resized. 0 or a negative number keeps the video's height.
        num_threads: Number of codec threads. 0 means a share of the thread budget of the process; see
            `mediatensor.get_num_threads`.
        fault_tol: Number of frames that are allowed to fail. A number from 0 to below 1 means a fraction of all frames.
            A frame that cannot be decoded is replaced by the nearest frame. If there are more such frames than allowed,
            `DECORDLimitReachedError` is raised. A negative number, which is the default, means no limit; a warning then
            names the frames. On a GPU, every frame that cannot be decoded raises an error.
        timeout_seconds: Time limit in seconds for each call. With a limit, the reader decodes in a separate process.
            ``None`` means no limit. decord does not have this argument.

    Raises:
        DECORDError: if the source cannot be read or has no video, or an argument is invalid.

    Example:
        >>> from mediatensor.compat.decord import VideoReader, cpu
        >>> reader = VideoReader("video.mp4", ctx=cpu(0), width=160, height=90)
        >>> len(reader), reader.get_avg_fps(), reader[-1].shape
        (300, 30.0, (90, 160, 3))
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = _CPU,
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: float = -1,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        device = check_context(ctx).device
        make = partial(
            _OpenedVideo,
            source_of(uri),
            device,
            whole_number("width", width),
            whole_number("height", height),
            whole_number("num_threads", num_threads, at_least=0),
        )
        self._fault_tol = real_number("fault_tol", fault_tol)
        self._failed: set[int] = set()
        self._calls = BoundedCalls(make, timeout_seconds)
        self._key_indices: list[int]
        self._average_fps: float
        times, self._key_indices, self._average_fps = self._calls.run(methodcaller("describe"))
        self._times: NumpyArray[np.float64] = times.numpy()
        self._position = 0

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, idx: Any) -> Any:
        """Return the frame (H, W, 3) at an index, or the frames (N, H, W, 3) of a slice.

        Raises:
            OutOfRangeError: if the frame does not exist.
            InvalidArgumentError: if ``idx`` is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            return self.get_batch(range_of(idx, len(self)))
        (index,) = whole_indices([index_of(idx)], len(self))
        return bridge_out(self._read([index])[0])

    def next(self) -> Any:
        """Return the frame (H, W, 3) at the current position, and advance by one frame.

        Raises:
            StopIteration: at the end of the video.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> reader = VideoReader("video.mp4")
            >>> reader.seek_accurate(298)
            >>> reader.next().shape, reader.next().shape
            ((360, 640, 3), (360, 640, 3))
        """
        if self._position >= len(self):
            raise StopIteration
        return bridge_out(self._read([self._position])[0])

    def get_batch(self, indices: Any) -> Any:
        """Return the frames (N, H, W, 3) at the given indices, in the order of the indices.

        A frame whose index is given several times is decoded only once.

        Args:
            indices: Frame indices, as a list, an array or a tensor. Negative indices count from the end.

        Raises:
            OutOfRangeError: if an index is out of bounds.
            InvalidArgumentError: if ``indices`` is not a list of numbers.
            DECORDLimitReachedError: if the number of frames that cannot be decoded is higher than ``fault_tol`` allows.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_batch([0, 7, 7, -1]).shape
            (4, 360, 640, 3)
        """
        return bridge_out(self._read(whole_indices(indices, len(self))))

    def get_frame_timestamp(self, idx: Any) -> NumpyArray[np.float32]:
        """Return the start and end times of frames, counted from the start of the first frame.

        Args:
            idx: An index, a list of indices, or a slice.

        Returns:
            Numpy array with the start and end of each frame in seconds, float32: (2,) for a single index, or (N, 2) for
            N frames.

        Raises:
            OutOfRangeError: if an index is out of bounds.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_frame_timestamp([0, 30]).shape
            (2, 2)
        """
        times: NumpyArray[np.float64] = self._seconds(idx) - self._times[0, 0]
        return times.astype(np.float32)

    def get_key_indices(self) -> list[int]:
        """Return the indices of the key frames.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_key_indices()[:3]
            [0, 48, 96]
        """
        return list(self._key_indices)

    def get_avg_fps(self) -> float:
        """Return the frames per second from the header or, if it has no rate, computed from the frame times."""
        return self._average_fps

    def seek(self, pos: int) -> None:
        """Move the position to a key frame near the frame with the index ``pos``.

        When moving forwards, move to the first key frame at or after ``pos`` or, if there is none, to the last key
        frame. When moving backwards, move to the last key frame at or before ``pos``. For exact positions, use
        `seek_accurate`.

        Raises:
            InvalidArgumentError: if the frame does not exist.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> reader = VideoReader("video.mp4")
            >>> reader.seek(40)  # goes to 48
        """
        pos = self._frame_of(pos)
        keys = self._key_indices
        if not keys or pos == self._position:
            self._position = pos
        elif pos > self._position:
            self._position = keys[min(bisect_left(keys, pos), len(keys) - 1)]
        else:
            self._position = keys[max(bisect_right(keys, pos) - 1, 0)]

    def seek_accurate(self, pos: int) -> None:
        """Move the position to the frame with the index ``pos``, whether or not it is a key frame.

        Raises:
            InvalidArgumentError: if the frame does not exist.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").seek_accurate(40)
        """
        self._position = self._frame_of(pos)

    def skip_frames(self, num: int = 1) -> None:
        """Move the position forwards by ``num`` frames, but not beyond the end of the video.

        Raises:
            InvalidArgumentError: if ``num`` is not a positive whole number.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").skip_frames(10)
        """
        self._position = min(self._position + whole_number("num", num, at_least=1), len(self))

    def _frame_of(self, pos: Any) -> int:
        return whole_number("pos", pos, at_least=0, at_most=len(self) - 1)

    def _seconds(self, idx: Any) -> NumpyArray[np.float64]:
        if isinstance(idx, slice):
            return self._times[range_of(idx, len(self))]
        if not isinstance(idx, list | tuple) and np.ndim(idx) == 0:
            times: NumpyArray[np.float64] = self._times[whole_indices([index_of(idx)], len(self))[0]]
            return times
        return self._times[whole_indices(idx, len(self))]

    def _read(self, indices: list[int]) -> Tensor:
        """Return the frames (N, H, W, 3) at ``indices``, and move to the position after the last of them."""
        frames: Tensor
        frames, failed = self._calls.run(methodcaller("frames_at", indices))
        if indices:
            self._position = indices[-1] + 1
        if failed:
            self._report_failures(set(failed))
        return frames

    def _report_failures(self, failed: set[int]) -> None:
        is_new = not failed <= self._failed
        self._failed |= failed
        if self._fault_tol < 0:
            if is_new:
                warn_user(
                    f"Frames {shown(sorted(failed))} cannot be decoded and were replaced by the nearest frames; "
                    "fault_tol limits their number."
                )
            return
        limit = self._fault_tol * len(self) if self._fault_tol < 1 else self._fault_tol
        if len(self._failed) > limit:
            raise DECORDLimitReachedError(
                f"{len(self._failed)} frames cannot be decoded, more than fault_tol = {self._fault_tol} allows "
                f"({limit:g} of {len(self)}). The last of them are {shown(sorted(failed))}."
            )

    def __repr__(self) -> str:
        return f"VideoReader of {len(self)} frames"


def _open_decoder(source: Any, device: str, width: int, height: int, num_threads: int) -> VideoDecoder:
    decoder = VideoDecoder(
        source,
        dimension_order="NHWC",
        num_ffmpeg_threads=num_threads or None,
        device=device,
        on_error="nearest" if device == "cpu" else "raise",
        on_size_change="scale",
    )
    if width <= 0 and height <= 0:
        return decoder
    shape = decoder[0].shape
    access_to(decoder).set_transforms([Resize((height if height > 0 else shape[0], width if width > 0 else shape[1]))])
    return decoder


class _OpenedVideo:
    """A decoder whose frames keep the number and the times that they had when the file was opened.

    Decoding a damaged file can show that the codec returns fewer frames than expected. Each frame that does not exist
    is then replaced by the frame that is nearest in time.
    """

    def __init__(self, source: Any, device: str, width: int, height: int, num_threads: int) -> None:
        self._decoder = _open_decoder(source, device, width, height, num_threads)
        self._index = self._decoder.frame_index

    def __len__(self) -> int:
        return len(self._index)

    def describe(self) -> tuple[Tensor, list[int], float]:
        """Return the start and end times of all frames (N, 2), the key frame indices, and the frame rate."""
        index, metadata = self._index, self._decoder.metadata
        begins = index.pts_seconds
        fps = metadata.average_fps_from_header or metadata.average_fps or 0.0
        return torch.stack([begins, begins + index.duration_seconds], 1), index.key_frame_indices.tolist(), fps

    def frames_at(self, indices: list[int]) -> tuple[Tensor, list[int]]:
        """Return frames (N, H, W, 3), and the sorted indices of the frames that were replaced by others."""

        def decode(index: FrameIndex) -> tuple[FrameBatch, set[int]]:
            frames, missing = (indices, set()) if index is self._index else self._nearest_frames(indices)
            return self._decoder.get_frames_at(frames), missing

        _, (batch, missing) = with_final_index(self._decoder, decode)
        damaged = {indices[report.position] for report in batch.replaced if not report.num_missing}
        return batch.data, sorted(missing | damaged)

    def _nearest_frames(self, indices: list[int]) -> tuple[list[int], set[int]]:
        """Find frames in the corrected index; also return which of ``indices`` have no frame of their own there."""
        seconds, durations = (
            values[indices].numpy() for values in (self._index.pts_seconds, self._index.duration_seconds)
        )
        frames, times = access_to(self._decoder).frames_nearest_to(seconds)
        is_missing = np.abs(times - seconds) > durations / 2
        return frames.tolist(), {index for index, is_gone in zip(indices, is_missing, strict=True) if is_gone}


class VideoLoader:
    """Iterates over batches of frames from several videos. To iterate again, call `reset`.

    Each item is a pair: frames, uint8 (N, H, W, 3), and an int64 array (N, 2) with the video index and the frame index
    of each frame. Both are `NDArray` objects, unless `bridge.set_bridge` selects another type.

    All frames of a batch are from the same video. ``interval`` frames of the video are skipped between two frames of a
    batch, and ``skip`` frames between two batches. As in decord, the last frame of a video is never used, and
    incomplete batches are dropped.

    Args:
        uris: Paths or URLs.
        ctx: ``cpu(0)``, or ``gpu(0)`` to decode and return frames on a CUDA device. If it is a list, only the first
            device is used.
        shape: (frames per batch, height, width, 3). Frames are resized to this height and width.
        interval: Number of frames to skip between two frames of a batch.
        skip: Number of frames to skip between two batches.
        shuffle: The order of the batches. 0: one video after the other. 1: videos in random order, but the batches of
            each video in order of time. 2: all batches in random order. Random orders depend on Python's
            ``random.seed``.
        prefetch: Has no effect.
        timeout_seconds: Time limit in seconds for each call. With a limit, one separate process reads all videos.
            ``None`` means no limit. decord does not have this argument.

    Raises:
        DECORDError: if a source cannot be read or has no video, or an argument is invalid.

    Example:
        >>> from mediatensor.compat.decord import VideoLoader, cpu
        >>> loader = VideoLoader(["video.mp4"], ctx=cpu(0), shape=(8, 90, 160, 3), interval=1, skip=15, shuffle=0)
        >>> len(loader)
        10
        >>> frames, indices = next(loader)
        >>> frames.shape, indices.asnumpy()[:3].tolist()
        ((8, 90, 160, 3), [[0, 0], [0, 2], [0, 4]])
    """

    def __init__(
        self,
        uris: Sequence[Any],
        ctx: DECORDContext | Sequence[DECORDContext],
        shape: Sequence[int],
        interval: int,
        skip: int,
        shuffle: int,
        prefetch: int = 0,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        if not isinstance(uris, list | tuple) or not uris:
            raise InvalidArgumentError(f"uris must be a list of paths or URLs, at least one (got {shown(uris)}).")
        contexts = list(map(check_context, (ctx or [None]) if isinstance(ctx, list | tuple) else [ctx]))
        if not isinstance(shape, list | tuple) or len(shape) != 4:
            raise InvalidArgumentError(f"shape must be (frames, height, width, 3) (got {shown(shape)}).")
        sizes = [whole_number("shape", size, at_least=1) for size in shape]
        self._num_frames, height, width = sizes[:3]
        self._step = max(0, whole_number("interval", interval)) + 1
        self._skip = max(0, whole_number("skip", skip))
        whole_number("prefetch", prefetch)
        check_choice("shuffle", shuffle, (_IN_ORDER, _FILES_SHUFFLED, _ALL_SHUFFLED))
        self._shuffle = shuffle
        self._calls = BoundedCalls(partial(_Files, list(uris), contexts[0].device, width, height), timeout_seconds)
        self._batches = self._plan_batches(
            [self._calls.run(methodcaller("length", number)) for number in range(len(uris))]
        )
        self._position = 0
        self.reset()

    def _plan_batches(self, lengths: list[int]) -> list[tuple[int, int]]:
        """Return all batches in order, as (video number, index of the first frame); ``lengths`` are in frames."""
        span = (self._num_frames - 1) * self._step + 1
        batches = []
        for number, length in enumerate(lengths):
            last = length - 1
            # In decord, only this value of shuffle allows a batch to end with the second to last frame.
            count = (last + self._skip) // (span + self._skip)
            starts = [batch * (span + self._skip) for batch in range(count)]
            is_kept = self._shuffle == _FILES_SHUFFLED
            batches += [(number, start) for start in starts if is_kept or start + span < last]
        return batches

    def __len__(self) -> int:
        return len(self._batches)

    def reset(self) -> None:
        """Restart the iteration at the first batch. If ``shuffle`` is 1 or 2, the batches get a new random order.

        Example:
            >>> from mediatensor.compat.decord import VideoLoader, cpu
            >>> loader = VideoLoader(["video.mp4"], cpu(0), (100, 90, 160, 3), 0, 0, 0)
            >>> len(list(loader)), len(list(loader))
            (2, 0)
            >>> loader.reset()
            >>> len(list(loader))
            2
        """
        self._position = 0
        if self._shuffle == _ALL_SHUFFLED:
            random.shuffle(self._batches)
        elif self._shuffle == _FILES_SHUFFLED:
            turns = [number for number, _ in self._batches]
            random.shuffle(turns)
            of_file = {number: iter(sorted(batch for batch in self._batches if batch[0] == number)) for number in turns}
            self._batches = [next(of_file[number]) for number in turns]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        """Return the frames (N, H, W, 3) of the next batch, uint8, and the origin of each frame, (N, 2).

        Each row of the second array contains the number of the video, and the index of the frame in it.

        Raises:
            StopIteration: after the last batch.
        """
        if self._position >= len(self):
            raise StopIteration
        number, start = self._batches[self._position]
        indices = [start + frame * self._step for frame in range(self._num_frames)]
        frames, failed = self._calls.run(methodcaller("frames_at", number, indices))
        self._position += 1
        if failed:
            warn_user(
                f"Frames {shown(failed)} of video {number} cannot be decoded and were replaced by the nearest frames."
            )
        return bridge_out(frames), bridge_out(torch.tensor([(number, index) for index in indices]))

    def next(self) -> tuple[Any, Any]:
        """Return the next batch, a pair (frames, indices), like ``next(loader)``; see `VideoLoader`.

        Raises:
            StopIteration: after the last batch.

        Example:
            >>> from mediatensor.compat.decord import VideoLoader, cpu
            >>> VideoLoader(["video.mp4"], cpu(0), (4, 90, 160, 3), 0, 0, 0).next()[0].shape
            (4, 90, 160, 3)
        """
        return self.__next__()

    def __repr__(self) -> str:
        return f"VideoLoader of {len(self)} batches"


class _Files:
    """The videos that a loader reads. The most recently read videos stay open."""

    def __init__(self, uris: list[Any], device: str, width: int, height: int) -> None:
        self._uris = uris
        self._options = (device, width, height, 0)
        self._open: OrderedDict[int, _OpenedVideo] = OrderedDict()

    def _opened(self, number: int) -> _OpenedVideo:
        if number not in self._open:
            if len(self._open) >= _MAX_OPEN_FILES:
                self._open.popitem(last=False)
            self._open[number] = _OpenedVideo(self._uris[number], *self._options)
        self._open.move_to_end(number)
        return self._open[number]

    def length(self, number: int) -> int:
        return len(self._opened(number))

    def frames_at(self, number: int, indices: list[int]) -> tuple[Tensor, list[int]]:
        return self._opened(number).frames_at(indices)


def source_of(uri: Any) -> Any:
    """Return a path or URL unchanged. Read a file object to its end, as in decord, and return the bytes."""
    return read_to_end(uri) if hasattr(uri, "read") else uri


def check_context(ctx: Any) -> DECORDContext:
    if not isinstance(ctx, DECORDContext):
        raise InvalidArgumentError(f"ctx must be cpu(0) or gpu(0) (got {shown(ctx)}).")
    return ctx


def range_of(idx: slice, count: int) -> range:
    """Return the indices that a slice selects. Raise `InvalidArgumentError` for a step of 0, and bounds of other types.

    >>> range_of(slice(-2, None), 10)
    range(8, 10)
    """
    try:
        return range(*idx.indices(count))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{idx} is not a slice of whole numbers: {error}.") from None


def whole_indices(indices: Any, count: int) -> list[int]:
    """Convert indices to a flat list of non-negative ints. As in decord, floats are truncated.

    Raises:
        OutOfRangeError: if an index is not between -count and count - 1.
        InvalidArgumentError: if ``indices`` is a single number, or contains values that are not numbers.
    """
    try:
        wanted = np.array(indices, dtype=np.int64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        wanted = None
    if wanted is None or wanted.ndim == 0:
        raise InvalidArgumentError(f"Indices must be a list of whole numbers (got {shown(indices)}).")
    for index in wanted.flat:
        if not -count <= index < count:
            raise OutOfRangeError(
                f"Index {index} is out of bounds: it must be from {-count} to {count - 1} (the length is {count})."
            )
    return [int(index) % count for index in wanted.flat]
