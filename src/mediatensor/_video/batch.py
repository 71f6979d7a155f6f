"""From wanted frames to one array: each is decoded once, written where it belongs, and the error policy applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._common import stages
from .._common.orientation import Orientation
from .._common.threads import choose_crew, run_in_lanes
from .._index import FrameIndex
from ..backends import PictureConverter
from ..errors import DecodeError, DeviceError, ReadError, SizeChangeError
from ..frames import ReplacedFrame
from .frame_stream import FrameStream, MissingFrameError
from .handles import Handle, Lane
from .plan import Segment, first_place_of, num_pictures, runs_by_key_frame

__all__ = ["Assembled", "Call", "ErrorPolicy", "PixelWriter", "SizeChangePolicy", "assemble", "decode_call"]

SizeChangePolicy = Literal["raise", "scale"]


class PixelWriter:
    """Writes frames into the rows of one array, which is made when the size of the first frame is known.

    Args:
        num_rows: Rows to allocate.
        size: (height, width) to scale frames of other sizes to; ``None`` if they are an error.
        orientation: How frames are turned that say nothing of it.
    """

    def __init__(self, num_rows: int, size: tuple[int, int] | None, orientation: Orientation | None = None) -> None:
        self._num_rows = num_rows
        self._scale_to = size
        self._orientation = orientation or Orientation()
        self._lock = Lock()
        self.pixels: NDArray[Any] | Tensor | None = None

    def write(self, converter: PictureConverter, picture: Any, rows: Sequence[int], name: str) -> None:
        """Convert a picture into the first of ``rows``, copy it to the others. Threads may write different rows.

        Raises:
            SizeChangeError: if it has another size than the rows that were written before.
        """
        orientation = converter.orientation_of(picture)
        if not orientation.turns:
            orientation = self._orientation
        size = converter.output_size(picture, orientation)
        pixels = self._rows_for(converter, self._scale_to or size)
        if size != tuple(pixels.shape[1:3]) and self._scale_to is None:
            raise SizeChangeError(
                f"{name} is {size[1]}x{size[0]} (width x height), but the frames before it are "
                f"{pixels.shape[2]}x{pixels.shape[1]}: the resolution of the stream changes. "
                "Pass on_size_change='scale' or transforms=[Resize(...)], or decode such frames one by one."
            )
        first, *others = rows
        with stages.CONVERT:
            converter.write(picture, orientation, pixels[first])
            for row in others:
                pixels[row] = pixels[first]

    def _rows_for(self, converter: PictureConverter, size: tuple[int, int]) -> Any:
        with self._lock:
            if self.pixels is None:
                self.pixels = converter.empty(self._num_rows, *size)
            return self.pixels


ErrorPolicy = Literal["raise", "skip", "nearest"]

# How far from a frame that cannot be decoded a replacement is looked for, in frames to either side.
_NEAREST_REACH = 32

# Calls for more frames than this are taken to go through the video once: keeping theirs would cost fresh memory.
_MAX_KEPT = 64

# Who asks for a frame at most this far before the last one is taken to step backwards.
_STEP_BACK = 32


class Call:
    """What the threads that work on one call share."""

    def __init__(
        self,
        handle: Handle,
        index: FrameIndex,
        rows: dict[int, list[int]],
        writer: PixelWriter,
        on_error: ErrorPolicy,
        *,
        is_passing: bool,
    ) -> None:
        self.handle = handle
        self.index = index
        self.rows = rows
        self.writer = writer
        self.on_error = on_error
        self.is_passing = is_passing
        self.failed: dict[int, str] = {}

    def write_kept(self, frames: list[int]) -> list[int]:
        """Write the frames whose pictures were kept; the others are returned."""
        return [frame for frame in frames if not self._write_kept(frame, self.rows[frame])]

    def _write_kept(self, frame: int, rows: list[int]) -> bool:
        picture = self.handle.recent.get(int(self.index.output_order[frame]))
        if picture is None:
            return False
        self.write(self.handle.converter, frame, picture, rows)
        return True

    def write(self, converter: PictureConverter, frame: int, picture: Any, rows: list[int]) -> None:
        self.writer.write(converter, picture, rows, f"Frame {frame}")

    def decode(self, lane: Lane, frames: list[int], *, keeps: bool, is_left: bool = False) -> None:
        """Decode frames and write those that have rows; what cannot be decoded is noted, or raises."""
        for frame, picture in self._pictures(lane.stream, frames, is_left=is_left):
            rows = self.rows.get(frame)
            if rows:
                self.write(lane.converter, frame, picture, rows)
            if keeps and lane.stream.may_keep:
                self.handle.recent.put(int(self.index.output_order[frame]), picture)
            del picture  # else it would be held while frames that nobody asked for are decoded

    def _pictures(self, stream: FrameStream, frames: list[int], *, is_left: bool = False) -> Iterator[tuple[int, Any]]:
        """(frame, picture) of all that can be decoded; the others are noted, or raise."""
        index = self.index
        remaining = {int(index.output_order[frame]) for frame in frames}
        while remaining:
            try:
                for place, picture in stream.run(index, stream.plan(index, sorted(remaining), is_left=is_left)):
                    remaining.discard(place)
                    yield index.frame_of(place), picture
                    del picture
                return
            except MissingFrameError as error:
                frame, reason = index.frame_of(error.place), "it does not come out of the codec"
                if not stream.decodes_in_software:
                    raise DeviceError(f"Frame {frame} does not come out of the device's decoder.") from None
                if self.on_error == "raise":
                    raise DecodeError(f"Frame {frame} could not be decoded: {reason}.") from None
                lost = {error.place}
            except ReadError as error:
                reason = str(error)
                if self.on_error == "raise":
                    raise
                lost = set(remaining)
            stream.position = None
            self.failed.update((index.frame_of(place), reason) for place in lost)
            remaining -= lost

    def raise_size_change(self, frames: list[int]) -> None:
        """Decode frames in order of their indices, so that the error names the first that differs from those before."""
        assert isinstance(self.handle.stream, FrameStream)
        self.handle.recent.clear()
        self.writer.pixels = None
        self.decode(Lane(self.handle.stream, self.handle.converter), frames, keeps=False)

    def write_nearest(self, frame: int) -> int:
        """Fill the rows of a frame with the decodable one nearest to it (the earlier of two); return its index."""
        rows, handle = self.rows[frame], self.handle
        assert isinstance(handle.stream, FrameStream)
        for distance in range(1, _NEAREST_REACH + 1):
            for other in (frame - distance, frame + distance):
                if not 0 <= other < len(self.index) or other in self.failed or self.index.is_damaged[other]:
                    continue
                if self._write_kept(other, rows):
                    return other
                for _, picture in self._pictures(handle.stream, [other]):
                    self.write(handle.converter, other, picture, rows)
                    return other
        raise DecodeError(
            f"Frame {frame} could not be decoded ({self.failed[frame]}), nor any of the {_NEAREST_REACH} frames to "
            "either side."
        )


def decode_call(call: Call, frames: list[int], *, overlaps: bool) -> None:
    """Decode and write frames, in the way that is quickest; ``overlaps`` if other frames of the call had been kept."""
    handle, index, stream = call.handle, call.index, call.handle.stream
    assert isinstance(stream, FrameStream)
    window = _window_before(call, frames[0]) if len(frames) == 1 else []
    if window:
        call.decode(Lane(stream, handle.converter), window, keeps=True, is_left=True)
        return
    places = sorted(int(index.output_order[frame]) for frame in frames)
    if stream.position == places[0] and not overlaps:
        handle.recent.clear()  # those who go forward do not ask again for what lies behind
    keeps = not call.is_passing and len(frames) <= _MAX_KEPT
    keeps = keeps and handle.recent.has_room_for(len(frames), stream.reader.num_pixels)
    runs = runs_by_key_frame(index, places) if _chooses_threads(call, stream.plan(index, places)) else {}
    sizes = {key_frame: num_pictures(index, key_frame, members) for key_frame, members in runs.items()}
    lanes = _lanes_for(call, list(sizes.values())) if runs else [Lane(stream, handle.converter)]
    if len(lanes) == 1:
        call.decode(lanes[0], frames, keeps=keeps)
        return
    longest_first = sorted(runs, key=sizes.__getitem__, reverse=True)  # the longest must not come last
    parts = [[index.frame_of(place) for place in runs[key_frame]] for key_frame in longest_first]
    here = handle.converter.here()

    def decode(lane: Lane, part: list[int]) -> None:
        with here():
            call.decode(lane, part, keeps=keeps, is_left=True)

    run_in_lanes(lanes, parts, decode)


def _chooses_threads(call: Call, segments: list[Segment]) -> bool:
    """Whether threads can be divided anew: where the codec goes on, it goes on as it is."""
    is_sure = not (call.index.settled or call.index.is_authoritative)
    return call.handle.chooses_threads and is_sure and segments[0].key_frame is not None


def _lanes_for(call: Call, pictures: list[int]) -> list[Lane]:
    """The threads that are to decode a call, given the pictures of its runs that need nothing of each other."""
    handle, stream = call.handle, call.handle.stream
    assert isinstance(stream, FrameStream)
    crew = choose_crew(
        pictures,
        stream.reader.num_pixels,
        num_threads=handle.num_threads(),
        num_codec_threads=stream.num_codec_threads,
        num_open_lanes=handle.num_open_lanes,
        codec_has_threads=stream.reader.codec_has_threads,
    )
    if crew.num_lanes > 1:
        return handle.lanes(crew.num_lanes)
    stream.use_threads(crew.num_codec_threads)
    return [Lane(stream, handle.converter)]


def _window_before(call: Call, frame: int) -> list[int]:
    """The frames to decode and keep for somebody who steps backwards: those of the same run that come before.

    ::

        key frame                 frame  last asked for
          k . . . . . [ . . . . . . x ]  x
                        as many as can be kept
    """
    handle, index = call.handle, call.index
    last = handle.last_single
    if last is None or not 0 < last - frame <= _STEP_BACK or index.settled or index.is_authoritative:
        return []
    first = max(first_place_of(index, index.key_frame_for(frame)), frame + 1 - handle.recent.capacity())
    return list(range(min(first, frame), frame + 1))


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
