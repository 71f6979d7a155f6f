"""Documents as recipes keep them open, and transforms of their pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import real_number, whole_number
from .._engine.images.decoding import MAX_PIXELS
from ..datasets._sources import limits
from ..errors import InvalidArgumentError, OpenError
from ..samplers._random import global_random

if TYPE_CHECKING:
    from ..ocr.io import Pages

__all__ = ["DEFAULT_DPI", "Document", "DocumentOptions", "apply_image_transform"]

#: Pixels per inch that pages of PDF files are rendered at, if nothing else is said: that of `read_pdf`.
DEFAULT_DPI = 144.0


@dataclass(frozen=True)
class DocumentOptions:
    """How documents are opened.

    Attributes:
        dpi: Pixels per inch of the pages of a PDF file.
        max_pixels: Pages with more pixels fail; ``None`` for no limit.
        pdf_options: Further arguments of `read_pdf`; without ``timeout_seconds`` among them, PDFium has a minute for
            each page.

    Raises:
        InvalidArgumentError: if a value is not accepted.
    """

    dpi: float = DEFAULT_DPI
    max_pixels: int | None = MAX_PIXELS
    pdf_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.dpi, bool) or not 0 < real_number("dpi", self.dpi) < math.inf:
            raise InvalidArgumentError(f"dpi must be a positive number (got {self.dpi!r}).")
        if self.max_pixels is not None:
            whole_number("max_pixels", self.max_pixels, at_least=1, or_none=True)


class Document:
    """An open document, as a recipe keeps it.

    Args:
        source: A PDF file or an image, in any form that `make_source` takes.
        options: How to open it.

    Raises:
        MediaTensorError: if it cannot be opened, or has more than `limits.MAX_PAGES` pages.
    """

    def __init__(self, source: object, options: DocumentOptions) -> None:
        self.pages = _open_pages(source, options)
        if len(self.pages) > limits.MAX_PAGES:
            raise OpenError(
                f"The document has {len(self.pages)} pages, more than the {limits.MAX_PAGES} that are read."
            )

    def close(self) -> None:
        """Release the file."""
        # The file is released with the last reference to its pages.
        del self.pages


def _open_pages(source: object, options: DocumentOptions) -> Pages:
    # Reading text is a large part of the package, which those who have no documents need not wait for.
    from ..ocr.io._documents.pdf_process import DEFAULT_TIMEOUT_SECONDS
    from ..ocr.io.reader import open_document

    pdf_options = {"dpi": options.dpi, "timeout_seconds": DEFAULT_TIMEOUT_SECONDS, **options.pdf_options}
    return open_document(source, **{"max_pixels": options.max_pixels, **pdf_options})


def apply_image_transform(transform: Callable[[Tensor], Tensor] | None, image: Tensor) -> Tensor:
    """The result of a user's transform of an image.

    Raises:
        InvalidArgumentError: if that is no tensor (C, H, W).
    """
    if transform is None:
        return image
    with stages.TRANSFORM, global_random():
        result = transform(image)
    if not isinstance(result, Tensor) or result.ndim != 3:
        got = f"of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise InvalidArgumentError(f"The transform must return a tensor (C, H, W) (got {got}).")
    return result
