"""Clips of old codecs with misleading packets: false key frames, and packets without a frame.

No encoder at hand writes VMware's and TechSmith's codecs, so their packets are put together here. They replace the
packets of another codec in AVI, and the names in the headers are changed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from media_surgery import with_data
from media_writing import ClipSpec, Packets, paint_picture

__all__ = ["SCREEN_CLIPS"]

_WIDTH, _HEIGHT = 96, 64
_GOP, _BLOCK = 12, 16


def _pixels(number: int) -> NDArray[np.uint8]:
    """Picture ``number`` in blocks of one colour, as blue, green, red and nothing, (H, W, 4)."""
    rgb = paint_picture(number, _WIDTH, _HEIGHT)[:, ::_BLOCK].repeat(_BLOCK, 1)
    return np.concatenate([rgb[..., ::-1], np.zeros_like(rgb[..., :1])], -1)


def _changed_rows(number: int) -> slice:
    first = number * 8 % _HEIGHT
    return slice(first, first + 8)


def _as_vmware(packets: Packets) -> Packets:
    """VMware's screen codec. Every fourth packet says that it is a key frame, and changes a few rows only.

    A packet has chunks of (left, top, width, height, kind): kind 0 are pixels, WMVi describes the format of pixels, and
    makes the decoder call the frame a key frame.
    """

    def chunk(rows: slice, kind: bytes, content: bytes) -> bytes:
        return struct.pack(">4H4s", 0, rows.start, _WIDTH, rows.stop - rows.start, kind) + content

    out: Packets = []
    for number, packet in enumerate(packets):
        is_whole, says_key = number % _GOP == 0, number % 4 == 0
        rows = slice(0, _HEIGHT) if is_whole else _changed_rows(number)
        chunks = [chunk(rows, b"WMVi", bytes([32, 24]) + bytes(14))] * says_key
        chunks.append(chunk(rows, bytes(4), _pixels(number)[rows].tobytes()))
        made = with_data(packet, bytes(2) + struct.pack(">H", len(chunks)) + b"".join(chunks))
        made.is_keyframe = says_key
        out.append(made)
    return out


def _as_techsmith(packets: Packets) -> Packets:
    """TechSmith's screen codec: runs of one colour. Every third packet has two bytes: nothing changes."""
    out: Packets = []
    for number, packet in enumerate(packets):
        is_whole = number % _GOP == 0
        data = b"\0\1"
        if is_whole or number % 3:
            rows = slice(0, _HEIGHT) if is_whole else _changed_rows(number)
            data = zlib.compress(b"".join(_runs(number, rows)))
        made = with_data(packet, data)
        made.is_keyframe = is_whole
        out.append(made)
    return out


def _runs(number: int, rows: slice) -> Iterator[bytes]:
    """The rows from the lowest of the picture up, as run lengths; rows below them are skipped."""
    below = _HEIGHT - rows.stop
    if below:
        yield bytes([0, 2, 0, below])
    for row in _pixels(number)[rows][::-1]:
        yield from (bytes([_BLOCK]) + colour.tobytes() for colour in row[::_BLOCK, :3])
        yield b"\0\0"
    yield b"\0\1"


def _without_change(packets: Packets) -> Packets:
    """Cinepak with three packets that contain only a header, without strips."""
    header = bytes([0, 0, 0, 10, 0, _WIDTH, 0, _HEIGHT, 0, 0])
    return [with_data(packet, header) if number in (5, 6, 20) else packet for number, packet in enumerate(packets)]


def _zmbv(special: str, fourcc: bytes, rewrite: Callable[[Packets], Packets]) -> ClipSpec:
    return ClipSpec(
        special, "zmbv", "avi", "avi", size=(_WIDTH, _HEIGHT), options={"g": "12"}, pix_fmt="bgr0", rewrite=rewrite,
        patch=lambda data: data.replace(b"ZMBV", fourcc),
    )  # fmt: skip


SCREEN_CLIPS = {
    "vmnc": _zmbv("frames that are called key frames change a few rows only", b"VMnc", _as_vmware),
    "tscc": _zmbv("packets that say that nothing changes", b"tscc", _as_techsmith),
    "cinepak_unchanged": ClipSpec(
        "packets that say that nothing changes", "cinepak", "avi", "avi", options={"g": "12"}, pix_fmt="rgb24",
        rewrite=_without_change,
    ),
    "roq": ClipSpec("key frames that need the frames before them", "roqvideo", "roq", "roq", options={"g": "12"},
        pix_fmt="yuvj444p", size=(96, 64), rate=30),
    "msvideo1": ClipSpec("changed blocks only", "msvideo1", "avi", "avi", options={"g": "12"}, pix_fmt="rgb555le"),
    "rpza": ClipSpec("changed blocks only", "rpza", "mov", "mov", options={"g": "12"}, pix_fmt="rgb555le"),
}  # fmt: skip
