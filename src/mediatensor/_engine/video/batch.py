"""Decode each wanted frame once, write it to its rows of one array, and apply the error policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...backends import PictureConverter
from ...errors import DamageWarning, DecodeError, DeviceError, ReadError, SizeChangeError
from ...frames import ReplacedFrame
from ..common import stages, threads
from ..common.locks import ForkSafeLock
from ..common.messages import counted, warn_once
from ..common.pictures import Orientation
from ..index.frame_index import FrameIndex
from ..index.holes import describe_holes
from ..pyav.exports import CELL
from ..pyav.frame_edits import Box, cover, stored_format
from ..pyav.pixels import FrameConverter, luma_of, orientation_of
from .frame_stream import FrameStream, MissingFrameError
from .handles import Handle, Worker
from .plan import Segment, num_pictures, runs_by_key_frame

ErrorPolicy = Literal["keep", "raise", "skip", "nearest"]
SizeChangePolicy = Literal["raise", "scale"]

IS_FLAGGED = "the codec flags it as damaged"

#: Number of frames before and after a failed frame that are tried as its replacement.
NEAREST_REACH = 32

# A call for more frames than this does not cache any of them, because that would allocate new memory.
_MAX_KEPT = 64

_ONE_THREAD = threads.Division(1, 1)

# A request counts as a step backwards if its frame is at most this many frames before the previous request.
_STEP_BACK = 32

# All calls share this lock. Each call holds it once, while it allocates its array.
_allocating = ForkSafeLock()


class PixelWriter:
    """Writes frames to the rows of one array, which is allocated when the first frame is written.

    If ``size`` (height, width) is given, frames of other sizes are scaled to it. Otherwise all frames must have the
    size of the first frame. ``orientation`` is used for frames that do not state their orientation; ``None`` means that
    they are upright.
    """

    def __init__(
        self, num_rows: int, size: tuple[int, int] | None = None, orientation: Orientation | None = None
    ) -> None:
        self._num_rows = num_rows
        self._scale_to = size
        self._orientation = orientation
        self._size: tuple[int, int] | None = None
        self.pixels: NDArray[Any] | Tensor | None = None

    def write(self, converter: PictureConverter, picture: Any, rows: Sequence[int], frame: int | str) -> None:
        """Convert a picture, write it to the first of ``rows``, and copy it to the rest.

        ``frame`` is the frame's number or, in approximate mode, its time as text, such as ``"at 1.5 s"``. Several
        threads can write at the same time if their rows differ. Raises `SizeChangeError` if the frame does not have the
        size of earlier frames and must not be scaled.
        """
        orientation = converter.orientation_of(picture)
        if self._orientation is not None and not orientation.turns:
            orientation = self._orientation
        try:
            size = converter.output_size(picture, orientation)
        except SizeChangeError as error:
            raise SizeChangeError(f"Frame {frame} cannot be transformed: {error}") from None
        if self._size is None:
            with _allocating:
                if self._size is None:
                    pixels_size = self._scale_to or size
                    self.pixels = converter.empty(self._num_rows, *pixels_size)
                    self._size = pixels_size
        pixels: Any = self.pixels
        if size != self._size and self._scale_to is None:
            raise self._size_change(frame, size, pixels.shape[1:3])
        first = rows[0]
        with stages.CONVERT:
            converter.write(picture, orientation, pixels[first])
            if len(rows) > 1:
                for row in rows[1:]:
                    pixels[row] = pixels[first]

    def _size_change(self, frame: int | str, size: tuple[int, int], size_before: tuple[int, int]) -> SizeChangeError:
        return SizeChangeError(
            f"Frame {frame} is {size[1]}x{size[0]} (width x height), but the frames before it are "
            f"{size_before[1]}x{size_before[0]}: the resolution of the stream changes. "
            "Pass on_size_change='scale' or transforms=[Resize(...)], or decode such frames one by one."
        )

    def start_over(self) -> None:
        self._size = self.pixels = None


class CellWriter(PixelWriter):
    """Writes the data that codecs export about the blocks of a frame; see `ExportConverter`."""

    def _size_change(self, frame: int | str, size: tuple[int, int], size_before: tuple[int, int]) -> SizeChangeError:
        return SizeChangeError(
            f"Frame {frame} has {size[1]}x{size[0]} cells of {CELL}x{CELL} pixels (width x height), but the frames "
            f"before it have {size_before[1]}x{size_before[0]}: the resolution of the stream changes. Ask for frames "
            "of one resolution at a time."
        )


@dataclass(frozen=True)
class DecodedPicture:
    """A decoded picture in CPU memory, not yet converted to RGB. While it exists, the codec cannot reuse its buffer."""

    frame: int  # the index of its frame
    decoded: Any  # PyAV's object
    _converter: PictureConverter
    pts_seconds: float = 0.0
    duration_seconds: float = 0.0

    def luma(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the luma plane (H, W), upright and read-only, scaled to ``size`` (height, width) if it is given."""
        orientation = orientation_of(self.decoded)
        stored = orientation.size(*size) if size is not None else None
        return np.ascontiguousarray(orientation.apply(luma_of(self.decoded, stored)))

    def components(self, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return luma and both chroma planes (3, H, W), scaled to ``size`` (height, width) but not turned upright."""
        return cast(FrameConverter, self._converter).components_of(self.decoded, size)

    def rgb(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the same RGB pixels (H, W, 3) as `VideoDecoder`, scaled to ``size`` (height, width) if it is given."""
        orientation = orientation_of(self.decoded)
        pixels = self._converter.empty(1, *(size or self._converter.output_size(self.decoded, orientation)))[0]
        self._converter.write(self.decoded, orientation, pixels)
        return cast("NDArray[np.uint8]", pixels)

    @property
    def orientation(self) -> Orientation:
        return orientation_of(self.decoded)

    @property
    def size(self) -> tuple[int, int]:
        """The (height, width) of the frame as it is stored, before it is turned upright."""
        return self.decoded.height, self.decoded.width

    def stored_format(self) -> dict[str, Any] | None:
        """Return the fields of `VideoSettings` for `covered` frames, or ``None`` if only `rgb` supports the format."""
        return stored_format(self.decoded)

    def covered(self, boxes: Sequence[Box], *, height: int, width: int, pixel_format: str) -> Any:
        """Return a copy of the frame in which boxes are black, for an encoder; see `stored_format`."""
        return cover(self.decoded, boxes, height=height, width=width, pixel_format=pixel_format)


class PictureWriter(PixelWriter):
    """Stores pictures as `DecodedPicture` objects in an array, without converting them."""

    def __init__(self, num_rows: int) -> None:
        super().__init__(num_rows)
        self.pixels = np.empty(num_rows, object)

    def write(self, converter: PictureConverter, picture: Any, rows: Sequence[int], frame: int | str) -> None:
        """Store a picture in each of ``rows``. ``frame`` is a number: approximate mode does not use this writer."""
        assert isinstance(frame, int)
        for row in rows:
            cast("NDArray[Any]", self.pixels)[row] = DecodedPicture(frame, picture, converter)

    def start_over(self) -> None:
        """Do nothing: the rows that have been written will all be written again."""


@dataclass(slots=True)
class DecodedRows:
    """The result of one call: a decoded frame in each row, and reports about damaged and missing frames."""

    # (N, H, W, C) in the converter's format, or objects (N,) from `PictureWriter`; ``None`` if nothing was written.
    pixels: NDArray[Any] | Tensor | None
    frames: Sequence[int]  # index of the frame in each row
    replaced: tuple[ReplacedFrame, ...] = ()
    damaged: Set[int] = frozenset()  # indices of the damaged frames


def decode_rows(
    handle: Handle,
    index: FrameIndex,
    frames: Sequence[int],
    make_writer: Callable[[int], PixelWriter],
    on_error: ErrorPolicy,
    *,
    may_bypass_writer: bool,
    is_sequential: bool,
) -> DecodedRows:
    """Decode each frame of ``frames`` once, and write it to every row that needs it. Row i is for ``frames[i]``.

    The numbers in ``frames`` must not be negative. They can be in any order, and can repeat. ``make_writer`` is called
    with the number of rows. Pass ``may_bypass_writer=True`` if the writer stores the converter's pixels unchanged, and
    the error policy neither replaces nor leaves out frames. ``is_sequential`` means that the caller reads through the
    video and will not request the same frames again.

    ``on_error`` determines when `DecodeError` is raised. A damaged frame is an error with ``"raise"``, and a missing
    frame is an error with ``"raise"`` and ``"keep"``. With ``"nearest"``, the error is raised only if no frame nearby
    can be decoded.
    """
    cache = handle.frame_cache
    cache.number_by(index)
    is_single = len(frames) == 1
    if is_single and may_bypass_writer and frames[0] < len(index.pts) and not index.may_show_damage:
        picture = _decode_single(handle, index, frames[0], keeps=not is_sequential)
        if picture is not None:
            handle.last_single = frames[0]
            converter = handle.converter
            if isinstance(converter, FrameConverter) and converter.is_uint8_without_steps:
                with stages.CONVERT:
                    pixels = converter.rgb_of(picture)
                if pixels is not None:
                    return DecodedRows(pixels[None], frames)
            writer = make_writer(1)
            writer.write(converter, picture, (0,), frames[0])
            return DecodedRows(writer.pixels, frames)
    writer = make_writer(len(frames))
    rows: dict[int, list[int]] = {}
    for row, frame in enumerate(frames):
        rows.setdefault(frame, []).append(row)
    rows = dict(sorted(rows.items()))
    wanted = list(rows)
    failed: dict[int, str] = {}
    if wanted and (index.may_show_damage or wanted[-1] >= len(index.pts)):
        failed = _known_failures(index, wanted, on_error)
        wanted = [frame for frame in wanted if frame not in failed]
    request = _Request(handle, index, rows, writer, on_error, failed)
    missing: list[int] = []
    try:
        for frame in wanted:
            picture = cache.get(frame)
            if picture is None:
                missing.append(frame)
            else:
                writer.write(handle.converter, picture, rows[frame], frame)
        if missing:
            _decode(request, missing, overlaps=len(missing) < len(wanted), is_sequential=is_sequential)
    except SizeChangeError:
        request.raise_size_change(wanted)
    handle.last_single = frames[0] if is_single else None
    if not failed:
        damaged: Set[int] = frozenset()
        if on_error == "keep" and index.may_show_damage:
            is_flagged = index.is_damaged
            damaged = request.damaged if index.is_authoritative else {frame for frame in wanted if is_flagged[frame]}
        return DecodedRows(writer.pixels, frames, damaged=damaged)
    return _apply_policy(request, frames)


def _decode_single(handle: Handle, index: FrameIndex, frame: int, *, keeps: bool) -> Any | None:
    """Decode one frame on a faster path than `_decode`; return ``None`` if this path cannot be used.

    With ``keeps``, the frame is put into the frame cache.
    """
    cache, stream = handle.frame_cache, handle.stream
    if not isinstance(stream, FrameStream):
        return cache.get(frame)
    if (picture := stream.next_picture(index, frame)) is not None:
        if keeps:
            cache.keep_only(frame, picture)  # a caller that moves forward does not ask for earlier frames
        return picture
    if (picture := cache.get(frame)) is not None:
        return picture
    last = handle.last_single
    steps_back = last is not None and 0 < last - frame <= _STEP_BACK
    if index.settled or steps_back or not stream.decodes_in_software:
        return None
    segments = stream.plan(index, (frame,))
    key_frame = segments[0].key_frame
    if key_frame is not None and handle.chooses_threads:
        is_alone = handle.num_threads() == 1
        stream.use_threads(1 if is_alone else _divide_threads(handle, index, {key_frame: [frame]}).num_codec_threads)
    ((_, picture),) = stream.run(index, segments)
    if keeps:
        cache.put(frame, picture)
    return picture


def _known_failures(index: FrameIndex, wanted: Sequence[int], on_error: ErrorPolicy) -> dict[int, str]:
    """Return the wanted frames that are missing or damaged according to the index, as a dict from frame to reason."""
    num_frames = len(index)
    reason = f"decoding showed that the stream has only {num_frames} frames"
    failed = {frame: reason for frame in wanted if frame >= num_frames}
    if failed and on_error in ("keep", "raise"):
        raise DecodeError(f"Frame {min(failed)} could not be decoded: {reason} ({'; '.join(index.anomalies)}).")
    if on_error == "keep":
        return failed
    damaged = [frame for frame in wanted if frame < num_frames and index.is_damaged[frame]]
    if damaged and on_error == "raise":
        raise damage_error(damaged[0])
    return failed | dict.fromkeys(damaged, IS_FLAGGED)


def damage_error(frame: int | str) -> DecodeError:
    """Return the error for a damaged frame; ``frame`` is its number, or its time as in `PixelWriter.write`."""
    return DecodeError(
        f"Frame {frame} is damaged: {IS_FLAGGED}. on_error='keep' gives it as it is, 'skip' and 'nearest' leave it out "
        "or put the nearest frame in its place."
    )


def warn_of_damage(name: str, index: FrameIndex | None = None) -> None:
    """Warn that the file ``name`` is damaged. Each process warns only once per file."""
    if index is None or index.is_authoritative:
        damage = ["the codec flags frames as damaged"]
    else:
        count = int(index.is_damaged.sum())
        damage = [f"the codec flags {counted(count, 'frame')} as damaged"] if count else []
        damage += describe_holes(index.holes, len(index))
    warn_once(
        f"{name} is damaged: {'; '.join(damage)}. Frames are given as the codec makes them, and is_damaged of a result "
        "says which are flagged. (on_error='raise' makes damage an error, 'skip' leaves damaged frames out, 'nearest' "
        "puts others in their place.)",
        DamageWarning,
    )


@dataclass(eq=False)
class _Request:
    """The state of one call of `decode_rows`. The threads that work on this call share it."""

    handle: Handle
    index: FrameIndex
    rows: dict[int, list[int]]  # of each wanted frame
    writer: PixelWriter
    on_error: ErrorPolicy
    failed: dict[int, str]  # frames known to be undecodable, each with the reason; decoding adds more
    # Frames that the codec flags as damaged. Used only with a user's table, because other indexes record these flags.
    damaged: set[int] = field(default_factory=set)

    def decode(
        self,
        worker: Worker,
        places: Sequence[int],
        rows: dict[int, list[int]],
        segments: list[Segment] | None = None,
        *,
        keeps: bool = False,
        drains: bool = False,
    ) -> None:
        """Decode the frames ``places`` (ascending), and write each frame that is a key of ``rows`` to its rows.

        A frame that cannot be decoded raises an error or is added to ``failed``, as the error policy requires.
        ``segments`` is the plan for decoding; if it is ``None``, this method makes the plan. With ``keeps``, the frames
        are put into the frame cache. With ``drains``, the codec is drained after the last frame.
        """
        index, stream = self.index, worker.stream
        remaining = set(places)
        while remaining:
            if segments is None:
                segments = stream.plan(index, sorted(remaining), drains=drains)
            try:
                for frame, picture in stream.run(index, segments):
                    remaining.remove(frame)
                    is_flagged = index.is_authoritative and picture.is_corrupt
                    if frame in rows and (not is_flagged or self._keep_flagged(frame)):
                        self.writer.write(worker.converter, picture, rows[frame], frame)
                    if keeps and stream.may_keep and not is_flagged:
                        self.handle.frame_cache.put(frame, picture)
                    del picture  # release the codec's buffer before the next picture is decoded
                return
            except MissingFrameError as error:
                remaining.remove(error.place)
                self._note_missing(stream, error.place)
            except ReadError as error:
                if self.on_error in ("keep", "raise") or not stream.reader.is_open:
                    raise
                self.failed.update((frame, str(error)) for frame in remaining)
                remaining.clear()
            stream.position = segments = None

    def _note_missing(self, stream: FrameStream, frame: int) -> None:
        reason = "it does not come out of the codec"
        if not stream.decodes_in_software:
            raise DeviceError(f"Frame {frame} does not come out of the device's decoder.")
        if self.on_error in ("keep", "raise"):
            raise DecodeError(f"Frame {frame} could not be decoded: {reason}.")
        self.failed[frame] = reason

    def _keep_flagged(self, frame: int) -> bool:
        """Apply the error policy to a frame that the codec flags as damaged. Return whether to write the frame."""
        if self.on_error == "raise":
            raise damage_error(frame)
        if self.on_error == "keep":
            self.damaged.add(frame)
            return True
        self.failed[frame] = IS_FLAGGED
        return False

    def raise_size_change(self, frames: list[int]) -> None:
        """Decode ``frames`` again in order, so that `SizeChangeError` names the first frame with a different size."""
        self.handle.frame_cache.clear()
        self.writer.start_over()
        self.decode(self.handle.worker, frames, self.rows)

    def write_nearest(self, frame: int) -> int:
        """Fill the rows of ``frame`` with the nearest frame that can be decoded; return the number of that frame.

        If two frames are equally near, the earlier one is used.
        """
        rows = self.rows[frame]
        for distance in range(1, NEAREST_REACH + 1):
            for other in (frame - distance, frame + distance):
                if not 0 <= other < len(self.index) or other in self.failed or self.index.is_damaged[other]:
                    continue
                picture = self.handle.frame_cache.get(other)
                if picture is not None:
                    self.writer.write(self.handle.converter, picture, rows, other)
                else:
                    self.decode(self.handle.worker, [other], {other: rows})
                if other not in self.failed:
                    return other
        raise DecodeError(
            f"Frame {frame} could not be decoded ({self.failed[frame]}), nor any of the {NEAREST_REACH} frames to "
            "either side."
        )


def _decode(request: _Request, frames: list[int], *, overlaps: bool, is_sequential: bool) -> None:
    """Decode ascending frames that are not in the frame cache.

    The threads are divided in the way that is expected to be fastest. ``overlaps`` means that other frames of the same
    call were in the cache.
    """
    handle, index = request.handle, request.index
    worker = handle.worker
    stream = worker.stream
    if len(frames) == 1 and (window := _window_before(handle, index, frames[0])):
        request.decode(worker, window, request.rows, keeps=True, drains=True)
        return
    segments = stream.plan(index, frames)
    if stream.position == frames[0] and not overlaps:
        handle.frame_cache.clear()  # a caller that moves forward does not ask for earlier frames
    fits = len(frames) <= _MAX_KEPT and handle.frame_cache.can_hold(len(frames), stream.reader.num_pixels)
    keeps = not is_sequential and (len(frames) == 1 or fits)
    # Do not change the threads if decoding continues where it stopped, or if frames are compared with a linear decode.
    if segments[0].key_frame is None or not handle.chooses_threads or index.settled or index.is_authoritative:
        request.decode(worker, frames, request.rows, segments, keeps=keeps)
        return
    runs = runs_by_key_frame(index, frames)
    division = _divide_threads(handle, index, runs)
    if division.num_workers == 1:
        stream.use_threads(division.num_codec_threads)
    workers = handle.workers(division.num_workers) if division.num_workers > 1 else [worker]
    if len(workers) == 1:
        request.decode(worker, frames, request.rows, segments, keeps=keeps)
        return
    # Start the longest runs first. A long run that starts last would delay the end of the call.
    longest_first = sorted(runs.items(), key=lambda run: num_pictures(index, *run), reverse=True)
    on_device = handle.converter.here()

    def decode(worker: Worker, part: list[int]) -> None:
        with on_device():
            request.decode(worker, part, request.rows, keeps=keeps, drains=True)

    threads.run_in_parallel(workers, [members for _, members in longest_first], decode)


def _divide_threads(handle: Handle, index: FrameIndex, runs: dict[int, list[int]]) -> threads.Division:
    """Divide the threads of a call among runs of frames that can be decoded independently; see `runs_by_key_frame`."""
    num_threads = handle.num_threads()
    if num_threads == 1:
        return _ONE_THREAD
    stream = handle.worker.stream
    return threads.divide_threads(
        [num_pictures(index, key_frame, members) for key_frame, members in runs.items()],
        stream.reader.num_pixels,
        num_threads=num_threads,
        num_codec_threads=stream.num_codec_threads,
        num_open_workers=handle.num_open_workers,
        codec_has_threads=stream.reader.codec_has_threads,
    )


def _window_before(handle: Handle, index: FrameIndex, frame: int) -> Sequence[int]:
    """Return the frames to decode and cache if the caller steps backwards from its previous request.

    These are the wanted frame and the earlier frames of its group of pictures, which the caller probably requests
    next::

        key frame                 frame  previous request
          k . . . . . [ . . . . . . x ]  x
                      as many frames as the cache holds

    If the caller does not step backwards, the result is empty.
    """
    last = handle.last_single
    if last is None or not 0 < last - frame <= _STEP_BACK:
        return ()
    if index.settled or index.is_authoritative:
        return ()
    first = max(index.first_frame_from(index.key_frame_for(frame)), frame + 1 - handle.frame_cache.capacity())
    return range(min(first, frame), frame + 1)


def _apply_policy(request: _Request, frames: Sequence[int]) -> DecodedRows:
    """Replace the frames that failed, or leave them out, and report them."""
    failed = request.failed
    used = [None if frame in failed else frame for frame in frames]
    if request.on_error == "nearest":
        for frame in [frame for frame in request.rows if frame in failed]:
            nearest = request.write_nearest(frame)
            for row in request.rows[frame]:
                used[row] = nearest
    replaced = tuple(
        ReplacedFrame(frame, failed[frame], row, used[row]) for row, frame in enumerate(frames) if frame in failed
    )
    pixels, kept = request.writer.pixels, [row for row, frame in enumerate(used) if frame is not None]
    if pixels is not None and len(kept) < len(frames):
        pixels = pixels[kept]
    return DecodedRows(pixels, [frame for frame in used if frame is not None], replaced)
