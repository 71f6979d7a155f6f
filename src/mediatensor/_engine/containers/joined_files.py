"""Detect files that were joined end to end. Pure functions on bytes.

Players play the result of ``cat a.flac b.flac`` to its end, although times restart at the second part. A seek to a time
can therefore end in either part, and the header describes only the first part. To detect joined files, this module
reads at several places. In the formats that it checks, pages, frames or blocks have numbers or times. In a file of one
part, these never decrease::

    one part       |0    1    2    3    4    5    6    7 |
    joined         |0    1    2    3 |0    1    2    3   |
    bytes read        ^    ^    ^    ^    ^    ^    ^       a number is smaller than the previous one
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from .audio_frames import OGG_PAGE, OGG_SIGN, after_id3, mp3_frame_size
from .boxes import ReadAt

_NUM_LOOKS = 9
_FEW_BYTES, _MANY_BYTES = 1 << 14, 1 << 20

_OGG_BEGINS = 2
_OGG_HEAD_BYTES = OGG_PAGE.size + 255 + 64
# Size of the longest page. A read of this size contains the start of a page.
_OGG_LOOK_BYTES = OGG_PAGE.size + 255 + 255 * 255

# Sign, size, version, track, part, total samples, first sample, samples.
_WAVPACK_BLOCK = struct.Struct("<4sIHBBIII")
_WAVPACK_VERSIONS = range(0x402, 0x411)
_WAVPACK_UNKNOWN = 0xFFFFFFFF
_WAVPACK_INITIAL = 0x800
_WAVPACK_RATES = (
    6000, 8000, 9600, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000, 192_000
)  # fmt: skip
_WAVPACK_LOOK_BYTES = 1 << 17

_FLAC_FACTS_BYTES = 34
_FLAC_SIGNS = (b"fLaC\0\0\0\x22", b"fLaC\x80\0\0\x22")
_FLAC_HEADER_BYTES = 16
_FLAC_LOOK_BYTES = 1 << 14
_FLAC_MAX_LOOKALIKES = 6

_FRAME_HEADER_BYTES = 7
_SIGNS_OF_ENDS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN")
_SIGNS_OF_BEGINNINGS = (b"ID3", b"APETAGEX", b"Xing", b"Info", b"VBRI", b"OpusHead", b"Speex   ", b"\x03vorbis")

_TS_PACKET_BYTES = 188
_TS_LOOK_BYTES = 188 * 256
_TS_SECOND, _TS_WRAP = 90_000, 1 << 33


def time_restarts(format_name: str, read_at: ReadAt, file_size: int) -> bool:
    """Return whether sample numbers or times decrease somewhere in a file, as they do in joined files.

    ``format_name`` is FFmpeg's name of the format. The result is False for formats that are not checked.
    """
    if format_name in ("ogg", "mpegts"):
        return (_ogg_restarts if format_name == "ogg" else _transport_stream_restarts)(read_at, file_size)
    if format_name in ("flac", "wv"):
        return _numbers_restart((_flac_numbers if format_name == "flac" else _wavpack_numbers)(read_at, file_size))
    return False


def _read_looks(read_at: ReadAt, file_size: int, num_bytes: int, sign: bytes = b"") -> Iterator[bytes]:
    """Yield ``num_bytes`` bytes from each of several places, from the start of the file to its end.

    If the last few bytes at a place contain ``sign``, only these few bytes are read and yielded.

    The places are evenly spaced. Before the second of them, there are also places whose distances from the start
    double, so that no place is more than twice as far from the start as the one before it. If a part ends between two
    places, the number at the second one is therefore smaller, as long as both parts have about the same bit rate.
    """
    if num_bytes * _NUM_LOOKS >= file_size:
        yield read_at(0, file_size)
        return
    even = [(file_size - num_bytes) * number // (_NUM_LOOKS - 1) for number in range(_NUM_LOOKS)]
    doubling = [num_bytes << shift for shift in range(file_size.bit_length()) if num_bytes << shift < even[1]]
    for position in (0, *doubling, *even[1:]):
        if sign and position:
            few = read_at(position + num_bytes - _FEW_BYTES, _FEW_BYTES)
            if sign in few:
                yield few
                continue
        yield read_at(position, num_bytes)


def _numbers_restart(numbers: Iterator[tuple[int, int, int]]) -> bool:
    """Return whether sample numbers decrease, or exceed the total number of samples that the file states.

    ``numbers`` yields (first sample, one past the last sample, stated total or 0) for several places in the file, in
    order.
    """
    reached = 0
    for first, last, total in numbers:
        if first < reached or (total and last > total):
            return True
        reached = first
    return False


def _find_signs(data: bytes, *signs: bytes) -> Iterator[int]:
    """Yield all positions of the first of ``signs`` in ``data``, then all positions of the second, and so on."""
    for sign in signs:
        at = data.find(sign)
        while at >= 0:
            yield at
            at = data.find(sign, at + 1)


# Ogg


@dataclass
class OggLink:
    """One part of a chained Ogg file. It contains one or more streams, which end before the next part starts."""

    start: int  # its first byte
    # By serial number: the granules of the first, the second and the last page; and the stream's first packet.
    granules: dict[int, list[int]] = field(default_factory=dict)
    headers: dict[int, bytes] = field(default_factory=dict)

    @property
    def kinds(self) -> list[tuple[str, int, int]]:
        """Return (codec, samples per second, channels) of each stream. Without audio, the codec is empty."""
        return [_ogg_kind(header) for header in self.headers.values()]

    @property
    def num_seconds(self) -> float | None:
        """The duration of the first audio stream in seconds, or ``None`` if its pages do not state it."""
        for (serial, header), (codec, rate, _) in zip(self.headers.items(), self.kinds, strict=True):
            granules = self.granules.get(serial)
            if codec and rate and granules:
                per_page = granules[1] - granules[0] if len(granules) > 1 else granules[0]
                # In recordings of live streams, the first granule may be far from 0.
                begin = 0 if granules[0] <= 2 * per_page else granules[0] - per_page
                if codec == "opus" and begin == 0:
                    begin = int.from_bytes(header[10:12], "little")
                return max(0, granules[-1] - begin) / rate
        return None


def _ogg_restarts(read_at: ReadAt, file_size: int) -> bool:
    reached: dict[int, int] = {}
    has_begun = False
    for data in _read_looks(read_at, file_size, _OGG_LOOK_BYTES, OGG_SIGN):
        at = data.find(OGG_SIGN)
        while 0 <= at <= len(data) - OGG_PAGE.size:
            _, version, flags, _, serial, number, _, num_lengths = OGG_PAGE.unpack_from(data, at)
            begins = bool(flags & _OGG_BEGINS)
            if version == 0:
                # In each part, the first pages of all streams come before any other page.
                if (begins and has_begun) or (not begins and number < reached.get(serial, 1)):
                    return True
                if not begins and serial not in reached:
                    return True
                has_begun |= not begins
                reached[serial] = number
            lengths = data[at + OGG_PAGE.size : at + OGG_PAGE.size + num_lengths]
            at = data.find(OGG_SIGN, at + (OGG_PAGE.size + num_lengths + sum(lengths) if version == 0 else 1))
    return False


def ogg_links(read_at: ReadAt, file_size: int) -> list[OggLink]:
    """Return the parts of a chained Ogg file. To find them, read the header of each page."""
    links: list[OggLink] = []
    has_begun = True
    position = 0
    while position + OGG_PAGE.size <= file_size:
        data = read_at(position, _OGG_HEAD_BYTES)
        if not data.startswith(OGG_SIGN) or len(data) < OGG_PAGE.size:
            offset = read_at(position, _MANY_BYTES).find(OGG_SIGN, 1)
            position += offset if offset > 0 else _MANY_BYTES - len(OGG_SIGN)
            continue
        _, _, flags, granule, serial, _, _, num_lengths = OGG_PAGE.unpack_from(data)
        body = OGG_PAGE.size + num_lengths
        if flags & _OGG_BEGINS:
            if has_begun:
                links.append(OggLink(position))
            links[-1].headers[serial] = data[body : body + 64]
        elif links and granule > 0:
            granules = links[-1].granules.setdefault(serial, [])
            granules[2:] = [granule] if len(granules) >= 2 else []
            if len(granules) < 2:
                granules.append(granule)
        has_begun = not flags & _OGG_BEGINS
        position += body + sum(data[OGG_PAGE.size : body])
    return links


def _ogg_kind(header: bytes) -> tuple[str, int, int]:
    if header.startswith(b"OpusHead") and len(header) >= 19:
        return "opus", 48_000, header[9]
    if header.startswith(b"\x01vorbis") and len(header) >= 30:
        return "vorbis", int.from_bytes(header[12:16], "little"), header[11]
    if header.startswith(b"Speex   ") and len(header) >= 52:
        return "speex", int.from_bytes(header[36:40], "little"), header[48]
    if header.startswith(b"\x7fFLAC") and len(header) >= 51:
        rate, channels, _ = _flac_facts(header[17:])
        return "flac", rate, channels
    return "", 0, 0


# FLAC


def flac_seconds(read_at: ReadAt, file_size: int) -> float | None:
    """Return the total duration of a joined FLAC file in seconds, or ``None`` if a part does not state its length."""
    seconds = 0.0
    for position in range(0, file_size, _MANY_BYTES):
        data = read_at(position, _MANY_BYTES + 8 + _FLAC_FACTS_BYTES)
        for at in _find_signs(data[: _MANY_BYTES + 7], *_FLAC_SIGNS):
            rate, _, total = _flac_facts(data[at + 8 :])
            if not rate or not total:
                return None
            seconds += total / rate
    return seconds


def _flac_facts(block: bytes) -> tuple[int, int, int]:
    """Parse ``block``, the first metadata block of a FLAC file. Return (samples per second, channels, total samples).

    >>> _flac_facts(bytes(10) + bytes.fromhex("0ac442f0000000ff") + bytes(16))
    (44100, 2, 255)
    """
    value = int.from_bytes(block[10:18], "big")
    return value >> 44, (value >> 41 & 7) + 1, value & 0xFFFFFFFFF


def _flac_numbers(read_at: ReadAt, file_size: int) -> Iterator[tuple[int, int, int]]:
    start = after_id3(read_at)
    beginning = read_at(start, 8 + _FLAC_FACTS_BYTES)
    if not beginning.startswith(_FLAC_SIGNS):
        return
    total, largest = _flac_facts(beginning[8:])[2], int.from_bytes(beginning[15:18], "big")
    for data in _read_looks(read_at, file_size, max(_FLAC_LOOK_BYTES, 3 * largest)):
        stretches = _flac_frame_pairs(data, _find_signs(data, b"\xff\xf8"))
        first = next(stretches, None)
        if first is None:  # in this stream, numbers count samples
            stretches = _flac_frame_pairs(data, _find_signs(data, b"\xff\xf9"))
            first = next(stretches, None)
        if first is not None:
            yield *first, total
        if len(data) == file_size:
            yield from ((*stretch, total) for stretch in stretches)
            return
    last_places = sorted(_find_signs(data, b"\xff\xf8", b"\xff\xf9"))[-_FLAC_MAX_LOOKALIKES:]
    yield from ((*stretch, total) for stretch in _flac_frame_pairs(data, last_places))


def _flac_frame_pairs(data: bytes, places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first sample, one past the last sample) for each pair of adjacent FLAC frames at ``places``.

    Audio data can look like a frame header. Such data are not mistaken for a frame, because no header with the next
    number comes after them.
    """
    for (number, length, is_counted), (following, last_length, _) in pairwise(_flac_frames(data, places)):
        if following == number + (1 if is_counted else length):
            scale = length if is_counted else 1
            yield number * scale, following * scale + last_length


