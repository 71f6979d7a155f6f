"""The predictor that detects and reads the text of pages."""

from ._steps import CutLine
from .predictor import OCRPredictor

__all__ = ["CutLine", "OCRPredictor"]
