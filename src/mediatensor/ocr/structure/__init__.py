"""The structure of a page: tables, regions and fields, found by rules in its words, rules and pictures.

All of it is pure: arrays in, plain data out. Predictors bring the words, of pictures or of PDF files, and turn what is
found into elements of the document.
"""

from ._content import PageContent as PageContent
from ._contents.drawing import content_of_drawing as content_of_drawing
from ._contents.picture import content_of_picture as content_of_picture
from ._fields.asked import extract_fields as extract_fields
from ._fields.pairs import find_fields as find_fields
from ._fields.rules import FIELD_SETS as FIELD_SETS
from ._fields.rules import FieldRule as FieldRule
from ._fields.rules import rules_of as rules_of
from ._fields.values import FIELD_KINDS as FIELD_KINDS
from ._fields.values import find_day_first as find_day_first
from ._fields.values import parse_value as parse_value
from ._finding import find_structure as find_structure
from ._found import REGION_KINDS as REGION_KINDS
from ._found import FoundCell as FoundCell
from ._found import FoundField as FoundField
from ._found import FoundRegion as FoundRegion
from ._found import FoundTable as FoundTable
from ._found import PageStructure as PageStructure
from ._regions.finding import find_regions as find_regions
from ._regions.hyphens import mend_hyphenation as mend_hyphenation
from ._tables.finding import find_tables as find_tables
from ._tables.joining import join_tables as join_tables

__all__ = [
    "FIELD_KINDS",
    "FIELD_SETS",
    "REGION_KINDS",
    "FieldRule",
    "FoundCell",
    "FoundField",
    "FoundRegion",
    "FoundTable",
    "PageContent",
    "PageStructure",
    "content_of_drawing",
    "content_of_picture",
    "extract_fields",
    "find_day_first",
    "find_fields",
    "find_regions",
    "find_structure",
    "find_tables",
    "join_tables",
    "mend_hyphenation",
    "parse_value",
    "rules_of",
]
