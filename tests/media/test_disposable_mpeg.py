"""Disposable MPEG-1, 2 and 4 packets, on hand-made bytes."""

from __future__ import annotations

import pytest

from media_surgery import BitWriter
from mediatensor._engine.bitstreams.content import disposable_parser
from mediatensor._engine.bitstreams.units import Disposable


def is_disposable(codec: str, extradata: bytes, packet: bytes) -> bool:
    return disposable_parser(codec, extradata)(memoryview(packet)) == Disposable.YES


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
