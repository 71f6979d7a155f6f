"""Bits of VP8, VP9, H.264 and HEVC packets that the index parses."""

from __future__ import annotations

import numpy as np
import pytest

from mediatensor._engine.bitstreams.content import (
    content_parser,
    has_valid_start,
    is_shown_at_once,
    nal_units_are_valid,
)
from mediatensor._engine.bitstreams.h264 import H264Parser
from mediatensor._engine.bitstreams.units import PacketContent, nal_units


def hides_frame(codec: str | None, packet: bytes) -> bool:
    return content_parser(codec, b"")(memoryview(packet)) is PacketContent.NO_PICTURE


def vp9_header(*, show_existing: int = 0, show: int = 1, profile: int = 0) -> bytes:
    """Make the first bits of an uncompressed header as in the VP9 specification, padded to four bytes."""
    bits = f"10{profile & 1}{profile >> 1}" + ("0" if profile == 3 else "") + f"{show_existing}"
    bits += "000" if show_existing else f"0{show}0"
    return int(bits.ljust(32, "0"), 2).to_bytes(4, "big")


def vp9_superframe(*frames: bytes) -> bytes:
    marker = bytes([0b110_00_000 | (len(frames) - 1)])
    return b"".join(frames) + marker + b"".join(bytes([len(f)]) for f in frames) + marker


@pytest.mark.parametrize("size_bytes", range(1, 10))
@pytest.mark.parametrize("shown", [False, True])
def test_av1_unit_size_has_up_to_eight_bytes(size_bytes: int, shown: bool) -> None:
    payload = bytes([0x10 if shown else 0, 0, 0])
    size = bytes([128 | len(payload), *[128] * (size_bytes - 2), 0]) if size_bytes > 1 else bytes([len(payload)])
    packet = bytes([6 << 3 | 2]) + size + payload
    beginning = np.frombuffer(packet.ljust(16, b"\0"), np.uint8)[None]
    is_valid = size_bytes <= 8
    assert hides_frame("av1", packet) == (is_valid and not shown)
    assert is_shown_at_once("av1", beginning, np.array([len(packet)])).item() == (shown or not is_valid)


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
def test_vp9_show_bits_decide_content(profile: int) -> None:
    assert not hides_frame("vp9", vp9_header(profile=profile))
    assert hides_frame("vp9", vp9_header(show=0, profile=profile))
    assert not hides_frame("vp9", vp9_header(show_existing=1, profile=profile))


def test_vp9_superframe_shows_if_any_frame_in_it_does() -> None:
    hidden, shown = vp9_header(show=0), vp9_header()
    assert not hides_frame("vp9", vp9_superframe(hidden, shown))
    assert hides_frame("vp9", vp9_superframe(hidden, hidden))
    layers = memoryview(vp9_superframe(shown, hidden, shown))
    assert content_parser("vp9", b"")(layers) is PacketContent.UNCERTAIN, "spatial layers"


@pytest.mark.parametrize(("first_byte", "hidden"), [(0x10, False), (0x11, False), (0x00, True), (0x01, True)])
def test_vp8_show_bit_decides_content(first_byte: int, hidden: bool) -> None:
    assert hides_frame("vp8", bytes([first_byte, 0, 0])) is hidden


def test_other_codecs_count_all_packets_as_pictures() -> None:
    assert not hides_frame("h264", bytes(10))
    assert not hides_frame(None, bytes(10))


_PICTURE, _NO_PICTURE, _FOREIGN = PacketContent.PICTURE, PacketContent.NO_PICTURE, PacketContent.FOREIGN
_UNCERTAIN = PacketContent.UNCERTAIN


@pytest.mark.parametrize(
    ("codec", "units", "content"),
    [
        ("h264", [b"\x09\xf0", b"\x67\x42", b"\x68\xce", b"\x06\5", b"\x65\x88"], _PICTURE),
        ("h264", [b"\x01\x9a"], _PICTURE),
        ("h264", [b"\x09\xf0", b"\x06\5", b"\x0c\xff", b"\x0a"], _NO_PICTURE),
        ("h264", [b"\xb3\6", b"\xb5\x14", b"\xb8\0", b"\0\0", b"\1\x13"], _FOREIGN),  # MPEG-2
        ("h264", [b"\x40\1", b"\x42\1", b"\x44\1", b"\x26\1"], _FOREIGN),  # HEVC
        ("hevc", [b"\x46\1\x50", b"\x40\1", b"\x26\1\xaf"], _PICTURE),
        ("hevc", [b"\0\1\xd0"], _PICTURE),
        ("hevc", [b"\0\x09\xd0"], _NO_PICTURE),  # of layer 1
        ("hevc", [b"\x46\1\x50", b"\x48\1", b"\x4a\1"], _NO_PICTURE),
        ("hevc", [b"\x09\xf0", b"\x67\x42", b"\x65\x88"], _FOREIGN),  # H.264
        ("mpeg2video", [b"\xb3\6", b"\xb5\x14", b"\xb8\0", b"\0\0\x0f"], _PICTURE),
        ("mpeg2video", [b"\xb2user", b"\xb7"], _NO_PICTURE),
        ("mpeg2video", [b"\x09\xf0", b"\x67\x42"], _FOREIGN),  # slices without a picture
        ("mpeg4", [b"\xb0\xf5", b"\x20\0", b"\xb6\x10"], _PICTURE),
        ("mpeg4", [b"\xb1"], _NO_PICTURE),
        ("mpeg4", [b"\xb8\0", b"\0\0"], _FOREIGN),  # MPEG-2
    ],
)
def test_units_decide_packet_content(codec: str, units: list[bytes], content: PacketContent) -> None:
    packet = b"".join(b"\0\0\1" + unit for unit in units)
    assert content_parser(codec, b"")(memoryview(packet)) is content
    assert content_parser(codec, b"")(memoryview(b"\0" * 3 + b"no unit")) is _PICTURE, "uncertain data is a picture"


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_length_prefixed_units_decide_packet_content(length_size: int) -> None:
    def content(codec: str, *units: bytes) -> PacketContent:
        record = b"\1" + bytes(3) + bytes([length_size - 1]) + bytes(16) + bytes([length_size - 1]) + bytes(3)
        packet = b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)
        return content_parser(codec, record)(memoryview(packet))

    assert content("h264", b"\x09\xf0", b"\x41\x9a\1") is _PICTURE
    assert content("h264", b"\x09\xf0", b"\x06\1\1", b"\x0a") is _NO_PICTURE
    assert content("hevc", b"\x46\1\x50", b"\x02\1\xd0") is _PICTURE
    assert content("hevc", b"\x46\1\x50", b"\x02\x09\xd0", b"\x48\1") is _NO_PICTURE
    # FFmpeg also splits length-prefixed units at start codes.
    assert content("h264", b"\x6e\x40\x80\7\0\0\0\1\6\5\0\0\1\x41\x9a\1") is _PICTURE
    assert content("h264", b"\x6e\x40\x80\7\0\0\0\1\6\5\0\0\1\x0a\0\0\1") is _NO_PICTURE
    assert content("hevc", b"\x46\1\x50\0\0\1\2\1\xd0") is _UNCERTAIN


