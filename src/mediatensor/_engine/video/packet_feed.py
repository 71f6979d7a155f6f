"""Choose the packets of a segment that the codec needs; `frame_stream` feeds them to the codec.

This includes seeking to the segment's key frame, checking packets for damage, and leaving out packets that are not
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from ..common.interrupts import interrupts_kept
from ..containers.sample_tables import NO_PTS
from ..index.frame_index import FrameIndex, frame_by_packet
from ..index.header_table import may_leave_packets_unread
from ..pyav.reading import VideoReader, without_discard_flag
from ..sources.readers import SourceFaultError
from .plan import Segment, byte_range

# A segment from which no frame is left out.
_WHOLE = Segment(None, (-1,), False)

_UNKNOWN, _YES = int(Disposable.UNKNOWN), int(Disposable.YES)


class IndexMismatchError(Exception):
    """The decoded frames contradict the index that was made from packets."""


class DamagedPacketError(IndexMismatchError):
    """Packets are damaged or missing. Decoding the segment again in another way would not help."""


class PacketFeed:
    """Reads the packets of a segment. `take` returns those that the codec needs.

    The reader must be at the stream's beginning. Call `choose_by` first, and then `start`.
    """

    def __init__(self, reader: VideoReader) -> None:
        self.codec = reader.stream_info().codec
        #: Number of the next packet in the stream.
        self.num_read = 0
        #: Pts of the key frame where reading started.
        self.started_at_pts = NO_PTS
        #: Frames whose packets were left out since the start.
        self.left_out: set[int] = set()
        #: Whether frames that no other frame refers to are left out.
        self.leaves_out = True
        #: Whether `take` stopped before the last packet, because the segment needed no more.
        self.ended_early = False
        #: Whether `take` returns every packet, even if the segment does not need it.
        self.returns_all = True
        # `choose_by` sets these.
        self._index: FrameIndex
        self._frame_by_packet: NDArray[np.int32]
        self._reader = reader
        self._is_remote = reader.byte_reader is not None
        self._has_times = not reader.has_no_timestamps
        # Whether the index may come from headers. If so, the packets have not been inspected.
        self._may_be_unread = may_leave_packets_unread(reader)
        self._seeks_by_dts = False
        self._held: Any = None
        self._segment = _WHOLE
        # Wanted frames of the segment whose packets have not been returned.
        self._not_returned: set[int] = set()
        # State of the checks of packets, which are used if the index was made from packets
        self._checks_packets = False
        self._has_unproven_order = False
        self._h264: H264Parser | None = None
        self._is_disposable: Callable[[memoryview], Disposable] | None = None
        self._break_detectors: list[BreakDetector] = []

    def choose_by(self, index: FrameIndex, *, checks_packets: bool) -> None:
        """Choose packets by ``index``. If it was made from packets, ``checks_packets`` also looks for damage."""
        self._index, self._frame_by_packet = index, frame_by_packet(index)
        self._checks_packets = checks_packets
        # The times in headers may be decoding times, and the order of the frames has not been checked.
        self._has_unproven_order = (
            checks_packets and self._may_be_unread and self._reader.reorder_depth > 0 and index.follows_file
        )
        self.leaves_out = True

    def continue_with(self, segment: Segment | None) -> None:
        """Continue at the next packet, without a seek, with another segment or, with ``None``, with all packets."""
        self._segment = segment or _WHOLE
        self._not_returned = set() if segment is None else set(segment.places)
        self.returns_all = segment is None

    def start(self, segment: Segment, key_frame: int, missing: set[int]) -> None:
        """Seek to a key frame, from which `take` then returns the packets of a segment.

        ``missing`` are the frames of the segment that have not come out of the codec yet.
        """
        index, reader = self._index, self._reader
        self._segment, self._not_returned, self.returns_all = segment, missing.copy(), False
        self.left_out, self.ended_early, self._held = set(), False, None
        if self._is_remote:
            expected = byte_range(index, key_frame, segment.places[-1])
            if expected is not None:  # a remote source fetches this range in one request
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
        """Return the next packet that the codec needs; ``None`` if there are no more.

        Raises `DamagedPacketError` if packets are damaged or missing and the codec would not report it.
        """
        index, segment, h264 = self._index, self._segment, self._h264
        frames = self._frame_by_packet
        num_packets = len(frames) or len(index.pts)  # an index that is not made from packets has no numbers
        while True:
            if segment.drains and not self._not_returned:
                # Draining makes the codec output its frames now, and the next call has to seek anyway.
                self.ended_early = True
                return None
            if self._held is not None:
                packet, self._held = self._held, None
            elif index.is_cut_short:
                packet = self._read()
            elif self.num_read < num_packets:
                packet = self._reader.read_packet()
            else:
                with interrupts_kept():  # PyAV may drop a signal's exception while it raises the end of the file
                    packet = self._reader.read_packet()
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
            elif self.codec in ("ffvhuff", "huffyuv") and packet.size % 4:
                # The decoder reads whole words, and would take the missing bytes of the last one from earlier packets.
                raise DamagedPacketError("packets that end within a word")
            for detector in self._break_detectors:
                if (reason := detector.find(data)) is not None:
                    raise DamagedPacketError(reason)
            pts = packet.pts
            if pts is None:
                return packet
            if pts < self.started_at_pts:
                # A leading frame follows the key frame in the file, but is shown before it. It may refer to frames
                # before the key frame, which the codec does not have. Frames shown after the key frame do not refer to
                # a leading frame.
                continue
            if h264 is not None and packet.is_discard:
                # The codec reports some damage only as a flag of the frame. `_PacketMatcher` reads it.
                return without_discard_flag(packet)
            if self.returns_all:
                return packet
            frame = frames.item(number) if number < len(frames) else -1
            if frame < 0 or index.pts.item(frame) != pts:  # the index has no frame for this packet
                return packet
            disposable = index.disposable.item(frame)
            if disposable == _UNKNOWN:
                if h264 is not None:
                    disposable = int(h264.is_disposable)
                elif self._is_disposable is not None:
                    disposable = int(self._is_disposable(data))
                index.disposable[frame] = disposable
            if frame in self._not_returned:
                self._not_returned.remove(frame)
                return packet
            if disposable != _YES or not self.leaves_out or segment.needs(frame):
                return packet
            self.left_out.add(frame)

    def check_refused(self, packet: Any | None) -> None:
        """Raise `IndexMismatchError` if ``packet``, which the codec has rejected, should have given a frame."""
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
            # A key frame can reveal a break in earlier packets that were not read.
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
                return None  # a linear decode ends here as well
            raise

    def _seek(self, key_frame: int) -> bool:
        """Seek to a key frame. Return whether the packets at the new position prove that this succeeded."""
        if not self._has_times:
            return False  # FFmpeg generates times while reading, and they differ after a seek
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
        """Read up to the packet of a key frame. Return ``False`` if a later key frame comes first or reading fails."""
        pts = int(self._index.key_frame_pts[key_frame])
        position = int(self._index.key_frame_position[key_frame])
        while True:
            try:
                packet = self._reader.read_packet()
            except SourceFaultError:
                raise
            except ReadError:  # RealMedia's demuxer stumbles after some seeks
                return False
            if packet is None:
                return False
            if not packet.is_keyframe and key_frame != 0:  # the first packet counts as a key frame without the flag
                continue
            if packet.pts == pts and (position < 0 or packet.pos is None or packet.pos < 0 or packet.pos == position):
                self._held = packet
                return True
            if packet.is_keyframe and packet.pts is not None and packet.pts > pts:
                return False

    def _skip_to(self, key_frame: int) -> None:
        """Read and discard the packets from the beginning of the stream up to a key frame."""
        num_packets = int(self._index.key_frame_packet[key_frame])
        if num_packets < 0:
            self._find(key_frame)
            return
        for _ in range(num_packets):
            if self._read() is None:
                return
