"""Disposable AV1 packets, on hand-made bytes."""

from __future__ import annotations

import pytest

from media_surgery import BitWriter
from mediatensor._engine.bitstreams.content import disposable_parser
from mediatensor._engine.bitstreams.units import Disposable


def is_disposable(codec: str, extradata: bytes, packet: bytes) -> bool:
    return disposable_parser(codec, extradata)(memoryview(packet)) == Disposable.YES


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
