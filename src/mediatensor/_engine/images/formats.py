"""Detect image formats from first bytes, read EXIF orientation, and parse headers of WebP. Pure; no I/O."""

from __future__ import annotations

import struct

__all__ = [
    "FORMATS",
    "NUM_SNIFFED_BYTES",
    "DamagedImageError",
    "exif_orientation",
    "look_like",
    "sniff",
    "webp_canvas",
    "webp_with_alpha",
]

#: Names of the formats that can be decoded, as users write them.
FORMATS = ("jpeg", "png", "webp", "gif", "avif", "heic", "bmp")

#: Number of bytes that `sniff` needs.
NUM_SNIFFED_BYTES = 64

_AVIF_BRANDS = frozenset((b"avif", b"avis"))
_HEIC_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"))
# Many texts start with "BM". In BMP files, the size of the second header is one of these.
_BMP_HEADER_SIZES = frozenset((12, 40, 52, 56, 64, 108, 124))

# Other formats that users pass by mistake.
_OTHERS = (
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"%PDF", "a PDF document"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (b"8BPS", "a Photoshop document"),
    (b"PK\x03\x04", "a zip archive"),
)


def sniff(data: bytes | memoryview) -> str | None:
    """Return the format, or ``None`` if it is unsupported.

    >>> sniff(b"GIF89a"), sniff(b"RIFF....WEBPVP8 "), sniff(b"GIF88a")
    ('gif', 'webp', None)
    >>> sniff(bytes([0, 0, 0, 24]) + b"ftypmif1....miafavif")
    'avif'
    """
    begin = bytes(data[:NUM_SNIFFED_BYTES])
    if begin.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if begin.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if begin.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if begin.startswith(b"RIFF") and begin[8:12] == b"WEBP":
        return "webp"
    if begin[4:8] == b"ftyp":
        return _sniff_brands(begin)
    if begin.startswith(b"BM") and int.from_bytes(begin[14:18], "little") in _BMP_HEADER_SIZES:
        return "bmp"
    return None


def _sniff_brands(begin: bytes) -> str | None:
    """Return the format from a ``ftyp`` box: from its major brand if that is specific, or its compatible brands."""
    size = int.from_bytes(begin[:4], "big")
    for at in (8, *range(16, min(len(begin), size), 4)):
        brand = begin[at : at + 4]
        if brand in _AVIF_BRANDS:
            return "avif"
        if brand in _HEIC_BRANDS:
            return "heic"
    return None


def look_like(data: bytes | memoryview) -> str:
    """Return the apparent format of the data in words.

    >>> look_like(b"II*" + bytes(5))
    'a TIFF image'
    >>> look_like(b"hello")
    "data that begins with b'hello'"
    """
    begin = bytes(data[:NUM_SNIFFED_BYTES])
    known = sniff(begin)
    if known:
        return f"a {known.upper()} image"
    if begin[4:8] == b"ftyp":
        return "an MP4 or QuickTime video"
    for magic, words in _OTHERS:
        if begin.startswith(magic):
            return words
    return f"data that begins with {begin[:8]!r}"


def exif_orientation(exif: bytes | None) -> int:
    """Return the orientation in EXIF data, 1 to 8; 1 (upright) if it is missing or damaged.

    >>> exif_orientation(b"II*" + struct.pack("<BIHHHII", 0, 8, 1, 0x0112, 3, 1, 6) + bytes(4))
    6
    """
    if not exif:
        return 1
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    try:
        (directory,) = struct.unpack_from(f"{order}I", exif, 4)
        (num_entries,) = struct.unpack_from(f"{order}H", exif, directory)
        for number in range(num_entries):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", exif, directory + 2 + 12 * number)
            if tag == 0x0112 and kind == 3:
                return int(value) if 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


# Bits of the flags in a WebP file.
_ANIMATION, _ALPHA = 0x02, 0x10


class DamagedImageError(Exception):
    """The file is damaged or incomplete; the message states the reason. Callers never get this internal error."""


def webp_canvas(data: bytes) -> tuple[int, int]:
    """Return the (width, height) in pixels that a WebP decoder will allocate.

    Raises:
        DamagedImageError: if the file is truncated, or its first chunk is unknown.

    >>> webp_canvas(b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + bytes(8) + bytes([9, 0, 0, 4, 0, 0]))
    (10, 5)
    """
    missing = int.from_bytes(data[4:8], "little") + 8 - len(data)
    if missing > 0:
        raise DamagedImageError(f"its last {missing} bytes are missing")
    chunk = data[12:16]
    if chunk == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if chunk == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise DamagedImageError(f"its first chunk is {chunk!r}, or cut")


def webp_with_alpha(data: bytes) -> bytes | None:
    """Return an animated WebP file with its alpha flag set; ``None`` if it is already set or the file is not animated.

    >>> file = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes([2, 0, 0, 0]) + bytes(6)
    >>> (webp_with_alpha(file) or b"")[20]
    18
    """
    flags = data[20] if data[12:16] == b"VP8X" else 0
    if flags & (_ANIMATION | _ALPHA) != _ANIMATION:
        return None
    return data[:20] + bytes((flags | _ALPHA,)) + data[21:]
