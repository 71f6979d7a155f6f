"""Running a plan: seek, feed packets, drain, and hand out exactly the frames that were asked for.

The index says which frames must come out, and every frame that does is checked against it::

    index from packets   frame by frame, the pts must be the next one of the index; if not, `IndexMismatchError`
    made by decoding     the frame's pts and fingerprint must be those of a frame of the linear decode
    the user's table     the frame's pts must be in the table; others are dropped

A frame's place is its index: its number in the order in which a linear decode gives frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...errors import DeviceError
from ..bitstreams.content import (
    CODECS_OF_FRAMES_ONLY,
    BreakDetector,
    break_detector,
    content_parser,
    disposable_parser,
    slices_are_intact,
)
from ..bitstreams.h264 import H264Parser
from ..bitstreams.order import order_guard
from ..bitstreams.units import Disposable, PacketContent
from ..common import stages
from ..containers.packet_table import NO_PTS
from ..index.frame_index import MAX_DELAY_PACKETS, FrameIndex
from ..index.header_table import may_leave_packets_unread
from ..pyav.pixels import fingerprint
from ..pyav.reading import UndecodablePacketError, VideoReader, is_key_frame
from .plan import Segment, byte_range, make_plan
from .seeking import KeyFramePackets

__all__ = ["FrameStream", "IndexMismatchError", "MissingFrameError"]

# A segment that leaves out no picture.
_FED_WHOLE = Segment(None, (-1,), False)

_UNKNOWN, _YES = int(Disposable.UNKNOWN), int(Disposable.YES)


class IndexMismatchError(Exception):
    """What came out of the codec is not what the packets promised."""


class DamagedPacketError(IndexMismatchError):
    """Packets show themselves that they are damaged, or that others are missing: decoding otherwise will not help."""


class MissingFrameError(Exception):
    """A frame did not come out of the codec; carries its place in the codec's order."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class FrameStream:
    """A reader and the state of its codec: which frame comes out next.

    Args:
        reader: Stands at the beginning.
        num_threads: Threads of its codec.
        decodes_in_software: Whether FFmpeg's own decoder decodes, and not that of a device.
    """

    def __init__(self, reader: VideoReader, num_threads: int, *, decodes_in_software: bool = True) -> None:
        self.reader = reader
        self.decodes_in_software = decodes_in_software
        #: Place of the frame that comes out next; ``None`` before the first start and after a failure.
        self.position: int | None = None
        #: Whether the frame that was handed out last may be held while the next ones are decoded.
        self.may_keep = True
        self._num_threads = num_threads
        self._packets = KeyFramePackets(reader)
        # What the codec has given, and what it got
        self._frames: list[Any] = []
        self._is_at_end = False
        self._num_fed = 0
        self._started_at_pts = NO_PTS
        # What the packets of the codec say
        self._codec = reader.stream_info().codec
        self._is_disposable: Callable[[memoryview], Disposable] | None = None
        self._h264: H264Parser | None = None
        self._breaks: BreakDetector | None = None
        self._order: BreakDetector | None = None
        # The segment, and what it left out
        self._segment = Segment(None, (), False)
        self._not_fed: set[int] = set()
        self._left_out: set[int] = set()
        self._has_left_out = False
        self._leaves_out = True
        self._is_drained_early = False
        self._num_starts = 0
        #: Whether frames are identified by counting them from the beginning of the stream. Where data is missing, some
        #: codecs leave in a picture what was in its memory, which depends on the pictures that are held. A linear
        #: decode holds none but the last.
        self._counts_frames = False
        self._last_frame: Any = None
        # The index
        self._index: FrameIndex | None = None
        self._is_promised = self._has_unproven_order = False
        self._places_by_identity: dict[tuple[int, int], list[int]] = {}
        # With an index made by decoding: no frame before this place comes out from where decoding has started.
        self._earliest_place = 0
        self._useless_key_frames: set[int] = set()

    # What batches need

    def plan(self, index: FrameIndex, places: Sequence[int], *, drains: bool = False) -> list[Segment]:
        """How frames are decoded from where the codec stands.

        Args:
            index: The frames of the stream.
            places: Ascending, without duplicates.
            drains: Whether to drain the codec after the last one.
        """
        if index is not self._index:
            self._use(index)
        if len(places) == 1 and places[0] == self.position:
            return [Segment(None, (places[0],), drains)]
        max_skipped = self.reader.reorder_depth + max(0, self._num_threads - 1)
        return make_plan(index, places, self.position, max_skipped, drains=drains)

    def run(self, index: FrameIndex, segments: Iterable[Segment]) -> Iterator[tuple[int, Any]]:
        """The frames of a plan as (place, frame), each before the next one is decoded.

        Raises:
            IndexMismatchError: if an index made from packets turns out not to hold.
            DeviceError: the same of a device's decoder: only a software decoder can confirm it.
            MissingFrameError: if a frame of an index made by decoding, or of the user's table, does not come out.
            ReadError: if the source cannot be read.
        """
        for segment in segments:
            wanted = set(segment.places)
            self._begin(index, segment, wanted)
            while wanted:
                mismatch = None
                try:
                    take_next = self._next_promised if self._is_promised else self._next_identified
                    found = take_next(index, wanted)
                except IndexMismatchError as error:
                    found, mismatch = None, error
                if found is not None:
                    self.may_keep = not (self._counts_frames and wanted)
                    yield found
                    del found  # else the picture would be held while the next one is decoded
                elif not self._start_elsewhere(index, segment, wanted, mismatch):
                    self.position = None
                    raise MissingFrameError(min(wanted))
            self.may_keep, self._last_frame = True, None
            if self._is_at_end:
                self.position = None

    def next_frame(self, index: FrameIndex, place: int) -> Any | None:
        """The frame of a place if it is the next to come out; this is what `run` gives, in fewer steps.

        ``None`` where `run` has to see to it: the codec stands elsewhere, or what comes out is not what the packets
        promise.
        """
        if self.position != place or index is not self._index or not self._is_promised:
            return None
        self._segment, self._not_fed, self._counts_frames = _FED_WHOLE, set(), False
        try:
            return self._next_promised(index, {place})[1]
        except IndexMismatchError:
            self.position = None
            return None

    def use_threads(self, num_threads: int) -> None:
        """Decode with another number of codec threads from now on."""
        if num_threads == self._num_threads or not self.reader.is_strict:
            return  # a lenient codec has one thread, because concealment depends on that
        self._num_threads = num_threads
        if self.reader.use_threads(num_threads):
            self.reset()

    @property
    def num_codec_threads(self) -> int | None:
        """Threads of the codec, ``None`` if none is open."""
        return self._num_threads if self.reader.is_codec_open else None

    def reset(self) -> None:
        """Forget where the codec stands, because somebody else reads from the reader."""
        self.position = None
        self._frames = []

    # Where to start, and where else

    def _use(self, index: FrameIndex) -> None:
        self._index = index
        self._is_promised = not (index.settled or index.is_authoritative)
        # Headers with times that may be those of decoding: nobody has looked at the order of the pictures.
        self._has_unproven_order = (
            self._is_promised
            and self.reader.reorder_depth > 0
            and index.follows_file
            and may_leave_packets_unread(self.reader)
        )
        self.position = None
        self._places_by_identity = _places_by_identity(index)
        self._useless_key_frames = set()
        self._leaves_out = True
        if self.decodes_in_software:
            if not self._is_promised:
                self.reader.decode_leniently()
        elif index.settled:
            raise DeviceError(
                f"The packets do not show which frames there are ({'; '.join(index.anomalies)}), so that decoded "
                "pictures must be compared with those that a software decoder gives."
            )

    def _begin(self, index: FrameIndex, segment: Segment, wanted: set[int]) -> None:
        """Go to where the plan starts."""
        if index is not self._index:
            self._use(index)
        self._segment = segment
        self._not_fed = set(wanted)
        self._num_starts, self._counts_frames = 1, False
        key_frame = segment.key_frame
        if key_frame is not None:
            while key_frame in self._useless_key_frames:
                key_frame -= 1
            self._start(index, key_frame)

    def _start_elsewhere(
        self, index: FrameIndex, segment: Segment, wanted: set[int], mismatch: IndexMismatchError | None
    ) -> bool:
        """After a failure start the segment anew, from where its frames may come out after all.

        Returns:
            Whether there is another place to start from.

        Raises:
            IndexMismatchError, DeviceError: see `run`.
        """
        key_frame = index.key_frame_for(segment.places[0])
        self._not_fed = wanted.copy()
        if mismatch is not None:
            self._start_with_more_pictures(index, key_frame, mismatch)
            return True
        if index.is_authoritative or self._counts_frames:
            return False
        # An index made by decoding. Splices and damage can make key frames useless; from the beginning of the stream
        # every frame comes out.
        self._num_starts += 1
        if segment.key_frame is None and self._num_starts == 2:
            self._start(index, key_frame)
        else:
            self.reader.reopen()  # what a codec has seen before can show in how it conceals damage
            self._start(index, 0)
            self.position, self._counts_frames = 0, True
        return True

    def _start_with_more_pictures(self, index: FrameIndex, key_frame: int, mismatch: IndexMismatchError) -> None:
        """Decode every picture, in case one that seemed disposable was not; then from the key frame before.

        The codec may need pictures before a key frame after all: at some ends of open GOPs it refuses packets for lack
        of them.
        """
        is_first_failure = self._num_starts == 1
        if not isinstance(mismatch, DamagedPacketError):
            if is_first_failure and self._has_left_out:
                self._num_starts, self._leaves_out = 2, False
                self._start(index, key_frame)
                return
            self._leaves_out = True
            if self._num_starts < 3 and key_frame > 0:
                self._num_starts = 3
                self._useless_key_frames.add(key_frame)
                self._start(index, key_frame - 1)
                return
        if self.decodes_in_software:
            raise mismatch
        raise DeviceError(f"The device's decoder does not give what the packets promise: {mismatch}.") from mismatch

    def _start(self, index: FrameIndex, key_frame: int) -> None:
        """Make the packet of a key frame the next one to be fed."""
        self._frames = []
        self._is_at_end = False
        self._left_out, self._has_left_out, self._is_drained_early = set(), False, False
        expected = byte_range(index, key_frame, self._segment.places[-1])
        if expected is not None:  # a remote source fetches them at once
            self.reader.will_need(*expected)
        with stages.SEEK:
            self._packets.go_to(index, key_frame)
        self._num_fed = max(0, int(index.key_frame_packet[key_frame]))
        self._started_at_pts = int(index.key_frame_pts[key_frame])
        self.position = self._breaks = None
        self._earliest_place = 0
        if index.num_packets is not None:
            self._earliest_place = int(index.num_packets.searchsorted(self._num_fed, side="right"))
        if self._is_promised:
            headers = self.reader.extradata
            # A key frame can show breaks that lie before it, in packets that nobody has read yet.
            is_at_start = key_frame == 0 or not may_leave_packets_unread(self.reader)
            self._breaks = break_detector(self._codec, headers, is_at_start=is_at_start)
            self._order = order_guard(self._codec, headers) if self._has_unproven_order else None
            if self._h264 is not None:
                self._h264.restart()
            elif self._codec == "h264":
                self._h264 = H264Parser(headers)
            elif self._is_disposable is None:
                self._is_disposable = disposable_parser(self._codec, headers)
            self.position = int(index.pts.searchsorted(self._started_at_pts))

    # From packets to frames

    def _next_promised(self, index: FrameIndex, wanted: set[int]) -> tuple[int, Any]:
        """(place, frame) of the next wanted frame to come out, taken from ``wanted``, with an index from packets.

        Raises:
            IndexMismatchError: if the codec gives something else than the packets promise.
        """
        frames = self._frames
        while True:
            while not frames:
                if self._is_at_end:
                    raise IndexMismatchError("packets that give no frame")
                self._feed(index)
                frames = self._frames
            frame = frames.pop(0)
            place = self._check_next(index, frame)
            self.position = place + 1
            if place in wanted:
                wanted.remove(place)
                return place, frame
            del frame

    def _next_identified(self, index: FrameIndex, wanted: set[int]) -> tuple[int, Any] | None:
        """The same with an index made by decoding, or the user's table; ``None`` if no more is expected."""
        while True:
            while not self._frames:
                if self._is_at_end:
                    self.position = None
                    return None
                if index.num_packets is not None and not self._counts_frames and self._is_past(index, min(wanted)):
                    return None
                self._feed(index)
            frame = self._frames.pop(0)
            if self._counts_frames:
                place = self.position
                self._last_frame = frame
            else:
                place = self._identify(index, frame)
            if place is not None:
                self.position = place + 1
                if place in wanted:
                    wanted.remove(place)
                    return place, frame
            del frame

    def _check_next(self, index: FrameIndex, frame: Any) -> int:
        """The place of a frame, which must be the next one that the packets promise."""
        pts = frame.pts
        if pts == self._started_at_pts and not is_key_frame(frame, self._codec):
            raise IndexMismatchError("packets flagged as key frames that are none")
        expected = self.position
        assert expected is not None
        if frame.is_corrupt:
            raise IndexMismatchError("frames that the codec flags as damaged")
        if self._left_out:
            while expected in self._left_out:
                expected += 1
        if self._is_drained_early and pts is not None:  # pictures shown before this one had not been read yet
            expected = max(expected, int(index.pts.searchsorted(pts)))
        if expected >= len(index.pts) or pts != index.pts.item(expected):
            raise IndexMismatchError("frames that do not come out in the order of the packets' times")
        return expected

    def _identify(self, index: FrameIndex, frame: Any) -> int | None:
        """The place of a frame by what it is; ``None`` for one that is to be dropped."""
        pts = NO_PTS if frame.pts is None else frame.pts
        if index.is_authoritative:
            return next(iter(self._places_by_identity.get((pts, 0), ())), None)
        candidates = self._places_by_identity.get((pts, fingerprint(frame)), [])
        earliest = self._earliest_place if self.position is None else self.position
        later = [place for place in candidates if place >= earliest]
        return next(iter(later or candidates), None)

    def _is_past(self, index: FrameIndex, place: int) -> bool:
        """Whether a frame should have come out by now: as many packets behind its time as a codec may hold back."""
        assert index.num_packets is not None
        return self._num_fed > int(index.num_packets[place]) + MAX_DELAY_PACKETS

    def _feed(self, index: FrameIndex) -> None:
        """Give the codec the next packet that it needs, or drain it."""
        # A codec that has got all it needs, and has to seek for the next call, gives its frames at once when drained.
        self._is_drained_early = self._segment.drains and not self._not_fed
        packet = None if self._is_drained_early else self._packets.take(index)
        if packet is None:
            self._is_at_end = True
        else:
            number = self._num_fed
            self._num_fed = number + 1
            if self._is_promised and not self._is_needed(index, packet, number):
                return
        try:
            self._frames = list(self.reader.decode(packet))
        except UndecodablePacketError:
            if self._is_promised and (packet is None or not self._holds_no_picture(packet)):
                raise IndexMismatchError("packets that the codec cannot decode") from None

    def _is_needed(self, index: FrameIndex, packet: Any, number: int) -> bool:
        """Whether the codec must see a packet. Where the index knows the packet, the plan says.

        Raises:
            DamagedPacketError: at what the codec does not complain of, or would not see where pictures are left out.
        """
        data = memoryview(packet)
        h264 = self._h264
        if h264 is not None:
            h264.read(data)
            if not h264.follows:
                raise DamagedPacketError("packets that were lost")
        elif self._codec == "ffv1" and not slices_are_intact(data):
            raise DamagedPacketError("packets that differ from their checksums")
        if self._breaks is not None and (reason := self._breaks.find(data)) is not None:
            raise DamagedPacketError(reason)
        if self._order is not None and (reason := self._order.find(data)) is not None:
            raise DamagedPacketError(reason)
        pts = packet.pts
        if pts is None:
            return True
        if pts < self._started_at_pts:
            # A leading picture: it follows the key frame in the file, and is shown before it. It may refer to pictures
            # before the key frame, which the codec does not have. No picture shown after the key frame refers to it.
            return False
        segment = self._segment
        if segment is _FED_WHOLE:
            return True
        frame = index.frame_of_packet(number, pts)
        if frame is None:
            return True
        disposable = index.disposable.item(frame)
        if disposable == _UNKNOWN:
            if h264 is not None:
                disposable = int(h264.is_disposable)
            elif self._is_disposable is not None:
                disposable = int(self._is_disposable(data))
            index.disposable[frame] = disposable
        if frame in self._not_fed:
            self._not_fed.remove(frame)
        elif disposable == _YES and self._leaves_out and not segment.needs(frame):
            self._left_out.add(frame)
            self._has_left_out = True
            return False
        return True

    def _holds_no_picture(self, packet: Any) -> bool:
        """Whether no frame was to come of a packet, so that nothing is amiss if the codec refuses it."""
        if self._codec in CODECS_OF_FRAMES_ONLY:
            return False
        content_of = content_parser(self._codec, self.reader.extradata)
        return content_of(memoryview(packet)) in (PacketContent.NO_PICTURE, PacketContent.NOT_CODED)


def _places_by_identity(index: FrameIndex) -> dict[tuple[int, int], list[int]]:
    """Places by what identifies a frame: pts and fingerprint, or pts alone in a user's table."""
    table: dict[tuple[int, int], list[int]] = {}
    if index.settled:
        assert index.codec_pts is not None
        assert index.fingerprint is not None
        keys = zip(index.codec_pts.tolist(), index.fingerprint.tolist(), strict=True)
    elif index.is_authoritative:
        keys = zip(index.pts.tolist(), [0] * len(index), strict=True)
    else:
        return table
    for place, key in enumerate(keys):
        table.setdefault(key, []).append(place)
    return table
