"""From wanted frames to one array: each is decoded once, written where it belongs, and the error policy applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._pyav import FrameConverter, Orientation
from ..errors import DecodeError, ReadError, SizeChangeError
from ..frames import ReplacedFrame
from ._frame_index import FrameIndex
from ._frame_stream import FrameStream, MissingFrameError

__all__ = ["Assembled", "ErrorPolicy", "PixelWriter", "SizeChangePolicy", "assemble"]

ErrorPolicy = Literal["raise", "skip", "nearest"]
SizeChangePolicy = Literal["raise", "scale"]

# How far from a frame that cannot be decoded a replacement is looked for, in frames to either side.
_NEAREST_REACH = 32


@dataclass(frozen=True)
class Assembled:
    """Decoded rows.

    Attributes:
        pixels: (N, H, W, 3); ``None`` if there is no row.
        frames: Index of the frame in each row, int64 (N,).
        replaced: What the error policy did.
    """

    pixels: NDArray[Any] | None
    frames: NDArray[np.int64]
    replaced: tuple[ReplacedFrame, ...]


class PixelWriter:
    """Writes frames into the rows of one array, which is made when the size of the first frame is known.

    Args:
        converter: Converts frames.
        num_rows: Rows to allocate.
        size: (height, width) to scale frames of other sizes to; ``None`` if they are an error.
    """

    def __init__(self, converter: FrameConverter, num_rows: int, size: tuple[int, int] | None) -> None:
        self._converter = converter
        self._num_rows = num_rows
        self._scale_to = size
        self.pixels: NDArray[Any] | None = None

    def write(self, frame: Any, orientation: Orientation, rows: Sequence[int], name: str) -> None:
        """Convert ``frame`` into the first of ``rows`` and copy it to the others.

        Raises:
            SizeChangeError: if it has another size than the rows that were written before.
        """
        if self.pixels is None:
            height, width = self._scale_to or self._converter.output_size(frame, orientation)
            self.pixels = np.empty((self._num_rows, height, width, 3), self._converter.dtype)
        size = self._converter.output_size(frame, orientation)
        if size != self.pixels.shape[1:3] and self._scale_to is None:
            raise SizeChangeError(
                f"{name} is {size[1]}x{size[0]} (width x height), but the frames before it are "
                f"{self.pixels.shape[2]}x{self.pixels.shape[1]}: the resolution of the stream changes. "
                "Pass on_size_change='scale' or transforms=[Resize(...)], or decode such frames one by one."
            )
        first, *others = rows
        self._converter.write(frame, orientation, self.pixels[first])
        for row in others:
            self.pixels[row] = self.pixels[first]


def assemble(
    stream: FrameStream, index: FrameIndex, frames: NDArray[np.int64], writer: PixelWriter, on_error: ErrorPolicy
) -> Assembled:
    """Decode the wanted frames, each once.

    Args:
        stream: Gives decoded frames.
        index: The frames of the stream.
        frames: Wanted indices, in any order and with duplicates; not negative.
        writer: Takes the frames; one row for each wanted index.
        on_error: What to do about frames that cannot be decoded.

    Raises:
        DecodeError, ReadError: under ``on_error="raise"``, or if nothing can replace a frame.
        SizeChangeError: see `PixelWriter`.
    """
    wanted, row_of = np.unique(frames, return_inverse=True)
    rows = _rows_by_frame(wanted, row_of)
    failed = _known_failures(index, wanted, on_error)
    todo = [int(i) for i in wanted if int(i) not in failed]
    for frame, picture in _decoded(stream, index, todo, failed, on_error):
        writer.write(picture, Orientation.of_frame(picture), rows[frame], f"Frame {frame}")
    used = frames.copy()
    if on_error == "nearest":
        for frame in sorted(failed):
            used[rows[frame]] = _write_nearest(stream, index, writer, frame, rows[frame], failed)
    replaced = tuple(
        ReplacedFrame(frame, failed[frame], row, int(used[row]) if on_error == "nearest" else None)
        for row, frame in enumerate(frames.tolist())
        if frame in failed
    )
    pixels = writer.pixels
    if failed and on_error == "skip":
        kept = np.array([frame not in failed for frame in frames.tolist()], bool)
        pixels, used = None if pixels is None else pixels[kept], used[kept]
    return Assembled(pixels, used, replaced)


def _known_failures(index: FrameIndex, wanted: NDArray[np.int64], on_error: ErrorPolicy) -> dict[int, str]:
    """The frames of which the index knows that there is nothing, or nothing good, to decode, with the reason."""
    reason = f"decoding showed that the stream has only {len(index)} frames"
    failed = {int(frame): reason for frame in wanted[wanted >= len(index)]}
    if on_error == "raise":
        if failed:
            raise DecodeError(f"Frame {min(failed)} could not be decoded: {reason} ({'; '.join(index.anomalies)}).")
        return failed
    there = wanted[wanted < len(index)]
    return failed | {int(frame): "the codec flags it as damaged" for frame in there[index.is_damaged[there]]}


def _rows_by_frame(wanted: NDArray[np.int64], row_of: NDArray[np.intp]) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {int(frame): [] for frame in wanted}
    for row, number in enumerate(row_of.tolist()):
        rows[int(wanted[number])].append(row)
    return rows


def _decoded(
    stream: FrameStream, index: FrameIndex, frames: list[int], failed: dict[int, str], on_error: ErrorPolicy
) -> Iterator[tuple[int, Any]]:
    """(frame, picture) of all that can be decoded; the others go into ``failed``, or raise."""
    remaining = {int(index.ordinal[frame]) for frame in frames}
    while remaining:
        try:
            for ordinal, picture in stream.frames(index, sorted(remaining)):
                remaining.discard(ordinal)
                yield index.frame_of(ordinal), picture
            return
        except MissingFrameError as error:
            frame, reason = index.frame_of(error.ordinal), "it does not come out of the codec"
            if on_error == "raise":
                raise DecodeError(f"Frame {frame} could not be decoded: {reason}.") from None
            lost = {error.ordinal}
        except ReadError as error:
            reason = str(error)
            if on_error == "raise":
                raise
            lost = set(remaining)
        stream.position = None
        failed.update((index.frame_of(ordinal), reason) for ordinal in lost)
        remaining -= lost


def _write_nearest(
    stream: FrameStream, index: FrameIndex, writer: PixelWriter, frame: int, rows: list[int], failed: dict[int, str]
) -> int:
    """Fill rows with the decodable frame nearest to ``frame`` (the earlier of two), and return its index."""
    for distance in range(1, _NEAREST_REACH + 1):
        for candidate in (frame - distance, frame + distance):
            if not 0 <= candidate < len(index) or candidate in failed or index.is_damaged[candidate]:
                continue
            for _, picture in _decoded(stream, index, [candidate], failed, "nearest"):
                writer.write(picture, Orientation.of_frame(picture), rows, f"Frame {candidate}")
                return candidate
    raise DecodeError(
        f"Frame {frame} could not be decoded ({failed[frame]}), nor any of the {_NEAREST_REACH} frames to either side."
    )
