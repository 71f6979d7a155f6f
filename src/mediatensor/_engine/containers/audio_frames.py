"""Locate frames in MP3 files of constant bit rate, and samples of Vorbis packets in Ogg. Pure functions.

**MP3.** Frames of one bit rate have equal lengths, rounded to bytes. So frame n starts at n times a fractional length::

    128 kbit/s at 44.1 kHz: 417.96 bytes      0     417     835    1253    1671  ...
                                              |------|-------|-------|-------|
    frame                                     0      1       2       3       4

An encoder's tag can claim a constant bit rate wrongly, so this is checked. The first frames and some later frames must
be at these positions, and the last frame must end at the end of the audio. In joined files, rounding restarts, so a
frame can be off by some bytes.

**Vorbis.** The header of an Ogg page states the sample at which the page's last complete packet ends. FFmpeg miscounts
the samples of a short block after a long block, both when reading and when writing, so the times of many packets are
wrong. This module counts the samples itself. The first byte of a packet determines the size of its block. The number of
samples in a packet is a quarter of the sum of two block sizes: its own and the previous packet's::

    block            2048   256   256  2048  2048
    samples          1024   576   128   576  1024
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor
from typing import Any

from .boxes import ReadAt

_HEADER_BYTES = 4

_MAX_ID3_TAGS = 16
_ID3_HEADER_BYTES = 10
_ID3V1_BYTES = 128
_APE_FOOTER_BYTES = 32
_APE_HAS_HEADER = 1 << 31

# By version number: 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
_SAMPLE_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KILOBITS_MPEG_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KILOBITS_MPEG_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_KILOBITS_LAYER_2 = (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
_KILOBITS_LAYER_1_MPEG_2 = (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)

# Header bits that all frames share: sync, version, layer, checksum, bit rate and sample rate.
_KEY_MASK = 0xFFFFFC00
_MONO = 3

# The pattern of padding repeats within this many frames: at 44.1 kHz and its halves, lengths are multiples of 1/49
# byte.
_NUM_FRAMES_SEEN, _MIN_FRAMES_SEEN = 64, 50
_NUM_PROBES = 8

# Largest distance of a frame from its computed position, less than a quarter of a frame, so it cannot be another frame.
_MAX_SHIFT_BYTES = 16

# Number of bytes that are read of an encoder's tag. The tag starts with its name.
_TAG_BYTES = 144
_HAS_FRAMES, _HAS_BYTES, _HAS_TABLE, _HAS_QUALITY = 1, 2, 4, 8
_TABLE_BYTES = 100
_STATES_PADDING = (b"LAME", b"Lavf", b"Lavc")
_AT_PADDING = 21
# The padding in the tag includes this delay of the decoder.
_DECODER_DELAY = 529


@dataclass(frozen=True)
class FrameHeader:
    """The header of an MP3 frame (MPEG audio, layer III)."""

    key: int  # bits that all frames of one bit rate have in common
    sample_rate: int  # samples per second
    samples_per_frame: int  # 1152, or 576 below 32 kHz
    length: Fraction  # bytes of a frame, before rounding
    size: int  # bytes of this frame
    tag_offset: int  # offset of an encoder's tag in a frame


@dataclass(frozen=True)
class ConstantFrames:
    """Computes the positions of the frames in an MP3 file whose bit rate is constant.

    >>> frames = ConstantFrames(417, Fraction(20480, 49), Fraction(0), 1000, 1152, 44100, 0xFFFB9000, 0)
    >>> [frames.position(number) for number in range(4)]
    [417, 834, 1252, 1670]
    """

    first_position: int  # position of frame 0, after a frame that only has the encoder's tag
    length: Fraction  # bytes of a frame before rounding
    phase: Fraction  # bytes added before rounding down; a multiple of 1/denominator of `length`
    num_frames: int  # number of whole frames
    samples_per_frame: int  # 1152, or 576 below 32 kHz
    sample_rate: int  # samples per second
    key: int  # `header_key` of every frame
    num_padding: int  # samples at the end that are not audio, according to the encoder

    def position(self, number: int) -> int:
        """Return the byte position in the file at which frame ``number`` should start."""
        # Integers are ten times as fast as fractions.
        numerator, denominator = self.length.numerator, self.length.denominator
        phase = self.phase.numerator * denominator // self.phase.denominator
        return self.first_position + (number * numerator + phase) // denominator

    def is_frame(self, data: Any, size: int, may_be_longer: bool) -> bool:
        """Return whether a packet of ``size`` bytes is one whole frame, possibly with other bytes after it."""
        value = int.from_bytes(memoryview(data)[:_HEADER_BYTES], "big")
        rest = size - self.length.numerator // self.length.denominator
        return value & _KEY_MASK == self.key and rest >= 0 and (rest <= 1 or may_be_longer)

    @property
    def max_shift(self) -> int:
        """Largest accepted distance in bytes between the computed `position` of a frame and its actual position."""
        return min(_MAX_SHIFT_BYTES, floor(self.length / 4))

    def num_discarded(self, number: int) -> int:
        """Return how many samples at the end of a frame are the encoder's padding, which is not played."""
        num_after = (self.num_frames - 1 - number) * self.samples_per_frame
        if num_after < 0:
            return 0
        return max(0, min(self.num_padding - num_after, self.samples_per_frame))


