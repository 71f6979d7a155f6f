"""decord's `VideoReader`."""

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
from ...errors import DecodeError
from ...frames import FrameBatch
from ...transforms import Resize
from .. import BoundedCalls
from ._arrays import DECORDContext, cpu
from ._sources import check_context, source_of, whole_indices
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
    """Frames of a video by index, as arrays (H, W, 3) of uint8.

    It has a position, which `next` reads at: after a frame or a batch was read, that is the frame behind it.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: ``cpu(0)``, or ``gpu(0)`` to decode and return frames on a CUDA device.
        width: Width that frames are resized to; that of the video if it is not positive.
        height: The same for the height.
        num_threads: Codec threads; 0 shares the budget of the process.
        fault_tol: How many frames may fail to decode and be replaced by the nearest one: a number, or below 1 a part of
            all frames. A negative number, the default, sets no limit, and a warning names the frames. On a GPU a
            frame that cannot be decoded raises.
        timeout_seconds: Most seconds of a call; the calls are then made in a process of the reader's own. ``None`` for
            no limit. decord has no such argument.

    Raises:
        DECORDError: if the source cannot be read or has no video, or an argument is not accepted.

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
        times, self._key_indices, self._average_fps = self._calls.run(_described)
        self._times: NumpyArray[np.float64] = times.numpy()
        self._position = 0

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, idx: Any) -> Any:
        """The frame of an index (H, W, 3), or the batch of a slice (N, H, W, 3).

        Raises:
            OutOfRangeError: if there is no such frame.
            InvalidArgumentError: if it is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            return self.get_batch(range(*idx.indices(len(self))))
        (index,) = whole_indices([index_of(idx)], len(self))
        return bridge_out(self._read([index])[0])

    def next(self) -> Any:
        """The frame at the position (H, W, 3).

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
        """Frames of any indices, in the order asked for (N, H, W, 3); each is decoded once.

        Args:
            indices: Numbers from -len to len - 1, as a list, an array or a tensor.

        Raises:
            OutOfRangeError: if one of them is out of bounds.
            InvalidArgumentError: if they are not a list of numbers.
            DECORDLimitReachedError: if more frames failed than ``fault_tol`` allows.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_batch([0, 7, 7, -1]).shape
            (4, 360, 640, 3)
        """
        return bridge_out(self._read(whole_indices(indices, len(self))))

    def get_frame_timestamp(self, idx: Any) -> NumpyArray[np.float32]:
        """When frames begin and end.

        Args:
            idx: An index, a list of them, or a slice.

        Returns:
            Seconds as float32: (2,) for one index, else (N, 2).

        Raises:
            OutOfRangeError: if an index is out of bounds.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_frame_timestamp([0, 30]).shape
            (2, 2)
        """
        return self._seconds(idx).astype(np.float32)

    def get_key_indices(self) -> list[int]:
        """Indices of the key frames.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_key_indices()[:3]
            [0, 48, 96]
        """
        return list(self._key_indices)

    def get_avg_fps(self) -> float:
        """Frames per second, as the header says, or if it does not, the times of the frames.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").get_avg_fps()
            30.0
        """
        return self._average_fps

    def seek(self, pos: int) -> None:
        """Go to a key frame near a position: forwards to the first from there on, backwards to the last before it.

        Raises:
            InvalidArgumentError: if there is no such frame.

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
        """Go to a frame.

        Raises:
            InvalidArgumentError: if there is no such frame.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").seek_accurate(40)
        """
        self._position = self._frame_of(pos)

    def skip_frames(self, num: int = 1) -> None:
        """Go on by a number of frames, to the end of the video at most.

        Raises:
            InvalidArgumentError: if it is not positive.

        Example:
            >>> from mediatensor.compat.decord import VideoReader
            >>> VideoReader("video.mp4").skip_frames(10)
        """
        self._position = min(self._position + whole_number("num", num, at_least=1), len(self))

    def _frame_of(self, pos: Any) -> int:
        return whole_number("pos", pos, at_least=0, at_most=len(self) - 1)

    def _seconds(self, idx: Any) -> NumpyArray[np.float64]:
        """As `get_frame_timestamp`, in float64."""
        if isinstance(idx, slice):
            return self._times[idx]
        if np.ndim(idx) == 0:
            times: NumpyArray[np.float64] = self._times[whole_indices([index_of(idx)], len(self))[0]]
            return times
        return self._times[whole_indices(idx, len(self))]

    def _read(self, indices: list[int]) -> Tensor:
        """Frames (N, H, W, 3); the position goes behind the last one asked for."""
        batch = self._calls.run(partial(_frames_at, indices=indices))
        if indices:
            self._position = indices[-1] + 1
        failed = {report.index for report in batch.replaced if not report.num_missing}
        if failed - self._failed:
            self._failed |= failed
            self._note_failures(failed)
        return batch.data

    def _note_failures(self, failed: set[int]) -> None:
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
    """The decoder of a reader; a width or a height that is not positive is that of the video."""
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
    decoder._transform_with([Resize((height if height > 0 else shape[0], width if width > 0 else shape[1]))])
    return decoder


def _described(decoder: VideoDecoder) -> tuple[Tensor, list[int], float]:
    """The times (N, 2) at which frames begin and end, the key frames, and the frame rate."""
    index, metadata = decoder.frame_index, decoder.metadata
    begins = index.pts_seconds
    fps = metadata.average_fps_from_header or metadata.average_fps or 0.0
    return torch.stack([begins, begins + index.duration_seconds], 1), index.key_frame_indices.tolist(), fps


def _frames_at(decoder: VideoDecoder, indices: list[int]) -> FrameBatch:
    return decoder.get_frames_at(indices)
