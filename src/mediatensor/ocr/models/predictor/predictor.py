"""The text predictor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ....errors import InvalidArgumentError
from ...io.elements import Document
from ..builder import DocumentBuilder
from ..classification.ppocr import LineOrientationClassifier
from ..detection.predictor import DetectionPredictor
from ..recognition.predictor import RecognitionPredictor
from .base import TextPredictor

__all__ = ["OCRPredictor"]


class OCRPredictor(TextPredictor):
    """Detects and recognises the text of pages; created by `ocr_predictor`.

    Args:
        det_predictor: Detects words or lines of text on pages.
        reco_predictor: Recognises the text in crops of words or lines.
        line_classifier: Detects upside-down lines; required unless ``assume_straight_pages`` is true.
        **kwargs: Further arguments of `TextPredictor` and `DocumentBuilder`. ``keep_reading_order`` is true by default.

    Example:
        >>> from mediatensor.ocr import DocumentFile, ocr_predictor
        >>> predictor = ocr_predictor(pretrained=True)
        >>> predictor(DocumentFile.from_images("page.png")).pages[0].blocks[0].lines[0].render()
        'Delivery note 2048'
    """

    builder_type: ClassVar = DocumentBuilder
    _keeps_classes_apart: ClassVar = False
    doc_builder: DocumentBuilder

    def __init__(
        self,
        det_predictor: DetectionPredictor,
        reco_predictor: RecognitionPredictor,
        line_classifier: LineOrientationClassifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(det_predictor, reco_predictor, line_classifier, **{"keep_reading_order": True, **kwargs})
        if len(self._class_names) != 1:
            raise InvalidArgumentError(
                f"the detector finds {', '.join(self._class_names)}: use kie_predictor, which keeps classes apart."
            )

    if TYPE_CHECKING:  # type checkers cannot infer the type of a module's call

        def __call__(self, pages: Any) -> Document: ...

    @torch.inference_mode()
    def forward(self, pages: Any) -> Document:
        """Detect and recognise the text on the pages of a document.

        Args:
            pages: A list of pages, a batch of pages, a `FrameBatch`, a document from `DocumentFile`, a Pillow image, or
                a PDF or image file, given by its path, URL or bytes. A page is an array (H, W, 3), or a tensor
                (3, H, W) or (H, W, 3), with uint8 values or floats in [0, 1], on any device. A list can also contain
                files and Pillow images. Pages of documents are loaded a few at a time. Files are turned as their EXIF
                orientation states; Pillow images are read as they are (see ``PIL.ImageOps.exif_transpose``).

        Returns:
            A `Document` with one page for each input page.

        Raises:
            InvalidArgumentError: An item is not a page.
            PageError: A page cannot be read, and ``on_error`` is ``"raise"``.
        """
        document: Document = self._read_document(pages)
        return document