def header_key(data: bytes) -> int | None:
    """Return the bits that all MP3 headers of one bit rate share, or ``None`` if ``data`` is not an MP3 header."""
    header = _parse_header(data)
    return None if header is None else header.key


def constant_frames(read_at: ReadAt, file_size: int) -> ConstantFrames | None:
    """Return the frame positions of an MP3 file, or ``None`` if its bit rate is not certainly constant.

    Also return ``None`` if the file has another format, if bytes other than tags follow the audio, or if the encoder's
    tag states a different number of frames.
    """
    begin, first, tag = _read_first_frame(read_at)
    if first is None or tag[:4] == b"Xing":
        return None
    stated_frames, num_padding = _parse_info(tag)
    if tag:
        begin += first.size
        first = _parse_header(read_at(begin, _HEADER_BYTES))
        if first is None:
            return None
    end = start_of_end_tags(read_at, file_size)
    beginning = read_at(begin, min(end - begin, ceil(first.length * _NUM_FRAMES_SEEN)))
    rounding = _find_rounding(list(_walk_frames(beginning, first.key)), first.length)
    if rounding is None:
        return None
    length, phase = rounding
    estimate = ceil((end - begin + 1 - phase) / length) - 1
    for num_frames in (estimate, estimate - 1, estimate + 1) if stated_frames is None else (stated_frames,):
        frames = ConstantFrames(
            begin, length, phase, num_frames, first.samples_per_frame, first.sample_rate, first.key, num_padding
        )
        if _frames_are_in_place(read_at, frames, end):
            return frames
    return None


def has_stated_size(read_at: ReadAt, file_size: int) -> bool:
    """Return whether an MP3 file is as long as its encoder's tag states. If so, no other file was joined to it."""
    begin, header, tag = _read_first_frame(read_at)
    flags = int.from_bytes(tag[4:8], "big")
    if header is None or not flags & _HAS_BYTES:
        return False
    at = 8 + 4 * bool(flags & _HAS_FRAMES)
    # Some encoders count the frame that contains the tag as part of the length.
    return 0 <= start_of_end_tags(read_at, file_size) - begin - int.from_bytes(tag[at : at + 4], "big") <= header.size


def stated_mp3_seconds(read_at: ReadAt) -> float | None:
    """Return the duration of all frames of an MP3 file in seconds, according to its encoder's tag.

    The encoder's delay and padding are included. Return ``None`` if the file is not MP3, or has no such tag.
    """
    _, header, tag = _read_first_frame(read_at)
    num_frames = _parse_info(tag)[0]
    return num_frames * header.samples_per_frame / header.sample_rate if header is not None and num_frames else None


