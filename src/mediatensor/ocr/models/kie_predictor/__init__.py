"""Key information extraction: find and read text of several classes, such as dates and totals."""

from .predictor import KIEPredictor

__all__ = ["KIEPredictor"]
