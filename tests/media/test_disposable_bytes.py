"""Disposable packets of each codec, on hand-made bytes."""

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


_UNITS = h264_field_pictures(2, 2, 4, 25)
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


# MPEG-1, 2 and 4


def mpeg2_picture(kind: int, structure: int | None = 3) -> bytes:
    """Make a picture header (13818-2, 6.2.3), perhaps its coding extension (6.2.3.1), and two slices."""
    header = b"\0\0\1\0" + BitWriter().bits(7, 10).bits(kind, 3).bits(0xFFFF, 16).bits(0, 3).to_bytes()
    if structure is not None:
        header += (
            b"\0\0\1\xb5" + BitWriter().bits(8, 4).bits(0xFFFF, 16).bits(0, 2).bits(structure, 2).to_bytes() + b"\0"
        )
    return header + b"\0\0\1\1abc\0\0\1\2def"


_QUANTISER_EXTENSION = b"\0\0\1\xb5\x38"


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (mpeg2_picture(3), True),
        (mpeg2_picture(3, None), True),  # MPEG-1
        (mpeg2_picture(3) * 2, True),
        (mpeg2_picture(3) + b"\0\0\1\xb2user", True),
        (mpeg2_picture(3, 1) + mpeg2_picture(3, 2), True),
        (mpeg2_picture(3, 2) + mpeg2_picture(3, 1), True),
        (mpeg2_picture(3, 1), False),
        (mpeg2_picture(3, 1) * 2, False),
        (mpeg2_picture(1), False),
        (mpeg2_picture(2), False),
        (mpeg2_picture(4, None), False),
        (mpeg2_picture(3) + mpeg2_picture(2), False),
        (mpeg2_picture(3) + _QUANTISER_EXTENSION, False),
        (b"\0\0\1\xb8GOP." + mpeg2_picture(3), False),
        (b"\0\0\1\xb3seq." + mpeg2_picture(3), False),
        (mpeg2_picture(3) + b"\0\0\1\xb7", False),
        (mpeg2_picture(3)[:5], False),
        (b"", False),
        (bytes(50), False),
    ],
)
def test_mpeg2_packets_are_classified(packet: bytes, expected: bool) -> None:
    assert is_disposable("mpeg2video", b"", packet) is expected
    assert is_disposable("mpeg1video", b"", packet) is expected


def mpeg4_layer(
    *, control: int = 1, low_delay: int = 0, interlaced: int = 0, shape: int = 0, fixed_rate: int = 0
) -> bytes:
    """Make a video object layer (14496-2, 6.2.3) with an extended aspect ratio and all or no control parameters."""
    bits = BitWriter().bits(0, 1).bits(17, 8).bits(1, 1).bits(5, 4).bits(1, 3).bits(15, 4).bits(0x0B0C, 16)
    bits.bits(control, 1)
    if control:
        bits.bits(1, 2).bits(low_delay, 1).bits(1, 1).bits(-1, 79)
    bits.bits(shape, 2).bits(1, 1).bits(25, 16).bits(1, 1).bits(fixed_rate, 1)
    if fixed_rate:
        bits.bits(1, 5)
    bits.bits(1, 1).bits(96, 13).bits(1, 1).bits(64, 13).bits(1, 1).bits(interlaced, 1).bits(0x55, 8)
    return b"\0\0\1\x20" + bits.to_bytes()


def vops(kinds: str) -> bytes:
    return b"".join(b"\0\0\1\xb6" + bytes(["IPBS".index(kind) << 6 | 0x15]) + b"abc" for kind in kinds)


@pytest.mark.parametrize(
    ("kinds", "expected"), [("B", True), ("I", False), ("P", False), ("S", False), ("PB", False), ("BP", False)]
)
def test_mpeg4_packets_are_classified(kinds: str, expected: bool) -> None:
    for extradata in (mpeg4_layer(), mpeg4_layer(fixed_rate=1), mpeg4_layer() + b"\0\0\1\xb2Lavc60"):
        assert is_disposable("mpeg4", extradata, vops(kinds)) is expected


