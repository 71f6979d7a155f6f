"""The class `VideoLoader` of decord."""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ..._engine.common.checks import check_choice, shown, whole_number
from ...decoders import VideoDecoder
from ...errors import InvalidArgumentError
from ...frames import FrameBatch
from .. import BoundedCalls
from ._arrays import DECORDContext, check_context
from ._video_reader import open_decoder
from .bridge import bridge_out

__all__ = ["VideoLoader"]

_IN_ORDER, _FILES_SHUFFLED, _ALL_SHUFFLED = 0, 1, 2
_MAX_OPEN_FILES = 32


class VideoLoader:
    """An iterator over frame batches of several videos. It iterates once, and once more after each `reset`.

    A batch has every ``interval + 1``-th frame of one video. ``skip`` frames separate it from the next batch. As in
    decord, no batch includes the last frame of a video, and incomplete batches are dropped.

    Args:
        uris: Paths or URLs.
        ctx: ``cpu(0)``, or ``gpu(0)`` to decode and return frames on a CUDA device. Only the first device
            of a list is used.
        shape: (frames per batch, height, width, 3). Frames are resized to this size.
        interval: Number of frames to skip between two frames of a batch.
        skip: Number of frames to skip between two batches.
        shuffle: 0 for videos in their order; 1 for a random interleaving of the videos, each in time order; 2 for
            batches in random order. The order depends on Python's ``random.seed``.
        prefetch: Has no effect.
        timeout_seconds: Time limit of a call, as for `VideoReader`. One process reads all videos.

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
        self._batches = self._plan_batches([self._calls.run(partial(_length, number)) for number in range(len(uris))])
        self._position = 0
        self.reset()

    def _plan_batches(self, lengths: list[int]) -> list[tuple[int, int]]:
        """Return (video number, first frame index) of each batch, unshuffled."""
        span = (self._num_frames - 1) * self._step + 1
        batches = []
        for number, length in enumerate(lengths):
            last = length - 1
            # In decord, a batch may end with the second to last frame only for this value of shuffle.
            count = (last + self._skip) // (span + self._skip)
            starts = [batch * (span + self._skip) for batch in range(count)]
            is_kept = self._shuffle == _FILES_SHUFFLED
            batches += [(number, start) for start in starts if is_kept or start + span < last]
        return batches

    def __len__(self) -> int:
        return len(self._batches)

    def reset(self) -> None:
        """Restart the iteration, in a new order if the order is random.

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
        """Return the next batch: frames (N, H, W, 3) of uint8, and (video number, frame index) of each frame (N, 2).

        Raises:
            StopIteration: after the last batch.
        """
        if self._position >= len(self):
            raise StopIteration
        number, start = self._batches[self._position]
        indices = [start + frame * self._step for frame in range(self._num_frames)]
        batch = self._calls.run(partial(_frames_at, number, indices))
        self._position += 1
        failed = [report.index for report in batch.replaced if not report.num_missing]
        if failed:
            warnings.warn(
                f"Frames {shown(failed)} of video {number} cannot be decoded, and were replaced by the nearest ones.",
                stacklevel=2,
            )
        return bridge_out(batch.data), bridge_out(torch.tensor([(number, index) for index in indices]))

    def next(self) -> tuple[Any, Any]:
        """Return the next batch, like ``next(loader)``.

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
    """The videos of a loader. Recently read videos stay open."""

    def __init__(self, uris: list[Any], device: str, width: int, height: int) -> None:
        self._uris = uris
        self._options = (device, width, height, 0)
        self._open: OrderedDict[int, VideoDecoder] = OrderedDict()

    def open(self, number: int) -> VideoDecoder:
        if number not in self._open:
            if len(self._open) >= _MAX_OPEN_FILES:
                self._open.popitem(last=False)
            self._open[number] = open_decoder(self._uris[number], *self._options)
        self._open.move_to_end(number)
        return self._open[number]


def _length(number: int, files: _Files) -> int:
    return len(files.open(number))


def _frames_at(number: int, indices: list[int], files: _Files) -> FrameBatch:
    return files.open(number).get_frames_at(indices)
