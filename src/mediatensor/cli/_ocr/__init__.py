"""The command ``ocr``: its files and pages, the lines that it cuts out, and what it writes of videos."""

from .command import run
from .files import choose_pages
from .video import VideoTextReader, place_of

__all__ = ["VideoTextReader", "choose_pages", "place_of", "run"]
