"""The types that data sets and transforms share; docTR's module of this name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Bbox", "BoundingBox", "Point2D", "Polygon", "Polygon4P", "Sample"]

Point2D: TypeAlias = tuple[float, float]
BoundingBox: TypeAlias = tuple[Point2D, Point2D]
Polygon4P: TypeAlias = tuple[Point2D, Point2D, Point2D, Point2D]
Polygon: TypeAlias = list[Point2D]
Bbox: TypeAlias = tuple[float, float, float, float]
AbstractPath: TypeAlias = str | Path
AbstractFile: TypeAlias = AbstractPath | bytes


@dataclass
class Sample:
    """A picture with what is known about it: what data sets give, and what transforms take and return.

    Attributes:
        image: The picture, a tensor (C, H, W): uint8 in [0, 255] or floating point in [0, 1].
        mask: Which pixels count, a tensor (H, W), or ``None``.
        target: The truth. Relative boxes, an array (N, 4) of (xmin, ymin, xmax, ymax); relative polygons, an array
            (N, 4, 2); a dict of such arrays by class; a text; a class number in an array (1,); or ``None``.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.utils import Sample
        >>> page = Sample(torch.zeros(3, 64, 64), target=np.array([[0.1, 0.1, 0.5, 0.2]]))
        >>> page.replace(image=torch.zeros(3, 32, 32)).target is page.target
        True
    """

    image: Any
    mask: Any | None = None
    target: Any | None = None

    def replace(self, **kwargs: Any) -> Sample:
        """A new sample in which some fields differ; the others are the same objects.

        Args:
            **kwargs: ``image``, ``mask`` or ``target``. Other names have no effect, as in docTR.

        Returns:
            The new sample. This one stays as it is.
        """
        return Sample(
            image=kwargs.get("image", self.image),
            mask=kwargs.get("mask", self.mask),
            target=kwargs.get("target", self.target),
        )
