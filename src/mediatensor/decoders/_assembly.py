"""From wanted frames to one array: each is decoded once, written where it belongs, and the error policy applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DecodeError, SizeChangeError
from ..frames import ReplacedFrame
from ._call import Call, ErrorPolicy, decode_call
from ._frame_index_answers import FrameIndex
from ._handles import Handle
from ._pixel_writer import PixelWriter

__all__ = ["Assembled", "assemble"]


@dataclass(frozen=True)
class Assembled:
    """Decoded rows.

    Attributes:
        pixels: (N, H, W, 3); ``None`` if there is no row.
        frames: Index of the frame in each row, int64 (N,).
        replaced: What the error policy did.
    """

    pixels: NDArray[Any] | Tensor | None
    frames: NDArray[np.int64]
    replaced: tuple[ReplacedFrame, ...]


def assemble(
    handle: Handle,
    index: FrameIndex,
    frames: NDArray[np.int64],
    writer: PixelWriter,
    on_error: ErrorPolicy,
    *,
    is_passing: bool = False,
) -> Assembled:
    """Decode the wanted frames, each once.

    Args:
        handle: Gives and keeps decoded pictures.
        index: The frames of the stream.
        frames: Wanted indices, in any order and with duplicates; not negative.
        writer: Takes the frames; one row for each wanted index.
        on_error: What to do about frames that cannot be decoded.
        is_passing: Nobody is going to ask for the same frames again.

    Raises:
        DecodeError, ReadError: under ``on_error="raise"``, or if nothing can replace a frame.
        SizeChangeError: see `PixelWriter`.
    """
    wanted, row_of = np.unique(frames, return_inverse=True)
    rows = _rows_by_frame(wanted, row_of)
    call = Call(handle, index, rows, writer, on_error, is_passing=is_passing)
    call.failed = _known_failures(index, wanted, on_error)
    handle.recent.use(index)
    there = [int(i) for i in wanted if int(i) not in call.failed]
    try:
        todo = call.write_kept(there)
        if todo:
            decode_call(call, todo, overlaps=len(todo) < len(there))
    except SizeChangeError:
        call.raise_size_change(there)
    handle.last_single = int(wanted[0]) if len(wanted) == 1 else None
    failed, used = call.failed, frames.copy()
    if on_error == "nearest":
        for frame in sorted(failed):
            used[rows[frame]] = call.write_nearest(frame)
    replaced = tuple(
        ReplacedFrame(frame, failed[frame], row, int(used[row]) if on_error == "nearest" else None)
        for row, frame in enumerate(frames.tolist())
        if frame in failed
    )
    pixels = writer.pixels
    if failed and on_error == "skip":
        kept = [row for row, frame in enumerate(frames.tolist()) if frame not in failed]
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
