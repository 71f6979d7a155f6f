"""Maps of where text is: boxes from the probabilities of a detector, and what it learns from boxes.

* ``boxes``: from a map of probabilities to boxes, straight or at any angle;
* ``colons``: boxes made long enough to hold the colons beside them;
* ``leftovers``: the letters that no box covers, where to look again, and what to make of what is found there;
* ``targets``: from the boxes of a page to the maps that a detector should give, and how far a map is from them.

Nothing in this room knows a network.
"""

from .boxes import (
    MAX_REGIONS,
    Rectangles,
    Regions,
    boxes_from_bitmap,
    boxes_from_map,
    find_regions,
    least_area_rectangles,
    open_bitmap,
)
from .colons import with_colons
from .leftovers import InkLeftOver, Window, ink_left_over, windows_around, with_found, without_screens
from .targets import (
    TargetMaps,
    dice_loss,
    draw_targets,
    focal_loss,
    hard_negative_mask,
    masked_l1_loss,
    signed_distance,
)
from .tiles import long_lines_cut, tiles_joined

__all__ = [
    "MAX_REGIONS",
    "InkLeftOver",
    "Rectangles",
    "Regions",
    "TargetMaps",
    "Window",
    "boxes_from_bitmap",
    "boxes_from_map",
    "dice_loss",
    "draw_targets",
    "find_regions",
    "focal_loss",
    "hard_negative_mask",
    "ink_left_over",
    "least_area_rectangles",
    "long_lines_cut",
    "masked_l1_loss",
    "open_bitmap",
    "signed_distance",
    "tiles_joined",
    "windows_around",
    "with_colons",
    "with_found",
    "without_screens",
]
