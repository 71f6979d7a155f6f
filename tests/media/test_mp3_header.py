"""Positions of MP3 frames from a few probes, in hand-made files and in random bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from media_audio_surgery import ape_tag, with_id3_picture
from mediatensor._engine.containers.audio_frames import (
    ConstantFrames,
    constant_frames,
    find_frame,
    header_key,  # private: it affects only damaged files
)

# (header with and without padding, offset of side information and of the tag, bytes of a frame times 49)
_KINDS = {
    "128 kbit/s, 44.1 kHz, stereo": ("fffb9264", "fffb9064", 36, 20480),
    "128 kbit/s, 44.1 kHz, mono": ("fffb92c4", "fffb90c4", 21, 20480),
    "320 kbit/s, 48 kHz, stereo": ("fffbe664", "fffbe464", 36, 960 * 49),
    "64 kbit/s, 22.05 kHz, mono": ("fff382c4", "fff380c4", 13, 208.97959183673470 * 49),
    "8 kbit/s, 8 kHz, mono": ("ffe31ac4", "ffe318c4", 13, 72 * 49),
}  # fmt: skip
_NUM_FRAMES = 300


def sizes_of(kind: str, num_frames: int, first: int = 0) -> list[int]:
    """Return the bytes of frames, by rounding their starts down."""
    numerator = round(_KINDS[kind][3])
    return [(number + 1) * numerator // 49 - number * numerator // 49 for number in range(first, first + num_frames)]


def frames_of(kind: str, num_frames: int = _NUM_FRAMES, first: int = 0) -> bytes:
    padded, unpadded = (bytes.fromhex(text) for text in _KINDS[kind][:2])
    shortest = round(_KINDS[kind][3]) // 49
    return b"".join(
        (padded if size > shortest else unpadded) + bytes(size - 4) for size in sizes_of(kind, num_frames, first)
    )


def tag_frame(kind: str, num_frames: int, name: bytes = b"Info", padding: int = 0) -> bytes:
    """Make a frame with LAME's tag: frames, bytes, table of positions, quality, version, delays."""
    frame = bytearray(bytes.fromhex(_KINDS[kind][1]) + bytes(round(_KINDS[kind][3]) // 49 - 4))
    tag = name + (15).to_bytes(4, "big") + num_frames.to_bytes(4, "big") + bytes(4 + 100 + 4) + b"LAME3.100"
    tag += bytes(12) + (576 << 12 | padding).to_bytes(3, "big")
    at = _KINDS[kind][2]
    frame[at : at + len(tag)] = tag
    return bytes(frame)


def look_at(data: bytes) -> ConstantFrames | None:
    return constant_frames(lambda position, size: data[position : position + size], len(data))


@pytest.mark.parametrize("kind", _KINDS)
def test_frames_have_computed_positions(kind: str) -> None:
    frames = look_at(frames_of(kind))
    assert frames.num_frames == _NUM_FRAMES
    at, positions = 0, []
    for size in sizes_of(kind, _NUM_FRAMES):
        positions.append(at)
        at += size
    assert [frames.position(number) for number in range(_NUM_FRAMES)] == positions


@pytest.mark.parametrize("first", range(1, 49, 6))
def test_padding_may_start_anywhere_in_its_pattern(first: int) -> None:
    kind = "128 kbit/s, 44.1 kHz, stereo"
    frames = look_at(frames_of(kind, first=first))
    whole = 1000 * 20480 // 49
    late = sum(sizes_of(kind, 1000, first))
    assert frames.position(1000) == late
    assert abs(late - whole) <= 1


def test_rounding_restarts_in_joined_files() -> None:
    kind = "128 kbit/s, 44.1 kHz, stereo"
    data = b"".join(frames_of(kind, num_frames) for num_frames in (110, 75, 120, 75))
    frames = look_at(data)
    assert frames.num_frames == 380
    at = 0
    for number, size in enumerate(size for num_frames in (110, 75, 120, 75) for size in sizes_of(kind, num_frames)):
        assert find_frame(lambda position, size: data[position : position + size], frames, number) == at
        at += size
    assert at != frames.position(380)


def test_unpadded_frames_have_constant_length() -> None:
    data = (bytes.fromhex("fffb9064") + bytes(413)) * _NUM_FRAMES
    frames = look_at(data)
    assert frames.position(_NUM_FRAMES - 1) == 417 * (_NUM_FRAMES - 1)


@pytest.mark.parametrize("kind", list(_KINDS)[:3])
def test_encoder_tag_is_parsed(kind: str) -> None:
    frames = look_at(tag_frame(kind, _NUM_FRAMES, padding=1729) + frames_of(kind))
    assert frames.first_position == round(_KINDS[kind][3]) // 49
    # 1729 samples minus the decoder's 529 are one frame of 1152 and 48 samples.
    numbers = (_NUM_FRAMES - 3, _NUM_FRAMES - 2, _NUM_FRAMES - 1, _NUM_FRAMES)
    assert [frames.num_discarded(number) for number in numbers] == [0, 48, 1152, 0]


_SOUND = frames_of("128 kbit/s, 44.1 kHz, stereo")
_TAGGED = tag_frame("128 kbit/s, 44.1 kHz, stereo", _NUM_FRAMES) + _SOUND
_ID3V1 = b"TAG" + b"\xff\xfb\x92\x64" * 31 + b"\0"


@pytest.mark.parametrize(
    "surround",
    [
        lambda data: with_id3_picture(data),
        lambda data: b"ID3\4\0\x10\0\0\1\0" + bytes(128) + b"3DI\4\0\x10\0\0\1\0" + data,
        lambda data: b"ID3\3\0\0\0\0\1\0" + bytes(128) + b"ID3\3\0\0\0\0\0\0" + data,
        lambda data: data + _ID3V1,
        lambda data: data + ape_tag(bytes(1000)),
        lambda data: data + ape_tag(bytes(1000)) + _ID3V1,
        lambda data: data + b"\xff\xfb\x90\x64" + bytes(100),
    ],
    ids=["picture", "footer", "two tags", "ID3v1", "APE", "APE and ID3v1", "cut frame"],
)
@pytest.mark.parametrize("data", [_SOUND, _TAGGED], ids=["bare", "tagged"])
def test_tags_around_audio_are_skipped(data: bytes, surround: Callable[[bytes], bytes]) -> None:
    plain, surrounded = look_at(data), look_at(surround(data))
    assert surrounded.num_frames == plain.num_frames == _NUM_FRAMES
    at = surrounded.first_position
    assert surround(data)[at : at + 1000] == _SOUND[:1000]


def _other_rate_at(number: int) -> bytes:
    """Replace two frames of 128 kbit/s by one of 256 kbit/s."""
    at = sum(sizes_of("128 kbit/s, 44.1 kHz, stereo", number))
    return _SOUND[:at] + b"\xff\xfb\xd0\x64" + _SOUND[at + 4 :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"ID3",
        b"ID3\3\0\0\x7f\x7f\x7f\x7f" + _SOUND,
        b"ID3\3\0\0\0\0\0\0" * 1000 + _SOUND,
        b"RIFF" + _SOUND,
        _SOUND[:417] * 3,
        tag_frame("128 kbit/s, 44.1 kHz, stereo", _NUM_FRAMES, b"Xing") + _SOUND,
        tag_frame("128 kbit/s, 44.1 kHz, stereo", _NUM_FRAMES + 1) + _SOUND,
        tag_frame("128 kbit/s, 44.1 kHz, stereo", _NUM_FRAMES - 1) + _SOUND,
        _TAGGED + _TAGGED,
        _TAGGED + bytes(2000),
        _TAGGED[:-1000],
        _SOUND[:80_000] + bytes(20_000) + _SOUND[100_000:],
        _SOUND[:50_000] + bytes(40) + _SOUND[50_000:],
        _other_rate_at(20),
        _other_rate_at(299),
        _SOUND + ape_tag(bytes(1000))[:-24] + b"\xff" * 24,
    ],
    ids=[
        "empty", "a byte", "cut tag", "endless tag", "a thousand tags", "RIFF", "few frames", "Xing", "a frame missing",
        "a frame too many", "concatenated", "zeros behind", "truncated", "zeros", "bytes inserted", "other rate early",
        "other rate last", "APE without a size",
    ],
)  # fmt: skip
def test_uncertain_files_are_refused(data: bytes) -> None:
    assert look_at(data) is None


def test_random_bytes_are_refused() -> None:
    draw = random.Random(5)
    for _ in range(300):
        data = bytearray(with_id3_picture(_TAGGED)[-len(_TAGGED) - 100 :] if draw.random() < 0.3 else _TAGGED + _ID3V1)
        for _ in range(draw.randrange(1, 40)):
            data[draw.choice((draw.randrange(200), draw.randrange(len(data))))] = draw.randrange(256)
        look_at(bytes(data[: draw.randrange(len(data))]))
        look_at(bytes(data))
        look_at(draw.randbytes(2000))


def test_unreadable_file_is_refused() -> None:
    assert constant_frames(lambda position, size: _SOUND[position : position + size // 2], len(_SOUND)) is None


def test_header_key_ignores_variable_bits() -> None:
    keys = {header_key(bytes.fromhex(text)) for text in ("fffb9064", "fffb9264", "fffb90c4", "fffb9244")}
    assert len(keys) == 1
    others = ("fffb8064", "fffb9464", "fffa9064", "fff39064", "fffd9064", "fffbf064", "fffb0064", "fffb9c64", "0000")
    assert not keys & {header_key(bytes.fromhex(text)) for text in others}
