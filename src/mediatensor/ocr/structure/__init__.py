"""Find the structure of a page (tables, regions and fields) by rules, from its words, ruled lines and pictures.

All functions are pure: they take arrays, return plain data, and change nothing. Predictors extract the words of images
or PDF files, and convert the results into document elements.
"""

# For the pages that each rule was measured on, its range and its effect, see benchmarks/results/structure_rules.md, and
# structure_rules_regions.md for regions and reading order.

from ._content import content_of_drawing as content_of_drawing
from ._content import content_of_picture as content_of_picture
from ._field_rules import FIELD_KINDS as FIELD_KINDS
from ._field_rules import FIELD_SETS as FIELD_SETS
from ._field_rules import FieldRule as FieldRule
from ._field_rules import find_day_first as find_day_first
from ._field_rules import parse_value as parse_value
from ._field_rules import rules_of as rules_of
from ._fields_asked import extract_fields as extract_fields
from ._fields_pairs import find_fields as find_fields
from ._finding import find_structure as find_structure
from ._finding import find_tables as find_tables
from ._finding import join_tables as join_tables
from ._page import REGION_KINDS as REGION_KINDS
from ._page import FoundCell as FoundCell
from ._page import FoundField as FoundField
from ._page import FoundRegion as FoundRegion
from ._page import FoundTable as FoundTable
from ._page import PageContent as PageContent
from ._page import PageStructure as PageStructure
from ._regions import find_regions as find_regions
from ._regions import mend_hyphenation as mend_hyphenation

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
