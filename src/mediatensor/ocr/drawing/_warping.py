"""Paper in front of a camera or on a scanner: turned, seen from the side, bent; and where each point of it went."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

__all__ = ["Warp", "random_warp"]

_STEP = 16


@dataclass(frozen=True)
class Warp:
    """A map from a sheet to a picture, whose size is the same.

    Attributes:
        size: (width, height) of both.
        degrees: Turns the sheet counter-clockwise.
        scale: Size of the sheet in the picture, as a share.
        tilt: How much the scale falls across the width and the height: perspective.
        curl: How far the middle of each row is lower than its ends, in pixels.
    """

    size: tuple[int, int]
    degrees: float = 0.0
    scale: float = 1.0
    tilt: tuple[float, float] = (0.0, 0.0)
    curl: float = 0.0

    def sources(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where on the sheet points of the picture come from; (..., 2)."""
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
        """Where points of the sheet are in the picture."""
        found = points.copy()
        for _ in range(60):
            away = points - self.sources(found)
            found += away * self.scale
            if np.abs(away).max(initial=0) < 1e-3:
                break
        return found

    def moved_polygons(self, polygons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Four corners around what each polygon became, whose long sides may have bent; (N, 4, 2)."""
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
        """The picture of a sheet before a background."""
        width, height = self.size
        x = np.linspace(0, width, max(2, width // _STEP) + 1)
        y = np.linspace(0, height, max(2, height // _STEP) + 1)
        coarse = self.sources(np.stack(np.meshgrid(x, y), -1)) / (width, height) * 2 - 1
        grid = torch.from_numpy(coarse.astype(np.float32)).permute(2, 0, 1)[None]
        # Values at the corners of pixels, then at their centers.
        grid = functional.interpolate(grid, size=(height + 1, width + 1), mode="bilinear", align_corners=True)
        grid = functional.avg_pool2d(grid, 2, stride=1).permute(0, 2, 3, 1)
        sheet = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
        sheet = torch.cat([sheet, torch.ones_like(sheet[:, :1])], 1)
        seen = functional.grid_sample(sheet, grid, mode="bilinear", padding_mode="zeros", align_corners=False)[0]
        behind = torch.from_numpy(np.array(background)).permute(2, 0, 1)
        levels = seen[:3] + (1 - seen[3:]) * behind
        return Image.fromarray(levels.round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy())


def random_warp(rng: random.Random, style: str, size: tuple[int, int]) -> Warp | None:
    """How a sheet lies before a camera or on a scanner; ``None`` where a style leaves it as it is."""
    if style == "camera":
        tilt = (rng.gauss(0, 0.08), rng.gauss(0, 0.08))
        curl = rng.gauss(0, 0.012) * size[1] if rng.random() < 0.6 else 0.0
        return Warp(size, rng.gauss(0, 3), rng.uniform(0.8, 1.0), tilt, curl)
    if style in ("scan", "fax", "receipt") and rng.random() < 0.6:
        return Warp(size, rng.gauss(0, 0.9), curl=rng.gauss(0, 1.5) if rng.random() < 0.2 else 0.0)
    return None
