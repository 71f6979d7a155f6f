"""GIF files written without a library, and their displayed frames."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BITS", "GifPicture", "gif", "random_pictures", "shown"]

#: Bits of an index; there are sixteen colours.
BITS = 4


class GifPicture(NamedTuple):
    """One picture: indices (H, W), its place, the index that is transparent, and its disposal."""

    indices: NDArray[np.integer]
    left: int = 0
    top: int = 0
    transparent: int | None = None
    disposal: int = 0


def gif(
    size: tuple[int, int], pictures: Sequence[GifPicture], palette: NDArray[np.integer], background: int = 0
) -> bytes:
    """A GIF file of (height, width), with a palette of sixteen colours (16, 3)."""
    parts = [b"GIF89a", struct.pack("<HHBBB", size[1], size[0], 0x80 | (BITS - 1), background, 0)]
    parts.append(palette.astype(np.uint8).tobytes())
    for picture in pictures:
        flags = picture.disposal << 2 | (picture.transparent is not None)
        parts.append(b"\x21\xf9\x04" + struct.pack("<BHBB", flags, 5, picture.transparent or 0, 0))
        height, width = picture.indices.shape
        parts.append(b"\x2c" + struct.pack("<HHHHBB", picture.left, picture.top, width, height, 0, BITS))
        data = _packed(picture.indices.ravel().tolist())
        parts += [bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255)]
        parts.append(b"\0")
    return b"".join([*parts, b";"])


def _packed(indices: Sequence[int]) -> bytes:
    """LZW data with one code per index: cleared so often that codes never grow."""
    clear, bits = 1 << BITS, BITS + 1
    codes = []
    for number, index in enumerate(indices):
        codes += [clear, index] if number % (clear - 2) == 0 else [index]
    number = sum(code << bits * place for place, code in enumerate([*codes, clear + 1]))
    return number.to_bytes(((len(codes) + 1) * bits + 7) // 8, "little")


def random_pictures(seed: int, size: tuple[int, int]) -> list[GifPicture]:
    """One to four pictures anywhere on the canvas, with all kinds of transparency and disposal."""
    rng = np.random.default_rng(seed)
    pictures = []
    for number in range(rng.integers(1, 5)):
        is_whole = number == 0 and seed % 2
        height, width = size if is_whole else (rng.integers(1, size[0] + 1), rng.integers(1, size[1] + 1))
        left, top = rng.integers(0, size[1] - width + 1), rng.integers(0, size[0] - height + 1)
        transparent = None if rng.random() < 0.4 else int(rng.integers(0, 16))
        indices = rng.integers(0, 16, (height, width))
        pictures.append(GifPicture(indices, int(left), int(top), transparent, int(rng.integers(0, 4))))
    return pictures


def shown(
    size: tuple[int, int], pictures: Sequence[GifPicture], palette: NDArray[np.integer], background: int = 0
) -> NDArray[np.uint8]:
    """Compute the canvas after each image by the standard, pixel by pixel: (N, H, W, 4). The empty canvas has the
    background colour and no alpha."""
    bare = (*palette[background].tolist(), 0)
    canvas = [[bare] * size[1] for _ in range(size[0])]
    screens = []
    for picture in pictures:
        before = [list(row) for row in canvas]
        height, width = picture.indices.shape
        places = [(picture.top + y, picture.left + x) for y in range(height) for x in range(width)]
        for (y, x), index in zip(places, picture.indices.ravel().tolist(), strict=True):
            if index != picture.transparent:
                canvas[y][x] = (*palette[index].tolist(), 255)
        screens.append([list(row) for row in canvas])
        if picture.disposal == 2:
            for y, x in places:
                canvas[y][x] = bare
        elif picture.disposal == 3:
            canvas = before
    return np.array(screens, np.uint8)
