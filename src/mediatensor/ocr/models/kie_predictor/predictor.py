"""The predictor of key information: like the predictor of text, with results by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ...io.elements import KIEDocument
from ..builder import KIEDocumentBuilder
from ..predictor.base import TextPredictor

__all__ = ["KIEPredictor"]


class KIEPredictor(TextPredictor):
    """Finds text of several classes and reads it; made by `kie_predictor`.

    Args:
        det_predictor: Finds text of the classes of its model.
        reco_predictor: Reads it.
        line_classifier: Detects lines that are upside down; needed unless pages are assumed straight.
        **kwargs: Options of `OCRPredictor`.
    """

    builder_type: ClassVar = KIEDocumentBuilder
    _keeps_classes_apart: ClassVar = True
    doc_builder: KIEDocumentBuilder

    if TYPE_CHECKING:  # of a module's call, type checkers know nothing

        def __call__(self, pages: Any) -> KIEDocument: ...

    @torch.inference_mode()
    def forward(self, pages: Any) -> KIEDocument:
        """Read pages.

        Args:
            pages: As for `OCRPredictor`.

        Returns:
            The document: per page, class name to predictions.
        """
        document: KIEDocument = self._read_document(pages)
        return document
