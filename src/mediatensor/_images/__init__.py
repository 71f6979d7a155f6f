"""Still and animated images: from bytes to pixels.

`formats` tells what a file is, `jpeg`, `png`, `gif` and `avif` parse its headers, `reading` reads its pixels in bands
of rows, `channels` brings them to the channels and the depth that were asked for, and `decoding` makes a tensor. The
image decoders and the documents of `mediatensor.ocr` stand on it. It knows nothing of either.
"""

from __future__ import annotations

from .channels import ImageReadMode, Layout, Planes, check_mode, check_output_dtype, convert
from .decoding import MAX_FILE_BYTES, MAX_PIXELS, decode, read_bytes
from .formats import NUM_SNIFFED_BYTES, DamagedImageError, look_like, sniff, webp_canvas
from .gif import parse_gif
from .jpeg import MAX_JPEG_SCANS, read_jpeg_headers
from .png import parse_png
from .reading import Bands, OpenedImage, open_image

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_JPEG_SCANS",
    "MAX_PIXELS",
    "NUM_SNIFFED_BYTES",
    "Bands",
    "DamagedImageError",
    "ImageReadMode",
    "Layout",
    "OpenedImage",
    "Planes",
    "check_mode",
    "check_output_dtype",
    "convert",
    "decode",
    "look_like",
    "open_image",
    "parse_gif",
    "parse_png",
    "read_bytes",
    "read_jpeg_headers",
    "sniff",
    "webp_canvas",
]