def _flac_frames(data: bytes, places: Iterable[int]) -> Iterator[tuple[int, int, bool]]:
    """Parse FLAC frame headers at ``places`` in ``data``, and skip those with a wrong checksum.

    For each frame, yield (its number, its length in samples, whether the number counts frames). If the number counts
    samples instead, it is the number of the frame's first sample.
    """
    for at in places:
        header = data[at : at + _FLAC_HEADER_BYTES]
        if len(header) < _FLAC_HEADER_BYTES:
            return
        length_code, rate_code, lead = header[2] >> 4, header[2] & 15, header[4]
        # The number is encoded like a UTF-8 character, with up to seven bytes.
        num_bytes = 8 - (lead ^ 0xFF).bit_length()
        if not length_code or rate_code == 15 or header[3] >> 4 > 10 or header[3] & 1 or num_bytes in (1, 8):
            continue
        number, end = lead & (0x7F >> num_bytes), 4 + max(1, num_bytes)
        for byte in header[5:end]:
            number = number << 6 | byte & 0x3F
        num_more = {6: 1, 7: 2}.get(length_code, 0)
        if num_more:
            length = int.from_bytes(header[end : end + num_more], "big") + 1
        elif length_code >= 8:
            length = 256 << length_code - 8
        else:
            length = 192 if length_code == 1 else 576 << length_code - 2
        end += num_more + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
        if _crc8(header[:end]) == header[end]:
            yield number, length, header[1] == 0xF8


