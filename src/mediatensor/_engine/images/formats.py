"""Detect image formats, read the EXIF orientation, parse headers of WebP, JPEG and AVIF, and limit the size of images.

Pure functions, without I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import OpenError

#: Names of the formats that can be decoded, as users write them.
FORMATS = ("jpeg", "png", "webp", "gif", "avif", "heic", "bmp")

#: Number of bytes that `sniff` needs.
NUM_SNIFFED_BYTES = 64

#: Advice at the end of messages about too many pixels. The command and the web service leave it out.
MAX_PIXELS_ADVICE = "if you trust the file, pass a larger max_pixels, or None for no limit"

_AVIF_BRANDS = frozenset((b"avif", b"avis"))
_HEIC_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"))
# Many texts start with "BM", so BMP files are also recognised by the size of their second header.
_BMP_HEADER_SIZES = frozenset((12, 40, 52, 56, 64, 108, 124))

# Formats that users often pass although they are not supported.
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

_CONFIGURATION = b"av1C"
_MARKER_AND_VERSION = 0x81


def sniff(data: bytes | memoryview) -> str | None:
    """Return the format of an image file, one of `FORMATS`, or ``None`` if it is not supported.

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
    """Return the format of a file with a ``ftyp`` box by its major brand or, if this is generic, its other brands."""
    size = int.from_bytes(begin[:4], "big")
    for at in (8, *range(16, min(len(begin), size), 4)):
        brand = begin[at : at + 4]
        if brand in _AVIF_BRANDS:
            return "avif"
        if brand in _HEIC_BRANDS:
            return "heic"
    return None


def look_like(data: bytes | memoryview) -> str:
    """Describe in words which format the data seem to have, for an error message.

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


def avif_depth(data: bytes) -> int:
    """Return the number of bits per sample of an AVIF file, 8, 10 or 12: the larger one of colours and alpha.

    >>> avif_depth(b"av1C" + bytes([0x81, 0x20, 0x4C, 0]))
    10
    """
    depth = 8
    at = data.find(_CONFIGURATION)
    while at >= 0:
        configuration = data[at + 4 : at + 7]
        if len(configuration) == 3 and configuration[0] == _MARKER_AND_VERSION and configuration[2] & 0x40:
            depth = max(depth, 12 if configuration[2] & 0x20 else 10)
        at = data.find(_CONFIGURATION, at + 4)
    return depth


def exif_orientation(exif: bytes | None) -> int:
    """Return the orientation, 1 to 8, that EXIF data state; 1 (upright) if the data are missing or damaged.

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


def check_pixels(width: int, height: int, max_pixels: int | None) -> None:
    """Raise `OpenError` for an image that has no pixels, or more than ``max_pixels``."""
    if width < 1 or height < 1:
        raise OpenError(f"it has {width}x{height} pixels")
    if max_pixels is not None and width * height > max_pixels:
        raise OpenError(
            f"it would have {width}x{height} = {width * height} pixels, more than max_pixels = {max_pixels}; "
            f"{MAX_PIXELS_ADVICE}"
        )


class DamagedImageError(Exception):
    """An image file is damaged or incomplete; the message states the reason. Users get a `DecodeError` instead."""


