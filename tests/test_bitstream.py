"""The bits of VP8, VP9, H.264 and HEVC packets that the index looks at."""

from __future__ import annotations

import pytest

from mediatensor.decoders._bitstream import is_sound, nal_units_are_sound, picture_parser


def hides_frame(codec: str | None, packet: bytes) -> bool:
    parser = picture_parser(codec)
    return parser is not None and parser(memoryview(packet)) == 0


def vp9_header(*, show_existing: int = 0, show: int = 1, profile: int = 0) -> bytes:
    """The first bits of an uncompressed header as the VP9 specification lists them, padded to four bytes."""
    bits = f"10{profile & 1}{profile >> 1}" + ("0" if profile == 3 else "") + f"{show_existing}"
    bits += "000" if show_existing else f"0{show}0"
    return int(bits.ljust(32, "0"), 2).to_bytes(4, "big")


def vp9_superframe(*frames: bytes) -> bytes:
    marker = bytes([0b110_00_000 | (len(frames) - 1)])
    return b"".join(frames) + marker + b"".join(bytes([len(f)]) for f in frames) + marker


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
def test_vp9_show_bits(profile: int) -> None:
    assert not hides_frame("vp9", vp9_header(profile=profile))
    assert hides_frame("vp9", vp9_header(show=0, profile=profile))
    assert not hides_frame("vp9", vp9_header(show_existing=1, profile=profile))


def test_vp9_superframe_shows_if_any_frame_in_it_does() -> None:
    hidden, shown = vp9_header(show=0), vp9_header()
    assert not hides_frame("vp9", vp9_superframe(hidden, shown))
    assert hides_frame("vp9", vp9_superframe(hidden, hidden))


@pytest.mark.parametrize(("first_byte", "hidden"), [(0x10, False), (0x11, False), (0x00, True), (0x01, True)])
def test_vp8_show_bit(first_byte: int, hidden: bool) -> None:
    assert hides_frame("vp8", bytes([first_byte, 0, 0])) is hidden


def test_other_codecs_hide_nothing() -> None:
    assert not hides_frame("h264", bytes(10))
    assert not hides_frame(None, bytes(10))


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_nal_lengths_must_fill_the_packet(length_size: int) -> None:
    unit = (3).to_bytes(length_size, "big") + bytes([0x65, 1, 2])
    assert nal_units_are_sound(memoryview(unit * 3), length_size)
    assert not nal_units_are_sound(memoryview(unit * 3)[:-1], length_size)
    assert not nal_units_are_sound(memoryview(unit + b"\x05"), length_size)


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
    assert nal_units_are_sound(memoryview(packet), 4, is_hevc=is_hevc) is sound


@pytest.mark.parametrize(
    ("codec", "packet", "sound"),
    [
        ("mpeg4", bytes(50), False),
        ("mpeg4", bytes(10), True),  # too short to tell
        ("rawvideo", bytes(50), True),
        ("vp9", vp9_header().ljust(20, b"x"), True),
        ("vp9", b"\x42" * 20, False),
        ("vp8", bytes([0x10, 0, 0, 0x9D, 0x01, 0x2A]).ljust(20, b"x"), True),
        ("vp8", bytes([0x10, 0, 0, 0x9D, 0x01, 0x2B]).ljust(20, b"x"), False),
        ("vp8", b"\x11" * 20, True),  # an inter frame has no start code
    ],
)
def test_packets_must_begin_as_their_codec_does(codec: str, packet: bytes, sound: bool) -> None:
    assert is_sound(codec, memoryview(packet)) is sound
