"""The data of pages and documents: the image, its size and orientation, how pages are shown in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ...._engine.common.display import png_of
from ....errors import InvalidArgumentError, MissingDependencyError
from ...utils.visualization import overlay
from .base import Element, stored, stored_list
from .leaves import Block, Prediction, UnreadLine
from .structure import Field, LayoutElement, Table

__all__ = ["DocumentBase", "PageBase", "PageImage", "PredictionPage", "TextPage", "page_origin", "page_pixels"]

# uint8: (H, W, 3) as an array, (3, H, W) or (H, W, 3) as a tensor on any device.
PageImage: TypeAlias = NDArray[Any] | torch.Tensor

# Maximum size of a page in notebooks.
_SHOWN_SIZE = (900, 900)

_SHOW_OPTIONS = ("words_only", "display_artefacts", "display_layout")


def page_pixels(image: PageImage) -> NDArray[np.uint8]:
    """The image of a page as a contiguous uint8 array.

    Args:
        image: uint8: an array (H, W, 3), or a tensor (3, H, W) or (H, W, 3); not empty.

    Returns:
        Shape (H, W, 3), RGB.

    Raises:
        InvalidArgumentError: if the image is empty, as after ``from_dict`` without one, or of another shape or dtype.
    """
    if isinstance(image, torch.Tensor):
        if image.ndim == 3 and image.shape[0] == 3 and image.shape[2] != 3:
            image = image.permute(1, 2, 0)
        image = image.detach().cpu().numpy()
    if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        kind = f"{image.dtype} {tuple(image.shape)}" if hasattr(image, "shape") else type(image).__name__
        raise InvalidArgumentError(f"The image of a page is uint8 (H, W, 3), or a tensor (3, H, W); got {kind}.")
    if image.size == 0:
        raise InvalidArgumentError(
            "The page has no image, as after from_dict without one. Pass it: "
            "Page.from_dict(export, page=image), Document.from_dict(export, pages=images)."
        )
    return np.ascontiguousarray(image)


def page_origin(page: PageBase) -> Callable[[], PageImage] | None:
    """The function that reads the image of a page on every access; ``None`` if the image is in memory."""
    return page._page if callable(page._page) else None


class PageBase(Element):
    """A page: its image, size, orientation and language, and the error if it could not be read."""

    _exported_keys: ClassVar[list[str]] = ["page_idx", "dimensions", "orientation", "language"]
    layout: list[LayoutElement]
    fields: list[Field]

    def __init__(
        self,
        page: PageImage | Callable[[], PageImage],
        page_idx: int,
        dimensions: tuple[int, int],
        orientation: dict[str, Any] | None,
        language: dict[str, Any] | None,
        error: str | None,
        unread: Sequence[UnreadLine],
        fields: Sequence[Field],
        **children: Any,
    ) -> None:
        super().__init__(**children)
        self._page = page
        self.page_idx = page_idx
        self.dimensions = dimensions
        self.orientation = orientation if isinstance(orientation, dict) else {"value": None, "confidence": None}
        self.language = language if isinstance(language, dict) else {"value": None, "confidence": None}
        self.error = error
        self.unread = list(unread)
        self.fields = list(fields)

    @property
    def page(self) -> PageImage:
        """The image. The page of a file is read again on every access, so that long documents fit into memory."""
        return self._page() if callable(self._page) else self._page

    @page.setter
    def page(self, page: PageImage | Callable[[], PageImage]) -> None:
        self._page = page

    def extra_repr(self) -> str:
        """The size, the error if there is one, and the number of lines that were not read, if any."""
        error = f"\nerror={self.error!r}" if self.error is not None else ""
        return f"dimensions={self.dimensions}{error}" + (f"\nunread={len(self.unread)}" if self.unread else "")

    def _export_stored(self, characters: bool) -> dict[str, Any]:
        """Export the content of the page in its stored order."""
        exported = Element.export(self, characters=characters)
        if self.error is not None:
            exported["error"] = self.error
        if self.unread:
            exported["unread"] = [line.export() for line in self.unread]
        if self.fields:
            exported["fields"] = [field.export() for field in self.fields]
        return exported

    def show(self, interactive: bool = True, preserve_aspect_ratio: bool = False, **kwargs: Any) -> None:
        """Show the page with what was read drawn over it.

        Args:
            interactive: Whether the text of a word appears while the mouse is over it.
            preserve_aspect_ratio: Accepted for compatibility with docTR.
            **kwargs: ``words_only``, ``display_artefacts`` and ``display_layout`` select what is drawn; all others
                are passed to ``matplotlib.pyplot.show``.

        Raises:
            InvalidArgumentError: if the page has no image.
            MissingDependencyError: if matplotlib is not installed.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise MissingDependencyError(
                'Showing a page needs matplotlib: pip install "mediatensor[plot]" (page.synthesize() does without).'
            ) from error

        options = {name: kwargs.pop(name) for name in _SHOW_OPTIONS if name in kwargs}
        self._visualize(interactive=interactive, preserve_aspect_ratio=preserve_aspect_ratio, **options)
        plt.show(**kwargs)

    def _visualize(self, **options: Any) -> None:
        raise NotImplementedError

    def _repr_png_(self) -> bytes | None:
        """The picture in notebooks: the page with its boxes and the text that was read."""
        try:
            picture = Image.fromarray(overlay(self))
        except InvalidArgumentError:  # the page has no image, or one that is not uint8
            return None
        picture.thumbnail(_SHOWN_SIZE)
        return png_of(picture)

    @classmethod
    def _stored_page(cls, save_dict: dict[str, Any], page: PageImage | None) -> dict[str, Any]:
        """The constructor arguments that all pages share, from an export."""
        values = {key: stored(save_dict, key, cls) for key in cls._exported_keys}
        values["layout"] = [LayoutElement.from_dict(region) for region in stored_list(save_dict, "layout", cls)]
        values["page"] = np.zeros((0, 0, 3), dtype=np.uint8) if page is None else page
        values["error"] = save_dict.get("error")
        values["unread"] = [UnreadLine.from_dict(line) for line in stored_list(save_dict, "unread", cls)]
        values["fields"] = [Field.from_dict(field) for field in stored_list(save_dict, "fields", cls)]
        return values


class TextPage(PageBase):
    """A page of text: blocks of lines, tables, regions of its layout."""

    blocks: list[Block]
    tables: list[Table]
    in_reading_order: bool


class PredictionPage(PageBase):
    """A page of predictions by class (key information extraction)."""

    predictions: dict[str, list[Prediction]]


class DocumentBase(Element):
    """Pages, of text or of predictions."""

    pages: list[Any]
