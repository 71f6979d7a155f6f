"""The class `VideoReader` of decord."""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray as NumpyArray
from torch import Tensor

from ..._engine.common.checks import index_of, real_number, shown, whole_number
from ...decoders import VideoDecoder
from ...decoders._access import access_to
from ...errors import DecodeError
from ...frames import FrameBatch
from ...transforms import Resize
from .. import BoundedCalls
from ._arrays import DECORDContext, check_context, cpu, source_of, whole_indices
from .bridge import bridge_out

__all__ = ["DECORDLimitReachedError", "VideoReader", "open_decoder"]

_CPU = cpu(0)


class DECORDLimitReachedError(DecodeError):
    """More frames than ``fault_tol`` allows could not be decoded.

    Example:
        >>> from mediatensor.compat import decord
        >>> issubclass(decord.DECORDLimitReachedError, decord.DECORDError)
        True
    """


class VideoReader:
    """Random access to the frames of a video, as arrays (H, W, 3) of uint8.

    `next` returns the frame after the last frame that was read, or the frame that `seek` moved to.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: ``cpu(0)``, or ``gpu(0)`` to decode and return frames on a CUDA device.
        width: Width of the resized frames; 0 or a negative number keeps the video's width.
        height: Height of the resized frames; 0 or a negative number keeps the video's height.
        num_threads: Codec threads; 0 shares the budget of the process.
        fault_tol: Maximum number of frames (below 1: share of all frames) that may fail to decode. The nearest frame
            replaces each of them. A negative number, the default, means no limit; a warning names the frames. On a
            GPU, a frame that cannot be decoded always raises.
        timeout_seconds: Time limit of a call. With a limit, the reader decodes in a separate process. ``None`` for no
            limit. Not in decord.

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
            open_decoder,
            source_of(uri),
            device,
            whole_number("width", width),
            whole_number("height", height),
            whole_number("num_threads", num_threads, at_least=0),
        )
        self._fault_tol = real_number("fault_tol", fault_tol)
        self._failed: set[int] = set()
        self._calls = BoundedCalls(make, timeout_seconds)
        times, self._key_indices, self._average_fps = self._calls.run(_describe)
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
            return self.get_batch(range(*idx.indices(len(self))))
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
        """Return the frames (N, H, W, 3) at any indices, in the order of the indices. Duplicates are decoded once.

        Args:
            indices: Frame indices from -len to len - 1, as a list, an array or a tensor.

        Raises:
            OutOfRangeError: if an index is out of bounds.
            InvalidArgumentError: if ``indices`` is not a list of numbers.
            DECORDLimitReachedError: if more frames cannot be decoded than ``fault_tol`` allows.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_batch([0, 7, 7, -1]).shape
            (4, 360, 640, 3)
        """
        return bridge_out(self._read(whole_indices(indices, len(self))))

    def get_frame_timestamp(self, idx: Any) -> NumpyArray[np.float32]:
        """Return the start and end times of frames.

        Args:
            idx: An index, a list of indices, or a slice.

        Returns:
            Start and end in seconds as float32: (2,) for one index, otherwise (N, 2).

        Raises:
            OutOfRangeError: if an index is out of bounds.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_frame_timestamp([0, 30]).shape
            (2, 2)
        """
        return self._seconds(idx).astype(np.float32)

    def get_key_indices(self) -> list[int]:
        """Return the indices of the key frames.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_key_indices()[:3]
            [0, 48, 96]
        """
        return list(self._key_indices)

    def get_avg_fps(self) -> float:
        """Return frames per second from the header or, if the header has no rate, from the frame times.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_avg_fps()
            30.0
        """
        return self._average_fps

    def seek(self, pos: int) -> None:
        """Set the position to a key frame: the next one when seeking forwards, the previous one when seeking backwards.

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
        """Set the position to a frame.

        Raises:
            InvalidArgumentError: if the frame does not exist.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").seek_accurate(40)
        """
        self._position = self._frame_of(pos)

    def skip_frames(self, num: int = 1) -> None:
        """Advance by a number of frames, at most to the end of the video.

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
        """Return the times of `get_frame_timestamp` as float64."""
        if isinstance(idx, slice):
            return self._times[idx]
        if np.ndim(idx) == 0:
            times: NumpyArray[np.float64] = self._times[whole_indices([index_of(idx)], len(self))[0]]
            return times
        return self._times[whole_indices(idx, len(self))]

    def _read(self, indices: list[int]) -> Tensor:
        """Return frames (N, H, W, 3), and set the position to the frame after the last of these frames."""
        batch = self._calls.run(partial(_frames_at, indices=indices))
        if indices:
            self._position = indices[-1] + 1
        failed = {report.index for report in batch.replaced if not report.num_missing}
        if failed - self._failed:
            self._failed |= failed
            self._report_failures(failed)
        return batch.data

    def _report_failures(self, failed: set[int]) -> None:
        if self._fault_tol < 0:
            warnings.warn(
                f"Frames {shown(sorted(failed))} cannot be decoded and were replaced by the nearest ones; fault_tol "
                "sets a limit.",
                stacklevel=4,
            )
            return
        limit = self._fault_tol * len(self) if self._fault_tol < 1 else self._fault_tol
        if len(self._failed) > limit:
            raise DECORDLimitReachedError(
                f"{len(self._failed)} frames cannot be decoded, more than fault_tol = {self._fault_tol} allows "
                f"({limit:g} of {len(self)}); the last are {shown(sorted(failed))}."
            )

    def __repr__(self) -> str:
        return f"VideoReader of {len(self)} frames"


def open_decoder(source: Any, device: str, width: int, height: int, num_threads: int) -> VideoDecoder:
    """Open the decoder of a reader. A width or height of 0 or less keeps the video's width or height."""
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


def _describe(decoder: VideoDecoder) -> tuple[Tensor, list[int], float]:
    """Return start and end times of all frames (N, 2), the key frame indices, and the frame rate."""
    index, metadata = decoder.frame_index, decoder.metadata
    begins = index.pts_seconds
    fps = metadata.average_fps_from_header or metadata.average_fps or 0.0
    return torch.stack([begins, begins + index.duration_seconds], 1), index.key_frame_indices.tolist(), fps


def _frames_at(decoder: VideoDecoder, indices: list[int]) -> FrameBatch:
    return decoder.get_frames_at(indices)
