"""Create a PDF file with a single page that shows a single image.

The compressed data of an image file are copied into the PDF without change if the PDF format supports them.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# For each EXIF orientation, the PDF matrix that places an image, a unit square, on a page of width 1 and height 1.
_PLACES = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
_COLORS = {1: "/DeviceGray", 3: "/DeviceRGB", 4: "/DeviceCMYK"}

# JPEG markers: frames that PDF supports (baseline, extended, progressive); all frames; markers without contents.
_KNOWN_FRAMES = frozenset((0xC0, 0xC1, 0xC2))
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))


class Picture(NamedTuple):
    """An image in the form in which a PDF file stores it.

    ``width`` and ``height`` are the stored size in pixels. ``entries`` is the part of the image's PDF dictionary that
    describes colours and compression. ``data`` are the compressed pixels. ``orientation`` is the EXIF orientation,
    which says how to turn the image upright.
    """

    width: int
    height: int
    entries: str
    data: bytes
    orientation: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the image after it has been turned upright."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def picture_pdf(picture: Picture | None, width: float, height: float) -> bytes:
    """Return a PDF file with one page, which ``picture`` fills. If ``picture`` is ``None``, the page is blank.

    ``width`` and ``height`` are the size of the page in points.
    """
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"]
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {width:.6f} {height:.6f}]"
    if picture is None:
        objects.append(f"{page}/Resources<<>>>>".encode())
    else:
        a, b, c, d, e, f = _PLACES[picture.orientation]
        place = (a * width, b * height, c * width, d * height, e * width, f * height)
        content = f"q {' '.join(f'{number:.6f}' for number in place)} cm /Picture Do Q".encode()
        entries = f"<</Type/XObject/Subtype/Image/Width {picture.width}/Height {picture.height}{picture.entries}"
        objects += [
            f"{page}/Contents 4 0 R/Resources<</XObject<</Picture 5 0 R>>>>>>".encode(),
            b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
            b"%b/Length %d>>stream\n%b\nendstream" % (entries.encode(), len(picture.data), picture.data),
        ]
    file, offsets = bytearray(b"%PDF-1.5\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(file)


def pixels_as_jpeg(image: NDArray[np.uint8], quality: int) -> Picture:
    """Compress pixels (H, W, 3) as a JPEG without chroma subsampling. If they are all grey, store only one channel."""
    target = io.BytesIO()
    pixels = np.ascontiguousarray(image[..., 0]) if _is_grey(image) else image
    Image.fromarray(pixels).save(target, "JPEG", quality=quality, subsampling=0)
    picture = jpeg_picture(target.getvalue(), 1)
    assert picture is not None
    return picture


def pixels_lossless(image: NDArray[np.uint8]) -> Picture:
    """Compress pixels (H, W, 3) without loss.

    If they are all grey, store one channel; if black and white, one bit per pixel.
    """
    height, width = image.shape[:2]
    num_channels, num_bits, pixels = 3, 8, image
    if _is_grey(image):
        num_channels, pixels = 1, np.ascontiguousarray(image[..., 0])
        if ((pixels == 0) | (pixels == 255)).all():
            num_bits, pixels = 1, np.packbits(pixels != 0, axis=1)
    entries = f"/ColorSpace{_COLORS[num_channels]}/BitsPerComponent {num_bits}/Filter/FlateDecode"
    return Picture(width, height, entries, zlib.compress(pixels.tobytes()))


def _is_grey(image: NDArray[np.uint8]) -> bool:
    return bool((image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all())


def jpeg_picture(data: bytes, orientation: int) -> Picture | None:
    """Return the data of a JPEG file without change, or ``None`` if some PDF viewers might not show them correctly.

    The markers of a JPEG file are defined in ITU-T T.81, B.1. PDF 32000-1, 7.4.8 lists the markers that PDF supports.
    """
    at, is_adobe, is_jfif = 2, False, False
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        content = data[at + 4 : at + 2 + length]
        if marker == 0xDA or length < 2:
            return None
        is_adobe |= marker == 0xEE and content.startswith(b"Adobe")
        is_jfif |= marker == 0xE0 and content.startswith(b"JFIF")
        if marker in _FRAMES:
            if marker not in _KNOWN_FRAMES or len(content) < 6:
                return None
            num_bits, height, width, num_channels = struct.unpack_from(">BHHB", content)
            names = content[6::3][:num_channels]
            is_ambiguous = names == b"RGB" and not is_adobe and not is_jfif
            if num_bits != 8 or 0 in (width, height) or num_channels not in _COLORS or is_ambiguous:
                return None
            # Adobe's programs store inverted CMYK.
            decode = "/Decode[1 0 1 0 1 0 1 0]" if num_channels == 4 and is_adobe else ""
            entries = f"/ColorSpace{_COLORS[num_channels]}/BitsPerComponent 8/Filter/DCTDecode{decode}"
            return Picture(width, height, entries, data, orientation)
        at += 2 + length
    return None


def png_picture(data: bytes, orientation: int) -> Picture | None:
    """Return the compressed data of a PNG file, or ``None`` if PDF does not support them.

    PDF does not support interlaced, transparent and animated PNG files.
    """
    at, header, palette, packed = 8, b"", b"", []
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind in (b"tRNS", b"acTL") or len(content) != length:
            return None
        if kind == b"IHDR":
            header = content
        elif kind == b"PLTE":
            palette = content
        elif kind == b"IDAT":
            packed.append(content)
        at += 12 + length
    if len(header) != 13 or not packed:
        return None
    width, height, num_bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    num_channels = {0: 1, 2: 3, 3: 1}.get(color)
    if num_channels is None or interlaced or 0 in (width, height) or (color == 3 and not palette):
        return None
    space = f"[/Indexed/DeviceRGB {len(palette) // 3 - 1}<{palette.hex()}>]" if color == 3 else _COLORS[num_channels]
    entries = (
        f"/ColorSpace{space}/BitsPerComponent {num_bits}/Filter/FlateDecode"
        f"/DecodeParms<</Predictor 15/Colors {num_channels}/BitsPerComponent {num_bits}/Columns {width}>>"
    )
    return Picture(width, height, entries, b"".join(packed), orientation)


def tiff_picture(file: BinaryIO, tags: dict[int, tuple[int, ...]]) -> Picture | None:
    """Return the compressed data of a TIFF page without change, or ``None`` if PDF does not support them.

    For example, PDF does not support pages that are stored as several strips. ``tags`` has the integer values in the
    page's directory (its header), by tag number (TIFF 6.0).
    """

    def first(tag: int, default: int) -> int:
        return tags.get(tag, (default,))[0]

    width, height, coding, zero = first(256, 0), first(257, 0), first(259, 1), first(262, 0)
    num_bits, num_channels = first(258, 1), first(277, 1)
    offsets, counts = tags.get(273, ()), tags.get(279, ())
    is_plain = len(offsets) == len(counts) == 1 and first(266, 1) == 1 and first(284, 1) == 1 and 338 not in tags
    orientation = first(274, 1)
    if not is_plain or 0 in (width, height) or orientation not in _PLACES:
        return None
    if (zero, num_channels) not in ((0, 1), (1, 1), (2, 3)) or num_bits not in ((1, 8) if num_channels == 1 else (8,)):
        return None
    if coding == 4 and num_bits == num_channels == 1:
        is_black = "true" if zero == 1 else "false"
        coded = f"/Filter/CCITTFaxDecode/DecodeParms<</K -1/Columns {width}/Rows {height}/BlackIs1 {is_black}>>"
    elif coding in (5, 8, 32946) and first(317, 1) in (1, 2):
        name = "LZWDecode" if coding == 5 else "FlateDecode"
        inverted = "/Decode[1 0]" if zero == 0 else ""
        coded = (
            f"{inverted}/Filter/{name}/DecodeParms<</Predictor {first(317, 1)}/Colors {num_channels}"
            f"/BitsPerComponent {num_bits}/Columns {width}>>"
        )
    else:
        return None
    file.seek(offsets[0])
    data = file.read(counts[0])
    if len(data) != counts[0]:
        return None
    entries = f"/ColorSpace{_COLORS[num_channels]}/BitsPerComponent {num_bits}{coded}"
    return Picture(width, height, entries, data, orientation)
