"""Calls of transforms that run alike on docTR and here, and summaries of their results.

Used on both sides, so it needs torch and numpy only; the library comes as arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Case = Callable[[], Any]

BOXES = np.array([[0.1, 0.2, 0.5, 0.4], [0.6, 0.7, 0.9, 0.95], [0.3, 0.05, 1.0, 0.3]], np.float32)
POLYGONS = np.array(
    [
        [[0.1, 0.2], [0.5, 0.25], [0.48, 0.4], [0.08, 0.35]],
        [[0.6, 0.7], [0.9, 0.7], [0.9, 0.95], [0.6, 0.95]],
    ],
    np.float32,
)
SEEDS = range(3)


def picture(height: int, width: int, channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    """Waves in [0, 1], other ones in each channel."""
    y, x = np.mgrid[:height, :width]
    planes = [
        0.5 + 0.25 * np.sin(x / 3 + y / 7 + channel) + 0.25 * np.cos(x / 5 - y / 4 * (channel + 1))
        for channel in range(channels)
    ]
    image = torch.from_numpy(np.stack(planes)).float()
    return (image * 255).round().to(dtype) if dtype == torch.uint8 else image.to(dtype)


def targets() -> dict[str, Any]:
    return {
        "boxes": BOXES.copy(),
        "polygons": POLYGONS.copy(),
        "classes": {"words": BOXES.copy(), "stamps": POLYGONS.copy(), "none": np.zeros((0, 4), np.float32)},
        "nothing": None,
    }


def seeded(seed: int, call: Case) -> Any:
    """Return the result of a call after seeding all generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return call()


def cases(transforms: Any, functional: Any, sample: Any) -> dict[str, Case]:
    """The calls by name, on one library: its ``transforms``, their ``functional``, and its ``Sample``."""
    found: dict[str, Case] = {}

    def on(transform: Any, seed: int, image: Tensor, target: Any = None, mask: Tensor | None = None) -> Case:
        return lambda: seeded(seed, lambda: transform(sample(image, mask, target)))

    for size in ((32, 128), (40, 40), (30, 17)):
        for keep, symmetric in ((False, False), (True, False), (True, True)):
            for kind in targets():
                resize = transforms.Resize(
                    size, preserve_aspect_ratio=keep, symmetric_pad=symmetric, return_padding_mask=True
                )
                name = f"Resize {size} {'padded' if keep else ''} {'around' if symmetric else ''} {kind}"
                found[name] = on(resize, 0, picture(31, 57), targets()[kind])
    resize = transforms.Resize(24, preserve_aspect_ratio=True, symmetric_pad=True)
    found["Resize mask"] = on(resize, 0, picture(31, 57), None, picture(31, 57, 1)[0] > 0.5)
    found["Resize text"] = on(resize, 0, picture(31, 57), "Total")
    found["Resize class"] = on(resize, 0, picture(31, 57), np.array([2]))
    found["Resize half"] = on(resize, 0, picture(31, 57).half())
    moving = {
        "RandomHorizontalFlip": transforms.RandomHorizontalFlip(),
        "RandomRotate": transforms.RandomRotate(40.0),
        "RandomRotate expand": transforms.RandomRotate(40.0, expand=True),
        "RandomCrop": transforms.RandomCrop((0.3, 1.0)),
        "RandomCrop small": transforms.RandomCrop((0.01, 0.1)),
        "RandomResize": transforms.RandomResize((0.3, 1.5), preserve_aspect_ratio=0.5, symmetric_pad=0.5),
    }
    for name, transform in moving.items():
        for seed in SEEDS:
            for kind in targets():
                mask = picture(40, 56, 1)[0] > 0.5
                found[f"{name} {seed} {kind}"] = on(transform, seed, picture(40, 56), targets()[kind], mask)
    for seed in SEEDS:
        for channels in (1, 3):
            for dtype in (torch.float32, torch.uint8):
                image, kind = picture(20, 30, channels, dtype), f"{seed} {channels} {dtype}"
                found[f"ColorInversion {kind}"] = on(transforms.ColorInversion(0.3), seed, image)
                found[f"ChannelShuffle {kind}"] = on(transforms.ChannelShuffle(), seed, image)
        blur = transforms.GaussianBlur((0.5, 2.0))
        # Equal channels: docTR blurs across them, which then makes no difference.
        found[f"GaussianBlur {seed}"] = on(blur, seed, picture(20, 30, 1).expand(3, 20, 30))
    for angle in (0, 90, 180, -90, 12.5, -45, 89.5):
        for expand in (False, True):
            for height, width in ((40, 20), (21, 30)):
                boxes = BOXES * np.array([width, height, width, height], np.float32)
                found[f"rotate_sample {angle} {expand} {height}x{width}"] = (
                    lambda a=angle, e=expand, b=boxes, h=height, w=width: functional.rotate_sample(
                        picture(h, w), b, a, e
                    )
                )
    for crop in ((0.24, 0.46, 1.0, 1.0), (0.0, 0.0, 0.3, 0.7)):
        found[f"crop_detection {crop}"] = lambda c=crop: functional.crop_detection(picture(50, 50), BOXES.copy(), c)
        in_pixels = (BOXES * 50).round().astype(int)
        found[f"crop_detection {crop} in pixels"] = lambda c=crop, b=in_pixels: functional.crop_detection(
            picture(50, 50), b.copy(), c
        )
    return found


