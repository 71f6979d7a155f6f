"""Detect truncated files by the sizes that their containers state. Pure functions on bytes.

Downloads and recordings can stop anywhere, and demuxers treat the end of the bytes as the end of the media.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .boxes import ReadAt

# Function that returns the end of a part, given (its first bytes, its position, file size); `None` if it is unknown.
_EndOf = Callable[[bytes, int, int], int | None]
# Limit for the boxes of an MP4 or RIFF chunks of an AVI; a file with more parts counts as complete.
_MAX_PARTS = 1 << 16
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_FLV_TAG_HEADER_BYTES, _FLV_TAGS = 11, frozenset((8, 9, 18))
_SYNC_BYTE = 0x47
_PACKETS_LOOKED_AT = 5
_FIRST_BOXES = frozenset((b"ftyp", b"styp", b"moov", b"mdat", b"wide", b"free", b"skip"))


def breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the end of an MP4, Matroska, WebM, AVI, FLV or transport stream file is certainly missing.

    Files that do not state their length, such as live streams in Matroska, count as complete.
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
    return _packets_break_off(read_at, file_size)


def _matroska_breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the segment, which is nearly the whole file (RFC 9559, 5.1), exceeds the end of the file."""
    position, _ = _size_of_element(read_at(4, 8), 4)
    header = read_at(position, 12)
    if header[:4] != _SEGMENT:
        return False
    end, is_known = _size_of_element(header[4:], position + 4)
    return is_known and end > file_size


def _size_of_element(data: bytes, position: int) -> tuple[int, bool]:
    """Return where an element with a size field at ``position`` ends, and whether this end is known (RFC 8794, 6)."""
    num_bytes = 9 - data[0].bit_length() if data else 9
    if num_bytes > 8 or len(data) < num_bytes:
        return position, False
    ones = (1 << 7 * num_bytes) - 1
    size = int.from_bytes(data[:num_bytes], "big") & ones
    return position + num_bytes + size, size != ones


def _parts_exceed_file(read_at: ReadAt, file_size: int, end_of: _EndOf) -> bool:
    """Return whether one of the adjacent parts from the start of the file ends after the end of the file."""
    position = 0
    for _ in range(_MAX_PARTS):
        end = end_of(read_at(position, 16), position, file_size)
        if end is None or end >= file_size:
            return end is not None and end > file_size
        position = end
    return False


def _box_end(header: bytes, position: int, file_size: int) -> int | None:
    """Return the end of a box (ISO 14496-12, 4.2); for a truncated header, a position after the end of the file."""
    if len(header) < 8:
        # Some zero bytes may follow the last box.
        return file_size + 1 if any(header) else None
    size = int.from_bytes(header[:4], "big")
    if size == 1:
        size = int.from_bytes(header[8:16], "big")
    if size == 0:  # the box extends to the end of the file
        return None
    # If bytes after the last box are not a box, the file may still be complete.
    return position + size if size >= 8 and header[4:8].isalnum() else None


def _riff_end(header: bytes, position: int, file_size: int) -> int | None:
    """Return the end of a RIFF chunk; ``None`` if its size is 0 or all ones, as after a recorder was killed."""
    if header[:4] != b"RIFF" or len(header) < 8:
        return None
    size: int = struct.unpack_from("<I", header, 4)[0]
    return None if size in (0, 0xFFFFFFFF) else position + 8 + size


def _flv_breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the last four bytes are not the last tag's size ("Adobe Flash Video File Format", E.3)."""
    size = int.from_bytes(read_at(max(file_size - 4, 0), 4), "big")
    start = file_size - 4 - size
    if size < _FLV_TAG_HEADER_BYTES or start < 9:
        return file_size > 13  # a file without tags is complete
    header = read_at(start, _FLV_TAG_HEADER_BYTES)
    return header[0] & 0x1F not in _FLV_TAGS or int.from_bytes(header[1:4], "big") != size - _FLV_TAG_HEADER_BYTES


def _packets_break_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether a transport stream ends inside a packet (of 188 bytes, or of 192 bytes if a time comes first)."""
    for size, offset in ((188, 0), (192, 4)):
        places = range(offset, min(offset + _PACKETS_LOOKED_AT * size, file_size), size)
        if len(places) == _PACKETS_LOOKED_AT and all(read_at(place, 1) == bytes((_SYNC_BYTE,)) for place in places):
            return file_size % size != 0
    return False
