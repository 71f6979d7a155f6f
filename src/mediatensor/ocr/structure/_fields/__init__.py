"""Keys with their values: those that a form has, and those that somebody asks for.

* ``lines``: words side by side, as phrases and rows;
* ``pairs``: which phrase of a form is the key of which other one;
* ``rules``: what is asked for, ready-made sets of it, and how expressions of users are kept bounded;
* ``asked``: the best value for each rule;
* ``places``: who wrote a receipt or an invoice, the name and the address at the top;
* ``values``: the forms of amounts, dates and accounts, and what they mean.
"""

from .asked import extract_fields
from .pairs import find_fields
from .rules import FIELD_SETS, FieldRule, rules_of
from .values import FIELD_KINDS, find_day_first, parse_value

__all__ = [
    "FIELD_KINDS",
    "FIELD_SETS",
    "FieldRule",
    "extract_fields",
    "find_day_first",
    "find_fields",
    "parse_value",
    "rules_of",
]
