"""Regions of a page: words become lines, lines blocks, and blocks regions of a kind, in the order of reading."""

from .finding import find_regions
from .hyphens import mend_hyphenation

__all__ = ["find_regions", "mend_hyphenation"]
