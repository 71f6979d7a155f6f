"""Streams and files that no encoder at hand writes, made by working on the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import av
import numpy as np

_MACROBLOCK = 16
_TS_PACKET = 188


class BitWriter:
    """Collects bits, most significant first."""

    def __init__(self) -> None:
        self._bits: list[int] = []

    def bits(self, value: int, count: int) -> BitWriter:
        self._bits += [value >> shift & 1 for shift in range(count - 1, -1, -1)]
        return self

    def ue(self, value: int) -> BitWriter:
        """Unsigned Exp-Golomb code."""
        length = (value + 1).bit_length()
        return self.bits(0, length - 1).bits(value + 1, length)

    def se(self, value: int) -> BitWriter:
        """Signed Exp-Golomb code."""
        return self.ue(2 * value - 1 if value > 0 else -2 * value)

    def align(self, filler: int = 0) -> BitWriter:
        return self.bits(-filler, -len(self._bits) % 8)

    def raw(self, data: bytes) -> BitWriter:
        self._bits += np.unpackbits(np.frombuffer(data, np.uint8)).tolist()
        return self

    def trailing(self) -> bytes:
        """The bits with H.264's stop bit, as bytes."""
        return np.packbits(np.array(self.bits(1, 1).align()._bits, np.uint8)).tobytes()

    def to_bytes(self) -> bytes:
        return np.packbits(np.array(self.align()._bits, np.uint8)).tobytes()


def _nal(kind: int, payload: bytes) -> bytes:
    escaped = bytearray()
    zeros = 0
    for byte in payload:
        if zeros >= 2 and byte <= 3:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return b"\0\0\0\1" + bytes([3 << 5 | kind]) + bytes(escaped)


