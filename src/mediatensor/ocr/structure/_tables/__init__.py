"""Tables of a page, found by its rules and by the gaps between its words."""

from .finding import find_tables as find_tables
from .joining import join_tables as join_tables

__all__ = ["find_tables", "join_tables"]
