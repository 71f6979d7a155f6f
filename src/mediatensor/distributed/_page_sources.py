"""What text is read from: pages of documents, and frames of videos."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._common.locks import Closing
from ..datasets._rows import Document
from ..decoders import VideoDecoder
from ..errors import InvalidArgumentError, OutOfRangeError, PageError

__all__ = ["DocumentSource", "PageImage", "VideoSource", "frame_times"]

_MAX_FRAMES = 100_000

# Frames are decoded so many at a time: a video need not fit in memory.
_FRAMES_AT_A_TIME = 4


@dataclass(frozen=True)
class PageImage:
    """A page or a frame that text is read from.

    Attributes:
        number: Which page of the document, or which of the frames that are read, it is, from 0.
        pixels: uint8 (H, W, 3), or ``None`` if it cannot be had.
        seconds: When the frame is shown; NaN for a page.
        num_replaced: 1 if another frame took its place.
        error: Why there are no pixels.
    """

    number: int
    pixels: NDArray[np.uint8] | None
    seconds: float = math.nan
    num_replaced: int = 0
    error: str = ""


class DocumentSource(Closing):
    """Pages of a document.

    Args:
        document: The document, opened.
    """

    def __init__(self, document: Document) -> None:
        self._document = document

    def images(self, number: int | None) -> Iterator[PageImage]:
        """Its pages, or the one of a number.

        Raises:
            OutOfRangeError: if there is no such page.
        """
        pages = self._document.pages
        for i in _chosen(number, len(pages), "page"):
            try:
                yield PageImage(i, pages[i])
            except PageError as error:
                yield PageImage(i, None, error=str(error))

    def close(self) -> None:
        self._document.close()


class VideoSource(Closing):
    """Frames of a video.

    Args:
        decoder: The video, opened, with frames (H, W, C).
        every_seconds: How far apart the frames are that are read.
    """

    def __init__(self, decoder: VideoDecoder, every_seconds: float) -> None:
        self._decoder = decoder
        index = decoder.frame_index
        times = frame_times(index.begin_seconds, index.end_seconds, every_seconds)
        self._indices: list[int] = list(dict.fromkeys(index.frames_played_at(times).tolist()))

    def images(self, number: int | None) -> Iterator[PageImage]:
        """Its frames, or the one of a number.

        Raises:
            OutOfRangeError: if there is no such frame.
            DecodeError: if one cannot be decoded.
        """
        numbers = _chosen(number, len(self._indices), "frame")
        for start in range(0, len(numbers), _FRAMES_AT_A_TIME):
            yield from self._decoded(numbers[start : start + _FRAMES_AT_A_TIME])

    def _decoded(self, numbers: Sequence[int]) -> Iterator[PageImage]:
        frames = self._decoder.get_frames_at([self._indices[i] for i in numbers]).to("cpu")
        left_out = {frame.position for frame in frames.replaced if frame.used_index is None}
        replaced = {frame.position for frame in frames.replaced} - left_out
        present = [(k, i) for k, i in enumerate(numbers) if k not in left_out]
        for frame, (k, i) in zip(frames, present, strict=True):
            yield PageImage(i, frame.data.numpy(), float(frame.pts_seconds), int(k in replaced))

    def close(self) -> None:
        self._decoder.close()


def frame_times(begin_seconds: float, end_seconds: float, every_seconds: float) -> list[float]:
    """Times from the begin of a video on, before its end.

    >>> frame_times(1.0, 2.0, 0.4)
    [1.0, 1.4, 1.8]

    Raises:
        InvalidArgumentError: if there are too many.
    """
    count = math.ceil((end_seconds - begin_seconds) / every_seconds)
    if count > _MAX_FRAMES:
        raise InvalidArgumentError(
            f"every_seconds = {every_seconds} makes {count} frames of this video, more than the {_MAX_FRAMES} that are "
            "read: take a greater one."
        )
    times: list[Any] = [begin_seconds + k * every_seconds for k in range(max(count, 1))]
    return [time for time in times if time < end_seconds] or [begin_seconds]


def _chosen(number: int | None, count: int, noun: str) -> Sequence[int]:
    if number is None:
        return range(count)
    if not 0 <= number < count:
        raise OutOfRangeError(f"There is no {noun} {number}: {noun}s go from 0 to {count - 1}.")
    return [number]