def h264_field_pictures(columns: int, rows: int, num_frames: int, rate: int) -> list[bytes]:
    """H.264 (Annex B) whose pictures are all coded as two fields: one access unit, and so one packet, per field.

    Samples are not compressed (I_PCM). Every ten frames both fields are intra; the rest copy the previous
    field and replace one column of macroblocks, so a frame depends on all since the last intra picture. Columns and
    rows are in macroblocks; ``rows`` is even.
    """
    sps = BitWriter().bits(77, 8).bits(0, 8).bits(30, 8).ue(0)  # Main profile, level 3
    sps.ue(0).ue(0).ue(4).ue(2).bits(0, 1)  # 4-bit frame numbers; 8-bit picture order count; 2 references
    sps.ue(columns - 1).ue(rows // 2 - 1).bits(0, 1).bits(0, 1)  # fields allowed, no macroblock-adaptive ones
    sps.bits(1, 1).bits(0, 1).bits(1, 1)  # 8x8 inference, no cropping, usability information
    sps.bits(0, 4).bits(1, 1).bits(1, 32).bits(2 * rate, 32).bits(1, 1).bits(0, 4)
    pps = BitWriter().ue(0).ue(0).bits(0, 1).bits(1, 1).ue(0).ue(0).ue(0).bits(0, 3).se(0).se(0).se(0).bits(0b100, 3)
    parameter_sets = _nal(7, sps.trailing()) + _nal(8, pps.trailing())
    units = []
    for number in range(num_frames):
        in_gop = number % 10
        for second in (False, True):  # the top field is the first
            is_idr = in_gop == 0 and not second
            unit = b"\0\0\0\1\x09\xf0"  # access unit delimiter
            if is_idr:
                unit += parameter_sets
            slice_bits = BitWriter().ue(0).ue(7 if in_gop == 0 else 5).ue(0)
            slice_bits.bits(in_gop % 16, 4).bits(1, 1).bits(second, 1)
            if is_idr:
                slice_bits.ue(number // 10 % 2)
            slice_bits.bits((2 * in_gop + second) % 256, 8)
            if in_gop:
                slice_bits.bits(0, 1).bits(0, 1)  # default number and order of references
            slice_bits.bits(0, 2 if is_idr else 1)  # keep as reference, sliding window
            slice_bits.se(0).ue(1)  # quantiser as in the parameter set; no deblocking
            _field_macroblocks(slice_bits, columns, rows // 2, number, second, is_intra=in_gop == 0)
            units.append(unit + _nal(5 if is_idr else 1, slice_bits.trailing()))
    return units


def _field_macroblocks(out: BitWriter, columns: int, rows: int, number: int, second: bool, *, is_intra: bool) -> None:
    random = np.random.default_rng(2 * number + second)
    skipped = 0
    for address in range(columns * rows):
        if not is_intra and address % columns != number % columns:
            skipped += 1
            continue
        if not is_intra:
            out.ue(skipped)
            skipped = 0
        out.ue(25 if is_intra else 30).align()  # I_PCM
        luma = np.linspace(16 + number * 3 % 100, 120 + address % columns * 12, _MACROBLOCK**2) + 8 * second
        chroma = random.integers(90, 166, 2).repeat(_MACROBLOCK**2 // 4)
        out.raw(np.concatenate([luma, chroma]).astype(np.uint8).tobytes())
    if skipped:
        out.ue(skipped)


def pack_b_frames(time_increment_bits: int) -> Callable[[list[Any]], list[Any]]:
    """A ``rewrite`` of MPEG-4 packets as DivX packs them into AVI: a B picture shares the packet of the P before it.

    ::

        encoder   I0  P2  B1  P4    B3  ...
        packed    I0  P2+B1   empty P4+B3   empty ...
    """

    def rewrite(packets: list[Any]) -> list[Any]:
        data = [bytes(packet) for packet in packets]
        data[0] = _mark_as_packed(data[0])
        kinds = [_vop_type(chunk) for chunk in data]
        packed: list[bytes] = []
        is_key = []
        i = 0
        while i < len(data):
            is_key.append(packets[i].is_keyframe)
            if i + 1 < len(data) and kinds[i] != "B" and kinds[i + 1] == "B":
                packed += [data[i] + data[i + 1], empty_vop(time_increment_bits)]
                is_key.append(False)
                i += 2
            else:
                packed.append(data[i])
                i += 1
        time_base = packets[0].time_base
        parts = enumerate(zip(packed, is_key, strict=True))
        return [make_packet(chunk, number, key, time_base) for number, (chunk, key) in parts]

    return rewrite


def make_packet(data: bytes, time: int, is_key: bool, time_base: Any) -> Any:
    """A packet with equal pts and dts that lasts one tick."""
    packet = av.Packet(data)
    packet.pts = packet.dts = time
    packet.duration, packet.time_base, packet.is_keyframe = 1, time_base, is_key
    return packet


def with_data(packet: Any, data: bytes) -> Any:
    """A packet with the times and flags of another and other bytes."""
    changed = av.Packet(data)
    changed.pts, changed.dts, changed.duration = packet.pts, packet.dts, packet.duration
    changed.time_base, changed.is_keyframe = packet.time_base, packet.is_keyframe
    return changed


def _vop_type(chunk: bytes) -> str:
    at = chunk.index(b"\0\0\1\xb6") + 4
    return "IPBS"[chunk[at] >> 6]


def empty_vop(time_increment_bits: int) -> bytes:
    """An MPEG-4 picture that is not coded: the one before it stays."""
    header = BitWriter().bits(1, 2).bits(0, 1).bits(1, 1).bits(0, time_increment_bits).bits(1, 1).bits(0, 1).bits(0, 1)
    return b"\0\0\1\xb6" + header.align(1).to_bytes()


def _mark_as_packed(chunk: bytes) -> bytes:
    at = chunk.index(b"\0\0\1\xb6")
    return chunk[:at] + b"\0\0\1\xb2DivX503b1393p" + chunk[at:]


def replace_edit_list(*edits: tuple[int, int]) -> Callable[[bytes], bytes]:
    """A ``patch`` that gives an MP4 file with one track, and moov after mdat, another edit list.

    An edit is (duration in movie ticks, media time in track ticks, or -1 for an empty one).
    """
    entries = b"".join(struct.pack(">IiI", duration, media_time, 1 << 16) for duration, media_time in edits)
    edts = box(b"edts", box(b"elst", struct.pack(">II", 0, len(edits)) + entries))

    def patch(data: bytes) -> bytes:
        boxes = list(_boxes(data))
        assert boxes[-1][0] == b"moov", "the movie header must come last, so that no sample moves"
        return b"".join(box(kind, _with_edits(body, edts) if kind == b"moov" else body) for kind, body in boxes)

    return patch


def _with_edits(moov: bytes, edts: bytes) -> bytes:
    out = b""
    for kind, body in _boxes(moov):
        if kind == b"trak":
            inner = [box(name, content) for name, content in _boxes(body) if name != b"edts"]
            body = inner[0] + edts + b"".join(inner[1:])
        out += box(kind, body)
    return out


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + size]
        at += size


def box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def drop_ts_timestamps(data: bytes) -> bytes:
    """Leave only every third picture of a transport stream its time stamps, as is allowed."""
    out = bytearray(data)
    count = 0
    for start in range(0, len(out), _TS_PACKET):
        at = start + 4
        if out[start + 3] & 0x20:  # adaptation field
            at += 1 + out[at]
        starts_unit = out[start + 1] & 0x40 and out[start + 3] & 0x10
        if not starts_unit or out[at : at + 3] != b"\0\0\1" or not 0xE0 <= out[at + 3] <= 0xEF:
            continue
        if count % 3:
            out[at + 7] &= 0x3F
            out[at + 9 : at + 9 + out[at + 8]] = b"\xff" * out[at + 8]
        count += 1
    return bytes(out)
