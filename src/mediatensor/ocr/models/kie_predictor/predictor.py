"""The predictor of key information: the same stages, with what was found kept by class."""

from __future__ import annotations

from typing import Any

import torch

from ...io.elements import KIEDocument
from ..builder import KIEDocumentBuilder
from ..classification.ppocr import LineOrientationClassifier
from ..detection.predictor import DetectionPredictor
from ..predictor._original_coordinates import restore_original
from ..predictor._page_words import UNKNOWN
from ..predictor.base import TextPredictor
from ..predictor.predictor import BUILDER_OPTIONS
from ..recognition.predictor import RecognitionPredictor

__all__ = ["KIEPredictor"]


class KIEPredictor(TextPredictor):
    """Finds text of several classes and reads it; made by :func:`~mediatensor.ocr.models.kie_predictor`.

    Args:
        det_predictor: Finds text; the classes are those of its model.
        reco_predictor: Reads it.
        line_classifier: Tells lines that are upside down; needed unless pages are assumed straight.
        **kwargs: As of :class:`~mediatensor.ocr.models.predictor.OCRPredictor`.
    """

    def __init__(
        self,
        det_predictor: DetectionPredictor,
        reco_predictor: RecognitionPredictor,
        line_classifier: LineOrientationClassifier | None = None,
        **kwargs: Any,
    ) -> None:
        options = {name: kwargs.pop(name) for name in BUILDER_OPTIONS if name in kwargs}
        super().__init__(det_predictor, reco_predictor, line_classifier=line_classifier, **kwargs)
        self.doc_builder = KIEDocumentBuilder(**options)

    @torch.inference_mode()
    def forward(self, pages: Any) -> KIEDocument:
        """Read pages.

        Args:
            pages: As of :class:`~mediatensor.ocr.models.predictor.OCRPredictor`.

        Returns:
            The document: per page, class name to predictions.
        """
        read = list(self._read(pages, single_class=False))

        def by_class(name: str) -> list[dict[str, Any]]:
            return [{key: getattr(found, name) for key, found in page.words.items()} for page in read]

        document = self.doc_builder(
            [page.image for page in read],
            by_class("boxes"),
            by_class("scores"),
            by_class("texts"),
            [page.shape for page in read],
            by_class("orientations"),
            [page.orientation or dict(UNKNOWN) for page in read] if self.detect_orientation else None,
            [page.language or dict(UNKNOWN) for page in read] if self.detect_language else None,
            characters=[
                {key: found.characters or [()] * len(found.texts) for key, found in page.words.items()} for page in read
            ],
            errors=[page.error for page in read],
        )
        restore_original(document, read)
        return document