def _read_first_frame(read_at: ReadAt) -> tuple[int, FrameHeader | None, bytes]:
    """Return the position of the first frame, its header, and its encoder's tag, which is empty if there is none."""
    begin = after_id3(read_at)
    header = _parse_header(read_at(begin, _HEADER_BYTES))
    tag = b"" if header is None else read_at(begin + header.tag_offset, _TAG_BYTES)
    return begin, header, tag if tag[:4] in (b"Xing", b"Info") else b""


def find_frame(read_at: ReadAt, frames: ConstantFrames, number: int) -> int | None:
    """Return the byte position of frame ``number``, which is at or near its computed position.

    The next frame must follow it, unless it is the last frame of the file. Return ``None`` if no such frame is found.
    """
    place = frames.position(number)
    begin = max(0, place - frames.max_shift)
    around = read_at(begin, place - begin + frames.max_shift + _HEADER_BYTES)
    for at in sorted(range(len(around) - _HEADER_BYTES + 1), key=lambda at: abs(begin + at - place)):
        header = _parse_header(around[at : at + _HEADER_BYTES])
        if header is None or header.key != frames.key:
            continue
        following = begin + at + header.size
        if number + 1 >= frames.num_frames or header_key(read_at(following, _HEADER_BYTES)) == frames.key:
            return begin + at
    return None


def _parse_header(data: bytes) -> FrameHeader | None:
    size = mp3_frame_size(data) if len(data) >= _HEADER_BYTES else 0
    value = int.from_bytes(data[:_HEADER_BYTES], "big")
    version, is_layer_3 = value >> 19 & 3, value >> 17 & 3 == 1
    if not size or not is_layer_3:
        return None
    sample_rate = _SAMPLE_RATES[version][value >> 10 & 3]
    is_mpeg_1, is_mono = version == 3, value >> 6 & 3 == _MONO
    kilobits = (_KILOBITS_MPEG_1 if is_mpeg_1 else _KILOBITS_MPEG_2)[(value >> 12 & 15) - 1]
    samples_per_frame = 1152 if is_mpeg_1 else 576
    length = Fraction(samples_per_frame * kilobits * 125, sample_rate)
    side_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    return FrameHeader(value & _KEY_MASK, sample_rate, samples_per_frame, length, size, _HEADER_BYTES + side_bytes)


def mp3_frame_size(header: bytes) -> int:
    """Return the size in bytes of the MPEG audio frame, of any layer, with this header; 0 if the header is invalid."""
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
    """Return the position at which the ID3 tags at the start of a file end."""
    position = 0
    for _ in range(_MAX_ID3_TAGS):
        data = read_at(position, _ID3_HEADER_BYTES)
        if len(data) < _ID3_HEADER_BYTES or data[:3] != b"ID3" or max(data[6:10]) > 0x7F:
            break
        a, b, c, d = data[6:10]
        has_footer = bool(data[5] & 0x10)
        position += _ID3_HEADER_BYTES * (1 + has_footer) + (a << 21 | b << 14 | c << 7 | d)
    return position


def start_of_end_tags(read_at: ReadAt, file_size: int) -> int:
    """Return the position at which the APE and ID3v1 tags at the end of a file start."""
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
    """Return (number of frames, number of padding samples at the end) that a tag states; ``None`` and 0 if unknown."""
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


def _walk_frames(data: bytes, key: int) -> Iterator[int]:
    """Yield the offsets of adjacent frames, beginning at 0. Stop at the first frame with another `header_key`."""
    at = 0
    while (header := _parse_header(data[at : at + _HEADER_BYTES])) is not None and header.key == key:
        yield at
        at += header.size


