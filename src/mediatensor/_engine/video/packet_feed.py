"""The packets that a codec gets for a segment: a proven seek to a key frame, and packets that can be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ReadError
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
from ..index.frame_index import FrameIndex
from ..index.header_table import may_leave_packets_unread
from ..pyav.reading import VideoReader
from ..sources.readers import SourceFaultError
from .plan import Segment, byte_range

# A segment that leaves out no frame.
_WHOLE = Segment(None, (-1,), False)

_UNKNOWN, _YES = int(Disposable.UNKNOWN), int(Disposable.YES)


class IndexMismatchError(Exception):
    """The codec gives frames that contradict the packets."""


class DamagedPacketError(IndexMismatchError):
    """Packets are damaged or missing, as the packets themselves show: decoding in another way does not help."""


class PacketFeed:
    """The packets of a segment, each as the codec needs it.

    Args:
        reader: Stands at the beginning.
    """

    def __init__(self, reader: VideoReader) -> None:
        self.codec = reader.stream_info().codec
        #: How many packets of the stream come before the next one.
        self.num_read = 0
        #: The time of the key frame at which reading started.
        self.started_at_pts = NO_PTS
        #: Frames whose packets were left out since the start.
        self.left_out: set[int] = set()
        #: Whether frames may be left out that no other frame refers to.
        self.leaves_out = True
        #: Whether the feed ended before the packets did, since the codec had got all that the segment needs.
        self.ended_early = False
        #: Whether every packet is fed, whatever a segment needs.
        self.feeds_all = True
        self._reader = reader
        self._is_remote = reader.byte_reader is not None
        self._has_times = not reader.has_no_timestamps
        # The index may have been made without a look into the packets.
        self._may_be_unread = may_leave_packets_unread(reader)
        self._seeks_by_dts = False
        self._held: Any = None
        self._segment = _WHOLE
        self._not_fed: set[int] = set()
        # Checks of packets, for an index made from packets
        self._checks_packets = False
        self._has_unproven_order = False
        self._h264: H264Parser | None = None
        self._is_disposable: Callable[[memoryview], Disposable] | None = None
        self._break_detectors: list[BreakDetector] = []

    def use(self, index: FrameIndex, *, checks_packets: bool) -> None:
        """Read packets according to an index from now on.

        Args:
            index: The frames of the stream.
            checks_packets: Whether it was made from packets, so that packets are checked against it.
        """
        self._index = index
        self._checks_packets = checks_packets
        # Times in headers may be decoding times: the order of the frames was never checked.
        self._has_unproven_order = (
            checks_packets and self._may_be_unread and self._reader.reorder_depth > 0 and index.follows_file
        )
        self.leaves_out = True

    def go_on(self, segment: Segment | None) -> None:
        """Feed the packets of a segment from the next one on; ``None`` for every packet."""
        self._segment = segment or _WHOLE
        self._not_fed = set() if segment is None else set(segment.places)
        self.feeds_all = segment is None

    def start(self, segment: Segment, key_frame: int, missing: set[int]) -> None:
        """Feed the packets of a segment, from the packet of a key frame on.

        Args:
            segment: The segment.
            key_frame: Number of the key frame.
            missing: Its frames that have not come out yet.

        Raises:
            ReadError: if the source cannot be read.
        """
        index, reader = self._index, self._reader
        self._segment, self._not_fed, self.feeds_all = segment, missing.copy(), False
        self.left_out, self.ended_early, self._held = set(), False, None
        if self._is_remote:
            expected = byte_range(index, key_frame, segment.places[-1])
            if expected is not None:  # a remote source fetches them at once
                reader.will_need(*expected)
        with stages.SEEK:
            if not (key_frame == 0 and reader.is_fresh) and not self._seek(key_frame):
                reader.reopen()
                self._skip_to(key_frame)
        self.num_read = max(0, int(index.key_frame_packet[key_frame]))
        self.started_at_pts = int(index.key_frame_pts[key_frame])
        if self._checks_packets:
            self._restart_checks(is_first=key_frame == 0)

    def take(self) -> Any | None:
        """Return the next packet that the codec must see; ``None`` at the end of the feed.

        Raises:
            DamagedPacketError: for damage that the codec does not report, or does not see where frames are left out.
            ReadError: if the source cannot be read.
        """
        index, segment, h264 = self._index, self._segment, self._h264
        frame_by_packet = index._frame_by_packet
        while True:
            if segment.drains and not self._not_fed:
                # The codec gives its frames at once when it is drained, and the next call has to seek anyway.
                self.ended_early = True
                return None
            if self._held is None:
                packet = self._read() if index.is_cut_short else self._reader.read_packet()
            else:
                packet, self._held = self._held, None
            if packet is None:
                return None
            number = self.num_read
            self.num_read = number + 1
            if not self._checks_packets:
                return packet
            data = memoryview(packet)
            if h264 is not None:
                h264.read(data)
                if not h264.follows:
                    raise DamagedPacketError("packets that were lost")
            elif self.codec == "ffv1" and not slices_are_intact(data):
                raise DamagedPacketError("packets that differ from their checksums")
            for detector in self._break_detectors:
                if (reason := detector.find(data)) is not None:
                    raise DamagedPacketError(reason)
            pts = packet.pts
            if pts is None:
                return packet
            if pts < self.started_at_pts:
                # A leading frame: it follows the key frame in the file, and is shown before it. It may refer to frames
                # before the key frame, which the codec does not have. No frame shown after the key frame refers to it.
                continue
            if self.feeds_all:
                return packet
            frame = frame_by_packet.item(number) if number < len(frame_by_packet) else -1
            if frame < 0 or index.pts.item(frame) != pts:  # the index does not know it
                return packet
            disposable = index.disposable.item(frame)
            if disposable == _UNKNOWN:
                if h264 is not None:
                    disposable = int(h264.is_disposable)
                elif self._is_disposable is not None:
                    disposable = int(self._is_disposable(data))
                index.disposable[frame] = disposable
            if frame in self._not_fed:
                self._not_fed.remove(frame)
                return packet
            if disposable != _YES or not self.leaves_out or segment.needs(frame):
                return packet
            self.left_out.add(frame)

    def check_refused(self, packet: Any | None) -> None:
        """Raise `IndexMismatchError` if a packet that the codec refuses should have given a frame."""
        if not self._checks_packets:
            return
        if packet is not None and self.codec not in CODECS_OF_FRAMES_ONLY:
            content_of = content_parser(self.codec, self._reader.extradata)
            if content_of(memoryview(packet)) in (PacketContent.NO_PICTURE, PacketContent.NOT_CODED):
                return
        raise IndexMismatchError("packets that the codec cannot decode") from None

    def _restart_checks(self, *, is_first: bool) -> None:
        reader, codec = self._reader, self.codec
        self._break_detectors = []
        if self._h264 is not None:
            self._h264.restart()
        elif codec == "h264":
            self._h264 = H264Parser(reader.extradata)
        else:
            headers = reader.extradata
            # A key frame can show earlier breaks, in packets that were not read yet.
            breaks = break_detector(codec, headers, is_at_start=is_first or not self._may_be_unread)
            if breaks is not None:
                self._break_detectors.append(breaks)
            if self._is_disposable is None:
                self._is_disposable = disposable_parser(codec, headers)
        if self._has_unproven_order and (order := order_guard(codec, reader.extradata)) is not None:
            self._break_detectors.append(order)

    # Seeking

    def _read(self) -> Any | None:
        try:
            return self._reader.read_packet()
        except SourceFaultError:
            raise
        except ReadError:
            if self._index.is_cut_short:
                return None  # where a linear decode also ends
            raise

    def _seek(self, key_frame: int) -> bool:
        """Seek as the container can, and prove from the packets that the key frame lies ahead, or comes next."""
        if not self._has_times:
            return False  # they are made up while reading, and differ after a seek
        index, reader = self._index, self._reader
        position = int(index.key_frame_position[key_frame])
        if index.times_restart and position >= 0 and reader.seek_bytes(position) and self._find(key_frame):
            return True
        by_pts, by_dts = int(index.key_frame_pts[key_frame]), int(index.key_frame_dts[key_frame])
        for by_decoding_time in (self._seeks_by_dts, not self._seeks_by_dts):
            timestamp = by_dts if by_decoding_time else by_pts
            if timestamp != NO_PTS and reader.seek(timestamp) and self._find(key_frame):
                self._seeks_by_dts = by_decoding_time
                return True
        return False

    def _find(self, key_frame: int) -> bool:
        """Read up to the packet of a key frame; ``False`` if a later key frame comes first, or reading fails."""
        pts = int(self._index.key_frame_pts[key_frame])
        position = int(self._index.key_frame_position[key_frame])
        while True:
            try:
                packet = self._read()
            except SourceFaultError:
                raise
            except ReadError:  # RealMedia's demuxer stumbles after some seeks
                return False
            if packet is None:
                return False
            if not packet.is_keyframe and key_frame != 0:  # a stream may begin with another kind of packet
                continue
            if packet.pts == pts and (position < 0 or packet.pos is None or packet.pos < 0 or packet.pos == position):
                self._held = packet
                return True
            if packet.is_keyframe and packet.pts is not None and packet.pts > pts:
                return False

    def _skip_to(self, key_frame: int) -> None:
        """Read past the packets before a key frame, from the beginning of the stream."""
        num_packets = int(self._index.key_frame_packet[key_frame])
        if num_packets < 0:
            self._find(key_frame)
            return
        for _ in range(num_packets):
            if self._read() is None:
                return
