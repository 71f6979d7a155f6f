"""OCR (text recognition) with the same interface as docTR. Model weights are loaded without network access.

Code written for docTR runs after changing ``doctr`` to ``mediatensor.ocr`` in its imports.
"""

from .. import __version__
from . import datasets, io, models, transforms, utils, video
from .io import DocumentFile
from .models import kie_predictor, ocr_predictor, video_text_predictor

__all__ = [
    "DocumentFile",
    "__version__",
    "datasets",
    "io",
    "kie_predictor",
    "models",
    "ocr_predictor",
    "transforms",
    "utils",
    "video",
    "video_text_predictor",
]
