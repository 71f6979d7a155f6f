"""Draw ``docs/tone-mapping.png``: a frame of HDR video as it is stored, and with each curve of ``tone_mapping``.

    python docs/_tone_mapping_picture.py

The frame is a sunset over the sea with coloured balls, computed as light, encoded as PQ, and read by the library.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder

PICTURE = Path(__file__).parent / "tone-mapping.png"
HEIGHT, WIDTH = 216, 384
TITLE_HEIGHT, GAP = 22, 6
TAGS = {"color_primaries": "bt2020", "color_trc": "smpte2084", "colorspace": "bt2020nc"}
BALLS = ((200, 30, 30), (200, 110, 20), (180, 180, 30), (40, 150, 50), (40, 90, 200), (130, 50, 170))  # cd/m²


def scene() -> NDArray[np.float64]:
    """Return the light (H, W, 3) of the scene in cd/m²."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    horizon, sun = HEIGHT * 0.55, (HEIGHT * 0.38, WIDTH * 0.7)
    distance = np.hypot(rows - sun[0], columns - sun[1])
    height = np.clip(1 - rows / horizon, 0, 1)[..., None]
    light = height * (15, 35, 90) + (1 - height) * (180, 90, 40)
    light = light + np.exp(-distance / 40)[..., None] * (500, 260, 90)
    light = np.where(distance[..., None] < 16, (1000, 850, 600), light)
    waves = 0.5 + 0.5 * np.sin(rows**2 / 90 + 3 * np.sin(columns / 17 + rows / 5))
    glitter = np.exp(-(((columns - sun[1]) / 40) ** 2)) * waves**6
    sea = (6, 16, 32) + waves[..., None] * (14, 16, 20) + glitter[..., None] * (900, 560, 260)
    light = np.where(rows[..., None] > horizon, sea, light)
    for number, colour in enumerate(BALLS):
        x, y = (columns - 40 - number * 60) / 24, (rows - HEIGHT + 34) / 24
        z = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
        shade = np.clip(0.5 * x - 0.6 * y + 0.62 * z, 0.02, 1)[..., None]
        ball = shade * np.array(colour) + np.clip(shade, 0, 1) ** 60 * 700
        light = np.where((x**2 + y**2 < 1)[..., None], ball, light)
    return light


def pq_levels(light: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Convert cd/m² to levels of PQ (ITU-R BT.2100, table 4)."""
    power = (light / 10000) ** (2610 / 16384)
    signal = ((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)
    return (signal * 255).round().astype(np.uint8)


def draw() -> Image.Image:
    frames = torch.from_numpy(pq_levels(scene())).permute(2, 0, 1)[None]
    video = VideoEncoder(frames, frame_rate=25).to_tensor("mp4", crf=1, extra_options=TAGS)
    curves: tuple[Literal["bt2390", "hable"] | None, ...] = (None, "bt2390", "hable")
    canvas = Image.new("RGB", (len(curves) * (WIDTH + GAP) - GAP, HEIGHT + TITLE_HEIGHT), "white")
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(14)
    for number, curve in enumerate(curves):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the first frame is not tone-mapped
            frame = VideoDecoder(video, dimension_order="NHWC", tone_mapping=curve)[0]
        left = number * (WIDTH + GAP)
        pen.text((left, 2), f"tone_mapping={curve!r}", fill="black", font=font)
        canvas.paste(Image.fromarray(frame.numpy()), (left, TITLE_HEIGHT))
    return canvas


if __name__ == "__main__":
    draw().save(PICTURE, optimize=True)
