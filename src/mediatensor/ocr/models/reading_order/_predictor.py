"""Reading order as an object with its settings, in docTR's form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._labels import check_direction, detect_text_direction
from ._ordering import sort_reading_order

__all__ = ["ReadingOrderPredictor"]


class ReadingOrderPredictor:
    """Puts the elements of a page in the order in which they are read.

    >>> import numpy as np
    >>> from mediatensor.ocr.models.reading_order import ReadingOrderPredictor
    >>> predictor = ReadingOrderPredictor()
    >>> boxes = np.array([[0.55, 0.2, 0.9, 0.8], [0.1, 0.05, 0.9, 0.15], [0.1, 0.2, 0.45, 0.8]])
    >>> predictor(boxes, texts=["right column", "title", "left column"])
    [1, 2, 0]

    Args:
        direction: ``"auto"`` (told from the text; horizontal scripts only), or what ``sort_reading_order`` takes.
        x_overlap_threshold: See ``sort_reading_order``.
        y_overlap_threshold: See ``sort_reading_order``.
        caption_max_distance: See ``sort_reading_order``.

    Raises:
        InvalidArgumentError: if the direction is not known.
    """

    def __init__(
        self,
        direction: str = "auto",
        x_overlap_threshold: float = 0.2,
        y_overlap_threshold: float = 0.5,
        caption_max_distance: float = 0.1,
    ) -> None:
        check_direction(direction, auto=True)
        self.direction = direction
        self.x_overlap_threshold = x_overlap_threshold
        self.y_overlap_threshold = y_overlap_threshold
        self.caption_max_distance = caption_max_distance

    def resolve_direction(self, texts: Iterable[str] | None = None, language: str | None = None) -> str:
        """The direction that is used for a text.

        Args:
            texts: The text, which decides where the direction is ``"auto"``.
            language: An ISO 639 code, asked where the text has no letters.

        Returns:
            One of ``"ltr"``, ``"rtl"``, ``"ttb-rtl"`` and ``"ttb-ltr"``.
        """
        if self.direction != "auto":
            return self.direction
        return detect_text_direction([] if texts is None else texts, language=language)

    def extra_repr(self) -> str:
        """The settings, for the representation."""
        return f"direction={self.direction!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def __call__(
        self,
        geoms: Sequence[Any] | np.ndarray,
        texts: Sequence[str] | None = None,
        labels: Sequence[str | None] | None = None,
        language: str | None = None,
        page_shape: tuple[int, int] | None = None,
        angle_geoms: Sequence[Any] | np.ndarray | None = None,
    ) -> list[int]:
        """Order elements.

        Args:
            geoms: The elements, in any form that ``sort_reading_order`` takes.
            texts: Text of the page, from which the direction is told.
            labels: One label of the layout for each element.
            language: An ISO 639 code, asked where the text has no letters.
            page_shape: ``(height, width)``; see ``deskew_reading_geometries``.
            angle_geoms: Quads in reading direction; see ``deskew_reading_geometries``.

        Returns:
            The indices of the elements, in reading order.
        """
        return sort_reading_order(
            geoms,
            direction=self.resolve_direction(texts, language=language),
            labels=labels,
            x_overlap_threshold=self.x_overlap_threshold,
            y_overlap_threshold=self.y_overlap_threshold,
            caption_max_distance=self.caption_max_distance,
            page_shape=page_shape,
            angle_geoms=angle_geoms,
        )