@pytest.mark.parametrize(
    "extradata",
    [
        b"",
        mpeg4_layer(control=0),
        mpeg4_layer(low_delay=1),
        mpeg4_layer(interlaced=1),
        mpeg4_layer(interlaced=1, fixed_rate=1),
        mpeg4_layer(shape=1),
        mpeg4_layer()[:20],
        mpeg4_layer() + mpeg4_layer(fixed_rate=1),
        mpeg4_layer() + b"\0\0\1\xb2DivX503b1393p",
        mpeg4_layer() + b"\0\0\1\xb2DivX503Build1393p\0",
    ],
)
def test_mpeg4_unsupported_streams_have_no_disposable_packets(extradata: bytes) -> None:
    assert not is_disposable("mpeg4", extradata, vops("B"))


@pytest.mark.parametrize(
    "packet", [mpeg4_layer(fixed_rate=1) + vops("I"), vops("PB"), b"\0\0\1\xb2DivX503b1393p" + vops("I")]
)
def test_mpeg4_changed_header_ends_disposable_packets(packet: bytes) -> None:
    parse = disposable_parser("mpeg4", mpeg4_layer())
    assert parse(memoryview(mpeg4_layer() + b"\0\0\1\xb2DivX503b1393\0\0\1\xb3gov" + vops("I"))) == Disposable.NO
    assert parse(memoryview(vops("B"))) == Disposable.YES
    parse(memoryview(packet))
    assert parse(memoryview(vops("B"))) == Disposable.NO


# AV1


def av1_sequence(
    *,
    reduced: int = 0,
    frame_ids: int = 0,
    tools: int = 2,
    integer_motion: int = 2,
    order_bits: int = 7,
    timing: int = 0,
) -> bytes:
    """Make a sequence header (5.5.1); ``timing`` is 1 for timing information, 2 with a decoder model."""
    bits = BitWriter().bits(0, 4).bits(reduced, 1).bits(timing > 0, 1)
    if timing:
        bits.bits(1, 32).bits(25, 32).bits(1, 1).bits(0b010, 3).bits(timing > 1, 1)
    bits.bits(1, 1).bits(0, 5).bits(0, 12).bits(8, 5).bits(1, 1).bits(1, 1).bits(9, 4)  # one operating point
    bits.bits(6, 4).bits(5, 4).bits(95, 7).bits(63, 6).bits(frame_ids, 1).bits(0, 7)
    bits.bits(order_bits > 0, 1)
    if order_bits:
        bits.bits(3, 2)
    bits.bits(1, 1) if tools == 2 else bits.bits(tools, 2)
    if tools:
        bits.bits(1, 1) if integer_motion == 2 else bits.bits(integer_motion, 2)
    if order_bits:
        bits.bits(order_bits - 1, 3)
    return obu(1, bits.bits(0x2A, 8).to_bytes())


def av1_header(
    *, refresh: int, existing: int = 0, kind: int = 1, show: int = 1, resilient: int = 0, tools: int | None = 1,
    integer_motion: int | None = 1, order_bits: int = 7,
) -> bytes:  # fmt: skip
    """Make a frame header (5.9.2); ``None`` for fields that the sequence header determines."""
    bits = BitWriter().bits(existing, 1).bits(kind, 2).bits(show, 1)
    if not show:
        bits.bits(0, 1)
    bits.bits(resilient, 1).bits(0, 1)
    if tools is not None:
        bits.bits(tools, 1)
    if integer_motion is not None:
        bits.bits(integer_motion, 1)
    bits.bits(0, 1).bits(0x55, order_bits)
    if not resilient:
        bits.bits(5, 3)
    return bits.bits(refresh, 8).bits(0xFF, 8).to_bytes()


def obu(kind: int, payload: bytes, extension: int | None = None, *, has_size: bool = True) -> bytes:
    header = bytes([kind << 3 | (extension is not None) << 2 | has_size << 1])
    header += b"" if extension is None else bytes([extension])
    return header + (bytes([len(payload)]) if has_size else b"") + payload


_NO_UPDATE, _UPDATE = av1_header(refresh=0), av1_header(refresh=1)


