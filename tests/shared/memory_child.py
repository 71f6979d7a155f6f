"""Opens media files one after the other, and collects garbage after each step; run by `test_memory`.

Usage: ``memory_child.py FOLDER PART FILE ...``: writes an eighth of all generated clips and images into the folder,
from number ``PART`` on, and opens them and an eighth of the files. Prints the name of each file before it is opened,
and ``done`` at the end.
"""

from __future__ import annotations

import faulthandler
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageCms, features

import images
import media
from mediatensor.decoders import AudioDecoder, VideoDecoder, decode_image
from mediatensor.errors import MediaTensorError


def image_files() -> Iterator[tuple[str, bytes]]:
    """(name, content) of images: each kind of PNG and each orientation, with and without a colour profile."""
    pixels = images.picture()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for color_type, depth in images.PNG_KINDS:
        channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type]
        yield f"{color_type}_{depth}.png", images.png(images.samples(channels, depth), color_type, depth)
    kinds = ["png", "jpeg", "webp", "tiff", "gif", "bmp"] + ["avif"] * ("avif" in features.modules)
    for kind in kinds:
        yield f"plain.{kind}", images.encoded(pixels, kind)
        yield f"profile.{kind}", images.encoded(pixels, kind, icc_profile=profile)
        for orientation in images.ORIENTATIONS:
            exif = Image.Exif()
            exif[0x112] = orientation
            yield f"{orientation}.{kind}", images.encoded(pixels, kind, exif=exif, icc_profile=profile)


def calls_on(path: Path) -> Iterator[Callable[[], Any]]:
    """Calls that users make on a file, in order. Each may raise an error of the library."""
    opened: list[VideoDecoder] = []
    yield lambda: opened.append(VideoDecoder(path, on_error="nearest", on_size_change="scale"))
    if opened:
        decoder = opened.pop()
        yield lambda: decoder.metadata
        yield lambda: decoder[0]
        yield lambda: decoder.get_frames_in_range(0, min(3, len(decoder)))
        yield lambda: decoder[-1]
        yield lambda: decoder.get_frames_at([len(decoder) // 2, 0])
        yield decoder.close
        del decoder
        yield gc.collect
    yield lambda: VideoDecoder(path, seek_mode="approximate", device="cpu", output_dtype=torch.float32)[0]
    yield lambda: AudioDecoder(path).get_samples_played_in_range(0, 0.2)
    yield lambda: decode_image(path)


def main(folder: Path, part: int, others: list[Path]) -> None:
    faulthandler.enable()
    for name, content in list(image_files())[part::8]:
        (folder / name).write_bytes(content)
    for name in list(media.CLIPS)[part::8]:
        media.make(name, folder)
    gc.collect()
    gc.freeze()  # collecting then looks at new objects only
    for path in [*sorted(folder.iterdir()), *others[part::8]]:
        print(path.name, flush=True)
        for call in calls_on(path):
            with suppress(MediaTensorError):
                call()
            gc.collect()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
