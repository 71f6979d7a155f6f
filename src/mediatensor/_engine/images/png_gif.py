"""Parse and check PNG and GIF files, and compose the frames of their animations.

This module does these steps itself because Pillow does not verify the checksums of a PNG's pixels, and composes
translucent frames only approximately. In addition, Pillow's result for GIF animations depends on process-wide settings,
and Pillow accepts truncated GIF files. Therefore each frame is copied to a new file without text, profiles and other
chunks, and Pillow only decodes this file. For GIF, Pillow only decompresses palette indices.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .channels import Layout, Planes, convert
from .formats import DamagedImageError

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_LAYOUTS = {0: Layout.GRAY, 2: Layout.RGB, 3: Layout.RGB, 4: Layout.GRAY_ALPHA, 6: Layout.RGB_ALPHA}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PALETTE = 3

# (first column, first row, column step, row step) of the passes of an interlaced picture.
_PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
_PIECE_BYTES = 1 << 20

# Values of ``disposal``: clear the frame's region, or restore its earlier content.
_PNG_CLEAR, _PNG_RESTORE, _GIF_CLEAR, _GIF_RESTORE = 1, 2, 2, 3
_BLEND_OVER = 1


class PngFrame(NamedTuple):
    """One picture of a PNG file: its place on the canvas, and its data in the file."""

    width: int
    height: int
    left: int  # position of its first pixel on the canvas
    top: int
    disposal: int  # how to treat its region before drawing the next frame
    blend: int  # whether it replaces its region or is composed over it
    parts: list[tuple[int, int]]  # byte ranges (start, stop) of its compressed data in the file


class PngFile(NamedTuple):
    width: int  # of the canvas
    height: int
    bit_depth: int  # bits per sample, 1 to 16
    color_type: int  # 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGB and alpha
    is_interlaced: bool  # whether the pixels are stored in seven passes
    palette: bytes  # three bytes for each colour
    transparency: bytes | None  # the chunk with the palette's alpha or one transparent colour
    exif: bytes | None
    frames: list[PngFrame]  # one frame, or the frames of the animation

    @property
    def layout(self) -> Layout:
        """The channels of decoded pixels: palette indices become colours, and a transparent colour gives alpha."""
        stored = _LAYOUTS[self.color_type]
        return stored if self.transparency is None else stored.with_alpha()

    def transparent_colour(self) -> tuple[int, ...] | None:
        """Return the colour that the file declares transparent, one sample per channel, or ``None`` if there is none.

        The samples have the depth of decoded pixels: 16 bits, or 8 bits for all smaller depths.
        """
        if self.transparency is None or self.color_type == _PALETTE:
            return None
        samples = struct.unpack(f">{_LAYOUTS[self.color_type].num_channels}H", self.transparency)
        largest = (1 << self.bit_depth) - 1
        return samples if self.bit_depth >= 8 else tuple(255 // largest * (sample & largest) for sample in samples)


def parse_png(data: bytes) -> PngFile:
    """Parse the chunks of a PNG file. Raise `DamagedImageError` if one is missing, truncated, damaged or misplaced."""
    chunks = _chunks(data)
    kind, start, stop = next(chunks)
    if kind != b"IHDR" or stop - start != 13:
        raise DamagedImageError("it does not begin with a header chunk")
    width, height, depth, color_type, compression, filtering, interlacing = struct.unpack_from(">IIBBBBB", data, start)
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31) or depth not in _DEPTHS.get(color_type, ()):
        raise DamagedImageError(f"its header says {width}x{height}, {depth} bits, colour type {color_type}")
    if compression or filtering or interlacing > 1:
        raise DamagedImageError("its header names a compression, filter or interlacing that PNG does not have")
    found: dict[bytes, bytes] = {}
    still = PngFrame(width, height, 0, 0, 0, 0, [])
    animation: list[PngFrame] = []
    num_announced = sequence = 0
    for kind, start, stop in chunks:
        if kind in (b"PLTE", b"tRNS", b"eXIf"):
            found.setdefault(kind, data[start:stop])
        elif kind == b"acTL" and not still.parts and stop - start == 8:
            num_announced = int.from_bytes(data[start : start + 4], "big")
        elif kind == b"IDAT":
            still.parts.append((start, stop))
            if len(animation) == 1:
                animation[0].parts.append((start, stop))
        elif kind in (b"fcTL", b"fdAT") and num_announced:
            if int.from_bytes(data[start : start + 4], "big") != sequence:
                raise DamagedImageError(f"chunk {sequence} of its animation is missing")
            sequence += 1
            if kind == b"fcTL":
                animation.append(_frame_of(data[start:stop], width, height))
            elif animation:
                animation[-1].parts.append((start + 4, stop))
    frames = animation if num_announced and animation else [still]
    if not all(frame.parts for frame in frames) or (animation and len(animation) != num_announced):
        raise DamagedImageError("it has no pixels for a frame that it announces")
    palette, transparency = found.get(b"PLTE", b""), found.get(b"tRNS")
    _check_colours(color_type, palette, transparency)
    if color_type in (4, 6):
        transparency = None
    exif = found.get(b"eXIf")
    return PngFile(width, height, depth, color_type, bool(interlacing), palette, transparency, exif, frames)


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield (kind, start, stop) of the content of each chunk, after checking that it is whole and intact."""
    view, at, kind = memoryview(data), len(SIGNATURE), b""
    while kind != b"IEND":
        if at + 12 > len(data):
            raise DamagedImageError(f"it ends after {len(data)} bytes, before its last chunk")
        length = int.from_bytes(data[at : at + 4], "big")
        kind, start, stop = data[at + 4 : at + 8], at + 8, at + 8 + length
        if stop + 4 > len(data):
            raise DamagedImageError(f"it ends after {len(data)} bytes, within a chunk {kind!r} of {length}")
        if zlib.crc32(view[at + 4 : stop]) != int.from_bytes(data[stop : stop + 4], "big"):
            raise DamagedImageError(f"the checksum of the chunk {kind!r} at byte {at} is wrong")
        yield kind, start, stop
        at = stop + 4