def flac_block_size(stream_info: bytes) -> int:
    """Return the length in samples of all blocks but the last of a FLAC file, or 0 if lengths differ.

    ``stream_info`` is the file's first metadata block. If lengths are equal, frames are numbered without gaps.
    """
    return int.from_bytes(stream_info[:2], "big") if stream_info[:2] == stream_info[2:4] else 0


def flac_num_samples(stream_info: bytes) -> int:
    """Return how many samples a FLAC file states, or 0 if it does not state it."""
    return _flac_facts(stream_info)[2] if len(stream_info) >= _FLAC_FACTS_BYTES else 0


def flac_audio_start(read_at: ReadAt) -> int:
    """Return the byte position at which the frames of a FLAC file start, after its blocks of metadata."""
    position, is_last = after_id3(read_at) + len(b"fLaC"), False
    while not is_last and len(header := read_at(position, 4)) == 4:
        position += 4 + int.from_bytes(header[1:], "big")
        is_last = header[0] >= 0x80
    return position


def flac_first_sample(frame: bytes, block_size: int) -> int | None:
    """Return the number of the first sample of a FLAC frame, or ``None`` if its header is damaged."""
    number, _, is_counted = next(_flac_frames(frame, (0,)), (None, 0, False))
    return None if number is None else number * (block_size if is_counted else 1)


