"""Tables: which cells they have, by docTR's network. It needs weights that a user has."""

from .tablecenternet import TableCenterNet, TableCenterNetPostProcessor, tablecenternet
from .zoo import table_predictor

__all__ = ["TableCenterNet", "TableCenterNetPostProcessor", "table_predictor", "tablecenternet"]
