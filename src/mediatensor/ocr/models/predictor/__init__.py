"""The predictor that finds and reads text."""

from ._boxes import CutLine
from .predictor import OCRPredictor

__all__ = ["CutLine", "OCRPredictor"]
