"""Seeking: the packets of a stream from one of its key frames on, with the proof that they begin there."""

from __future__ import annotations

from typing import Any

from ...errors import ReadError
from ..containers.packet_table import NO_PTS
from ..index.frame_index import FrameIndex
from ..pyav.reading import VideoReader
from ..sources.readers import SourceFaultError

__all__ = ["KeyFramePackets"]


class KeyFramePackets:
    """Reads packets one after the other, from wherever it was sent to.

    Args:
        reader: Stands at the beginning.
    """

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._held: Any = None
        self._seek_by_dts = False

    def go_to(self, index: FrameIndex, key_frame: int) -> None:
        """Make the packet of ``key_frame`` the next one.

        Raises:
            ReadError: if the source cannot be read.
        """
        self._held = None
        if not (key_frame == 0 and self._reader.is_fresh) and not self._seek(index, key_frame):
            self._reader.reopen()
            self._skip(index, key_frame)

    def take(self, index: FrameIndex) -> Any | None:
        """The next packet, ``None`` at the end.

        Raises:
            ReadError: if the source cannot be read.
        """
        if self._held is not None:
            packet, self._held = self._held, None
            return packet
        try:
            return self._reader.read_packet()
        except SourceFaultError:
            raise
        except ReadError:
            if index.is_cut_short:
                return None  # where a linear decode ends, too
            raise

    def _seek(self, index: FrameIndex, key_frame: int) -> bool:
        """Seek by the container's own means, and prove from the packets that it landed on or before the key frame."""
        if self._reader.has_no_timestamps:
            return False  # they are made up while reading, and differ after a seek
        position = int(index.key_frame_position[key_frame])
        if index.times_restart and position >= 0 and self._reader.seek_bytes(position) and self._find(index, key_frame):
            return True
        by_pts, by_dts = int(index.key_frame_pts[key_frame]), int(index.key_frame_dts[key_frame])
        for by_decoding_time in (self._seek_by_dts, not self._seek_by_dts):
            timestamp = by_dts if by_decoding_time else by_pts
            if timestamp != NO_PTS and self._reader.seek(timestamp) and self._find(index, key_frame):
                self._seek_by_dts = by_decoding_time
                return True
        return False

    def _find(self, index: FrameIndex, key_frame: int) -> bool:
        """Read up to the packet of ``key_frame``; ``False`` if a later key frame comes first, or reading fails."""
        while True:
            try:
                packet = self.take(index)
            except SourceFaultError:
                raise
            except ReadError:  # RealMedia's demuxer stumbles after some seeks
                return False
            if packet is None:
                return False
            if not packet.is_keyframe and key_frame != 0:  # a stream may begin with another kind of packet
                continue
            position = int(index.key_frame_position[key_frame])
            if packet.pts == index.key_frame_pts[key_frame] and _same_place(packet.pos, position):
                self._held = packet
                return True
            if packet.is_keyframe and packet.pts is not None and packet.pts > index.key_frame_pts[key_frame]:
                return False

    def _skip(self, index: FrameIndex, key_frame: int) -> None:
        """From the beginning of the stream, pass over the packets before ``key_frame``."""
        if index.key_frame_packet[key_frame] < 0:
            self._find(index, key_frame)
            return
        for _ in range(int(index.key_frame_packet[key_frame])):
            if self.take(index) is None:
                return


def _same_place(position: int | None, expected: int) -> bool:
    return position is None or position < 0 or expected < 0 or position == expected
