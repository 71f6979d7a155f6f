"""Codecs whose packets show which frames there are, and where decoding can start. Others are decoded to prove it.

Three facts are needed: each packet gives one frame, unless a parser of ours finds that it has none; a packet that the
file and the decoder both call a key frame is one; and the decoder does call key frames so. They hold for a codec only
as far as there is evidence::

    encoded    `tests/test_proven_codecs.py` encodes moving and still pictures, and decodes from each packet alone
    sample     a file by another encoder, decoded in the same way

They are wrong in these, of FFmpeg 8.1::

    vmnc                              changes of a part of the picture are called key frames, by file and decoder
    tscc, cinepak                     packets of a few bytes give no frame
    rv10, rv20                        the last of reordered frames does not come out
    roq                               key frames need the two frames before them
    cfhd, flashsv, flashsv2, msrle,
    msvideo1, qtrle, rpza, smc, tscc  the decoder calls no frame a key frame
    webp                              an animation is one packet, of which no frame comes
"""

from __future__ import annotations

import numpy as np

from .._containers import Int64Array

__all__ = ["PROVEN_CODECS", "has_packets_too_small", "is_proven", "probed_key_frames"]

# Of these our parsers read what a packet holds. Encoded, in dozens of clips each.
_PARSED = frozenset(("av1", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"))

# Encoded. theora (libtheora), rv30 and vc1: samples.
_WITH_KEY_FRAMES = frozenset((
    "apng", "cinepak", "ffv1", "flv1", "gif", "h261", "h263", "msmpeg4v2", "msmpeg4v3", "png", "rv30", "snow", "svq1",
    "theora", "vc1", "wmv1", "wmv2", "zmbv",
))  # fmt: skip

# Encoded: each packet decodes alone to the same picture. Formats of single images are left out: one decodes at once.
_OF_KEY_FRAMES_ALONE = frozenset((
    "amv", "asv1", "asv2", "avrp", "cljr", "dnxhd", "dpx", "dvvideo", "dxv", "exr", "ffvhuff", "huffyuv", "jpeg2000",
    "jpegls", "magicyuv", "mjpeg", "prores", "sgi", "targa", "tiff", "utvideo", "zlib",
))  # fmt: skip
_UNCOMPRESSED = frozenset(("r10k", "r210", "rawvideo", "v210", "wrapped_avframe", "y41p", "yuv4"))

PROVEN_CODECS = _PARSED | _WITH_KEY_FRAMES | _OF_KEY_FRAMES_ALONE | _UNCOMPRESSED

# Packets up to this size may say that nothing changed, and then some decoders give no frame: 2 bytes of tscc, and up to
# 10 of cinepak. Pictures of 176x144 that stay the same take 9 bytes (zmbv) and 14 (wmv1) in the codecs above.
_SMALL_PACKET_BYTES = 10

# How many key frames of another codec are decoded alone. Each opens the source once.
_NUM_PROBES = 16


def is_proven(codec: str | None) -> bool:
    """Whether packets of a codec, by FFmpeg's name, show which frames there are and where decoding can start.

    >>> is_proven("h264"), is_proven("vmnc")
    (True, False)
    """
    return codec in PROVEN_CODECS


def has_packets_too_small(codec: str | None, size: Int64Array) -> bool:
    """Whether packets of these sizes may give no frame, as far as no parser reads them.

    >>> has_packets_too_small("cinepak", np.array([900, 8]))
    True
    """
    return codec not in _PARSED | _UNCOMPRESSED and bool((size <= _SMALL_PACKET_BYTES).any())


def probed_key_frames(key_frames: Int64Array) -> frozenset[int]:
    """The packets to decode alone, of those that are flagged as key frames: evenly spread, without the first."""
    others = key_frames[key_frames > 0]
    chosen = np.unique(np.linspace(0, len(others) - 1, min(_NUM_PROBES, len(others))).astype(np.int64))
    return frozenset(others[chosen].tolist()) if len(others) else frozenset()
