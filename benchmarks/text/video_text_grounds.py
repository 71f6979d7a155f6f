"""Backgrounds of the clips of `video_text_clips`: generated, or taken from videos."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Picture = NDArray[np.uint8]


def make_ground(
    kind: str, size: tuple[int, int], seed: int, fps: float, footage: Sequence[Path]
) -> Iterator[tuple[Picture, float]]:
    """Yield endless frames, each with the shift of its content to the right, in pixels.

    Args:
        kind: A ground of `video_text_clips.ClipPlan`.
        size: Width and height in pixels.
        seed: Seed of everything random.
        fps: Frames a second, for scenes.
        footage: Videos for the ground of that name.
    """
    rng = np.random.default_rng(seed)
    if kind == "footage":
        first = seed % len(footage)
        return _footage([*footage[first:], *footage[:first]], size)
    if kind == "cuts":
        return _cuts(size, seed, fps, rng)
    return (_GROUNDS | {"plain": _plain})[kind](size, rng)


def _texture(width: int, height: int, rng: np.random.Generator) -> Picture:
    """Generate coloured clouds of several sizes, with a few edges."""
    total = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((4, 110), (12, 60), (40, 35), (160, 20)):
        small = rng.uniform(-1, 1, (max(2, cells * height // width), cells, 3)).astype(np.float32)
        for channel in range(3):
            cloud = Image.fromarray(small[:, :, channel], "F").resize((width, height), Image.Resampling.BICUBIC)
            total[:, :, channel] += weight * np.asarray(cloud)
    picture = Image.fromarray(np.clip(total + 128, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(30):
        x, y, reach = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.02, 0.15) * height
        colour = tuple(int(level) for level in rng.integers(0, 256, 3))
        box = (x, y, x + reach * rng.uniform(0.4, 3), y + reach)
        (draw.rectangle if rng.random() < 0.5 else draw.ellipse)(box, fill=colour)
    return np.asarray(picture)


def _pan(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Move a camera over a large picture and back."""
    width, height = size
    whole = _texture(2 * width, height * 3 // 2, rng)
    phase, number = float(rng.uniform(0, 1)), 0
    while True:
        x = round((width - 1) * (0.5 + 0.5 * math.sin(0.012 * number + phase)))
        y = round((height // 2 - 1) * (0.5 + 0.5 * math.sin(0.007 * number)))
        yield whole[y : y + height, x : x + width], -float(x)
        number += 1


def _shapes(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Move discs and bars across a gradient."""
    width, height = size
    places, speeds = rng.uniform(0, 1, (14, 2)), rng.uniform(-0.012, 0.012, (14, 2))
    reaches, colours = rng.uniform(0.03, 0.2, 14), rng.integers(0, 256, (14, 3))
    ground, number = Image.fromarray(next(_gradient(size, rng))[0]), 0
    while True:
        picture = ground.copy()
        draw = ImageDraw.Draw(picture)
        for index, (place, speed) in enumerate(zip(places, speeds, strict=True)):
            x, y = ((place + speed * number) % 1.2 - 0.1) * size
            reach = reaches[index] * height
            form = draw.ellipse if index % 2 else draw.rectangle
            form((x - reach, y - reach, x + reach, y + reach), fill=tuple(colours[index].tolist()))
        yield np.asarray(picture), 0.1 * width * math.sin(0.03 * number)
        number += 1


def _gradient(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Colours that flow."""
    width, height = size
    across = np.linspace(0, 1, width, dtype=np.float32)[None, :, None]
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    slopes, offsets = rng.uniform(1, 5, (2, 3)).astype(np.float32), rng.uniform(0, 6, 3).astype(np.float32)
    number = 0
    while True:
        waves = np.sin(across * slopes[0] + down * slopes[1] + offsets + np.float32(0.03 * number))
        yield (127 + 110 * waves).astype(np.uint8), 0.1 * width * math.sin(0.03 * number)
        number += 1


def _grain(size: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Zoom slowly into a picture, with sensor noise."""
    width, height = size
    whole = Image.fromarray(_texture(width, height, rng))
    noise, number = rng.normal(0, 10, (height + 64, width + 64, 1)).astype(np.int16), 0
    while True:
        margin = 0.15 * (1 + math.sin(0.01 * number)) / 2
        box = (margin * width, margin * height, (1 - margin) * width, (1 - margin) * height)
        picture = np.asarray(whole.resize(size, Image.Resampling.BILINEAR, box)).astype(np.int16)
        y, x = rng.integers(0, 64, 2)
        yield np.clip(picture + noise[y : y + height, x : x + width], 0, 255).astype(np.uint8), -float(2 * number)
        number += 1


def _plain(size: tuple[int, int], _: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    width, height = size
    while True:
        yield np.full((height, width, 3), 20, np.uint8), 0.0


_GROUNDS = {"pan": _pan, "shapes": _shapes, "gradient": _gradient, "grain": _grain}


def _cuts(size: tuple[int, int], seed: int, fps: float, rng: np.random.Generator) -> Iterator[tuple[Picture, float]]:
    """Show scenes of 1.5 to 3 s. Every second scene has a sign, which ends with the scene."""
    kinds = list(_GROUNDS)
    number = 0
    while True:
        scene = _GROUNDS[kinds[(number + seed) % len(kinds)]](size, rng)
        for _ in range(round(fps * rng.uniform(1.5, 3))):
            picture, shift = next(scene)
            # Outside of the frame in scenes without it.
            yield picture, shift if number % 2 == 0 else -4.0 * size[0]
        number += 1


def _footage(paths: Sequence[Path], size: tuple[int, int]) -> Iterator[tuple[Picture, float]]:
    """Play videos forwards and backwards, so that the only cuts are between videos."""
    pictures = list[Picture]()
    for path in paths[:2]:
        with av.open(str(path), metadata_errors="ignore") as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number == 200:
                    break
                image = frame.to_image().resize(size, Image.Resampling.BICUBIC)
                pictures.append(np.asarray(image))
    if not pictures:
        raise ValueError(f"no video frame could be decoded from {', '.join(map(str, paths[:2]))}")
    order = [*range(len(pictures)), *range(len(pictures) - 2, 0, -1)]
    number = 0
    while True:
        yield pictures[order[number % len(order)]], size[0] * (0.4 - (number % 220) / 160)
        number += 1