def _frame_of(control: bytes, width: int, height: int) -> PngFrame:
    if len(control) != 26:
        raise DamagedImageError(f"a frame of its animation has a description of {len(control)} bytes, not 26")
    _, columns, rows, left, top, _, _, dispose, blend = struct.unpack(">IIIIIHHBB", control)
    if not columns or not rows or left + columns > width or top + rows > height or dispose > 2 or blend > 1:
        raise DamagedImageError(f"a frame of its animation does not lie on the canvas of {width}x{height}")
    return PngFrame(columns, rows, left, top, dispose, blend, [])


def _check_colours(color_type: int, palette: bytes, transparency: bytes | None) -> None:
    if color_type == _PALETTE and (not palette or len(palette) % 3 or len(palette) > 768):
        raise DamagedImageError(f"its palette has {len(palette)} bytes")
    if transparency is not None and color_type in (0, 2) and len(transparency) != 2 * _LAYOUTS[color_type].num_channels:
        raise DamagedImageError(f"its transparent colour has {len(transparency)} bytes")


def single_png(data: bytes, png: PngFile, frame: PngFrame) -> bytes:
    """Copy one frame of a PNG file to a new PNG file, which has only the chunks that its pixels need."""
    header = struct.pack(
        ">IIBBBBB", frame.width, frame.height, png.bit_depth, png.color_type, 0, 0, int(png.is_interlaced)
    )
    parts = [SIGNATURE, *png_chunk(b"IHDR", header)]
    if png.color_type == _PALETTE:
        parts += png_chunk(b"PLTE", png.palette)
        if png.transparency is not None:
            parts += png_chunk(b"tRNS", png.transparency)
    view = memoryview(data)
    for start, stop in frame.parts:
        if data[start - 4 : start] == b"IDAT":
            parts.append(view[start - 8 : stop + 4])  # copy the chunk unchanged, with its checksum
        else:
            parts += png_chunk(b"IDAT", view[start:stop])
    return b"".join([*parts, *png_chunk(b"IEND", b"")])


