"""Imitate the effects of paper, light, scanners, fax, printers, cameras and compression on images; and warp sheets.

Each damage function takes an ``amount``, whose meaning and range depend on the function; see ``_DAMAGES``.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from PIL.ImageFilter import GaussianBlur, UnsharpMask
from torch.nn import functional

from mediatensor.errors import InvalidArgumentError

Color = tuple[int, int, int]

_TILE = (512, 1536)


@cache
def _grain() -> NDArray[np.float32]:
    """Return Gaussian noise with standard deviation 1. Cutting parts out of it is faster than computing new noise."""
    return np.random.default_rng(1).standard_normal((*_TILE, 3), dtype=np.float32)


@lru_cache(16)
def _texture(number: int) -> NDArray[np.float32]:
    """Return paper texture ``number``: values in [-1, 1] that imitate fine grain, fibres and uneven light."""
    rng = np.random.default_rng(100 + number)
    total = np.zeros(_TILE, np.float32)
    for cells, strength in ((4, 1.0), (16, 0.7), (128, 0.5), (512, 0.5))[number % 2 :]:
        coarse = rng.normal(0, 1, (max(2, cells * _TILE[0] // _TILE[1]), cells)).astype(np.float32)
        size = _TILE[::-1]
        total += strength * np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))
    return np.asarray(total / np.abs(total).max(), np.float32)


def _tile(source: NDArray[np.float32], height: int, width: int, rng: random.Random) -> NDArray[np.float32]:
    """Cut a random part of this size out of ``source``, which is extended by mirroring if necessary."""
    for axis, wanted in ((0, height), (1, width)):
        while source.shape[axis] < wanted:
            source = np.concatenate([source, np.flip(source, axis)], axis)
    top, left = rng.randint(0, source.shape[0] - height), rng.randint(0, source.shape[1] - width)
    return source[top : top + height, left : left + width]


def papered(size: tuple[int, int], color: Color, strength: float, rng: random.Random) -> Image.Image:
    """Draw blank paper of ``size`` (width, height). Pixel values differ from ``color`` by up to ``strength``."""
    if strength <= 0:
        return Image.new("RGB", size, color)
    levels = _tile(_texture(rng.randrange(8)), size[1], size[0], rng)[..., None] * strength
    return _picture(np.array(color, np.float32) + levels)


def _picture(levels: NDArray[np.float32]) -> Image.Image:
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8))


def _levels(image: Image.Image) -> NDArray[np.float32]:
    return np.asarray(image, np.float32)


def _motion(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate camera shake: average two copies of the image, up to ``amount`` pixels apart in each direction."""
    across, down = rng.uniform(-amount, amount), rng.uniform(-amount, amount)
    ways = [(across * part, down * part) for part in (-0.5, 0.5)]
    moved = [
        image.transform(image.size, Image.Transform.AFFINE, (1, 0, x, 0, 1, y), Image.Resampling.BILINEAR)
        for x, y in ways
    ]
    return Image.blend(moved[0], moved[1], 0.5)


