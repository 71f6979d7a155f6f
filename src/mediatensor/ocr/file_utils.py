"""Names that modules of :mod:`mediatensor.ocr` share."""

__all__ = ["CLASS_NAME"]

CLASS_NAME: str = "words"
"""What a detector with a single class calls it."""
