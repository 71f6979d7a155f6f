"""Pages as networks take them: tensors of whatever a caller gives, batches of one size, pages set upright.

* ``inputs``: paths, arrays, frames and pictures as page tensors, and the language of what was read;
* ``preprocessing``: page tensors as batches for a network, and boxes back on their page;
* ``straightening``: by how much a page is turned, turning it upright, and boxes there and back.

The way of each line through a page is in ``_lines``.
"""

from .inputs import Image, as_image, as_images, as_tensor, check_values, get_language, page_sources, single_images
from .preprocessing import FlexiblePreProcessor, PageBatch, Placement, PreProcessor, part_of_page, positive, resized
from .straightening import (
    Straightening,
    elongated_shapes,
    estimate_page_skew,
    map_boxes,
    median_angle,
    plan_straightening,
    quad_angles,
    straighten,
)

__all__ = [
    "FlexiblePreProcessor",
    "Image",
    "PageBatch",
    "Placement",
    "PreProcessor",
    "Straightening",
    "as_image",
    "as_images",
    "as_tensor",
    "check_values",
    "elongated_shapes",
    "estimate_page_skew",
    "get_language",
    "map_boxes",
    "median_angle",
    "page_sources",
    "part_of_page",
    "plan_straightening",
    "positive",
    "quad_angles",
    "resized",
    "single_images",
    "straighten",
]
