"""Decoding the frames of one call: what was kept, what is to be kept, and by how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ..backends import PictureConverter
from ..errors import DecodeError, DeviceError, ReadError
from ._frame_index_answers import FrameIndex
from ._frame_stream import FrameStream, MissingFrameError
from ._handles import Handle, Lane
from ._lanes import choose_crew, run_in_lanes
from ._pixel_writer import PixelWriter
from ._plan import Segment, entry_ordinal, num_pictures, runs_by_entry

__all__ = ["Call", "ErrorPolicy", "decode_call"]

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
        picture = self.handle.recent.get(int(self.index.ordinal[frame]))
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
                self.handle.recent.put(int(self.index.ordinal[frame]), picture)
            del picture  # else it would be held while frames that nobody asked for are decoded

    def _pictures(self, stream: FrameStream, frames: list[int], *, is_left: bool = False) -> Iterator[tuple[int, Any]]:
        """(frame, picture) of all that can be decoded; the others are noted, or raise."""
        index = self.index
        remaining = {int(index.ordinal[frame]) for frame in frames}
        while remaining:
            try:
                for ordinal, picture in stream.run(index, stream.plan(index, sorted(remaining), is_left=is_left)):
                    remaining.discard(ordinal)
                    yield index.frame_of(ordinal), picture
                    del picture
                return
            except MissingFrameError as error:
                frame, reason = index.frame_of(error.ordinal), "it does not come out of the codec"
                if not stream.decodes_in_software:
                    raise DeviceError(f"Frame {frame} does not come out of the device's decoder.") from None
                if self.on_error == "raise":
                    raise DecodeError(f"Frame {frame} could not be decoded: {reason}.") from None
                lost = {error.ordinal}
            except ReadError as error:
                reason = str(error)
                if self.on_error == "raise":
                    raise
                lost = set(remaining)
            stream.position = None
            self.failed.update((index.frame_of(ordinal), reason) for ordinal in lost)
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
    ordinals = sorted(int(index.ordinal[frame]) for frame in frames)
    if stream.position == ordinals[0] and not overlaps:
        handle.recent.clear()  # those who go forward do not ask again for what lies behind
    keeps = not call.is_passing and len(frames) <= _MAX_KEPT
    keeps = keeps and handle.recent.has_room_for(len(frames), stream.reader.num_pixels)
    runs = runs_by_entry(index, ordinals) if _chooses_threads(call, stream.plan(index, ordinals)) else {}
    sizes = {entry: num_pictures(index, entry, members) for entry, members in runs.items()}
    lanes = _lanes_for(call, list(sizes.values())) if runs else [Lane(stream, handle.converter)]
    if len(lanes) == 1:
        call.decode(lanes[0], frames, keeps=keeps)
        return
    longest_first = sorted(runs, key=sizes.__getitem__, reverse=True)  # the longest must not come last
    parts = [[index.frame_of(ordinal) for ordinal in runs[entry]] for entry in longest_first]
    here = handle.converter.here()

    def decode(lane: Lane, part: list[int]) -> None:
        with here():
            call.decode(lane, part, keeps=keeps, is_left=True)

    run_in_lanes(lanes, parts, decode)


def _chooses_threads(call: Call, segments: list[Segment]) -> bool:
    """Whether threads can be divided anew: where the codec goes on, it goes on as it is."""
    is_sure = not (call.index.settled or call.index.is_authoritative)
    return call.handle.chooses_threads and is_sure and segments[0].entry is not None


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

        entry                     frame  last asked for
          k . . . . . [ . . . . . . x ]  x
                        as many as can be kept
    """
    handle, index = call.handle, call.index
    last = handle.last_single
    if last is None or not 0 < last - frame <= _STEP_BACK or index.settled or index.is_authoritative:
        return []
    first = max(entry_ordinal(index, index.entry_for(frame)), frame + 1 - handle.recent.capacity())
    return list(range(min(first, frame), frame + 1))
