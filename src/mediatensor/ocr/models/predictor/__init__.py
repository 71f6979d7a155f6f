"""The predictor that detects and recognises text."""

from ._boxes import CutLine
from .predictor import OCRPredictor

__all__ = ["CutLine", "OCRPredictor"]
