"""Detect files whose end is missing, from the sizes and lengths that their headers state. Pure functions on bytes.

Downloads and recordings can stop anywhere, and demuxers treat the end of the bytes as the end of the media. If a
container states a size that extends past the end of the file, bytes are missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .audio_frames import stated_mp3_seconds
from .boxes import ReadAt
from .wav import stated_wav_audio

# Function that returns the end of a part (`None` if unknown), given the part's first bytes and its position.
_EndOf = Callable[[bytes, int], int | None]
# Limit for the number of boxes of an MP4 or RIFF chunks of an AVI. Files with more parts count as complete.
_MAX_PARTS = 1 << 16
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_FLV_TAG_HEADER_BYTES, _FLV_TAGS = 11, frozenset((8, 9, 18))
_WAV_SIGNS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff")
_SYNC_BYTE = 0x47
_PACKETS_LOOKED_AT = 5
_FIRST_BOXES = frozenset((b"ftyp", b"styp", b"moov", b"mdat", b"wide", b"free", b"skip"))


def breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the end of a file is certainly missing.

    MP4, Matroska, WebM, AVI, FLV, WAV and transport streams are checked. Files that do not state their length, such as
    live streams in Matroska, count as complete.
    """
    start = read_at(0, 64)
    if start[:4] == _EBML:
        return _matroska_breaks_off(read_at, file_size)
    if start[:4] == b"RIFF" and start[8:12] == b"AVI ":
        return _parts_exceed_file(read_at, file_size, _riff_end)
    if start[:3] == b"FLV":
        return _flv_breaks_off(read_at, file_size)
    if start[4:8] in _FIRST_BOXES:
        return _parts_exceed_file(read_at, file_size, _box_end)
    if start[:4] in _WAV_SIGNS:
        audio = stated_wav_audio(read_at, file_size)
        # Some programs state the size of the whole file as the size of the audio.
        return audio is not None and audio.num_bytes > file_size
    return _packets_break_off(read_at, file_size)


def stated_audio_seconds(read_at: ReadAt, file_size: int) -> float | None:
    """Return the duration that an uncompressed WAV file or an MP3 file states for its audio, even if it is truncated.

    Return ``None`` for other formats, and for files that do not state the duration. FFmpeg's duration is not used. For
    a truncated WAV file, FFmpeg computes it from the file's size, and for an MP3 file without a tag, from the first
    frames.
    """
    if read_at(0, 4) in _WAV_SIGNS:
        audio = stated_wav_audio(read_at, file_size)
        return None if audio is None else audio.num_seconds
    return stated_mp3_seconds(read_at)


def _matroska_breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the segment, which contains nearly the whole file (RFC 9559, 5.1), would end after the file."""
    position, _ = _size_of_element(read_at(4, 8), 4)
    header = read_at(position, 12)
    if header[:4] != _SEGMENT:
        return False
    end, is_known = _size_of_element(header[4:], position + 4)
    return is_known and end > file_size


def _size_of_element(data: bytes, position: int) -> tuple[int, bool]:
    """Parse the size of an EBML element (RFC 8794, 6). Return (position at which it ends, whether it states its size).

    ``data`` starts with the field, whose position in the file is ``position``.
    """
    num_bytes = 9 - data[0].bit_length() if data else 9
    if num_bytes > 8 or len(data) < num_bytes:
        return position, False
    ones = (1 << 7 * num_bytes) - 1
    size = int.from_bytes(data[:num_bytes], "big") & ones
    return position + num_bytes + size, size != ones


def _parts_exceed_file(read_at: ReadAt, file_size: int, end_of: _EndOf) -> bool:
    """Return whether a box or chunk at the top level of a file would end after the end of the file."""
    position = 0
    for _ in range(_MAX_PARTS):
        end = end_of(read_at(position, 16), position)
        if end is None or end >= file_size:
            return end is not None and end > file_size
        position = end
    return False


def _box_end(header: bytes, position: int) -> int | None:
    """Return where the box with this header ends (ISO 14496-12, 4.2), or ``None`` if this is unknown.

    If the header itself is cut off, return where the header should end.
    """
    if len(header) < 8:
        # A few zero bytes may follow the last box.
        return position + 8 if any(header) else None
    size = int.from_bytes(header[:4], "big")
    if size == 1:
        size = int.from_bytes(header[8:16], "big")
    if size == 0:  # the box extends to the end of the file
        return None
    # If bytes after the last box are not a box, the file may still be complete.
    return position + size if size >= 8 and header[4:8].isalnum() else None


def _riff_end(header: bytes, position: int) -> int | None:
    if header[:4] != b"RIFF" or len(header) < 8:
        return None
    size: int = struct.unpack_from("<I", header, 4)[0]
    return None if size in (0, 0xFFFFFFFF) else position + 8 + size  # recorders that were killed leave such sizes


def _flv_breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether an FLV file lacks the size of its last tag at the end ("Adobe Flash Video File Format", E.3)."""
    size = int.from_bytes(read_at(max(file_size - 4, 0), 4), "big")
    start = file_size - 4 - size
    if size < _FLV_TAG_HEADER_BYTES or start < 9:
        return file_size > 13  # a file without tags is complete
    header = read_at(start, _FLV_TAG_HEADER_BYTES)
    return header[0] & 0x1F not in _FLV_TAGS or int.from_bytes(header[1:4], "big") != size - _FLV_TAG_HEADER_BYTES


def _packets_break_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether a transport stream ends in the middle of a packet.

    Packets have 188 bytes, or 192 bytes if a time comes before each packet. The result is False for other formats.
    """
    for size, offset in ((188, 0), (192, 4)):
        places = range(offset, min(offset + _PACKETS_LOOKED_AT * size, file_size), size)
        if len(places) == _PACKETS_LOOKED_AT and all(read_at(place, 1) == bytes((_SYNC_BYTE,)) for place in places):
            return file_size % size != 0
    return False
