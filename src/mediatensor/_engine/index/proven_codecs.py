"""Codecs whose packets are reliable enough to make an index. Streams of other codecs are decoded.

Three conditions must hold for a codec. Each packet gives one frame, unless a parser finds that it has none. Packets
that both the file and the decoder flag as key frames are key frames. The decoder does flag key frames. A codec is in
the table only with evidence::

    encoded    `tests/media/test_proven_codecs.py` encodes moving and still pictures, and decodes from each key frame
    sample     a file by another encoder, decoded in the same way

Codecs that fail one of these conditions, in FFmpeg 8.1::

    vmnc                              file and decoder flag changes of a part of the picture as key frames
    tscc, cinepak                     packets of a few bytes give no frame
    rv10, rv20                        the last of reordered frames does not come out
    roq                               key frames need the two frames before them
    cfhd, flashsv, flashsv2, msrle,
    msvideo1, qtrle, rpza, smc, tscc  the decoder flags no frame as a key frame
    webp                              an animation is one packet, which gives no frame
"""

from __future__ import annotations

import numpy as np

from ..containers.packet_table import Int64Array

# Codecs with a parser in this library. Evidence: encoded, in dozens of clips each.
_PARSED = frozenset(("av1", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"))

# Evidence: encoded, except for theora (libtheora), rv30 and vc1, which have samples.
_WITH_KEY_FRAMES = frozenset((
    "apng", "cinepak", "ffv1", "flv1", "gif", "h261", "h263", "msmpeg4v2", "msmpeg4v3", "png", "rv30", "snow", "svq1",
    "theora", "vc1", "wmv1", "wmv2", "zmbv",
))  # fmt: skip

# Evidence: encoded. Each packet is a key frame. Single-image formats are left out, because decoding one image is fast.
_INTRA = frozenset((
    "amv", "asv1", "asv2", "avrp", "cljr", "dnxhd", "dpx", "dvvideo", "dxv", "exr", "ffvhuff", "huffyuv", "jpeg2000",
    "jpegls", "magicyuv", "mjpeg", "prores", "sgi", "targa", "tiff", "utvideo", "zlib",
))  # fmt: skip
_UNCOMPRESSED = frozenset(("r10k", "r210", "rawvideo", "v210", "wrapped_avframe", "y41p", "yuv4"))

PROVEN_CODECS = _PARSED | _WITH_KEY_FRAMES | _INTRA | _UNCOMPRESSED

# A packet up to this size may mean an unchanged picture, for which some decoders give no frame: 2 bytes in tscc, up to
# 10 in cinepak. In the codecs above, repeated pictures of 176x144 take 9 bytes (zmbv) or at least 14 (wmv1, h261).
_SMALL_PACKET_BYTES = 10

# For codecs not in the table, this many key frames are decoded without earlier packets. Each opens the source once.
_NUM_PROBES = 16


def is_proven(codec: str | None) -> bool:
    """Return whether a codec, by FFmpeg's name, is in the table of proven codecs.

    >>> is_proven("h264"), is_proven("vmnc")
    (True, False)
    """
    return codec in PROVEN_CODECS


def has_packets_too_small(codec: str | None, size: Int64Array) -> bool:
    """Return whether a packet is so small that it may give no frame. Codecs with a parser need no such limit.

    >>> has_packets_too_small("cinepak", np.array([900, 8]))
    True
    """
    return codec not in _PARSED | _UNCOMPRESSED and bool((size <= _SMALL_PACKET_BYTES).any())


def probed_key_frames(key_frames: Int64Array) -> frozenset[int]:
    """Choose evenly spread key frame packets, except the first packet, to test decoding that starts at each."""
    others = key_frames[key_frames > 0]
    chosen = np.unique(np.linspace(0, len(others) - 1, min(_NUM_PROBES, len(others))).astype(np.int64))
    return frozenset(others[chosen].tolist()) if len(others) else frozenset()
