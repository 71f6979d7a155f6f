"""Define `FrameIndex`: a list of the frames of a stream in the order of a linear decode, and of its key frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ...errors import FrameIndexError, InvalidArgumentError
from ..common import checks
from ..common.checks import is_tensor
from ..common.locks import cached_property
from ..common.messages import counted
from ..containers.sample_tables import NO_PTS, Int8Array, Int64Array
from .frame_clock import FrameClock, frame_clock, seconds_of
from .holes import FrameHole
from .index_file import SourceIdentity, load_index, save_index

if TYPE_CHECKING:
    from torch import Tensor

#: Largest number of packets that are fed between a frame's own packet and the frame's output. H.264 and HEVC reorder up
#: to 16 frames (A.3.1), and a frame may consist of two packets with one field each.
MAX_DELAY_PACKETS = 32


def _no_numbers() -> Int64Array:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """Lists the frames of a stream with their times and durations, and shows which are key frames.

    Frames are in presentation order, as a decoder returns them when it decodes the stream from start to end. N stands
    for the number of frames, ``len(index)``.

    ``VideoDecoder.frame_index`` returns an index, and `save` writes it to a file. ``VideoDecoder(source,
    frame_index=...)`` uses an index, so that opening need not read the whole stream. An index can be pickled.

    Attributes:
        time_base: Length of a tick in seconds, as a `Fraction`. Ticks are the unit of ``pts`` and ``duration``.
        pts: Presentation times in ticks, int64 numpy array (N,), never decreasing.
        duration: Durations in ticks, int64 numpy array (N,).
        is_damaged: For each frame, whether the codec flagged it as damaged, bool numpy array (N,). All values are false
            if ``settled`` is false.
        settled: Whether the index was made by decoding the stream instead of only reading its packets. The stream is
            decoded if its packets do not show which frames it has.
        anomalies: Tuple of short texts, each of which describes an irregularity of the stream.
        holes: Tuple of `FrameHole` objects, the spans of the stream in which frames are missing.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> index = VideoDecoder("video.mp4").frame_index
        >>> len(index), index.end_seconds
        (300, 10.0)
        >>> index.gop_start_indices, index.gop_lengths
        (tensor([  0,  48,  96, 144, 192, 240, 288]), tensor([48, 48, 48, 48, 48, 48, 12]))
    """

    time_base: Fraction
    pts: Int64Array
    duration: Int64Array
    # Fields that the docstring does not list are internal, and may change.
    #: Whether decoding can start at the frame.
    is_key: NDArray[np.bool_]
    is_damaged: NDArray[np.bool_]
    #: Number of the frame's packet in decode order; -1 if unknown.
    packet: Int64Array
    #: Whether the frame is unneeded by all other frames, as a `Disposable`. An unknown value is filled in when the
    #: packet is read; every reader finds the same value.
    disposable: Int8Array
    #: Numbers of the packets at which decoding can start, ascending: key frames, and always the first packet.
    key_frame_packet: Int64Array
    key_frame_pts: Int64Array
    key_frame_dts: Int64Array
    key_frame_position: Int64Array
    #: Bytes of the stream's packets from each key frame up to the next one; -1 if unknown.
    key_frame_bytes: Int64Array
    settled: bool = False
    #: CRC-32 of each frame's planes; only in an index made by decoding.
    fingerprint: NDArray[np.uint32] | None = None
    #: The pts that the codec reported for the frame, or `NO_PTS`; only in an index made by decoding.
    codec_pts: Int64Array | None = None
    #: Number of packets that a linear decode feeds before the frame comes out; only in an index made by decoding.
    num_packets: Int64Array | None = None
    #: Whether reading fails after the last packet, before the end of the stream.
    is_cut_short: bool = False
    #: Whether the index comes from a user's table, which is used without checking it against packets.
    is_authoritative: bool = False
    #: Where frames are missing, see `holes`; only in an index made by decoding.
    hole_frame: Int64Array = field(default_factory=_no_numbers)
    hole_pts: Int64Array = field(default_factory=_no_numbers)
    hole_end_pts: Int64Array = field(default_factory=_no_numbers)
    hole_num_packets: Int64Array = field(default_factory=_no_numbers)
    anomalies: tuple[str, ...] = ()
    #: Identity of the source; ``None`` as long as it is not needed.
    made_from: SourceIdentity | None = None

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.pts)

    def __repr__(self) -> str:
        return (
            f"FrameIndex({counted(len(self), 'frame')}, {counted(int(self.is_key.sum()), 'key frame')}, "
            f"{self.begin_seconds:.3f} to {self.end_seconds:.3f} s{', settled' if self.settled else ''})"
        )

    def _seconds(self, ticks: Int64Array) -> NDArray[np.float64]:
        return seconds_of(ticks, self.time_base)

    @cached_property
    def _pts_seconds(self) -> NDArray[np.float64]:
        return self._seconds(self.pts)

    @cached_property
    def _key_frame_places(self) -> Int64Array:
        """For each key frame: its frame index if the index was made by decoding, otherwise its pts.

        If the frame index of a key frame is unknown, it is the index of a frame that the codec certainly returns later.
        """
        if not self.settled:
            return self.key_frame_pts
        if len(self) == 0 or self.num_packets is None:
            return np.zeros(len(self.key_frame_packet), np.int64)
        by_packet, numbers = self._packet_order
        at = np.searchsorted(numbers, self.key_frame_packet).clip(max=len(self) - 1)
        later = np.searchsorted(self.num_packets, self.key_frame_packet + MAX_DELAY_PACKETS)
        places = np.where(numbers[at] == self.key_frame_packet, by_packet[at], later)
        places[self.key_frame_packet == 0] = 0  # from the first packet on, everything can be decoded
        return places

    @cached_property
    def _key_frames_ascend(self) -> bool:
        return bool((self._key_frame_places[1:] >= self._key_frame_places[:-1]).all())

    # Damage

    @cached_property
    def may_show_damage(self) -> bool:
        """Whether frames may be damaged or missing. A user's table does not record damage."""
        return len(self.hole_frame) > 0 or self.is_authoritative or bool(self.is_damaged.any())

    @property
    def holes(self) -> tuple[FrameHole, ...]:
        """Spans of the stream in which the codec returned no frames for the packets, in ascending order.

        If ``settled`` is false, holes are unknown, and the tuple is empty.
        """
        begins, ends = self._seconds(self.hole_pts).tolist(), self._seconds(self.hole_end_pts).tolist()
        return tuple(map(FrameHole, self.hole_frame.tolist(), begins, ends, self.hole_num_packets.tolist()))

    # Times

    @property
    def pts_seconds(self) -> Tensor:
        """Presentation time of each frame in seconds, float64 tensor (N,)."""
        return _tensor(self._pts_seconds.copy())

    @property
    def duration_seconds(self) -> Tensor:
        """Duration of each frame in seconds, float64 tensor (N,)."""
        return _tensor(self._seconds(self.duration))

    @property
    def begin_seconds(self) -> float:
        """Time in seconds at which the first frame starts; 0 if there are no frames."""
        return float(self._pts_seconds[0]) if len(self) else 0.0

    @property
    def end_seconds(self) -> float:
        """Time in seconds at which the last frame ends; 0 if there are no frames."""
        return float(self._seconds((self.pts + self.duration).max(keepdims=True))[0]) if len(self) else 0.0

    @property
    def average_fps(self) -> float | None:
        """Frames per second: ``len(index) / (end_seconds - begin_seconds)``; ``None`` if this duration is 0."""
        seconds = self.end_seconds - self.begin_seconds
        return len(self) / seconds if seconds > 0 else None

    def frame_played_at(self, seconds: float) -> int:
        """Return the index of the frame shown at a time: the last frame that starts at or before this time.

        If the time is in a gap between two frames, the result is the frame before the gap.

        Args:
            seconds: Time in seconds, in [begin_seconds, end_seconds).

        Raises:
            OutOfRangeError: if the time is outside this range.
            InvalidArgumentError: if the time is not a number.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.frame_played_at(1.5)
            45
        """
        return int(self.frames_played_at(checks.one_time(seconds))[0])

    def frames_played_at(self, seconds: Tensor | Sequence[float] | NDArray[Any]) -> Tensor:
        """Return the index of the frame shown at each of several times; see `frame_played_at`.

        Args:
            seconds: Times in seconds, in [begin_seconds, end_seconds), in any order: a list, an array or a tensor.

        Returns:
            Frame indices in the order of ``seconds``, int64 tensor (number of times,).

        Raises:
            OutOfRangeError: if a time is outside this range.
            InvalidArgumentError: if the times are not numbers.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.frames_played_at([0.0, 1.51])
            tensor([ 0, 45])
        """
        times = checks.seconds_of(seconds)
        checks.check_seconds(times, self.begin_seconds, self.end_seconds)
        return _tensor(self.played_at(times))

    # Attributes of metadata objects, so that an index can be used in their place

    @property
    def num_frames_from_content(self) -> int:
        """Number of frames, ``len(index)``. Metadata objects have an attribute of the same name."""
        return len(self)

    begin_stream_seconds_from_content = begin_seconds
    end_stream_seconds_from_content = end_seconds
    average_fps_from_content = average_fps

    @overload
    def index_at(self, seconds: float) -> int: ...
    @overload
    def index_at(self, seconds: Tensor) -> Tensor: ...
    def index_at(self, seconds: float | Tensor) -> int | Tensor:
        """Return the index of the frame that is shown at a time: the first frame whose end is later than ``seconds``.

        For a time before the stream, the result is the first frame; for a time after its end, the last frame. For a
        time in a gap between two frames, the result is the frame after the gap, unlike in `frame_played_at`.

        Args:
            seconds: A time in seconds, or a tensor of times.

        Returns:
            An int, or an int64 tensor with the shape of ``seconds``.

        Raises:
            InvalidArgumentError: if ``seconds`` is not a number or a tensor, a time is NaN, or the stream has no frame.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> index = VideoDecoder("video.mp4").frame_index
            >>> index.index_at(1.51), index.index_at(99.0)
            (45, 299)
        """
        self._check_has_frames()
        ends = np.maximum.accumulate(self._seconds(self.pts + self.duration))
        times = checks.seconds_of(seconds if is_tensor(seconds) else [checks.real_number("seconds", seconds)])
        checks.check_no_nan(times)
        found = np.minimum(np.searchsorted(ends, checks.latest(times), side="right"), len(self) - 1)
        return _tensor(found.astype(np.int64)).reshape(seconds.shape) if is_tensor(seconds) else int(found[0])

    def key_frame_seconds_for(self, seconds: float | Tensor) -> float:
        """Return the time to seek to with `Demuxer.seek` before decoding the frame at ``seconds``.

        Args:
            seconds: A time in seconds, as a number or a tensor with one value.

        Returns:
            Time in seconds of the last key frame at or before ``seconds``. If there is no such key frame, the time of
            the first frame.

        Raises:
            InvalidArgumentError: if ``seconds`` is not a number, or is NaN, or the index has no frame.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.key_frame_seconds_for(2.0)
            1.6
        """
        self._check_has_frames()
        times = self._pts_seconds[self.is_key]
        time = np.array([checks.real_number("seconds", seconds)])
        checks.check_no_nan(time)
        before = int(np.searchsorted(times, checks.latest(time), side="right")[0]) - 1
        return float(times[before] if before >= 0 else self._pts_seconds[0])

    def _check_has_frames(self) -> None:
        if not len(self):
            raise InvalidArgumentError("The index has no frames, so that none is shown at any time.")

    # Key frames and GOPs

    @property
    def is_key_frame(self) -> Tensor:
        """For each frame, whether decoding can start at this frame, bool tensor (N,)."""
        return _tensor(self.is_key.copy())

    @property
    def key_frame_indices(self) -> Tensor:
        """Frame indices of the K key frames, int64 tensor (K,)."""
        return _tensor(np.flatnonzero(self.is_key))

    @property
    def gop_start_indices(self) -> Tensor:
        """Index of the first frame of each of the G GOPs (groups of pictures), int64 tensor (G,).

        A GOP consists of a key frame and the frames shown after it, up to the next key frame. Frames shown before the
        first key frame also form a GOP. The key frame of this GOP is missing, or an edit list hides it.
        """
        return _tensor(self._gop_starts())

    @property
    def gop_lengths(self) -> Tensor:
        """Number of frames in each GOP (see `gop_start_indices`), int64 tensor (G,). The sum is ``len(index)``."""
        return _tensor(np.diff(self._gop_starts(), append=len(self)))

    @property
    def gop_bytes(self) -> Tensor:
        """Size of each GOP (see `gop_start_indices`) in bytes, int64 tensor (G,).

        The size is the sum over all packets from the GOP's key frame up to the next key frame in the file. In an open
        GOP, a packet can follow a key frame in the file although its frame is shown before the key frame. Such a packet
        counts for the GOP of that key frame. Packets that are not shown also count, so the sum of all values is the
        size of the stream. All values are -1 if packet sizes are unknown, as with ``custom_frame_mappings`` of
        `VideoDecoder`.
        """
        num_gops = len(self._gop_starts())
        if (self.key_frame_bytes < 0).any():
            return _tensor(np.full(num_gops, -1))
        total = np.zeros(num_gops, np.int64)
        np.add.at(total, self._gops_of_key_frames(), self.key_frame_bytes)
        return _tensor(total)

    def _gop_starts(self) -> Int64Array:
        return np.union1d(np.arange(min(1, len(self))), np.flatnonzero(self.is_key)).astype(np.int64)

    def _gops_of_key_frames(self) -> Int64Array:
        """Return the number of the GOP to which each key frame belongs.

        If the packet of a key frame gave no frame, this is the GOP of the frame that is shown in its place.
        """
        if len(self) == 0:
            return np.zeros(0, np.int64)
        by_packet, numbers = self._packet_order
        at = np.searchsorted(numbers, self.key_frame_packet).clip(max=len(self) - 1)
        has_frame = (numbers[at] == self.key_frame_packet) & (self.key_frame_packet >= 0)
        if self.num_packets is None:
            shown_then = np.searchsorted(self.pts, self.key_frame_pts, side="right") - 1
            is_placed = has_frame | (self.key_frame_pts != NO_PTS)
        else:
            shown_then = np.searchsorted(self.num_packets, self.key_frame_packet, side="right")
            is_placed = np.ones(len(has_frame), bool)
        frames = np.where(has_frame, by_packet[at], shown_then)
        gops = np.maximum(np.searchsorted(self._gop_starts(), frames, side="right") - 1, 0).astype(np.int64)
        # If neither the frame nor the time of a key frame is known, use the GOP of the previous key frame in the file.
        placed: Int64Array = gops[np.maximum.accumulate(np.where(is_placed, np.arange(len(gops)), 0))]
        return placed

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, so that later decoders of the same video need not make it again.

        The write is atomic: if it is interrupted, an earlier file at ``path`` stays intact. The file takes a few bytes
        per frame. The index belongs to a video with this size and content, not to its name, so it also fits moved and
        copied videos.

        Args:
            path: File to write. An existing file is replaced.

        Raises:
            FrameIndexError: if the file cannot be written.
            SourceTypeError: if ``path`` is not a path.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.save("video.index")
            >>> decoder = VideoDecoder("video.mp4", frame_index="video.index")
        """
        save_index({column.name: getattr(self, column.name) for column in fields(self) if column.init}, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FrameIndex:
        """Read an index that `save` wrote. The file is validated, so loading an untrusted file is safe.

        Args:
            path: File to read.

        Returns:
            The saved index.

        Raises:
            FrameIndexError: if the file is missing, damaged, not a saved index, or of an unknown version.
            SourceTypeError: if ``path`` is not a path.

        Example:
            >>> from mediatensor.decoders import FrameIndex, VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.save("video.index")
            >>> len(FrameIndex.load("video.index"))
            300
        """
        return cls(**load_index(path))

    # Methods for planning and decoding, which do not check their arguments

    def times_of(self, frames: Int64Array) -> tuple[Tensor, Tensor]:
        """Return the start times and the durations of frames in seconds, as a pair of float64 tensors.

        Args:
            frames: Frame indices, as an int64 array or a list. They are not checked.

        Example:
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.times_of([30])
            (tensor([1.], dtype=torch.float64), tensor([0.0333], dtype=torch.float64))
        """
        return _tensor(self._pts_seconds[frames]), _tensor(self._seconds(self.duration[frames]))

    def played_at(self, seconds: NDArray[np.float64]) -> Int64Array:
        """Return for each time the index of the frame shown then: the last frame that starts at or before the time.

        For a time in a gap between two frames, this is the frame before the gap. For a time before the first frame, it
        is the first frame.

        Args:
            seconds: Times in seconds, as a float64 array (N,). They are not checked.

        Returns:
            Frame indices, int64 array (N,).

        ::

            frames   |--0--|--1--|     |--2--|
            t           0     1    1      2

        Example:
            >>> import numpy as np
            >>> from mediatensor.decoders import VideoDecoder
            >>> VideoDecoder("video.mp4").frame_index.played_at(np.array([1.01]))
            array([30])
        """
        started = np.searchsorted(self._pts_seconds, checks.latest(seconds), side="right")
        return np.maximum(started.astype(np.int64) - 1, 0)

    @cached_property
    def _clock(self) -> FrameClock:
        return frame_clock(self.pts, self.time_base)

    @cached_property
    def _frame_by_packet(self) -> NDArray[np.int32]:
        frames, numbers = self._packet_order
        by_packet = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int32)
        is_known = numbers >= 0
        by_packet[numbers[is_known]] = frames[is_known]
        return by_packet

    @cached_property
    def _packet_order(self) -> tuple[Int64Array, Int64Array]:
        """Frame indices in the order of their packets, and the packet number of each of these frames."""
        order = np.argsort(self.packet, kind="stable")
        return order, self.packet[order]

    @cached_property
    def _time_base_terms(self) -> tuple[int, int]:
        return self.time_base.numerator, self.time_base.denominator

    def __getstate__(self) -> dict[str, Any]:
        # Leave out cached properties. Workers can compute them.
        return {column.name: getattr(self, column.name) for column in fields(self)}

    @cached_property
    def follows_file(self) -> bool:
        """For an index made from packets: whether frames have the order of packets, and are not all key frames."""
        return bool((self.packet[1:] > self.packet[:-1]).all()) and len(self.key_frame_packet) < len(self)

    @cached_property
    def times_restart(self) -> bool:
        """Whether a key frame has an earlier time than its predecessor in the file, so that seeks by time can fail."""
        return bool((self.key_frame_pts[1:] < self.key_frame_pts[:-1]).any())

    def first_frame_from(self, key_frame: int) -> int:
        """Return the index of the first frame that comes out when decoding starts at a key frame: the key frame itself.

        ``key_frame`` is the number of the key frame among all key frames, starting at 0.
        """
        place = int(self._key_frame_places[key_frame])
        return min(place if self.settled else int(self.pts.searchsorted(place)), len(self.pts) - 1)

    def key_frame_for(self, frame: int) -> int:
        """Return the number of the key frame at which decoding must start to get the frame with the index ``frame``.

        The number counts only key frames, starting at 0. Decoding must start at the last key frame that is at or before
        the frame, both in the file and in time.
        """
        packet = int(self.packet[frame])
        if packet < 0:
            # The packet was fed at most this many packets earlier than the frame came out.
            packet = np.iinfo(np.int64).max
            if self.num_packets is not None:
                packet = int(self.num_packets[frame]) - MAX_DELAY_PACKETS
        place = frame if self.settled else self.pts[frame]
        if not self._key_frames_ascend:
            possible = np.flatnonzero((self._key_frame_places <= place) & (self.key_frame_packet <= packet))
            return int(possible[-1]) if len(possible) else 0
        key_frame = int(self._key_frame_places.searchsorted(place, side="right")) - 1
        while key_frame > 0 and self.key_frame_packet[key_frame] > packet:
            key_frame -= 1
        return max(0, key_frame)


# Other modules read private members of an index through these functions.


def clock_of_index(index: FrameIndex) -> FrameClock:
    return index._clock


def start_times(index: FrameIndex) -> NDArray[np.float64]:
    """Return the start time of each frame in seconds. The array is shared, so do not write to it."""
    return index._pts_seconds


def frame_by_packet(index: FrameIndex) -> NDArray[np.int32]:
    """Return the frame index of each packet: element ``number`` is the frame of the packet with this number, or -1."""
    return index._frame_by_packet


def played_in_range(index: FrameIndex, start_seconds: float, stop_seconds: float) -> range:
    """Return the frames shown in [start_seconds, stop_seconds). The first one can start before start_seconds."""
    first = int(index.played_at(np.array([start_seconds]))[0])
    if start_seconds == stop_seconds:
        return range(first, first)
    stop = int(np.searchsorted(index._pts_seconds, stop_seconds - checks.TIME_TOLERANCE))
    return range(first, max(stop, first + 1))


def note_source(index: FrameIndex, source: SourceIdentity) -> None:
    object.__setattr__(index, "made_from", source)


def check_index_belongs(index: FrameIndex, source: SourceIdentity, time_base: Fraction, name: str) -> None:
    """Raise `FrameIndexError` unless an index was made from this source, which the message calls ``name``."""
    if not len(index):
        raise FrameIndexError(f"The frame index for {name} has no frames. Pass another one, or none to have it made.")
    if index.made_from is None:
        differences = ["its source, which is not known,"]
    else:
        differences = index.made_from.differences(source, is_decoded=index.settled)
    if index.time_base != time_base:
        differences.append(f"the time base ({index.time_base}, not {time_base})")
    if differences:
        raise FrameIndexError(
            f"The frame index does not belong to {name}, stream {source.stream_index}: {', '.join(differences)} "
            "differ. Pass the index of this file and stream, or none."
        )


def key_frames_for(index: FrameIndex, frames: Sequence[int]) -> list[int]:
    """Return `FrameIndex.key_frame_for` of each frame."""
    numbers = np.asarray(frames, np.int64)
    packets = index.packet[numbers]
    if index.settled or not index._key_frames_ascend or (packets < 0).any():
        return [index.key_frame_for(frame) for frame in frames]
    found = (index._key_frame_places.searchsorted(index.pts[numbers], side="right") - 1).clip(min=0)
    for place in np.flatnonzero(index.key_frame_packet[found] > packets).tolist():
        found[place] = index.key_frame_for(frames[place])
    return found.tolist()  # type: ignore[no-any-return]


def frame_times(index: FrameIndex, frame: int) -> tuple[float, float]:
    """Return the time and the duration of one frame in seconds; for several frames, see `FrameIndex.times_of`."""
    numerator, denominator = index._time_base_terms
    return index._pts_seconds.item(frame), index.duration.item(frame) * numerator / denominator


def _tensor(values: NDArray[Any]) -> Tensor:
    from torch import from_numpy

    return from_numpy(values)
