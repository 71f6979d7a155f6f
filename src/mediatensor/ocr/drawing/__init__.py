"""Generate images of lines and pages that look printed, scanned or filmed, with ground truth, for training and tests.

The same random seed generates the same images on all machines with the same fonts.
"""

from ..structure import REGION_KINDS
from ._damage import STYLES
from ._faces import Face, find_faces
from ._lines import DrawnLine, LineLook, draw_line, draw_random_line, random_look
from ._pages import PAGE_KINDS, draw_random_page
from ._texts import LANGUAGES, TEXTS, is_spaced, random_text, read_texts, texts_of
from ._truth import (
    DrawnCell,
    DrawnField,
    DrawnPage,
    DrawnPageLine,
    DrawnRegion,
    DrawnTable,
    DrawnWord,
)

__all__ = [
    "LANGUAGES",
    "PAGE_KINDS",
    "REGION_KINDS",
    "STYLES",
    "TEXTS",
    "DrawnCell",
    "DrawnField",
    "DrawnLine",
    "DrawnPage",
    "DrawnPageLine",
    "DrawnRegion",
    "DrawnTable",
    "DrawnWord",
    "Face",
    "LineLook",
    "draw_line",
    "draw_random_line",
    "draw_random_page",
    "find_faces",
    "is_spaced",
    "random_look",
    "random_text",
    "read_texts",
    "texts_of",
]