def webp_canvas(data: bytes) -> tuple[int, int]:
    """Return the (width, height) in pixels that a WebP decoder will allocate.

    Raises `DamagedImageError` if the file is truncated or starts with an unknown chunk.

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
    """Return an animated WebP file with its alpha flag set; ``None`` if it was set, or the file is not animated.

    >>> file = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes([2, 0, 0, 0]) + bytes(6)
    >>> (webp_with_alpha(file) or b"")[20]
    18
    """
    flags = data[20] if data[12:16] == b"VP8X" else 0
    if flags & (_ANIMATION | _ALPHA) != _ANIMATION:
        return None
    return data[:20] + bytes((flags | _ALPHA,)) + data[21:]


# JPEG


#: Largest number of scans in a JPEG. Even a small scan of a progressive JPEG takes as long as the whole picture.
MAX_JPEG_SCANS = 500

_NO_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_START_OF_SCAN, _END_OF_IMAGE, _APP1, _RESTART_INTERVAL = 0xDA, b"\xff\xd9", 0xE1, 0xDD

# A block of zeros has at most 64 coefficients. Each takes a code of two bits, and one more bit.
_MAX_BYTES_OF_ZEROS_PER_BLOCK = 24


class JpegHeaders(NamedTuple):
    exif: bytes | None
    num_mcus: int  # minimum coded units (MCUs) in a scan with all components
    blocks_per_mcu: int  # blocks of 8x8 samples in each MCU
    restart_interval: int  # MCUs between two restart markers; 0 if there are none


def read_jpeg_headers(data: bytes) -> JpegHeaders:
    """Parse the headers of a JPEG file up to its first scan.

    Raises `DamagedImageError` if the file is truncated, has no end marker, or has more than `MAX_JPEG_SCANS` scans.
    """
    exif = None
    num_components = num_mcus = blocks_per_mcu = restart_interval = 0
    at = 2
    while True:
        at = data.find(b"\xff", at)
        while at >= 0 and data[at + 1 : at + 2] == b"\xff":
            at += 1
        if at < 0 or at + 10 > len(data):
            raise DamagedImageError(f"it ends within its headers, after {len(data)} bytes")
        marker = data[at + 1]
        if marker in _NO_LENGTH or marker == 0:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _START_OF_SCAN:
            # If a file is not progressive, a scan with all components is its only scan.
            has_many_scans = num_components != data[at + 4]
            break
        if marker in _START_OF_FRAME and length > 7:
            num_components = 0 if marker in _PROGRESSIVE else data[at + 9]
            num_mcus, blocks_per_mcu = _mcus(data[at + 5 : at + 2 + length])
        if marker == _RESTART_INTERVAL and length == 4:
            restart_interval = int.from_bytes(data[at + 4 : at + 6], "big")
        if marker == _APP1 and exif is None and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 4 : at + 2 + length]
        at += 2 + length
    if data.rfind(_END_OF_IMAGE) < at:
        raise DamagedImageError(f"it has no end: {len(data)} bytes are not the whole file")
    # The two bytes that start a scan do not occur inside scans, but thumbnails before the first scan may contain them.
    num_scans = data.count(bytes((0xFF, _START_OF_SCAN)), at) if has_many_scans else 1
    if num_scans > MAX_JPEG_SCANS:
        raise DamagedImageError(f"it has {num_scans} scans, more than the {MAX_JPEG_SCANS} that are accepted")
    return JpegHeaders(exif, num_mcus, blocks_per_mcu, restart_interval)


def _mcus(frame: bytes) -> tuple[int, int]:
    """Return (number of coded units, blocks in each) of a JPEG picture. ``frame`` is its header from the height on."""
    height, width = struct.unpack_from(">HH", frame)
    factors = [(factor >> 4, factor & 15) for factor in frame[6::3]]
    columns, rows = (max((pair[axis] for pair in factors), default=1) or 1 for axis in (0, 1))
    return -(-width // (8 * columns)) * -(-height // (8 * rows)), sum(across * down for across, down in factors)


def completed_jpegs(data: bytes, headers: JpegHeaders) -> Iterator[bytes]:
    """Yield copies of a JPEG file that are completed with zeros, to find out whether the file is only truncated.

    In each copy, enough zeros for a whole picture are inserted before the end marker. Zeros are valid codes in every
    Huffman table. If any copy decodes without an error, the file is truncated, but has no other damage. The file can
    end in the middle of a code, so the copies differ in the bits that complete this code.
    """
    end = data.rfind(_END_OF_IMAGE)
    before = data[:end]
    interval = headers.restart_interval or headers.num_mcus
    zeros = bytes(interval * headers.blocks_per_mcu * _MAX_BYTES_OF_ZEROS_PER_BLOCK)
    num_restarts = headers.num_mcus // interval if headers.restart_interval else 0
    last = max((before.rfind(bytes((0xFF, 0xD0 + number))), number) for number in range(8))
    first = last[1] + 1 if last[0] >= 0 else 0
    more = b"".join([zeros, *(bytes((0xFF, 0xD0 + (first + number) % 8)) + zeros for number in range(num_restarts))])
    for junction in (b"", b"\x2a", b"\x55", b"\x7f\x80", b"\xaa", b"\x99\x66"):
        yield before + junction + more + data[end:]
