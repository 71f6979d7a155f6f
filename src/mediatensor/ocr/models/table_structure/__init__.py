"""Table structure: find the cells of tables with docTR's network, whose weights the user must provide."""

from .tablecenternet import TableCenterNet, TableCenterNetPostProcessor, tablecenternet
from .zoo import table_predictor

__all__ = ["TableCenterNet", "TableCenterNetPostProcessor", "table_predictor", "tablecenternet"]
