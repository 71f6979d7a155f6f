"""Disposable H.264 and HEVC packets, on hand-made bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from media_surgery import BitWriter, h264_field_pictures
from mediatensor._engine.bitstreams.content import disposable_parser
from mediatensor._engine.bitstreams.units import Disposable


def is_disposable(codec: str, extradata: bytes, packet: bytes) -> bool:
    return disposable_parser(codec, extradata)(memoryview(packet)) == Disposable.YES


# H.264


def fields_of(units: list[bytes], reference: int) -> bytes:
    """Return some of `h264_field_pictures` as one packet, with another nal_ref_idc in the slices."""
    return b"".join(units).replace(b"\0\0\0\1\x61", bytes([0, 0, 0, 1, reference << 5 | 1]))


_UNITS = h264_field_pictures(2, 2, 4, 10, 25)
_PARAMETER_SETS = _UNITS[0][_UNITS[0].index(b"\0\0\0\1\x67") : _UNITS[0].index(b"\0\0\0\1\x65")]
_PROGRESSIVE_SPS = (
    bytes([0x67, 77, 0, 30]) + BitWriter().ue(0).ue(0).ue(2).ue(1).bits(0, 1).ue(5).ue(3).bits(0b1100, 4).trailing()
)
_PROGRESSIVE = b"\0\0\1" + _PROGRESSIVE_SPS
_AVCC = bytes([1, 77, 0, 30, 0xFF, 0xE1, 0, len(_PROGRESSIVE_SPS)]) + _PROGRESSIVE_SPS + b"\0"
_SLICE, _REFERENCE, _IDR = b"\x01\x9a\x30", b"\x41\x9a\x30", b"\x65\x88\x80"


def annex_b(*units: bytes) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def prefixed(*units: bytes, length_size: int = 4) -> bytes:
    return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)


@pytest.mark.parametrize(
    ("numbers", "reference", "expected"),
    [
        ((2, 3), 0, True),
        ((2, 3), 1, False),
        ((2,), 0, False),  # the other field comes in the next packet
        ((3,), 0, False),
        ((2, 3, 4), 0, True),
        ((2, 4), 0, False),  # two top fields
    ],
)
def test_fields_are_disposable_in_pairs(numbers: tuple[int, ...], reference: int, expected: bool) -> None:
    packet = fields_of([_UNITS[number] for number in numbers], reference)
    assert is_disposable("h264", _PARAMETER_SETS, packet) is expected


@pytest.mark.parametrize("pack", [annex_b, prefixed])
@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ((_SLICE,), True),
        ((_SLICE, _SLICE), True),
        ((b"\x09\xf0", b"\x06\x01\x01\xff\x80", _SLICE), True),  # delimiter, picture timing
        ((_SLICE, _REFERENCE), False),
        ((_REFERENCE, _SLICE), False),
        ((_REFERENCE,), False),
        ((_IDR,), False),
        ((b"\x06\x06\x01\xff\x80", _SLICE), False),  # recovery point
        ((b"\x06\x01\x01\xff\x13\x01\xff\x80", _SLICE), False),  # film grain after picture timing
        ((b"\x06\x04\x04\xb5\x58\x90\x01\x80", _SLICE), False),  # film grain as user data
        ((b"\x06\x01\x09\xff\x80", _SLICE), False),  # a message longer than its unit
        ((b"\x68\xee", _SLICE), False),  # picture parameter set
        ((b"\x08\xee", _SLICE), False),
        ((b"\x14\x9a", _SLICE), False),  # slice of another layer
        ((b"\x02\x9a", _SLICE), False),  # data partition
        ((b"\x81\x9a\x30",), False),  # forbidden bit
        ((b"\x09\xf0",), False),
        ((), False),
    ],
)
def test_h264_packets_are_classified(pack: Callable[..., bytes], units: tuple[bytes, ...], expected: bool) -> None:
    extradata = _PROGRESSIVE if pack is annex_b else _AVCC
    assert is_disposable("h264", extradata, pack(*units)) is expected


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_h264_lengths_must_fill_packet(length_size: int) -> None:
    extradata = _AVCC[:4] + bytes([0xFC | (length_size - 1)]) + _AVCC[5:]
    packet = prefixed(_SLICE, _SLICE, length_size=length_size)
    assert is_disposable("h264", extradata, packet)
    assert not is_disposable("h264", extradata, packet[:-1])
    assert not is_disposable("h264", extradata, packet + b"\1")


def test_h264_needs_consistent_parameter_sets() -> None:
    parse = disposable_parser("h264", b"")
    packet = memoryview(annex_b(_SLICE))
    assert parse(packet) == Disposable.NO
    assert parse(memoryview(annex_b(_PROGRESSIVE_SPS, _IDR))) == Disposable.NO
    assert parse(packet) == Disposable.YES
    # From here it may be a single field.
    assert parse(memoryview(_PARAMETER_SETS + annex_b(_IDR))) == Disposable.NO
    assert parse(memoryview(annex_b(b"\x01\x9b\x38\x08"))) == Disposable.NO


# HEVC


def hevc_unit(kind: int, temporal_id: int = 0, layer: int = 0, payload: bytes = b"\x80") -> bytes:
    return bytes([kind << 1 | layer >> 5, (layer & 31) << 3 | temporal_id + 1]) + payload


def hevc_sps(max_sub_layers_minus1: int) -> bytes:
    return hevc_unit(33, payload=bytes([max_sub_layers_minus1 << 1 | 1, 1]))


def hvcc(*sets: bytes) -> bytes:
    arrays = b"".join(b"\x21\0\1" + len(unit).to_bytes(2, "big") + unit for unit in sets)
    return b"\1" + bytes(20) + b"\xff" + bytes([len(sets)]) + arrays


@pytest.mark.parametrize("highest", [0, 2])
@pytest.mark.parametrize("pack", [annex_b, prefixed])
def test_hevc_picture_kinds_decide(pack: Callable[..., bytes], highest: int) -> None:
    """Table 7-1: TRAIL_N, TSA_N, STSA_N, RADL_N and RASL_N are sub-layer non-reference pictures."""
    extradata = annex_b(hevc_sps(highest)) if pack is annex_b else hvcc(hevc_sps(highest))
    for kind, temporal_id in itertools.product(range(48), range(4)):
        expected = kind in (0, 2, 4, 6, 8) and temporal_id == highest
        assert is_disposable("hevc", extradata, pack(hevc_unit(kind, temporal_id))) is expected, (kind, temporal_id)


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ((hevc_unit(0), hevc_unit(0)), True),
        ((hevc_unit(35), hevc_unit(39, payload=b"\x01\x01\xff\x80"), hevc_unit(0)), True),
        ((hevc_unit(0), hevc_unit(40, payload=b"\x84\x01\xff\x80")), True),  # hash
        ((hevc_unit(0), hevc_unit(1)), False),
        ((hevc_unit(0), hevc_unit(0, layer=1)), False),
        ((hevc_unit(0), hevc_unit(0, layer=32)), False),
        ((hevc_unit(39, payload=b"\x06\x01\xff\x80"), hevc_unit(0)), False),  # recovery point
        ((hevc_unit(34), hevc_unit(0)), False),  # picture parameter set
        ((hevc_unit(0), hevc_unit(36)), False),  # end of sequence
        ((hevc_unit(62), hevc_unit(0)), False),
    ],
)
def test_hevc_packets_are_classified(units: tuple[bytes, ...], expected: bool) -> None:
    assert is_disposable("hevc", hvcc(hevc_sps(0)), prefixed(*units)) is expected


@pytest.mark.parametrize("extradata", [b"", hvcc(), hvcc(hevc_sps(0), hevc_sps(1)), hvcc(hevc_sps(0))[:-1]])
def test_hevc_needs_consistent_sub_layers(extradata: bytes) -> None:
    assert not is_disposable("hevc", extradata, prefixed(hevc_unit(0)))


def test_hevc_changed_parameter_sets_end_disposable_packets() -> None:
    parse = disposable_parser("hevc", hvcc(hevc_sps(0)))
    packet = memoryview(prefixed(hevc_unit(0)))
    key_packet = [hevc_unit(32), hevc_sps(0), hevc_unit(34), hevc_unit(19)]
    assert parse(memoryview(prefixed(*key_packet))) == Disposable.NO
    assert parse(packet) == Disposable.YES
    key_packet[1] = hevc_sps(1)
    assert parse(memoryview(prefixed(*key_packet))) == Disposable.NO
    assert parse(packet) == Disposable.NO
