"""The steps of the transforms as functions; docTR's module of this name."""

from ._images import blurred as blurred
from ._images import crop_detection, invert_colors, random_shadow, rotate_sample
from ._images import crop_window as crop_window
from ._images import rotated_image as rotated_image
from .base import create_shadow_mask, crop_boxes

__all__ = [
    "create_shadow_mask",
    "crop_boxes",
    "crop_detection",
    "invert_colors",
    "random_shadow",
    "rotate_sample",
]
