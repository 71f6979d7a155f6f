"""Types that datasets and transforms share, named as in docTR, and a base class whose ``repr`` shows nested objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

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
    """An image with its ground truth, as in docTR. `mediatensor.ocr.transforms` take and return such samples.

    Rows of `mediatensor.datasets` are objects of another class, `mediatensor.datasets.Sample`.

    Attributes:
        image: The image, a tensor (C, H, W): uint8 in [0, 255] or floating point in [0, 1].
        mask: A tensor (H, W) that is 0 at pixels to ignore in training, such as padding, and non-zero elsewhere; or
            ``None``.
        target: The ground truth, or ``None`` if there is none. For detection, it is an array of boxes (N, 4), each
            (xmin, ymin, xmax, ymax), or of polygons (N, 4, 2). It can also be a dict that maps each class to such an
            array. Coordinates are relative: fractions of the image's width and height. For recognition, the target is a
            text. For classification, it is an array (1,) with the class index.

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
        """Return a new sample with some fields replaced. The other fields are the same objects as in this sample.

        Args:
            **kwargs: ``image``, ``mask`` or ``target``. Other names have no effect, as in docTR.

        Returns:
            The new sample. This sample is not changed.
        """
        return Sample(
            image=kwargs.get("image", self.image),
            mask=kwargs.get("mask", self.mask),
            target=kwargs.get("target", self.target),
        )


class Nested:
    """Base class whose ``repr`` shows the attributes named in ``_children_names``, each indented on its own line."""

    _children_names: ClassVar[Sequence[str]] = ()

    def extra_repr(self) -> str:
        """Return what ``repr`` shows about the object itself, before its children."""
        return ""

    def __repr__(self) -> str:
        lines = self.extra_repr().splitlines()
        if len(lines) == 1 and not self._children_names:
            return f"{type(self).__name__}({lines[0]})"
        lines += [f"({name}): {_indent(_format_children(getattr(self, name)))}" for name in self._children_names]
        return f"{type(self).__name__}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _format_children(children: object) -> str:
    if not isinstance(children, list) or not children:
        return repr(children)
    if len(children) == 1:
        return f"[{children[0]!r}]"
    return "[" + _indent("\n" + ",\n".join(map(repr, children)) + ",") + "\n]"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
