"""The predictor that finds and reads key information."""

from .predictor import KIEPredictor

__all__ = ["KIEPredictor"]
