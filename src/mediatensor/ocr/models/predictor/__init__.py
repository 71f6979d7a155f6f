"""The predictor that finds and reads text."""

from ._cutting import CutLine
from .predictor import OCRPredictor

__all__ = ["CutLine", "OCRPredictor"]
