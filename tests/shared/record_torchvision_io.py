"""Write what `torchvision.io` gives, where torchvision 0.22 and PyAV are.

    python tests/shared/record_torchvision_io.py

It needs nothing of mediatensor. With the argument ``files``, it wrote the images that it reads; `record_decord.py`
wrote the videos.
"""

from __future__ import annotations

import sys

import numpy as np

from ocr_records import write_record
from torchvision_io_calls import CALLS, FOLDER, outcome


def main(what: str = "calls") -> None:
    if what == "files":
        write_images()
        return
    import torchvision

    lines = {name: outcome(torchvision.io, call) for name, call in CALLS.items()}
    lines["torchvision"] = torchvision.__version__.partition("+")[0]
    write_record("torchvision_io", dict(sorted(lines.items())), FOLDER)
    print(f"wrote {len(lines)} calls")


def write_images() -> None:
    from PIL import Image

    columns, rows = np.meshgrid(np.arange(32), np.arange(24))
    red, green, blue = columns * 8, rows * 10, (columns + rows) * 4
    colours = np.stack([red, green, blue], 2).astype(np.uint8)
    alpha = np.where(columns < 16, 255, 100).astype(np.uint8)[..., None]
    Image.fromarray(np.concatenate([colours, alpha], 2)).save(FOLDER / "rgba.png")
    Image.fromarray(colours[..., 0]).save(FOLDER / "gray.png")
    Image.fromarray((columns * 2000 + rows).astype(np.uint16)).save(FOLDER / "deep.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(colours).save(FOLDER / "turned.jpg", exif=exif, quality=95)
    Image.fromarray(np.concatenate([colours, alpha], 2)).save(FOLDER / "lossless.webp", lossless=True)
    frames = [Image.fromarray(np.roll(colours, shift, 1)).quantize(16) for shift in (0, 8, 16)]
    frames[0].save(FOLDER / "moving.gif", save_all=True, append_images=frames[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
