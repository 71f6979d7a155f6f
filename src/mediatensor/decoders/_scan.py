"""Reading a whole stream once: its packets without decoding, or its frames without converting them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._pyav import PacketFacts, UndecodablePacketError, VideoReader, fingerprint, is_key_frame, packet_facts
from ..errors import ReadError
from ._bitstream import is_sound, nal_units_are_sound, picture_parser
from ._disposable import disposable_parser
from ._frame_index import NO_PTS, FrameRecord, PacketTable
from ._h264_fields import FieldDetector

__all__ = ["scan_frames", "scan_packets"]


def scan_packets(reader: VideoReader) -> PacketTable:
    """The packets of the stream from where the reader stands (at the beginning) to the end."""
    codec = reader.facts().codec
    shown_pictures = picture_parser(codec)
    nal_length_size = _nal_length_size(codec, reader.extradata)
    disposable_of = disposable_parser(codec, reader.extradata)
    fields_of = FieldDetector(reader.extradata) if codec == "h264" else None
    facts: list[PacketFacts] = []
    hidden: list[bool] = []
    broken: list[bool] = []
    fields: list[bool] = []
    disposable: list[int] = []
    read_error = None
    while True:
        try:
            packet = reader.read_packet()
        except ReadError as error:
            read_error = str(error)
            break
        if packet is None:
            break
        facts.append(packet_facts(packet))
        hidden.append(shown_pictures is not None and shown_pictures(memoryview(packet)) == 0)
        fields.append(fields_of is not None and fields_of.is_field(memoryview(packet), is_key=facts[-1].is_key))
        disposable.append(disposable_of(memoryview(packet)))
        broken.append(
            facts[-1].is_corrupt
            or facts[-1].is_encrypted
            or not is_sound(codec, memoryview(packet))
            or (
                nal_length_size is not None
                and not nal_units_are_sound(memoryview(packet), nal_length_size, is_hevc=codec == "hevc")
            )
        )
    return PacketTable(
        pts=_timestamps(facts, lambda fact: fact.pts),
        dts=_timestamps(facts, lambda fact: fact.dts),
        duration=np.array([fact.duration for fact in facts], np.int64),
        size=np.array([fact.size for fact in facts], np.int64),
        position=np.array([fact.position for fact in facts], np.int64),
        is_key=np.array([fact.is_key for fact in facts], bool),
        is_discard=np.array([fact.is_discard for fact in facts], bool),
        is_hidden=np.array(hidden, bool),
        is_broken=np.array(broken, bool),
        is_field=np.array(fields, bool),
        disposable=np.array(disposable, np.int8),
        read_error=read_error,
    )


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


def _timestamps(facts: list[PacketFacts], get: Callable[[PacketFacts], int | None]) -> np.ndarray:
    values = (get(fact) for fact in facts)
    return np.array([NO_PTS if value is None else value for value in values], np.int64)


def _nal_length_size(codec: str | None, extradata: bytes) -> int | None:
    """Bytes of the length before each unit (ISO 14496-15), or ``None`` where units are not length-prefixed."""
    if codec == "h264" and len(extradata) > 4 and extradata[0] == 1:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21 and extradata[0] == 1:
        return (extradata[21] & 3) + 1
    return None
