"""The predictor that detects and reads the text of pages."""

from ._boxes import CutLine
from .predictor import OCRPredictor

__all__ = ["CutLine", "OCRPredictor"]