def check_num_bytes(data: bytes, png: PngFile, frame: PngFrame) -> None:
    """Raise `DamagedImageError` if a frame lacks rows. FFmpeg would leave them uninitialised without an error."""
    row_bits = png.bit_depth * _LAYOUTS[png.color_type].num_channels
    passes = _PASSES if png.is_interlaced else [(0, 0, 1, 1)]
    expected = 0
    for left, top, columns_apart, rows_apart in passes:
        columns, rows = -(-(frame.width - left) // columns_apart), -(-(frame.height - top) // rows_apart)
        expected += rows * (1 + (columns * row_bits + 7) // 8) if columns > 0 and rows > 0 else 0
    decompressor, found = zlib.decompressobj(), 0
    for start, stop in frame.parts:
        rest: bytes | memoryview = memoryview(data)[start:stop]
        while rest and found < expected:
            found += len(decompressor.decompress(rest, _PIECE_BYTES))
            rest = decompressor.unconsumed_tail
    if found < expected:
        raise DamagedImageError(f"its pixels decompress to {found} bytes, not {expected}")


def png_chunk(kind: bytes, content: bytes | memoryview) -> list[bytes | memoryview]:
    """Return a chunk of a PNG file, with its length and checksum, as parts to join."""
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return [struct.pack(">I", len(content)) + kind, content, struct.pack(">I", checksum)]


def animation_layout(png: PngFile) -> Layout:
    """Return the channels of an animation: RGB if all shown pixels are certainly opaque, otherwise RGB and alpha."""
    first = png.frames[0]
    shows_through = (first.width, first.height) != (png.width, png.height) or any(
        frame.disposal == _PNG_CLEAR or (frame is first and frame.disposal == _PNG_RESTORE) for frame in png.frames
    )
    return Layout.RGB_ALPHA if png.layout.has_alpha or shows_through else Layout.RGB


def composed_frames(png: PngFile, dtype: DTypeLike, decode: Callable[[PngFrame], Planes]) -> Iterator[NDArray[Any]]:
    """Draw the frames of an animation one after another. Yield the canvas (4, H, W) after each frame.

    The same array is yielded each time, with new content. ``dtype`` is uint8 or uint16. ``decode`` returns the planes
    of one frame, in the layout of the file.
    """
    kind: Any = np.dtype(dtype).type

    def draw(frame: PngFrame, region: NDArray[Any]) -> None:
        drawn = convert(decode(frame), png.layout, Layout.RGB_ALPHA, kind)
        if frame.blend == _BLEND_OVER and png.layout.has_alpha:
            compose_over(drawn, region)
        else:
            region[...] = drawn

    return _composed(png, np.zeros((4, 1, 1), dtype), _PNG_CLEAR, _PNG_RESTORE, draw)


def _composed(
    file: PngFile | GifFile, bare: NDArray[Any], clear: int, restore: int, draw: Callable[[Any, NDArray[Any]], None]
) -> Iterator[NDArray[Any]]:
    """Draw the frames of an animation with ``draw``. Yield the canvas (4, H, W) after each, always in the same array.

    ``bare`` has the values of the canvas before the first frame. ``clear`` and ``restore`` are the values of a frame's
    ``disposal`` that clear its region, or restore the region's earlier content.
    """
    canvas = np.empty((4, file.height, file.width), bare.dtype)
    canvas[...] = bare
    for frame in file.frames:
        region = canvas[:, frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
        before = region.copy() if frame.disposal == restore else None
        draw(frame, region)
        yield canvas
        if before is not None:
            region[...] = before
        elif frame.disposal == clear:
            region[...] = bare


def compose_over(drawn: Planes, region: NDArray[Any]) -> None:
    """Compose RGBA planes over an RGBA region in place. Alpha is not premultiplied, and every result is rounded once.

    >>> import numpy as np
    >>> region = np.array([200, 0, 0, 255], np.uint8).reshape(4, 1, 1)
    >>> compose_over([np.full((1, 1), value, np.uint8) for value in (0, 100, 0, 51)], region)
    >>> region.ravel().tolist()
    [160, 20, 0, 255]
    """
    whole = np.iinfo(region.dtype).max
    above = drawn[3].astype(np.int64)
    weight_above, weight_below = above * whole, region[3] * (whole - above)
    total = weight_above + weight_below
    divisor = np.maximum(total, 1)
    for channel in range(3):
        mixed = drawn[channel] * weight_above + region[channel] * weight_below
        region[channel] = (mixed + divisor // 2) // divisor
    region[3] = (total + whole // 2) // whole


# GIF


_TRAILER, _EXTENSION, _PICTURE, _GRAPHIC_CONTROL = 0x3B, 0x21, 0x2C, 0xF9
_INTERLACED = 0x40
_NOTHING = (None, 0)


class GifFrame(NamedTuple):
    """One picture of a GIF file: its place on the canvas, and its data in the file."""

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
    width: int  # of the canvas, which the first picture extends if it is larger
    height: int
    background: tuple[int, ...]  # colour (R, G, B) of the canvas where no picture covers it
    frames: list[GifFrame]

    @property
    def layout(self) -> Layout:
        """RGB if all pixels of the canvas are always opaque, otherwise RGB and alpha."""
        for number, frame in enumerate(self.frames):
            covers = not (frame.left or frame.top) and frame.width >= self.width and frame.height >= self.height
            bares = frame.disposal == _GIF_CLEAR and number < len(self.frames) - 1
            if (number == 0 and (not covers or frame.disposal == _GIF_RESTORE)) or bares:
                return Layout.RGB_ALPHA
            if frame.transparent is not None:
                return Layout.RGB_ALPHA
        return Layout.RGB


def parse_gif(data: bytes) -> GifFile:
    """Parse the blocks of a GIF file. Raise `DamagedImageError` if one is truncated, or of an unknown kind."""
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
    """Copy one picture of a GIF file to a new GIF file without a palette, so that decoders return palette indices."""
    size = struct.pack("<HH", frame.width, frame.height)
    descriptor = b"\x2c" + bytes(4) + size + bytes([_INTERLACED * frame.is_interlaced])
    return b"".join([b"GIF89a", size, bytes(3), descriptor, data[frame.start : frame.stop], bytes([_TRAILER])])


def composed_gif(gif: GifFile, decode: Callable[[GifFrame], NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Draw the pictures of an animation one after another. Yield the canvas (4, H, W) after each picture.

    The same array is yielded each time, with new content. Pixels that no picture has drawn have the background colour
    and an alpha of 0. ``decode`` returns the palette indices of one picture, (H, W).
    """
    bare = np.array([*gif.background, 0], np.uint8).reshape(4, 1, 1)

    def draw(frame: GifFrame, region: NDArray[Any]) -> None:
        indices = decode(frame)[: region.shape[1], : region.shape[2]]
        palette = np.zeros((256, 4), np.uint8)
        colours = np.frombuffer(frame.palette, np.uint8).reshape(-1, 3)
        palette[: len(colours), :3], palette[:, 3] = colours, 255
        drawn = None if frame.transparent is None else indices != frame.transparent
        for channel in range(4):
            plane = palette[:, channel][indices]
            np.copyto(region[channel], plane, where=True if drawn is None else drawn)

    return _composed(gif, bare, _GIF_CLEAR, _GIF_RESTORE, draw)
