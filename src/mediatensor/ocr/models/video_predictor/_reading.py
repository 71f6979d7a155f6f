"""Detect and read lines of text in successive frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from .._lines.reading import LineReading, read_lines
from ..detection.predictor import DetectionPredictor
from ..recognition.predictor import RecognitionPredictor
from ._tracking import Reading
from ._watching import Band, Box, Gray

__all__ = ["FrameReader"]

MOST_PIXELS = 500_000
"""Bands with more pixels are downscaled before detection."""


class FrameReader:
    """Detects and reads lines in successive frames; colours are decoded only if needed.

    ``tallest`` is the greatest height of a line in pixels.
    """

    def __init__(self, detector: DetectionPredictor, recogniser: RecognitionPredictor, tallest: float) -> None:
        self._detector, self._recogniser, self._tallest = detector, recogniser, tallest
        self._colours: Callable[[], npt.NDArray[np.uint8]] | None = None
        self._picture: Tensor | None = None

    def show(self, colours: Callable[[], npt.NDArray[np.uint8]]) -> None:
        """Take the next frame; ``colours`` returns it as (H, W, 3)."""
        self._colours, self._picture = colours, None

    @torch.inference_mode()
    def find(self, bands: Sequence[Band]) -> list[Box]:
        """Return the boxes of lines in bands of the frame, in pixels."""
        picture = self._seen()
        height = picture.shape[1]
        spans = [(math.floor(band.top * height), math.ceil(band.bottom * height)) for band in bands]
        boxes: list[Box] = []
        while spans:
            top, bottom = spans.pop(0)
            part = picture[:, top : max(bottom, min(top + 32, height))]
            found, above, below = [], 0, 0
            for left, upper, right, lower in self._lines_in(part):
                if 4 < lower - upper < self._tallest and right - left > 4:
                    found.append((left, upper + top, right, lower + top))
                # The edge of the band may cut a line in two.
                if upper <= 3 and top > 0:
                    above = max(above, 2 * (lower - upper) + 16)
                if lower >= part.shape[1] - 3 and bottom < height:
                    below = max(below, 2 * (lower - upper) + 16)
            if (above or below) and bottom - top < 0.7 * height:
                spans.insert(0, (max(top - above, 0), min(bottom + below, height)))
            else:
                boxes += found
        return boxes

    @torch.inference_mode()
    def read(self, boxes: Sequence[Box], stretch: float) -> list[Reading]:
        """Read lines of the frame, stretched horizontally by a factor."""
        return self._read(self._seen(), boxes, stretch)

    @torch.inference_mode()
    def read_gray(self, line: Gray, stretch: float) -> Reading:
        """Read an image (H, W) of one line, stretched horizontally by a factor."""
        height, width = line.shape
        (reading,) = self._read(torch.from_numpy(line).expand(3, height, width), [(0, 0, width, height)], stretch)
        return reading

    def _seen(self) -> Tensor:
        if self._picture is None:
            assert self._colours is not None
            self._picture = torch.from_numpy(self._colours()).permute(2, 0, 1)
        return self._picture

    def _lines_in(self, part: Tensor) -> list[Box]:
        height, width = part.shape[1:]
        scale = min(1.0, math.sqrt(MOST_PIXELS / (height * width)))
        if scale < 1:
            size = (max(round(height * scale), 1), max(round(width * scale), 1))
            part = functional.interpolate(part[None], size=size, mode="bilinear", antialias=True)[0]
        (found,) = self._detector([part])
        boxes = next(iter(found.values()))[:, :4] * (width, height, width, height)
        return [
            (max(round(left), 0), max(round(top), 0), min(round(right), width), min(round(bottom), height))
            for left, top, right, bottom in boxes.tolist()
        ]

    def _read(self, picture: Tensor, boxes: Sequence[Box], stretch: float) -> list[Reading]:
        """Read lines of a frame (3, H, W), stretched horizontally; stretching changes readings of doubtful lines."""
        lines = [picture[:, top:bottom, left:right] for left, top, right, bottom in boxes]
        read = []
        for line in lines:
            height, width = line.shape[1], round(line.shape[2] * stretch)
            if stretch != 1:
                wider = functional.interpolate(line[None].float(), size=(height, width), mode="bicubic")[0]
                line = wider.round().clamp(0, 255).to(torch.uint8)
            quad = np.array([[(0, 0), (width, 0), (width, height), (0, height)]], dtype=np.float64)
            read.append(_as_reading(read_lines(self._recogniser.model, line, quad)[0]))
        return read


def _as_reading(line: LineReading) -> Reading:
    text = " ".join(word.value for word in line.words)
    odds = math.prod(word.confidence for word in line.words) if line.words else 0.0
    return Reading(text, odds, bool(text) and line.script is None, line.script)