def shadows(create_shadow_mask: Any) -> dict[str, np.ndarray]:
    """Masks of shadows by seed."""
    return {
        f"{seed} {shape}": seeded(seed, lambda shape=shape: create_shadow_mask(shape))
        for seed in range(6)
        for shape in ((60, 90), (40, 160))
    }


def printed(transforms: Any) -> list[str]:
    """How transforms are shown."""
    t = transforms
    return [
        repr(transform)
        for transform in (
            t.Resize(32),
            t.Resize((32, 128), preserve_aspect_ratio=True),
            t.GaussianNoise(0.0, 0.1),
            t.GaussianBlur((0.5, 1.5)),
            t.ChannelShuffle(),
            t.RandomHorizontalFlip(0.15),
            t.RandomShadow(),
            t.RandomShadow((0.1, 0.3)),
            t.RandomResize((0.4, 0.9), preserve_aspect_ratio=0.5, p=0.25),
            t.ColorInversion(),
            t.RandomRotate(30, expand=True),
            t.RandomCrop(scale=(0.5, 1.0), ratio=(0.75, 1.33)),
            t.RandomApply(t.ColorInversion(), 0.1),
            t.RandomApply(t.SampleCompose([t.RandomCrop(), t.Resize(64)]), 0.2),
            t.ImageTransform(t.ColorInversion()),
            t.ImageTorchvisionTransform(torch.nn.Identity()),
            t.OneOf([t.RandomCrop(), t.ImageTransform(t.ChannelShuffle())]),
            t.SampleCompose([t.OneOf([t.RandomCrop(), t.RandomRotate()]), t.Resize(64), t.SampleCompose([])]),
            t.SampleCompose([t.Resize(64)]),
        )
    ]


def summary(result: Any) -> Any:
    """Summarise a result: sizes and sums of images, the numbers of boxes."""
    if isinstance(result, tuple | list):
        return [summary(part) for part in result]
    if isinstance(result, dict):
        return {name: summary(value) for name, value in result.items()}
    if isinstance(result, Tensor):
        return pixels(result)
    if isinstance(result, np.ndarray):
        return {"shape": list(result.shape), "dtype": str(result.dtype), "values": result.round(5).ravel().tolist()}
    if result is None or isinstance(result, str):
        return result
    return [summary(part) for part in (result.image, result.mask, result.target)]


def pixels(image: Tensor) -> dict[str, Any]:
    """Size, dtype, and sums with weights that depend on the position; docTR's masks may have one plane."""
    values = image.double().squeeze(0) if image.dtype == torch.bool else image.double()
    places = torch.arange(values.numel(), dtype=torch.float64).reshape(values.shape)
    return {
        "shape": list(values.shape),
        "dtype": str(image.dtype),
        "sums": [round(float((values * (0.37 * factor * places).cos()).mean()), 6) for factor in range(4)],
    }