def _find_rounding(offsets: Sequence[int], length: Fraction) -> tuple[Fraction, Fraction] | None:
    """Find how an encoder rounded frame lengths.

    Return the ``length`` and the ``phase`` of the `ConstantFrames`, or ``None`` if no values explain the positions.
    ``offsets`` are the positions of the first frames, and ``length`` is the expected size of a frame before rounding.
    """
    if len(offsets) < _MIN_FRAMES_SEEN:
        return None
    low = max(offset - number * length for number, offset in enumerate(offsets))
    high = min(offset + 1 - number * length for number, offset in enumerate(offsets))
    if low < high:
        return length, low
    # Some encoders never pad frames, so their bit rate is slightly off.
    sizes = {after - before for before, after in pairwise(offsets)}
    return (Fraction(sizes.pop()), Fraction(0)) if len(sizes) == 1 else None


def _frames_are_in_place(read_at: ReadAt, frames: ConstantFrames, end: int) -> bool:
    """Return whether some checked frames are near their computed positions, and the last one ends near ``end``."""
    last = frames.num_frames - 1
    if last < 1 or abs(frames.position(last) + frames.length - end) > frames.length + frames.max_shift:
        return False
    position = None
    for number in (last * probe // _NUM_PROBES for probe in range(1, _NUM_PROBES + 1)):
        position = find_frame(read_at, frames, number)
        if position is None:
            return False
    assert position is not None
    header = _parse_header(read_at(position, _HEADER_BYTES))
    return header is not None and 0 <= end - position - header.size < floor(frames.length)


# Vorbis in Ogg


#: The header of an Ogg page: its sign, version, flags, granule (time), serial number, number of the page, checksum and
#: number of lengths.
OGG_PAGE, OGG_SIGN = struct.Struct("<4sBBqIIIB"), b"OggS"
_CONTINUES, _ENDS = 1, 4
_USUAL_PAGE_BYTES = 8192

# Two pages with consistent positions must be found within this many bytes.
_MAX_BYTES = 1 << 20

_IDENTIFICATION, _SETUP = b"\x01vorbis", b"\x05vorbis"
_BLOCK_SIZES_AT = 28
_MODE_BITS, _COUNT_BITS = 41, 6
_MAX_MAPPING = 63


@dataclass(frozen=True)
class VorbisModes:
    """The modes of a Vorbis stream, each with a block size in samples. A packet's first byte contains its mode."""

    block_sizes: tuple[int, ...]

    def block_size(self, first_byte: int) -> int | None:
        """Return the block size, in samples, of a packet that starts with ``first_byte``; ``None`` if it is not audio.

        >>> modes = VorbisModes((256, 2048))
        >>> [modes.block_size(byte) for byte in (0b00, 0b10, 0b01)]
        [256, 2048, None]
        """
        number = first_byte >> 1 & (1 << (len(self.block_sizes) - 1).bit_length()) - 1
        return None if first_byte & 1 or number >= len(self.block_sizes) else self.block_sizes[number]


def vorbis_modes(extradata: bytes) -> VorbisModes | None:
    """Return the modes of a Vorbis stream, or ``None`` if its headers in ``extradata`` are invalid."""
    headers = _split_headers(extradata)
    if headers is None or not headers[0].startswith(_IDENTIFICATION) or not headers[2].startswith(_SETUP):
        return None
    if len(headers[0]) <= _BLOCK_SIZES_AT:
        return None
    exponents = headers[0][_BLOCK_SIZES_AT]
    sizes = 1 << (exponents & 15), 1 << (exponents >> 4)
    # The parts before the modes cannot be skipped, so the modes are read backwards from the end of the header, which is
    # a set bit. Before the first mode comes the number of modes.
    bits = int.from_bytes(headers[2], "little")
    at = bits.bit_length() - 1
    blocks: list[int] = []
    modes: tuple[int, ...] | None = None
    while at >= _MODE_BITS + _COUNT_BITS and len(blocks) < 1 << _COUNT_BITS:
        at -= _MODE_BITS
        mode = bits >> at & (1 << _MODE_BITS) - 1
        if mode >> 1 & (1 << 32) - 1 or mode >> 33 > _MAX_MAPPING:
            break
        blocks.insert(0, sizes[mode & 1])
        if bits >> at - _COUNT_BITS & (1 << _COUNT_BITS) - 1 == len(blocks) - 1:
            modes = tuple(blocks)
    return None if modes is None else VorbisModes(modes)


def _split_headers(extradata: bytes) -> list[bytes] | None:
    """Return the three headers in ``extradata``, or ``None`` if it is invalid.

    Before them, ``extradata`` has their number, and the lengths of the first two, encoded as in an Ogg page.
    """
    if not extradata.startswith(b"\x02"):
        return None
    at, lengths = 1, []
    for _ in range(2):
        length = 0
        while at < len(extradata) and extradata[at] == 255:
            length, at = length + 255, at + 1
        if at >= len(extradata):
            return None
        lengths.append(length + extradata[at])
        at += 1
    ends = at + lengths[0], at + sum(lengths)
    return [extradata[at : ends[0]], extradata[ends[0] : ends[1]], extradata[ends[1] :]]


def first_packet_end(read_at: ReadAt, position: int, modes: VorbisModes) -> tuple[int, int] | None:
    """Return (size of the first packet that starts on an Ogg page, sample at which this packet ends).

    The page is at byte ``position``. ``modes`` are the modes of the stream. The sample is computed from this page and
    later pages. Return ``None`` unless two pages agree on it.
    """
    stop = position + _MAX_BYTES
    serial: int | None = None
    first_size: int | None = None
    # The block size of each packet, and the sample at which each ends if the first packet ends at sample 0.
    blocks: list[int] = []
    ends: list[int] = []
    size = 0
    is_open = False
    # The end of the first packet according to each page. In files written by FFmpeg, the stated end of a short block
    # may be late by up to `lateness`. The stated end of a long block is always right.
    certain: list[int] = []
    uncertain: list[int] = []
    longest = max(modes.block_sizes)
    lateness = (longest - min(modes.block_sizes)) // 4
    while position < stop:
        page = read_at(position, _USUAL_PAGE_BYTES)
        if len(page) < OGG_PAGE.size or not page.startswith(OGG_SIGN):
            return None
        _, _, flags, granule, page_serial, _, _, num_lengths = OGG_PAGE.unpack_from(page)
        at = OGG_PAGE.size + num_lengths
        lengths = page[OGG_PAGE.size : at]
        end = at + sum(lengths)
        if end > len(page):
            page = read_at(position, end)
        position += end
        serial = page_serial if serial is None else serial
        if page_serial != serial:
            continue
        # On the last page, the stated end may exclude the encoder's padding.
        if flags & _ENDS:
            return None
        is_skipped = bool(flags & _CONTINUES) and not is_open
        last_complete: int | None = None
        for length in lengths:
            if not is_open and not is_skipped:
                block = modes.block_size(page[at]) if length and at < len(page) else None
                if block is None:
                    return None
                ends.append(ends[-1] + (blocks[-1] + block) // 4 if ends else 0)
                blocks.append(block)
                is_open, size = True, 0
            size, at = size + length, at + length
            if length < 255:
                if is_open:
                    last_complete = len(blocks) - 1
                    first_size = size if first_size is None else first_size
                is_open = is_skipped = False
        if last_complete is not None and granule >= 0:
            stated_end = granule - ends[last_complete]
            if blocks[last_complete] == longest:
                certain.append(stated_end)
            else:
                uncertain.append(stated_end)
        if certain and first_size is not None and len(certain) + len(uncertain) > 1:
            agree = len({*certain}) == 1 and {*uncertain} <= {certain[0], certain[0] + lateness}
            return (first_size, certain[0]) if agree else None
    return None
