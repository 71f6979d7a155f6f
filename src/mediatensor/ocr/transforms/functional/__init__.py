"""Functions that do the work of the transforms: crop, rotate, invert colours and add shadows. Named as in docTR."""

from .base import blur_image as blur_image
from .base import create_shadow_mask, crop_boxes, crop_detection, invert_colors, random_shadow, rotate_sample
from .base import crop_window as crop_window
from .base import rotate_image as rotate_image

__all__ = [
    "create_shadow_mask",
    "crop_boxes",
    "crop_detection",
    "invert_colors",
    "random_shadow",
    "rotate_sample",
]
