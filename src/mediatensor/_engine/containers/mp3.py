"""Where every frame of an MP3 file of constant bit rate lies, told from its beginning and a few looks at the rest.

Frames of one bit rate are of equal length but for the rounding to bytes, so that frame n begins at the n-th multiple of
a fraction::

    128 kbit/s at 44.1 kHz: 417.96 bytes      0     417     835    1253    1671  ...
                                              |------|-------|-------|-------|
    frame                                     0      1       2       3       4

That a file is of this kind is not taken from what it says of itself: its first frames have to lie so, the last one has
to end where the file does, and so have some between them. Where files were joined, rounding begins anew; so a frame may
lie some bytes beside. Everything here is believed only as far as the file reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor
from typing import Any

from .boxes import ReadAt

__all__ = [
    "ConstantFrames",
    "after_id3",
    "constant_frames",
    "find_frame",
    "has_stated_size",
    "header_key",
    "mp3_frame_size",
]

_HEADER_BYTES = 4

_MAX_ID3_TAGS = 16
_ID3_HEADER_BYTES = 10
_ID3V1_BYTES = 128
_APE_FOOTER_BYTES = 32
_APE_HAS_HEADER = 1 << 31

# By the number of the version: 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
_SAMPLE_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KILOBITS_MPEG_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KILOBITS_MPEG_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_KILOBITS_LAYER_2 = (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
_KILOBITS_LAYER_1_MPEG_2 = (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)

# Sync, version, layer, checksum, bit rate and sample rate. The padding and how channels are joined change at will.
_KEY_MASK = 0xFFFFFC00
_MONO = 3

# Where the pattern of padding repeats: the length of a frame is a multiple of 1/49 byte at 44.1 kHz and its halves.
_NUM_FRAMES_SEEN, _MIN_FRAMES_SEEN = 64, 50
_NUM_PROBES = 8

# How far beside its place a frame may lie: this far, and less than a quarter of a frame, so that it is no other's.
_MAX_BESIDE_BYTES = 16

# Parts of the tag of LAME, from its name on.
_TAG_BYTES = 144
_HAS_FRAMES, _HAS_BYTES, _HAS_TABLE, _HAS_QUALITY = 1, 2, 4, 8
_TABLE_BYTES = 100
_STATES_PADDING = (b"LAME", b"Lavf", b"Lavc")
_AT_PADDING = 21
# Delay of the decoder, which the padding makes up for.
_DECODER_DELAY = 529


@dataclass(frozen=True)
class FrameHeader:
    """What the first four bytes of a layer III frame say.

    Attributes:
        key: What all frames of one bit rate have in common.
        sample_rate: Samples per second.
        samples_per_frame: 1152, or 576 below 32 kHz.
        length: Bytes of a frame, before rounding.
        size: Bytes of this one.
        tag_offset: Where in a frame the tag of an encoder would be.
    """

    key: int
    sample_rate: int
    samples_per_frame: int
    length: Fraction
    size: int
    tag_offset: int


@dataclass(frozen=True)
class ConstantFrames:
    """The frames of a file of constant bit rate.

    Attributes:
        first_position: Of frame 0, behind the one that only holds the encoder's tag.
        length: Bytes of a frame before rounding.
        phase: What is added before rounding down, in bytes; a multiple of what ``length`` is one of.
        num_frames: How many whole ones there are.
        samples_per_frame: 1152, or 576 below 32 kHz.
        sample_rate: Samples per second.
        key: `header_key` of every frame.
        num_padding: Samples at the end that are no sound, as the encoder says.

    Example:
        >>> frames = ConstantFrames(417, Fraction(20480, 49), Fraction(0), 1000, 1152, 44100, 0xFFFB9000, 0)
        >>> [frames.position(number) for number in range(4)]
        [417, 834, 1252, 1670]
    """

    first_position: int
    length: Fraction
    phase: Fraction
    num_frames: int
    samples_per_frame: int
    sample_rate: int
    key: int
    num_padding: int

    def position(self, number: int) -> int:
        """Where in the file a frame begins, if it does not lie beside its place."""
        # In integers, which are ten times as fast as fractions.
        numerator, denominator = self.length.numerator, self.length.denominator
        phase = self.phase.numerator * denominator // self.phase.denominator
        return self.first_position + (number * numerator + phase) // denominator

    def is_frame(self, data: Any, size: int, may_be_longer: bool) -> bool:
        """Whether a packet is a whole frame.

        Args:
            data: Bytes, or what else has a buffer of them.
            size: How many.
            may_be_longer: Whether there may be something behind the frame.
        """
        value = int.from_bytes(memoryview(data)[:_HEADER_BYTES], "big")
        rest = size - self.length.numerator // self.length.denominator
        return value & _KEY_MASK == self.key and rest >= 0 and (rest <= 1 or may_be_longer)

    @property
    def max_beside(self) -> int:
        """How many bytes beside its `position` a frame may lie."""
        return min(_MAX_BESIDE_BYTES, floor(self.length / 4))

    def num_discarded(self, number: int) -> int:
        """How many samples at the end of a frame are padding."""
        behind = (self.num_frames - 1 - number) * self.samples_per_frame
        if behind < 0:
            return 0
        return max(0, min(self.num_padding - behind, self.samples_per_frame))


def header_key(data: bytes) -> int | None:
    """What the header of a frame has in common with those of the same bit rate; ``None`` if it is none of layer III.

    >>> hex(header_key(bytes.fromhex("fffb9264"))), header_key(b"TAG ")
    ('0xfffb9000', None)
    """
    header = _parse_header(data)
    return None if header is None else header.key


def constant_frames(read_at: ReadAt, file_size: int) -> ConstantFrames | None:
    """The frames of an MP3 file, if they are all of one bit rate.

    Args:
        read_at: Reads the file.
        file_size: In bytes.

    Returns:
        ``None`` if that is not so, or not certain: another format, a variable bit rate, something behind the sound that
        is no tag, a number of frames that is not the one stated.
    """
    begin = after_id3(read_at)
    first = _parse_header(read_at(begin, _HEADER_BYTES))
    if first is None:
        return None
    tag = read_at(begin + first.tag_offset, _TAG_BYTES)
    stated_frames, num_padding = None, 0
    if tag[:4] == b"Xing":
        return None
    if tag[:4] == b"Info":
        begin += first.size
        stated_frames, num_padding = _parse_info(tag)
        first = _parse_header(read_at(begin, _HEADER_BYTES))
        if first is None:
            return None
    end = _before_tags(read_at, file_size)
    beginning = read_at(begin, min(end - begin, ceil(first.length * _NUM_FRAMES_SEEN)))
    rounding = _rounding(list(_walk(beginning, first.key)), first.length)
    if rounding is None:
        return None
    length, phase = rounding
    estimate = ceil((end - begin + 1 - phase) / length) - 1
    for num_frames in (estimate, estimate - 1, estimate + 1) if stated_frames is None else (stated_frames,):
        frames = ConstantFrames(
            begin, length, phase, num_frames, first.samples_per_frame, first.sample_rate, first.key, num_padding
        )
        if _lie_as_said(read_at, frames, end):
            return frames
    return None


def has_stated_size(read_at: ReadAt, file_size: int) -> bool:
    """Whether an MP3 file is as long as the encoder's tag says, so that nothing was put behind or into it.

    Args:
        read_at: Reads the file.
        file_size: In bytes.
    """
    begin = after_id3(read_at)
    header = _parse_header(read_at(begin, _HEADER_BYTES))
    if header is None:
        return False
    tag = read_at(begin + header.tag_offset, 16)
    flags = int.from_bytes(tag[4:8], "big")
    if tag[:4] not in (b"Xing", b"Info") or not flags & _HAS_BYTES:
        return False
    at = 8 + 4 * bool(flags & _HAS_FRAMES)
    # Some count the tag itself, and some do not.
    return 0 <= _before_tags(read_at, file_size) - begin - int.from_bytes(tag[at : at + 4], "big") <= header.size


def find_frame(read_at: ReadAt, frames: ConstantFrames, number: int) -> int | None:
    """Where a frame begins, at its place or beside it; ``None`` if there is none that is followed by another one."""
    place = frames.position(number)
    begin = max(0, place - frames.max_beside)
    around = read_at(begin, place - begin + frames.max_beside + _HEADER_BYTES)
    for at in sorted(range(len(around) - _HEADER_BYTES + 1), key=lambda at: abs(begin + at - place)):
        header = _parse_header(around[at : at + _HEADER_BYTES])
        if header is None or header.key != frames.key:
            continue
        behind = begin + at + header.size
        if number + 1 >= frames.num_frames or header_key(read_at(behind, _HEADER_BYTES)) == frames.key:
            return begin + at
    return None


def _parse_header(data: bytes) -> FrameHeader | None:
    if len(data) < _HEADER_BYTES:
        return None
    value = int.from_bytes(data[:_HEADER_BYTES], "big")
    version, layer = value >> 19 & 3, value >> 17 & 3
    rate_number, bit_rate_number = value >> 10 & 3, value >> 12 & 15
    is_layer_3 = value >> 21 == 0x7FF and layer == 1
    if not is_layer_3 or version not in _SAMPLE_RATES or rate_number == 3 or bit_rate_number in (0, 15):
        return None
    sample_rate = _SAMPLE_RATES[version][rate_number]
    is_mpeg_1, is_mono = version == 3, value >> 6 & 3 == _MONO
    kilobits = (_KILOBITS_MPEG_1 if is_mpeg_1 else _KILOBITS_MPEG_2)[bit_rate_number - 1]
    samples_per_frame = 1152 if is_mpeg_1 else 576
    length = Fraction(samples_per_frame * kilobits * 125, sample_rate)
    side_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    size = floor(length) + (value >> 9 & 1)
    return FrameHeader(value & _KEY_MASK, sample_rate, samples_per_frame, length, size, _HEADER_BYTES + side_bytes)


def mp3_frame_size(header: bytes) -> int:
    """Bytes of a frame of any layer, by its header; 0 if it is none.

    >>> mp3_frame_size(bytes.fromhex("fffb9264")), mp3_frame_size(bytes.fromhex("fffd9204")), mp3_frame_size(b"TAG ")
    (418, 523, 0)
    """
    return _frame_size(header[1:3]) if header[0] == 0xFF else 0


@lru_cache(maxsize=1 << 12)
def _frame_size(header: bytes) -> int:
    first, second = header
    version, layer, kilobits = first >> 3 & 3, 4 - (first >> 1 & 3), second >> 4
    rate_number, padding = second >> 2 & 3, second >> 1 & 1
    if first < 0xE0 or version not in _SAMPLE_RATES or layer == 4 or rate_number == 3 or kilobits in (0, 15):
        return 0
    rate = _SAMPLE_RATES[version][rate_number]
    is_mpeg_1 = version == 3
    if layer == 1:
        kilobits = 32 * kilobits if is_mpeg_1 else _KILOBITS_LAYER_1_MPEG_2[kilobits - 1]
        return (kilobits * 12_000 // rate + padding) * 4
    if layer == 2:
        kilobits = (_KILOBITS_LAYER_2 if is_mpeg_1 else _KILOBITS_MPEG_2)[kilobits - 1]
        return kilobits * 144_000 // rate + padding
    kilobits = (_KILOBITS_MPEG_1 if is_mpeg_1 else _KILOBITS_MPEG_2)[kilobits - 1]
    return kilobits * (144_000 if is_mpeg_1 else 72_000) // rate + padding


def after_id3(read_at: ReadAt) -> int:
    """Where the tags in front end."""
    position = 0
    for _ in range(_MAX_ID3_TAGS):
        data = read_at(position, _ID3_HEADER_BYTES)
        if len(data) < _ID3_HEADER_BYTES or data[:3] != b"ID3" or max(data[6:10]) > 0x7F:
            break
        a, b, c, d = data[6:10]
        has_footer = bool(data[5] & 0x10)
        position += _ID3_HEADER_BYTES * (1 + has_footer) + (a << 21 | b << 14 | c << 7 | d)
    return position


def _before_tags(read_at: ReadAt, file_size: int) -> int:
    """Where the tags at the end begin."""
    end = file_size
    if end >= _ID3V1_BYTES and read_at(end - _ID3V1_BYTES, 3) == b"TAG":
        end -= _ID3V1_BYTES
    if end >= _APE_FOOTER_BYTES:
        footer = read_at(end - _APE_FOOTER_BYTES, _APE_FOOTER_BYTES)
        if footer[:8] == b"APETAGEX" and len(footer) == _APE_FOOTER_BYTES:
            flags = int.from_bytes(footer[20:24], "little")
            end -= int.from_bytes(footer[12:16], "little") + _APE_FOOTER_BYTES * bool(flags & _APE_HAS_HEADER)
    return end


def _parse_info(tag: bytes) -> tuple[int | None, int]:
    """(number of frames, samples of padding at the end) as the tag says; ``None`` and 0 where it does not."""
    flags = int.from_bytes(tag[4:8], "big")
    at = 8
    num_frames = None
    if flags & _HAS_FRAMES:
        num_frames = int.from_bytes(tag[at : at + 4], "big")
        at += 4
    at += 4 * bool(flags & _HAS_BYTES) + _TABLE_BYTES * bool(flags & _HAS_TABLE) + 4 * bool(flags & _HAS_QUALITY)
    if num_frames is None or tag[at : at + 4] not in _STATES_PADDING:
        return num_frames, 0
    padding = int.from_bytes(tag[at + _AT_PADDING : at + _AT_PADDING + 3], "big") & 0xFFF
    return num_frames, max(0, padding - _DECODER_DELAY)


def _walk(data: bytes, key: int) -> Iterator[int]:
    """Where in ``data`` frames begin, one after the other, as long as they are of one kind."""
    at = 0
    while (header := _parse_header(data[at : at + _HEADER_BYTES])) is not None and header.key == key:
        yield at
        at += header.size


def _rounding(offsets: Sequence[int], length: Fraction) -> tuple[Fraction, Fraction] | None:
    """(bytes of a frame, phase) by which frames lie where they do; ``None`` if no rounding to bytes explains it."""
    if len(offsets) < _MIN_FRAMES_SEEN:
        return None
    low = max(offset - number * length for number, offset in enumerate(offsets))
    high = min(offset + 1 - number * length for number, offset in enumerate(offsets))
    if low < high:
        return length, low
    # Some encoders never pad, so that they miss the bit rate by a little.
    sizes = {after - before for before, after in pairwise(offsets)}
    return (Fraction(sizes.pop()), Fraction(0)) if len(sizes) == 1 else None


def _lie_as_said(read_at: ReadAt, frames: ConstantFrames, end: int) -> bool:
    """Whether some frames are about where they should be, and behind the last one there is no room for another."""
    last = frames.num_frames - 1
    if last < 1 or abs(frames.position(last) + frames.length - end) > frames.length + frames.max_beside:
        return False
    position = None
    for number in (last * probe // _NUM_PROBES for probe in range(1, _NUM_PROBES + 1)):
        position = find_frame(read_at, frames, number)
        if position is None:
            return False
    assert position is not None
    header = _parse_header(read_at(position, _HEADER_BYTES))
    return header is not None and 0 <= end - position - header.size < floor(frames.length)