@pytest.mark.parametrize("record", [b"", b"\x81\x00\x0c\x00"], ids=["header", "record"])
@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ([obu(6, _NO_UPDATE)], True),
        ([obu(6, _NO_UPDATE, has_size=False)], True),
        ([obu(2, b""), obu(3, _NO_UPDATE), obu(4, b"\x00\xff"), obu(5, b"\x01\x80")], True),
        ([obu(6, _NO_UPDATE), obu(6, _NO_UPDATE)], True),
        ([obu(6, _NO_UPDATE, extension=0x20)], True),  # temporal layer 1
        ([obu(6, _NO_UPDATE, extension=0x08)], False),  # spatial layer 1
        ([obu(6, av1_header(refresh=0, show=0))], True),
        ([obu(6, av1_header(refresh=0, resilient=1))], True),
        ([obu(6, _UPDATE)], False),
        ([obu(6, av1_header(refresh=0x80, show=0))], False),
        ([obu(6, _UPDATE), obu(6, _NO_UPDATE)], False),
        ([obu(6, _NO_UPDATE), obu(6, _UPDATE)], False),
        ([obu(3, av1_header(refresh=0, existing=1))], False),
        ([obu(6, _NO_UPDATE), obu(3, b"\x90")], False),
        ([obu(6, av1_header(refresh=0, kind=0))], False),
        ([obu(6, av1_header(refresh=0, kind=2))], False),
        ([obu(6, av1_header(refresh=0, kind=3))], False),
        ([obu(6, _NO_UPDATE), obu(7, _NO_UPDATE)], False),
        ([obu(8, _NO_UPDATE)], False),
        ([av1_sequence(), obu(6, _NO_UPDATE)], False),
        ([obu(6, _NO_UPDATE)[:-1]], False),
        ([obu(6, b"\x30")], False),
        ([b"\x80\x00"], False),
        ([b"\x32" + b"\xff" * 9], False),
        ([obu(2, b"")], False),
        ([], False),
    ],
)
def test_av1_packets_are_classified(units: list[bytes], expected: bool, record: bytes) -> None:
    assert is_disposable("av1", record + av1_sequence(), b"".join(units)) is expected


@pytest.mark.parametrize("timing", [0, 1])
@pytest.mark.parametrize("order_bits", [0, 1, 8])
@pytest.mark.parametrize(
    ("tools", "integer_motion", "in_frame"),
    [
        (0, 2, {"tools": None, "integer_motion": None}),
        (1, 0, {"tools": None, "integer_motion": None}),
        (1, 2, {"tools": None, "integer_motion": 1}),
        (2, 1, {"tools": 1, "integer_motion": None}),
        (2, 2, {"tools": 0, "integer_motion": None}),
        (2, 2, {"tools": 1, "integer_motion": 0}),
    ],
)
def test_av1_frame_headers_depend_on_sequence_header(
    tools: int, integer_motion: int, in_frame: dict[str, int | None], order_bits: int, timing: int
) -> None:
    extradata = av1_sequence(tools=tools, integer_motion=integer_motion, order_bits=order_bits, timing=timing)
    for refresh in (0, 1, 0x80):
        packet = obu(6, av1_header(refresh=refresh, order_bits=order_bits, **in_frame))
        assert is_disposable("av1", extradata, packet) is (refresh == 0)


@pytest.mark.parametrize("special", [{"reduced": 1}, {"frame_ids": 1}, {"timing": 2}])
def test_av1_unsupported_sequences_have_no_disposable_packets(special: dict[str, int]) -> None:
    assert not is_disposable("av1", av1_sequence(**special), obu(6, _NO_UPDATE))


def test_av1_sequence_headers_in_packets_are_compared() -> None:
    parse = disposable_parser("av1", b"")
    packet, key_packet = memoryview(obu(6, _NO_UPDATE)), memoryview(av1_sequence() + obu(6, b"\x10\0"))
    assert [parse(packet), parse(key_packet), parse(packet)] == [Disposable.NO, Disposable.NO, Disposable.YES]
    assert [parse(key_packet), parse(packet)] == [Disposable.NO, Disposable.YES]
    parse(memoryview(av1_sequence(order_bits=6)))
    assert [parse(key_packet), parse(packet)] == [Disposable.NO, Disposable.NO]