def is_flac_frame(data: bytes) -> bool:
    """Return whether ``data`` is exactly one FLAC frame, according to the checksum at its end."""
    value, table = 0, _crc_table(16, 0x18005)
    for byte in data[:-2]:
        value = (value << 8 & 0xFFFF) ^ table[value >> 8 ^ byte]
    return 0 < value == int.from_bytes(data[-2:], "big")  # the checksum of a frame and zeros after it is 0


def _crc8(data: bytes) -> int:
    """Return the checksum of a FLAC frame header.

    >>> _crc8(b"123456789")
    244
    """
    value, table = 0, _crc_table(8, 0x107)
    for byte in data:
        value = table[value ^ byte]
    return value


@cache
def _crc_table(num_bits: int, polynomial: int) -> tuple[int, ...]:
    """Return the lookup table for a CRC. ``polynomial`` has one bit more than the checksum."""
    values = [byte << num_bits - 8 for byte in range(256)]
    for _ in range(8):
        values = [value << 1 ^ polynomial if value >> num_bits - 1 else value << 1 for value in values]
    return tuple(values)


# WavPack


def _wavpack_numbers(read_at: ReadAt, file_size: int) -> Iterator[tuple[int, int, int]]:
    for data in _read_looks(read_at, file_size, _WAVPACK_LOOK_BYTES):
        for at in _find_signs(data[: -_WAVPACK_BLOCK.size], b"wvpk"):
            _, _, version, _, _, total, first, length = _WAVPACK_BLOCK.unpack_from(data, at)
            if version in _WAVPACK_VERSIONS:
                yield first, first + length, 0 if total == _WAVPACK_UNKNOWN else total


