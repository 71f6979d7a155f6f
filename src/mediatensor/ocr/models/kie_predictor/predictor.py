"""The predictor for key information extraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ...io.elements import KIEDocument
from ..builder import KIEDocumentBuilder
from ..predictor.base import TextPredictor

__all__ = ["KIEPredictor"]


class KIEPredictor(TextPredictor):
    """Detects text of several classes, such as dates and totals, and recognises it; created by `kie_predictor`.

    The arguments are those of `OCRPredictor`. The detection predictor finds the classes for which its model was
    trained.
    """

    builder_type: ClassVar = KIEDocumentBuilder
    _keeps_classes_apart: ClassVar = True
    doc_builder: KIEDocumentBuilder

    if TYPE_CHECKING:  # type checkers cannot infer the type of a module's call

        def __call__(self, pages: Any) -> KIEDocument: ...

    @torch.inference_mode()
    def forward(self, pages: Any) -> KIEDocument:
        """Detect and recognise the text on the pages of a document.

        Args:
            pages: A list or batch of pages, a document from `DocumentFile`, or a PDF or image file, as
                `OCRPredictor.forward` accepts them.

        Returns:
            A `KIEDocument` with one page for each input page. The predictions on each page are grouped by class.
        """
        document: KIEDocument = self._read_document(pages)
        return document
