"""Parse the blocks of a GIF file, and compose its pictures as they are shown.

Pillow's composition of animations depends on process-wide settings, and Pillow accepts truncated files. Therefore
Pillow only decompresses the palette indices of one picture at a time; this module parses and composes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .channels import Layout
from .formats import DamagedImageError

_TRAILER, _EXTENSION, _PICTURE, _GRAPHIC_CONTROL = 0x3B, 0x21, 0x2C, 0xF9
_RESTORE_TO_BACKGROUND, _RESTORE_TO_PREVIOUS = 2, 3
_INTERLACED = 0x40
_NOTHING = (None, 0)


class GifFrame(NamedTuple):
    """One picture of a GIF file."""

    left: int  # position of its first pixel on the canvas
    top: int
    width: int
    height: int
    is_interlaced: bool  # whether the rows are stored in four passes
    palette: bytes  # three bytes for each colour
    transparent: int | None  # palette index that does not change the canvas
    disposal: int  # how to treat its region before drawing the next picture
    start: int  # byte range of its compressed data in the file
    stop: int


class GifFile(NamedTuple):
    """The parsed blocks of a GIF file."""

    width: int  # of the canvas, which the first picture extends if it is larger
    height: int
    background: tuple[int, ...]  # colour (R, G, B) of the canvas where no picture covers it
    frames: list[GifFrame]

    @property
    def layout(self) -> Layout:
        """RGB if pictures cover the canvas at all times, otherwise RGB and alpha."""
        for number, frame in enumerate(self.frames):
            covers = not (frame.left or frame.top) and frame.width >= self.width and frame.height >= self.height
            bares = frame.disposal == _RESTORE_TO_BACKGROUND and number < len(self.frames) - 1
            if (number == 0 and (not covers or frame.disposal == _RESTORE_TO_PREVIOUS)) or bares:
                return Layout.RGB_ALPHA
            if frame.transparent is not None:
                return Layout.RGB_ALPHA
        return Layout.RGB


def parse_gif(data: bytes) -> GifFile:
    """Parse the blocks of a file; raise `DamagedImageError` if it ends too early or has a block of an unknown kind."""
    frames: list[GifFrame] = []
    transparent: int | None
    transparent, disposal = _NOTHING
    try:
        width, height, flags, background = struct.unpack_from("<HHBB", data, 6)
        at = 13 + _palette_bytes(flags)
        colours = data[13:at]
        while data[at] != _TRAILER:
            kind, begin = data[at], at
            if kind == _EXTENSION:
                if data[at + 1] == _GRAPHIC_CONTROL:
                    disposal, transparent = data[at + 3] >> 2 & 7, data[at + 6] if data[at + 3] & 1 else None
                at += 2
            elif kind == _PICTURE:
                left, top, columns, rows, flags = struct.unpack_from("<HHHHB", data, at + 1)
                at += 11 + _palette_bytes(flags)
            else:
                raise DamagedImageError(f"byte {at} begins no block that GIF has ({kind:#04x})")
            start = at
            while data[at]:
                at += 1 + data[at]
            at += 1
            if kind == _PICTURE:
                palette = data[begin + 10 : start - 1] or colours
                is_interlaced = bool(flags & _INTERLACED)
                frames.append(
                    GifFrame(left, top, columns, rows, is_interlaced, palette, transparent, disposal, start - 1, at)
                )
                transparent, disposal = _NOTHING
    except (IndexError, struct.error):
        raise DamagedImageError(f"it ends before its trailer, after {len(data)} bytes") from None
    if not frames or not all(frame.width and frame.height for frame in frames):
        raise DamagedImageError("it has no picture, or one without pixels")
    width, height = max(width, frames[0].left + frames[0].width), max(height, frames[0].top + frames[0].height)
    bare = tuple(colours[3 * background : 3 * background + 3]) or (0, 0, 0)
    return GifFile(width, height, bare, frames)


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def single_gif(data: bytes, frame: GifFrame) -> bytes:
    """Return a GIF file with one picture and no palette, so that a decoder returns palette indices."""
    size = struct.pack("<HH", frame.width, frame.height)
    descriptor = b"\x2c" + bytes(4) + size + bytes([_INTERLACED * frame.is_interlaced])
    return b"".join([b"GIF89a", size, bytes(3), descriptor, data[frame.start : frame.stop], bytes([_TRAILER])])


def composed_gif(gif: GifFile, decode: Callable[[GifFrame], NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Yield the canvas (4, H, W) as RGB and alpha after each picture: always the same array, which changes.

    Where no picture covers the canvas, alpha is 0, and the colour is the background colour. ``decode`` returns the
    palette indices of one picture, (H, W).
    """
    bare = np.array([*gif.background, 0], np.uint8).reshape(4, 1, 1)
    canvas = np.empty((4, gif.height, gif.width), np.uint8)
    canvas[...] = bare
    for frame in gif.frames:
        region = canvas[:, frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
        before = region.copy() if frame.disposal == _RESTORE_TO_PREVIOUS else None
        indices = decode(frame)[: region.shape[1], : region.shape[2]]
        _draw(indices, frame, region)
        yield canvas
        if before is not None:
            region[...] = before
        elif frame.disposal == _RESTORE_TO_BACKGROUND:
            region[...] = bare


def _draw(indices: NDArray[np.uint8], frame: GifFrame, region: NDArray[np.uint8]) -> None:
    palette = np.zeros((256, 4), np.uint8)
    colours = np.frombuffer(frame.palette, np.uint8).reshape(-1, 3)
    palette[: len(colours), :3], palette[:, 3] = colours, 255
    drawn = None if frame.transparent is None else indices != frame.transparent
    for channel in range(4):
        plane = palette[:, channel][indices]
        np.copyto(region[channel], plane, where=True if drawn is None else drawn)
