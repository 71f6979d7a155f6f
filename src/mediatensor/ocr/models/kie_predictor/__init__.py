"""The predictor for key information extraction."""

from .predictor import KIEPredictor

__all__ = ["KIEPredictor"]
