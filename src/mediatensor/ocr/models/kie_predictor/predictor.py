"""The predictor for key information extraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ...io.elements import KIEDocument
from ..builder import KIEDocumentBuilder
from ..predictor.base import TextPredictor

__all__ = ["KIEPredictor"]


class KIEPredictor(TextPredictor):
    """Finds text of several classes, such as dates and totals, and reads it; created by `kie_predictor`.

    Args:
        det_predictor: Finds the text of each class for which its model was trained.
        reco_predictor: Reads the text.
        line_classifier: Detects upside-down lines; required unless pages are assumed straight.
        **kwargs: Further options, the same as for `OCRPredictor`.
    """

    builder_type: ClassVar = KIEDocumentBuilder
    _keeps_classes_apart: ClassVar = True
    doc_builder: KIEDocumentBuilder

    if TYPE_CHECKING:  # type checkers cannot infer the type of a module's call

        def __call__(self, pages: Any) -> KIEDocument: ...

    @torch.inference_mode()
    def forward(self, pages: Any) -> KIEDocument:
        """Read the pages of a document.

        Args:
            pages: The pages, in the forms that `OCRPredictor.forward` accepts.

        Returns:
            The document. The predictions on each page are grouped by class.
        """
        document: KIEDocument = self._read_document(pages)
        return document
