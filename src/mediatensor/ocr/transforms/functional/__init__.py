"""Functions that do the work of the transforms: crop, rotate, invert colours and add shadows. Named as in docTR."""

from .base import create_shadow_mask, crop_boxes, crop_detection, invert_colors, random_shadow, rotate_sample

__all__ = [
    "create_shadow_mask",
    "crop_boxes",
    "crop_detection",
    "invert_colors",
    "random_shadow",
    "rotate_sample",
]