def wavpack_parts(read_at: ReadAt, file_size: int) -> tuple[list[tuple[int, int]], float | None]:
    """Find the parts of a joined WavPack file by reading the header of each block.

    Return (spans, total duration). Each span is (first byte, one past the last byte) of one part, or of several
    adjacent parts. Other data, such as tags, lie between spans. The duration is in seconds, or ``None`` if a part does
    not state its length.
    """
    spans: list[tuple[int, int]] = []
    num_seconds: float | None = 0.0
    position = end = 0
    while position < file_size:
        header = read_at(position, _WAVPACK_BLOCK.size + 4)
        if not _is_wavpack_block(header):
            position = _next_wavpack_block(read_at, position, file_size)
            continue
        _, size, _, _, _, total, first, length = _WAVPACK_BLOCK.unpack_from(header)
        flags = int.from_bytes(header[_WAVPACK_BLOCK.size :], "little")
        if first == 0 and length and flags & _WAVPACK_INITIAL:
            if not spans or position != end:
                spans.append((position, position))
            rate_number = flags >> 23 & 15
            if total == _WAVPACK_UNKNOWN or rate_number >= len(_WAVPACK_RATES):
                num_seconds = None
            elif num_seconds is not None:
                num_seconds += total / _WAVPACK_RATES[rate_number]
        position = end = position + 8 + size
        if spans:
            spans[-1] = spans[-1][0], min(end, file_size)
    return spans, num_seconds


def _is_wavpack_block(header: bytes) -> bool:
    if len(header) < _WAVPACK_BLOCK.size + 4 or not header.startswith(b"wvpk"):
        return False
    _, size, version, *_ = _WAVPACK_BLOCK.unpack_from(header)
    return version in _WAVPACK_VERSIONS and size >= _WAVPACK_BLOCK.size


def _next_wavpack_block(read_at: ReadAt, position: int, file_size: int) -> int:
    """Return the position of the first block that starts after ``position``, or ``file_size`` if there is none."""
    position += 1
    while position < file_size:
        data = read_at(position, _MANY_BYTES + _WAVPACK_BLOCK.size + 4)
        for at in _find_signs(data[: _MANY_BYTES + 3], b"wvpk"):
            if _is_wavpack_block(data[at : at + _WAVPACK_BLOCK.size + 4]):
                return position + at
        position += _MANY_BYTES
    return file_size


# Transport streams


def _transport_stream_restarts(read_at: ReadAt, file_size: int) -> bool:
    reached: dict[int, int] = {}
    for data in _read_looks(read_at, file_size, _TS_LOOK_BYTES):
        start = next(
            (at for at in _find_signs(data[:_TS_PACKET_BYTES], b"\x47") if set(data[at::188][:5]) == {0x47}), None
        )
        if start is None:
            continue
        whole = data[: len(data) - (len(data) - start) % _TS_PACKET_BYTES]
        flags = zip(whole[start + 1 :: _TS_PACKET_BYTES], whole[start + 3 :: _TS_PACKET_BYTES], strict=True)
        # Only packets in which a unit starts contain a time.
        for at in [start + _TS_PACKET_BYTES * i for i, (a, b) in enumerate(flags) if a & 0x40 and b & 0x10]:
            body = at + 4 + (1 + data[at + 4] if data[at + 3] & 0x20 else 0)
            pes = data[body : min(body + 14, at + _TS_PACKET_BYTES)]
            if len(pes) < 14 or pes[:3] != b"\0\0\1" or not pes[7] & 0x80 or pes[6] & 0xC0 != 0x80:
                continue
            pts = (pes[9] >> 1 & 7) << 30 | (pes[10] << 8 | pes[11]) >> 1 << 15 | (pes[12] << 8 | pes[13]) >> 1
            stream = (data[at + 1] & 0x1F) << 8 | data[at + 2]
            step_back = reached.get(stream, pts) - pts
            # Smaller steps back come from reordered frames. Larger ones mean that the clock wraps, which it does once a
            # day.
            if _TS_SECOND < step_back < _TS_WRAP // 2:
                return True
            reached[stream] = pts
    return False