def _noise(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    grain = _tile(_grain(), image.height, image.width, rng)
    return _picture(_levels(image) + (grain if rng.random() < 0.4 else grain[..., :1]) * amount)


def _jpeg(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=round(amount))
    return Image.open(file).convert("RGB")


def _video(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate video of a low bit rate: halve the colour resolution, then compress as JPEG with quality ``amount``."""
    y, cb, cr = image.convert("YCbCr").split()
    half = (max(1, image.width // 2), max(1, image.height // 2))
    cb, cr = (plane.resize(half).resize(image.size, Image.Resampling.BILINEAR) for plane in (cb, cr))
    return _jpeg(Image.merge("YCbCr", (y, cb, cr)).convert("RGB"), amount, rng)


def _small(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate a low resolution: shrink the image by the factor ``amount``, then enlarge it to the old size."""
    size = (max(8, round(image.width / amount)), max(8, round(image.height / amount)))
    ways = [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.NEAREST]
    small = image.resize(size, rng.choice(ways[:3]))
    return small.resize(image.size, rng.choice(ways) if amount < 1.7 else rng.choice(ways[:3]))


def _fax(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate a fax: add noise of strength ``amount``, then turn each pixel black or white by a threshold."""
    levels = _levels(image.convert("L"))
    low, high = np.quantile(levels[:: max(1, levels.shape[0] // 64)], (0.01, 0.99))
    levels = levels + _tile(_grain(), image.height, image.width, rng)[..., 0] * amount
    threshold = low + (high - low) * rng.uniform(0.4, 0.65)
    return Image.fromarray(np.where(levels > threshold, 255, 0).astype(np.uint8)).convert("RGB")


def _thermal(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate the print of a worn thermal printer: make some rows and columns of the image paler."""
    height, width = image.height, image.width
    rows = np.array(_tile(_grain(), height, 1, rng)[:, :, :1])
    columns = np.array(_tile(_grain(), 1, width, rng)[:, :, :1])
    levels = _levels(image)
    paper = np.float32(np.quantile(levels[::4, ::4], 0.9))
    weak = np.clip(0.15 + amount * (0.15 * rows + 0.12 * (np.abs(columns) > 2)), 0, 0.7).astype(np.float32)
    return _picture(levels + (paper - levels) * weak)


def _streaks(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Imitate dust on the glass of a scanner: add thin lines of strength ``amount`` across the whole image."""
    levels = _levels(image).copy()
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.5:
            at = rng.randrange(image.width)
            levels[:, at : at + rng.randint(1, 2)] += rng.choice([-1, 1]) * amount
        else:
            at = rng.randrange(image.height)
            levels[at : at + 1] += rng.choice([-1, 1]) * amount
    return _picture(levels)


def _shadow(image: Image.Image, amount: float, rng: random.Random) -> Image.Image:
    """Darken one side of the image, at most by the fraction ``amount``, with a soft edge or gradually."""
    angle, width, height = rng.uniform(0, 6.3), image.width, image.height
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    way = x[None] * np.float32(np.cos(angle)) + y[:, None] * np.float32(np.sin(angle))
    steep, middle = rng.choice([1.0, 6.0]), rng.uniform(-0.6, 0.6)
    light = 1 - amount / (1 + np.exp(-steep * (way - middle)))
    return _picture(_levels(image) * light[..., None].astype(np.float32))


# Damage functions by name, each with the range of amounts that leave letters of 30 pixels readable. A function takes
# the image, an amount and the random generator.
_DAMAGES: dict[str, tuple[Callable[[Image.Image, float, random.Random], Image.Image], tuple[float, float]]] = {
    "blur": (lambda image, amount, rng: image.filter(GaussianBlur(amount)), (0.3, 1.3)),
    "contrast": (lambda image, amount, rng: ImageEnhance.Contrast(image).enhance(amount), (0.5, 1.3)),
    "fax": (_fax, (5, 35)),
    "jpeg": (_jpeg, (15, 85)),
    "motion": (_motion, (0.5, 2.5)),
    "noise": (_noise, (2, 16)),
    "shadow": (_shadow, (0.1, 0.5)),
    "sharpen": (
        lambda image, amount, rng: image.filter(UnsharpMask(1.5, round(100 * amount), 2)),
        (0.5, 2),
    ),
    "small": (_small, (1.1, 2.0)),
    "streaks": (_streaks, (20, 90)),
    "thermal": (_thermal, (0.5, 1.5)),
    "video": (_video, (12, 50)),
}


def damaged(image: Image.Image, steps: tuple[tuple[str, float], ...], rng: random.Random) -> Image.Image:
    """Apply several kinds of damage (name, amount) to an image, one after the other. Names are keys of ``_DAMAGES``."""
    for name, amount in steps:
        if name not in _DAMAGES:
            raise InvalidArgumentError(f"damage has {name!r}; accepted: {', '.join(_DAMAGES)}")
        image = _DAMAGES[name][0](image, amount, rng)
    return image


# For each style, its damage steps with their probabilities.
_STEPS: dict[str, tuple[tuple[str, float], ...]] = {
    "clean": (),
    "print": (("blur", 0.3), ("jpeg", 0.4), ("small", 0.15)),
    "scan": (("blur", 0.6), ("streaks", 0.06), ("noise", 0.5), ("contrast", 0.3), ("sharpen", 0.2), ("jpeg", 0.6)),
    "fax": (("blur", 0.5), ("fax", 1.0), ("small", 0.25), ("jpeg", 0.2)),
    "receipt": (("thermal", 0.8), ("blur", 0.6), ("shadow", 0.4), ("noise", 0.4), ("jpeg", 0.7)),
    "camera": (("blur", 0.5), ("motion", 0.2), ("shadow", 0.6), ("noise", 0.6), ("small", 0.3), ("jpeg", 0.8)),
    "screen": (("small", 0.3), ("jpeg", 0.4)),
    "video": (("small", 0.5), ("blur", 0.3), ("video", 0.9)),
}
#: Names of styles; ``"mixed"`` selects a random style.
STYLES = (*_STEPS, "mixed")


def chosen_style(rng: random.Random, style: str, weights: Mapping[str, int]) -> str:
    """Return ``style`` or, if it is ``"mixed"``, a random key of ``weights``, chosen with these weights."""
    if style not in STYLES:
        raise InvalidArgumentError(f"style is {style!r}; accepted: {', '.join(STYLES)}")
    return rng.choices(list(weights), list(weights.values()))[0] if style == "mixed" else style


def random_damage(rng: random.Random, style: str, em_px: float) -> tuple[tuple[str, float], ...]:
    """Return random steps for `damaged` that suit a style. Text with an em of less than 32 pixels gets less damage."""
    steps, share = [], min(1.0, em_px / 32)
    for name, chance in _STEPS[style]:
        if rng.random() < chance:
            amount = rng.uniform(*_DAMAGES[name][1])
            if name in ("blur", "motion"):
                amount *= share
            elif name == "small":
                amount = 1 + (amount - 1) * share
            elif name in ("jpeg", "video"):
                amount += 25 * (1 - share)
            elif name == "noise":
                amount *= 0.5 + 0.5 * share
            steps.append((name, amount))
    return tuple(steps)


def near(rng: random.Random, color: Color, spread: int) -> Color:
    """Return a random colour whose channels each differ from ``color`` by at most ``spread`` levels."""
    red, green, blue = (max(0, min(255, level + rng.randint(-spread, spread))) for level in color)
    return red, green, blue


_STEP = 16


@dataclass(frozen=True)
class Warp:
    """The way in which a flat sheet of paper appears in a photograph or scan: smaller, rotated, tilted and bent.

    Attributes:
        size: (width, height) in pixels of the flat sheet, and also of the image that shows it.
        degrees: Counter-clockwise rotation of the sheet.
        scale: Size of the sheet in the image, as a share of the image size.
        tilt: Perspective (across the width, across the height). For example, 0.1 means that one side appears about 10 %
            smaller than the opposite side.
        curl: Bend of the sheet: the middle of each row appears this many pixels lower than the ends of the row.
    """

    size: tuple[int, int]
    degrees: float = 0.0
    scale: float = 1.0
    tilt: tuple[float, float] = (0.0, 0.0)
    curl: float = 0.0

    def sources(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map points (..., 2) of the image back to the points of the flat sheet that appear there."""
        width, height = self.size
        middle = np.array([width / 2, height / 2])
        cosine, sine = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        seen = (points - middle) / self.scale
        seen = np.stack([cosine * seen[..., 0] - sine * seen[..., 1], sine * seen[..., 0] + cosine * seen[..., 1]], -1)
        depth = 1 + self.tilt[0] * seen[..., 0] / width + self.tilt[1] * seen[..., 1] / height
        seen = seen / depth[..., None] + middle
        seen[..., 1] -= self.curl * (np.sin(math.pi * np.clip(seen[..., 0] / width, 0, 1)) - 0.5)
        return np.asarray(seen, np.float64)

    def moved(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map points (..., 2) of the flat sheet to where they appear in the image, by inverting `sources`."""
        moved = points.copy()
        for _ in range(60):
            away = points - self.sources(moved)
            moved += away * self.scale
            if np.abs(away).max(initial=0) < 1e-3:
                break
        return moved

    def moved_polygons(self, polygons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return quads (N, 4, 2) around the places where ``polygons`` (N, 4, 2) of the sheet appear in the image.

        If the sheet curls, long sides become curved. The quad is then enlarged to include them.
        """
        corners = self.moved(polygons)
        if not self.curl or not len(polygons):
            return corners
        share = np.linspace(0, 1, 9)[:, None]
        down = corners[:, 3] + corners[:, 2] - corners[:, 0] - corners[:, 1]
        down /= np.maximum(1e-9, np.hypot(down[:, :1], down[:, 1:]))
        for first, second, outwards in ((0, 1, -down), (3, 2, down)):
            side = self.moved(polygons[:, first, None] * (1 - share) + polygons[:, second, None] * share)
            straight = side[:, :1] * (1 - share) + side[:, -1:] * share
            beyond = ((side - straight) * outwards[:, None]).sum(-1).max(1).clip(0)
            corners[:, first] += outwards * beyond[:, None]
            corners[:, second] += outwards * beyond[:, None]
        return corners

    def applied(self, image: Image.Image, background: Image.Image) -> Image.Image:
        """Warp ``image``, which shows the flat sheet, and draw the result over ``background``."""
        width, height = self.size
        x = np.linspace(0, width, max(2, width // _STEP) + 1)
        y = np.linspace(0, height, max(2, height // _STEP) + 1)
        coarse = self.sources(np.stack(np.meshgrid(x, y), -1)) / (width, height) * 2 - 1
        grid = torch.from_numpy(coarse.astype(np.float32)).permute(2, 0, 1)[None]
        # Interpolate the map at pixel corners, then average it to pixel centers.
        grid = functional.interpolate(grid, size=(height + 1, width + 1), mode="bilinear", align_corners=True)
        grid = functional.avg_pool2d(grid, 2, stride=1).permute(0, 2, 3, 1)
        sheet = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
        sheet = torch.cat([sheet, torch.ones_like(sheet[:, :1])], 1)
        seen = functional.grid_sample(sheet, grid, mode="bilinear", padding_mode="zeros", align_corners=False)[0]
        ground = torch.from_numpy(np.array(background)).permute(2, 0, 1)
        levels = seen[:3] + (1 - seen[3:]) * ground
        return Image.fromarray(levels.round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy())


def random_warp(rng: random.Random, style: str, size: tuple[int, int]) -> Warp | None:
    """Return a random warp that suits a style, or ``None`` if the sheet should stay flat."""
    if style == "camera":
        tilt = (rng.gauss(0, 0.08), rng.gauss(0, 0.08))
        curl = rng.gauss(0, 0.012) * size[1] if rng.random() < 0.6 else 0.0
        return Warp(size, rng.gauss(0, 3), rng.uniform(0.8, 1.0), tilt, curl)
    if style in ("scan", "fax", "receipt") and rng.random() < 0.6:
        return Warp(size, rng.gauss(0, 0.9), curl=rng.gauss(0, 1.5) if rng.random() < 0.2 else 0.0)
    return None