def test_dirac_picture_bit_decides_content() -> None:
    def unit(code: int, size: int) -> bytes:
        return b"BBCD" + bytes([code]) + (13 + size).to_bytes(4, "big") + bytes(4 + size)

    content_of = content_parser("dirac", b"")
    assert content_of(memoryview(unit(0, 9) + unit(0x20, 14) + unit(0xE8, 50))) is _PICTURE
    assert content_of(memoryview(unit(0, 9) + unit(0x10, 0))) is _NO_PICTURE
    assert content_of(memoryview(b"BBCD\x10" + bytes(8))) is _NO_PICTURE, "the last unit need not state its size"
    assert content_of(memoryview(bytes(20))) is _PICTURE


def test_av1_content_counts_shown_frames() -> None:
    shown, again, hidden, delimiter = b"\x32\1\x10", b"\x1a\1\x80", b"\x32\1\0", b"\x12\0"
    content_of = content_parser("av1", b"")
    assert content_of(memoryview(delimiter + hidden + shown)) is _PICTURE
    assert content_of(memoryview(delimiter + again)) is _PICTURE
    assert content_of(memoryview(delimiter + hidden)) is content_of(memoryview(delimiter)) is _NO_PICTURE
    assert content_of(memoryview(delimiter + shown + delimiter + shown)) is PacketContent.UNCERTAIN


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_nal_lengths_must_fill_the_packet(length_size: int) -> None:
    for header, is_hevc in ((b"\x65\x88", False), (b"\x26\x01", True)):
        unit = (3).to_bytes(length_size, "big") + header + b"\2"
        assert is_whole(unit * 3, length_size, is_hevc=is_hevc)
        assert not is_whole((unit * 3)[:-1], length_size, is_hevc=is_hevc)
        assert not is_whole(unit + b"\x05", length_size, is_hevc=is_hevc)


def is_whole(packet: bytes, length_size: int, *, is_hevc: bool) -> bool:
    if is_hevc:
        return nal_units_are_valid(memoryview(packet), length_size)
    parser = H264Parser(b"\1\x4d\0\x1e" + bytes([0xFC | length_size - 1]) + b"\xe0\0")
    parser.read(memoryview(packet))
    return parser.is_whole


@pytest.mark.parametrize(
    ("header", "is_hevc", "sound"),
    [
        (b"\x65\x88", False, True),  # H.264 IDR slice
        (b"\xe5\x88", False, False),  # forbidden_zero_bit
        (b"\x60\x88", False, False),  # type 0
        (b"\x7f\x88", False, False),  # type 31
        (b"\x26\x01", True, True),  # HEVC IDR_W_RADL, temporal layer 0
        (b"\xa6\x01", True, False),
        (b"\x26\x00", True, False),
    ],
)
def test_nal_headers_must_be_possible(header: bytes, is_hevc: bool, sound: bool) -> None:
    packet = (2).to_bytes(4, "big") + header
    assert is_whole(packet, 4, is_hevc=is_hevc) is sound


@pytest.mark.parametrize(
    ("codec", "packet", "sound"),
    [
        ("mpeg4", bytes(50), False),
        ("mpeg4", bytes(10), True),  # too short
        ("rawvideo", bytes(50), True),
        ("vp9", vp9_header().ljust(20, b"x"), True),
        ("vp9", b"\x42" * 20, False),
        ("vp8", bytes([0x10, 0, 0, 0x9D, 0x01, 0x2A]).ljust(20, b"x"), True),
        ("vp8", bytes([0x10, 0, 0, 0x9D, 0x01, 0x2B]).ljust(20, b"x"), False),
        ("vp8", b"\x11" * 20, True),  # an inter frame has no start code
    ],
)
def test_has_valid_start_checks_start_of_packet(codec: str, packet: bytes, sound: bool) -> None:
    assert has_valid_start(codec, memoryview(packet)) is sound


@pytest.mark.parametrize("packet", [b"\0\0\0\3ab", b"\0\0\0\2ab\0\0", b"\0\0\0\1a\0\0\0\2b"], ids=repr)
def test_nal_units_that_exceed_the_packet_are_refused(packet: bytes) -> None:
    with pytest.raises(ValueError, match="longer than the packet"):
        list(nal_units(memoryview(packet), 4))