# Bare frames


class FrameWalk:
    """Finds the position of a frame in a file that consists only of MPEG audio or AAC (ADTS) frames.

    It reads one header after another, starting from the last frame that was found. In joined files, FFmpeg's times of
    frames can be wrong, because FFmpeg also counts the bytes between the files.
    """

    def __init__(self, is_mp3: bool) -> None:
        self._walk = _walk_mpeg_audio if is_mp3 else _walk_adts
        self._reached: tuple[int, int] | None = None

    def place_of(self, read_at: ReadAt, first: int, number: int) -> int | None:
        """Return the byte position of frame ``number``. Frame 0 is at ``first``.

        Return ``None`` if other data or a change of the sample rate come before the frame.
        """
        header = read_at(first, _FRAME_HEADER_BYTES)
        place, reached = self._reached or (first, 0)
        if reached > number:
            place, reached = first, 0
        while reached < number and len(header) == _FRAME_HEADER_BYTES:
            data = read_at(place, _MANY_BYTES)
            at, count = self._walk(data, len(data) - _FRAME_HEADER_BYTES, header, number - reached)
            if not count:
                return None
            place, reached = place + at, reached + count
        self._reached = place, reached
        return place


def _walk_mpeg_audio(data: bytes, stop: int, first: bytes, most: int) -> tuple[int, int]:
    """Walk over adjacent frames in ``data`` that have the same layer and sample rate as the frame header ``first``.

    Stop at offset ``stop``, or after ``most`` frames. Return (offset at which the last frame ends, number of frames).
    """
    sizes: dict[tuple[int, int], int] = {}
    at = number = 0
    # Keep the work per frame small: an hour has 140,000 frames.
    while at < stop and number < most and data[at] == 0xFF:
        key = data[at + 1], data[at + 2]
        size = sizes.get(key)
        if size is None:
            is_alike = not (key[0] ^ first[1]) & 0x1E and not (key[1] ^ first[2]) & 0x0C
            size = sizes[key] = mp3_frame_size(data[at : at + 3]) if is_alike else 0
        if not size:
            break
        at += size
        number += 1
    return at, number


def _walk_adts(data: bytes, stop: int, first: bytes, most: int) -> tuple[int, int]:
    rate = first[2] & 0x3C
    at = number = 0
    while at < stop and number < most and data[at] == 0xFF and data[at + 1] & 0xF6 == 0xF0:
        if data[at + 2] & 0x3C != rate:
            break
        size = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        if size < _FRAME_HEADER_BYTES:
            break
        at += size
        number += 1
    return at, number


# Tags


def begins_file(data: bytes) -> bool:
    """Return whether a packet contains a tag or header that only occurs at the start or the end of a file."""
    return data.startswith(_SIGNS_OF_ENDS) or any(sign in data for sign in _SIGNS_OF_BEGINNINGS)


def id3_end(data: bytes) -> int:
    """Return the offset at which the ID3 tag in ``data`` ends, possibly after the end of ``data``; 0 without a tag."""
    at = data.find(b"ID3")
    size = data[at + 6 : at + 10]
    if at < 0 or len(size) < 4 or max(size) > 0x7F:
        return 0
    return at + 10 + (size[0] << 21 | size[1] << 14 | size[2] << 7 | size[3])
