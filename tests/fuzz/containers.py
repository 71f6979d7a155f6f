"""Lies in the structure of files: sizes of boxes, chunks and elements, and numbers where headers have numbers.

The checksum of a changed chunk is updated, so that its parser is reached.
"""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["EXTREMES", "lie_in_structure"]

#: Numbers at which sizes, counts and times go wrong.
EXTREMES = [0, 1, 2, 7, 8, 9, 15, 16, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0xFFFFFF, 0x7FFFFFFF, 0x80000000]
EXTREMES += [0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


class Part(NamedTuple):
    """A box, chunk or element: where it begins, where its contents do, where it ends; and where its size is written."""

    start: int
    body: int
    stop: int
    size_at: int
    size_bytes: int
    is_big_endian: bool


_MP4_PARENTS = frozenset(
    (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"mvex", b"moof", b"traf", b"udta", b"dinf", b"meta",
     b"iprp", b"ipco")
)  # fmt: skip
# Boxes that contain boxes, and the offset of the first one, after a version and a count.
_MP4_LISTS = {b"stsd": 16, b"iinf": 14, b"iref": 12, b"dref": 16}
_EBML_PARENTS = frozenset(
    (0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0, 0xE1, 0x1F43B675, 0xA0, 0x1C53BB6B, 0xBB, 0xB7, 0x114D9B74, 0x4DBB,
     0x1A45DFA3)
)  # fmt: skip
_RIFF_PARENTS = frozenset((b"RIFF", b"LIST", b"RIFX", b"RF64"))


def lie_in_structure(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change one part of a file of a known container, or a number in the text of a PDF; other files do not change."""
    if data[:4] == b"%PDF":
        return _change_number_of_text(rng, data)
    parts = list(_parts(data))
    if not parts:
        return data
    # Headers are many small parts, and media a few large ones.
    part = rng.choice(parts)
    change = rng.choice((_set_size, _set_size, _set_field, _set_field, _set_field, _drop, _double, _swap, _rename))
    spoiled = change(rng, data, part, parts)
    return _with_right_checksums(spoiled) if data[:8] == b"\x89PNG\r\n\x1a\n" else spoiled


def _set_size(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    true = part.stop - part.body
    size = rng.choice((*EXTREMES, true + 1, true - 1, true // 2, true * 2, len(data), len(data) - part.body))
    limit = 1 << 8 * part.size_bytes
    number = (size % limit).to_bytes(part.size_bytes, "big" if part.is_big_endian else "little")
    return data[: part.size_at] + number + data[part.size_at + part.size_bytes :]


def _set_field(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    """A number in the contents, and rather among the first ones."""
    length = part.stop - part.body
    if length <= 0:
        return data
    size = rng.choice((1, 2, 4, 4, 8))
    at = part.body + min(length - 1, rng.choice((0, 4, 8, 12, rng.randrange(length), rng.randrange(min(length, 64)))))
    number = rng.choice((*EXTREMES, rng.getrandbits(8 * size))) % (1 << 8 * size)
    written = number.to_bytes(size, "big" if part.is_big_endian else "little")[: part.stop - at]
    return data[:at] + written + data[at + len(written) :]


def _drop(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    return data[: part.start] + data[part.stop :]


def _double(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    return data[: part.stop] + data[part.start : part.stop] * rng.choice((1, 3)) + data[part.stop :]


def _swap(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    apart = [other for other in parts if other.start >= part.stop]
    if not apart:
        return data
    other = rng.choice(apart)
    first, second = data[part.start : part.stop], data[other.start : other.stop]
    return data[: part.start] + second + data[part.stop : other.start] + first + data[other.stop :]


def _rename(rng: random.Random, data: bytes, part: Part, parts: list[Part]) -> bytes:
    """Use the name of another part; names of 4 letters may be before or after the size."""
    other = rng.choice(parts)
    return data[: part.start] + data[other.start : other.start + 8] + data[part.start + 8 :]


def _change_number_of_text(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?|/[A-Za-z]+|obj|endobj|R\b|[<>\[\]]{1,2}", data))
    if not found:
        return data
    match = rng.choice(found)
    new = rng.choice(
        (b"0", b"-1", b"1e40", b"99999999999", b"2147483648", b"0.0000001", b"4 0 R", b"[", b">>", rng.choice(found)[0])
    )
    return data[: match.start()] + new + data[match.end() :]


# Containers


def _parts(data: bytes) -> Iterator[Part]:
    walk = _walker(data)
    return walk(data, 0, len(data)) if walk else iter(())


def _walker(data: bytes) -> Callable[[bytes, int, int], Iterator[Part]] | None:
    if data[:4] in _RIFF_PARENTS:
        return _riff_parts
    if data[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide"):
        return _mp4_parts
    if data[:4] == b"\x1a\x45\xdf\xa3":
        return _ebml_parts
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _png_parts
    if data[:2] == b"\xff\xd8":
        return _jpeg_parts
    if data[:4] in (b"II*\0", b"MM\0*") and len(data) >= 8:
        return _tiff_parts
    if data[:4] in (b"OggS", b"FORM", b"caff", b".snd", b"fLaC"):
        return _iff_parts
    return None


def _riff_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    order = ">" if data[:4] == b"RIFX" else "<"
    while at + 8 <= stop:
        (size,) = struct.unpack_from(f"{order}I", data, at + 4)
        end = min(stop, at + 8 + size)
        yield Part(at, at + 8, end, at + 4, 4, order == ">")
        if data[at : at + 4] in _RIFF_PARENTS:
            yield from _riff_parts(data, at + 12, end)
        at = end + size % 2


def _mp4_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    while at + 8 <= stop:
        size, kind = struct.unpack_from(">I4s", data, at)
        end = stop if size == 0 else min(stop, at + size)
        if end < at + 8:
            return
        yield Part(at, at + 8, end, at, 4, True)
        if kind in _MP4_PARENTS:
            # In files of stills a version and flags come before the parts; QuickTime has none there.
            is_full = kind == b"meta" and data[at + 8 : at + 12] == bytes(4)
            yield from _mp4_parts(data, at + 12 if is_full else at + 8, end)
        elif kind in _MP4_LISTS:
            yield from _mp4_parts(data, at + _MP4_LISTS[kind], end)
        at = end


def _ebml_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    while at + 2 <= stop:
        id_bytes = 9 - data[at].bit_length()
        size_at = at + id_bytes
        if id_bytes > 4 or size_at >= stop:
            return
        size_bytes = 9 - data[size_at].bit_length()
        if size_bytes > 8:
            return
        name = int.from_bytes(data[at:size_at], "big")
        size = int.from_bytes(data[size_at : size_at + size_bytes], "big") & ((1 << 7 * size_bytes) - 1)
        body = size_at + size_bytes
        is_unknown = size == (1 << 7 * size_bytes) - 1
        end = stop if is_unknown else min(stop, body + size)
        yield Part(at, body, end, size_at, size_bytes, True)
        if name in _EBML_PARENTS:
            yield from _ebml_parts(data, body, end)
        at = end


def _png_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    at = max(at, 8)
    while at + 12 <= stop:
        (size,) = struct.unpack_from(">I", data, at)
        end = min(stop, at + 12 + size)
        yield Part(at, at + 8, end, at, 4, True)
        at = end


def _with_right_checksums(data: bytes) -> bytes:
    spoiled = bytearray(data)
    for part in _png_parts(data, 0, len(data)):
        if part.stop - part.start >= 12:
            spoiled[part.stop - 4 : part.stop] = struct.pack(">I", zlib.crc32(spoiled[part.start + 4 : part.stop - 4]))
    return bytes(spoiled)


def _jpeg_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    at = 2
    while at + 4 <= stop and data[at] == 0xFF:
        (size,) = struct.unpack_from(">H", data, at + 2)
        end = min(stop, at + 2 + size)
        yield Part(at, min(end, at + 4), end, at + 2, 2, True)
        at = max(end, at + 4)


def _tiff_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    """The entries of the directories: tag, type, count, value."""
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack_from(f"{order}I", data, 4)
    for _ in range(8):
        if not 8 <= at <= stop - 2:
            return
        (count,) = struct.unpack_from(f"{order}H", data, at)
        for number in range(min(count, 64)):
            entry = at + 2 + 12 * number
            if entry + 12 <= stop:
                yield Part(entry, entry + 2, entry + 12, entry + 4, 4, order == ">")
        if at + 6 + 12 * count > stop:
            return
        (at,) = struct.unpack_from(f"{order}I", data, at + 2 + 12 * count)


def _iff_parts(data: bytes, at: int, stop: int) -> Iterator[Part]:
    """Yield parts where four letters precede a size; in Ogg, pages."""
    for match in re.finditer(rb"OggS|[A-Z]{4}|desc|data|pakt|kuki|chan|\.snd", data[:20_000]):
        if match.end() + 8 < stop:
            yield Part(match.start(), match.end() + 4, min(stop, match.end() + 36), match.end(), 4, True)
