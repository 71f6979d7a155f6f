"""Still and animated images: from bytes to pixels.

`formats` tells what a file is, `reading` reads its pixels in bands, `channels` brings them to the channels and depth
that were asked for, `decoding` makes a tensor. Decoders and documents both stand on it.
"""

from __future__ import annotations

from .channels import ImageReadMode, Layout, Planes, check_mode, check_output_dtype, convert
from .decoding import MAX_FILE_BYTES, MAX_PIXELS, decode, read_bytes
from .formats import NUM_SNIFFED_BYTES, look_like, sniff
from .reading import Bands, open_image

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_PIXELS",
    "NUM_SNIFFED_BYTES",
    "Bands",
    "ImageReadMode",
    "Layout",
    "Planes",
    "check_mode",
    "check_output_dtype",
    "convert",
    "decode",
    "look_like",
    "open_image",
    "read_bytes",
    "sniff",
]
