"""Reading a whole stream once: its packets without decoding, or its frames without converting them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._bitstreams import (
    H264Parser,
    PacketContent,
    break_detector,
    content_parser,
    disposable_parser,
    hevc_length_size,
    is_sound,
    nal_units_are_sound,
    refreshes_gradually,
)
from .._containers import NO_PTS, PacketTable
from .._pyav import PacketInfo, UndecodablePacketError, VideoReader, fingerprint, is_key_frame, packet_info
from .._sources import SourceFaultError
from ..errors import ReadError
from .building import FrameRecord

__all__ = ["PacketScan", "first_frame", "scan_frames", "scan_packets"]

_NOTHING_SHOWN = (PacketContent.NO_PICTURE, PacketContent.NOT_CODED)


class PacketScan:
    """Reads the packets of a stream one after the other, and goes on where it stopped.

    Args:
        reader: Stands at the beginning of the stream.
    """

    def __init__(self, reader: VideoReader) -> None:
        codec = reader.stream_info().codec
        self._reader = reader
        self._codec = codec
        self._h264 = H264Parser(reader.extradata, is_thorough=False) if codec == "h264" else None
        other = None if codec == "h264" else codec
        self._content_of = content_parser(other, reader.extradata)
        self._disposable_of = disposable_parser(other, reader.extradata)
        self._length_size = hevc_length_size(reader.extradata) if codec == "hevc" else None
        self._breaks = break_detector(codec, reader.extradata)
        self._reasons_to_decode: dict[str, None] = {}
        self._has_picture = False
        self._last_content: PacketContent | None = None
        self._packets: list[PacketInfo] = []
        self._hidden: list[bool] = []
        self._broken: list[bool] = []
        self._is_field: list[bool] = []
        self._disposable: list[int] = []
        self._read_error: str | None = None
        #: Whether the stream came to an end, or to an error.
        self.is_complete = False

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def may_be_fields(self) -> bool:
        """Whether what was read allows packets that are single fields."""
        return self._h264 is not None and self._h264.may_be_fields

    def read(self, num_packets: int | None = None) -> None:
        """Read on, up to ``num_packets`` in all, or to the end."""
        while not self.is_complete and (num_packets is None or len(self) < num_packets):
            try:
                packet = self._reader.read_packet()
            except SourceFaultError:
                raise
            except ReadError as error:
                self._read_error = str(error)
                packet = None
            if packet is None:
                self.is_complete = True
                if self._last_content is PacketContent.NOT_CODED:
                    self._reasons_to_decode.setdefault("a last picture that is not coded")
            else:
                self.add(packet)

    def add(self, packet: Any) -> None:
        """Take note of a packet."""
        info, data = packet_info(packet), memoryview(packet)
        h264 = self._h264
        if h264 is not None:
            h264.read(data)
            content, is_whole, follows = h264.content, h264.is_whole, h264.follows
            is_field, disposable = h264.is_field, int(h264.is_disposable)
        else:
            content = self._content_of(data)
            is_whole = self._length_size is None or nal_units_are_sound(data, self._length_size)
            follows, is_field, disposable = True, False, self._disposable_of(data)
        is_whole = is_whole and content is not PacketContent.FOREIGN and is_sound(self._codec, data)
        self._last_content = content
        self._packets.append(info)
        self._hidden.append(is_whole and content in _NOTHING_SHOWN)
        self._is_field.append(is_field)
        self._disposable.append(disposable)
        self._broken.append(info.is_corrupt or info.is_encrypted or not follows or not is_whole)
        if self._breaks is not None and (reason := self._breaks.find(data)) is not None:
            self._reasons_to_decode.setdefault(reason)
        if not self._has_picture or content is not PacketContent.PICTURE:
            self._find_reasons_to_decode(data, content, is_key=info.is_key)

    def _find_reasons_to_decode(self, data: memoryview, content: PacketContent, *, is_key: bool) -> None:
        """Take note of the first picture, and of packets that are not just one picture."""
        if content is PacketContent.UNCERTAIN:
            self._reasons_to_decode.setdefault("packets that do not show how many frames come of them")
        if not self._has_picture and content is PacketContent.PICTURE:
            self._has_picture = True
            if is_key and refreshes_gradually(self._codec, self._reader.extradata, data):
                self._reasons_to_decode.setdefault("pictures that are not refreshed yet at the beginning")

    def table(self) -> PacketTable:
        """The packets so far, in decode order."""
        # All columns at once, which is quicker than one attribute after the other.
        columns: Sequence[Sequence[Any]] = list(zip(*self._packets, strict=True)) or [()] * len(PacketInfo._fields)
        pts, dts, duration, size, position, is_key, is_discard, *_ = columns
        return PacketTable(
            pts=_timestamps(pts),
            dts=_timestamps(dts),
            duration=np.array(duration, np.int64),
            size=np.array(size, np.int64),
            position=np.array(position, np.int64),
            is_key=np.array(is_key, bool),
            is_discard=np.array(is_discard, bool),
            is_hidden=np.array(self._hidden, bool),
            is_broken=np.array(self._broken, bool),
            is_field=np.array(self._is_field, bool),
            disposable=np.array(self._disposable, np.int8),
            reasons_to_decode=tuple(self._reasons_to_decode),
            read_error=self._read_error,
            may_time_decoding=self._reader.may_time_decoding,
            changes_palette=self._reader.changes_palette,
        )


def scan_packets(reader: VideoReader) -> PacketTable:
    """The packets of the stream from where the reader stands (at the beginning) to the end."""
    scan = PacketScan(reader)
    scan.read()
    return scan.table()


def scan_frames(reader: VideoReader) -> tuple[list[FrameRecord], int]:
    """Decode the whole stream with one thread.

    Returns:
        (records, num_undecodable): the frames in the codec's order, and how many packets it refused.
    """
    reader.decode_leniently()
    if not reader.is_fresh:
        reader.reopen()
    records: list[FrameRecord] = []
    num_packets = num_undecodable = 0
    while True:
        try:
            packet = reader.read_packet()
        except SourceFaultError:
            raise
        except ReadError:
            packet = None
        num_packets += packet is not None
        try:
            frames = reader.decode(packet)
        except UndecodablePacketError:
            num_undecodable += 1
            frames = []
        for frame in frames:
            records.append(
                FrameRecord(
                    pts=frame.pts,
                    dts=frame.dts,
                    duration=frame.duration or 0,
                    num_packets=num_packets,
                    fingerprint=fingerprint(frame),
                    is_corrupt=bool(frame.is_corrupt),
                    is_key=is_key_frame(frame),
                )
            )
        if packet is None:
            return records, num_undecodable


def _timestamps(values: Sequence[int | None]) -> np.ndarray:
    return np.array([NO_PTS if value is None else value for value in values], np.int64)


def first_frame(reader: VideoReader) -> Any | None:
    """The first frame that a codec gives: of the first packet, if that will do, which spares decoding others."""
    return _first_frame_of(reader, max_packets=1) or _first_frame_of(reader)


def _first_frame_of(reader: VideoReader, max_packets: int | None = None) -> Any | None:
    """The first frame that comes of the first packets, of all by default."""
    if not reader.is_fresh:
        reader.reopen()
    for _ in itertools.count() if max_packets is None else range(max_packets):
        packet = reader.read_packet()
        if packet is None:
            break
        if frames := _decoded(reader, packet):
            return frames[0]
    frames = _decoded(reader, None)
    return frames[0] if frames else None


def _decoded(reader: VideoReader, packet: Any | None) -> Sequence[Any]:
    try:
        return reader.decode(packet)
    except UndecodablePacketError:
        return []
