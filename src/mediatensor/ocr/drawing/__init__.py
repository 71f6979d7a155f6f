"""Lines of text drawn as the world looks, with their truth: to train on, to test with.

Everything is decided by the source of randomness that is passed in, so that the same seed gives the same pictures on
machines with the same fonts.
"""

from ._faces import Face, find_faces
from ._lines import STYLES, DrawnLine, LineLook, draw_line, draw_random_line, random_look
from ._texts import LANGUAGES, TEXTS, is_spaced, random_text, read_texts, texts_of

__all__ = [
    "LANGUAGES",
    "STYLES",
    "TEXTS",
    "DrawnLine",
    "Face",
    "LineLook",
    "draw_line",
    "draw_random_line",
    "find_faces",
    "is_spaced",
    "random_look",
    "random_text",
    "read_texts",
    "texts_of",
]
