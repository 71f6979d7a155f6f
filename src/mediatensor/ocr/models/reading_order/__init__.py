"""Reading order: the order in which the lines, tables and figures of a page are read.

No network is needed: the order follows from where things lie, from the direction of the script and, where a layout
is known, from its labels. The names that are not in ``__all__`` are for other packages of this library only.
"""

from __future__ import annotations

from ._columns import row_numbers as row_numbers
from ._geometry import deskew_reading_geometries
from ._geometry import reading_angle as reading_angle
from ._geometry import rotation_matrix as rotation_matrix
from ._labels import assign_layout_labels, detect_text_direction, layout_label_role, normalize_layout_label
from ._ordering import ReadingOrderPredictor, resolve_reading_segments, sort_reading_order

__all__ = [
    "ReadingOrderPredictor",
    "assign_layout_labels",
    "deskew_reading_geometries",
    "detect_text_direction",
    "layout_label_role",
    "normalize_layout_label",
    "resolve_reading_segments",
    "sort_reading_order",
]
