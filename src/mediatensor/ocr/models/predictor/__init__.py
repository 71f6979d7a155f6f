"""The predictor that finds and reads text."""

from .predictor import OCRPredictor

__all__ = ["OCRPredictor"]
