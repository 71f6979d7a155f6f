"""Sound HEIC and AVIF files: stills in the boxes of mp4."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, features

import images

from .arguments import fixed

__all__ = ["still_seeds"]

Make = Callable[[Path], bytes]


def still_seeds() -> dict[str, Make]:
    """Files by name, of as many formats as can be written here."""
    made: dict[str, bytes] = {}
    if features.check("avif"):
        made |= _avif()
    if find_spec("pillow_heif"):
        made |= _heic()
    # Where nothing writes such files, whatever calls itself one.
    made = made or {"bare_heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0\0\0\x0cmeta\0\0\0\0"}
    return {name: fixed(data) for name, data in made.items()}


def _avif() -> dict[str, bytes]:
    frames = [Image.fromarray(np.roll(images.picture(16, 24), number, axis=0)) for number in range(3)]
    return {
        "plain_avif": images.encoded(images.picture(64, 96), "AVIF"),
        "alpha_avif": images.encoded(images.picture(64, 96, 4), "AVIF", quality=60),
        "exact_avif": images.encoded(images.picture(), "AVIF", quality=100, subsampling="4:4:4"),
        "turned_avif": images.encoded(images.picture(), "AVIF", exif=images.exif(6)),
        "gray_avif": images.encoded(images.picture(channels=1), "AVIF", subsampling="4:0:0"),
        "deep_avif": images.avif_of_10_bits(),
        "deep_bt2020_avif": images.avif_of_10_bits(colorspace=9, color_range=2),
        "moving_avif": images.encoded(frames[0], "AVIF", save_all=True, append_images=frames[1:]),
        "tiles_avif": images.encoded(images.picture(128, 192), "AVIF", tile_rows=1, tile_cols=1),
    }


def _heic() -> dict[str, bytes]:
    import pillow_heif

    def encoded(*pictures: Image.Image, **options: object) -> bytes:
        first, *others = pictures
        file = io.BytesIO()
        heif = pillow_heif.from_pillow(first)
        for other in others:
            heif.add_from_pillow(other)
        heif.save(file, **options)
        return file.getvalue()

    whole = Image.fromarray(images.picture(64, 96))
    deep = pillow_heif.from_bytes("RGB;16", (96, 64), np.repeat(images.picture(64, 96), 2, axis=2).tobytes())
    file = io.BytesIO()
    deep.save(file)
    return {
        "plain_heic": encoded(whole),
        "alpha_heic": encoded(Image.fromarray(images.picture(64, 96, 4))),
        "turned_heic": encoded(whole, exif=images.exif(8)),
        "several_heic": encoded(whole, whole.rotate(90, expand=True)),
        "deep_heic": file.getvalue(),
    }
