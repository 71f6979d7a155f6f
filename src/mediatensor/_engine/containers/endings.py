"""Detect truncated files by the sizes that their containers state. Pure functions on bytes.

Downloads and recordings can stop anywhere; demuxers take the end of the bytes for the end of the media.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .boxes import ReadAt

# From (first bytes of a part, its position, file size) to the part's end; `None` if it is not stated.
_EndOf = Callable[[bytes, int, int], int | None]
# Boxes of an MP4, or RIFF chunks of an AVI; a file with more counts as whole.
_MAX_PARTS = 1 << 16
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_FLV_TAG_HEADER_BYTES, _FLV_TAGS = 11, frozenset((8, 9, 18))
_SYNC_BYTE = 0x47
_PACKETS_LOOKED_AT = 5
_FIRST_BOXES = frozenset((b"ftyp", b"styp", b"moov", b"mdat", b"wide", b"free", b"skip"))


def breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether the end of an MP4, Matroska, WebM, AVI, FLV or transport stream file is certainly missing.

    Files that do not state their length, such as live streams in Matroska, count as whole.
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
    """Compare the segment's size, nearly the whole file (RFC 9559, 5.1), with the file's; all ones mean unknown."""
    position, _ = _size_of_element(read_at(4, 8), 4)
    header = read_at(position, 12)
    if header[:4] != _SEGMENT:
        return False
    end, is_known = _size_of_element(header[4:], position + 4)
    return is_known and end > file_size


def _size_of_element(data: bytes, position: int) -> tuple[int, bool]:
    """Return where an element ends whose size field is at a position, and whether that is known (RFC 8794, 6)."""
    num_bytes = 9 - data[0].bit_length() if data else 9
    if num_bytes > 8 or len(data) < num_bytes:
        return position, False
    ones = (1 << 7 * num_bytes) - 1
    size = int.from_bytes(data[:num_bytes], "big") & ones
    return position + num_bytes + size, size != ones


def _parts_exceed_file(read_at: ReadAt, file_size: int, end_of: _EndOf) -> bool:
    """Return whether one of consecutive parts ends after the end of the file."""
    position = 0
    for _ in range(_MAX_PARTS):
        end = end_of(read_at(position, 16), position, file_size)
        if end is None or end >= file_size:
            return end is not None and end > file_size
        position = end
    return False


def _box_end(header: bytes, position: int, file_size: int) -> int | None:
    """Return where a box ends (ISO 14496-12, 4.2); a header that is cut off ends after the file."""
    if len(header) < 8:
        # A few zeros may follow the last box.
        return file_size + 1 if any(header) else None
    size = int.from_bytes(header[:4], "big")
    if size == 1:
        size = int.from_bytes(header[8:16], "big")
    if size == 0:  # to the end of the file
        return None
    # Bytes after the last box that are not a box prove nothing.
    return position + size if size >= 8 and header[4:8].isalnum() else None


def _riff_end(header: bytes, position: int, file_size: int) -> int | None:
    """Return where a RIFF chunk ends; programs killed while recording leave 0 or all ones."""
    if header[:4] != b"RIFF" or len(header) < 8:
        return None
    size: int = struct.unpack_from("<I", header, 4)[0]
    return None if size in (0, 0xFFFFFFFF) else position + 8 + size


def _flv_breaks_off(read_at: ReadAt, file_size: int) -> bool:
    """Check the last four bytes: the size of the tag before them ("Adobe Flash Video File Format", E.3)."""
    size = int.from_bytes(read_at(max(file_size - 4, 0), 4), "big")
    start = file_size - 4 - size
    if size < _FLV_TAG_HEADER_BYTES or start < 9:
        return file_size > 13  # a file without tags is whole
    header = read_at(start, _FLV_TAG_HEADER_BYTES)
    return header[0] & 0x1F not in _FLV_TAGS or int.from_bytes(header[1:4], "big") != size - _FLV_TAG_HEADER_BYTES


def _packets_break_off(read_at: ReadAt, file_size: int) -> bool:
    """Return whether a transport stream ends inside a packet (188 bytes, or 192 with a time before each)."""
    for size, offset in ((188, 0), (192, 4)):
        places = range(offset, min(offset + _PACKETS_LOOKED_AT * size, file_size), size)
        if len(places) == _PACKETS_LOOKED_AT and all(read_at(place, 1) == bytes((_SYNC_BYTE,)) for place in places):
            return file_size % size != 0
    return False
