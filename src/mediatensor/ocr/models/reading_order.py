"""Determine the reading order: the order in which people read the lines, tables and figures of a page.

No network is needed. The order depends on the positions of the elements, the direction of the script and, if a layout
is known, the labels of its regions.
"""

from __future__ import annotations

from .._reading_order.boxes import (
    deskew_reading_geometries,
    detect_text_direction,
    layout_label_role,
    normalize_layout_label,
)
from .._reading_order.ordering import (
    ReadingOrderPredictor,
    assign_layout_labels,
    resolve_reading_segments,
    sort_reading_order,
)

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
